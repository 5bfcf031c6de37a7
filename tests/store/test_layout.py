"""The places of all files, and which files are transcripts."""

import os
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest

from acp_proxy.store.layout import Layout, link_or_rename
from acp_proxy.transcript.file_names import file_name


def test_every_file_has_its_place(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    assert layout.transcript_path("agent-1", "s-2") == tmp_path / "transcripts" / "agent-1" / "s-2.jsonl"
    assert layout.index_path == tmp_path / "index.sqlite3"
    assert layout.format == tmp_path / "format"
    layout.mark("agent-1", "s-2")
    assert (tmp_path / "unindexed" / "agent-1" / "s-2").read_bytes() == b""


def test_only_transcripts_count_as_transcripts(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    folder = layout.transcript_path("agent", "s").parent
    folder.mkdir(parents=True)
    a, b = file_name("a"), file_name("b")
    others = ("state.jsonl", "notes.txt", f"{a}.jsonl.bak", f"{a}-copy.jsonl", f"Copy of {a}.jsonl", "session.jsonl")
    for name in (f"{b}.jsonl", f"{a}.jsonl", f"{a}~1.jsonl", *others):
        (folder / name).touch()
    assert layout.list_names("agent") == [a, f"{a}~1", b]
    assert layout.list_names("nobody") == []


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has names that are not UTF-8")
def test_a_folder_whose_name_is_not_utf8_is_no_agents(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    for name in (b"b", b"caf\xe9", b"caf\xc3\xa9"):
        os.makedirs(os.path.join(os.fsencode(tmp_path), b"transcripts", name))
    assert layout.list_agents() == ["b", "caf\xe9"]


def test_every_folder_is_an_agent(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    assert layout.list_agents() == []
    for name in ("b", "a"):
        layout.transcript_path(name, "s").parent.mkdir(parents=True)
    (tmp_path / "transcripts" / "file").touch()
    assert layout.list_agents() == ["a", "b"]
    assert layout.has_agent("a")
    assert not layout.has_agent("file")
    assert not layout.has_agent("c")


def test_marks_can_be_set_and_removed_repeatedly(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    name, other = file_name("s"), file_name("t")
    assert layout.list_marked("agent") == []
    layout.unmark("agent", name, lambda: False)
    for _ in range(2):
        layout.mark("agent", name)
    layout.mark("other", other)
    assert layout.list_marked("agent") == [name]
    assert (layout.is_marked("agent", name), layout.is_marked("agent", other)) == (True, False)
    for is_needed in (True, True, False, False):
        layout.unmark("agent", name, lambda is_needed=is_needed: is_needed)  # type: ignore[misc]
        assert layout.list_marked("agent") == [name] * is_needed
    assert layout.list_marked("other") == [other]


def test_the_last_mark_is_listed_first(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    names = [file_name(session_id) for session_id in ("a", "b", "c")]
    for name, modified in zip(names, (2, 3, 1), strict=True):
        os.utime(layout.mark("agent", name), (modified, modified))
    assert layout.list_marked("agent") == [names[1], names[0], names[2]]


def test_a_mark_counts_until_its_removal_is_complete(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    name = file_name("s")
    layout.mark("agent", name)
    seen: list[list[str]] = []

    def look() -> bool:
        seen.append(layout.list_marked("agent"))
        assert not layout.is_marked("agent", name)
        layout.restore_marks("agent")
        seen.append(layout.list_marked("agent"))
        assert layout.is_marked("agent", name)
        return False

    layout.unmark("agent", name, look)
    assert seen == [[name], [name]]
    assert layout.list_marked("agent") == [name]  # another process looks at it once more


def test_foreign_files_beside_marks_are_ignored(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    layout.mark("agent", file_name("s"))
    (tmp_path / "unindexed" / "agent" / file_name("a directory")).mkdir()
    (tmp_path / "unindexed" / "agent" / "notes.txt").touch()
    (tmp_path / "unindexed" / "file").touch()
    assert layout.list_marked("agent") == [file_name("s")]
    assert layout.list_marked("file") == []


def test_an_index_is_discarded_with_its_log_files(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    for name in ("index.sqlite3", "index.sqlite3-wal", "index.sqlite3-shm", "index.sqlite3.bak"):
        (tmp_path / name).touch()
    for _ in range(2):
        layout.remove_index()
    assert [path.name for path in tmp_path.iterdir()] == ["index.sqlite3.bak"]


@pytest.mark.parametrize("is_open", [True, False])
def test_a_file_gets_a_free_name_only_even_if_somebody_has_it_open(tmp_path: Path, is_open: bool) -> None:
    source, target, taken = (tmp_path / name for name in ("source", "target", "taken"))
    source.write_text("words")
    taken.write_text("others")
    with source.open() if is_open else nullcontext():
        assert not link_or_rename(source, taken)
        assert link_or_rename(source, target)
    assert (target.read_text(), taken.read_text()) == ("words", "others")
