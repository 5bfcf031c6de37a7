"""A store that stops answering, as one on a network may: while ``hangs`` is set, every call waits."""

import threading
from pathlib import Path

import pytest

from acp_proxy.decisions.effects import TranscriptEffect
from acp_proxy.recording import writer_jobs
from acp_proxy.recording.recorder import Recorder
from acp_proxy.store.proxy_store import ProxyStore
from acp_proxy.transcript.appender import TranscriptAppender
from acp_proxy.transcript.file_format import Header
from acp_proxy.transcript.reader import TranscriptReader
from tests.recording.recorder_harness import RecorderHarness
from tests.waiting import SECONDS


class HangingStore(ProxyStore):
    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.hangs = threading.Event()
        self.stuck = threading.Event()
        self._back = threading.Event()

    def release(self) -> None:
        self.hangs.clear()
        self._back.set()

    def wait(self) -> None:
        if self.hangs.is_set():
            self.stuck.set()
            self._back.wait()

    def open_to_append(
        self, agent: str, header: Header, *, is_new: bool, parent_id: str | None = None, copied_bytes: int | None = None
    ) -> TranscriptAppender:
        self.wait()
        return _Hanging(
            super().open_to_append(agent, header, is_new=is_new, parent_id=parent_id, copied_bytes=copied_bytes), self
        )

    def reopen(self, agent: str, session: str, identity: bytes) -> TranscriptAppender:
        self.wait()
        return _Hanging(super().reopen(agent, session, identity), self)

    def delete(self, agent: str, session: str, *, soft: bool = False) -> None:
        self.wait()
        super().delete(agent, session, soft=soft)

    def open_reader(self, agent: str, session: str) -> TranscriptReader:
        self.wait()
        return super().open_reader(agent, session)


class _Hanging(TranscriptAppender):
    def __init__(self, made: TranscriptAppender, store: HangingStore) -> None:
        super().__init__(made.path)
        made.close()
        self._store = store

    def append(self, *parts: bytes | memoryview) -> None:
        self._store.wait()
        super().append(*parts)


def hang(recording: RecorderHarness, store: HangingStore, *effects: TranscriptEffect) -> None:
    """The writer hangs in the store with these effects, and somebody has waited for it."""
    store.hangs.set()
    for effect in effects:
        recording.recorder.add(effect)
    recording.recorder.wake()
    assert store.stuck.wait(SECONDS)
    with pytest.MonkeyPatch.context() as impatient:
        impatient.setattr(writer_jobs, "STALL_SECONDS", 0.01)
        recording.recorder.wait_until_recorded()
    assert not recording.recorder.is_recording_all


def come_back(recorder: Recorder, store: HangingStore) -> None:
    """The store answers again, and everything that waited is written."""
    store.release()
    assert recorder.jobs.submit(lambda: None).done_lock.acquire(timeout=SECONDS)
