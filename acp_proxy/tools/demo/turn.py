"""The turn that the bundled agent plays for any prompt: updates of each kind that an editor shows.

It starts nothing. Its texts have placeholders for those of the prompt (``fill``).
"""

from __future__ import annotations

import re

TYPE_CHECKING = False  # as in typing, which takes a fifth of a start
if TYPE_CHECKING:
    from typing import Any

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAIAAAACCAIAAAD91JpzAAAAEElEQVR42mMwnpkGRAwQCgAgugTJIIFV5gAAAABJRU5ErkJggg=="
CONTEXT_SIZE = 200_000  # tokens, as of the models that an editor usually meets
_PLACEHOLDER = re.compile(r"\{(\w+(?:\.\w+)?)\}")


def make_chunk(kind: str, text: str, message_id: str | None = None) -> dict[str, Any]:
    update: dict[str, Any] = {"sessionUpdate": kind, "content": {"type": "text", "text": text}}
    return update | ({} if message_id is None else {"messageId": message_id})


COMMANDS: list[dict[str, Any]] = [
    {
        "update": {
            "sessionUpdate": "available_commands_update",
            "availableCommands": [{"name": "help", "description": "Say what this agent can do"}],
        }
    }
]

BUILT_IN_TURN: list[dict[str, Any]] = [
    {"update": make_chunk("agent_thought_chunk", "A note would do. ", "thought-{n}")},
    {"update": make_chunk("agent_thought_chunk", "First a plan, then the edit.", "thought-{n}")},
    {
        "update": {
            "sessionUpdate": "plan",
            "entries": [
                {"content": "Write the note", "priority": "high", "status": "in_progress"},
                {"content": "Check it", "priority": "medium", "status": "pending"},
            ],
        }
    },
    {
        "update": {
            "sessionUpdate": "tool_call",
            "toolCallId": "edit-{n}",
            "title": "Edit note-{n}.md",
            "kind": "edit",
            "status": "in_progress",
            "locations": [{"path": "{cwd}/note-{n}.md", "line": 1}],
            "rawInput": {"path": "{cwd}/note-{n}.md"},
        }
    },
    {
        "update": {
            "sessionUpdate": "tool_call_update",
            "toolCallId": "edit-{n}",
            "status": "completed",
            "content": [
                {"type": "diff", "path": "{cwd}/note-{n}.md", "oldText": None, "newText": "{prompt}\n"},
            ],
        }
    },
    {
        "update": {
            "sessionUpdate": "agent_message_chunk",
            "content": {"type": "image", "data": PNG, "mimeType": "image/png"},
            "messageId": "answer-{n}",
        }
    },
    {"update": make_chunk("agent_message_chunk", "You said: ", "answer-{n}")},
    {"update": make_chunk("agent_message_chunk", "{prompt}", "answer-{n}")},
    {"update": make_chunk("agent_message_chunk", "\nThis is your prompt number {n}. ", "answer-{n}")},
    {"remember": True, "messageId": "answer-{n}"},
    {"update": {"sessionUpdate": "usage_update", "used": 1_000, "size": CONTEXT_SIZE}},
]
"""One update of each kind."""


def fill(value: Any, placeholders: dict[str, Any]) -> Any:
    """The value with every known {name} in its strings filled in; a string that is one name keeps the value's type."""
    match value:
        case str():
            only_name = _PLACEHOLDER.fullmatch(value)
            if only_name and only_name[1] in placeholders:
                return placeholders[only_name[1]]
            return _PLACEHOLDER.sub(lambda place: str(placeholders.get(place[1], place[0])), value)
        case list():
            return [fill(item, placeholders) for item in value]
        case dict():
            return {key: fill(item, placeholders) for key, item in value.items()}
        case _:
            return value


def describe_memory(earlier: list[str]) -> str:
    """What the agent says that it remembers."""
    match earlier:
        case []:
            return "I remember no earlier prompt."
        case [first]:
            return f"I remember 1 earlier prompt; the first was: {first}"
        case [first, *_]:
            return f"I remember {len(earlier)} earlier prompts; the first was: {first}"
    raise AssertionError
