"""The index: which sessions it lists, in which order and pages, and how it reads transcripts."""

import os
import random
import re
import sqlite3
from contextlib import suppress
from pathlib import Path

import pytest

from acp_proxy.store.index_database import SCHEMA, Index, ListedSession
from acp_proxy.tools.maintenance import verify
from acp_proxy.transcript.file_names import file_name
from tests.open_files import list_open_files
from tests.store import transcript_lines
from tests.store.indexed_transcripts import AGENT, IndexedTranscripts
from tests.store.transcript_lines import agent_chunk, answer, info, note, prompt_line

# The fields of a row.


def test_a_row_has_every_field_of_a_list(transcripts: IndexedTranscripts) -> None:
    transcripts.write(
        transcript_lines.SESSION,
        prompt_line("Fix the login", at=1),
        agent_chunk("a", at=2),
        info(at=3, _meta={"branch": "main"}),
        answer(at=4, error={"code": -32000}),
        header=transcript_lines.header(cwd="/home/me/", more=("/more",)),
    )
    assert transcripts.get_row() == ListedSession(
        agent_folder=AGENT,
        name=file_name(transcript_lines.SESSION),
        session_id=transcript_lines.SESSION,
        cwd="/home/me/",
        title="Fix the login",
        updated=transcript_lines.time(4),
        prompt_count=1,
        reply_count=1,
        has_failed=True,
        is_running=False,
        directories=["/more"],
        meta={"branch": "main"},
        size=transcripts.path(transcript_lines.SESSION).stat().st_size,
        created=transcript_lines.header().created_at,
    )


ODD_IDS = [
    "",
    "a",
    "A",
    "nul\0",
    "\ud800",
    "\udcff",
    "x" * 4000,
    "line\nbreak",
    "é",
    "😀",
    "'; DROP TABLE transcripts; --",
]


def test_any_id_and_directory_is_returned_unchanged(transcripts: IndexedTranscripts) -> None:
    for at, session in enumerate(ODD_IDS):
        transcripts.write_session(session, at=at, cwd=f"/{session}")
    assert transcripts.list_ids() == ODD_IDS[::-1]
    for session in ODD_IDS:
        assert transcripts.list_ids(cwd=f"/{session}") == [session]


def test_a_session_is_listed_from_its_first_prompt(transcripts: IndexedTranscripts) -> None:
    transcripts.write("s", note("opened"), agent_chunk("hello"), info(title="x"))
    assert transcripts.list_ids() == []
    transcripts.append("s", prompt_line("x"))
    assert transcripts.list_ids() == ["s"]


def test_a_session_is_listed_once_it_has_a_directory(transcripts: IndexedTranscripts) -> None:
    transcripts.write_session("s", cwd=None)
    assert transcripts.list_ids() == []
    assert [row.session_id for row in transcripts.list_all()] == ["s"]
    transcripts.append("s", note("opened", method="session/resume", cwd="/project"))
    assert transcripts.list_ids() == ["s"]


def test_a_transcript_set_aside_is_only_in_the_complete_list(transcripts: IndexedTranscripts) -> None:
    transcripts.write_session("s")
    transcripts.index_transcript("s", name=f"{file_name('s')}~1")
    transcripts.write("unprompted")
    assert transcripts.list_ids() == ["s"]
    assert [row.name for row in transcripts.list_all()] == [file_name("s")] * 1 + [f"{file_name('s')}~1"]


def state(transcripts: IndexedTranscripts, run: str) -> tuple[bool, bool]:
    row = transcripts.get_row("s", run=run)
    return row.has_failed, row.is_running


def test_an_open_turn_of_another_run_may_be_running_until_a_third_run_writes(transcripts: IndexedTranscripts) -> None:
    assert not transcripts.write("s", prompt_line("x", run="theirs"))
    assert state(transcripts, run="theirs") == (False, False)
    assert state(transcripts, run="ours") == (False, True)
    assert not transcripts.append("s", note("opened", run="third"))
    assert state(transcripts, run="ours") == state(transcripts, run="third") == (True, False)
    assert not transcripts.append("s", agent_chunk("a", run="theirs"))
    assert state(transcripts, run="ours") == (False, True)
    assert transcripts.append("s", answer(run="theirs"))
    assert state(transcripts, run="ours") == (False, False)


# --- order and pages


def test_sessions_are_listed_newest_first_and_then_by_id(transcripts: IndexedTranscripts) -> None:
    times = {"b": 5, "a": 5, "d": 1, "c": 9, "e": 5}
    for session, at in times.items():
        transcripts.write_session(session, at=at)
    assert transcripts.list_ids() == sorted(times, key=lambda session: (times[session], session), reverse=True)


@pytest.mark.parametrize("size", [1, 2, 3, 6, 7, 8])
def test_pages_of_any_size_have_every_session_once_in_order(transcripts: IndexedTranscripts, size: int) -> None:
    for number in range(7):
        transcripts.write_session(f"s{number}", at=number // 3)
    pages = list(transcripts.list_pages(size))
    assert [session for page in pages for session in page] == transcripts.list_ids()
    assert [len(page) for page in pages[:-1]] == [size] * (len(pages) - 1)
    assert 0 < len(pages[-1]) <= size


def test_between_pages_a_prompted_session_moves_to_the_first_page_and_no_other_is_hidden_or_repeated(
    transcripts: IndexedTranscripts,
) -> None:
    for number in range(9):
        transcripts.write_session(f"s{number}", at=number)
    pages = transcripts.list_pages(3)
    assert next(pages) == ["s8", "s7", "s6"]
    transcripts.write_session("new", at=100)
    transcripts.append("s2", prompt_line("again", at=101))
    transcripts.index.remove_rows(AGENT, file_name("s6"))
    assert next(pages) == ["s5", "s4", "s3"]
    transcripts.index.remove_rows(AGENT, file_name("s3"))  # the next page begins here
    transcripts.write_session("newer", at=102)
    assert next(pages) == ["s1", "s0"]
    assert next(pages, None) is None
    assert transcripts.list_ids()[:3] == ["newer", "s2", "new"]


def test_an_exactly_full_last_page_has_no_next(transcripts: IndexedTranscripts) -> None:
    for number in range(4):
        transcripts.write_session(f"s{number}")
    page = transcripts.index.select_page(AGENT, None, None, transcript_lines.RUN, 2)
    last = transcripts.index.select_page(AGENT, None, page.next, transcript_lines.RUN, 2)
    assert len(last.rows) == 2
    assert last.next is None


# --- the filter


def test_a_directory_matches_in_any_spelling_and_is_shown_in_its_own(
    transcripts: IndexedTranscripts, tmp_path: Path
) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    real.mkdir()
    link.symlink_to(real)
    for at, cwd in enumerate((str(real), f"{real}/", str(link), f"{link}/.")):
        transcripts.write_session(f"s{at}", at=at, cwd=cwd)
    for cwd in (str(real), f"{real}/", str(link), f"{link}//", f"{tmp_path}/x/../link"):
        assert transcripts.list_ids(cwd) == ["s3", "s2", "s1", "s0"]
    assert transcripts.get_row("s1").cwd == f"{real}/"
    assert transcripts.get_row("s3").cwd == f"{link}/."


def test_a_windows_directory_matches_in_any_spelling_on_every_system(transcripts: IndexedTranscripts) -> None:
    spellings = ["C:\\Users\\me\\p", "c:/Users/me/p/", "C:/users/me\\p"]
    for at, cwd in enumerate(spellings):
        transcripts.write_session(f"s{at}", at=at, cwd=cwd)
    transcripts.write_session("sibling", cwd="C:\\Users\\me\\pq")
    transcripts.write_session("share", cwd="\\\\Server\\Share\\p")
    for cwd in spellings:
        assert transcripts.list_ids(cwd) == ["s2", "s1", "s0"]
    assert [transcripts.get_row(f"s{at}").cwd for at in range(3)] == spellings
    assert transcripts.list_ids("\\\\server\\share/P\\") == ["share"]
    assert [len(page) for page in transcripts.list_pages(2, "c:\\users\\me\\P")] == [2, 1]


def test_a_missing_directory_matches_but_not_its_children_and_siblings(transcripts: IndexedTranscripts) -> None:
    for session, cwd in {
        "s": "/missing/x",
        "child": "/missing/x/y",
        "sibling": "/missing/xy",
        "up": "/missing",
    }.items():
        transcripts.write_session(session, cwd=cwd)
    assert transcripts.list_ids("/missing/x/") == ["s"]
    assert transcripts.list_ids("/missing/X") == []
    assert transcripts.list_ids("/") == []


def test_a_directory_matches_after_a_change_of_its_link(transcripts: IndexedTranscripts, tmp_path: Path) -> None:
    link = tmp_path / "link"
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
    link.symlink_to(tmp_path / "old")
    transcripts.write_session("before", at=1, cwd=str(link))
    link.unlink()
    link.symlink_to(tmp_path / "new")
    transcripts.write_session("after", at=2, cwd=str(link))
    assert transcripts.list_ids(str(link)) == ["after", "before"]
    assert transcripts.list_ids(str(tmp_path / "old")) == ["before"]
    assert transcripts.list_ids(str(tmp_path / "new")) == ["after"]


def test_a_filtered_list_has_pages_of_its_own(transcripts: IndexedTranscripts) -> None:
    for number in range(10):
        transcripts.write_session(f"s{number}", at=number, cwd="/even" if number % 2 == 0 else "/odd")
    assert list(transcripts.list_pages(2, "/even")) == [["s8", "s6"], ["s4", "s2"], ["s0"]]


@pytest.mark.parametrize("cwd", ["/nul\0", "/\ud800", "/" + "x" * 5000])
def test_a_filter_with_an_invalid_path_matches_the_same_text(transcripts: IndexedTranscripts, cwd: str) -> None:
    transcripts.write_session("s", cwd=cwd)
    transcripts.write_session("other")
    assert transcripts.list_ids(cwd) == ["s"]


# --- line by line


def test_only_new_entries_are_read(transcripts: IndexedTranscripts) -> None:
    transcripts.write("s", prompt_line("first", at=1), answer(at=1))
    before = transcripts.path("s").read_bytes()
    transcripts.path("s").write_bytes(before.replace(b'"first"', b'"other"'))  # nobody reads it again
    transcripts.append("s", prompt_line("second", at=2), agent_chunk("b", at=3), answer(at=4))
    row = transcripts.get_row("s")
    assert (row.title, row.prompt_count, row.reply_count, row.updated) == ("first", 2, 1, transcript_lines.time(4))


def test_reading_line_by_line_gives_the_same_row(transcripts: IndexedTranscripts) -> None:
    lines = [
        note("opened", cwd="/x"),
        prompt_line("/cmd", at=1),
        agent_chunk("a", at=2),
        b"garbage\n",
        b"\n",
        answer(at=3, error={}),
        prompt_line("Fix it", at=4, run="other"),
        info(at=5, title="T", _meta={"a": {"b": 1}}),
        b"\0\0\0\n",
        info(at=6, title=None, _meta={"a": {"c": 2}}),
    ]
    transcripts.write("bit by bit")
    for line in lines:
        transcripts.append("bit by bit", line)
    transcripts.write("at once", *lines)
    one, two = (transcripts.get_row(session) for session in ("bit by bit", "at once"))
    assert (one.title, one.updated, one.prompt_count, one.reply_count, one.has_failed, one.meta, one.cwd) == (
        two.title,
        two.updated,
        two.prompt_count,
        two.reply_count,
        two.has_failed,
        two.meta,
        two.cwd,
    )
    assert (one.title, one.meta) == ("Fix it", {"a": {"b": 1, "c": 2}})


def test_a_line_written_in_two_parts_counts_once(transcripts: IndexedTranscripts) -> None:
    line = prompt_line("Größe", at=2)
    transcripts.write("s", prompt_line("x", at=1))
    for at in (1, line.index("ß".encode()) + 1, len(line) - 2):
        transcripts.append("s", line[:at])
        assert transcripts.get_row("s").prompt_count == 1
        transcripts.append("s", line[at:])
        assert transcripts.get_row("s").prompt_count == 2
        transcripts.write("s", prompt_line("x", at=1))


@pytest.mark.parametrize(
    "appended", [b"\n", b"\n" + agent_chunk("a", at=3), b" torn\n", b"\0" + agent_chunk("a", at=3)]
)
def test_an_entry_without_its_newline_counts_and_so_does_its_continuation(
    transcripts: IndexedTranscripts, appended: bytes
) -> None:
    transcripts.write("s", prompt_line("x", at=1), answer(at=1))
    assert not transcripts.append("s", prompt_line("y", at=2)[:-1])
    assert (transcripts.get_row("s").prompt_count, transcripts.get_row("s").updated) == (2, transcript_lines.time(2))
    assert transcripts.matches_index("s")
    assert not transcripts.index_transcript("s")
    assert transcripts.get_row("s").prompt_count == 2
    with transcripts.path("s").open("ab") as file:
        file.write(appended)
    assert transcripts.matches_index("s")
    transcripts.append("s", note("closed"))
    assert (transcripts.get_row("s").prompt_count, transcripts.get_row("s").reply_count) == (2, int(len(appended) > 10))
    assert transcripts.matches_index("s")


def test_a_session_whose_only_prompt_has_no_newline_is_listed(transcripts: IndexedTranscripts) -> None:
    transcripts.write("s", prompt_line("x", at=1)[:-1])
    assert transcripts.list_ids() == ["s"]
    transcripts.append("s", b"\n" + answer(at=2))
    assert transcripts.get_row("s").prompt_count == 1


def test_a_row_that_lacks_a_turn_disagrees_with_its_transcript(transcripts: IndexedTranscripts) -> None:
    transcripts.write("s", prompt_line("x", at=1), answer(at=1))
    with transcripts.path("s").open("ab") as file:
        file.write(prompt_line("y", at=2)[:-1])
        file.flush()
        assert transcripts.matches_index("s")  # its continuation may follow
        file.write(b"\n")
        file.flush()
        assert not transcripts.matches_index("s")
    transcripts.write("s", prompt_line("x", at=1), answer(at=1), prompt_line("y", at=2)[:-1])
    with transcripts.path("s").open("ab") as file:
        file.write(b"\n" + answer(at=2) + prompt_line("z", at=3))
    assert not transcripts.matches_index("s")


def test_a_torn_line_does_not_hide_the_next_one(transcripts: IndexedTranscripts) -> None:
    transcripts.write("s", prompt_line("x", at=1))
    transcripts.append("s", prompt_line("torn", at=2)[:-20])
    transcripts.append("s", b"\n" + prompt_line("whole", at=3))
    assert (transcripts.get_row("s").prompt_count, transcripts.get_row("s").updated) == (2, transcript_lines.time(3))


def test_a_shrunk_file_is_read_again(transcripts: IndexedTranscripts) -> None:
    transcripts.write("s", prompt_line("one", at=1), answer(at=1), prompt_line("two", at=2))
    os.truncate(transcripts.path("s"), transcripts.path("s").stat().st_size - len(prompt_line("two", at=2)))
    assert transcripts.index_transcript("s")
    assert (transcripts.get_row("s").prompt_count, transcripts.get_row("s").updated) == (1, transcript_lines.time(1))


def test_a_replaced_file_is_read_again(transcripts: IndexedTranscripts) -> None:
    transcripts.write("s", prompt_line("old", at=1))
    transcripts.path("s").rename(transcripts.path("aside"))
    transcripts.write("s", prompt_line("new", at=2), agent_chunk("a" * 500, at=3))
    assert (transcripts.get_row("s").title, transcripts.get_row("s").prompt_count) == ("new", 1)


def test_a_transcript_without_a_header_is_listed_by_its_messages(transcripts: IndexedTranscripts) -> None:
    transcripts.path("s").write_bytes(b"torn header\n" + note("opened", cwd="/x") + prompt_line("x", at=1, session="s"))
    transcripts.index_transcript("s")
    transcripts.append("s", prompt_line("y", at=2, session="s"))
    assert (transcripts.get_row("s").prompt_count, transcripts.get_row("s").cwd) == (2, "/x")


@pytest.mark.parametrize("data", [b"", b"\n", b"\0" * 500, b"garbage\n", note("opened", cwd="/x")])
def test_a_file_without_a_session_id_is_not_listed(transcripts: IndexedTranscripts, data: bytes) -> None:
    transcripts.path("s").write_bytes(data)
    assert transcripts.index_transcript("s")
    assert transcripts.list_ids() == []
    assert not transcripts.index.has_row(AGENT, file_name("s"))


def test_only_a_finished_turn_needs_no_mark(transcripts: IndexedTranscripts) -> None:
    assert transcripts.write("s")
    assert not transcripts.append("s", prompt_line("x"))
    assert not transcripts.index_transcript("s")
    assert not transcripts.append("s", agent_chunk("a"))
    assert transcripts.append("s", answer())
    assert transcripts.index_transcript("s")


# --- the file


def test_an_index_on_disk_keeps_its_rows(transcripts: IndexedTranscripts, tmp_path: Path) -> None:
    path = tmp_path / "index.sqlite3"
    first = IndexedTranscripts(tmp_path, path)
    states = [first.index.is_new]
    first.write_session("s")
    first.index.set_filled()
    states.append(first.index.is_new)
    assert states == [True, False]
    first.index.close()
    second = IndexedTranscripts(tmp_path, path)
    assert not second.index.is_new
    assert second.list_ids() == ["s"]
    second.index.close()


def test_an_index_that_was_never_filled_is_new(tmp_path: Path) -> None:
    path = tmp_path / "index.sqlite3"
    Index(path).close()
    again = Index(path)
    assert again.is_new
    again.close()


def test_an_index_in_memory_does_not_last() -> None:
    index = Index(None)
    assert index.is_new
    assert not index.is_on_disk
    index.close()


def test_a_dropped_index_is_closed(tmp_path: Path) -> None:
    """Python 3.13 and newer warn of a connection that SQLite has to close."""
    index = Index(tmp_path / "index.sqlite3")
    database = index._database
    del index
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        database.execute("SELECT 1")


def test_an_index_of_another_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "index.sqlite3"
    with sqlite3.connect(path) as database:
        database.execute(f"PRAGMA user_version = {SCHEMA + 1}")
    database.close()
    with pytest.raises(sqlite3.DatabaseError):
        Index(path)


def test_changes_made_together_are_seen_together(tmp_path: Path) -> None:
    path = tmp_path / "index.sqlite3"
    transcripts, other = IndexedTranscripts(tmp_path, path), IndexedTranscripts(tmp_path, path)
    with transcripts.index.transaction():
        transcripts.write_session("s")
        transcripts.write_session("t")
        assert other.list_ids() == []
        assert not transcripts.index.remove_rows(AGENT, file_name("gone"))
        assert not transcripts.index.erase_removed_rows()
    assert sorted(other.list_ids()) == ["s", "t"]
    with suppress(OSError), transcripts.index.transaction():
        transcripts.write_session("u")
        raise OSError
    assert sorted(other.list_ids()) == sorted(transcripts.list_ids()) == ["s", "t"]
    for opened in (transcripts, other):
        opened.index.close()


def test_a_removed_row_leaves_no_trace_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "index.sqlite3"
    transcripts = IndexedTranscripts(tmp_path, path)
    transcripts.write("s", prompt_line("a secret of the user"), answer())
    assert b"secret" in read_index_files(tmp_path)
    transcripts.index.remove_rows(AGENT, file_name("s"))
    assert transcripts.index.erase_removed_rows()
    assert b"secret" not in read_index_files(tmp_path)
    transcripts.index.close()


def test_a_row_moved_by_a_page_split_leaves_no_trace(tmp_path: Path) -> None:
    """SQLite's secure_delete overwrites what is deleted, but not the copies that a page split leaves."""
    chance, words = random.Random(0), list[str]()
    transcripts = IndexedTranscripts(tmp_path, tmp_path / "index.sqlite3")
    for number in range(200):
        words.append(f"{chance.getrandbits(80):020x}")
        transcripts.write(f"s{number}", prompt_line(words[-1]), info(_meta={"x": words[-1] * chance.randrange(40)}))
    for number in range(60):
        transcripts.index.remove_rows(AGENT, file_name(f"s{number}"))
        assert transcripts.index.erase_removed_rows()
        assert words[number].encode() not in read_index_files(tmp_path)
    transcripts.index.close()


def test_rewriting_the_index_writes_no_file_elsewhere(tmp_path: Path) -> None:
    transcripts, before, opened = (
        IndexedTranscripts(tmp_path, tmp_path / "index.sqlite3"),
        set(list_open_files()),
        set[str](),
    )
    for number in range(100):
        transcripts.write(f"s{number}", prompt_line("hello"), info(_meta={"x": "y" * 30_000}))
    transcripts.index._database.set_progress_handler(lambda: opened.update(list_open_files()), 10)
    assert transcripts.index.erase_removed_rows()
    transcripts.index.close()
    assert {path for path in opened - before if not path.startswith(str(tmp_path))} == set()


def read_index_files(folder: Path) -> bytes:
    """The index and its write-ahead log."""
    return b"".join(file.read_bytes() for file in folder.glob("index.sqlite3*"))


def test_an_index_whose_schema_is_no_utf8_is_damaged(tmp_path: Path) -> None:
    """SQLite quotes it in its message, which Python cannot decode then."""
    path = tmp_path / "index.sqlite3"
    Index(path).close()
    data = bytearray(path.read_bytes())
    at = data.index(b"CREATE TABLE transcripts") + len(b"CREATE TABLE ")
    data[at : at + 3] = b"\xc5(("
    path.write_bytes(data)
    with pytest.raises(sqlite3.DatabaseError):
        Index(path)


def test_an_index_that_orders_rows_otherwise_than_they_are_is_not_sound(tmp_path: Path) -> None:
    """Lists are read from what orders the rows: there, a flipped bit shows another session."""
    path = tmp_path / "index.sqlite3"
    transcripts = IndexedTranscripts(tmp_path, path)
    for number in range(40):
        transcripts.write_session(f"session-{number}", at=number)
    assert verify.is_sound(transcripts.index)
    whole = transcripts.list_ids()
    transcripts.index.close()
    data = path.read_bytes()
    wrong = 0
    for found in re.finditer(rb"session-17", data):
        path.write_bytes(data[: found.start()] + b"sesskon-17" + data[found.end() :])
        index = Index(path)
        is_wrong = [row.session_id for row in index.select_page(AGENT, None, None, transcript_lines.RUN).rows] != whole
        wrong += is_wrong
        assert not (is_wrong and verify.is_sound(index))
        index.close()
    assert wrong
