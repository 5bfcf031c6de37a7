"""How a request to open a session is served: the table, row by row."""

import pytest
from msgspec.structs import replace

from acp_proxy.comparison.whose_past import PastRule
from acp_proxy.decisions.capabilities import LOAD, RESUME, HandoverMode, Mode, Modes
from acp_proxy.decisions.events import SessionLookedUp
from acp_proxy.decisions.load.load_plan import LoadPlan, Refusal, plan_load
from acp_proxy.protocol import acp
from tests.conversation import AS_USUAL, make_request_id

ONE = make_request_id(1)
COMPLETE = SessionLookedUp(ONE, has_transcript=True, is_complete=True)
LOSSY = SessionLookedUp(ONE, has_transcript=True)
UNKNOWN = SessionLookedUp(ONE)
UNREADABLE = SessionLookedUp(ONE, errno_name="EIO")
NOTHING: tuple[str, ...] = ()
LOADS, RESUMES, BOTH = (LOAD,), (RESUME,), (LOAD, RESUME)
EVERY_OFFER = [NOTHING, LOADS, RESUMES, BOTH]

NEW = LoadPlan(acp.NEW, rule=PastRule.HANDED_OVER, handover_mode="always")
COMPARED, HISTORY = LoadPlan(acp.LOAD, handover_mode="auto"), LoadPlan(acp.RESUME, handover_mode="auto")
PASSED, IMPORTED = (
    LoadPlan(acp.LOAD, rule=PastRule.PASSES),
    LoadPlan(acp.LOAD, rule=PastRule.PASSES, may_import=True),
)
OURS = LoadPlan(acp.LOAD, rule=PastRule.BY_OPTION, handover_mode="auto")


def make_plan(
    served_by_agent: tuple[str, ...],
    found: SessionLookedUp,
    modes: Modes = AS_USUAL,
    method: str = acp.LOAD,
    *,
    is_in_turn: bool = False,
) -> LoadPlan | Refusal | None:
    return plan_load(method, found, frozenset(served_by_agent), modes, is_in_turn=is_in_turn)


@pytest.mark.parametrize(
    ("served_by_agent", "found", "expected"),
    [
        (LOADS, COMPLETE, COMPARED),
        (BOTH, COMPLETE, COMPARED),
        (LOADS, LOSSY, COMPARED),
        (LOADS, UNKNOWN, IMPORTED),
        (BOTH, UNKNOWN, IMPORTED),
        (LOADS, UNREADABLE, PASSED),
        (RESUMES, COMPLETE, HISTORY),
        (RESUMES, LOSSY, HISTORY),
        (RESUMES, UNKNOWN, LoadPlan(acp.RESUME)),
        (NOTHING, COMPLETE, NEW),
        (NOTHING, LOSSY, NEW),
        (NOTHING, UNKNOWN, Refusal.NOT_FOUND),
    ],
)
def test_by_default_the_agents_replay_is_compared_or_the_session_is_handed_over(
    served_by_agent: tuple[str, ...], found: SessionLookedUp, expected: LoadPlan | Refusal
) -> None:
    assert make_plan(served_by_agent, found) == expected


@pytest.mark.parametrize("handover", ["auto", "always", "never"])
@pytest.mark.parametrize("found", [COMPLETE, LOSSY, replace(COMPLETE, agent_lacks_past=True), UNKNOWN, UNREADABLE])
@pytest.mark.parametrize("served_by_agent", EVERY_OFFER)
def test_a_load_left_to_the_agent_passes(
    served_by_agent: tuple[str, ...], found: SessionLookedUp, handover: HandoverMode
) -> None:
    assert make_plan(served_by_agent, found, Modes(load="agent", handover=handover)) == PASSED


@pytest.mark.parametrize(
    ("served_by_agent", "found", "expected"),
    [
        (LOADS, COMPLETE, OURS),
        (BOTH, COMPLETE, replace(OURS, agent_method=acp.RESUME)),
        (LOADS, LOSSY, COMPARED),
        (BOTH, LOSSY, COMPARED),
        (LOADS, UNKNOWN, IMPORTED),
        (LOADS, UNREADABLE, PASSED),
        (RESUMES, COMPLETE, HISTORY),
        (RESUMES, LOSSY, HISTORY),
        (NOTHING, COMPLETE, NEW),
        (NOTHING, UNKNOWN, Refusal.NOT_FOUND),
    ],
)
def test_a_complete_transcript_is_shown_on_request(
    served_by_agent: tuple[str, ...], found: SessionLookedUp, expected: LoadPlan | Refusal
) -> None:
    assert make_plan(served_by_agent, found, Modes(load="store")) == expected


@pytest.mark.parametrize("load", ["auto", "store"])
@pytest.mark.parametrize("found", [COMPLETE, LOSSY, UNKNOWN, UNREADABLE])
@pytest.mark.parametrize("served_by_agent", [LOADS, BOTH])
def test_during_a_turn_a_native_load_passes_and_begins_no_transcript(
    served_by_agent: tuple[str, ...], found: SessionLookedUp, load: Mode
) -> None:
    assert make_plan(served_by_agent, found, Modes(load=load), is_in_turn=True) == PASSED


@pytest.mark.parametrize("served_by_agent", EVERY_OFFER)
@pytest.mark.parametrize("found", [COMPLETE, LOSSY])
def test_during_a_turn_the_agent_is_not_asked_for_what_its_session_lacks(
    served_by_agent: tuple[str, ...], found: SessionLookedUp
) -> None:
    shown = LoadPlan(None, rule=PastRule.HANDED_OVER)
    assert make_plan(served_by_agent, replace(found, agent_lacks_past=True), is_in_turn=True) == shown
    assert (
        make_plan(served_by_agent, replace(found, agent_lacks_past=True), Modes(load="agent"), is_in_turn=True)
        == PASSED
    )


@pytest.mark.parametrize("found", [COMPLETE, LOSSY])
def test_during_a_turn_no_new_session_is_opened_for_a_load_that_the_agent_does_not_offer(
    found: SessionLookedUp,
) -> None:
    assert make_plan(NOTHING, found, is_in_turn=True) == LoadPlan(None, rule=PastRule.IN_TURN)


@pytest.mark.parametrize("handover", ["auto", "always", "never"])
@pytest.mark.parametrize("served_by_agent", [LOADS, RESUMES, BOTH])
def test_the_handover_mode_applies_to_refused_loads_of_recorded_sessions(
    served_by_agent: tuple[str, ...], handover: HandoverMode
) -> None:
    for found, expected in ((COMPLETE, handover), (LOSSY, handover), (UNKNOWN, "never"), (UNREADABLE, "never")):
        plan = make_plan(served_by_agent, found, Modes(handover=handover))
        assert isinstance(plan, LoadPlan)
        assert plan.handover_mode == expected


def test_without_a_handover_there_is_no_plan_for_an_agent_that_cannot_restore() -> None:
    for found in (COMPLETE, LOSSY, UNKNOWN):
        assert make_plan(NOTHING, found, Modes(handover="never")) is None


@pytest.mark.parametrize("stored", [COMPLETE, LOSSY])
def test_the_transcript_is_shown_after_an_earlier_handover(stored: SessionLookedUp) -> None:
    moved = replace(stored, agent_lacks_past=True)
    assert make_plan(LOADS, moved) == replace(COMPARED, rule=PastRule.HANDED_OVER)
    assert make_plan(BOTH, moved) == replace(COMPARED, rule=PastRule.HANDED_OVER)
    assert make_plan(RESUMES, moved) == replace(HISTORY, rule=PastRule.HANDED_OVER)
    assert make_plan(NOTHING, moved) == NEW


@pytest.mark.parametrize(
    ("served_by_agent", "resume", "expected"),
    [
        (LOADS, "store", LoadPlan(acp.LOAD, rule=PastRule.BY_OPTION, shows_past=False)),
        (LOADS, "auto", LoadPlan(acp.RESUME, rule=PastRule.PASSES)),
        (LOADS, "agent", LoadPlan(acp.RESUME, rule=PastRule.PASSES)),
        (BOTH, "store", LoadPlan(acp.RESUME, rule=PastRule.PASSES)),
        (RESUMES, "store", LoadPlan(acp.RESUME, rule=PastRule.PASSES)),
        (RESUMES, "auto", LoadPlan(acp.RESUME, rule=PastRule.PASSES)),
    ],
)
def test_a_resume_passes_or_becomes_on_request_a_load_that_shows_nothing(
    served_by_agent: tuple[str, ...], resume: Mode, expected: LoadPlan
) -> None:
    for found in (COMPLETE, LOSSY, UNKNOWN):
        assert make_plan(served_by_agent, found, Modes(resume=resume), acp.RESUME) == expected


COPY = replace(COMPLETE, agent_lacks_past=True, agent_has_no_session=True)


@pytest.mark.parametrize("method", [acp.LOAD, acp.RESUME])
@pytest.mark.parametrize("served_by_agent", EVERY_OFFER)
def test_a_copy_of_another_agents_session_is_handed_over_whatever_the_agent_offers(
    served_by_agent: tuple[str, ...], method: str
) -> None:
    assert make_plan(served_by_agent, COPY, method=method) == replace(NEW, shows_past=method == acp.LOAD)
    assert make_plan(served_by_agent, COPY, Modes(handover="never"), method) is Refusal.NO_HANDOVER


BEHIND = replace(COMPLETE, agent_lacks_past=True, agent_is_behind=True)


@pytest.mark.parametrize(("served_by_agent", "sends"), [(LOADS, acp.LOAD), (BOTH, acp.LOAD), (RESUMES, acp.RESUME)])
def test_an_agent_that_is_behind_catches_up_with_a_load(served_by_agent: tuple[str, ...], sends: str) -> None:
    shown = LoadPlan(sends, rule=PastRule.HANDED_OVER, handover_mode="auto", agent_must_catch_up=True)
    assert make_plan(served_by_agent, BEHIND) == shown
    assert make_plan(served_by_agent, BEHIND, Modes(handover="never")) == replace(
        shown, handover_mode="never", agent_must_catch_up=False
    )
    assert make_plan(NOTHING, BEHIND) == NEW


def test_an_agent_that_is_behind_catches_up_with_a_resume_that_shows_nothing() -> None:
    quiet = LoadPlan(acp.RESUME, rule=PastRule.HANDED_OVER, shows_past=False, agent_must_catch_up=True)
    assert make_plan(BOTH, BEHIND, method=acp.RESUME) == quiet
    for modes in (Modes(resume="agent"), Modes(handover="never")):
        assert make_plan(BOTH, BEHIND, modes, acp.RESUME) == LoadPlan(acp.RESUME, rule=PastRule.PASSES)
    as_load = LoadPlan(acp.LOAD, rule=PastRule.BY_OPTION, shows_past=False, agent_must_catch_up=True)
    assert make_plan(LOADS, BEHIND, Modes(resume="store"), acp.RESUME) == as_load


def test_the_answer_to_a_copys_load_is_left_to_the_agent_on_request() -> None:
    assert make_plan(BOTH, COPY, Modes(load="agent")) == PASSED
    assert make_plan(BOTH, COPY, Modes(resume="agent"), acp.RESUME) == LoadPlan(acp.RESUME, rule=PastRule.PASSES)
