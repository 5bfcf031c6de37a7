"""A recorded conversation told again, to end in the state in which it was left.

Entries go in one at a time. A prompt's blocks come out as soon as it is certain which id an echo gives them (what
follows waits for that, up to ``HELD`` bytes); the rest of its segment, folded (``compact``), when the segment has
ended, or, line by line (``full``), at once. State is not told in between: the latest of it comes from ``states`` once
everything is told. The same entries give the same bytes. Never raises: what makes no sense is not told.
"""

from collections import deque
from collections.abc import Mapping
from typing import Literal

from acp_proxy.replay import calls, updates
from acp_proxy.replay.calls import ReplayedCall
from acp_proxy.replay.echoes import Echoes
from acp_proxy.replay.prompts import Prompt
from acp_proxy.replay.segments import Folded, Segment, Streamed
from acp_proxy.replay.standing import Standing
from acp_proxy.replay.terminal_outputs import ReplayedTerminals
from acp_proxy.replay.updates import TOOL_CALL, TOOL_CALL_UPDATE, Update
from acp_proxy.wire import acp, jsonrpc, record
from acp_proxy.wire.jsonrpc import Peer
from acp_proxy.wire.record import Entry
from acp_proxy.wire.streams import Stream

Mode = Literal["compact", "full"]
TOOL_LIMIT = 1024 * 1024
"""Bytes that one tool call carries into a compact telling, if nobody says otherwise: more than anybody reads."""

HELD = 1024 * 1024
"""Bytes that wait behind prompts that may still be echoed. Beyond it they are told with ids of ours."""

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
        kinds: frozenset[str] = frozenset(),
        at_once: bool = False,
    ) -> None:
        """``run``: the connection that asks; a turn of its own may still be under way.

        ``also``: other sessions whose entries are this one's too; they are told under its id. ``page``: a segment that
        takes more bytes than this is told in several, each as if it were one; 0: never. ``kinds``: the optional kinds
        of updates that the client announced. ``at_once``: nothing of a turn waits for an echo beyond the next prompt.
        """
        self._session = session
        self._ids = also | {session}
        self._run = run
        self._mode = mode
        self._limit = tool_limit if mode == "compact" else 0
        self._page, self._taken = page, 0
        self._terminals = ReplayedTerminals(self._limit)
        self._left_out = acp.OPTIONAL_KINDS - kinds
        self._at_once = at_once
        self._standing = Standing()
        self._segment = self._begun()
        self._echoes = Echoes()
        self._held: deque[Prompt | bytes] = deque()
        self._held_size = 0
        self._prompts: list[Prompt] = []  # that which this entry is; it goes behind what the entry makes certain
        self._latest: dict[str, bytes] = {}
        self._may_go_on = False  # the last entry was told with its exact bytes, and so would be more of it

    def add(self, number: int, entry: Entry) -> list[bytes]:
        """The lines that this entry makes certain. ``number`` is its line's in the transcript."""
        told = self._added(number, entry)
        if self._page and entry.raw is not None:
            told = told + self._turned(len(entry.raw))
        out = self._out(told)
        self._held += self._prompts
        self._prompts.clear()
        return out

    def _added(self, number: int, entry: Entry) -> list[bytes]:
        self._may_go_on = False
        if entry.note is not None:
            return self._note(entry.run, entry.note)
        if entry.raw is None or b"\n" in entry.raw:
            return []
        method = acp.text(entry.value, "method")
        if entry.peer is Peer.CLIENT:
            return self._said(number, entry, method)
        told = self._answered(entry) if entry.of == acp.PROMPT else []
        if method == acp.REQUEST_PERMISSION:
            return told + self._asked(entry)
        update = updates.read(entry, self._session, self._ids) if method == acp.UPDATE else None
        if update is None:
            return told
        self._may_go_on = update.kind in (acp.AGENT_CHUNK, acp.THOUGHT_CHUNK) and update.raw is entry.raw
        return told + self._updated(update)

    def go_on(self, number: int, stream: Stream) -> list[bytes]:
        """Tell entries that equal the last one but for the text; an item may be many lines."""
        told = self._segment.go_on(stream) if self._may_go_on else None
        if told is None:
            return [line for entry in stream.entries() for line in self.add(number, entry)]
        return self._out(told + self._turned(stream.size) if self._page else told)

    def end(self, *, live: bool | None = None) -> list[bytes]:
        """What was still waiting. ``live``: whether turns may go on, where somebody else knows.

        Else those of this run do, but for one that was cancelled: a load is the end of it.
        """
        told = self._heard(self._echoes.settle() + self._echoes.give_up(self._run, only_cancelled=True))
        under_way = self._echoes.runs() & {self._run} if live is None else frozenset()
        told += self._segment.end([] if live else self._standing.given_up(under_way))
        self._standing.given_up(())  # nothing more is told of what goes on
        self._echoes.certain()
        told = self._out(told)
        self._segment, self._echoes = self._begun(), Echoes()
        return told

    def states(self) -> list[bytes]:
        return [self._latest[kind] for kind in _LATEST if kind in self._latest]

    def _out(self, told: list[bytes]) -> list[bytes]:
        """What is certain of all that was told until now."""
        if not self._held:
            return told
        self._held += told
        self._held_size += sum(map(len, told))
        if self._held_size > HELD:
            self._echoes.certain()
        out: list[bytes] = []
        while self._held:
            first = self._held[0]
            if isinstance(first, bytes):
                out.append(first)
                self._held_size -= len(first)
            elif first.is_certain:
                out += first.told()
            else:
                break
            self._held.popleft()
        return out

    def _begun(self) -> Segment:
        if self._mode == "full":
            return Streamed(self._session, self._standing, self._terminals)
        return Folded(self._session, self._standing, self._terminals, self._limit)

    def _turned(self, size: int) -> list[bytes]:
        """A page that is full."""
        self._taken += size
        if self._taken < self._page:
            return []
        told = self._segment.end([])
        self._segment, self._taken, self._may_go_on = self._begun(), 0, False
        return told

    def _said(self, number: int, entry: Entry, method: str | None) -> list[bytes]:
        """What the client said."""
        if method == acp.CANCEL:
            self._echoes.cancel(entry.run)
        return self._prompted(number, entry) if method == acp.PROMPT else []

    def _prompted(self, number: int, entry: Entry) -> list[bytes]:
        """Calls go on where the turn before has no answer yet and is of the same run."""
        prompt = Prompt(self._session, number, entry)
        under_way = self._echoes.runs() & {entry.run}
        if self._at_once:
            self._echoes.certain()
        told = self._heard(self._echoes.begin(prompt))
        told += self._segment.end(self._standing.given_up(under_way))
        self._segment = self._begun()
        self._prompts.append(prompt)
        return told

    def _answered(self, entry: Entry) -> list[bytes]:
        return self._heard(self._echoes.answer(entry.run, jsonrpc.dump(acp.member(entry.value, "id"))))

    def _note(self, run: str, note: Mapping[str, object]) -> list[bytes]:
        match note.get("type"):
            case record.FAILED:
                return self._heard(self._echoes.give_up(run, only_cancelled=False))
            case record.OPENED if note.get("method") == acp.LOAD:
                return self._heard(self._echoes.give_up(run, only_cancelled=True))
            case record.TERMINAL:
                told: list[bytes] = []
                for id, shown in self._terminals.note(run, note).items():
                    told += self._segment.call(
                        ReplayedCall(id, shown.run, False, {"content": shown.content}, {}, shows_terminal=True)
                    )
                return told
            case _:
                return []

    def _updated(self, update: Update) -> list[bytes]:
        if not acp.is_conversation(update.kind):
            if update.kind in _LATEST:
                self._latest[update.kind] = update.line
            return []
        if update.kind == acp.USER_CHUNK:
            return [] if self._echoes.hear(update) else self._segment.add(update)
        if update.kind in (TOOL_CALL, TOOL_CALL_UPDATE):
            return self._called(calls.from_update(update))
        told = self._heard(self._echoes.told(update.run))
        return told if update.kind in self._left_out else told + self._segment.add(update)

    def _asked(self, entry: Entry) -> list[bytes]:
        raw = updates.own_line(entry, self._session, self._ids)
        if raw is None:
            return []
        return self._called(calls.from_permission(raw, acp.member(entry.value, "params"), entry.run))

    def _called(self, call: ReplayedCall | None) -> list[bytes]:
        return self._heard(self._echoes.told(call.run)) + self._segment.call(call) if call is not None else []

    def _heard(self, own: list[Update]) -> list[bytes]:
        """User messages that are no echoes."""
        return [line for update in own for line in self._segment.add(update)]
