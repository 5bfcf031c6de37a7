"""A line read as a message: nothing raises, and the message has the content of the line."""

import contextlib
import json

import orjson

from acp_proxy.protocol import acp, jsonrpc, update_kinds
from acp_proxy.protocol.jsonrpc import Batch, Message, Notification, Opaque, Request, Response
from fuzz.choices import Choices


def run(data: bytes) -> None:
    """The first byte decides: the rest is a line, or chooses a value that is written as one."""
    if data[:1] < b"\x80":
        read(data[1:].replace(b"\n", b""))
    else:
        choices = Choices(data[1:])
        value = choices.message()
        if choices.maybe():
            read(json.dumps(value, separators=choices.pick(((",", ":"), (" , ", " : ")))).encode())
        else:
            read(jsonrpc.dump(value))


def read(line: bytes) -> None:
    message = jsonrpc.read_message(line)
    assert type(jsonrpc.read_message(line + b"\n")) is type(message), "the newline makes no difference"
    looked_into(message, line)
    with contextlib.suppress(ValueError, RecursionError):  # our reference parser has limits too
        value = jsonrpc.parse(line)
        written = jsonrpc.dump(value)
        assert b"\n" not in written
        json.loads(written)
    if jsonrpc.is_embeddable(line):
        orjson.loads(b'{"embedded":%b}' % line)


def looked_into(message: Message, line: bytes) -> None:
    assert message.raw == line, "the line itself is what travels"
    match message:
        case Request(id=id):
            for answer in (jsonrpc.encode_result(id, {}), jsonrpc.encode_error(id, jsonrpc.INTERNAL_ERROR, "so it is")):
                assert answer.count(b"\n") == 1
                told = jsonrpc.read_message(answer)
                assert isinstance(told, Response)
                assert told.id == id or "\\ud" in ascii(id), "an answer finds its request"
            rewritten(message)
        case Notification():
            rewritten(message)
        case Batch(messages=messages):
            for item in messages:
                looked_into(item, item.raw)
        case Response() | Opaque():
            pass
    acp.find_plain_session_id(line)


def rewritten(message: Request | Notification) -> None:
    """The readers and writers of the protocol's fields give one named error, or another valid line."""
    for key in ("sessionId", "cwd", "cursor"):
        with contextlib.suppress(acp.InvalidParams):
            acp.optional_text(message.params, key)
            acp.required_text(message.params, key)
    update = acp.member(message.params, "update")
    update_kinds.is_conversation(acp.update_kind(update))
    acp.strings(message.params, "additionalDirectories")
    acp.has_capability(update, "title")
    with contextlib.suppress(ValueError):
        told = jsonrpc.read_message(acp.with_method(message.raw, "session/resume"))
        assert isinstance(told, type(message))
        assert told.method == "session/resume"
    if acp.session_id(message.params) is not None:
        with contextlib.suppress(ValueError):
            told = jsonrpc.read_message(acp.with_session_id(message.raw, "an\nother"))
            assert isinstance(told, type(message))
            assert acp.session_id(told.params) == "an\nother"
    if isinstance(acp.member(acp.member(update, "content"), "text"), str):
        with contextlib.suppress(ValueError):
            told = jsonrpc.read_message(acp.with_chunk_text(message.raw, "other words"))
            assert isinstance(told, type(message))
            assert acp.text(acp.member(acp.member(told.params, "update"), "content"), "text") == "other words"
