"""Whose replay the client sees: one row for each way in which a load can go, then the rules about a comparison."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from acp_proxy.comparison.text_builder import TextBuilder
from acp_proxy.comparison.transcript_text import LETTERS_LIMIT, TranscriptText
from acp_proxy.comparison.whose_past import PastDecision, PastRule, WhosePast, list_reasons
from acp_proxy.protocol import acp, update_kinds
from acp_proxy.protocol.update_kinds import ComparedBy, ReplayForm, Role, UpdateKind
from acp_proxy.transcript.file_format import Entry
from tests.comparison.short_forms import (
    Update,
    agent,
    answer,
    call,
    cancel,
    choose_past,
    chunk,
    compare_replay,
    expand,
    list_new,
    opened,
    prompt_entry,
    transcript,
    updated,
    updates,
    user,
)

HAS_MORE, IS_WORSE, HAS_ALL = PastRule.REPLAY_HAS_MORE, PastRule.REPLAY_IS_WORSE, PastRule.REPLAY_HAS_ALL
TALK = ["> mend it", "It is mended, all of it.", "> thanks", "You are welcome, any time."]
ONE, TWO = TALK[:2], TALK[2:]
GREETING = agent("Welcome back! There is a new release.")
COMPACTED = {"sessionUpdate": "compaction_update", "status": "completed"}


AGENT, TRANSCRIPT, NOTHING = WhosePast

PATHS: dict[str, tuple[Sequence[str | Update] | None, dict[str, Any], PastDecision]] = {
    "a load that replays nothing that is missing": (TALK, {}, PastDecision(AGENT, HAS_ALL)),
    "a load that lacks a turn": (ONE, {}, PastDecision(TRANSCRIPT, IS_WORSE)),
    "a load that has more": ([*TALK, COMPACTED], {}, PastDecision(AGENT, HAS_MORE)),
    "a load after a command took a turn back": (
        ONE,
        {"past": [*TALK, "> /undo"]},
        PastDecision(AGENT, PastRule.TAKEN_BACK),
    ),
    "a load that takes too long": (
        ONE,
        {"past": ["> a", "x" * (LETTERS_LIMIT + 1)]},
        PastDecision(AGENT, PastRule.TOO_COSTLY),
    ),
    "a load whose transcript cannot be read": (
        None,
        {"comparison_failed": True},
        PastDecision(AGENT, PastRule.UNREADABLE),
    ),
    "a load served by a resume": (None, {}, PastDecision(TRANSCRIPT, PastRule.NOTHING_REPLAYED)),
}
"""By what happens: what the agent replays (None: nothing that is compared), what else is known, and the decision."""

WITHOUT_COMPARISON = {
    "a load with --load store": (PastRule.BY_OPTION, True, TRANSCRIPT),
    "a resume served by a load": (PastRule.BY_OPTION, False, NOTHING),
    "a resume that catches up": (PastRule.HANDED_OVER, False, NOTHING),
    "a load in a turn of an agent without one": (PastRule.IN_TURN, True, TRANSCRIPT),
    "a load after a handover": (PastRule.HANDED_OVER, True, TRANSCRIPT),
    "a prompt that is sent again in a new session": (PastRule.HANDED_OVER, False, NOTHING),
    "a load that passes": (PastRule.PASSES, True, AGENT),
    "a load that the client cancels": (PastRule.CANCELLED, True, NOTHING),
    "a load without a transcript": (PastRule.NOT_RECORDED, True, AGENT),
    "a resume without a transcript": (PastRule.NOT_RECORDED, False, NOTHING),
}
"""By what happens: the rule, whether the load shows the past, and whose the client sees."""


@pytest.mark.parametrize("path", PATHS)
def test_each_path_of_a_load_has_one_decision(path: str) -> None:
    said, known, decision = PATHS[path]
    past = transcript(*known.get("past", TALK))
    known = {name: value for name, value in known.items() if name != "past"}
    assert choose_past(compare_replay(past, *said) if said is not None else None, **known) == decision


@pytest.mark.parametrize("path", WITHOUT_COMPARISON)
def test_a_rule_that_needs_no_comparison_decides_alone(path: str) -> None:
    rule, shows_past, whose_past = WITHOUT_COMPARISON[path]
    assert rule.decide(shows_past=shows_past) == PastDecision(whose_past, rule)


def test_every_rule_decides_on_some_path() -> None:
    rules = {decision.rule for _, _, decision in PATHS.values()}
    assert rules | {rule for rule, _, _ in WITHOUT_COMPARISON.values()} == set(PastRule)


def turn(number: int, words: str) -> list[str | Update]:
    done = call(f"call-{number}", f"Mend number {number}")
    return [f"> {words}", "~ I think so.", "I have mended it.", done, "All is well."]


FIRST, SECOND = turn(1, "mend it"), turn(2, "and the other?")
BOTH = [*FIRST, *SECOND]
ELSEWHERE: list[str | Update] = ["> elsewhere", "Done there."]

GIVEN: Update = {"content": [{"type": "diff", "path": "/a.py", "oldText": "a", "newText": "b"}]}
LOOK: Update = call("1", "look")


@pytest.mark.parametrize(
    ("replayed", "rule"),
    [
        ([LOOK], IS_WORSE),
        ([LOOK | {"content": []}], IS_WORSE),
        ([LOOK | GIVEN], HAS_ALL),
        ([call("9", "look") | GIVEN], HAS_ALL),  # with an id of its own
        ([call("9", "look")], HAS_ALL),  # which may be another call of that title
        ([LOOK, call("1", kind="tool_call_update") | {"rawOutput": "b"}], HAS_ALL),
    ],
)
def test_a_replay_without_anything_that_a_call_gave_is_worse(replayed: list[Update], rule: PastRule) -> None:
    past = transcript("> mend it", LOOK | GIVEN, "It is mended.")
    assert choose_past(compare_replay(past, "> mend it", *replayed, "It is mended.")).rule is rule


@pytest.mark.parametrize(
    "nothing",
    [
        {},
        {"rawOutput": ""},
        {"rawOutput": {}},
        {"content": [{"type": "content", "content": {"type": "text", "text": ""}}]},
    ],
)
def test_a_call_that_gave_nothing_lacks_nothing_in_a_replay(nothing: Update) -> None:
    past = transcript("> mend it", LOOK | nothing, "It is mended.")
    assert choose_past(compare_replay(past, "> mend it", LOOK, "It is mended.")).rule is HAS_ALL


def test_a_call_whose_content_was_cleared_lacks_nothing_in_a_replay() -> None:
    cleared = call("1", kind="tool_call_update") | {"content": []}
    past = transcript("> mend it", LOOK | GIVEN, cleared, "It is mended.")
    assert choose_past(compare_replay(past, "> mend it", LOOK, "It is mended.")).rule is HAS_ALL


REPLAYS: dict[str, tuple[Sequence[str | Update], PastRule]] = {
    "everything": (BOTH, HAS_ALL),
    "one message per turn": (
        [*FIRST[:2], FIRST[3], "I have mended it. All is well.", SECOND[0], SECOND[3], *SECOND[2:3], *SECOND[4:]],
        HAS_ALL,
    ),
    "without the user's words": ([said for said in BOTH if not str(said).startswith("> ")], IS_WORSE),
    "without the tool calls": ([said for said in BOTH if isinstance(said, str)], IS_WORSE),
    "without one call": ([said for said in BOTH if said != FIRST[3]], IS_WORSE),
    "without the thoughts": ([said for said in BOTH if said != "~ I think so."], IS_WORSE),
    "the last message alone": (BOTH[-1:], IS_WORSE),
    "the last turn alone": (SECOND, IS_WORSE),
    "nothing": ([], IS_WORSE),
    "other chunks and white space, and no calls": (
        [
            user("mend"),
            user("it"),
            user("and  the\nother?"),
            agent("I have"),
            agent("mended it. All "),
            agent("is\twell."),
        ],
        IS_WORSE,
    ),
    "other ids of calls, and only the first turn": (
        ["> mend it", call("another-id", "Mend number 1"), "I have mended it."],
        IS_WORSE,
    ),
    "a turn made elsewhere": ([*BOTH, *ELSEWHERE], HAS_ALL),
    "a turn made elsewhere instead of ours": ([*FIRST, *ELSEWHERE], PastRule.TAKEN_BACK),
    "a turn made elsewhere instead of both": (ELSEWHERE, PastRule.TAKEN_BACK),
    "a turn made elsewhere, and not our first": ([*SECOND, *ELSEWHERE], IS_WORSE),
    "an unknown call": ([*FIRST, call("call-3", "Mend number 3"), *SECOND], HAS_MORE),
    "unknown text": ([*FIRST[:-1], "Said otherwise.", *SECOND], HAS_MORE),
}
"""By what the agent replays of two turns with words, thoughts and a call: the rule."""


@pytest.mark.parametrize("replay", REPLAYS)
def test_what_an_agent_leaves_out_or_adds_decides(replay: str) -> None:
    said, rule = REPLAYS[replay]
    assert choose_past(compare_replay(transcript(*BOTH), *said)).rule is rule


def test_the_numbers_in_transcripts_never_change() -> None:
    numbers = {rule.name: rule.number for rule in PastRule if rule.number is not None}
    assert numbers == {
        "TOO_COSTLY": 0,
        "UNREADABLE": 0,
        "HANDED_OVER": 1,
        "REPLAY_HAS_MORE": 2,
        "TAKEN_BACK": 3,
        "REPLAY_IS_WORSE": 4,
        "NOTHING_REPLAYED": 4,
        "REPLAY_HAS_ALL": 5,
        "BY_OPTION": 6,
    }


def test_short_messages_without_answers_are_known_one_after_the_other() -> None:
    past = transcript("> ask 4", "> ask 10")
    assert choose_past(compare_replay(past, "> ask 4", "> ask 10")).rule is HAS_ALL
    comparison = compare_replay(past, "> ask 4", "> ask 10", "> ask 14")
    assert choose_past(comparison).rule is HAS_ALL
    assert [b"ask 14" in line for line in comparison.find_unrecorded(turn_may_run_elsewhere=False)] == [True]


# --- the agent's replay has more


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
    assert choose_past(compare_replay(transcript(*TALK), *said)).rule is HAS_MORE


def test_a_replay_that_continues_our_last_words_is_more_unless_these_were_cut() -> None:
    said = [*ONE, "> thanks", "You are wel"]
    assert choose_past(compare_replay(transcript(*said), *TALK)).rule is HAS_MORE
    assert choose_past(compare_replay(transcript(*said, answered=False), *TALK)).rule is HAS_ALL
    assert choose_past(compare_replay(transcript(*said), *said)).rule is HAS_ALL


def test_the_end_of_a_call_that_we_lack_follows_whosever_past_is_shown() -> None:
    past = transcript(*ONE, "> look", call("1", "look", "pending"), answered=False)
    assert choose_past(compare_replay(past, *ONE, "> look", call("1", "look"))).rule is HAS_ALL
    assert choose_past(compare_replay(past, *ONE, call("1", "look"))).rule is IS_WORSE


def test_more_takes_precedence_over_less() -> None:
    assert choose_past(compare_replay(transcript(*TALK), "> mend it", "Something else.", *TWO)).rule is HAS_MORE
    assert choose_past(compare_replay(transcript(*TALK, "> /clear"), *TWO, COMPACTED)).rule is HAS_MORE


@pytest.mark.parametrize(
    "said",
    [
        [agent("A warning before."), *TALK],
        [*TALK, "> elsewhere", "In a new turn."],
        [*TALK, agent("A greeting at the end.")],
    ],
)
def test_a_greeting_or_a_tail_is_not_more(said: list[str | Update]) -> None:
    assert choose_past(compare_replay(transcript(*TALK), *said)).rule is HAS_ALL


# --- something was taken back


@pytest.mark.parametrize("command", ["/clear", "/compact", "/undo", "/rewind 2", "/new"])
def test_whole_turns_that_a_command_took_back_are_not_shown(command: str) -> None:
    past = transcript(*TALK, f"> {command}", "Done with that.")
    for said in (ONE, TWO, [], [*ONE, f"> {command}", "Done with that."]):
        assert choose_past(compare_replay(past, *said)).rule is PastRule.TAKEN_BACK
    assert choose_past(compare_replay(past, *TALK)).rule is HAS_ALL


def test_a_turn_of_calls_alone_that_a_command_took_back_is_not_shown() -> None:
    past = transcript(*ONE, "> and test it", call("1", "test"), "> /undo", *TWO)
    assert choose_past(compare_replay(past, *ONE, "> /undo", *TWO)).rule is PastRule.TAKEN_BACK
    assert choose_past(compare_replay(past, *ONE, "> and test it", call("1", "test"), "> /undo", *TWO)).rule is HAS_ALL


def test_turns_without_an_answer_that_a_command_took_back_are_not_shown() -> None:
    past = transcript("> mend it", "> thanks", "> /clear")
    assert choose_past(compare_replay(past, "> /clear")).rule is PastRule.TAKEN_BACK
    whole = [user(said, messageId=said) for said in ("mend it", "thanks", "/clear")]
    assert choose_past(compare_replay(past, *whole)).rule is HAS_ALL
    assert choose_past(compare_replay(transcript("> /clear", "> mend it"))).rule is IS_WORSE


def test_a_compaction_that_a_later_one_took_back_is_not_shown() -> None:
    compaction = {"sessionUpdate": "compaction_update", "compactionId": "1"}
    past = transcript("> /compact", compaction, "> /compact", compaction | {"compactionId": "2"}, "> thanks")
    assert choose_past(compare_replay(past)).rule is PastRule.TAKEN_BACK
    past = transcript("> /compact", compaction, "> thanks")
    assert choose_past(compare_replay(past)).rule is IS_WORSE


def test_a_command_that_a_later_one_took_back_is_not_shown() -> None:
    past = transcript("> /undo", "Undone.", "> /clear", *ONE, "> thanks")
    assert choose_past(compare_replay(past, *ONE)).rule is PastRule.TAKEN_BACK
    assert choose_past(compare_replay(past, "> /undo", *ONE)).rule is IS_WORSE
    assert choose_past(compare_replay(past, "Undone.", *ONE)).rule is IS_WORSE


def test_a_command_explains_only_what_is_missing_before_it() -> None:
    past = transcript(*ONE, "> /undo", "Undone.", *TWO)
    assert choose_past(compare_replay(past, *TWO)).rule is PastRule.TAKEN_BACK
    assert choose_past(compare_replay(past, *ONE)).rule is IS_WORSE


def test_a_partly_missing_turn_is_not_explained() -> None:
    past = transcript("> a", "The first half.", call("1", "look"), *TWO, "> /undo", "Undone.")
    assert choose_past(compare_replay(past, "> a", "The first half.", *TWO)).rule is IS_WORSE


def test_a_rewind_to_an_unknown_message_explains_that_the_end_of_a_turn_is_missing() -> None:
    rewind = {"sessionUpdate": "history_truncated", "messageId": "unknown"}
    turn: list[str | Update] = ["> a", call("1", "look"), "The first half.", "The second half."]
    assert choose_past(compare_replay(transcript(*turn, rewind), *turn[:3])).rule is PastRule.TAKEN_BACK
    assert choose_past(compare_replay(transcript(*turn, rewind), turn[0], *turn[2:])).rule is IS_WORSE
    assert (
        choose_past(compare_replay(transcript(*turn, rewind, *TWO), *turn, TWO[0], "You are welcome,")).rule is IS_WORSE
    )
    turn = ["> a", "I will look.", call("1", "look")]
    assert choose_past(compare_replay(transcript(*turn, rewind), *turn[:2])).rule is PastRule.TAKEN_BACK
    assert choose_past(compare_replay(transcript(*turn), *turn[:2])).rule is IS_WORSE


def test_a_compaction_explains_only_what_is_missing_before_it() -> None:
    past = transcript(*ONE, COMPACTED, *TWO)
    assert choose_past(compare_replay(past, COMPACTED, *TWO)).rule is PastRule.TAKEN_BACK
    assert choose_past(compare_replay(past, *ONE, COMPACTED)).rule is IS_WORSE


def test_a_turn_made_elsewhere_explains_what_is_missing_before_it() -> None:
    past = transcript(*ONE, user("made elsewhere"), "With an answer.")
    assert choose_past(compare_replay(past, *ONE)).rule is IS_WORSE, (
        "the prompt has not been answered: the message steers it"
    )
    elsewhere = ["> elsewhere", "With an answer."]
    assert choose_past(compare_replay(transcript(*TALK), *ONE, *elsewhere)).rule is PastRule.TAKEN_BACK
    assert choose_past(compare_replay(transcript(*TALK), *ONE, "> elsewhere")).rule is IS_WORSE


def test_a_turn_made_elsewhere_does_not_explain_that_it_is_missing_itself() -> None:
    builder = TextBuilder()
    for each in (user("made elsewhere"), agent("With an answer.")):
        builder.add(updated(each))
    for entry in (prompt_entry("mend it"), updated(agent(ONE[1])), answer()):
        builder.add(entry)
    past = builder.finish()
    assert choose_past(compare_replay(past, "> made elsewhere")).rule is IS_WORSE, (
        "its answer may come after the load's"
    )
    assert choose_past(compare_replay(past, *ONE)).rule is IS_WORSE


@pytest.mark.parametrize("noted", [[], [opened("another window's")]])
def test_a_prompt_that_may_wait_in_another_window_is_not_missing(noted: list[Entry]) -> None:
    def decide(*entries: Entry, is_open: bool | None) -> PastRule:
        builder = TextBuilder()
        for entry in (*entries, *noted):
            builder.add(entry)
        return choose_past(compare_replay(builder.finish(), *ONE), is_in_use_elsewhere=is_open).rule

    running = [prompt_entry("mend it", id=1), updated(agent(ONE[1])), prompt_entry("and test it", id=2)]
    assert [decide(*running, is_open=each) for each in (True, None, False)] == [
        HAS_ALL,
        IS_WORSE,
        IS_WORSE,
    ]
    assert decide(*running[:2], answer(1), running[2], is_open=True) is IS_WORSE, "it has begun"
    assert decide(*running[:2], cancel(), running[2], is_open=True) is IS_WORSE, "the turn before it is over"


def _laid_with_turn_elsewhere(*before: str | Update) -> TranscriptText:
    """A transcript with a turn made elsewhere after one turn, and a prompt without an answer after that."""
    builder = TextBuilder()
    for each in before:
        builder.add(
            prompt_entry(each[2:]) if isinstance(each, str) and each.startswith("> ") else updated(expand(each))
        )
    builder.add(answer())
    for entry in (updated(user("elsewhere")), updated(agent("Done there.")), prompt_entry("thanks"), answer()):
        builder.add(entry)
    return builder.finish()


def test_a_turn_whose_user_message_the_agent_has_was_not_taken_back_elsewhere() -> None:
    calls: list[str | Update] = ["> look", call("1", "look")]
    assert choose_past(compare_replay(transcript(*calls), "> look", *ELSEWHERE)).rule is IS_WORSE
    assert choose_past(compare_replay(transcript(*calls), *ELSEWHERE)).rule is PastRule.TAKEN_BACK
    past = _laid_with_turn_elsewhere(*calls)
    assert choose_past(compare_replay(past, "> look", *ELSEWHERE, "> thanks")).rule is IS_WORSE
    assert choose_past(compare_replay(past, *ELSEWHERE, "> thanks")).rule is PastRule.TAKEN_BACK


def test_a_turn_made_elsewhere_that_is_missing_too_explains_nothing() -> None:
    past = _laid_with_turn_elsewhere(*ONE)
    assert choose_past(compare_replay(past, "> thanks")).rule is IS_WORSE
    assert choose_past(compare_replay(past, *ELSEWHERE)).rule is PastRule.TAKEN_BACK


def test_a_warning_in_place_of_the_last_answer_is_no_rewording_if_the_transcript_has_it_elsewhere() -> None:
    past = transcript(GREETING, *TALK)
    comparison = compare_replay(past, *TALK[:3], GREETING)
    assert choose_past(comparison).rule is IS_WORSE
    assert updates(comparison.split_tail()[0]) == [GREETING]
    assert list_new(comparison) == []
    assert choose_past(compare_replay(past, *TALK[:3], "In other words.")).rule is HAS_MORE
    assert choose_past(compare_replay(transcript(*TALK), *TALK[:3], GREETING)).rule is HAS_MORE, (
        "nothing says that it is none"
    )


def test_commands_do_not_make_up_for_missing_user_messages() -> None:
    past = transcript("> mend it", "> /compact", "> thanks", "You are welcome, any time.")
    assert choose_past(compare_replay(past, "> /compact", "> thanks")).rule is PastRule.TAKEN_BACK


def test_words_after_a_turn_of_calls_are_not_its_answer_in_other_words() -> None:
    past = transcript(*ONE, "> look", call("1", "look"))
    assert choose_past(compare_replay(past, *ONE, "> look", "A warning of the model.")).rule is IS_WORSE


def test_the_turns_after_the_point_of_a_fork_are_not_shown() -> None:
    builder = TextBuilder()
    for asked, answered in (ONE, TWO):
        for entry in (prompt_entry(asked[2:]), updated(agent(answered)), answer()):
            builder.add(entry)
    builder.add(opened(method=acp.FORK))
    past = builder.finish()
    assert choose_past(compare_replay(past, *ONE)).rule is PastRule.TAKEN_BACK
    assert choose_past(compare_replay(past, *ONE, TWO[0])).rule is IS_WORSE, "it was made after that message"
    assert choose_past(compare_replay(past, *TWO)).rule is IS_WORSE, "a fork has the beginning"
    assert choose_past(compare_replay(past)).rule is IS_WORSE, "the agent has lost all of it"


# --- the agent's replay has less


@pytest.mark.parametrize("said", [[], ONE, TWO, [*ONE, "> thanks"], [*ONE, "> thanks", "You are welcome"]])
def test_a_replay_without_some_words_is_less(said: list[str | Update]) -> None:
    assert choose_past(compare_replay(transcript(*TALK), *said)).rule is IS_WORSE


def test_a_message_without_its_middle_is_less() -> None:
    past = transcript("> a", "The first part of it.", "And the second part.", "The last part of it.")
    assert choose_past(compare_replay(past, "> a", "The first part of it.", "The last part of it.")).rule is IS_WORSE


def test_a_replay_without_a_call_is_less() -> None:
    past = transcript("> a", call("1", "look"), call("2", "look"), "Done with it.")
    assert choose_past(compare_replay(past, "> a", call("1", "look"), "Done with it.")).rule is IS_WORSE


def test_fewer_user_messages_than_prompts_are_less() -> None:
    assert choose_past(compare_replay(transcript(*TALK), "> mend it", TALK[1], TALK[3])).rule is IS_WORSE
    assert (
        choose_past(compare_replay(transcript(*TALK), "> in other words", TALK[1], "> context", TALK[3])).rule
        is HAS_ALL
    )


def test_missing_thoughts_are_less_and_other_thoughts_are_not() -> None:
    past = transcript("> a", "~ hm", "The answer to it.")
    assert choose_past(compare_replay(past, "> a", "The answer to it.")).rule is IS_WORSE
    assert choose_past(compare_replay(past, "> a", "~ well", "The answer to it.")).rule is HAS_ALL


def test_a_history_replayed_twice_is_less() -> None:
    assert choose_past(compare_replay(transcript(*TALK), *TALK, *TALK)).rule is IS_WORSE


def test_text_before_the_first_prompt_and_the_turn_of_a_compaction_do_not_count() -> None:
    assert choose_past(compare_replay(transcript("A warning of the model.", *TALK), *TALK)).rule is HAS_ALL
    assert choose_past(compare_replay(transcript(*TALK, "> /compact", "Compacted."), *TALK)).rule is HAS_ALL
    assert choose_past(compare_replay(transcript(*TALK, "> /model", "Another one."), *TALK)).rule is IS_WORSE


# --- otherwise


def test_a_replay_that_lacks_nothing_is_shown() -> None:
    assert choose_past(compare_replay(transcript(*TALK), *TALK)).rule is HAS_ALL
    assert choose_past(compare_replay(transcript())).rule is HAS_ALL
    assert choose_past(compare_replay(transcript(), *TALK)).rule is HAS_ALL


def test_a_transcript_that_is_too_long_is_undecided() -> None:
    past = transcript("> a", "x" * (LETTERS_LIMIT + 1))
    assert choose_past(compare_replay(past, "> a", "y")).rule is PastRule.TOO_COSTLY


def test_the_decision_stays_the_same_when_asked_again() -> None:
    comparison = compare_replay(transcript(*TALK), *ONE)
    assert [choose_past(comparison).rule, choose_past(comparison).rule] == [IS_WORSE, IS_WORSE]
    comparison.add(b"{}\n", expand("> thanks"), is_after_an_answer=True)
    assert comparison.find_unrecorded() == []


@pytest.mark.parametrize("message", [None, "1"])
def test_the_mixed_replays_of_two_loads_are_not_shown(message: str | None) -> None:
    past = transcript("> mend it", "It is mended.", call("1", "look"), "> hi", "Hello.")
    ids = {} if message is None else {"messageId": message}
    one = [
        user("mend it", **ids),
        agent("It is mended.", **ids),
        call("1", "look"),
        user("hi", **ids),
        agent("Hello.", **ids),
    ]
    assert choose_past(compare_replay(past, *(each for each in one for _ in range(2)))).rule is IS_WORSE
    assert choose_past(compare_replay(past, *one)).rule is HAS_ALL


def test_mixed_replays_without_user_messages_are_not_shown_after_the_transcript() -> None:
    past = transcript("> mend it", "It is mended, all of it.", "> hi", "Good morning to you, too.")
    told_twice = [each for each in ("It is mended, all of it.", "Good morning to you, too.") for _ in range(2)]
    comparison = compare_replay(past, *told_twice)
    assert choose_past(comparison).rule is IS_WORSE
    assert comparison.split_tail() == ([], [])


def test_the_documentation_has_the_table_of_rules() -> None:
    page = (Path(__file__).parents[2] / "docs" / "transparency.md").read_text(encoding="utf-8")
    _, _, table = page.partition("|rule|number|you see|because|\n|-|-|-|-|\n")
    rows = [(f"`{rule.name}`", rule.number, rule.past_if_shown.value, rule.reason) for rule in PastRule]
    expected = [f"|{name}|{'' if number is None else number}|{shown}|{reason}|" for name, number, shown, reason in rows]
    assert table.partition("\n\n")[0].splitlines() == expected


# Kinds that only a row of ``update_kinds`` knows.

NEW_WORDS = {
    "the agent's words": (
        UpdateKind("new_words", Role.AGENT, ComparedBy.WORDS, ReplayForm.JOINED, ReplayForm.JOINED),
        ["> mend it", chunk("new_words", "It is mended, "), chunk("new_words", "all of it."), *TWO],
    ),
    "a thought": (
        UpdateKind("new_thought", Role.THOUGHT, ComparedBy.NEUTRAL_WORDS, ReplayForm.JOINED, ReplayForm.JOINED),
        [
            "> mend it",
            chunk("new_thought", "Is it bro"),
            chunk("new_thought", "ken?"),
            "It is mended, all of it.",
            *TWO,
        ],
    ),
    "the user's words": (
        UpdateKind("new_user_words", Role.USER, ComparedBy.NEUTRAL_WORDS, ReplayForm.JOINED, ReplayForm.JOINED),
        [chunk("new_user_words", "mend it"), "It is mended, all of it.", chunk("new_user_words", "thanks"), TWO[1]],
    ),
}


@pytest.mark.parametrize(("row", "said"), NEW_WORDS.values(), ids=NEW_WORDS)
def test_a_row_is_enough_to_compare_a_new_kind_of_words(
    monkeypatch: pytest.MonkeyPatch, row: UpdateKind, said: list[str | Update]
) -> None:
    monkeypatch.setitem(update_kinds._BY_NAME, row.name, row)
    past = transcript(*said)
    assert choose_past(compare_replay(past, *said)).rule is HAS_ALL
    without = [each for each in said if isinstance(each, str)]
    assert choose_past(compare_replay(past, *without)).rule is IS_WORSE


def test_a_number_in_transcripts_has_the_reasons_of_its_rules() -> None:
    found = [list_reasons(number) for number in (4, 5, 99, None)]
    assert found == [[PastRule.NOTHING_REPLAYED.reason, IS_WORSE.reason], [HAS_ALL.reason], [], []]
