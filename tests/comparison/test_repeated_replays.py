"""An agent's replays of a session, compared with each other."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_proxy.comparison.comparison import SentLine
from acp_proxy.comparison.repeated_replays import (
    RestOfReplay,
    are_alike,
    count_earlier_lines,
    drop_context_and_repetition,
    find_last_replay,
)
from tests.tools.adopt.listing_agent import replay_of

FIRST = replay_of("Mend the login", "Mended.")
MORE = replay_of("And the logout?", "That too.")
CALL: dict[str, Any] = {"sessionUpdate": "tool_call", "toolCallId": "c1", "title": "Look", "status": "completed"}


def lines(updates: list[dict[str, Any]]) -> list[bytes]:
    params = ({"sessionId": "s1", "update": update} for update in updates)
    return [json.dumps({"jsonrpc": "2.0", "method": "session/update", "params": param}).encode() for param in params]


@pytest.mark.parametrize(
    ("begins", "sent", "rest"),
    [
        (FIRST[:1], [*FIRST, *MORE], 0),
        (FIRST[:1], [*MORE, *FIRST], 2),
        (FIRST[1:], [*MORE[1:], *FIRST[1:]], 1),
        (FIRST[1:], MORE, 0),
        ([], MORE, 0),
    ],
)
def test_what_comes_before_the_beginning_is_the_rest_of_an_earlier_replay(
    begins: list[dict[str, Any]], sent: list[dict[str, Any]], rest: int
) -> None:
    replay = [SentLine(line, True) for line in lines(sent)]
    assert count_earlier_lines(replay, b"".join(lines(begins))) == rest


def test_a_turn_made_elsewhere_is_not_the_rest_of_a_replay_that_ends_in_the_same_short_answer() -> None:
    rest = RestOfReplay(lines(replay_of("And the logout?", "Done.")))
    assert [rest.try_take(line) for line in lines(replay_of("Commit it", "Done."))] == [False, False]
    assert [rest.try_take(line) for line in lines(replay_of("And the logout?", "Done."))] == [True, True]


CONTEXT = replay_of("<context>")
AGAIN = [*FIRST, CALL, *FIRST]
"""The user says the same twice."""


@pytest.mark.parametrize(
    ("before", "last"),
    [
        ([], [*FIRST, *MORE]),
        ([*FIRST, *MORE], [*FIRST, *MORE]),
        ([*FIRST, *MORE, *FIRST, *MORE], [*FIRST, *MORE]),
        ([*FIRST, *MORE], [*FIRST, CALL]),
        (AGAIN, AGAIN),
        (FIRST * 2, FIRST * 2),
        ([*CONTEXT, *AGAIN], [*CONTEXT, *AGAIN]),
        ([*FIRST[1:], *MORE[1:]], [*FIRST[1:], *MORE[1:]]),
        ([{**CALL, "toolCallId": "c2"}, *MORE[1:]], [CALL, *MORE[1:]]),
    ],
)
def test_the_last_of_several_replays_is_found(before: list[dict[str, Any]], last: list[dict[str, Any]]) -> None:
    replays = [SentLine(line, False) for line in lines([*before, *last])]
    assert find_last_replay(replays) == replays[len(before) :]


@given(st.lists(st.sampled_from("ab"), max_size=12))
def test_the_longest_end_that_came_just_before_is_the_last_replay(said: list[str]) -> None:
    replays = [SentLine(line, False) for line in lines([update for line in said for update in replay_of(line)])]
    begins = [at for at, each in enumerate(said) if each == said[0]][1:] if said else []
    twice = [at for at in begins if said[max(0, 2 * at - len(said)) : at] == said[at:]]
    assert find_last_replay(replays) == replays[(twice or begins[-1:] or [0])[0] :]


class Counted:
    """What a line says, and how often such are compared."""

    comparisons = 0

    def __init__(self, line: bytes) -> None:
        self.line = line

    def __eq__(self, other: object) -> bool:
        Counted.comparisons += 1
        return isinstance(other, Counted) and self.line == other.line

    __hash__ = None  # type: ignore[assignment]


def test_each_line_is_compared_a_few_times_however_often_it_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("acp_proxy.comparison.repeated_replays.read_without_ids", Counted)
    many = [SentLine(line, False) for line in lines(replay_of("again") * 2_000 + replay_of("and the end"))]
    assert len(find_last_replay(many)) == 2
    assert Counted.comparisons < 4 * len(many)


@pytest.mark.parametrize("id", ["messageId", "toolCallId"])
def test_updates_are_alike_whatever_their_ids_are(id: str) -> None:
    one, same, other = lines([{**CALL, id: "1"}, {**CALL, id: "2"}, {**CALL, id: "1", "title": "Look again"}])
    assert are_alike(one, same)
    assert not are_alike(one, other)


SESSION = replay_of("<session_context>\nMonday\n</session_context>", "")[0]
RESPONSE = replay_of("[Function Response: look]", "")[0]


@pytest.mark.parametrize("times", [1, 2])
def test_a_transcript_begins_without_context(times: int) -> None:
    replay: list[dict[str, Any]] = [SESSION, *FIRST, CALL, RESPONSE, *MORE, RESPONSE] * times
    assert drop_context_and_repetition(lines(replay)) == lines([*FIRST, CALL, *MORE, RESPONSE])


def test_a_transcript_begins_with_what_the_user_said_again() -> None:
    again = [*FIRST, *replay_of("Mend the login", "Now the second part is done."), *MORE]
    assert drop_context_and_repetition(lines(again)) == lines(again)
    assert drop_context_and_repetition(lines(again * 2)) == lines(again)


def test_a_message_that_begins_a_transcript_keeps_a_chunk_in_the_words_of_context() -> None:
    asked = {**FIRST[0], "messageId": "m"}
    chunks = [asked, {**SESSION, "messageId": "m"}]
    assert drop_context_and_repetition(lines([SESSION, *chunks, *FIRST[1:]])) == lines([*chunks, *FIRST[1:]])


def test_a_replay_without_user_messages_begins_a_transcript_as_it_is() -> None:
    assert drop_context_and_repetition(lines(FIRST[1:])) == lines(FIRST[1:])
