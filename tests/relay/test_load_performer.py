"""The lookup of a session for a load: complete, incomplete, deleted, or in a failing store."""

import errno
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from acp_proxy.decisions.capabilities import STORE, Modes
from acp_proxy.decisions.connection import Connection
from acp_proxy.decisions.effects import ChooseAndShowPast
from acp_proxy.relay.load_thread import THREAD_NAME, LoadThread
from acp_proxy.store.proxy_store import ProxyStore
from acp_proxy.transcript.reader import AlikeLines, Line, TranscriptReader
from tests.recording.recorder_harness import fill_disk
from tests.relay.relay_conversation import SETTINGS, RelayConversation, chunk
from tests.waiting import SECONDS

NOT_FOUND, CANCELLED = -32002, -32800


def test_a_transcript_that_cannot_note_its_gap_yet_does_not_count_as_complete(tmp_path: Path) -> None:
    talk = RelayConversation(ProxyStore(tmp_path / "store"), Connection(replace(SETTINGS, modes=Modes(load=STORE))))
    offers = {"protocolVersion": 1, "agentCapabilities": {"loadSession": True, "sessionCapabilities": {"resume": {}}}}
    talk.exchange("initialize", {"protocolVersion": 1}, offers)
    talk.exchange("session/new", {"cwd": "/project", "mcpServers": []}, {"sessionId": "s"})
    talk.turn("one")
    place = {"sessionId": "s", "cwd": "/project", "mcpServers": []}
    talk.editor.say({"jsonrpc": "2.0", "id": 1, "method": "session/load", "params": place})
    talk.agent.hear(id=1, method="session/resume")
    talk.agent.say({"jsonrpc": "2.0", "id": 1, "result": {}})
    talk.editor.hear(id=1, result={})
    [path] = talk.store.root.glob("transcripts/*/s-*.jsonl")
    with fill_disk(after=path.stat().st_size):
        talk.agent.say(chunk("lost"))
        talk.turn("two")
        talk.editor.say({"jsonrpc": "2.0", "id": 2, "method": "session/load", "params": place})
        talk.agent.hear(id=2, method="session/load")
        talk.agent.say(chunk("as the agent tells it"))
        talk.agent.say({"jsonrpc": "2.0", "id": 2, "result": {}})
        talk.editor.hear(id=2, result={})
    talk.editor.hear(**chunk("as the agent tells it"))
    talk.end()


class DeletedMeanwhile(ProxyStore):
    """Another process deletes each session just before we open it."""

    def open_reader(self, agent: str, session: str) -> TranscriptReader:
        ProxyStore(self.root).delete(agent, session, soft=False)
        return super().open_reader(agent, session)


def test_a_session_that_another_process_deletes_during_the_lookup_is_not_found(tmp_path: Path) -> None:
    talk = RelayConversation(DeletedMeanwhile(tmp_path / "store"))
    talk.open()
    talk.turn("one")
    answer = talk.ask("session/load", {"sessionId": "s", "cwd": "/project", "mcpServers": []})
    assert answer["error"]["code"] == NOT_FOUND
    talk.end()


class Unread(ProxyStore):
    """A store whose transcript can be searched, but fails while it is compared."""

    def open_reader(self, agent: str, session: str) -> TranscriptReader:
        store = self

        class Reads(TranscriptReader):
            def read_alike(self, start: int = 0, number: int = 0) -> Iterator[Line | AlikeLines]:
                return store.lines()

        found = super().open_reader(agent, session)
        found.close()
        return Reads(found.path)

    def lines(self) -> Iterator[Line | AlikeLines]:
        raise NotImplementedError


class Endless(Unread):
    """Its transcript is read until the test is over."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.begun, self.over = threading.Event(), threading.Event()

    def lines(self) -> Iterator[Line | AlikeLines]:
        while not self.over.is_set():
            self.begun.set()
            yield Line(1, 0, is_whole=True, entry=None)


def load_and_show_the_past(talk: RelayConversation) -> None:
    """Load the session by request 1, which the agent answers after its replay."""
    place = {"sessionId": "s", "cwd": "/project", "mcpServers": []}
    talk.editor.say({"jsonrpc": "2.0", "id": 1, "method": "session/load", "params": place})
    talk.agent.hear(id=1, method="session/resume")
    talk.agent.say(chunk("as the agent tells it"))
    talk.agent.say({"jsonrpc": "2.0", "id": 1, "result": {}})


def test_a_cancelled_load_stops_reading_its_transcript(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    store = Endless(tmp_path)
    talk = RelayConversation(store)
    try:
        talk.open()
        talk.turn("one")
        load_and_show_the_past(talk)
        assert store.begun.wait(SECONDS)
        [reader] = [thread for thread in set(threading.enumerate()) - before if thread.name == THREAD_NAME]
        talk.editor.say({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": 1}})
        assert talk.editor.hear(id=1)["error"]["code"] == CANCELLED
        reader.join(SECONDS)
        assert not reader.is_alive()
    finally:
        store.over.set()
        talk.end()
    assert not any(b"as the agent tells it" in line for line in talk.editor.lines)


class TornOff(Unread):
    """Its disk is gone."""

    def lines(self) -> Iterator[Line | AlikeLines]:
        raise OSError(errno.EIO, "gone")


def test_the_agents_replay_is_shown_if_it_cannot_be_compared(tmp_path: Path) -> None:
    talk = RelayConversation(TornOff(tmp_path))
    try:
        talk.open()
        talk.turn("one")
        load_and_show_the_past(talk)
        talk.editor.hear(id=1, result={})
    finally:
        talk.end()
    assert any(b"as the agent tells it" in line for line in talk.editor.lines)
    assert "showing the transcript ended early: EIO" in talk.warnings


@pytest.mark.parametrize("modes", [Modes(), Modes(load=STORE)])
def test_a_load_is_answered_if_the_thread_that_shows_its_past_cannot_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, modes: Modes
) -> None:
    def refuse(thread: LoadThread, effect: ChooseAndShowPast) -> None:
        raise RuntimeError("can't start new thread")

    talk = RelayConversation(ProxyStore(tmp_path / "store"), Connection(replace(SETTINGS, modes=modes)))
    try:
        talk.open()
        talk.turn("one")
        monkeypatch.setattr(LoadThread, "start", refuse)
        load_and_show_the_past(talk)
        talk.editor.hear(id=1, result={})
    finally:
        talk.end()
    assert any(b"as the agent tells it" in line for line in talk.editor.lines)
    assert talk.warnings[0] == "internal error: RuntimeError: can't start new thread"
    [advice] = talk.warnings[1:]
    assert advice.startswith("the recorded history of a session is not shown: no thread could start. Load")
