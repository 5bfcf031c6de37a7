"""How a request to open a session is served: the table, row by row."""

import pytest

from acp_proxy.core.capabilities import LOAD, RESUME, Modes
from acp_proxy.core.events import Found
from acp_proxy.core.planning import Plan, Refused, plan
from acp_proxy.history.verdict import Rule
from acp_proxy.wire import acp
from tests.conversation import AS_USUAL, requested

ONE = requested(1)
COMPLETE = Found(ONE, held=True, complete=True)
LOSSY = Found(ONE, held=True)
UNKNOWN = Found(ONE)
UNREADABLE = Found(ONE, trouble="EIO")
NOTHING: tuple[str, ...] = ()
LOADS, RESUMES, BOTH = (LOAD,), (RESUME,), (LOAD, RESUME)
EVERY_OFFER = [NOTHING, LOADS, RESUMES, BOTH]

NEW = Plan(acp.NEW, rule=Rule.HANDED_OVER, hands_over="always")
COMPARED, HISTORY = Plan(acp.LOAD, hands_over="auto"), Plan(acp.RESUME, hands_over="auto")
PASSED, IMPORTED = Plan(acp.LOAD, passes=True), Plan(acp.LOAD, passes=True, imports=True)
OURS = Plan(acp.LOAD, rule=Rule.ASKED_FOR, hands_over="auto")


def planned(
    native: tuple[str, ...], found: Found, modes: Modes = AS_USUAL, method: str = acp.LOAD, *, live: bool = False
) -> Plan | Refused | None:
    return plan(method, found, frozenset(native), modes, live=live)


@pytest.mark.parametrize(
    ("native", "found", "expected"),
    [
        (LOADS, COMPLETE, COMPARED),
        (BOTH, COMPLETE, COMPARED),
        (LOADS, LOSSY, COMPARED),
        (LOADS, UNKNOWN, IMPORTED),
        (BOTH, UNKNOWN, IMPORTED),
        (LOADS, UNREADABLE, PASSED),
        (RESUMES, COMPLETE, HISTORY),
        (RESUMES, LOSSY, HISTORY),
        (RESUMES, UNKNOWN, Plan(acp.RESUME)),
        (NOTHING, COMPLETE, NEW),
        (NOTHING, LOSSY, NEW),
        (NOTHING, UNKNOWN, Refused.NOT_FOUND),
    ],
)
def test_by_default_the_agents_replay_is_compared_or_the_session_is_handed_over(
    native: tuple[str, ...], found: Found, expected: Plan | Refused
) -> None:
    assert planned(native, found) == expected


@pytest.mark.parametrize("handover", ["auto", "always", "never"])
@pytest.mark.parametrize("found", [COMPLETE, LOSSY, COMPLETE.but(moved=True), UNKNOWN, UNREADABLE])
@pytest.mark.parametrize("native", EVERY_OFFER)
def test_a_load_left_to_the_agent_passes(native: tuple[str, ...], found: Found, handover: str) -> None:
    assert planned(native, found, Modes(load="agent", handover=handover)) == PASSED


@pytest.mark.parametrize(
    ("native", "found", "expected"),
    [
        (LOADS, COMPLETE, OURS),
        (BOTH, COMPLETE, OURS.but(sends=acp.RESUME)),
        (LOADS, LOSSY, COMPARED),
        (BOTH, LOSSY, COMPARED),
        (LOADS, UNKNOWN, IMPORTED),
        (LOADS, UNREADABLE, PASSED),
        (RESUMES, COMPLETE, HISTORY),
        (RESUMES, LOSSY, HISTORY),
        (NOTHING, COMPLETE, NEW),
        (NOTHING, UNKNOWN, Refused.NOT_FOUND),
    ],
)
def test_a_complete_transcript_is_shown_on_request(
    native: tuple[str, ...], found: Found, expected: Plan | Refused
) -> None:
    assert planned(native, found, Modes(load="store")) == expected


@pytest.mark.parametrize("load", ["auto", "store"])
@pytest.mark.parametrize("found", [COMPLETE, LOSSY, UNKNOWN, UNREADABLE])
@pytest.mark.parametrize("native", [LOADS, BOTH])
def test_during_a_turn_a_native_load_passes_and_begins_no_transcript(
    native: tuple[str, ...], found: Found, load: str
) -> None:
    assert planned(native, found, Modes(load=load), live=True) == PASSED


@pytest.mark.parametrize("handover", ["auto", "always", "never"])
@pytest.mark.parametrize("native", [LOADS, RESUMES, BOTH])
def test_the_handover_mode_applies_to_refused_loads_of_recorded_sessions(
    native: tuple[str, ...], handover: str
) -> None:
    for found, expected in ((COMPLETE, handover), (LOSSY, handover), (UNKNOWN, "never"), (UNREADABLE, "never")):
        made = planned(native, found, Modes(handover=handover))
        assert isinstance(made, Plan)
        assert made.hands_over == expected


def test_without_a_handover_there_is_no_plan_for_an_agent_that_cannot_restore() -> None:
    for found in (COMPLETE, LOSSY, UNKNOWN):
        assert planned(NOTHING, found, Modes(handover="never")) is None


@pytest.mark.parametrize("stored", [COMPLETE, LOSSY])
def test_the_transcript_is_shown_after_an_earlier_handover(stored: Found) -> None:
    moved = stored.but(moved=True)
    assert planned(LOADS, moved) == COMPARED.but(rule=Rule.HANDED_OVER)
    assert planned(BOTH, moved) == COMPARED.but(rule=Rule.HANDED_OVER)
    assert planned(RESUMES, moved) == HISTORY.but(rule=Rule.HANDED_OVER)
    assert planned(NOTHING, moved) == NEW


@pytest.mark.parametrize(
    ("native", "resume", "expected"),
    [
        (LOADS, "store", Plan(acp.LOAD, rule=Rule.ASKED_FOR, shows=False)),
        (LOADS, "auto", Plan(acp.RESUME, passes=True)),
        (LOADS, "agent", Plan(acp.RESUME, passes=True)),
        (BOTH, "store", Plan(acp.RESUME, passes=True)),
        (RESUMES, "store", Plan(acp.RESUME, passes=True)),
        (RESUMES, "auto", Plan(acp.RESUME, passes=True)),
    ],
)
def test_a_resume_passes_or_becomes_on_request_a_load_that_shows_nothing(
    native: tuple[str, ...], resume: str, expected: Plan
) -> None:
    for found in (COMPLETE, LOSSY, UNKNOWN):
        assert planned(native, found, Modes(resume=resume), acp.RESUME) == expected
