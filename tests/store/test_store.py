"""The store as a whole: its access, its agents, its sessions, and the paged list."""

import errno
import os
import re
import shutil
import stat
from pathlib import Path
from typing import Any

import pytest

from acp_proxy.errors import NewerFormat, StoreRefused
from acp_proxy.protocol import acp
from acp_proxy.sessions.completion_query import CompletionQuery
from acp_proxy.transcript import file_format
from acp_proxy.transcript.file_names import file_name
from acp_proxy.transcript.reader import TranscriptReader
from tests.store import transcript_lines
from tests.store.concurrent_writers import AGENT, run_together
from tests.store.transcript_lines import answer, prompt_line
from tests.stored import WholeStore, list_ids
from tests.tools.search.stored_searches import find_turns, store_turns

PAGE = 500


def read_prompts(reader: TranscriptReader) -> list[str | None]:
    """The texts of the prompts."""
    try:
        blocks = [
            acp.member(acp.member(line.entry.value, "params"), "prompt") for line in reader.read_lines() if line.entry
        ]
        return [acp.text(block[0], "text") for block in blocks if isinstance(block, list)]
    finally:
        reader.close()


# --- the directory


def test_a_store_may_have_a_long_path(tmp_path: Path) -> None:
    """Windows finds no file with such a path in its usual form."""
    root = tmp_path / ("a" * 150) / ("b" * 150)
    store = WholeStore(root)
    store_turns(store, "s", "hello")
    assert list_ids(store) == ["s"]
    assert find_turns(store, "hello") == [("s", [1])]
    assert [seen.selector for seen in CompletionQuery(root).find_sessions("")] == ["s"]
    store.delete(AGENT, "s", soft=False)
    assert find_turns(store, "hello") == []
    assert list_ids(store) == []


def test_every_file_is_private_under_an_open_umask(root: Path) -> None:
    before = os.umask(0)
    try:
        store = WholeStore(root)
        transcript_lines.store_lines(store, AGENT, "s")
        transcript_lines.store_lines(store, AGENT, "s")  # one is set aside
        transcript_lines.store_lines(store, AGENT, "deleted")
        assert list_ids(store)
        store.delete(AGENT, "deleted", soft=False)
        transcript_lines.store_lines(store, AGENT, "marked")
        modes = {path: stat.S_IMODE(path.lstat().st_mode) for path in [root, *root.rglob("*")]}
    finally:
        os.umask(before)
    assert {path.name for path in modes} >= {"format", "state.jsonl", "index.sqlite3", "index.sqlite3-wal"}
    wrong = {path: oct(mode) for path, mode in modes.items() if mode != (0o700 if path.is_dir() else 0o600)}
    assert wrong == {}


def test_a_store_that_others_can_write_to_is_refused(root: Path) -> None:
    WholeStore(root)
    root.chmod(0o777)
    with pytest.raises(StoreRefused, match="chmod 700"):
        WholeStore(root)


@pytest.mark.parametrize("name", ["transcripts", "unindexed"])
def test_a_file_in_place_of_a_directory_is_refused(root: Path, name: str) -> None:
    root.mkdir(0o700)
    (root / name).touch()
    with pytest.raises(StoreRefused, match=f"{name} is not a directory. Move it away"):
        WholeStore(root)


def test_a_store_without_access_is_refused_with_what_to_check(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(path: Path) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr("acp_proxy.transcript.file_access.check_inside", fail)
    with pytest.raises(StoreRefused, match="Check its permissions and those of the directories above"):
        WholeStore(root)


def test_a_directory_that_cannot_be_looked_at_for_now_is_neither_removed_nor_something_else(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = WholeStore(root)
    look = os.stat

    def fail(path: Any, **how: Any) -> os.stat_result:
        if Path(path) in (store.root, store.root / "transcripts"):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
        return look(path, **how)

    monkeypatch.setattr(os, "stat", fail)
    assert store.still_exists
    with pytest.raises(StoreRefused, match="cannot be used: ") as refused:
        WholeStore(root)
    assert refused.value.is_temporary


def test_a_store_below_a_file_is_refused(root: Path) -> None:
    root.touch()
    with pytest.raises(StoreRefused, match=f"{re.escape(str(root))} is not a directory|: Not a directory"):
        WholeStore(root / "store")


def test_an_unusable_file_in_the_store_is_named(root: Path) -> None:
    WholeStore(root)
    (root / "format").unlink()
    (root / "format").mkdir(0o700)
    with pytest.raises(StoreRefused, match=f"{re.escape(str(root / 'format'))} cannot be used: "):
        WholeStore(root)


def test_a_store_has_a_format_file(root: Path) -> None:
    WholeStore(root)
    assert (root / "format").read_text() == "1\n"
    WholeStore(root)
    assert (root / "format").read_text() == "1\n"


def cannot_be_written_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)


def test_a_read_only_store_can_only_be_read(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    transcript_lines.store_lines(WholeStore(root), AGENT, "s")
    shutil.rmtree(root / "unindexed")
    (root / "format").unlink()
    before = sorted(root.rglob("*"))
    cannot_be_written_to(monkeypatch)
    with pytest.raises(StoreRefused, match="cannot be written to"):
        WholeStore(root)
    store = WholeStore(root, create=False)
    assert "cannot be written to" in str(store.read_only_reason)
    assert list_ids(store) == ["s"]
    assert sorted(root.rglob("*")) == before


def test_a_read_only_store_is_checked_like_any_other(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    WholeStore(root)
    cannot_be_written_to(monkeypatch)
    (root / "transcripts" / AGENT).mkdir(mode=0o700)
    (root / "transcripts" / AGENT).chmod(0o770)
    with pytest.raises(StoreRefused, match="other users can write to"):
        WholeStore(root, create=False)
    (root / "transcripts" / AGENT).chmod(0o700)
    (root / "format").write_text("99\n")
    with pytest.raises(StoreRefused, match="newer"):
        WholeStore(root, create=False)


@pytest.mark.parametrize("version", ["2", "2\n", " 17 ", "9" * 30, "1" * 9000])
def test_a_store_of_a_newer_format_is_refused_and_unchanged(root: Path, version: str) -> None:
    WholeStore(root)
    (root / "format").write_text(version)
    with pytest.raises(StoreRefused, match="Upgrade"):
        WholeStore(root)
    assert (root / "format").read_text() == version


@pytest.mark.parametrize("text", [b"", b"1", b"0", b"garbage", b"\xff\xfe", b"\0", "²".encode(), "٢".encode(), b"-2"])
def test_an_unreadable_format_counts_as_ours(root: Path, text: bytes) -> None:
    transcript_lines.store_lines(WholeStore(root), AGENT, "s")
    (root / "format").write_bytes(text)
    assert list_ids(WholeStore(root)) == ["s"]


# --- agents


def test_the_users_name_for_an_agent_wins_over_its_own_and_its_command(store: WholeStore) -> None:
    assert store.choose_agent("mine", "told", "command") == file_name("mine")
    assert store.choose_agent(None, "told", "command") == file_name("told")
    assert store.choose_agent(None, None, "command") == file_name("command")
    assert store.choose_agent(None, "", "command") == file_name("command")


def test_choosing_an_agent_creates_nothing(store: WholeStore) -> None:
    store.choose_agent(None, "told", "command")
    assert store.list_agents() == []


@pytest.mark.parametrize("name", ["../../evil", "/etc", "..", "CON", "x" * 4000, "nul\0", "\ud800", "@scope/x"])
def test_any_name_stays_inside_the_store(store: WholeStore, root: Path, name: str) -> None:
    for agent in (store.choose_agent(name, None, "x"), store.choose_agent(None, name, "x")):
        transcript_lines.store_lines(store, agent, name)
        assert list_ids(store, agent) == [name]
        assert read_prompts(store.open_reader(agent, name)) == ["hello"]
    assert store.list_agents() == [agent]
    assert [path.name for path in root.parent.iterdir()] == [root.name]


def test_sessions_of_two_agents_with_equal_ids_are_separate(store: WholeStore) -> None:
    transcript_lines.store_lines(store, "one", "same", prompt_line("of one"), answer())
    transcript_lines.store_lines(store, "two", "same", prompt_line("of two"), answer())
    assert list_ids(store, "one") == list_ids(store, "two") == ["same"]
    assert [row.title for row in store.list_page("one", None, None, "").rows] == ["of one"]
    store.delete("one", "same", soft=False)
    assert list_ids(store, "one") == []
    assert list_ids(store, "two") == ["same"]
    assert read_prompts(store.open_reader("two", "same")) == ["of two"]
    assert {row.agent_folder for row in store.list_all()} == {"two"}


# --- beginning and continuing a session


def test_a_session_continues_in_its_transcript(store: WholeStore) -> None:
    transcript_lines.store_lines(store, AGENT, "s", prompt_line("one"), answer())
    transcript_lines.store_lines(store, AGENT, "s", prompt_line("two"), answer(), fresh=False)
    began = store.open_to_append(AGENT, transcript_lines.header("s"), is_new=False)
    transcript = store.reopen(AGENT, "s", began.identity)
    began.close()
    transcript.append(prompt_line("three"))
    transcript.close()
    assert read_prompts(store.open_reader(AGENT, "s")) == ["one", "two", "three"]


def test_a_deleted_session_is_not_reopened(store: WholeStore) -> None:
    began = store.open_to_append(AGENT, transcript_lines.header("s"), is_new=True)
    identity = began.identity
    began.close()
    store.delete(AGENT, "s", soft=False)
    transcript_lines.store_lines(store, AGENT, "s", at=1)  # by another window, with the same id
    with pytest.raises(FileNotFoundError):
        store.reopen(AGENT, "s", identity)
    store.delete(AGENT, "s", soft=False)
    with pytest.raises(FileNotFoundError):
        store.open_reader(AGENT, "s")


def test_a_new_session_of_a_used_id_sets_the_old_one_aside(store: WholeStore, root: Path) -> None:
    for at, word in enumerate(("first", "second", "third")):
        transcript_lines.store_lines(store, AGENT, "1", prompt_line(word, at=at), answer(at=at))
        if at == 0:
            assert list_ids(store) == ["1"]
    assert read_prompts(store.open_reader(AGENT, "1")) == ["third"]
    [row] = store.list_page(AGENT, None, None, transcript_lines.RUN).rows
    assert (row.title, row.prompt_count) == ("third", 1)
    rows = store.list_all()
    assert [(row.session_id, row.title) for row in rows] == [("1", "third"), ("1", "second"), ("1", "first")]
    assert [read_prompts(store.open_listed(row)) for row in rows] == [["third"], ["second"], ["first"]]
    name = file_name("1")
    assert [path.name for path in sorted(root.glob("transcripts/*/*"))] == [
        f"{name}.jsonl",
        f"{name}~1.jsonl",
        f"{name}~2.jsonl",
        "state.jsonl",
    ]


def test_a_new_session_without_a_prompt_hides_the_old_one_of_its_id(store: WholeStore) -> None:
    transcript_lines.store_lines(store, AGENT, "1", prompt_line("old"), answer())
    assert list_ids(store) == ["1"]
    store.open_to_append(AGENT, transcript_lines.header("1"), is_new=True).close()
    assert list_ids(store) == []
    assert [row.title for row in store.list_all()] == ["old"]


def test_an_empty_transcript_is_not_set_aside(store: WholeStore, root: Path) -> None:
    transcript_lines.store_lines(store, AGENT, "1")
    path = next(root.glob("transcripts/*/*.jsonl"))
    path.write_bytes(b"")
    transcript_lines.store_lines(store, AGENT, "1", prompt_line("new"), answer())
    assert [path.name for path in root.glob("transcripts/*/*")] == [path.name]
    assert read_prompts(store.open_reader(AGENT, "1")) == ["new"]


# Links.

INSIDE = [
    "transcripts",
    "unindexed",
    f"transcripts/{AGENT}",
    f"unindexed/{AGENT}",
    f"transcripts/{AGENT}/state.jsonl",
    "index.sqlite3",
    "index.sqlite3-wal",
    "index.sqlite3-shm",
    "index.sqlite3-journal",
    "format",
]


@pytest.mark.parametrize("name", INSIDE)
def test_a_link_in_a_store_is_refused_with_the_command_to_fix_it(
    store: WholeStore, root: Path, tmp_path: Path, name: str
) -> None:
    transcript_lines.store_lines(store, AGENT, "s")
    store.delete(AGENT, "s", soft=False)
    assert list_ids(store) == []
    path, outside = root / name, tmp_path / "outside"
    if path.exists():
        path.rename(outside)
    else:
        outside.write_bytes(b"precious")
    path.symlink_to(outside)
    before = contents(outside)
    with pytest.raises(StoreRefused, match=f"rm {path}"):
        WholeStore(root)
    assert contents(outside) == before
    path.unlink()
    WholeStore(root)


@pytest.mark.parametrize("name", ["transcripts", f"transcripts/{AGENT}"])
def test_a_link_created_while_the_store_is_open_is_not_followed(
    store: WholeStore, root: Path, tmp_path: Path, name: str
) -> None:
    transcript_lines.store_lines(store, AGENT, "s")
    path, outside = root / name, tmp_path / "outside"
    path.rename(outside)
    path.symlink_to(outside)
    before = contents(outside)
    with pytest.raises(OSError, match="is a link"):
        store.open_to_append(AGENT, transcript_lines.header("new"), is_new=True)
    with pytest.raises(OSError, match="is a link"):
        store.delete(AGENT, "s", soft=False)
    assert contents(outside) == before


def test_a_transcript_that_is_a_link_is_not_written_to_and_a_delete_removes_only_the_link(
    store: WholeStore, root: Path, tmp_path: Path
) -> None:
    transcript_lines.store_lines(store, AGENT, "s")
    [path] = root.glob("transcripts/*/s-*")
    outside = tmp_path / "outside"
    path.rename(outside)
    path.symlink_to(outside)
    before = contents(outside)
    with pytest.raises(OSError):
        store.open_to_append(AGENT, transcript_lines.header("s"), is_new=False)
    store.delete(AGENT, "s", soft=False)
    assert not path.is_symlink()
    assert contents(outside) == before


@pytest.mark.parametrize("name", ["transcripts", "unindexed", f"transcripts/{AGENT}"])
@pytest.mark.parametrize("mode", [0o770, 0o707])
def test_a_directory_in_a_store_that_others_can_write_to_is_refused(
    store: WholeStore, root: Path, name: str, mode: int
) -> None:
    transcript_lines.store_lines(store, AGENT, "s")
    (root / name).chmod(mode)
    with pytest.raises(StoreRefused, match=f"chmod 700 {root / name}"):
        WholeStore(root)


def test_a_directory_that_replaces_an_open_store_is_not_written_to(store: WholeStore, root: Path) -> None:
    transcript_lines.store_lines(store, AGENT, "s")
    root.rename(root.with_name("aside"))
    root.mkdir()
    root.chmod(0o777)
    with pytest.raises(PermissionError):
        store.open_to_append(AGENT, transcript_lines.header("new"), is_new=True)
    assert list(root.iterdir()) == []


def contents(path: Path) -> dict[Path, bytes]:
    """The bytes of a file, or of every file in a directory."""
    found = [path, *path.rglob("*")] if path.is_dir() else [path]
    return {one: one.read_bytes() if one.is_file() else b"" for one in found}


def test_new_sessions_with_the_same_id_in_two_processes_have_separate_transcripts(
    store: WholeStore, root: Path
) -> None:
    times = 60
    run_together(("renew", root, "one", str(times)), ("renew", root, "two", str(times)))
    paths = list(root.glob("transcripts/*/*-*.jsonl"))
    found = sorted([str(words) for words in read_prompts(TranscriptReader(path))] for path in paths)
    assert found == sorted([f"{name}-{at}.0", f"{name}-{at}.1"] for name in ("one", "two") for at in range(times))
    assert all(path.read_bytes().count(b"acp-transcript") == 1 for path in paths)


def test_a_session_is_reopened_on_a_disk_that_cannot_be_read(store: WholeStore, root: Path) -> None:
    def unreadable(*_: Any) -> bytes:
        raise OSError(errno.EIO, "made up")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "pread", unreadable, raising=False)
        patch.setattr(os, "read", unreadable)
        transcript = store.open_to_append(AGENT, transcript_lines.header("1"), is_new=True)
        identity = transcript.identity
        transcript.close()
    again = store.reopen(AGENT, "1", identity)
    assert again.identity == identity
    again.close()
    assert len(list(root.glob("transcripts/*/*.jsonl"))) == 1


def test_a_transcript_set_aside_during_the_reopening_is_found(store: WholeStore, root: Path) -> None:
    transcript = store.open_to_append(AGENT, transcript_lines.header("1"), is_new=True)
    identity, path = transcript.identity, transcript.path
    transcript.close()
    opened = os.open
    with pytest.MonkeyPatch.context() as patch:

        def moved(name: Any, *more: Any) -> int:
            if name == path and b"new" not in path.read_bytes():
                path.rename(path.with_stem(f"{path.stem}~1"))
                path.write_bytes(b"new\n")
            return opened(name, *more)

        patch.setattr(os, "open", moved)
        again = store.reopen(AGENT, "1", identity)
    assert again.path.stem == f"{path.stem}~1"
    again.close()


# --- known sessions, and unreadable ones


def test_a_session_is_known_without_its_transcript(store: WholeStore, root: Path) -> None:
    transcript_lines.store_lines(store, AGENT, "s")
    store.index_session(AGENT, "s")
    next(root.glob("transcripts/*/*.jsonl")).unlink()
    assert WholeStore(root).is_indexed(AGENT, "s")
    assert not store.is_indexed(AGENT, "unheard of")
    assert not store.is_indexed("another", "s")


def test_unreadable_transcripts_are_named_with_the_reason(store: WholeStore, root: Path) -> None:
    for session in ("newer", "a directory", "intact", "torn"):
        transcript_lines.store_lines(store, AGENT, session)
    paths = {
        session: root / "transcripts" / AGENT / f"{file_name(session)}.jsonl" for session in ("newer", "a directory")
    }
    paths["newer"].write_bytes(b'{"acp-transcript":2}\n')
    paths["a directory"].unlink()
    paths["a directory"].mkdir()
    found = {path: why for path, why, _ in store.find_unreadable()}
    assert set(found) == set(paths.values())
    assert found[paths["a directory"]] == "EISDIR"
    with pytest.raises(NewerFormat):
        store.open_reader(AGENT, "newer")


def test_a_sync_of_an_unknown_session_raises(store: WholeStore) -> None:
    transcript_lines.store_lines(store, AGENT, "s")
    store.fsync_transcript(AGENT, "s")
    with pytest.raises(FileNotFoundError):
        store.fsync_transcript(AGENT, "unknown")


# --- the list


def test_a_session_without_a_header_is_listed_once_it_has_a_directory(store: WholeStore, root: Path) -> None:
    transcript_lines.store_lines(store, AGENT, "s", prompt_line("x", session="s"), answer())
    path = next(root.glob("transcripts/*/*.jsonl"))
    path.write_bytes(b"\0" * 100 + path.read_bytes()[100:])
    assert list_ids(store) == []
    assert [(row.session_id, row.cwd) for row in store.list_all()] == [("s", None)]
    transcript = store.open_to_append(AGENT, transcript_lines.header("s", origin=file_format.PARTIAL), is_new=False)
    transcript.append(transcript_lines.note("opened", method="session/resume", cwd="/project"))
    transcript.close()
    store.mark(AGENT, "s")
    assert list_ids(store) == ["s"]
