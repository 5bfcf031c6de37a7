"""A long parent is copied into its fork while the conversation goes on, whatever happens meanwhile."""

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from acp_proxy.redaction.masking import Masking
from acp_proxy.transcripts import forks, reading
from acp_proxy.transcripts.access import alone_in, lock
from acp_proxy.transcripts.journal import DELETED
from acp_proxy.transcripts.layout import Layout
from acp_proxy.transcripts.names import file_name, forked
from acp_proxy.transcripts.packing import Terms
from acp_proxy.transcripts.reading import Unfinished
from acp_proxy.transcripts.store import Store
from acp_proxy.transcripts.transcript import Transcript
from acp_proxy.transcripts.verifying import UNFINISHED_FORK
from acp_proxy.wire import record
from tests.transcripts import killed, talk
from tests.transcripts.forked import header, is_complete, spoken
from tests.transcripts.full_disk import no_file_past
from tests.transcripts.talk import answer, prompt
from tests.transcripts.writing import AGENT


@pytest.fixture
def long(store: Store, monkeypatch: pytest.MonkeyPatch) -> Store:
    """Whatever is forked is too long to be copied at once. Session "p" is there."""
    monkeypatch.setattr(forks, "AT_ONCE", 0)
    talk.keep(store, AGENT, "p", prompt("one", session="p"), answer())
    return store


def begun(store: Store, parent: str = "p", session: str = "f", *, until: int | None = None) -> Transcript:
    header = talk.header(session, at=1, origin=record.PARTIAL)
    return store.begin(AGENT, header, fresh=False, parent=parent, until=until)


def left_by_a_crash(store: Store, session: str = "f", *lines: bytes) -> Path:
    """A fork that has gone on, and whose past was never copied. Its path as it will be."""
    transcript = begun(store, session=session)
    assert transcript.beginning is not None
    transcript.append(b"".join(lines) or prompt("two", session=session) + answer())
    transcript.beginning.close()
    transcript.close()
    return transcript.path


def listed(store: Store) -> list[str]:
    return sorted(row.session for row in store.page(AGENT, None, None, "").rows)


def test_a_fork_goes_on_while_its_past_is_copied_and_is_whole_afterwards(long: Store) -> None:
    transcript = begun(long)
    transcript.append(prompt("two", session="f") + answer())
    with pytest.raises(Unfinished):
        long.read(AGENT, "f")
    long.finish_fork(transcript.path, transcript.beginning)
    transcript.append(prompt("three", session="f") + answer())
    assert transcript.has_its_name()
    assert spoken(long, "f") == ["one", "two", "three"]
    assert is_complete(long, "f")
    transcript.close()


def test_an_unfinished_fork_is_found_again_by_who_goes_on_with_it(long: Store) -> None:
    first = begun(long)
    identity = first.identity
    first.close()
    assert first.has_its_name()
    again = long.reopen(AGENT, "f", identity)
    again.append(prompt("two", session="f") + answer())
    another = long.begin(AGENT, talk.header("f", at=2, origin=record.PARTIAL), fresh=False)
    another.append(prompt("three", session="f") + answer())
    long.sync(AGENT, "f")
    long.finish_fork(first.path, first.beginning)
    assert spoken(long, "f") == ["one", "two", "three"]
    assert again.has_its_name()
    assert another.has_its_name()
    again.close()
    another.close()


def test_what_the_parent_says_after_it_was_forked_is_not_the_forks(long: Store) -> None:
    transcript = begun(long)
    talk.keep(long, AGENT, "p", prompt("later", session="p"), answer(), fresh=False)
    long.finish_fork(transcript.path, transcript.beginning)
    assert spoken(long, "f") == ["one"]
    transcript.close()


def test_a_fork_that_could_not_be_begun_at_once_has_what_the_parent_had_then(store: Store) -> None:
    talk.keep(store, AGENT, "p", prompt("one", session="p"), answer())
    until = store.size(AGENT, "p")
    talk.keep(store, AGENT, "p", prompt("later", session="p"), answer(), fresh=False)
    begun(store, until=until).close()
    assert spoken(store, "f") == ["one"]


def test_a_parent_that_is_deleted_while_it_is_copied_leaves_the_fork_whole(long: Store) -> None:
    transcript = begun(long)
    long.delete(AGENT, "p")
    long.finish_fork(transcript.path, transcript.beginning)
    assert spoken(long, "f") == ["one"]
    assert is_complete(long, "f")
    transcript.close()


def test_a_list_finishes_what_a_crash_left_and_nothing_is_lost(long: Store) -> None:
    path = left_by_a_crash(long)
    assert not path.exists()
    assert listed(Store(long.root)) == ["f", "p"]
    assert spoken(long, "f") == ["one", "two"]
    assert is_complete(long, "f")


def test_what_a_crash_left_is_only_a_gap_once_the_parent_is_deleted(long: Store) -> None:
    secret = prompt("secret", session="p")
    talk.keep(long, AGENT, "p", secret, answer(), fresh=False)
    path = left_by_a_crash(long)
    with forked(path).open("r+b") as file:  # half of it was copied
        data = file.read()
        file.seek(data.index(b"\0"))
        file.write(secret)
    long.delete(AGENT, "p")
    assert listed(Store(long.root)) == ["f"]
    assert spoken(long, "f") == ["two"]
    assert not is_complete(long, "f")
    assert b"secret" not in path.read_bytes()
    assert not [finding for finding in long.verify() if finding.is_damage]


def test_a_later_session_under_the_parents_id_is_not_taken_for_the_parent(long: Store) -> None:
    left_by_a_crash(long)
    long.delete(AGENT, "p")
    talk.keep(long, AGENT, "p", prompt("another", session="p"), answer(), at=9)
    listed(long)
    assert spoken(long, "f") == ["two"]


def test_a_parent_whose_id_was_given_to_another_session_is_still_found(long: Store) -> None:
    left_by_a_crash(long)
    talk.keep(long, AGENT, "p", prompt("another", session="p"), answer(), at=9)
    listed(long)
    assert spoken(long, "f") == ["one", "two"]


def test_a_parent_that_a_crash_left_half_deleted_is_not_copied(long: Store) -> None:
    left_by_a_crash(long)
    layout = Layout(long.root)
    layout.journal(AGENT).append(DELETED, "p", talk.time(5))
    forks.finish(layout, AGENT, file_name("f"))
    assert spoken(long, "f") == ["two"]


@pytest.mark.parametrize("is_packed", [False, True])
def test_what_was_masked_in_the_parent_does_not_come_back_in_its_fork(long: Store, *, is_packed: bool) -> None:
    token = "ghp_" + "a1B2" * 9
    talk.keep(long, AGENT, "p", prompt(f"it is {token}", session="p"), answer(), fresh=False)
    if is_packed:
        long.bring_in(AGENT, "p")
        assert long.compact(AGENT, file_name("p"), Terms(min_size=1, older_than=0.0)) is not None
    transcript = begun(long)
    [parent] = [path for path in long.redactable(None) if path.stem == file_name("p")]
    assert long.redact(parent, Masking(), dry=False)
    long.finish_fork(transcript.path, transcript.beginning)
    assert len(spoken(long, "f")) == 2
    assert token.encode() not in transcript.path.read_bytes()
    transcript.close()


def test_who_masks_all_finishes_a_fork_first(long: Store) -> None:
    token = "ghp_" + "a1B2" * 9
    path = left_by_a_crash(long, "f", prompt(f"it is {token}", session="f"))
    assert path in long.redactable(None)
    assert long.redact(path, Masking(), dry=False)
    assert token.encode() not in path.read_bytes()
    assert len(spoken(long, "f")) == 2


def test_nobody_masks_while_a_fork_is_copied_and_nobody_else_waits(long: Store) -> None:
    path = left_by_a_crash(long)
    with alone_in(path.parent):
        assert listed(long) == ["p"]
        with pytest.raises(BlockingIOError):
            forks.finish(Layout(long.root), AGENT, path.stem, wait=False)
    assert listed(long) == ["f", "p"]


def test_a_short_fork_that_meets_somebody_at_work_in_the_folder_is_copied_later(store: Store) -> None:
    talk.keep(store, AGENT, "p", prompt("one", session="p"), answer())
    with alone_in(store.root / "transcripts" / AGENT):
        transcript = begun(store)
        transcript.append(prompt("two", session="f") + answer())
    store.finish_fork(transcript.path, transcript.beginning)
    assert spoken(store, "f") == ["one", "two"]
    transcript.close()


def test_a_fork_of_a_fork_that_is_not_whole_yet_begins_with_all_of_it(long: Store) -> None:
    first = begun(long)
    first.append(prompt("two", session="f") + answer())
    second = begun(long, "f", "g")
    first.append(prompt("later", session="f") + answer())
    second.append(prompt("three", session="g") + answer())
    long.finish_fork(second.path, second.beginning)
    assert spoken(long, "g") == ["one", "two", "three"]
    assert spoken(long, "f") == ["one", "two", "later"]
    assert header(long, "g").forked_from == ["f", "p"]


def test_a_fork_of_a_fork_that_is_deleted_before_it_is_whole_is_not_complete(long: Store) -> None:
    first = begun(long)
    first.append(prompt("two", session="f") + answer())
    second = begun(long, "f", "g")
    second.append(prompt("three", session="g") + answer())
    long.delete(AGENT, "f")
    long.finish_fork(first.path, first.beginning)
    long.finish_fork(second.path, second.beginning)
    assert listed(long) == ["g", "p"]
    assert spoken(long, "g") == ["three"]
    assert not is_complete(long, "g")


def test_a_fork_that_is_deleted_while_it_is_copied_stays_deleted(long: Store) -> None:
    transcript = begun(long)
    long.delete(AGENT, "f")
    assert not transcript.has_its_name()
    long.finish_fork(transcript.path, transcript.beginning)
    assert not list(long.root.glob("transcripts/*/f-*"))
    transcript.close()


def test_a_fork_is_deleted_in_the_middle_of_the_copy(long: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    transcript = begun(long)
    assert transcript.beginning is not None
    copy = transcript.beginning.copy

    def deleted_meanwhile(size: int, out: int, at: int) -> Iterator[int]:
        for done in copy(size, out, at):
            Store(long.root).delete(AGENT, "f")
            yield done

    monkeypatch.setattr(transcript.beginning, "copy", deleted_meanwhile)
    long.finish_fork(transcript.path, transcript.beginning)
    assert not list(long.root.glob("transcripts/*/f-*"))
    transcript.close()


def test_what_can_be_restored_is_whole_before_it_is_deleted(long: Store) -> None:
    path = left_by_a_crash(long)
    with pytest.raises(Unfinished):
        long.delete(AGENT, "f", soft=True)
    long.finish_fork(path, None)
    long.delete(AGENT, "f", soft=True)
    [kept] = long.kept()
    long.restore(kept)
    assert spoken(long, "f") == ["one", "two"]


def test_a_new_session_under_the_id_of_an_unfinished_fork_sets_it_aside_whole(long: Store) -> None:
    path = left_by_a_crash(long)
    talk.keep(long, AGENT, "f", prompt("new", session="f"), answer(), at=5)
    assert spoken(long, "f") == ["new"]
    aside = path.with_stem(path.stem + "~1").read_bytes()
    assert aside.count(b'"session/prompt"') == 4  # two prompts, two answers
    left_by_a_crash(long, "f", prompt("newest", session="f"))
    listed(long)
    assert spoken(long, "f") == ["one", "newest"]


def test_a_disk_without_room_for_the_copy_loses_nothing_that_is_said(long: Store) -> None:
    transcript = begun(long)
    transcript.append(prompt("two", session="f") + answer())
    with no_file_past(100), pytest.raises(OSError, match="large"):
        long.finish_fork(transcript.path, None)
    with pytest.raises(Unfinished):
        long.read(AGENT, "f")
    long.finish_fork(transcript.path, transcript.beginning)
    assert spoken(long, "f") == ["one", "two"]
    transcript.close()


def test_a_parent_that_was_cut_short_meanwhile_leaves_a_gap(long: Store) -> None:
    transcript = begun(long)
    [parent] = long.root.glob("transcripts/*/p-*.jsonl")
    os.truncate(parent, parent.stat().st_size - 10)
    long.finish_fork(transcript.path, transcript.beginning)
    assert spoken(long, "f") == []
    assert not is_complete(long, "f")
    transcript.close()


@pytest.mark.parametrize("size", [0, 20, 400])
def test_half_a_head_that_a_crash_left_is_taken_away(long: Store, size: int) -> None:
    path = left_by_a_crash(long)
    os.truncate(forked(path), size)
    assert listed(long) == ["p"]
    assert not list(path.parent.glob("f-*"))


def test_a_head_that_is_being_written_is_left_alone(long: Store) -> None:
    path = left_by_a_crash(long)
    os.truncate(forked(path), 20)
    with forked(path).open("rb") as making:
        assert lock(making.fileno())
        with pytest.raises(BlockingIOError):
            long.finish_fork(path, None)
    assert forked(path).exists()


def test_verify_names_an_unfinished_fork_and_does_not_call_it_damage(long: Store) -> None:
    path = left_by_a_crash(long)
    assert [(finding.path, finding.kind, finding.is_damage) for finding in long.verify()] == [
        (forked(path), UNFINISHED_FORK, False)
    ]
    listed(long)
    assert list(long.verify()) == []


def test_nothing_is_finished_in_a_store_that_is_only_read(long: Store) -> None:
    path = left_by_a_crash(long)
    layout = Layout(long.root)
    layout.is_only_read = True
    forks.take_up(layout, AGENT, path.stem)
    assert forked(path).exists()


@pytest.mark.parametrize("shares", [True, False], ids=["by the kernel", "by reading and writing"])
@pytest.mark.parametrize("size", [0, 1, 4096, 100_000])
def test_the_copy_is_byte_for_byte_what_the_parent_had(
    long: Store, monkeypatch: pytest.MonkeyPatch, size: int, *, shares: bool
) -> None:
    if not shares:
        monkeypatch.setattr(os, "copy_file_range", _refused, raising=False)
    monkeypatch.setattr(reading, "_COPY_STEP", 8192)
    talk.keep(long, AGENT, "p", prompt("x" * size, session="p"), fresh=False)
    transcript = begun(long)
    [parent] = long.root.glob("transcripts/*/p-*.jsonl")
    entries = parent.read_bytes().partition(b"\n")[2]
    with parent.open("ab") as file:
        file.write(b'{"at":"torn')
    transcript.append(prompt("two", session="f"))
    long.finish_fork(transcript.path, transcript.beginning)
    head, copied, own = transcript.path.read_bytes().partition(entries)
    assert (copied, own) == (entries, b"\n" + prompt("two", session="f"))
    assert len(head) % 4096 == len(parent.read_bytes().partition(b"\n")[0]) + 1
    transcript.close()


def _refused(*_: object) -> int:
    raise OSError(errno.EXDEV, "not here")


@pytest.mark.parametrize("at_once", [0, forks.AT_ONCE], ids=["long", "short"])
def test_a_fork_that_is_killed_at_any_moment_is_whole_or_not_there_and_loses_no_word(
    tmp_path: Path, at_once: int
) -> None:
    last = None
    for last in killed.forking(tmp_path, at_once):
        store = Store(last.root)
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
