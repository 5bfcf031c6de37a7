"""A second load of a session waits for the first one, and what the client asks after it waits behind it."""

import json
from collections.abc import Callable

import pytest

from acp_proxy.comparison.whose_past import PastRule
from acp_proxy.decisions.capabilities import AGENT, Modes
from acp_proxy.decisions.effects import CompareUnsettled, DecideWaiting, Forward, LookUpSession, RelayEffect
from acp_proxy.decisions.events import Event, LinesRead
from acp_proxy.decisions.load import waiting_messages
from acp_proxy.protocol.jsonrpc import Peer
from tests.conversation import (
    LOADS,
    RESUMES,
    CoreConversation,
    Said,
    SimulatedSession,
    Step,
    agent_kept,
    cancel,
    chunk,
    client_kept,
    delete,
    error,
    line,
    load,
    make_request_id,
    notification,
    permission,
    prompt,
    prompt_answer,
    request,
    result,
    resume,
)
from tests.decisions.load.loading import GREETING, ONE, PAST, TURN_ONE, TURN_TWO, about_to_load, kept_lines

TWO = make_request_id(2)
REPLAY: list[Said] = [*TURN_ONE, *TURN_TWO]
CLOSE = request(9, "session/close", {"sessionId": "s"})


def loading_twice(*others: Said, stored: SimulatedSession | None = None) -> CoreConversation:
    """The agent was asked for the first of two loads, and ``others`` were sent after the second."""
    talk = about_to_load(stored or SimulatedSession(says=PAST), LOADS)
    step = talk.client.say(load(1, "s"), load(2, "s"), *others)
    assert step.to_agent == line(load(1, "s"))
    return talk


def answer_first(talk: CoreConversation) -> bytes:
    """The agent answers the first load, and its past is shown; what the agent gets then."""
    assert talk.agent.say(*REPLAY, result(1, {})).to_agent == b""
    return talk.end_past(1).to_agent


def test_nothing_waits_where_loads_and_resumes_are_the_agents() -> None:
    talk = CoreConversation(modes=Modes(load=AGENT, resume=AGENT)).initialize(LOADS | RESUMES)
    requests = load(1, "s"), resume(2, "s"), load(3, "s")
    assert talk.client.say(*requests).to_agent == b"".join(map(line, requests))


def list_answered(talk: CoreConversation) -> list[object]:
    """The ids of the requests that the client has answers to, after ``initialize``."""
    told = [json.loads(each) for each in talk.all.to_client.splitlines()]
    return [message["id"] for message in told if "method" not in message and message["id"] != "initialize"]


def test_a_second_load_is_sent_after_the_answer_to_the_first() -> None:
    talk = loading_twice()
    talk.agent.say(*REPLAY, result(1, {}))
    step = talk.end_past(1)
    assert step.to_client == line(*REPLAY, result(1, {}))
    assert step.to_agent == line(load(2, "s"))
    talk.agent.say(*REPLAY, result(2, {"second": 1}))
    assert talk.end_past(2).to_client == line(*REPLAY, result(2, {"second": 1}))
    assert kept_lines(talk.client.say(prompt(3, "s"))) == [client_kept("s", prompt(3, "s"))]
    assert talk.open_transcripts == []


@pytest.mark.parametrize("methods", ["llll", "lrlr", "rlrl"])
def test_loads_and_resumes_go_in_order_one_by_one(methods: str) -> None:
    talk = about_to_load(SimulatedSession(says=PAST), {**LOADS, **RESUMES})
    asked = [(load if method == "l" else resume)(id, "s") for id, method in enumerate(methods, 1)]
    to_agent = talk.client.say(*asked).to_agent
    for id, each in enumerate(asked, 1):
        assert to_agent == line(each)
        step = talk.agent.say(result(id, {}))
        if talk.being_shown:
            step.add(talk.end_past(id))
        to_agent = step.to_agent
    assert list_answered(talk) == [1, 2, 3, 4]


def test_a_load_waits_while_the_past_is_shown_for_another() -> None:
    talk = about_to_load(SimulatedSession(says=PAST), LOADS)
    talk.client.say(load(1, "s"))
    talk.agent.say(result(1, {}))
    assert talk.client.say(load(2, "s")).done == []
    assert talk.end_past(1).to_agent == line(load(2, "s"))


def test_a_load_that_passes_is_waited_for_too() -> None:
    talk = CoreConversation(modes=Modes(load=AGENT)).initialize(LOADS)
    talk.stored["s"] = SimulatedSession(says=PAST)
    assert talk.client.say(load(1, "s"), load(2, "s")).to_agent == line(load(1, "s"))
    step = talk.agent.say(*REPLAY, result(1, {}))
    assert (step.to_client, step.to_agent) == (line(*REPLAY, result(1, {})), line(load(2, "s")))
    assert talk.agent.say(*REPLAY, result(2, {})).to_client == line(*REPLAY, result(2, {}))
    assert kept_lines(talk.client.say(prompt(3, "s"))) == [client_kept("s", prompt(3, "s"))]


def test_another_session_does_not_wait() -> None:
    talk = loading_twice()
    talk.stored["t"] = SimulatedSession(says=PAST)
    step = talk.client.say(load(3, "t"), prompt(4, "t"), request(5, "session/list"))
    assert step.to_agent.startswith(line(load(3, "t"), prompt(4, "t")))


def test_without_recording_nothing_waits() -> None:
    talk = CoreConversation(records=False).initialize(LOADS)
    assert talk.client.say(load(1, "s"), load(2, "s")).to_agent == line(load(1, "s"), load(2, "s"))


@pytest.mark.parametrize("is_refused", [False, True])
def test_what_is_asked_after_a_load_that_waits_goes_after_it_in_order(is_refused: bool) -> None:
    mode, vendor = (request(id, method, {"sessionId": "s"}) for id, method in ((4, "session/set_mode"), (5, "_x/y")))
    talk = loading_twice(prompt(3, "s"), mode, vendor)
    assert talk.client.say(prompt(6, "s")).done == []
    sent = talk.agent.say(error(1, -32603)).to_agent if is_refused else answer_first(talk)
    assert sent == line(load(2, "s"), prompt(3, "s"), mode, vendor, prompt(6, "s"))
    assert talk.client.say(prompt(7, "s")).to_agent == line(prompt(7, "s"))


def test_a_prompt_goes_with_the_last_load_before_it() -> None:
    talk = loading_twice(prompt(3, "s"), load(4, "s"), prompt(5, "s"))
    assert answer_first(talk) == line(load(2, "s"), prompt(3, "s"))
    talk.agent.say(prompt_answer(3))
    assert talk.agent.say(result(2, {})).to_agent == b""
    assert talk.end_past(2).to_agent == line(load(4, "s"), prompt(5, "s"))


def test_nothing_overtakes_a_load_that_is_compared_first() -> None:
    """What passed for the first load is compared before the second is looked up."""
    talk = loading_twice(prompt(3, "s"))
    talk.agent.say(*TURN_ONE, permission(0, "s"))
    talk.client.say(result(0, {}))
    step = talk.agent.say(*TURN_TWO, result(1, {}))
    assert [type(each) for each in step.asked if isinstance(each, CompareUnsettled | LookUpSession)] == [
        CompareUnsettled,
        LookUpSession,
    ]
    assert step.to_agent == line(load(2, "s"), prompt(3, "s"))


def test_nothing_overtakes_a_load_that_is_being_looked_up() -> None:
    talk = loading_twice()
    talk.stored["s"] = SimulatedSession(says=PAST, slow=True)
    assert answer_first(talk) == b""
    assert talk.client.say(prompt(3, "s")).to_agent == b""
    assert talk.finish_lookup(2, SimulatedSession(says=PAST)).to_agent == line(load(2, "s"), prompt(3, "s"))


def test_a_load_that_waited_can_be_cancelled_while_it_is_looked_up() -> None:
    talk = loading_twice()
    talk.stored["s"] = SimulatedSession(says=PAST, slow=True)
    answer_first(talk)
    assert talk.client.say(prompt(3, "s"), cancel(2)).done == []
    step = talk.finish_lookup(2, SimulatedSession(says=PAST))
    assert step.to_agent == line(load(2, "s"), cancel(2), prompt(3, "s"))
    assert step.refusals == [(2, -32800)]


def test_the_rest_of_a_replay_is_not_new_while_the_next_load_is_looked_up() -> None:
    talk = loading_twice()
    talk.stored["s"] = SimulatedSession(says=PAST, slow=True)
    first, *rest = REPLAY
    talk.agent.say(first, result(1, {}))
    talk.end_past(1, rule=PastRule.REPLAY_IS_WORSE)
    step = talk.agent.say(*rest)
    assert (step.to_client, step.kept) == (b"", [])
    talk.finish_lookup(2, SimulatedSession(says=PAST))
    talk.agent.say(first, result(2, {}))
    talk.end_past(2, rule=PastRule.REPLAY_IS_WORSE)
    assert talk.agent.say(*rest).to_client == b""
    assert kept_lines(talk.client.say(prompt(3, "s"))) == [client_kept("s", prompt(3, "s"))]


def test_what_is_new_before_the_next_load_is_recorded_before_that_is_looked_up() -> None:
    talk = loading_twice()
    talk.agent.say(*REPLAY, result(1, {}), GREETING)
    step = talk.end_past(1)
    assert step.to_client == line(*REPLAY, result(1, {}), GREETING)
    assert agent_kept("s", GREETING) in talk.kept_when_found[TWO]


def test_what_comes_while_the_next_load_is_looked_up_is_recorded_if_nothing_was_compared_yet() -> None:
    talk = about_to_load(SimulatedSession(says=PAST))
    talk.client.say(load(1, "s"))
    talk.agent.say(result(1, {}))
    talk.end_past(1)
    talk.stored["s"] = SimulatedSession(says=PAST, slow=True)
    talk.client.say(load(2, "s"))
    assert talk.agent.say(GREETING).to_client == line(GREETING)
    step = talk.finish_lookup(2, SimulatedSession(says=PAST))
    assert step.to_agent == b""
    step = talk.finish_lookup(2, SimulatedSession(says=PAST))
    assert step.to_agent == line(resume(2, "s"))
    assert agent_kept("s", GREETING) in talk.kept_when_found[TWO]


def test_answers_and_cancels_do_not_wait() -> None:
    cancel_turn = notification("session/cancel", {"sessionId": "s"})
    talk = loading_twice()
    talk.agent.say(permission(0, "s"))
    assert talk.client.say(result(0, {}), cancel_turn).to_agent == line(result(0, {}), cancel_turn)


def test_a_cancel_of_a_turn_means_the_prompts_that_wait_too() -> None:
    cancel_turn = notification("session/cancel", {"sessionId": "s"})
    talk = loading_twice(prompt(3, "s"))
    assert talk.client.say(cancel_turn, prompt(4, "s")).to_agent == line(cancel_turn)
    assert answer_first(talk) == line(load(2, "s"), prompt(3, "s"), cancel_turn, prompt(4, "s"))


def test_a_load_that_waits_is_answered_when_it_is_cancelled_and_never_sent() -> None:
    talk = loading_twice(prompt(3, "s"))
    step = talk.client.say(cancel(2))
    assert (step.refusals, step.to_agent) == ([(2, -32800)], line(prompt(3, "s")))
    assert answer_first(talk) == b""
    assert not talk.core.waiting_messages


def test_a_prompt_that_waits_is_answered_when_it_is_cancelled_and_never_sent() -> None:
    talk = loading_twice(prompt(3, "s"), prompt(4, "s"))
    step = talk.client.say(cancel(3))
    assert (step.refusals, step.to_agent) == ([(3, -32800)], b"")
    assert answer_first(talk) == line(load(2, "s"), prompt(4, "s"))


@pytest.mark.parametrize("is_busy", [False, True])
def test_a_cancelled_load_is_not_waited_for_once_it_is_answered(is_busy: bool) -> None:
    talk = loading_twice(prompt(3, "s"))
    talk.output_is_busy = is_busy
    step = talk.client.say(cancel(1))
    if is_busy:
        assert step.to_agent == line(cancel(1))
        step.add(talk.free_output())
    assert step.refusals == [(1, -32800)]
    assert step.to_agent == line(cancel(1), load(2, "s"), prompt(3, "s"))


def test_a_cancelled_load_that_passes_is_not_waited_for() -> None:
    """The agent answers it, or never."""
    talk = loading_twice()
    talk.agent.say(*TURN_ONE, permission(0, "s"))
    assert talk.client.say(cancel(1)).to_agent == line(cancel(1), load(2, "s"))


def test_both_loads_are_cancelled() -> None:
    talk = loading_twice()
    step = talk.client.say(cancel(2), cancel(1))
    assert step.refusals == [(2, -32800), (1, -32800)]
    assert step.to_agent == line(cancel(1))
    assert talk.agent.say(*REPLAY, error(1, -32800)).to_client == b""
    assert not talk.core.waiting_messages


@pytest.mark.parametrize("end", [CLOSE, delete(9, "s")], ids=["close", "delete"])
def test_a_close_or_a_delete_does_not_wait_for_the_agent(end: Said) -> None:
    talk = loading_twice(prompt(3, "s"))
    step = talk.client.say(end)
    assert step.refusals == [(2, -32800), (3, -32800)]
    assert step.to_agent == (line(CLOSE) if end is CLOSE else b"")
    assert not talk.core.waiting_messages
    talk.agent.say(*([result(9, {})] if end is CLOSE else []), *REPLAY, result(1, {}))
    talk.end_past(1)
    assert sorted(map(str, list_answered(talk))) == ["1", "2", "3", "9"]


@pytest.mark.parametrize("before", [lambda talk: None, answer_first], ids=["the first", "the second"])
def test_when_the_agent_ends_each_request_is_answered_once(before: Callable[[CoreConversation], object]) -> None:
    talk = loading_twice(prompt(3, "s"), load(4, "s"), prompt(5, "s"))
    before(talk)
    talk.end_agent()
    assert sorted(map(str, list_answered(talk))) == ["1", "2", "3", "4", "5"]
    assert not talk.core.waiting_messages


def test_when_the_agent_ends_a_waiting_load_that_is_looked_up_is_answered_once() -> None:
    talk = loading_twice(prompt(3, "s"))
    talk.stored["s"] = SimulatedSession(says=PAST, slow=True)
    answer_first(talk)
    assert sorted(talk.end_agent().refusals) == [(2, -32603), (3, -32603)]
    assert talk.finish_lookup(2).to_client == b""


def test_too_many_requests_are_refused_and_what_waits_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting_messages, "WAITING_LIMIT", 3 * 1024)
    talk = loading_twice(prompt(3, "s"))
    assert talk.client.say(prompt(4, "s")).refusals == [(4, -32603)]
    assert answer_first(talk) == line(load(2, "s"), prompt(3, "s"))
    assert talk.client.say(prompt(5, "s")).to_agent == line(prompt(5, "s"))


def test_room_is_there_again_when_what_waited_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting_messages, "WAITING_LIMIT", 3 * 1024)
    talk = loading_twice(prompt(3, "s"))
    talk.client.say(cancel(3), prompt(4, "s"))
    assert answer_first(talk) == line(load(2, "s"), prompt(4, "s"))
    talk.client.say(load(5, "s"), prompt(6, "s"))
    assert list_answered(talk) == [3, 1]


def test_a_prompt_is_not_sent_again_while_the_client_loads_the_session() -> None:
    """That load opens the session anew, if the agent does not know it."""
    talk = about_to_load(SimulatedSession(says=PAST), LOADS)
    talk.client.say(load(1, "s"))
    talk.agent.say(*REPLAY, result(1, {}))
    talk.end_past(1)
    talk.client.say(prompt(3, "s"), load(4, "s"))
    refusal = error(3, -32002, "Session not found")
    step = talk.agent.say(refusal)
    assert (step.to_client, step.to_agent) == (line(refusal), b"")


def test_a_load_waits_for_the_new_session_of_a_prompt_that_is_sent_again() -> None:
    talk = about_to_load(SimulatedSession(says=PAST), LOADS)
    talk.client.say(load(1, "s"))
    talk.agent.say(*REPLAY, result(1, {}))
    talk.end_past(1)
    talk.client.say(prompt(3, "s"))
    assert b"session/new" in talk.agent.say(error(3, -32002, "Session not found")).to_agent
    assert talk.client.say(load(4, "s"), prompt(5, "s")).done == []
    talk.agent.say(result("acp-proxy/1", {"sessionId": "n"}))
    sent = talk.end_past(3, handover_record="RECORD").to_agent.splitlines()
    assert [json.loads(each)["id"] for each in sent] == [3, 5], "the load is answered here: the session is in a turn"
    assert ONE not in talk.being_shown
    talk.end_past(4)
    assert 4 in list_answered(talk)


def test_nothing_is_decided_twice_for_one_session() -> None:
    talk = loading_twice(load(3, "s"))
    talk.agent.say(*REPLAY, result(1, {}))
    step = talk.end_past(1)
    step.add(talk.agent.say(GREETING))
    assert step.done.count(DecideWaiting("s")) == 2, "one for the second load, and one once the agent has that"
    assert step.to_agent == line(load(2, "s"))


CANCEL_TURN = notification("session/cancel", {"sessionId": "s"})
NOTE = notification("_x/note", {"sessionId": "s"})


def watch_sent(talk: CoreConversation) -> list[object]:
    """What the agent gets from here on, in this order: the ids of requests, the methods of notifications."""
    sent: list[object] = []
    follow = talk._next

    def note_and_follow(effect: RelayEffect, step: Step) -> list[RelayEffect]:
        if isinstance(effect, Forward) and effect.to is Peer.AGENT:
            sent.extend(message.get("id", message["method"]) for message in map(json.loads, effect.data.splitlines()))
        return follow(effect, step)

    talk._next = note_and_follow  # type: ignore[method-assign]
    return sent


def say_while_on_its_way(talk: CoreConversation, message: Said, *said: Said) -> None:
    """The client's thread says something once this message was decided on, before the agent gets it."""
    decide = talk._decide

    def decide_and_say(event: Event, step: Step) -> list[RelayEffect]:
        effects = decide(event, step)
        if event == LinesRead(Peer.CLIENT, [line(message)]):
            talk._decide = decide  # type: ignore[method-assign]
            talk.client.say(*said)
        return effects

    talk._decide = decide_and_say  # type: ignore[method-assign]


def test_a_cancel_of_a_turn_follows_the_prompt_that_is_on_its_way() -> None:
    talk = loading_twice(prompt(3, "s"), load(4, "s"), prompt(5, "s"))
    sent = watch_sent(talk)
    say_while_on_its_way(talk, prompt(3, "s"), CANCEL_TURN)
    answer_first(talk)
    assert sent == [2, "session/cancel", 3, "session/cancel"]
    talk.agent.say(prompt_answer(3), result(2, {}))
    talk.end_past(2)
    assert sent[4:] == [4, 5, "session/cancel"]


@pytest.mark.parametrize("next_one", [prompt(4, "s"), load(4, "s")])
def test_a_cancel_of_a_request_follows_the_prompt_that_is_on_its_way(next_one: Said) -> None:
    talk = loading_twice(prompt(3, "s"), next_one)
    sent = watch_sent(talk)
    say_while_on_its_way(talk, prompt(3, "s"), cancel(3))
    answer_first(talk)
    assert sent[:3] == [2, 3, "$/cancel_request"]


def test_a_cancel_follows_a_load_that_is_looked_up_after_a_comparison() -> None:
    talk = loading_twice()
    talk.stored["s"] = SimulatedSession(says=PAST, slow=True)
    talk.agent.say(*TURN_ONE, permission(0, "s"))
    talk.client.say(result(0, {}))
    talk.agent.say(*TURN_TWO, result(1, {}))
    assert talk.client.say(cancel(2)).done == []
    assert talk.finish_lookup(2, SimulatedSession(says=PAST)).to_agent == line(load(2, "s"), cancel(2))


@pytest.mark.parametrize(
    ("cancels", "expected"),
    [
        ([CANCEL_TURN, CANCEL_TURN], ["session/cancel", "session/cancel", 2, 3, "session/cancel"]),
        ([cancel(3), CANCEL_TURN], ["session/cancel", 2]),
    ],
    ids=["twice", "of a prompt that was cancelled"],
)
def test_a_cancel_of_a_turn_waits_once_for_the_prompts_that_wait(cancels: list[Said], expected: list[object]) -> None:
    talk = loading_twice(prompt(3, "s"))
    sent = watch_sent(talk)
    talk.client.say(*cancels)
    answer_first(talk)
    assert sent == expected


def test_a_cancel_of_a_turn_goes_once_where_no_prompt_waits() -> None:
    talk = loading_twice(request(3, "session/set_mode", {"sessionId": "s"}))
    sent = watch_sent(talk)
    talk.client.say(CANCEL_TURN)
    answer_first(talk)
    assert sent == ["session/cancel", 2, 3]


def test_a_notification_keeps_its_place() -> None:
    talk = loading_twice(prompt(3, "s"), NOTE, prompt(4, "s"))
    sent = watch_sent(talk)
    talk.client.say(NOTE, notification("_x/note", {"sessionId": "t"}), notification("_x/all"))
    answer_first(talk)
    assert sent == ["_x/note", "_x/all", 2, 3, "_x/note", 4, "_x/note"]
    talk.client.say(NOTE)
    assert not talk.core.waiting_messages


def test_a_notification_is_not_lost_when_the_session_is_closed() -> None:
    talk = loading_twice(prompt(3, "s"), NOTE)
    assert talk.client.say(CLOSE).to_agent == line(NOTE, CLOSE)


def test_beyond_the_limit_a_notification_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting_messages, "WAITING_LIMIT", 3 * 1024)
    talk = loading_twice(prompt(3, "s"))
    assert talk.client.say(NOTE).to_agent == line(NOTE)


def test_each_cancel_of_what_is_on_its_way_waits_once() -> None:
    talk = loading_twice()
    talk.stored["s"] = SimulatedSession(says=PAST, slow=True)
    answer_first(talk)
    talk.client.say(*[cancel(2)] * 3)
    assert talk.finish_lookup(2, SimulatedSession(says=PAST)).to_agent == line(load(2, "s"), cancel(2))


def test_an_id_that_waits_already_is_refused() -> None:
    talk = loading_twice(prompt(3, "s"))
    sent = watch_sent(talk)
    assert talk.client.say(prompt(3, "s")).refusals == [(3, -32600)]
    answer_first(talk)
    assert sent == [2, 3]


MADE_ELSEWHERE: list[Said] = [chunk("s", "and go on", "user_message_chunk"), chunk("s", "I went on elsewhere.")]


def loading_again_in_the_middle(*, is_late: bool = False) -> CoreConversation:
    """The replay of the first load stopped after a turn that the transcript lacks, and before one that it has; then the
    client loaded the session once more. ``is_late``: the replay came after the agent's answer."""
    talk = about_to_load(SimulatedSession(says=PAST), LOADS)
    talk.client.say(load(1, "s"))
    replay = [*TURN_ONE, *MADE_ELSEWHERE]
    talk.agent.say(*([] if is_late else replay), result(1, {}))
    talk.end_past(1)
    talk.agent.say(*(replay if is_late else []))
    assert talk.client.say(load(2, "s")).to_agent == line(load(2, "s"))
    return talk


def list_recorded(talk: CoreConversation) -> list[bytes]:
    """The lines of the turn made elsewhere that are recorded."""
    return [
        one for one in map(line, MADE_ELSEWHERE) if one[:-1] in [getattr(each, "raw", b"") for each in talk.all.kept]
    ]


def refuse_second(talk: CoreConversation) -> None:
    talk.agent.say(error(2, -32603))


def cancel_second(talk: CoreConversation) -> None:
    talk.client.say(cancel(2))
    talk.agent.say(error(2, -32800))


def open_without_replay(talk: CoreConversation) -> None:
    talk.agent.say(result(2, {}))
    talk.end_past(2)


@pytest.mark.parametrize("end_second", [refuse_second, cancel_second, open_without_replay])
@pytest.mark.parametrize("ends", ["prompt", "agent"])
def test_a_turn_made_elsewhere_is_recorded_if_the_next_load_brings_no_replay(
    end_second: Callable[[CoreConversation], None], ends: str
) -> None:
    talk = loading_again_in_the_middle()
    end_second(talk)
    if ends == "prompt":
        talk.client.say(prompt(3, "s"))
    else:
        talk.end_agent()
    assert list_recorded(talk) == [*map(line, MADE_ELSEWHERE)]


def test_a_turn_made_elsewhere_that_came_late_is_recorded_if_the_next_load_brings_nothing() -> None:
    talk = loading_again_in_the_middle(is_late=True)
    open_without_replay(talk)
    talk.end_agent()
    assert list_recorded(talk) == [*map(line, MADE_ELSEWHERE)]


WHOLE: list[Said] = [*TURN_ONE, *MADE_ELSEWHERE, *TURN_TWO]


def test_nothing_of_a_replay_cut_in_the_middle_is_recorded_if_the_next_one_is_whole() -> None:
    talk = loading_again_in_the_middle()
    talk.agent.say(*WHOLE, result(2, {}))
    talk.end_past(2)
    talk.client.say(prompt(3, "s"))
    assert list_recorded(talk) == []


def count_recorded(talk: CoreConversation) -> list[int]:
    recorded = [getattr(each, "raw", b"") for each in talk.all.kept]
    return [recorded.count(line(each)[:-1]) for each in MADE_ELSEWHERE]


def test_a_turn_made_elsewhere_is_recorded_once_at_most_however_often_the_session_is_loaded() -> None:
    talk = loading_again_in_the_middle()
    for id in range(2, 6):
        talk.agent.say(*TURN_ONE, *MADE_ELSEWHERE, result(id, {}))
        talk.end_past(id)
        talk.client.say(load(id + 1, "s"))
    talk.agent.say(*TURN_ONE, *MADE_ELSEWHERE, result(6, {}))
    talk.end_past(6)
    talk.client.say(prompt(7, "s"))
    assert count_recorded(talk) == [1, 1]


@pytest.mark.parametrize("settling", [prompt(3, "s"), CLOSE])
def test_a_turn_made_elsewhere_is_recorded_once_if_it_is_settled_while_the_next_load_is_open(settling: Said) -> None:
    talk = loading_again_in_the_middle()
    talk.client.say(settling)
    talk.agent.say(result(2, {}))
    talk.end_past(2)
    talk.client.say(prompt(4, "s"))
    assert count_recorded(talk) == [1, 1]


def test_a_turn_that_another_window_has_recorded_meanwhile_is_not_recorded_again() -> None:
    talk = loading_again_in_the_middle()
    refuse_second(talk)
    talk.stored["s"] = SimulatedSession(says=(*PAST, *MADE_ELSEWHERE))
    talk.client.say(prompt(3, "s"))
    assert list_recorded(talk) == []
