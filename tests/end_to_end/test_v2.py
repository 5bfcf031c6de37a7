"""Protocol version 2, spoken by the client and the agent of the official TypeScript SDK."""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from acp_proxy.sessions.command_store import CommandStore
from acp_proxy.tools.demo.client import RequestFailed
from tests import forked
from tests.client import NO_ANSWER, Client
from tests.end_to_end.handovers import record_session
from tests.end_to_end.proxied import NOT_FOUND, PROXY, Proxied, entries
from tests.end_to_end.typescript import ROOT, TYPESCRIPT, TYPESCRIPT_TIMEOUT, find_node, run_typescript

PROMPTS = ("Mend the failing test", "And the other one?")
LAST_PROMPT = "What did I ask you first?"
ANSWER = "All tests pass. You said: "
FULL = ("--replay", "full")


@pytest.fixture
def memory(tmp_path: Path) -> Path:
    """Where the agent keeps its sessions."""
    return tmp_path / "memory.json"


def agent(proxied: Proxied, memory: Path, *what: str, options: tuple[str, ...] = ()) -> list[str]:
    """The command of acp-proxy in front of the SDK's agent. ``what``: see agent_v2.mjs."""
    script = [find_node(), str(TYPESCRIPT / "agent_v2.mjs"), str(memory), *what]
    return [*PROXY, "run", *options, "--store", str(proxied.store), "--", *script]


def main_job(proxied: Proxied, command: list[str], *also: str, deletes: bool = True) -> Any:
    """The report of the SDK's client. ``also``: see client_v2.mjs."""
    words = [str(proxied.project), *PROMPTS, LAST_PROMPT, *also, *(() if deletes else ("--keep",))]
    return run_typescript("client_v2.mjs", *words, "--", *command)


@dataclass(frozen=True)
class Talked:
    """A conversation of the SDK's client with an agent that also speaks version 1."""

    report: Any
    place: Proxied
    memory: Path


@pytest.fixture(scope="module")
def talked_once(tmp_path_factory: pytest.TempPathFactory) -> Talked:
    place = Proxied(tmp_path_factory.mktemp("talked"))
    memory = place.base / "memory.json"
    return Talked(main_job(place, agent(place, memory, "v1"), deletes=False), place, memory)


@pytest.fixture
def talked(talked_once: Talked, proxied: Proxied, memory: Path) -> Any:
    """The report of that conversation, which this test finds in its store and in the agent's memory."""
    shutil.copytree(talked_once.place.store, proxied.store)
    shutil.copy(talked_once.memory, memory)
    proxied.project = talked_once.place.project
    return talked_once.report


def conversation(updates: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [update for update in updates if update["sessionUpdate"] not in ("state_update", "session_info_update")]


def titles(updates: list[dict[str, Any]]) -> list[str]:
    return [update["title"] for update in updates if update["sessionUpdate"] == "session_info_update"]


def print_about_store(proxied: Proxied, *words: str) -> str:
    """What a command prints about the store."""
    command = [*PROXY, *words[:2], "--store", str(proxied.store), *words[2:]]
    return str(forked.run(command, text=True, check=True, timeout=TYPESCRIPT_TIMEOUT).stdout)


@pytest.mark.parametrize("loses", [(), ("forgets",), ("last",)], ids=["nothing", "all", "the last turn"])
def test_the_official_client_and_agent_do_the_main_job_whatever_the_agent_loses(
    proxied: Proxied, memory: Path, loses: tuple[str, ...]
) -> None:
    report = main_job(proxied, agent(proxied, memory, *loses, options=FULL), deletes=False)
    assert report["malformed"] == []
    assert report["initialized"]["capabilities"]["session"] == {"delete": {}}
    live = [update for turn in report["live"] for update in conversation(turn)]
    assert len(live) == 28
    assert conversation(report["loaded"]) == live
    assert report["loaded"][-1]["state"] == "idle", "the state comes last, and before the answer"
    assert len(conversation(report["further"])) == 14
    assert report["status"] == 0
    [place] = proxied.transcripts()
    recorded = [entry["message"] for entry in entries(place) if entry.get("from") == "agent"]
    updates = conversation([message["params"]["update"] for message in recorded if "method" in message])
    assert updates == [*live, *conversation(report["further"])], "everything once"
    assert {entry.get("v") for entry in entries(place) if "message" in entry} == {2}


def test_a_replay_of_the_transcript_is_folded_unless_the_options_say_otherwise(proxied: Proxied, memory: Path) -> None:
    report = main_job(proxied, agent(proxied, memory, "forgets"), deletes=False)
    assert report["malformed"] == []
    loaded = conversation(report["loaded"])
    turn = ["user_message", "agent_thought_chunk", "plan_update", "tool_call_update"]
    turn += ["terminal_update", "terminal_output_chunk", "agent_message"]
    assert [update["sessionUpdate"] for update in loaded] == turn * len(PROMPTS)
    ran = loaded[3]
    assert (ran["title"], ran["status"], ran["rawInput"]) == ("Run the tests", "completed", None)
    assert ran["content"] == [{"type": "terminal", "terminalId": "x-1"}]


def test_a_session_that_the_agent_does_not_know_continues_in_a_new_one(proxied: Proxied, memory: Path) -> None:
    report = main_job(proxied, agent(proxied, memory, "restarts", options=FULL), deletes=False)
    assert report["malformed"] == []
    live = [update for turn in report["live"] for update in conversation(turn)]
    *loaded, notice = conversation(report["loaded"])
    assert json.loads(json.dumps(loaded).replace('"acp-proxy-0-', '"')) == live
    further = {id for update in report["further"] if (id := update.get("messageId"))}
    assert further <= {update.get("messageId") for update in live}, "the new session uses the ids of the old one again"
    assert further.isdisjoint(update.get("messageId") for update in loaded)
    assert "continues in a new session" in notice["content"]["text"]
    assert report["loaded"][-1]["state"] == "idle"
    [said] = [update for update in report["further"] if update["sessionUpdate"] == "user_message"]
    assert said["content"] == [{"type": "text", "text": LAST_PROMPT}], "the record is not shown"
    answered = report["further"][-2]["content"][0]["text"]
    for prompt in PROMPTS:
        assert answered.count(f"> {prompt}\n") == 1
        assert answered.count(f"> {ANSWER}{prompt}\n") == 1, "in the last form of the message"
    assert answered.endswith(LAST_PROMPT)
    notes = [entry["note"] for entry in entries(proxied.transcript(report["session"])) if "note" in entry]
    assert [note["type"] for note in notes][-1] == "handover"


def test_a_session_gets_a_title_if_the_agent_gives_none(talked: Any, proxied: Proxied, memory: Path) -> None:
    report = talked
    assert report["malformed"] == []
    assert [titles(turn) for turn in report["live"]] == [[PROMPTS[0]], []], "once, with the first turn"
    assert [row["title"] for row in report["listed"]] == [PROMPTS[0]]
    print_about_store(proxied, "rename", "last", "Mine")
    assert [row["title"] for row in main_job(proxied, agent(proxied, memory))["listed"]] == ["Mine", PROMPTS[0]]


def test_the_official_client_uses_every_draft(proxied: Proxied, memory: Path) -> None:
    report = main_job(proxied, agent(proxied, memory, options=("--unstable",)), "--drafts", deletes=False)
    assert report["malformed"] == []
    assert report["initialized"]["capabilities"]["session"].keys() == {"delete", "title", "archive", "status"}
    [session] = [row["sessionId"] for row in report["listed"]]
    mine = {"sessionId": session, "cwd": str(proxied.project), "title": "My title"}
    assert report["drafts"] == {
        "saved": "saved",
        "titled": {"title": "My title"},
        "told": ["My title"],
        "open": "open",
        "archived": "saved",
        "exclude": [],
        "include": [mine | {"archived": True}],
        "only": [mine | {"archived": True}],
        "later": [mine | {"archived": False}],
        "unknown": {"code": NOT_FOUND, "data": {"sessionId": "unknown"}},
    }


def test_a_delete_is_served_if_the_agent_has_none(proxied: Proxied, memory: Path) -> None:
    report = main_job(proxied, agent(proxied, memory))
    assert [row["sessionId"] for row in report["listed"]] == [report["session"]]
    assert (report["left"], report["status"]) == ([], 0)
    assert proxied.transcripts() == []


def test_the_agents_own_delete_deletes_the_transcript_too(proxied: Proxied, memory: Path) -> None:
    report = main_job(proxied, agent(proxied, memory, "deletes"))
    assert "_meta" not in report["initialized"]["capabilities"]
    assert (report["left"], json.loads(memory.read_text())) == ([], {})
    assert proxied.transcripts() == []


def test_all_commands_read_version_2(talked: Any, proxied: Proxied) -> None:
    shown = print_about_store(proxied, "show", "last")
    for prompt in (*PROMPTS, LAST_PROMPT):
        assert shown.count(f"{ANSWER}{prompt}") == 1
    assert "pss" not in shown, "the whole message has replaced its chunks"
    assert shown.count("Tool: Run the tests [completed]") == 3
    listed = json.loads(print_about_store(proxied, "list", "--json"))
    row = listed[0] if isinstance(listed, list) else listed["sessions"][0]
    assert row["title"] == PROMPTS[0]
    assert talked["session"] in print_about_store(proxied, "search", "pass")
    assert json.loads(print_about_store(proxied, "stats", "--json"))["total"]["turns"] == 3
    exported = print_about_store(proxied, "export", "last", "--format", "json")
    assert "12 passed" in exported
    assert f"{ANSWER}{PROMPTS[1]}" in print_about_store(proxied, "replay", "last", "--speed", "0")


@pytest.mark.usefixtures("talked")
def test_version_is_negotiated_and_the_agent_is_one_agent_in_both(proxied: Proxied, memory: Path) -> None:
    with Client(agent(proxied, memory, "v1")) as client:
        about = {"protocolVersion": 1, "clientCapabilities": {}}
        answer = client.request("initialize", about)
        assert (answer["protocolVersion"], "agentCapabilities" in answer) == (1, True)
        session = client.request("session/new", {"cwd": str(proxied.project), "mcpServers": []})["sessionId"]
        prompt = {"sessionId": session, "prompt": [{"type": "text", "text": "hello"}]}
        assert client.request("session/prompt", prompt)["stopReason"] == "end_turn"
        client.close_stdin()
        assert client.wait() == 0
    first, second = proxied.transcripts()
    assert first.parent == second.parent
    versions = [{entry.get("v") for entry in entries(place) if "message" in entry} for place in (first, second)]
    assert sorted(versions, key=str) == [{2}, {None}]
    assert len(list(CommandStore(proxied.store).list_all())) == 2


def test_a_client_that_offers_version_2_gets_version_1_from_an_agent_of_that_version(
    proxied: Proxied, memory: Path
) -> None:
    about = {"protocolVersion": 2, "info": {"name": "editor", "version": "1"}, "capabilities": {}}
    with Client(agent(proxied, memory, "only1")) as client:
        assert client.request("initialize", about)["protocolVersion"] == 1
        session = client.request("session/new", {"cwd": str(proxied.project), "mcpServers": []})["sessionId"]
        prompt = {"sessionId": session, "prompt": [{"type": "text", "text": "hello"}]}
        assert client.request("session/prompt", prompt)["stopReason"] == "end_turn"
        [row] = client.request("session/list", {})["sessions"]
        assert row["title"] == "hello"
        client.close_stdin()
        assert client.wait() == 0


def test_an_agent_of_version_2_refuses_a_client_of_version_1_itself(proxied: Proxied, memory: Path) -> None:
    with Client(agent(proxied, memory)) as client:
        with pytest.raises(RequestFailed, match="-32022"):
            client.request("initialize", {"protocolVersion": 1, "clientCapabilities": {}})
        client.close_stdin()
        assert client.wait() == 0
        assert client.read_stderr() == ""
    assert proxied.transcripts() == []


def test_version_1_clients_see_what_was_recorded_in_version_2(talked: Any, proxied: Proxied, memory: Path) -> None:
    with Client(agent(proxied, memory, "v1")) as client:
        client.request("initialize", {"protocolVersion": 1, "clientCapabilities": {}})
        client.request("session/load", {"sessionId": talked["session"], "cwd": str(proxied.project), "mcpServers": []})
        updates = [
            message["params"]["update"] for message in client.messages() if message.get("method") == "session/update"
        ]
        client.close_stdin()
        assert client.wait() == 0
    texts = [update["content"]["text"] for update in updates if update["sessionUpdate"] == "user_message_chunk"]
    assert texts == [*PROMPTS, LAST_PROMPT]
    answers = [update["content"]["text"] for update in updates if update["sessionUpdate"] == "agent_message_chunk"]
    assert answers[: len(texts)] == [f"{ANSWER}{prompt}" for prompt in texts]
    calls = [update for update in updates if update["sessionUpdate"] == "tool_call"]
    assert [(call["status"], call["kind"]) for call in calls] == [("completed", "execute")] * 3
    assert "12 passed" in calls[0]["content"][0]["content"]["text"]


def test_a_version_2_client_sees_what_was_recorded_in_version_1(proxied: Proxied, memory: Path) -> None:
    command = agent(proxied, memory, "v1")
    with Client(command) as client:
        client.request("initialize", {"protocolVersion": 1, "clientCapabilities": {}})
        session = client.request("session/new", {"cwd": str(proxied.project), "mcpServers": []})["sessionId"]
        prompt = {"sessionId": session, "prompt": [{"type": "text", "text": "hello"}]}
        assert client.request("session/prompt", prompt)["stopReason"] == "end_turn"
        client.close_stdin()
        assert client.wait() == 0
    report = main_job(proxied, command, f"--session={session}", deletes=False)
    assert report["malformed"] == []
    said = [update for update in conversation(report["loaded"]) if update["messageId"] != "acp-proxy-handover"]
    words = [(update["sessionUpdate"], update["content"]["text"]) for update in said]
    assert words == [("user_message_chunk", "hello"), ("agent_message_chunk", "As version 1.")]
    assert "> As version 1." in report["further"][-2]["content"][0]["text"], "the agent gets the record"


def test_an_agent_of_version_2_continues_a_session_of_another_agent(proxied: Proxied, memory: Path) -> None:
    session, _ = record_session(proxied, "mend it", "and the other?")
    command = agent(proxied, memory)
    made = print_about_store(proxied, "continue", session, "--", *command[command.index("--") + 1 :])
    report = main_job(proxied, command, f"--session={made.strip()}", deletes=False)
    assert report["malformed"] == []
    texts = [
        update["content"]["text"]
        for update in conversation(report["loaded"])
        if update["sessionUpdate"] == "user_message_chunk"
    ]
    assert texts == ["mend it", "and the other?"]
    answered = report["further"][-2]["content"][0]["text"]
    assert "> and the other?" in answered, "the agent gets the record"
    assert answered.endswith(LAST_PROMPT)


def test_the_mock_agent_plays_turns_of_version_2_to_a_client_of_version_1(talked: Any, proxied: Proxied) -> None:
    with Client(mock(str(proxied.transcript(talked["session"])))) as client:
        client.request("initialize", {"protocolVersion": 1, "clientCapabilities": {}})
        new = client.request("session/new", {"cwd": str(proxied.project), "mcpServers": []})["sessionId"]
        prompt = {"sessionId": new, "prompt": [{"type": "text", "text": PROMPTS[0]}]}
        assert client.request("session/prompt", prompt)["stopReason"] == "end_turn"
        kinds = [
            message["params"]["update"]["sessionUpdate"]
            for message in client.messages()
            if "update" in message.get("method", "")
        ]
        client.close_stdin()
        assert client.wait() == 0
    assert {"user_message_chunk", "agent_thought_chunk", "plan", "tool_call", "agent_message_chunk"} <= set(kinds)
    assert not any(kind in ("user_message", "agent_message", "plan_update", "state_update") for kind in kinds)


# --- the mock agent


def state(name: str, session: str, **more: Any) -> dict[str, Any]:
    update = {"sessionUpdate": "state_update", "state": name, **more}
    return {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": session, "update": update}}


ABOUT = {"protocolVersion": 2, "info": {"name": "editor", "version": "1"}, "capabilities": {}}
FIXTURE = ROOT / "fixtures" / "transcripts" / "v1" / "conversation.jsonl"


def mock(*words: str) -> list[str]:
    return [*PROXY, "mock-agent", "--speed", "0", *words]


def without_ids(updates: list[dict[str, Any]]) -> Any:
    return json.loads(json.dumps(updates).replace('"mock-1-', '"'))


def test_the_mock_agent_plays_version_2_as_it_was_recorded(talked: Any, proxied: Proxied) -> None:
    session = talked["session"]
    report = main_job(proxied, mock(str(proxied.transcript(session))), f"--session={session}")
    assert report["malformed"] == []
    everything = [update for turn in talked["live"] for update in conversation(turn)]
    everything += conversation(talked["further"])
    assert conversation(report["loaded"]) == everything
    states = [update["state"] for update in report["loaded"] if update["sessionUpdate"] == "state_update"]
    assert (states, report["left"], report["status"]) == (["idle"], [], 0)
    echo, *played = conversation(report["further"])
    assert echo["content"] == [{"type": "text", "text": LAST_PROMPT}]
    assert without_ids(played) == conversation(talked["further"])[1:]
    ids = {update["messageId"] for update in everything if "messageId" in update}
    again = {update["messageId"] for update in played if "messageId" in update}
    assert ids.isdisjoint(again), "what is played does not replace the past"


def test_the_mock_agent_plays_version_1_to_a_client_of_version_2(proxied: Proxied) -> None:
    with Client(mock(str(FIXTURE))) as client:
        assert client.request("initialize", ABOUT)["capabilities"]["session"].keys() == {"prompt", "delete"}
        session = client.request("session/new", {"cwd": str(proxied.project)})["sessionId"]
        prompt = {"sessionId": session, "prompt": [{"type": "text", "text": "Fix the login"}]}
        assert client.request("session/prompt", prompt) == {"messageId": "mock-1"}
        asked = client.wait_for_method("session/request_permission")["params"]
        assert asked["subject"] == {"type": "tool_call", "toolCall": {"toolCallId": "mock-1-call-1"}}
        client.wait_for(state("idle", session, stopReason="end_turn").__eq__)
        client.close_stdin()
        assert client.wait() == 0
        updates = [
            message["params"]["update"] for message in client.messages() if message.get("method") == "session/update"
        ]
        kinds = [update["sessionUpdate"] for update in updates]
    assert [update["stopReason"] for update in updates if update.get("state") == "idle"] == ["end_turn"]
    begins = ["available_commands_update", "state_update", "user_message", "agent_thought_chunk", "plan_update"]
    says = ["agent_message_chunk", "agent_message_chunk", "tool_call_update", "tool_call_update", "state_update"]
    assert kinds[:10] == [*begins, *says]


def test_a_turn_of_the_mock_agent_ends_with_a_state_when_it_is_cancelled_or_unknown(proxied: Proxied) -> None:
    with Client(mock(str(FIXTURE)), on_request=lambda request: NO_ANSWER) as client:
        client.request("initialize", ABOUT)
        session = client.request("session/new", {"cwd": str(proxied.project)})["sessionId"]
        for text, ends in (("Fix the login", "cancelled"), ("Something else", "end_turn")):
            client.request("session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": text}]})
            if ends == "cancelled":
                client.wait_for_method("session/request_permission")
                client.notify("session/cancel", {"sessionId": session})
            ended = state("idle", session, stopReason=ends)
            client.wait_for(ended.__eq__)
        with pytest.raises(RequestFailed, match="-32601"):
            client.request("session/load", {"sessionId": session, "cwd": str(proxied.project)})
        client.close_stdin()
        assert client.wait() == 0
