"""What passes, what the proxy answers, and what it answers when the agent ends."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from acp_proxy.decisions.capabilities import Settings
from acp_proxy.decisions.connection import Connection
from acp_proxy.decisions.effects import AmendList, DeleteSession, EndTurn, Forward, IdentifyAgent, ListSessions
from acp_proxy.decisions.events import LinesRead
from acp_proxy.protocol.jsonrpc import Peer
from tests.conversation import (
    RELEASE,
    RESUMES,
    CoreConversation,
    Said,
    SimulatedSession,
    agent_kept,
    cancel,
    chunk,
    commands,
    delete,
    error,
    initialize_answer,
    line,
    load,
    make_request_id,
    new,
    notification,
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

ODD_LINES = [
    b' {"jsonrpc": "2.0" ,"id":1.0,"method":"some/method","params":{"b":1,"a":[1.0,1E400,-0]}}\n',
    b'{"id":12345678901234567890123,"method":"some/method","method":"other/method"}\r\n',
    b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"x":"\\ud800\\u0000"}}}\n',
    b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"\xe2\x80\xa8","update":{}}}\n',
    b'\xef\xbb\xbf{"method":"x"}\n',
    b'{"a":"\xff\xfe"}\n',
    b"{}\n",
    b"[]\n",
    b"[1,null,[]]\n",
    b'[{"id":1,"method":"m"},{"id":2,"result":null}]\n',
    b'{"id":null,"error":{"code":-32700,"message":"Parse error"}}\n',
    b'{"id":7,"result":{}}\n',
    b'{"id":8,"method":"session/lists","result":[]}\n',
    b'{"method":null,"id":3}\n',
    b"[" * 3000 + b"]" * 3000 + b"\n",
    b'{"id":1,"method":"session/prompt","params":{"sessionId":"s","prompt":' + b"[" * 2000 + b"]" * 2000 + b"}}\n",
]
STRAY = [
    b"npm notice New major version of npm available!\n",
    b"42\n",
    b'"text"\n',
    b"null\n",
    b"true\n",
    b"\n",
    b"\r\n",
    b"   \n",
    b"{\n",
    b'{"id":1}}\n',
    b'{"jsonrpc":"2.0"}{"jsonrpc":"2.0"}\n',
    b"\xff\x00\n",
    b'{"torn":"',
]


def serving(capabilities: object = None) -> CoreConversation:
    return CoreConversation().initialize(capabilities or RESUMES).open("s")


TALKS: dict[str, Callable[[], CoreConversation]] = {
    "before initialize": CoreConversation,
    "nothing recorded": lambda: CoreConversation(records=False),
    "nothing served": lambda: CoreConversation(serves=False).initialize(RESUMES),
    "all served": lambda: serving(),
    "another version": lambda: CoreConversation().initialize(RESUMES, protocolVersion=2),
}


# --- passing


@pytest.mark.parametrize("said", ODD_LINES, ids=lambda said: str(said)[:60])
@pytest.mark.parametrize("begin", TALKS.values(), ids=TALKS)
def test_an_odd_line_passes_byte_for_byte(begin: Callable[[], CoreConversation], said: bytes) -> None:
    talk = begin()
    assert talk.client.say(said).to_agent == said
    step = talk.agent.say(said)
    assert (step.to_client, step.stderr) == (said, b"")


@pytest.mark.parametrize("said", STRAY)
@pytest.mark.parametrize("begin", TALKS.values(), ids=TALKS)
def test_a_stray_line_of_the_agent_goes_to_stderr_and_the_clients_passes(
    begin: Callable[[], CoreConversation], said: bytes
) -> None:
    talk = begin()
    assert talk.client.say(said).to_agent == said
    step = talk.agent.say(said)
    assert (step.to_client, step.stderr, step.kept) == (b"", said, [])


def test_stray_lines_do_not_disturb_the_order_of_others() -> None:
    step = serving().agent.say(chunk("s", "a"), b"42\n", result(9), b"log\n", chunk("s", "b"))
    assert step.to_client == line(chunk("s", "a"), result(9), chunk("s", "b"))
    assert step.stderr == b"42\nlog\n"


def test_updates_read_together_leave_together() -> None:
    talk = serving().open("t")
    step = talk.agent.say(*(chunk("s", str(number)) for number in range(50)), chunk("t", "x"), chunk("t", "y"))
    assert [effect.may_precede_recording for effect in step.done if isinstance(effect, Forward)] == [True, True]


@pytest.mark.parametrize("end", [b"", b"\n"])
def test_a_final_update_passes_with_or_without_a_newline(end: bytes) -> None:
    said = [line(chunk("s", "a")), line(chunk("s", "b")), raw(chunk("s", "c")) + end]
    talk = serving()
    step = talk.agent.say(*said)
    assert step.to_client == b"".join(said)
    assert step.kept == [agent_kept("s", each) for each in said]


def test_a_truncated_final_update_goes_to_stderr() -> None:
    torn = raw(chunk("s", "b"))[:-3]
    step = serving().agent.say(chunk("s", "a"), torn)
    assert (step.to_client, step.stderr) == (line(chunk("s", "a")), torn)


def test_a_truncated_line_after_an_update_goes_to_stderr() -> None:
    step = serving().agent.say(chunk("s", "a"), b"npm no")
    assert (step.to_client, step.stderr) == (line(chunk("s", "a")), b"npm no")


def test_updates_are_forwarded_before_they_are_recorded_and_other_lines_after() -> None:
    talk = serving()
    talk.client.say(prompt(1, "s"))
    said: list[Said] = [
        chunk("s", "a"),
        respell(chunk("s", "b")),
        permission(0, "s"),
        prompt_answer(1),
        result(5),
        [result(6)],
    ]
    step = talk.agent.say(*said)
    assert step.to_client == line(*said[:3], title_update("s"), *said[3:])
    assert [effect.may_precede_recording for effect in step.done if isinstance(effect, Forward)] == [True, True] + [
        False
    ] * 5
    assert not any(
        effect.may_precede_recording for effect in talk.client.say(result(0)).done if isinstance(effect, Forward)
    )


def test_both_sides_may_use_the_same_request_id() -> None:
    talk = serving()
    talk.client.say(prompt(0, "s"))
    talk.agent.say(permission(0, "s"))
    assert talk.client.say(result(0, {})).to_agent == line(result(0, {}))
    assert talk.agent.say(prompt_answer(0)).kept == [
        agent_kept("s", prompt_answer(0), "session/prompt"),
        EndTurn("s"),
    ]


@pytest.mark.parametrize("other", [1.0, "1", True, None, "1.0"])
def test_an_answer_closes_only_the_request_with_exactly_its_id(other: object) -> None:
    talk = serving()
    talk.client.say(prompt(1, "s"))
    step = talk.agent.say(prompt_answer(other))
    assert (step.kept, step.to_client) == ([], line(prompt_answer(other)))
    assert len(talk.agent.say(prompt_answer(1)).kept) == 2


def test_large_ids_are_compared_exactly() -> None:
    talk = serving()
    talk.client.say(prompt(2**70, "s"), prompt(2**70 + 1, "s"))
    talk.client.say(prompt(2**70 + 1, "s"))
    assert talk.agent.say(prompt_answer(2**70 + 2)).kept == []
    assert talk.agent.say(prompt_answer(2**70 + 1)).kept != []


# --- initialize


def test_two_initializes_answered_out_of_order_are_both_amended() -> None:
    talk = CoreConversation()
    asked = [request(0, "initialize"), request(1, "initialize"), new(2), new(3)]
    assert talk.client.say(*asked).to_agent == line(*asked)
    answers = [result(3, {"sessionId": "b"}), initialize_answer(1, RESUMES), result(2, {"sessionId": "a"})]
    step = talk.agent.say(*answers, initialize_answer(0, RESUMES))
    told = [json.loads(one) for one in step.to_client.splitlines()]
    assert [one["id"] for one in told] == [3, 1, 2, 0]
    assert told[1]["result"] == told[3]["result"]
    assert told[1]["result"]["agentCapabilities"]["loadSession"] is True
    assert [record for record in step.kept if isinstance(record, IdentifyAgent)] == [IdentifyAgent(None, None)]


def test_a_refused_initialize_passes_and_nothing_is_served() -> None:
    talk = CoreConversation()
    talk.client.say(request(0, "initialize"))
    assert talk.agent.say(error(0, -32603)).to_client == line(error(0, -32603))
    assert talk.client.say(request(1, "session/list")).to_agent == line(request(1, "session/list"))


def test_nothing_is_served_before_the_agent_has_answered_initialize() -> None:
    talk = CoreConversation()
    asked = [request(0, "initialize"), request(1, "session/list"), delete(2, "s"), load(3, "s")]
    step = talk.client.say(*asked)
    assert (step.to_agent, step.asked) == (line(*asked), [])


def test_the_clients_initialize_passes_unchanged() -> None:
    said = request(0, "initialize", {"protocolVersion": 1, "clientCapabilities": {"fs": {}}, "_meta": {"token": "x"}})
    assert CoreConversation().client.say(respell(said)).to_agent == respell(said)


@pytest.mark.parametrize("version", [3, 0, "1", "2", 2.0, None, "2026-01-01"])
def test_with_another_protocol_version_everything_passes_and_nothing_is_recorded(version: object) -> None:
    talk = CoreConversation()
    talk.stored["s"] = SimulatedSession()
    talk.client.say(request(0, "initialize"), new(1))
    talk.agent.say(commands("s", "x"))
    answer = respell(initialize_answer(0, RESUMES, protocolVersion=version))
    assert talk.agent.say(answer).to_client == answer
    from_client: list[Said] = [
        request(2, "session/list"),
        delete(3, "s"),
        load(4, "s"),
        resume(5, "s"),
        prompt(6, "s"),
        cancel(4),
        b"log\n",
    ]
    assert talk.client.say(*from_client).to_agent == line(*from_client)
    from_agent: list[Said] = [
        result(1, {"sessionId": "s"}),
        chunk("s", "a"),
        respell(chunk("s", "b")),
        update("s", "session_info_update", title="x"),
        permission(0, "s"),
        result(2, {"sessions": [{"sessionId": "s"}]}),
        result(3, {}),
        result(4, None),
        result(5, None),
        prompt_answer(6),
        [chunk("s", "c")],
    ]
    assert talk.agent.say(*from_agent).to_client == line(*from_agent)
    assert talk.agent.say(b"log\n").stderr == b"log\n"
    talk.client.say(prompt(7, "s"))
    assert talk.end_agent().refusals == [(7, -32603)]
    assert (talk.all.kept, talk.all.asked) == ([], [])


# --- only what initialize advertises is served


@pytest.mark.parametrize("delete_is_native", [False, True])
@pytest.mark.parametrize("list_is_native", [False, True])
@pytest.mark.parametrize("load_is_native", [False, True])
@pytest.mark.parametrize("resumes", [False, True])
@pytest.mark.parametrize("how", [{}, {"serves": False}, {"records": False}], ids=str)
def test_only_requests_advertised_in_initialize_are_answered_here(
    how: dict[str, Any], resumes: bool, load_is_native: bool, list_is_native: bool, delete_is_native: bool
) -> None:
    native = {"list": list_is_native, "delete": delete_is_native, "resume": resumes}
    talk = CoreConversation(**how).initialize({"loadSession": load_is_native, "sessionCapabilities": native})
    told = json.loads(talk.all.to_client)["result"]["agentCapabilities"]
    serves = told.get("_meta", {}).get("acp-proxy", {}).get("serves", [])
    talk.stored["s"] = SimulatedSession()
    passes = {
        "list": talk.client.say(request(1, "session/list")).to_agent != b"",
        "delete": talk.client.say(delete(2, "t")).to_agent != b"",
        "load": talk.client.say(load(3, "s")).to_agent == line(load(3, "s")),
    }
    assert {name for name, passed in passes.items() if not passed} == set(serves)
    assert talk.client.say(resume(4, "u")).to_agent == line(resume(4, "u"))
    assert set(serves) == set() if how else set(serves) <= {"list", "delete", "load"}


@pytest.mark.parametrize("params", [None, {}, {"cwd": None, "cursor": None}, {"unknown": 1, "_meta": {}}])
def test_a_list_needs_no_parameters(params: object) -> None:
    step = serving().client.say(request(1, "session/list", params))
    assert step.asked == [ListSessions(make_request_id(1), None, None, False)]
    assert (step.to_agent, step.kept) == (b"", [])
    assert json.loads(step.to_client) == {"jsonrpc": "2.0", "id": 1, "result": {"sessions": []}}


def test_a_list_without_a_params_key_is_answered() -> None:
    assert serving().client.say(b'{"id":"x","method":"session/list"}\n').asked == [
        ListSessions(make_request_id("x"), None, None, False)
    ]


@pytest.mark.parametrize("cwd", ["/w", "/", "C:\\w", "c:/w", "\\\\server\\share", "/w/../x/"])
def test_the_filter_and_the_cursor_of_a_list_reach_the_store(cwd: str) -> None:
    step = serving().client.say(request(1, "session/list", {"cwd": cwd, "cursor": "c"}))
    assert step.asked == [ListSessions(make_request_id(1), cwd, "c", False)]


def test_a_list_includes_additional_directories_if_the_agent_supports_them() -> None:
    talk = serving({"sessionCapabilities": {"additionalDirectories": {}}})
    assert talk.client.say(request(1, "session/list")).asked == [ListSessions(make_request_id(1), None, None, True)]


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("session/list", []),
        ("session/list", "x"),
        ("session/list", 0),
        ("session/list", False),
        ("session/list", {"cwd": 5}),
        ("session/list", {"cwd": ["/w"]}),
        ("session/list", {"cursor": 5}),
        ("session/list", {"cursor": {}}),
        ("session/list", {"cwd": "relative/path"}),
        ("session/list", {"cwd": ""}),
        ("session/list", {"cwd": "C:relative"}),
        ("session/delete", None),
        ("session/delete", {}),
        ("session/delete", []),
        ("session/delete", {"sessionId": None}),
        ("session/delete", {"sessionId": 5}),
        ("session/load", None),
        ("session/load", {"cwd": "/w", "mcpServers": []}),
        ("session/load", {"sessionId": ["s"]}),
        ("session/load", "s"),
    ],
)
def test_invalid_parameters_of_a_served_request_are_refused(method: str, params: object) -> None:
    step = serving().client.say(request(1, method, params))
    assert (step.refusals, step.to_agent, step.asked, step.kept) == ([(1, -32602)], b"", [], [])


@pytest.mark.parametrize("params", [None, {}, {"sessionId": 5}, []])
def test_invalid_parameters_of_a_native_request_pass(params: object) -> None:
    asked = request(1, "session/resume", params)
    assert serving().client.say(asked).to_agent == line(asked)
    asked = request(1, "session/load", params)
    assert serving({"loadSession": True}).client.say(asked).to_agent == line(asked)


@pytest.mark.parametrize("id", [b"1.0", b"true", b"null", b'"\\u0031"', b"12345678901234567890123", b'"\\ud800"'])
def test_our_answer_repeats_the_request_id_exactly(id: bytes) -> None:
    told = serving().client.say(b'{"id":%s,"method":"session/list"}\n' % id).to_client
    assert json.dumps(json.loads(told)["id"]) == json.dumps(json.loads(id))


def test_a_notification_with_the_name_of_a_request_passes() -> None:
    said = [notification("session/list"), notification("session/delete", {"sessionId": "s"})]
    step = serving().client.say(*said)
    assert (step.to_agent, step.asked) == (line(*said), [])


@pytest.mark.parametrize("method", ["list", "delete", "session/List", "session/session/list", "_session/list", "load"])
def test_a_similar_method_name_passes(method: str) -> None:
    asked = request(1, method, {"sessionId": "s"})
    assert serving().client.say(asked).to_agent == line(asked)


def test_requests_of_the_agent_are_never_answered_here() -> None:
    asked: list[Said] = [request(1, "session/list"), delete(2, "s"), load(3, "s")]
    step = serving().agent.say(*asked)
    assert (step.to_client, step.asked) == (line(*asked), [])


# --- the agent's own list


def listing(id: object, *sessions: str) -> dict[str, Any]:
    return result(id, {"sessions": [{"sessionId": session} for session in sessions], "nextCursor": "c"})


def test_sessions_deleted_here_are_removed_from_the_agents_list() -> None:
    talk = serving({"sessionCapabilities": {"list": {}}})
    talk.stored["gone"] = SimulatedSession(deleted=True)
    asked = request(1, "session/list", {"cursor": "agent's", "cwd": "relative"})
    assert talk.client.say(asked).to_agent == line(asked)
    step = talk.agent.say(listing(1, "a", "gone", "b"))
    [amendment] = step.asked
    assert isinstance(amendment, AmendList)
    assert (amendment.line, amendment.cwd) == (line(listing(1, "a", "gone", "b")), "relative")
    assert step.to_client.endswith(line(listing(1, "a", "b")))


def test_a_page_of_deleted_sessions_is_followed_by_the_next_one() -> None:
    talk = serving({"sessionCapabilities": {"list": {}}})
    talk.stored["gone"] = SimulatedSession(deleted=True)
    talk.client.say(request(1, "session/list", {"cwd": "/w"}))
    step = talk.agent.say(result(1, {"sessions": [{"sessionId": "gone"}], "nextCursor": "c"}))
    asked = json.loads(step.to_agent)
    assert (step.to_client, asked["params"]) == (b"", {"cwd": "/w", "cursor": "c"})
    step = talk.agent.say({**listing(0, "a"), "id": asked["id"]})
    assert step.to_client == line(listing(1, "a"))


@pytest.mark.parametrize("answer", [error(1, -32603), error(1, -32601)])
def test_a_refused_list_passes(answer: dict[str, Any]) -> None:
    talk = serving({"sessionCapabilities": {"list": {}}})
    talk.client.say(request(1, "session/list"))
    step = talk.agent.say(answer)
    assert (step.to_client, step.asked) == (line(answer), [])


@pytest.mark.parametrize("how", [{"serves": False}, {"records": False}])
def test_the_agents_list_passes_while_serving_or_recording_is_off(how: dict[str, Any]) -> None:
    talk = CoreConversation(**how).initialize({"sessionCapabilities": {"list": {}}})
    talk.client.say(request(1, "session/list"))
    step = talk.agent.say(listing(1, "a"))
    assert (step.to_client, step.asked) == (line(listing(1, "a")), [])


# --- delete


def test_a_served_delete_goes_only_to_the_store() -> None:
    step = serving().client.say(delete("d", "s"))
    assert step.asked == [DeleteSession("s", make_request_id("d"))]
    assert step.to_agent == b""
    assert json.loads(step.to_client) == {"jsonrpc": "2.0", "id": "d", "result": {}}


def test_unknown_and_repeated_ids_are_deleted_alike() -> None:
    talk = serving()
    for number, session in enumerate(["unknown", "s", "s", "", "../../etc/passwd"]):
        assert talk.client.say(delete(number, session)).asked == [DeleteSession(session, make_request_id(number))]


@pytest.mark.parametrize("how", [{}, {"serves": False}])
def test_a_successful_native_delete_deletes_the_session_here_too(how: dict[str, Any]) -> None:
    talk = CoreConversation(**how).initialize({"sessionCapabilities": {"delete": {}}}).open("s")
    assert talk.client.say(delete(1, "s"), delete(2, "s")).to_agent == line(delete(1, "s"), delete(2, "s"))
    step = talk.agent.say(error(1, -32603))
    assert (step.to_client, step.asked) == (line(error(1, -32603)), [])
    step = talk.agent.say(result(2, {"agent": 1.5}))
    assert (step.to_client, step.asked) == (line(result(2, {"agent": 1.5})), [DeleteSession("s")])
    assert talk.agent.say(chunk("s", "a")).kept == []


@pytest.mark.parametrize("params", [None, {}, {"sessionId": 5}])
def test_a_native_delete_without_a_session_deletes_nothing_here(params: object) -> None:
    talk = serving({"sessionCapabilities": {"delete": {}}})
    talk.client.say(request(1, "session/delete", params))
    step = talk.agent.say(result(1, {}))
    assert (step.to_client, step.asked) == (line(result(1, {})), [])


def test_a_native_delete_deletes_nothing_here_while_recording_is_off() -> None:
    talk = CoreConversation(records=False).initialize({"sessionCapabilities": {"delete": {}}})
    talk.client.say(delete(1, "s"))
    assert talk.agent.say(result(1, {})).asked == []


def test_a_deleted_session_can_be_loaded_again_after_a_new_prompt() -> None:
    talk = serving()
    talk.client.say(delete(1, "s"))
    assert talk.client.say(load(2, "s")).refusals == [(2, -32002)]
    talk.client.say(prompt(3, "s"))
    talk.agent.say(prompt_answer(3))
    assert talk.client.say(load(4, "s")).to_agent == line(resume(4, "s"))


# --- the agent's end


def test_every_open_client_request_is_answered_once_when_the_agent_ends() -> None:
    talk = serving()
    asked = [
        prompt(1, "s"),
        new(2),
        request("3", "authenticate"),
        request(4.5, "_vendor/x"),
        request(None, "logout"),
        resume(6, "t"),
        request(7, "session/fork", {"sessionId": "s"}),
        request(7, "session/set_mode", {"sessionId": "s"}),
    ]
    talk.client.say(*asked, [request(8, "in/a/batch")], request(9, "answered"))
    talk.agent.say(result(9, {}), permission(5, "s"))
    step = talk.end_agent("agent exited with status 17")
    told = [json.loads(one) for one in step.to_client.splitlines()]
    assert sorted(str(one["id"]) for one in told) == sorted(map(str, [1, 2, "3", 4.5, None, 6, 7, 7, 8]))
    assert {(one["error"]["code"], one["error"]["message"]) for one in told} == {
        (-32603, "agent exited with status 17")
    }
    assert step.to_agent == b""


def test_nothing_is_sent_when_the_agent_ends_without_open_requests() -> None:
    talk = serving()
    talk.client.say(prompt(1, "s"), notification("session/cancel", {"sessionId": "s"}))
    talk.agent.say(prompt_answer(1))
    step = talk.end_agent()
    assert (step.done, step.kept) == ([], [])


def test_requests_answered_here_are_not_open_when_the_agent_ends() -> None:
    talk = serving()
    talk.client.say(request(1, "session/list"), delete(2, "s"))
    assert talk.end_agent().done == []


# --- $/cancel_request of requests that pass


@pytest.mark.parametrize("params", [{"requestId": 1}, {"requestId": "x"}, {}, None, [1]])
def test_a_cancel_passes_to_the_agent_which_answers_the_request(params: object) -> None:
    talk = serving()
    talk.client.say(prompt(1, "s"))
    said = notification("$/cancel_request", params)
    step = talk.client.say(said)
    assert (step.to_agent, step.to_client, step.kept) == (line(said), b"", [])
    assert talk.agent.say(error(1, -32800)).to_client == line(title_update("s"), error(1, -32800))


def test_a_cancel_passes_to_the_client() -> None:
    talk = serving()
    talk.agent.say(permission(1, "s"))
    assert talk.agent.say(cancel(1)).to_client == line(cancel(1))


def test_an_event_without_lines_has_no_effects() -> None:
    core = Connection(Settings(records=True, serves=True, proxy_version=RELEASE))
    assert core.handle(LinesRead(Peer.CLIENT, [])) == core.handle(LinesRead(Peer.AGENT, [])) == []


# --- several acp-proxies in one chain


def begin_in_chain(*, is_chained: bool = True, serves: bool = True) -> CoreConversation:
    talk = CoreConversation()
    talk.core = Connection(Settings(True, serves, RELEASE, store_id="ours", is_chained=is_chained))
    return talk


@pytest.mark.parametrize("serves", [True, False])
def test_in_a_chain_the_answer_to_initialize_always_says_who_records_and_where(serves: bool) -> None:
    everything = {"loadSession": True, "sessionCapabilities": {"list": {}, "delete": {}}}
    talk = begin_in_chain(serves=serves).initialize(everything)
    told = json.loads(talk.all.to_client)["result"]["agentCapabilities"]
    assert told == everything | {"_meta": {"acp-proxy": {"version": RELEASE, "serves": [], "store": "ours"}}}


def test_outside_a_chain_it_says_so_only_if_it_serves_something() -> None:
    everything = {"loadSession": True, "sessionCapabilities": {"list": {}, "delete": {}}}
    passed = begin_in_chain(is_chained=False).initialize(everything)
    assert passed.all.to_client == line(initialize_answer("initialize", everything))
    told = json.loads(begin_in_chain(is_chained=False).initialize({}).all.to_client)["result"]["agentCapabilities"]
    assert told["_meta"]["acp-proxy"]["store"] == "ours"


@pytest.mark.parametrize("is_chained", [True, False])
def test_of_two_with_one_store_the_one_farther_from_the_agent_passes_everything(is_chained: bool) -> None:
    meta = {"_meta": {"acp-proxy": {"version": RELEASE, "serves": ["list", "delete"], "store": "ours"}}}
    talk = begin_in_chain(is_chained=is_chained).initialize(meta)
    assert talk.all.to_client == line(initialize_answer("initialize", meta))
    assert len(talk.all.warnings) == 1
    talk.open("s")
    for asked in (prompt(1, "s"), load(2, "s"), delete(3, "s"), request(4, "session/list")):
        assert talk.client.say(asked).to_agent == line(asked)
    assert talk.agent.say(chunk("s", "hello"), prompt_answer(1)).to_client == line(chunk("s", "hello")) + line(
        prompt_answer(1)
    )
    assert (talk.all.kept, talk.all.asked) == ([], [])


def test_two_with_stores_of_their_own_both_record() -> None:
    talk = begin_in_chain().initialize({"_meta": {"acp-proxy": {"version": RELEASE, "serves": [], "store": "another"}}})
    assert talk.all.warnings == []
    assert talk.open("s").client.say(prompt(1, "s")).kept
