"""Whole lines are written at the peer's pace; a peer that is gone is noticed, and is not an error."""

import contextlib
import math
import os
import queue
import select
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from acp_proxy.relay import pipes
from acp_proxy.relay.pipes import POSTED_LIMIT, WIDE_PIPE_BYTES, Output, Stderr
from tests.pipes import MORE_THAN_A_PIPE_HOLDS, SMALL, count_held_bytes, needs_wide_pipes, set_capacity
from tests.posix import pty
from tests.waiting import SECONDS


class Pipe:
    """An output, the end that its peer reads, and how often the output reported that the peer is gone."""

    def __init__(self) -> None:
        self.reading, self.writing = os.pipe()
        self.gone: list[None] = []
        self.output = Output(self.writing, lambda: self.gone.append(None))

    def read_all(self) -> bytes:
        self.output.close()
        data = bytearray()
        while piece := os.read(self.reading, 65536):
            data += piece
        return bytes(data)


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    made = Pipe()
    yield made
    if not made.output.is_gone:
        made.output.close()
    os.close(made.reading)


def test_data_arrives_unchanged_and_then_the_end(pipe: Pipe) -> None:
    pipe.output.write(b"one\n")
    pipe.output.write(b"")
    pipe.output.write(b"two\nthr")
    pipe.output.write(b"ee")
    assert pipe.read_all() == b"one\ntwo\nthree"
    assert pipe.gone == []


def test_our_message_begins_on_a_line_of_its_own(pipe: Pipe) -> None:
    pipe.output.write(b"ours\n", is_own=True)
    pipe.output.write(b"unfinished")
    pipe.output.write(b"ours\n", is_own=True)
    pipe.output.write(b"ours again\n", is_own=True)
    assert pipe.read_all() == b"ours\nunfinished\nours\nours again\n"


@needs_wide_pipes
@pytest.mark.parametrize(("before", "then"), [(64 * 1024, WIDE_PIPE_BYTES), (2 * WIDE_PIPE_BYTES, 2 * WIDE_PIPE_BYTES)])
def test_much_data_enlarges_the_pipe(pipe: Pipe, before: int, then: int) -> None:
    set_capacity(pipe.writing, before)
    pipe.output.write(b"one\n")
    assert count_held_bytes(pipe.writing) == before
    much = threading.Thread(target=pipe.output.write, args=(b"x" * 4 * WIDE_PIPE_BYTES,))
    much.start()
    left = 4 * WIDE_PIPE_BYTES
    while left:
        left -= len(os.read(pipe.reading, left))
    much.join(SECONDS)
    assert count_held_bytes(pipe.writing) == then


@needs_wide_pipes
def test_a_gone_peer_changes_no_pipe_that_got_its_descriptor(pipe: Pipe) -> None:
    other = Pipe()
    pipe.output.close()
    os.dup2(other.writing, pipe.writing)
    set_capacity(other.writing, before := 64 * 1024)
    pipe.output.widen()
    pipe.output.write(b"a long line\n")
    assert count_held_bytes(other.writing) == before
    os.close(pipe.writing)
    assert other.read_all() == b""
    os.close(other.reading)


def test_posted_messages_wait_for_the_end_of_a_long_line_and_block_nothing(pipe: Pipe) -> None:
    with pipe.output.reserve():
        pipe.output.write_locked(b"lo")
        pipe.output.post(b"ours\n")
        pipe.output.post(b"ours again\n")
        pipe.output.write_locked(b"ng\n")
    assert pipe.output.wait_until_written(SECONDS)
    pipe.output.write(b"next\n")
    pipe.output.post(b"ours\n")
    assert pipe.output.wait_until_written(SECONDS)
    assert pipe.read_all() == b"long\nours\nours again\nnext\nours\n"


def test_posting_to_a_peer_that_does_not_read_blocks_only_beyond_a_limit(pipe: Pipe) -> None:
    set_capacity(pipe.writing, SMALL)
    line = b"x" * (POSTED_LIMIT // 4 - 1) + b"\n"  # more than it holds
    for _ in range(4):
        pipe.output.post(line)
    assert not pipe.output.wait_until_written(0)
    pipe.output.post(line, math.inf)
    fifth = threading.Thread(target=pipe.output.post, args=(line,))
    fifth.start()
    fifth.join(0.05)
    assert fifth.is_alive()
    left = len(line) * 6
    while left:
        left -= len(os.read(pipe.reading, 65536))
    fifth.join(SECONDS)
    assert pipe.output.wait_until_written(SECONDS)


def test_messages_posted_to_a_peer_that_goes_are_dropped() -> None:
    pipe = Pipe()
    for _ in range(3):
        pipe.output.post(b"x" * MORE_THAN_A_PIPE_HOLDS, math.inf)
    os.read(pipe.reading, 1)  # the first is under way
    os.close(pipe.reading)
    assert pipe.output.wait_until_written(SECONDS)
    assert pipe.gone == [None]
    os.close(pipe.writing)


@pytest.mark.parametrize("blocking", [True, False])
def test_a_write_waits_for_a_peer_that_does_not_read_and_loses_nothing(pipe: Pipe, blocking: bool) -> None:
    os.set_blocking(pipe.writing, blocking)
    data = bytes(range(256)) * (MORE_THAN_A_PIPE_HOLDS // 256) + b"\n"
    read = bytearray()
    begun = threading.Event()

    def read_slowly() -> None:
        assert begun.wait(SECONDS)
        while len(read) < len(data):
            read.extend(os.read(pipe.reading, 65536))

    reader = threading.Thread(target=read_slowly)
    reader.start()
    writer = threading.Thread(target=pipe.output.write, args=(data,))
    writer.start()
    writer.join(0.05)
    assert writer.is_alive()  # nothing reads yet, and a pipe does not hold this much
    begun.set()
    writer.join(SECONDS)
    reader.join(SECONDS)
    assert bytes(read) == data
    assert pipe.gone == []


def test_lines_of_two_writers_never_interleave(pipe: Pipe) -> None:
    lines = [letter * 100_000 + b"\n" for letter in (b"a", b"b")]
    read = bytearray()

    def read_all() -> None:
        while len(read) < 20 * len(lines[0]):
            read.extend(os.read(pipe.reading, 65536))

    def write(line: bytes) -> None:
        for _ in range(10):
            pipe.output.write(line)

    threads = [threading.Thread(target=read_all), *(threading.Thread(target=write, args=(line,)) for line in lines)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS)
    assert sorted(bytes(read).splitlines(keepends=True)) == sorted(lines * 10)


def test_a_gone_peer_is_reported_once_and_later_writes_do_nothing() -> None:
    pipe = Pipe()
    os.close(pipe.reading)
    pipe.output.write(b"one\n")
    pipe.output.write(b"two\n")
    pipe.output.close()
    assert pipe.output.is_gone
    assert pipe.gone == [None]
    os.close(pipe.writing)


def test_a_waiting_write_ends_when_its_peer_goes() -> None:
    pipe = Pipe()
    writer = threading.Thread(target=pipe.output.write, args=(b"x" * MORE_THAN_A_PIPE_HOLDS,))
    writer.start()
    os.read(pipe.reading, 1)  # the write is under way
    os.close(pipe.reading)
    writer.join(SECONDS)
    assert not writer.is_alive()
    assert pipe.gone == [None]
    os.close(pipe.writing)


def a_pipe() -> tuple[int, socket.socket | None, Callable[[], None]]:
    speaker, other = os.pipe()
    os.write(other, b"not read yet")
    return speaker, None, lambda: os.close(other)


def a_socket() -> tuple[int, socket.socket | None, Callable[[], None]]:
    speaker, other = socket.socketpair()
    return speaker.detach(), None, other.close


def a_socket_that_still_reads() -> tuple[int, socket.socket | None, Callable[[], None]]:
    speaker, other = socket.socketpair()
    return speaker.detach(), other, lambda: other.shutdown(socket.SHUT_WR)


@pytest.mark.parametrize("kind", [a_pipe, a_socket, a_socket_that_still_reads])
def test_a_hang_up_is_noticed_during_a_waiting_write_and_the_write_loses_nothing(
    kind: Callable[[], tuple[int, socket.socket | None, Callable[[], None]]],
) -> None:
    speaker, other, hang_up = kind()
    reading, writing = os.pipe()
    told: queue.SimpleQueue[None] = queue.SimpleQueue()
    to_agent = Output(writing, lambda: None, speaker, lambda: told.put(None))
    writer = threading.Thread(target=to_agent.write, args=(b"x" * MORE_THAN_A_PIPE_HOLDS,))
    writer.start()
    with pytest.raises(queue.Empty):
        told.get(timeout=0.05)
    hang_up()
    told.get(timeout=SECONDS)
    read, taken = 0, to_agent.slow_write_count
    while read < MORE_THAN_A_PIPE_HOLDS:
        read += len(os.read(reading, 65536))
    writer.join(SECONDS)
    assert to_agent.slow_write_count > taken
    assert told.empty()
    to_agent.close()
    os.close(reading)
    os.close(speaker)
    if other is not None:
        other.close()


def test_writes_after_the_close_go_nowhere(pipe: Pipe) -> None:
    pipe.output.write(b"one\n")
    pipe.output.close()
    pipe.output.close()
    pipe.output.write(b"two\n")
    assert os.read(pipe.reading, 100) == b"one\n"
    assert os.read(pipe.reading, 100) == b""


def test_text_on_stderr_arrives_whole_if_somebody_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipes, "_UNREAD_SECONDS", SECONDS)
    reading, writing = os.pipe()
    said = b"one\n" + b"x" * MORE_THAN_A_PIPE_HOLDS + b"\n"
    writer = threading.Thread(target=Stderr(writing).write, args=(said,))
    writer.start()
    read = b""
    while len(read) < len(said):
        read += os.read(reading, 65536)
    writer.join(SECONDS)
    os.close(reading)
    os.close(writing)
    assert read == said


def test_an_unread_stderr_is_waited_for_once_and_then_dropped_until_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipes, "_UNREAD_SECONDS", 0.01)
    vain_waits: list[float] = []
    wait = select.select

    def note_wait(reading: list[int], writing: list[int], failing: list[int], seconds: float) -> Any:
        found = wait(reading, writing, failing, seconds)
        if not found[1]:
            vain_waits.append(seconds)
        return found

    monkeypatch.setattr(select, "select", note_wait)
    reading, writing = os.pipe()
    told = Stderr(writing)
    told.write(b"x" * MORE_THAN_A_PIPE_HOLDS)
    for _ in range(2):
        told.write(b"dropped\n")
    assert vain_waits == [0.01, 0.0, 0.0]
    os.set_blocking(reading, False)
    read = b""
    with contextlib.suppress(BlockingIOError):
        while data := os.read(reading, 65536):
            read += data
    assert set(read) == set(b"x")
    told.write(b"later\n")
    assert os.read(reading, 65536) == b"later\n"
    os.close(reading)
    os.close(writing)


def test_a_gone_stderr_is_not_an_error() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    Stderr(writing).write(b"one\n")
    os.close(writing)


def test_a_read_returns_the_available_data_and_nothing_at_the_end(pipe: Pipe) -> None:
    pipe.output.write(b"one\n")
    assert pipes.read(pipe.reading, 65536) == b"one\n"
    pipe.output.close()
    assert pipes.read(pipe.reading, 65536) == b""


def test_a_read_waits_even_if_the_other_side_made_the_pipe_non_blocking(pipe: Pipe) -> None:
    os.set_blocking(pipe.reading, False)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(pipes.read(pipe.reading, 65536)))
    reader.start()
    reader.join(0.05)
    assert reader.is_alive()
    pipe.output.write(b"one\n")
    reader.join(SECONDS)
    assert read == [b"one\n"]


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a pty whose other side closed reads as an end")
def test_a_disconnected_terminal_reads_as_the_end() -> None:
    ours, theirs = pty.openpty()
    os.close(theirs)
    assert pipes.read(ours, 65536) == b""
    os.close(ours)


def test_a_thread_that_waits_writes_before_the_next_part_of_the_past(pipe: Pipe) -> None:
    writer = threading.Thread(target=pipe.output.write, args=(b"another session\n",))
    with pipe.output.reserve():
        writer.start()
        while not pipe.output._queue_lock.locked():  # until it waits
            threading.Event().wait(0.001)
    with pipe.output.reserve():
        pipe.output.write_locked(b"the next part\n")
    writer.join(SECONDS)
    assert pipe.read_all() == b"another session\nthe next part\n"


def test_what_is_posted_while_no_thread_can_start_is_written_with_the_next_message(
    pipe: Pipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse_to_start(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as limit:
        limit.setattr(threading.Thread, "start", refuse_to_start)
        pipe.output.post(b"one\n")
        pipe.output.post(b"x" * POSTED_LIMIT + b"\n")
        assert not pipe.output.wait_until_written()
    reader = threading.Thread(target=pipe.output.post, args=(b"three\n",))
    reader.start()
    data = b""
    while not data.endswith(b"three\n"):
        data += os.read(pipe.reading, 65536)
    reader.join()
    assert data == b"one\n" + b"x" * POSTED_LIMIT + b"\nthree\n"
    assert pipe.output.wait_until_written(SECONDS)
