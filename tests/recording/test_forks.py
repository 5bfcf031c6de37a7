"""A fork's transcript is copied from its parent's before its first entry; while that fails, it is not recorded."""

import errno
import threading
from pathlib import Path
from typing import Any

import pytest

from acp_proxy.decisions.effects import BeginTranscript, IdentifyAgent, RecordNote
from acp_proxy.recording import writer_jobs
from acp_proxy.store import fork
from acp_proxy.store.proxy_store import ProxyStore
from acp_proxy.transcript import file_format
from tests.recording.recorder_harness import (
    NAME,
    RecorderHarness,
    chunk_to_record,
    fill_disk,
    make_prompt_effects,
    set_clock,
)
from tests.relay.relay_conversation import RelayConversation, chunk, is_complete
from tests.stored import WholeStore
from tests.waiting import SECONDS


@pytest.fixture
def recording(tmp_path: Path) -> RecorderHarness:
    """A recorder that has recorded one prompt in the session "s"."""
    recording = RecorderHarness(WholeStore(tmp_path / "store"))
    recording.write(IdentifyAgent(NAME, "1.0"), BeginTranscript("s", "/project", [], file_format.RECORDED))
    recording.write(*make_prompt_effects("one"))
    return recording


def test_a_fork_has_its_parents_past_before_its_own_entries(recording: RecorderHarness) -> None:
    recording.write(BeginTranscript("f", "/project", [], "partial", "s"), chunk_to_record("two", "f"))
    assert recording.read_texts_and_notes("f") == ["copied", "one", "two"]
    assert recording.is_complete("f")


def test_a_fork_that_could_not_be_begun_later_gets_the_past_that_its_parent_had_then(
    recording: RecorderHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = set_clock(monkeypatch)
    with fill_disk():
        recording.write(BeginTranscript("f", "/project", [], "partial", "s"))
    recording.write(*make_prompt_effects("later"))
    clock.seconds = 2.0
    recording.write(RecordNote("f", {"type": "closed"}))
    assert recording.read_texts_and_notes() == ["one", "later"]
    assert recording.read_texts_and_notes("f") == ["copied", "one", "gap", "closed"]


def test_a_copy_that_fails_is_one_warning_and_a_gap_and_is_made_later(
    recording: RecorderHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise OSError(errno.EIO, "broken")

    clock = set_clock(monkeypatch)
    with monkeypatch.context() as failing:
        failing.setattr(fork, "_write", fail)
        recording.write(BeginTranscript("f", "/project", [], "partial", "s"), chunk_to_record("lost", "f"))
        recording.write(BeginTranscript("g", "/project", [], "partial", "s"), chunk_to_record("lost", "g"))
    assert len(recording.warnings) == 1
    assert len(list(recording.store.root.glob("transcripts/*/?-*.jsonl*"))) == 1
    clock.seconds = 2.0
    recording.write(chunk_to_record("two", "f"))
    assert recording.read_texts_and_notes("f") == ["copied", "one", "gap", "two"]
    assert not recording.is_complete("f")


def test_lines_pass_before_a_long_copy_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The writer makes the copy; whoever waits for it gives up, and nothing is lost."""
    write, copying, goes_on = fork._write, threading.Event(), threading.Event()

    def held(*given: Any) -> None:
        copying.set()
        assert goes_on.wait(SECONDS)
        write(*given)

    monkeypatch.setattr(fork, "_write", held)
    monkeypatch.setattr(writer_jobs, "STALL_SECONDS", 0.01)
    monkeypatch.setattr(writer_jobs, "PATIENCE_SECONDS", 0.05)
    talk = RelayConversation(ProxyStore(tmp_path / "store"))
    talk.open()
    talk.turn("one")
    talk.exchange("session/fork", {"sessionId": "s", "cwd": "/project", "mcpServers": []}, {"sessionId": "f"})
    assert copying.wait(SECONDS)
    talk.agent.say(chunk("meanwhile", "f"))
    talk.editor.hear(**chunk("meanwhile", "f"))
    talk.turn("two", "s")
    assert not goes_on.is_set()
    goes_on.set()
    talk.end()
    assert talk.transcript_items("f")[:3] == ["copied", "opened", "one"]
    assert talk.transcript_items() == ["opened", "one", "two"]
    assert is_complete(talk)
