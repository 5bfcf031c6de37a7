"""A recorded conversation told again, to end in the state in which it was left.

Entries go in one at a time. A prompt's blocks come out as soon as it is certain that the agent did not echo them; the
rest of its segment, folded (``compact``), when the segment has ended, or, line by line (``full``), at once. State is
not told in between: the latest of it comes from ``states`` once everything is told. The same entries give the same
bytes. Never raises: what makes no sense is not told.
"""

from collections.abc import Mapping
from typing import Literal

from acp_proxy.replay import calls, updates
from acp_proxy.replay.calls import Call
from acp_proxy.replay.prompts import Prompt
from acp_proxy.replay.segments import Folded, Segment, Streamed
from acp_proxy.replay.terminals import Terminals
from acp_proxy.replay.updates import TOOL_CALL, TOOL_CALL_UPDATE, Update
from acp_proxy.wire import acp, jsonrpc, record
from acp_proxy.wire.jsonrpc import Peer
from acp_proxy.wire.record import Entry
from acp_proxy.wire.streams import Stream

Mode = Literal["compact", "full"]
TOOL_LIMIT = 1024 * 1024
"""Bytes that one tool call carries into a compact telling, if nobody says otherwise: more than anybody reads."""

_LATEST = (acp.AVAILABLE_COMMANDS, acp.USAGE)
"""Kinds of state whose last value is told after the answer. Modes and options are in the answer itself."""


class Telling:
    def __init__(
        self,
        session: str,
        *,
        run: str,
        mode: Mode = "compact",
        tool_limit: int = TOOL_LIMIT,
        also: frozenset[str] = frozenset(),
        page: int = 0,
    ) -> None:
        """``run``: the connection that asks; a turn of its own may still be under way.

        ``also``: other sessions whose entries are this one's too; they are told under its id. ``page``: a segment that
        takes more bytes than this is told in several, each as if it were one; 0: never.
        """
        self._session = session
        self._ids = also | {session}
        self._run = run
        self._mode = mode
        self._limit = tool_limit if mode == "compact" else 0
        self._page, self._taken = page, 0
        self._terminals = Terminals(self._limit)
        self._known: set[str] = set()
        self._segment = self._begun()
        self._prompt: Prompt | None = None
        self._open: tuple[str, bytes] | None = None
        self._latest: dict[str, bytes] = {}
        self._may_go_on = False  # the last entry was told with its exact bytes, and so would be more of it

    def add(self, number: int, entry: Entry) -> list[bytes]:
        """The lines that this entry makes certain. ``number`` is its line's in the transcript."""
        told = self._added(number, entry)
        return told + self._turned(len(entry.raw)) if self._page and entry.raw is not None else told

    def _added(self, number: int, entry: Entry) -> list[bytes]:
        self._may_go_on = False
        if entry.note is not None:
            self._note(entry.run, entry.note)
            return []
        if entry.raw is None or b"\n" in entry.raw:
            return []
        method = acp.text(entry.value, "method")
        if entry.peer is Peer.CLIENT:
            return self._prompted(number, entry) if method == acp.PROMPT else []
        if entry.of == acp.PROMPT:
            self._answered(entry)
        if method == acp.REQUEST_PERMISSION:
            return self._asked(entry)
        update = updates.read(entry, self._session, self._ids) if method == acp.UPDATE else None
        if update is None:
            return []
        self._may_go_on = update.kind in (acp.AGENT_CHUNK, acp.THOUGHT_CHUNK) and update.raw is entry.raw
        return self._updated(update)

    def go_on(self, number: int, stream: Stream) -> list[bytes]:
        """The same of entries that say what the last one said, but for the text; an item may be many lines."""
        told = self._segment.go_on(stream) if self._may_go_on else None
        if told is None:
            return [line for entry in stream.entries() for line in self.add(number, entry)]
        return told + self._turned(stream.size) if self._page else told

    def end(self, *, live: bool | None = None) -> list[bytes]:
        """What was still waiting. ``live``: whether the last turn may go on, where somebody else knows."""
        if live is None:
            live = self._open is not None and self._open[0] == self._run
        told = [*self._settled(), *self._segment.end(live=live)]
        self._segment, self._open = self._begun(), None
        return told

    def states(self) -> list[bytes]:
        return [self._latest[kind] for kind in _LATEST if kind in self._latest]

    def _begun(self) -> Segment:
        if self._mode == "full":
            return Streamed(self._session, self._known, self._terminals)
        return Folded(self._session, self._known, self._terminals, self._limit)

    def _turned(self, size: int) -> list[bytes]:
        """A page that is full."""
        self._taken += size
        if self._taken < self._page:
            return []
        told = self._segment.end(live=True)
        self._segment, self._taken, self._may_go_on = self._begun(), 0, False
        return told

    def _prompted(self, number: int, entry: Entry) -> list[bytes]:
        told = [*self._settled(), *self._segment.end(live=False)]
        self._segment = self._begun()
        self._prompt = Prompt(self._session, number, entry)
        self._open = entry.run, _id(entry)
        return told

    def _answered(self, entry: Entry) -> None:
        if self._open == (entry.run, _id(entry)):
            self._open = None

    def _note(self, run: str, note: Mapping[str, object]) -> None:
        match note.get("type"):
            case record.FAILED if self._open is not None and self._open[0] == run:
                self._open = None
            case record.TERMINAL:
                for id, shown in self._terminals.note(run, note).items():
                    told_again = Call(id, shown.run, False, {"content": shown.content}, {}, shows_terminal=True)
                    self._segment.call(told_again)  # it refers to a terminal, so no line comes before the segment's end

    def _updated(self, update: Update) -> list[bytes]:
        if not acp.is_conversation(update.kind):
            if update.kind in _LATEST:
                self._latest[update.kind] = update.line
            return []
        if update.kind in (TOOL_CALL, TOOL_CALL_UPDATE):
            call = calls.from_update(update)
            return [*self._settled(), *self._segment.call(call)] if call is not None else []
        if update.kind == acp.USER_CHUNK and self._prompt is not None:
            self._prompt.behind.append(update)
            return []
        return [*self._settled(), *self._segment.add(update)]

    def _asked(self, entry: Entry) -> list[bytes]:
        raw = updates.own_line(entry, self._session, self._ids)
        call = calls.from_permission(raw, acp.member(entry.value, "params"), entry.run) if raw is not None else None
        return [*self._settled(), *self._segment.call(call)] if call is not None else []

    def _settled(self) -> list[bytes]:
        """The prompt, now that nothing more can be its echo."""
        prompt, self._prompt = self._prompt, None
        if prompt is None:
            return []
        told, behind = prompt.told()
        for update in behind:
            told += self._segment.add(update)
        return told


def _id(entry: Entry) -> bytes:
    """A request's id, as it is told apart from others."""
    return jsonrpc.dump(acp.member(entry.value, "id"))
