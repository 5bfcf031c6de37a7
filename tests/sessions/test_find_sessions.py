"""Sessions as users select them: of all agents, newest first, or by the beginning of an id."""

import sqlite3
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from acp_proxy.sessions import command_store
from acp_proxy.sessions import find_sessions as newest_module
from acp_proxy.store import folder_changes, index_database
from acp_proxy.store.index_database import Index, ListedSession
from acp_proxy.transcript.file_names import file_name
from tests.store import transcript_lines
from tests.store.transcript_lines import store_lines
from tests.stored import WholeStore

AGENTS = ("claude", "codex", "vibe")


@pytest.fixture
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(newest_module, "_FIRST_PAGE_ROWS", 2)
    monkeypatch.setattr(newest_module, "PAGE_ROWS", 3)


@pytest.fixture
def selects(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of rows of each query."""
    seen: list[int] = []
    select = Index.select

    def counted(self: Index, query: str, values: list[object]) -> list[object]:
        found = select(self, query, values)
        seen.append(len(found))
        return found

    monkeypatch.setattr(Index, "select", counted)
    return seen


def fill(store: WholeStore, count: int, cwd: Callable[[int], str | None] = lambda _: "/project") -> list[str]:
    """Sessions of all agents in turn, some of the same time. Their ids, newest first."""
    for number in range(count):
        store_lines(store, AGENTS[number % 3], f"s{number:02}", at=number // 2, cwd=cwd(number))
    return [f"s{number:02}" for number in reversed(range(count))]


@pytest.mark.usefixtures("small_pages")
def test_sessions_of_all_agents_are_newest_first_across_pages(store: WholeStore) -> None:
    ids = fill(store, 25, lambda number: None if number % 4 == 0 else "/project")
    assert [row.session_id for row in store.list_newest()] == ids
    assert [row.session_id for row in store.list_newest(agent_words="CO")] == [id for id in ids if int(id[1:]) % 3 == 1]
    assert [row.session_id for row in store.list_newest(since=transcript_lines.time(10))] == ids[:5]
    assert list(store.list_newest(agent_words="nobody")) == []


@pytest.mark.usefixtures("small_pages")
@pytest.mark.parametrize("few", [1000, 0])
def test_a_few_archived_sessions_are_found_without_reading_the_others(
    store: WholeStore, monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    seen: list[ListedSession] = []

    def decode_row(row: tuple[Any, ...]) -> ListedSession:
        seen.append(index_database.decode_row(row))
        return seen[-1]

    monkeypatch.setattr(newest_module, "decode_row", decode_row)
    monkeypatch.setattr(command_store, "_MOST_LOOKED_UP", few)
    ids = fill(store, 25)
    for row in store.list_all()[-2:]:
        store.set_listed_archived(row, True)
    del seen[:]
    assert [row.session_id for row in store.list_newest(archived=True)] == ids[-2:]
    assert (len(seen) == 2) == (few > 0)
    assert [row.session_id for row in store.list_newest(archived=True, cwd="/project", until="2000")] == []
    assert [row.session_id for row in store.list_newest(archived=False)] == ids[:-2]


@pytest.mark.usefixtures("small_pages")
def test_a_directory_matches_in_any_spelling(store: WholeStore, tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    real.mkdir()
    link.symlink_to(real)
    ids = fill(store, 12, lambda number: str(real if number % 2 else f"{real}/inside"))
    inside = [id for id in ids if int(id[1:]) % 2]
    assert [row.session_id for row in store.list_newest(cwd=str(link))] == inside
    assert [row.session_id for row in store.list_newest(cwd=f"{real}/", since=transcript_lines.time(3))] == inside[:3]
    assert [row.session_id for row in store.list_newest(cwd=f"{real}/", until=transcript_lines.time(3))] == inside[3:]


@pytest.mark.usefixtures("small_pages")
@pytest.mark.parametrize(
    ("cwd", "found"),
    [
        ("/p", ["p", "p/a", "p/a/b"]),
        ("/p/a/", ["p/a", "p/a/b"]),
        ("/", ["p", "p/a", "p/a/b", "p a", "pa"]),
        ("C:/Users/me", ["C:\\Users\\me", "c:/users/ME/deep/er"]),
        ("c:\\", ["C:\\Users\\me", "c:/users/ME/deep/er", "C:\\Users\\me2"]),
    ],
)
def test_directories_below_count_if_wanted(store: WholeStore, cwd: str, found: list[str]) -> None:
    unix = ["p", "p/a", "p/a/b", "p a", "pa"]
    windows = ["C:\\Users\\me", "c:/users/ME/deep/er", "C:\\Users\\me2"]
    for at, path in enumerate([*unix, *windows]):
        store_lines(store, "claude", path, at=-at, cwd=path if path in windows else f"/{path}")
    assert [row.session_id for row in store.list_newest(cwd=cwd, includes_below=True)] == found


def test_a_directory_below_a_link_is_found_through_the_link_and_its_target(store: WholeStore, tmp_path: Path) -> None:
    (tmp_path / "real" / "inside").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    store_lines(store, "claude", "s", cwd=str(tmp_path / "link" / "inside"))
    for cwd in (tmp_path / "link", tmp_path / "real"):
        assert [row.session_id for row in store.list_newest(cwd=str(cwd), includes_below=True)] == ["s"]
    (tmp_path / "link").unlink()
    assert [row.session_id for row in store.list_newest(cwd=str(tmp_path / "link"), includes_below=True)] == ["s"]


def test_reading_the_newest_sessions_reads_few_rows(
    store: WholeStore, selects: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder_changes, "_GRANULE_SECONDS", -1.0)  # lists trust the times of folders at once
    for number in range(150):
        store_lines(store, "claude", f"s{number:03}", at=number)
    assert len(store.list_all()) == 150
    selects.clear()
    assert [row.session_id for row in islice(store.list_newest(), 2)] == ["s149", "s148"]
    assert sum(selects) < 100


@pytest.mark.usefixtures("small_pages")
def test_new_sessions_during_a_list_hide_or_repeat_no_others(store: WholeStore) -> None:
    ids = fill(store, 12)
    rows = store.list_newest()
    before = [next(rows).session_id for _ in range(3)]
    store_lines(store, "claude", "new", at=100)
    store_lines(store, "claude", ids[0], transcript_lines.prompt_line("again", at=101), at=101, fresh=False)
    assert before + [row.session_id for row in rows] == ids


@pytest.mark.usefixtures("small_pages")
def test_a_locked_index_is_rebuilt_in_memory_once_for_all_pages(
    store: WholeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = fill(store, 12)
    monkeypatch.setattr(index_database, "_BUSY_MS", 50)
    assert store.list_all()
    made: list[Path | None] = []
    init = Index.__init__

    def counted(self: Index, path: Path | None) -> None:
        made.append(path)
        init(self, path)

    monkeypatch.setattr(Index, "__init__", counted)
    other = sqlite3.connect(store.root / "index.sqlite3", isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    store_lines(store, "claude", "new", at=100)
    assert [row.session_id for row in WholeStore(store.root).list_newest()] == ["new", *ids]
    assert made.count(None) == 1
    other.execute("ROLLBACK")
    other.close()


def test_a_complete_id_wins_over_a_longer_one(store: WholeStore) -> None:
    for at, session in enumerate(("abc", "abcd", "abd", "b", "aé", "a\udcff")):
        store_lines(store, "claude", session, at=at)
    store_lines(store, "codex", "abc", at=9)
    store_lines(store, "codex", "abx", transcript_lines.agent_chunk("never prompted"))

    def meant(beginning: str, agent: str = "") -> list[str]:
        return [row.session_id for row in store.find_named(beginning, agent)]

    assert meant("abc") == ["abc", "abc"]
    assert meant("abc", "claude") == ["abc"]
    assert meant("ab") == ["abc", "abd", "abcd", "abc"]
    assert meant("abcd") == ["abcd"]
    assert meant("aé") == ["aé"]
    assert meant("a\udcff") == ["a\udcff"]
    assert meant("abx") == meant("c") == []


def test_an_older_session_of_an_id_is_named_by_its_number_or_transcript(store: WholeStore) -> None:
    for at, session in enumerate(("abc", "abc", "abd~1", "abc~1~1", "abc")):
        store_lines(store, "claude", session, at=at)

    def meant(given: str) -> list[str]:
        return [row.updated for row in store.find_named(given)]

    assert meant("abc") == [transcript_lines.time(4)]
    assert meant("abc~1") == meant("ab~1") == meant(f"{file_name('abc')}~1") == [transcript_lines.time(0)]
    assert meant("abc~2") == meant(f"{file_name('abc')}~2") == [transcript_lines.time(1)]
    assert meant("abd~1") == meant("abd") == meant(file_name("abd~1")) == [transcript_lines.time(2)]
    assert meant("abc~1~1") == [transcript_lines.time(3)]
    assert meant("abc~3") == meant("~1") == meant(file_name("abc")[:8]) == []


def test_a_former_id_is_not_taken_as_a_prefix(store: WholeStore) -> None:
    for at, session in enumerate(("s1", "s10", "s1", "s2", "s20")):
        store_lines(store, "claude", session, at=at)

    def meant(given: str) -> list[str]:
        return [row.selector for row in store.find_named(given)]

    assert meant("s1") == ["s1"]
    store.delete("claude", "s1", soft=False)
    assert meant("s1") == []
    assert meant("s1~1") == ["s1~1"]
    assert meant("s1~2") == []
    store.delete("claude", "s2", soft=True)
    assert meant("s2") == []
    store_lines(store, "claude", "s20", transcript_lines.agent_chunk("never prompted"))
    assert meant("s20") == []
    assert meant("s20~") == []
    assert sorted(meant("s")) == ["s10"]


def test_ids_with_the_same_beginning_are_found(store: WholeStore) -> None:
    for session in ("12345678-a", "12345678-b", "12345679", "1234567", "éééééééé-1", "éééééééé-2"):
        store_lines(store, "claude", session)
    store_lines(store, "codex", "12345678-b")
    assert sorted(store.find_ids_alike(["12345678-a"], 8)) == ["12345678-a", "12345678-b"]
    assert store.find_ids_alike(["1234567"], 8) == ["1234567"]
    assert sorted(store.find_ids_alike(["éééééééé-1"], 8)) == ["éééééééé-1", "éééééééé-2"]
    assert store.find_ids_alike([], 8) == []
