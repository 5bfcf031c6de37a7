"""What is recorded of real conversations, what a list and a load show of it, and what is never recorded."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from acp_proxy.tools.demo.display import list_items
from tests.client import RequestFailed, first_option
from tests.end_to_end.proxied import (
    INTERNAL_ERROR,
    Editor,
    Loaded,
    Proxied,
    entries,
    say,
    texts,
)
from tests.stored import read_files


def load_in_new_process(proxied: Proxied, session: str) -> Loaded:
    """A load of the session in a new process."""
    with proxied.editor() as editor:
        editor.initialize()
        return editor.load(session)


def only_session(editor: Editor) -> dict[str, Any]:
    [session] = editor.sessions()
    return session


def word_of(entry: dict[str, Any]) -> str:
    """What a line of a transcript is about, in one word."""
    message = entry.get("message", {})
    if "acp-transcript" in entry:
        return "header"
    if "note" in entry:
        return f"note:{entry['note']['type']}"
    if message.get("method") == "session/update":
        return str(message["params"]["update"]["sessionUpdate"])
    return str(message.get("method") or f"answer:{entry['of']}")


# --- updates at unusual moments


def test_updates_before_and_after_answers_are_recorded_in_order(proxied: Proxied) -> None:
    with proxied.editor("early-updates") as editor:
        session = editor.open()
        editor.prompt(session, "hello")
        editor.wait_for_update("usage_update")
        assert editor.end() == 0
    assert [word_of(entry) for entry in entries(proxied.transcript(session))] == [
        "header",
        "note:opened",
        "available_commands_update",
        "current_mode_update",
        "session/prompt",
        "agent_message_chunk",
        "answer:session/prompt",
        "usage_update",
    ]
    header, *_ = entries(proxied.transcript(session))
    assert (header["origin"], header["cwd"]) == ("recorded", str(proxied.project))


# --- the user's words


def test_recorded_lines_have_their_exact_bytes(proxied: Proxied) -> None:
    with proxied.editor("conversation") as editor:
        session = editor.open()
        since = editor.count_lines()
        params = f'{{"sessionId" :"{session}", "prompt":[{{"type":"text","text":"caf\\u00e9 \\ud83e"}}],'.encode()
        line = b'{ "id": "a", "method":"session/prompt",  "params":' + params
        line += b' "_meta":{"n":1.0,"big":12345678901234567890123,"n":2}}, "jsonrpc":"2.0"}'
        editor.send_line(line)
        editor.wait_for(lambda message: message.get("id") == "a" and "result" in message)
        came = [one.raw.rstrip(b"\n") for one in editor.lines[since:] if b"session_info_update" not in one.raw]
        editor.kill()
    kept = [raw for raw in raw_messages(proxied.transcript(session)) if b"available_commands" not in raw]
    assert kept[0] == line
    answered = [raw for raw in kept[1:] if b'"outcome"' in raw]
    assert len(answered) == 1
    assert [raw for raw in kept[1:] if raw not in answered] == [raw for raw in came if b"available_commands" not in raw]


def raw_messages(path: Path) -> list[bytes]:
    """The messages of a transcript, byte for byte; a line that is not plain JSON is kept as a string."""
    found = []
    for line in path.read_bytes().split(b"\n")[1:-1]:
        _, embedded, raw = line.partition(b',"message":')
        text = None if embedded else json.loads(line).get("line")
        if embedded or text is not None:
            found.append(raw[:-1] if text is None else text.encode())
    return found


# --- failed and cancelled turns


def test_a_cancelled_turn_is_recorded_with_its_cancel_and_later_updates(proxied: Proxied) -> None:
    with proxied.editor("cancel") as editor:
        session = editor.open()
        turn = editor.start_prompt(session, "search")
        editor.wait_for_text("I am searching.")
        editor.notify("session/cancel", {"sessionId": session})
        assert editor.wait_for_result(turn) == {"stopReason": "cancelled"}
        assert only_session(editor)["_meta"] == {"messageCount": 2, "hasErrors": False}
        editor.kill()
    items = list_items(load_in_new_process(proxied, session).updates)
    assert [(one.kind, one.text) for one in items] == [
        ("user", "search"),
        ("tool call", "A long search (failed)"),
        ("agent", "I am searching. I stopped."),
    ]
    written = [word_of(entry) for entry in entries(proxied.transcript(session))]
    assert written.index("session/prompt") < written.index("session/cancel") < written.index("answer:session/prompt")


@pytest.mark.parametrize(("script", "status"), [("crash", 17), ("killed", 15 if sys.platform == "win32" else 128 + 9)])
def test_a_turn_interrupted_by_the_agents_crash_is_recorded_as_failed(
    proxied: Proxied, script: str, status: int
) -> None:
    with proxied.editor(script) as editor:
        session = editor.open()
        editor.prompt(session, "one")
        with pytest.raises(RequestFailed) as failure:
            editor.prompt(session, "two")
        assert failure.value.code == INTERNAL_ERROR
        assert editor.wait() == status
    with proxied.editor() as editor:
        editor.initialize()
        assert only_session(editor)["_meta"] == {"messageCount": 4, "hasErrors": True}
        assert texts(editor.load(session).updates) == ["You said: one", "I am about to"]


def test_a_turn_interrupted_by_a_kill_of_the_proxy_counts_as_failed(proxied: Proxied) -> None:
    with proxied.editor("cancel") as editor:
        session = editor.open()
        editor.start_prompt(session, "search")
        editor.wait_for_text("I am searching.")
        assert only_session(editor)["_meta"]["hasErrors"] is False
        editor.kill()
    with proxied.editor() as editor:
        editor.initialize()
        assert only_session(editor)["_meta"] == {"messageCount": 2, "hasErrors": True}


# What is never recorded.

PLANTED = [
    *["mcp-env", "mcp-args", "mcp-headers", "mcp-url", "later-mcp-env", "initialize-meta", "initialize-result"],
    *["authenticate-params", "authenticate-result", "file-read", "file-written", "asked-of-the-user", "terminal-env"],
    *["vendor-params", "vendor-result", "session-meta"],
]


def secret(name: str) -> str:
    assert name in PLANTED
    return f"S3CRET-{name}-c0ffee"


TELLTALE: dict[str, Any] = {
    "initialize": {"result": {"_meta": {"token": secret("initialize-result")}}},
    "methods": {
        "authenticate": {"result": {"_meta": {"token": secret("authenticate-result")}}},
        "_vendor/login": {"result": {"token": secret("vendor-result")}},
    },
    "turns": [
        [
            {"request": "fs/read_text_file", "params": {"path": "{cwd}/.env"}},
            {"request": "fs/write_text_file", "params": {"path": "{cwd}/.env", "content": secret("file-written")}},
            {"request": "elicitation/create", "params": {"mode": "form", "message": "Your password?"}},
            {
                "request": "terminal/create",
                "params": {"command": "env", "env": [{"name": "TOKEN", "value": secret("terminal-env")}]},
                "keep": "terminal",
            },
            {
                "update": {
                    "sessionUpdate": "tool_call",
                    "toolCallId": "env",
                    "title": "env",
                    "content": [{"type": "terminal", "terminalId": "{terminal.terminalId}"}],
                }
            },
            {"request": "terminal/output", "params": {"terminalId": "{terminal.terminalId}"}},
            {"request": "terminal/release", "params": {"terminalId": "{terminal.terminalId}"}},
            {"request": "session/request_permission", "params": {"toolCall": {"toolCallId": "env"}, "options": []}},
            say("It is done."),
        ]
    ],
}


def obliging(request: dict[str, Any]) -> Any:
    """An editor that answers every request."""
    answers: dict[str, Any] = {
        "fs/read_text_file": {"content": secret("file-read")},
        "fs/write_text_file": {},
        "elicitation/create": {"action": "accept", "content": {"password": secret("asked-of-the-user")}},
        "terminal/create": {"terminalId": "t1"},
        "terminal/output": {"output": "what the terminal showed", "truncated": False},
        "terminal/release": {},
        "session/request_permission": {"outcome": {"outcome": "cancelled"}},
    }
    return answers.get(request["method"]) or ({} if request["method"] in answers else first_option(request))


def test_no_file_of_the_store_has_a_secret(proxied: Proxied) -> None:
    local = {
        "name": "the-local-server",
        "command": "/bin/server",
        "args": ["--key", secret("mcp-args")],
        "env": [{"name": "KEY", "value": secret("mcp-env")}],
    }
    remote = {
        "type": "http",
        "name": "the-remote-server",
        "url": f"https://user:{secret('mcp-url')}@example.com/mcp",
        "headers": [{"name": "Authorization", "value": f"Bearer {secret('mcp-headers')}"}],
    }
    later = local | {"env": [{"name": "KEY", "value": secret("later-mcp-env")}]}
    with proxied.editor(TELLTALE, on_request=obliging) as editor:
        editor.initialize(_meta={"token": secret("initialize-meta")})
        editor.request("authenticate", {"methodId": "key", "_meta": {"key": secret("authenticate-params")}})
        editor.request("_vendor/login", {"key": secret("vendor-params")})
        session = editor.new_session(mcpServers=[local, remote], _meta={"key": secret("session-meta")})
        editor.prompt(session, "a word to be found")
        assert only_session(editor)["title"] == "a word to be found"
        loaded = editor.load(session, mcpServers=[later], _meta={"key": secret("session-meta")})
        assert loaded.answer["result"] == {}
        editor.wait_for_update("session_info_update")
        live = read_store_files(proxied.store)
        everything = b"".join(line.raw for line in editor.lines)
        editor.kill()

    # The secrets did pass, and recorded text is found: so a recorded secret would be found.
    assert secret("file-written").encode() in everything
    assert secret("authenticate-result").encode() in everything
    for found in (live, read_store_files(proxied.store)):
        assert b"a word to be found" in found[proxied.transcript(session)]
        assert b"what the terminal showed" in found[proxied.transcript(session)]
        assert b"the-local-server" in found[proxied.transcript(session)]
        assert b"the-remote-server" in found[proxied.transcript(session)]
        assert any(b"a word to be found" in data for path, data in found.items() if path.name.startswith("index."))
        assert str(proxied.store / "index.sqlite3-wal") in map(str, found)
        spilled = [(path, name) for path, data in found.items() for name in PLANTED if secret(name).encode() in data]
        assert spilled == []
        assert [path for path, data in found.items() if b"S3CRET" in data] == []


def read_store_files(store: Path) -> dict[Path, bytes]:
    """The bytes of every file of the store."""
    return dict(read_files(store))
