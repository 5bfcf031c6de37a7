"""Floods from either side take limited memory and do not disturb honest messages."""

import pytest

from acp_proxy.comparison.tail import TAIL_LIMIT
from acp_proxy.decisions import aliases, session_states, terminal_notes
from acp_proxy.decisions.aliases import Aliases
from acp_proxy.decisions.capabilities import AGENT, Modes
from acp_proxy.decisions.effects import (
    BeginTranscript,
    BeginTurn,
    ChooseAndShowPast,
    CloseTranscript,
    CompareUnsettled,
    ForgetSession,
    RecordMessage,
    RecordNote,
)
from acp_proxy.decisions.handover.handovers import HANDOVER_LIMIT as HANDOVERS
from acp_proxy.decisions.load import current_loads, load_limits
from acp_proxy.decisions.load.current_loads import HOLDING_LOADS_LIMIT
from acp_proxy.decisions.load.load_limits import HELD_BYTES_LIMIT
from acp_proxy.protocol.jsonrpc import read_message
from acp_proxy.transcript import file_format
from tests.conversation import (
    LOADS,
    RESUMES,
    CoreConversation,
    SimulatedSession,
    agent_kept,
    cancel,
    chunk,
    commands,
    error,
    line,
    load,
    make_request_id,
    prompt,
    prompt_answer,
    request,
    result,
    update,
)

LONG = 1024 * 1024
"""Characters of an id: a few ids of this length exceed a limit."""


@pytest.fixture
def few_strangers(monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(session_states, "UNOPENED_LIMIT", 3)
    return 3


def ids(count: int) -> list[str]:
    return [f"{number:04}" + "x" * LONG for number in range(count)]


def count_held_bytes(talk: CoreConversation) -> int:
    """Bytes of ids that the core remembers."""
    return sum(map(len, talk.core._session_tracker.sessions))


def test_only_so_many_unopened_sessions_are_recorded_and_the_user_is_warned_once(few_strangers: int) -> None:
    talk = CoreConversation().initialize().open("s")
    for number in range(5):
        step = talk.agent.say(chunk(f"unknown {number}", "a"))
        assert step.to_client == line(chunk(f"unknown {number}", "a"))
        assert bool(step.kept) is (number < few_strangers)
        assert len(step.warnings) == (number == few_strangers)
    assert talk.agent.say(chunk("unknown 0", "b")).kept == [agent_kept("unknown 0", chunk("unknown 0", "b"))]
    assert talk.agent.say(chunk("s", "b")).kept


def test_a_session_beyond_the_limit_is_recorded_once_it_is_prompted(few_strangers: int) -> None:
    talk = CoreConversation().initialize()
    talk.agent.say(*(chunk(f"unknown {number}", "a") for number in range(few_strangers + 1)))
    late = f"unknown {few_strangers}"
    step = talk.client.say(prompt(1, late))
    assert step.kept[:2] == [BeginTranscript(late, None, [], file_format.PARTIAL), BeginTurn(late)]
    assert talk.agent.say(chunk(late, "b")).kept == [agent_kept(late, chunk(late, "b"))]


def test_sessions_that_waited_for_the_answer_to_new_count_towards_the_limit(few_strangers: int) -> None:
    talk = CoreConversation().initialize()
    talk.client.say(request(1, "session/new", {"cwd": "/w"}))
    talk.agent.say(*(chunk(f"unknown {number}", "a") for number in range(few_strangers + 2)))
    step = talk.agent.say(result(1, {"sessionId": "s"}))
    assert [effect.session_id for effect in step.kept if isinstance(effect, BeginTranscript)] == [
        "s", *(f"unknown {number}" for number in range(few_strangers)),
    ]  # fmt: skip


def test_the_least_recently_used_session_is_forgotten_and_begun_again_by_an_update() -> None:
    talk = CoreConversation().initialize()
    many = ids(20)
    talk.open(*many)
    forgotten = [effect.session_id for effect in talk.all.kept if isinstance(effect, ForgetSession)]
    assert forgotten == many[: len(forgotten)]
    assert 0 < len(forgotten) < len(many)
    assert count_held_bytes(talk) <= session_states.REMEMBERED_LIMIT
    step = talk.agent.say(chunk(many[0], "late"))
    assert BeginTranscript(many[0], None, [], file_format.PARTIAL) in step.kept
    assert step.kept[-1] == agent_kept(many[0], chunk(many[0], "late"))


def test_a_session_in_a_turn_is_not_forgotten() -> None:
    talk = CoreConversation().initialize().open("s")
    talk.client.say(prompt(1, "s"))
    talk.open(*ids(40))
    assert ForgetSession("s") not in talk.all.kept
    assert talk.agent.say(chunk("s", "still here")).kept == [agent_kept("s", chunk("s", "still here"))]
    assert talk.agent.say(prompt_answer(1)).kept


def test_beyond_the_limit_even_sessions_in_turns_are_forgotten() -> None:
    talk = CoreConversation().initialize()
    for number, session in enumerate(ids(40)):
        talk.client.say(prompt(number, session))
    assert count_held_bytes(talk) <= session_states.REMEMBERED_LIMIT


def test_opening_a_session_repeatedly_takes_the_memory_of_one() -> None:
    talk = CoreConversation().initialize().open("s")
    for number in range(20):
        talk.client.say(request(number, "session/new", {"cwd": "/" + "x" * LONG}))
        talk.agent.say(result(number, {"sessionId": "t"}))
    assert ForgetSession("s") not in talk.all.kept


def test_deleted_ids_count_towards_the_limit() -> None:
    talk = CoreConversation().initialize()
    for number, session in enumerate(ids(40)):
        talk.client.say(request(number, "session/delete", {"sessionId": session}))
    assert count_held_bytes(talk) <= session_states.REMEMBERED_LIMIT


def test_terminal_outputs_beyond_the_limit_are_not_kept() -> None:
    talk = CoreConversation().initialize().open("s")
    talk.client.say(prompt(1, "s"))
    for number in range(6):
        terminal = {"sessionId": "s", "terminalId": f"t{number}"}
        output = {"output": str(number) * (terminal_notes.OUTPUT_LIMIT // 4), "truncated": False}
        talk.agent.say(request("a", "terminal/create", {"sessionId": "s"}))
        talk.client.say(result("a", {"terminalId": f"t{number}"}))
        talk.agent.say(update("s", "tool_call", toolCallId="c", content=[{"type": "terminal", **terminal}]))
        talk.agent.say(request("b", "terminal/output", terminal))
        talk.client.say(result("b", output))
    talk.agent.say(prompt_answer(1))
    notes = [effect.note for effect in talk.all.kept if isinstance(effect, RecordNote) and "terminalId" in effect.note]
    outputs = {note["terminalId"]: note["output"] for note in notes}
    assert [output is not None for output in outputs.values()] == [True, True, True, False, False, False]
    talk.client.say(prompt(2, "s"))
    talk.agent.say(request("a", "terminal/create", {"sessionId": "s"}))
    talk.client.say(result("a", {"terminalId": "t"}))
    shown = {"type": "terminal", "terminalId": "t"}
    talk.agent.say(update("s", "tool_call", toolCallId="c", content=[shown]))
    talk.agent.say(request("b", "terminal/output", {"sessionId": "s", "terminalId": "t"}))
    [note] = talk.client.say(result("b", {"output": "x" * (terminal_notes.OUTPUT_LIMIT // 4)})).kept
    assert isinstance(note, RecordNote)
    assert note.note["output"] is not None, "output that was noted no longer counts"


def test_what_may_wait_for_a_decision_may_be_shown_after_it() -> None:
    assert TAIL_LIMIT == HELD_BYTES_LIMIT


def test_too_much_that_is_new_in_loads_is_recorded_at_once_for_the_largest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(current_loads, "ALL_TAILS_LIMIT", 7 * LONG // 2)
    talk = CoreConversation().initialize(LOADS)
    for number, (session, size) in enumerate({"a": 0, "b": LONG, "c": 2 * LONG, "d": LONG}.items(), start=1):
        talk.stored[session] = SimulatedSession(
            says=(prompt(90, session, "mend it"), chunk(session, "It is mended now."))
        )
        elsewhere = [chunk(session, "and that", "user_message_chunk"), chunk(session, "x" * size)] if size else []
        talk.client.say(load(number, session))
        talk.agent.say(chunk(session, "mend it", "user_message_chunk"), chunk(session, "It is mended now."), *elsewhere)
        talk.agent.say(result(number, {}))
        talk.end_past(number)
    recorded = [record for record in talk.all.kept if isinstance(record, RecordMessage)]
    assert recorded == [
        agent_kept("c", said) for said in (chunk("c", "and that", "user_message_chunk"), chunk("c", "x" * 2 * LONG))
    ]


def test_what_is_new_in_sessions_with_a_prompt_takes_no_room_from_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(current_loads, "ALL_TAILS_LIMIT", 7 * LONG // 2)
    talk = CoreConversation().initialize(LOADS)
    for number, session in enumerate("abcde", start=1):
        talk.stored[session] = SimulatedSession(
            says=(prompt(90, session, "mend it"), chunk(session, "It is mended now."))
        )
        elsewhere = [chunk(session, "and that", "user_message_chunk"), chunk(session, "x" * LONG)]
        talk.client.say(load(number, session))
        talk.agent.say(chunk(session, "mend it", "user_message_chunk"), chunk(session, "It is mended now."), *elsewhere)
        talk.agent.say(result(number, {}))
        talk.end_past(number)
        if session != "a":
            talk.client.say(prompt(100 + number, session, "go on"))
    recorded = {record.session_id for record in talk.all.kept if isinstance(record, RecordMessage)}
    assert recorded == {"b", "c", "d", "e"}


def test_too_many_loads_at_once_are_refused_until_one_ends() -> None:
    talk = CoreConversation().initialize(RESUMES)
    for number in range(HOLDING_LOADS_LIMIT + 1):
        talk.stored[f"s{number}"] = SimulatedSession()
        step = talk.client.say(load(number, f"s{number}"))
    assert (step.to_agent, step.refusals) == (b"", [(HOLDING_LOADS_LIMIT, -32603)])
    assert len(talk.open_transcripts) == HOLDING_LOADS_LIMIT, "no more transcripts are open than that"
    talk.agent.say(error(0, -32603))
    assert talk.client.say(load("again", f"s{HOLDING_LOADS_LIMIT}")).to_agent


def test_too_many_native_loads_at_once_pass_unchanged() -> None:
    talk = CoreConversation().initialize(LOADS)
    for number in range(HOLDING_LOADS_LIMIT + 1):
        talk.stored[f"s{number}"] = SimulatedSession()
        step = talk.client.say(load(number, f"s{number}"))
    assert step.to_agent == line(load(HOLDING_LOADS_LIMIT, f"s{HOLDING_LOADS_LIMIT}"))
    assert len(talk.open_transcripts) == HOLDING_LOADS_LIMIT
    told = chunk(f"s{HOLDING_LOADS_LIMIT}", "the past")
    assert talk.agent.say(told).to_client == line(told)
    assert talk.agent.say(result(HOLDING_LOADS_LIMIT, {})).to_client == line(result(HOLDING_LOADS_LIMIT, {}))


@pytest.mark.parametrize("cancels", [True, False])
def test_loads_that_only_pass_and_are_never_answered_do_not_count(cancels: bool) -> None:
    talk = CoreConversation().initialize(LOADS)
    for number in range(HOLDING_LOADS_LIMIT + 1):
        talk.client.say(load(number, f"unknown-{number}"))
        if cancels:
            talk.client.say(cancel(number))
    talk.stored["s"] = SimulatedSession()
    talk.client.say(load("last", "s"))
    assert any(isinstance(effect, ChooseAndShowPast) for effect in talk.agent.say(result("last", {})).done)


def test_a_cancelled_load_closes_its_transcript() -> None:
    talk = CoreConversation().initialize(RESUMES)
    talk.stored["s"] = SimulatedSession()
    talk.client.say(load(1, "s"))
    assert CloseTranscript(make_request_id(1)) in talk.client.say(cancel(1)).done
    assert talk.open_transcripts == []
    assert talk.agent.say(result(1, {})).to_client == b""


def test_too_many_handovers_are_refused() -> None:
    talk = CoreConversation().initialize()
    talk.stored["s"] = SimulatedSession()
    for number in range(HANDOVERS):
        talk.client.say(load(number, "s"))
        talk.agent.say(error(f"acp-proxy/{number + 1}", -32603))
    step = talk.client.say(load("one more", "s"))
    assert (step.to_agent, step.refusals) == (b"", [("one more", -32603)])
    assert talk.open_transcripts == []


def test_state_updates_held_for_a_cancelled_load_are_limited() -> None:
    talk = CoreConversation().initialize(RESUMES)
    talk.stored["s"] = SimulatedSession()
    talk.client.say(load(1, "s"))
    talk.client.say(cancel(1))
    big = line(commands("s", "x")).replace(b"x", b"x" * (HELD_BYTES_LIMIT // 4), 1)
    for _ in range(8):
        talk.agent.say(big)
    assert (
        sum(len(effect.raw) for effect in talk.agent.say(result(1, {})).kept if isinstance(effect, RecordMessage))
        <= HELD_BYTES_LIMIT
    )


def test_all_loads_together_hold_a_limited_amount(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load_limits, "ALL_HELD_LIMIT", 2 * HELD_BYTES_LIMIT)
    talk = CoreConversation().initialize(LOADS)
    big = b"x" * (HELD_BYTES_LIMIT - LONG)
    said = []
    for number in range(4):
        session = f"s{number}"
        talk.stored[session] = SimulatedSession()
        talk.client.say(load(number, session))
        said.append(talk.agent.say(line(update(session, "plan", x="?")).replace(b"?", big)).to_client)
    assert [bool(told) for told in said] == [False, False, True, True]


def test_the_oldest_aliases_are_forgotten() -> None:
    names = Aliases()
    many = ids(40)
    for id in many:
        names.add(f"client {id}", f"agent {id}")
    said = line(chunk(f"client {many[-1]}", "a"))
    assert names.rewrite_for_agent(said, read_message(said)) == line(chunk(f"agent {many[-1]}", "a"))
    old = line(chunk(f"client {many[0]}", "a"))
    assert names.rewrite_for_agent(old, read_message(old)) == old
    assert sum(map(len, names._kept_ids)) <= aliases.LIMIT


def test_a_replay_survives_answers_that_nobody_asked_for() -> None:
    talk = CoreConversation().initialize(RESUMES)
    talk.stored["s"] = SimulatedSession()
    talk.client.say(load(1, "s"))
    for id in ("acp-proxy/1", "1", 1.0, True, None, [1], {"id": 1}):
        assert talk.agent.say(result(id, {"sessionId": "s"})).to_client == line(result(id, {"sessionId": "s"}))
    assert ChooseAndShowPast(make_request_id(1)) in talk.agent.say(result(1, {})).done


def test_forks_too_are_kept_as_answered_only_up_to_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(current_loads, "OPENED_LOADS_LIMIT", 2)
    talk = CoreConversation().initialize(RESUMES | {"sessionCapabilities": {"fork": {}}}).open("s")
    for number in range(4):
        talk.client.say(request(number, "session/fork", {"sessionId": "s", "cwd": "/w"}))
        talk.agent.say(result(number, {"sessionId": f"fork {number}"}))
    assert len(talk.core._load_machine.loads.list_opened()) == 2


def test_the_agents_end_compares_each_answered_load_once() -> None:
    talk = CoreConversation(modes=Modes(load=AGENT)).initialize(LOADS)
    for number in range(8):
        session = f"s{number}"
        talk.stored[session] = SimulatedSession()
        talk.client.say(load(number, session))
        talk.agent.say(result(number, {}))
        talk.agent.say(chunk(session, "mend it", "user_message_chunk"), chunk(session, "It is mended."))
    compared = [effect.session_id for effect in talk.end_agent().asked if isinstance(effect, CompareUnsettled)]
    assert sorted(compared) == [f"s{number}" for number in range(8)]
