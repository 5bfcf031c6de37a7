"""A conversation as a JSON document."""

import json
from typing import Any

from acp_proxy.tools.export import json_document
from acp_proxy.views.conversation import ConversationTurn, Note, OtherUpdate, Plan
from acp_proxy.views.document import Choices
from tests.views.turns import HEAD, call, message, put_everywhere, text, turn


def read(*turns: ConversationTurn, choices: Choices | None = None) -> Any:
    told = "".join(json_document.document(HEAD, turns, choices or Choices()))
    assert told.isascii()
    assert told.replace("\n", "").isprintable()
    return json.loads(told)


def test_a_document_has_the_session_and_its_turns() -> None:
    steps: list[object] = [{"content": "look", "status": "completed"}]
    update = {"sessionUpdate": "new", "x": 1}
    found = read(
        turn(message("user", "hello"), message("thought", "hm"), message("agent", "hi")),
        turn(
            call("Edit", text("ok"), kind="edit"),
            Plan(steps),
            Note("gap", "ENOSPC"),
            OtherUpdate(update),
            number=2,
            stop=None,
            error="no",
        ),
    )
    assert found == {
        "acp-conversation": 1,
        "session": {
            "sessionId": "sess-1",
            "agent": {"id": "my-agent-4f1c2d3e4a5b6c7d", "name": "my-agent", "version": "1.2.0"},
            "title": "Fix the login",
            "cwd": "/home/me/project",
            "createdAt": "2026-11-20T09:15:02.123Z",
            "updatedAt": "2026-11-20T09:17:00.000Z",
            "origin": "recorded",
        },
        "turns": [
            {
                "number": 1,
                "startedAt": "2026-11-20T09:15:02.123Z",
                "stopReason": "end_turn",
                "error": None,
                "items": [
                    {"type": "user", "messageId": None, "content": [{"type": "text", "text": "hello"}]},
                    {"type": "thought", "messageId": None, "content": [{"type": "text", "text": "hm"}]},
                    {"type": "agent", "messageId": None, "content": [{"type": "text", "text": "hi"}]},
                ],
            },
            {
                "number": 2,
                "startedAt": "2026-11-20T09:15:02.123Z",
                "stopReason": None,
                "error": "no",
                "items": [
                    {
                        "type": "tool_call",
                        "toolCallId": "call-1",
                        "title": "Edit",
                        "status": "completed",
                        "content": [text("ok")],
                        "kind": "edit",
                    },
                    {"type": "plan", "entries": steps},
                    {"type": "note", "kind": "gap", "text": "ENOSPC"},
                    {"type": "update", "update": update},
                ],
            },
        ],
    }


def test_a_summary_of_a_call_has_no_content() -> None:
    [one] = read(turn(call("Edit", text("ok"), kind="edit")), choices=Choices("summary"))["turns"][0]["items"]
    assert one == {
        "type": "tool_call", "toolCallId": "call-1", "title": "Edit", "status": "completed", "kind": "edit"
    }  # fmt: skip


def test_a_session_without_turns_is_a_document() -> None:
    assert read()["turns"] == []


def test_a_document_with_control_characters_is_valid() -> None:
    _, turns = put_everywhere("\x1b[2J\x9b31m\u202e\ud800\x7f")
    assert len(read(*turns)["turns"]) == 2
