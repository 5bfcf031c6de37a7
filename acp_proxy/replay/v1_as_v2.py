"""Restates the lines of a replay in version 1 in the forms of version 2. ``protocol/v2_updates`` does the reverse.

A chunk without a ``messageId`` gets one, a call becomes an upsert, a diff gets a patch, and the plan gets an id.
Other lines keep their bytes. The same lines always give the same bytes.
"""

from collections.abc import Callable, Mapping

from acp_proxy.protocol import acp, framing, jsonrpc, update_kinds
from acp_proxy.replay import update_lines
from acp_proxy.replay.update_lines import Members

_PLAN_ID = b'"acp-proxy-plan"'
_CLEARED = ("title", "kind", "status", "content", "locations")
"""The fields that a second ``tool_call`` clears if it omits them."""
_CONTEXT = 3
"""How many unchanged lines a patch shows on each side."""


class V1AsV2:
    """Restates one replay."""

    def __init__(self, session: str) -> None:
        self._session = session
        self._calls: set[str] = set()
        self._kinds: dict[str, str] = {}
        """By ``messageId``: the kind of its chunks. In version 2, an id belongs to one message."""
        self._speaker: str | None = None
        """The kind of the last update, if that was a chunk without an id."""
        self._named = 0

    def convert(self, lines: list[bytes]) -> list[bytes]:
        """Restate these items, each of which is one or more lines."""
        return [b"".join(map(self._convert, framing.cut(item))) for item in lines]

    def _convert(self, line: bytes) -> bytes:
        update = acp.update_of(line)
        kind = acp.update_kind(update) or ""
        before, self._speaker = self._speaker, None
        try:
            if kind in update_kinds.CHUNKS:
                return self._convert_chunk(line, kind, acp.text(update, "messageId"), before)
            if kind in update_kinds.CALLS:
                return self._convert_call(line, kind, acp.text(update, "toolCallId") or "")
            return self._convert_plan(line) if kind == update_kinds.PLAN else line
        except (ValueError, KeyError):
            return line

    def _convert_chunk(self, line: bytes, kind: str, message: str | None, before: str | None) -> bytes:
        if message is not None and self._kinds.setdefault(message, kind) == kind:
            return line
        if message is not None:
            id = f"acp-proxy-{kind}-{message}"
        else:
            self._named += before != kind
            self._speaker, id = kind, f"acp-proxy-{self._named}"
        return self._change(line, kind, lambda members: {**members, "messageId": jsonrpc.dump(id)})

    def _convert_call(self, line: bytes, kind: str, id: str) -> bytes:
        begins_again = kind == update_kinds.TOOL_CALL and id in self._calls
        self._calls.add(id)

        def change(members: Members) -> Members:
            said = {name: raw for name, raw in members.items() if raw != b"null"}  # in version 2, null clears
            if "content" in said:
                said["content"] = update_lines.join_array(map(_convert_item, update_lines.split_array(said["content"])))
            return {**said, **{name: b"null" for name in _CLEARED if begins_again and name not in said}}

        return self._change(line, update_kinds.TOOL_CALL_UPDATE, change)

    def _convert_plan(self, line: bytes) -> bytes:
        def change(members: Members) -> Members:
            entries = members.pop("entries")
            return {"plan": b'{"type":"items","planId":%b,"entries":%b}' % (_PLAN_ID, entries), **members}

        return self._change(line, update_kinds.PLAN_UPDATE, change)

    def _change(self, line: bytes, kind: str, change: Callable[[Members], Members]) -> bytes:
        members, around = update_lines.split(line.removesuffix(b"\n"))
        del members["sessionUpdate"]
        return update_lines.encode(self._session, kind, change(members), around)


def _convert_item(raw: bytes) -> bytes:
    """An item of a call's content."""
    value = update_lines.parse(raw)
    path, new = acp.text(value, "path"), acp.text(value, "newText")
    if not isinstance(value, Mapping) or value.get("type") != "diff" or path is None or new is None:
        return raw
    old = acp.text(value, "oldText")
    patch = {"format": "git_patch", "text": _make_patch(path, old, new)}
    change = {"operation": "add" if old is None else "modify", "path": path}
    more = {"_meta": value["_meta"]} if "_meta" in value else {}
    return jsonrpc.dump({"type": "diff", "changes": [change], "patch": patch, **more})


def _make_patch(path: str, old: str | None, new: str) -> str:
    """A patch with one hunk, from the first line that differs to the last. ``old``: None for a new file."""
    before, after = (old or "").splitlines(keepends=True), new.splitlines(keepends=True)
    start, shorter = 0, min(len(before), len(after))
    while start < shorter and before[start] == after[start]:
        start += 1
    end = 0
    while end < shorter - start and before[-1 - end] == after[-1 - end]:
        end += 1
    first = max(start - _CONTEXT, 0)
    behind = before[len(before) - end :][:_CONTEXT]
    removed, added = before[start : len(before) - end], after[start : len(after) - end]
    hunk = [" " + line for line in before[first:start]]
    hunk += ["-" + line for line in removed] + ["+" + line for line in added] + [" " + line for line in behind]
    around = start - first + len(behind)
    name = path.removeprefix("/")
    sizes = _format_range(first, around + len(removed)), _format_range(first, around + len(added))
    head = f"diff --git a/{name} b/{name}\n"
    head += "new file mode 100644\n--- /dev/null\n" if old is None else f"--- a/{name}\n"
    text = "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in hunk)
    return f"{head}+++ b/{name}\n@@ -{sizes[0]} +{sizes[1]} @@\n{text}"


def _format_range(first: int, count: int) -> str:
    return f"{first + 1 if count else first},{count}"
