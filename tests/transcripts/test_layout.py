"""Where everything lies, and what is a transcript and what is not."""

from pathlib import Path

from acp_proxy.transcripts.layout import Layout


def test_everything_has_its_place(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    assert layout.transcript("agent-1", "s-2") == tmp_path / "transcripts" / "agent-1" / "s-2.jsonl"
    assert layout.index == tmp_path / "index.sqlite3"
    assert layout.format == tmp_path / "format"
    layout.mark("agent-1", "s-2")
    assert (tmp_path / "unindexed" / "agent-1" / "s-2").read_bytes() == b""


def test_transcripts_are_known_by_their_ending_and_the_journal_is_none(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    folder = layout.transcript("agent", "s").parent
    folder.mkdir(parents=True)
    for name in ("b.jsonl", "a.jsonl", "a~1.jsonl", "state.jsonl", "notes.txt", "a.jsonl.bak"):
        (folder / name).touch()
    assert layout.names("agent") == ["a", "a~1", "b"]
    assert layout.names("nobody") == []


def test_agents_are_folders(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    assert layout.agents() == []
    for name in ("b", "a"):
        layout.transcript(name, "s").parent.mkdir(parents=True)
    (tmp_path / "transcripts" / "file").touch()
    assert layout.agents() == ["a", "b"]
    assert layout.has_agent("a")
    assert not layout.has_agent("file")
    assert not layout.has_agent("c")


def test_marks_are_set_and_taken_away_as_often_as_one_likes(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    assert layout.marked("agent") == []
    layout.unmark("agent", "s")
    for _ in range(2):
        layout.mark("agent", "s")
    layout.mark("other", "t")
    assert layout.marked("agent") == ["s"]
    for _ in range(2):
        layout.unmark("agent", "s")
    assert layout.marked("agent") == []
    assert layout.marked("other") == ["t"]


def test_an_index_is_discarded_with_all_its_files(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    for name in ("index.sqlite3", "index.sqlite3-wal", "index.sqlite3-shm", "index.sqlite3.bak"):
        (tmp_path / name).touch()
    for _ in range(2):
        layout.discard_index()
    assert [path.name for path in tmp_path.iterdir()] == ["index.sqlite3.bak"]
