"""The demo exits with 0 if every step works, and with 1 if not."""

import json
import os
import re
import tempfile
from pathlib import Path

import pytest

from acp_proxy import invocation, shell_quote
from acp_proxy.tools.demo import command
from tests.cli.commands import invoke


@pytest.fixture(autouse=True)
def typed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(invocation, "make_typed_command", lambda: ["acp-proxy"])


def test_the_demo_shows_every_step_and_the_next_command() -> None:
    result = invoke("demo")
    assert result.exit_code == 0, result.stdout
    steps = (
        "The editor crashes (SIGKILL), and acp-proxy with it.",
        "The editor starts again. acp-proxy adds list, load and delete.",
        'Its list of sessions: "Why are users signed out after a few hours?", ',
        "It opens the old session:",
        "  user:  A login should last two weeks. Mend it, with a test.",
        "All 13 items, with 6 tool calls, are as they were, in the same order.",
        "  agent: I remember 2 earlier prompts; the first was: ",
        "It deletes the session: the list is empty.",
    )
    stdout = result.stdout
    assert [stdout.index(step) for step in steps] == sorted(stdout.index(step) for step in steps)
    assert re.search(r", \d{4}-\d\d-\d\d \d\d:\d\d\n", stdout)
    assert len(stdout.splitlines()) <= 22  # a screen, with the command above it
    assert [line for line in result.stdout.splitlines() if line.startswith("  acp-proxy ")] == [
        "  acp-proxy setup",
        "  acp-proxy demo --keep",
    ]
    assert all(one.isprintable() or one == "\n" for one in result.stdout)


def test_a_demo_that_fails_exits_with_1(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACP_PROXY_NO_RECORD", "1")  # the proxy adds nothing to this agent
    result = invoke("demo")
    assert result.exit_code == 1
    assert "failed" in result.stdout


@pytest.mark.parametrize("columns", [60, 80, 100])
def test_what_the_demo_shortens_fits_its_terminal(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = invoke("demo").stdout.splitlines()
    shortened = [line for line in lines if line.endswith("…")]
    assert shortened
    assert max(map(len, shortened)) <= columns


def test_a_demo_that_keeps_its_sessions_prints_commands_that_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "60")  # a command is not broken, to be copied
    result = invoke("demo", "--keep")
    assert result.exit_code == 0, result.stdout
    lines = [line.strip() for line in result.stdout.splitlines() if line.startswith("  ")]
    first = lines[0].removeprefix("export ACP_PROXY_STORE=")
    if os.name == "posix":
        lines = lines[1:]
        monkeypatch.setenv("ACP_PROXY_STORE", first)
    commands = [shell_quote.split(line)[1:] for line in lines]
    given = commands[0][1:]
    listed = invoke("list", *given, "--json")
    rows = json.loads(listed.stdout)
    assert [(Path(row["cwd"]).name, row["turns"]) for row in rows] == [("shop", 2), ("blog", 2), ("shop", 1)]
    shown = {}
    for words in commands:
        if words[0] not in ("browse", "web") and "--web" not in words:  # these show it elsewhere
            done = invoke(*words)
            assert done.exit_code == 0, (words, done.output)
            command = words[: words.index("--store")] if "--store" in words else words  # that is there on Windows
            shown[" ".join(command[:3])] = done.stdout
    assert {each[0] for each in commands} >= {"list", "show", "search", "diff", "blame", "stats", "continue", "browse"}
    assert "+def test_a_login" in shown["diff last"]
    assert "assert 20160 == 1209600" in shown["show last"]
    assert "python feed.py (failed)" in shown["search --failed"]
    assert "No module named 'feedgen'" in shown["search ModuleNotFoundError --in"]
    assert "0.13 USD" in shown["stats --tokens"]
    [blamed] = [text for name, text in shown.items() if name.startswith("blame")]
    assert re.search(r"turn 2 .*\n  8  ", blamed)
    [made] = tmp_path.iterdir()
    assert str(made) in result.stdout
    for row in rows[:2]:
        checked = invoke("diff", row["sessionId"], "--check", *given)
        assert {line.split()[0] for line in checked.stdout.splitlines()} == {"applied"}


def test_a_demo_without_the_extra_web_does_not_name_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "find_spec", lambda name: None)
    assert ["web"] not in command._list_to_try(tmp_path)
    monkeypatch.setattr(command, "find_spec", lambda name: name)
    assert ["web"] in command._list_to_try(tmp_path)
