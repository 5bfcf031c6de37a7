"""The pumps, the recorder and the store together: what hangs, fails or ends on one side does not stop the other."""

import itertools
import json
import os
import queue
import select
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from acp_proxy.decisions.capabilities import ALWAYS, Modes, Settings
from acp_proxy.decisions.connection import Connection
from acp_proxy.decisions.effects import CompareUnsettled, Effect
from acp_proxy.decisions.events import Event, LinesRead, UnsettledCompared
from acp_proxy.decisions.fast_path import FastPath
from acp_proxy.protocol.jsonrpc import Peer
from acp_proxy.relay.load_performer import LoadPerformer
from acp_proxy.relay.pipes import POSTED_LIMIT, Output
from acp_proxy.store.index_database import Page
from acp_proxy.store.proxy_store import ProxyStore
from tests.pipes import MORE_THAN_A_PIPE_HOLDS
from tests.recording.recorder_harness import fill_disk
from tests.relay.relay_conversation import SETTINGS, RelayConversation, chunk, is_complete
from tests.waiting import SECONDS, wait_until


@pytest.fixture
def talk(tmp_path: Path) -> Iterator[RelayConversation]:
    """One with an open session, which ends with the test."""
    made = RelayConversation(ProxyStore(tmp_path / "store"))
    made.open()
    yield made
    made.end()


# --- a store without room


def test_a_gap_at_the_end_is_noted_before_we_end(talk: RelayConversation) -> None:
    talk.turn("one")
    [path] = talk.store.root.glob("transcripts/*/s-*.jsonl")
    with fill_disk(after=path.stat().st_size):
        talk.agent.say(chunk("lost"))
        talk.editor.hear(**chunk("lost"))
        talk.ask("session/list", {})  # waits for what has been forwarded
    talk.end()
    assert talk.transcript_items() == ["opened", "one", "gap"]
    assert not is_complete(talk)


# --- bugs


class Broken(ProxyStore):
    def list_page(
        self,
        agent: str,
        cwd: str | None,
        cursor: str | None,
        run: str,
        *,
        archive_filter: bool | None = False,
        other_folders: Sequence[str] = (),
    ) -> Page:
        raise RuntimeError("a bug")


def test_a_list_that_fails_because_of_a_bug_is_answered_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("acp_proxy.relay.worker.ANSWER_SECONDS", 1000.0)
    talk = RelayConversation(Broken(tmp_path / "store"))
    talk.open()
    assert talk.ask("session/list", {})["error"]["code"] == -32603
    talk.end()
    assert talk.warnings == ["internal error in the store's work: RuntimeError: a bug"]


class Buggy(Connection):
    """Fails on certain words."""

    def handle(self, event: Event) -> list[Effect]:
        if isinstance(event, LinesRead) and any(b"trip" in line for line in event.lines):
            raise ValueError("tripped")
        return super().handle(event)


def test_a_bug_in_the_check_of_a_meaningless_line_is_a_warning_and_the_line_is_decided_on(
    talk: RelayConversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    try_admit_simple_lines = FastPath.try_admit_simple_lines

    def stumbles(self: FastPath, data: bytes, peer: Peer) -> bool:
        if b"stumble" in data:
            raise ValueError("stumbled")
        return try_admit_simple_lines(self, data, peer)

    monkeypatch.setattr(FastPath, "try_admit_simple_lines", stumbles)
    talk.turn("stumble")
    assert talk.transcript_items() == ["opened", "stumble"]
    assert len(talk.warnings) == 1


def test_a_bug_in_the_check_of_updates_is_a_warning_and_they_pass(
    talk: RelayConversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    try_admit_updates = FastPath.try_admit_updates

    def stumbles(self: FastPath, data: bytes) -> str | None:
        if b"stumble" in data:
            raise ValueError("stumbled")
        return try_admit_updates(self, data)

    monkeypatch.setattr(FastPath, "try_admit_updates", stumbles)
    for text in ("stumble", "afterwards"):
        talk.agent.say(chunk(text))
        talk.editor.hear(**chunk(text))
    assert talk.warnings[0] == "internal error, lines are handled one by one: ValueError: stumbled"


def test_a_bug_in_deciding_is_a_warning_and_the_lines_pass_unchanged(tmp_path: Path) -> None:
    talk = RelayConversation(ProxyStore(tmp_path / "store"), Buggy(SETTINGS))
    talk.open()
    odd = b'{"jsonrpc":"2.0",  "id":1.0,"method":"session/trip"}\n'
    talk.editor.say(odd)
    talk.agent.hear(method="session/trip")
    assert odd in talk.agent.lines
    talk.agent.say(odd)
    talk.editor.hear(method="session/trip")
    assert odd in talk.editor.lines
    talk.turn("afterwards")
    assert talk.transcript_items() == ["opened", "afterwards"]
    assert len(talk.warnings) == 2
    talk.end()


def test_a_bug_in_a_look_up_is_a_warning_and_the_load_is_answered(
    talk: RelayConversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stumble(*_: object) -> None:
        raise ValueError("stumbled")

    monkeypatch.setattr(LoadPerformer, "look_up", stumble)
    talk.turn("one")
    answer = talk.ask("session/load", {"sessionId": "s", "cwd": "/project", "mcpServers": []})
    assert answer["error"]["code"] == -32603
    assert talk.warnings == ["internal error: ValueError: stumbled"]
    talk.turn("afterwards")
    assert talk.transcript_items() == ["opened", "one", "afterwards"]


# --- limits on memory


def test_an_agent_is_not_read_while_too_much_is_held_for_the_past(
    talk: RelayConversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("acp_proxy.decisions.load.load_limits.HELD_BYTES_LIMIT", 1000)
    talk.turn("x" * MORE_THAN_A_PIPE_HOLDS)
    talk.editor.stop_reading(talk.agent)
    talk.editor.say({"jsonrpc": "2.0", "id": 1, "method": "session/load", "params": {"sessionId": "s", "cwd": "/p"}})
    talk.agent.hear(method="session/resume")
    talk.agent.say({"jsonrpc": "2.0", "id": 1, "result": {}})
    assert talk.editor.is_written_to()
    talk.agent.say(chunk("w" * 1000))
    wait_until(lambda: talk.relay.pauses_agent)
    talk.agent.say(chunk("afterwards"))
    talk.editor.say({"jsonrpc": "2.0", "method": "_said_meanwhile"})
    talk.agent.hear(method="_said_meanwhile")
    assert select.select([talk.agent.relay_reads_from], [], [], 0)[0]  # a relay that reads would have read it by now
    talk.editor.reads_on.set()
    talk.editor.hear(**chunk("afterwards"))
    assert not talk.relay.pauses_agent


# --- the ends


@pytest.mark.parametrize(("fsync", "forced"), [("turn", True), ("never", False)])
def test_a_finished_turn_is_forced_to_the_disk_unless_turned_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fsync: str, forced: bool
) -> None:
    synced: list[int] = []
    store = ProxyStore(tmp_path / "store")
    monkeypatch.setattr(os, "fsync", lambda fd: synced.append(os.fstat(fd).st_ino))
    talk = RelayConversation(store, fsync=fsync)
    talk.open()
    talk.turn("one")
    talk.end()
    [path] = store.root.glob("transcripts/*/*.jsonl")
    assert synced == ([path.stat().st_ino] if forced else [])


class Order(ProxyStore):
    """Tells in which order transcripts are forced to the disk and the index is updated."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.done: queue.SimpleQueue[str] = queue.SimpleQueue()

    def fsync_transcript(self, agent: str, session: str) -> bool:
        is_done = super().fsync_transcript(agent, session)
        self.done.put(f"sync {session}")
        return is_done

    def index_session(self, agent: str, session: str) -> None:
        super().index_session(agent, session)
        self.done.put(f"index {session}")


@pytest.mark.parametrize("sessions", ["s", "st"])
def test_turns_that_end_shortly_after_one_another_share_a_sync_which_comes_before_the_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sessions: str
) -> None:
    monkeypatch.setattr("acp_proxy.relay.worker.DELAY_SECONDS", 1000.0)
    store = Order(tmp_path / "store")
    talk = RelayConversation(store)
    talk.open()
    for text in ("one", "two", "three"):
        for session in sessions:
            talk.turn(text, session)
    assert store.done.empty()
    talk.end()
    rest = [store.done.get_nowait() for _ in range(store.done.qsize())]
    assert rest == [f"{what} {session}" for what in ("sync", "index") for session in sessions]


def test_the_index_is_updated_a_moment_after_every_turn(tmp_path: Path) -> None:
    store = Order(tmp_path / "store")
    talk = RelayConversation(store)
    talk.open()
    for text in ("one", "two"):
        talk.turn(text)
        assert [store.done.get(timeout=SECONDS) for _ in range(2)] == ["sync s", "index s"]
    talk.end()


def test_each_turn_is_forced_to_the_disk_in_time_however_many_sessions_end_theirs(tmp_path: Path) -> None:
    store = Order(tmp_path / "store")
    talk = RelayConversation(store)
    talk.open()
    talk.turn("one")
    forced: list[str] = []
    deadline = time.monotonic() + SECONDS
    for number in itertools.count():
        talk.turn("two", f"s{number}")
        forced += [store.done.get_nowait() for _ in range(store.done.qsize())]
        if "sync s0" in forced:
            break
        assert time.monotonic() < deadline
    talk.end()


def test_when_the_agent_ends_open_requests_are_answered_and_the_prompt_is_recorded_as_failed(tmp_path: Path) -> None:
    talk = RelayConversation(ProxyStore(tmp_path / "store"))
    talk.open()
    prompt = {"sessionId": "s", "prompt": [{"type": "text", "text": "one"}]}
    talk.editor.say({"jsonrpc": "2.0", "id": "p", "method": "session/prompt", "params": prompt})
    talk.agent.hear(id="p")
    talk.agent.end()
    assert talk.relay.agent_pump.ended.wait(SECONDS)
    talk.relay.handle_agent_end("agent exited with status 17")
    assert talk.editor.hear(id="p")["error"] == {"code": -32603, "message": "agent exited with status 17"}
    assert talk.transcript_items() == ["opened", "one", "failed"]
    talk.editor.end()
    assert talk.relay.client_pump.ended.wait(SECONDS)
    talk.relay.finish_work(SECONDS)
    talk.editor.close()
    talk.agent.close()


def test_the_end_of_an_editor_is_reported_and_the_agent_reads_its_end(tmp_path: Path) -> None:
    talk = RelayConversation(ProxyStore(tmp_path / "store"))
    told = threading.Event()
    talk.relay.on_side_ended = told.set
    talk.editor.end()
    assert told.wait(SECONDS)
    assert talk.relay.client_is_gone
    talk.relay.end_input()
    assert talk.agent.heard_the_end()
    talk.agent.end()
    assert talk.relay.agent_pump.ended.wait(SECONDS)
    talk.editor.close()


def test_no_thread_of_a_relay_outlives_it(talk: RelayConversation) -> None:
    before = set(threading.enumerate())
    talk.end()
    for thread in set(threading.enumerate()) - before:
        thread.join(SECONDS)
        assert not thread.is_alive(), thread.name


# --- a session that is loaded twice at once


PLACE = {"sessionId": "s", "cwd": "/project", "mcpServers": []}


def test_a_load_that_waits_is_sent_after_the_answer_to_the_first_and_a_prompt_behind_it(tmp_path: Path) -> None:
    talk = RelayConversation(ProxyStore(tmp_path / "store"))
    talk.open(loads=True)
    talk.turn("one")
    for id in (1, 2, 3):
        talk.editor.say({"jsonrpc": "2.0", "id": id, "method": "session/load", "params": PLACE})
    words = [{"type": "text", "text": "two"}]
    talk.editor.say(
        {"jsonrpc": "2.0", "id": 4, "method": "session/prompt", "params": {"sessionId": "s", "prompt": words}}
    )
    for id in (1, 2, 3):
        talk.agent.hear(id=id)
        talk.agent.say({"jsonrpc": "2.0", "id": id, "result": {}})
        talk.editor.hear(id=id)
    talk.agent.hear(id=4)
    talk.agent.say({"jsonrpc": "2.0", "id": 4, "result": {"stopReason": "end_turn"}})
    talk.editor.hear(id=4)
    sent = [json.loads(line).get("id") for line in talk.agent.lines]
    assert sent[-4:] == [1, 2, 3, 4]
    answered = [message["id"] for message in map(json.loads, talk.editor.lines) if "result" in message]
    assert answered[-4:] == [1, 2, 3, 4]
    talk.end()


def test_when_the_agent_ends_loads_that_wait_are_answered(tmp_path: Path) -> None:
    talk = RelayConversation(ProxyStore(tmp_path / "store"))
    talk.open(loads=True)
    for id in (1, 2):
        talk.editor.say({"jsonrpc": "2.0", "id": id, "method": "session/load", "params": PLACE})
    talk.agent.hear(id=1)
    talk.end()
    assert [talk.editor.hear(id=id)["error"]["code"] for id in (1, 2)] == [-32603, -32603]


# --- sides that write without reading


FLOOD = b'{"jsonrpc":"2.0","method":"_flood","params":"' + b"x" * MORE_THAN_A_PIPE_HOLDS + b'"}\n'


def test_an_agent_that_does_not_read_is_still_read_while_it_is_asked_for_a_new_session(
    tmp_path: Path,
) -> None:
    settings = Settings(records=True, serves=True, proxy_version="0", modes=Modes(handover=ALWAYS))
    talk = RelayConversation(ProxyStore(tmp_path / "store"), Connection(settings))
    talk.open()
    talk.turn("one")
    place = {"sessionId": "s", "cwd": "/project", "mcpServers": []}
    talk.editor.say({"jsonrpc": "2.0", "id": 1, "method": "session/load", "params": place})
    talk.agent.hear(id=1, method="session/resume")
    talk.agent.stop_reading(talk.editor)
    flood = threading.Thread(target=talk.editor.say, args=(FLOOD,))
    flood.start()
    assert talk.agent.is_written_to()
    talk.agent.say({"jsonrpc": "2.0", "id": 1, "error": {"code": -32603, "message": "It is not there"}})
    talk.agent.say({"jsonrpc": "2.0", "method": "_said_meanwhile"})
    talk.editor.hear(method="_said_meanwhile")
    talk.agent.reads_on.set()
    flood.join(SECONDS)
    talk.agent.hear(id="acp-proxy/1", method="session/new")
    assert talk.agent.lines[-2:-1] == [FLOOD]
    talk.agent.say({"jsonrpc": "2.0", "id": "acp-proxy/1", "result": {"sessionId": "t"}})
    assert talk.editor.hear(id=1)["result"]["_meta"] == {"acp-proxy": {"handover": True}}
    talk.end()


def test_an_agent_that_does_not_read_is_still_read_while_it_gets_a_load_that_waited(tmp_path: Path) -> None:
    talk = RelayConversation(ProxyStore(tmp_path / "store"))
    talk.open(loads=True)
    talk.turn("one")
    for id in (1, 2):
        talk.editor.say({"jsonrpc": "2.0", "id": id, "method": "session/load", "params": PLACE})
    talk.agent.hear(id=1, method="session/load")
    talk.agent.stop_reading(talk.editor)
    flood = threading.Thread(target=talk.editor.say, args=(FLOOD,))
    flood.start()
    assert talk.agent.is_written_to()
    talk.agent.say({"jsonrpc": "2.0", "id": 1, "error": {"code": -32603, "message": "It is busy"}})
    talk.agent.say({"jsonrpc": "2.0", "method": "_said_meanwhile"})
    talk.editor.hear(method="_said_meanwhile")
    talk.agent.reads_on.set()
    flood.join(SECONDS)
    talk.agent.hear(id=2, method="session/load")
    talk.agent.say({"jsonrpc": "2.0", "id": 2, "result": {}})
    talk.editor.hear(id=2)
    talk.end()


def test_an_editor_that_does_not_read_is_still_read_while_its_requests_are_refused(talk: RelayConversation) -> None:
    talk.editor.stop_reading(talk.agent)
    flood = threading.Thread(target=talk.agent.say, args=(FLOOD,))
    flood.start()
    assert talk.editor.is_written_to()
    for id in range(3):
        talk.editor.say({"jsonrpc": "2.0", "id": id, "method": "session/list", "params": {"cwd": "not absolute"}})
    talk.editor.say({"jsonrpc": "2.0", "method": "_said_meanwhile"})
    talk.agent.hear(method="_said_meanwhile")
    talk.editor.reads_on.set()
    flood.join(SECONDS)
    for id in range(3):
        assert talk.editor.hear(id=id)["error"]["code"] == -32602


def test_an_editor_that_reads_nothing_is_not_read_while_a_mebibyte_of_answers_waits_for_it(
    talk: RelayConversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    posted: list[int] = []
    post = Output.post

    def count(self: Output, data: bytes, most: float = POSTED_LIMIT) -> None:
        post(self, data, most)
        posted.append(len(data))

    monkeypatch.setattr(Output, "post", count)
    talk.editor.stop_reading(talk.agent)
    flood = threading.Thread(target=talk.agent.say, args=(FLOOD,))
    flood.start()
    assert talk.editor.is_written_to()  # its pipe is full: from here on, answers wait
    ids = [f"{number}{'x' * (POSTED_LIMIT // 4)}" for number in range(12)]  # an answer has the id of its request
    requests = [{"jsonrpc": "2.0", "id": id, "method": "session/list", "params": {"cwd": "not absolute"}} for id in ids]
    asking = threading.Thread(target=lambda: deque(map(talk.editor.say, requests)))
    asking.start()
    wait_until(lambda: sum(posted) > POSTED_LIMIT // 2)
    asking.join(0.25)  # long enough to ask for everything, if somebody read it
    assert asking.is_alive()
    assert sum(posted) <= POSTED_LIMIT
    talk.editor.reads_on.set()
    for thread in (flood, asking):
        thread.join(SECONDS)
    for id in ids:
        assert talk.editor.hear(id=id)["error"]["code"] == -32602


def test_a_line_beyond_the_limit_passes_and_is_a_gap_and_a_warning(
    talk: RelayConversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("acp_proxy.relay.pump.LINE_LIMIT", 500)
    talk.turn("one")
    long = json.dumps(chunk("x" * 1000)).encode() + b"\n"
    talk.agent.say(long[:900])
    talk.editor.hears_a_line_begin()
    talk.agent.say(long[900:])
    talk.turn("two")
    assert long in talk.editor.lines
    assert talk.transcript_items() == ["opened", "one", "gap", "two"]
    assert not is_complete(talk)
    assert len(talk.warnings) == 1


def test_a_load_cancelled_during_a_line_beyond_the_limit_blocks_nothing(
    talk: RelayConversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("acp_proxy.relay.pump.LINE_LIMIT", 500)
    talk.turn("one")
    talk.exchange("session/new", {"cwd": "/project", "mcpServers": []}, {"sessionId": "t"})
    place = {"sessionId": "s", "cwd": "/project", "mcpServers": []}
    talk.editor.say({"jsonrpc": "2.0", "id": 1, "method": "session/load", "params": place})
    talk.agent.hear(id=1, method="session/resume")
    long = json.dumps(chunk("x" * 1000, "t"), separators=(",", ":")).encode()
    talk.agent.say(json.dumps(chunk("before", "t")).encode() + b"\n" + long)
    talk.editor.hear(**chunk("before", "t"))
    talk.editor.hears_a_line_begin()
    talk.editor.say({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": 1}})
    talk.agent.hear(method="$/cancel_request")
    talk.editor.say({"jsonrpc": "2.0", "method": "_ping"})
    talk.agent.hear(method="_ping")
    talk.agent.say(b"\n")
    assert talk.editor.hear(id=1)["error"]["code"] == -32800
    assert talk.editor.lines[-2:-1] == [long + b"\n"]


# --- what comes while a transcript is read


def test_what_the_agent_says_while_a_prompt_waits_for_a_comparison_is_recorded(
    talk: RelayConversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client's pump compares without the lock on deciding, so the agent's pump decides meanwhile."""
    compare_unsettled = LoadPerformer.compare_unsettled

    def compare_slowly(self: LoadPerformer, effect: CompareUnsettled) -> UnsettledCompared:
        compared = compare_unsettled(self, effect)
        talk.agent.say(chunk("said meanwhile"))
        talk.editor.hear(**chunk("said meanwhile"))
        return compared

    monkeypatch.setattr(LoadPerformer, "compare_unsettled", compare_slowly)
    talk.turn("one")
    talk.exchange("session/resume", {"sessionId": "s", "cwd": "/project", "mcpServers": []}, {})
    talk.agent.say(chunk("said before"))
    talk.editor.hear(**chunk("said before"))
    talk.turn("two")
    talk.end()
    [path] = talk.store.root.glob("transcripts/*/s-*.jsonl")
    transcript = path.read_text(encoding="utf-8")
    assert [transcript.count(text) for text in ("said before", "said meanwhile")] == [1, 1]
    assert transcript.index("said before") < transcript.index("said meanwhile") < transcript.index("two")


def test_a_load_is_answered_on_a_line_of_its_own_if_the_agent_ends_within_one(tmp_path: Path) -> None:
    talk = RelayConversation(ProxyStore(tmp_path / "store"))
    talk.open(loads=True)
    talk.turn("one")
    talk.editor.say(
        {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "session/load",
            "params": {"sessionId": "s", "cwd": "/project", "mcpServers": []},
        }
    )
    talk.agent.hear(id=1)
    talk.agent.say(json.dumps(chunk("one more")).encode())
    talk.end()
    assert talk.editor.hear(id=1)["error"]["code"] == -32603


@pytest.mark.parametrize(
    ("method", "params"), [("session/list", {}), ("session/delete", {"sessionId": "s"})], ids=["list", "delete"]
)
def test_a_request_is_answered_while_no_thread_can_start(
    talk: RelayConversation, monkeypatch: pytest.MonkeyPatch, method: str, params: dict[str, str]
) -> None:
    def refuse_to_start(timer: threading.Timer) -> None:
        raise RuntimeError("can't start new thread")

    talk.turn("one")
    with monkeypatch.context() as limit:
        limit.setattr(threading.Timer, "start", refuse_to_start)
        assert talk.ask(method, params)["error"]["code"] == -32603
    assert "result" in talk.ask(method, params)
