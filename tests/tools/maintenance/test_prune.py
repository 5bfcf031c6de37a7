"""Whole sessions are pruned by age, number and size, unless in use."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_proxy.protocol import update_kinds
from acp_proxy.store import delete
from acp_proxy.store.journal import Journal
from acp_proxy.store.layout import Layout
from acp_proxy.tools.maintenance.prune import (
    IN_USE,
    Candidate,
    Limits,
    find_candidates,
    prune_sessions,
    select_exceeding,
)
from acp_proxy.transcript.appender import TranscriptAppender
from acp_proxy.transcript.file_names import file_name
from tests.listed import make_row
from tests.store import compressible, transcript_lines
from tests.stored import WholeStore, read_files

AGENT = "agent"


def session(name: str, at: int, size: int = 10, *, has_turn: bool = True) -> Candidate:
    row = make_row(session_id=name)
    return Candidate(AGENT, name, name, transcript_lines.time(at), size, None, row, has_turn=has_turn)


FOUR = [session("d", 4), session("c", 3), session("b", 2), session("a", 1)]


def select_names(limits: Limits, candidates: list[Candidate] = FOUR) -> str:
    return "".join(each.name for each in select_exceeding(limits, candidates))


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        (Limits(), ""),
        (Limits(older_than=transcript_lines.time(3)), "ba"),
        (Limits(most_sessions=1), "cba"),
        (Limits(most_sessions=0), "dcba"),
        (Limits(most_sessions=9), ""),
        (Limits(most_bytes=40), ""),
        (Limits(most_bytes=39), "a"),
        (Limits(most_bytes=0), "dcba"),
        (Limits(older_than=transcript_lines.time(2), most_sessions=3), "a"),
        (Limits(older_than=transcript_lines.time(2), most_sessions=2, most_bytes=10), "cba"),
    ],
)
def test_limits_select_the_oldest_sessions(limits: Limits, expected: str) -> None:
    assert select_names(limits) == expected


def test_sessions_without_a_prompt_do_not_count() -> None:
    mixed = [session("d", 4, has_turn=False), session("c", 3), session("b", 2, has_turn=False), session("a", 1)]
    assert select_names(Limits(most_sessions=2), mixed) == ""
    assert select_names(Limits(most_sessions=1), mixed) == "ba"
    assert select_names(Limits(most_sessions=0), mixed) == "dcba"


sessions = st.lists(
    st.tuples(st.integers(0, 50), st.integers(0, 50), st.booleans()).map(
        lambda one: session("x", one[0], one[1], has_turn=one[2])
    )
).map(lambda found: sorted(found, key=lambda each: each.last_used, reverse=True))
numbers = st.none() | st.integers(0, 60)


@given(sessions, numbers, numbers, numbers)
def test_the_remaining_sessions_are_within_the_limits_and_the_newest(
    found: list[Candidate], second: int | None, keep: int | None, size: int | None
) -> None:
    limits = Limits(transcript_lines.time(second) if second is not None else None, keep, size)
    count = len(found) - len(select_exceeding(limits, found))
    left = found[:count]
    assert select_exceeding(limits, found) == found[count:]
    assert all(limits.older_than is None or each.last_used >= limits.older_than for each in left)
    assert keep is None or sum(each.has_turn for each in left) <= keep
    assert size is None or sum(each.size for each in left) <= size
    assert select_exceeding(limits, left) == []


@pytest.fixture
def store(tmp_path: Path) -> WholeStore:
    store = WholeStore(tmp_path / "store")
    for number, name in enumerate("abc"):
        transcript_lines.store_lines(
            store, AGENT, name, transcript_lines.prompt_line(f"the words of {name}", session=name), at=number
        )
    return store


def prune(store: WholeStore, *, deleted: bool = False, soft: bool = False) -> dict[str, str | None]:
    candidates = find_candidates(store, deleted=deleted)
    return {
        candidate.session_id: trouble
        for candidate, trouble in prune_sessions(store, candidates, soft=soft, only_on_this_machine=True)
    }


def test_a_pruned_session_is_in_no_file_and_stays_deleted(store: WholeStore) -> None:
    assert [row.session_id for row in store.list_all()] == ["c", "b", "a"]
    assert prune(store) == {"a": None, "b": None, "c": None}
    assert store.list_all() == []
    assert store.read_deleted(AGENT) == {"a", "b", "c"}
    assert not any(b"the words" in data for _, data in read_files(store.root))
    assert not any(path.parent.name == AGENT for path in (store.root / "unindexed").rglob("*"))


@pytest.mark.parametrize("soft", [False, True])
def test_a_session_decompressed_and_opened_in_the_meantime_is_not_pruned(
    store: WholeStore, monkeypatch: pytest.MonkeyPatch, soft: bool
) -> None:
    """It is compressed when it is chosen, and decompressed and open before it can be deleted."""
    compressible.store_compressible(store, "s")
    compressible.compress_now(store, "s")
    alone, opened = Journal.lock, list[TranscriptAppender]()

    @contextmanager
    def quicker(journal: Journal) -> Iterator[None]:
        if not opened:
            monkeypatch.setattr(Journal, "lock", alone)
            opened.append(WholeStore(store.root).open_to_append(AGENT, transcript_lines.header("s"), is_new=False))
        with alone(journal):
            yield

    [candidate] = [each for each in find_candidates(store) if each.session_id == "s"]
    monkeypatch.setattr(Journal, "lock", quicker)
    assert [trouble for _, trouble in prune_sessions(store, [candidate], soft=soft, only_on_this_machine=True)] == [
        IN_USE
    ]
    opened[0].append(transcript_lines.agent_chunk("more"))
    opened[0].close()
    assert compressible.read_content(compressible.find_path(store, "s")).endswith(transcript_lines.agent_chunk("more"))


def test_pruning_deleted_sessions_keeps_a_revived_one(store: WholeStore) -> None:
    store.list_all()
    store.delete(AGENT, "a", soft=True)
    delete.lift_delete(store.layout, AGENT, "a")
    transcript_lines.store_lines(store, AGENT, "a", fresh=False)
    assert prune(store, deleted=True) == {"a": None}
    assert not any(b"the words of a" in data for _, data in read_files(store.root))
    assert len(store.list_all()) == 3


def test_the_size_of_a_session_includes_its_backups(store: WholeStore) -> None:
    layout = Layout(store.root)
    path = compressible.store_compressible(store, "s")
    copy = layout.backup_path(AGENT, path.stem, transcript_lines.time(1))
    copy.parent.mkdir(parents=True)
    copy.write_bytes(b"x" * 1000)
    size = compressible.compress_now(store, "s").stat().st_size
    sizes = {candidate.session_id: candidate.size for candidate in find_candidates(store)}
    assert sizes["s"] == size + 1000


def test_sessions_without_a_prompt_are_candidates(store: WholeStore) -> None:
    transcript_lines.store_lines(store, AGENT, "silent", transcript_lines.agent_chunk("hi", session="silent"))
    assert "silent" not in {row.session_id for row in store.list_all()}
    assert [candidate.has_turn for candidate in find_candidates(store) if candidate.session_id == "silent"] == [False]
    assert prune(store)["silent"] is None


def test_the_age_of_a_session_ignores_the_agents_time(store: WholeStore) -> None:
    transcript_lines.store_lines(
        store,
        AGENT,
        transcript_lines.SESSION,
        transcript_lines.prompt_line("used", at=60),
        transcript_lines.info(updatedAt=transcript_lines.time(-60), at=61),
    )
    assert [row.session_id for row in store.list_all()][-1] == transcript_lines.SESSION
    [first, *_] = find_candidates(store)
    assert (first.session_id, first.last_used) == (transcript_lines.SESSION, transcript_lines.time(60))
    assert transcript_lines.SESSION not in {
        row.session_id for row in select_exceeding(Limits(older_than=transcript_lines.time(30)), find_candidates(store))
    }


def test_a_session_continued_in_the_meantime_is_not_pruned(store: WholeStore) -> None:
    candidates = find_candidates(store)
    transcript_lines.store_lines(
        store, AGENT, "b", transcript_lines.prompt_line("not so old after all", session="b"), fresh=False
    )
    gone = {
        candidate.session_id: trouble
        for candidate, trouble in prune_sessions(store, candidates, soft=False, only_on_this_machine=True)
    }
    assert gone == {"a": None, "b": IN_USE, "c": None}
    assert [row.session_id for row in store.list_all()] == ["b"]


def test_a_subagents_session_stays_and_goes_with_the_one_it_worked_for(store: WholeStore) -> None:
    """It is older than both others, which have to go before it."""
    transcript_lines.store_lines(store, AGENT, "part", transcript_lines.agent_chunk("found it", session="part"))
    named = [
        transcript_lines.update(update_kinds.SUBAGENT, sessionId=id, at=9, session="c")
        for id in ("part", "part", "elsewhere")
    ]
    transcript_lines.store_lines(store, AGENT, "c", *named, fresh=False)
    candidates = find_candidates(store)
    assert {candidate.session_id: candidate.parent_id for candidate in candidates} == {
        "a": None,
        "b": None,
        "c": None,
        "part": "c",
    }
    assert [row.session_id for row in select_exceeding(Limits(most_sessions=1), candidates)] == ["b", "a"]
    assert [row.session_id for row in select_exceeding(Limits(most_bytes=0), candidates)] == ["c", "part", "b", "a"]


def test_a_subagents_session_stays_if_the_one_it_worked_for_is_open(store: WholeStore) -> None:
    transcript_lines.store_lines(
        store, AGENT, "b", transcript_lines.update(update_kinds.SUBAGENT, sessionId="a", session="b"), fresh=False
    )
    transcript = TranscriptAppender(Layout(store.root).transcript_path(AGENT, file_name("b")))
    chosen = select_exceeding(Limits(most_sessions=0), find_candidates(store))
    left = {
        candidate.session_id: trouble
        for candidate, trouble in prune_sessions(store, chosen, soft=False, only_on_this_machine=True)
    }
    assert left == {"c": None, "b": IN_USE, "a": IN_USE}
    transcript.close()


def test_the_subagents_of_a_pinned_session_stay_too() -> None:
    pinned = replace(session("b", 2), is_pinned=True)
    assert (
        select_names(Limits(most_sessions=0), [session("c", 3), pinned, replace(session("a", 1), parent_id="b")]) == "c"
    )


def test_subagents_that_name_each_other_belong_to_nobody() -> None:
    first, second = session("b", 2), session("a", 1)
    both = [replace(first, parent_id="a"), replace(second, parent_id="b")]
    assert select_names(Limits(most_sessions=1), both) == "a"
    nested = [session("c", 3), replace(first, parent_id="c"), replace(second, parent_id="b")]
    assert select_names(Limits(older_than=transcript_lines.time(3)), nested) == ""
    assert select_names(Limits(older_than=transcript_lines.time(4)), nested) == "cba"
