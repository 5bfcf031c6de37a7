"""--agent accepts the usual names of agents, alike in every command; a scope is neither needed nor shown."""

import json
import re
import time
from pathlib import Path

import pytest

from acp_proxy.store.proxy_store import ProxyStore
from acp_proxy.transcript.file_names import file_name
from tests.cli.commands import get_error, get_json, get_stdout, run
from tests.cli.terminal import run_on_terminal
from tests.stored import store_session

CLAUDE, OTHER, COPILOT = "@agentclientprotocol/claude-agent-acp", "@zed-industries/claude-code-acp", "GitHub Copilot"


@pytest.fixture
def store(tmp_path: Path) -> ProxyStore:
    store = ProxyStore(tmp_path / "store")
    for number, agent in enumerate((COPILOT, OTHER, CLAUDE)):
        at = time.time() - number * 60
        store_session(store, f"{number}", (f"said by {agent}", []), agent=agent, at=at)
    return store


USUAL_NAMES = [
    ("claude", [OTHER, CLAUDE]),
    ("claude-agent-acp", [CLAUDE]),
    ("@agentclientprotocol/claude-agent-acp", [CLAUDE]),
    ("github", [COPILOT]),
    ("GitHub Copilot", [COPILOT]),
    ("copilot", [COPILOT]),
    ("pilot", []),
]


@pytest.mark.parametrize(("agent", "found"), USUAL_NAMES)
@pytest.mark.parametrize("command", [("list",), ("search", "said"), ("stats",), ("restore", "--list")])
def test_commands_on_many_sessions_take_the_usual_name_of_an_agent(
    store: ProxyStore, command: tuple[str, ...], agent: str, found: list[str]
) -> None:
    if command[0] == "restore":
        get_stdout(store, "prune", "--keep", "0", "--soft", "--yes")
    result = run(store, *command, "--agent", agent, "--json")
    report = json.loads(result.stdout)
    rows = report["agents"] if command == ("stats",) else report
    assert (result.exit_code, {row["agent"] for row in rows}) == (not found, set(map(file_name, found)))
    assert len(rows) == len(found)
    if command[0] in ("list", "search"):
        assert [row["agent"] for row in rows] == list(map(file_name, found))


@pytest.mark.parametrize(("agent", "found"), USUAL_NAMES)
def test_prune_takes_the_usual_name_of_an_agent(store: ProxyStore, agent: str, found: list[str]) -> None:
    result = run(store, "prune", "--keep", "0", "--dry-run", "--agent", agent, "--json")
    pruned = json.loads(result.stdout)["sessions"] if found else []
    assert [row["agent"] for row in pruned] == list(map(file_name, found))
    assert (result.exit_code, "no agent called" in result.stderr) == (not found, not found)


def test_compress_says_which_agents_there_are(store: ProxyStore) -> None:
    code, said = get_error(store, "compress", "--agent", "pilot")
    assert (code, "no agent called 'pilot' has sessions here" in said) == (1, True)


@pytest.mark.parametrize(("agent", "found"), USUAL_NAMES)
def test_show_takes_the_usual_name_of_an_agent(store: ProxyStore, agent: str, found: list[str]) -> None:
    assert run(store, "show", "last", "--agent", agent).exit_code == (0 if found else 1)


def test_the_folder_name_in_json_means_only_that_agent(store: ProxyStore) -> None:
    longer = "@agentclientprotocol/claude-agent-acp-with-a-name-longer-than-a-slug"
    also = longer + "-is"
    for agent in (longer, also):
        store_session(store, agent, ("hello", []), agent=agent)
    for agent in (longer, also, CLAUDE):
        assert [row["agent"] for row in get_json(store, "list", "--agent", file_name(agent))] == [file_name(agent)]


def test_agents_are_shown_without_their_scope(store: ProxyStore) -> None:
    screen = run_on_terminal("list", "--store", str(store.root), columns=100, settings={"NO_COLOR": "1"})
    for line, name in zip(
        screen.splitlines()[1:], ("github-copilot", "claude-code-acp", "claude-agent-acp"), strict=True
    ):
        assert f"  {name}  " in line
    table = run_on_terminal("stats", "--store", str(store.root), columns=70, settings={"NO_COLOR": "1"})
    names = [
        re.sub(r"\x1b\[[0-9;]*m", "", line).rstrip() for line in table.splitlines()[1:-1] if not line.startswith(" ")
    ]
    assert names == ["claude-agent-acp", "github-copilot", "claude-code-acp"]
    assert "tokens" in table  # a heading, so the table fits


def test_agents_with_the_same_session_are_shown_with_their_scopes(store: ProxyStore) -> None:
    for agent in ("@one/acme", "@other/acme"):
        store_session(store, "same", ("hello", []), agent=agent)
    stderr = run(store, "show", "same").stderr
    assert "one-acme" in stderr
    assert "other-acme" in stderr
    assert run(store, "show", "same", "--agent", "other").exit_code == 0


@pytest.mark.parametrize(
    "words", [("list",), ("stats",), ("stats", "--tokens"), ("search", "hello"), ("unpin",), ("unarchive",)]
)
def test_an_unknown_agent_is_answered_with_those_that_there_are(store: ProxyStore, words: tuple[str, ...]) -> None:
    result = run(store, *words, "--agent", "nobody")
    assert (result.exit_code, result.stdout) == (1, "")
    names = "claude-agent-acp, claude-code-acp, github-copilot"
    assert result.stderr == f"No agent called 'nobody' has sessions here. Those that have: {names}\n"


def test_a_session_of_an_unknown_agent_is_answered_with_those_that_there_are(store: ProxyStore) -> None:
    stderr = run(store, "show", "last", "--agent", "nobody").stderr
    assert stderr.startswith(
        "acp-proxy: no agent called 'nobody' has sessions here. Those that have: claude-agent-acp, "
    )
