"""Read one line as a JSON-RPC 2.0 message, and write the few messages that are ours.

``read_message`` never raises: what it cannot make sense of is ``Opaque``; of what is nested too deeply to be parsed it
sees the outer levels. It reads a copy; the line itself is what travels. Values are what the JSON says, except that
integers past 64 bits may have become floats: nothing here is ever encoded again for a peer (ids keep their own text).
"""

import enum
import json
import math
import re
from collections.abc import Mapping
from typing import NewType

import orjson

from acp_proxy.wire import splice
from acp_proxy.wire.value import Value

RequestId = NewType("RequestId", str)
"""An id as its JSON text: ``1``, ``"1"``, ``1.0`` and ``true`` are four different ids."""

INVALID_REQUEST = -32600
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
REQUEST_CANCELLED = -32800
RESOURCE_NOT_FOUND = -32002

_NESTING = 250  # orjson writes no more than 254 levels
_LOOKED_INTO = 64  # levels of a line that is nested too deeply to be parsed; nothing that is read stands deeper than 8
_TOKEN = rb'"(?:[^"\\]++|\\.)*+"|[\[{]++|[\]}]++'


class Peer(enum.Enum):
    """A side of the conversation."""

    CLIENT = "client"
    AGENT = "agent"

    @property
    def other(self) -> "Peer":
        return Peer.AGENT if self is Peer.CLIENT else Peer.CLIENT


class Request(Value):
    raw: bytes
    id: RequestId
    method: str
    params: object


class Notification(Value):
    raw: bytes
    method: str
    params: object


class Response(Value):
    """An answer; ``id`` is None where the line has none at all. ``error`` is None on success."""

    raw: bytes
    id: RequestId | None
    result: object
    error: object


class Batch(Value):
    raw: bytes
    messages: tuple["Message", ...]


class Opaque(Value):
    """JSON-RPC says nothing about it. ``is_json`` tells whether it is at least a JSON object or array."""

    raw: bytes
    is_json: bool


Message = Request | Notification | Response | Batch | Opaque


def read_message(raw: bytes) -> Message:
    """Look at one line (its newline may be there or not). ``raw`` of the result is the line without its newline."""
    raw = raw.removesuffix(b"\n")
    try:
        value = parse(raw)
    except RecursionError:
        if (value := _outline(raw)) is None:
            return Opaque(raw, is_json=True)
    except ValueError:
        return Opaque(raw, is_json=False)
    try:
        if isinstance(value, list):
            return Batch(raw, tuple(_message(part, item) for part, item in zip(_parts(raw), value, strict=True)))
        return _message(raw, value)
    except ValueError:
        return Opaque(raw, is_json=True)


def parse(raw: bytes) -> object:
    """The value of a JSON text; more lenient than orjson, which rejects a BOM, lone surrogates and deep nesting.

    Raises ValueError on what is no JSON, RecursionError on what is nested too deeply to tell.
    """
    try:
        return orjson.loads(raw)
    except ValueError:
        text = splice.decode(raw).removeprefix("\ufeff")
        return json.loads(text, parse_int=_integer, strict=True)


def parse_text(raw: bytes) -> object:
    """Parse JSON that must be UTF-8: no client could be told anything else."""
    try:
        return orjson.loads(raw)
    except ValueError:
        raw.decode()
        return parse(raw)


def look(raw: bytes) -> object:
    """What a line says, of one that is nested too deeply to be parsed its outer levels; None where it says nothing."""
    try:
        return parse(raw)
    except RecursionError:
        return _outline(raw)
    except ValueError:
        return None


def is_plain(raw: bytes) -> bool:
    """Whether orjson takes it, also one level deeper, so that it can be embedded in a line of our own."""
    try:
        return len(orjson.loads(b"[%b]" % raw)) == 1
    except ValueError:
        return False


def request_id(value: object, raw: bytes, *path: str) -> RequestId:
    """The id's own JSON text; a string's is made anew, since it has many spellings.

    All others but integers are looked up in the line: large integers come as floats too.

    Raises ValueError on what is nested too deeply.
    """
    if type(value) is int:
        return RequestId(str(value))
    if isinstance(value, float | list | dict):
        text = splice.decode(raw)
        start, end = splice.whole(text)
        for key in path:
            start, end = splice.members(text, start)[key]
        return RequestId(text[start:end])
    try:
        return RequestId(json.dumps(value, ensure_ascii=False))
    except RecursionError:
        raise ValueError("nested too deeply") from None


def result(id: RequestId, value: object) -> bytes:
    """A successful response of our own, as a line."""
    return b"".join((b'{"jsonrpc":"2.0","id":', _id(id), b',"result":', dump(value), b"}\n"))


def error(id: RequestId, code: int, message: str) -> bytes:
    """An error response of our own, as a line."""
    body = dump({"code": code, "message": message})
    return b"".join((b'{"jsonrpc":"2.0","id":', _id(id), b',"error":', body, b"}\n"))


def notification(method: str, params: object) -> bytes:
    return b"".join((b'{"jsonrpc":"2.0","method":', dump(method), b',"params":', dump(params), b"}\n"))


def dump(value: object) -> bytes:
    """JSON text of a value of ours, on one line. What orjson cannot write (lone surrogates), json does.

    Numbers that JSON does not have are null, and so is what is nested beyond all sense.
    """
    try:
        return orjson.dumps(value)
    except TypeError:
        return json.dumps(_writable(value, _NESTING), separators=(",", ":")).encode()


def is_dumped(raw: bytes, value: object) -> bool:
    """Whether a text is what ``dump`` makes of its value, and a part of it what that makes of the part's."""
    try:
        return orjson.dumps(value) == raw
    except TypeError:
        return False


def _outline(raw: bytes) -> object:
    """The value of a JSON text with null for what is nested too deeply; None where that cannot be told."""
    pieces, depth, at = [], 0, 0
    for token in re.finditer(_TOKEN, raw, re.DOTALL):
        start, end = token.span()
        if raw[start] in b"[{":
            if depth <= _LOOKED_INTO < depth + end - start:
                pieces.append(raw[at : start + _LOOKED_INTO - depth] + b"null")
            depth += end - start
        elif raw[start] in b"]}":
            if depth - (end - start) <= _LOOKED_INTO < depth:
                at = start + depth - _LOOKED_INTO
            depth -= end - start
    try:
        return parse(b"".join([*pieces, raw[at:]])) if depth == 0 else None
    except (ValueError, RecursionError):
        return None


def _message(raw: bytes, value: object) -> Message:
    if not isinstance(value, dict):
        return Opaque(raw, is_json=False)
    method = value.get("method")
    if isinstance(method, str):
        if "id" in value:
            return Request(raw, request_id(value["id"], raw, "id"), method, value.get("params"))
        return Notification(raw, method, value.get("params"))
    if "method" not in value and ("result" in value or "error" in value):
        id = request_id(value["id"], raw, "id") if "id" in value else None
        return Response(raw, id, value.get("result"), value.get("error"))
    return Opaque(raw, is_json=True)


def _parts(raw: bytes) -> list[bytes]:
    text = splice.decode(raw)
    return [splice.encode(text[start:end]) for start, end in splice.elements(text, splice.whole(text)[0])]


def printable(text: str) -> str:
    """Somebody else's text without control sequences, for a terminal."""
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)


def _id(id: RequestId) -> bytes:
    try:
        return id.encode()
    except UnicodeEncodeError:
        return json.dumps(json.loads(id)).encode()


def _writable(value: object, levels: int) -> object:
    if isinstance(value, Mapping):
        return {key: _writable(item, levels - 1) for key, item in value.items()} if levels else None
    if isinstance(value, list | tuple):
        return [_writable(item, levels - 1) for item in value] if levels else None
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _integer(text: str) -> int | float:
    """Python refuses to convert very long integers; nobody reads their value here."""
    return int(text) if len(text) < 20 else float(text[:300])
