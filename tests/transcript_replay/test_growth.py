"""The cost of a replay grows with the length of the transcript: it is counted in calls, not in seconds."""

import tracemalloc
from collections.abc import Callable
from typing import get_args

import pytest
from msgspec.structs import replace

from acp_proxy.protocol import acp, update_kinds
from acp_proxy.transcript.file_format import Entry
from acp_proxy.transcript_replay.handover_record import HandoverRecord
from acp_proxy.transcript_replay.replayer import Mode, Replayer
from acp_proxy.transcript_replay.v2_client_replayer import V2ClientReplayer
from acp_proxy.transcript_replay.v2_fold import V2Fold
from acp_proxy.transcript_replay.v2_replayer import V2Replayer
from fuzz import growth
from fuzz.growth import Shape, Work
from tests.transcript_replay.entries import (
    IMAGE,
    SESSION,
    USER,
    answer,
    call,
    changed,
    chunk,
    permission,
    prompt_entry,
    shows,
    terminal,
    text,
    update,
)

QUEUE = [prompt_entry("a" * length, id=length) for length in range(1, 60)]
OUTPUT = {"terminal_output": {"data": "x"}}

TALKS: dict[str, Callable[[int], list[Entry]]] = {
    "an echo letter by letter": lambda n: [prompt_entry("a" * n), *[chunk("a", USER)] * n],
    "an echo with another end": lambda n: [prompt_entry("a" * n + "b"), *[chunk("a", USER)] * n, chunk("x")],
    "echoes of a queue": lambda n: [*QUEUE, *[chunk("a", USER)] * n, chunk("x")],
    "user messages in a turn": lambda n: [prompt_entry("ab"), *[chunk("x"), chunk("a", USER)] * n],
    "an echo of many blocks": lambda n: [prompt_entry(*[IMAGE] * n), *[update(USER, content=IMAGE)] * n, chunk("x")],
    "permissions for calls that never come": lambda n: [permission(f"t{number}", kind="edit") for number in range(n)],
    "permissions for one call": lambda n: [*[permission("t", kind="edit")] * n, call("t")],
    "permissions for calls that come": lambda n: [
        one for number in range(n) for one in (permission(f"t{number}"), call(f"t{number}"))
    ],
    "the agent's own terminal": lambda n: [call("t", _meta=OUTPUT), *[changed("t", _meta=OUTPUT)] * n],
    "terminals of many turns": lambda n: [
        one for number in range(n) for one in (terminal(f"{number}", ""), prompt_entry("x", id=number), answer(number))
    ],
    "calls that wait for terminals": lambda n: [
        one
        for number in range(n)
        for one in (call(f"{number}", content=[shows(f"{number}")]), prompt_entry("x", id=number))
    ],
    "calls that overlap prompts": lambda n: [
        *QUEUE[:1],
        *(one for number in range(n) for one in (call(f"{number}"), prompt_entry("x", id=number), answer(number))),
    ],
    "a summary in many chunks": lambda n: (
        [update(update_kinds.COMPACTION_CHUNK, compactionId="c", content=text("x"))] * n + [chunk("x")]
    ),
}


@pytest.mark.parametrize("mode", get_args(Mode))
@pytest.mark.parametrize("name", TALKS)
def test_no_conversation_has_a_quadratic_cost(name: str, mode: Mode) -> None:
    def made(size: int) -> Work:
        entries = TALKS[name](size)

        def work() -> None:
            replayer = Replayer(SESSION, run_id="later", mode=mode, client_update_kinds=update_kinds.OPTIONAL)
            for number, entry in enumerate(entries, 1):
                replayer.add(number, entry)
            replayer.end()

        return work

    grown = growth.counted(Shape(name, made))
    assert grown.is_well, str(grown)


def test_a_record_has_no_quadratic_cost() -> None:
    def made(size: int) -> Work:
        lines = [acp.encode_user_chunk(SESSION, b'{"type":"text","text":"a\\n"}', f"{at // 4}") for at in range(size)]

        def work() -> None:
            record = HandoverRecord(100 * size)
            for line in lines:
                record.add(line)
            record.make_text()

        return work

    assert growth.counted(Shape("a record", made)).is_well


def to_first(page: int) -> Replayer:
    return Replayer(SESSION, run_id="another", page_size=page)


def to_second(page: int) -> V2ClientReplayer:
    verbatim = V2Replayer(SESSION)
    return V2ClientReplayer(SESSION, to_first(page), verbatim, V2Fold(SESSION, 0, page_size=page))


FOLDED = pytest.mark.parametrize(
    "begun", [pytest.param(to_first, id="version 1"), pytest.param(to_second, id="version 2")]
)
"""The folded replays, for clients of both versions."""


def peak_of_turn(begun: Callable[[int], Replayer | V2ClientReplayer], count: int, page: int) -> int:
    """The most bytes that a replay of one turn with so many calls takes at a time."""
    replay = begun(page)
    is_second = isinstance(replay, V2ClientReplayer)

    def made(id: str, at: int) -> Entry:
        fields = {"title": f"Call {id}", "status": "completed", "rawInput": {"at": at}}
        return replace(changed(id, **fields), protocol_version=2) if is_second else call(id, **fields)

    replay.add(1, replace(prompt_entry("go"), protocol_version=2) if is_second else prompt_entry("go"))
    tracemalloc.start()
    try:
        for number in range(count):
            replay.add(number + 2, made(f"t{number}", number))
        replay.end()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@FOLDED
def test_the_memory_for_a_turn_does_not_grow_with_it(begun: Callable[[int], Replayer | V2ClientReplayer]) -> None:
    few, many = (peak_of_turn(begun, count, page=32 * 1024) for count in (500, 2_000))
    assert many - few < 1_500 * 400, "more than the ids of the calls"


@FOLDED
def test_a_folded_call_takes_kilobytes_not_tens_of_them(begun: Callable[[int], Replayer | V2ClientReplayer]) -> None:
    """What orjson returns takes four, however short it is, so nothing of that is held."""
    assert peak_of_turn(begun, 1_000, page=0) < 1_000 * 4_000
