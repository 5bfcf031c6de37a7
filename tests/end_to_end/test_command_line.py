"""``run`` as in an editor's settings: its options, its variables, and its errors."""

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.client import Client
from tests.end_to_end.proxied import PROXY, Editor, Proxied

TELLS_ITS_ARGUMENTS = "import json, sys; print(json.dumps(sys.argv[1:]))"
LEAVES_A_FILE = "import sys; open(sys.argv[1], 'x')"


def usual_environment(**more: str) -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("ACP_PROXY_")} | more


def arguments_seen(*words: str) -> Any:
    """The arguments that the agent's command got."""
    with Client([*PROXY, "run", *words]) as client:
        return client.wait_for(lambda _: True).message


@pytest.mark.parametrize("before", [[], ["--no-record", "--grace", "1", "--"]])
def test_words_after_the_options_belong_to_the_agents_command(tmp_path: Path, before: list[str]) -> None:
    store, agent_words = (
        ["--store", str(tmp_path / "store")],
        ["--no-record", "--store", "x", "--unknown", "--", "-x", ""],
    )
    assert arguments_seen(*store, *before, sys.executable, "-c", TELLS_ITS_ARGUMENTS, *agent_words) == agent_words


@pytest.mark.parametrize("options", [["--unknown"], ["--load", "bogus"]])
def test_wrong_usage_exits_with_2_and_one_line_without_starting_the_agent(tmp_path: Path, options: list[str]) -> None:
    left = tmp_path / "left"
    command = [*PROXY, "run", *options, sys.executable, "-c", LEAVES_A_FILE, str(left)]
    check_refused(command)
    assert not left.exists()


@pytest.mark.parametrize("words", [[], ["--store", "x", "--"]])
def test_a_missing_agent_exits_with_2(words: list[str]) -> None:
    check_refused([*PROXY, "run", *words])


def check_refused(command: list[str]) -> None:
    with Client(command, env=usual_environment()) as client:
        assert client.wait() == 2
        client.wait_for_end()
    assert client.lines == []
    [line] = client.read_stderr().splitlines()
    assert line.startswith("acp-proxy: ")


def start(proxied: Proxied, *options: str, **environment: str) -> Editor:
    """An editor whose settings name no store."""
    editor = Editor([*PROXY, "run", *options, *proxied.bare_agent("echo")], env=usual_environment(**environment))
    editor.project = proxied.project
    return editor


def talk(editor: Editor) -> bytes:
    """Hold a short conversation. The line that answered `initialize`."""
    with editor:
        session = editor.open()
        editor.prompt(session, "one")
        assert editor.end() == 0
        return editor.lines[0].raw


def test_an_option_overrides_the_variable_for_the_store(proxied: Proxied) -> None:
    talk(start(proxied, ACP_PROXY_STORE=str(proxied.store)))
    assert len(proxied.transcripts()) == 1
    talk(start(proxied, "--store", str(proxied.base / "other"), ACP_PROXY_STORE=str(proxied.store)))
    assert len(proxied.transcripts()) == 1
    assert len(list((proxied.base / "other").glob("transcripts/*/*.jsonl"))) == 1


def test_a_variable_can_name_the_agent(proxied: Proxied) -> None:
    talk(start(proxied, ACP_PROXY_STORE=str(proxied.store), ACP_PROXY_AGENT_ID="Work account"))
    [path] = proxied.transcripts()
    assert path.parent.name.startswith("work-account-")


def test_the_default_store_of_every_command_is_in_the_users_data_directory(proxied: Proxied) -> None:
    home = proxied.base / "home"
    home.mkdir()
    environment = {"HOME": str(home), "XDG_DATA_HOME": "", "WIN_PD_OVERRIDE_LOCAL_APPDATA": str(home)}
    talk(start(proxied, **environment))
    [transcript] = [path for path in home.rglob("*.jsonl") if path.name != "state.jsonl"]
    assert "acp-proxy" in transcript.parts
    if sys.platform != "win32":
        assert not [path for path in home.rglob("*") if path.stat().st_mode & 0o077]
    with Client([*PROXY, "list", "--json"], env=usual_environment(**environment)) as listing:
        assert listing.wait() == 0
        listing.wait_for_end()
    assert '"title": "one"' in b"".join(line.raw for line in listing.lines).decode()


def test_a_tilde_in_the_stores_path_is_expanded(proxied: Proxied) -> None:
    talk(start(proxied, "--store", "~/kept", HOME=str(proxied.base), USERPROFILE=str(proxied.base)))
    proxied.store = proxied.base / "kept"
    assert len(proxied.transcripts()) == 1
