"""Agents that load by themselves: their telling passes byte for byte, unless ours has all of it and more."""

import json
from typing import Any

import pytest

from acp_proxy.demo.telling import Told, tell
from tests.end_to_end.proxied import (
    ASK,
    CANCELLED,
    INTERNAL_ERROR,
    Editor,
    Proxied,
    Updates,
    entries,
    prompt,
    say,
    texts,
)

LOADS = ("--capabilities", "load")
CALL: dict[str, Any] = {
    "update": {
        "sessionUpdate": "tool_call",
        "toolCallId": "call-{n}",
        "title": "Mend number {n}",
        "kind": "edit",
        "status": "completed",
    }
}
THOUGHT: dict[str, Any] = {
    "update": {"sessionUpdate": "agent_thought_chunk", "content": {"type": "text", "text": "I think so."}}
}
LIVE: dict[str, Any] = {"turns": [[THOUGHT, say("I have "), say("mended it."), CALL, say("All is well.")]]}
COMMANDS: dict[str, Any] = {
    "update": {"sessionUpdate": "available_commands_update", "availableCommands": [{"name": "go", "description": "Go"}]}
}
WORDS = ["mend it", "and the other?"]

Steps = list[dict[str, Any]]


def user(text: str) -> dict[str, Any]:
    return {"update": {"sessionUpdate": "user_message_chunk", "content": {"type": "text", "text": text}}}


def call(number: int, id: str | None = None) -> dict[str, Any]:
    title, status = f"Mend number {number}", {"kind": "edit", "status": "completed"}
    update = {"sessionUpdate": "tool_call", "toolCallId": id or f"call-{number}", "title": title, **status}
    return {"update": update}


def turn(number: int) -> Steps:
    return [user(WORDS[number - 1]), say("I have mended it."), call(number), say("All is well.")]


def kind_of(step: dict[str, Any]) -> str:
    return str(step["update"]["sessionUpdate"])


EVERYTHING = [*turn(1), *turn(2)]


def telling(steps: Steps, **answer: Any) -> dict[str, Any]:
    """An agent that tells this when it loads."""
    return {**LIVE, "methods": {"session/load": {"before": steps, "result": {}} | answer}}


def recorded(proxied: Proxied) -> str:
    with proxied.started(LIVE, agent=LOADS) as editor:
        session = editor.new_session()
        for words in WORDS:
            editor.prompt(session, words)
        assert editor.end() == 0
    return session


def raw_load(editor: Editor, session: str) -> list[bytes]:
    """Every line of a load, the answer last, under an id that is the same for everybody."""
    since = editor.mark()
    editor.send({"jsonrpc": "2.0", "id": "load", "method": "session/load", "params": editor.place(session)})
    editor.wait_for(lambda one: one.get("id") == "load", since=since)
    lines = [line.raw for line in editor.lines[since:]]
    end = next(at for at, line in enumerate(editor.lines[since:], 1) if line.message.get("id") == "load")
    return lines[:end]


def direct_load(proxied: Proxied, script: dict[str, Any], session: str) -> list[bytes]:
    with Editor(proxied.bare_agent(script, LOADS)) as editor:
        editor.project = proxied.project
        editor.initialize()
        return raw_load(editor, session)


def shown(updates: Updates) -> list[tuple[str, str]]:
    return [(one.kind, one.text) for one in tell(updates)]


ALL_OF_IT = [
    said
    for words, number in zip(WORDS, (1, 2), strict=True)
    for said in [
        ("user", words),
        ("thought", "I think so."),
        ("agent", "I have mended it."),
        ("tool call", f"Mend number {number} (completed)"),
        ("agent", "All is well."),
    ]
]

LOSSY: dict[str, Steps] = {
    "without the user's words": [step for step in EVERYTHING if kind_of(step) != "user_message_chunk"],
    "without the tool calls": [step for step in EVERYTHING if kind_of(step) != "tool_call"],
    "the last message alone": EVERYTHING[-1:],
    "the last turn alone": turn(2),
    "without one call": [step for step in EVERYTHING if step != call(1)],
    "nothing": [],
    "nothing but how things stand": [COMMANDS],
    "cut into pieces, with other white space": [
        user("mend"), user("it"), user("and  the\nother?"), say("I have"), say("mended it. All "), say("is\twell.")
    ],
    "calls under other ids": [user(WORDS[0]), call(1, "another-id"), say("I have mended it.")],
}  # fmt: skip


@pytest.mark.parametrize("lossy", LOSSY)
def test_a_load_that_loses_something_comes_out_as_it_was_recorded(proxied: Proxied, lossy: str) -> None:
    session = recorded(proxied)
    before = proxied.transcript(session).read_bytes()
    editor = proxied.started(telling(LOSSY[lossy], result={"modes": None, "x": [1.0]}), agent=LOADS)
    loaded = editor.load(session)
    assert shown(loaded.updates) == ALL_OF_IT
    assert loaded.answer["result"] == {"modes": None, "x": [1.0]}  # the agent's, either way
    editor.prompt(session, "go on")
    if COMMANDS in LOSSY[lossy]:
        assert COMMANDS["update"] in editor.updates(session)
    assert editor.end() == 0
    assert proxied.transcript(session).read_bytes().startswith(before)
    kept = [entry for entry in entries(proxied.transcript(session)) if is_prompt(entry)]
    assert len(kept) == 3


def is_prompt(entry: dict[str, Any]) -> bool:
    return bool(entry.get("message", {}).get("method") == "session/prompt")


AS_GOOD: dict[str, Steps] = {
    "all that ours has": EVERYTHING,
    "all of it, in one piece for each speaker": [
        user(WORDS[0]), user(WORDS[1]), say("I have mended it. All is well. I have mended it. All is well."),
        call(1), call(2),
    ],
    "a turn that was made elsewhere": [*EVERYTHING, user("elsewhere"), say("Done there.")],
    "a turn made elsewhere, and one of ours lost": [*turn(2), user("elsewhere"), say("Done there.")],
    "a call that is not among ours": [*turn(2), call(3)],
    "other words for the same": [user("mend it"), say("I mended this.")],
}  # fmt: skip


@pytest.mark.parametrize("telling_of", AS_GOOD)
def test_a_load_that_ours_cannot_better_passes_byte_for_byte(proxied: Proxied, telling_of: str) -> None:
    session = recorded(proxied)
    script = telling([COMMANDS, *AS_GOOD[telling_of], COMMANDS], result={"x": [1.0]})
    before = proxied.transcript(session).read_bytes()
    with proxied.started(script, agent=LOADS) as editor:
        assert raw_load(editor, session) == direct_load(proxied, script, session)
        assert editor.end() == 0
    after = proxied.transcript(session).read_bytes()
    assert after.startswith(before)
    assert b"told again" not in after
    assert after.count(b"agent_message_chunk") == before.count(b"agent_message_chunk")


def test_a_load_that_fails_comes_with_what_was_told_before_and_its_error(proxied: Proxied) -> None:
    session = recorded(proxied)
    script = {**LIVE, "methods": {"session/load": {"before": turn(1), "error": {"code": -32603, "message": "no"}}}}
    before = proxied.transcript(session).read_bytes()
    with proxied.started(script, agent=LOADS) as editor:
        lines = raw_load(editor, session)
        assert lines == direct_load(proxied, script, session)
        assert json.loads(lines[-1])["error"] == {"code": -32603, "message": "no"}
        assert editor.end() == 0
    assert proxied.transcript(session).read_bytes() == before


def test_an_agent_that_dies_while_it_loads_is_heard_to_the_end(proxied: Proxied) -> None:
    session = recorded(proxied)
    script = {**LIVE, "methods": {"session/load": {"before": [*turn(1), {"exit": 17}]}}}
    editor = proxied.started(script, agent=LOADS)
    loaded = editor.load(session)
    assert texts(loaded.updates) == ["I have mended it.", "All is well."]
    assert texts(loaded.updates, "user_message_chunk") == WORDS[:1]
    assert loaded.answer["error"]["code"] == INTERNAL_ERROR
    assert editor.wait() == 17


def test_an_incomplete_transcript_does_not_take_the_place_of_the_agents_telling(proxied: Proxied) -> None:
    session = recorded(proxied)
    path = proxied.transcript(session)
    path.write_bytes(path.read_bytes().replace(b'"origin":"recorded"', b'"origin":"partial"'))
    script = telling(turn(2))
    with proxied.started(script, agent=LOADS) as editor:
        assert raw_load(editor, session) == direct_load(proxied, script, session)


def test_a_cancelled_load_of_the_agents_own_is_answered_at_once_and_told_nothing(proxied: Proxied) -> None:
    session = recorded(proxied)
    editor = proxied.started(telling([*turn(1), ASK, {"wait_cancel": True}]), agent=LOADS)
    pending = editor.start_load(session)
    editor.wait_for_method("session/request_permission")  # which comes behind what it tells
    editor.notify("$/cancel_request", {"requestId": pending})
    assert editor.answer_of(pending)["error"]["code"] == CANCELLED
    editor.prompt(session, "go on")
    assert len(editor.answers_to(pending)) == 1
    assert texts(editor.updates(session), "user_message_chunk") == []


def test_a_native_load_is_not_claimed_as_ours(proxied: Proxied) -> None:
    editor = proxied.editor(LIVE, agent=LOADS)
    capabilities = editor.initialize()["agentCapabilities"]
    assert capabilities["loadSession"] is True
    assert capabilities["_meta"]["acp-proxy"]["serves"] == ["list", "delete"]


def test_a_turn_told_live_is_told_whole_by_a_load_in_the_same_process(proxied: Proxied) -> None:
    editor = proxied.started(telling([]), agent=LOADS)
    session = editor.new_session()
    live = editor.prompt(session, "mend it")
    assert tell(editor.load(session).updates) == [Told("user", "mend it"), *tell(live)]


def test_a_load_behind_a_prompt_that_is_still_answered_is_the_agents(proxied: Proxied) -> None:
    """While a turn is under way nobody can tell what of the agent's words is the past."""
    waits: dict[str, Any] = {**telling([say("told again")]), "turns": [[say("before"), {"wait_cancel": True}]]}
    editor = proxied.started(waits, agent=LOADS)
    session = editor.new_session()
    pending = editor.start_request("session/prompt", prompt(session, "go"))
    editor.wait_for_text("before")
    assert texts(editor.load(session).updates) == ["told again"]
    editor.notify("session/cancel", {"sessionId": session})
    assert editor.result_of(pending)["stopReason"] == "cancelled"
