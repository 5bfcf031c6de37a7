"""The past of a long fork is copied while the conversation continues; only readers of the fork wait."""

import errno
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from acp_proxy.proxy.effects import BeginTranscript, IdentifyAgent, RecordNote
from acp_proxy.recording.copies import Copies
from acp_proxy.store import fork
from acp_proxy.transcript import file_format
from acp_proxy.transcript.private_files import alone_in
from acp_proxy.transcript.reader import Reading, Unfinished
from tests.opened import open_below
from tests.recording.notes import NAME, Notes, clock_at, full_disk, prompted, said
from tests.run.sides import SECONDS, Talk, chunk, is_complete
from tests.stored import Both

FORK = {"sessionId": "s", "cwd": "/project", "mcpServers": []}
LOAD = {**FORK, "sessionId": "f"}


class Slow(Both):
    """Nothing is copied until ``goes_on`` is set."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.begun, self.goes_on = threading.Event(), threading.Event()
        self.trouble: OSError | None = None

    def finish_fork(self, path: Path, beginning: Reading | None) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        with alone_in(path.parent):  # as the copying thread holds it
            self.begun.set()
            assert self.goes_on.wait(SECONDS)
        if self.trouble is not None:
            raise self.trouble
        super().finish_fork(path, beginning)


@pytest.fixture(autouse=True)
def _everything_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fork, "AT_ONCE", 0)
    monkeypatch.setattr(fork, "take_up", lambda *_: None)  # a refresh of the list may do this at any time


@pytest.fixture
def slow(tmp_path: Path) -> Slow:
    return Slow(tmp_path / "store")


@pytest.fixture
def forked(slow: Slow) -> Iterator[Talk]:
    """The session "s" was forked as "f": the editor has the answer, and nothing is copied yet."""
    talk = Talk(slow)
    talk.open()
    talk.turn("one")
    assert talk.exchange("session/fork", FORK, {"sessionId": "f"})["result"] == {"sessionId": "f"}
    assert slow.begun.wait(SECONDS)
    yield talk
    slow.goes_on.set()
    talk.end()


def load(talk: Talk, id: int) -> None:
    talk.editor.say({"jsonrpc": "2.0", "id": id, "method": "session/load", "params": LOAD})


def test_a_fork_is_answered_and_recorded_before_its_past_is_copied(forked: Talk, slow: Slow) -> None:
    forked.turn("two", "f")
    forked.turn("of the parent")
    forked.agent.say(chunk("late", "f"))
    forked.editor.hear(**chunk("late", "f"))
    assert not list(slow.root.glob("transcripts/*/f-*.jsonl"))
    slow.goes_on.set()
    forked.recorder.at_store(lambda: slow.read(forked.recorder.agent, "f").close(), SECONDS)
    assert forked.told("f") == ["copied", "opened", "one", "opened", "two"]
    assert is_complete(forked, "f")
    assert forked.told() == ["opened", "one", "of the parent"]
    assert not forked.warnings


def test_a_load_of_a_fork_waits_until_the_fork_is_whole_and_nothing_else_waits(forked: Talk, slow: Slow) -> None:
    load(forked, 1)
    forked.agent.say(chunk("in between"))
    forked.editor.hear(**chunk("in between"))
    assert not any(b"session/resume" in line for line in forked.agent.lines)
    assert not forked.warnings
    slow.goes_on.set()
    forked.agent.hear(id=1, method="session/resume")
    forked.agent.say({"jsonrpc": "2.0", "id": 1, "result": {}})
    forked.editor.hear(id=1, result={})
    assert sum(b"user_message_chunk" in line and b'"one"' in line for line in forked.editor.lines) == 1


def test_a_fork_that_cannot_be_copied_is_recorded_and_is_copied_with_the_next_load(forked: Talk, slow: Slow) -> None:
    slow.trouble = OSError(errno.ENOSPC, "full")
    slow.goes_on.set()
    forked.turn("two", "f")
    load(forked, 1)
    assert forked.editor.hear(id=1)["error"]["message"].startswith("Session history cannot be read (ENOSPC)")
    load(forked, 2)
    forked.editor.hear(id=2)
    assert len(forked.warnings) == 1
    slow.trouble = None
    load(forked, 3)
    forked.agent.hear(id=3, method="session/resume")
    forked.agent.say({"jsonrpc": "2.0", "id": 3, "result": {}})
    forked.editor.hear(id=3, result={})
    assert is_complete(forked, "f")


def test_waiting_for_a_copy_that_does_not_end_times_out(slow: Slow) -> None:
    warnings: list[str] = []
    copies = Copies(slow, warnings.append)
    with pytest.raises(OSError) as refused:
        copies.wait(slow.root / "transcripts" / "agent" / "f-0123456789abcdef.jsonl", 0.0)
    assert refused.value.errno == errno.ETIMEDOUT
    slow.goes_on.set()


def test_a_bug_in_copying_keeps_nothing_waiting(slow: Slow, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(path: Path, beginning: Reading | None) -> None:
        raise KeyError(path)

    monkeypatch.setattr(slow, "finish_fork", fails)
    warnings: list[str] = []
    copies = Copies(slow, warnings.append)
    for _ in range(2):
        with pytest.raises(OSError) as refused:
            copies.wait(slow.root / "transcripts" / "agent" / "f-0123456789abcdef.jsonl", SECONDS)
        assert refused.value.errno == errno.EIO
    assert len(warnings) == 2


def test_many_forks_at_once_hold_few_files_open_and_are_all_copied(slow: Slow) -> None:
    notes = Notes(slow)
    notes.begin()
    notes.put(*prompted("one"))
    names = [f"f{number}" for number in range(100)]
    notes.put(*(BeginTranscript(name, "/project", [], "partial", "s") for name in names))
    assert slow.begun.wait(SECONDS)
    [parent] = slow.root.glob("transcripts/*/s-*.jsonl")
    assert open_below(slow.root).count(str(parent)) < 30
    slow.goes_on.set()
    for name in names:
        notes.recorder.at_store(lambda name=name: slow.read(notes.recorder.agent, name).close(), SECONDS)  # type: ignore[misc]
        assert notes.said(name) == ["copied", "one"]
    assert open_below(slow.root).count(str(parent)) == 0
    assert not notes.warnings


def test_a_soft_delete_waits_until_the_fork_is_whole(slow: Slow, monkeypatch: pytest.MonkeyPatch) -> None:
    def delete(agent: str, session: str, *, soft: bool = False) -> None:
        try:
            Both.delete(slow, agent, session, soft=soft)
        except Unfinished:
            slow.goes_on.set()
            raise

    monkeypatch.setattr(slow, "delete", delete)
    notes = Notes(slow)
    notes.recorder._deletes_softly = True
    notes.begin()
    notes.put(said("one"), BeginTranscript("f", "/project", [], "partial", "s"), said("two", "f"))
    notes.recorder.delete("f")
    [kept] = slow.kept()
    slow.restore(kept)
    assert notes.said("f") == ["copied", "one", "two"]


def test_a_fork_that_could_not_be_begun_later_gets_the_past_that_its_parent_had_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = clock_at(monkeypatch)
    notes = Notes(Both(tmp_path / "store"))
    notes.put(IdentifyAgent(NAME, "1.0"), BeginTranscript("s", "/project", [], file_format.RECORDED))
    notes.put(*prompted("one"))
    with full_disk():
        notes.put(BeginTranscript("f", "/project", [], "partial", "s"))
    notes.put(*prompted("later"))
    clock.seconds = 2.0
    notes.put(RecordNote("f", {"type": "closed"}))
    notes.recorder.at_store(lambda: notes.store.read(notes.recorder.agent, "f").close(), SECONDS)
    assert notes.said() == ["one", "later"]
    assert notes.said("f") == ["copied", "one", "gap", "closed"]
