"""Takes lines of updates apart into the bytes of their members, and makes such lines of members.

Values keep their JSON text, also ``1.0``, integers of any size and unknown members. Functions that take a line
(``raw``) raise ValueError or KeyError if it is not an update or is nested too deeply.
"""

import re
from collections.abc import Iterable, Mapping
from typing import TypeVar

from acp_proxy.protocol import acp, json_splice, jsonrpc

T = TypeVar("T")
Members = dict[str, bytes]
"""An object's members: each name with the JSON text of its value."""

_HEAD = acp.UPDATE_PREFIX[:-1]


def split_update(raw: bytes, message: object = None) -> tuple[Members, Members]:
    """The members of an update, and those of ``params`` beside it but the session id. ``message``: the parsed line."""
    message = parse(raw) if message is None else message
    if isinstance(message, dict) and jsonrpc.equals_dump(raw, message):  # most lines: this saves much time
        params = message["params"]
        return _dump_members(params["update"]), _dump_members(_select_other_params(params))
    text = json_splice.decode(raw)
    params = _find_members(text, "params")
    update = json_splice.find_members(text, params["update"][0])
    return _copy_members(text, update), _copy_members(text, _select_other_params(params))


def read_permission_call(raw: bytes) -> Members:
    """The members of the ``toolCall`` in a permission request."""
    text = json_splice.decode(raw)
    return _copy_members(text, _find_members(text, "params", "toolCall"))


def read_permission_call_v2(raw: bytes) -> Members:
    """The members of the ``toolCall`` in a permission request of version 2, where it is in the ``subject``."""
    text = json_splice.decode(raw)
    return _copy_members(text, _find_members(text, "params", "subject", "toolCall"))


def replace_content(raw: bytes, content: bytes) -> bytes:
    """An update with another value of ``content``, given as JSON text; every other byte stays."""
    return json_splice.with_value(raw, json_splice.decode(content), "params", "update", "content")


def find_content(raw: bytes) -> bytes:
    """The JSON text of an update's ``content``."""
    return split_update(raw)[0]["content"]


_SURROGATES = re.compile(
    rb"\\(?:u[dD][89abAB][\da-fA-F]{2}\\u[dD][c-fC-F][\da-fA-F]{2}|(u[dD][89a-fA-F][\da-fA-F]{2})|.)", re.DOTALL
)
"""Any escape of a JSON text: a pair of surrogates, half of one (with a group), or another."""


def encode_line(
    session_id: str, kind: str, members: Mapping[str, bytes], params_members: Mapping[str, bytes] | None = None
) -> bytes:
    """The line of an update. ``members``: the update's, beside its kind. ``params_members``: those of ``params``,
    beside the update and the session's id."""
    update_text = b"".join(_encode_members(members.items()))
    params_text = b"".join(_encode_members((params_members or {}).items()))
    kind_text = jsonrpc.dump(kind)
    return _make_readable(
        b"".join(
            (
                _HEAD,
                jsonrpc.dump(session_id),
                b',"update":{"sessionUpdate":',
                kind_text,
                update_text,
                b"}",
                params_text,
                b"}}\n",
            )
        )
    )


def _make_readable(line: bytes) -> bytes:
    """The line with U+FFFD in place of half surrogate pairs and of bytes that are not UTF-8. A strict parser refuses a
    line with these; live, that was one of the many lines of which this one was made."""
    if not line.isascii():
        try:
            line.decode()
        except UnicodeDecodeError:
            line = line.decode(errors="replace").encode()
    if line.rfind(b"\\ud") < 0 and line.rfind(b"\\uD") < 0:  # faster than ``in``
        return line
    return _SURROGATES.sub(lambda escape: escape[0] if escape[1] is None else b"\\ufffd", line)


def split_array(array: bytes) -> list[bytes]:
    """The JSON texts of an array's items; empty if they are nested too deeply. Never raises ValueError."""
    text = json_splice.decode(array)
    try:
        return [json_splice.encode(text[start:end]) for start, end in json_splice.find_elements(text)]
    except ValueError:
        return []


def parse(raw: bytes) -> object:
    """The value of a JSON text; None if it is nested too deeply. Never raises."""
    try:
        return jsonrpc.parse(raw)
    except (ValueError, RecursionError):
        return None


def join_array(items: Iterable[bytes]) -> bytes:
    """The JSON text of an array of these items."""
    return b"[" + b",".join(items) + b"]"


def encode_text_item(text: str) -> bytes:
    """The JSON text of an item of a tool call's content with only this text."""
    return b'{"type":"content","content":{"type":"text","text":%b}}' % jsonrpc.dump(text)


def _encode_members(members: Iterable[tuple[str, bytes]]) -> Iterable[bytes]:
    for key, value in members:
        yield b"," + jsonrpc.dump(key) + b":" + value


def _find_members(text: str, *path: str) -> dict[str, json_splice.Span]:
    return json_splice.find_members(text, json_splice.find_span(text, *path)[0])


def _select_other_params(params: Mapping[str, T]) -> dict[str, T]:
    return {key: value for key, value in params.items() if key not in ("sessionId", "update")}


def _dump_members(values: Mapping[str, object]) -> Members:
    """A copy of each, since these are held: what orjson returns takes four kilobytes, however short it is."""
    return {key: b"%b" % jsonrpc.dump(value) for key, value in values.items()}


def _copy_members(text: str, spans: Mapping[str, json_splice.Span]) -> Members:
    return {key: json_splice.encode(text[start:end]) for key, (start, end) in spans.items()}
