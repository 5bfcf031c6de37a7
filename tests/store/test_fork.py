"""A fork begins with a copy of its parent; it is complete or absent."""

import errno
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from acp_proxy.redaction.masking import Masking
from acp_proxy.store import compress as store_compress
from acp_proxy.store import fork, old_forks, open_session
from acp_proxy.store.compress import CompressionOptions
from acp_proxy.store.journal import DELETED, Event
from acp_proxy.store.layout import Layout, lock_folder
from acp_proxy.tools.maintenance.verify import UNFINISHED_FORK, verify_store
from acp_proxy.tools.redact.redact_files import redact_stored
from acp_proxy.transcript import file_access, file_format
from acp_proxy.transcript.file_access import lock
from acp_proxy.transcript.file_names import file_name, fork_path
from acp_proxy.transcript.reader import TranscriptReader
from acp_proxy.transcript.rewinds import Point
from tests.store import killed_forks, transcript_lines
from tests.store.concurrent_writers import AGENT, ROOT
from tests.store.session_forks import (
    begin_fork,
    fork_session,
    is_complete,
    leave_unfinished_fork,
    read_header,
    read_prompts,
)
from tests.store.transcript_lines import answer, prompt_line
from tests.stored import WholeStore, list_ids

TOKEN = "ghp_" + "a1B2" * 9


def test_a_fork_has_the_parents_entries_and_its_own_header(store: WholeStore) -> None:
    transcript_lines.store_lines(store, AGENT, "p", prompt_line("one", session="p"), answer())
    fork_session(store, "p", "f", prompt_line("two", session="f"), answer())
    assert read_prompts(store, "f") == ["one", "two"]
    assert read_prompts(store, "p") == ["one"]
    header = read_header(store, "f")
    assert (header.session_id, header.cwd, header.created_at) == ("f", "/elsewhere", transcript_lines.time(1))
    assert (header.origin, header.forked_from) == (file_format.RECORDED, ["p"])


@pytest.mark.parametrize(("gone", "left"), [("p", "f"), ("f", "p")])
def test_deleting_a_fork_or_its_parent_keeps_the_other(store: WholeStore, gone: str, left: str) -> None:
    transcript_lines.store_lines(store, AGENT, "p", prompt_line("one", session="p"), answer())
    fork_session(store, "p", "f")
    store.delete(AGENT, gone, soft=False)
    assert read_prompts(store, left) == ["one"]
    with pytest.raises(FileNotFoundError):
        store.open_reader(AGENT, gone)
    assert [row.session_id for row in store.list_page(AGENT, None, None, "").rows] == [left]


def test_a_fork_of_a_fork_names_all_its_parents(store: WholeStore) -> None:
    transcript_lines.store_lines(store, AGENT, "p", prompt_line("one", session="p"), answer())
    fork_session(store, "p", "f", prompt_line("two", session="f"), answer())
    fork_session(store, "f", "g", prompt_line("three", session="g"), answer())
    assert read_prompts(store, "g") == ["one", "two", "three"]
    assert read_header(store, "g").forked_from == ["f", "p"]
    assert is_complete(store, "g")


@pytest.mark.parametrize("origin", [file_format.RECORDED, file_format.IMPORTED, file_format.PARTIAL])
def test_a_fork_is_as_complete_as_its_parent(store: WholeStore, origin: str) -> None:
    transcript = store.open_to_append(AGENT, transcript_lines.header("p", origin=origin), is_new=False)
    transcript.append(prompt_line("one", session="p") + answer())
    transcript.close()
    fork_session(store, "p", "f")
    assert read_header(store, "f").origin == origin
    assert is_complete(store, "f") is (origin == file_format.RECORDED)


def test_a_fork_of_a_parent_with_a_gap_is_incomplete(store: WholeStore) -> None:
    transcript_lines.store_lines(
        store, AGENT, "p", prompt_line("one", session="p"), transcript_lines.note("gap", since="x", reason="ENOSPC")
    )
    fork_session(store, "p", "f")
    assert not is_complete(store, "f")


def test_a_fork_of_an_unknown_parent_is_partial(store: WholeStore) -> None:
    fork_session(store, "unknown", "f", prompt_line("two", session="f"), answer())
    header = read_header(store, "f")
    assert (header.origin, header.forked_from, read_prompts(store, "f")) == (file_format.PARTIAL, [], ["two"])


def test_a_fork_revives_a_deleted_id(store: WholeStore) -> None:
    transcript_lines.store_lines(store, AGENT, "p", prompt_line("one", session="p"), answer())
    transcript_lines.store_lines(store, AGENT, "f", prompt_line("old", session="f"), answer())
    store.delete(AGENT, "f", soft=False)
    fork_session(store, "p", "f")
    assert "f" not in store.read_deleted(AGENT)
    assert read_prompts(store, "f") == ["one"]


def test_a_fork_with_a_used_id_sets_the_older_session_aside(store: WholeStore) -> None:
    transcript_lines.store_lines(store, AGENT, "p", prompt_line("one", session="p"), answer())
    transcript_lines.store_lines(store, AGENT, "f", prompt_line("old", session="f"), answer())
    fork_session(store, "p", "f")
    assert read_prompts(store, "f") == ["one"]
    assert len(list(store.root.glob("transcripts/*/*-*.jsonl"))) == 3


def names(store: WholeStore) -> list[str]:
    return sorted(path.name for path in (store.root / "transcripts" / AGENT).iterdir() if "state" not in path.name)


@pytest.mark.parametrize("size", [0, 1, 4096, 3_000_000])
def test_a_fork_has_the_parents_exact_bytes(parent: WholeStore, size: int) -> None:
    transcript_lines.store_lines(parent, AGENT, "p", prompt_line("x" * size, session="p"), fresh=False)
    [path] = parent.root.glob("transcripts/*/p-*.jsonl")
    entries = path.read_bytes().partition(b"\n")[2]
    transcript = begin_fork(parent)
    transcript.append(prompt_line("two", session="f"))
    transcript.close()
    _, copied, own = transcript.path.read_bytes().partition(entries)
    assert (copied, own) == (entries, prompt_line("two", session="f"))
    assert names(parent) == [transcript.path.name, path.name]


def test_entries_added_to_the_parent_later_are_not_in_the_fork(parent: WholeStore) -> None:
    transcript = begin_fork(parent)
    transcript_lines.store_lines(parent, AGENT, "p", prompt_line("later", session="p"), answer(), fresh=False)
    assert read_prompts(parent, "f") == ["one"]
    transcript.close()


def say_three_turns(store: WholeStore) -> None:
    """A parent of three turns, in which the agent says ``a``, ``b`` and ``c``."""
    for number, id in enumerate("abc"):
        content = {"type": "text", "text": "x" * 70_000}
        update = transcript_lines.update("agent_message_chunk", session="p", content=content, messageId=id)
        transcript_lines.store_lines(
            store, AGENT, "p", prompt_line(id, session="p"), update, answer(), fresh=not number
        )


@pytest.mark.parametrize("is_compressed", [False, True])
def test_a_fork_at_a_message_has_what_came_up_to_it(store: WholeStore, *, is_compressed: bool) -> None:
    say_three_turns(store)
    if is_compressed:
        store.index_session(AGENT, "p")
        assert store.compress(AGENT, file_name("p"), CompressionOptions(min_size=1, older_than=0.0)) is not None
    begin_fork(store, until=fork.find_end(store.layout, AGENT, file_name("p"), Point("b"))).close()
    assert read_prompts(store, "f") == ["a", "b"]
    assert fork.find_end(store.layout, AGENT, file_name("p"), Point("nobody")) is None


def test_a_fork_begun_late_has_the_entries_of_the_time_of_the_fork(parent: WholeStore) -> None:
    until = fork.find_end(parent.layout, AGENT, file_name("p"), None)
    transcript_lines.store_lines(parent, AGENT, "p", prompt_line("later", session="p"), answer(), fresh=False)
    begin_fork(parent, until=until).close()
    assert read_prompts(parent, "f") == ["one"]


def test_a_torn_line_of_the_parent_ends_before_the_forks_entries(parent: WholeStore) -> None:
    [path] = parent.root.glob("transcripts/*/p-*.jsonl")
    with path.open("ab") as file:
        file.write(b'{"at":"torn')
    transcript = begin_fork(parent)
    transcript.append(prompt_line("two", session="f"))
    assert read_prompts(parent, "f") == ["one", "two"]
    assert transcript.path.read_bytes().endswith(b'{"at":"torn\n' + prompt_line("two", session="f"))
    transcript.close()


def test_a_secret_that_is_masked_in_the_parent_is_masked_in_the_fork(parent: WholeStore) -> None:
    transcript_lines.store_lines(parent, AGENT, "p", prompt_line(f"it is {TOKEN}", session="p"), answer(), fresh=False)
    [path] = parent.find_redactable(None)
    assert redact_stored(parent, path, Masking(), dry_run=False)
    transcript = begin_fork(parent)
    assert TOKEN.encode() not in transcript.path.read_bytes()
    transcript.close()


def test_forks_with_the_same_id_in_two_processes_are_separate(
    parent: WholeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    create = fork.create

    def create_after_another(*args: Any) -> bool:
        monkeypatch.setattr(fork, "create", create)
        other = begin_fork(WholeStore(parent.root))
        other.append(prompt_line("two", session="f") + answer())
        other.close()
        return create(*args)

    monkeypatch.setattr(fork, "create", create_after_another)
    transcript = begin_fork(parent)
    transcript.append(prompt_line("three", session="f") + answer())
    assert read_prompts(parent, "f") == ["one", "three"]
    assert b'"two"' in transcript.path.with_stem(transcript.path.stem + "~1").read_bytes()
    transcript.close()


def test_a_fork_that_another_process_sets_aside_at_once_begins_again(
    parent: WholeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    create = fork.create

    def create_before_another(*args: Any) -> bool:
        monkeypatch.setattr(fork, "create", create)
        is_created = create(*args)
        path = parent.layout.transcript_path(AGENT, file_name("f"))
        open_session._set_aside(parent.layout, AGENT, "f", path)
        return is_created

    monkeypatch.setattr(fork, "create", create_before_another)
    begin_fork(parent).close()
    assert read_prompts(parent, "f") == ["one"]


@pytest.mark.parametrize("call", ["write", "close"])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
def test_a_copy_that_fails_leaves_nothing(
    parent: WholeStore, monkeypatch: pytest.MonkeyPatch, call: str, number: int
) -> None:
    before = names(parent)
    with monkeypatch.context() as failing:
        if call == "close":
            failing.setattr(fork, "_write", close_first(number))
        else:
            failing.setattr(os, "pwrite", fail_after(100, number), raising=False)
        with pytest.raises(OSError) as failed:
            begin_fork(parent)
        assert failed.value.errno == (errno.EBADF if call == "close" else number)
    assert names(parent) == before
    begin_fork(parent).close()
    assert read_prompts(parent, "f") == ["one"]


def test_a_parent_that_becomes_shorter_meanwhile_is_copied_by_the_next_attempt(
    parent: WholeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    transcript_lines.store_lines(parent, AGENT, "p", prompt_line("lost", session="p"), fresh=False)
    [path] = parent.root.glob("transcripts/*/p-*.jsonl")
    until, copy = fork.find_end(parent.layout, AGENT, file_name("p"), None), TranscriptReader.copy_entries

    def copy_truncated(reader: TranscriptReader, *args: int) -> int:
        os.truncate(path, path.read_bytes().index(b'"lost"'))
        return copy(reader, *args)

    with monkeypatch.context() as truncating:
        truncating.setattr(TranscriptReader, "copy_entries", copy_truncated)
        with pytest.raises(OSError, match="shorter"):
            begin_fork(parent, until=until)
    begin_fork(parent, until=until).close()
    assert read_prompts(parent, "f") == ["one"]


def test_a_fork_is_complete_if_the_copys_own_name_cannot_be_removed(
    parent: WholeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse_new(path: Path, *, missing_ok: bool = False) -> None:
        if path.name.endswith(".new"):
            raise OSError(errno.EIO, "refused")
        unlink(path, missing_ok=missing_ok)

    unlink = Path.unlink
    with monkeypatch.context() as failing:
        failing.setattr(Path, "unlink", refuse_new)
        transcript = begin_fork(parent)
    transcript.append(prompt_line("two", session="f") + answer())
    assert read_prompts(parent, "f") == ["one", "two"]
    transcript.close()
    assert any(name.endswith(".new") for name in names(parent))
    store_compress.remove_leftovers(parent.layout)
    assert not any(name.endswith(".new") for name in names(parent))
    assert read_prompts(parent, "f") == ["one", "two"]


def test_without_hard_links_a_fork_is_renamed(parent: WholeStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "link", refuse)
    begin_fork(parent).close()
    assert read_prompts(parent, "f") == ["one"]
    assert len(names(parent)) == 2


def test_a_kill_at_any_moment_leaves_a_whole_fork_or_none(tmp_path: Path) -> None:
    last = None
    for last in killed_forks.kill_while_forking(tmp_path):
        store = WholeStore(last.root)
        assert sorted(list_ids(store)) in (["p"], ["f", "p"])
        store_compress.remove_leftovers(store.layout)
        assert not list(last.root.glob("transcripts/*/*.new"))
        assert read_prompts(store, "p") == killed_forks.PARENTS
        try:
            told = read_prompts(store, "f")
        except FileNotFoundError:
            told = []
        assert told in ([], *(killed_forks.PARENTS + killed_forks.OWN[:count] for count in range(3)))
        assert told[len(killed_forks.PARENTS) :][: len(last.written)] == last.written
        assert not told or is_complete(store, "f")
    assert last is not None
    assert last.got_through


def refuse(*_: object) -> int:
    raise OSError(errno.EXDEV, "not here")


def fail_after(size: int, number: int) -> Any:
    """A ``pwrite`` that fails after so many bytes."""
    pwrite = os.pwrite

    def fail(fd: int, data: bytes, at: int) -> int:
        if at >= size:
            raise OSError(number, os.strerror(number))
        return pwrite(fd, data, at)

    return fail


def close_first(number: int) -> Any:
    """Writes nothing and closes the file, so that closing it fails."""
    return lambda out, *_: os.close(out)


# --- forks that older versions began


@pytest.fixture
def unfinished(store: WholeStore) -> WholeStore:
    """A store as an older version left it: "p", its fork "f", and "g", a fork of that; nothing was copied."""
    folder = store.root / "transcripts" / AGENT
    store.layout.make_folder(folder)
    for path in (ROOT / "fixtures" / "stores" / "unfinished-forks").glob("*.jsonl*"):
        shutil.copy(path, folder)
    return store


def test_a_load_finishes_a_fork_and_the_fork_that_it_was_made_from(unfinished: WholeStore) -> None:
    assert read_prompts(unfinished, "g") == ["one", "two", "three"]
    assert read_prompts(unfinished, "f") == ["one", "two"]
    assert is_complete(unfinished, "g")
    assert read_header(unfinished, "g").forked_from == ["f", "p"]
    assert not list(unfinished.root.glob("transcripts/*/*.fork"))


def test_a_list_finishes_a_fork_after_a_crash(parent: WholeStore) -> None:
    path = leave_unfinished_fork(parent)
    assert not path.exists()
    assert sorted(list_ids(WholeStore(parent.root))) == ["f", "p"]
    assert read_prompts(parent, "f") == ["one", "two"]
    assert is_complete(parent, "f")


def test_a_fork_that_an_older_version_still_writes_to_gets_its_entries(parent: WholeStore) -> None:
    path = leave_unfinished_fork(parent)
    with os.fdopen(file_access.open_private(fork_path(path), os.O_WRONLY | os.O_APPEND), "ab") as other:
        assert read_prompts(parent, "f") == ["one", "two"]
        other.write(prompt_line("three", session="f"))
    assert read_prompts(parent, "f") == ["one", "two", "three"]


def test_a_fork_is_finished_before_it_is_continued(parent: WholeStore) -> None:
    leave_unfinished_fork(parent)
    transcript_lines.store_lines(parent, AGENT, "f", prompt_line("three", session="f"), fresh=False)
    assert read_prompts(parent, "f") == ["one", "two", "three"]


def test_a_fork_is_finished_before_it_is_forked(parent: WholeStore) -> None:
    message = transcript_lines.update(
        "agent_message_chunk", session="f", content={"type": "text", "text": "x"}, messageId="m"
    )
    path = leave_unfinished_fork(parent, "f", message, prompt_line("three", session="f"))
    end = fork.find_end(parent.layout, AGENT, file_name("f"), Point("m"))
    assert end is not None
    assert path.read_bytes()[:end].endswith(message)
    begin_fork(parent, "f", "g").close()
    assert read_prompts(parent, "g") == ["one", "three"]


def test_without_its_parent_an_unfinished_fork_has_only_a_gap(parent: WholeStore) -> None:
    secret = prompt_line("secret", session="p")
    transcript_lines.store_lines(parent, AGENT, "p", secret, answer(), fresh=False)
    path = leave_unfinished_fork(parent)
    with fork_path(path).open("r+b") as file:  # half of the parent was copied
        data = file.read()
        file.seek(data.index(b"\0"))
        file.write(secret)
    parent.delete(AGENT, "p", soft=False)
    assert sorted(list_ids(WholeStore(parent.root))) == ["f"]
    assert read_prompts(parent, "f") == ["two"]
    assert not is_complete(parent, "f")
    assert b"secret" not in path.read_bytes()
    assert not [finding for finding in verify_store(parent) if finding.is_damage]


def test_a_later_session_of_the_parents_id_is_not_the_parent(parent: WholeStore) -> None:
    leave_unfinished_fork(parent)
    parent.delete(AGENT, "p", soft=False)
    transcript_lines.store_lines(parent, AGENT, "p", prompt_line("another", session="p"), answer(), at=9)
    list_ids(parent)
    assert read_prompts(parent, "f") == ["two"]


def test_a_parent_set_aside_is_still_found(parent: WholeStore) -> None:
    leave_unfinished_fork(parent)
    transcript_lines.store_lines(parent, AGENT, "p", prompt_line("another", session="p"), answer(), at=9)
    list_ids(parent)
    assert read_prompts(parent, "f") == ["one", "two"]


def test_a_half_deleted_parent_is_not_copied(parent: WholeStore) -> None:
    leave_unfinished_fork(parent)
    layout = Layout(parent.root)
    layout.get_journal(AGENT).append(Event(DELETED, "p"), transcript_lines.time(5))
    old_forks.complete_old_fork(layout, AGENT, file_name("f"))
    assert read_prompts(parent, "f") == ["two"]


def test_a_redaction_finishes_forks_first(parent: WholeStore) -> None:
    path = leave_unfinished_fork(parent, "f", prompt_line(f"it is {TOKEN}", session="f"))
    assert path in parent.find_redactable(None)
    assert redact_stored(parent, path, Masking(), dry_run=False)
    assert TOKEN.encode() not in path.read_bytes()
    assert len(read_prompts(parent, "f")) == 2


def test_a_list_does_not_wait_until_a_fork_can_be_finished(parent: WholeStore) -> None:
    path = leave_unfinished_fork(parent)
    with lock_folder(path.parent):
        assert sorted(list_ids(parent)) == ["p"]
        with pytest.raises(BlockingIOError):
            old_forks.complete_old_fork(Layout(parent.root), AGENT, path.stem, wait=False)
    assert sorted(list_ids(parent)) == ["f", "p"]


def test_a_full_disk_while_a_fork_is_finished_loses_no_entry(
    parent: WholeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave_unfinished_fork(parent)
    with monkeypatch.context() as failing:
        failing.setattr(os, "pwrite", fail_after(0, errno.ENOSPC))
        with pytest.raises(OSError, match="space"):
            parent.open_reader(AGENT, "f")
    assert read_prompts(parent, "f") == ["one", "two"]


def test_a_finished_fork_ignores_leftovers_of_a_crash(parent: WholeStore) -> None:
    path = leave_unfinished_fork(parent)
    list_ids(parent)
    os.link(path, fork_path(path))
    parent.delete(AGENT, "p", soft=False)
    old_forks.complete_old_fork(parent.layout, AGENT, path.stem)
    assert read_prompts(parent, "f") == ["one", "two"]
    assert not fork_path(path).exists()


@pytest.mark.parametrize("soft", [True, False])
def test_an_unfinished_fork_can_be_deleted(parent: WholeStore, *, soft: bool) -> None:
    leave_unfinished_fork(parent)
    parent.delete(AGENT, "f", soft=soft)
    assert not list(parent.root.glob("transcripts/*/f-*"))
    for deleted in parent.list_deleted():
        parent.restore(deleted)
    assert sorted(list_ids(parent)) == (["f", "p"] if soft else ["p"])


def test_a_new_session_of_an_unfinished_forks_id_sets_the_finished_fork_aside(parent: WholeStore) -> None:
    path = leave_unfinished_fork(parent)
    transcript_lines.store_lines(parent, AGENT, "f", prompt_line("new", session="f"), answer(), at=5)
    assert read_prompts(parent, "f") == ["new"]
    aside = path.with_stem(path.stem + "~1").read_bytes()
    assert aside.count(b'"session/prompt"') == 4  # two prompts, two answers


@pytest.mark.parametrize("size", [0, 20, 400])
def test_a_half_written_head_is_removed(parent: WholeStore, size: int) -> None:
    path = leave_unfinished_fork(parent)
    os.truncate(fork_path(path), min(size, fork_path(path).read_bytes().index(b"\0") - 1))
    assert sorted(list_ids(parent)) == ["p"]
    assert not list(path.parent.glob("f-*"))


def test_a_head_that_is_being_written_is_kept(parent: WholeStore) -> None:
    path = leave_unfinished_fork(parent)
    os.truncate(fork_path(path), 20)
    with fork_path(path).open("rb") as making:
        assert lock(making.fileno())
        with pytest.raises(BlockingIOError):
            old_forks.complete_old_fork(parent.layout, AGENT, path.stem)
    assert fork_path(path).exists()


def test_a_fork_that_names_itself_as_parent_hides_no_other_session(parent: WholeStore) -> None:
    path = leave_unfinished_fork(parent)
    lines = fork_path(path).read_bytes()
    fork_path(path).write_bytes(lines.replace(file_name("p").encode(), path.stem.encode()))
    assert sorted(list_ids(parent)) == ["f", "p"]
    assert read_prompts(parent, "f") == ["two"]


def test_verify_reports_an_unfinished_fork_but_no_damage(parent: WholeStore) -> None:
    path = leave_unfinished_fork(parent)
    assert [(finding.path, finding.kind, finding.is_damage) for finding in verify_store(parent)] == [
        (fork_path(path), UNFINISHED_FORK, False)
    ]
    list_ids(parent)
    assert list(verify_store(parent)) == []


def test_a_read_only_store_finishes_no_fork(parent: WholeStore) -> None:
    path = leave_unfinished_fork(parent)
    layout = Layout(parent.root)
    layout.is_read_only = True
    old_forks.complete_old_fork(layout, AGENT, path.stem)
    assert fork_path(path).exists()
