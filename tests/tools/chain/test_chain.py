"""A conductor's one pair of streams is taken apart into two sides, and put together from them."""

import json
import os
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from acp_proxy.tools.chain.chain import Junction
from acp_proxy.tools.chain.messages import Envelopes
from tests.conversation import chunk, line, notification, prompt, request
from tests.waiting import SECONDS


class Ends:
    """A junction with the ends that the conductor and the relay have."""

    def __init__(self) -> None:
        from_conductor, self.conductor_in = os.pipe()
        self.conductor_out, to_conductor = os.pipe()
        self.warned: list[str] = []
        self.is_gone = threading.Event()
        self.junction = Junction(from_conductor, to_conductor, self.warned.append, self.is_gone.set)
        self.junction.start()

    def says(self, data: bytes) -> None:
        os.write(self.conductor_in, data)


@pytest.fixture
def ends() -> Iterator[Ends]:
    ends = Ends()
    yield ends
    ends.junction.stop()


def wrap_message(message: dict[str, Any]) -> bytes:
    return line(notification("proxy/successor", {key: message[key] for key in ("method", "params")}))


def test_each_side_gets_its_lines_in_order_however_they_are_cut(ends: Ends) -> None:
    said = line(prompt(1, "s")) + wrap_message(chunk("s", "a")) + line(prompt(2, "s")) + wrap_message(chunk("s", "b"))
    for at in range(0, len(said), 7):
        ends.says(said[at : at + 7])
    os.close(ends.conductor_in)
    with open(ends.junction.from_client, "rb") as client, open(ends.junction.from_agent, "rb") as agent:
        assert client.read() == line(prompt(1, "s")) + line(prompt(2, "s"))
        assert [json.loads(each) for each in agent] == [chunk("s", "a"), chunk("s", "b")]


def test_a_last_line_without_its_end_is_a_line(ends: Ends) -> None:
    ends.says(line(prompt(1, "s")).removesuffix(b"\n"))
    os.close(ends.conductor_in)
    with open(ends.junction.from_client, "rb") as client:
        assert client.read() == line(prompt(1, "s"))


def test_lines_of_both_sides_are_whole_in_the_conductors_input(ends: Ends) -> None:
    big = [chunk("s", "x" * 100_000 + str(number)) for number in range(20)]
    asked = [request(number, "_any/method", {"y": "y" * 50_000}) for number in range(20)]

    def write(fd: int, lines: list[dict[str, Any]]) -> None:
        with open(fd, "wb") as end:
            end.writelines(map(line, lines))

    for fd, lines in ((ends.junction.to_client, big), (ends.junction.to_agent, asked)):
        threading.Thread(target=write, args=(fd, lines), daemon=True).start()
    with open(ends.conductor_out, "rb") as conductor:
        got = [json.loads(conductor.readline()) for _ in range(40)]
    assert [one for one in got if "id" not in one] == big
    assert [message["params"]["params"] for message in got if "id" in message] == [
        message["params"] for message in asked
    ]
    ends.junction.wait_for_delivery()


def test_a_conductor_that_reads_no_more_is_noticed(ends: Ends) -> None:
    os.close(ends.conductor_out)
    os.write(ends.junction.to_client, line(chunk("s", "hello")))
    assert ends.is_gone.wait(SECONDS)


def test_a_bug_costs_one_line_and_a_warning(ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    opens = Envelopes.open

    def broken(self: Envelopes, data: bytes) -> Any:
        if b"bad" in data:
            raise ArithmeticError("bad")
        return opens(self, data)

    monkeypatch.setattr(Envelopes, "open", broken)
    ends.says(line(prompt("bad", "s")) + line(prompt(1, "s")))
    os.close(ends.conductor_in)
    with open(ends.junction.from_client, "rb") as client:
        assert client.read() == line(prompt(1, "s"))
    assert ends.warned == ["internal error, a line is lost: ArithmeticError: bad"]
