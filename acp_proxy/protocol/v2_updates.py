"""Reads updates of protocol version 2 as version 1 would write them, one at a time and without memory. Those of version
1 stay as they are, except that what proves nothing in a comparison becomes a plan.

A message is a chunk, a patch is a diff for each of its hunks, and a call's content is text where version 1 has no form
for it. ``transcript/v2_entries`` does the same for whole transcripts, and knows what messages, calls, terminals and
plans became. Accepts any value, and never raises.
"""

import binascii
from collections.abc import Mapping

from acp_proxy.protocol import acp, update_kinds
from acp_proxy.protocol.git_patch import PatchedFiles, read_patch
from acp_proxy.protocol.update_kinds import ComparedBy

FINAL_STATUSES = frozenset({"completed", "failed", "cancelled"})
"""The statuses of calls and compactions that have ended."""
_STATUSES = {"cancelled": "failed", "paused": "in_progress"}
_FENCE = "```"
_OWN_META = "acp-proxy"
_HUNK_META = {_OWN_META: {"isHunk": True}}
"""Marks a diff that has only a part of the file: version 1 has no other form for it."""

_NEUTRAL_STAND_IN = {"sessionUpdate": update_kinds.PLAN}
"""Stands for an update that proves nothing: of a plan, nothing is compared."""


def normalize_to_v1(update: object) -> object:
    """An update of either version, as version 1 would have it, to compare it with what is known. What proves nothing
    becomes a plan; other updates stay as they are, as most of version 1 do."""
    row = update_kinds.find(acp.update_kind(update))
    if row.chunk is not None:
        blocks = [block for block in acp.items(update, "content") if isinstance(block, dict)]
        return {
            "sessionUpdate": row.chunk,
            "content": _join_blocks(blocks),
            "messageId": acp.text(update, "messageId"),
        }
    if row.name == update_kinds.TOOL_CALL_CHUNK:
        return {"sessionUpdate": update_kinds.TOOL_CALL_UPDATE, "toolCallId": acp.text(update, "toolCallId")}
    if row.compared_by is ComparedBy.WHAT_FOLLOWS and row.name != update_kinds.PLAN:
        return _NEUTRAL_STAND_IN  # nothing of it is compared
    return update


def read_replay_as_v1(updates: list[object]) -> list[object]:
    """The updates of a replay as version 1 would have them, one for each. One that is replaced later says nothing.

    ``V2AsV1`` cannot do this: at once, it has no way to take back words that are replaced later, so they would count as
    unknown; at the end of a turn, nobody would know which line an update came from.
    """
    if not any(acp.update_kind(update) in update_kinds.CHUNK_OF for update in updates):
        return [normalize_to_v1(update) for update in updates]
    v1_updates: list[object] = []
    by_message: dict[tuple[str, str | None], list[int]] = {}
    for update in updates:
        kind = acp.update_kind(update) or ""
        indexes = by_message.setdefault((update_kinds.CHUNK_OF.get(kind, kind), acp.text(update, "messageId")), [])
        if kind in update_kinds.CHUNK_OF and isinstance(update, Mapping) and "content" in update:
            for index in indexes:
                v1_updates[index] = _NEUTRAL_STAND_IN
            indexes.clear()
        if kind in update_kinds.CHUNK_OF or kind in update_kinds.V1_MESSAGE_CHUNKS:
            indexes.append(len(v1_updates))
        v1_updates.append(normalize_to_v1(update))
    return v1_updates


def _join_blocks(blocks: list[dict[str, object]]) -> object:
    """One block that says the same as all of these, as far as their texts go."""
    if len(blocks) == 1:
        return blocks[0]
    return {"type": "text", "text": "".join(acp.text(block, "text") or "" for block in blocks)}


def decode_output(update: object) -> bytes | None:
    """The bytes that a terminal's update adds or sets; None if it says nothing about them."""
    data = acp.text(update, "data")
    if data is None:
        return None
    try:
        return binascii.a2b_base64(data)
    except ValueError:
        return b""


def status_as_v1(value: object) -> object:
    """A call's status in version 1."""
    return _STATUSES.get(value, value) if isinstance(value, str) else value


def item_as_v1(value: object, terminal: str | None) -> list[object]:
    """What version 1 has for an item of a call's content. ``terminal``: the text of the terminal that it refers to."""
    match acp.text(value, "type"):
        case "terminal":
            return [make_text_item(terminal or "[terminal output was not recorded]")]
        case "diff":
            return _make_diffs(value) or [make_text_item(_read_diff(value))]
        case _:
            return [value]


def list_diff_paths(content: list[object]) -> list[str]:
    """The files that the diffs in a call's content change; of one that is moved, both paths."""
    changes = [change for item in content if acp.text(item, "type") == "diff" for change in acp.items(item, "changes")]
    return [path for change in changes for path in _list_paths(change)]


def is_hunk(item: object) -> bool:
    """Whether a diff of version 1 was made of a hunk, and so has only a part of the file."""
    return acp.member(acp.member(acp.member(item, "_meta"), _OWN_META), "isHunk") is True


def permission_call_as_v1(subject: object, title: str | None, own_id: str) -> dict[str, object]:
    """The call that a permission request is about. ``title``: the request's, for a request about something else.
    ``own_id``: for a request about no call, since version 1 needs an id."""
    call = acp.member(subject, "toolCall")
    if not isinstance(call, Mapping):
        return {"toolCallId": acp.text(subject, "toolCallId") or own_id, "title": title}
    return {name: value for name, value in call.items() if name not in ("content", "status") and value is not None}


def make_text_item(text: str) -> dict[str, object]:
    """An item of a call's content with only this text."""
    return {"type": "content", "content": {"type": "text", "text": text}}


def fence(text: str, language: str = "") -> str:
    """A text in a Markdown code fence."""
    fence = _FENCE
    while fence in text:
        fence += "`"
    return f"{fence}{language}\n{text.removesuffix(chr(10))}\n{fence}"


def explain_exit(status: object) -> str | None:
    """How a command ended, by its ``exitStatus``; None if that says nothing."""
    code, signal = acp.member(status, "exitCode"), acp.text(status, "signal")
    if type(code) is int:
        return f"[exited with code {code}]"
    return f"[ended by {signal}]" if signal is not None else None


def _make_diffs(value: object) -> list[object]:
    """The diffs of version 1 that say what one of version 2 does; none if its patch does not have every change."""
    patch = acp.member(value, "patch")
    patches = read_patch(acp.text(patch, "text") or "") if acp.text(patch, "format") == "git_patch" else []
    changes, diffs = acp.items(value, "changes"), list[object]()
    files, is_only_one = PatchedFiles(patches), len(changes) == len(patches) == 1
    for change in changes:
        path = acp.text(change, "path") or ""
        patch_of_file = patches[0] if is_only_one else files.find(path)
        hunks = [("".join(old), "".join(new)) for old, new in patch_of_file.hunks] if patch_of_file else []
        match acp.text(change, "operation"), hunks:
            case "add", [(_, new)]:
                diffs.append({"type": "diff", "path": path, "oldText": None, "newText": new})
            case "delete", [(old, _)]:
                meta = {"kind": "delete"}
                diffs.append({"type": "diff", "path": path, "oldText": old, "newText": "", "_meta": meta})
            case "modify", [_, *_]:
                diffs += [
                    {"type": "diff", "path": path, "oldText": old, "newText": new, "_meta": _HUNK_META}
                    for old, new in hunks
                ]
            case _:
                return []
    return diffs


def _read_diff(value: object) -> str:
    patch = acp.text(acp.member(value, "patch"), "text")
    if patch is not None:
        return fence(patch, "diff")
    return "\n".join(map(_describe_change, acp.items(value, "changes")))


def _describe_change(change: object) -> str:
    if not isinstance(change, Mapping):
        return ""
    return f"{acp.text(change, 'operation') or 'change'} {' -> '.join(_list_paths(change))}"


def _list_paths(change: object) -> list[str]:
    """The path of a changed file, after the one that it was moved or copied from."""
    return [path for name in ("oldPath", "path") if (path := acp.text(change, name))]
