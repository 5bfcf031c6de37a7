"""What one update, or one permission request, says of a tool call.

Fields keep their JSON text. A field that is absent, null or of the wrong type says nothing: clients read it as absent.
"""

from collections.abc import Mapping

from acp_proxy.replay import lines
from acp_proxy.replay.lines import Members
from acp_proxy.replay.updates import TOOL_CALL, TOOL_CALL_UPDATE, Update
from acp_proxy.wire import acp, jsonrpc
from acp_proxy.wire.value import Value

UNFINISHED = frozenset({"pending", "in_progress"})
FAILED = b'"failed"'
_NAMES = ("sessionUpdate", "toolCallId")
_TYPES: dict[str, type] = {
    "title": str,
    "name": str,
    "kind": str,
    "status": str,
    "content": list,
    "locations": list,
    "_meta": dict,
}


class Call(Value):
    """``fields`` are those that say something; ``around`` stands beside the update in ``params``.

    ``line``: as it came, where that can be told. ``shows_terminal``: its content refers to one.
    """

    id: str
    run: str
    is_start: bool
    fields: Members
    around: Members
    status: str | None = None
    shows_terminal: bool = False
    line: bytes | None = None

    @property
    def sets_content(self) -> bool:
        return self.is_start or "content" in self.fields


def from_update(update: Update) -> Call | None:
    """None where it does not say which call it is about."""
    try:
        members, around = lines.taken_apart(update.raw, update.message)
    except (ValueError, KeyError):
        return None
    is_start = update.kind == TOOL_CALL
    is_whole = not is_start or isinstance(update.value.get("title"), str)
    return _read(update.value, members, around, update.run, is_start, update.line if is_whole else None)


def from_permission(raw: bytes, params: object, run: str) -> Call | None:
    value = acp.member(params, "toolCall")
    try:
        members = lines.asked_about(raw)
    except (ValueError, KeyError):
        return None
    return _read(value, members, {}, run, False, None)


def started(session: str, id: str, fields: Mapping[str, bytes], around: Mapping[str, bytes]) -> bytes:
    """A call's first line. Its title is its own, else its id."""
    name = jsonrpc.dump(id)
    return lines.update(session, TOOL_CALL, {"toolCallId": name, "title": name, **fields}, around)


def updated(session: str, id: str, fields: Mapping[str, bytes], around: Mapping[str, bytes]) -> bytes:
    return lines.update(session, TOOL_CALL_UPDATE, {"toolCallId": jsonrpc.dump(id), **fields}, around)


def _read(
    value: object, members: Members, around: Members, run: str, is_start: bool, line: bytes | None
) -> Call | None:
    id = acp.text(value, "toolCallId")
    if id is None or not isinstance(value, Mapping):
        return None
    return Call(
        id=id,
        run=run,
        is_start=is_start,
        fields={name: raw for name, raw in members.items() if _says(name, value.get(name))},
        around={name: raw for name, raw in around.items() if raw != b"null"},
        status=acp.text(value, "status"),
        shows_terminal=_shows_terminal(value.get("content")),
        line=line,
    )


def _says(name: str, value: object) -> bool:
    return name not in _NAMES and value is not None and isinstance(value, _TYPES.get(name, object))


def _shows_terminal(content: object) -> bool:
    return isinstance(content, list) and any(acp.text(item, "type") == "terminal" for item in content)
