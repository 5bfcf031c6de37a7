"""Where two histories differ: what `make agents` finds wrong, and what it does not."""

import json
from pathlib import Path
from typing import Any

import pytest

from scripts.histories import count_of_user_messages, differences, grown, held, never_said, recorded
from scripts.shown import Shown, shown

SESSION = "sess-1"
SAID = Shown(
    [
        ("user", "mend it"),
        ("thoughts", "Let me think."),
        ("agent", "I will look. "),
        ("tool", ""),
        ("agent", "It is mended."),
        ("user", "thanks"),
        ("agent", "Done."),
        ("user", "and again"),
        ("agent", "Done."),
    ],
    {"call-1": "completed"},
)


def seen(*messages: tuple[str, str], tools: dict[str, str] | None = None) -> Shown:
    return Shown(list(messages), SAID.tools if tools is None else tools)


def without(at: int) -> Shown:
    return seen(*SAID.messages[:at], *SAID.messages[at + 1 :])


def chunk(kind: str, text: str, **more: Any) -> dict[str, Any]:
    return {"sessionUpdate": kind, "content": {"type": "text", "text": text}, **more}


def update(about: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": SESSION, "update": about}}


def prompt(text: str) -> dict[str, Any]:
    params = {"sessionId": SESSION, "prompt": [{"type": "text", "text": text}]}
    return {"jsonrpc": "2.0", "id": 1, "method": "session/prompt", "params": params}


# What is shown.


def test_the_same_history_has_no_difference() -> None:
    assert not list(differences(SAID, SAID))


def test_words_that_are_cut_and_spaced_otherwise_are_the_same() -> None:
    other = seen(
        *(("user", "mend it"), ("thoughts", "Let me think."), ("agent", "I will look.\nIt is "), ("tool", "")),
        *(("agent", "mended."), *SAID.messages[5:]),
    )
    assert not list(differences(SAID, other))


def test_a_prompt_an_answer_and_a_tool_call_that_are_not_shown_are_missing() -> None:
    assert list(differences(SAID, without(0))) == ["missing: the user's “mend it”"]
    assert list(differences(SAID, without(4))) == ["missing: the agent's “It is mended.”"]
    assert list(differences(SAID, seen(*SAID.messages, tools={}))) == ["missing: a tool call (0 instead of 1)"]


def test_equal_answers_are_counted() -> None:
    assert list(differences(SAID, without(6))) == ["missing: the agent's “Done.” (1 instead of 2)"]


def test_a_history_that_is_shown_twice_is_doubled() -> None:
    found = list(differences(SAID, seen(*SAID.messages, *SAID.messages)))
    assert "doubled: the user's “mend it” (2 instead of 1)" in found
    assert "doubled: the agent's “Done.” (4 instead of 2)" in found
    assert "doubled: the thought “Let me think.” (2 instead of 1)" in found


def test_thoughts_are_missing_only_where_there_are_none() -> None:
    other = seen(("user", "mend it"), ("thoughts", "The system prompt."), *SAID.messages[2:])
    assert not list(differences(SAID, other))
    assert list(differences(SAID, without(1))) == ["missing: the thought “Let me think.”"]


def test_an_answer_behind_another_prompt_is_out_of_place() -> None:
    *first, user, answer = SAID.messages[:7]
    other = seen(*first[:-1], user, first[-1], answer, *SAID.messages[7:])
    assert list(differences(SAID, other)) == ["out of place: the user's “thanks”"]


def test_a_tool_call_that_ended_otherwise_is_named() -> None:
    assert list(differences(SAID, seen(*SAID.messages, tools={"call-1": "failed"}))) == ["a tool call is failed"]


def test_what_the_agent_puts_around_prompts_is_no_difference() -> None:
    assert not list(differences(SAID, seen(("user", "<context>mend it"), *SAID.messages[1:])))


def test_words_that_the_agent_never_said_are_told_apart_from_parts_of_what_it_said() -> None:
    assert not list(never_said(SAID, seen(("agent", "It is"), ("tool", ""), ("agent", "mended."))))
    assert not list(never_said(SAID, seen(("agent", "It is"))))
    assert list(never_said(SAID, seen(("agent", "I will look. [Result]")))) == ["new: the agent's “[Result]”"]


def test_messages_of_the_user_are_told_apart_by_their_ids() -> None:
    kind = "user_message_chunk"
    one = [chunk(kind, "look at ", messageId="m1"), chunk(kind, "a file", messageId="m1")]
    assert count_of_user_messages(iter(one)) == 1
    assert count_of_user_messages(iter([*one, chunk(kind, "look at a file", messageId="m2")])) == 2
    assert (
        count_of_user_messages(iter([chunk(kind, "look at "), {"sessionUpdate": "plan"}, chunk(kind, "a file")])) == 1
    )
    assert count_of_user_messages(iter([*one, chunk("agent_message_chunk", "ok"), *one])) == 2


def test_a_client_is_shown_no_notice_of_a_handover_and_no_question_as_a_call() -> None:
    asked = {"method": "session/request_permission", "params": {"sessionId": SESSION, "toolCall": {"toolCallId": "x"}}}
    notice = update(chunk("agent_message_chunk", "It continues.", messageId="acp-proxy-handover"))
    assert shown([asked, notice, update(chunk("agent_message_chunk", "ok"))], SESSION) == Shown([("agent", "ok")])


# What is recorded.


@pytest.fixture
def store(tmp_path: Path) -> Path:
    write(tmp_path, *said_as_entries())
    return tmp_path


def said_as_entries() -> list[dict[str, Any]]:
    return [
        prompt("mend it"),
        update(chunk("agent_message_chunk", "I will ")),
        update(chunk("agent_message_chunk", "look.")),
        update({"sessionUpdate": "tool_call", "toolCallId": "call-1", "title": "look"}),
        update({"sessionUpdate": "tool_call_update", "toolCallId": "call-1", "status": "completed"}),
        update(chunk("agent_message_chunk", "It is\u2028mended.")),
    ]


def write(store: Path, *messages: dict[str, Any]) -> None:
    lines = [{"acp-transcript": 1, "sessionId": SESSION}, *({"from": "agent", "message": one} for one in messages)]
    folder = store / "agent"
    folder.mkdir(exist_ok=True)
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    (folder / "transcript.jsonl").write_text(text, encoding="utf-8")


def test_a_transcript_is_read_as_messages_whatever_their_chunks(store: Path) -> None:
    assert recorded(store) == {
        SESSION: [
            ("prompt", "mend it"),
            ("agent", "I will look."),
            ("tool", "call-1"),
            ("agent", "It is\u2028mended."),
        ]
    }


def test_a_transcript_that_has_everything_once_holds_what_was_said(store: Path) -> None:
    said = Shown([*SAID.messages[:1], *SAID.messages[2:5]], SAID.tools)
    assert not list(held(said, recorded(store)[SESSION]))
    write(store, *said_as_entries(), *said_as_entries()[1:3])
    assert list(held(said, recorded(store)[SESSION])) == [
        "in the transcript doubled: the agent's “I will look.” (2 instead of 1)"
    ]


def test_what_a_load_adds_to_a_transcript_is_named(store: Path) -> None:
    before = recorded(store)
    assert not list(grown(before, recorded(store)))
    write(store, *said_as_entries(), update(chunk("user_message_chunk", "mend it")))
    assert list(grown(before, recorded(store))) == [
        "5 messages in the transcript instead of 4",
        "new in the transcript: the user's “mend it”",
    ]


def test_a_transcript_that_was_not_there_is_named(store: Path) -> None:
    assert list(grown({}, recorded(store))) == ["a new transcript, of 4 messages"]
