"""Joins adjacent chunks of one message, if nothing is lost by it.

Texts of one kind and one ``messageId`` (or none) are joined. A chunk with anything else anywhere in its line, such as
annotations, ``_meta`` or an unknown member other than null, stays alone. A chunk that stays alone keeps its bytes.
"""

from acp_proxy.replay import update_lines
from acp_proxy.replay.updates import Update
from acp_proxy.wire import acp, jsonrpc

Key = tuple[str, str | None]
"""A chunk's kind and ``messageId``. Adjacent chunks with the same key are one message."""

_MESSAGE = frozenset({"jsonrpc", "method", "params"})
_PARAMS = frozenset({"sessionId", "update"})
_UPDATE = frozenset({"sessionUpdate", "content", "messageId"})
_CONTENT = frozenset({"type", "text"})


class Chunks:
    """A message so far: the line of its only chunk, or the text of several. ``key``: None if no chunk may join it."""

    def __init__(self, session: str, update: Update) -> None:
        self._session = session
        self.key = key(update)
        self._line: bytes | None = update.line
        self._first = _text(update)
        self._text = bytearray()

    def joins(self, other: Key | None) -> bool:
        """Whether a chunk with this key can be added."""
        return self.key is not None and self.key == other

    def add(self, update: Update) -> None:
        """Add a chunk for which ``joins`` holds."""
        self.go_on(_text(update))

    def go_on(self, text: str) -> None:
        """Add the text of more chunks with the same key."""
        self._begin()
        self._text += _written(text)

    def take(self, other: "Chunks") -> None:
        """Add another message with the same key."""
        self._begin()
        self._text += other._text if other._line is None else _written(other._first)

    def told(self) -> bytes:
        """The message's line."""
        if self._line is not None or self.key is None:
            return self._line or b""
        kind, message_id = self.key
        content = b'{"type":"text","text":"' + self._text + b'"}'
        more = {"messageId": jsonrpc.dump(message_id)} if message_id is not None else {}
        return update_lines.update(self._session, kind, {"content": content, **more})

    def _begin(self) -> None:
        if self._line is not None:
            self._text += _written(self._first)
            self._line, self._first = None, ""


def key(update: Update) -> Key | None:
    """The key of a chunk; None if joining would lose something in it."""
    params, content = acp.member(update.message, "params"), update.value.get("content")
    carried = ((update.message, _MESSAGE), (params, _PARAMS), (update.value, _UPDATE), (content, _CONTENT))
    if acp.text(content, "type") != "text" or not all(_has_only(value, known) for value, known in carried):
        return None
    message_id = update.value.get("messageId")
    return (update.kind, message_id) if message_id is None or isinstance(message_id, str) else None


def _has_only(value: object, known: frozenset[str]) -> bool:
    if not isinstance(value, dict):
        return False
    return value.keys() <= known or all(name in known or item is None for name, item in value.items())


def _text(update: Update) -> str:
    return acp.text(update.value.get("content"), "text") or ""


def _written(text: str) -> bytes:
    """The JSON text of a string without quotes. If two chunks split a surrogate pair, joining them restores it."""
    return jsonrpc.dump(text)[1:-1]
