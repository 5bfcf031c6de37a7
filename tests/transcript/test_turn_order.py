"""The lines of prompts that came during another one's turn, one turn after another."""

from collections.abc import Iterable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_proxy.protocol.jsonrpc import Peer
from acp_proxy.transcript import file_format, turn_order
from acp_proxy.transcript.chunk_runs import AlikeChunks
from acp_proxy.transcript.file_format import Entry
from acp_proxy.transcript.reader import AlikeLines, Line
from acp_proxy.transcript.turn_order import order_turns
from tests.conversation import Said, chunk, commands, prompt, raw, request, result

AT = "2026-11-20T09:15:02.123Z"


def make_entry(message: Said, run: str, peer: Peer = Peer.AGENT, of: str | None = None, version: int = 1) -> Entry:
    line = file_format.encode_message(AT, run, peer, raw(message), of, protocol_version=version)
    entry = file_format.decode_entry(line)
    assert entry is not None
    return entry


def asked(run: str, id: int = 1, version: int = 1) -> Entry:
    return make_entry(prompt(id, "s", "hello"), run, Peer.CLIENT, version=version)


def said(run: str, words: str, version: int = 1) -> Entry:
    return make_entry(chunk("s", words), run, version=version)


def echoed(run: str) -> Entry:
    return make_entry(chunk("s", "hello", kind="user_message_chunk"), run)


def permission(run: str) -> Entry:
    return make_entry(request(9, "session/request_permission", {"sessionId": "s"}), run)


def state(run: str) -> Entry:
    return make_entry(commands("s", "help"), run)


def answered(run: str, id: int = 1) -> Entry:
    return make_entry(result(id, {"stopReason": "end_turn"}), run, of="session/prompt")


def noted(run: str, kind: str, method: str = "session/prompt") -> Entry:
    return Entry(AT, run, None, note={"type": kind, "method": method})


NOTHING = Entry(AT, "", None)


def place(entries: Iterable[Entry | None], size: int = 100) -> list[Line]:
    return [Line(number, number * size, True, entry) for number, entry in enumerate(entries, 1)]


def find_last_lines(lines: Iterable[Line], size: int = 100) -> dict[str, int]:
    return {line.entry.run: line.end - size for line in lines if line.entry is not None}


def order(*entries: Entry | None, size: int = 100) -> list[int]:
    """The numbers of the lines, in the order in which they are read."""
    lines = place(entries, size)
    return [line.number for line in order_turns(lines, lambda: find_last_lines(lines, size))]


def test_a_turn_is_read_whole_before_what_other_connections_recorded_during_it() -> None:
    assert order(
        asked("a"), said("a", "A1 "), asked("b"), said("b", "B1 "), said("a", "A2 "), said("b", "B2"), answered("b"),
        said("a", "A3"), answered("a"),
    ) == [1, 2, 5, 8, 9, 3, 4, 6, 7]  # fmt: skip


def test_three_turns_at_once_are_read_one_after_another() -> None:
    assert order(
        asked("a"), asked("b"), asked("c"), said("c", "C"), said("b", "B"), said("a", "A"), answered("a"),
        answered("b"), answered("c"),
    ) == [1, 6, 7, 2, 5, 8, 3, 4, 9]  # fmt: skip


def test_prompts_keep_their_order() -> None:
    assert order(
        asked("a"), asked("b"), said("a", "A1"), asked("a", 2), said("b", "B1"), said("a", "A2"), answered("a"),
        answered("a", 2), answered("b"),
    ) == [1, 3, 2, 5, 9, 4, 6, 7, 8]  # fmt: skip


def test_a_prompt_that_an_agent_has_queued_begins_its_turn_after_the_answer_to_the_one_before() -> None:
    assert order(
        asked("a"), said("a", "A1"), asked("a", 2), asked("a", 3), said("a", "A2"), answered("a"), said("a", "B"),
        answered("a", 2), said("a", "C"), answered("a", 3),
    ) == [1, 2, 5, 6, 3, 7, 8, 4, 9, 10]  # fmt: skip
    assert order(asked("a"), asked("a", 2), permission("a"), answered("a"), permission("a")) == [1, 3, 4, 2, 5]


def test_queued_prompts_with_one_answer_follow_each_other() -> None:
    assert order(
        asked("a"), asked("a", 2), asked("a", 3), said("a", "A"), answered("a"), answered("a", 2), said("a", "B and C"),
        answered("a", 3),
    ) == [1, 4, 5, 2, 6, 3, 7, 8]  # fmt: skip


def test_a_prompt_that_an_agent_has_taken_into_the_running_turn_stays_there() -> None:
    steered = asked("a"), said("a", "A1"), asked("a", 2), said("a", "A2"), answered("a"), answered("a", 2)
    assert order(*steered, said("a", "a remark"), asked("a", 3), said("a", "B"), answered("a", 3)) == [*range(1, 11)]
    assert order(
        asked("a"), asked("a", 2), asked("a", 3), said("a", "A"), answered("a", 2), answered("a"), said("a", "C"),
        answered("a", 3),
    ) == [1, 2, 4, 5, 6, 3, 7, 8]  # fmt: skip


def test_a_prompt_that_is_repeated_during_the_running_turn_stays_there() -> None:
    rest = said("a", "A2"), answered("a"), said("a", "B"), answered("a", 2)
    assert order(asked("a"), said("a", "A1"), asked("a", 2), echoed("a"), *rest) == [*range(1, 9)]
    assert order(asked("a"), asked("a", 2), said("a", "A1"), echoed("a"), *rest) == [*range(1, 9)]
    assert order(asked("a"), echoed("a"), asked("a", 2), echoed("a"), *rest) == [*range(1, 9)]
    assert order(asked("a"), asked("a", 2), echoed("a"), *rest) == [1, 3, 4, 5, 2, 6, 7]


def test_a_queued_prompt_stays_where_it_was_recorded_if_nothing_says_when_its_turn_began() -> None:
    queued = asked("a"), asked("a", 2), said("a", "A")
    assert order(*queued, noted("a", "failed"), answered("a"), said("a", "B")) == [*range(1, 7)]
    assert order(*queued, answered("a"), noted("a", "opened", "session/fork"), said("a", "B")) == [*range(1, 7)]
    assert order(*queued, answered("a"), None, state("a")) == [*range(1, 7)]
    assert order(*queued, answered("a"), said("a", "B"), size=turn_order.WAITING_LIMIT // 4) == [1, 3, 4, 2, 5]
    assert order(*queued, answered("a"), said("a", "B"), size=turn_order.WAITING_LIMIT // 2) == [*range(1, 6)]


def test_a_prompt_of_another_connection_comes_before_no_queued_one() -> None:
    assert order(
        asked("a"), asked("a", 2), asked("b"), said("a", "A"), answered("a"), said("a", "B"), said("b", "C"),
        answered("a", 2), answered("b"),
    ) == [1, 2, 4, 5, 6, 8, 3, 7, 9]  # fmt: skip


def test_no_turn_waits_for_one_of_which_nothing_more_was_recorded() -> None:
    assert order(asked("a"), said("a", "A1"), asked("b"), said("b", "B1"), answered("b")) == [1, 2, 3, 4, 5]
    assert order(asked("a"), asked("b"), said("b", "B1"), said("a", "A1"), said("b", "B2"), answered("b")) == [
        1, 4, 2, 3, 5, 6,
    ]  # fmt: skip


def test_what_is_said_after_a_turn_that_never_ended_follows_its_last_line() -> None:
    assert order(asked("a"), noted("b", "opened", "session/load"), said("b", "hi"), said("a", "A1"), asked("b")) == [
        1, 4, 2, 3, 5,
    ]  # fmt: skip
    assert order(asked("a"), said("b", "hi"), said("a", "A1")) == [1, 3, 2]
    assert order(asked("a"), said("b", "hi")) == [1, 2]


def test_a_turn_ends_with_its_answer_or_when_the_agent_exits_or_in_a_fork() -> None:
    assert order(asked("a"), said("b", "B"), answered("a", 2), answered("a"), said("a", "A")) == [1, 3, 4, 2, 5]
    assert order(asked("a"), said("b", "B"), noted("a", "failed"), said("a", "A")) == [1, 3, 2, 4]
    assert order(asked("a"), noted("b", "failed"), said("a", "A"), answered("a")) == [1, 3, 4, 2]
    assert order(asked("a"), said("b", "B"), noted("b", "opened", "session/fork"), said("b", "B"), said("a", "A")) == [
        1, 2, 3, 4, 5,
    ]  # fmt: skip


def test_prompts_of_a_forks_parent_are_not_waited_for() -> None:
    assert order(asked("a"), noted("a", "opened", "session/fork"), said("b", "B"), said("a", "A")) == [1, 2, 3, 4]


def test_lines_alike_stay_with_the_line_before_them() -> None:
    alike = AlikeLines(5, 500, chunks=AlikeChunks.__new__(AlikeChunks))
    first, second, third, fourth = place([asked("a"), said("a", "A1"), said("b", "B1"), answered("a")])
    ordered = order_turns([first, second, third, alike, fourth], lambda: {"a": 300, "b": 200})
    assert list(ordered) == [first, second, fourth, third, alike]


def test_a_damaged_line_does_not_wait() -> None:
    assert order(asked("a"), said("b", "B"), None, answered("a")) == [1, 3, 4, 2]


def test_turns_of_version_2_are_read_as_recorded() -> None:
    assert order(asked("a", version=2), asked("b", version=2), said("a", "A", 2), said("b", "B", 2)) == [1, 2, 3, 4]
    assert order(asked("a"), said("b", "B"), said("c", "C", 2), said("a", "A")) == [1, 2, 3, 4]


def test_only_so_much_waits() -> None:
    size = turn_order.WAITING_LIMIT // 2
    assert order(asked("a"), said("b", "B1"), said("b", "B2"), said("b", "B3"), said("a", "A1"), size=size) == [
        1, 2, 3, 4, 5,
    ]  # fmt: skip


def test_a_moved_prompt_counts_once_in_what_waits() -> None:
    assert order(
        asked("b"), asked("a"), asked("a", 2), said("a", "A"), answered("a"), said("a", "B"), answered("a", 2),
        said("b", "B"), answered("b"), size=turn_order.WAITING_LIMIT // 7,
    ) == [1, 8, 9, 2, 4, 5, 3, 6, 7]  # fmt: skip


def test_lines_alike_wait_for_nothing_once_too_much_has_waited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turn_order, "WAITING_LIMIT", 100)
    alike = [AlikeLines(number, number * 100, chunks=AlikeChunks.__new__(AlikeChunks)) for number in (3, 4)]
    first, second, _, _, last = place([asked("a"), said("b", "B"), None, None, said("b", "B")])
    lines: list[Line | AlikeLines] = [first, second, *alike, last]
    assert list(order_turns(lines, lambda: {"a": 0, "b": 400})) == lines
    assert list(order_turns(lines[:-1], lambda: {"a": 0, "b": 400})) == lines[:-1]


@given(st.data())
def test_prompts_and_all_else_of_each_connection_keep_their_order_and_nothing_is_lost(data: st.DataObject) -> None:
    ids = st.sampled_from([1, 2, 3])
    kinds = st.sampled_from(
        [
            lambda run: asked(run, data.draw(ids)),
            lambda run: answered(run, data.draw(ids)),
            lambda run: said(run, "words"),
            lambda run: noted(run, "failed"),
            echoed,
            None,
        ]
    )
    runs, lines = dict[int, str](), list[Line | AlikeLines]()
    for number, make in enumerate(data.draw(st.lists(kinds, max_size=30)), 1):
        run = data.draw(st.sampled_from("abc"))
        if make is not None:
            lines.append(Line(number, number * 100, True, make(run)))
            runs[number] = run
        elif lines and (isinstance(lines[-1], AlikeLines) or b"words" in ((lines[-1].entry or NOTHING).raw or b"")):
            runs[number] = runs[lines[-1].number]
            lines.append(AlikeLines(number, number * 100, chunks=AlikeChunks.__new__(AlikeChunks)))
    last_lines = {run: number * 100 - 100 for number, run in runs.items()}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(turn_order, "WAITING_LIMIT", data.draw(st.sampled_from([100, 300, 10_000])))
        ordered = list(order_turns(lines, lambda: last_lines))
    numbers = [line.number for line in ordered]
    assert sorted(numbers) == sorted(runs)
    prompts = [line.number for line in ordered if isinstance(line, Line) and line.entry and line.entry.is_prompt]
    groups = [[number for number in numbers if runs[number] == run and number not in prompts] for run in "abc"]
    groups.append(prompts)
    assert groups == [sorted(group) for group in groups]
    bases = {after.number: before.number for before, after in pairwise(lines) if isinstance(after, AlikeLines)}
    pairs = {after.number: before.number for before, after in pairwise(ordered)}
    assert {number: pairs[number] for number in bases} == bases
