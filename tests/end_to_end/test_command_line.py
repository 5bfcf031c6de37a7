"""``run`` as an editor's settings have it: its options, its variables, and what it says to a wrong usage."""

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
    """What the agent's command was called with."""
    with Client([*PROXY, "run", *words]) as client:
        return client.wait_for(lambda _: True).message


@pytest.mark.parametrize(
    ("before", "behind"),
    [
        ([], []),
        ([], ["--no-record", "--store", "x", "--unknown", "--", "-x", ""]),
        (["--"], ["--no-record"]),
        (["--no-record", "--"], ["--"]),
        (["--no-record", "--grace", "1"], ["--grace", "2"]),
    ],
)
def test_everything_behind_the_first_word_that_is_no_option_is_the_agents(
    tmp_path: Path, before: list[str], behind: list[str]
) -> None:
    store = ["--store", str(tmp_path / "store")]
    assert arguments_seen(*store, *before, sys.executable, "-c", TELLS_ITS_ARGUMENTS, *behind) == behind


@pytest.mark.parametrize(
    ("options", "environment"),
    [
        (["--unknown"], {}),
        (["-x"], {}),
        (["--no-record=yes"], {}),
        (["--grace", "soon"], {}),
        (["--grace", "-1"], {}),
        (["--fsync", "sometimes"], {}),
        ([], {"ACP_PROXY_GRACE": "soon"}),
        ([], {"ACP_PROXY_FSYNC": "sometimes"}),
        ([], {"ACP_PROXY_NO_RECORD": "perhaps"}),
    ],
)
def test_a_wrong_usage_is_exit_2_and_one_line_and_no_agent(
    tmp_path: Path, options: list[str], environment: dict[str, str]
) -> None:
    left = tmp_path / "left"
    command = [*PROXY, "run", *options, sys.executable, "-c", LEAVES_A_FILE, str(left)]
    check_refused(command, environment)
    assert not left.exists()


@pytest.mark.parametrize("words", [[], ["--"], ["--no-record"], ["--store", "x"], ["--store"], [""], ["--", "", "x"]])
def test_a_missing_agent_is_exit_2(words: list[str]) -> None:
    check_refused([*PROXY, "run", *words], {})


def check_refused(command: list[str], environment: dict[str, str]) -> None:
    with Client(command, env=usual_environment(**environment)) as client:
        assert client.wait() == 2
        client.wait_for_end()
    assert client.lines == []
    [line] = client.stderr().splitlines()
    assert line.startswith("acp-proxy: ")


def started(proxied: Proxied, *options: str, **environment: str) -> Editor:
    """An editor whose settings name no store."""
    editor = Editor([*PROXY, "run", *options, *proxied.bare_agent("echo")], env=usual_environment(**environment))
    editor.project = proxied.project
    return editor


def talked(editor: Editor) -> bytes:
    """A short conversation; the line that answered initialize."""
    with editor:
        session = editor.open()
        editor.prompt(session, "one")
        assert editor.end() == 0
        return editor.lines[0].raw


def test_the_store_may_be_named_by_a_variable_which_an_option_overrules(proxied: Proxied) -> None:
    talked(started(proxied, ACP_PROXY_STORE=str(proxied.store)))
    assert len(proxied.transcripts()) == 1
    talked(started(proxied, "--store", str(proxied.base / "other"), ACP_PROXY_STORE=str(proxied.store)))
    assert len(proxied.transcripts()) == 1
    assert len(list((proxied.base / "other").glob("transcripts/*/*.jsonl"))) == 1


def test_the_agent_may_be_named_by_a_variable(proxied: Proxied) -> None:
    talked(started(proxied, ACP_PROXY_STORE=str(proxied.store), ACP_PROXY_AGENT_ID="Work account"))
    [path] = proxied.transcripts()
    assert path.parent.name.startswith("work-account-")


def test_recording_may_be_turned_off_by_a_variable(proxied: Proxied) -> None:
    talked(started(proxied, ACP_PROXY_STORE=str(proxied.store), ACP_PROXY_NO_RECORD="1"))
    assert not proxied.store.exists()


def test_additions_may_be_turned_off_by_a_variable_and_the_talk_is_recorded(proxied: Proxied) -> None:
    answered = talked(started(proxied, ACP_PROXY_STORE=str(proxied.store), ACP_PROXY_NO_SYNTHESIZE="1"))
    with Editor(proxied.bare_agent("echo")) as direct:
        direct.initialize()
        assert answered == direct.lines[0].raw
    assert len(proxied.transcripts()) == 1


@pytest.mark.parametrize("fsync", ["turn", "always", "never"])
def test_any_way_of_forcing_lines_to_the_disk_keeps_them(proxied: Proxied, fsync: str) -> None:
    talked(started(proxied, ACP_PROXY_STORE=str(proxied.store), ACP_PROXY_FSYNC=fsync))
    assert len(proxied.transcripts()) == 1


def test_without_a_store_named_it_is_the_users_data_directory_for_every_command(proxied: Proxied) -> None:
    home = proxied.base / "home"
    home.mkdir()
    environment = {"HOME": str(home), "XDG_DATA_HOME": "", "LOCALAPPDATA": str(home)}
    talked(started(proxied, **environment))
    [transcript] = [path for path in home.rglob("*.jsonl") if path.name != "state.jsonl"]
    assert "acp-proxy" in transcript.parts
    assert not [path for path in home.rglob("*") if path.stat().st_mode & 0o077]
    with Client([*PROXY, "sessions", "list", "--json"], env=usual_environment(**environment)) as listing:
        assert listing.wait() == 0
        listing.wait_for_end()
    assert '"title": "one"' in b"".join(line.raw for line in listing.lines).decode()


def test_a_home_directory_is_understood_in_the_name_of_the_store(proxied: Proxied) -> None:
    talked(started(proxied, "--store", "~/kept", HOME=str(proxied.base)))
    proxied.store = proxied.base / "kept"
    assert len(proxied.transcripts()) == 1
