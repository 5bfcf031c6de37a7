"""Who opens a session, and whose telling of the past is sent: the design's table, row by row."""

import pytest

from acp_proxy.core.capabilities import LOAD, RESUME, Modes
from acp_proxy.core.events import Found
from acp_proxy.core.planning import Past, Plan, Refused, plan
from acp_proxy.wire import acp
from tests.conversation import AS_USUAL, requested

ONE = requested(1)
COMPLETE = Found(ONE, held=True, complete=True)
LOSSY = Found(ONE, held=True)
UNKNOWN = Found(ONE)
UNREADABLE = Found(ONE, trouble="EIO")
NOTHING: tuple[str, ...] = ()
LOADS, RESUMES, BOTH = (LOAD,), (RESUME,), (LOAD, RESUME)

NEW = Plan(acp.NEW, Past.DROPPED)
WEIGHED, IMPORTED = Plan(acp.LOAD, Past.WEIGHED), Plan(acp.LOAD, Past.IMPORTED)
RESUMED, HISTORY = Plan(acp.RESUME, Past.DROPPED), Plan(acp.RESUME, Past.TOLD)
SWALLOWED = Plan(acp.LOAD, Past.DROPPED)


def planned(
    native: tuple[str, ...],
    found: Found,
    modes: Modes = AS_USUAL,
    method: str = acp.LOAD,
    *,
    live: bool = False,
    moved: bool = False,
) -> Plan | Refused | None:
    return plan(method, found, frozenset(native), modes, live=live, moved=moved)


@pytest.mark.parametrize(
    ("native", "found", "expected"),
    [
        (LOADS, COMPLETE, WEIGHED),
        (BOTH, COMPLETE, WEIGHED),
        (LOADS, LOSSY, None),
        (LOADS, UNKNOWN, IMPORTED),
        (BOTH, UNKNOWN, IMPORTED),
        (LOADS, UNREADABLE, None),
        (RESUMES, COMPLETE, HISTORY),
        (RESUMES, LOSSY, HISTORY),
        (RESUMES, UNKNOWN, HISTORY),
        (NOTHING, COMPLETE, NEW),
        (NOTHING, LOSSY, NEW),
        (NOTHING, UNKNOWN, Refused.NOT_FOUND),
    ],
)
def test_by_default_the_fuller_telling_is_sent_or_the_session_is_handed_over(
    native: tuple[str, ...], found: Found, expected: Plan | Refused | None
) -> None:
    assert planned(native, found) == expected


@pytest.mark.parametrize("handover", ["auto", "always", "never"])
@pytest.mark.parametrize("moved", [False, True])
@pytest.mark.parametrize("found", [COMPLETE, LOSSY, UNKNOWN, UNREADABLE])
@pytest.mark.parametrize("native", [NOTHING, LOADS, RESUMES, BOTH])
def test_what_is_the_agents_is_never_ours(native: tuple[str, ...], found: Found, moved: bool, handover: str) -> None:
    assert planned(native, found, Modes(load="agent", handover=handover), moved=moved) is None


@pytest.mark.parametrize(
    ("native", "found", "expected"),
    [
        (LOADS, COMPLETE, SWALLOWED),
        (BOTH, COMPLETE, RESUMED),
        (LOADS, LOSSY, None),
        (BOTH, LOSSY, None),
        (LOADS, UNKNOWN, IMPORTED),
        (LOADS, UNREADABLE, None),
        (RESUMES, COMPLETE, HISTORY),
        (RESUMES, LOSSY, HISTORY),
        (NOTHING, COMPLETE, NEW),
        (NOTHING, UNKNOWN, Refused.NOT_FOUND),
    ],
)
def test_ours_is_told_on_request_where_it_is_complete(
    native: tuple[str, ...], found: Found, expected: Plan | Refused | None
) -> None:
    assert planned(native, found, Modes(load="store")) == expected


@pytest.mark.parametrize("load", ["auto", "store"])
@pytest.mark.parametrize("found", [COMPLETE, LOSSY, UNKNOWN])
@pytest.mark.parametrize("native", [LOADS, BOTH])
def test_during_a_turn_a_native_load_is_the_agents(native: tuple[str, ...], found: Found, load: str) -> None:
    assert planned(native, found, Modes(load=load), live=True) is None


@pytest.mark.parametrize(
    ("native", "found", "hands_over"),
    [
        (LOADS, COMPLETE, True),
        (LOADS, LOSSY, True),
        (LOADS, UNKNOWN, False),
        (RESUMES, COMPLETE, True),
        (RESUMES, LOSSY, True),
        (RESUMES, UNKNOWN, False),
    ],
)
def test_a_refused_restore_is_handed_over_where_asked_for_and_we_have_something(
    native: tuple[str, ...], found: Found, hands_over: bool
) -> None:
    for handover in ("auto", "always", "never"):
        made = planned(native, found, Modes(handover=handover))
        expected = hands_over and handover == "always"
        assert (isinstance(made, Plan) and made.hands_over) is expected


def test_an_agent_that_can_restore_nothing_is_left_alone_where_nothing_is_handed_over() -> None:
    for found in (COMPLETE, LOSSY, UNKNOWN):
        assert planned(NOTHING, found, Modes(handover="never")) is None


@pytest.mark.parametrize("native", [NOTHING, LOADS, RESUMES, BOTH])
@pytest.mark.parametrize("live", [False, True])
def test_what_was_handed_over_here_is_handed_over_again(native: tuple[str, ...], live: bool) -> None:
    assert planned(native, COMPLETE, live=live, moved=True) == NEW
    assert planned(native, LOSSY, live=live, moved=True) == NEW


@pytest.mark.parametrize(
    ("native", "resume", "expected"),
    [
        (LOADS, "store", Plan(acp.LOAD, Past.DROPPED, tells=False)),
        (LOADS, "auto", None),
        (LOADS, "agent", None),
        (BOTH, "store", None),
        (RESUMES, "store", None),
        (RESUMES, "auto", None),
    ],
)
def test_a_resume_is_the_agents_or_on_request_a_load_without_its_telling(
    native: tuple[str, ...], resume: str, expected: Plan | None
) -> None:
    for found in (COMPLETE, LOSSY, UNKNOWN):
        assert planned(native, found, Modes(resume=resume), acp.RESUME) == expected
