"""Reads what an update or a permission request states about a tool call, and writes a call's updates.

Fields keep their JSON text. A field that is null or of the wrong type counts as absent, as it does for clients.
"""

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from acp_proxy.protocol import acp, agent_terminals, jsonrpc
from acp_proxy.protocol.update_kinds import TOOL_CALL, TOOL_CALL_UPDATE
from acp_proxy.transcript_replay import raw_members
from acp_proxy.transcript_replay.entry_updates import Update
from acp_proxy.transcript_replay.raw_members import Members

UNFINISHED_STATUSES = frozenset({"pending", "in_progress"})
FAILED = b'"failed"'
_NOT_FIELDS = ("sessionUpdate", "toolCallId")
_FIELD_TYPES: dict[str, type] = {
    "title": str,
    "name": str,
    "kind": str,
    "status": str,
    "content": list,
    "locations": list,
    "_meta": dict,
}


class CallStatement(Struct, frozen=True):
    """One statement about a tool call, made in the connection ``run``.

    ``is_start``: it is a ``tool_call`` rather than a ``tool_call_update``. ``fields``: the call's fields, without
    absent ones. ``params_members``: the members of ``params`` beside the update. ``shows_terminal``: its content refers
    to a terminal. ``line``: the original line, if it can be sent as it is. ``is_from_permission``: it comes from a
    permission request. ``has_terminal_output``: its ``_meta`` is about a terminal of the agent's own.
    """

    id: str
    run: str
    is_start: bool
    fields: Members
    params_members: Members
    status: str | None = None
    shows_terminal: bool = False
    line: bytes | None = None
    is_from_permission: bool = False
    has_terminal_output: bool = False

    @property
    def sets_content(self) -> bool:
        """Whether it replaces the call's content."""
        return self.is_start or "content" in self.fields

    @property
    def size(self) -> int:
        """The bytes of its values."""
        return sum(map(len, self.fields.values())) + sum(map(len, self.params_members.values()))

    def merge(self, other: "CallStatement") -> "CallStatement":
        """This statement and a later one about the same call as one. Neither may be a start."""
        content_source = other if other.sets_content else self
        return replace(
            other,
            run=content_source.run,
            fields=self.fields | other.fields,
            params_members=self.params_members | other.params_members,
            status=other.status if other.status is not None else self.status,
            shows_terminal=content_source.shows_terminal,
            line=None,
            has_terminal_output=self.has_terminal_output or other.has_terminal_output,
        )


def read_statement(update: Update) -> CallStatement | None:
    """What an update states; None if it does not name a call."""
    try:
        members, params_members = raw_members.split_update(update.raw, update.message)
    except (ValueError, KeyError):
        return None
    is_start = update.kind == TOOL_CALL
    is_whole = not is_start or isinstance(update.parsed.get("title"), str)
    line = update.line if is_whole else None
    return _make_statement(update.parsed, members, params_members, update.run, is_start=is_start, line=line)


def read_permission(raw: bytes, params: object, run: str) -> CallStatement | None:
    """What a ``session/request_permission`` states; None if it does not name a call."""
    value = acp.member(params, "toolCall")
    try:
        members = raw_members.read_permission_call(raw)
    except (ValueError, KeyError):
        return None
    asked_call = _make_statement(value, members, {}, run, is_start=False, line=None)
    return replace(asked_call, is_from_permission=True) if asked_call is not None else None


def encode_statement(session_id: str, call: CallStatement, *, is_start: bool) -> bytes | None:
    """The line of a statement, unchanged if possible; None if it would be an update without fields. ``is_start``: write
    it as a ``tool_call``."""
    if call.line is not None and call.is_start == is_start:
        return call.line
    if is_start:
        return encode_start(session_id, call.id, call.fields, call.params_members)
    return encode_update(session_id, call.id, call.fields, call.params_members) if call.fields else None


def encode_start(session_id: str, id: str, fields: Mapping[str, bytes], params_members: Mapping[str, bytes]) -> bytes:
    """The line of a ``tool_call``. Without a title among the fields, the id is the title."""
    name = jsonrpc.dump(id)
    return raw_members.encode_line(session_id, TOOL_CALL, {"toolCallId": name, "title": name, **fields}, params_members)


def encode_update(session_id: str, id: str, fields: Mapping[str, bytes], params_members: Mapping[str, bytes]) -> bytes:
    """The line of a ``tool_call_update``."""
    return raw_members.encode_line(
        session_id, TOOL_CALL_UPDATE, {"toolCallId": jsonrpc.dump(id), **fields}, params_members
    )


def _make_statement(
    value: object, members: Members, params_members: Members, run: str, *, is_start: bool, line: bytes | None
) -> CallStatement | None:
    id = acp.text(value, "toolCallId")
    if id is None or not isinstance(value, Mapping):
        return None
    return CallStatement(
        id=id,
        run=run,
        is_start=is_start,
        fields={name: raw for name, raw in members.items() if _is_stated(name, value.get(name))},
        params_members={name: raw for name, raw in params_members.items() if raw != b"null"},
        status=acp.text(value, "status"),
        shows_terminal=_shows_terminal(value.get("content")),
        line=line,
        has_terminal_output=agent_terminals.has_any(value.get("_meta")),
    )


def _is_stated(name: str, value: object) -> bool:
    return name not in _NOT_FIELDS and value is not None and isinstance(value, _FIELD_TYPES.get(name, object))


def _shows_terminal(content: object) -> bool:
    return isinstance(content, list) and any(acp.text(item, "type") == "terminal" for item in content)
