"""Takes lines of updates apart into the bytes of their members, and puts such lines together.

Values keep their JSON text, also ``1.0``, integers of any size and unknown members. Functions that take a line
(``raw``) raise ValueError or KeyError if it is not an update or is nested too deeply.
"""

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from acp_proxy.protocol import acp, json_splice, jsonrpc

T = TypeVar("T")
Members = dict[str, bytes]
"""An object's members: each name with the JSON text of its value."""

_HEAD = acp.UPDATE_PREFIX[:-1]
_USUAL = b',"update":'  # what official SDKs write after the session's id
_TAIL = 3  # the braces after the last member of an update: of the update, the parameters and the message


def taken_apart(raw: bytes, message: Mapping[str, Any] | None = None) -> tuple[Members, Members]:
    """The members of an update, and the members of ``params`` beside it, without the session id.

    ``message``: the parsed line, if known. It saves time, since most lines are exactly what ``jsonrpc.dump`` writes.
    """
    if message is not None and jsonrpc.is_dumped(raw, message):
        params = message["params"]
        return _dumped(params["update"]), _dumped(_beside(params))
    text = json_splice.decode(raw)
    if (at := _usual_place(raw)) is not None:
        spans = json_splice.members(text, at)
        if spans and max(end for _, end in spans.values()) + _TAIL == len(text):
            return _owned(text, spans), {}
    found = _params(text)
    return _owned(text, json_splice.members(text, found["update"][0])), _owned(text, _beside(found))


def asked_about(raw: bytes) -> Members:
    """The members of the ``toolCall`` in a permission request."""
    text = json_splice.decode(raw)
    return _owned(text, json_splice.members(text, _params(text)["toolCall"][0]))


def asked_about_subject(raw: bytes) -> Members:
    """The same in protocol version 2, where it is in the ``subject``."""
    text = json_splice.decode(raw)
    subject = json_splice.members(text, _params(text)["subject"][0])
    return _owned(text, json_splice.members(text, subject["toolCall"][0]))


def with_content(raw: bytes, content: bytes) -> bytes:
    """An update with another value of ``content``, given as JSON text; every other byte stays."""
    text = json_splice.decode(raw)
    span = json_splice.members(text, _params(text)["update"][0])["content"]
    return json_splice.encode(json_splice.replaced(text, [(span, json_splice.decode(content))]))


def content_of(raw: bytes) -> bytes:
    """The JSON text of an update's ``content``."""
    return taken_apart(raw)[0]["content"]


def update(session: str, kind: str, members: Mapping[str, bytes], around: Mapping[str, bytes] | None = None) -> bytes:
    """The line of an update. ``members``: beside its kind. ``around``: members of ``params`` beside the update."""
    body = b"".join(_written(members.items()))
    beside = b"".join(_written((around or {}).items()))
    named = jsonrpc.dump(kind)
    return b"".join((_HEAD, jsonrpc.dump(session), b',"update":{"sessionUpdate":', named, body, b"}", beside, b"}}\n"))


def items(array: bytes) -> list[bytes]:
    """The JSON texts of an array's items; empty if they are nested too deeply. Never raises ValueError."""
    text = json_splice.decode(array)
    try:
        return [json_splice.encode(text[start:end]) for start, end in json_splice.elements(text)]
    except ValueError:
        return []


def value(raw: bytes) -> object:
    """The value of a JSON text; None if it is nested too deeply. Never raises."""
    try:
        return jsonrpc.parse(raw)
    except (ValueError, RecursionError):
        return None


def array(items: Iterable[bytes]) -> bytes:
    """The JSON text of an array of these items."""
    return b"[" + b",".join(items) + b"]"


def text_item(text: str) -> bytes:
    """The JSON text of an item of a tool call's content with only this text."""
    return b'{"type":"content","content":{"type":"text","text":%b}}' % jsonrpc.dump(text)


def _written(members: Iterable[tuple[str, bytes]]) -> Iterable[bytes]:
    for key, value in members:
        yield b"," + jsonrpc.dump(key) + b":" + value


def _usual_place(raw: bytes) -> int | None:
    """The offset, in characters, of the update in a line written as official SDKs write it; else None."""
    id = acp.plain_update_session(raw)
    if id is None:
        return None
    at = len(acp.UPDATE_PREFIX) + len(id) + 1
    return len(json_splice.decode(raw[: at + len(_USUAL)])) if raw.startswith(_USUAL, at) else None


def _params(text: str) -> dict[str, json_splice.Span]:
    start = 1 if text.startswith("\ufeff") else 0
    return json_splice.members(text, json_splice.members(text, start)["params"][0])


def _beside(params: Mapping[str, T]) -> dict[str, T]:
    return {key: value for key, value in params.items() if key not in ("sessionId", "update")}


def _dumped(values: Mapping[str, object]) -> Members:
    """A copy of each, since these are held: what orjson returns takes four kilobytes, however short it is."""
    return {key: b"%b" % jsonrpc.dump(value) for key, value in values.items()}


def _owned(text: str, spans: Mapping[str, json_splice.Span]) -> Members:
    return {key: json_splice.encode(text[start:end]) for key, (start, end) in spans.items()}
