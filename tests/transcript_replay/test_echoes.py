"""A prompt and the agent's echo of it are one user message, replayed once and as it was typed."""

from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_proxy.protocol.jsonrpc import Peer
from acp_proxy.transcript.file_format import Entry
from acp_proxy.transcript_replay import prompts as replay_prompts
from acp_proxy.transcript_replay import replayer
from acp_proxy.transcript_replay.replayer import Mode, Replayer
from tests.transcript_replay.entries import (
    IMAGE,
    RUN,
    SESSION,
    USER,
    Value,
    answer,
    call,
    changed,
    chunk,
    crashed,
    lines_of,
    message_chunk,
    message_entry,
    noted,
    permission,
    prompt_entry,
    tell,
    text,
    update,
    updates_in,
)

MODES = pytest.mark.parametrize("mode", get_args(Mode))
LINK: Value = {"type": "resource_link", "uri": "file:///w/a.py", "name": "a.py"}


def user_chunk(words: str, id: str | None = None, run: str = RUN) -> Entry:
    """A user chunk that the agent sent."""
    return update(USER, run, content=text(words), **({"messageId": id} if id is not None else {}))


def users(told: list[Value]) -> list[tuple[Any, str | None]]:
    """The replayed user messages: texts or blocks, and ids; ``own 1`` is the id that we give entry number 1."""
    chunks = [one for one in told if one["sessionUpdate"] == USER]
    return [(one["content"].get("text", one["content"]), _short(one.get("messageId"))) for one in chunks]


def _short(id: str | None) -> str | None:
    return f"own {id.rsplit('-', 1)[1]}" if id is not None and id.startswith("acp-proxy-") else id


def order(told: list[Value]) -> list[str]:
    return [one["content"]["text"] for one in told if "content" in one]


@MODES
@pytest.mark.parametrize(
    ("echo", "id"),
    [
        ([user_chunk("mend it")], "own 1"),
        ([user_chunk("mend it", "m")], "m"),
        ([user_chunk("mend", "m"), user_chunk(" it", "m")], "m"),
        ([user_chunk(piece) for piece in "mend it"], "own 1"),
        ([user_chunk("  mend\tit\n")], "own 1"),
        ([user_chunk("\n"), user_chunk("mend it"), user_chunk(""), user_chunk(" ")], "own 1"),
        ([update(USER, content=text("mend it", annotations={}), messageId="m", _meta={"x": 1})], "m"),
        ([user_chunk("mend it, of a.py:\n```\nwritten out\n```", "m")], "m"),
        ([user_chunk("mend", "m"), user_chunk(" it, written out", "m")], "m"),
        ([user_chunk("mend"), user_chunk(" it, written out")], "own 1"),
    ],
)
def test_an_echoed_prompt_is_replayed_once_as_typed_with_the_echos_id(echo: list[Entry], id: str, mode: Mode) -> None:
    told = tell(prompt_entry("mend it"), *echo, chunk("done"), answer(), mode=mode)
    assert (users(told), order(told)) == ([("mend it", id)], ["mend it", "done"])


@MODES
def test_all_blocks_have_the_echos_id_and_keep_their_order(mode: Mode) -> None:
    told = tell(prompt_entry(LINK, "see ", "this", IMAGE), user_chunk("see this", "m"), mode=mode)
    assert users(told) == [(LINK, "m"), ("see ", "m"), ("this", "m"), (IMAGE, "m")]


@MODES
def test_other_content_belongs_to_an_echo_only_if_the_prompt_has_some_too(mode: Mode) -> None:
    echo = [update(USER, content=IMAGE), user_chunk("see"), update(USER, content={"type": "resource", "resource": {}})]
    assert users(tell(prompt_entry(IMAGE, "see"), *echo, mode=mode)) == [(IMAGE, "own 1"), ("see", "own 1")]
    assert users(tell(prompt_entry("see"), user_chunk("see"), update(USER, content=IMAGE), mode=mode)) == [
        ("see", "own 1"),
        (IMAGE, None),
    ]
    assert users(tell(prompt_entry(IMAGE), update(USER, content=IMAGE, messageId="m"), mode=mode)) == [(IMAGE, "m")]


@MODES
@pytest.mark.parametrize("between", ["thought", "call", "permission", "plan", "another kind"])
def test_a_message_with_the_prompts_text_is_its_echo_later_in_the_turn_too(between: str, mode: Mode) -> None:
    kinds = {
        "thought": chunk("-", "agent_thought_chunk"),
        "call": call("t"),
        "permission": permission("t"),
        "plan": update("plan", entries=[]),
        "another kind": update("new_kind"),
    }
    told = tell(
        prompt_entry("mend it"), kinds[between], user_chunk("mend"), user_chunk(" it"), chunk("done"), mode=mode
    )
    assert [words for words, _ in users(told)] == ["mend it"]


@MODES
@pytest.mark.parametrize("other", ["mend", "mend it now", "Mend it", "it"])
def test_another_message_later_in_the_turn_is_not_an_echo(other: str, mode: Mode) -> None:
    told = tell(prompt_entry("mend it"), chunk("a"), user_chunk(other), chunk("b"), answer(), mode=mode)
    assert order(told) == ["mend it", "a", other, "b"]


@MODES
def test_a_message_after_a_whole_echo_is_not_an_echo(mode: Mode) -> None:
    def after(*chunks: Entry) -> list[tuple[Any, str | None]]:
        return users(tell(prompt_entry("go"), *chunks, chunk("done"), answer(), mode=mode))

    assert after(user_chunk("go"), user_chunk("<context/>")) == [("go", "own 1"), ("<context/>", None)]
    assert after(user_chunk("go", "m"), user_chunk("<context/>", "n")) == [("go", "m"), ("<context/>", "n")]
    assert after(user_chunk("go", "m"), user_chunk("go", "n")) == [("go", "m"), ("go", "n")]
    assert after(user_chunk("go", "m"), chunk("x"), user_chunk("go", "n")) == [("go", "m"), ("go", "n")]
    assert after(user_chunk("go, written", "m"), user_chunk(" out", "n")) == [("go", "m"), (" out", "n")]
    assert after(user_chunk("go", "m"), user_chunk(", written out", "m")) == [("go", "m")], (
        "the id says that it is one message"
    )


@MODES
def test_the_prompts_own_text_is_preferred_to_an_earlier_message_as_its_echo(mode: Mode) -> None:
    told = tell(prompt_entry("go"), user_chunk("<context/>", "m"), user_chunk("go", "n"), chunk("done"), mode=mode)
    assert users(told) == [("go", "n"), ("<context/>", "m")]


@MODES
def test_an_echo_of_the_first_prompt_may_include_what_the_prompt_mentions(mode: Mode) -> None:
    mentioned = update(
        USER, content={"type": "resource", "resource": {"uri": "file:///w/a.py", "text": "a"}}, messageId="e"
    )
    told = tell(prompt_entry("look at @a.py"), user_chunk("look at @a.py", "e"), mentioned, chunk("a file"), mode=mode)
    assert users(told) == [("look at @a.py", "e")]


@MODES
def test_a_message_that_begins_the_conversation_again_is_not_an_echo(mode: Mode) -> None:
    past = [prompt_entry("one"), chunk("1"), answer()]
    again = [user_chunk("one"), chunk("1"), user_chunk("three"), chunk("3")]
    assert order(tell(*past, prompt_entry("two", id=2), *again, mode=mode)) == [
        "one",
        "1",
        "two",
        "one",
        "1",
        "three",
        "3",
    ]
    told = tell(*past, prompt_entry("one", id=2), *again, mode=mode)
    assert order(told) == ["one", "1", "one", "1", "three", "3"], "here it is the prompt's own text"


@MODES
@pytest.mark.parametrize(
    "between",
    [
        update("available_commands_update", availableCommands=[]),
        message_entry({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": SESSION}}, Peer.CLIENT),
        update("tool_call_update", status="completed"),
    ],
)
def test_updates_that_are_not_replayed_do_not_separate_a_prompt_from_its_echo(between: Entry, mode: Mode) -> None:
    told = tell(prompt_entry("go"), between, user_chunk("go @a.py", "m"), chunk("done"), mode=mode)
    assert users(told) == [("go", "m")]


@MODES
def test_a_cancelled_prompt_that_is_never_answered_does_not_separate_the_next_from_its_echo(mode: Mode) -> None:
    cancel = message_entry(
        {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": SESSION}}, Peer.CLIENT
    )
    begun = [prompt_entry("go"), user_chunk("go @a.py", "m"), chunk("a"), cancel]
    assert users(tell(*begun, prompt_entry("on", id=2), user_chunk("on @a.py", "n"), mode=mode)) == [
        ("go", "m"),
        ("on", "n"),
    ]


@MODES
def test_after_a_cancelled_prompt_without_an_echo_only_the_words_of_a_prompt_are_its_echo(mode: Mode) -> None:
    cancel = message_entry(
        {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": SESSION}}, Peer.CLIENT
    )
    begun = [prompt_entry("try it"), chunk("a"), cancel, prompt_entry("look at @a.py", id=2)]
    told = tell(*begun, user_chunk("keep going"), chunk("c"), mode=mode)
    assert [words for words, _ in users(told)] == ["try it", "look at @a.py", "keep going"]
    told = tell(*begun, user_chunk("look at a.py: print(1)", "n"), chunk("c"), mode=mode)
    assert users(told) == [("try it", "own 1"), ("look at @a.py", "n")]


@MODES
def test_the_echo_of_a_prompt_comes_after_the_late_end_of_a_cancelled_one(mode: Mode) -> None:
    cancel = message_entry(
        {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": SESSION}}, Peer.CLIENT
    )
    begun = [
        prompt_entry("try it"),
        user_chunk("try it", "m"),
        cancel,
        prompt_entry("look at @a.py", id=2),
        chunk("oh"),
        answer(),
    ]
    told = tell(*begun, user_chunk("look at a.py: print(1)", "n"), chunk("c"), mode=mode)
    assert users(told) == [("try it", "m"), ("look at @a.py", "n")]


@MODES
@pytest.mark.parametrize("ended", [[answer()], [crashed()], [prompt_entry("x", id=2, run="another")]])
def test_a_prompt_whose_turn_is_over_has_no_echo(ended: list[Entry], mode: Mode) -> None:
    told = tell(prompt_entry("go"), chunk("a"), *ended[:1], user_chunk("go"), chunk("b"), mode=mode)
    if ended[0].run == RUN:
        assert order(told) == ["go", "a", "go", "b"]
    assert [words for words, _ in users(tell(prompt_entry("go"), *ended, user_chunk("hm"), mode=mode))][-1] == (
        "hm" if ended[0].run == RUN else "x"
    )


@MODES
def test_waiting_messages_are_not_overtaken(mode: Mode) -> None:
    told = tell(
        prompt_entry("a"), chunk("1"), user_chunk("b"), user_chunk("c", "n", "another run"), chunk("2"), mode=mode
    )
    assert order(told) == ["a", "1", "b", "c", "2"]


@MODES
def test_a_user_message_without_a_prompt_is_replayed_unchanged(mode: Mode) -> None:
    assert tell(user_chunk("hello"), mode=mode) == [message_chunk("hello", USER)]


# --- queued prompts


@MODES
def test_an_echo_belongs_to_the_first_prompt_with_its_text(mode: Mode) -> None:
    queue = [prompt_entry("a"), prompt_entry("b", id=2), prompt_entry("b", id=3)]
    told = tell(*queue, user_chunk("b", "x"), user_chunk("b", "y"), user_chunk("a", "z"), chunk("done"), mode=mode)
    assert users(told) == [("a", "z"), ("b", "x"), ("b", "y")]


@MODES
def test_an_echo_with_another_text_belongs_to_the_first_prompt_without_an_echo(mode: Mode) -> None:
    queue = [prompt_entry("a"), prompt_entry("b", id=2), prompt_entry("c", id=3)]
    told = tell(*queue, user_chunk("a", "x"), user_chunk("b, written out", "y"), chunk("done"), mode=mode)
    assert users(told) == [("a", "x"), ("b", "y"), ("c", "own 3")]


@MODES
def test_a_queued_prompt_is_replayed_where_it_was_sent_with_the_id_of_its_late_echo(mode: Mode) -> None:
    first = [prompt_entry("a"), user_chunk("a", "x"), chunk("1"), prompt_entry("b", id=2), chunk("2"), answer()]
    told = tell(*first, user_chunk("b, written out", "y"), chunk("3"), answer(2), mode=mode)
    assert users(told) == [("a", "x"), ("b", "y")]
    assert "".join(order(told)) == "a1b23"


@MODES
def test_a_prompt_that_waits_for_its_turn_is_left_out_if_the_agent_will_echo_it(mode: Mode) -> None:
    waiting = [prompt_entry("b", id=2), chunk("1"), prompt_entry("c", id=3)]
    told = tell(prompt_entry("a"), user_chunk("a", "x"), *waiting, mode=mode, run=RUN)
    assert users(told) == [("a", "x")]
    told = tell(prompt_entry("a"), user_chunk("a", "x"), answer(), prompt_entry("record"), *waiting, mode=mode, run=RUN)
    assert users(told) == [("a", "x"), ("record", "own 4")]
    told = tell(prompt_entry("a"), *waiting, mode=mode, run=RUN)
    assert users(told) == [("a", "own 1"), ("b", "own 2"), ("c", "own 4")]
    told = tell(prompt_entry("a"), user_chunk("a", "x"), *waiting, mode=mode)  # of a process that has ended
    assert users(told) == [("a", "x"), ("b", "own 3"), ("c", "own 5")]


@MODES
def test_while_a_prompt_is_queued_only_its_own_text_is_its_echo(mode: Mode) -> None:
    told = tell(
        prompt_entry("a"),
        chunk("1"),
        prompt_entry("b", id=2),
        user_chunk("c"),
        chunk("2"),
        answer(),
        chunk("3"),
        mode=mode,
    )
    assert "".join(order(told)) == "a1bc23"
    assert users(told) == [("a", "own 1"), ("b", "own 3"), ("c", None)]


@MODES
def test_echoes_of_prompts_sent_at_once_may_come_in_any_pieces(mode: Mode) -> None:
    told = tell(prompt_entry("ab"), prompt_entry("abc", id=2), *map(user_chunk, "ababc"), chunk("done"), mode=mode)
    assert users(told) == [("ab", "own 1"), ("abc", "own 2")]
    told = tell(prompt_entry("ab"), prompt_entry("abc", id=2), *map(user_chunk, "abcab"), chunk("done"), mode=mode)
    assert users(told) == [("ab", "own 1"), ("abc", "own 2")]


def test_the_wait_for_an_echo_has_a_limit() -> None:
    again = Replayer(SESSION, run_id=RUN, mode="full")
    entries = [prompt_entry("a"), chunk("1"), prompt_entry("b", id=2)]
    assert sum(len(again.add(number, entry)) for number, entry in enumerate(entries, 1)) == 2
    big = chunk("x" * (replayer.ECHO_WAIT_LIMIT // 2))
    assert [len(again.add(4, big)) for _ in range(4)] == [0, 3, 1, 1]
    assert again.add(5, user_chunk("b", "late")) == []
    assert again.end() == [], "it is still an echo"


def test_a_prompt_of_another_run_does_not_wait_for_one_of_an_ended_run() -> None:
    again = Replayer(SESSION, run_id=RUN)
    assert again.add(1, prompt_entry("a")) == []
    assert [len(again.add(2, prompt_entry("b", run="another"))), len(again.add(3, update("notice", message="-")))] == [
        1,
        0,
    ]


def test_unanswered_prompts_do_not_pile_up() -> None:
    again = Replayer(SESSION, run_id=RUN, mode="full")
    told = [
        one
        for number in range(3 * replay_prompts.QUEUE_LIMIT)
        for one in again.add(number, prompt_entry(f"{number}", id=number))
    ]
    assert len(told) == 2 * replay_prompts.QUEUE_LIMIT
    assert len(again.end()) == replay_prompts.QUEUE_LIMIT


@MODES
def test_a_reader_that_shows_no_ids_gets_each_turn_before_the_next_begins(mode: Mode) -> None:
    again = Replayer(SESSION, run_id=RUN, mode=mode, prompt_ends_wait=True)
    assert again.add(1, prompt_entry("a")) == []
    assert [one["content"]["text"] for one in updates_in(again.add(2, prompt_entry("b", id=2)))] == ["a"]
    assert again.add(3, user_chunk("b")) + again.add(4, user_chunk("a")) == []
    assert [one["content"]["text"] for one in updates_in(again.end())] == ["b"]


# --- calls in overlapping turns


def statuses(told: list[Value]) -> list[str]:
    return [one["status"] for one in told if "status" in one]


@MODES
def test_a_call_continues_while_another_prompt_is_queued(mode: Mode) -> None:
    begun = [prompt_entry("a"), call("t", status="pending"), prompt_entry("b", id=2)]
    assert statuses(tell(*begun, changed("t", status="completed"), answer(), mode=mode)) == ["pending", "completed"]
    assert statuses(tell(*begun, answer(), chunk("x"), answer(2), prompt_entry("c", id=3), mode=mode)) == [
        "pending",
        "failed",
    ]
    assert statuses(tell(*begun, mode=mode)) == ["pending", "failed"]
    assert statuses(tell(*begun, mode=mode, run=RUN)) == ["pending"]
    assert statuses(tell(*begun, crashed(), mode=mode, run=RUN)) == ["pending", "failed"]
    assert statuses(tell(*begun, prompt_entry("c", id=1, run="another"), mode=mode)) == ["pending", "failed"]


@MODES
@pytest.mark.parametrize(
    ("last", "status"),
    [
        ([], "pending"),
        ([noted({"type": "opened", "method": "session/load"}, run="a later one")], "pending"),
        ([noted({"type": "opened", "method": "session/load"}, run="another")], "failed"),
        ([crashed()], "failed"),
        ([answer()], "failed"),
    ],
)
def test_a_call_continues_in_another_window_that_was_the_last_to_record(
    last: list[Entry], status: str, mode: Mode
) -> None:
    entries = [prompt_entry("a"), call("t", status="pending"), *last]
    lines = lines_of(*entries, mode=mode, is_in_use_elsewhere=True)
    assert statuses(updates_in(lines))[-1] == status
    assert statuses(tell(*entries, mode=mode))[-1] == "failed"


@MODES
def test_the_last_to_record_is_who_wrote_the_last_line_in_whatever_order_lines_come(mode: Mode) -> None:
    again = Replayer(SESSION, run_id="a later one", is_in_use_elsewhere=True, mode=mode)
    opened = noted({"type": "opened", "method": "session/load"}, run="another")
    in_order = ((1, prompt_entry("a")), (3, call("t", status="pending")), (2, opened))
    told = [line for number, entry in in_order for line in again.add(number, entry)]
    assert statuses(updates_in([*told, *again.end()])) == ["pending"]


@MODES
@pytest.mark.parametrize("live", [True, False])
def test_everything_is_replayed_once_even_in_a_running_turn(live: bool, mode: Mode) -> None:
    again = Replayer(SESSION, run_id=RUN, mode=mode)
    told = [
        *again.add(1, prompt_entry("a")),
        *again.add(2, call("t", status="pending")),
        *again.end(may_turns_go_on=live),
    ]
    assert len(told) == 2
    assert again.end() == []


@MODES
def test_a_prompt_that_a_fork_cut_off_waits_for_no_echo_in_the_fork(mode: Mode) -> None:
    before = [prompt_entry("one"), chunk("a"), noted({"type": "opened", "method": "session/fork"})]
    after = [prompt_entry("read @a", id=2), user_chunk("read @a: its text", "e"), chunk("b"), answer(2)]
    users = [one for one in tell(*before, *after, mode=mode) if one["sessionUpdate"] == USER]
    assert [user["content"]["text"] for user in users] == ["one", "read @a"]
    assert users[1]["messageId"] == "e"


@MODES
def test_an_unanswered_cancelled_prompt_ends_with_the_next_load(mode: Mode) -> None:
    cancel = message_entry(
        {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": SESSION}}, Peer.CLIENT
    )
    load = noted({"type": "opened", "method": "session/load"})
    begun = [prompt_entry("a"), call("t", status="pending")]
    on = prompt_entry("b", id=2)
    assert statuses(tell(*begun, cancel, mode=mode, run=RUN))[-1] == "failed", "it is told for a load"
    assert statuses(tell(*begun, load, on, mode=mode, run=RUN)) == ["pending"]
    assert statuses(tell(*begun, cancel, on, mode=mode, run=RUN)) == ["pending"], "here a turn goes on"
    assert statuses(tell(*begun, cancel, load, on, mode=mode, run=RUN))[-1] == "failed"
    assert len(tell(*begun, cancel, load, on, mode="compact", run=RUN)) == 3, "at once, when the next prompt comes"


# --- any conversation

pieces = st.lists(st.sampled_from(["a", "b", " ", "\n", "ab", ""]), max_size=6)


@MODES
@given(pieces, pieces, st.booleans())
def test_any_prompt_is_replayed_once_and_before_any_chunks(
    mode: Mode, words: list[str], chunks: list[str], later: bool
) -> None:
    parted = [chunk("-")] if later else []
    told = tell(prompt_entry(*words), *parted, *map(user_chunk, chunks), chunk("."), mode=mode)
    ours = [(word, "own 1") for word in words]
    spoken, said = "".join("".join(words).split()), ["".join(piece.split()) for piece in chunks]
    ends = [n for n in range(1, len(said) + 1) if spoken and "".join(said[:n]) == spoken]
    echo = max(ends, default=0 if later else len(said))
    rest = chunks[echo:]
    assert users(told) == [
        *ours,
        *((piece, None) for piece in (rest if mode == "full" or not rest else ["".join(rest)])),
    ]


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("prompt"), st.sampled_from(["a", "ab", "b"])),
            st.tuples(st.just("heard"), st.sampled_from(["a", "ab", "b", " ", "c"])),
            st.tuples(st.just("said"), st.just(".")),
            st.tuples(st.just("answer"), st.just("")),
        ),
        max_size=14,
    )
)
def test_every_prompt_is_replayed_once_in_its_place_and_nothing_is_lost(steps: list[tuple[str, str]]) -> None:
    entries, asked, said, open_ids = [], [], 0, []
    for number, (what, words) in enumerate(steps, 1):
        if what == "prompt":
            entries.append(prompt_entry(words, id=number))
            asked.append((words, number))
            open_ids.append(number)
        elif what == "heard":
            entries.append(user_chunk(words, f"id {number}"))
        elif what == "said":
            entries.append(chunk("."))
            said += 1
        elif open_ids:
            entries.append(answer(open_ids.pop(0)))
        else:
            entries.append(update("notice", message="-"))
    told = [tell(*entries, mode=mode) for mode in get_args(Mode)]
    assert users(told[0]) == users(told[1])
    chunks = [id for _, id in users(told[0]) if id is not None]
    assert len(chunks) == len(set(chunks)), "no message is told twice, and none lends its id to two"
    assert all(users(one) == users(tell(*entries, mode="compact")) for one in told)
    assert "".join(order(told[0])).count(".") == said
    prompts = [words for words, _ in asked]
    spoken = [words for words, _ in users(told[0])]
    for words in set(prompts):
        assert spoken.count(words) >= prompts.count(words)
