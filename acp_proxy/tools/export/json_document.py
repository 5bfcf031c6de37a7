"""A conversation as one JSON document, for programs. docs/export.md describes its content.

It is printable ASCII, written turn by turn.
"""

from collections.abc import Iterable, Iterator

from acp_proxy.views.conversation import ConversationTurn, Item, Note, Plan, SpokenMessage, Subagent, ToolCall
from acp_proxy.views.document import Choices, Head
from acp_proxy.views.sanitize import format_json

VERSION = 1
_SUMMARY = frozenset({"title", "kind", "status", "locations"})


def document(head: Head, turns: Iterable[ConversationTurn], choices: Choices) -> Iterator[str]:
    session_members = {
        "sessionId": head.session_id,
        "agent": dict(head.agent),
        "title": head.title,
        "cwd": head.cwd,
        "createdAt": head.created or None,
        "updatedAt": head.updated or None,
        "origin": head.origin,
    }
    yield f'{{"acp-conversation":{VERSION},\n"session":{format_json(session_members)},\n"turns":['
    separator = "\n"
    for turn in turns:
        yield separator + format_json(_encode_turn(turn, choices))
        separator = ",\n"
    yield "\n]}\n"


def _encode_turn(turn: ConversationTurn, choices: Choices) -> dict[str, object]:
    return {
        "number": turn.number,
        "startedAt": turn.started_at or None,
        "stopReason": turn.stop_reason,
        "error": turn.error,
        "items": [_encode_item(item, choices) for item in turn.items],
    }


def _encode_item(item: Item, choices: Choices) -> dict[str, object]:
    if isinstance(item, SpokenMessage):
        return {"type": item.speaker, "messageId": item.id, "content": [dict(block) for block in item.blocks]}
    if isinstance(item, ToolCall):
        is_full = choices.tools == "full"
        fields = {name: value for name, value in item.fields.items() if is_full or name in _SUMMARY}
        return {**fields, "type": "tool_call" if item.is_new else "tool_call_update", "toolCallId": item.id}
    if isinstance(item, Plan):
        return {"type": "plan", "entries": item.entries}
    if isinstance(item, Note):
        return {"type": "note", "kind": item.kind, "text": item.text}
    if isinstance(item, Subagent):
        items = [_encode_item(part, choices) for part in item.items]
        return {"type": "subagent", "sessionId": item.id, "title": item.title, "items": items}
    return {"type": "update", "update": dict(item.update)}
