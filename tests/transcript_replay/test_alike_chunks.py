"""Streamed messages that are read many lines at once give the same replay as one by one, byte for byte."""

import json
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_proxy.transcript import file_format
from acp_proxy.transcript.chunk_runs import AlikeChunksFinder
from acp_proxy.transcript.file_format import Entry
from acp_proxy.transcript_replay.replayer import Mode, Replayer
from tests.strategies import any_entries
from tests.transcript_replay.conversations import PARENT, RUNS, SESSION, Step, conversations
from tests.transcript_replay.entries import THOUGHT, answer, call, changed, chunk, prompt_entry, text, update

MODES = get_args(Mode)


def make_replayer(mode: Mode, limit: int = 0) -> Replayer:
    return Replayer(SESSION, run_id=RUNS[0], mode=mode, tool_limit=limit, other_ids=frozenset({PARENT}))


def one_by_one(lines: list[bytes], mode: Mode, limit: int = 0) -> bytes:
    again = make_replayer(mode, limit)
    told = []
    for number, line in enumerate(lines):
        if (entry := file_format.decode_entry(line)) is not None:
            told += again.add(number, entry)
    return b"".join([*told, *again.end(), *again.list_states()])


def at_once(lines: list[bytes], mode: Mode, limit: int = 0) -> tuple[bytes, int]:
    """The replay, and how many lines were not read one by one."""
    streams, again, at, saved, told = AlikeChunksFinder(), make_replayer(mode, limit), 0, 0, list[bytes]()
    lines = [line + b"\n" for line in lines]
    while at < len(lines):
        if (stream := streams.find(lines, at)) is not None:
            at += stream.count
            saved += stream.count
            told += again.add_chunks(at - 1, stream)
            continue
        entry = file_format.decode_entry(lines[at])
        streams.last_read = lines[at], entry
        told += again.add(at, entry) if entry is not None else []
        at += 1
    return b"".join([*told, *again.end(), *again.list_states()]), saved


def line(entry: Entry) -> bytes:
    if entry.note is not None or entry.peer is None:
        return file_format.encode_note(entry.at, entry.run, entry.note or {})[:-1]
    return file_format.encode_message(entry.at, entry.run, entry.peer, entry.raw or b"{}", entry.answered_method)[:-1]


TERMINAL = [{"type": "terminal", "terminalId": "t"}]
TALKS: dict[str, list[Entry | None]] = {
    "plain": [prompt_entry("hello"), *[chunk(f" word{number}") for number in range(50)], answer()],
    "echoed": [
        prompt_entry("ab"),
        *[chunk(one, "user_message_chunk") for one in "abc"],
        chunk("x"),
        chunk("y"),
        answer(),
    ],
    "without a prompt": [chunk("a"), chunk("b"), chunk("c")],
    "with ids": [prompt_entry("q"), *[chunk(str(at), messageId="m") for at in range(9)], chunk("x"), chunk("y")],
    "with metadata that keeps them apart": [
        prompt_entry("q"),
        *[chunk(str(at), _meta={"n": 1}) for at in range(9)],
        answer(),
    ],
    "of a thought": [prompt_entry("q"), *[chunk(str(at), THOUGHT) for at in range(9)], chunk("x"), chunk("y")],
    "around calls": [chunk("a"), chunk("b"), call("t"), chunk("c"), chunk("d"), changed("t", status="failed")],
    "after a terminal": [
        prompt_entry("q"),
        call("t", content=TERMINAL),
        *[chunk(str(at)) for at in range(9)],
        answer(),
    ],
    "around a plan": [
        *[chunk(str(at)) for at in range(5)],
        update("plan", entries=[]),
        *[chunk(str(at)) for at in range(5)],
        update("plan", entries=[]),
        chunk("x"),
    ],
    "of a parent": [
        file_format.decode_entry(line(chunk(str(at))).replace(f'"{SESSION}"'.encode(), f'"{PARENT}"'.encode()))
        for at in range(9)
    ],
    "of another session": [
        file_format.decode_entry(line(chunk(str(at))).replace(f'"{SESSION}"'.encode(), b'"other"')) for at in range(9)
    ],
    "of odd content": [update("agent_message_chunk", content=text("a", annotations={})) for _ in range(5)],
    "with halves of a pair": [chunk("\ud83d"), chunk("\ude00"), chunk("a"), chunk("b")],
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", TALKS)
def test_a_conversation_gives_the_same_replay_read_at_once_or_one_by_one(name: str, mode: Mode) -> None:
    lines = [line(entry) for entry in TALKS[name] if entry is not None]
    told, saved = at_once(lines, mode)
    assert told == one_by_one(lines, mode)
    assert saved > 0
    assert all(json.loads(each)["params"]["sessionId"] == SESSION for each in told.splitlines())


@given(conversations(), st.sampled_from(MODES), st.sampled_from([0, 40]))
def test_any_conversation_gives_the_same_replay_read_at_once_or_one_by_one(
    talk: list[Step], mode: Mode, limit: int
) -> None:
    lines = [line(step.entry) for step in talk]
    assert at_once(lines, mode, limit)[0] == one_by_one(lines, mode, limit)


@given(st.lists(st.tuples(any_entries, st.integers(1, 3)), max_size=8), st.sampled_from(MODES))
def test_any_entries_give_the_same_replay_read_at_once_or_one_by_one(
    found: list[tuple[Entry | None, int]], mode: Mode
) -> None:
    lines = [line(entry) for entry, times in found if entry is not None for _ in range(times)]
    assert at_once(lines, mode)[0] == one_by_one(lines, mode)
