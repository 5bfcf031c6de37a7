"""Which of two tellings of one past is the fuller."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_proxy.replay import fuller
from acp_proxy.replay.fuller import Told, ours_is_fuller, told
from tests.strategies import messages, one_line, values

Value = dict[str, Any]


def line(update: object) -> bytes:
    return json.dumps({"method": "session/update", "params": {"sessionId": "s", "update": update}}).encode() + b"\n"


def user(text: str) -> bytes:
    return line({"sessionUpdate": "user_message_chunk", "content": {"type": "text", "text": text}})


def said(text: str, kind: str = "agent_message_chunk") -> bytes:
    return line({"sessionUpdate": kind, "content": {"type": "text", "text": text}})


def tool(id: str, title: str | None = None, kind: str = "tool_call") -> bytes:
    return line({"sessionUpdate": kind, "toolCallId": id, "title": title})


OURS = [user("mend it"), said("I look."), tool("1", "read a.py"), said("It is done."), user("thanks"), said("Gladly.")]


def is_ours(theirs: list[bytes], ours: list[bytes] = OURS) -> bool:
    return ours_is_fuller(told(ours), told(theirs))


@pytest.mark.parametrize(
    "theirs",
    [
        [],
        OURS[1:],
        OURS[:-1],
        [one for one in OURS if b"tool_call" not in one],
        [one for one in OURS if b"user_message" not in one],
        [user("thanks"), said("Gladly.")],
        [user("mend itthanks"), said("I look.It is done.Gladly.")],
        [user(" mend\nit "), said("I"), said(" look. It is"), said("done.")],
        [user("mend it"), said("It is done."), tool("1", "another title")],
        [user("mend it"), tool("other id", "read a.py"), said("Gladly.")],
        [said("I look."), tool("1", "x", "tool_call_update")],
        [*OURS[3:], said("what I thought", "agent_thought_chunk"), line({"sessionUpdate": "plan", "entries": []})],
    ],
)
def test_ours_is_fuller_where_theirs_is_in_it_and_lacks_something(theirs: list[bytes]) -> None:
    assert is_ours(theirs)


@pytest.mark.parametrize(
    "theirs",
    [
        OURS,
        [user("mend it"), user("thanks"), tool("x", "read a.py"), said("I look. It is done. Gladly.")],
        [*OURS[:3], *OURS[3:], said("more")],
        [*OURS[:-1], said("Gladly!")],
        [*OURS[:-1], user("and then")],
        [user("thanks"), user("mend it")],
        [said("I look"), said("It is done.")],
        [said("one."), *OURS[1:]],
        [*OURS[:2], tool("2", "write a.py")],
        [*OURS[:2], tool("2")],
        [said("mend it")],
        [said("Gladly.Gladly.")],
    ],
)
def test_theirs_is_sent_where_nothing_is_missing_or_ours_has_not_all_of_it(theirs: list[bytes]) -> None:
    assert not is_ours(theirs)


def test_a_telling_with_more_ways_than_are_followed_is_not_ours_to_judge(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuller, "_STEPS", 10_000)
    ours = [said("a" * (2**n)) for n in range(16)]
    assert not is_ours([said("a" * 2**15)], ours)


WORDS = st.lists(st.tuples(st.sampled_from([user, said]), st.text("ab \n", min_size=0, max_size=4)), max_size=8)


@given(WORDS, st.data())
def test_any_of_our_messages_in_any_pieces_are_contained(spoken: list[Any], data: st.DataObject) -> None:
    ours = [speak(words) for speak, words in spoken]
    kept = data.draw(st.lists(st.booleans(), min_size=len(spoken), max_size=len(spoken)))
    theirs: list[bytes] = []
    for speaker in (user, said):
        glued = "".join(words for (speak, words), keep in zip(spoken, kept, strict=True) if keep and speak is speaker)
        cuts = sorted(data.draw(st.lists(st.integers(0, len(glued)), max_size=3)))
        theirs += [speaker(glued[a:b]) for a, b in zip([0, *cuts], [*cuts, len(glued)], strict=True)]
    lacks = any(words.strip() and not keep for (_, words), keep in zip(spoken, kept, strict=True))
    assert is_ours(theirs, ours) is lacks


@given(WORDS)
def test_a_telling_is_not_fuller_than_itself_and_fuller_than_none(spoken: list[Any]) -> None:
    ours = [speak(words) for speak, words in spoken]
    assert not is_ours(ours, ours)
    assert is_ours([], ours) is any(words.strip() for _, words in spoken)


@given(st.lists(messages.map(one_line) | values.map(line) | st.binary(max_size=20)))
def test_no_line_does_harm(lines: list[bytes]) -> None:
    found = told(lines)
    assert not ours_is_fuller(found, found)
    assert not ours_is_fuller(Told(), Told())
