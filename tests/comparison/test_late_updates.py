"""Parts of a replay that come after the agent's answer, or in the turn after it."""

from collections.abc import Callable, Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_proxy.comparison.comparison import Comparison
from acp_proxy.comparison.late_updates import UNDECIDED_LIMIT, LateUpdates
from acp_proxy.comparison.text_builder import TextBuilder
from acp_proxy.comparison.transcript_text import TranscriptText
from acp_proxy.comparison.updates_in_turn import SortedLine, UpdatesInTurn
from acp_proxy.protocol import acp
from fuzz import growth
from tests.comparison.short_forms import (
    Update,
    agent,
    answer,
    call,
    compare_replay,
    expand,
    line,
    list_new,
    prompt_entry,
    thought,
    transcript,
    updated,
    updates,
    user,
)

TALK = ["> mend it", "It is mended, all of it.", "> thanks", "You are welcome, any time."]
ONE, TWO = TALK[:2], TALK[2:]
GREETING = "Welcome back! There is a new release."


class Late:
    """What comes before the next prompt, and its comparison."""

    def __init__(self, past: TranscriptText, *before: str | Update, ours: bool, shows_past: bool = True) -> None:
        self.comparison: Comparison = compare_replay(past, *before)
        self.late = LateUpdates(self.comparison, hides_replay=ours, shows_past=shows_past)

    def outcome(self, *said: str | Update) -> list[Update]:
        """What passes to the client at once."""
        return updates(out for update in map(expand, said) for out in self.late.add(line(update), update))

    def rest(self) -> list[Update]:
        return updates(self.late.release())


def expand_all(said: Iterable[str | Update]) -> list[Update]:
    return list(map(expand, said))


@pytest.mark.parametrize("again", [["> run it"], []])
@pytest.mark.parametrize(("ours", "id"), [(True, "c"), (False, "n")])
def test_the_end_of_an_unfinished_call_has_the_id_that_the_client_knows(ours: bool, id: str, again: list[str]) -> None:
    past = transcript("> run it", call("c", "Run", "in_progress"), answered=False)
    late = Late(past, "> run it", call("n", "Run", "in_progress"), ours=ours)
    ended = call("n", "Run", "completed")
    assert late.outcome(*again, ended) == [{**ended, "toolCallId": id}]


def test_calls_of_a_turn_in_which_prompts_were_queued_are_its_own() -> None:
    builder = TextBuilder()
    last = [answer(), updated(agent("Tested.")), answer()]
    for entry in (
        prompt_entry("mend it"),
        prompt_entry("test it"),
        prompt_entry("and ship it"),
        updated(call("c", "Look")),
        *last,
    ):
        builder.add(entry)
    past = builder.finish()
    replay: list[str | Update] = ["> mend it", call("c", "Look"), "> test it", "Tested.", "> and ship it"]
    for count in (0, 1):
        comparison = compare_replay(past)
        late = LateUpdates(comparison, hides_replay=True)
        for each in map(expand, replay[:count]):
            late.add(line(each), each)
        late.release()
        turn = UpdatesInTurn(comparison, hides_replay=True)
        recorded = [
            one
            for each in [*map(expand, replay[count:]), agent("Now.")]
            for one in turn.add(line(each), each, ["now?"])
            if one.should_record
        ]
        assert updates(one.line for one in recorded) == [agent("Now.")]


def test_thoughts_that_come_once_more_after_a_repeated_message_are_dropped() -> None:
    late = Late(transcript("> mend it", "~ Let me think."), "> mend it", "~ Let me think.", ours=False)
    assert late.outcome("> mend it", "~ Let me think.") == []
    assert (late.rest(), list_new(late.comparison)) == ([], [])


# --- between the answer and the next prompt, when the transcript was shown


@pytest.mark.parametrize("before", [[], ONE[:1], ONE, [*ONE, "> thanks"]])
def test_updates_that_the_client_has_seen_are_dropped(before: list[str | Update]) -> None:
    late = Late(transcript(*TALK), *before, ours=True)
    assert late.outcome(*TALK[len(before) :]) == []
    assert late.rest() == []
    assert list_new(late.comparison) == []


def test_new_updates_pass_at_once_and_are_recorded() -> None:
    late = Late(transcript(*TALK), *TALK, ours=True)
    assert late.outcome(GREETING) == expand_all([GREETING])
    assert (late.rest(), list_new(late.comparison)) == ([], expand_all([GREETING]))


def test_a_client_that_does_not_want_the_past_sees_none_after_the_answer_either_and_it_is_recorded() -> None:
    past = transcript(*ONE, "> thanks", call("c", "Look", "in_progress"), answered=False)
    late = Late(past, ours=True, shows_past=False)
    assert late.outcome(GREETING) == expand_all([GREETING])
    elsewhere = ["> and now", "Now it is done."]
    assert late.outcome(*ONE, "> thanks", call("c", None, "completed", "tool_call_update"), *elsewhere) == []
    assert late.rest() == []
    assert [expand(each) for each in elsewhere] == list_new(late.comparison)[-2:]


def test_what_the_agent_says_after_a_turn_that_runs_elsewhere_reaches_a_client_that_does_not_want_the_past() -> None:
    past = transcript(*TALK[:3], answered=False)
    for is_open in (True, False, None):
        comparison = compare_replay(past)
        late = LateUpdates(comparison, hides_replay=True, shows_past=False, turn_may_run_elsewhere=is_open)
        said = [(line(update), update) for update in map(expand, (*TALK[:3], GREETING))]
        sent = [out for each, update in said for out in late.add(each, update)]
        assert updates(sent) == (expand_all([GREETING]) if is_open else [])


def test_what_the_agent_says_after_the_whole_past_reaches_a_client_that_does_not_want_it() -> None:
    for past in (TALK, TALK[:3]):
        late = Late(transcript(*past), ours=True, shows_past=False)
        assert late.outcome(*past, user("<context>", messageId="c")) == []
        late = Late(transcript(*past), ours=True, shows_past=False)
        assert late.outcome(*past, GREETING) == expand_all([GREETING])
        assert (late.rest(), list_new(late.comparison)) == ([], expand_all([GREETING]))


@pytest.mark.parametrize(
    ("said", "rest"),
    [
        (["It is mended."], [" mended."]),
        (["It", " is mended.", " All of it."], [" mended.", " All of it."]),
        (["~ hm", "It is mended."], [" mended."]),
    ],
)
def test_only_the_rest_of_a_message_that_was_cut_passes(said: list[str | Update], rest: list[str | Update]) -> None:
    late = Late(transcript("> mend it", "~ hm", "It is", answered=False), ours=True)
    assert late.outcome("> mend it", *said) == expand_all(rest)
    assert (late.rest(), list_new(late.comparison, turn_may_run_elsewhere=False)) == ([], expand_all(rest))


def test_a_message_that_only_the_agent_has_shown_passes_whole() -> None:
    late = Late(transcript("> mend it", "It is", answered=False), ours=False)
    assert late.outcome("> mend it", "It is mended.") == expand_all(["> mend it", "It is mended."])


def test_a_greeting_right_after_a_known_message_without_an_id_passes_alone() -> None:
    late = Late(transcript(*TALK), *ONE, "> thanks", ours=True)
    assert late.outcome("You are ", "welcome, any time.") == []
    assert late.outcome(GREETING) == expand_all([GREETING])
    assert list_new(late.comparison) == expand_all([GREETING])


def test_the_agents_text_waits_only_while_it_equals_the_transcripts() -> None:
    late = Late(transcript(*TALK), *ONE, "> thanks", ours=True)
    assert late.outcome("You are ") == []
    pieces = ["not ", "alone."]
    assert late.outcome(pieces[0]) == expand_all(["You are ", "not "])
    assert late.outcome(pieces[1]) == expand_all(["alone."])


@pytest.mark.parametrize("before", [[], ONE])
def test_an_answer_in_other_words_is_dropped(before: list[str]) -> None:
    late = Late(transcript(*TALK), *before, ours=True)
    asked, answer, *rest = TALK[len(before) :]
    assert late.outcome(asked, "~ hm", f"[Thought: true]{answer}") == []
    assert late.outcome(*rest) == []
    assert late.rest() == []
    assert list_new(late.comparison) == []


def test_what_follows_an_answer_in_other_words_is_new() -> None:
    late = Late(transcript(*TALK), ours=True)
    assert late.outcome("> thanks", f"[Thought: true]{TALK[3]}") == []
    assert late.outcome(GREETING, TALK[3]) == expand_all([GREETING, TALK[3]])


def test_unknown_words_after_an_earlier_message_of_the_users_wait_for_what_is_known() -> None:
    late = Late(transcript(*TALK), ours=True)
    assert late.outcome("> mend it", "I have mended it.") == []
    assert late.outcome("> thanks", "You are welcome, any time.") == []
    assert late.outcome(GREETING) == expand_all([GREETING])
    late = Late(transcript(*TALK), "> mend it", ours=True)
    assert late.outcome(GREETING) == []
    assert late.rest() == expand_all([GREETING])


@pytest.mark.parametrize("answer", ["known", "new"])
def test_a_user_message_passes_or_not_with_the_agents_next_words(answer: str) -> None:
    late = Late(transcript(*TALK), *ONE, ours=True)
    if answer == "known":
        assert late.outcome(*TWO) == []
        assert late.rest() == []
    else:
        assert late.outcome("> and test it", "~ hm") == []
        assert late.outcome("All the tests pass.") == expand_all(["> and test it", "~ hm", "All the tests pass."])
        assert list_new(late.comparison) == expand_all(["> and test it", "~ hm", "All the tests pass."])


@pytest.mark.parametrize("ours", [True, False])
def test_a_user_message_that_follows_the_transcripts_last_turn_passes_at_once(ours: bool) -> None:
    late = Late(transcript(*TALK), *TALK, ours=ours)
    assert late.outcome("> and test it", "~ hm") == expand_all(["> and test it", "~ hm"])
    assert (late.rest(), list_new(late.comparison)) == ([], expand_all(["> and test it", "~ hm"]))


def test_a_user_message_before_the_answer_to_the_last_prompt_waits_until_nothing_follows() -> None:
    late = Late(transcript(*TALK), ours=True)
    more = user("and test it", messageId="m")
    assert late.outcome(*ONE, "> thanks", more) == []
    assert (late.rest(), list_new(late.comparison)) == ([more], [more])
    late = Late(transcript(*TALK), ours=True)
    assert late.outcome(*ONE, "> thanks", user("for what?", messageId="m"), *TWO[1:]) == []
    assert (late.rest(), list_new(late.comparison)) == ([], [])


def test_a_known_user_message_without_an_answer_does_not_come_again_with_what_follows() -> None:
    late = Late(transcript("> mend it", "> thanks"), ours=True)
    assert late.outcome("> mend it", "> thanks", "> and test it") == expand_all(["> and test it"])
    late = Late(transcript("> mend it", answered=False), ours=True)
    assert late.outcome("> mend it", ONE[1]) == expand_all(ONE[1:])
    late = Late(transcript("> mend it", call("c", "Mend")), ours=True)
    assert late.outcome("> mend it", "> thanks") == expand_all(["> thanks"])


def test_a_known_thought_does_not_come_again_with_what_follows() -> None:
    late = Late(transcript("> mend it", "~ hm"), "> mend it", ours=True)
    assert (late.outcome("~ hm"), late.outcome(GREETING)) == ([], expand_all([GREETING]))


def test_a_user_message_that_comes_again_alone_is_not_shown_twice() -> None:
    for said in ["> mend it"], ["> mend it", "> thanks"], ["> mend it", "~ hm"]:
        late = Late(transcript(*said), *said, ours=False)
        late.comparison.end_message()  # the agent has answered
        assert (late.outcome(*said), late.rest()) == ([], [])


def test_a_user_message_that_equals_the_first_one_passes_at_once_where_the_transcript_has_it() -> None:
    late = Late(transcript("> /undo", "> mend it", "> /undo"), "> /undo", ours=False)
    assert late.outcome("> /undo") == expand_all(["> /undo"])


def test_an_unanswered_user_message_before_the_last_turn_passes_at_once_only_if_the_agents_replay_is_shown() -> None:
    for ours, at_once, rest in ((True, [], ["> Thank you!"]), (False, ["> Thank you!"], [])):
        late = Late(transcript(*TALK), *ONE, ours=ours)
        assert late.outcome("> Thank you!") == expand_all(at_once)
        assert (late.rest(), list_new(late.comparison)) == (expand_all(rest), expand_all(["> Thank you!"]))


def test_a_user_message_that_may_begin_the_agents_replay_again_waits() -> None:
    late = Late(transcript(*TALK), *TALK, ours=False)
    assert late.outcome("> mend", user(" it")) == []
    assert late.outcome(*TALK[1:]) == []
    late = Late(transcript(*TALK), *TALK, ours=False)
    assert late.outcome("> mend") == []
    assert late.outcome(user(" the other")) == expand_all(["> mend", user(" the other")])


def test_updates_that_waited_at_the_answer_pass_with_the_agents_next_words() -> None:
    more = user("and test it", messageId="m")
    late = Late(transcript(*ONE), "> mend it", more, ours=True)
    assert late.outcome("All the tests pass.") == expand_all([more, "All the tests pass."])


def test_a_call_that_the_client_has_seen_is_dropped_and_its_end_passes() -> None:
    past = transcript("> a", call("1", "look"), call("2", "mend", "pending"), answered=False)
    late = Late(past, "> a", ours=True)
    assert late.outcome(call("1", "look"), call("2", "mend", "pending")) == []
    end = call("2", status="completed", kind="tool_call_update")
    assert late.outcome(end) == [end]
    assert list_new(late.comparison) == [end]
    late = Late(past, "> a", ours=True)
    assert late.outcome(call("one", "look"), call("two", "mend", "completed")) == [call("2", "mend", "completed")]


def test_the_users_words_before_a_call_that_ends_are_not_shown_again() -> None:
    late = Late(transcript("> run it", call("c1", "Run", "in_progress"), answered=False), ours=True)
    ends = call("c1", "Run")
    assert late.outcome("> run it", ends) == [ends]
    assert (late.rest(), list_new(late.comparison)) == ([], [ends])


def test_a_second_replay_of_a_turn_without_words_is_dropped() -> None:
    late = Late(transcript("> run it", call("c1", "Run")), "> run it", call("c1", "Run"), ours=False)
    assert late.outcome("> run it", call("c1", "Run")) == []
    assert late.rest() == []


def test_an_update_of_another_kind_is_dropped_only_if_it_is_equal() -> None:
    odd = {"sessionUpdate": "odd", "n": 1}
    late = Late(transcript(*TALK, odd), *TALK, ours=True)
    assert late.outcome(odd) == []
    assert late.outcome(odd | {"n": 2}) == [odd | {"n": 2}]


def test_known_messages_next_to_unknown_ones_are_dropped_and_only_what_follows_all_of_them_is_recorded() -> None:
    late = Late(transcript(*TALK), ours=True)
    assert late.outcome(TALK[1], GREETING, TALK[3], "A warning of it.") == expand_all([GREETING, "A warning of it."])
    assert (late.rest(), list_new(late.comparison)) == ([], expand_all(["A warning of it."]))


# --- between the answer and the next prompt, when the agent's replay was shown


def test_the_rest_of_the_agents_replay_is_shown_once() -> None:
    late = Late(transcript(*TALK), *ONE, ours=False)
    assert [*late.outcome(*TWO), *late.rest()] == expand_all(TWO)
    assert late.outcome(*TALK) == []
    assert late.rest() == []
    assert list_new(late.comparison) == []


def test_waiting_text_over_the_limit_passes() -> None:
    text = "word " * (UNDECIDED_LIMIT // 16)
    late = Late(transcript("> a", text * 5), "> a", ours=True)
    out = late.outcome(*[agent(text)] * 5)
    assert out
    assert len(out) < 5


def test_other_words_than_an_answer_do_not_wait_for_a_prompt_without_one() -> None:
    for last, waits in (([], False), (["You are welcome."], True)):
        late = Late(transcript("> mend it", "It is mended.", "> thanks", *last), "> mend it", ours=True)
        assert late.outcome(GREETING) == ([] if waits else expand_all([GREETING]))
        assert late.rest() == (expand_all([GREETING]) if waits else [])


def test_a_user_message_that_the_agent_repeats_is_dropped_also_before_new_words() -> None:
    late = Late(transcript("> mend it"), "> mend it", ours=False)
    assert late.outcome("> mend it", GREETING) == expand_all([GREETING])
    assert list_new(late.comparison) == expand_all([GREETING])


# --- in the turn after the answer


class Turn:
    """A turn after a load; ``before``: what the agent had replayed before the prompt."""

    def __init__(
        self,
        past: TranscriptText,
        *before: str | Update,
        prompts: Iterable[str] = ("go on",),
        ours: bool = True,
        loading: bool = False,
    ) -> None:
        """``loading``: the agent is asked for a replay in the turn."""
        self.prompts, self.loading = [acp.fold_letters(prompt) for prompt in prompts], loading
        comparison = compare_replay(past, *before)
        comparison.end_message()
        self.replay = UpdatesInTurn(comparison, hides_replay=ours, replay_may_come=loading)

    def outcome(self, *said: str | Update) -> tuple[list[Update], list[Update]]:
        """What is sent to the client at once, and what is recorded."""
        updates = map(expand, said)
        return _split_sent(
            out
            for update in updates
            for out in self.replay.add(line(update), update, self.prompts, replay_may_come=self.loading)
        )

    def rest(self) -> tuple[list[Update], list[Update]]:
        return _split_sent(self.replay.release())

    def all(self, *said: str | Update) -> tuple[list[Update], list[Update]]:
        """What is sent and what is recorded until the turn is over."""
        (sent, recorded), (more, late) = self.outcome(*said), self.rest()
        return [*sent, *more], [*recorded, *late]


def _split_sent(lines: Iterable[SortedLine]) -> tuple[list[Update], list[Update]]:
    found = list(lines)
    return updates(each.line for each in found if each.should_send), updates(
        each.line for each in found if each.should_record
    )


def both(*said: str | Update) -> tuple[list[Update], list[Update]]:
    return expand_all(said), expand_all(said)


@pytest.mark.parametrize("before", [[], TALK])
def test_everything_in_a_turn_is_sent_and_recorded_at_once(before: list[str | Update]) -> None:
    said: list[str | Update] = [
        "> go on",
        "~ hm",
        call("9", "look"),
        "As you like, it is done.",
        {"sessionUpdate": "odd"},
    ]
    turn = Turn(transcript(*TALK), *before)
    assert (turn.outcome(*said), turn.rest()) == (both(*said), both())
    assert turn.prompts == []


@pytest.mark.parametrize("number", range(len(TALK) + 1))
@pytest.mark.parametrize("ours", [True, False])
def test_an_answer_that_equals_what_the_agent_did_not_replay_is_sent_at_once_and_recorded(
    number: int, ours: bool
) -> None:
    for said in (TALK[1], TALK[3]):
        turn = Turn(transcript(*TALK), *TALK[:number], ours=ours)
        pieces = [agent(word + " ") for word in said.split(" ")]
        recorded: list[Update] = []
        for piece in pieces:
            sent, now = turn.outcome(piece)
            assert sent == [piece]
            recorded += now
        assert turn.rest()[0] == []
        turn = Turn(transcript(*TALK), *TALK[:number], ours=ours)
        assert turn.all(*pieces) == (pieces, pieces)


def test_a_known_call_and_known_words_are_sent_and_recorded_if_no_user_message_proves_a_replay() -> None:
    past = transcript("> a", "Some words of it.", call("1", "look"), "Let me look at the code first.", "ok", *TWO)
    said: list[str | Update] = [call("1", "look"), "Let me look at the code first.", "ok"]
    assert Turn(past, "> a", "Some words of it.").all(*said) == both(*said)
    assert Turn(past, "> a").all(*said) == both(*said)


def test_the_end_of_a_turn_that_a_replay_has_begun_is_sent_and_recorded_only_if_no_user_message_follows() -> None:
    turn = Turn(transcript(*TALK), *TALK[:1])
    assert turn.outcome(TALK[1]) == (expand_all(TALK[1:2]), [])
    assert turn.outcome(*TWO) == both()
    assert turn.all("As you like.") == both("As you like.")
    turn = Turn(transcript(*TALK), *TALK[:1])
    assert turn.outcome(TALK[1], "As you like.") == both(TALK[1], "As you like.")


@pytest.mark.parametrize("number", [1, 2, 3])
@pytest.mark.parametrize("ours", [True, False])
def test_a_replay_that_runs_into_a_turn_is_not_recorded_again(number: int, ours: bool) -> None:
    turn = Turn(transcript(*TALK), *TALK[:number], ours=ours)
    said = ["> go on", "As you like."]
    sent, recorded = turn.all(*TALK[number:], *said)
    assert recorded == expand_all(said)
    rest_of_turn = TALK[number:][: number % 2]  # nothing proves before a user message that it is not the answer
    assert sent == expand_all([*(rest_of_turn if ours else TALK[number:]), *said])


@pytest.mark.parametrize("before", [[], TALK])
def test_a_replay_that_begins_in_a_turn_is_neither_sent_nor_recorded(before: list[str | Update]) -> None:
    turn = Turn(transcript(*TALK), *before)
    assert turn.outcome(*TALK) == both()
    assert turn.all("> go on", "As you like.") == both("> go on", "As you like.")


def test_words_after_a_proved_replay_are_new_if_they_do_not_go_on_in_order() -> None:
    for said in (["> mend it", "Let me see."], ["> mend it", TALK[3]], ["> mend it", "It is mended"]):
        assert Turn(transcript(*TALK)).all(*said) == both(*said)
    assert Turn(transcript(*TALK)).all(*ONE, TALK[3]) == both(TALK[3])


def test_a_user_message_that_is_neither_next_nor_first_begins_no_replay() -> None:
    assert Turn(transcript(*TALK)).outcome(*TWO) == both(*TWO)
    assert Turn(transcript(*TALK), *TALK).outcome(*TWO) == both(*TWO)


def test_a_user_message_without_an_answer_in_the_transcript_is_followed_by_the_next_one() -> None:
    past = transcript("> mend it", "> thanks", "You are welcome.")
    assert Turn(past).all("> mend it", user("thanks"), "You are welcome.", "Well.") == both("Well.")
    assert Turn(past).all("> mend it") == both()


@pytest.mark.parametrize("is_echoed", [True, False])
def test_a_replay_in_a_turn_has_the_words_of_a_prompt_that_waits_if_the_turns_own_is_echoed(is_echoed: bool) -> None:
    said: list[str | Update] = ["> go on", "It goes on, all of it."]
    past = transcript(*said, "> mend it", *([user("mend it")] if is_echoed else []), answered=False)
    turn = Turn(past, prompts=["go on"], ours=False, loading=True)
    assert turn.all(*said) == (expand_all(said), expand_all([] if is_echoed else said))
    assert turn.prompts == (["goon"] if is_echoed else [])


def test_an_echo_equal_to_the_first_prompt_begins_no_replay() -> None:
    turn = Turn(transcript(*TALK), *TALK, prompts=["mend it"])
    assert turn.outcome("> mend it", "It is mended, all of it.") == both(*ONE)
    assert turn.prompts == []


def test_an_echo_in_other_words_is_new_although_a_replay_may_still_be_running() -> None:
    builder = TextBuilder()
    for text in ("/undo", "/undo"):
        builder.add(prompt_entry(text))
        builder.add_update(user(f"{text} [a file]"))
        builder.add(answer())
    turn = Turn(builder.finish(), "> /undo [a file]", prompts=["/undo"])
    assert turn.outcome("> /undo [a file]", "Undone.") == both("> /undo [a file]", "Undone.")
    assert turn.prompts == []


def test_an_echo_in_pieces_is_new() -> None:
    turn = Turn(transcript(*TALK), *TALK)
    assert turn.outcome(user("go "), user("on"), "Well.") == both(user("go "), user("on"), "Well.")


GO = ["> go", "It is done."]


@pytest.mark.parametrize("replay", [GO, [user("g"), user("o"), GO[1]]])
def test_a_first_prompt_with_which_an_open_one_begins_is_the_past_unless_the_rest_of_that_follows(
    replay: list[str | Update],
) -> None:
    turn = Turn(transcript(*GO), *GO, prompts=["goon"])
    assert turn.outcome(*replay) == both()
    assert turn.prompts == ["goon"]
    assert turn.all("> go on", "As you like.") == both("> go on", "As you like.")


@pytest.mark.parametrize("before", [[], GO, [*GO, "> and", "Yes."]])
def test_an_echo_that_comes_in_pieces_and_begins_like_the_first_prompt_is_new(before: list[str | Update]) -> None:
    turn = Turn(transcript(*GO, "> and", "Yes."), prompts=["goon"])
    assert turn.outcome(*before, user("go"), user(" on"), "Well.")[1] == expand_all([user("go"), user(" on"), "Well."])
    assert turn.prompts == []


def test_a_user_message_in_pieces_passes_as_soon_as_it_is_another_than_the_first() -> None:
    turn = Turn(transcript(*TALK), *TALK)
    assert turn.outcome(user("mend ")) == both()
    assert turn.outcome(user("the other")) == both(user("mend "), user("the other"))
    assert turn.outcome("Well.", user("mend ")) == both("Well.")
    assert turn.replay.replay_may_still_run
    assert turn.outcome("Well.") == both(user("mend "), "Well.")
    assert not turn.replay.replay_may_still_run


PLAN: Update = {"sessionUpdate": "plan", "entries": []}


def test_known_thoughts_plans_and_calls_of_a_running_replay_are_not_new() -> None:
    said: list[str | Update] = ["> a", "~ hm hm", call("1", "look"), "The answer to it, whole."]
    turn = Turn(transcript(*said, *TWO))
    again: list[str | Update] = ["> a", PLAN, thought("hm hm"), call("1", "look"), call("1", kind="tool_call_update")]
    assert turn.outcome(*again) == both()
    assert turn.outcome(call("9", "look")) == both(call("9", "look"))


@pytest.mark.parametrize("past", [["> a", "~ hm hm"], ["> a", "Well.", "~ hm hm"], [*TALK, "> a", "~ hm hm"]])
def test_a_thought_that_ends_the_past_is_not_new_after_the_message_that_proves_a_replay(past: list[str]) -> None:
    turn = Turn(transcript(*past, answered=False))
    assert turn.outcome(*past[:-1], "~ hm ", "~ hm") == both()
    assert turn.all("~ hm hm") == both("~ hm hm")


def test_a_known_thought_from_before_the_last_words_is_new_after_them() -> None:
    turn = Turn(transcript("> a", "~ hm hm", "Well."))
    assert turn.all("> a", "Well.", "~ hm hm", "So.") == both("~ hm hm", "So.")


@pytest.mark.parametrize("following", ["As you like.", call("9", "look"), {"sessionUpdate": "odd"}, "~ new", None])
@pytest.mark.parametrize("before", [ONE, ONE[:1]])
def test_a_plan_or_a_known_thought_that_begins_the_turn_is_sent_and_recorded_with_what_follows(
    before: list[str], following: str | Update | None
) -> None:
    turn = Turn(transcript("> mend it", "~ hm hm", *TALK[1:]), *before)
    said = [PLAN, "~ hm hm", *([following] if following is not None else [])]
    assert turn.outcome(*said)[0] == expand_all(said)
    turn = Turn(transcript("> mend it", "~ hm hm", *TALK[1:]), *before)
    assert turn.all(*said) == both(*said)


@pytest.mark.parametrize("past", [TWO, ["> mend it", call("1", "look")], ["> mend it", "~ hm hm"]])
@pytest.mark.parametrize("loading", [False, True])
def test_a_replay_that_the_agent_is_asked_for_may_begin_anywhere(past: list[str | Update], *, loading: bool) -> None:
    turn = Turn(transcript("> /status", "All is well.", *past), prompts=(), ours=False, loading=loading)
    _, recorded = turn.all(*past, "As you like.")
    assert recorded == (expand_all(["As you like."]) if loading else expand_all([*past, "As you like."]))


def test_a_user_message_of_such_a_replay_is_known_whatever_follows_the_answer() -> None:
    turn = Turn(transcript("> mend it", "It is mended.", answered=False), prompts=(), ours=False, loading=True)
    assert turn.outcome("> mend it") == (expand_all(["> mend it"]), [])
    turn.loading = False
    assert turn.all(GREETING) == both(GREETING)


def test_a_replay_that_the_agent_is_asked_for_may_lack_what_it_has_said_outside_turns() -> None:
    said: list[Update] = [agent("Hello!", messageId="h"), agent("It is mended.", messageId="m")]
    words = [{**said[1], "content": {"type": "text", "text": each}} for each in ("It is ", "mended.")]
    turn = Turn(transcript("> mend it", *said, answered=False), prompts=(), ours=False, loading=True)
    replay: list[str | Update] = ["> mend it", *words]
    assert turn.all(*replay, GREETING) == (expand_all([*replay, GREETING]), expand_all([GREETING]))
    joined = transcript("> mend it", "It is mended.", "Hello!", answered=False)
    turn = Turn(joined, prompts=(), ours=False, loading=True)
    assert turn.all(*replay, GREETING) == (expand_all([*replay, GREETING]), expand_all([GREETING]))


def test_words_before_the_first_prompt_begin_a_replay_that_the_agent_is_asked_for() -> None:
    for later, recorded in (["> mend it"], []), (["Something else."], [GREETING, "Something else."]):
        turn = Turn(transcript(GREETING, "> mend it", answered=False), prompts=(), ours=False, loading=True)
        assert turn.all(GREETING, *later) == (expand_all([GREETING, *later]), expand_all(recorded))


def test_calls_with_new_ids_are_known_by_their_titles_in_a_replay_that_the_agent_is_asked_for() -> None:
    past: list[str | Update] = ["> mend it", call("1", "look"), call("2", "look"), "Found it."]
    replay: list[str | Update] = ["> mend it", call("7", "look"), call("8", "look"), "Found it."]
    for loading in (False, True):
        turn = Turn(transcript(*past), prompts=(), ours=False, loading=loading)
        sent, recorded = turn.all(*replay, call("9", "look"))
        assert sent == expand_all([*replay, call("9", "look")])
        assert recorded == expand_all([call("9", "look")] if loading else [*replay, call("9", "look")])


def test_calls_with_new_ids_are_known_by_their_titles_before_the_running_turn() -> None:
    past = transcript("> look", call("1", "look"), "> again", call("2", "look"), answered=False)
    turn = Turn(past, prompts=(), ours=False)
    replay: list[str | Update] = ["> look", call("7", "look"), "> again", call("8", "look")]
    assert turn.all(*replay) == (expand_all(replay), expand_all(replay[2:])), "a turn may call a tool again"


def test_updates_over_the_limit_do_not_wait() -> None:
    turn = Turn(transcript(*TALK))
    long: Update = {**PLAN, "entries": ["x" * UNDECIDED_LIMIT]}
    assert turn.outcome("> mend it", PLAN, long) == both("> mend it", PLAN, long)


@given(
    st.lists(st.sampled_from([*TALK, "> go on", "~ hm", GREETING, "As you like."]), max_size=12),
    st.integers(0, 4),
    st.booleans(),
)
def test_nothing_is_lost_doubled_or_reordered(said: list[str], number: int, ours: bool) -> None:
    sent, recorded = Turn(transcript(*TALK), *TALK[:number], ours=ours).all(*said)
    left = iter(expand_all(said))
    assert all(each in left for each in sent), "in order, each at most once"
    assert ours or sent == expand_all(said)
    left = iter(sent)
    assert all(each in left for each in recorded), "what is recorded was sent"
    if not any(each in TALK[::2] for each in said):
        assert sent == expand_all(said), "no user message proves a replay"
    late = Late(transcript(*TALK), *TALK[:number], ours=True)
    passed = [*late.outcome(*said), *late.rest()]
    left = iter(expand_all(said))
    assert all(each in left for each in passed), "in order, each at most once"
    recorded = [update for update in list_new(late.comparison) if update["sessionUpdate"] == "agent_message_chunk"]
    assert all(each in passed for each in recorded), "what is recorded was shown"


def test_a_second_replay_in_other_words_is_dropped_where_the_agents_was_shown() -> None:
    late = Late(transcript(*TALK), *TALK, ours=False)
    assert late.outcome("> mend it", "[Thought: true]It is mended, all of it.", *TWO) == []
    assert (late.rest(), list_new(late.comparison)) == ([], [])


def test_a_call_that_the_agent_sends_first_after_its_last_words_again_goes_out() -> None:
    past = transcript("> mend it", "I am looking at all of it.", call("1", "look"))
    late = Late(past, "> mend it", "I am looking at all of it.", ours=False)
    assert late.outcome("I am looking at all of it.", call("1", "look"))[-1:] == [call("1", "look")]


BEGUN = [*ONE, "> thanks", "Well, let me see.", "~ I think"]


@pytest.mark.parametrize("early", range(4))
@pytest.mark.parametrize("past", [BEGUN, [*BEGUN[:3], BEGUN[4]]], ids=["words", "no words"])
def test_what_a_cut_turn_adds_to_its_last_thought_is_shown(past: list[str], early: int) -> None:
    replay = [*past[:-1], "~ I think about it.", TWO[1]]
    late = Late(transcript(*past, answered=False), *replay[:early], ours=True)
    shown = [*late.outcome(*replay[early:]), *late.rest()]
    assert shown == [thought(" about it."), agent(TWO[1])]
    assert list_new(late.comparison, turn_may_run_elsewhere=False) == shown


def test_after_the_agents_replay_the_last_thought_of_a_cut_turn_is_shown_as_it_comes() -> None:
    late = Late(transcript(*BEGUN, answered=False), *BEGUN[:-1], ours=False)
    said = expand_all(["~ I think about it.", TWO[1]])
    assert [*late.outcome(*said), *late.rest()] == said
    assert list_new(late.comparison, turn_may_run_elsewhere=False) == [thought(" about it."), said[1]]


@pytest.mark.parametrize("size", [1, 10_010])
def test_a_thought_is_shown_however_much_came_before_it(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("acp_proxy.comparison.tail.TAIL_LIMIT", 10_000)
    late = Late(transcript(*TALK), *TALK, ours=True)
    said = [agent("x" * size), call("k", "Run"), thought("I wonder about it."), agent("So I looked.")]
    assert [*late.outcome(*said), *late.rest()] == said


def tell_words(count: int) -> list[Update]:
    return [agent(f"These are the words with number {number}. ") for number in range(count)]


TOLD: dict[str, Callable[[int], list[Update]]] = {
    "new words": tell_words,
    "new words and calls": lambda n: [
        each for number, words in enumerate(tell_words(n)) for each in (words, call(f"c{number}", f"t{number}"))
    ],
    "one message of the user": lambda n: [user(f"chunk {number} ") for number in range(n)],
    "context": lambda n: [
        each for number in range(n) for each in (user(f"at {number}", messageId=f"c{number}"), *map(expand, TALK))
    ],
}


@pytest.mark.parametrize("told", TOLD)
def test_the_cost_grows_with_what_comes_late(told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def made(size: int) -> growth.Work:
        comparison = compare_replay(transcript(*TALK), *TALK)
        said = [(line(update), update) for update in TOLD[told](size)]
        late = LateUpdates(comparison, hides_replay=True)
        return lambda: [late.add(*each) for each in said]

    monkeypatch.setattr(growth, "COUNTED", 250)
    assert growth.counted(growth.Shape(told, made)).is_well
