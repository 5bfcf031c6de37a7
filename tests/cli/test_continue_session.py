"""A copy of a session for another agent: which agent is meant, and what the copy has."""

import json
import os
import re
import sys
from pathlib import Path

import pytest

from acp_proxy import shell_quote
from acp_proxy.cli.choose_session import choose_session, shorten_ids
from acp_proxy.protocol import timestamps
from acp_proxy.protocol.jsonrpc import Peer
from acp_proxy.sessions.completion_query import CompletionQuery
from acp_proxy.transcript.file_format import Header
from tests.cli.commands import get_error, get_json, get_stdout, invoke, run
from tests.cli.terminal import run_on_terminal
from tests.stored import WholeStore, message, store_session

SAID = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "Mended."}}


@pytest.fixture
def store(tmp_path: Path) -> WholeStore:
    store = WholeStore(tmp_path / "store")
    store_session(store, "mine", ("mend it", [SAID]), agent="alpha", cwd="/here", at=2000.0)
    store_session(store, "other", ("look", []), agent="beta", at=1000.0)
    return store


def test_the_copy_has_the_title_the_directory_and_the_conversation(store: WholeStore) -> None:
    result = run(store, "continue", "mine", "--with", "beta")
    [copy] = result.stdout.split()
    assert "in /here, from the list of beta's sessions" in result.stderr
    first, second, third = get_json(store, "list")
    assert [first["sessionId"], third["sessionId"]] == ["mine", "other"]
    assert (second["sessionId"], second["title"], second["cwd"]) == (copy, "mend it", "/here")
    assert second["updatedAt"] == first["updatedAt"]  # nothing was said in it
    assert "Mended." in get_stdout(store, "show", copy)


def test_on_a_terminal_the_copy_is_called_as_by_list(store: WholeStore) -> None:
    options = ("--store", str(store.root))
    shown, *_ = run_on_terminal("continue", "mine", "--with", "beta", *options).splitlines()
    assert re.fullmatch("copy-[0-9a-f]{8}", shown)
    assert shown in run_on_terminal("list", *options)


def test_the_original_does_not_change(store: WholeStore) -> None:
    path = Path(get_stdout(store, "path", "mine").strip())
    before = path.read_bytes()
    run(store, "continue", "mine", "--with", "beta")
    assert path.read_bytes() == before


def test_the_copys_file_ends_with_what_it_continues(store: WholeStore) -> None:
    copy = get_stdout(store, "continue", "mine", "--with", "beta").strip()
    header, *entries = map(json.loads, Path(get_stdout(store, "path", copy).strip()).read_bytes().splitlines())
    assert (header["sessionId"], header["forkedFrom"], header["origin"]) == (copy, ["mine"], "recorded")
    assert header["agent"]["id"].startswith("beta-")
    assert entries[0]["note"]["agent"].startswith("alpha-")
    assert entries[-1]["note"].pop("agent") == entries[0]["note"]["agent"]
    assert entries[-1]["note"] == {"type": "continued", "session": "mine"}


def store_prompt(store: WholeStore, session: str, agent: str, at: float) -> None:
    """Say something in a session."""
    folder = store.choose_agent(None, agent, "")
    transcript = store.open_to_append(
        folder, Header(session, "/here", "recorded", timestamps.format_now(at)), is_new=False
    )
    params = {"sessionId": session, "prompt": [{"type": "text", "text": "and more"}]}
    line = {"id": 9, "method": "session/prompt", "params": params}
    transcript.append(message(timestamps.format_now(at), Peer.CLIENT, line))
    transcript.append(message(timestamps.format_now(at), Peer.AGENT, {"id": 9, "result": {}}, "session/prompt"))
    transcript.close()
    store.mark(folder, session)


def test_a_second_time_names_the_copy_that_is_there(store: WholeStore) -> None:
    copy = get_stdout(store, "continue", "mine", "--with", "beta")
    result = run(store, "continue", "mine", "--with", "beta")
    assert (result.exit_code, result.stdout) == (0, copy)
    assert "beta has this copy already" in result.stderr
    assert "from the list of beta's sessions" in result.stderr
    assert [row["sessionId"] for row in get_json(store, "list")] == ["mine", copy.strip(), "other"]


@pytest.mark.parametrize("of_copy", [True, False])
def test_a_copy_is_another_one_once_something_was_said_in_either(store: WholeStore, of_copy: bool) -> None:
    first = get_stdout(store, "continue", "mine", "--with", "beta").strip()
    store_prompt(store, first if of_copy else "mine", "beta" if of_copy else "alpha", 3000.0)
    result = run(store, "continue", "mine", "--with", "beta")
    assert result.stdout.strip() not in ("", first)
    [earlier] = store.find_named(first)
    assert f"beta has an earlier one, {earlier.selector}," in result.stderr
    assert f"acp-proxy delete {result.stdout}" in result.stderr
    assert run(store, "continue", "mine", "--with", "beta").stdout == result.stdout


def test_a_copy_that_was_deleted_or_archived_is_made_anew(store: WholeStore) -> None:
    ids = [get_stdout(store, "continue", "mine", "--with", "beta").strip()]
    for command in ("delete", "archive"):
        run(store, command, ids[-1], *(["--yes"] if command == "delete" else []))
        ids.append(get_stdout(store, "continue", "mine", "--with", "beta").strip())
    assert len(set(ids)) == 3
    assert {row["sessionId"] for row in get_json(store, "list")} == {"mine", "other", ids[-1]}


def test_a_copy_has_a_short_id_even_if_another_agents_copy_has_the_same_long_one(store: WholeStore) -> None:
    store_session(store, "third", ("look", []), agent="gamma", at=1000.0)
    copies = {get_stdout(store, "continue", "mine", "--with", agent).strip() for agent in ("beta", "gamma")}
    [copy] = copies
    store_prompt(store, copy, "beta", 3000.0)
    run(store, "continue", "mine", "--with", "beta")
    rows = [row for row in store.list_all() if row.copy_of]
    short = shorten_ids(store, rows)
    assert len(short) == 3
    assert all(re.fullmatch("copy-[0-9a-f]{8}", each) for each in short.values())
    assert [choose_session(store, short[row.selector], "") for row in rows] == rows
    assert "  a copy from alpha  " in get_stdout(store, "show", rows[0].selector[:10])
    assert {session.selector for session in CompletionQuery(store.root).find_sessions("co")} == {
        row.selector for row in rows
    }
    assert {session.selector for session in CompletionQuery(store.root).find_sessions("acp-")} == {
        row.session_id for row in rows
    }


def test_a_deleted_copy_is_restored_by_the_short_id_that_list_shows(store: WholeStore) -> None:
    store_session(store, "46f42713-df0d-4d11-9a3c-0b8b3a1a2c11", ("another", []), agent="gamma", at=1000.0)
    for original in ("mine", "46f42713"):
        run(store, "continue", original, "--with", "beta")
    rows = [row for row in store.list_all() if row.copy_of]
    for row in rows:
        stdout = get_stdout(store, "delete", row.selector, "--yes")
        assert f"acp-proxy restore {row.selector} --store" in stdout
    pruned = get_stdout(store, "prune", "--deleted", "--dry-run")
    assert set(re.findall("copy-[0-9a-f]{8}", pruned)) == {row.selector for row in rows}
    assert re.findall("copy-[0-9a-f]{8}", get_stdout(store, "restore")) == [row.selector for row in reversed(rows)]
    for row in rows:
        assert f"  {row.selector}\n" in run(store, "restore", row.selector[:10]).stderr
    assert {row.selector for row in store.list_all() if row.copy_of} == {row.selector for row in rows}
    run(store, "delete", rows[0].selector, "--yes")
    assert "deleted already" in run(store, "delete", rows[0].selector, "--yes").stderr
    get_stdout(store, "delete", "--permanent", rows[0].selector, "--yes")
    assert get_json(store, "restore") == []
    whole = "46f42713-df0d-4d11-9a3c-0b8b3a1a2c11"
    assert f"within 30 days: acp-proxy restore {whole} --store" in get_stdout(store, "delete", "46f42713", "--yes")


def test_a_compressed_session_can_be_copied(store: WholeStore) -> None:
    run(store, "compress", "mine", "--all")
    copy = get_stdout(store, "continue", "mine", "--with", "beta").strip()
    assert "Mended." in get_stdout(store, "show", copy)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "either --with NAME or -- AGENT"),
        (("--with", "nobody"), "no agent called 'nobody'"),
        (("--with", "alpha"), "one of alpha already"),
    ],
)
def test_an_agent_that_cannot_be_meant_is_refused(store: WholeStore, words: tuple[str, ...], said: str) -> None:
    assert said in get_error(store, "continue", "mine", *words)[1]
    assert len(get_json(store, "list")) == 2


@pytest.mark.parametrize("words", [("acp",), ("opencode", "acp")])
def test_an_agent_given_by_name_and_words_is_answered_with_the_line_that_works(
    store: WholeStore, words: tuple[str, ...]
) -> None:
    status, error = get_error(store, "continue", "mine", "--with", "opencode", *words)[:2]
    assert status == 2
    assert " ".join(error.split()).endswith(f" Write: acp-proxy continue mine --store {store.root} -- opencode acp")


def test_a_name_of_several_agents_is_refused(store: WholeStore) -> None:
    store_session(store, "third", ("look", []), agent="beta-two")
    store_session(store, "fourth", ("look", []), agent="beta-three")
    assert "beta-three, beta-two" in get_error(store, "continue", "mine", "--with", "bet")[1]


@pytest.mark.parametrize("command", [["/no/such/agent"], [sys.executable, "-c", "pass"]])
def test_a_command_that_is_no_agent_is_refused(store: WholeStore, command: list[str]) -> None:
    words = ["continue", "--store", str(store.root), "mine", "--", *command]
    result = invoke(*words)
    assert (result.exit_code, result.stdout) == (1, "")
    assert f"acp-proxy doctor {command[0]}" in result.stderr


def test_an_agent_without_sessions_is_found_by_its_name_in_an_editor(
    store: WholeStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HOME", "USERPROFILE"):  # the second one is Windows'
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    settings = tmp_path / ".jetbrains" / "acp.json"
    settings.parent.mkdir()
    agent = ["-m", "acp_proxy", "run", sys.executable, "-m", "acp_proxy.tools.demo.agent", "--memory", "m"]
    entry = {"command": sys.executable, "args": agent, "env": {"PYTHONPATH": os.getcwd()}}
    settings.write_text(json.dumps({"agent_servers": {"Gamma (recorded)": entry}}))
    monkeypatch.setenv("PYTHONPATH", "")
    monkeypatch.chdir(tmp_path)
    result = run(store, "continue", "mine", "--with", "gamma")
    assert (result.exit_code, "from the list of demo-agent's sessions" in result.stderr) == (0, True), result.output
    assert len(get_json(store, "list")) == 3


def test_a_program_gets_the_arguments_that_the_registry_has(
    store: WholeStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "registry.json"
    distribution = {"npx": {"package": "delta", "args": ["--acp"]}}
    file.write_text(json.dumps({"agents": [{"id": "delta", "name": "Delta", "distribution": distribution}]}))
    program = tmp_path / ("delta.exe" if os.name == "nt" else "delta")
    program.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    _, said = get_error(store, "continue", "mine", "--with", "delta", "--registry", str(file))
    assert "acp-proxy doctor delta --acp" in said


def test_what_is_no_agent_by_any_name_is_answered_with_those_that_are(store: WholeStore) -> None:
    _, said = get_error(store, "continue", "mine", "--with", "nobody")
    assert "Agents with sessions here: alpha, beta." in said
    assert "Nor as a command: nobody is not in PATH. The registry" in said


def test_the_name_of_an_agent_with_sessions_is_no_command(store: WholeStore) -> None:
    _, said = get_error(store, "continue", "mine", "beta")
    line = shell_quote.join(["acp-proxy", "continue", "mine", "--with", "beta", "--store", str(store.root)])
    assert said.endswith(f"To continue with the agent of that name that has sessions here: {line}\n")
    assert "--with beta" in (said := get_error(store, "continue", "mine", "--agent", "alpha", "beta")[1])
    assert said.endswith(" --agent alpha\n")
    assert "--with" not in get_error(store, "continue", "mine", "nobody")[1]
