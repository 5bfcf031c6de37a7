"""The lines of updates: taken apart into the bytes of their members, and put together again.

Values keep the JSON text that they had: ``1.0``, integers of any size, unknown members. Functions that take a line
apart raise ValueError or KeyError on what is no update, or is nested too deeply to tell.
"""

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from acp_proxy.wire import acp, jsonrpc, splice

T = TypeVar("T")
Members = dict[str, bytes]
"""An object's members, each value as its JSON text."""

_HEAD = acp.UPDATE_PREFIX[:-1]
_USUAL = b',"update":'  # what official SDKs write behind the session's id
_TAIL = 3  # the braces behind the last member of an update: its own, those of params and of the message


def taken_apart(raw: bytes, message: Mapping[str, Any] | None = None) -> tuple[Members, Members]:
    """An update's members, and the members of ``params`` beside it (session id left out).

    ``message``: its value, if that is known: most lines are written as we would, so that nothing has to be looked for.
    """
    if message is not None and jsonrpc.is_dumped(raw, message):
        params = message["params"]
        return _dumped(params["update"]), _dumped(_beside(params))
    text = splice.decode(raw)
    if (at := _usual_place(raw)) is not None:
        spans = splice.members(text, at)
        if spans and max(end for _, end in spans.values()) + _TAIL == len(text):
            return _owned(text, spans), {}
    found = _params(text)
    return _owned(text, splice.members(text, found["update"][0])), _owned(text, _beside(found))


def asked_about(raw: bytes) -> Members:
    """The members of the tool call that a permission request is about."""
    text = splice.decode(raw)
    return _owned(text, splice.members(text, _params(text)["toolCall"][0]))


def retold(raw: bytes, session: str) -> bytes:
    """A line under another session id; every other byte stays."""
    text = splice.decode(raw)
    span = _params(text)["sessionId"]
    return splice.encode(splice.replaced(text, [(span, splice.decode(jsonrpc.dump(session)))]))


def with_content(raw: bytes, content: bytes) -> bytes:
    """An update with another value for ``content``."""
    text = splice.decode(raw)
    span = splice.members(text, _params(text)["update"][0])["content"]
    return splice.encode(splice.replaced(text, [(span, splice.decode(content))]))


def content_of(raw: bytes) -> bytes:
    return taken_apart(raw)[0]["content"]


def update(session: str, kind: str, members: Mapping[str, bytes], around: Mapping[str, bytes] | None = None) -> bytes:
    """A line of ours. ``around`` stands beside the update."""
    body = b"".join(_written(members.items()))
    beside = b"".join(_written((around or {}).items()))
    named = jsonrpc.dump(kind)
    return b"".join((_HEAD, jsonrpc.dump(session), b',"update":{"sessionUpdate":', named, body, b"}", beside, b"}}\n"))


def items(array: bytes) -> list[bytes]:
    """An array's items; none where they are nested too deeply to tell."""
    text = splice.decode(array)
    try:
        return [splice.encode(text[start:end]) for start, end in splice.elements(text)]
    except ValueError:
        return []


def value(raw: bytes) -> object:
    """What a piece says; None where it is nested too deeply to tell."""
    try:
        return jsonrpc.parse(raw)
    except (ValueError, RecursionError):
        return None


def array(items: Iterable[bytes]) -> bytes:
    return b"[" + b",".join(items) + b"]"


def text_item(text: str) -> bytes:
    """An item of a tool call's content that is nothing but a text."""
    return b'{"type":"content","content":{"type":"text","text":%b}}' % jsonrpc.dump(text)


def _written(members: Iterable[tuple[str, bytes]]) -> Iterable[bytes]:
    for key, value in members:
        yield b"," + jsonrpc.dump(key) + b":" + value


def _usual_place(raw: bytes) -> int | None:
    """Where the update begins (in characters), in a line as official SDKs write it."""
    id = acp.plain_update_session(raw)
    if id is None:
        return None
    at = len(acp.UPDATE_PREFIX) + len(id) + 1
    return len(splice.decode(raw[: at + len(_USUAL)])) if raw.startswith(_USUAL, at) else None


def _params(text: str) -> dict[str, splice.Span]:
    start = 1 if text.startswith("\ufeff") else 0
    return splice.members(text, splice.members(text, start)["params"][0])


def _beside(params: Mapping[str, T]) -> dict[str, T]:
    return {key: value for key, value in params.items() if key not in ("sessionId", "update")}


def _dumped(values: Mapping[str, object]) -> Members:
    return {key: jsonrpc.dump(value) for key, value in values.items()}


def _owned(text: str, spans: Mapping[str, splice.Span]) -> Members:
    return {key: splice.encode(text[start:end]) for key, (start, end) in spans.items()}
