"""The next process finishes a fork after a crash, and restores nothing that was deleted or masked."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from acp_proxy.redaction.masking import Masking
from acp_proxy.store import fork
from acp_proxy.store.journal import DELETED
from acp_proxy.store.layout import Layout
from acp_proxy.tools.maintenance.verify import UNFINISHED_FORK, verify_store
from acp_proxy.tools.redact.redact_files import redact_stored
from acp_proxy.transcript import private_files
from acp_proxy.transcript.file_names import file_name, forked
from acp_proxy.transcript.private_files import alone_in, lock
from acp_proxy.transcript.reader import Unfinished
from tests.store import killed, talk
from tests.store.forked import is_complete, left_by_a_crash, listed, spoken
from tests.store.talk import answer, prompt
from tests.store.writing import AGENT
from tests.stored import Both


def test_a_list_finishes_a_fork_after_a_crash(long: Both) -> None:
    path = left_by_a_crash(long)
    assert not path.exists()
    assert listed(Both(long.root)) == ["f", "p"]
    assert spoken(long, "f") == ["one", "two"]
    assert is_complete(long, "f")


def test_without_its_parent_an_unfinished_fork_has_only_a_gap(long: Both) -> None:
    secret = prompt("secret", session="p")
    talk.keep(long, AGENT, "p", secret, answer(), fresh=False)
    path = left_by_a_crash(long)
    with forked(path).open("r+b") as file:  # half of the parent was copied
        data = file.read()
        file.seek(data.index(b"\0"))
        file.write(secret)
    long.delete(AGENT, "p")
    assert listed(Both(long.root)) == ["f"]
    assert spoken(long, "f") == ["two"]
    assert not is_complete(long, "f")
    assert b"secret" not in path.read_bytes()
    assert not [finding for finding in verify_store(long) if finding.is_damage]


def test_a_later_session_of_the_parents_id_is_not_the_parent(long: Both) -> None:
    left_by_a_crash(long)
    long.delete(AGENT, "p")
    talk.keep(long, AGENT, "p", prompt("another", session="p"), answer(), at=9)
    listed(long)
    assert spoken(long, "f") == ["two"]


def test_a_superseded_parent_is_still_found(long: Both) -> None:
    left_by_a_crash(long)
    talk.keep(long, AGENT, "p", prompt("another", session="p"), answer(), at=9)
    listed(long)
    assert spoken(long, "f") == ["one", "two"]


def test_a_half_deleted_parent_is_not_copied(long: Both) -> None:
    left_by_a_crash(long)
    layout = Layout(long.root)
    layout.journal(AGENT).append(DELETED, "p", talk.time(5))
    fork.finish(layout, AGENT, file_name("f"))
    assert spoken(long, "f") == ["two"]


def test_a_redaction_finishes_forks_first(long: Both) -> None:
    token = "ghp_" + "a1B2" * 9
    path = left_by_a_crash(long, "f", prompt(f"it is {token}", session="f"))
    assert path in long.redactable(None)
    assert redact_stored(long, path, Masking(), dry=False)
    assert token.encode() not in path.read_bytes()
    assert len(spoken(long, "f")) == 2


def test_a_list_does_not_wait_for_the_copy_of_a_fork(long: Both) -> None:
    path = left_by_a_crash(long)
    with alone_in(path.parent):
        assert listed(long) == ["p"]
        with pytest.raises(BlockingIOError):
            fork.finish(Layout(long.root), AGENT, path.stem, wait=False)
    assert listed(long) == ["f", "p"]


def test_a_fork_finished_by_another_process_is_left_unchanged(long: Both, monkeypatch: pytest.MonkeyPatch) -> None:
    path = left_by_a_crash(long)
    alone = private_files.alone_in

    @contextmanager
    def behind_another(folder: Path, *, wait: bool) -> Iterator[None]:
        monkeypatch.setattr(private_files, "alone_in", alone)
        other = Both(long.root)
        other.finish_fork(path, None)
        other.delete(AGENT, "f", soft=True)
        other.delete(AGENT, "p")
        with alone(folder, wait=wait):
            yield

    monkeypatch.setattr(private_files, "alone_in", behind_another)
    long.finish_fork(path, None)
    [kept] = long.kept()
    long.restore(kept)
    assert spoken(long, "f") == ["one", "two"]


def test_a_finished_fork_ignores_leftovers_of_a_crash(long: Both) -> None:
    path = left_by_a_crash(long)
    long.finish_fork(path, None)
    os.link(path, forked(path))
    long.delete(AGENT, "p")
    long.finish_fork(path, None)
    assert spoken(long, "f") == ["one", "two"]
    assert not forked(path).exists()


def test_an_unfinished_fork_cannot_be_deleted_softly(long: Both) -> None:
    path = left_by_a_crash(long)
    with pytest.raises(Unfinished):
        long.delete(AGENT, "f", soft=True)
    long.finish_fork(path, None)
    long.delete(AGENT, "f", soft=True)
    [kept] = long.kept()
    long.restore(kept)
    assert spoken(long, "f") == ["one", "two"]


def test_a_new_session_of_an_unfinished_forks_id_supersedes_the_finished_fork(long: Both) -> None:
    path = left_by_a_crash(long)
    talk.keep(long, AGENT, "f", prompt("new", session="f"), answer(), at=5)
    assert spoken(long, "f") == ["new"]
    aside = path.with_stem(path.stem + "~1").read_bytes()
    assert aside.count(b'"session/prompt"') == 4  # two prompts, two answers
    left_by_a_crash(long, "f", prompt("newest", session="f"))
    listed(long)
    assert spoken(long, "f") == ["one", "newest"]


@pytest.mark.parametrize("size", [0, 20, 400])
def test_a_half_written_head_is_removed(long: Both, size: int) -> None:
    path = left_by_a_crash(long)
    os.truncate(forked(path), size)
    assert listed(long) == ["p"]
    assert not list(path.parent.glob("f-*"))


def test_a_head_that_is_being_written_is_kept(long: Both) -> None:
    path = left_by_a_crash(long)
    os.truncate(forked(path), 20)
    with forked(path).open("rb") as making:
        assert lock(making.fileno())
        with pytest.raises(BlockingIOError):
            long.finish_fork(path, None)
    assert forked(path).exists()


def test_a_fork_that_names_itself_as_parent_hides_no_other_session(long: Both) -> None:
    path = left_by_a_crash(long)
    lines = forked(path).read_bytes()
    forked(path).write_bytes(lines.replace(file_name("p").encode(), path.stem.encode()))
    assert listed(long) == ["p"]


def test_verify_reports_an_unfinished_fork_but_no_damage(long: Both) -> None:
    path = left_by_a_crash(long)
    assert [(finding.path, finding.kind, finding.is_damage) for finding in verify_store(long)] == [
        (forked(path), UNFINISHED_FORK, False)
    ]
    listed(long)
    assert list(verify_store(long)) == []


def test_a_read_only_store_finishes_no_fork(long: Both) -> None:
    path = left_by_a_crash(long)
    layout = Layout(long.root)
    layout.is_only_read = True
    fork.take_up(layout, AGENT, path.stem)
    assert forked(path).exists()


@pytest.mark.parametrize("at_once", [0, fork.AT_ONCE], ids=["long", "short"])
def test_a_kill_at_any_moment_loses_no_entry_of_a_fork(tmp_path: Path, at_once: int) -> None:
    last = None
    for last in killed.forking(tmp_path, at_once):
        store = Both(last.root)
        assert listed(store) in (["p"], ["f", "p"])
        assert not list(last.root.glob("transcripts/*/*.fork"))
        assert spoken(store, "p") == killed.PARENTS
        try:
            told, complete = spoken(store, "f"), is_complete(store, "f")
        except FileNotFoundError:
            told, complete = [], True
        assert told in ([], *(killed.PARENTS + killed.OWN[:count] for count in range(3)))
        assert told[len(killed.PARENTS) :][: len(last.kept)] == last.kept
        assert complete
    assert last is not None
    assert last.got_through
