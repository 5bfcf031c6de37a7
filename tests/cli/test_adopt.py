"""``adopt`` takes over what an agent has from before, and says what it did."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from acp_proxy import shell_quote
from acp_proxy.store.index_database import ListedSession
from acp_proxy.tools.adopt import agent_loader
from acp_proxy.transcript import file_format
from acp_proxy.transcript.file_format import NoteType
from tests.cli.commands import get_json, get_stdout, invoke, run
from tests.end_to_end.proxied import entries
from tests.stored import WholeStore, chunk, find_files_with, store_session
from tests.tools.adopt.listing_agent import ListingAgent, listed, replay_of

OLD, LATER = "2026-01-02T03:04:05.000Z", "2026-01-03T00:00:00.000Z"
LOGIN = {"code": -32000, "message": "Authentication required"}
HELLO = {"before": replay_of("Mend the login", "Mended.")}


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("acp_proxy.tools.doctor.probe.GRACE_SECONDS", 0.05)
    monkeypatch.setattr(agent_loader, "_QUIET_SECONDS", 0.05)  # the agent answers the close only after everything else


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home of a user without editors."""
    for name in ("XDG_CONFIG_HOME", "NVIM_APPNAME"):
        monkeypatch.delenv(name, raising=False)
    home = tmp_path / "home"
    home.mkdir()
    for name in ("HOME", "USERPROFILE"):  # the second one is Windows'
        monkeypatch.setenv(name, str(home))
    monkeypatch.setenv("APPDATA", str(home / "AppData/Roaming"))
    return home


@pytest.fixture
def agent(tmp_path: Path) -> ListingAgent:
    return ListingAgent(tmp_path)


def adopt(store: WholeStore, *words: str, answer: str | None = None) -> Result:
    return invoke("adopt", "--store", str(store.root), *words, answer=answer)


def adopt_sessions(store: WholeStore, agent: ListingAgent, *options: str) -> str:
    """What a successful command says."""
    result = adopt(store, "--yes", *options, "--", *agent.command)
    assert result.exit_code == 0, result.stderr
    return result.stdout


def rows(store: WholeStore) -> list[ListedSession]:
    return store.list_all()


def transcript(store: WholeStore, session: str) -> list[dict[str, Any]]:
    [row] = [row for row in rows(store) if row.session_id == session]
    return entries(store.find_path(row))


def export_turns(store: WholeStore, session: str) -> Any:
    return json.loads(get_stdout(store, "export", session, "--format", "json"))["turns"]


# --- what is kept


def test_a_session_is_kept_with_the_time_the_title_and_the_directory_of_the_list(
    store: WholeStore, agent: ListingAgent, tmp_path: Path
) -> None:
    agent.plan([listed("s1", tmp_path, "2026-01-02T04:04:05+01:00", title="The login")], loads={"s1": HELLO})
    assert adopt_sessions(store, agent) == "scripted: 1 adopted\n"
    [row] = rows(store)
    assert (row.session_id, row.title, row.cwd, row.updated, row.created) == (
        "s1",
        "The login",
        str(tmp_path),
        OLD,
        OLD,
    )
    head, first, second, opened, note = transcript(store, "s1")
    assert (head["origin"], head["agent"]["name"], head["agent"]["version"]) == ("imported", "scripted", "1.2.3")
    assert [line["message"]["params"]["update"] for line in (first, second)] == HELLO["before"]
    assert opened["note"] | {"cwd": ""} == {
        "type": "opened",
        "method": "session/load",
        "cwd": "",
        "additionalDirectories": [],
        "mcpServers": [],
    }
    assert note["note"].pop("adoptedAt") > LATER
    assert note["note"] == {"type": NoteType.ADOPTED, "title": "The login", "updatedAt": OLD}
    assert {line["at"] for line in (first, second, opened, note)} == {OLD}
    assert [turn["startedAt"] for turn in export_turns(store, "s1")] == [OLD]
    assert get_stdout(store, "verify")


def test_lists_and_searches_use_the_time_of_the_agents_list(
    store: WholeStore, agent: ListingAgent, tmp_path: Path
) -> None:
    loads = {"s1": HELLO, "s2": {"before": replay_of("Now the logout")}}
    agent.plan([listed("s1", tmp_path, OLD), listed("s2", tmp_path, LATER)], loads=loads)
    adopt_sessions(store, agent)
    store_session(store, "recorded", ("Mend the login too", [chunk("yes")]))
    assert [row["sessionId"] for row in get_json(store, "list")] == ["s2", "s1", "recorded"]
    assert [row["sessionId"] for row in get_json(store, "list", "--since", "2026-01-02T12:00:00Z")] == ["s2"]
    since = get_json(store, "search", "--since", "2026-01-01", "login")
    assert [found["sessionId"] for found in since] == ["s1"]
    assert "Nothing matches" in run(store, "search", "--since", "2026-01-03", "login").stderr


def test_a_replay_after_the_answer_and_one_that_comes_twice_are_kept_once(
    store: WholeStore, agent: ListingAgent, tmp_path: Path
) -> None:
    whole = HELLO["before"]
    state = {"sessionUpdate": "available_commands_update", "availableCommands": []}
    agent.plan(
        [listed("late", tmp_path), listed("twice", tmp_path)],
        loads={"late": {"before": [state], "after": whole}, "twice": {"before": whole, "after": whole}},
    )
    adopt_sessions(store, agent)
    for session, expected in (("late", [*whole, state]), ("twice", whole)):
        updates = [line["message"]["params"]["update"] for line in transcript(store, session) if "message" in line]
        assert updates == expected


def test_all_pages_are_read_and_the_newest_session_is_loaded_first(
    store: WholeStore, agent: ListingAgent, tmp_path: Path
) -> None:
    pages = [[listed("s1", tmp_path, OLD)], [listed("none", tmp_path)], [listed("s2", tmp_path, LATER)]]
    agent.plan(*pages, loads=dict.fromkeys(("s1", "s2", "none"), HELLO))
    assert adopt_sessions(store, agent) == "scripted: 3 adopted\n"
    assert [params["sessionId"] for params in agent.asked("session/load")] == ["s2", "s1", "none"]


def test_secrets_are_masked_also_if_they_are_spread(store: WholeStore, agent: ListingAgent, tmp_path: Path) -> None:
    key = "sk-ant-api03-" + "a1B2c3D4" * 12
    past = [*replay_of("My key", f"It is {key}."), chunk(f"again {key[:20]}"), chunk(key[20:])]
    agent.plan([listed("s1", tmp_path, OLD, title=f"About {key}")], loads={"s1": {"before": past}})
    adopt_sessions(store, agent, "--redact", "keys")
    [row] = rows(store)
    data = store.find_path(row).read_text()
    assert data.count("[redacted]") >= 3
    assert not any(part in data for part in (key, key[:20], key[20:]))


def test_an_empty_session_is_not_kept_and_no_failure(store: WholeStore, agent: ListingAgent, tmp_path: Path) -> None:
    state = [{"sessionUpdate": "available_commands_update", "availableCommands": []}]
    agent.plan([listed("empty", tmp_path)], loads={"empty": {"before": state}})
    assert adopt_sessions(store, agent) == "scripted: 0 adopted, 1 without messages\n"
    assert rows(store) == []


# --- again


def test_a_second_run_takes_only_what_is_new(store: WholeStore, agent: ListingAgent, tmp_path: Path) -> None:
    first, second = listed("s1", tmp_path, OLD), listed("s2", tmp_path, LATER)
    agent.plan([first], loads={"s1": HELLO, "s2": HELLO})
    adopt_sessions(store, agent)
    agent.plan([second, first], loads={"s1": HELLO, "s2": HELLO})
    assert adopt_sessions(store, agent) == "scripted: 1 adopted, 1 here already\n"
    assert [params["sessionId"] for params in agent.asked("session/load")] == ["s1", "s2"]


def test_a_session_that_has_grown_replaces_what_was_adopted(
    store: WholeStore, agent: ListingAgent, tmp_path: Path
) -> None:
    agent.plan([listed("s1", tmp_path, OLD)], loads={"s1": HELLO})
    adopt_sessions(store, agent)
    more = [*HELLO["before"], *replay_of("And now?", "Now too.")]
    agent.plan([listed("s1", tmp_path, LATER, title="Later")], loads={"s1": {"before": more}})
    assert adopt_sessions(store, agent) == "scripted: 0 adopted, 1 updated\n"
    [row] = rows(store)
    assert (row.updated, row.title, row.prompt_count) == (LATER, "Later", 2)
    assert len([line for line in transcript(store, "s1") if "message" in line]) == 4
    assert adopt_sessions(store, agent) == "scripted: 0 adopted, 1 here already\n"


def test_a_compressed_session_that_has_grown_is_replaced_too(
    store: WholeStore, agent: ListingAgent, tmp_path: Path
) -> None:
    long = replay_of("Tell", "a long story " * 50_000)
    agent.plan([listed("s1", tmp_path, OLD)], loads={"s1": {"before": long}})
    adopt_sessions(store, agent)
    os.utime(store.find_path(rows(store)[0]), (0, 0))  # else the agent might still be replaying it
    get_stdout(store, "list")
    get_stdout(store, "compress", "--older-than", "0s")
    assert store.find_path(rows(store)[0]).suffix == ".zst"
    agent.plan([listed("s1", tmp_path, LATER)], loads={"s1": {"before": [*long, *replay_of("More", "The end.")]}})
    assert adopt_sessions(store, agent) == "scripted: 0 adopted, 1 updated\n"
    [row] = rows(store)
    assert (store.find_path(row).suffix, row.prompt_count) == (".jsonl", 2)
    assert not list(store.root.rglob("*.zst"))


@pytest.mark.parametrize("past", [HELLO["before"], replay_of("Something", "else"), HELLO["before"][:1]])
def test_a_replay_that_has_nothing_more_or_lacks_something_replaces_nothing(
    store: WholeStore, agent: ListingAgent, tmp_path: Path, past: list[dict[str, Any]]
) -> None:
    agent.plan([listed("s1", tmp_path, OLD)], loads={"s1": HELLO})
    adopt_sessions(store, agent)
    before = transcript(store, "s1")
    agent.plan([listed("s1", tmp_path, LATER)], loads={"s1": {"before": past}})
    assert adopt_sessions(store, agent) == "scripted: 0 adopted, 1 unchanged\n"
    assert transcript(store, "s1") == before


def test_a_session_in_which_something_was_recorded_is_left_alone(
    store: WholeStore, agent: ListingAgent, tmp_path: Path
) -> None:
    agent.plan([listed("s1", tmp_path, OLD)], loads={"s1": HELLO})
    adopt_sessions(store, agent)
    [row] = rows(store)
    with store.find_path(row).open("ab") as file:
        file.write(file_format.encode_note(LATER, "run111", {"type": NoteType.OPENED, "method": "session/load"}))
    agent.plan(
        [listed("s1", tmp_path, LATER)], loads={"s1": {"before": [*HELLO["before"], *replay_of("More", "More.")]}}
    )
    assert adopt_sessions(store, agent) == "scripted: 0 adopted, 1 here already\n"
    assert len(agent.asked("session/load")) == 1


@pytest.mark.parametrize("soft", [[], ["--soft"]])
def test_a_session_that_was_deleted_here_is_never_adopted(
    store: WholeStore, agent: ListingAgent, tmp_path: Path, soft: list[str]
) -> None:
    agent.plan([listed("s1", tmp_path, OLD)], loads={"s1": HELLO})
    adopt_sessions(store, agent)
    get_stdout(store, "delete", "s1", "--yes", *soft)
    agent.plan([listed("s1", tmp_path, LATER)], loads={"s1": HELLO})
    assert adopt_sessions(store, agent) == "scripted: 0 adopted, 1 deleted here\n"
    assert (rows(store), len(agent.asked("session/load"))) == ([], 1)


# --- what the user wants of the list


def test_a_directory_that_no_system_has_leaves_the_others_as_they_are(
    store: WholeStore, agent: ListingAgent, tmp_path: Path
) -> None:
    agent.plan([listed("s1", "/pr\0oj", OLD), listed("s2", tmp_path, OLD)], loads={"s2": HELLO})
    assert adopt_sessions(store, agent, "--cwd", str(tmp_path)).startswith("scripted: 1 adopted")


def test_options_narrow_the_list(store: WholeStore, agent: ListingAgent, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    agent.plan(
        [
            listed("s1", tmp_path, OLD),
            listed("s2", elsewhere, LATER),
            listed("s3", tmp_path, LATER),
            listed("s4", tmp_path),
        ]
    )

    def choose_sessions(*options: str) -> tuple[list[str], str]:
        *lines, last = adopt_sessions(store, agent, "--dry-run", *options).splitlines()
        return [line.split("  ")[1] for line in lines], last.removeprefix("scripted: ")

    assert choose_sessions() == (["s2", "s3", "s1", "s4"], "4 of 4 would be loaded")
    assert choose_sessions("--cwd", str(elsewhere)) == (["s2"], "1 of 4 would be loaded")
    assert agent.asked("session/list") == [{}, {}, {"cwd": str(elsewhere)}]
    untimed = "1 without a time, so left out by --since"
    assert choose_sessions("--since", "2026-01-02T12:00:00Z") == (["s2", "s3"], f"2 of 4 would be loaded, {untimed}")
    assert choose_sessions("--limit", "1") == (["s2"], "1 of 4 would be loaded, 3 left for another time by --limit")


def test_a_dry_run_loads_nothing_and_creates_no_store(agent: ListingAgent, tmp_path: Path) -> None:
    agent.plan([listed("s1", tmp_path, OLD, title="The\x1b[31m login")], loads={"s1": HELLO})
    command = ["adopt", "--dry-run", "--store", str(tmp_path / "none"), "--", *agent.command]
    result = invoke(*command)
    assert result.exit_code == 0
    assert "\x1b" not in result.stdout
    assert "s1" in result.stdout
    assert not (tmp_path / "none").exists()
    assert [line["method"] for line in agent.asked()] == ["initialize", "session/list"]


# --- trouble


def test_a_session_that_fails_or_ends_the_agent_is_named_and_the_rest_continues(
    store: WholeStore, agent: ListingAgent, tmp_path: Path
) -> None:
    loads: dict[str, dict[str, Any]] = {
        "s1": HELLO,
        "refused": {"error": {"code": -32603, "message": "Internal error"}},
        "dies": {"dies": 3},
        "s2": HELLO,
    }
    agent.plan([listed(name, tmp_path, title=f"Title {name}") for name in loads], loads=loads)
    result = adopt(store, "--yes", "--", *agent.command)
    assert result.exit_code == 1
    assert result.stdout == "scripted: 2 adopted, 2 failed\n"
    assert [line for line in result.stderr.splitlines() if line] == [
        "acp-proxy: not adopted: refused (Title refused): the agent refuses to load it: Internal error (-32603).",
        "acp-proxy: not adopted: dies (Title dies): the agent exited with status 3.",
    ]
    assert sorted(row.session_id for row in rows(store)) == ["s1", "s2"]
    assert agent.starts == 2


def test_the_agent_is_started_anew_after_twenty_sessions(
    store: WholeStore, agent: ListingAgent, tmp_path: Path
) -> None:
    names = [f"s{number}" for number in range(41)]
    agent.plan([listed(name, tmp_path) for name in names], loads=dict.fromkeys(names, HELLO))
    assert adopt_sessions(store, agent) == "scripted: 41 adopted\n"
    assert (agent.starts, len(agent.asked("session/list"))) == (3, 1)


def test_requests_of_the_agent_are_refused_however_many_there_are(
    store: WholeStore, agent: ListingAgent, tmp_path: Path
) -> None:
    names = [f"s{number}" for number in range(4)]
    agent.plan([listed(name, tmp_path) for name in names], loads={name: {**HELLO, "asks": 20} for name in names})
    assert adopt_sessions(store, agent) == "scripted: 4 adopted\n"
    refusals = [line["error"]["code"] for line in agent.asked() if "error" in line]
    assert refusals == [-32601] * 80


@pytest.mark.parametrize(
    ("offer", "reason"),
    [
        ({"loadSession": True}, "the agent cannot list its sessions, so acp-proxy cannot find them. If your editor"),
        ({"sessionCapabilities": {"list": {}}}, "the agent lists its sessions, but cannot load them"),
    ],
)
def test_an_agent_that_cannot_list_or_load_gets_a_message_that_says_what_to_do(
    store: WholeStore, tmp_path: Path, offer: dict[str, Any], reason: str
) -> None:
    result = adopt(store, "--yes", "--", *ListingAgent(tmp_path, offer).command)
    assert (result.exit_code, result.stdout) == (1, "")
    assert reason in result.stderr


def test_an_agent_that_needs_a_login_is_asked_no_further(
    store: WholeStore, agent: ListingAgent, tmp_path: Path
) -> None:
    agent.plan(
        [listed("s1", tmp_path), listed("s2", tmp_path)], loads={name: {"error": LOGIN} for name in ("s1", "s2")}
    )
    result = adopt(store, "--yes", "--", *agent.command)
    assert (result.exit_code, result.stdout) == (1, "scripted: 0 adopted, 2 not tried\n")
    assert "needs a login. Log in with its own command, then adopt again." in result.stderr
    assert len(agent.asked("session/load")) == 1
    agent.plan(refuses_list=LOGIN)
    result = adopt(store, "--yes", "--", *agent.command)
    assert (result.exit_code, "needs a login" in result.stderr) == (1, True)


def test_an_agent_that_is_not_there_gives_an_error(store: WholeStore) -> None:
    result = adopt(store, "--yes", "--", "/no/such/agent")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "/no/such/agent does not exist, so it would not start. Correct the path.\n" in result.stderr


@pytest.mark.parametrize(
    ("program", "said"),
    [
        (
            "import sys; sys.exit('sh: agent: command not found')",
            "the program agent was not found. Install it, or add its directory",
        ),
        ("import sys; sys.exit('I cannot')", 'exited with status 1. Its last message: "I cannot". To see more'),
        ("raise SystemExit(3)", "exited with status 3. It wrote nothing. Check its arguments"),
    ],
)
def test_an_agent_that_dies_at_once_says_what_happened_and_what_to_do(
    store: WholeStore, program: str, said: str
) -> None:
    result = adopt(store, "--yes", "--", sys.executable, "-c", program)
    assert (result.exit_code, result.stdout) == (1, "")
    assert said in " ".join(result.stderr.split())
    more = shell_quote.join(["acp-proxy", "doctor", "--", sys.executable, "-c", program])
    assert f"\nTo see more: {more}\n" in result.stderr


def test_without_a_yes_nothing_is_started(store: WholeStore, agent: ListingAgent, tmp_path: Path) -> None:
    result = adopt(store, "--", *agent.command, answer="n\n")
    assert (result.exit_code, "adopted" in result.stdout) == (1, False)
    assert "Loading may make an agent run its hooks and MCP servers" in result.stderr
    assert not (tmp_path / "notes.jsonl").exists()


def test_ctrl_c_keeps_what_is_done(
    store: WholeStore, agent: ListingAgent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent.plan([listed(name, tmp_path) for name in ("s1", "s2")], loads={"s1": HELLO, "s2": HELLO})
    load = agent_loader.AgentLoader.load

    def interrupted(self: agent_loader.AgentLoader, listed: Any) -> Any:
        if listed.session_id == "s2":
            raise KeyboardInterrupt
        return load(self, listed)

    monkeypatch.setattr(agent_loader.AgentLoader, "load", interrupted)
    result = adopt(store, "--yes", "--", *agent.command)
    assert (result.exit_code, result.stdout) == (130, "scripted: 1 adopted, 1 not tried\n")
    assert "Interrupted. What was adopted by then stays." in result.stderr
    assert [row.session_id for row in rows(store)] == ["s1"]


# --- the agents of the editors


def configure(home: Path, **agents: Any) -> None:
    path = home / ("AppData/Roaming/Zed" if sys.platform == "win32" else ".config/zed") / "settings.json"
    path.parent.mkdir(parents=True)
    path.write_text("// mine\n" + json.dumps({"agent_servers": agents}))


def as_settings(command: list[str], **more: Any) -> dict[str, Any]:
    return {"command": command[0], "args": command[1:], **more}


@pytest.fixture
def other(tmp_path: Path) -> ListingAgent:
    base = tmp_path / "other"
    base.mkdir()
    return ListingAgent(base)


def test_without_an_agent_those_of_the_editors_are_asked(
    store: WholeStore, agent: ListingAgent, other: ListingAgent, tmp_path: Path, home: Path
) -> None:
    agent.plan([listed("s1", tmp_path)], loads={"s1": HELLO})
    other.plan([listed("s2", tmp_path)], loads={"s2": HELLO})
    proxied = [sys.executable, "-m", "acp_proxy", "run", "--agent-id", "mine", *other.command]
    configure(
        home,
        One=as_settings(agent.command, env={"SECRET": "sk-1"}),
        Two=as_settings(proxied),
        Registry={"type": "registry"},
        Elsewhere=as_settings([sys.executable, "-m", "acp_proxy", "run", "--store", "/other", *other.command]),
        Private=as_settings([sys.executable, "-m", "acp_proxy", "run", "--no-record", *other.command]),
    )
    result = adopt(store, "--yes")
    assert (result.exit_code, result.stdout) == (0, "scripted: 1 adopted\nmine: 1 adopted\n")
    assert "Registry (Zed): only the editor knows how to start it." in result.stderr
    assert "Elsewhere (Zed): its sessions are in another store. Add: --store /other" in result.stderr
    assert "Private (Zed): not asked, because its sessions are not to be recorded" in result.stderr
    assert "sk-1" not in result.stderr
    assert find_files_with(store, "sk-1") == []
    assert {row.session_id: row.agent_folder.split("-")[0] for row in rows(store)} == {"s1": "scripted", "s2": "mine"}


def test_a_failing_agent_does_not_keep_the_others_from_being_asked(
    store: WholeStore, agent: ListingAgent, tmp_path: Path, home: Path
) -> None:
    agent.plan([listed("s1", tmp_path)], loads={"s1": HELLO})
    configure(home, Gone={"command": os.path.abspath("/no/such/agent")}, One=as_settings(agent.command))
    result = adopt(store, "--yes")
    assert (result.exit_code, result.stdout) == (1, "scripted: 1 adopted\n")
    gone = os.path.abspath("/no/such/agent")
    assert f"Gone (Zed): {gone} does not exist, so it would not start. Correct the path." in result.stderr


def test_without_an_agent_and_without_editors_the_error_says_what_to_give(store: WholeStore) -> None:
    result = adopt(store, "--yes")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "acp-proxy adopt -- AGENT" in result.stderr


def test_only_these_requests_are_sent(store: WholeStore, agent: ListingAgent, tmp_path: Path) -> None:
    agent.plan([listed("s1", tmp_path, OLD)], loads={"s1": HELLO})
    adopt_sessions(store, agent)
    first, listing, load, close = agent.asked()
    assert (first["method"], first["params"]["clientCapabilities"]) == ("initialize", {})
    assert (listing["method"], listing["params"]) == ("session/list", {})
    assert (load["method"], load["params"]) == (
        "session/load",
        {"sessionId": "s1", "cwd": str(tmp_path), "mcpServers": []},
    )
    assert (close["method"], close["params"]) == ("session/close", {"sessionId": "s1"})


def test_a_word_that_is_no_agent_is_refused_before_any_question(store: WholeStore) -> None:
    result = adopt(store, "no-such-agent", answer="y\n")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("acp-proxy: no-such-agent is not in PATH. The registry ")
    assert "Continue?" not in result.stderr
