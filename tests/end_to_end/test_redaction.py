"""A conversation with secrets: unchanged on the wire, and in no file of the store."""

import json
import os
import random
from pathlib import Path
from typing import Any

import pytest

from acp_proxy.tools.demo.display import list_items
from tests import forked
from tests.cli.commands import invoke
from tests.end_to_end.proxied import PROXY, Proxied, entries, list_said, say
from tests.redaction.made_up_secrets import plant
from tests.stored import read_files

TOKEN = plant("GitHub token", random.Random(0)).secret
MASK = "[redacted]" + "*" * (len(TOKEN) - 10)
KEY = plant("private key (PEM, OpenSSH, PGP)", random.Random(0)).secret
REDACTED = ("--redact", "keys")


def tool(**fields: Any) -> dict[str, Any]:
    update = {"sessionUpdate": "tool_call_update", "toolCallId": "1"} | fields
    return {"update": update}


TURN = [
    say(f"I take {TOKEN}, "),
    {"update": {"sessionUpdate": "agent_thought_chunk", "content": {"type": "text", "text": KEY}}},
    tool(sessionUpdate="tool_call", title=f"curl {TOKEN}", status="pending", rawInput={"id": TOKEN}),
    tool(status="completed", content=[{"type": "content", "content": {"type": "text", "text": f"HTTP {TOKEN}\n"}}]),
    say("and that is it."),
]
SCRIPT = {"turns": [TURN]}
SPLIT = {
    "turns": [[say(f"I take {TOKEN[:17]}"), say(TOKEN[17:]), say(" as it is."), say(f"{KEY[:200]}"), say(KEY[200:])]]
}


def holders(store: Path, text: str) -> list[str]:
    """The files of the store that contain this text in any JSON spelling."""
    spellings = {text.encode(), json.dumps(text)[1:-1].encode()}
    return [
        str(path.relative_to(store))
        for path, data in read_files(store)
        if any(spelling in data for spelling in spellings)
    ]


def wire(proxied: Proxied, *options: str) -> list[Any]:
    """What the editor receives in a conversation with secrets, without what differs between runs."""
    with proxied.editor(SCRIPT, options=options) as editor:
        session = editor.open()
        editor.prompt(session, f"use {TOKEN}")
        assert editor.end() == 0
        return [line.raw.replace(session.encode(), b"SESSION") for line in editor.lines]


def test_redaction_does_not_change_the_wire(proxied: Proxied) -> None:
    with_secrets = wire(proxied, "--no-record", "--no-synthesize")
    told = wire(proxied, "--no-synthesize", *REDACTED)
    assert [line for line in told if b"session/update" in line] == [
        line for line in with_secrets if b"session/update" in line
    ]
    assert b"".join(told).count(TOKEN.encode()) == 4
    assert holders(proxied.store, TOKEN) == []
    assert holders(proxied.store, KEY) == []


def test_a_load_replays_the_redacted_text(proxied: Proxied) -> None:
    with proxied.editor(SCRIPT, options=REDACTED) as editor:
        session = editor.open()
        editor.prompt(session, f"use {TOKEN}")
        assert editor.end() == 0
    with proxied.start() as editor:
        told = list_said(editor.load(session).updates)
    assert told[0] == ("user", f"use {MASK}")
    assert (told[1], told[-1]) == (("agent", f"I take {MASK}, "), ("agent", "and that is it."))
    assert TOKEN not in json.dumps(told)


def test_a_secret_split_over_chunks_can_be_redacted_while_the_proxy_runs(proxied: Proxied) -> None:
    with proxied.editor(SPLIT, options=REDACTED) as editor:
        session = editor.open()
        editor.prompt(session, "hello")
        assert holders(proxied.store, TOKEN[17:]) != []
        redact(proxied)
        assert [holders(proxied.store, part) for part in (TOKEN[:17], TOKEN[17:], KEY[-60:-30])] == [[], [], []]
        editor.prompt(session, "more")
        assert editor.end() == 0
    kept = [entry for entry in entries(proxied.transcript(session)) if "_message_chunk" in json.dumps(entry)]
    assert len(kept) == 2 * len(SPLIT["turns"][0])
    redact(proxied)
    assert holders(proxied.store, TOKEN[17:]) == []
    with proxied.start() as editor:
        texts = [item.text for item in list_items(editor.load(session).updates) if item.kind == "agent"]
    assert all(text.startswith("I take [redacted]") and " as it is." in text for text in texts)


def redact(proxied: Proxied) -> None:

    result = invoke("redact", "--yes", "--store", str(proxied.store))
    assert result.exit_code == 0, result.output


# An agent that repeats the secrets, because it has them.

REPEATED = {"turns": [[say(f"I take {TOKEN}, "), say("and that is it.")]]}


@pytest.mark.parametrize("agent", ["load", "load,resume,list"])
@pytest.mark.parametrize("masks", ["while recording", "later"])
def test_a_load_whose_replay_has_the_secrets_records_nothing_again(proxied: Proxied, masks: str, agent: str) -> None:
    options = REDACTED if masks == "while recording" else ()
    started = {"options": options, "agent": ("--capabilities", agent)}
    with proxied.editor(REPEATED, **started) as editor:
        session = editor.open()
        editor.prompt(session, f"use {TOKEN}, please")
        assert editor.end() == 0
    redact(proxied)
    for _ in range(2):
        before = conversation_in(proxied, session)
        with proxied.start(REPEATED, **started) as editor:
            assert f"use {TOKEN}, please" in json.dumps(editor.load(session).updates), "the agent's replay is shown"
            assert editor.end() == 0
        assert conversation_in(proxied, session) == before
    assert holders(proxied.store, TOKEN) == []


def conversation_in(proxied: Proxied, session: str) -> list[dict[str, Any]]:
    """The entries that somebody said."""
    return [entry for entry in entries(proxied.transcript(session)) if "message" in entry]


# Every way to the disk.

ANYWHERE: list[Any] = [
    *TURN,
    {"update": {"sessionUpdate": "plan", "entries": [{"content": TOKEN, "priority": "high", "status": "pending"}]}},
    {"update": {"sessionUpdate": "session_info_update", "title": f"Theirs {TOKEN}", "_meta": {"id": TOKEN}}},
    {
        "update": {
            "sessionUpdate": "available_commands_update",
            "availableCommands": [{"name": "x", "description": KEY}],
        }
    },
    {"update": {"sessionUpdate": "of_another_kind", "told": TOKEN}},
    {"notify": "_own/news", "params": {"sessionId": "{session}", "told": TOKEN}},
    {
        "request": "session/request_permission",
        "params": {
            "toolCall": {"toolCallId": "2", "title": f"curl {TOKEN}", "rawInput": {"key": TOKEN}},
            "options": [{"optionId": "yes", "name": f"Yes, {TOKEN}", "kind": "allow_once"}],
        },
    },
    {"request": "fs/write_text_file", "params": {"path": "/a", "content": TOKEN}, "wait": False},
    {"error": {"code": -32603, "message": f"cannot use {TOKEN}", "data": {"key": TOKEN}}},
]


def test_a_secret_is_in_no_file_whatever_way_it_takes(proxied: Proxied) -> None:
    """Of those ways that docs/redaction.md calls masked."""
    options = (*REDACTED, "--unstable", "--delete-mode", "soft")
    script = {"turns": [ANYWHERE, [say("Done.")]], "methods": {"session/fork": {}}}
    with proxied.editor(script, options=options) as editor:
        session = editor.open()
        editor.wait_for_answer(editor.start_prompt(session, f"use {TOKEN}"))
        titled = {"sessionId": session, "title": f"Mine {TOKEN}"}
        assert editor.request("session/set_title", titled) == {"title": "Mine [redacted]"}
        assert {row["title"] for row in editor.sessions()} == {"Mine [redacted]"}
        fork = editor.request("session/fork", editor.place(session))["sessionId"]
        editor.prompt(fork, f"and {TOKEN}")
        editor.request("session/delete", {"sessionId": fork})
        assert editor.end() == 0
    told = [get_output(proxied, *words) for words in COMMANDS]
    told.append(get_output(proxied, "continue", session, "--", *proxied.bare_agent(agent=("--name", "beta"))))
    told.append(get_output(proxied, "restore", fork))
    told.append(get_output(proxied, "rename", fork, f"Ours {TOKEN}", ACP_PROXY_REDACT="keys"))
    told.append(get_output(proxied, "search", "redacted"))
    assert "Ours [redacted]" in told[-2]
    assert [holders(proxied.store, secret) for secret in (TOKEN, KEY)] == [[], []]
    assert not [text for text in told if TOKEN in text]
    assert [path.name for path in proxied.store.rglob("*.sqlite3")], "there are an index and search tables"


COMMANDS = [
    ("list", "--json"),
    ("show", "last"),
    ("search", "Mine"),
    ("export", "last", "--format", "html"),
    ("verify",),
    ("doctor",),
]


def get_output(proxied: Proxied, *words: str, **environment: str) -> str:
    """What a command prints about the store, on both of its outputs."""
    given = dict(os.environ) | environment | {"ACP_PROXY_STORE": str(proxied.store)}
    result = forked.run([*PROXY, *words], env=given, text=True)
    assert result.returncode == 0 or words == ("doctor",), result.stderr
    return str(result.stdout + result.stderr)
