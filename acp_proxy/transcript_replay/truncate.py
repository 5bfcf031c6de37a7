"""Cuts a tool call's fields down to a limit, and keeps them valid.

Short fields are kept first, then the content item by item, then ``rawInput`` and ``rawOutput``, then all others. Of a
text the beginning is kept; a diff, an image or a value of unknown shape is kept whole or not at all.
"""

from acp_proxy import shell_quote
from acp_proxy.protocol import acp, jsonrpc
from acp_proxy.transcript_replay import raw_members
from acp_proxy.transcript_replay.raw_members import Members

_FIELD_ORDER = ("status", "kind", "title", "name", "locations", "content", "rawInput", "rawOutput")


def cut_fields(fields: Members, limit: int) -> dict[str, int]:
    """Shorten the fields in place to ``limit`` bytes of JSON. Returns how many bytes are left out, by field."""
    left_out: dict[str, int] = {}
    room = limit
    for name in sorted(
        fields, key=lambda name: _FIELD_ORDER.index(name) if name in _FIELD_ORDER else len(_FIELD_ORDER)
    ):
        raw = fields[name]
        if len(raw) > room:
            shortened = _shorten_field(name, raw, room)
            left_out[name] = len(raw) - len(shortened)
            if shortened:
                fields[name] = shortened
            else:
                del fields[name]
            raw = shortened
        room -= len(raw)
    return left_out


def make_notice(session_id: str, left_out: int) -> str:
    """The text that says how many bytes were cut, and which command shows them."""
    command = f"acp-proxy show {shell_quote.quote(session_id)} --json"
    return f"[{left_out} bytes are left out here. To see all of it: {command}]"


def shorten(text: str, room: int) -> str:
    """The beginning of a text that takes at most ``room`` bytes as JSON."""
    text = text[: max(room, 0)]
    while text and (size := len(jsonrpc.dump(text))) > room:
        text = text[: min(len(text) - 1, len(text) * max(room, 0) // size)]
    return text


def _shorten_field(name: str, raw: bytes, room: int) -> bytes:
    if name == "content":
        return raw_members.join_array(shorten_array(raw, room))
    if name == "title":
        return jsonrpc.dump(shorten(str(raw_members.parse(raw)), room))
    return b""


def shorten_array(array: bytes, room: int) -> list[bytes]:
    """The items of an array that fit into one of ``room`` bytes. Of a text that does not fit, the beginning."""
    items = []
    room -= len(b"[]")
    for item in raw_members.split_array(array):
        shortened = item if len(item) < room else _shorten_item(item, room - 1)
        if shortened:
            items.append(shortened)
            room -= len(shortened) + len(b",")
    return items


def _shorten_item(item: bytes, room: int) -> bytes:
    value = raw_members.parse(item)
    content = acp.member(value, "content")
    text = acp.text(content, "text")
    if acp.text(value, "type") != "content" or not isinstance(content, dict) or text is None:
        return b""
    content["text"] = ""
    content["text"] = shorten(text, room - len(jsonrpc.dump(value)))
    return jsonrpc.dump(value) if content["text"] else b""
