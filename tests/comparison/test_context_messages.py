"""User messages that an agent adds to its replays, and that nobody typed."""

import pytest

from acp_proxy.comparison.comparison import Comparison
from acp_proxy.comparison.context_messages import ContextMessages
from acp_proxy.comparison.late_updates import LateUpdates
from acp_proxy.comparison.text_builder import TextBuilder
from acp_proxy.comparison.updates_in_turn import SortedLine, UpdatesInTurn
from acp_proxy.protocol import acp
from tests.comparison.short_forms import (
    Update,
    call,
    choose_past,
    compare_replay,
    expand,
    line,
    list_new,
    transcript,
    updates,
    user,
)

CONTEXT = "> <context of the agent>"
SESSION = "> <session_context>\nToday's date is Monday.\n</session_context>"
OUTPUT = "> [Function Response: run_shell_command]"
WITH_ID = user(CONTEXT[2:], messageId="context")
PAST = ["> mend it", "It is mended, all of it.", "> thanks", "You are welcome, any time."]
USE, DONE = "I will use a tool.", "It is done, as you asked."
TALK: list[str | Update] = ["> run it", USE, call("a", "Run"), DONE, "> and again", USE, call("b", "Run"), DONE]


def send_late(comparison: Comparison, *said: str | Update, ours: bool = True) -> list[Update]:
    """What a client gets of what comes after the answer, until its next prompt."""
    sorting = LateUpdates(comparison, hides_replay=ours)
    sent = [out for update in map(expand, said) for out in sorting.add(line(update), update)]
    return updates([*sent, *sorting.release()])


def add_in_turn(turn: UpdatesInTurn, *said: str | Update) -> list[SortedLine]:
    """What becomes of the updates of a turn that goes on."""
    return [out for update in map(expand, said) for out in turn.add(line(update), update, ["now?"])]


def test_what_gemini_adds_is_neither_shown_after_the_transcript_nor_recorded() -> None:
    # A session that was handed over at its second prompt, as gemini 0.61 replays it: its first message, the answer to
    # the load, and the rest. It says the same in both turns.
    comparison = compare_replay(transcript(*TALK), SESSION)
    assert comparison.split_tail() == ([], [])
    assert send_late(comparison, "> and again", USE, call("b", "Run"), OUTPUT, DONE) == []
    assert list_new(comparison) == []


@pytest.mark.parametrize("context", [OUTPUT, CONTEXT])
def test_a_message_between_a_call_and_the_rest_of_the_last_turn_is_context(context: str) -> None:
    comparison = compare_replay(transcript(*TALK))
    assert send_late(comparison, *TALK[:7], context, DONE) == []
    assert list_new(comparison) == []


@pytest.mark.parametrize(
    ("context", "is_new"),
    [
        ("> [Function Response: read_file]", False),
        ("> [Function Response: read_file][Function Response: glob]", False),
        ("> [Function Response: read_file] and now?", True),
        ("> what is [Function Response: read_file]?", True),
        (SESSION, False),
        ("> <hook_context>x</hook_context>", False),
        ("> <session_context> is what?", True),
        (CONTEXT, True),
    ],
)
@pytest.mark.parametrize("ours", [True, False])
def test_a_message_after_a_last_call_is_context_if_it_has_such_a_form(context: str, is_new: bool, ours: bool) -> None:
    past: list[str | Update] = ["> run it", USE, call("a", "Run")]
    comparison = compare_replay(transcript(*past), *([] if ours else past))
    shown = send_late(comparison, *(past if ours else []), context, ours=ours)
    assert shown == ([expand(context)] if is_new or not ours else [])
    assert list_new(comparison) == ([expand(context)] if is_new else [])


def test_an_output_is_context_after_a_call_only() -> None:
    assert list_new(compare_replay(transcript(*TALK), *TALK, OUTPUT)) == [expand(OUTPUT)]


@pytest.mark.parametrize("context", [SESSION, WITH_ID])
@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("elsewhere", [["> go on", "As you like."], ["> go on"]])
def test_a_message_that_came_before_something_known_is_context_further_on(
    context: str | Update, is_first: bool, elsewhere: list[str]
) -> None:
    first = [context, "> run it"] if is_first else ["> run it", context]
    replay: list[str | Update] = [*first, *TALK[1:], context, elsewhere[0], context, *elsewhere[1:]]
    assert list_new(compare_replay(transcript(*TALK), *replay)) == list(map(expand, elsewhere))
    comparison = compare_replay(transcript(*TALK))
    begins: list[str | Update] = [context] if is_first and context == WITH_ID else []  # nothing says yet what it is
    assert send_late(comparison, *replay) == list(map(expand, [*begins, *elsewhere]))
    assert list_new(comparison) == list(map(expand, elsewhere))


@pytest.mark.parametrize("context", [SESSION, WITH_ID])
def test_context_between_messages_without_answers_hides_none_of_them(context: str | Update) -> None:
    past = transcript("> run it", "> and again", "> once more", DONE)
    replay = ["> run it", context, "> and again", context, "> once more", context, DONE, "> go on", context]
    assert list_new(compare_replay(past, *replay)) == [expand("> go on")]


def test_context_in_one_message_with_a_known_one_brings_that_not_along() -> None:
    assert send_late(compare_replay(transcript(*TALK)), CONTEXT, *TALK) == [expand(CONTEXT)]


@pytest.mark.parametrize("first", [["> mend it", "> go on"], ["> go on", "> mend it"]])
def test_a_chunk_of_a_message_is_no_context_by_its_words(first: list[str]) -> None:
    replay = [*first, *PAST[1:]]
    elsewhere = ["> Write: ", "> go on", "> in the file, please.", "I have written it."]
    assert list_new(compare_replay(transcript(*PAST), *replay, *elsewhere)) == list(map(expand, elsewhere))
    comparison = compare_replay(transcript(*PAST), *replay)
    assert send_late(comparison, *elsewhere) == list(map(expand, elsewhere))


def test_what_follows_a_known_message_in_the_same_one_is_context_by_its_words() -> None:
    past = ["> run it", USE, "> and again", "Sure, once more.", "> go", DONE]
    replay: list[str | Update] = ["> run it", WITH_ID, USE, "> go", CONTEXT]  # the agent has lost a turn
    assert list_new(compare_replay(transcript(*past), *replay, DONE)) == []
    assert list_new(compare_replay(transcript(*past[:5]), *replay)) == []


def test_a_message_that_the_transcript_has_is_never_context() -> None:
    context = ContextMessages(transcript("> run it", DONE, CONTEXT, USE))
    for message in ("runit", "<context of the agent>", "other"):
        context.add(acp.fold_letters(message))
        assert context.is_context(acp.fold_letters(message), follows_call=False) == (message == "other")


def test_context_counts_for_no_message_of_the_user() -> None:
    assert choose_past(compare_replay(transcript(*TALK), SESSION, *TALK[1:])).rule.name == "REPLAY_IS_WORSE"


def test_context_begins_no_transcript() -> None:
    comparison = compare_replay(TextBuilder().finish(), SESSION, *TALK[:3], OUTPUT, DONE)
    assert list_new(comparison) == list(map(expand, TALK[:4]))


@pytest.mark.parametrize("context", [OUTPUT, CONTEXT])
def test_context_in_a_replay_that_a_message_proves_in_a_turn_belongs_to_it(context: str) -> None:
    turn = UpdatesInTurn(compare_replay(transcript(*TALK)), hides_replay=True)
    past = [*add_in_turn(turn, *TALK[:3], context, *TALK[3:7], context, TALK[7]), *turn.release()]
    assert not any(each.should_send or each.should_record for each in past)
    assert [(each.should_send, each.should_record) for each in add_in_turn(turn, "Now it is.")] == [(True, True)]


def test_a_message_in_a_turn_passes_if_the_replay_does_not_go_on_after_it() -> None:
    turn = UpdatesInTurn(compare_replay(transcript(*TALK)), hides_replay=True)
    said = [out for out in add_in_turn(turn, *TALK[:4], CONTEXT, "As you like.") if out.should_send]
    assert updates(out.line for out in said) == [expand(CONTEXT), expand("As you like.")]
    assert all(out.should_record for out in said)


def test_context_in_a_turn_is_sent_and_not_recorded() -> None:
    turn = UpdatesInTurn(compare_replay(transcript(*TALK), *TALK), hides_replay=False)
    assert [(out.should_send, out.should_record) for out in add_in_turn(turn, SESSION)] == [(True, False)]


GO_ON = user("go on", messageId="m")


@pytest.mark.parametrize("elsewhere", [["> go on", "As you like, I went on."], [GO_ON]])
@pytest.mark.parametrize("early", [[], PAST, [*PAST, GO_ON]])
def test_what_comes_before_another_replay_is_no_context(
    elsewhere: list[str | Update], early: list[str | Update]
) -> None:
    assert list_new(compare_replay(transcript(*PAST), *[*PAST, *elsewhere] * 2)) == list(map(expand, elsewhere))
    comparison = compare_replay(transcript(*PAST), *early)
    send_late(comparison, *[*PAST, *elsewhere] * 2)
    assert list_new(comparison) == list(map(expand, elsewhere))


def test_a_message_that_has_the_first_prompt_as_a_chunk_begins_no_replay() -> None:
    past = [*PAST, "> please mend it", "It is mended once more."]
    assert (
        choose_past(compare_replay(transcript(*past), *past[:4], "> please ", "> mend it", past[5])).rule.name
        == "REPLAY_HAS_ALL"
    )


@pytest.mark.parametrize("id", [{}, {"messageId": "m"}])
@pytest.mark.parametrize("texts", [["Now the other one: ", "mend it"], ["Write: ", "mend it", " in the file."]])
@pytest.mark.parametrize("is_late", [True, False])
def test_a_message_made_elsewhere_that_has_the_first_prompt_as_a_chunk_begins_no_replay(
    texts: list[str], id: dict[str, str], is_late: bool
) -> None:
    elsewhere = [*(user(text, **id) for text in texts), expand("That one is mended now as well.")]
    comparison = compare_replay(transcript(*PAST), *PAST, *([] if is_late else elsewhere))
    assert not is_late or send_late(comparison, *elsewhere) == elsewhere
    assert list_new(comparison) == elsewhere


def test_chunks_with_the_same_id_are_one_message_whatever_they_say() -> None:
    past = [*PAST, "> please"]
    elsewhere = [user(text, messageId="m") for text in ("please", SESSION[2:], "mend it", "go on")]
    answer = expand("As you like, all of it.")
    assert list_new(compare_replay(transcript(*PAST), *PAST, *elsewhere, answer)) == [*elsewhere, answer]
    assert choose_past(compare_replay(transcript(*past), *PAST, *elsewhere[:2])).rule.name == "REPLAY_HAS_ALL"


def test_context_between_the_end_of_one_replay_and_the_beginning_of_another_hides_no_beginning() -> None:
    past: list[str | Update] = ["> /status", "Everything is fine here.", "> run it", call("a", "Run"), "> go on"]
    replay = [CONTEXT, *past[:4], CONTEXT, past[4]]
    comparison = compare_replay(transcript(*past))
    assert send_late(comparison, *replay[-2:], *replay) == [expand(CONTEXT)]  # nothing says yet what that is
    assert list_new(comparison) == []


@pytest.mark.parametrize("prompt", ["Please continue.", SESSION[2:], f"{SESSION[2:]} What is this?"])
@pytest.mark.parametrize("is_proven", [True, False])
@pytest.mark.parametrize("ours", [True, False])
def test_the_echo_of_a_prompt_is_no_context(prompt: str, is_proven: bool, ours: bool) -> None:
    chunks = [f"> {part}" for part in prompt.partition(SESSION[2:]) if part]
    turn = UpdatesInTurn(compare_replay(transcript(*TALK), "> run it", chunks[0], *TALK[1:4]), hides_replay=ours)
    prompts = [acp.fold_letters(prompt)]

    def sort(*said: str | Update) -> list[SortedLine]:
        return [out for update in map(expand, said) for out in turn.add(line(update), update, prompts)]

    sort(*(TALK[4:7] if is_proven else []))
    out = [*sort(*chunks, DONE), *turn.release()]
    assert updates(each.line for each in out if each.should_send) == list(map(expand, [*chunks, DONE]))
    assert updates(each.line for each in out if each.should_record) == list(map(expand, [*chunks, DONE]))


def test_what_an_agent_tells_itself_in_a_turn_is_no_context_by_its_words() -> None:
    turn = UpdatesInTurn(compare_replay(transcript(*TALK), "> run it", CONTEXT, *TALK[1:4]), hides_replay=False)
    out = [*add_in_turn(turn, CONTEXT, "I went on."), *turn.release()]
    assert updates(each.line for each in out if each.should_send) == list(map(expand, [CONTEXT, "I went on."]))
    assert updates(each.line for each in out if each.should_record) == list(map(expand, [CONTEXT, "I went on."]))


def test_context_that_the_user_has_pasted_is_the_users() -> None:
    past = [*PAST[:2], SESSION, "That is gemini's context.", *PAST[2:]]
    assert choose_past(compare_replay(transcript(*past), *past)).rule.name == "REPLAY_HAS_ALL"
