"""Which differences between two histories `make agents` reports."""

import json
from pathlib import Path
from typing import Any

import pytest

from scripts.histories import count_of_user_messages, differences, grown, held, never_said, recorded
from scripts.shown import Shown, read_shown

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


def shown_conversation(*messages: tuple[str, str], tools: dict[str, str] | None = None) -> Shown:
    return Shown(list(messages), SAID.tools if tools is None else tools)


def without(at: int) -> Shown:
    return shown_conversation(*SAID.messages[:at], *SAID.messages[at + 1 :])


def chunk(kind: str, text: str, **more: Any) -> dict[str, Any]:
    return {"sessionUpdate": kind, "content": {"type": "text", "text": text}, **more}


def update(about: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": SESSION, "update": about}}


def prompt(text: str) -> dict[str, Any]:
    params = {"sessionId": SESSION, "prompt": [{"type": "text", "text": text}]}
    return {"jsonrpc": "2.0", "id": 1, "method": "session/prompt", "params": params}


# --- shown histories


def test_equal_histories_have_no_difference() -> None:
    assert not list(differences(SAID, SAID))


def test_chunk_borders_and_spaces_are_no_difference() -> None:
    other = shown_conversation(
        *(("user", "mend it"), ("thoughts", "Let me think."), ("agent", "I will look.\nIt is "), ("tool", "")),
        *(("agent", "mended."), *SAID.messages[5:]),
    )
    assert not list(differences(SAID, other))


def test_an_absent_prompt_answer_or_tool_call_is_missing() -> None:
    assert list(differences(SAID, without(0))) == ["missing: the user's “mend it”"]
    assert list(differences(SAID, without(4))) == ["missing: the agent's “It is mended.”"]
    assert list(differences(SAID, shown_conversation(*SAID.messages, tools={}))) == [
        "missing: a tool call (0 instead of 1)"
    ]


def test_equal_answers_are_counted() -> None:
    assert list(differences(SAID, without(6))) == ["missing: the agent's “Done.” (1 instead of 2)"]


def test_a_repeated_history_is_doubled() -> None:
    found = list(differences(SAID, shown_conversation(*SAID.messages, *SAID.messages)))
    assert "doubled: the user's “mend it” (2 instead of 1)" in found
    assert "doubled: the agent's “Done.” (4 instead of 2)" in found
    assert "doubled: the thought “Let me think.” (2 instead of 1)" in found


def test_thoughts_are_missing_only_if_none_are_shown() -> None:
    other = shown_conversation(("user", "mend it"), ("thoughts", "The system prompt."), *SAID.messages[2:])
    assert not list(differences(SAID, other))
    assert list(differences(SAID, without(1))) == ["missing: the thought “Let me think.”"]


def test_an_answer_after_another_prompt_is_out_of_place() -> None:
    *first, user, answer = SAID.messages[:7]
    other = shown_conversation(*first[:-1], user, first[-1], answer, *SAID.messages[7:])
    assert list(differences(SAID, other)) == ["out of place: the user's “thanks”"]


def test_a_tool_call_with_another_status_is_reported() -> None:
    assert list(differences(SAID, shown_conversation(*SAID.messages, tools={"call-1": "failed"}))) == [
        "a tool call is failed"
    ]


def test_context_added_to_a_prompt_is_no_difference() -> None:
    assert not list(differences(SAID, shown_conversation(("user", "<context>mend it"), *SAID.messages[1:])))


def test_new_text_of_the_agent_differs_from_a_part_of_its_messages() -> None:
    assert not list(never_said(SAID, shown_conversation(("agent", "It is"), ("tool", ""), ("agent", "mended."))))
    assert not list(never_said(SAID, shown_conversation(("agent", "It is"))))
    assert list(never_said(SAID, shown_conversation(("agent", "I will look. [Result]")))) == [
        "new: the agent's “[Result]”"
    ]


def test_ids_separate_messages_of_the_user() -> None:
    kind = "user_message_chunk"
    one = [chunk(kind, "look at ", messageId="m1"), chunk(kind, "a file", messageId="m1")]
    assert count_of_user_messages(iter(one)) == 1
    assert count_of_user_messages(iter([*one, chunk(kind, "look at a file", messageId="m2")])) == 2
    assert (
        count_of_user_messages(iter([chunk(kind, "look at "), {"sessionUpdate": "plan"}, chunk(kind, "a file")])) == 1
    )
    assert count_of_user_messages(iter([*one, chunk("agent_message_chunk", "ok"), *one])) == 2


def test_handover_notices_and_permission_requests_are_not_counted() -> None:
    asked = {"method": "session/request_permission", "params": {"sessionId": SESSION, "toolCall": {"toolCallId": "x"}}}
    notice = update(chunk("agent_message_chunk", "It continues.", messageId="acp-proxy-handover"))
    assert read_shown([asked, notice, update(chunk("agent_message_chunk", "ok"))], SESSION) == Shown([("agent", "ok")])


# --- recorded histories


@pytest.fixture
def store(tmp_path: Path) -> Path:
    write(tmp_path, *conversation_entries())
    return tmp_path


def conversation_entries() -> list[dict[str, Any]]:
    return [
        prompt("mend it"),
        update(chunk("agent_message_chunk", "I will ")),
        update(chunk("agent_message_chunk", "look.")),
        update({"sessionUpdate": "tool_call", "toolCallId": "call-1", "title": "look"}),
        update({"sessionUpdate": "tool_call_update", "toolCallId": "call-1", "status": "completed"}),
        update(chunk("agent_message_chunk", "It is\u2028mended.")),
    ]


def write(store: Path, *messages: dict[str, Any]) -> None:
    lines = [
        {"acp-transcript": 1, "sessionId": SESSION},
        *({"from": "agent", "message": message} for message in messages),
    ]
    folder = store / "agent"
    folder.mkdir(exist_ok=True)
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    (folder / "transcript.jsonl").write_text(text, encoding="utf-8")


def test_a_transcript_is_read_as_messages(store: Path) -> None:
    assert recorded(store) == {
        SESSION: [
            ("prompt", "mend it"),
            ("agent", "I will look."),
            ("tool", "call-1"),
            ("agent", "It is\u2028mended."),
        ]
    }


def test_a_complete_transcript_without_repetition_passes(store: Path) -> None:
    said = Shown([*SAID.messages[:1], *SAID.messages[2:5]], SAID.tools)
    assert not list(held(said, recorded(store)[SESSION]))
    write(store, *conversation_entries(), *conversation_entries()[1:3])
    assert list(held(said, recorded(store)[SESSION])) == [
        "in the transcript doubled: the agent's “I will look.” (2 instead of 1)"
    ]


def test_entries_added_by_a_load_are_reported(store: Path) -> None:
    before = recorded(store)
    assert not list(grown(before, recorded(store)))
    write(store, *conversation_entries(), update(chunk("user_message_chunk", "mend it")))
    assert list(grown(before, recorded(store))) == [
        "5 messages in the transcript instead of 4",
        "new in the transcript: the user's “mend it”",
    ]


def test_a_new_transcript_is_reported(store: Path) -> None:
    assert list(grown({}, recorded(store))) == ["a new transcript, of 4 messages"]
