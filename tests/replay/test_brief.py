"""The record that an agent is given of a conversation that it does not remember."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_proxy.replay.brief import INTRODUCTION, LIMIT, Brief, brief
from tests.replay.test_fuller import line, said, tool, user
from tests.strategies import messages, one_line, values


def test_who_said_what_is_told_in_order_behind_a_word_on_what_it_is() -> None:
    lines = [
        user("mend"),
        user(" it"),
        said("I "),
        said("look."),
        line({"sessionUpdate": "tool_call", "toolCallId": "1", "title": "read a.py", "status": "completed"}),
        tool("2"),
        said("Done."),
        user("thanks"),
    ]
    assert brief(lines) == "\n\n".join(
        [
            INTRODUCTION,
            "**User:** mend it",
            "**Agent:** I look.",
            "**Tool:** read a.py (completed)",
            "**Tool:** 2 (unknown)",
            "**Agent:** Done.",
            "**User:** thanks",
        ]
    )


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ({"type": "image", "data": "aGk="}, "[image]"),
        ({"type": "resource_link", "name": "a.py", "uri": "file:///w/a.py"}, "[resource_link: a.py]"),
        ({"type": "resource", "resource": {"uri": "file:///w/b.py", "text": "secret"}}, "[resource: file:///w/b.py]"),
    ],
)
def test_what_is_no_text_is_named(content: object, told: str) -> None:
    assert brief([line({"sessionUpdate": "user_message_chunk", "content": content})]).endswith(f"**User:** {told}")


def test_thoughts_plans_and_states_are_left_out() -> None:
    others = [
        said("thought", "agent_thought_chunk"),
        line({"sessionUpdate": "plan", "entries": []}),
        line({"sessionUpdate": "usage_update"}),
        user(""),
    ]
    assert brief([user("a"), *others, said("b")]) == brief([user("a"), said("b")])


def test_a_record_that_just_fits_is_whole_and_of_one_that_does_not_the_newest_turns_are_kept() -> None:
    lines = [part for n in range(20) for part in (user(f"question {n}"), said(f"é{n}" * 50))]
    whole = brief(lines)
    size = len(whole.encode())
    assert brief(lines, size) == whole
    shorter = brief(lines, size - 1)
    assert len(shorter.encode()) < size
    assert shorter.startswith(INTRODUCTION)
    assert "question 0" not in shorter
    assert shorter.endswith(whole[whole.index("**User:** question 1\n") :])
    assert "left out" in shorter


def test_a_newest_turn_that_does_not_fit_is_cut() -> None:
    text = brief([user("old"), user("x"), said("é" * LIMIT)])
    assert LIMIT - 100 < len(text.encode()) <= LIMIT
    assert "**User:** oldx" in text
    assert "\ufffd" not in text


TURNS = st.lists(st.tuples(st.text(max_size=30), st.text(max_size=200)), max_size=8)


@given(TURNS, st.integers(400, 2000))
def test_it_is_never_over_the_limit_and_begins_and_ends_as_it_should(turns: list[tuple[str, str]], limit: int) -> None:
    lines = [part for asked, answered in turns for part in (user(f"U{asked}"), said(f"A{answered}"))]
    text, whole = brief(lines, limit), brief(lines, 10**9)
    assert len(text.encode("utf-8", "replace")) <= limit
    assert text.startswith(INTRODUCTION)
    assert (text == whole) == (len(whole.encode("utf-8", "replace")) <= limit)
    if text != whole and " […]" not in text:
        kept = text.split("\n\n", 2)[-1]
        assert whole.endswith(kept)


@given(st.lists(messages.map(one_line) | values.map(line) | st.binary(max_size=20)))
def test_no_line_does_harm(lines: list[bytes]) -> None:
    made = Brief()
    for one in lines:
        made.add(one)
    assert json.dumps(made.text())


def test_a_tool_call_is_told_with_its_last_status() -> None:
    call = {"sessionUpdate": "tool_call", "toolCallId": "c", "title": "Run tests", "status": "pending"}
    done = {"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "completed"}
    assert brief([user("go"), line(call), said("wait"), line(done)]).endswith(
        "**Tool:** Run tests (completed)\n\n**Agent:** wait"
    )


def test_a_record_of_nothing_is_empty() -> None:
    assert Brief().is_empty
