"""Reads a line as a JSON-RPC 2.0 message, and writes the few messages that acp-proxy sends itself.

``read_message`` never raises: a line that is not a message becomes ``Opaque``, and of one nested too deeply to parse
only the outer levels are read. Messages carry the original bytes (``raw``), and only those are forwarded. Integers
beyond 64 bits may become floats, so parsed values must not be written back to a peer; ids keep their JSON text.

Everywhere in the core, ``raw`` is the bytes of a message, or of a part of one, without a newline, and a ``line`` ends
in its newline. Functions that only read JSON, or replace parts of it, take both as ``raw``, and what they return ends
as that did.
"""

import enum
import json
import math
import re
from collections.abc import Mapping
from json.encoder import encode_basestring
from typing import TYPE_CHECKING, NewType

import orjson
from msgspec import Struct

from acp_proxy.protocol import json_splice

if TYPE_CHECKING:
    RequestId = NewType("RequestId", str)
else:
    RequestId = str  # to call a NewType costs time, for each message
"""A request id as JSON text: ``1``, ``"1"``, ``1.0`` and ``true`` are four different ids."""

INVALID_REQUEST = -32600
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
REQUEST_CANCELLED = -32800
RESOURCE_NOT_FOUND = -32002

_WRITTEN_LEVELS = 250
"""The most levels that orjson is asked to write: it can at most 254."""
_READ_LEVELS = 64
"""The levels read of a line that is nested too deeply to parse; no code reads deeper than 8."""
_TOKEN = rb'"(?:[^"\\]++|\\.)*+"|[\[{]++|[\]}]++'


class Peer(enum.Enum):
    """One of the two programs on either side of acp-proxy."""

    CLIENT = "client"
    AGENT = "agent"

    __hash__ = object.__hash__  # requests are found by peer, and Enum's is slow

    other: "Peer"
    """The peer on the other side."""


Peer.CLIENT.other, Peer.AGENT.other = Peer.AGENT, Peer.CLIENT


class Request(Struct, frozen=True):
    """A request. ``raw``: its bytes without a newline, also of one in a batch; so in all classes below."""

    raw: bytes
    id: RequestId
    method: str
    params: object


class Notification(Struct, frozen=True):
    """A message with a method and no id."""

    raw: bytes
    method: str
    params: object


class Response(Struct, frozen=True):
    """An answer. ``id``: None if the line has no id. ``error``: None on success."""

    raw: bytes
    id: RequestId | None
    result: object
    error: object


class Batch(Struct, frozen=True):
    """A JSON array of messages."""

    raw: bytes
    messages: tuple["Message", ...]


class Opaque(Struct, frozen=True):
    """A line that is not a JSON-RPC message. ``is_json``: whether it is at least a JSON object or array."""

    raw: bytes
    is_json: bool


Message = Request | Notification | Response | Batch | Opaque


def read_message(raw: bytes) -> Message:
    """Read one line, with or without its newline. Never raises."""
    try:
        value = parse(raw)
    except RecursionError:
        value = _parse_outline(raw)
        if value is None:
            return Opaque(raw.removesuffix(b"\n"), is_json=True)
    except ValueError:
        return Opaque(raw.removesuffix(b"\n"), is_json=False)
    raw = raw.removesuffix(b"\n")  # a copy, which should not wait in memory for the parser
    try:
        if isinstance(value, list):
            return Batch(raw, tuple(_read_value(part, item) for part, item in zip(_cut_batch(raw), value, strict=True)))
        return _read_value(raw, value)
    except ValueError:
        return Opaque(raw, is_json=True)


def parse(raw: bytes | bytearray) -> object:
    """Parse JSON text. Unlike orjson, accepts a byte order mark, lone surrogates and deeper nesting.

    Raises ValueError if it is not JSON, RecursionError if it is nested too deeply to parse.
    """
    try:
        return orjson.loads(raw)
    except ValueError:
        text = json_splice.decode(raw).removeprefix("\ufeff")
        return json.loads(text, parse_int=_parse_integer, strict=True)


def parse_strictly(raw: bytes) -> object:
    """Like ``parse``, but raises ValueError for invalid UTF-8 too, because clients could not read it."""
    try:
        return orjson.loads(raw)
    except ValueError:
        raw.decode()
        return parse(raw)


def parse_leniently(raw: bytes | bytearray) -> object:
    """Like ``parse``, but never raises: None if it is not JSON, only the outer levels if it is nested too deeply."""
    try:
        return parse(raw)
    except RecursionError:
        return _parse_outline(raw)
    except ValueError:
        return None


def is_embeddable(raw: bytes) -> bool:
    """Whether orjson parses this JSON text one level deeper too, so that it can be embedded in a transcript's line."""
    try:
        return len(orjson.loads(b"[%b]" % raw)) == 1
    except ValueError:
        return False


def read_request_id(value: object, raw: bytes, *path: str) -> RequestId:
    """The JSON text of an id. ``value``: the parsed id; ``path``: the keys that lead to it in ``raw``.

    Strings are written anew, since one string has many spellings. Floats, arrays and objects are copied from ``raw``:
    a large integer is parsed as a float, and its digits must not change. Raises ValueError if the id is nested too
    deeply.
    """
    if type(value) is int:
        return RequestId(str(value))
    if type(value) is str:  # what json.dumps would call, without the encoder that it makes each time
        return RequestId(encode_basestring(value))
    if isinstance(value, float | list | dict):
        text = json_splice.decode(raw)
        start, end = json_splice.find_span(text, *path)
        return RequestId(text[start:end])
    try:
        return RequestId(json.dumps(value, ensure_ascii=False))
    except RecursionError:
        raise ValueError("nested too deeply") from None


def read_cancelled_id(cancel: Notification) -> RequestId | None:
    """The id that ``$/cancel_request`` names; None if it names none, or one nested too deeply to be a request's."""
    if not isinstance(cancel.params, dict) or "requestId" not in cancel.params:
        return None
    try:
        return read_request_id(cancel.params["requestId"], cancel.raw, "params", "requestId")
    except ValueError:
        return None


def encode_result(id: RequestId, value: object) -> bytes:
    """The line of a successful response."""
    return b"".join((b'{"jsonrpc":"2.0","id":', _encode_id(id), b',"result":', dump(value), b"}\n"))


def encode_error(id: RequestId, code: int, message: str, data: object = None) -> bytes:
    """The line of an error response."""
    body = dump({"code": code, "message": message} | ({"data": data} if data is not None else {}))
    return b"".join((b'{"jsonrpc":"2.0","id":', _encode_id(id), b',"error":', body, b"}\n"))


def encode_request(id: RequestId, method: str, params: object) -> bytes:
    """The line of a request."""
    parts = b'{"jsonrpc":"2.0","id":', _encode_id(id), b',"method":', dump(method), b',"params":', dump(params), b"}\n"
    return b"".join(parts)


def encode_notification(method: str, params: object) -> bytes:
    """The line of a notification."""
    return b"".join((b'{"jsonrpc":"2.0","method":', dump(method), b',"params":', dump(params), b"}\n"))


def dump(value: object) -> bytes:
    """Write a value as JSON text on one line, also with lone surrogates, which orjson refuses. NaN, the infinities, and
    values nested too deeply (about 250 levels) become null."""
    try:
        return orjson.dumps(value)
    except TypeError:
        return json.dumps(_make_writable(value, _WRITTEN_LEVELS), separators=(",", ":")).encode()


def equals_dump(raw: bytes, value: object) -> bool:
    """Whether ``raw`` is exactly what ``dump`` writes for its value. Then the same holds for every value inside it."""
    try:
        return orjson.dumps(value) == raw
    except TypeError:
        return False


def _parse_outline(raw: bytes | bytearray) -> object:
    """Parse JSON text with null for everything nested too deeply; None if the text is not JSON."""
    pieces, depth, kept_from = [], 0, 0
    for token in re.finditer(_TOKEN, raw, re.DOTALL):
        start, end = token.span()
        if raw[start] in b"[{":
            if depth <= _READ_LEVELS < depth + end - start:
                pieces.append(raw[kept_from : start + _READ_LEVELS - depth] + b"null")
            depth += end - start
        elif raw[start] in b"]}":
            if depth - (end - start) <= _READ_LEVELS < depth:
                kept_from = start + depth - _READ_LEVELS
            depth -= end - start
    try:
        return parse(b"".join([*pieces, raw[kept_from:]])) if depth == 0 else None
    except (ValueError, RecursionError):
        return None


def _read_value(raw: bytes, value: object) -> Message:
    if not isinstance(value, dict):
        return Opaque(raw, is_json=False)
    method = value.get("method")
    if isinstance(method, str):
        if "id" in value:
            return Request(raw, read_request_id(value["id"], raw, "id"), method, value.get("params"))
        return Notification(raw, method, value.get("params"))
    # JavaScript writes no result if that is undefined.
    is_answer = "result" in value or "error" in value or ("jsonrpc" in value and "id" in value)
    if is_answer and "method" not in value:
        id = read_request_id(value["id"], raw, "id") if "id" in value else None
        return Response(raw, id, value.get("result"), value.get("error"))
    return Opaque(raw, is_json=True)


def _cut_batch(raw: bytes) -> list[bytes]:
    text = json_splice.decode(raw)
    return [
        json_splice.encode(text[start:end])
        for start, end in json_splice.find_elements(text, json_splice.find_value(text)[0])
    ]


def make_printable(text: str) -> str:
    """Replace control and other unprintable characters with U+FFFD, so that a peer's text is safe in a terminal."""
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)


def _encode_id(id: RequestId) -> bytes:
    try:
        return id.encode()
    except UnicodeEncodeError:
        return json.dumps(json.loads(id)).encode()


def _make_writable(value: object, levels: int) -> object:
    if isinstance(value, Mapping):
        return {key: _make_writable(item, levels - 1) for key, item in value.items()} if levels else None
    if isinstance(value, list | tuple):
        return [_make_writable(item, levels - 1) for item in value] if levels else None
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _parse_integer(text: str) -> int | float:
    """Parse an integer; as a float if it is too long for Python to convert. Long integers are never read."""
    return int(text) if len(text) < 20 else float(text[:300])
