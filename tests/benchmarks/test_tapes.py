"""Tapes have the kinds and sizes of real agents' messages, and the C agent plays them."""

import json
from pathlib import Path

from acp_proxy.store.proxy_store import ProxyStore
from benchmarks import tapes
from benchmarks.subjects import C, Effort
from tests.benchmarks.test_programs import needs_compiler
from tests.stored import chunk, store_session


def test_the_turns_of_a_store_are_counted(tmp_path: Path) -> None:
    store_session(ProxyStore(tmp_path), "s1", ("one", [chunk("hello"), chunk("you")]), ("two", []))

    [turns] = tapes.turns(tmp_path).values()

    assert [[(message.peer, message.kind) for message in turn] for turn in turns] == [
        [
            ("client", "session/prompt"),
            ("agent", "agent_message_chunk"),
            ("agent", "agent_message_chunk"),
            ("agent", "answer"),
        ],
        [("client", "session/prompt"), ("agent", "answer")],
    ]
    assert tapes.table({"agent": turns}).startswith("6 messages of 2 turns: agent.\n")


def test_a_played_line_has_the_kind_and_the_size_of_its_message() -> None:
    turn = next(turn for turn in tapes.load() if any(message.kind == "session/request_permission" for message in turn))
    sent = [message for message in turn if message.peer == "agent"][:-1]  # the last one answers the prompt

    lines = tapes.played([turn]).splitlines()

    assert lines.pop() == ""
    for line, message in zip(lines, sent, strict=True):
        value = json.loads(line[1:])
        asks = "id" in value
        assert line.startswith("?" if asks else " ")
        assert (value["method"] if asks else value["params"]["update"]["sessionUpdate"]) == message.kind
        assert len(line) - 1 == message.size


@needs_compiler
def test_the_agent_plays_whole_turns_again_and_again(effort: Effort, tmp_path: Path) -> None:
    turns = tapes.load()
    path = tmp_path / "tape"
    path.write_text(tapes.played(turns), encoding="utf-8")
    size = sum(len(line) for line in path.read_text().splitlines())

    numbers = effort.talk(C, ["tape", 2 * len(turns)], [1, 200, 0, 0, 1, path])

    assert 2 * size < numbers["received"] < 2 * (size + len(turns) * 100)
