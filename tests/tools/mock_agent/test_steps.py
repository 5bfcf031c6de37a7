"""A recorded turn as steps with delays, which end once."""

from hypothesis import given
from hypothesis import strategies as st

from acp_proxy.protocol import acp
from acp_proxy.protocol.jsonrpc import Peer
from acp_proxy.tools.mock_agent.steps import NO_END, Answer, Ask, Await, Keep, RecordedTurn, Send, Step, cut_into_turns
from acp_proxy.transcript.file_format import Entry
from tests.conversation import error
from tests.store import transcript_lines
from tests.strategies import any_entries
from tests.tools.mock_agent.recording import SELECTED, call_line, entries, permission_answer, permission_request
from tests.transcript import test_v2_entries as v2


def turns(*lines: bytes) -> list[RecordedTurn]:
    return cut_into_turns(transcript_lines.SESSION, entries(lines))


def shape(turn: RecordedTurn) -> list[tuple[type[Step], float | None]]:
    return [(type(step), getattr(step, "wait", None)) for step in turn.steps]


def test_a_turn_has_the_steps_after_its_prompt_with_their_delays() -> None:
    [turn] = turns(
        transcript_lines.agent_chunk("before any prompt"),
        transcript_lines.prompt_line("Fix it", at=10),
        transcript_lines.agent_chunk("Look", at=12),
        transcript_lines.agent_chunk("ing", at=12),
        transcript_lines.answer(at=15),
    )
    assert shape(turn) == [(Send, 2), (Send, 0), (Answer, 3)]
    assert turn.prompt == [{"type": "text", "text": "Fix it"}]
    assert (turn.session_id, turn.at) == (transcript_lines.SESSION, transcript_lines.time(10))


def test_the_users_time_for_a_permission_is_not_a_delay() -> None:
    [turn] = turns(
        transcript_lines.prompt_line("go", at=0),
        call_line("pending", at=1),
        permission_request(at=2),
        permission_answer(at=1000),
        call_line("completed", at=1003),
        transcript_lines.answer(at=1003),
    )
    assert shape(turn) == [(Send, 1), (Ask, 1), (Await, None), (Send, 3), (Answer, 0)]
    ask, awaited = turn.steps[1], turn.steps[2]
    assert isinstance(ask, Ask)
    assert isinstance(awaited, Await)
    assert (ask.call, ask.kinds) == ("t", {"yes": "allow_once", "always": "allow_always", "no": "reject_once"})
    assert (awaited.number, awaited.result) == (ask.number, SELECTED)


def test_simultaneous_permissions_are_awaited_where_they_were_answered() -> None:
    [turn] = turns(
        transcript_lines.prompt_line("go"),
        permission_request("a", id=7),
        permission_request("b", id="7"),
        permission_answer(id="7"),
        permission_answer(id=7),
        transcript_lines.answer(),
    )
    numbers = [step.number for step in turn.steps if isinstance(step, Ask | Await)]
    assert numbers == [0, 1, 1, 0]


def test_an_unanswered_permission_is_awaited_where_it_was_requested() -> None:
    [turn] = turns(
        transcript_lines.prompt_line("go"),
        permission_request(),
        transcript_lines.agent_chunk("on"),
        transcript_lines.answer(),
    )
    assert [type(step) for step in turn.steps] == [Ask, Await, Send, Answer]


def test_late_updates_follow_the_answer() -> None:
    first, second = turns(
        transcript_lines.prompt_line("one"),
        transcript_lines.answer(),
        transcript_lines.info(title="T"),
        transcript_lines.prompt_line("two"),
        transcript_lines.answer(),
    )
    assert [type(step) for step in first.steps] == [Answer, Send]
    assert [type(step) for step in second.steps] == [Answer]


def test_a_late_answer_ends_its_own_turn() -> None:
    other = {"id": 2, "method": acp.PROMPT, "params": {"sessionId": transcript_lines.SESSION, "prompt": []}}
    first, second = turns(
        transcript_lines.prompt_line("one"),
        transcript_lines.message(other, Peer.CLIENT),
        transcript_lines.answer(),
        transcript_lines.agent_chunk("more"),
    )
    assert [step.entry is None for step in first.steps if isinstance(step, Answer)] == [False]
    assert [step.entry is None for step in second.steps if isinstance(step, Answer)] == [True]


def test_a_turn_without_a_recorded_end_ends_with_an_error() -> None:
    [crashed] = turns(
        transcript_lines.prompt_line("go"),
        transcript_lines.agent_chunk("Look"),
        transcript_lines.note("failed", message="agent exited with status 17"),
    )
    [cut_off] = turns(transcript_lines.prompt_line("go"), transcript_lines.agent_chunk("Look"))
    ends = [step for turn in (crashed, cut_off) for step in turn.steps if isinstance(step, Answer)]
    assert [end.entry for end in ends] == [None, None]
    assert [end.problem for end in ends] == ["agent exited with status 17", NO_END]


def test_terminal_notes_are_kept_and_messages_of_the_client_are_not_played() -> None:
    cancel = transcript_lines.message(
        {"method": acp.CANCEL, "params": {"sessionId": transcript_lines.SESSION}}, Peer.CLIENT, at=5
    )
    [turn] = turns(
        transcript_lines.prompt_line("go"),
        transcript_lines.note("terminal", terminalId="1", output="x"),
        cancel,
        transcript_lines.answer(at=6),
    )
    assert shape(turn) == [(Keep, None), (Answer, 1)]


def test_of_version_2_all_is_played_but_what_begins_and_follows_every_turn() -> None:
    steered = v2.whole_message("And B", id="m2", kind="user_message")
    [turn] = cut_into_turns(
        "s",
        [
            v2.prompt_entry(1),
            v2.state("running"),
            v2.whole_message("hello", id="u1", kind="user_message"),
            v2.accept_prompt(1),
            v2.chunk_entry("Look"),
            v2.state("requires_action"),
            v2.state("running"),
            steered,
            v2.state("idle", stopReason="end_turn"),
            v2.state("running"),
            v2.chunk_entry("late"),
            v2.state("idle"),
        ],
    )
    played = [acp.member(step.entry.value, "params") for step in turn.steps if isinstance(step, Send)]
    updates = [acp.member(params, "update") for params in played]
    assert [acp.text(update, "state") or acp.text(update, "messageId") for update in updates] == [
        "a",
        "requires_action",
        "running",
        "m2",
        "a",
    ]
    assert turn.refusal is None


def test_a_prompt_that_was_refused_in_version_2_has_its_refusal() -> None:
    refusal = v2.entry(error(1, -32603, "no"), of=acp.PROMPT)
    [turn] = cut_into_turns("s", [v2.prompt_entry(1), refusal])
    assert turn.steps == (turn.refusal,)
    assert turn.refusal is not None
    assert turn.refusal.entry == refusal
    [as_v1] = turns(transcript_lines.prompt_line("go"), transcript_lines.answer(error={"code": 1}))
    assert as_v1.refusal is None


@given(st.lists(any_entries, max_size=12))
def test_every_turn_of_any_transcript_ends_once(found: list[Entry | None]) -> None:
    for turn in cut_into_turns("s", [entry for entry in found if entry is not None]):
        assert sum(isinstance(step, Answer) for step in turn.steps) == 1
        asks = {step.number for step in turn.steps if isinstance(step, Ask)}
        assert asks == {step.number for step in turn.steps if isinstance(step, Await)}
