"""An agent's replay compared with the transcript: what is known and what is new."""

import random
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_proxy.comparison import letter_search
from acp_proxy.comparison.comparison import Comparison
from acp_proxy.comparison.letter_search import merge_spans
from acp_proxy.comparison.sent_messages import without_first_letters
from acp_proxy.comparison.text_builder import TextBuilder
from acp_proxy.comparison.whose_past import PastRule
from tests.comparison.short_forms import (
    Update,
    agent,
    answer,
    call,
    choose_past,
    compare_replay,
    expand,
    line,
    list_new,
    opened,
    prompt_entry,
    steering,
    thought,
    transcript,
    updated,
    updates,
    user,
)
from tests.strategies import values

HAS_MORE, IS_WORSE, HAS_ALL = PastRule.REPLAY_HAS_MORE, PastRule.REPLAY_IS_WORSE, PastRule.REPLAY_HAS_ALL
TALK = ["> mend it", "It is mended, all of it.", "> thanks", "You are welcome, any time."]
ONE = TALK[:2]
GREETING = agent("Welcome back! There is a new release.")
REPETITIVE = 12_000
"""The number of chunks of the same few letters, as a progress bar sends them."""


IMAGE: Update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "image", "data": "aGk="}}


def tail(comparison: Comparison) -> list[Update]:
    return updates(tail_lines(comparison))


def tail_lines(comparison: Comparison) -> list[bytes]:
    """The new lines, and after them those that wait."""
    new, waiting = comparison.split_tail()
    return [*new, *waiting]


# --- the agent's words


@pytest.mark.parametrize("is_late", [True, False])
def test_the_answer_to_a_message_made_elsewhere_may_equal_a_remark_that_was_left_out(is_late: bool) -> None:
    builder = TextBuilder()
    for entry in (
        *(prompt_entry("mend it"), updated(expand(TALK[1])), answer(), opened("2")),
        *(updated(agent("All the tests have passed.")), opened("3"), updated(agent("The server has started anew."))),
    ):
        builder.add(entry)
    new = list(map(expand, ["> Did they pass?", "All the tests have passed."]))
    said: list[str | Update] = [*TALK[:2], "The server has started anew.", *new]
    past = builder.finish()
    comparison = compare_replay(past, *([] if is_late else said), late=said if is_late else ())
    assert list_new(comparison) == new


@pytest.mark.parametrize(
    "said",
    [
        TALK,
        ["> mend it", "It is", " mended,\n\n all ", "of it.", "> thanks", "You are welcome, any time."],
        ["> mend it", agent("It is mended,", messageId="1"), agent("all of it.", messageId="2"), *TALK[2:]],
        ["It is mended, all of it. You are welcome, any time."],
        ["> mend it\n\nthanks", "It is mended, all of it.", "You are welcome, any time."],
    ],
)
def test_text_is_known_however_it_is_joined_split_or_cut(said: list[str | Update]) -> None:
    comparison = compare_replay(transcript(*TALK), *said)
    assert tail(comparison) == []
    assert comparison.place.spans.all_spans == [(0, len(comparison.text.agent_letters))]
    assert not comparison.has_new_before_tail


@pytest.mark.parametrize("recorded", [["All is fine \ud83d", "\ude00 now."], ["All is fine 😀 now."]])
@pytest.mark.parametrize("said", [["All is fine \ud83d", "\ude00 now."], ["All is fine 😀 now."]])
def test_text_is_known_if_it_is_cut_within_a_character_as_javascript_may_do(
    recorded: list[str], said: list[str]
) -> None:
    past = transcript("> mend it", *recorded)
    comparison = compare_replay(past, "> mend it", *said)
    assert (tail(comparison), list_new(comparison)) == ([], [])
    assert choose_past(comparison).rule is HAS_ALL


def test_a_message_can_be_divided_within_a_character() -> None:
    rests = [without_first_letters("it 😀 ok", count) for count in range(6)]
    assert rests == ["it 😀 ok", "t 😀 ok", " 😀 ok", "\ude00 ok", " ok", "k"]


def test_repeated_words_are_matched_in_order() -> None:
    past = transcript("> a", "ok", "> b", "done", "> c", "ok")
    for said, covered in (["ok"], [(0, 2)]), (["ok", "> b", "done"], [(0, 6)]), (["> c", "ok"], [(6, 8)]):
        assert compare_replay(past, *said).place.spans.all_spans == covered
    assert tail(compare_replay(past, "> a", "ok", "> b", "done", "> c", "ok", "> d", "ok")) == [user("d"), agent("ok")]


def test_a_short_word_is_not_matched_by_chance_within_another() -> None:
    past = transcript("> a", "It is broken, I think.")
    comparison = compare_replay(past, "> b", "ok")
    assert tail(comparison) == [user("b"), agent("ok")]


def test_text_after_a_known_message_without_an_id_is_compared_separately() -> None:
    for pieces in (TALK[3:], ["You are ", "welcome, any time."]):
        comparison = compare_replay(transcript(*TALK), *TALK[:3], *pieces, GREETING)
        assert tail(comparison) == [GREETING]
        assert choose_past(comparison).rule is HAS_ALL


def test_an_answer_may_end_after_the_prompt_that_was_queued_during_it() -> None:
    builder = TextBuilder()
    queued = [
        prompt_entry("a"),
        updated(agent("It is")),
        prompt_entry("b"),
        prompt_entry("c"),
        updated(agent("mended.")),
        answer(),
    ]
    for entry in (*queued, updated(agent("Yes.")), answer(), updated(agent("No."))):
        builder.add(entry)
    comparison = compare_replay(builder.finish(), "> a", "It is", "mended.", "> b", "Yes.", "> c", "No.")
    assert (comparison.has_repetition, comparison.has_new_before_tail, tail(comparison)) == (False, False, [])
    assert choose_past(comparison).rule is HAS_ALL


def test_a_part_of_a_message_covers_that_part() -> None:
    comparison = compare_replay(transcript(*TALK), *TALK[:3], "You are welcome")
    assert tail(comparison) == []
    assert comparison.place.spans.all_spans == [(0, len(comparison.text.agent_letters) - len(",anytime."))]


# --- unknown updates


def test_only_updates_after_the_last_known_message_can_be_new() -> None:
    comparison = compare_replay(transcript(*TALK), "> mend it", "It was rewritten.", *TALK[2:], GREETING)
    assert tail(comparison) == [GREETING]
    assert comparison.has_new_before_tail


def test_a_reworded_answer_is_not_new() -> None:
    comparison = compare_replay(transcript(*TALK), *TALK[:3], "In other words.")
    assert tail(comparison) == []
    assert comparison.has_new_before_tail


def test_a_greeting_before_the_first_user_message_is_new_and_not_a_rewording() -> None:
    comparison = compare_replay(transcript(*TALK), GREETING, *TALK)
    assert tail(comparison) == [GREETING]
    assert not comparison.has_new_before_tail


def test_an_update_of_an_unknown_kind_is_known_only_if_it_is_equal() -> None:
    odd = {"sessionUpdate": "compaction_update", "n": 1}
    past = transcript(*TALK, odd)
    assert not compare_replay(past, *TALK, odd).has_new_whole_update
    assert tail(compare_replay(past, *TALK, odd)) == []
    assert compare_replay(past, *TALK, odd | {"n": 2}).has_new_whole_update
    assert not compare_replay(past, *TALK, {"sessionUpdate": "plan", "entries": []}).has_new_whole_update


# --- the user's words and thoughts


@pytest.mark.parametrize(
    "said",
    ["[Request interrupted by user]", "<context>look</context>\n\nmend it, please, will you", "mend itthanks", "x"],
)
def test_the_agents_version_of_a_user_message_is_neutral(said: str) -> None:
    comparison = compare_replay(transcript(*TALK), user(said), *TALK[1:])
    assert not comparison.has_new_before_tail
    assert tail(comparison) == []


def test_thoughts_are_neutral() -> None:
    comparison = compare_replay(transcript("> a", "~ hm", "b"), "> a", "~ something else", "b")
    assert (comparison.has_new_before_tail, comparison.has_thoughts, tail(comparison)) == (False, True, [])


def test_known_thoughts_at_the_end_are_neither_shown_nor_recorded_again() -> None:
    for past in (transcript("> a", "~ hm", answered=False), transcript("> a", "b", "~ hm", answered=False)):
        said = ["> a", "b", "~ hm"] if past.agent_letters else ["> a", "~ hm"]
        assert (
            tail(compare_replay(past, *said)),
            list_new(compare_replay(past, *said)),
            list_new(compare_replay(past, late=said)),
        ) == ([], [], [])
        assert list_new(compare_replay(past, *said, "> c", "~ hm", "d")) == [user("c"), thought("hm"), agent("d")]


def test_a_user_message_locates_the_replay_in_the_transcript() -> None:
    past = transcript("> a", "The same answer.", "> b", "The same answer.")
    comparison = compare_replay(past, "> b", "The same answer.")
    assert comparison.place.spans.all_spans == [past.find_turn_span(2)]


def test_short_user_messages_with_nothing_between_them_are_recognised_one_by_one() -> None:
    past = transcript("> go on", "ok.", "> /undo", "> go on", "ok.")
    comparison = compare_replay(past, "> /undo", "> go on", "ok.")
    assert comparison.place.spans.all_spans == [past.find_turn_span(3)]


@pytest.mark.parametrize("begin", [0, 2])
def test_a_history_replayed_twice_is_recognised(begin: int) -> None:
    comparison = compare_replay(transcript(*TALK), *TALK[begin:], *TALK[begin:])
    assert comparison.has_repetition
    assert (comparison.has_new_before_tail, tail(comparison)) == (False, [])


# --- tool calls


def test_a_call_is_known_by_its_id_or_by_its_title_in_order() -> None:
    past = transcript("> a", call("1", "look"), call("2", "look"), call("3", "mend"), "Done with it.")
    for ids in ("123", "xyz"):
        calls = [call(id, title) for id, title in zip(ids, ("look", "look", "mend"), strict=True)]
        comparison = compare_replay(past, "> a", *calls, "Done with it.")
        assert comparison.place.call_cursor.known_indexes == {0, 1, 2}
        assert (comparison.has_new_before_tail, tail(comparison)) == (False, [])


def test_some_agents_repeat_call_ids_in_each_turn() -> None:
    for update in (call("1", "look"), IMAGE):
        said: list[str | Update] = ["> a", update, "> b", update]
        assert compare_replay(transcript(*said), *said).place.call_cursor.known_indexes == {0, 1}
        assert choose_past(compare_replay(transcript(*said), *said)).rule is HAS_ALL
        assert choose_past(compare_replay(transcript(*said), *said[:3])).rule is IS_WORSE
    said = ["> a", call("1", "look"), "> b", call("1", kind="tool_call_update"), "c"]
    assert choose_past(compare_replay(transcript(*said), *said)).rule is HAS_ALL


@pytest.mark.parametrize(
    ("id", "title"), [("1", "look"), ("1", "mend"), ("2", "mend")], ids=["number and title", "number", "neither"]
)
def test_a_call_in_a_turn_made_elsewhere_is_none_of_an_earlier_turn(id: str, title: str) -> None:
    past: list[str | Update] = ["> a", call("1", "look"), "Done with it.", "> b", call("1", "look"), "That too."]
    elsewhere: list[str | Update] = ["> c", call(id, title), "And that, as you wished."]
    for replay in (past, [*past[:1], *past[3:]]):  # the agent has lost the first call, or not
        comparison = compare_replay(transcript(*past), *replay, *elsewhere)
        assert list_new(comparison) == [*map(expand, elsewhere)]


@pytest.mark.parametrize(
    ("recorded_calls", "sent_calls"),
    [(("t1", "t2", "t3"), ("t1",)), (("t1", "t2", "t3"), ("t3",)), (("t1", "t2", "t3"), ()), (("t3",), ())],
)
def test_a_title_proves_no_call_of_a_turn_made_elsewhere(
    recorded_calls: tuple[str, ...], sent_calls: tuple[str, ...]
) -> None:
    """The agent gives all calls one title, and has lost some, such as cancelled ones."""
    *first_turn, last = [call(id, "Bash") for id in recorded_calls]
    past: list[str | Update] = ["> a", "I will see.", *first_turn, "It is read.", "> b", last, "All is fine."]
    elsewhere: list[str | Update] = ["> run the tests please", call("t9", "Bash"), "They all pass."]
    kept = [said for said in past if isinstance(said, str) or said["toolCallId"] in sent_calls]
    comparison = compare_replay(transcript(*past), *kept, *elsewhere)
    assert list_new(comparison) == tail(comparison) == [*map(expand, elsewhere)]


@pytest.mark.parametrize(
    ("ids", "shown", "elsewhere_ids"),
    [(("call_0", "call_0"), (), ("call_0", "call_1")), (("t1", "t2"), (IMAGE,), ("t9",))],
    ids=["numbered anew in each turn", "each turn has the same image"],
)
def test_an_id_that_is_not_in_the_transcript_is_of_a_turn_made_elsewhere_where_the_replay_keeps_ids(
    ids: tuple[str, str], shown: tuple[Update, ...], elsewhere_ids: tuple[str, ...]
) -> None:
    """The agent has lost its last call, which was cancelled."""
    first, last = call(ids[0], "Read"), call(ids[1], "Bash", "in_progress")
    kept: list[str | Update] = ["> a", first, *shown, "It is read.", "> b", *shown, "I run it again."]
    elsewhere: list[str | Update] = ["> run the tests", *(call(id, "Bash") for id in elsewhere_ids), "They all pass."]
    comparison = compare_replay(transcript(*kept, last), *kept, *elsewhere)
    assert list_new(comparison) == [*map(expand, elsewhere)]


@pytest.mark.parametrize(
    ("recorded_ids", "sent_ids"),
    [((("t1", "t2"), "t3"), ("x1", "x2")), ((("call_0",), "call_0"), ("call_0", "call_1"))],
    ids=["the first one is lost", "one id agrees by chance"],
)
def test_a_call_after_a_message_of_the_agents_own_is_known_by_its_title(
    recorded_ids: tuple[tuple[str, ...], str], sent_ids: tuple[str, str]
) -> None:
    first_turn, last = [call(id, "Bash") for id in recorded_ids[0]], call(recorded_ids[1], "Bash")
    past: list[str | Update] = ["> a", *first_turn, "It could not be read.", "> b", "Let me see.", last]
    sent = [call(id, "Bash") for id in sent_ids]
    replay: list[str | Update] = [
        "> a",
        sent[0],
        "It could not be read.",
        "> b",
        "Let me see.",
        "> <reminder>",
        sent[1],
    ]
    comparison = compare_replay(transcript(*past), *replay)
    assert list_new(comparison) == tail(comparison) == []


def test_a_call_that_the_transcript_lacks_is_unknown() -> None:
    past = transcript("> a", call("1", "look"), "Done with it.")
    comparison = compare_replay(past, "> a", call("1", "look"), call("2", "look"), "Done with it.")
    assert comparison.has_new_before_tail
    comparison = compare_replay(past, "> a", call("1", "look"), "Done with it.", late=[call("2", "look")])
    assert tail(comparison) == [call("2", "look")]


OUTPUT: Update = {
    "content": [{"type": "content", "content": {"type": "text", "text": "out"}}],
    "rawOutput": {"code": 0},
}


def test_what_a_call_gave_is_new_if_the_transcript_has_nothing_of_that() -> None:
    past = transcript("> a", "~ so", call("1", "look"), "Done with it.", "> b", "And on.")
    replay: list[str | Update] = ["> a", call("1", "look") | OUTPUT, "Done with it.", "> b", "And on."]
    output = call("1", "look", kind="tool_call_update") | OUTPUT
    comparison = compare_replay(past, *replay)
    assert (choose_past(comparison).rule, tail(comparison), list_new(comparison)) == (IS_WORSE, [output], [output])

    renamed = ["> a", call("x", "look", "pending"), call("x", None, kind="tool_call_update") | OUTPUT, *replay[2:]]
    comparison = compare_replay(past, *renamed)
    assert (tail(comparison), list_new(comparison)) == ([output], [output]), "with the transcript's id"


def test_what_the_last_call_gave_is_new() -> None:
    past = transcript("> a", "So.", call("1", "look"))
    comparison = compare_replay(past, "> a", "So.", call("1", "look") | OUTPUT)
    output = call("1", "look", kind="tool_call_update") | OUTPUT
    assert (tail(comparison), list_new(comparison)) == ([output], [output])


def test_what_a_call_without_a_title_gave_clears_none() -> None:
    untitled = call("1", kind="tool_call_update")
    comparison = compare_replay(transcript("> a", untitled, "Done with it."), "> a", untitled | OUTPUT, "Done with it.")
    assert list_new(comparison) == [untitled | OUTPUT]


def test_what_one_of_several_calls_with_one_id_gave_is_not_taken() -> None:
    second = call("1", "look again") | {"content": [{"type": "content", "content": {"type": "text", "text": "b"}}]}
    past = transcript("> a", call("1", "look"), "Done with it.", "> b", second, "And on.")
    replay: list[str | Update] = ["> a", call("1", "look") | OUTPUT, "Done with it.", "> b", second, "And on."]
    comparison = compare_replay(past, *replay)
    assert (tail(comparison), list_new(comparison)) == ([], [])


def test_what_a_call_gave_is_new_once() -> None:
    said: list[str | Update] = ["> a", call("1", "look") | OUTPUT, "Done with it.", "> b", "And on."]
    other = {"content": [{"type": "content", "content": {"type": "text", "text": "in other words"}}]}
    for live in (said, ["> a", call("1", "look"), call("1", kind="tool_call_update") | OUTPUT, *said[2:]]):
        comparison = compare_replay(transcript(*live), "> a", call("1", "look") | other, *said[2:])
        assert (choose_past(comparison).rule, tail(comparison), list_new(comparison)) == (HAS_ALL, [], [])


def test_the_end_of_a_call_unfinished_in_the_transcript_is_new() -> None:
    past = transcript("> a", call("1", "look", "in_progress"), answered=False)
    end = call("1", status="completed", kind="tool_call_update")
    comparison = compare_replay(past, "> a", call("1", "look", "in_progress"), end, "Done with it.")
    assert tail(comparison) == [end, agent("Done with it.")]
    assert list_new(comparison) == tail(comparison)
    assert choose_past(comparison).rule is HAS_ALL
    assert choose_past(compare_replay(past, call("1", "look"))).rule is IS_WORSE


@pytest.mark.parametrize("times", [1, 2])
def test_the_end_of_a_call_of_an_earlier_turn_is_new_whatever_follows(times: int) -> None:
    replay: list[str | Update] = ["> a", call("1", "look"), *TALK[2:]]
    unfinished = call("1", "look", "in_progress")
    comparison = compare_replay(transcript("> a", unfinished, *TALK[2:]), *replay * times)
    assert tail(comparison) == list_new(comparison) == [call("1", "look", kind="tool_call_update")]
    assert list_new(compare_replay(transcript(*replay), *replay * times)) == []
    assert (
        list_new(
            compare_replay(transcript("> a", unfinished, TALK[3], answered=False), "> a", call("1", "look"), TALK[3])
        )
        == []
    )


@pytest.mark.parametrize("late", [True, False])
def test_the_end_of_a_call_that_the_agent_replays_with_a_new_id_is_about_the_transcripts_call(late: bool) -> None:
    past = transcript("> a", call("1", "look", "in_progress"), answered=False)
    end = call("new", "look", "completed")
    assert list_new(compare_replay(past, "> a", *([] if late else [end]), late=[end] * late)) == [
        call("1", "look", "completed")
    ]


@pytest.mark.parametrize("asked", ["mend it", "/status"])
def test_a_replay_that_comes_twice_with_context_before_the_first_prompt_has_nothing_new(asked: str) -> None:
    replay: list[str | Update] = [user("<context> "), f"> {asked}", TALK[1], *TALK[2:]]
    comparison = compare_replay(transcript(f"> {asked}", *TALK[1:]), *replay, *replay)
    assert tail(comparison) == []
    assert list_new(compare_replay(transcript(f"> {asked}", *TALK[1:]), late=[*replay, *replay])) == []
    assert comparison.has_repetition


def test_a_finished_call_is_not_new_again() -> None:
    past = transcript("> a", call("1", "look", "failed"), "b")
    assert tail(compare_replay(past, "> a", call("1", "look"), "b")) == []


# --- updates that are recorded


def test_a_turn_made_elsewhere_is_recorded_from_its_user_message_on() -> None:
    elsewhere: list[str | Update] = ["> and commit it", "~ hm", call("9", "commit"), "It is committed."]
    for comparison in (
        compare_replay(transcript(*TALK), *TALK, *elsewhere),
        compare_replay(transcript(*TALK), *TALK, late=elsewhere),
    ):
        assert list_new(comparison) == list(map(expand, elsewhere))
        assert comparison.tail.has_turn


def test_an_unanswered_user_message_is_recorded_and_is_not_a_turn() -> None:
    comparison = compare_replay(transcript(*TALK), *TALK, "> and commit it", "~ hm")
    assert list_new(comparison) == [user("and commit it"), thought("hm")]
    assert not comparison.tail.has_turn
    assert list_new(comparison, turn_may_run_elsewhere=True) == [user("and commit it"), thought("hm")]


def test_an_answer_of_an_earlier_replay_that_comes_again_in_its_turn_is_recorded_once() -> None:
    said: list[str | Update] = ["It is committed.", "> and commit it", "It is committed."]
    assert list_new(compare_replay(transcript("> mend it"), late=said)) == list(map(expand, said[1:]))


def test_a_warning_that_comes_with_every_load_ends_no_tail() -> None:
    past = transcript(*TALK, "A warning of the model.")
    comparison = compare_replay(past, *TALK, "> and commit it", late=["A warning of the model."])
    assert list_new(comparison) == [user("and commit it")]


@pytest.mark.parametrize("past", [["> mend it"], TALK])
def test_an_unanswered_user_message_is_shown_and_recorded_if_nothing_else_is_replayed(past: list[str]) -> None:
    comparison = compare_replay(transcript(*past), "> Thank you!")
    assert (updates(comparison.split_tail()[0]), list_new(comparison)) == ([user("Thank you!")], [user("Thank you!")])
    assert choose_past(comparison).rule is IS_WORSE


@pytest.mark.parametrize("whole", [True, False], ids=["one by one", "in one run"])
@pytest.mark.parametrize("order", [["ask 1", "also", "ask 6"], ["ask 1", "ask 6", "also"]])
def test_a_queued_prompt_is_known_before_and_after_words_into_the_turn(order: list[str], whole: bool) -> None:
    builder = TextBuilder()
    for entry in (prompt_entry("ask 1", id=1), prompt_entry("ask 6", id=2), steering("also"), answer(1), answer(2)):
        builder.add(entry)
    past = builder.finish()
    said: list[str | Update] = [user(each, messageId=each) if whole else user(each) for each in order]
    assert choose_past(compare_replay(past, *said)).rule is HAS_ALL
    assert tail_lines(compare_replay(past, *said)) == []
    again = compare_replay(past, *said, "> ask 6", "Done again.")
    assert list_new(again) == [user("ask 6"), agent("Done again.")]


def test_user_messages_after_context_are_all_known() -> None:
    past = transcript("> mend it", "A warning of the model.", "> thanks")
    comparison = compare_replay(past, "> <context>", "> mend it", "> thanks", late=[GREETING])
    assert (comparison.place.user_cursor.known_indexes, list_new(comparison)) == ({0, 1}, [GREETING])


def test_an_unanswered_user_message_is_new_if_only_prompts_without_answers_follow_in_the_transcript() -> None:
    comparison = compare_replay(transcript("> mend it", "> and test it", answered=False), "> mend it", "> Thank you!")
    assert (updates(comparison.split_tail()[0]), list_new(comparison)) == ([user("Thank you!")], [user("Thank you!")])


def test_an_unanswered_user_message_is_new_after_a_turn_in_which_the_last_prompts_waited() -> None:
    builder = TextBuilder()
    for entry in (prompt_entry("a", id=1), prompt_entry("b", id=2), prompt_entry("c", id=3), updated(agent("Done."))):
        builder.add(entry)
    builder.add(answer(1))
    past = builder.finish()
    comparison = compare_replay(past, "> a", "Done.", "> b", "> Thank you!")
    assert (updates(comparison.split_tail()[0]), list_new(comparison)) == ([user("Thank you!")], [user("Thank you!")])


def test_a_known_warning_ends_no_tail_although_it_stands_in_the_last_turn() -> None:
    past = transcript("A warning of the model.", "> mend it", "A warning of the model.")
    comparison = compare_replay(past, "> mend it", "> Thank you!", "A warning of the model.")
    assert (updates(comparison.split_tail()[0]), list_new(comparison)) == ([user("Thank you!")], [user("Thank you!")])
    past = transcript("> mend it", "A warning of the model.")
    assert list_new(compare_replay(past, "> mend it", "> Thank you!", "A warning of the model.")) == []


def test_an_answer_made_elsewhere_may_say_what_an_earlier_one_said() -> None:
    comparison = compare_replay(transcript("> mend it", "All done now.", "> test it", "All done now."))
    for said in ("> mend it", "All done now.", "> test it", "> ship it", "All done now."):
        comparison.add(line(expand(said)), expand(said), is_after_an_answer=False)
    assert list_new(comparison) == [user("ship it"), agent("All done now.")]


def test_a_known_greeting_from_before_the_first_prompt_ends_no_tail() -> None:
    comparison = compare_replay(transcript(GREETING, *TALK), "> Thank you!", late=[GREETING])
    assert (updates(comparison.split_tail()[0]), list_new(comparison)) == ([user("Thank you!")], [user("Thank you!")])
    assert list_new(compare_replay(transcript(GREETING, *TALK), "> <context>", GREETING, *TALK)) == []


def test_what_the_agent_said_after_the_end_of_the_last_turn_is_no_answer_to_come() -> None:
    builder = TextBuilder()
    for entry in (prompt_entry("mend it"), answer(), updated(agent("A remark.")), updated(agent("Another one."))):
        builder.add(entry)
    comparison = compare_replay(builder.finish(), "> mend it", "> Thank you!")
    assert (updates(comparison.split_tail()[0]), list_new(comparison)) == ([user("Thank you!")], [user("Thank you!")])
    assert compare_replay(transcript("> mend it", "An answer."), "> mend it", "> Thank you!").split_tail()[0] == []


@pytest.mark.parametrize("later", [[], ["> and test it"]])
@pytest.mark.parametrize("late", [True, False])
def test_a_thought_is_new_if_the_transcript_has_nothing_of_the_agent_from_that_turn_on(
    later: list[str | Update], late: bool
) -> None:
    said: list[str | Update] = ["> mend it", "~ hm"]
    comparison = compare_replay(
        transcript(*said[:1], *later, answered=False), *said[: 1 if late else 2], late=said[1:] * late
    )
    assert (updates(comparison.split_tail()[0]), list_new(comparison)) == ([thought("hm")], [thought("hm")])
    comparison = compare_replay(transcript(*said[:1], "~ well", *later, answered=False), *said)
    assert (comparison.split_tail()[0], list_new(comparison)) == ([], [])


def test_a_turn_made_elsewhere_may_follow_an_answer_in_other_words() -> None:
    elsewhere: list[str | Update] = ["> and commit it", "It is committed."]
    comparison = compare_replay(transcript(*TALK), *TALK[:3], "In other words.", *elsewhere)
    assert updates(comparison.split_tail()[0]) == list_new(comparison) == list(map(expand, elsewhere))
    assert choose_past(comparison).rule is HAS_MORE
    assert tail(compare_replay(transcript(*TALK), "> mend it", "In other words.", *elsewhere)) == [
        user("and commit it")
    ]
    assert tail(compare_replay(transcript(*TALK), "> mend it", "In other words.", *elsewhere, *TALK[2:])) == []


def test_user_messages_without_answers_are_told_apart_chunk_by_chunk() -> None:
    comparison = compare_replay(transcript("> mend it", "> and test it"), "> mend it", "> and test it", "> Thank you!")
    assert (comparison.place.user_cursor.known_indexes, list_new(comparison)) == ({0, 1}, [user("Thank you!")])
    comparison = compare_replay(
        transcript("> /compact", "> /compact", "> mend it", "> test it"), "> /compact", "> mend it", "> test it"
    )
    assert (comparison.place.user_cursor.known_indexes, list_new(comparison)) == ({0, 2, 3}, [])


def test_an_unanswered_user_message_is_new_although_the_agent_lacks_the_transcripts_last_turn() -> None:
    comparison = compare_replay(transcript(*TALK), *ONE, "> Thank you!")
    assert (updates(comparison.split_tail()[0]), list_new(comparison)) == ([user("Thank you!")], [user("Thank you!")])
    assert tail(compare_replay(transcript(*TALK), *ONE, "> Thank you!", *TALK[2:])) == []


def test_otherwise_only_unknown_updates_after_the_answer_are_recorded() -> None:
    assert list_new(compare_replay(transcript(*TALK), *TALK, GREETING)) == []
    assert list_new(compare_replay(transcript(*TALK), *TALK, late=[GREETING])) == [GREETING]
    assert list_new(compare_replay(transcript(*TALK), *TALK, late=[agent(TALK[1])])) == []
    assert list_new(compare_replay(transcript(*TALK), *TALK, late=["~ hm", {"sessionUpdate": "plan"}])) == []


def test_the_answer_of_a_turn_unanswered_in_the_transcript_is_recorded() -> None:
    past = transcript(*TALK, "> and test it", answered=False)
    comparison = compare_replay(past, *TALK, "> and test it", "~ hm", "All tests pass.")
    assert list_new(comparison) == [thought("hm"), agent("All tests pass.")]


def test_an_empty_transcript_gets_the_whole_replay() -> None:
    said: list[str | Update] = [GREETING, *TALK]
    assert list_new(compare_replay(transcript(), *said)) == list(map(expand, said))


def test_a_repeated_replay_records_nothing_twice() -> None:
    elsewhere = ["> and commit it", "It is committed."]
    past = transcript(*TALK, *map(expand, elsewhere))
    assert list_new(compare_replay(past, *TALK, *elsewhere)) == []
    assert list_new(compare_replay(past, late=[*TALK, *elsewhere])) == []


def test_a_tail_is_kept_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("acp_proxy.comparison.tail.TAIL_LIMIT", 10_000)
    comparison = compare_replay(
        transcript(*TALK), *TALK, "> more", *(agent("x" * 2_500, messageId=str(n)) for n in range(8))
    )
    assert sum(map(len, tail_lines(comparison))) <= 10_000
    assert len(tail_lines(comparison)) == 4


def test_a_turn_made_elsewhere_with_a_screenshot_is_new() -> None:
    image = {"type": "image", "mimeType": "image/png", "data": "A" * 1_200_000}
    shot = call("shot", "Screenshot") | {"content": [{"type": "content", "content": image}]}
    elsewhere: list[str | Update] = ["> and a picture", shot, "Here it is.", "> thanks", "You are welcome."]
    assert list_new(compare_replay(transcript(*TALK), *TALK, *elsewhere)) == [*map(expand, elsewhere)]


def test_the_unanswered_end_of_a_tail_waits_for_the_agents_next_words() -> None:
    context = user("look here", messageId="c")
    comparison = compare_replay(transcript(*TALK), "> mend it", context, "~ hm")
    assert list(map(updates, comparison.split_tail())) == [[], [context, thought("hm")]]
    comparison = compare_replay(transcript(*ONE), "> mend it", context, "~ hm")
    assert list(map(updates, comparison.split_tail())) == [[], [context, thought("hm")]]
    comparison.add(line(agent("Yes.")), agent("Yes."), is_after_an_answer=True)
    assert list_new(comparison) == []  # an answer in other words
    assert list_new(compare_replay(transcript(*ONE), "> mend it", context, late=ONE[1:])) == []


# --- limits on searching


def spent(comparison: Comparison) -> int:
    """The number of letters that were searched."""
    return letter_search._BUDGET - comparison.place.search._budget


@pytest.mark.parametrize("piece", ["ab ", ".", "abababababababababab "])
@pytest.mark.parametrize("cut", [lambda text: text, lambda text: text + "x"])
def test_repetitive_chunks_are_compared_with_a_limited_number_of_searched_letters(
    piece: str, cut: Callable[[str], str]
) -> None:
    past = transcript("> a", *[piece] * REPETITIVE)
    pieces = [agent(cut(piece), messageId=str(number)) for number in range(REPETITIVE)]
    comparison = compare_replay(past, "> a", *pieces)
    longest = len(past.agent_letters) + len(piece) + 1
    assert spent(comparison) <= letter_search._BUDGET + longest
    assert choose_past(comparison).rule in (HAS_ALL, HAS_MORE, PastRule.TOO_COSTLY)


def test_repetitive_chunks_in_order_are_found_without_searching() -> None:
    past = transcript("> a", *["ab "] * REPETITIVE)
    comparison = compare_replay(past, "> a", *["ab "] * REPETITIVE)
    assert spent(comparison) == 0
    assert choose_past(comparison).rule is HAS_ALL


def test_thoughts_have_a_search_limit_of_their_own() -> None:
    past = transcript("> a", *["~ hm "] * REPETITIVE, "The answer to it.")
    said = [thought("no", messageId=str(number)) for number in range(REPETITIVE)]
    comparison = compare_replay(past, "> a", *said, "The answer to it.")
    left = comparison.place.search._thought_budget
    assert letter_search._BUDGET - left <= letter_search._BUDGET + len(past.thought_letters) + 2
    assert spent(comparison) == 0
    assert choose_past(comparison).rule is HAS_ALL


def test_a_comparison_over_its_search_limit_is_undecided_and_records_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(letter_search, "_BUDGET", 10)
    comparison = compare_replay(transcript(*TALK), "> x", "y" * 20, "> z", "w" * 20)
    assert choose_past(comparison).rule is PastRule.TOO_COSTLY
    assert list_new(comparison) == []


# Any conversation.

TEXTS = st.text("ab .", min_size=1, max_size=30).filter(str.strip)
SAID = st.one_of(
    TEXTS.map(lambda text: f"> {text}"),
    TEXTS,
    TEXTS.map(lambda text: f"~ {text}"),
    st.builds(call, st.sampled_from("123"), st.sampled_from(["look", "mend"])),
)
TALKS = st.lists(SAID, max_size=12).map(lambda said: ["> begin", *said])


def join_chunks(said: list[str | Update]) -> list[Update]:
    """One chunk for each message, as agents replay a history."""
    out: list[Update] = []
    for update in map(expand, said):
        if out and "content" in update and out[-1]["sessionUpdate"] == update["sessionUpdate"]:
            text = out[-1]["content"]["text"] + update["content"]["text"]
            out[-1] = update | {"content": {"type": "text", "text": text}}
        else:
            out.append(update)
    return out


@given(TALKS, st.booleans())
def test_a_transcript_equals_its_own_replay(said: list[str | Update], answered: bool) -> None:
    updates = [expand(each) | {"messageId": str(number)} for number, each in enumerate(said)]
    comparison = compare_replay(transcript(*said, answered=answered), *updates)
    assert (tail(comparison), comparison.has_new_before_tail) == ([], False)
    assert choose_past(comparison).rule is HAS_ALL
    assert list_new(comparison) == []


def test_two_short_user_messages_in_one_are_known_if_nothing_is_between_them() -> None:
    assert choose_past(compare_replay(transcript("> go", "> on", "Done."), "> go on", "Done.")).rule is HAS_ALL
    assert (
        choose_past(compare_replay(transcript("> go", "Gone.", "> on", "Done."), "> go on", "Gone.", "Done.")).rule
        is IS_WORSE
    )


@given(TALKS, st.randoms(use_true_random=False))
def test_how_messages_are_cut_does_not_change_the_rule(said: list[str | Update], random: random.Random) -> None:
    past = transcript(*said)
    sent = [update for update in join_chunks(said) if random.random() < 0.8]
    cut: list[Update] = []
    for number, update in enumerate(sent):
        sent[number] = update = update | {"messageId": str(number)} if "content" in update else update
        text = update["content"]["text"] if "content" in update else ""
        at = sorted(random.choices(range(len(text) + 1), k=2))
        pieces = [text[: at[0]], text[at[0] : at[1]], text[at[1] :]]
        cut += [update | {"content": {"type": "text", "text": piece}} for piece in pieces] if text else [update]
    assert choose_past(compare_replay(past, *cut)).rule is choose_past(compare_replay(past, *sent)).rule


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 10)).map(lambda pair: (pair[0], sum(pair)))))
def test_spans_are_merged_in_order_without_losing_or_adding_a_letter(spans: list[tuple[int, int]]) -> None:
    out = merge_spans(spans)
    assert out == sorted(out)
    assert all(end < start for (_, end), (start, _) in pairwise(out))
    assert {n for a, b in out for n in range(a, b)} == {n for a, b in spans for n in range(a, b)}


@given(TALKS, st.lists(st.dictionaries(st.sampled_from(["sessionUpdate", "content", "toolCallId", "title"]), values)))
def test_updates_of_any_shape_can_be_compared(said: list[str | Update], odd: list[Update]) -> None:
    comparison = Comparison(transcript(*said))
    for update in odd:
        comparison.add(b"{}\n", update, is_after_an_answer=True)
    assert choose_past(comparison).rule in PastRule
    assert len(comparison.find_unrecorded()) <= len(odd)


# A turn that was cut, and that the agent finished.

CUT: list[str | Update] = [*TALK, "> and now", "~ Let me", "I will look.", call("9", "look"), "It"]


@pytest.mark.parametrize(
    ("said", "rest"),
    [
        (["It is mended.", "Done."], [" is mended.", "Done."]),
        (["I", "t is", " mended."], [" is", " mended."]),
        (["It", " is mended."], [" is mended."]),
        (["It", call("10", "test"), "Done."], [call("10", "test"), "Done."]),
        (["It", "~ So.", "It is mended."], ["~ So.", "It is mended."]),
    ],
)
@pytest.mark.parametrize("late", [False, True])
def test_the_rest_of_a_turn_that_was_cut_is_new(said: list[str | Update], rest: list[str | Update], late: bool) -> None:
    replay = [*CUT[:-1], *said]
    comparison = compare_replay(
        transcript(*CUT, answered=False), *([] if late else replay), late=replay if late else []
    )
    assert list_new(comparison, turn_may_run_elsewhere=False) == list(map(expand, rest))
    assert choose_past(comparison).rule is HAS_ALL
    assert (
        list_new(compare_replay(transcript(*CUT, *rest, answered=False), *replay), turn_may_run_elsewhere=False) == []
    )


@pytest.mark.parametrize("left_out", [(0,), (2,), (3,), (2, 3), (1, 2, 3)])
def test_the_rest_of_a_turn_that_was_cut_is_new_whatever_the_replay_leaves_out(left_out: tuple[int, ...]) -> None:
    turn = [each for number, each in enumerate(CUT[len(TALK) :]) if number not in left_out]
    comparison = compare_replay(transcript(*CUT, answered=False), *TALK, *turn[:-1], "It is mended.")
    assert list_new(comparison, turn_may_run_elsewhere=False) == [agent(" is mended.")]


@pytest.mark.parametrize("before", [[], TALK])
def test_the_answer_to_the_last_prompt_is_new_if_the_replay_leaves_out_all_user_messages(before: list[str]) -> None:
    comparison = compare_replay(transcript(*before, "> ship it", answered=False), *before[1::2], "It is shipped.")
    assert list_new(comparison, turn_may_run_elsewhere=False) == [agent("It is shipped.")]
    assert list_new(comparison, turn_may_run_elsewhere=True) == []
    past = transcript(*before, "> ship it", "> and test it")
    assert list_new(compare_replay(past, *before[1::2], "It is shipped."), turn_may_run_elsewhere=False) == []


@pytest.mark.parametrize("later", [[], ["It is looked at."], ["It is looked at.", *ONE]])
def test_a_replayed_call_that_did_not_end_in_its_turn_explains_no_gap(later: list[str]) -> None:
    open_call: list[str | Update] = ["> look", "~ hm", call("1", "look", "in_progress")]
    comparison = compare_replay(transcript(*open_call, *later), "> look", call("1", "look"), *later)
    assert choose_past(comparison).rule is IS_WORSE  # without the thought
    comparison = compare_replay(transcript(*open_call, *later), *open_call[:2], call("other", "look"), *later)
    assert choose_past(comparison).rule is HAS_ALL


def test_the_rest_of_a_turn_of_calls_is_new_if_the_replay_leaves_the_calls_out() -> None:
    comparison = compare_replay(transcript("> a", call("1", "look"), answered=False), "> a", "Done.")
    assert (choose_past(comparison).rule, tail(comparison)) == (IS_WORSE, [agent("Done.")])
    assert list_new(comparison, turn_may_run_elsewhere=False) == [agent("Done.")]


def test_a_chunk_that_holds_known_and_new_words_is_divided_with_all_its_members() -> None:
    past = transcript("> mend it", agent("It is ", messageId="m"), answered=False)
    known = agent("It  is mended.\n", messageId="m", _meta={"x": 1.0})
    assert list_new(compare_replay(past, "> mend it", known), turn_may_run_elsewhere=False) == [
        agent(" mended.\n", messageId="m", _meta={"x": 1.0})
    ]


def test_a_thought_that_was_cut_is_divided() -> None:
    past = transcript("> mend it", "Yes.", "~ I could", answered=False)
    comparison = compare_replay(past, "> mend it", "Yes.", "~ I could look", "Done.")
    assert list_new(comparison, turn_may_run_elsewhere=False) == [thought(" look"), agent("Done.")]


@pytest.mark.parametrize(
    "said", [["~ So."], [{"sessionUpdate": "plan"}], [{"sessionUpdate": "odd"}], ["~ Let me see."], []]
)
def test_thoughts_plans_and_unknown_kinds_alone_complete_no_turn(said: list[str | Update]) -> None:
    comparison = compare_replay(transcript(*CUT, answered=False), *CUT, *said)
    assert list_new(comparison, turn_may_run_elsewhere=False) == []


def test_words_that_the_transcript_has_complete_no_turn() -> None:
    past = transcript("A warning.", *CUT, answered=False)
    assert list_new(compare_replay(past, *CUT, "A warning."), turn_may_run_elsewhere=False) == []


@pytest.mark.parametrize("turn_may_run_elsewhere", [True, None])
def test_a_turn_that_another_process_may_be_running_is_not_completed(turn_may_run_elsewhere: bool | None) -> None:
    comparison = compare_replay(transcript(*CUT, answered=False), *CUT, " is mended.", late=["By the way."])
    assert list_new(comparison, turn_may_run_elsewhere=turn_may_run_elsewhere) == [agent("By the way.")]
    unanswered = compare_replay(transcript("> a", answered=False), "> a", "b")
    assert list_new(unanswered, turn_may_run_elsewhere=turn_may_run_elsewhere) == (
        [] if turn_may_run_elsewhere else [agent("b")]
    )


def test_a_turn_that_was_answered_is_not_completed() -> None:
    assert list_new(compare_replay(transcript(*CUT), *CUT, " is mended."), turn_may_run_elsewhere=False) == []


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize(
    "said",
    [
        ["A warning of it.", TALK[1], TALK[3]],
        [TALK[1], "A warning of it.", TALK[3]],
        [TALK[1], TALK[3], "A warning of it."],
        ["A warning of it.", TALK[1], "Another warning.", TALK[3], "A third one."],
    ],
)
def test_each_known_message_is_known_whatever_comes_next_to_it(said: list[str], late: bool) -> None:
    comparison = compare_replay(transcript(*TALK), *([] if late else said), late=said if late else [])
    assert comparison.place.spans.all_spans == [(0, len(comparison.text.agent_letters))]
    assert comparison.has_new_before_tail == (said[1] != TALK[3])
    assert list_new(comparison) == ([agent(said[-1])] if late and said[-1] != TALK[3] else [])


def test_an_unanswered_user_message_at_the_end_is_shown_and_recorded() -> None:
    for said in (["> mend it", "~ hm", "> and test it"], ["> mend it", user("and test it"), "~ hm"]):
        comparison = compare_replay(transcript("> mend it"), *said)
        assert updates(comparison.split_tail()[0]) == list_new(comparison)
        assert user("and test it") in list_new(comparison)
    comparison = compare_replay(transcript("> mend it"), "> mend it", "It is.", "> and test it")
    assert updates(comparison.split_tail()[0]) == list_new(comparison) == [agent("It is."), user("and test it")]
    assert (
        list_new(
            compare_replay(
                transcript("> mend it", "It is.", user("and test it")), "> mend it", "It is.", "> and test it"
            )
        )
        == []
    )


PAST = transcript("> one", "answer-1", "> three", "answer-3")
IN_ONE_MESSAGE = ("ans", "wer", "-1", "ans", "wer", "-2", "ans", "wer", "-3")
"""A replay without the user's words, in small chunks, with a turn that was made elsewhere."""


def test_known_words_on_both_sides_of_unknown_ones_are_known_in_a_replay_without_users() -> None:
    comparison = compare_replay(PAST, *IN_ONE_MESSAGE)
    assert choose_past(comparison).rule is HAS_MORE
    assert list_new(comparison) == []


def test_a_message_after_the_answer_that_ends_like_the_transcript_is_new() -> None:
    comparison = compare_replay(PAST, late=["Another ", "answer-3"])
    assert list_new(comparison) == [agent("Another "), agent("answer-3")]
