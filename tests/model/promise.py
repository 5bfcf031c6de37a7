"""The promise: what must hold whatever was said, and the report when it does not."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from acp_proxy.protocol.jsonrpc import Peer
from acp_proxy.store.store import Store
from acp_proxy.transcript.file_format import Entry
from tests.model import second, views, world
from tests.model.proxies import Proxied
from tests.model.views import Before, Opening
from tests.model.world import Line, Replayer, Token, Update, normal

_SHOWN = 6
"""The largest number of allowed views in a report: nobody reads more."""


class Broken(AssertionError):
    """The promise was broken."""


@dataclass
class Session:
    """``id`` is the client's. ``said``: what the transcript must have. ``pending``: what it may have, and must have
    when the next prompt settles it. ``in_question``: whether the agent's replay has still to be compared."""

    id: str
    agent_id: str
    proxy: Proxied | None = None
    said: list[Line] = field(default_factory=list)
    pending: list[Line] = field(default_factory=list)
    in_question: bool = False
    handed_over: bool = False
    owes_record: bool = False
    """It was handed over when something had been said in it."""
    previous: str = ""
    """The agent's id from before the last handover: if nobody prompts, the next process asks for it."""
    earlier: set[str] = field(default_factory=set)
    """Other ids that the agent has for it: a handover to another id was cancelled."""
    has_turn: bool = False
    is_behind: bool = False
    """It continued elsewhere, and was not opened since."""
    ends_in_user: bool = False
    """The agent's last replay ended in a user message: what it says next may be the answer."""
    is_deaf: bool = False
    """A load of it was cancelled, and the agent never answers it: what it sends until the next turn is dropped."""
    was_cancelled: bool = False
    """Its turn was cancelled: a load counts the turn as over, although the agent may continue it."""
    has_transcript: bool = True
    last: views.Showing | None = None
    """What the last load showed, if nothing was said since."""


class Promise:
    def __init__(self, store: Store, sessions: list[Session], journal: list[str]) -> None:
        """``sessions`` and ``journal`` grow as the conversation goes on."""
        self.folder = ""
        """The agent's folder in the store."""
        self._store = store
        self._sessions = sessions
        self._journal = journal
        self._read: dict[str, tuple[bytes, list[Update]]] = {}
        """The transcripts as they were last read, and what they said."""

    def without_live(self, session: Session, heard: list[Update], live: Sequence[Update]) -> list[Update]:
        """What was heard besides the new updates, which must be there in order."""
        rest = list(heard)
        at = 0
        for update in live:
            if update not in rest[at:]:
                raise self.broken("4: nothing new is lost on its way", f"{session.id}: {world.shown_update(update)}")
            at = rest.index(update, at)
            del rest[at]
        return rest

    def check_shown(
        self,
        session: Session,
        openings: Sequence[Opening],
        before: Before,
        tellings: Sequence[Replayer],
        rest: list[Update],
    ) -> None:
        seen = normal(world.tokens(rest))
        plain = world.without_warnings(seen)
        late_words = views.has_foreign_words_late(before.whole, tellings)
        ours = before.readings([*session.said, *session.pending], is_between=len(openings) > 1)
        allowed = views.may_be_shown(openings, tellings, ours, handed_over=session.handed_over)
        if plain not in allowed and not late_words:
            wanted = "\nor     ".join(sorted({_in_a_line(view) for view in allowed}, key=len)[:_SHOWN])
            raise self.broken("2: a load shows what the promise says", f"seen   {_in_a_line(plain)}\nwanted {wanted}")
        if len(openings) == 1 and openings[0].kind == "load" and not openings[0].is_refused:
            self._check_same_again(session, openings[0], before, tellings, seen)

    def _check_same_again(
        self, session: Session, opening: Opening, before: Before, tellings: Sequence[Replayer], seen: list[Token]
    ) -> None:
        told = tellings[-1] if tellings else Replayer()
        ours = normal([*world.told_by_us(before.whole), *world.seen_of(world.tail_of(before.whole, told))])
        theirs = normal(world.tokens(update for update, _ in told.lines))
        unheard = told.late and world.is_explained(before.whole)
        now = views.Showing(ours, theirs, seen, unheard, session.handed_over)
        last, session.last = session.last, None if opening.in_turn else now  # in a turn it is shown as it comes
        if last is not None and last.should_show_the_same(now) and last.seen != seen:
            raise self.broken(
                "3: the same load shows the same", f"first {_in_a_line(last.seen)}\nnow   {_in_a_line(seen)}"
            )

    def check_transcripts(self) -> None:
        for session in self._sessions:
            actual = self._transcript(session)
            waiting = [replace(line, must=False) for line in session.pending]
            found = world.matched([*session.said, *waiting], actual)
            if found is None:
                wanted = _shown_lines([*session.said, *waiting])
                raise self.broken("1: the transcript holds everything once", f"{session.id} wanted{wanted}")
            count = len(session.said)
            last = max((at - count for at in found if at >= count), default=-1)
            early = [session.pending[at - count] for at in found if at >= count]
            session.said = [replace(session.said[at], must=True) for at in found if at < count] + early
            session.pending = session.pending[last + 1 :]
            session.has_transcript = session.has_transcript or bool(actual)

    def _transcript(self, session: Session) -> list[Update]:
        """The conversation in the session's transcript, in order."""
        try:
            reading = self._store.read(self.folder, session.id)
        except FileNotFoundError:
            return []
        try:
            data = reading.path.read_bytes()
            if data != self._read.get(session.id, (b"", []))[0]:  # most steps leave it as it was
                updates = [update for line in reading.lines() if line.entry and (update := _told(line.entry))]
                self._read[session.id] = data, updates
            return self._read[session.id][1]
        finally:
            reading.close()

    def broken(self, which: str, how: str) -> Broken:
        transcripts = "".join(
            f"\nThe transcript of {session.id}:{_shown_lines([Line(u, None) for u in self._transcript(session)])}"
            for session in self._sessions
        )
        journal = "\n".join(self._journal)
        return Broken(f"\n{journal}\n{transcripts}\n\nBroken: {which}\n{how}")


def _told(entry: Entry) -> Update | None:
    """A prompt or an update, if it is part of the conversation."""
    value: Any = entry.value
    if not isinstance(value, dict):
        return None
    params = value.get("params") or {}
    if entry.peer is Peer.CLIENT and value.get("method") == "session/prompt":
        return {"prompt": "".join(block["text"] for block in params["prompt"])}
    if entry.peer is Peer.AGENT and value.get("method") == "session/update":
        update = second.first(params["update"])
        return update if update is not None and world.is_conversation(update) else None
    return None


def _in_a_line(view: Sequence[Token]) -> str:
    return " · ".join(f"{kind}:{text}" for kind, text in view) or "nothing"


def shown(updates: Iterable[Update]) -> str:
    return "; ".join(world.shown_update(update) for update in updates)


def _shown_lines(lines: Sequence[Line]) -> str:
    return "".join(f"\n    {world.shown_update(line.value)}{'' if line.must else ' (perhaps)'}" for line in lines)
