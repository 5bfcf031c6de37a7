"""What a transcript's entry tells of a conversation, read carefully: an update that can be told, or nothing.

Never raises. An update that is told has a kind and what its kind cannot do without; members of the wrong type that a
client reads as absent stay as they are.
"""

from collections.abc import Mapping

from acp_proxy.replay import update_lines
from acp_proxy.wire import acp
from acp_proxy.wire.record import Entry
from acp_proxy.wire.value import Value

TOOL_CALL = acp.TOOL_CALL
TOOL_CALL_UPDATE = "tool_call_update"
PLAN = "plan"
COMPACTIONS = frozenset({acp.COMPACTION, acp.COMPACTION_CHUNK})

CHUNKS = frozenset({acp.USER_CHUNK, acp.AGENT_CHUNK, acp.THOUGHT_CHUNK})


class Update(Value):
    """One update, its line already under the session that is told. ``message`` is the whole of it, as a value."""

    kind: str
    value: Mapping[str, object]
    message: Mapping[str, object]
    raw: bytes
    run: str

    @property
    def line(self) -> bytes:
        return self.raw + b"\n"


def read(entry: Entry, session: str, ids: frozenset[str]) -> Update | None:
    """The update of an entry, if it is one of these sessions and has what its kind needs."""
    message = entry.value
    if not isinstance(message, dict) or message.get("id") is not None:
        return None
    params = message.get("params")
    value = params.get("update") if isinstance(params, dict) else None
    if not isinstance(value, dict) or not isinstance(kind := value.get("sessionUpdate"), str):
        return None
    if not _is_good(kind, value) or (raw := own_line(entry, session, ids)) is None:
        return None
    return Update(kind, value, message, raw, entry.run)


def own_line(entry: Entry, session: str, ids: frozenset[str]) -> bytes | None:
    """The exact message, under the session that is told; None where it is another session's."""
    id = acp.session_id(acp.member(entry.value, "params"))
    if id not in ids or entry.raw is None:
        return None
    try:
        return entry.raw if id == session else update_lines.retold(entry.raw, session)
    except (ValueError, KeyError):
        return None


def is_block(value: object) -> bool:
    """Whether it can be a block of content: of some type; a text has its text."""
    if not isinstance(value, dict) or not isinstance(kind := value.get("type"), str):
        return False
    return kind != "text" or isinstance(value.get("text"), str)


def block_text(block: object) -> str | None:
    return acp.text(block, "text") if acp.text(block, "type") == "text" else None


def letters(text: str) -> str:
    """A text without its white space: echoes differ in that."""
    return "".join(text.split())


def _is_good(kind: str, value: Mapping[str, object]) -> bool:
    if kind in CHUNKS:
        return is_block(value.get("content"))
    if kind == PLAN:
        return isinstance(value.get("entries"), list)
    if kind in COMPACTIONS:
        return isinstance(value.get("compactionId"), str) and (kind == acp.COMPACTION or is_block(value.get("content")))
    return True
