"""The check of an agent: its offer, its load, and the advice if it fails."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from acp_proxy.decisions.capabilities import Modes
from acp_proxy.protocol import proxy_ids
from acp_proxy.tools.doctor.advice import Advice
from acp_proxy.tools.doctor.agent_report import AgentReport, AgentStart, examine
from acp_proxy.tools.doctor.capabilities import BY_PROXY
from acp_proxy.tools.doctor.replay_check import LastLoad, find_newest_session
from acp_proxy.tools.editors import agent_names
from acp_proxy.transcript import file_format
from acp_proxy.transcript.file_format import NoteType
from tests.agents import answering_agent, offer_capabilities, python_command, read_requests
from tests.stored import EPOCH, WholeStore, chunk, store_session
from tests.waiting import SECONDS

LOADS = {"initialize": offer_capabilities(loadSession=True), "session/load": {"result": {}}}
CALL = {"sessionUpdate": "tool_call", "toolCallId": "1", "title": "the tool", "status": "completed"}
SAID = "It is mended, and all of it was tested."
ANSWER = [CALL, chunk("It is "), chunk("mended, and all of it was tested.")]
REFUSES = """print('{"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":"not you"}}', flush=True)\ninput()"""
USER = chunk("Mend it", "user_message_chunk")


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not wait before ending an agent that does not end by itself."""
    monkeypatch.setattr("acp_proxy.tools.doctor.probe.GRACE_SECONDS", 0.05)


def wish(
    command: list[str], store: WholeStore | None = None, off: str | None = None, seconds: float = SECONDS
) -> AgentStart:
    return AgentStart(command, Modes(), None, store, off, seconds)


def looked_at(command: list[str], store: WholeStore | None = None, **more: Any) -> tuple[AgentReport, list[Advice]]:
    return examine(wish(command, store, **more), lambda text: None)


def store_answered_session(store: WholeStore, cwd: Path, **more: Any) -> None:
    store_session(store, "s", ("Mend it", ANSWER), agent="scripted", cwd=str(cwd), **more)


def check_load(
    tmp_path: Path, store: WholeStore, past: list[dict[str, Any]], answers: Mapping[str, Any] = LOADS
) -> AgentReport:
    found, _ = looked_at(answering_agent(tmp_path / "notes", answers, past), store)
    assert found.problem is None
    return found


def outcome(found: AgentReport) -> tuple[str, tuple[str, ...]]:
    assert found.load_result is not None
    return found.load_result.outcome, found.load_result.left_out


def test_the_offer_and_the_additions_are_reported(tmp_path: Path, store: WholeStore) -> None:
    store_answered_session(store, tmp_path)
    found = check_load(
        tmp_path, store, [], {"initialize": offer_capabilities(sessionCapabilities={"resume": {}, "fork": {}})}
    )
    assert found.offer is not None
    assert (found.offer.name, found.offer.agent_version) == ("scripted", "1.2.3")
    assert [ability.name for ability in found.abilities if ability.answered_by == BY_PROXY] == [
        "list",
        "load",
        "delete",
    ]
    assert (found.folder, found.sessions) == (store.choose_agent(None, "scripted", ""), 1)
    assert found.load_result is None


@pytest.mark.parametrize(
    ("past", "expected"),
    [
        ([USER, CALL, chunk(SAID)], ("whole", ())),
        ([USER, *ANSWER], ("whole", ())),
        ([CALL, chunk(SAID)], ("loses", ("the user's words",))),
        ([USER, chunk(SAID)], ("loses", ("1 of 1 tool call",))),
        ([USER, CALL, chunk("and all of it was tested.")], ("loses", ("some of the agent's words",))),
        ([], ("loses", ("the user's words", "the agent's words", "1 of 1 tool call"))),
        ([USER, CALL, chunk(f"{SAID} And more.")], ("other", ())),
    ],
)
def test_a_load_is_compared_with_the_transcript(
    tmp_path: Path, store: WholeStore, past: list[dict[str, Any]], expected: tuple[str, tuple[str, ...]]
) -> None:
    store_answered_session(store, tmp_path)
    assert outcome(check_load(tmp_path, store, past)) == expected


def test_a_load_that_only_repeats_says_so(tmp_path: Path, store: WholeStore) -> None:
    store_answered_session(store, tmp_path)
    result = check_load(tmp_path, store, [USER, CALL, chunk(SAID), USER, CALL, chunk(SAID)]).load_result
    assert result is not None
    assert result.outcome == "loses"
    assert result.text == "it sends something twice; acp-proxy shows the transcript instead"


def test_updates_of_another_session_do_not_count(tmp_path: Path, store: WholeStore) -> None:
    store_answered_session(store, tmp_path)
    source = """
import json
def say(**message): print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
input()
say(id=1, result={"protocolVersion": 1, "agentCapabilities": {"loadSession": True}, "agentInfo": {"name": "scripted"}})
input()
update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "It is mended."}}
say(method="session/update", params={"sessionId": "another", "update": update})
say(id=2, result={})
"""
    found, _ = looked_at(python_command(source), store)
    assert outcome(found) == ("loses", ("the user's words", "the agent's words", "1 of 1 tool call"))


@pytest.mark.parametrize(("result", "version"), [("None", "none"), ("{}", "none"), ('{"protocolVersion": "1"}', '"1"')])
def test_an_agent_of_an_unknown_version_of_the_protocol_is_not_recorded(
    store: WholeStore, result: str, version: str
) -> None:
    source = f"""
import json
input()
print(json.dumps({{"jsonrpc": "2.0", "id": 1, "result": {result}}}), flush=True)
"""
    _, [todo] = looked_at(python_command(source), store)
    assert todo.is_wrong
    assert todo.text.startswith(f"Nothing is recorded: the agent's protocolVersion is {version}, and acp-proxy records")


SECOND = """
import json, sys
def say(**message): print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
def tell(kind, **more):
    say(method="session/update", params={"sessionId": "s", "update": {"sessionUpdate": kind, **more}})
for line in sys.stdin:
    asked = json.loads(line)
    params = asked["params"]
    if params.get("protocolVersion") == 1:
        say(id=asked["id"], error={"code": -32022, "message": "Unsupported protocol version"})
    elif asked["method"] == "initialize":
        about = {"name": "scripted", "version": "2"}
        say(id=asked["id"], result={"protocolVersion": 2, "info": about, "capabilities": {"session": {}}})
    elif params.get("replayFrom") == {"type": "start"}:
        tell("user_message", messageId="u", content=[{"type": "text", "text": "Mend it"}])
        tell("agent_message", messageId="a", content=[{"type": "text", "text": sys.argv[1]}])
        tell("tool_call_update", toolCallId="1", title="the tool", status="completed")
        tell("state_update", state="idle")
        say(id=asked["id"], result={})
"""


@pytest.mark.parametrize(("said", "expected"), [(SAID, "whole"), (SAID[:20], "loses")])
def test_an_agent_that_only_speaks_version_2_is_checked(
    tmp_path: Path, store: WholeStore, said: str, expected: str
) -> None:
    store_session(store, "s", ("Mend it", [chunk(SAID), CALL]), agent="scripted", cwd=str(tmp_path))
    found, todo = looked_at(python_command(SECOND, said), store)
    assert found.offer is not None
    assert (found.problem, found.offer.protocol_version, found.folder is not None, todo) == (None, 2, True, [])
    assert [ability.name for ability in found.abilities if ability.answered_by == BY_PROXY] == ["delete"]
    assert outcome(found)[0] == expected


def test_the_agent_gets_no_other_request(tmp_path: Path, store: WholeStore) -> None:
    store_answered_session(store, tmp_path)
    check_load(tmp_path, store, [])
    assert [request["method"] for request in read_requests(tmp_path / "notes")] == ["initialize", "session/load"]
    assert read_requests(tmp_path / "notes")[1]["params"] == {"sessionId": "s", "cwd": str(tmp_path), "mcpServers": []}


@pytest.mark.parametrize(
    "unfit",
    [
        {"origin": file_format.IMPORTED},
        {"notes": [{"type": "gap", "reason": "ENOSPC"}]},
        {"error": {"code": -32000, "message": "no"}},
    ],
)
def test_an_incomplete_session_is_not_loaded(tmp_path: Path, store: WholeStore, unfit: dict[str, Any]) -> None:
    store_answered_session(store, tmp_path, **unfit)
    assert outcome(check_load(tmp_path, store, [])) == ("not tried", ())
    assert [request["method"] for request in read_requests(tmp_path / "notes")] == ["initialize"]


def test_a_session_without_its_directory_or_of_another_agent_is_not_loaded(tmp_path: Path, store: WholeStore) -> None:
    store_answered_session(store, tmp_path / "gone")
    store_session(store, "other", ("Mend it", ANSWER), agent="other", cwd=str(tmp_path))
    assert outcome(check_load(tmp_path, store, [])) == ("not tried", ())


def test_a_load_without_a_result_is_reported(tmp_path: Path, store: WholeStore) -> None:
    store_answered_session(store, tmp_path)
    error = {"code": -32603, "message": "Internal\x1b error", "data": {"details": "no disk"}}
    refuses = {**LOADS, "session/load": {"error": error}}
    found, [todo] = looked_at(answering_agent(tmp_path / "notes", refuses), store)
    assert outcome(found) == ("refused", ())
    assert found.load_result is not None
    assert found.load_result.text.endswith("error: no disk (-32603)")
    assert (todo.is_wrong, "--handover always" in todo.text) == (False, True)
    unknown = {**LOADS, "session/load": {"error": {"code": -32603, "message": "No previous sessions found"}}}
    found, [todo] = looked_at(answering_agent(tmp_path / "notes", unknown), store)
    assert (todo.is_wrong, "your editor can open it: acp-proxy shows the transcript" in todo.text) == (False, True)
    assert found.load_result is not None
    assert found.load_result.text.endswith("acp-proxy shows the transcript instead")
    wants_login = {**LOADS, "session/load": {"error": {"code": -32000, "message": "Log in"}}}
    assert "login" in looked_at(answering_agent(tmp_path / "notes", wants_login), store)[1][0].text
    source = """
print('{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1,"agentCapabilities":{"loadSession":true},'
      '"agentInfo":{"name":"scripted"}}}', flush=True)
input(), input()
"""
    assert outcome(looked_at(python_command(source), store)[0]) == ("no answer", ())


def replay_note(shown: str, rule: int) -> dict[str, Any]:
    return {"type": NoteType.REPLAY, "shown": shown, "rule": rule}


def test_the_last_loads_of_the_newest_sessions_are_reported(tmp_path: Path, store: WholeStore) -> None:
    turn = ("Mend it", ANSWER)
    notes = [replay_note("agent", 5), replay_note("transcript", 4)]
    store_session(store, "old", turn, agent="scripted", at=EPOCH, notes=notes)
    store_session(store, "new", turn, agent="scripted", at=EPOCH + 1, notes=[replay_note("agent", 2)])
    store_session(store, "never", turn, agent="scripted", at=EPOCH + 2)
    store_session(store, "later", turn, agent="scripted", at=EPOCH + 3, notes=[replay_note("agent", 99)])
    store_session(store, "foreign", turn, agent="other", at=EPOCH + 4, notes=[replay_note("agent", 5)])
    assert check_load(tmp_path, store, []).last_loads == (
        LastLoad("new", "agent", "rule 2: the agent's replay has something that the transcript lacks"),
        LastLoad(
            "old",
            "transcript",
            "rule 4: the agent resumed the session and replayed nothing; or the agent's replay lacks something, or has "
            "it twice",
        ),
    )


def test_other_notes_are_not_reported_as_loads(tmp_path: Path, store: WholeStore) -> None:
    words = f'"from":"proxy",{file_format.NOTE_BYTES.decode()}replay"' + ',"shown":"agent","rule":5}'
    store_session(store, "s", (words, [chunk(words)]), agent="scripted", cwd=str(tmp_path))
    assert check_load(tmp_path, store, []).last_loads == ()


def test_the_offer_is_reported_without_a_store(tmp_path: Path) -> None:
    found, todo = looked_at(answering_agent(tmp_path / "notes", LOADS), None, off="no room")
    assert (found.problem, found.load_result, todo) == (None, None, [])
    assert not [ability for ability in found.abilities if ability.answered_by == BY_PROXY]


def problem(command: list[str], seconds: float = SECONDS) -> str:
    found, [todo] = looked_at(command, seconds=seconds)
    assert todo.is_wrong
    assert found.problem is not None
    assert todo.text.lower().startswith(found.problem.lower())
    assert len(todo.text) > len(found.problem) + 10, "what to do"
    return found.problem


def test_a_failed_start_is_explained(tmp_path: Path) -> None:
    assert "so it would not start" in problem(["no-such-agent"])
    assert "PATH" in problem(["no-such-agent"])
    assert "so it would not start" in problem([str(tmp_path / "nothing")])
    plain = tmp_path / "plain"
    plain.write_text("")
    assert "cannot be executed" in problem([str(plain)])
    assert "cannot be executed" in problem([str(tmp_path)])


def test_a_missing_interpreter_is_explained(tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.write_text("#!/no/such/interpreter\n")
    plain.chmod(0o755)
    assert "first line" in problem([str(plain)])


def test_a_silent_agent_is_reported_with_its_stderr() -> None:
    found, _ = looked_at(python_command("import sys; print('Usage: agent'); sys.exit('no key')"))
    assert (found.stray_lines, found.stderr) == (("Usage: agent",), ("no key",))
    assert found.problem == "at initialize, the agent exited with status 1"
    assert "does not answer" in problem(python_command("import time; time.sleep(1000)"), 0.3)
    assert "not you (-32600)" in problem(python_command(REFUSES))


def advice(command: list[str], seconds: float = SECONDS) -> str:
    _, [todo] = looked_at(command, seconds=seconds)
    return todo.text


def test_an_agent_that_ends_is_explained_by_its_last_messages() -> None:
    source = "import sys; sys.exit('env: node: No such file or directory')"
    expected = (
        'At initialize, the agent exited with status 1. The message "env: node: No such file or directory" means: '
    )
    assert advice(python_command(source)).startswith(f"{expected}the program node was not found. Install it")
    assert advice(python_command("import sys; sys.exit('something odd')")).endswith("See its messages on stderr.")
    assert "Check its arguments" in advice(python_command("print('Usage: agent')"))


@pytest.mark.parametrize("source", ["raise SystemExit(1)", "print('Usage: agent')", "raise SystemExit('odd')", REFUSES])
def test_the_adapter_of_a_program_is_named_and_no_arguments_in_general(
    source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = python_command(source)
    monkeypatch.setitem(agent_names._ADAPTER_COMMANDS, Path(command[0]).stem, "npx adapter")
    assert advice(command).endswith('Give its adapter instead: "npx adapter".')
    assert "Check its arguments" not in advice(command)


def test_more_time_is_advised_only_for_an_agent_that_has_not_ended() -> None:
    assert "--timeout" in advice(python_command("import time; time.sleep(1000)"), 0.3)
    assert "--timeout" not in advice(python_command(""))


def test_an_error_at_initialize_is_explained() -> None:
    error = {"code": -32000, "message": "Authentication required"}
    source = f"import json; input(); print(json.dumps({{'jsonrpc': '2.0', 'id': 1, 'error': {error}}})); input()"
    assert "Log in with its own command" in advice(python_command(source))


def test_a_copy_of_another_agents_session_is_not_loaded(tmp_path: Path, store: WholeStore) -> None:
    store_session(
        store, proxy_ids.make_other_agents_id("other", "s"), ("Mend it", ANSWER), agent="scripted", cwd=str(tmp_path)
    )
    assert find_newest_session(store, store.list_agents("scripted")[0]) is None
