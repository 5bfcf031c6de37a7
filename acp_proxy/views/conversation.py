"""A transcript as people read it: turn by turn, what was said and what was done.

Made from the telling that a client gets when it loads the session (compact, nothing cut), so that what is read here is
what an editor shows: texts are joined, a tool call is one item with the last value of each of its fields. Beside it
stand what only the transcript knows: how a turn ended, and where something is missing. One turn is in memory at a time.

A turn begins with each prompt; before the first one (in what an agent told of an earlier conversation) with a message
of the user that follows after something else.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from acp_proxy.replay.telling import Telling
from acp_proxy.transcripts.reading import Line, Lines, Reading
from acp_proxy.wire import acp, framing, jsonrpc, record
from acp_proxy.wire.jsonrpc import Peer
from acp_proxy.wire.record import Entry

Speaker = Literal["user", "agent", "thought"]
_SPEAKERS: dict[str, Speaker] = {acp.USER_CHUNK: "user", acp.AGENT_CHUNK: "agent", acp.THOUGHT_CHUNK: "thought"}


@dataclass(frozen=True, slots=True)
class Said:
    """A message, as content blocks of the protocol."""

    speaker: Speaker
    blocks: list[Mapping[str, object]]
    id: str | None = None


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call: its fields as the protocol names them. ``is_new`` False: what a later turn changed of it."""

    id: str
    fields: Mapping[str, object]
    is_new: bool


@dataclass(frozen=True, slots=True)
class Plan:
    entries: list[object]


@dataclass(frozen=True, slots=True)
class Note:
    """What the transcript says itself of a turn, behind it: ``gap`` (a reason), ``handover`` (the new id)."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class Other:
    """An update of any other kind, whole."""

    update: Mapping[str, object]


Item = Said | Call | Plan | Note | Other


@dataclass(slots=True)
class Turn:
    """``number`` counts from 1. ``at``: when it began, as transcripts write it. ``stop``: why it ended, if it did."""

    number: int
    at: str
    items: list[Item] = field(default_factory=list)
    stop: str | None = None
    error: str | None = None


def turns(reading: Reading, session: str) -> Iterator[Turn]:
    """The turns of this session's transcript, oldest first. Raises OSError."""
    also = frozenset(reading.header.forked_from) if reading.header is not None else frozenset[str]()
    return _Turns(session, also).read(reading.streams())


class _Turns:
    def __init__(self, session: str, also: frozenset[str]) -> None:
        self._telling = Telling(session, run="", tool_limit=0, also=also)
        self._turn: Turn | None = None
        self._notes: list[Item] = []
        self._count = 0
        self._prompted: tuple[str, object] | None = None
        """The prompt that began the turn: its run and id."""

    def read(self, lines: Iterable[Line | Lines]) -> Iterator[Turn]:
        at = ""
        for line in lines:
            if isinstance(line, Lines):
                yield from self._take(self._telling.go_on(line.number, line.stream), at)
                continue
            entry = line.entry
            if entry is None:
                continue
            at = entry.at
            yield from self._take(self._telling.add(line.number, entry), at)
            if entry.note is not None:
                self._note(entry.note)
            elif _is_prompt(entry):
                yield from self._begin(at)
                self._prompted = entry.run, acp.member(entry.value, "id")
            elif entry.of == acp.PROMPT and self._prompted == (entry.run, acp.member(entry.value, "id")):
                self._answered(entry.value)
        yield from self._take(self._telling.end(live=True), at)
        yield from self._ended()

    def _begin(self, at: str) -> Iterator[Turn]:
        yield from self._ended()
        self._current(at)

    def _ended(self) -> Iterator[Turn]:
        if self._turn is not None:
            self._turn.items += self._notes
            yield self._turn
            self._turn, self._notes = None, []

    def _take(self, told: list[bytes], at: str) -> Iterator[Turn]:
        for line in framing.cut(b"".join(told)):
            update = acp.member(acp.member(jsonrpc.parse(line), "params"), "update")
            if isinstance(update, Mapping):
                item = _item(update)
                if self._turn is None or (self._prompted is None and _begins(self._turn, item)):
                    yield from self._begin(at)
                _add(self._current(at).items, item)

    def _current(self, at: str) -> Turn:
        if self._turn is None:
            self._count += 1
            self._turn = Turn(self._count, at)
        return self._turn

    def _note(self, note: Mapping[str, object]) -> None:
        kind = note.get("type")
        if kind == record.FAILED and self._turn is not None:
            self._turn.error = acp.text(note, "message") or "the agent ended"
        elif kind == record.GAP:
            self._notes.append(Note(record.GAP, acp.text(note, "reason") or ""))
        elif kind == record.HANDOVER:
            self._notes.append(Note(record.HANDOVER, acp.text(note, "to") or ""))

    def _answered(self, answer: object) -> None:
        if self._turn is None:
            return
        error = acp.member(answer, "error")
        self._turn.stop = acp.text(acp.member(answer, "result"), "stopReason")
        if error is not None:
            self._turn.error = acp.text(error, "message") or "the prompt failed"


def words(block: Mapping[str, object]) -> str:
    """What a content block says: its text, or in brackets what else it is."""
    kind = acp.text(block, "type")
    if kind == "text":
        return acp.text(block, "text") or ""
    resource = acp.member(block, "resource")
    name = acp.text(block, "name") or acp.text(block, "uri") or acp.text(resource, "uri") or acp.text(block, "mimeType")
    return f"[{kind or 'content'}{f': {name}' if name else ''}]"


def _is_prompt(entry: Entry) -> bool:
    return entry.peer is Peer.CLIENT and acp.text(entry.value, "method") == acp.PROMPT


def _begins(turn: Turn, item: Item) -> bool:
    """Whether this message of the user comes after something else."""
    return isinstance(item, Said) and item.speaker == "user" and any(not _is_users(other) for other in turn.items)


def _is_users(item: Item) -> bool:
    return isinstance(item, Said) and item.speaker == "user"


def _add(items: list[Item], item: Item) -> None:
    """Adjacent blocks of one message are one item."""
    last = items[-1] if items else None
    if isinstance(item, Said) and isinstance(last, Said) and (last.speaker, last.id) == (item.speaker, item.id):
        last.blocks.extend(item.blocks)
    else:
        items.append(item)


def _item(update: Mapping[str, object]) -> Item:
    kind = acp.update_kind(update)
    if kind in _SPEAKERS:
        block = acp.member(update, "content")
        return Said(_SPEAKERS[kind], [block] if isinstance(block, Mapping) else [], acp.text(update, "messageId"))
    if kind in ("tool_call", "tool_call_update"):
        fields = {name: value for name, value in update.items() if name not in ("sessionUpdate", "toolCallId")}
        return Call(acp.text(update, "toolCallId") or "", fields, kind == "tool_call")
    entries = acp.member(update, "entries")
    if kind == "plan" and isinstance(entries, list):
        return Plan(entries)
    return Other(update)
