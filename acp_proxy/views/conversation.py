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
from acp_proxy.protocol.agent_terminals import AgentTerminal
from acp_proxy.protocol.jsonrpc import Peer
from acp_proxy.protocol.update_kinds import Role
from acp_proxy.transcript import rewinds
from acp_proxy.transcript.file_format import Entry, NoteType
from acp_proxy.transcript.reader import AlikeLines, Line, TranscriptReader
from acp_proxy.transcript.turn_order import order_turns
from acp_proxy.transcript.v2_entries import read_as_v1
from acp_proxy.transcript_replay.replayer import Replayer
from acp_proxy.views.models import find_chosen_model, find_used_model

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

    ``number``: from 1. ``started_at``: the time, as text (``2026-11-20T09:15:02.123Z``). ``is_prompted``: a prompt
    began it. ``model``: the name of the model that was chosen then; None: not known.
    """

    number: int
    started_at: str
    is_prompted: bool
    model: str | None = None


@dataclass(frozen=True, slots=True)
class TurnEnd:
    """A turn ends.

    ``stop_reason``: the protocol's, if known. ``error``: the error's text, if it failed. ``ended_at``: the time of the
    answer; empty if there is none. ``model``: that the agent says it has used; None: it does not say.
    """

    stop_reason: str | None
    error: str | None
    ended_at: str = ""
    model: str | None = None


Part = TurnBegin | Item | TurnEnd


@dataclass(slots=True)
class ConversationTurn:
    """A whole turn: ``number`` and ``started_at`` as in ``TurnBegin``, the others as in ``TurnEnd``. ``model``: that at
    its end, else at its beginning."""

    number: int
    started_at: str
    items: list[Item] = field(default_factory=list)
    stop_reason: str | None = None
    error: str | None = None
    ended_at: str = ""
    model: str | None = None


REWOUND = "rewound"

OpenChild = Callable[[str], AbstractContextManager[TranscriptReader | None]]
"""Opens the transcript of a session that the agent began for its own work, by its id. None if there is none."""

_MOST_DEPTH = 8
"""How deep subagents of subagents are read."""
_PAGE_BYTES = 4 * 1024 * 1024
"""How much of a turn ``read_parts`` reads at once: far more than most turns have."""


def _open_no_child(session_id: str) -> AbstractContextManager[None]:
    """An ``OpenChild`` that finds none."""
    return nullcontext()


def read_turns(
    reader: TranscriptReader, session_id: str, open_child: OpenChild = _open_no_child
) -> Iterator[ConversationTurn]:
    """The turns of a transcript, oldest first. ``session_id``: the session's id. Raises OSError.

    ``open_child``: opens the transcripts of subagents, which are then part of the conversation.
    """
    turn = ConversationTurn(0, "")
    part_reader = _PartReader(session_id, reader.other_ids, open_child=open_child, handovers=_find_handovers(reader))
    for part in part_reader.read(read_as_v1(order_turns(reader.read_alike(), reader.find_last_lines))):
        match part:
            case TurnBegin():
                turn = ConversationTurn(part.number, part.started_at, model=part.model)
            case TurnEnd():
                turn.stop_reason, turn.error, turn.ended_at = part.stop_reason, part.error, part.ended_at
                turn.model = part.model or turn.model
                yield turn
            case _:
                add_item(turn.items, part)


def read_parts(
    reader: TranscriptReader,
    session_id: str,
    open_child: OpenChild = _open_no_child,
    lines: Iterable[Line | AlikeLines] | None = None,
    page_bytes: int = _PAGE_BYTES,
    earlier_turns: int = 0,
) -> Iterator[Part]:
    """The turns in parts: ``TurnBegin``, items, ``TurnEnd``. A message may come in several parts. Raises OSError.

    ``open_child``: as for ``read_turns``. ``lines``: the lines to read, from a caller who watches them or begins at a
    later turn; None: all of ``reader``. ``earlier_turns``: how many turns come before ``lines``. ``page_bytes``: how
    many bytes of a turn are read before its first item comes.
    """
    all_lines = reader.read_alike() if lines is None else lines
    handovers = _find_handovers(reader)
    return _PartReader(
        session_id, reader.other_ids, page_bytes, open_child, earlier_turns=earlier_turns, handovers=handovers
    ).read(read_as_v1(order_turns(all_lines, reader.find_last_lines)))


def _find_handovers(reader: TranscriptReader) -> dict[int, str]:
    """By turn: the agent's id of the new session that got a record with its prompt. A transcript notes it after the
    answer, since a prompt that failed carries no record."""
    while reader.search():
        pass
    if not reader.agent_session.lacks_past:
        return {}
    handovers: dict[int, str] = {}
    last_turns: dict[str, int] = {}  # by run: the one that it prompted last
    for number, line in number_turns(reader.read_lines()):
        if (entry := line.entry) is None:
            continue
        if entry.is_prompt:
            last_turns[entry.run] = number
        elif acp.text(entry.note, "type") == NoteType.HANDOVER:
            handovers[last_turns.get(entry.run, max(number, 1))] = acp.text(entry.note, "to") or ""
    return handovers


def number_turns(lines: Iterable[Line]) -> Iterator[tuple[int, Line]]:
    """Each line with the number of its turn; 0: no turn has begun. The turns are those of ``read_parts``."""
    number, is_prompted, only_user = 0, False, True
    for line in lines:
        kind = _find_kind(line.entry)
        if line.entry is not None and line.entry.is_prompt:
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
        page_bytes: int = 0,
        open_child: OpenChild = _open_no_child,
        seen_ids: set[str] | None = None,
        depth: int = 0,
        earlier_turns: int = 0,
        handovers: Mapping[int, str] | None = None,
    ) -> None:
        """``seen_ids``: the sessions that were read already. ``depth``: how many sessions this one is inside.
        ``earlier_turns``: how many come before what is read. ``handovers``: see ``_find_handovers``."""
        self._handovers = handovers or {}
        self._open_child = open_child
        self._seen_ids = seen_ids if seen_ids is not None else {session_id}
        self._depth = depth
        self._replayer = Replayer(
            session_id,
            run_id="",
            tool_limit=0,
            other_ids=other_ids,
            page_size=page_bytes,
            client_update_kinds=update_kinds.OPTIONAL,
            prompt_ends_wait=True,
        )
        self._turn_number = earlier_turns
        self._is_open = False
        self._only_user = True  # this turn has only user messages so far
        self._prompt_key: tuple[str, bytes] | None = None
        """The run and the request id of the prompt that began the turn."""
        self._notes: list[Item] = []
        self._stop_reason: str | None = None
        self._error: str | None = None
        self._answered_at = ""
        self._held_since = ""
        """When the first of the updates came that the replayer still holds back."""
        self._model: str | None = None
        self._used_model: str | None = None

    def read(self, lines: Iterable[Line | AlikeLines]) -> Iterator[Part]:
        stamp = ""
        for line in lines:
            if isinstance(line, AlikeLines):
                yield from self._take(self._replayer.add_chunks(line.number, line.chunks), stamp)
                continue
            entry = line.entry
            if entry is None:
                continue
            stamp = entry.at
            if not self._held_since and _is_update(entry):
                self._held_since = stamp
            parts = self._replayer.add(line.number, entry)
            yield from self._take(parts, self._held_since or stamp)
            if parts:
                self._held_since = ""
            self._model = find_chosen_model(entry) or self._model
            if rewinds.is_rewind(entry):
                self._notes.append(Note(REWOUND, ""))
            if entry.note is not None:
                self._take_note(entry.run, entry.note, stamp)
            elif entry.is_prompt:
                yield from self._end_turn()
                self._prompt_key = entry.request_key
                yield from self._begin_turn(stamp)
            elif entry.answered_method == acp.PROMPT and self._prompt_key == entry.request_key:
                self._end_prompt(entry.value, stamp)
        yield from self._take(self._replayer.end(may_turns_go_on=True), self._held_since or stamp)
        yield from self._end_turn()

    def _begin_turn(self, stamp: str) -> Iterator[Part]:
        self._turn_number += 1
        self._is_open = self._only_user = True
        yield TurnBegin(self._turn_number, stamp, self._prompt_key is not None, self._model)
        if self._turn_number in self._handovers:
            yield Note(NoteType.HANDOVER, self._handovers[self._turn_number])

    def _end_turn(self) -> Iterator[Part]:
        if self._is_open:
            yield from self._notes
            yield TurnEnd(self._stop_reason, self._error, self._answered_at, self._used_model)
            self._is_open, self._notes, self._stop_reason, self._error, self._answered_at = False, [], None, None, ""
            self._used_model = None

    def _take(self, lines: list[bytes], stamp: str) -> Iterator[Part]:
        for item in _read_items(lines):
            is_users = isinstance(item, SpokenMessage) and item.speaker == "user"
            if self._prompt_key is None and is_users and not self._only_user:
                yield from self._end_turn()
            if not self._is_open:
                yield from self._begin_turn(stamp)
            self._only_user &= is_users or isinstance(item, Plan)
            yield item
            if isinstance(item, OtherUpdate) and acp.update_kind(item.update) == update_kinds.SUBAGENT:
                yield from self._read_subagent(item.update)

    def _read_subagent(self, update: Mapping[str, object]) -> Iterator[Subagent]:
        """The subagent that an update names for the first time."""
        id = acp.session_id(update)
        if id is None or id in self._seen_ids or self._depth == _MOST_DEPTH:
            return
        self._seen_ids.add(id)
        items: list[Item] = []
        with self._open_child(id) as reader:
            if reader is None:
                return
            part_reader = _PartReader(id, reader.other_ids, 0, self._open_child, self._seen_ids, self._depth + 1)
            parts = (
                part for part in part_reader.read(reader.read_alike()) if not isinstance(part, TurnBegin | TurnEnd)
            )
            for item in _add_messages(parts, id):
                add_item(items, item)
        yield Subagent(id, acp.text(update, "title") or id, items)

    def _take_note(self, run: str, note: Mapping[str, object], stamp: str) -> None:
        kind = note.get("type")
        is_of_turn = self._is_open and (self._prompt_key is None or self._prompt_key[0] == run)
        if kind == NoteType.FAILED and is_of_turn:
            self._error, self._answered_at = acp.text(note, "message") or "the agent ended", stamp
        elif kind == NoteType.GAP:
            self._notes.append(Note(NoteType.GAP, acp.text(note, "reason") or ""))

    def _end_prompt(self, answer: object, stamp: str) -> None:
        error, self._answered_at = acp.member(answer, "error"), stamp
        self._used_model = find_used_model(acp.member(answer, "result")) or None
        self._stop_reason = acp.text(acp.member(answer, "result"), "stopReason")
        if error is not None:
            self._error = acp.read_error(error) or "the prompt failed"


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


def _find_kind(entry: Entry | None) -> str | None:
    """The kind of an agent's update; None for anything else."""
    if entry is None or entry.peer is not Peer.AGENT or acp.text(entry.value, "method") != acp.UPDATE:
        return None
    return acp.update_kind(v2_updates.normalize_to_v1(acp.member(acp.member(entry.value, "params"), "update")))


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
    is_sent_by_id: dict[str, bool] = {}
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
            is_sent_by_id[id] = sender == session_id
        blocks = content if isinstance(content, list) else [content]
        content_blocks = [block for block in blocks if isinstance(block, Mapping)]
        # A whole message may repeat its chunks.
        if content_blocks and (kind == update_kinds.SESSION_MESSAGE_CHUNK or id not in shown_ids):
            shown_ids.add(id)
            yield SpokenMessage("agent" if is_sent_by_id.get(id) else "user", content_blocks, id)


def _read_items(lines: Iterable[bytes]) -> Iterator[Item]:
    """The items in lines of updates. Adjacent updates of one call are joined."""
    calls: list[ToolCall] = []
    for line in chain.from_iterable(map(framing.split_lines, lines)):
        update = acp.member(acp.member(jsonrpc.parse(line), "params"), "update")
        if not isinstance(update, Mapping):
            continue
        item = _read_item(update)
        is_same_call = isinstance(item, ToolCall) and not item.is_new and bool(calls) and calls[0].id == item.id
        if not is_same_call:
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


def merge_updates(updates: Iterable[Mapping[str, object]]) -> dict[str, object]:
    """The last value of each field other than null, of updates of a call. Output of the agent's own terminals in them
    (in ``_meta``) replaces the content's terminals."""
    fields: dict[str, object] = {}
    terminal = AgentTerminal()
    for update in updates:
        fields |= {name: value for name, value in update.items() if value is not None or name not in fields}
        terminal.add(update.get("_meta"))
    output, content = terminal.output, fields.get("content")
    if output and isinstance(content, list):
        fields["content"] = [_replace_terminal(item, output) for item in content]
    return fields


def _replace_terminal(item: object, output: str) -> object:
    if acp.text(item, "type") != "terminal":
        return item
    return {"type": "content", "content": {"type": "text", "text": output}}


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
