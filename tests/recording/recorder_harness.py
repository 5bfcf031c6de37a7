"""A recorder over a real store, what it has recorded, and a full disk."""

import json
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from acp_proxy.decisions.effects import BeginTranscript, BeginTurn, IdentifyAgent, RecordMessage, TranscriptEffect
from acp_proxy.protocol.jsonrpc import Peer
from acp_proxy.recording.recorder import Recorder
from acp_proxy.store.proxy_store import ProxyStore
from tests.posix import resource

NAME = "some-agent"
MOST_OPEN_FILES = 64


class RecorderHarness:
    """A recorder over a real store, and its warnings."""

    def __init__(self, store: ProxyStore, *, fsync: str = "turn", mask: Callable[[bytes], bytes] | None = None) -> None:
        self.store = store
        self.warnings: list[str] = []
        self.recorder = Recorder(store, ["agent"], None, fsync, self.warnings.append, mask)
        self.recorder.start()

    def write(self, *effects: TranscriptEffect) -> None:
        for effect in effects:
            self.recorder.add(effect)
        self.recorder.wait_until_recorded()

    def delete(self, session: str) -> None:
        self.recorder.run_on_writer(lambda: self.recorder.delete(session))

    def begin(self, session: str = "s", *, origin: str = "recorded") -> None:
        self.write(IdentifyAgent(NAME, "1.0"), BeginTranscript(session, "/project", [], origin))

    def read_entries(self, session: str = "s") -> list[dict[str, Any]]:
        """The readable entries of a transcript, without the header."""
        reader = self.store.open_reader(self.recorder.find_agent_folder(), session)
        try:
            values = [line.entry for line in reader.read_lines()]
        finally:
            reader.close()
        return [
            {"value": entry.value, "note": entry.note, "of": entry.answered_method, "peer": entry.peer}
            for entry in values
            if entry
        ]

    def read_texts_and_notes(self, session: str = "s") -> list[Any]:
        """The text of each recorded prompt and update, and the type of each note, in order."""
        return [
            entry["note"]["type"] if entry["note"] else get_text(entry["value"]) for entry in self.read_entries(session)
        ]

    def records_all_sessions(self) -> bool:
        return self.recorder.is_recording_all

    def is_complete(self, session: str = "s") -> bool:
        reader = self.store.open_reader(self.recorder.find_agent_folder(), session)
        try:
            return reader.is_complete
        finally:
            reader.close()

    def path(self, session: str = "s") -> Path:
        [found] = [
            path
            for path in self.store.root.glob("transcripts/*/*.jsonl")
            if path.name != "state.jsonl" and json.loads(path.read_bytes().split(b"\n")[0])["sessionId"] == session
        ]
        return found


def update_line(text: str, session: str = "s") -> bytes:
    """A chunk of the agent's message."""
    content = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
    return json.dumps({"method": "session/update", "params": {"sessionId": session, "update": content}}).encode()


def chunk_to_record(text: str, session: str = "s") -> RecordMessage:
    """The effect that records a chunk."""
    return RecordMessage(session, Peer.AGENT, update_line(text, session))


def make_prompt_effects(text: str, session: str = "s") -> tuple[BeginTurn, RecordMessage]:
    """The effects that begin a turn and record its prompt."""
    message = {"id": 1, "method": "session/prompt", "params": {"sessionId": session, "prompt": text}}
    return BeginTurn(session), RecordMessage(session, Peer.CLIENT, json.dumps(message).encode())


def get_text(value: Any) -> str:
    """The text of a recorded message."""
    params = value["params"]
    return str(params["prompt"] if "prompt" in params else params["update"]["content"]["text"])


@contextmanager
def fill_disk(after: int = 0) -> Iterator[None]:
    """No file of this process can grow beyond ``after`` bytes."""
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    compiles, sys.dont_write_bytecode = sys.dont_write_bytecode, True  # half a .pyc file would be taken for a whole one
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (after, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        sys.dont_write_bytecode = compiles
        signal.signal(signal.SIGXFSZ, before)


class Clock:
    def __init__(self) -> None:
        self.seconds = 0.0


def set_clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """A clock that the test sets: it decides when the store is tried again."""
    now = Clock()
    monkeypatch.setattr("time.monotonic", lambda: now.seconds)
    return now
