"""The mock agent as a process, as developers of editors use it in CI."""

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from acp_proxy.protocol.jsonrpc import Peer
from acp_proxy.transcript.appender import TranscriptAppender
from tests import forked
from tests.client import NO_ANSWER, TIMEOUT, RequestFailed, prompt_params
from tests.end_to_end.proxied import INVALID_REQUEST, NOT_FOUND, PROXY, Editor, Proxied, texts
from tests.store import transcript_lines
from tests.tools.mock_agent import recording
from tests.tools.mock_agent.recording import MODES, REFUSED, SELECTED, call_line, permission_answer, permission_request

NIGHT = 10 * 3600  # seconds
METHOD_NOT_FOUND, PARSE_ERROR, INVALID_PARAMS, INTERNAL_ERROR = -32601, -32700, -32602, -32603
CANCELLED = {"stopReason": "cancelled"}
COMMANDS = transcript_lines.update(
    "available_commands_update", availableCommands=[{"name": "review", "description": "Review"}]
)
TURN = [
    transcript_lines.prompt_line("Fix the login"),
    transcript_lines.agent_chunk("Look"),
    transcript_lines.agent_chunk("ing."),
    call_line("pending"),
    permission_request(),
    permission_answer(),
]
TURN += [call_line("completed"), transcript_lines.agent_chunk("Done."), transcript_lines.answer()]

Start = Callable[..., Editor]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start a mock agent with these transcripts, or with one of these lines."""
    editors: list[Editor] = []

    def start_agent(*lines: bytes, files: list[Path] | None = None, options: tuple[str, ...] = ("--speed", "0"),
                    prefix: tuple[str, ...] = (), **client: Any) -> Editor:  # fmt: skip
        chosen = files if files is not None else [write_transcript(tmp_path / f"{len(editors)}.jsonl", *lines)]
        command = [*prefix, *PROXY, "mock-agent", *options, *map(str, chosen)]
        editors.append(Editor(command, cwd=tmp_path, **client))
        editors[-1].project = tmp_path
        return editors[-1]

    yield start_agent
    for editor in editors:
        editor.close()


def write_transcript(path: Path, *lines: bytes, session: str = transcript_lines.SESSION) -> Path:
    transcript = TranscriptAppender(path, transcript_lines.header(session))
    transcript.append(b"".join(lines))
    transcript.close()
    return path


def raw(line: bytes) -> bytes:
    """The message of an entry, as it was on the wire."""
    found = transcript_lines.entry(line).raw
    assert found is not None
    return found + b"\n"


def prompt_for_lines(editor: Editor, session: str, text: str) -> tuple[list[bytes], dict[str, Any]]:
    """The lines up to the answer of a prompt, and the answer."""
    since, number = editor.count_lines(), editor.start_prompt(session, text)
    answer = editor.wait_for_answer(number)
    return [line.raw for line in editor.lines[since : editor.find_answer(number)]], answer


def list_offered(editor: Editor) -> set[str]:
    capabilities = editor.initialize()["agentCapabilities"]
    return {*capabilities["sessionCapabilities"], *(["load"] if capabilities["loadSession"] else [])}


# --- turns


def test_a_turn_is_played_unchanged_except_for_the_session_id(start: Start) -> None:
    editor = start(COMMANDS, *TURN)
    session = editor.open()
    lines, answer = prompt_for_lines(editor, session, "Fix the login")
    recorded = [raw(line) for line in TURN[1:-1] if b'"from":"agent"' in line]
    assert lines == [line.replace(transcript_lines.SESSION.encode(), session.encode()) for line in recorded]
    assert answer["result"] == {"stopReason": "end_turn"}


def test_a_loaded_session_is_played_byte_for_byte(start: Start) -> None:
    editor = start(*TURN)
    editor.initialize()
    assert texts(editor.load(transcript_lines.SESSION).updates) == ["Looking.", "Done."]
    lines, _ = prompt_for_lines(editor, transcript_lines.SESSION, "Fix the login")
    assert lines == [raw(line) for line in TURN[1:-1] if b'"from":"agent"' in line]


def test_the_commands_follow_the_answer_to_a_new_session(start: Start) -> None:
    editor = start(transcript_lines.note("opened", modes=MODES), COMMANDS, *TURN)
    editor.initialize()
    opened = editor.request("session/new", {"cwd": "/x", "mcpServers": []})
    assert opened == {"sessionId": "mock-session-1", "modes": MODES}
    assert editor.wait_for_update("available_commands_update")["availableCommands"][0]["name"] == "review"


def test_a_failed_turn_fails_again(start: Start) -> None:
    error = {"code": -32000, "message": "Authentication required"}
    editor = start(
        transcript_lines.prompt_line("go"),
        transcript_lines.answer(error=error),
        transcript_lines.prompt_line("on"),
        transcript_lines.agent_chunk("half"),
    )
    session = editor.open()
    assert prompt_for_lines(editor, session, "go")[1]["error"] == error
    assert prompt_for_lines(editor, session, "on")[1]["error"]["code"] == INTERNAL_ERROR


def test_prompts_of_one_session_are_answered_in_turn(start: Start) -> None:
    editor = start(
        *TURN,
        transcript_lines.prompt_line("And then?"),
        transcript_lines.agent_chunk("Nothing."),
        transcript_lines.answer(),
    )
    session = editor.open()
    first, second = editor.start_prompt(session, "Fix the login"), editor.start_prompt(session, "And then?")
    editor.wait_for_result(first)
    editor.wait_for_result(second)
    said = texts(editor.list_updates(session))
    assert said == ["Look", "ing.", "Done.", "Nothing."]


# --- permissions


def make_answerer(result: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda _: result


@pytest.mark.parametrize(
    ("given", "status", "said"),
    [(SELECTED, "completed", "Done."), (REFUSED, "failed", "Done.")],
)
def test_a_permission_is_requested_and_a_refused_call_fails(start: Start, given: Any, status: str, said: str) -> None:
    editor = start(*TURN, on_request=make_answerer(given))
    updates = editor.prompt(editor.open(), "Fix the login")
    assert [update["status"] for update in updates if "status" in update] == ["pending", status]
    assert texts(updates)[-1] == said


def test_an_error_in_answer_to_a_permission_counts_as_a_refusal(start: Start) -> None:
    def refuse(_: dict[str, Any]) -> Any:
        raise RequestFailed({"code": METHOD_NOT_FOUND, "message": "Method not found"})

    editor = start(*TURN, on_request=refuse)
    assert editor.prompt(editor.open(), "Fix the login")[-2]["status"] == "failed"


def test_a_cancelled_permission_ends_the_turn(start: Start) -> None:
    editor = start(*TURN, on_request=make_answerer(recording.CANCELLED))
    session = editor.open()
    assert prompt_for_lines(editor, session, "Fix the login")[1]["result"] == CANCELLED
    assert texts(editor.list_updates(session)) == ["Look", "ing."]


# --- version 2


def v2_line(value: dict[str, Any], peer: Peer = Peer.AGENT, of: str | None = None) -> bytes:
    return transcript_lines.message(value, peer, of, version=2)


def v2_update(kind: str, **fields: Any) -> bytes:
    params = {"sessionId": transcript_lines.SESSION, "update": {"sessionUpdate": kind, **fields}}
    return v2_line({"method": "session/update", "params": params})


def v2_prompt(text: str, id: int) -> bytes:
    params = prompt_params(transcript_lines.SESSION, text)
    return v2_line({"id": id, "method": "session/prompt", "params": params}, Peer.CLIENT)


ABOUT_COMMAND = {
    "title": "Run it?",
    "description": "It lists files",
    "subject": {"type": "command", "command": "ls", "cwd": "/x", "toolCallId": "t", "_meta": {"a": 1}},
    "options": recording.OPTIONS,
    "_meta": {"b": 2},
}
QUESTION = {"id": 5, "method": "session/request_permission", "params": {"sessionId": "sess-1", **ABOUT_COMMAND}}
TURN_V2 = [
    v2_prompt("Fix the login", 1),
    v2_update("state_update", state="running"),
    v2_line({"id": 1, "result": {"messageId": "m"}}, of="session/prompt"),
    v2_update("user_message", messageId="m", content=[{"type": "text", "text": "Fix the login"}]),
    v2_update("tool_call_update", toolCallId="t", title="List", status="pending"),
    v2_update("state_update", state="requires_action"),
    v2_line(QUESTION),
    v2_line({"id": 5, "result": SELECTED}, Peer.CLIENT, "session/request_permission"),
    v2_update("state_update", state="running"),
    v2_update("user_message", messageId="m2", content=[{"type": "text", "text": "And B"}]),
    v2_update("tool_call_update", toolCallId="t", status="completed"),
    v2_update("state_update", state="idle", stopReason="end_turn", _meta={"k": 1}),
]


def test_a_turn_of_version_2_is_played_unchanged_except_for_ids(start: Start) -> None:
    editor = start(*TURN_V2, on_request=make_answerer(SELECTED))
    editor.initialize(protocolVersion=2)
    editor.wait_for_result(editor.start_request("session/resume", {"sessionId": "sess-1", "cwd": "/x"}))
    since = editor.count_lines()
    editor.start_prompt("sess-1", "Fix the login")
    editor.wait_for_line(raw(TURN_V2[-1]))
    played = b"".join(line.raw for line in editor.lines[since + 3 :]).replace(b'"mock-1-', b'"')
    recorded = [raw(line) for line in TURN_V2[4:] if b'"from":"agent"' in line]
    assert played == b"".join(recorded).replace(b'"id":5', b'"id":0')
    assert editor.wait_for_method("session/request_permission")["params"]["subject"]["toolCallId"] == "mock-1-t"


def test_a_prompt_that_was_refused_in_version_2_is_refused_again(start: Start) -> None:
    problem = {"code": INTERNAL_ERROR, "message": "boom", "data": {"d": 1}}
    editor = start(v2_prompt("go", 1), v2_line({"id": 1, "error": problem}, of="session/prompt"))
    editor.initialize(protocolVersion=2)
    session = editor.new_session()
    lines, answer = prompt_for_lines(editor, session, "go")
    assert (lines, answer["error"]) == ([], problem)
    assert editor.end() == 0
    assert stop_reasons_of(editor) == []


def test_a_turn_of_version_1_is_replayed_in_version_2_as_it_was_played(start: Start) -> None:
    editor = start(*TURN, on_request=make_answerer(SELECTED))
    editor.initialize(protocolVersion=2)
    session = editor.new_session()
    editor.start_prompt(session, "Fix the login")
    editor.wait_for(lambda message: "idle" in json.dumps(message))
    since = editor.count_lines()
    params = {"sessionId": session, "cwd": "/x", "replayFrom": {"type": "start"}}
    editor.wait_for_result(editor.start_request("session/resume", params))
    updates = [message["params"]["update"] for message in editor.messages(since) if "method" in message]
    assert [update["status"] for update in updates if "status" in update] == ["pending", "completed"]


# --- pauses, and the end of the input


def stop_reasons_of(editor: Editor) -> list[str]:
    """Of the turns that have ended in version 2."""
    updates = [
        message["params"]["update"] for message in editor.messages() if message.get("method") == "session/update"
    ]
    return [update["stopReason"] for update in updates if update.get("state") == "idle"]


def test_a_pause_has_its_recorded_length_and_a_cancel_ends_it(start: Start) -> None:
    editor = start(
        transcript_lines.prompt_line("go"),
        transcript_lines.agent_chunk("Look"),
        transcript_lines.agent_chunk("late", at=NIGHT),
        transcript_lines.answer(at=NIGHT),
        options=(),
    )
    session = editor.open()
    number = editor.start_prompt(session, "go")
    editor.wait_for_text("Look")
    assert editor.sessions() != []  # other requests are answered meanwhile
    editor.notify("session/cancel", {"sessionId": session})
    assert editor.wait_for_result(number) == CANCELLED
    assert texts(editor.list_updates(session)) == ["Look"]
    assert texts(editor.load(session).updates) == ["Look"]


def test_a_cancel_ends_waiting_turns_and_the_next_prompt_is_played(start: Start) -> None:
    slow = [
        transcript_lines.prompt_line("slow"),
        transcript_lines.agent_chunk("Look"),
        transcript_lines.answer(at=NIGHT),
    ]
    editor = start(
        *slow,
        transcript_lines.prompt_line("fast"),
        transcript_lines.agent_chunk("ok"),
        transcript_lines.answer(),
        options=(),
    )
    session = editor.open()
    first, second = editor.start_prompt(session, "slow"), editor.start_prompt(session, "fast")
    editor.wait_for_text("Look")
    editor.notify("session/cancel", {"sessionId": session})
    assert [editor.wait_for_result(first), editor.wait_for_result(second)] == [CANCELLED, CANCELLED]
    assert texts(editor.prompt(session, "fast")) == ["ok"]


def test_in_version_2_a_waiting_turn_that_is_cancelled_has_been_accepted(start: Start) -> None:
    slow = [
        transcript_lines.prompt_line("slow"),
        transcript_lines.agent_chunk("Look"),
        transcript_lines.answer(at=NIGHT),
    ]
    editor = start(*slow, options=())
    editor.initialize(protocolVersion=2)
    session = editor.new_session()
    first, second = editor.start_prompt(session, "slow"), editor.start_prompt(session, "slow")
    editor.wait_for_text("Look")
    editor.notify("session/cancel", {"sessionId": session})
    assert [editor.wait_for_result(first), editor.wait_for_result(second)] == [
        {"messageId": "mock-1"},
        {"messageId": "mock-2"},
    ]
    assert editor.end() == 0
    assert stop_reasons_of(editor) == ["cancelled", "cancelled"]


def test_a_cancelled_request_ends_as_a_cancelled_turn(start: Start) -> None:
    editor = start(
        transcript_lines.prompt_line("go"),
        transcript_lines.agent_chunk("Look"),
        transcript_lines.answer(at=NIGHT),
        options=(),
    )
    number = editor.start_prompt(editor.open(), "go")
    editor.wait_for_text("Look")
    editor.notify("$/cancel_request", {"requestId": str(number)})
    editor.notify("$/cancel_request", {"requestId": number})
    assert editor.wait_for_result(number) == CANCELLED


def test_open_prompts_are_answered_without_pauses_when_the_input_ends(start: Start) -> None:
    lines = [*TURN[:-1], transcript_lines.agent_chunk("late", at=NIGHT), transcript_lines.answer(at=NIGHT)]
    editor = start(*lines, options=(), on_request=make_answerer(NO_ANSWER))
    session = editor.open()
    number = editor.start_prompt(session, "Fix the login")
    editor.wait_for_method("session/request_permission")
    other = editor.new_session()
    waiting = editor.start_prompt(other, "Fix the login")
    assert editor.end() == 0
    assert editor.wait_for_result(number) == CANCELLED
    assert editor.wait_for_result(waiting) == CANCELLED


def test_a_permission_after_the_end_of_the_input_counts_as_cancelled(start: Start) -> None:
    lines = [
        transcript_lines.prompt_line("go"),
        transcript_lines.agent_chunk("Look"),
        permission_request(at=NIGHT),
        permission_answer(at=NIGHT),
        transcript_lines.answer(at=NIGHT),
    ]
    editor = start(*lines, options=())
    number = editor.start_prompt(editor.open(), "go")
    editor.wait_for_text("Look")
    assert editor.end() == 0
    assert editor.wait_for_result(number) == CANCELLED


def test_the_same_input_gives_the_same_bytes(tmp_path: Path) -> None:
    file = write_transcript(tmp_path / "t.jsonl", COMMANDS, *TURN)
    new = {"method": "session/new", "params": {"cwd": "/x", "mcpServers": []}}
    say = {"method": "session/prompt", "params": prompt_params("mock-session-1", "fix the login")}
    talk_of = [{"method": "initialize", "params": {"protocolVersion": 1}}, new, say, new]
    lines = b"".join(json.dumps({"jsonrpc": "2.0", "id": n} | each).encode() + b"\n" for n, each in enumerate(talk_of))
    command = [sys.executable, "-m", "acp_proxy", "mock-agent", "--speed", "0", str(file)]
    first, second = (forked.run(command, given=lines, timeout=TIMEOUT, check=True).stdout for _ in range(2))
    assert first == second
    assert first.count(b'"result"') == len(talk_of)


# --- sessions


def test_recorded_sessions_are_listed_loaded_and_deleted(start: Start, tmp_path: Path) -> None:
    files = [write_transcript(tmp_path / f"{id}.jsonl", *session_lines(id), session=id) for id in ("one", "two")]
    editor = start(files=files)
    assert list_offered(editor) == {"list", "load", "resume", "delete"}
    assert [row["sessionId"] for row in editor.sessions()] == ["one", "two"]
    assert editor.request("session/delete", {"sessionId": "one"}) == {}
    assert editor.request("session/delete", {"sessionId": "one"}) == {}
    assert [row["sessionId"] for row in editor.sessions()] == ["two"]
    assert editor.load("one").answer["error"]["code"] == NOT_FOUND
    assert texts(editor.load("two").updates) == ["I am two"]
    assert files[0].exists()


def session_lines(id: str) -> list[bytes]:
    return [
        transcript_lines.prompt_line(f"Who is {id}?", session=id),
        transcript_lines.agent_chunk(f"I am {id}", session=id),
        transcript_lines.answer(),
    ]


def test_a_delete_ends_the_sessions_turn(start: Start) -> None:
    editor = start(
        transcript_lines.prompt_line("go"),
        transcript_lines.agent_chunk("Look"),
        transcript_lines.answer(at=NIGHT),
        options=(),
    )
    number = editor.start_prompt(session := editor.open(), "go")
    editor.wait_for_text("Look")
    assert editor.request("session/delete", {"sessionId": session}) == {}
    assert editor.wait_for_result(number) == CANCELLED


def test_a_session_continues_after_a_load_and_is_replayed_with_its_new_turns(start: Start) -> None:
    editor = start(*TURN)
    editor.initialize()
    before = editor.load(transcript_lines.SESSION).updates
    live = editor.prompt(transcript_lines.SESSION, "Fix the login")
    updates = editor.load(transcript_lines.SESSION).updates
    assert updates[: len(before)] == before
    assert texts(updates, "user_message_chunk") == ["Fix the login"] * 2
    assert "".join(texts(updates[len(before) :])) == "".join(texts(live))


def test_a_played_terminal_is_replayed_as_its_output(start: Start) -> None:
    content = [{"type": "terminal", "terminalId": "term-1"}]
    played = transcript_lines.update("tool_call", toolCallId="t", title="Test", status="completed", content=content)
    noted = transcript_lines.note("terminal", terminalId="term-1", output="1 passed")
    editor = start(transcript_lines.prompt_line("go"), played, noted, transcript_lines.answer())
    session = editor.open()
    assert editor.prompt(session, "go")[0]["content"] == content
    [_, told] = editor.load(session).updates
    assert "1 passed" in told["content"][0]["content"]["text"]


def test_a_resumed_session_is_not_replayed_and_can_be_prompted(start: Start) -> None:
    editor = start(*TURN, options=("--speed", "0", "--capabilities", "resume-only"))
    assert list_offered(editor) == {"resume"}
    assert editor.request("session/resume", editor.place(transcript_lines.SESSION)) == {}
    assert texts(editor.prompt(transcript_lines.SESSION, "Fix the login"))[-1] == "Done."
    for method in ("session/list", "session/load", "session/delete"):
        assert error_of(editor, method, editor.place(transcript_lines.SESSION)) == METHOD_NOT_FOUND


def test_an_agent_without_capabilities_plays_turns_in_new_sessions(start: Start) -> None:
    editor = start(*TURN, options=("--speed", "0", "--capabilities", "none"))
    assert list_offered(editor) == set()
    assert texts(editor.prompt(editor.new_session(), "Fix the login"))[-1] == "Done."


def error_of(editor: Editor, method: str, params: Any) -> Any:
    return editor.wait_for_answer(editor.start_request(method, params))["error"]["code"]


def test_only_recorded_modes_and_options_can_be_chosen(start: Start) -> None:
    sound = {"id": "sound", "name": "Sound", "type": "boolean", "currentValue": False}
    editor = start(transcript_lines.note("opened", modes=MODES, configOptions=[sound]), *TURN)
    session = editor.open()
    assert editor.request("session/set_mode", {"sessionId": session, "modeId": "code"}) == {}
    chosen = {"sessionId": session, "configId": "sound", "type": "boolean", "value": True}
    assert editor.request("session/set_config_option", chosen) == {"configOptions": [sound | {"currentValue": True}]}
    modes = [editor.request("session/resume", editor.place(id))["modes"] for id in (session, editor.new_session())]
    assert [mode["currentModeId"] for mode in modes] == ["code", "ask"]
    assert error_of(editor, "session/set_mode", {"sessionId": session, "modeId": "fly"}) == INVALID_PARAMS
    assert error_of(editor, "session/set_config_option", chosen | {"value": "loud"}) == INVALID_PARAMS


PLACE: Mapping[str, Any] = {"cwd": "/x", "mcpServers": []}


NONSENSE: list[tuple[str, Any, int]] = [
    ("initialize", {"protocolVersion": "1"}, INVALID_PARAMS),
    ("session/new", {"mcpServers": []}, INVALID_PARAMS),
    ("session/new", {"cwd": "here"}, INVALID_PARAMS),
    ("session/load", PLACE, INVALID_PARAMS),
    ("session/load", {**PLACE, "sessionId": "x"}, NOT_FOUND),
    ("session/prompt", prompt_params("x", "go"), NOT_FOUND),
    ("session/prompt", prompt_params(transcript_lines.SESSION, "go"), NOT_FOUND),  # it was not opened
    ("session/prompt", {"sessionId": "mock-session-1", "prompt": "go"}, INVALID_PARAMS),
    ("session/list", {"cwd": "here"}, INVALID_PARAMS),
    ("session/list", {"cursor": "x"}, INVALID_PARAMS),
    ("session/unknown", {}, METHOD_NOT_FOUND),
    ("session/list", [], INVALID_PARAMS),
]


def test_invalid_requests_are_refused(start: Start) -> None:
    editor = start(*TURN)
    editor.open()
    assert [error_of(editor, method, params) for method, params, _ in NONSENSE] == [code for *_, code in NONSENSE]


def test_a_client_may_initialize_again_and_stays_with_version_2(start: Start) -> None:
    editor = start(*TURN)
    editor.initialize()
    for version in (2, 2, 1):
        assert editor.initialize(protocolVersion=version)["protocolVersion"] == 2
    session = editor.new_session()
    assert editor.wait_for_result(editor.start_prompt(session, "Fix the login")) == {"messageId": "mock-1"}
    assert editor.initialize(protocolVersion=2)["protocolVersion"] == 2
    assert [row["sessionId"] for row in editor.sessions()] == [transcript_lines.SESSION, session]


def test_invalid_lines_are_refused_and_others_answered(start: Start) -> None:
    editor = start(*TURN)
    editor.send_line(b"nonsense")
    for line in (b"{}", b"[]", b"[7]", b"7"):
        editor.send_line(line)
    editor.send_line(b'[{"jsonrpc":"2.0","id":"b","method":"session/list"},{"jsonrpc":"2.0","method":"unknown"}]')
    editor.wait_for(lambda message: message.get("id") == "b" and "result" in message)
    assert [message["error"]["code"] for message in editor.messages()[:5]] == [PARSE_ERROR, *[INVALID_REQUEST] * 4]


def test_a_session_of_the_store_is_named_by_its_id_or_as_the_last(proxied: Proxied, start: Start) -> None:
    session = proxied.recorded("Mend it")
    for word in (session[:8], "last"):
        editor = start(files=[Path(word)], options=("--speed", "0", "--store", str(proxied.store)))
        editor.initialize()
        assert [row["sessionId"] for row in editor.sessions()] == [session]


# --- with the proxy in front


def test_the_mock_agent_behaves_the_same_behind_the_proxy(start: Start, tmp_path: Path) -> None:
    def load_words(editor: Editor) -> list[Any]:
        editor.initialize()
        told = editor.load(transcript_lines.SESSION)
        session = editor.new_session()
        played = [editor.prompt(id, "Fix the login") for id in (transcript_lines.SESSION, session)]
        return [told.answer, told.updates, session, played, editor.load(session).updates, editor.sessions()]

    file = write_transcript(tmp_path / "t.jsonl", COMMANDS, *TURN)
    run = (*PROXY, "run", "--store", str(tmp_path / "store"), "--")
    assert load_words(start(files=[file])) == load_words(start(files=[file], prefix=run))


def test_the_mock_agent_replays_a_session_like_the_proxy(proxied: Proxied, start: Start) -> None:
    session = proxied.recorded("Mend it", "And now?")
    with proxied.start("conversation") as editor:
        wanted = editor.load(session)
    mock = start(files=[proxied.transcript(session)])
    mock.initialize()
    told = mock.load(session)
    assert [line.raw for line in told.told] == [line.raw for line in wanted.told]
