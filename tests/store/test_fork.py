"""A long parent is copied into its fork while the fork continues."""

import errno
import os
from collections.abc import Iterator
from typing import Any

import pytest

from acp_proxy.redaction.masking import Masking
from acp_proxy.store import fork
from acp_proxy.store.compress import Terms
from acp_proxy.tools.redact.redact_files import redact_stored
from acp_proxy.transcript import file_format, reader
from acp_proxy.transcript.file_names import file_name
from acp_proxy.transcript.private_files import alone_in
from acp_proxy.transcript.reader import Reading, Unfinished
from acp_proxy.transcript.rewinds import Point
from tests.store import talk
from tests.store.forked import begun, header, is_complete, left_by_a_crash, listed, spoken
from tests.store.full_disk import no_file_past
from tests.store.talk import answer, prompt
from tests.store.writing import AGENT
from tests.stored import Both


def test_a_fork_can_continue_during_the_copy_and_is_whole_afterwards(long: Both) -> None:
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


def test_an_unfinished_fork_can_be_reopened(long: Both) -> None:
    first = begun(long)
    identity = first.identity
    first.close()
    assert first.has_its_name()
    again = long.reopen(AGENT, "f", identity)
    again.append(prompt("two", session="f") + answer())
    another = long.begin(AGENT, talk.header("f", at=2, origin=file_format.PARTIAL), fresh=False)
    another.append(prompt("three", session="f") + answer())
    long.sync(AGENT, "f")
    long.finish_fork(first.path, first.beginning)
    assert spoken(long, "f") == ["one", "two", "three"]
    assert again.has_its_name()
    assert another.has_its_name()
    again.close()
    another.close()


def test_entries_added_to_the_parent_later_are_not_in_the_fork(long: Both) -> None:
    transcript = begun(long)
    talk.keep(long, AGENT, "p", prompt("later", session="p"), answer(), fresh=False)
    long.finish_fork(transcript.path, transcript.beginning)
    assert spoken(long, "f") == ["one"]
    transcript.close()


def spoken_in_turns(store: Both) -> None:
    """A parent of three turns, in which the agent says ``a``, ``b`` and ``c``."""
    for number, id in enumerate("abc"):
        content = {"type": "text", "text": "x" * 70_000}
        update = talk.update("agent_message_chunk", session="p", content=content, messageId=id)
        talk.keep(store, AGENT, "p", prompt(id, session="p"), update, answer(), fresh=not number)


@pytest.mark.parametrize("is_compressed", [False, True])
def test_a_fork_at_a_message_has_what_came_up_to_it(store: Both, *, is_compressed: bool) -> None:
    spoken_in_turns(store)
    if is_compressed:
        store.bring_in(AGENT, "p")
        assert store.compress(AGENT, file_name("p"), Terms(min_size=1, older_than=0.0)) is not None
    begun(store, until=store.fork_end(AGENT, "p", Point("b"))).close()
    assert spoken(store, "f") == ["a", "b"]
    assert store.fork_end(AGENT, "p", Point("nobody")) is None


def test_a_fork_at_a_message_of_a_fork_that_is_not_copied_yet_waits_for_that(long: Both) -> None:
    talk.keep(long, AGENT, "p", talk.update("plan", session="p", entries=[]), prompt("two", session="p"), fresh=False)
    parent = begun(long)
    message = talk.update("agent_message_chunk", session="f", content={"type": "text", "text": "x"}, messageId="m")
    parent.append(message + prompt("three", session="f"))
    end = long.fork_end(AGENT, "f", Point("m"))
    assert end is not None
    assert parent.path.read_bytes()[:end].endswith(message)
    parent.close()


def test_a_fork_begun_late_has_the_entries_of_the_time_of_the_fork(store: Both) -> None:
    talk.keep(store, AGENT, "p", prompt("one", session="p"), answer())
    until = store.fork_end(AGENT, "p", None)
    talk.keep(store, AGENT, "p", prompt("later", session="p"), answer(), fresh=False)
    begun(store, until=until).close()
    assert spoken(store, "f") == ["one"]


def test_deleting_the_parent_during_the_copy_leaves_the_fork_whole(long: Both) -> None:
    transcript = begun(long)
    long.delete(AGENT, "p")
    long.finish_fork(transcript.path, transcript.beginning)
    assert spoken(long, "f") == ["one"]
    assert is_complete(long, "f")
    transcript.close()


@pytest.mark.parametrize("is_compressed", [False, True])
def test_a_secret_masked_in_the_parent_stays_masked_in_the_fork(long: Both, *, is_compressed: bool) -> None:
    token = "ghp_" + "a1B2" * 9
    talk.keep(long, AGENT, "p", prompt(f"it is {token}", session="p"), answer(), fresh=False)
    if is_compressed:
        long.bring_in(AGENT, "p")
        assert long.compress(AGENT, file_name("p"), Terms(min_size=1, older_than=0.0)) is not None
    transcript = begun(long)
    [parent] = [path for path in long.redactable(None) if path.stem == file_name("p")]
    assert redact_stored(long, parent, Masking(), dry=False)
    long.finish_fork(transcript.path, transcript.beginning)
    assert len(spoken(long, "f")) == 2
    assert token.encode() not in transcript.path.read_bytes()
    transcript.close()


def test_a_short_fork_waits_for_a_busy_folder(store: Both) -> None:
    talk.keep(store, AGENT, "p", prompt("one", session="p"), answer())
    with alone_in(store.root / "transcripts" / AGENT):
        transcript = begun(store)
        transcript.append(prompt("two", session="f") + answer())
    store.finish_fork(transcript.path, transcript.beginning)
    assert spoken(store, "f") == ["one", "two"]
    transcript.close()


def test_a_fork_of_an_unfinished_fork_has_all_entries(long: Both) -> None:
    first = begun(long)
    first.append(prompt("two", session="f") + answer())
    second = begun(long, "f", "g")
    first.append(prompt("later", session="f") + answer())
    second.append(prompt("three", session="g") + answer())
    long.finish_fork(second.path, second.beginning)
    assert spoken(long, "g") == ["one", "two", "three"]
    assert spoken(long, "f") == ["one", "two", "later"]
    assert header(long, "g").forked_from == ["f", "p"]


def test_a_fork_of_a_fork_deleted_too_early_is_incomplete(long: Both) -> None:
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


def test_a_fork_deleted_during_the_copy_stays_deleted(long: Both) -> None:
    transcript = begun(long)
    long.delete(AGENT, "f")
    assert not transcript.has_its_name()
    long.finish_fork(transcript.path, transcript.beginning)
    assert not list(long.root.glob("transcripts/*/f-*"))
    transcript.close()


def test_the_copy_stops_after_a_delete_of_the_fork(long: Both, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "_COPY_STEP", 4096)
    talk.keep(long, AGENT, "p", prompt("x" * 100_000, session="p"), fresh=False)
    transcript = begun(long)
    assert transcript.beginning is not None
    copy, steps = transcript.beginning.copy, list[int]()

    def deleted_meanwhile(size: int, out: int, at: int) -> Iterator[int]:
        for done in copy(size, out, at):
            Both(long.root).delete(AGENT, "f")
            steps.append(done)
            yield done

    monkeypatch.setattr(transcript.beginning, "copy", deleted_meanwhile)
    long.finish_fork(transcript.path, transcript.beginning)
    assert not list(long.root.glob("transcripts/*/f-*"))
    assert len(steps) == 1
    transcript.close()


def test_forks_with_the_same_id_in_two_processes_are_separate(long: Both, monkeypatch: pytest.MonkeyPatch) -> None:
    begin = fork.begin

    def later(*args: Any) -> Reading | None:
        monkeypatch.setattr(fork, "begin", begin)
        left_by_a_crash(Both(long.root))
        return begin(*args)

    monkeypatch.setattr(fork, "begin", later)
    transcript = begun(long)
    transcript.append(prompt("three", session="f") + answer())
    long.finish_fork(transcript.path, transcript.beginning)
    assert spoken(long, "f") == ["one", "three"]
    assert b'"two"' in transcript.path.with_stem(transcript.path.stem + "~1").read_bytes()
    transcript.close()


def test_a_full_disk_during_the_copy_loses_no_entry(long: Both) -> None:
    transcript = begun(long)
    transcript.append(prompt("two", session="f") + answer())
    with no_file_past(100), pytest.raises(OSError, match="large"):
        long.finish_fork(transcript.path, None)
    with pytest.raises(Unfinished):
        long.read(AGENT, "f")
    long.finish_fork(transcript.path, transcript.beginning)
    assert spoken(long, "f") == ["one", "two"]
    transcript.close()


def test_a_parent_truncated_during_the_copy_leaves_a_gap(long: Both) -> None:
    transcript = begun(long)
    [parent] = long.root.glob("transcripts/*/p-*.jsonl")
    os.truncate(parent, parent.stat().st_size - 10)
    long.finish_fork(transcript.path, transcript.beginning)
    assert spoken(long, "f") == []
    assert not is_complete(long, "f")
    transcript.close()


@pytest.mark.parametrize("shares", [True, False], ids=["by the kernel", "by reading and writing"])
@pytest.mark.parametrize("size", [0, 1, 4096, 100_000])
def test_the_copy_has_the_parents_exact_bytes(
    long: Both, monkeypatch: pytest.MonkeyPatch, size: int, *, shares: bool
) -> None:
    if not shares:
        monkeypatch.setattr(os, "copy_file_range", _refused, raising=False)
    monkeypatch.setattr(reader, "_COPY_STEP", 8192)
    talk.keep(long, AGENT, "p", prompt("x" * size, session="p"), fresh=False)
    transcript = begun(long)
    [parent] = long.root.glob("transcripts/*/p-*.jsonl")
    entries = parent.read_bytes().partition(b"\n")[2]
    talk.keep(long, AGENT, "p", prompt("later", session="p"), fresh=False)
    transcript.append(prompt("two", session="f"))
    long.finish_fork(transcript.path, transcript.beginning)
    head, copied, own = transcript.path.read_bytes().partition(entries)
    assert (copied, own) == (entries, prompt("two", session="f"))
    assert len(head) % 4096 == len(parent.read_bytes().partition(b"\n")[0]) + 1
    transcript.close()


def test_a_torn_line_of_the_parent_ends_before_the_forks_entries(long: Both) -> None:
    [parent] = long.root.glob("transcripts/*/p-*.jsonl")
    with parent.open("ab") as file:
        file.write(b'{"at":"torn')
    transcript = begun(long)
    transcript.append(prompt("two", session="f"))
    long.finish_fork(transcript.path, transcript.beginning)
    assert spoken(long, "f") == ["one", "two"]
    assert transcript.path.read_bytes().endswith(b'{"at":"torn\n' + prompt("two", session="f"))
    transcript.close()


def _refused(*_: object) -> int:
    raise OSError(errno.EXDEV, "not here")
