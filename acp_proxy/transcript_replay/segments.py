"""Replays a segment, which is a prompt's turn and everything up to the next prompt, in one of two ways.

``FullSegment`` (mode ``full``) sends every update as it comes. ``CompactSegment`` (``compact``) sends the same state in
fewer lines when the segment has ended: it joins chunks, and folds calls. Both make sure that a call begins with a
``tool_call``, that a permission request counts as an update of its call if that is sent, that terminals are replaced by
their output, and that what was never finished has failed.
"""

from collections import deque
from collections.abc import Collection, Iterator

from msgspec import Struct

from acp_proxy.protocol import acp, jsonrpc, update_kinds
from acp_proxy.protocol.update_kinds import COMPACTION, TOOL_CALL, ReplayForm, Role
from acp_proxy.transcript.chunk_runs import AlikeChunks
from acp_proxy.transcript_replay import raw_members, tool_calls
from acp_proxy.transcript_replay.entry_updates import Update
from acp_proxy.transcript_replay.fold_calls import FoldedCall
from acp_proxy.transcript_replay.fold_compactions import FoldedCompaction, find_compaction_id
from acp_proxy.transcript_replay.replayed_calls import Key, ReplayedCalls, encode_failed
from acp_proxy.transcript_replay.terminal_output import ContentWithTerminals, ReplayedTerminals
from acp_proxy.transcript_replay.tool_calls import CallStatement


class _WaitingLine(Struct):
    """A line that waits for the output of the terminals of one connection, ``run``. ``is_placeholder``: no line yet,
    since a permission request asked about a call that has not come."""

    line: bytes
    terminal_run: str | None = None
    call_id: str = ""
    is_placeholder: bool = False


class FullSegment:
    """Sends every update as it comes.

    The methods return the lines that are certain now, in order; an item may be several lines.
    """

    def __init__(self, session_id: str, calls: ReplayedCalls, terminals: ReplayedTerminals) -> None:
        self._session_id = session_id
        self._replayed_calls = calls
        self._terminals = terminals
        self._terminal_contents: dict[str, ContentWithTerminals] = {}
        self._waiting_lines: deque[_WaitingLine] = deque()
        """The lines from the first reference to a terminal on, or from a question about a call that has not come."""
        self._asked_lines: dict[str, _WaitingLine] = {}

    def add(self, update: Update) -> list[bytes]:
        """Add an update that is not about a tool call."""
        if update_kinds.find(update.kind).role is Role.COMPACTION:
            self._replayed_calls.note_compaction(update)
        return self._send_or_hold(_WaitingLine(update.line))

    def add_chunks(self, chunks: AlikeChunks) -> list[bytes] | None:
        """Add more chunks of the message that was added last. None: add them one by one instead."""
        return self._send_or_hold(_WaitingLine(chunks.messages))

    def add_call(self, call: CallStatement) -> list[bytes]:
        """Add a statement about a tool call."""
        is_new = call.id not in self._replayed_calls.replayed_ids
        statements = self._replayed_calls.add_call(call)
        if not statements and call.id not in self._asked_lines:
            self._asked_lines[call.id] = _WaitingLine(b"", is_placeholder=True)
            return self._send_or_hold(self._asked_lines[call.id])
        lines: list[bytes] = []
        for statement in statements:
            self._note_terminals(statement)
            line = tool_calls.encode_statement(self._session_id, statement, is_start=statement.is_start or is_new)
            is_new = False
            if line is not None:
                lines += self._send_or_hold_call(statement, line)
        return lines

    def end(self, failed: Collection[Key]) -> list[bytes]:
        """End the segment. ``failed``: the calls and compactions that were never finished."""
        lines = [
            self._fill_terminals(waiting_line)
            for waiting_line in self._waiting_lines
            if not waiting_line.is_placeholder
        ]
        self._waiting_lines.clear()
        self._asked_lines.clear()
        agent_terminals = self._replayed_calls.with_agent_terminals
        self._terminals.end_turn(
            {id: content for id, content in self._terminal_contents.items() if id not in agent_terminals}
        )
        return [*lines, *(encode_failed(self._session_id, key) for key in failed)]

    def _send_or_hold_call(self, call: CallStatement, line: bytes) -> list[bytes]:
        run = call.run if call.shows_terminal else None
        waiting_line = self._asked_lines.pop(call.id, None)
        if waiting_line is None:
            return self._send_or_hold(_WaitingLine(line, run, call.id))
        waiting_line.line, waiting_line.terminal_run, waiting_line.call_id, waiting_line.is_placeholder = (
            line,
            run,
            call.id,
            False,
        )
        return self._release()

    def _send_or_hold(self, waiting_line: _WaitingLine) -> list[bytes]:
        if not self._waiting_lines and waiting_line.terminal_run is None and not waiting_line.is_placeholder:
            return [waiting_line.line]
        self._waiting_lines.append(waiting_line)
        return []

    def _release(self) -> list[bytes]:
        """Remove and return the first lines that wait for nothing."""
        lines = []
        while (
            self._waiting_lines
            and self._waiting_lines[0].terminal_run is None
            and not self._waiting_lines[0].is_placeholder
        ):
            lines.append(self._waiting_lines.popleft().line)
        return lines

    def _fill_terminals(self, waiting_line: _WaitingLine) -> bytes:
        if waiting_line.terminal_run is None:
            return waiting_line.line
        return self._terminals.fill_line(
            waiting_line.line,
            waiting_line.terminal_run,
            keeps_agent_terminals=waiting_line.call_id in self._replayed_calls.with_agent_terminals,
        )

    def _note_terminals(self, call: CallStatement) -> None:
        if call.sets_content:
            self._terminals.stop_awaiting(call.id)
            self._terminal_contents.pop(call.id, None)
        if call.shows_terminal:
            self._terminal_contents[call.id] = ContentWithTerminals(call.run, call.fields["content"])


class CompactSegment:
    """Sends everything when the segment ends, in as few lines as possible. The methods are those of ``FullSegment``."""

    def __init__(self, session_id: str, calls: ReplayedCalls, terminals: ReplayedTerminals, limit: int) -> None:
        """``limit``: the most bytes of one call; 0 for no limit."""
        self._session_id = session_id
        self._replayed_calls = calls
        self._terminals = terminals
        self._limit = limit
        self._items: list[_JoinedChunks | FoldedCall | FoldedCompaction | bytes] = []
        self._folds: dict[str, FoldedCall] = {}
        self._compactions: dict[str, FoldedCompaction] = {}
        self._uncut_fold: FoldedCall | None = None
        """The only fold with an uncut line, which its next update may replace."""
        self._plan_index: int | None = None

    def add(self, update: Update) -> list[bytes]:
        row = update_kinds.find(update.kind)
        if row.form_v1 is ReplayForm.JOINED:
            self._add_chunk(update)
        elif row.role is Role.COMPACTION:
            self._add_compaction(update)
        else:
            if row.form_v1 is ReplayForm.LAST_OF_TURN:
                self._drop_plan()
                self._plan_index = len(self._items)
            self._items.append(update.line)
        return []

    def add_chunks(self, chunks: AlikeChunks) -> list[bytes] | None:
        last_item = self._items[-1]
        if not isinstance(last_item, _JoinedChunks) or last_item.key is None:
            return None
        last_item.add_chunks(chunks.text)
        return []

    def add_call(self, call: CallStatement) -> list[bytes]:
        if (fold := self._folds.get(call.id)) is None:
            fold = FoldedCall(
                self._session_id, call.id, self._limit, is_whole=call.id not in self._replayed_calls.replayed_ids
            )
            self._folds[call.id] = fold
            self._items.append(fold)
        for statement in self._replayed_calls.add_call(call):
            if statement.sets_content:
                self._terminals.stop_awaiting(statement.id)
            if self._uncut_fold is not None and self._uncut_fold is not fold:
                self._uncut_fold.cut()
            self._uncut_fold = fold
            fold.add(statement, one_by_one=statement.id in self._replayed_calls.with_agent_terminals)
        return []

    def end(self, failed: Collection[Key]) -> list[bytes]:
        lines = list(self._encode_all(set(failed)))
        lines += [encode_failed(self._session_id, key) for key in failed if not self._is_in_segment(key)]
        self._terminals.end_turn(
            {
                id: fold.client_terminal_content
                for id, fold in self._folds.items()
                if fold.client_terminal_content is not None
            }
        )
        return lines

    def _encode_all(self, failed: Collection[Key]) -> Iterator[bytes]:
        for item in self._items:
            match item:
                case _JoinedChunks():
                    yield item.encode()
                case FoldedCall() if item.id in self._replayed_calls.replayed_ids:
                    yield from item.encode(self._terminals, failed=(TOOL_CALL, item.id) in failed)
                case FoldedCompaction():
                    yield item.encode(failed=(COMPACTION, item.id) in failed)
                case bytes():
                    yield item

    def _is_in_segment(self, key: Key) -> bool:
        kind, id = key
        return id in (self._folds if kind == TOOL_CALL else self._compactions)

    def _add_chunk(self, update: Update) -> None:
        last_item = self._items[-1] if self._items else None
        if isinstance(last_item, _JoinedChunks) and last_item.may_join(_find_key(update)):
            last_item.add(update)
        else:
            self._items.append(_JoinedChunks(self._session_id, update))

    def _add_compaction(self, update: Update) -> None:
        """Fold all updates of a compaction into its first place. Updates in later segments pass unchanged."""
        id = find_compaction_id(update)
        if self._replayed_calls.note_compaction(update):
            self._compactions[id] = FoldedCompaction(self._session_id, id)
            self._items.append(self._compactions[id])
        if id in self._compactions:
            self._compactions[id].add(update)
        else:
            self._items.append(update.line)

    def _drop_plan(self) -> None:
        """Remove the segment's earlier plan, and join the chunks around it, which are adjacent now."""
        if (index := self._plan_index) is None:
            return
        del self._items[index]
        previous_item = self._items[index - 1] if index else None
        next_item = self._items[index] if index < len(self._items) else None
        if (
            isinstance(previous_item, _JoinedChunks)
            and isinstance(next_item, _JoinedChunks)
            and previous_item.may_join(next_item.key)
        ):
            previous_item.add_message(next_item)
            del self._items[index]


Segment = FullSegment | CompactSegment


# --- Joins adjacent chunks of one message, if nothing is lost by it.
#
# Texts of one kind and one ``messageId`` (or none) are joined. A chunk with anything else anywhere in its line, such
# as annotations, ``_meta`` or an unknown member other than null, stays alone. A chunk that stays alone keeps its
# bytes.


_ChunkKey = tuple[str, str | None]
"""A chunk's kind and ``messageId``. Adjacent chunks with the same key are one message."""

_MESSAGE_MEMBERS = frozenset({"jsonrpc", "method", "params"})
_PARAMS_MEMBERS = frozenset({"sessionId", "update"})
_UPDATE_MEMBERS = frozenset({"sessionUpdate", "content", "messageId"})
_CONTENT_MEMBERS = frozenset({"type", "text"})


class _JoinedChunks:
    """A message so far: the line of its only chunk, or the text of several. ``key``: None if no chunk may join it."""

    def __init__(self, session_id: str, update: Update) -> None:
        self._session_id = session_id
        self.key = _find_key(update)
        self._line: bytes | None = update.line
        self._first_text = _find_chunk_text(update)
        self._text = bytearray()

    def may_join(self, other: _ChunkKey | None) -> bool:
        """Whether a chunk with this key can be added."""
        return self.key is not None and self.key == other

    def add(self, update: Update) -> None:
        """Add a chunk for which ``may_join`` holds."""
        self.add_chunks(_find_chunk_text(update))

    def add_chunks(self, text: str) -> None:
        """Add the text of more chunks with the same key."""
        self._begin_text()
        self._text += _encode_text(text)

    def add_message(self, other: "_JoinedChunks") -> None:
        """Add another message with the same key."""
        self._begin_text()
        self._text += other._text if other._line is None else _encode_text(other._first_text)

    def encode(self) -> bytes:
        """The message's line."""
        if self._line is not None or self.key is None:
            return self._line or b""
        kind, message_id = self.key
        content = b'{"type":"text","text":"' + self._text + b'"}'
        id_member = {"messageId": jsonrpc.dump(message_id)} if message_id is not None else {}
        return raw_members.encode_line(self._session_id, kind, {"content": content, **id_member})

    def _begin_text(self) -> None:
        if self._line is not None:
            self._text += _encode_text(self._first_text)
            self._line, self._first_text = None, ""


def _find_key(update: Update) -> _ChunkKey | None:
    """The key of a chunk; None if joining would lose something in it."""
    params, content = acp.member(update.message, "params"), update.parsed.get("content")
    objects = (
        (update.message, _MESSAGE_MEMBERS),
        (params, _PARAMS_MEMBERS),
        (update.parsed, _UPDATE_MEMBERS),
        (content, _CONTENT_MEMBERS),
    )
    if acp.text(content, "type") != "text" or not all(_has_only(value, known_names) for value, known_names in objects):
        return None
    message_id = update.parsed.get("messageId")
    return (update.kind, message_id) if message_id is None or isinstance(message_id, str) else None


def _has_only(value: object, known_names: frozenset[str]) -> bool:
    if not isinstance(value, dict):
        return False
    return value.keys() <= known_names or all(name in known_names or item is None for name, item in value.items())


def _find_chunk_text(update: Update) -> str:
    return acp.text(update.parsed.get("content"), "text") or ""


def _encode_text(text: str) -> bytes:
    """The JSON text of a string without quotes. If two chunks split a surrogate pair, joining them restores it."""
    return jsonrpc.dump(text)[1:-1]
