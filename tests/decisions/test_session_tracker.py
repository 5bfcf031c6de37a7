"""What is recorded of a conversation, and what is not."""

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from acp_proxy.decisions.capabilities import AGENT, Modes
from acp_proxy.decisions.effects import (
    BeginTranscript,
    BeginTurn,
    EndTurn,
    IdentifyAgent,
    RecordNote,
    SaveAndIndex,
)
from acp_proxy.decisions.session_tracker import EARLY_LIMIT
from acp_proxy.protocol.jsonrpc import Peer
from acp_proxy.transcript import file_format
from acp_proxy.transcript.file_format import NoteType
from tests.conversation import (
    LOADS,
    RESUMES,
    CoreConversation,
    Said,
    SimulatedSession,
    agent_kept,
    begun,
    chunk,
    client_kept,
    commands,
    delete,
    error,
    line,
    load,
    new,
    notification,
    opened_note,
    permission,
    prompt,
    prompt_answer,
    raw,
    request,
    respell,
    result,
    resume,
    title_update,
    update,
)
from tests.decisions.terminal_conversation import TerminalConversation
from tests.strategies import texts, values

KINDS = [
    "user_message_chunk",
    "agent_message_chunk",
    "agent_thought_chunk",
    "tool_call",
    "tool_call_update",
    "plan",
    "available_commands_update",
    "current_mode_update",
    "config_option_update",
    "usage_update",
    "notice",
    "a_kind_nobody_knows",
]
SPELLINGS = [pytest.param(line, id="as SDKs write"), pytest.param(respell, id="spaced")]


def in_a_session(**how: Any) -> CoreConversation:
    return CoreConversation(**how).initialize(RESUMES).open("s")


# --- turns


def test_a_turn_is_kept_from_the_prompt_to_its_answer() -> None:
    talk = in_a_session()
    assert talk.client.say(prompt(1, "s")).kept == [BeginTurn("s"), client_kept("s", prompt(1, "s"))]
    assert talk.agent.say(chunk("s", "a")).kept == [agent_kept("s", chunk("s", "a"))]
    assert talk.agent.say(prompt_answer(1)).kept == [agent_kept("s", prompt_answer(1), "session/prompt"), EndTurn("s")]


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("kind", KINDS)
def test_updates_of_every_kind_are_kept_unchanged(kind: str, spelling: Any) -> None:
    said = spelling(update("s", kind, content={"type": "text", "text": "x"}))
    step = in_a_session().agent.say(said)
    assert step.kept == [agent_kept("s", said)]
    assert step.to_client == said


@pytest.mark.parametrize(
    "said",
    [
        b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"n":1.0,"n":2E9,"m":1e400}}}\r\n',
        b' {"params": {"update":{"x":"\\ud800\xe2\x80\xa8"},"sessionId":"\\u0073"},"method":"session\\/update"}\n',
        b'\xef\xbb\xbf{"method":"session/update","params":{"sessionId":"s","update":{"big":12345678901234567890123}}}\n',
        b'{"method":"session/update","params":{"sessionId":"s","update":"\xff"}}\n',
        b'{"method":"session/update","params":{"sessionId":"s"}}\n',
        b'{"method":"session/update","params":{"sessionId":"s","update":null,"sessionId":"s"}}\n',
    ],
)
def test_an_update_in_any_spelling_is_kept_byte_for_byte(said: bytes) -> None:
    assert in_a_session().agent.say(said).kept == [agent_kept("s", said)]


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_title_updates_the_index(spelling: Any) -> None:
    said = spelling(update("s", "session_info_update", title="Mend it"))
    assert in_a_session().agent.say(said).kept == [agent_kept("s", said), SaveAndIndex("s")]


def test_updates_after_the_prompts_answer_are_kept() -> None:
    talk = in_a_session()
    talk.client.say(prompt(1, "s"))
    assert talk.agent.say(prompt_answer(1), update("s", "usage_update", used=1)).kept == [
        agent_kept("s", prompt_answer(1), "session/prompt"),
        EndTurn("s"),
        agent_kept("s", update("s", "usage_update", used=1)),
    ]


@pytest.mark.parametrize(
    "answer", [error(1, -32000, "Authentication required"), prompt_answer(1, "refusal"), result(1)]
)
def test_a_prompt_that_fails_is_kept_with_its_answer(answer: dict[str, Any]) -> None:
    talk = in_a_session()
    talk.client.say(prompt(1, "s"))
    step = talk.agent.say(answer)
    assert step.kept == [agent_kept("s", answer, "session/prompt"), EndTurn("s")]
    assert step.to_client == line(title_update("s"), answer)


def test_an_unanswered_prompt_is_kept_with_the_agents_end() -> None:
    talk = in_a_session()
    talk.client.say(prompt(1, "s"))
    note = {"type": NoteType.FAILED, "method": "session/prompt", "message": "agent exited with status 17"}
    assert talk.end_agent().kept == [RecordNote("s", note), EndTurn("s")]


def test_only_open_prompts_are_kept_at_the_agents_end() -> None:
    talk = in_a_session()
    talk.client.say(request(1, "session/set_mode", {"sessionId": "s"}), request(2, "session/close", {"sessionId": "s"}))
    assert talk.end_agent().kept == []


def test_a_prompt_in_an_unopened_session_begins_a_partial_transcript() -> None:
    talk = CoreConversation().initialize()
    assert talk.client.say(prompt(1, "s")).kept == [
        begun("s", file_format.PARTIAL, cwd=None),
        BeginTurn("s"),
        client_kept("s", prompt(1, "s")),
    ]


def test_two_sessions_with_turns_at_once_are_kept_apart() -> None:
    talk = CoreConversation().initialize().open("s", "t")
    talk.client.say(prompt(1, "s"), prompt(2, "t"))
    assert talk.agent.say(chunk("t", "t"), chunk("s", "s"), prompt_answer(2), prompt_answer(1)).kept == [
        agent_kept("t", chunk("t", "t")),
        agent_kept("s", chunk("s", "s")),
        agent_kept("t", prompt_answer(2), "session/prompt"),
        EndTurn("t"),
        agent_kept("s", prompt_answer(1), "session/prompt"),
        EndTurn("s"),
    ]


# --- other messages: kept and not kept


def test_a_permission_is_kept_with_its_answer() -> None:
    talk = in_a_session()
    assert talk.agent.say(permission(0, "s")).kept == [agent_kept("s", permission(0, "s"))]
    answer = result(0, {"outcome": {"outcome": "selected", "optionId": "yes"}})
    assert talk.client.say(answer).kept == [client_kept("s", answer, "session/request_permission")]


def test_a_turn_ends_only_with_the_last_prompt_in_the_agents_queue() -> None:
    talk = in_a_session()
    talk.client.say(prompt(1, "s"))
    talk.client.say(prompt(2, "s"))
    assert talk.agent.say(prompt_answer(1)).kept[-1] == SaveAndIndex("s")
    assert talk.agent.say(prompt_answer(2)).kept[-1] == EndTurn("s")


def test_a_permission_and_a_prompt_with_one_id_are_answered_separately() -> None:
    talk = in_a_session()
    talk.client.say(prompt(0, "s"))
    talk.agent.say(permission(0, "s"))
    assert talk.client.say(result(0)).kept == [client_kept("s", result(0), "session/request_permission")]
    assert talk.agent.say(prompt_answer(0)).kept == [agent_kept("s", prompt_answer(0), "session/prompt"), EndTurn("s")]


@pytest.mark.parametrize("method", ["session/set_mode", "session/set_config_option"])
@pytest.mark.parametrize("answer", [result(3, {}), error(3, -32602)])
def test_settings_are_kept_with_their_answers(method: str, answer: dict[str, Any]) -> None:
    talk = in_a_session()
    asked = request(3, method, {"sessionId": "s", "modeId": "plan"})
    assert talk.client.say(asked).kept == [client_kept("s", asked)]
    assert talk.agent.say(answer).kept == [agent_kept("s", answer, method)]


def test_a_cancel_is_kept() -> None:
    said = notification("session/cancel", {"sessionId": "s"})
    assert in_a_session().client.say(said).kept == [client_kept("s", said)]


SECRET = "hunter2"
NOT_KEPT = [
    (Peer.CLIENT, "authenticate", {"methodId": SECRET}, {"token": SECRET}),
    (Peer.CLIENT, "logout", {}, {}),
    (Peer.CLIENT, "session/list", {"cwd": "relative"}, {}),
    (Peer.CLIENT, "_vendor/extension", {"sessionId": "s", "x": SECRET}, {"x": SECRET}),
    (Peer.CLIENT, "session/unheard_of", {"sessionId": "s"}, {"sessionId": "s"}),
    (Peer.AGENT, "fs/read_text_file", {"sessionId": "s", "path": "/p"}, {"content": SECRET}),
    (Peer.AGENT, "fs/write_text_file", {"sessionId": "s", "path": "/p", "content": SECRET}, {}),
    (Peer.AGENT, "elicitation/create", {"sessionId": "s", "message": "?"}, {"content": {"password": SECRET}}),
    (Peer.AGENT, "terminal/create", {"sessionId": "s", "env": [{"value": SECRET}]}, {"terminalId": SECRET}),
    (Peer.AGENT, "terminal/output", {"sessionId": "s", "terminalId": "?"}, {"output": SECRET}),
    (Peer.AGENT, "terminal/kill", {"sessionId": "s"}, {}),
    (Peer.AGENT, "_vendor/question", {"sessionId": "s"}, {"answer": SECRET}),
    (Peer.AGENT, "session/request_permission", {"no": "session"}, {}),
    (Peer.CLIENT, "session/set_mode", {"sessionId": "unknown"}, {}),
    (Peer.CLIENT, "session/set_mode", {"sessionId": ["s"]}, {}),
    (Peer.CLIENT, "session/set_mode", None, {}),
    (Peer.CLIENT, "session/prompt", {"prompt": []}, {"stopReason": "end_turn"}),
    (Peer.CLIENT, "session/prompt", {"sessionId": None, "prompt": []}, {"stopReason": "end_turn"}),
    (Peer.CLIENT, "session/close", {"sessionId": 5}, {}),
    (Peer.AGENT, "terminal/create", {"sessionId": None}, {"terminalId": "t"}),
    (Peer.AGENT, "terminal/release", {"terminalId": "t"}, {}),
]


@pytest.mark.parametrize(("asker", "method", "params", "answer"), NOT_KEPT)
def test_nothing_else_is_kept(asker: Peer, method: str, params: object, answer: object) -> None:
    talk = in_a_session(serves=False)
    asks, answers = (talk.client, talk.agent) if asker is Peer.CLIENT else (talk.agent, talk.client)
    asked, told = asks.say(request(9, method, params)), answers.say(result(9, answer))
    assert asked.kept + told.kept == []
    assert asked.to_agent + asked.to_client == line(request(9, method, params))
    assert told.to_agent + told.to_client == line(result(9, answer))


@pytest.mark.parametrize(
    "said",
    [
        notification("_vendor/note", {"sessionId": "s", "secret": SECRET}),
        notification("$/progress", {"sessionId": "s"}),
        notification("session/update", {"sessionId": 5, "update": {}}),
        notification("session/update", ["s"]),
        notification("session/update"),
        result(77, {"sessionId": "s"}),
        {"jsonrpc": "2.0"},
        {"method": 5, "params": {"sessionId": "s"}},
    ],
)
def test_messages_without_a_session_or_of_unknown_kind_are_not_kept(said: dict[str, Any]) -> None:
    talk = in_a_session()
    step = talk.agent.say(said)
    assert (step.kept, step.to_client) == ([], line(said))
    step = talk.client.say(said)
    assert (step.kept, step.to_agent) == ([], line(said))


def test_an_update_sent_by_the_client_is_not_kept() -> None:
    assert in_a_session().client.say(chunk("s", "x")).kept == []


def test_a_prompt_sent_by_the_agent_begins_no_turn() -> None:
    assert BeginTurn("s") not in in_a_session().agent.say(prompt(1, "s")).kept


def test_initialize_is_not_kept() -> None:
    talk = CoreConversation()
    secret = {"protocolVersion": 1, "_meta": {"token": SECRET}}
    assert talk.client.say(request(0, "initialize", secret)).kept == []
    assert talk.agent.say(result(0, secret)).kept == [IdentifyAgent(None, None)]


def test_messages_in_a_batch_are_kept() -> None:
    talk = in_a_session()
    batch = [prompt(1, "s"), request(2, "_x"), notification("session/cancel", {"sessionId": "s"})]
    step = talk.client.say(batch)
    assert step.kept == [BeginTurn("s"), client_kept("s", batch[0]), client_kept("s", batch[2])]
    assert step.to_agent == line(batch)
    told: list[Any] = [chunk("s", "a"), 5, prompt_answer(1), commands("s", "x")]
    step = talk.agent.say(told)
    assert step.kept == [
        agent_kept("s", told[0]),
        agent_kept("s", told[2], "session/prompt"),
        EndTurn("s"),
        agent_kept("s", told[3]),
    ]
    assert step.to_client == line(told)


def test_nothing_is_kept_while_recording_is_off() -> None:
    talk = in_a_session(records=False)
    talk.client.say(prompt(1, "s"))
    talk.agent.say(chunk("s", "a"), respell(chunk("s", "b")), update("s", "session_info_update"), permission(1, "s"))
    talk.client.say(result(1))
    talk.agent.say(prompt_answer(1))
    talk.client.say(prompt(2, "s"))
    talk.end_agent()
    assert [record for record in talk.all.kept if not isinstance(record, IdentifyAgent)] == []


# --- opening sessions


def test_a_new_session_begins_with_a_header_and_its_settings() -> None:
    talk = CoreConversation().initialize()
    talk.client.say(new(1, additionalDirectories=["/x"], mcpServers=[{"name": "one"}, {"name": "two", "url": "u"}]))
    modes, options = {"currentModeId": "plan", "availableModes": []}, [{"id": "model"}]
    answer = result(1, {"sessionId": "s", "modes": modes, "configOptions": options, "models": {"x": 1}, "_meta": {}})
    step = talk.agent.say(answer)
    note = opened_note(
        "session/new", servers=["one", "two"], additionalDirectories=["/x"], modes=modes, configOptions=options
    )
    assert step.kept == [BeginTranscript("s", "/w", ["/x"], file_format.RECORDED), RecordNote("s", note)]
    assert step.to_client == line(answer)


@pytest.mark.parametrize("method", ["session/load", "session/resume"])
def test_a_restored_session_begins_a_partial_transcript(method: str) -> None:
    talk = CoreConversation(serves=False).initialize()
    talk.client.say(request(1, method, {"sessionId": "s", "cwd": "/w", "mcpServers": []}))
    assert talk.agent.say(result(1, None)).kept == [
        begun("s", file_format.PARTIAL),
        RecordNote("s", opened_note(method)),
    ]


def test_a_fork_begins_under_the_agents_id() -> None:
    talk = in_a_session()
    talk.client.say(request(1, "session/fork", {"sessionId": "s", "cwd": "/w", "mcpServers": []}))
    assert talk.agent.say(result(1, {"sessionId": "f"})).kept == [
        BeginTranscript("f", "/w", [], file_format.PARTIAL, parent_id="s"),
        RecordNote("f", opened_note("session/fork")),
    ]


@pytest.mark.parametrize("answer", [error(1, -32603), result(1, None), result(1, {}), result(1, {"sessionId": 5})])
def test_a_session_that_the_agent_does_not_open_begins_no_transcript(answer: dict[str, Any]) -> None:
    talk = CoreConversation().initialize()
    talk.client.say(new(1))
    step = talk.agent.say(answer)
    assert (step.kept, step.to_client) == ([], line(answer))


def test_a_refused_load_begins_no_transcript() -> None:
    talk = CoreConversation().initialize({"loadSession": True})
    talk.client.say(load(1, "s"))
    assert talk.agent.say(error(1, -32603)).kept == []


@pytest.mark.parametrize("params", [None, [], {"cwd": 5, "mcpServers": 7, "additionalDirectories": [1, "/x", None]}])
def test_a_session_with_invalid_parameters_is_kept(params: object) -> None:
    talk = CoreConversation().initialize()
    talk.client.say(request(1, "session/new", params))
    [begin, note] = talk.agent.say(result(1, {"sessionId": "s"})).kept
    assert begin == BeginTranscript("s", None, ["/x"] if isinstance(params, dict) else [], file_format.RECORDED)
    assert isinstance(note, RecordNote)
    assert note.note["mcpServers"] == []


def test_a_close_is_noted_when_the_agent_agrees() -> None:
    talk = in_a_session()
    talk.client.say(request(1, "session/close", {"sessionId": "s"}), request(2, "session/close", {"sessionId": "s"}))
    assert talk.agent.say(error(1, -32603)).kept == []
    assert talk.agent.say(result(2, {})).kept == [RecordNote("s", {"type": NoteType.CLOSED, "method": "session/close"})]


@pytest.mark.parametrize("session", ["deleted", "unknown"])
def test_a_close_of_an_unrecorded_session_is_not_noted(session: str) -> None:
    talk = CoreConversation().initialize().open("deleted")
    talk.client.say(delete(1, "deleted"), request(2, "session/close", {"sessionId": session}))
    assert talk.agent.say(result(2, {})).kept == []


servers = st.lists(
    st.fixed_dictionaries(
        {"name": st.sampled_from(["one", "two"])},
        optional={
            "command": st.just("/bin/" + SECRET),
            "args": st.just(["--token", SECRET]) | values,
            "url": st.just(f"https://user:{SECRET}@example.invalid"),
            "headers": st.just([{"name": "Authorization", "value": SECRET}]) | st.just({"Authorization": SECRET}),
            "env": st.just([{"name": "TOKEN", "value": SECRET}]) | st.just({SECRET: SECRET}),
            "_meta": st.just({"deep": [{"x": SECRET}]}),
        },
    )
    | st.just({"name": {"nested": SECRET}})
    | st.just(SECRET)
    | st.just([SECRET])
)


@given(servers | st.just(SECRET) | st.just({"env": SECRET}), st.sampled_from(["new", "load", "resume", "fork"]))
def test_only_the_names_of_mcp_servers_are_kept(told: Any, verb: str) -> None:
    talk = in_a_session()
    asked = request(1, f"session/{verb}", {"sessionId": "s", "cwd": "/w", "mcpServers": told, "_meta": {"x": SECRET}})
    talk.client.say(asked)
    talk.agent.say(result(1, {"sessionId": "t", "_meta": {"x": SECRET}}))
    talk.end_agent()
    assert SECRET.encode() in talk.all.to_agent or told == []
    assert SECRET not in repr(talk.all.kept)
    assert "mcpServers" in repr(talk.all.kept)


# --- updates that come before their session is known


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_updates_before_the_answer_to_new_follow_the_header(spelling: Any) -> None:
    talk = CoreConversation().initialize()
    talk.client.say(new(1))
    early = [spelling(commands("s", "x")), spelling(chunk("s", "hello"))]
    step = talk.agent.say(*early)
    assert (step.kept, step.to_client) == ([], b"".join(early))
    assert talk.agent.say(result(1, {"sessionId": "s"})).kept == [
        begun("s"),
        RecordNote("s", opened_note("session/new")),
        *(agent_kept("s", each) for each in early),
    ]


def test_two_new_sessions_answered_out_of_order_get_their_own_updates() -> None:
    talk = CoreConversation().initialize()
    talk.client.say(new(1, cwd="/one"), new(2, cwd="/two"))
    talk.agent.say(commands("b", "b"), commands("a", "a"))
    assert talk.agent.say(result(2, {"sessionId": "b"})).kept == [
        begun("b", cwd="/two"),
        RecordNote("b", opened_note("session/new", "/two")),
        agent_kept("b", commands("b", "b")),
    ]
    assert talk.agent.say(result(1, {"sessionId": "a"})).kept == [
        begun("a", cwd="/one"),
        RecordNote("a", opened_note("session/new", "/one")),
        agent_kept("a", commands("a", "a")),
    ]


@pytest.mark.parametrize("answer", [error(1, -32603), result(1, {"sessionId": "other"})])
def test_unclaimed_updates_begin_their_own_transcript(answer: dict[str, Any]) -> None:
    talk = CoreConversation().initialize()
    talk.client.say(new(1))
    talk.agent.say(chunk("s", "a"))
    assert talk.agent.say(answer).kept[-2:] == [
        begun("s", file_format.PARTIAL, cwd=None),
        agent_kept("s", chunk("s", "a")),
    ]


def test_waiting_updates_are_kept_after_the_last_open_answer() -> None:
    talk = CoreConversation().initialize(RESUMES)
    talk.stored["old"] = talk.stored["older"] = SimulatedSession()
    talk.client.say(new(1), load(2, "old"), load(3, "older"))
    talk.agent.say(chunk("s", "a"))
    talk.agent.say(error(1, -32603), error(2, -32603))
    assert talk.agent.say(result(3, {})).kept[-2:] == [
        begun("s", file_format.PARTIAL, cwd=None),
        agent_kept("s", chunk("s", "a")),
    ]


def test_waiting_updates_are_kept_when_the_agent_ends() -> None:
    talk = CoreConversation().initialize(RESUMES)
    talk.client.say(new(1))
    talk.agent.say(chunk("s", "a"))
    assert talk.end_agent().kept == [begun("s", file_format.PARTIAL, cwd=None), agent_kept("s", chunk("s", "a"))]


def test_a_prompt_ends_the_wait_of_its_session() -> None:
    talk = CoreConversation().initialize()
    talk.client.say(new(1))
    talk.agent.say(chunk("s", "a"))
    assert talk.client.say(prompt(2, "s")).kept == [
        begun("s", file_format.PARTIAL, cwd=None),
        agent_kept("s", chunk("s", "a")),
        BeginTurn("s"),
        client_kept("s", prompt(2, "s")),
    ]


def test_updates_beyond_the_limit_end_the_wait() -> None:
    talk = CoreConversation().initialize()
    talk.client.say(new(1))
    big = chunk("s", "x" * (EARLY_LIMIT // 2))
    assert talk.agent.say(big).kept == []
    assert talk.agent.say(chunk("s", "small")).kept == []
    assert talk.agent.say(big).kept == [
        begun("s", file_format.PARTIAL, cwd=None),
        agent_kept("s", big),
        agent_kept("s", chunk("s", "small")),
        agent_kept("s", big),
    ]


def test_updates_up_to_the_limit_wait() -> None:
    talk = CoreConversation().initialize()
    talk.client.say(new(1))
    most = chunk("s", "x" * (EARLY_LIMIT - len(raw(chunk("s", "")))))
    assert talk.agent.say(most).kept == []
    assert talk.agent.say(chunk("s", "")).kept != []


def test_the_limit_counts_all_waiting_updates_and_only_while_they_wait() -> None:
    talk = CoreConversation().initialize()
    talk.client.say(new(1), new(2))
    big = "x" * (EARLY_LIMIT * 2 // 3)
    assert talk.agent.say(chunk("a", big)).kept == []
    assert talk.agent.say(chunk("b", big)).kept != []
    assert talk.agent.say(result(1, {"sessionId": "a"})).kept[-1] == agent_kept("a", chunk("a", big))
    assert talk.agent.say(chunk("c", big)).kept == []
    assert talk.agent.say(result(2, {"sessionId": "c"})).kept[-1] == agent_kept("c", chunk("c", big))


def test_updates_of_known_sessions_do_not_wait() -> None:
    talk = in_a_session()
    talk.client.say(new(1))
    assert talk.agent.say(chunk("s", "a")).kept == [agent_kept("s", chunk("s", "a"))]


def test_updates_of_an_unopened_session_begin_a_partial_transcript() -> None:
    talk = in_a_session()
    talk.client.say(prompt(1, "s"))
    assert talk.agent.say(chunk("colleague", "a"), chunk("colleague", "b")).kept == [
        begun("colleague", file_format.PARTIAL, cwd=None),
        agent_kept("colleague", chunk("colleague", "a")),
        agent_kept("colleague", chunk("colleague", "b")),
    ]
    again = respell(chunk("colleague", "c"))
    assert talk.agent.say(again).kept == [agent_kept("colleague", again)]


# --- the agent's own replays


@pytest.mark.parametrize(("capabilities", "ask"), [({"loadSession": True}, load), (RESUMES, resume)])
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_the_agents_replay_is_not_recorded_and_later_updates_are(capabilities: Any, ask: Any, spelling: Any) -> None:
    talk = CoreConversation().initialize(capabilities)
    talk.client.say(ask(1, "s"))
    told = [spelling(each) for each in (chunk("s", "u", "user_message_chunk"), chunk("s", "a"), update("s", "plan"))]
    step = talk.agent.say(*told)
    assert (step.kept, step.to_client) == ([], b"".join(told))
    talk.agent.say(result(1, {}))
    assert talk.agent.say(spelling(chunk("s", "live"))).kept == []
    talk.stored["s"] = SimulatedSession(says=tuple(told))
    assert talk.client.say(prompt(2, "s")).kept == [
        agent_kept("s", spelling(chunk("s", "live"))),
        SaveAndIndex("s"),
        BeginTurn("s"),
        client_kept("s", prompt(2, "s")),
    ]


def test_state_updates_are_recorded_during_the_agents_replay() -> None:
    talk = CoreConversation(modes=Modes(load=AGENT)).initialize(LOADS)
    talk.client.say(load(1, "s"))
    talk.agent.say(chunk("s", "a"), commands("s", "x"))
    assert talk.agent.say(result(1, {})).kept == [
        begun("s", file_format.PARTIAL),
        RecordNote("s", opened_note("session/load")),
        agent_kept("s", commands("s", "x")),
    ]


def test_a_running_turn_is_recorded_during_the_agents_replay() -> None:
    talk = CoreConversation().initialize({"loadSession": True}).open("s")
    talk.client.say(prompt(1, "s"), load(2, "s"))
    assert talk.agent.say(chunk("s", "a")).kept == [agent_kept("s", chunk("s", "a"))]


def test_a_replay_after_a_turn_is_not_recorded() -> None:
    talk = CoreConversation().initialize({"loadSession": True}).open("s")
    talk.client.say(prompt(1, "s"))
    talk.agent.say(prompt_answer(1))
    talk.client.say(load(2, "s"))
    assert talk.agent.say(chunk("s", "told again")).kept == []


def test_another_session_is_recorded_during_the_agents_replay() -> None:
    talk = CoreConversation().initialize({"loadSession": True}).open("t")
    talk.client.say(load(1, "s"))
    assert talk.agent.say(chunk("t", "a")).kept == [agent_kept("t", chunk("t", "a"))]


# --- terminals


TURN_ENDS = [agent_kept("s", prompt_answer("turn"), "session/prompt"), EndTurn("s")]


def terminal_note(output: str | None, status: object, *, truncated: bool = False, final: bool = True) -> RecordNote:
    note = {"type": NoteType.TERMINAL, "terminalId": "t1", "output": output}
    return RecordNote("s", note | {"truncated": truncated, "exitStatus": status, "final": final})


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_shown_terminals_output_is_noted_at_once_then_doubled_then_when_it_is_released(spelling: Any) -> None:
    talk = TerminalConversation()
    talk.show(spelling)
    assert talk.ask("output", {}, {"output": "", "truncated": False}) == []
    for output in ("one", "one two"):
        assert talk.ask("output", {}, {"output": output, "truncated": False}) == [
            terminal_note(output, None, final=False)
        ]
    assert talk.ask("output", {}, {"output": "one two", "truncated": True, "exitStatus": None}) == []
    assert talk.ask("wait_for_exit", {}, {"exitCode": 3, "signal": None}) == []
    assert talk.ask("release", {}, {}) == [terminal_note("one two", {"exitCode": 3, "signal": None}, truncated=True)]
    assert talk.end_turn() == TURN_ENDS


def test_the_exit_status_may_come_with_the_output() -> None:
    talk = TerminalConversation()
    talk.ask("output", {}, {"output": "x", "truncated": False, "exitStatus": {"exitCode": 0}})
    talk.show()
    talk.ask("output", {}, {"output": "xy", "truncated": False, "exitStatus": None})
    assert talk.ask("release", {}, {}) == [terminal_note("xy", {"exitCode": 0})]


def test_a_shown_terminal_that_is_still_open_is_noted_before_the_turns_end() -> None:
    talk = TerminalConversation()
    talk.ask("output", {}, {"output": "x", "truncated": False})
    talk.show()
    assert talk.end_turn() == [terminal_note("x", None, final=False), *TURN_ENDS]
    assert talk.ask("release", {}, {}) == []


def test_a_terminal_that_is_shown_after_its_release_is_noted_at_the_turns_end() -> None:
    talk = TerminalConversation()
    talk.ask("output", {}, {"output": "x", "truncated": False})
    assert talk.ask("release", {}, {}) == []
    talk.show()
    assert talk.end_turn() == [terminal_note("x", None), *TURN_ENDS]


def test_an_output_beyond_the_limit_is_not_kept_and_takes_no_room_from_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit is for the text, not for the escapes in its line."""
    monkeypatch.setattr("acp_proxy.decisions.terminal_notes.OUTPUT_LIMIT", 2000)
    talk = TerminalConversation()
    talk.show()
    talk.ask("output", {}, {"output": "\x1b" * 1489})
    assert talk.ask("release", {}, {}) == [terminal_note(None, None)]
    talk.ask("create", {"command": "ls"}, {"terminalId": "t1"})
    talk.show()
    talk.ask("output", {}, {"output": "\x1b" * 1488})
    assert talk.ask("release", {}, {}) == [terminal_note("\x1b" * 1488, None)]


def test_a_terminal_that_no_tool_call_shows_is_not_noted() -> None:
    talk = TerminalConversation()
    talk.ask("output", {}, {"output": SECRET, "truncated": False})
    assert talk.ask("release", {}, {}) == []
    assert talk.end_turn() == TURN_ENDS


def test_a_terminal_whose_output_was_never_requested_is_noted_without_output() -> None:
    talk = TerminalConversation()
    talk.show()
    assert talk.end_turn() == [terminal_note(None, None, final=False), *TURN_ENDS]


def test_a_failed_request_keeps_the_known_state_of_a_terminal() -> None:
    talk = TerminalConversation()
    talk.show()
    talk.ask("output", {}, {"output": "x", "truncated": True, "exitStatus": {"exitCode": 1}})
    talk.ask("output", {}, None)
    talk.ask("wait_for_exit", {}, None)
    assert talk.ask("release", {}, {}) == [terminal_note("x", {"exitCode": 1}, truncated=True)]


def test_a_terminal_is_noted_when_the_agent_ends_during_the_turn() -> None:
    talk = TerminalConversation()
    talk.show()
    talk.ask("output", {}, {"output": "one", "truncated": False})
    talk.ask("output", {}, {"output": "one.", "truncated": False})
    assert talk.end_agent().kept[0] == terminal_note("one.", None, final=False)


def test_what_was_noted_in_the_turn_is_not_noted_again_at_its_end() -> None:
    talk = TerminalConversation()
    talk.show()
    talk.ask("output", {}, {"output": "one", "truncated": False})
    assert talk.end_turn() == TURN_ENDS


def test_terminal_requests_of_the_client_or_of_other_sessions_are_ignored() -> None:
    talk = TerminalConversation().open("other")
    talk.client.say(request("release", "terminal/release", {"sessionId": "other", "terminalId": "t1"}))
    talk.ask("output", {"sessionId": "other"}, {"output": "wrong", "truncated": False})
    talk.show()
    assert talk.end_turn() == [terminal_note(None, None, final=False), *TURN_ENDS]


@given(values, values, values)
def test_terminal_messages_of_any_shape_do_not_break_the_turn(created: Any, output: Any, status: Any) -> None:
    talk = TerminalConversation()
    talk.agent.say(request("c", "terminal/create", {"sessionId": "s"}))
    talk.client.say(result("c", created))
    talk.agent.say(update("s", "tool_call", content=created), update("s", "tool_call", content=[created]))
    for verb in ("output", "wait_for_exit", "release"):
        talk.agent.say(request(verb, f"terminal/{verb}", {"sessionId": "s", "terminalId": created}))
        talk.client.say(result(verb, output))
        talk.ask(verb, {}, status)
    assert talk.end_turn()[-2:] == TURN_ENDS


# --- deleted sessions


def test_a_deleted_session_is_not_kept_until_it_is_prompted_again() -> None:
    talk = in_a_session()
    talk.client.say(prompt(1, "s"))
    talk.client.say(delete(2, "s"))
    unheard: list[Said] = [
        chunk("s", "a"),
        respell(chunk("s", "b")),
        permission(0, "s"),
        update("s", "session_info_update"),
    ]
    step = talk.agent.say(*unheard)
    assert (step.kept, step.to_client) == ([], line(*unheard))
    assert talk.client.say(result(0), notification("session/cancel", {"sessionId": "s"})).kept == []
    assert talk.agent.say(prompt_answer(1)).kept == []
    assert talk.client.say(prompt(3, "s")).kept == [BeginTurn("s"), client_kept("s", prompt(3, "s"))]
    assert talk.agent.say(chunk("s", "c")).kept == [agent_kept("s", chunk("s", "c"))]


def test_a_deleted_session_that_was_not_open_is_kept_again_from_its_next_prompt() -> None:
    talk = CoreConversation().initialize()
    talk.client.say(delete(1, "s"))
    assert talk.agent.say(chunk("s", "a")).kept == []
    assert talk.client.say(prompt(2, "s")).kept == [
        begun("s", file_format.PARTIAL, cwd=None),
        BeginTurn("s"),
        client_kept("s", prompt(2, "s")),
    ]


def test_waiting_updates_of_a_deleted_session_are_not_kept() -> None:
    talk = CoreConversation().initialize()
    talk.client.say(new(1))
    talk.agent.say(chunk("s", "a"))
    talk.client.say(delete(2, "s"))
    assert talk.agent.say(error(1, -32603)).kept == []
    assert agent_kept("s", chunk("s", "a")) not in talk.client.say(prompt(3, "s")).kept


def test_a_natively_deleted_session_is_not_found_and_kept_again_from_its_next_prompt() -> None:
    talk = CoreConversation().initialize({"sessionCapabilities": {"delete": {}, "resume": {}}})
    talk.client.say(delete(1, "s"))
    talk.agent.say(result(1, {}))
    assert talk.client.say(resume(2, "s")).refusals == [(2, -32002)]
    assert talk.agent.say(chunk("s", "a")).kept == []
    assert talk.client.say(prompt(3, "s")).kept == [
        begun("s", file_format.PARTIAL, cwd="/w"),
        BeginTurn("s"),
        client_kept("s", prompt(3, "s")),
    ]


@pytest.mark.parametrize("verb", ["new", "fork"])
def test_a_new_session_with_a_deleted_sessions_id_is_kept(verb: str) -> None:
    talk = in_a_session()
    talk.client.say(
        delete(1, "s"), request(2, f"session/{verb}", {"cwd": "/w", "mcpServers": [], "sessionId": "parent"})
    )
    step = talk.agent.say(result(2, {"sessionId": "s"}))
    begin = begun("s") if verb == "new" else BeginTranscript("s", "/w", [], file_format.PARTIAL, parent_id="parent")
    assert step.kept == [begin, RecordNote("s", opened_note(f"session/{verb}"))]
    talk.agent.say(chunk("s", "a"))
    assert talk.client.say(prompt(3, "s")).kept[-2:] == [BeginTurn("s"), client_kept("s", prompt(3, "s"))]
    assert agent_kept("s", chunk("s", "a")) in talk.all.kept


def test_a_new_session_with_a_known_id_begins_a_new_transcript() -> None:
    talk = in_a_session()
    talk.client.say(new(1))
    assert talk.agent.say(result(1, {"sessionId": "s"})).kept == [
        begun("s"),
        RecordNote("s", opened_note("session/new")),
    ]


@given(texts, texts)
@example("session_info_update", "")
def test_a_session_id_may_be_any_text(session: str, other: str) -> None:
    talk = CoreConversation().initialize(RESUMES)
    talk.client.say(new(1), new(2))
    talk.agent.say(commands(session, "x"), result(1, {"sessionId": session}), result(2, {"sessionId": other}))
    talk.client.say(prompt(3, session))
    kept = talk.agent.say(chunk(session, "a")).kept
    # An id that looks like a title update causes one more look at the index, which is harmless.
    assert [one for one in kept if one != EndTurn(session)] == [agent_kept(session, chunk(session, "a"))]
