"""Folds the updates of version 2 by id, so that a turn has few of them and leaves a client in the same state.

Everything stays where its id came first. Adjacent texts of a message are joined, and a message that was replaced has
only its last content. What is said about a call, a terminal or a plan is one update with the last value of each
field. An update with ``_meta``, or of another kind, keeps its bytes. A call or an output longer than the limit is
cut.

A turn longer than a page is folded in pieces, so what one replay holds does not grow with its turns, except for the
ids of calls and terminals: one that was named before is only added to.
"""

import binascii
from collections.abc import Iterator

from acp_proxy.protocol import acp, framing, jsonrpc, update_kinds, v2_updates
from acp_proxy.protocol.update_kinds import ReplayForm, Role
from acp_proxy.transcript.chunk_runs import AlikeChunks
from acp_proxy.transcript_replay import raw_members, truncate
from acp_proxy.transcript_replay.raw_members import Members

_MESSAGE_MEMBERS = frozenset({"sessionUpdate", "messageId", "content"})
_CALL, _TERMINAL, _PLAN = "call", "terminal", "plan"
_META = b'"_meta"'
_Key = tuple[str, str]


class _JoinedTexts:
    """Adjacent texts of one message. ``kind``: that of its chunks."""

    __slots__ = ("kind", "texts")

    def __init__(self, kind: str, text: str) -> None:
        self.kind = kind
        self.texts = [text]


class _MergedUpdates:
    """Updates of one call or terminal. ``appended``: what chunks have added to its content or output."""

    __slots__ = ("appended", "members")

    def __init__(self) -> None:
        self.members: Members = {}
        self.appended: list[bytes] = []


class _FoldedId:
    """What is said about one id. ``is_new``: the id was not named before this turn, or before this piece of it."""

    __slots__ = ("is_new", "key", "pieces")

    def __init__(self, key: _Key, *, is_new: bool) -> None:
        self.key = key
        self.is_new = is_new
        self.pieces: list[_JoinedTexts | _MergedUpdates | bytes] = []


class V2Fold:
    """Folds one replay."""

    def __init__(self, session_id: str, limit: int, *, page_size: int = 0) -> None:
        """``limit``: the most bytes of one call, or of one output; 0 for no limit. ``page_size``: a turn longer than
        this many bytes is folded in several pieces; 0 for never."""
        self._session_id = session_id
        self._limit = limit
        self._page_size, self._page_filled = page_size, 0
        self._folded_ids: dict[_Key, _FoldedId] = {}
        self._named_keys: set[_Key] = set()
        self._last_chunks: _JoinedTexts | None = None

    def add(self, lines: list[bytes]) -> list[bytes]:
        """Add items of a replay, each of which is one or more lines. Returns the lines of a piece that is full."""
        self._last_chunks = None
        for item in lines:
            for line in framing.split_lines(item):
                self._add(line)
        return self._end_page_if_full(sum(map(len, lines)))

    def add_chunks(self, chunks: AlikeChunks) -> list[bytes] | None:
        """Add more chunks like the last line. None: they must be added one by one."""
        if self._last_chunks is None:
            return None
        self._last_chunks.texts.append(chunks.text)
        return self._end_page_if_full(chunks.size)

    def end_piece(self) -> list[bytes]:
        """The lines of everything that was not returned yet. What follows is another piece, of this turn or the next
        one."""
        lines = [
            line
            for folded in self._folded_ids.values()
            for piece in folded.pieces
            for line in self._encode_piece(folded, piece)
        ]
        self._folded_ids.clear()
        self._last_chunks, self._page_filled = None, 0
        return lines

    def _end_page_if_full(self, size: int) -> list[bytes]:
        self._page_filled += size
        return self.end_piece() if self._page_size and self._page_filled >= self._page_size else []

    def _add(self, line: bytes) -> None:
        self._last_chunks = None
        update = acp.read_update(line)
        kind, raw = acp.update_kind(update) or "", line.removesuffix(b"\n")
        try:
            members, params_members = raw_members.split_update(raw)
        except (ValueError, KeyError):
            members, params_members = {}, {"": b""}
        is_plain = not params_members and "_meta" not in members
        message, call, terminal = (acp.text(update, name) for name in ("messageId", "toolCallId", "terminalId"))
        row = update_kinds.find(kind)
        if row.form_v2 is ReplayForm.JOINED and message is not None:
            self._add_message(kind, message, update, line, is_plain=is_plain and members.keys() <= _MESSAGE_MEMBERS)
        elif row.form_v2 is ReplayForm.MERGED and row.role is Role.CALL and call is not None:
            appended = members.get("content") if kind == update_kinds.TOOL_CALL_CHUNK else None
            self._merge((_CALL, call), members, appended, "content", line, is_plain=is_plain)
        elif row.form_v2 is ReplayForm.MERGED and row.role is Role.TERMINAL and terminal is not None:
            data = v2_updates.decode_output(update) if kind == update_kinds.TERMINAL_CHUNK else None
            self._merge((_TERMINAL, terminal), members, data, "output", line, is_plain=is_plain)
        elif row.form_v2 is ReplayForm.LAST_OF_TURN and (plan := _read_plan_id(update)) is not None:
            self._find_or_add((_PLAN, plan)).pieces = [line]
        else:
            self._find_or_add((kind, f"{len(self._folded_ids)}")).pieces.append(line)

    def _find_or_add(self, key: _Key) -> _FoldedId:
        folded = self._folded_ids.get(key)
        if folded is None:
            folded = self._folded_ids[key] = _FoldedId(key, is_new=key not in self._named_keys)
            if key[0] in (_CALL, _TERMINAL):
                self._named_keys.add(key)
        return folded

    def _add_message(self, kind: str, id: str, update: object, line: bytes, *, is_plain: bool) -> None:
        pieces = self._find_or_add((update_kinds.CHUNK_OF.get(kind, kind), id)).pieces
        content = acp.member(update, "content")
        if kind in update_kinds.CHUNK_OF:
            if is_plain and isinstance(content, list):
                pieces[:] = [piece for piece in pieces if isinstance(piece, bytes) and _META in piece]
            pieces.append(line)
        elif is_plain and isinstance(content, dict) and content.keys() == {"type", "text"} and _is_text(content):
            last_piece = pieces[-1] if pieces else None
            if isinstance(last_piece, _JoinedTexts):
                last_piece.texts.append(content["text"])
            else:
                pieces.append(last_piece := _JoinedTexts(kind, content["text"]))
            self._last_chunks = last_piece
        else:
            pieces.append(line)

    def _merge(
        self, key: _Key, members: Members, appended: bytes | None, growing_field: str, line: bytes, *, is_plain: bool
    ) -> None:
        """Merge an update of a call or terminal into what is known of it. ``appended``: what a chunk adds, to
        ``growing_field``; None for any other update."""
        pieces = self._find_or_add(key).pieces
        if not is_plain:
            pieces.append(line)
            return
        if not pieces or not isinstance(pieces[-1], _MergedUpdates):
            pieces.append(_MergedUpdates())
        merged = pieces[-1]
        assert isinstance(merged, _MergedUpdates)
        if appended is not None:
            merged.appended.append(appended)
            return
        if growing_field in members:
            merged.appended.clear()
        merged.members |= {name: raw for name, raw in members.items() if name not in _ID_MEMBERS}

    def _encode_piece(self, folded: _FoldedId, piece: "_JoinedTexts | _MergedUpdates | bytes") -> Iterator[bytes]:
        if isinstance(piece, bytes):
            yield piece
        elif isinstance(piece, _JoinedTexts):
            content = jsonrpc.dump({"type": "text", "text": "".join(piece.texts)})
            yield self._encode(piece.kind, {"messageId": jsonrpc.dump(folded.key[1]), "content": content})
        elif folded.key[0] == _CALL:
            is_first = folded.is_new and piece is folded.pieces[0]
            yield from self._encode_call(folded.key[1], piece, is_whole=is_first or "content" in piece.members)
        else:
            yield from self._encode_terminal(folded.key[1], piece)

    def _encode_call(self, id: str, merged: _MergedUpdates, *, is_whole: bool) -> Iterator[bytes]:
        fields, appended = dict(merged.members), merged.appended
        if is_whole and appended:
            content = fields.get("content", b"[]")
            items = raw_members.split_array(content) if content != b"null" else []
            fields["content"], appended = raw_members.join_array([*items, *appended]), []
        left_out = sum(truncate.cut_fields(fields, self._limit).values()) if self._limit else 0
        if left_out and is_whole:
            items = raw_members.split_array(fields.get("content", b"[]"))
            notice = raw_members.encode_text_item(truncate.make_notice(self._session_id, left_out))
            fields["content"] = raw_members.join_array([*items, notice])
        elif self._limit and appended:
            appended = self._shorten(appended)
        id_member = {"toolCallId": jsonrpc.dump(id)}
        if fields or is_whole:
            yield self._encode(update_kinds.TOOL_CALL_UPDATE, {**id_member, **fields})
        for item in appended:
            yield self._encode(update_kinds.TOOL_CALL_CHUNK, {**id_member, "content": item})

    def _shorten(self, appended: list[bytes]) -> list[bytes]:
        """What chunks add to the content of a call that was named before, cut to the limit."""
        all_items = raw_members.join_array(appended)
        if len(all_items) <= self._limit:
            return appended
        kept_items = truncate.shorten_array(all_items, self._limit)
        left_out = len(all_items) - len(raw_members.join_array(kept_items))
        return [*kept_items, raw_members.encode_text_item(truncate.make_notice(self._session_id, left_out))]

    def _encode_terminal(self, id: str, merged: _MergedUpdates) -> Iterator[bytes]:
        id_member = {"terminalId": jsonrpc.dump(id)}
        if merged.members:
            yield self._encode(update_kinds.TERMINAL, {**id_member, **merged.members})
        if output := b"".join(merged.appended):
            if self._limit and len(output) > self._limit:
                left_out = len(output) - self._limit
                output = truncate.make_notice(self._session_id, left_out).encode() + b"\n" + output[left_out:]
            data = binascii.b2a_base64(output, newline=False)
            yield self._encode(update_kinds.TERMINAL_CHUNK, {**id_member, "data": b'"%b"' % data})

    def _encode(self, kind: str, members: Members) -> bytes:
        return raw_members.encode_line(self._session_id, kind, members)


_ID_MEMBERS = frozenset({"sessionUpdate", "toolCallId", "terminalId"})


def _is_text(block: dict[str, object]) -> bool:
    return block["type"] == "text" and isinstance(block["text"], str)


def _read_plan_id(update: object) -> str | None:
    """The id of the plan that an update sets or removes."""
    return acp.text(acp.member(update, "plan"), "planId") or acp.text(update, "planId")
