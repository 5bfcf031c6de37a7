"""The fast paths: lines pass without a decision only if a decision would let them pass.

``CoreConversation`` checks this for every line of every test that uses it.
"""

import copy
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_proxy.decisions.effects import EndTurn, RecordMessage
from acp_proxy.protocol.jsonrpc import Peer
from acp_proxy.protocol.update_kinds import KINDS, Parsed, UpdateKind
from tests.conversation import (
    LOADS,
    RESUMES,
    CoreConversation,
    Said,
    SimulatedSession,
    chunk,
    delete,
    error,
    line,
    load,
    new,
    notification,
    permission,
    prompt,
    prompt_answer,
    request,
    result,
    update,
)

BEGINNING = b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s"'
SAID = line(chunk("s", "one"), chunk("s", "two"))


def talking(*, records: bool = True) -> CoreConversation:
    """A session whose first update has passed."""
    talk = CoreConversation(records=records).initialize(RESUMES)
    talk.stored["s"] = SimulatedSession()
    talk.open("s")
    talk.agent.say(chunk("s", "before"))
    return talk


def test_updates_of_the_last_updated_session_pass() -> None:
    talk = talking()
    assert talk.core.fast_path.try_admit_updates(SAID) == "s"
    talk.client.say(notification("session/cancel", {"sessionId": "s"}))
    assert talk.core.fast_path.try_admit_updates(SAID) == "s"


@pytest.mark.parametrize(
    "lines",
    [
        line(chunk("t", "one")),
        line(chunk("ss", "one")),
        line(chunk("s", "one"), chunk("t", "two")),
        line(chunk("s", "one"), result(1)),
        line(chunk("s", "one"), {"more": 'x\n{"jsonrpc"'}),
        line(result(1), chunk("s", "one")),
        line(update("s", "session_info_update", title="a title")),
        line(chunk("s", "one"), update("s", "session_info_update", title="a title")),
        b"a stray line\n",
        b"\n",
    ],
)
def test_other_lines_do_not_pass(lines: bytes) -> None:
    assert talking().core.fast_path.try_admit_updates(lines) is None


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_the_row_of_a_kind_says_whether_its_updates_pass(kind: UpdateKind) -> None:
    is_parsed = kind.parsed is Parsed.ALWAYS and kind.form_v1 is not None
    admitted = talking().core.fast_path.try_admit_updates(line(update("s", kind.name)))
    assert admitted == (None if is_parsed else "s")


@given(
    lines=st.lists(
        st.sampled_from(
            [chunk("s", "one"), chunk("t", "one"), update("s", "session_info_update"), BEGINNING + b"\n", b"x\n", b"\n"]
        )
        | st.text(max_size=3).map(lambda text: chunk("s", text))
    )
)
def test_lines_read_together_pass_only_if_each_passes(lines: list[Said]) -> None:
    talk = talking()
    alone = [talk.core.fast_path.try_admit_updates(line(said)) for said in lines]
    assert talk.core.fast_path.try_admit_updates(line(*lines)) == ("s" if alone and None not in alone else None)


def terminal(talk: CoreConversation) -> None:
    talk.agent.say(request(7, "terminal/create", {"sessionId": "s"}))
    talk.client.say(result(7, {"terminalId": "t"}))


def load_in_the_making(talk: CoreConversation) -> None:
    talk.stored["s"] = SimulatedSession(slow=True)
    talk.client.say(load(7, "s"))
    talk.agent.say(chunk("s", "meanwhile"))
    assert talk.core.fast_path.try_admit_updates(SAID) == "s"
    talk.finish_lookup(7)


def client_says(*said: Said) -> Callable[[CoreConversation], object]:
    return lambda talk: talk.client.say(*said)


@pytest.mark.parametrize(
    "happens",
    [
        client_says(load(7, "s")),
        client_says(delete(7, "s")),
        terminal,
        load_in_the_making,
    ],
)
def test_a_change_that_updates_depend_on_ends_the_fast_path(happens: Callable[[CoreConversation], object]) -> None:
    talk = talking()
    happens(talk)
    assert talk.core.fast_path.try_admit_updates(SAID) is None


@pytest.mark.parametrize(
    "happens",
    [
        client_says(prompt(7, "s")),
        client_says(new(7)),
        client_says([load(7, "s")]),
        lambda talk: talk.agent.say(request(7, "terminal/create", {"sessionId": "s"})),
        lambda talk: talk.agent.say(chunk("t", "another session's")),
    ],
)
def test_after_any_other_change_updates_pass_again(happens: Callable[[CoreConversation], object]) -> None:
    talk = talking()
    happens(talk)
    assert talk.core.fast_path.try_admit_updates(SAID) == "s"
    talk.agent.say(SAID)


def test_updates_of_several_sessions_pass_in_turn_but_not_in_one_read() -> None:
    talk = talking().open("t")
    for session in ("s", "t", "s"):
        assert talk.core.fast_path.try_admit_updates(line(chunk(session, "one"))) == session
    assert talk.core.fast_path.try_admit_updates(line(chunk("s", "one"), chunk("t", "two"))) is None


def test_in_one_read_each_session_gets_its_updates_around_what_must_be_parsed() -> None:
    talk = talking().open("t")
    talk.client.say(prompt(7, "s"))
    said = [chunk("s", "one"), chunk("s", "two"), chunk("t", "three"), {"jsonrpc": "2.0", "id": 7, "result": {}}]
    step = talk.agent.say(*said)
    assert step.to_client.startswith(line(*said[:3]))
    assert [row.session_id for row in step.kept if isinstance(row, RecordMessage)] == ["s", "s", "t", "s"]


def test_in_the_turn_after_a_load_updates_pass_once_the_echo_of_the_prompt_is_complete() -> None:
    past = [chunk("s", "hello", "user_message_chunk"), chunk("s", "Hi there.")]
    talk = CoreConversation().initialize(LOADS)
    talk.stored["s"] = SimulatedSession(says=(prompt(1, "s"), past[1], prompt_answer(1)))
    talk.client.say(load(7, "s"))
    talk.agent.say(*past, result(7, {}))
    talk.end_past(7)
    talk.client.say(prompt(8, "s", "mend it"))
    talk.agent.say(chunk("s", "mend it", "user_message_chunk"))
    assert talk.core.fast_path.try_admit_updates(SAID) is None
    talk.agent.say(chunk("s", "first words"))
    assert talk.core.fast_path.try_admit_updates(SAID) == "s"
    assert talk.core.fast_path.try_admit_updates(line(chunk("s", "mend it", "user_message_chunk"))) is None


def test_after_a_handover_only_the_updates_of_its_own_session_are_parsed() -> None:
    talk = CoreConversation().initialize().open("other")
    talk.stored["s"] = SimulatedSession()
    talk.client.say(load(7, "s"))
    talk.agent.say(result("acp-proxy/1", {"sessionId": "new"}))
    talk.end_past(7, handover_record="record")
    assert talk.core.fast_path.try_admit_updates(line(chunk("other", "one"))) == "other"
    assert talk.core.fast_path.try_admit_updates(line(chunk("new", "one"))) is None
    assert talk.agent.say(chunk("new", "one"), chunk("other", "one")).to_client == line(
        chunk("s", "one"), chunk("other", "one")
    )


def test_nothing_of_another_agents_session_passes_before_it_is_prompted() -> None:
    talk = talking()
    talk.core._uncopied_sessions.add("s")
    assert talk.core.fast_path.try_admit_updates(SAID) is None
    talk.client.say(prompt(7, "s"))
    assert talk.core.fast_path.try_admit_updates(SAID) == "s"


def test_nothing_passes_without_a_transcript() -> None:
    unnamed = CoreConversation()
    unnamed.agent.say(chunk("s", "one"), chunk("s", "two"))
    assert unnamed.core.fast_path.try_admit_updates(SAID) is None
    assert talking(records=False).core.fast_path.try_admit_updates(SAID) is None


NOTHING: list[Said] = [
    notification("_editor/focus", {"sessionId": "s"}),
    result(5, {"content": "a file"}),
    error(5, -32603),
    error(None, -32700),
]


@pytest.mark.parametrize("said", [*([each] for each in NOTHING), NOTHING])
def test_client_lines_without_a_meaning_here_pass(said: list[Said]) -> None:
    talk = talking()
    talk.agent.say(request(5, "fs/read_text_file", {"sessionId": "s", "path": "/w/a"}))
    assert talk.core.fast_path.try_admit_simple_lines(line(*said), Peer.CLIENT)


@pytest.mark.parametrize(
    "said",
    [
        prompt(7, "s"),
        request(7, "initialize", {}),
        request(7, "terminal/release", {"sessionId": "s", "terminalId": "t"}),
        notification("session/cancel", {"sessionId": "s"}),
        notification("$/cancel_request", {"requestId": 1}),
        b'{"jsonrpc":"2.0","method":"session\\/cancel","params":{"sessionId":"s"}}\n',
        b'{"jsonrpc":"2.0","method":"session\\/delete","id":7,"params":{"sessionId":"s"}}\n',
        b'{"jsonrpc":"2.0","method":"\\u0073ession/list","id":7}\n',
        [result(5, {}), result(6, {})],
        [request(7, "_editor/question", {})],
        b"no JSON\n",
        b"5\n",
    ],
)
def test_other_client_lines_are_decided_on(said: Said) -> None:
    core = talking().core
    assert not core.fast_path.try_admit_simple_lines(line(said), Peer.CLIENT)
    assert not core.fast_path.try_admit_simple_lines(line(NOTHING[0], said), Peer.CLIENT)


@pytest.mark.parametrize("method", ["session/request_permission", "terminal/create", "terminal/release"])
def test_an_answer_to_a_request_with_a_meaning_is_decided_on(method: str) -> None:
    talk = talking()
    talk.agent.say(request(5, method, {"sessionId": "s"}))
    assert not talk.core.fast_path.try_admit_simple_lines(line(result(5, {})), Peer.CLIENT)
    assert talk.core.fast_path.try_admit_simple_lines(line(result(6, {})), Peer.CLIENT)
    talk.client.say(result(5, {}))
    assert talk.core.fast_path.try_admit_simple_lines(line(result(5, {})), Peer.CLIENT)


def test_agent_requests_without_a_meaning_here_pass_while_no_load_is_under_way() -> None:
    talk = talking()
    asks = request(5, "fs/read_text_file", {"sessionId": "s", "path": "/w/a"})
    assert talk.core.fast_path.try_admit_simple_lines(line(asks, request(6, "_agent/question")), Peer.AGENT)
    talk.client.say(load(7, "s"))
    assert not talk.core.fast_path.try_admit_simple_lines(line(asks), Peer.AGENT)


@pytest.mark.parametrize(
    "said",
    [
        permission(7, "s"),
        request(7, "terminal/create", {"sessionId": "s", "command": "make"}),
        request(7, "terminal/release", {"sessionId": "s", "terminalId": "t"}),
        notification("_agent/news", {"sessionId": "s"}),
        chunk("s", "hello"),
        result(1, {}),
        [request(7, "_agent/question")],
        b'{"id":7,"method":null}\n',
        b"no JSON\n",
    ],
)
def test_other_agent_lines_are_decided_on(said: Said) -> None:
    core = talking().core
    assert not core.fast_path.try_admit_simple_lines(line(said), Peer.AGENT)
    assert not core.fast_path.try_admit_simple_lines(line(request(6, "_agent/question"), said), Peer.AGENT)


ASKED_AND_ANSWERED = [
    (Peer.CLIENT, request("q", "_editor/question", {"sessionId": "s"})),
    (Peer.CLIENT, request("q", "authenticate", {"methodId": "key"})),
    (Peer.AGENT, request("q", "terminal/output", {"sessionId": "s", "terminalId": "t"})),
    (Peer.AGENT, request("q", "terminal/wait_for_exit", {"sessionId": "s", "terminalId": "t"})),
]


@pytest.mark.parametrize("answer", [result("q", {"output": "so"}), error("q", -32603)])
@pytest.mark.parametrize(("asks", "said"), ASKED_AND_ANSWERED)
def test_a_request_that_is_only_remembered_and_its_answer_pass_one_by_one(asks: Peer, said: Said, answer: Said) -> None:
    talk = talking()
    ask, reply = (talk.client, talk.agent) if asks is Peer.CLIENT else (talk.agent, talk.client)
    other = chunk("s", "hello") if asks is Peer.AGENT else prompt(7, "s")
    assert not talk.core.fast_path.try_admit_simple_lines(line(said, other), asks)
    assert copy.deepcopy(talk.core).fast_path.try_admit_simple_lines(line(said), asks)
    ask.say(said)
    assert not talk.core.fast_path.try_admit_simple_lines(line(answer, answer), asks.other)
    assert copy.deepcopy(talk.core).fast_path.try_admit_simple_lines(line(answer), asks.other)
    reply.say(answer)
    assert talk.core.fast_path.try_admit_simple_lines(line(answer), asks.other) == (asks is Peer.AGENT)


def test_an_open_request_that_passed_without_a_decision_is_answered_when_the_agent_ends() -> None:
    talk = talking()
    talk.client.say(request("q", "_editor/question", {"sessionId": "s"}))
    talk.client.say(request(7, "_editor/question", {"sessionId": "s"}))
    talk.agent.say(result(7, {}))
    assert talk.end_agent("exited").to_client == line(error("q", -32603, "exited"))


def test_requests_without_a_meaning_that_come_after_the_agents_end_are_answered() -> None:
    talk = talking()
    talk.end_agent("exited")
    assert talk.client.say(request(7, "_editor/question")).to_client == line(error(7, -32603, "exited"))
    asked = [request(8, "_editor/question"), notification("_editor/note"), request(9, "_editor/question")]
    assert talk.client.say(*asked).to_client == line(error(8, -32603, "exited"), error(9, -32603, "exited"))


def test_of_two_requests_with_one_id_the_older_one_is_answered_first_if_one_passed_without_a_decision() -> None:
    talk = talking()
    talk.client.say(request(7, "_editor/question"))
    talk.client.say(prompt(7, "s"))
    assert talk.agent.say(result(7, {})).kept == []
    assert talk.agent.say(result(7, {"stopReason": "end_turn"})).kept[-1] == EndTurn("s")
