"""``show --follow`` shows what another process records, until its turn or that process ends."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from queue import Empty, Queue

import pytest

from acp_proxy.protocol import timestamps
from acp_proxy.protocol.jsonrpc import Peer
from acp_proxy.transcript.appender import TranscriptAppender
from tests.cli.commands import run
from tests.cli.terminal import run_on_terminal
from tests.client import TIMEOUT
from tests.stored import EPOCH, WholeStore, chunk, message, store_running_session, store_session


class Follower:
    """The command, with its output so far. Every wait is bounded."""

    def __init__(self, store: WholeStore, *words: str) -> None:
        command = [sys.executable, "-m", "acp_proxy", "show", "busy", "--follow", *words]
        self.process = subprocess.Popen(
            [*command, "--store", str(store.root)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=os.environ | {"PYTHONUNBUFFERED": "1"},
        )
        self._text = b""
        self._pieces: Queue[bytes] = Queue()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def until(self, text: str) -> str:
        deadline = time.monotonic() + TIMEOUT
        while text not in self._so_far:
            try:
                data = self._pieces.get(timeout=max(deadline - time.monotonic(), 0))
            except Empty:
                raise TimeoutError(f"no {text!r} in {self._text!r}") from None
            assert data, (self._text, self.process.stderr and self.process.stderr.read())
            self._text += data
        return self._so_far

    def ended(self) -> tuple[int, str, str]:
        """The exit status, the whole output, and stderr."""
        assert self.process.stderr is not None
        errors, status = self.process.stderr.read(), self.process.wait(TIMEOUT)
        self._thread.join(TIMEOUT)
        while not self._pieces.empty():
            self._text += self._pieces.get()
        return status, self._so_far, _text(errors)

    def close(self) -> None:
        assert self.process.stderr is not None
        self.process.kill()
        self.process.wait(TIMEOUT)
        self._thread.join(TIMEOUT)
        self.process.stderr.close()

    @property
    def _so_far(self) -> str:
        return _text(self._text)

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as stream:
            while data := os.read(stream.fileno(), 65536):
                self._pieces.put(data)
        self._pieces.put(b"")


def _text(data: bytes) -> str:
    return data.replace(os.linesep.encode(), b"\n").decode()


@pytest.fixture
def followers() -> Iterator[list[Follower]]:
    started: list[Follower] = []
    yield started
    for follower in started:
        follower.close()


def append_chunk(path: Path, text: str) -> None:
    update = {"sessionId": "busy", "update": chunk(text)}
    append(path, message(timestamps.format_now(EPOCH), Peer.AGENT, {"method": "session/update", "params": update}))


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


ANSWER = message(
    timestamps.format_now(EPOCH), Peer.AGENT, {"id": 1, "result": {"stopReason": "end_turn"}}, "session/prompt"
)


def test_words_appear_as_they_are_recorded_until_the_turn_ends(store: WholeStore, followers: list[Follower]) -> None:
    with store_running_session(store, "busy", "Work on") as path:
        followers.append(follower := Follower(store))
        assert follower.until("> Work on").startswith("Work on\nbusy  ")
        append_chunk(path, "first ")
        follower.until("first ")
        append(path, ANSWER[:20])
        said_rest = ANSWER[20:]
        append(path, said_rest)
        status, text, told = follower.ended()
    assert (status, told) == (0, "The turn has ended.\n")
    assert text.endswith("\n\nfirst \n")


def test_it_ends_with_the_process_that_ran_the_turn(store: WholeStore, followers: list[Follower]) -> None:
    with store_running_session(store, "busy", "Work on") as path:
        followers.append(follower := Follower(store))
        follower.until("> Work on")
        append_chunk(path, "last words")
    status, text, told = follower.ended()
    assert (status, told) == (0, "The process that ran the turn has ended.\n")
    assert text.endswith("last words\n")


def test_ctrl_c_ends_it(store: WholeStore, followers: list[Follower]) -> None:
    with store_running_session(store, "busy", "Work on"):
        followers.append(follower := Follower(store))
        follower.until("> Work on")
        follower.process.send_signal(signal.SIGINT)
        status, _, told = follower.ended()
    assert (status, told) == (130, "")


def test_only_the_last_turn_is_followed_if_wanted(store: WholeStore, followers: list[Follower]) -> None:
    path = store_session(store, "busy", ("the first", [chunk("one")]), ("the second", []))
    prompt = {"id": 7, "method": "session/prompt", "params": {"sessionId": "busy", "prompt": []}}
    transcript = TranscriptAppender(path)
    try:
        transcript.append(message(timestamps.format_now(EPOCH), Peer.CLIENT, prompt))
        append_chunk(path, "three")
        followers.append(follower := Follower(store, "--turn", "-1"))
        text = follower.until("three")
    finally:
        transcript.close()
    assert follower.ended()[0] == 0
    assert "Turn 3" in text
    assert "one" not in text
    assert "the second" not in text


def test_a_session_without_a_running_turn_is_shown_to_its_end(store: WholeStore) -> None:
    store_session(store, "busy", ("Mend it", [chunk("done")]))
    result = run(store, "show", "busy", "--follow")
    assert (result.exit_code, result.stderr) == (0, "No turn is running.\n")
    assert result.stdout.endswith("> Mend it\n\ndone\n")


def test_its_time_on_a_terminal_is_the_local_one_as_by_show(store: WholeStore) -> None:
    store_session(store, "busy", ("Mend it", [chunk("done")]))
    words = ("show", "busy", "--store", str(store.root))
    settings = {"NO_COLOR": "1", "TZ": "Asia/Tokyo"}
    followed, shown = (run_on_terminal(*words, *more, settings=settings).splitlines()[1] for more in (["--follow"], []))
    assert followed == shown
    assert "Z" not in followed


def test_lines_on_a_terminal_end_between_words(store: WholeStore) -> None:
    store_session(store, "busy", ("Mend it", [chunk(f"tick{number} ") for number in range(40)]))
    text = run_on_terminal("show", "busy", "--follow", "--store", str(store.root), settings={"NO_COLOR": "1"})
    said = [line.rstrip() for line in text.splitlines() if "tick" in line]
    assert all(len(line) < 80 for line in said)
    assert [word for line in said for word in line.split()] == [f"tick{number}" for number in range(40)]


@pytest.mark.parametrize("option", ["--raw", "--json", "--full"])
def test_it_has_one_form(store: WholeStore, option: str) -> None:
    store_session(store, "busy", ("Mend it", []))
    assert run(store, "show", "busy", "--follow", option).exit_code == 2
