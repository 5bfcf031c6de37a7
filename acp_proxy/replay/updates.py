"""Reads the update in a transcript's entry, if a client can make sense of it.

Never raises. An update that is returned has a kind and the members that its kind requires. Other members stay as they
are, even if their type is wrong, since clients read them as absent.
"""

from collections.abc import Mapping

from acp_proxy.replay import update_lines
from acp_proxy.wire import acp, jsonrpc
from acp_proxy.wire.jsonrpc import Peer
from acp_proxy.wire.record import Entry
from acp_proxy.wire.value import Value

TOOL_CALL = acp.TOOL_CALL
TOOL_CALL_UPDATE = "tool_call_update"
PLAN = "plan"
COMPACTIONS = frozenset({acp.COMPACTION, acp.COMPACTION_CHUNK})

CHUNKS = frozenset({acp.USER_CHUNK, acp.AGENT_CHUNK, acp.THOUGHT_CHUNK})


class Update(Value):
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


def read(entry: Entry, session: str, ids: frozenset[str]) -> Update | None:
    """The update in an entry; None if it is invalid, or belongs to none of the sessions in ``ids``.

    ``session``: the id of the replayed session.
    """
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


def of_line(line: bytes, run: str) -> Update | None:
    """The update in a line that acp-proxy made for the replay; None if it is invalid."""
    message = jsonrpc.parse(line)
    session = acp.session_id(acp.member(message, "params")) or ""
    return read(Entry("", run, Peer.AGENT, raw=line.removesuffix(b"\n"), value=message), session, frozenset({session}))


def own_line(entry: Entry, session: str, ids: frozenset[str]) -> bytes | None:
    """The message of an entry, with ``session`` as its session id; None if it belongs to none of the ``ids``."""
    id = acp.session_id(acp.member(entry.value, "params"))
    if id not in ids or entry.raw is None:
        return None
    try:
        return entry.raw if id == session else update_lines.retold(entry.raw, session)
    except (ValueError, KeyError):
        return None


def is_block(value: object) -> bool:
    """Whether a value is a content block: an object with a type, and with a text if that is ``text``."""
    if not isinstance(value, dict) or not isinstance(kind := value.get("type"), str):
        return False
    return kind != "text" or isinstance(value.get("text"), str)


def block_text(block: object) -> str | None:
    """The text of a text block; None for any other block."""
    return acp.text(block, "text") if acp.text(block, "type") == "text" else None


def letters(text: str) -> str:
    """A text without white space, in which echoes differ from their prompts."""
    return "".join(text.split())


def _is_good(kind: str, value: Mapping[str, object]) -> bool:
    if kind in CHUNKS:
        return is_block(value.get("content"))
    if kind == PLAN:
        return isinstance(value.get("entries"), list)
    if kind in COMPACTIONS:
        return isinstance(value.get("compactionId"), str) and (kind == acp.COMPACTION or is_block(value.get("content")))
    return True
