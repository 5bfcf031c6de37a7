"""Reads a transcript as a conversation: turns with messages and tool calls.

It is made from the replay of ``session/load`` (compact, without a limit), so it contains what an editor shows: texts
are joined, and a tool call is one item with the last value of each field. It adds what only the transcript knows: how a
turn ended, and where something is missing. ``read_turns`` holds one turn in memory; ``read_parts`` holds about 4 MiB of
a turn, so in a longer turn a call may come again with its changes.

A turn begins with each prompt. Before the first prompt (in what an agent replayed of an earlier conversation), a turn
begins with a user message that follows anything but a plan.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Literal

from acp_proxy.protocol import acp, framing, jsonrpc, update_kinds, v2_updates
from acp_proxy.protocol.jsonrpc import Peer
from acp_proxy.protocol.update_kinds import Role
from acp_proxy.replay.replayer import Replayer
from acp_proxy.replay.tool_calls import merge_updates
from acp_proxy.store.command_store import AlikeLines, Line, Reading, read_as_v1
from acp_proxy.transcript import rewinds, summary
from acp_proxy.transcript.file_format import Entry, NoteType
from acp_proxy.transcript.usage import find_used_model

Speaker = Literal["user", "agent", "thought"]
_SPEAKERS: dict[Role, Speaker] = {Role.USER: "user", Role.AGENT: "agent", Role.THOUGHT: "thought"}


@dataclass(frozen=True, slots=True)
class SpokenMessage:
    """A message. ``blocks``: the protocol's content blocks. ``id``: its ``messageId``, if it has one."""

    speaker: Speaker
    blocks: list[Mapping[str, object]]
    id: str | None = None


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call. ``fields``: by the protocol's names. ``is_new``: False for the changes that a later turn made."""

    id: str
    fields: Mapping[str, object]
    is_new: bool


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan. ``entries``: as in the protocol."""

    entries: list[object]


@dataclass(frozen=True, slots=True)
class Note:
    """A note of the transcript. ``kind``: ``gap``, ``handover`` or ``rewound``: a part of what is above is taken back.

    ``text``: the gap's reason, or the agent's new id.

    Notes come at the end of their turn, but a handover at its beginning: the record went with the prompt.
    """

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class OtherUpdate:
    """An update of any other kind. ``update``: all of its members."""

    update: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Subagent:
    """A session that the agent began for its own work, where it was first named. ``items``: of all its turns."""

    id: str
    title: str
    items: list["Item"]


Item = SpokenMessage | ToolCall | Plan | Note | OtherUpdate | Subagent


@dataclass(frozen=True, slots=True)
class TurnBegin:
    """A turn begins.

    ``number``: from 1. ``at``: the time, as text (``2026-11-20T09:15:02.123Z``). ``prompted``: a prompt began it.
    ``model``: the name of the model that was chosen then; None: not known.
    """

    number: int
    at: str
    prompted: bool
    model: str | None = None


@dataclass(frozen=True, slots=True)
class TurnEnd:
    """A turn ends.

    ``stop``: the protocol's stop reason, if known. ``error``: the error's text, if it failed. ``at``: the time of the
    answer; empty if there is none. ``model``: that the agent says it has used; None: it does not say.
    """

    stop: str | None
    error: str | None
    at: str = ""
    model: str | None = None


Part = TurnBegin | Item | TurnEnd


@dataclass(slots=True)
class ConversationTurn:
    """A whole turn: ``number`` and ``at`` as in ``TurnBegin``, the others as in ``TurnEnd``. ``model``: that at its
    end, else at its beginning."""

    number: int
    at: str
    items: list[Item] = field(default_factory=list)
    stop: str | None = None
    error: str | None = None
    ended: str = ""
    model: str | None = None


REWOUND = "rewound"

OpenChild = Callable[[str], AbstractContextManager[Reading | None]]
"""Opens the transcript of a session that the agent began for its own work, by its id. None if there is none."""

_MOST_DEPTH = 8
"""How deep subagents of subagents are read."""
_PAGE = 4 * 1024 * 1024
"""The bytes of a turn that ``read_parts`` reads at once: far more than most turns have."""


def _open_no_child(session_id: str) -> AbstractContextManager[None]:
    return nullcontext()


def read_turns(reading: Reading, session_id: str, child: OpenChild = _open_no_child) -> Iterator[ConversationTurn]:
    """The turns of a transcript, oldest first. ``session_id``: the session's id. Raises OSError.

    ``child``: opens the transcripts of subagents, which are then part of the conversation.
    """
    turn = ConversationTurn(0, "")
    reader = _PartReader(session_id, reading.other_ids, child=child, handovers=_find_handovers(reading))
    for part in reader.read(read_as_v1(reading.read_alike())):
        match part:
            case TurnBegin():
                turn = ConversationTurn(part.number, part.at, model=part.model)
            case TurnEnd():
                turn.stop, turn.error, turn.ended = part.stop, part.error, part.at
                turn.model = part.model or turn.model
                yield turn
            case _:
                add_item(turn.items, part)


def read_parts(
    reading: Reading,
    session_id: str,
    child: OpenChild = _open_no_child,
    lines: Iterable[Line | AlikeLines] | None = None,
    page: int = _PAGE,
    turns: int = 0,
) -> Iterator[Part]:
    """The turns in parts: ``TurnBegin``, items, ``TurnEnd``. A message may come in several parts. Raises OSError.

    ``child``: as for ``read_turns``. ``lines``: the reading's, of a caller who watches them or begins at a later turn;
    ``turns``: how many turns are before them. ``page``: the bytes of a turn that are read before its first item comes.
    """
    chosen = reading.read_alike() if lines is None else lines
    handovers = _find_handovers(reading)
    return _PartReader(session_id, reading.other_ids, page, child, turns=turns, handovers=handovers).read(
        read_as_v1(chosen)
    )


def _find_handovers(reading: Reading) -> dict[int, str]:
    """By turn: the agent's id of the new session that got a record with its prompt. A transcript notes it behind the
    answer, since a prompt that failed carries no record."""
    while reading.search():
        pass
    if not reading.agents.was_handed_over:
        return {}
    return {
        max(number, 1): acp.text(line.entry.note, "to") or ""
        for number, line in number_turns(reading.read_lines())
        if line.entry is not None and acp.text(line.entry.note, "type") == NoteType.HANDOVER
    }


def number_turns(lines: Iterable[Line]) -> Iterator[tuple[int, Line]]:
    """Each line with the number of its turn; 0: no turn has begun. The turns are those of ``read_parts``."""
    number, is_prompted, only_user = 0, False, True
    for line in lines:
        kind = _find_kind(line.entry)
        if line.entry is not None and _is_prompt(line.entry):
            number, is_prompted = number + 1, True
        elif kind is not None and not is_prompted and update_kinds.is_conversation(kind):
            is_users = update_kinds.find_v1_role(kind) is Role.USER
            if number == 0 or (is_users and not only_user):
                number, only_user = number + 1, True
            only_user &= is_users or kind == update_kinds.PLAN
        yield number, line


class _PartReader:
    """Turns the lines of a replay, and notes and answers in the transcript, into parts."""

    def __init__(
        self,
        session_id: str,
        other_ids: frozenset[str],
        page: int = 0,
        child: OpenChild = _open_no_child,
        known: set[str] | None = None,
        depth: int = 0,
        turns: int = 0,
        handovers: Mapping[int, str] | None = None,
    ) -> None:
        """``known``: the sessions that were told already. ``depth``: how many sessions this one is inside. ``turns``:
        how many come before what is read. ``handovers``: see ``_find_handovers``."""
        self._handovers = handovers or {}
        self._child = child
        self._known = known if known is not None else {session_id}
        self._depth = depth
        self._replayer = Replayer(
            session_id,
            run_id="",
            tool_limit=0,
            other_ids=other_ids,
            page_size=page,
            kinds=update_kinds.OPTIONAL,
            at_once=True,
        )
        self._count = turns
        self._is_open = False
        self._only_user = True  # this turn has only user messages so far
        self._prompted: tuple[str, object] | None = None
        """The run and the request id of the prompt that began the turn."""
        self._notes: list[Item] = []
        self._stop: str | None = None
        self._error: str | None = None
        self._answered_at = ""
        self._since = ""
        """When the first update came that the telling still holds back."""
        self._model: str | None = None
        self._used_model: str | None = None

    def read(self, lines: Iterable[Line | AlikeLines]) -> Iterator[Part]:
        at = ""
        for line in lines:
            if isinstance(line, AlikeLines):
                yield from self._take(self._replayer.add_chunks(line.number, line.chunks), at)
                continue
            entry = line.entry
            if entry is None:
                continue
            at = entry.at
            if not self._since and _is_update(entry):
                self._since = at
            parts = self._replayer.add(line.number, entry)
            yield from self._take(parts, self._since or at)
            if parts:
                self._since = ""
            self._model = summary.find_chosen_model(entry) or self._model
            if rewinds.is_rewind(entry):
                self._notes.append(Note(REWOUND, ""))
            if entry.note is not None:
                self._note(entry.note, at)
            elif _is_prompt(entry):
                yield from self._end_turn()
                self._prompted = entry.run, acp.member(entry.value, "id")
                yield from self._begin_turn(at)
            elif entry.of == acp.PROMPT and self._prompted == (entry.run, acp.member(entry.value, "id")):
                self._end_prompt(entry.value, at)
        yield from self._take(self._replayer.end(is_live=True), self._since or at)
        yield from self._end_turn()

    def _begin_turn(self, at: str) -> Iterator[Part]:
        self._count += 1
        self._is_open = self._only_user = True
        yield TurnBegin(self._count, at, self._prompted is not None, self._model)
        if self._count in self._handovers:
            yield Note(NoteType.HANDOVER, self._handovers[self._count])

    def _end_turn(self) -> Iterator[Part]:
        if self._is_open:
            yield from self._notes
            yield TurnEnd(self._stop, self._error, self._answered_at, self._used_model)
            self._is_open, self._notes, self._stop, self._error, self._answered_at = False, [], None, None, ""
            self._used_model = None

    def _take(self, lines: list[bytes], at: str) -> Iterator[Part]:
        for item in _read_items(lines):
            is_users = isinstance(item, SpokenMessage) and item.speaker == "user"
            if self._prompted is None and is_users and not self._only_user:
                yield from self._end_turn()
            if not self._is_open:
                yield from self._begin_turn(at)
            self._only_user &= is_users or isinstance(item, Plan)
            yield item
            if isinstance(item, OtherUpdate) and acp.update_kind(item.update) == update_kinds.SUBAGENT:
                yield from self._read_subagent(item.update)

    def _read_subagent(self, update: Mapping[str, object]) -> Iterator[Subagent]:
        """The subagent that an update names for the first time."""
        id = acp.session_id(update)
        if id is None or id in self._known or self._depth == _MOST_DEPTH:
            return
        self._known.add(id)
        items: list[Item] = []
        with self._child(id) as reading:
            if reading is None:
                return
            inside = _PartReader(id, reading.other_ids, 0, self._child, self._known, self._depth + 1)
            parts = (part for part in inside.read(reading.read_alike()) if not isinstance(part, TurnBegin | TurnEnd))
            for item in _add_messages(parts, id):
                add_item(items, item)
        yield Subagent(id, acp.text(update, "title") or id, items)

    def _note(self, note: Mapping[str, object], at: str) -> None:
        kind = note.get("type")
        if kind == NoteType.FAILED and self._is_open:
            self._error, self._answered_at = acp.text(note, "message") or "the agent ended", at
        elif kind == NoteType.GAP:
            self._notes.append(Note(NoteType.GAP, acp.text(note, "reason") or ""))

    def _end_prompt(self, answer: object, at: str) -> None:
        error, self._answered_at = acp.member(answer, "error"), at
        self._used_model = find_used_model(acp.member(answer, "result")) or None
        self._stop = acp.text(acp.member(answer, "result"), "stopReason")
        if error is not None:
            self._error = acp.text(error, "message") or "the prompt failed"


def read_words(block: Mapping[str, object]) -> str:
    """The text of a content block, or a description in brackets."""
    kind = acp.text(block, "type")
    if kind == "text":
        return acp.text(block, "text") or ""
    resource = acp.member(block, "resource")
    name = acp.text(block, "name") or acp.text(block, "uri") or acp.text(resource, "uri") or acp.text(block, "mimeType")
    return f"[{kind or 'content'}{f': {name}' if name else ''}]"


def _is_update(entry: Entry) -> bool:
    if entry.peer is not Peer.AGENT or acp.text(entry.value, "method") != acp.UPDATE:
        return False
    return update_kinds.is_conversation(acp.update_kind(acp.member(acp.member(entry.value, "params"), "update")))


def _is_prompt(entry: Entry) -> bool:
    return entry.peer is Peer.CLIENT and acp.text(entry.value, "method") == acp.PROMPT


def _find_kind(entry: Entry | None) -> str | None:
    """The kind of an agent's update; None for anything else."""
    if entry is None or entry.peer is not Peer.AGENT or acp.text(entry.value, "method") != acp.UPDATE:
        return None
    return acp.update_kind(v2_updates.as_v1(acp.member(acp.member(entry.value, "params"), "update")))


def add_item(items: list[Item], item: Item) -> None:
    """Append an item; adjacent parts of one message are joined."""
    last = items[-1] if items else None
    if (
        isinstance(item, SpokenMessage)
        and isinstance(last, SpokenMessage)
        and (last.speaker, last.id) == (item.speaker, item.id)
    ):
        last.blocks.extend(item.blocks)
    else:
        items.append(item)


def _add_messages(items: Iterable[Item], session_id: str) -> Iterator[Item]:
    """The items of a subagent. Messages from other sessions are the user's, and those to others the agent's."""
    sent: dict[str, bool] = {}
    shown_ids: set[str] = set()
    for item in items:
        kind = acp.update_kind(item.update) if isinstance(item, OtherUpdate) else None
        if not isinstance(item, OtherUpdate) or kind not in (
            update_kinds.SESSION_MESSAGE,
            update_kinds.SESSION_MESSAGE_CHUNK,
        ):
            yield item
            continue
        id, content = acp.text(item.update, "messageId") or "", item.update.get("content")
        if (sender := acp.text(item.update, "senderSessionId")) is not None:
            sent[id] = sender == session_id
        blocks = content if isinstance(content, list) else [content]
        content_blocks = [block for block in blocks if isinstance(block, Mapping)]
        # A whole message may repeat its chunks.
        if content_blocks and (kind == update_kinds.SESSION_MESSAGE_CHUNK or id not in shown_ids):
            shown_ids.add(id)
            yield SpokenMessage("agent" if sent.get(id) else "user", content_blocks, id)


def _read_items(lines: Iterable[bytes]) -> Iterator[Item]:
    """The items in lines of updates. Adjacent updates of one call are joined."""
    calls: list[ToolCall] = []
    for line in chain.from_iterable(map(framing.cut, lines)):
        update = acp.member(acp.member(jsonrpc.parse(line), "params"), "update")
        if not isinstance(update, Mapping):
            continue
        item = _read_item(update)
        goes_on = isinstance(item, ToolCall) and not item.is_new and bool(calls) and calls[0].id == item.id
        if not goes_on:
            yield from _join_calls(calls)
            calls = []
        if isinstance(item, ToolCall):
            calls.append(item)
        else:
            yield item
    yield from _join_calls(calls)


def _join_calls(calls: list[ToolCall]) -> Iterator[ToolCall]:
    if calls:
        yield replace(calls[0], fields=merge_updates(call.fields for call in calls))


def _read_item(update: Mapping[str, object]) -> Item:
    kind = acp.update_kind(update)
    role = update_kinds.find_v1_role(kind)
    if role in _SPEAKERS:
        block = acp.member(update, "content")
        return SpokenMessage(
            _SPEAKERS[role], [block] if isinstance(block, Mapping) else [], acp.text(update, "messageId")
        )
    if role is Role.CALL:
        fields = {name: value for name, value in update.items() if name not in ("sessionUpdate", "toolCallId")}
        return ToolCall(acp.text(update, "toolCallId") or "", fields, kind == update_kinds.TOOL_CALL)
    entries = acp.member(update, "entries")
    if kind == update_kinds.PLAN and isinstance(entries, list):
        return Plan(entries)
    return OtherUpdate(update)
