"""Which recorded turn answers a prompt."""

from typing import get_args

import pytest

from acp_proxy.tools.mock_agent.matching import Match, TurnMatcher, read_text
from acp_proxy.tools.mock_agent.steps import RecordedTurn


def blocks(*texts: str) -> list[dict[str, str]]:
    return [{"type": "text", "text": text} for text in texts]


def turn(text: str, session: str = "s", at: str = "") -> RecordedTurn:
    return RecordedTurn(session, at, blocks(text), ())


RECORDED = [turn("Fix the login"), turn("Now run the tests"), turn("Fix the logout, please", "other")]


def find_turns(
    match: Match, *prompts: str, session: str = "new", turns: list[RecordedTurn] = RECORDED
) -> list[RecordedTurn | None]:
    matching = TurnMatcher(turns, match)
    return [matching.find(blocks(prompt), session) for prompt in prompts]


@pytest.mark.parametrize("match", ["exact", "nearest"])
def test_the_turn_with_the_same_text_is_played_ignoring_white_space(match: Match) -> None:
    assert find_turns(match, "Now run the tests", "  Fix the\n login ") == [RECORDED[1], RECORDED[0]]


def test_exact_matches_no_other_text() -> None:
    assert find_turns("exact", "fix the login", "Fix the login!", "") == [None, None, None]


def test_nearest_matches_the_most_similar_text_if_it_is_similar() -> None:
    assert find_turns(
        "nearest", "fix the LOGIN!", "fix the logout, now", "run tests now", "Write a poem about the sea"
    ) == [
        RECORDED[0],
        RECORDED[2],
        RECORDED[1],
        None,
    ]


def test_nearest_matches_the_beginning_of_a_prompt() -> None:
    long = turn("Fix the login. It fails where a name has an umlaut, since last week")
    turns = [turn("something else"), turn(""), long, turn("fix")]
    assert find_turns("nearest", "fix the login", "Fix the logs first, please", "", turns=turns) == [
        long,
        turns[3],
        turns[1],
    ]


def test_nearest_matches_very_long_prompts_by_their_beginning() -> None:
    long = [turn("one " * 5000), turn("two " * 5000)]
    assert find_turns("nearest", "two " * 4999 + "three", turns=long) == [long[1]]


def test_next_plays_all_turns_in_order_in_each_session() -> None:
    matching = TurnMatcher(RECORDED, "next")
    assert [matching.find(blocks("x"), "a") for _ in range(4)] == [*RECORDED, None]
    assert matching.find(blocks("x"), "b") is RECORDED[0]
    assert "all 3" in matching.explain_no_match()


def test_a_sessions_own_turns_are_preferred() -> None:
    same = [turn("go", "one"), turn("go", "two")]
    for match in get_args(Match):
        assert find_turns(match, "go", session="two", turns=same) == [same[1]]


def test_turns_with_the_same_prompt_are_played_in_rotation() -> None:
    same = [turn("go", at="1"), turn("stop"), turn("go", at="2")]
    assert find_turns("exact", "go", "go", "go", turns=same) == [same[0], same[2], same[0]]
    assert find_turns("nearest", "Go", "Go!", "go", turns=same) == [same[0], same[2], same[0]]


def test_the_answer_to_an_unknown_prompt_lists_the_recorded_prompts() -> None:
    said = TurnMatcher(
        [turn("Fix the login"), *(turn(f"{number} " * 100) for number in range(30))], "exact"
    ).explain_no_match()
    assert "--match exact" in said
    assert "\n- Fix the login\n" in said
    assert said.endswith("- and 11 more")
    assert max(map(len, said.split("\n"))) < 110
    assert "contain no prompt" in TurnMatcher([], "nearest").explain_no_match()


def test_a_prompt_without_text_is_matched_by_its_blocks() -> None:
    link = {"type": "resource_link", "name": "a.py", "uri": "file:///a.py"}
    assert read_text([link, {"type": "image", "data": "AA=="}]) == "[a.py] [image]"
    assert read_text([link, *blocks("See this", "file")]) == "See this file"
    assert read_text("no blocks") == ""
