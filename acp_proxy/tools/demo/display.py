"""What a user sees of a series of updates: the same for a live turn and for its replay, however it was cut.

Adjacent chunks of a message are one text. A tool call is all its updates together, at the place of the first one.
Updates outside the conversation (commands, usage, modes, the title) are left out.
"""

from dataclasses import dataclass, field
from typing import Any

SPEAKERS = {"user_message_chunk": "user", "agent_message_chunk": "agent", "agent_thought_chunk": "thought"}


@dataclass
class ShownItem:
    kind: str  # user, agent, thought, plan, tool call, image, …
    text: str
    about: dict[str, Any] = field(default_factory=dict)  # all that is known of a plan, a tool call or an image


def list_items(updates: list[dict[str, Any]]) -> list[ShownItem]:
    items: list[ShownItem] = []
    calls: dict[str, ShownItem] = {}
    message: tuple[str, Any] | None = None
    for update in updates:
        match update:
            case {"sessionUpdate": str(kind), "content": {"type": "text", "text": str(text)}} if kind in SPEAKERS:
                if message == (kind, update.get("messageId")) and items and items[-1].kind == SPEAKERS[kind]:
                    items[-1].text += text
                else:
                    items.append(ShownItem(SPEAKERS[kind], text))
                message = (kind, update.get("messageId"))
            case {"sessionUpdate": str(kind), "content": {"type": str(content)} as block} if kind in SPEAKERS:
                items.append(ShownItem(content, str(block.get("mimeType", "")), block))
            case {"sessionUpdate": "tool_call" | "tool_call_update", "toolCallId": str(call_id)}:
                if call_id not in calls:
                    calls[call_id] = ShownItem("tool call", "")
                    items.append(calls[call_id])
                _fold(calls[call_id], update)
            case {"sessionUpdate": "plan", "entries": list(entries)}:
                items.append(ShownItem("plan", "; ".join(str(entry.get("content")) for entry in entries), update))
    return items


def keep_last_plan(turn: list[ShownItem]) -> list[ShownItem]:
    """The items of one turn that a replay has: each plan replaces the one before it."""
    *replaced, _ = [at for at, item in enumerate(turn) if item.kind == "plan"] or [-1]
    return [item for at, item in enumerate(turn) if at not in replaced]


def _fold(call: ShownItem, update: dict[str, Any]) -> None:
    fresh = {key: value for key, value in update.items() if value is not None and key != "sessionUpdate"}
    call.about |= fresh
    call.text = f"{call.about.get('title', '')} ({call.about.get('status', 'pending')})"
