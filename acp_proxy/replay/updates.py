"""Reads the update in a transcript's entry, if a client can make sense of it.

Never raises. An update that is returned has a kind and the members that its kind requires. Other members stay as they
are, even if their type is wrong, since clients read them as absent.
"""

from collections.abc import Mapping

from msgspec import Struct

from acp_proxy.protocol import acp, jsonrpc, update_kinds
from acp_proxy.protocol.jsonrpc import Peer
from acp_proxy.protocol.update_kinds import Role
from acp_proxy.replay import update_lines
from acp_proxy.transcript.file_format import Entry


class Update(Struct, frozen=True):
    """An update. ``value``: the parsed ``params.update``. ``message``: the parsed line.

    ``raw``: the line without its newline, with the id of the replayed session. ``run``: the entry's run.
    """

    kind: str
    value: Mapping[str, object]
    message: Mapping[str, object]
    raw: bytes
    run: str

    @property
    def line(self) -> bytes:
        """The line with its newline."""
        return self.raw + b"\n"


def read(entry: Entry, session_id: str, ids: frozenset[str]) -> Update | None:
    """The update in an entry of a session in ``ids``, with ``session_id`` as its session; None if it is invalid."""
    message = entry.value
    if not isinstance(message, dict) or message.get("id") is not None:
        return None
    params = message.get("params")
    value = params.get("update") if isinstance(params, dict) else None
    if not isinstance(value, dict) or not isinstance(kind := value.get("sessionUpdate"), str):
        return None
    if not _has_required_members(kind, value) or (raw := find_line(entry, session_id, ids)) is None:
        return None
    return Update(kind, value, message, raw, entry.run)


def read_line(line: bytes, run: str) -> Update | None:
    """The update in a line that acp-proxy made for the replay; None if it is invalid."""
    message = jsonrpc.parse(line)
    session_id = acp.session_id(acp.member(message, "params")) or ""
    return read(
        Entry("", run, Peer.AGENT, raw=line.removesuffix(b"\n"), value=message), session_id, frozenset({session_id})
    )


def find_line(entry: Entry, session_id: str, ids: frozenset[str]) -> bytes | None:
    """The message of an entry, with ``session_id`` as its session id; None if it belongs to none of the ``ids``."""
    id = acp.session_id(acp.member(entry.value, "params"))
    if id not in ids or entry.raw is None:
        return None
    try:
        return entry.raw if id == session_id else acp.with_session(entry.raw, session_id)
    except (ValueError, KeyError):
        return None


def is_block(value: object) -> bool:
    """Whether a value is a content block: an object with a type, and with a text if that is ``text``."""
    if not isinstance(value, dict) or not isinstance(kind := value.get("type"), str):
        return False
    return kind != "text" or isinstance(value.get("text"), str)


def find_text(block: object) -> str | None:
    """The text of a text block; None for any other block."""
    return acp.text(block, "text") if acp.text(block, "type") == "text" else None


def fold_letters(text: str) -> str:
    """A text without white space, in which echoes differ from their prompts."""
    return "".join(text.split())


def _has_required_members(kind: str, value: Mapping[str, object]) -> bool:
    if kind in update_kinds.CHUNKS:
        return is_block(value.get("content"))
    if kind == update_kinds.PLAN:
        return isinstance(value.get("entries"), list)
    if update_kinds.find(kind).role is Role.COMPACTION:
        return isinstance(value.get("compactionId"), str) and (
            kind == update_kinds.COMPACTION or is_block(value.get("content"))
        )
    return True


# --- Joins adjacent chunks of one message, if nothing is lost by it.
#
# Texts of one kind and one ``messageId`` (or none) are joined. A chunk with anything else anywhere in its line, such
# as annotations, ``_meta`` or an unknown member other than null, stays alone. A chunk that stays alone keeps its
# bytes.


Key = tuple[str, str | None]
"""A chunk's kind and ``messageId``. Adjacent chunks with the same key are one message."""

_MESSAGE_MEMBERS = frozenset({"jsonrpc", "method", "params"})
_PARAMS_MEMBERS = frozenset({"sessionId", "update"})
_UPDATE_MEMBERS = frozenset({"sessionUpdate", "content", "messageId"})
_CONTENT_MEMBERS = frozenset({"type", "text"})


class Chunks:
    """A message so far: the line of its only chunk, or the text of several. ``key``: None if no chunk may join it."""

    def __init__(self, session_id: str, update: Update) -> None:
        self._session_id = session_id
        self.key = find_key(update)
        self._line: bytes | None = update.line
        self._first_text = _find_chunk_text(update)
        self._text = bytearray()

    def may_join(self, other: Key | None) -> bool:
        """Whether a chunk with this key can be added."""
        return self.key is not None and self.key == other

    def add(self, update: Update) -> None:
        """Add a chunk for which ``may_join`` holds."""
        self.add_chunks(_find_chunk_text(update))

    def add_chunks(self, text: str) -> None:
        """Add the text of more chunks with the same key."""
        self._begin_text()
        self._text += _encode_text(text)

    def take(self, other: "Chunks") -> None:
        """Add another message with the same key."""
        self._begin_text()
        self._text += other._text if other._line is None else _encode_text(other._first_text)

    def encode(self) -> bytes:
        """The message's line."""
        if self._line is not None or self.key is None:
            return self._line or b""
        kind, message_id = self.key
        content = b'{"type":"text","text":"' + self._text + b'"}'
        id_member = {"messageId": jsonrpc.dump(message_id)} if message_id is not None else {}
        return update_lines.encode(self._session_id, kind, {"content": content, **id_member})

    def _begin_text(self) -> None:
        if self._line is not None:
            self._text += _encode_text(self._first_text)
            self._line, self._first_text = None, ""


def find_key(update: Update) -> Key | None:
    """The key of a chunk; None if joining would lose something in it."""
    params, content = acp.member(update.message, "params"), update.value.get("content")
    objects = (
        (update.message, _MESSAGE_MEMBERS),
        (params, _PARAMS_MEMBERS),
        (update.value, _UPDATE_MEMBERS),
        (content, _CONTENT_MEMBERS),
    )
    if acp.text(content, "type") != "text" or not all(_has_only(value, known_names) for value, known_names in objects):
        return None
    message_id = update.value.get("messageId")
    return (update.kind, message_id) if message_id is None or isinstance(message_id, str) else None


def _has_only(value: object, known_names: frozenset[str]) -> bool:
    if not isinstance(value, dict):
        return False
    return value.keys() <= known_names or all(name in known_names or item is None for name, item in value.items())


def _find_chunk_text(update: Update) -> str:
    return acp.text(update.value.get("content"), "text") or ""


def _encode_text(text: str) -> bytes:
    """The JSON text of a string without quotes. If two chunks split a surrogate pair, joining them restores it."""
    return jsonrpc.dump(text)[1:-1]
