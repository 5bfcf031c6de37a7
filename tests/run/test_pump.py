"""One direction: effects are performed in order, and a thread that hangs in the store can be replaced."""

import os
import threading
from collections.abc import Callable, Iterable, Iterator

import pytest

from acp_proxy.protocol.jsonrpc import Peer, RequestId
from acp_proxy.proxy.effects import Acting, FindSession, Forward, Warn
from acp_proxy.run import output, pump
from acp_proxy.run.pump import Pump
from tests.pipes import held_by, make_hold, needs_wide_pipes

SECONDS = 20.0
ID = RequestId("1")


def nothing() -> None:
    pass


class Performer:
    """Decides by the text of a line, and notes what it has to do."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.read: list[list[bytes]] = []
        self.ends = 0
        self.is_full = True  # to be asked each time
        self.on_flush: Callable[[], None] = nothing
        self.on_find: Callable[[], None] = nothing
        self.room = threading.Event()
        self.room.set()
        self._changed = threading.Condition()

    def pass_to_agent(self, lines: bytes) -> bool:
        return self._passes(b"pass up", lines)

    def pass_to_client(self, lines: bytes) -> bool:
        return self._passes(b"pass down", lines)

    def _passes(self, beginning: bytes, lines: bytes) -> bool:
        if not lines.startswith(beginning):
            return False
        self._note(lines.decode())
        return True

    def open_long_line(self, peer: Peer, data: bytes) -> list[Acting] | None:
        if not data.startswith(b"long "):
            return None
        return [Forward(peer.other, data, ends=False)]

    def decide_piece(self, peer: Peer, data: bytes, *, last: bool) -> list[Acting]:
        self.ends += last
        return [Forward(peer.other, data, begins=False, ends=last)]

    def decide_lines(self, peer: Peer, lines: list[bytes]) -> list[Acting]:
        self.read.append(lines)
        return [effect for line in lines for effect in decided(peer.other, line)]

    def perform(self, effect: Acting) -> list[Acting]:
        match effect:
            case Forward(data=data):
                self._note(data.decode())
            case Warn(text):
                self._note(text)
            case FindSession():
                self.on_find()
                return [Warn("found")]
            case _:
                raise AssertionError(effect)
        return []

    def instead(self, effect: Acting) -> list[Acting]:
        assert isinstance(effect, FindSession)
        return [Warn("not found")]

    def flush(self) -> None:
        self._note("flush")
        self.on_flush()

    def wait_for_room(self, peer: Peer) -> None:
        assert self.room.wait(SECONDS)

    def wait_for(self, *done: str) -> None:
        """Wait until these were done, in this order."""
        with self._changed:
            assert self._changed.wait_for(lambda: is_within(done, self.done), SECONDS), self.done

    def wait_for_bytes(self, count: int) -> None:
        """Wait until this many bytes have passed."""
        with self._changed:
            assert self._changed.wait_for(
                lambda: sum(len(one) for one in self.done if one != "flush") >= count, SECONDS
            )

    def _note(self, what: str) -> None:
        with self._changed:
            self.done.append(what)
            self._changed.notify_all()


def is_within(wanted: Iterable[str], done: list[str]) -> bool:
    left = iter(done)
    return all(one in left for one in wanted)


def decided(to: Peer, line: bytes) -> list[Acting]:
    if line.startswith(b"find"):
        return [FindSession(ID, "s")]
    return [Forward(to, line, first=line.startswith(b"first"))]


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
    assert [done for done in direction.performer.done if done != "flush"] == ["one\n", "two\n", "three\n"]
    assert direction.ends == [None]


def test_a_last_line_without_a_newline_is_delivered_at_the_end(direction: Direction) -> None:
    direction.write(b"one\ntw")
    direction.write(b"o")
    direction.pump.start()
    direction.end()
    assert [done for done in direction.performer.done if done != "flush"] == ["one\n", "two"]


def test_only_leading_updates_are_forwarded_before_the_flush(direction: Direction) -> None:
    direction.write(b"first one\nfirst two\nthree\nfirst four\n")
    direction.pump.start()
    direction.end()
    assert direction.performer.done == ["first one\n", "first two\n", "flush", "three\n", "first four\n"]


def test_leading_updates_are_flushed_before_the_next_read(direction: Direction) -> None:
    direction.write(b"first one\n")
    direction.pump.start()
    direction.performer.wait_for("first one\n", "flush")
    direction.write(b"first two\n")
    direction.end()
    assert direction.performer.done == ["first one\n", "flush", "first two\n", "flush"]


def test_effects_that_follow_from_an_effect_are_performed_before_later_lines(direction: Direction) -> None:
    direction.write(b"find\ntwo\n")
    direction.pump.start()
    direction.end()
    assert [done for done in direction.performer.done if done != "flush"] == ["found", "two\n"]


def test_nothing_is_read_without_room(direction: Direction) -> None:
    direction.performer.room.clear()
    direction.write(b"one\n")
    direction.pump.start()
    assert not direction.pump.ended.wait(0.05)
    assert direction.performer.read == []
    direction.performer.room.set()
    direction.performer.wait_for("one\n")
    direction.end()


class Hanging:
    """A call that holds the first thread until it is released."""

    def __init__(self) -> None:
        self.stuck = threading.Event()
        self.release = threading.Event()
        self.thread: threading.Thread | None = None

    def __call__(self) -> None:
        if not self.stuck.is_set():
            self.thread = threading.current_thread()
            self.stuck.set()
            self.release.wait(SECONDS)

    def ended(self) -> bool:
        """Release the thread; whether it ended."""
        assert self.thread is not None
        self.release.set()
        self.thread.join(SECONDS)
        return not self.thread.is_alive()


def test_a_direction_continues_after_a_hanging_flush_and_nothing_is_done_twice(direction: Direction) -> None:
    hanging = direction.performer.on_flush = Hanging()
    direction.write(b"first one\ntwo\nthree\n")
    direction.pump.start()
    assert hanging.stuck.wait(SECONDS)
    assert hanging.thread is not None
    assert direction.pump.is_thread(hanging.thread.ident or 0)
    direction.pump.take_over()
    assert not direction.pump.is_thread(hanging.thread.ident or 0)
    direction.performer.wait_for("two\n", "three\n")
    direction.write(b"four\n")
    direction.performer.wait_for("four\n")
    assert hanging.ended()
    direction.write(b"five\n")
    direction.end()
    done = [done for done in direction.performer.done if done != "flush"]
    assert done == ["first one\n", "two\n", "three\n", "four\n", "five\n"]


def test_an_effect_that_hangs_is_replaced_and_its_late_answer_is_dropped(direction: Direction) -> None:
    hanging = direction.performer.on_find = Hanging()
    direction.write(b"find\ntwo\n")
    direction.pump.start()
    assert hanging.stuck.wait(SECONDS)
    direction.pump.take_over()
    direction.performer.wait_for("not found", "two\n")
    assert hanging.ended()
    direction.write(b"three\n")
    direction.end()
    assert [done for done in direction.performer.done if done != "flush"] == ["not found", "two\n", "three\n"]


LONG = b"x" * 2 * pump.LONG_LINE


def test_a_long_line_passes_in_pieces_and_the_lines_after_it_as_usual(direction: Direction) -> None:
    direction.pump.start()
    said = b"long " + LONG + b"\ntwo\nthr"
    direction.write(b"one\n" + said)
    direction.performer.wait_for("two\n")
    direction.write(b"ee\n")
    direction.end()
    pieces = [done for done in direction.performer.done if done != "flush"]
    assert "".join(pieces).encode() == b"one\n" + said + b"ee\n"
    assert max(len(piece) for piece in pieces) <= pump.LONG_READ
    assert direction.performer.read == [[b"one\n"], [b"two\n"], [b"three\n"]]


@needs_wide_pipes
@pytest.mark.parametrize(("before", "then"), [(pump.READ_SIZE, output.WIDE), (2 * output.WIDE,) * 2])
def test_from_a_long_line_on_more_data_is_read_at_once(direction: Direction, before: int, then: int) -> None:
    make_hold(direction.reading, before)
    direction.pump.start()
    direction.write(b"one\n")
    direction.performer.wait_for("one\n")
    assert held_by(direction.reading) == before
    direction.write(b"long " + LONG + b"\n")
    direction.end()
    assert held_by(direction.reading) == then


def test_a_long_line_that_may_not_pass_in_pieces_is_held_until_its_end(direction: Direction) -> None:
    direction.pump.start()
    direction.write(b"other " + LONG + b"\n")
    direction.end()
    assert direction.performer.read == [[b"other " + LONG + b"\n"]]


def test_the_end_of_its_peer_ends_a_long_line(direction: Direction) -> None:
    direction.pump.start()
    direction.write(b"long " + LONG)
    direction.end()
    assert "".join(done for done in direction.performer.done if done != "flush").encode() == b"long " + LONG
    assert direction.performer.read == []
    assert direction.performer.ends == 1


@pytest.mark.parametrize(("peer", "one"), [(Peer.AGENT, "pass down\n"), (Peer.CLIENT, "pass up\n")])
def test_lines_that_pass_undecided_do_not_overtake_the_end_of_a_long_line(peer: Peer, one: str) -> None:
    direction = Direction(peer)
    direction.pump.start()
    direction.write(one.encode() + b"long " + LONG)
    direction.write(b"end\n" + one.encode())
    direction.end()
    os.close(direction.reading)
    assert direction.performer.done[0] == one
    assert "".join(done for done in direction.performer.done[1:] if done != "flush").endswith("xend\n" + one)


def test_a_long_line_continues_without_room(direction: Direction) -> None:
    """What would make room waits for the end of the line."""
    direction.pump.start()
    said = b"long " + LONG
    direction.write(said)
    direction.performer.wait_for_bytes(len(said))
    direction.performer.room.clear()
    direction.write(b"more ")
    direction.performer.wait_for_bytes(len(said) + len(b"more "))
    direction.write(b"end\ntwo\n")
    direction.performer.wait_for("two\n")
    direction.performer.room.set()
    direction.end()
