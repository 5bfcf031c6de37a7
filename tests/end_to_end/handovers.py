"""Sessions that were handed over, and what the agent, the editor and the transcript have of them."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.end_to_end.proxied import (
    INTERNAL_ERROR,
    NOT_FOUND,
    Proxied,
    Updates,
    entries,
    say,
)

NOTHING = ("--capabilities", "none")

CLOSING = "\n\nThis conversation continues in a new session of the agent, which has been given the record above."

ANSWERS: dict[str, Any] = {"turns": [[say("This is my answer.")]]}


def record_session(
    proxied: Proxied, *prompts: str, script: Any = None, agent: Sequence[str] = NOTHING
) -> tuple[str, Updates]:
    """Record a session of an agent that then ends. The session's id, and the updates that the editor saw."""
    with proxied.start(script, agent=agent) as editor:
        session = editor.new_session()
        seen: Updates = []
        for text in prompts:
            seen += [{"sessionUpdate": "user_message_chunk", "content": {"type": "text", "text": text}}]
            seen += editor.prompt(session, text)
        assert editor.end() == 0
    return session, seen


def read_memory(proxied: Proxied) -> list[dict[str, Any]]:
    """The agent's sessions, the oldest first."""
    sessions: list[dict[str, Any]] = [json.loads(path.read_text()) for path in proxied.memory.glob("*.json")]
    return sorted(sessions, key=lambda one: str(one["updated_at"]))


def given(proxied: Proxied, session: str) -> list[str]:
    """The prompts that the agent got in sessions other than the editor's."""
    others = [one for one in read_memory(proxied) if one["id"] != session]
    return [exchange["prompt"] for other in others for exchange in other["exchanges"]]


def user_words(path: Path) -> list[str]:
    """The texts of every prompt in a transcript."""
    messages = [entry.get("message", {}) for entry in entries(path)]
    prompts = [message["params"]["prompt"] for message in messages if message.get("method") == "session/prompt"]
    return [block["text"] for blocks in prompts for block in blocks]


def notes(path: Path, kind: str) -> list[dict[str, Any]]:
    return [entry["note"] for entry in entries(path) if entry.get("note", {}).get("type") == kind]


REFUSED = {"code": INTERNAL_ERROR, "message": "Session could not be restored"}


def refusing(method: str, error: dict[str, Any] = REFUSED) -> dict[str, Any]:
    return {"methods": {method: {"before": [say("half of the past")], "error": error}}}


UNKNOWN = [
    {"code": NOT_FOUND, "message": "gone"},
    {"code": INTERNAL_ERROR, "message": "No previous sessions found for this project"},
]

LISTS = ("--capabilities", "load,list,delete")


def continued(proxied: Proxied) -> tuple[str, str, Updates]:
    """A session that was handed over in a second process: its id, the agent's new one, and what the editor saw."""
    session, seen = record_session(proxied, "mend it", script=ANSWERS, agent=LISTS)
    with proxied.start(refusing("session/load", UNKNOWN[0]) | ANSWERS, agent=LISTS) as editor:
        editor.load(session)
        seen += [{"sessionUpdate": "user_message_chunk", "content": {"type": "text", "text": "go on"}}]
        seen += editor.prompt(session, "go on")
        assert [(row["sessionId"], row["title"]) for row in editor.sessions()] == [(session, "mend it")]
        assert editor.end() == 0
    [new] = [one["id"] for one in read_memory(proxied) if one["id"] != session]
    return session, new, seen
