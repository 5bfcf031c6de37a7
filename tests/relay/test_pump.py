"""One direction: effects are performed in order, and a peer gets nothing before it is recorded, but for updates."""

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import pytest

from acp_proxy.decisions.effects import Forward, LookUpSession, RelayEffect, Warn
from acp_proxy.protocol.jsonrpc import Peer, RequestId
from acp_proxy.relay import pipes, pump
from acp_proxy.relay.pump import Pump
from tests.pipes import count_held_bytes, needs_wide_pipes, set_capacity
from tests.waiting import SECONDS

ID = RequestId("1")


class Performer:
    """Decides by the text of a line, and notes what it has to do."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.read: list[list[bytes]] = []
        self.pauses_agent = True  # to be asked each time
        self.room = threading.Event()
        self.room.set()
        self._changed = threading.Condition()

    def try_pass_to_agent(self, data: bytes) -> bool:
        return self._passes(b"pass up", data)

    def try_pass_to_client(self, data: bytes) -> bool:
        return self._passes(b"pass down", data)

    def _passes(self, beginning: bytes, data: bytes) -> bool:
        if not data.startswith(beginning):
            return False
        self._note(data.decode())
        return True

    @contextmanager
    def pass_overlong_line(self, peer: Peer, beginning: bytes) -> Iterator[Callable[[bytes], None]]:
        self._note(f"unread: {beginning.decode()[:9]}")
        yield lambda data: self._note(data.decode())
        self._note("read again")

    def decide_on_lines(self, peer: Peer, lines: list[bytes]) -> list[RelayEffect]:
        self.read.append(lines)
        return [effect for line in lines for effect in decide_forward(peer.other, line)]

    def perform(self, effect: RelayEffect) -> list[RelayEffect]:
        match effect:
            case Forward(data=data):
                self._note(data.decode())
            case Warn(text):
                self._note(text)
            case LookUpSession():
                return [Warn("found")]
            case _:
                raise AssertionError(effect)
        return []

    def wait_until_recorded(self) -> None:
        self._note("record now")

    def record_soon(self) -> None:
        self._note("record soon")

    def note_activity(self) -> None:
        pass

    def wait_while_paused(self, peer: Peer) -> None:
        assert self.room.wait(SECONDS)

    def wait_for(self, *done: str) -> None:
        """Wait until these were done, in this order."""
        with self._changed:
            assert self._changed.wait_for(lambda: is_within(done, self.done), SECONDS), self.done

    def _note(self, what: str) -> None:
        with self._changed:
            self.done.append(what)
            self._changed.notify_all()


def is_within(wanted: Iterable[str], done: list[str]) -> bool:
    left = iter(done)
    return all(one in left for one in wanted)


def decide_forward(to: Peer, line: bytes) -> list[RelayEffect]:
    if line.startswith(b"find"):
        return [LookUpSession(ID, "s")]
    return [Forward(to, line, may_precede_recording=line.startswith(b"first"))]


class Direction:
    """A running pump, and what its peer writes."""

    def __init__(self, peer: Peer = Peer.CLIENT) -> None:
        self.performer = Performer()
        self.reading, self.writing = os.pipe()
        self.ends: list[None] = []
        self.pump = Pump(peer, self.reading, self.performer, lambda: self.ends.append(None))

    def write(self, data: bytes) -> None:
        os.write(self.writing, data)

    def end(self) -> None:
        """End the peer, and wait until the pump has finished."""
        os.close(self.writing)
        assert self.pump.ended.wait(SECONDS)


@pytest.fixture
def direction() -> Iterator[Direction]:
    made = Direction()
    yield made
    os.close(made.reading)


def test_the_lines_of_one_read_are_decided_together_and_done_in_order(direction: Direction) -> None:
    direction.write(b"one\ntwo\nthr")
    direction.pump.start()
    direction.performer.wait_for("one\n", "two\n")
    direction.write(b"ee\n")
    direction.end()
    assert direction.performer.read == [[b"one\n", b"two\n"], [b"three\n"]]
    assert [done for done in direction.performer.done if not done.startswith("record")] == ["one\n", "two\n", "three\n"]
    assert direction.ends == [None]


def test_a_last_line_without_a_newline_is_delivered_at_the_end(direction: Direction) -> None:
    direction.write(b"one\ntw")
    direction.write(b"o")
    direction.pump.start()
    direction.end()
    assert [done for done in direction.performer.done if not done.startswith("record")] == ["one\n", "two"]


def test_only_leading_updates_are_forwarded_before_the_flush(direction: Direction) -> None:
    direction.write(b"first one\nfirst two\nthree\nfirst four\n")
    direction.pump.start()
    direction.end()
    assert direction.performer.done == [
        "first one\n",
        "first two\n",
        "record now",
        "three\n",
        "first four\n",
        "record soon",
    ]


def test_nothing_waits_for_the_recording_of_updates(direction: Direction) -> None:
    direction.write(b"first one\n")
    direction.pump.start()
    direction.performer.wait_for("first one\n", "record soon")
    direction.write(b"first two\n")
    direction.end()
    assert direction.performer.done == ["first one\n", "record soon", "first two\n", "record soon"]


def test_effects_that_follow_from_an_effect_are_performed_before_later_lines(direction: Direction) -> None:
    direction.write(b"find\ntwo\n")
    direction.pump.start()
    direction.end()
    assert [done for done in direction.performer.done if not done.startswith("record")] == ["found", "two\n"]


def test_nothing_is_read_without_room(direction: Direction) -> None:
    direction.performer.room.clear()
    direction.write(b"one\n")
    direction.pump.start()
    assert not direction.pump.ended.wait(0.05)
    assert direction.performer.read == []
    direction.performer.room.set()
    direction.performer.wait_for("one\n")
    direction.end()


# Long lines.

LONG = b"x" * 2 * pump.LONG_LINE_SIZE


def test_a_long_line_is_held_until_its_end(direction: Direction) -> None:
    direction.pump.start()
    direction.write(b"one\nlong " + LONG)
    direction.performer.wait_for("one\n")
    direction.write(b"\ntwo\nthr")
    direction.write(b"ee\n")
    direction.end()
    read = [line for lines in direction.performer.read for line in lines]
    assert read == [b"one\n", b"long " + LONG + b"\n", b"two\n", b"three\n"]


@needs_wide_pipes
@pytest.mark.parametrize(
    ("before", "then"), [(pump.READ_SIZE, pipes.WIDE_PIPE_BYTES), (2 * pipes.WIDE_PIPE_BYTES,) * 2]
)
def test_from_a_long_line_on_more_data_is_read_at_once(direction: Direction, before: int, then: int) -> None:
    set_capacity(direction.reading, before)
    direction.pump.start()
    direction.write(b"one\n")
    direction.performer.wait_for("one\n")
    assert count_held_bytes(direction.reading) == before
    direction.write(b"long " + LONG + b"\n")
    direction.end()
    assert count_held_bytes(direction.reading) == then


@pytest.fixture
def limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pump, "LINE_LIMIT", 10)


@pytest.mark.usefixtures("limited")
def test_beyond_the_limit_a_line_passes_as_it_comes_and_the_next_ones_as_usual(direction: Direction) -> None:
    direction.pump.start()
    direction.write(b"one\n0123456789a")
    direction.performer.wait_for("one\n", "unread: 012345678", "0123456789a")
    direction.write(b"bc")
    direction.performer.wait_for("bc")
    direction.write(b"d\ntwo\nthr")
    direction.performer.wait_for("d\n", "read again", "two\n")
    direction.write(b"ee\n")
    direction.end()
    assert direction.performer.read == [[b"one\n"], [b"two\n"], [b"three\n"]]


@pytest.mark.usefixtures("limited")
def test_the_end_of_its_peer_ends_a_line_beyond_the_limit(direction: Direction) -> None:
    direction.pump.start()
    direction.write(b"0123456789a")
    direction.end()
    assert [done for done in direction.performer.done if not done.startswith("record")][-2:] == [
        "0123456789a",
        "read again",
    ]
    assert direction.performer.read == []
