"""Reads the update in a transcript's entry, if a client can make sense of it.

Never raises. An update that is returned has a kind and the members that its kind requires. Other members stay as they
are, even if their type is wrong, since clients read them as absent.
"""

from collections.abc import Mapping

from msgspec import Struct

from acp_proxy.protocol import acp, jsonrpc, update_kinds
from acp_proxy.protocol.jsonrpc import Peer
from acp_proxy.protocol.update_kinds import Role
from acp_proxy.transcript.file_format import Entry


class Update(Struct, frozen=True):
    """An update. ``parsed``: the parsed ``params.update``. ``message``: the parsed line.

    ``raw``: the line without its newline, with the id of the replayed session. ``run``: the entry's run.
    """

    kind: str
    parsed: Mapping[str, object]
    message: Mapping[str, object]
    raw: bytes
    run: str

    @property
    def line(self) -> bytes:
        """The line with its newline."""
        return self.raw + b"\n"


def read(entry: Entry, session_id: str, session_ids: frozenset[str]) -> Update | None:
    """The update in an entry of a session in ``session_ids``, with ``session_id`` as its session; None if it is
    invalid."""
    message = entry.value
    if not isinstance(message, dict) or message.get("id") is not None:
        return None
    params = message.get("params")
    value = params.get("update") if isinstance(params, dict) else None
    if not isinstance(value, dict) or not isinstance(kind := value.get("sessionUpdate"), str):
        return None
    if not _has_required_members(kind, value) or (raw := read_raw(entry, session_id, session_ids)) is None:
        return None
    return Update(kind, value, message, raw, entry.run)


def read_line(line: bytes, run: str) -> Update | None:
    """The update in a line that acp-proxy made for the replay; None if it is invalid."""
    message = jsonrpc.parse(line)
    session_id = acp.session_id(acp.member(message, "params")) or ""
    return read(
        Entry("", run, Peer.AGENT, raw=line.removesuffix(b"\n"), value=message), session_id, frozenset({session_id})
    )


def read_raw(entry: Entry, session_id: str, session_ids: frozenset[str]) -> bytes | None:
    """The message of an entry, with ``session_id`` as its session id; None if it belongs to none of the
    ``session_ids``."""
    id = acp.session_id(acp.member(entry.value, "params"))
    if id not in session_ids or entry.raw is None:
        return None
    try:
        return entry.raw if id == session_id else acp.with_session_id(entry.raw, session_id)
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


def _has_required_members(kind: str, value: Mapping[str, object]) -> bool:
    if kind in update_kinds.V1_MESSAGE_CHUNKS:
        return is_block(value.get("content"))
    if kind == update_kinds.PLAN:
        return isinstance(value.get("entries"), list)
    if update_kinds.find(kind).role is Role.COMPACTION:
        return isinstance(value.get("compactionId"), str) and (
            kind == update_kinds.COMPACTION or is_block(value.get("content"))
        )
    return True
