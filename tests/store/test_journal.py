"""Every process knows what was deleted, whatever happens to the file."""

import stat
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from acp_proxy.store.journal import (
    ALIAS,
    ARCHIVED,
    DELETED,
    LIFTED,
    RESTORED,
    TITLED,
    UNARCHIVED,
    Event,
    Journal,
    find_events,
)
from acp_proxy.transcript.file_names import file_name, make_soft_deleted_name
from tests.open_files import list_open_below
from tests.store import transcript_lines
from tests.store.concurrent_writers import run_together
from tests.store.full_disk import run_on_full_disk
from tests.strategies import texts

ODD_IDS = [
    "",
    "a",
    "A",
    "../../etc/passwd",
    "nul\0",
    "line\nbreak",
    "\u2028",
    "\ud800",
    "x" * 4000,
    '"quoted"',
    "é",
    "😀",
]

ASIDE_NAME = f"{file_name('a')}~1"
SOFT_DELETED_NAME = make_soft_deleted_name(file_name("a"), transcript_lines.time(1))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.jsonl"


@pytest.fixture
def journal(path: Path) -> Journal:
    return Journal(path)


def test_a_session_stays_deleted_until_it_is_lifted(journal: Journal) -> None:
    assert journal.read_deleted() == frozenset()
    journal.append(Event(DELETED, "a"), transcript_lines.time(1))
    journal.append(Event(DELETED, "b"), transcript_lines.time(2))
    assert journal.read_deleted() == {"a", "b"}
    journal.append(Event(LIFTED, "a"), transcript_lines.time(3))
    assert journal.read_deleted() == {"b"}
    journal.append(Event(DELETED, "a"), transcript_lines.time(4))
    journal.append(Event(DELETED, "a"), transcript_lines.time(5))
    assert journal.read_deleted() == {"a", "b"}


def test_the_lock_is_reentrant_and_excludes_others(journal: Journal, path: Path) -> None:
    with journal.lock():
        with journal.lock():
            pass
        with pytest.raises(BlockingIOError), Journal(path).lock(wait=False):
            pass
    with Journal(path).lock(wait=False), pytest.raises(BlockingIOError), journal.lock(wait=False):
        pass
    with journal.lock(wait=False):
        pass


def test_an_event_is_one_line_of_a_private_file(journal: Journal, path: Path) -> None:
    journal.append(Event(DELETED, "sess-1"), "2026-11-20T09:15:02.123Z")
    assert path.read_bytes() == b'{"at":"2026-11-20T09:15:02.123Z","event":"deleted","sessionId":"sess-1"}\n'
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "event",
    [
        Event(DELETED, "a", SOFT_DELETED_NAME, uid="u", only_on_this_machine=True, until=transcript_lines.time(9)),
        Event(RESTORED, "a", SOFT_DELETED_NAME, new_name=file_name("a"), uid="u"),
        Event(ALIAS, "a", alias="b"),
        Event.make_for_transcript(ARCHIVED, "a", file_name("a"), by_agent=True),
        Event.make_title("a", ASIDE_NAME, "Mine", by_agent=True),
        Event.make_rename("a", ASIDE_NAME, SOFT_DELETED_NAME, until=transcript_lines.time(9)),
        Event.make_removal("a", ASIDE_NAME, only_on_this_machine=True),
        Event.make_completion("a", ASIDE_NAME),
    ],
    ids=lambda event: f"{event.kind} {event.new_name}",
)
def test_an_event_is_read_as_it_was_appended(journal: Journal, path: Path, event: Event) -> None:
    journal.append(event)
    [read_event] = find_events(path.read_bytes())
    assert read_event.value == event


@pytest.mark.parametrize("session", ODD_IDS, ids=lambda session: ascii(session)[:12])
def test_a_session_with_any_id_can_be_deleted(journal: Journal, path: Path, session: str) -> None:
    journal.append(Event(DELETED, session), transcript_lines.time(1))
    assert Journal(path).read_deleted() == {session}
    assert path.read_bytes().count(b"\n") == 1


def test_journals_of_one_file_see_each_others_events(journal: Journal, path: Path) -> None:
    other = Journal(path)
    assert other.read_deleted() == frozenset()
    journal.append(Event(DELETED, "a"), transcript_lines.time(1))
    assert other.read_deleted() == {"a"}
    other.append(Event(LIFTED, "a"), transcript_lines.time(2))
    assert journal.read_deleted() == frozenset()


def test_a_moved_or_replaced_file_is_read_again(journal: Journal, path: Path) -> None:
    journal.append(Event(DELETED, "a"), transcript_lines.time(1))
    assert journal.read_deleted() == {"a"}
    path.rename(path.with_name("aside"))
    assert journal.read_deleted() == frozenset()
    Journal(path).append(Event(DELETED, "b"), transcript_lines.time(1))  # as long as the first event
    assert journal.read_deleted() == {"b"}


@pytest.mark.parametrize("between", [b"", b"\0\0", b"*", b'{"at":"torn'])
def test_several_events_on_one_line_are_all_read(journal: Journal, path: Path, between: bytes) -> None:
    for session in ("a", "b", "c"):
        journal.append(Event(DELETED, session), transcript_lines.time(0))
    path.write_bytes(path.read_bytes().replace(b"\n", between, 2))
    assert Journal(path).read_deleted() == {"a", "b", "c"}


@pytest.mark.parametrize("torn", [b'{"at":"', b'{"at":"x","event":"deleted","sessionId":"\xc3', b"\0" * 100, b"x"])
def test_an_append_after_a_torn_line_begins_a_new_line(journal: Journal, path: Path, torn: bytes) -> None:
    journal.append(Event(DELETED, "a"), transcript_lines.time(1))
    with path.open("ab") as file:
        file.write(torn)
    journal.append(Event(DELETED, "b"), transcript_lines.time(2))
    assert journal.read_deleted() == {"a", "b"}


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"garbage",
        b"[]",
        b"{}",
        b"7",
        b'{"event":"deleted"}',
        b'{"event":"deleted","sessionId":7}',
        b'{"event":"unknown","sessionId":"a"}',
        b'{"event":["lifted"],"sessionId":"a"}',
        b'{"sessionId":"a"}',
        b"\xff\xfe",
        b"\0" * 512,
        b"[" * 100_000,
    ],
    ids=lambda line: repr(line)[2:30],
)
def test_unreadable_lines_are_skipped(journal: Journal, path: Path, line: bytes) -> None:
    journal.append(Event(DELETED, "a"), transcript_lines.time(1))
    with path.open("ab") as file:
        file.write(line + b"\n")
    journal.append(Event(DELETED, "b"), transcript_lines.time(2))
    assert journal.read_deleted() == {"a", "b"}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.booleans(), st.sampled_from(["a", "b"]) | texts)), st.data())
def test_damage_never_raises_and_keeps_earlier_events(
    tmp_path: Path, events: list[tuple[bool, str]], data: st.DataObject
) -> None:
    path = tmp_path / "any.jsonl"
    path.unlink(missing_ok=True)
    expected: set[str] = set()
    journal = Journal(path)
    for deletes, session in events:
        journal.append(Event(DELETED if deletes else LIFTED, session), transcript_lines.time(1))
        (expected.add if deletes else expected.discard)(session)
    assert {ascii(session) for session in journal.read_deleted()} == {ascii(session) for session in expected}
    with path.open("ab") as file:
        file.write(data.draw(st.binary(max_size=40)) + b"\n")
    journal.read_deleted()


def test_two_processes_can_append_at_once(path: Path) -> None:
    run_together(("delete", path, "one", "200"), ("delete", path, "two", "200"))
    assert Journal(path).read_deleted() == {f"{name}-{number}" for name in ("one", "two") for number in range(200)}


@pytest.mark.parametrize("size", [200, 201, 250])
def test_a_full_disk_fails_one_delete_and_later_ones_are_whole(path: Path, size: int) -> None:
    [said] = run_on_full_disk("delete", path, size)
    number, problem = said.split()
    assert int(number) >= 1
    assert problem in ("ENOSPC", "EFBIG")
    assert Journal(path).read_deleted() == {*map(str, range(int(number))), "room again"}


def test_an_unusable_file_raises_an_oserror(path: Path) -> None:
    path.mkdir()
    with pytest.raises(OSError):
        Journal(path).append(Event(DELETED, "a"), transcript_lines.time(1))
    with pytest.raises(OSError):
        Journal(path).read_deleted()
    with pytest.raises(FileNotFoundError):
        Journal(path / "missing" / "state.jsonl").append(Event(DELETED, "a"), transcript_lines.time(1))
    assert Journal(path / "missing" / "state.jsonl").read_deleted() == frozenset()


def test_no_descriptor_stays_open(journal: Journal, tmp_path: Path) -> None:
    journal.append(Event(DELETED, "a"), transcript_lines.time(0))
    journal.read_deleted()
    assert list_open_below(tmp_path) == []


# --- soft deletes


def test_a_soft_delete_remembers_its_transcript(journal: Journal) -> None:
    deleted_name = make_soft_deleted_name(file_name("a"), transcript_lines.time(1))
    journal.append(Event(DELETED, "a", transcript=deleted_name), transcript_lines.time(1))
    journal.append(Event(DELETED, "b"), transcript_lines.time(1))
    assert journal.read_deleted() == {"a", "b"}
    assert journal.read_state().deleted == {"a": deleted_name, "b": None}
    journal.append(Event(RESTORED, "a"), transcript_lines.time(2))
    assert journal.read_deleted() == {"b"}
    journal.append(Event(DELETED, "a", transcript=deleted_name), transcript_lines.time(3))
    journal.append(Event(DELETED, "a"), transcript_lines.time(4))
    assert journal.read_state().deleted == {"a": None, "b": None}


@pytest.mark.parametrize("name", ["../../etc/passwd", "/etc/passwd", "", "state", "a~x"])
def test_an_event_with_an_invalid_transcript_name_is_ignored(journal: Journal, name: str) -> None:
    journal.append(Event(DELETED, "a", transcript=name), transcript_lines.time(1))
    journal.append(Event(TITLED, "a", transcript=name, title="no"), transcript_lines.time(1))
    assert journal.read_deleted() == frozenset()
    assert journal.read_state().titles == {}


@pytest.mark.parametrize("to", ["", f"{file_name('a')}~1"])
def test_a_rename_or_removal_is_under_way_until_the_old_names_next_title(journal: Journal, to: str) -> None:
    deleted_name = make_soft_deleted_name(file_name("a"), transcript_lines.time(1))
    for kind in (RESTORED, TITLED):
        title(journal, "a", "Mine", transcript=deleted_name)
        journal.append(Event(kind, "a", transcript=deleted_name, new_name=to), transcript_lines.time(2))
        assert {
            name: moving.new_name for name, moving in journal.read_state().incomplete_renames_and_removals.items()
        } == {deleted_name: to}
        assert journal.read_state().titles == {deleted_name: "Mine"}
        title(journal, "a", None, transcript=deleted_name)
        assert (journal.read_state().incomplete_renames_and_removals, journal.read_state().titles) == ({}, {})


@pytest.mark.parametrize("kind", [DELETED, LIFTED, TITLED])
def test_a_new_name_without_an_old_one_means_nothing(journal: Journal, kind: str) -> None:
    journal.append(Event(kind, "a", new_name=""), transcript_lines.time(1))
    assert journal.read_state().incomplete_renames_and_removals == {}


def test_a_new_name_that_is_none_means_nothing(journal: Journal) -> None:
    deleted_name = make_soft_deleted_name(file_name("a"), transcript_lines.time(1))
    journal.append(Event(RESTORED, "a", transcript=deleted_name, new_name="../../etc/passwd"), transcript_lines.time(1))
    assert journal.read_state().incomplete_renames_and_removals == {}


def test_what_a_holder_of_the_lock_appends_is_known_without_reading(
    journal: Journal, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal.append(Event(DELETED, "a"), transcript_lines.time(1))
    with path.open("ab") as file:
        file.write(b'{"torn')
    deleted_name = make_soft_deleted_name(file_name("c"), transcript_lines.time(1))
    with journal.lock():
        assert journal.read_deleted() == {"a"}
        monkeypatch.setattr(Journal, "_read_events", None)
        journal.append(Event(LIFTED, "a"), transcript_lines.time(2))
        journal.append(Event(DELETED, "b"), transcript_lines.time(2))
        title(journal, "c", "text")
        journal.append(Event.make_removal("c", deleted_name, only_on_this_machine=False), transcript_lines.time(2))
        state = journal.read_state()
    monkeypatch.undo()
    assert state == Journal(path).read_state()
    assert state.deleted == {"b": None}


def test_what_others_append_meanwhile_is_read(journal: Journal, path: Path) -> None:
    journal.append(Event(DELETED, "a"), transcript_lines.time(1))
    assert journal.read_deleted() == {"a"}
    Journal(path).append(Event(DELETED, "b"), transcript_lines.time(1))
    with journal.lock():
        journal.append(Event(DELETED, "c"), transcript_lines.time(1))
        assert journal.read_deleted() == {"a", "b", "c"}


# --- titles


def title(journal: Journal, session: str, text: str | None, transcript: str | None = None) -> None:
    journal.append(Event(TITLED, session, transcript, text), transcript_lines.time(1))


def test_the_last_title_counts_until_it_is_cleared_or_its_session_deleted(journal: Journal, path: Path) -> None:
    title(journal, "a", "first")
    title(journal, "a", "second")
    title(journal, "b", "other")
    assert (
        journal.read_state().find_title("a"),
        journal.read_state().find_title("b"),
        journal.read_state().find_title("c"),
    ) == (
        "second",
        "other",
        None,
    )
    title(journal, "a", None)
    assert journal.read_state().find_title("a") is None
    journal.append(Event(DELETED, "b"), transcript_lines.time(2))
    journal.append(Event(LIFTED, "b"), transcript_lines.time(3))
    assert Journal(path).read_state().titles == {}


def test_a_transcript_set_aside_can_have_a_title(journal: Journal) -> None:
    aside = f"{file_name('a')}~1"
    title(journal, "a", "the older", transcript=aside)
    title(journal, "a", "the newer")
    journal.append(Event(DELETED, "a"), transcript_lines.time(2))
    assert journal.read_state().titles == {aside: "the older"}


def test_an_invalid_title_clears_the_title(journal: Journal, path: Path) -> None:
    title(journal, "a", "mine")
    with path.open("ab") as file:
        file.write(b'{"at":"","event":"titled","sessionId":"a","title":7}\n')
    assert journal.read_state().titles == {}


@pytest.mark.parametrize("between", [b"\n", b"", b"\0\0", b'{"at":"torn'])
def test_erasing_titles_keeps_other_events_and_the_size(journal: Journal, path: Path, between: bytes) -> None:
    title(journal, "a", "the words")
    journal.append(Event(DELETED, "b"), transcript_lines.time(1))
    title(journal, "c", "others")
    title(journal, "a", "more words")
    journal.append(Event(DELETED, "a"), transcript_lines.time(1))
    path.write_bytes(path.read_bytes().replace(b"\n", between, 4))
    size = path.stat().st_size
    with journal.lock():
        journal.erase_titles([file_name("a")])
    assert path.stat().st_size == size
    assert b"words" not in path.read_bytes()
    for known in (journal, Journal(path)):
        assert known.read_deleted() == {"a", "b"}
        assert known.read_state().titles == {file_name("c"): "others"}
        assert known.read_state().with_title_lines == {file_name("c")}
    before = path.read_bytes()
    journal.erase_titles([file_name("a")])
    assert path.read_bytes() == before


def test_a_torn_title_is_erased_too(journal: Journal, path: Path) -> None:
    title(journal, "a", "the words")
    with path.open("ab") as file:
        file.write(path.read_bytes()[:-4])
    journal.append(Event(DELETED, "a"), transcript_lines.time(1))
    assert path.read_bytes().count(b"the wo") == 2
    journal.erase_titles([file_name("a")])
    assert b"the wo" not in path.read_bytes()
    assert journal.read_deleted() == {"a"}


def test_titles_are_erased_while_others_append(path: Path) -> None:
    run_together(("rename", path, "one", "100"), ("delete", path, "two", "200"))
    assert Journal(path).read_deleted() == {f"two-{number}" for number in range(200)} | {
        f"one-{number}" for number in range(100)
    }
    assert Journal(path).read_state().with_title_lines == frozenset()
    assert b"secret" not in path.read_bytes()


def test_a_session_is_archived_until_it_is_unarchived_deleted_or_set_aside(journal: Journal, path: Path) -> None:
    aside = f"{file_name('b')}~1"
    journal.append(Event(ARCHIVED, "a"), transcript_lines.time(1))
    journal.append(Event(ARCHIVED, "b", transcript=aside), transcript_lines.time(2))
    journal.append(Event(DELETED, "c"), transcript_lines.time(3))
    assert journal.read_state().archived == {file_name("a"): "a", aside: "b"}
    assert journal.read_state().hidden == {"a", "c"}
    journal.append(Event(UNARCHIVED, "a"), transcript_lines.time(4))
    journal.append(Event.make_removal("b", aside, only_on_this_machine=False), transcript_lines.time(5))
    assert journal.read_state().archived == {}
    assert journal.read_state().hidden == {"c"}
    for kind in (ARCHIVED, DELETED, LIFTED):
        journal.append(Event(kind, "a"), transcript_lines.time(6))
    assert Journal(path).read_state().archived == {}
    assert Journal(path).read_state().hidden == {"c"}


def test_in_what_the_agent_sends_its_own_title_and_archive_state_count(journal: Journal) -> None:
    journal.append(Event(TITLED, "a", title="Mine"), transcript_lines.time(1))
    journal.append(Event(ARCHIVED, "a"), transcript_lines.time(2))
    state = journal.read_state()
    assert (state.find_title("a"), state.find_title_for_agent("a")) == ("Mine", "Mine")
    assert state.archived_here == {"a"}
    journal.append(Event(TITLED, "a", title="Given in the agent", by_agent=True), transcript_lines.time(3))
    journal.append(Event(ARCHIVED, "a", by_agent=True), transcript_lines.time(4))
    state = journal.read_state()
    assert (state.find_title("a"), state.find_title_for_agent("a")) == ("Given in the agent", None)
    assert state.hidden == {"a"}
    assert state.archived_here == frozenset()
    journal.append(Event(TITLED, "a", title="Mine again"), transcript_lines.time(5))
    journal.append(Event(UNARCHIVED, "a"), transcript_lines.time(6))
    journal.append(Event(ARCHIVED, "a"), transcript_lines.time(7))
    state = Journal(journal._path).read_state()
    assert state.find_title_for_agent("a") == "Mine again"
    assert state.archived_here == {"a"}


def test_a_delete_ends_what_the_agent_has_said(journal: Journal) -> None:
    journal.append(Event(TITLED, "a", title="Given in the agent", by_agent=True), transcript_lines.time(1))
    journal.append(Event(ARCHIVED, "a", by_agent=True), transcript_lines.time(2))
    journal.append(Event(DELETED, "a"), transcript_lines.time(3))
    state = journal.read_state()
    assert (state.titled_by_agent, state.archived_by_agent) == (set(), set())


def test_a_copied_title_stays_the_users_or_the_agents(journal: Journal) -> None:
    for number, (session, by_agent) in enumerate({"a": True, "b": False}.items()):
        name = file_name(session)
        journal.append(Event.make_title(session, name, "Title", by_agent=by_agent), transcript_lines.time(number))
        journal.copy_title(session, name, f"{name}~1")
    state = journal.read_state()
    assert set(state.titles.values()) == {"Title"}
    assert len(state.titles) == 4
    assert state.titled_by_agent == {file_name("a"), ASIDE_NAME}
