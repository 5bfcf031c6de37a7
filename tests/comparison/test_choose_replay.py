"""Whose replay the client sees: the first of five rules that applies."""

import pytest

from acp_proxy.comparison.choose_replay import Rule, verdict
from acp_proxy.comparison.transcript_text import LETTERS_LIMIT
from tests.comparison.telling import Update, agent, call, laid, told, told_by, user

TALK = ["> mend it", "It is mended, all of it.", "> thanks", "You are welcome, any time."]
ONE, TWO = TALK[:2], TALK[2:]
COMPACTED = {"sessionUpdate": "compaction_update", "status": "completed"}


def test_some_rules_show_the_transcript_and_the_others_the_agents_replay() -> None:
    ours = [rule for rule in Rule if rule.is_ours]
    assert ours == [Rule.HANDED_OVER, Rule.LESS, Rule.ASKED_FOR]
    numbers = [rule.value[0] for rule in (Rule.HANDED_OVER, Rule.MORE, Rule.TAKEN_BACK, Rule.LESS, Rule.SAME)]
    assert numbers == [1, 2, 3, 4, 5]


# The agent's replay has more.


@pytest.mark.parametrize(
    "said",
    [
        [*ONE, "> and more", "A turn between that we lack.", *TWO],
        ["> mend it", call("9", "look"), *TALK[1:]],
        [*TALK, COMPACTED],
        [*ONE, {"sessionUpdate": "a_kind_nobody_knows"}],
    ],
)
def test_a_replay_with_something_that_the_transcript_lacks_is_more(said: list[str | Update]) -> None:
    assert verdict(told(laid(*TALK), *said)) is Rule.MORE


def test_a_replay_that_continues_our_last_words_is_more_unless_these_were_cut() -> None:
    said = [*ONE, "> thanks", "You are wel"]
    assert verdict(told(laid(*said), *TALK)) is Rule.MORE
    assert verdict(told(laid(*said, answered=False), *TALK)) is Rule.SAME
    assert verdict(told(laid(*said), *said)) is Rule.SAME


def test_the_end_of_a_call_that_we_lack_is_more() -> None:
    past = laid(*ONE, "> look", call("1", "look", "pending"), answered=False)
    assert verdict(told(past, *ONE, "> look", call("1", "look"))) is Rule.MORE


def test_more_takes_precedence_over_less() -> None:
    assert verdict(told(laid(*TALK), "> mend it", "Something else.", *TWO)) is Rule.MORE
    assert verdict(told(laid(*TALK, "> /clear"), *TWO, COMPACTED)) is Rule.MORE


@pytest.mark.parametrize(
    "said",
    [
        [agent("A warning before."), *TALK],
        [*TALK, "> elsewhere", "In a new turn."],
        [*TALK, agent("A greeting behind.")],
    ],
)
def test_a_greeting_or_a_tail_is_not_more(said: list[str | Update]) -> None:
    assert verdict(told(laid(*TALK), *said)) is Rule.SAME


# Something was taken back.


@pytest.mark.parametrize("command", ["/clear", "/compact", "/undo", "/rewind 2", "/new"])
def test_whole_turns_that_a_command_took_back_are_not_shown(command: str) -> None:
    past = laid(*TALK, f"> {command}", "Done with that.")
    for said in (ONE, TWO, [], [*ONE, f"> {command}", "Done with that."]):
        assert verdict(told(past, *said)) is Rule.TAKEN_BACK
    assert verdict(told(past, *TALK)) is Rule.SAME


def test_turns_without_an_answer_that_a_command_took_back_are_not_shown() -> None:
    past = laid("> mend it", "> thanks", "> /clear")
    assert verdict(told(past, "> /clear")) is Rule.TAKEN_BACK
    whole = [user(said, messageId=said) for said in ("mend it", "thanks", "/clear")]
    assert verdict(told(past, *whole)) is Rule.SAME
    assert verdict(told(laid("> /clear", "> mend it"))) is Rule.LESS


def test_a_compaction_that_a_later_one_took_back_is_not_shown() -> None:
    compaction = {"sessionUpdate": "compaction_update", "compactionId": "1"}
    past = laid("> /compact", compaction, "> /compact", compaction | {"compactionId": "2"}, "> thanks")
    assert verdict(told(past)) is Rule.TAKEN_BACK
    past = laid("> /compact", compaction, "> thanks")
    assert verdict(told(past)) is Rule.LESS


def test_a_command_explains_only_what_is_missing_before_it() -> None:
    past = laid(*ONE, "> /undo", "Undone.", *TWO)
    assert verdict(told(past, *TWO)) is Rule.TAKEN_BACK
    assert verdict(told(past, *ONE)) is Rule.LESS


def test_a_partly_missing_turn_is_not_explained() -> None:
    past = laid("> a", "The first half.", call("1", "look"), *TWO, "> /undo", "Undone.")
    assert verdict(told(past, "> a", "The first half.", *TWO)) is Rule.LESS


def test_a_compaction_explains_only_what_is_missing_before_it() -> None:
    past = laid(*ONE, COMPACTED, *TWO)
    assert verdict(told(past, COMPACTED, *TWO)) is Rule.TAKEN_BACK
    assert verdict(told(past, *ONE, COMPACTED)) is Rule.LESS


def test_a_turn_made_elsewhere_explains_what_is_missing_before_it() -> None:
    past = laid(*ONE, user("made elsewhere"), "With an answer.")
    assert verdict(told(past, *ONE)) is Rule.LESS, "the prompt has not been answered: the message steers it"
    elsewhere = ["> elsewhere", "With an answer."]
    assert verdict(told(laid(*TALK), *ONE, *elsewhere)) is Rule.TAKEN_BACK
    assert verdict(told(laid(*TALK), *ONE, "> elsewhere")) is Rule.LESS


# The agent's replay has less.


@pytest.mark.parametrize("said", [[], ONE, TWO, [*ONE, "> thanks"], [*ONE, "> thanks", "You are welcome"]])
def test_a_replay_without_some_words_is_less(said: list[str | Update]) -> None:
    assert verdict(told(laid(*TALK), *said)) is Rule.LESS


def test_a_message_without_its_middle_is_less() -> None:
    past = laid("> a", "The first part of it.", "And the second part.", "The last part of it.")
    assert verdict(told(past, "> a", "The first part of it.", "The last part of it.")) is Rule.LESS


def test_a_replay_without_a_call_is_less() -> None:
    past = laid("> a", call("1", "look"), call("2", "look"), "Done with it.")
    assert verdict(told(past, "> a", call("1", "look"), "Done with it.")) is Rule.LESS


def test_fewer_user_messages_than_prompts_are_less() -> None:
    assert verdict(told(laid(*TALK), "> mend it", TALK[1], TALK[3])) is Rule.LESS
    assert verdict(told(laid(*TALK), "> in other words", TALK[1], "> context", TALK[3])) is Rule.SAME


def test_missing_thoughts_are_less_and_other_thoughts_are_not() -> None:
    past = laid("> a", "~ hm", "The answer to it.")
    assert verdict(told(past, "> a", "The answer to it.")) is Rule.LESS
    assert verdict(told(past, "> a", "~ well", "The answer to it.")) is Rule.SAME


def test_a_history_replayed_twice_is_less() -> None:
    assert verdict(told(laid(*TALK), *TALK, *TALK)) is Rule.LESS


def test_text_before_the_first_prompt_and_the_turn_of_a_compaction_do_not_count() -> None:
    assert verdict(told(laid("A warning of the model.", *TALK), *TALK)) is Rule.SAME
    assert verdict(told(laid(*TALK, "> /compact", "Compacted."), *TALK)) is Rule.SAME
    assert verdict(told(laid(*TALK, "> /model", "Another one."), *TALK)) is Rule.LESS


# Otherwise.


def test_a_replay_that_lacks_nothing_is_shown() -> None:
    assert verdict(told(laid(*TALK), *TALK)) is Rule.SAME
    assert verdict(told(laid())) is Rule.SAME
    assert verdict(told(laid(), *TALK)) is Rule.SAME


def test_a_transcript_that_is_too_long_is_undecided() -> None:
    past = laid("> a", "x" * (LETTERS_LIMIT + 1))
    assert verdict(told(past, "> a", "y")) is Rule.UNDECIDED
    assert not Rule.UNDECIDED.is_ours


def test_the_verdict_stays_the_same_when_asked_again() -> None:
    comparison = told(laid(*TALK), *ONE)
    assert [verdict(comparison), verdict(comparison)] == [Rule.LESS, Rule.LESS]
    comparison.add(b"{}\n", told_by("> thanks"), late=True)
    assert comparison.find_new() == []


@pytest.mark.parametrize("message", [None, "1"])
def test_the_mixed_replays_of_two_loads_are_not_shown(message: str | None) -> None:
    past = laid("> mend it", "It is mended.", call("1", "look"), "> hi", "Hello.")
    ids = {} if message is None else {"messageId": message}
    one = [
        user("mend it", **ids),
        agent("It is mended.", **ids),
        call("1", "look"),
        user("hi", **ids),
        agent("Hello.", **ids),
    ]
    assert verdict(told(past, *(each for each in one for _ in range(2)))) is Rule.LESS
    assert verdict(told(past, *one)) is Rule.SAME


def test_mixed_replays_without_user_messages_are_not_shown_after_the_transcript() -> None:
    past = laid("> mend it", "It is mended, all of it.", "> hi", "Good morning to you, too.")
    told_twice = [each for each in ("It is mended, all of it.", "Good morning to you, too.") for _ in range(2)]
    comparison = told(past, *told_twice)
    assert verdict(comparison) is Rule.LESS
    assert comparison.split_tail() == ([], [])
