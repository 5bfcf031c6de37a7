"""A transcript laid out for a comparison."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from acp_proxy.comparison.letters import digest, read_block_letters
from acp_proxy.comparison.text_builder import TextBuilder, takes_back
from acp_proxy.comparison.transcript_text import TranscriptText, UserMessage
from acp_proxy.protocol import acp
from acp_proxy.protocol.jsonrpc import Peer
from acp_proxy.transcript.file_format import Entry
from fuzz import growth
from tests.comparison.short_forms import (
    Update,
    agent,
    answer,
    call,
    cancel,
    compare_replay,
    list_new,
    opened,
    prompt_entry,
    thought,
    transcript,
    updated,
    user,
)
from tests.strategies import values


def of(*entries: Entry) -> TranscriptText:
    builder = TextBuilder()
    for entry in entries:
        builder.add(entry)
    return builder.finish()


def forms(past: TranscriptText) -> list[list[str]]:
    return [user.variants for user in past.user_messages]


def test_words_and_thoughts_are_letters_in_order_however_they_are_chunked() -> None:
    past = transcript("> a", "It is\n", " mended.", "~ h m", "All of it.", "> b", "Yes.")
    assert (past.agent_letters, past.thought_letters) == ("Itismended.Allofit.Yes.", "hm")
    assert [past.agent_letters[slice(*past.find_turn_span(turn))] for turn in range(3)] == [
        "",
        "Itismended.Allofit.",
        "Yes.",
    ]


def test_text_before_the_first_prompt_is_a_turn_of_its_own() -> None:
    past = transcript("Welcome", call("1", "look"), "> a", "b", call("2", "mend"))
    assert past.find_turn_span(0) == (0, 7)
    assert (list(past.find_call_indexes(0)), list(past.find_call_indexes(1))) == ([0], [1])


def test_messages_begin_where_the_kind_or_the_id_changes() -> None:
    past = of(
        prompt_entry("x"), updated(agent("ab", messageId="1")), updated(agent("c", messageId="1")),
        updated(agent("de", messageId="2")), updated(thought("hm")), updated(agent("f", messageId="2")),
    )  # fmt: skip
    assert past.message_positions == [0, 3, 5]
    assert [past.begins_message(at) for at in range(6)] == [True, False, False, True, False, True]
    assert [past.ends_message(at) for at in range(7)] == [True, False, False, True, False, True, True]


# --- one message, several forms


@pytest.mark.parametrize(
    "echo",
    [
        [user("look at @a.py")],
        [user("look at"), user(" @a.py")],
        [user("look at @a.py:\n\nprint(1)")],
        [user("context"), user("look at @a.py")],
    ],
)
def test_a_prompt_and_its_echo_are_one_message(echo: list[dict[str, object]]) -> None:
    past = of(prompt_entry("look at @a.py"), *map(updated, echo), updated(agent("I see.")), answer())
    assert len(past.user_messages) == 1
    assert "lookat@a.py" in past.user_messages[0].variants


def test_after_the_agents_words_only_the_prompts_text_is_an_echo() -> None:
    said = [prompt_entry("a"), updated(agent("b"))]
    assert len(of(*said, updated(user("a")), updated(agent("c")), answer()).user_messages) == 1
    assert len(of(*said, updated(user("steer")), updated(agent("c")), answer()).user_messages) == 2


def test_an_echo_belongs_to_the_queued_prompt_with_its_text_or_to_the_first_one() -> None:
    past = of(prompt_entry("a"), prompt_entry("b"), updated(user("b")), updated(agent("x")), answer(), answer())
    assert forms(past) == [["a"], ["b"]]
    past = of(
        prompt_entry("a"), prompt_entry("b"), updated(user("a, with a file")), updated(agent("x")), answer(), answer()
    )
    assert forms(past) == [["a", "a,withafile"], ["b"]]
    first = [prompt_entry("a"), prompt_entry("b", id=2), updated(user("a")), updated(agent("x")), answer(1)]
    past = of(*first, updated(user("b, with a file")), updated(agent("y")), answer(2))
    assert forms(past) == [["a"], ["b", "b,withafile"]]


def test_what_the_agent_says_to_itself_in_a_turn_is_no_echo_of_its_prompt_while_another_waits() -> None:
    begun = [prompt_entry("a"), updated(agent("x")), prompt_entry("b", id=2)]
    to_itself = [updated(user("Keep going.")), updated(agent("y"))]
    assert forms(of(*begun, *to_itself, answer(1), answer(2))) == [["a"], ["b"], ["Keepgoing."]]
    at_once = [updated(agent("No.")), answer(2)]
    assert forms(of(*begun, *at_once, *to_itself, answer(1))) == [["a"], ["b"], ["Keepgoing."]]


def test_after_a_cancelled_prompt_without_an_echo_only_the_words_of_a_prompt_are_its_echo() -> None:
    begun = [prompt_entry("try it"), updated(agent("x")), cancel(), prompt_entry("look at @a.py", id=2)]
    assert forms(of(*begun, updated(user("Keep going.")), updated(agent("y")), answer(2)))[1:] == [
        ["lookat@a.py"],
        ["Keepgoing."],
    ]
    echo = updated(user("look at a.py: print(1)"))
    assert forms(of(*begun, echo, updated(agent("y")), answer(2)))[1:] == [["lookat@a.py", "lookata.py:print(1)"]]


def test_the_echo_of_a_prompt_comes_after_the_late_end_of_a_cancelled_one() -> None:
    begun = [prompt_entry("try it"), updated(user("try it")), cancel(), prompt_entry("look at @a.py", id=2)]
    past = of(
        *begun, updated(agent("oh")), answer(1), updated(user("look at @a.py: 1")), updated(agent("y")), answer(2)
    )
    assert forms(past)[1:] == [["lookat@a.py", "lookat@a.py:1"]]


def test_a_prompt_is_known_by_all_its_blocks_or_by_its_text() -> None:
    image = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
    entry = prompt_entry("look")
    params = entry.value["params"]  # type: ignore[index]
    params["prompt"].append(image)
    past = of(entry)
    assert past.user_messages[0].variants == ["look" + read_block_letters(image), "look"]


def test_a_user_message_without_a_prompt_was_made_elsewhere() -> None:
    past = of(prompt_entry("a"), updated(agent("b")), answer(), updated(user("c")), updated(agent("d")))
    assert [user.bypassed_proxy for user in past.user_messages] == [False, True]


def test_a_prompt_that_will_not_be_answered_has_no_echo_and_is_unfinished() -> None:
    past = of(prompt_entry("a"), opened("2"), updated(user("b")), updated(agent("c")))
    assert forms(past) == [["a"], ["b"]]
    past = of(prompt_entry("a"), cancel(), opened(), updated(user("a")), updated(agent("c")))
    assert forms(past) == [["a"], ["a"]]
    assert of(prompt_entry("a"), updated(agent("b"))).is_last_prompt_open
    assert of(prompt_entry("a"), opened()).is_last_prompt_open
    assert not of(prompt_entry("a"), updated(agent("b")), answer()).is_last_prompt_open


def test_a_load_in_a_turn_leaves_the_turn_open() -> None:
    past = of(prompt_entry("a"), updated(agent("b")), opened(), updated(user("a")), updated(agent("c")), answer())
    assert forms(past) == [["a"]]
    assert not past.is_last_prompt_open


def test_a_prompt_is_queued_as_long_as_the_echo_that_its_agent_sends_is_missing() -> None:
    first = [prompt_entry("a"), updated(user("a")), updated(agent("b"))]
    queued = [prompt_entry("c", id=2), prompt_entry("d", id=3)]
    assert [each.variants for each in of(*first, *queued, opened()).unechoed_prompts] == [["c"], ["d"]]
    assert [each.variants for each in of(*first, *queued, answer(), updated(user("c"))).unechoed_prompts] == [["d"]]
    assert not of(*first, *queued, opened("2")).unechoed_prompts
    assert not of(*first, answer(), queued[0], answer(2)).unechoed_prompts
    assert not of(prompt_entry("a"), updated(agent("b")), *queued).unechoed_prompts


# --- tool calls


def test_updates_of_a_call_are_one_call_and_its_id_in_another_turn_is_another() -> None:
    past = transcript(
        "> a", call("1", "look", "pending"), call("1", status="completed", kind="tool_call_update"),
        "> b", call("1", "mend", "pending"),
    )  # fmt: skip
    assert [(each.title, each.turn_number, each.status) for each in past.calls] == [
        ("look", 1, "completed"), ("mend", 2, "pending"),
    ]  # fmt: skip
    assert past.calls_by_id == {"1": [0, 1]}
    assert past.calls_by_title == {"look": [0], "mend": [1]}


def test_an_update_in_a_later_turn_belongs_to_the_call_with_its_id() -> None:
    past = transcript(
        "> a", call("1", "look", "pending"), "> b", call("1", status="completed", kind="tool_call_update")
    )
    assert [(each.turn_number, each.status) for each in past.calls] == [(1, "completed")]


def test_an_image_from_the_agent_counts_as_a_finished_call() -> None:
    image = {"sessionUpdate": "agent_message_chunk", "content": {"type": "image", "data": "aGk="}}
    past = transcript("> a", image, "b")
    assert [each.status for each in past.calls] == ["completed"]
    assert past.agent_letters == "b"


# --- taking back


@pytest.mark.parametrize(
    "text",
    [
        "/clear",
        " /compact now",
        "/compress",
        "/undo 2",
        "/rewind",
        "/revert",
        "/RESTORE",
        "/reset",
        "/rollback",
        "/new",
    ],
)
def test_some_commands_take_something_back(text: str) -> None:
    assert takes_back(text)
    past = transcript("> a", "b", f"> {text}", "Done.")
    assert [user.takes_back for user in past.user_messages] == [False, True]
    assert past.taken_back_turn == 2


@pytest.mark.parametrize(
    "text", ["/newest", "/new-feature", "/reset/page.tsx fails", "undo", "/model", "please /clear", ""]
)
def test_other_texts_take_nothing_back(text: str) -> None:
    assert not takes_back(text)
    assert transcript("> a", "b", f"> {text}", "Done.").taken_back_turn == 0


def test_a_compaction_takes_back_everything_before_it() -> None:
    assert transcript("> a", "b", {"sessionUpdate": "compaction_update", "status": "completed"}).taken_back_turn == 1


# --- other lookups, and any values


def test_the_next_user_message_with_given_letters_is_found_from_any_place_on() -> None:
    past = transcript("> ok", "a", "> no", "b", "> ok", "c")
    assert [past.find_user_message("ok", start) for start in range(4)] == [0, 2, 2, None]


def test_states_and_plans_do_not_count() -> None:
    past = transcript({"sessionUpdate": "plan", "entries": []}, {"sessionUpdate": "usage_update"})
    assert past.is_empty
    assert past.whole_update_digests == set()


def test_an_update_of_another_kind_is_known_by_its_value() -> None:
    past = transcript("> a", {"sessionUpdate": "odd", "a": 1, "b": 2})
    assert past.whole_update_digests == {digest({"b": 2, "sessionUpdate": "odd", "a": 1})}


@given(st.text())
def test_letters_are_the_same_however_a_text_is_cut(text: str) -> None:
    for at in range(len(text)):
        assert acp.fold_letters(text[:at]) + acp.fold_letters(text[at:]) == acp.fold_letters(text)


def test_letters_are_the_same_if_a_text_is_cut_within_a_character_as_javascript_may_do() -> None:
    assert acp.fold_letters("it \ud83d") + acp.fold_letters("\ude00 works") == acp.fold_letters("it 😀 works")


@given(st.lists(values), st.lists(st.dictionaries(st.sampled_from(["sessionUpdate", "content", "toolCallId"]), values)))
def test_entries_of_any_shape_can_be_laid_out(blocks: list[object], updates: list[dict[str, object]]) -> None:
    builder = TextBuilder()
    builder.add(Entry("", "", Peer.CLIENT, None, b"", {"method": "session/prompt", "params": {"prompt": blocks}}))
    for update in updates:
        builder.add_update(update)
    past = builder.finish()
    assert all(past.find_turn_span(turn) for turn in range(len(past.user_messages) + 1))


@pytest.mark.parametrize(
    ("entries", "is_unfinished"),
    [
        ([prompt_entry("a", id=1)], True),
        ([prompt_entry("a", id=1), answer(1)], False),
        ([prompt_entry("a", id=1), opened(), prompt_entry("a", id=2), answer(2)], False),
        ([prompt_entry("a", id=1), opened(), prompt_entry("a", id=2)], True),
        ([prompt_entry("a", id=1), cancel(), prompt_entry("b", id=2), answer(2)], False),
        ([prompt_entry("a", id=1), prompt_entry("b", id=2), answer(2)], False),
        ([prompt_entry("a", id=1), prompt_entry("b", id=2), answer(1)], True),
        (
            [prompt_entry("a", id=1), cancel(), prompt_entry("b", id=2), answer(2), prompt_entry("c", id=3), answer(3)],
            False,
        ),
    ],
)
def test_a_conversation_is_unfinished_if_its_last_prompt_has_no_answer(
    entries: list[Entry], is_unfinished: bool
) -> None:
    assert of(*entries).is_last_prompt_open == is_unfinished


def of_run(run: str, *entries: Entry) -> list[Entry]:
    return [replace(entry, run=run) for entry in entries]


def test_the_calls_of_a_window_that_ended_before_another_did_are_over() -> None:
    begun = of_run("a", prompt_entry("run it"), updated(call("c", "Run", "in_progress")))
    other = of_run("b", opened("b"), prompt_entry("and that"))
    last = of_run("c", opened("c"), prompt_entry("thanks"), updated(agent("You are welcome, any time.")), answer())
    past = of(*begun, *other, *last, opened("d"))
    ended = call("c", status="completed", kind="tool_call_update")
    replay: list[str | Update] = ["> run it", call("c", "Run", "in_progress"), ended, "> and that", "> thanks"]
    assert list_new(compare_replay(past, *replay, "You are welcome, any time.")) == [ended]


def test_a_prompt_waits_in_its_window_although_two_more_windows_have_opened_the_session() -> None:
    waiting = of_run("a", prompt_entry("one"), prompt_entry("two", id=2))
    past = of(
        *waiting, *of_run("b", opened("b"), prompt_entry("three")), *of_run("c", opened("c"), prompt_entry("four"))
    )
    assert [user.is_waiting for user in past.user_messages] == [False, True, False, False]
    assert past.user_messages[1].overtaken_by == 3


@pytest.mark.parametrize("is_cancelled", [True, False])
def test_the_cost_grows_with_the_prompts_that_many_windows_left(
    is_cancelled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def make(size: int) -> growth.Work:
        ends = [cancel()] if is_cancelled else []
        runs = [[opened(f"{at}"), prompt_entry("go on"), updated(call(f"{at}", "Run")), *ends] for at in range(size)]
        entries = [entry for at, run in enumerate(runs) for entry in of_run("a" if is_cancelled else f"{at}", *run)]
        return lambda: of(*entries)

    monkeypatch.setattr(growth, "COUNTED", 250)
    assert growth.counted(growth.Shape("prompts", make)).is_well


def test_a_prompt_does_not_wait_for_a_cancelled_one_from_before_the_session_was_opened_again() -> None:
    past = of(prompt_entry("one"), cancel(), opened(), prompt_entry("two", id=2), updated(agent("Two.")))
    assert (past.user_messages[1].turn_start, past.user_messages[1].max_turn_start) == (0, 0)


def test_what_follows_a_prompt_that_was_never_answered_and_its_successors_turn_was_said_elsewhere() -> None:
    past = of(
        prompt_entry("a", id=1), cancel(), prompt_entry("b", id=2), updated(agent("B")), answer(2), updated(user("c"))
    )
    assert [user.bypassed_proxy for user in past.user_messages] == [False, False, True]


def test_an_empty_transcript_has_no_message() -> None:
    assert not of().has_message("Itismended,allofit.", 0)


class CountedUserMessages(list[UserMessage]):
    """Counts how often one is looked up."""

    lookups = 0

    def __getitem__(self, at: Any) -> Any:
        self.lookups += 1
        return super().__getitem__(at)


def test_prompts_that_wait_are_looked_up_a_few_times() -> None:
    talk = [
        entry for id in range(100) for entry in (prompt_entry(f"{id}", id=id), updated(agent("Done.")), answer(id=id))
    ]
    past = of(*talk, *[prompt_entry("wait", id=id) for id in range(100, 400)])
    past.user_messages = user_messages = CountedUserMessages(past.user_messages)
    compare_replay(past, *[said for id in range(100) for said in (f"> {id}", "Done.")])
    assert user_messages.lookups < 100 * 50
