"""Replays a transcript to a client of version 2, whatever version its parts are of.

A part of version 2 is replayed by ``V2Replayer``, and folded by ``V2Fold`` turn by turn if that is wanted. A part of
version 1 is replayed as to a client of version 1, and restated. A part ends where the next line is of the other
version. Notes belong to the part in which they are.

After a handover, the ids from before it are changed, since the agent's new session may use them again.
"""

import re
from collections.abc import Callable, Iterator, Mapping

from acp_proxy.protocol import acp, framing, json_splice, jsonrpc, update_kinds
from acp_proxy.transcript import file_format
from acp_proxy.transcript.chunk_runs import AlikeChunks
from acp_proxy.transcript.file_format import ACP_V1, Entry
from acp_proxy.transcript_replay import raw_members
from acp_proxy.transcript_replay.raw_members import Members
from acp_proxy.transcript_replay.replayer import Replayer
from acp_proxy.transcript_replay.v2_fold import V2Fold
from acp_proxy.transcript_replay.v2_replayer import V2Replayer


class V2ClientReplayer:
    """One replay. The methods are those of ``Replayer``."""

    def __init__(
        self, session_id: str, v1_replayer: Replayer, v2_replayer: V2Replayer, v2_fold: V2Fold | None = None
    ) -> None:
        """``v1_replayer``, ``v2_replayer``: new ones, of the same session. ``v2_fold``: folds the parts of version 2;
        None: they are replayed line by line."""
        self._v2_fold = v2_fold
        self._v1_replayer = v1_replayer
        self._v2_replayer = v2_replayer
        self._v1_as_v2 = V1ToV2Converter(session_id)
        self._is_v1 = False
        self.new_session_count = 0
        """How many new sessions of the agent continue this one, that of this load included."""
        self._new_sessions_so_far = 0

    def add(self, line_number: int, entry: Entry) -> list[bytes]:
        """Add the next entry. ``line_number``: its line in the transcript."""
        lines: list[bytes] = []
        is_v1 = entry.protocol_version == ACP_V1 if entry.peer is not None else self._is_v1
        begins_anew = file_format.begins_new_session(entry.note)
        if is_v1 != self._is_v1 or begins_anew:
            lines = self._end(entry.run if begins_anew else None)
            self._is_v1 = is_v1
            self._new_sessions_so_far += begins_anew
        if is_v1:
            return lines + self._adapt_lines(self._v1_replayer.add(line_number, entry))
        if acp.text(entry.value, "method") == acp.PROMPT:
            lines += self._adapt_lines(self._end_turn())
        return lines + self._adapt_lines(self._fold(self._v2_replayer.add(line_number, entry)))

    def add_chunks(self, line_number: int, chunks: AlikeChunks) -> list[bytes]:
        """Add entries that equal the last one except for time and text. ``line_number``: the line of the last one."""
        if self._is_v1:
            return self._adapt_lines(self._v1_replayer.add_chunks(line_number, chunks))
        lines = self._v2_fold.add_chunks(chunks) if self._v2_fold is not None else None
        return self._adapt_lines(
            self._fold(self._v2_replayer.add_chunks(line_number, chunks)) if lines is None else lines
        )

    def end(self) -> list[bytes]:
        """End the replay."""
        return self._end(None)

    def _end(self, resending_run: str | None) -> list[bytes]:
        """End the replay, or a part of it. ``resending_run``: the run whose open prompts belong to the next part."""
        if self._is_v1:
            return self._adapt_lines(self._v1_replayer.end_part())
        return self._adapt_lines([*self._fold(self._v2_replayer.end(resending_run=resending_run)), *self._end_turn()])

    def list_states(self) -> list[bytes]:
        """Nothing: in version 2 the agent itself has sent its state before its answer."""
        return []

    def _fold(self, lines: list[bytes]) -> list[bytes]:
        """Fold these lines of a turn, or return them if nothing is folded."""
        return self._v2_fold.add(lines) if self._v2_fold is not None else lines

    def _end_turn(self) -> list[bytes]:
        return self._v2_fold.end_piece() if self._v2_fold is not None else []

    def _adapt_lines(self, lines: list[bytes]) -> list[bytes]:
        lines = self._v1_as_v2.convert(lines) if self._is_v1 else lines
        if self._new_sessions_so_far >= self.new_session_count:
            return lines
        return prefix_ids(lines, f"acp-proxy-{self._new_sessions_so_far}-")


# --- Restates the lines of a replay in version 1 in the forms of version 2. ``protocol/v2_updates`` does the reverse.
#
# A chunk without a ``messageId`` gets one, a call becomes an upsert, a diff gets a patch, and the plan gets an id.
# Other lines keep their bytes. The same lines always give the same bytes.


_PLAN_ID = b'"acp-proxy-plan"'
_CLEARED_BY_START = ("title", "kind", "status", "content", "locations")
"""The fields that a second ``tool_call`` clears if it omits them."""
_CONTEXT_LINES = 3
"""How many unchanged lines a patch shows on each side."""


class V1ToV2Converter:
    """Restates one replay."""

    def __init__(self, session_id: str) -> None:
        self._session_id = session_id
        self._calls: set[str] = set()
        self._kinds: dict[str, str] = {}
        """By ``messageId``: the kind of its chunks. In version 2, an id belongs to one message."""
        self._speaker: str | None = None
        """The kind of the last update, if that was a chunk without an id."""
        self._named_count = 0

    def convert(self, lines: list[bytes]) -> list[bytes]:
        """Restate these items, each of which is one or more lines."""
        return [b"".join(map(self._convert, framing.split_lines(item))) for item in lines]

    def _convert(self, line: bytes) -> bytes:
        update = acp.read_update(line)
        kind = acp.update_kind(update) or ""
        last_speaker, self._speaker = self._speaker, None
        try:
            if kind in update_kinds.V1_MESSAGE_CHUNKS:
                return self._convert_chunk(line, kind, acp.text(update, "messageId"), last_speaker)
            if kind in update_kinds.V1_CALLS:
                return self._convert_call(line, kind, acp.text(update, "toolCallId") or "")
            return self._convert_plan(line) if kind == update_kinds.PLAN else line
        except (ValueError, KeyError):
            return line

    def _convert_chunk(self, line: bytes, kind: str, message_id: str | None, last_speaker: str | None) -> bytes:
        if message_id is not None and self._kinds.setdefault(message_id, kind) == kind:
            return line
        if message_id is not None:
            id = f"acp-proxy-{kind}-{message_id}"
        else:
            self._named_count += last_speaker != kind
            self._speaker, id = kind, f"acp-proxy-{self._named_count}"
        return self._rewrite(line, kind, lambda members: {**members, "messageId": jsonrpc.dump(id)})

    def _convert_call(self, line: bytes, kind: str, id: str) -> bytes:
        begins_again = kind == update_kinds.TOOL_CALL and id in self._calls
        self._calls.add(id)

        def change(members: Members) -> Members:
            fields = {name: raw for name, raw in members.items() if raw != b"null"}  # in version 2, null clears
            if "content" in fields:
                fields["content"] = raw_members.join_array(
                    map(_convert_item, raw_members.split_array(fields["content"]))
                )
            return {**fields, **{name: b"null" for name in _CLEARED_BY_START if begins_again and name not in fields}}

        return self._rewrite(line, update_kinds.TOOL_CALL_UPDATE, change)

    def _convert_plan(self, line: bytes) -> bytes:
        def change(members: Members) -> Members:
            entries = members.pop("entries")
            return {"plan": b'{"type":"items","planId":%b,"entries":%b}' % (_PLAN_ID, entries), **members}

        return self._rewrite(line, update_kinds.PLAN_UPDATE, change)

    def _rewrite(self, line: bytes, kind: str, change_members: Callable[[Members], Members]) -> bytes:
        members, params_members = raw_members.split_update(line.removesuffix(b"\n"))
        del members["sessionUpdate"]
        return raw_members.encode_line(self._session_id, kind, change_members(members), params_members)


def _convert_item(raw: bytes) -> bytes:
    value = raw_members.parse(raw)
    path, new_text = acp.text(value, "path"), acp.text(value, "newText")
    if not isinstance(value, Mapping) or value.get("type") != "diff" or path is None or new_text is None:
        return raw
    old_text = acp.text(value, "oldText")
    patch = {"format": "git_patch", "text": _make_patch(path, old_text, new_text)}
    change = {"operation": "add" if old_text is None else "modify", "path": path}
    meta = {"_meta": value["_meta"]} if "_meta" in value else {}
    return jsonrpc.dump({"type": "diff", "changes": [change], "patch": patch, **meta})


def _make_patch(path: str, old_text: str | None, new_text: str) -> str:
    """A patch with one hunk, from the first line that differs to the last. ``old_text``: None for a new file."""
    old_lines, new_lines = _split_lines(old_text or ""), _split_lines(new_text)
    start, shorter_count = 0, min(len(old_lines), len(new_lines))
    while start < shorter_count and old_lines[start] == new_lines[start]:
        start += 1
    equal_at_end = 0
    while equal_at_end < shorter_count - start and old_lines[-1 - equal_at_end] == new_lines[-1 - equal_at_end]:
        equal_at_end += 1
    first = max(start - _CONTEXT_LINES, 0)
    context_after = old_lines[len(old_lines) - equal_at_end :][:_CONTEXT_LINES]
    removed, added = old_lines[start : len(old_lines) - equal_at_end], new_lines[start : len(new_lines) - equal_at_end]
    hunk = [" " + line for line in old_lines[first:start]]
    hunk += ["-" + line for line in removed] + ["+" + line for line in added] + [" " + line for line in context_after]
    context_count = start - first + len(context_after)
    name = path.removeprefix("/")
    sizes = _format_range(first, context_count + len(removed)), _format_range(first, context_count + len(added))
    head = f"diff --git a/{name} b/{name}\n" + ("new file mode 100644\n" if old_text is None else "")
    if not removed and not added:
        return head
    head += "--- /dev/null\n" if old_text is None else f"--- a/{name}\n"
    text = "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in hunk)
    return f"{head}+++ b/{name}\n@@ -{sizes[0]} +{sizes[1]} @@\n{text}"


def _split_lines(text: str) -> list[str]:
    """The lines of a text, with their newlines. Git knows no other ends of lines; Python does."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def _format_range(first: int, count: int) -> str:
    return f"{first + 1 if count else first},{count}"


# --- Changes the ids in updates and permission requests of version 2, where an id belongs to one message, call,
# terminal or plan of a session.


_ID_NAMES = frozenset({"messageId", "toolCallId", "terminalId", "planId", "compactionId"})
_WITH_INNER_IDS = ("plan", "content", "toolCall")
"""The members of an update, or of the subject of a permission request, that may have ids inside."""


def prefix_ids(lines: list[bytes], prefix: str) -> list[bytes]:
    """Items of a replay, each of which is one or more lines, with this prefix to every id. Other bytes stay."""
    return [b"".join(_prefix_ids_of(line, prefix) for line in framing.split_lines(item)) for item in lines]


def _prefix_ids_of(line: bytes, prefix: str) -> bytes:
    params = acp.member(jsonrpc.parse_leniently(line), "params")
    name = "subject" if acp.member(params, "update") is None else "update"
    text = json_splice.decode(line)
    try:
        start, _ = json_splice.find_span(text, "params", name)
        return json_splice.encode(
            json_splice.replace_spans(text, list(_find_prefixed_ids(text, start, acp.member(params, name), prefix)))
        )
    except (ValueError, KeyError):
        return line


def _find_prefixed_ids(text: str, start: int, value: object, prefix: str) -> Iterator[tuple[json_splice.Span, str]]:
    """The new ids of an object that begins at ``start``. Raises ValueError."""
    if not isinstance(value, Mapping) or not any(name in value for name in (*_ID_NAMES, *_WITH_INNER_IDS)):
        return
    spans = json_splice.find_members(text, start)
    for name in _ID_NAMES & value.keys():
        if isinstance(id := value[name], str):
            yield spans[name], json_splice.decode(jsonrpc.dump(prefix + id))
    for name in _WITH_INNER_IDS:
        inner = value.get(name)
        if isinstance(inner, list):
            for (item_start, _), item in zip(json_splice.find_elements(text, spans[name][0]), inner, strict=True):
                yield from _find_prefixed_ids(text, item_start, item, prefix)
        elif isinstance(inner, Mapping):
            yield from _find_prefixed_ids(text, spans[name][0], inner, prefix)
