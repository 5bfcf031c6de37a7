"""A store that stops answering, as one on a network may: while ``hangs`` is set, every call waits."""

import threading
from pathlib import Path

from acp_proxy.proxy.effects import Recording
from acp_proxy.store.store import Store
from acp_proxy.transcript.appender import Transcript
from acp_proxy.transcript.file_format import Header
from acp_proxy.transcript.reader import Reading
from tests.recording.notes import SECONDS, Notes


class HangingStore(Store):
    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.hangs = threading.Event()
        self.stuck = threading.Event()
        self.thread = threading.Thread()
        """The first thread that waits, or waited."""
        self._back = threading.Event()

    def release(self) -> None:
        self.hangs.clear()
        self._back.set()

    def wait(self) -> None:
        if self.hangs.is_set():
            if not self.stuck.is_set():
                self.thread = threading.current_thread()
                self.stuck.set()
            self._back.wait()

    def open_to_append(
        self, agent: str, header: Header, *, fresh: bool, parent: str | None = None, until: int | None = None
    ) -> Transcript:
        self.wait()
        return _Hanging(super().open_to_append(agent, header, fresh=fresh, parent=parent, until=until), self)

    def reopen(self, agent: str, session: str, identity: bytes) -> Transcript:
        self.wait()
        return _Hanging(super().reopen(agent, session, identity), self)

    def delete(self, agent: str, session: str, *, soft: bool = False) -> None:
        self.wait()
        super().delete(agent, session, soft=soft)

    def read(self, agent: str, session: str) -> Reading:
        self.wait()
        return super().read(agent, session)


class _Hanging(Transcript):
    def __init__(self, made: Transcript, store: HangingStore) -> None:
        super().__init__(made.path)
        made.close()
        self._store = store

    def append(self, data: bytes) -> None:
        self._store.wait()
        super().append(data)


def hang(notes: Notes, store: HangingStore, *effects: Recording) -> threading.Thread:
    """A thread that hangs in the store while it writes these effects; recording is suspended until it returns."""
    store.hangs.set()
    for effect in effects:
        notes.recorder.add(effect)
    stuck = threading.Thread(target=notes.recorder.flush)
    stuck.start()
    assert store.stuck.wait(SECONDS)
    told: list[int] = []
    assert notes.recorder.gate.busy_since is not None
    notes.recorder.stall(notes.recorder.gate.busy_since, told.append)
    assert told == [stuck.ident]
    return stuck


def come_back(store: HangingStore, stuck: threading.Thread) -> None:
    store.release()
    stuck.join(SECONDS)
    assert not stuck.is_alive()
