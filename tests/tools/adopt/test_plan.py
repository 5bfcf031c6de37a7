"""Which sessions of an agent's list are loaded, and in which order."""

import pytest

from acp_proxy.tools.adopt.adopted import KnownSession
from acp_proxy.tools.adopt.plan import (
    SESSIONS_PER_PROCESS,
    AdoptionFilter,
    LeftOut,
    OfferedSession,
    choose_sessions,
    needs_restart,
    read_page,
)
from acp_proxy.transcript.file_format import NoteType

OLD, LATER = "2026-01-02T03:04:05.000Z", "2026-01-03T00:00:00.000Z"


def offer_session(session: str, updated: str | None = None, cwd: str | None = "/project") -> OfferedSession:
    return OfferedSession(session, cwd, None, updated)


def adopted_at(updated: str | None) -> KnownSession:
    return KnownSession(is_here=True, note={"type": NoteType.ADOPTED, "updatedAt": updated})


def ids(
    *sessions: OfferedSession, known: KnownSession | None = None, wanted: AdoptionFilter | None = None
) -> list[str]:
    found = choose_sessions(sessions, lambda session: known or KnownSession(), wanted or AdoptionFilter())
    return [load.session_id for load in found.loads]


def reason(
    *sessions: OfferedSession, known: KnownSession | None = None, wanted: AdoptionFilter | None = None
) -> dict[LeftOut, int]:
    found = choose_sessions(sessions, lambda session: known or KnownSession(), wanted or AdoptionFilter())
    assert not found.loads
    return dict(found.left_out)


def test_a_page_is_read_whatever_else_it_holds() -> None:
    entries = [
        {"sessionId": "s1", "cwd": "/a", "title": "One", "updatedAt": "2026-01-02T04:04:05+01:00"},
        {"sessionId": "s2", "cwd": 7, "title": None, "updatedAt": "yesterday", "additionalDirectories": ["/b", 1]},
        {"sessionId": None},
        "s3",
    ]
    page, cursor = read_page({"sessions": entries, "nextCursor": "more"})
    assert page == [OfferedSession("s1", "/a", "One", OLD), OfferedSession("s2", None, None, None, ("/b",))]
    assert cursor == "more"


@pytest.mark.parametrize("result", [None, [], {"sessions": None}, {"sessions": {}, "nextCursor": 3}])
def test_a_page_that_is_none_is_empty(result: object) -> None:
    assert read_page(result) == ([], None)


def test_the_newest_come_first_and_those_without_a_time_last() -> None:
    assert ids(
        offer_session("none"), offer_session("old", OLD), offer_session("new", LATER), offer_session("none2")
    ) == [
        "new",
        "old",
        "none",
        "none2",
    ]


def test_a_session_that_is_listed_twice_is_loaded_once() -> None:
    found = choose_sessions(
        [offer_session("s1"), offer_session("s1")], lambda session: KnownSession(), AdoptionFilter()
    )
    assert ([load.session_id for load in found.loads], found.listed_count) == (["s1"], 1)


def test_a_limit_counts_only_sessions_to_load() -> None:
    known = {"new": KnownSession(is_here=True)}
    sessions = [offer_session("old", OLD), offer_session("new", LATER), offer_session("older")]
    found = choose_sessions(sessions, lambda session: known.get(session, KnownSession()), AdoptionFilter(limit=1))
    assert ([load.session_id for load in found.loads], found.over_limit) == (["old"], 1)
    assert found.left_out == {LeftOut.HERE: 1}


@pytest.mark.parametrize(
    ("known", "why"),
    [
        (KnownSession(is_deleted=True), LeftOut.DELETED),
        (KnownSession(is_here=True), LeftOut.HERE),
        (adopted_at(OLD), LeftOut.HERE),
    ],
)
def test_what_is_known_is_left_out(known: KnownSession, why: LeftOut) -> None:
    assert reason(offer_session("s1", OLD), known=known) == {why: 1}


@pytest.mark.parametrize(("updated", "note"), [(LATER, OLD), (OLD, None), (None, None), (None, OLD)])
def test_an_adopted_session_is_loaded_again_unless_the_list_has_the_same_time(
    updated: str | None, note: str | None
) -> None:
    found = choose_sessions([offer_session("s1", updated)], lambda session: adopted_at(note), AdoptionFilter())
    assert (len(found.loads), [*found.adopted_before]) == (1, ["s1"])


@pytest.mark.parametrize("cwd", [None, "", "relative/path"])
def test_a_session_without_a_directory_cannot_be_loaded(cwd: str | None) -> None:
    assert reason(offer_session("s1", cwd=cwd)) == {LeftOut.NOWHERE: 1}


def test_a_filter_leaves_out_without_a_reason_except_for_a_missing_time() -> None:
    wanted = AdoptionFilter(lambda cwd: cwd == "/here", LATER)
    assert ids(
        offer_session("s1", LATER, "/here"),
        offer_session("s2", OLD, "/here"),
        offer_session("s3", LATER),
        wanted=wanted,
    ) == ["s1"]
    assert reason(
        offer_session("s1", OLD, "/here"), offer_session("s2", None, "/here"), offer_session("s3"), wanted=wanted
    ) == {LeftOut.UNTIMED: 1}


def test_an_agent_is_started_anew_after_so_many_sessions() -> None:
    assert [needs_restart(number) for number in (0, SESSIONS_PER_PROCESS - 1, SESSIONS_PER_PROCESS)] == [
        False,
        False,
        True,
    ]
