"""An agent's own replay passes unchanged, unless the transcript has all of it and more."""

from typing import Any

import pytest

from tests.cli.commands import invoke
from tests.end_to_end.proxied import (
    CANCELLED,
    PROXY,
    Editor,
    Proxied,
    Updates,
    entries,
    list_said,
    say,
    texts,
)
from tests.end_to_end.test_processes import LAUNCHER
from tests.waiting import wait_until

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


def call(number: int) -> dict[str, Any]:
    title, status = f"Mend number {number}", {"kind": "edit", "status": "completed"}
    update = {"sessionUpdate": "tool_call", "toolCallId": f"call-{number}", "title": title, **status}
    return {"update": update}


def turn(number: int) -> Steps:
    return [user(WORDS[number - 1]), THOUGHT, say("I have mended it."), call(number), say("All is well.")]


EVERYTHING = [*turn(1), *turn(2)]


def replaying(steps: Steps, **answer: Any) -> dict[str, Any]:
    """An agent that replays these steps for a load."""
    return {**LIVE, "methods": {"session/load": {"before": steps, "result": {}} | answer}}


def record_session(proxied: Proxied) -> str:
    with proxied.start(LIVE, agent=LOADS) as editor:
        session = editor.new_session()
        for words in WORDS:
            editor.prompt(session, words)
        assert editor.end() == 0
    return session


def raw_load(editor: Editor, session: str) -> list[bytes]:
    """Every line of a load, the answer last, with a fixed id."""
    since = editor.count_lines()
    editor.send({"jsonrpc": "2.0", "id": "load", "method": "session/load", "params": editor.place(session)})
    editor.wait_for(lambda message: message.get("id") == "load", since=since)
    lines = [line.raw for line in editor.lines[since:]]
    end = next(at for at, line in enumerate(editor.lines[since:], 1) if line.message.get("id") == "load")
    return lines[:end]


def direct_load(proxied: Proxied, script: dict[str, Any], session: str) -> list[bytes]:
    with Editor(proxied.bare_agent(script, LOADS)) as editor:
        editor.project = proxied.project
        editor.initialize()
        return raw_load(editor, session)


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
    "the last turn alone": turn(2),
    "without the thoughts": [step for step in EVERYTHING if step != THOUGHT],
    "only state updates": [COMMANDS],
    "other chunks and white space": [
        user("mend"), user("it"), user("and  the\nother?"), say("I have"), say("mended it. All "), say("is\twell.")
    ],
}  # fmt: skip
"""One of each kind; ``tests/comparison/test_whose_past.py`` has more."""


@pytest.mark.parametrize("lossy", LOSSY)
def test_a_replay_that_lacks_something_is_replaced_by_the_transcript(proxied: Proxied, lossy: str) -> None:
    session = record_session(proxied)
    before = proxied.transcript(session).read_bytes()
    editor = proxied.start(replaying(LOSSY[lossy], result={"modes": None, "x": [1.0]}), agent=LOADS)
    loaded = editor.load(session)
    assert list_said(loaded.updates) == ALL_OF_IT
    assert loaded.answer["result"] == {"modes": None, "x": [1.0]}  # the agent's result in both cases
    editor.prompt(session, "go on")
    if COMMANDS in LOSSY[lossy]:
        assert COMMANDS["update"] in editor.list_updates(session)
    assert editor.end() == 0
    assert proxied.transcript(session).read_bytes().startswith(before)
    kept = [entry for entry in entries(proxied.transcript(session)) if is_prompt(entry)]
    assert len(kept) == 3


def is_prompt(entry: dict[str, Any]) -> bool:
    return bool(entry.get("message", {}).get("method") == "session/prompt")


ELSEWHERE = [user("elsewhere"), say("Done there.")]
AS_GOOD: dict[str, Steps] = {
    "everything": EVERYTHING,
    "a turn made elsewhere": [*EVERYTHING, *ELSEWHERE],
    "a turn made elsewhere instead of ours": [*turn(1), *ELSEWHERE],
    "an unknown call": [*turn(1), call(3), *turn(2)],
}


@pytest.mark.parametrize("replay", AS_GOOD)
def test_a_replay_that_the_transcript_cannot_replace_passes_byte_for_byte_every_time(
    proxied: Proxied, replay: str
) -> None:
    session = record_session(proxied)
    script = replaying([*AS_GOOD[replay], COMMANDS], result={"x": [1.0]})
    *conversation, commands, answer = direct_load(proxied, script, session)
    before = proxied.transcript(session).read_bytes()
    for _ in range(2):
        with proxied.start(script, agent=LOADS) as editor:
            since = editor.count_lines()
            assert raw_load(editor, session) == [*conversation, answer]
            editor.sessions()
            assert [line.raw for line in editor.update_lines(session, since)] == [*conversation, commands]
            assert editor.end() == 0
    after = proxied.transcript(session).read_bytes()
    assert after.startswith(before)
    new = [words for words in (b"Done there.", b"elsewhere") if words in after[len(before) :]]
    assert len(new) == (2 if ELSEWHERE[0] in AS_GOOD[replay] else 0)
    assert [after.count(words) for words in new] == [1 for _ in new]
    chunks, added = before.count(b"agent_message_chunk"), 1 if new else 0
    assert after.count(b"agent_message_chunk") == chunks + added


def test_a_cancelled_load_of_the_agent_is_answered_at_once_and_shows_nothing(proxied: Proxied) -> None:
    session = record_session(proxied)
    of_another = {**say("of another session"), "session": "another"}  # an update of another session does not wait
    editor = proxied.start(replaying([*turn(1), of_another, {"wait_cancel": True}]), agent=LOADS)
    pending = editor.start_load(session)
    editor.wait_for_text("of another session")
    editor.notify("$/cancel_request", {"requestId": pending})
    assert editor.wait_for_answer(pending)["error"]["code"] == CANCELLED
    editor.prompt(session, "go on")
    assert len(editor.answers_to(pending)) == 1
    assert texts(editor.list_updates(session), "user_message_chunk") == []


def test_doctor_reports_whose_replay_was_shown_and_by_which_rule(proxied: Proxied) -> None:
    session = record_session(proxied)
    for steps, said in [
        (
            turn(1),
            "the transcript was shown (rule 4: the agent resumed the session and replayed nothing; or the agent's",
        ),
        (EVERYTHING, "the agent's replay was shown (rule 5: the agent's replay lacks nothing)"),
        ([*turn(1), call(3), *turn(2)], "the agent's replay was shown (rule 2: the agent's replay has something that"),
    ]:
        agent = proxied.bare_agent(replaying(steps), LOADS)
        with proxied.start(replaying(steps), agent=LOADS) as editor:
            editor.load(session)
            assert editor.end() == 0
        stdout = invoke("doctor", "--store", str(proxied.store), "--", *agent).stdout
        [last] = [line for line in stdout.splitlines() if line.startswith("  last load")]
        assert said in last
        assert last.endswith(f", of session {session}")


# A turn whose proxy was killed, and that the agent finished.

CUT: dict[str, Any] = {"turns": [[THOUGHT, say("I have mended it."), CALL, say("All"), {"hang": True}]]}
FINISHED = replaying([step for step in turn(1) if step != call(1)])
"""An agent that finished the turn and has no tool calls in its replays."""
WHOLE = ALL_OF_IT[: len(ALL_OF_IT) // 2]


def begin_turn(editor: Editor, proxied: Proxied) -> str:
    """Begin a turn that does not end. The session, once its transcript has what came of the turn."""
    session = editor.new_session()
    editor.start_prompt(session, WORDS[0])
    editor.wait_for_text("All")
    wait_until(lambda: texts(recorded_updates(proxied, session))[-1:] == ["All"])
    return session


def recorded_updates(proxied: Proxied, session: str) -> Updates:
    messages = [entry.get("message", {}) for entry in entries(proxied.transcript(session))]
    return [message["params"]["update"] for message in messages if message.get("method") == "session/update"]


def loaded_in_a_new_process(proxied: Proxied, session: str) -> list[tuple[str, str]]:
    with proxied.start(FINISHED, agent=LOADS) as editor:
        loaded = editor.load(session)
        assert editor.end() == 0
    return list_said(loaded.updates)


def test_a_turn_that_the_agent_finished_after_a_kill_is_completed_once_and_keeps_its_calls(proxied: Proxied) -> None:
    agent = [*LAUNCHER, *proxied.bare_agent(CUT, LOADS)]
    with Editor([*PROXY, "run", "--store", str(proxied.store), "--", *agent]) as editor:
        editor.project = proxied.project
        editor.initialize()
        session = begin_turn(editor, proxied)
        editor.kill()
    assert loaded_in_a_new_process(proxied, session) == WHOLE
    completed = recorded_updates(proxied, session)
    assert texts(completed) == ["I have mended it.", "All", " is well."]
    assert loaded_in_a_new_process(proxied, session) == WHOLE
    assert texts(recorded_updates(proxied, session)) == texts(completed)


def test_a_turn_that_still_runs_in_another_window_is_not_completed(proxied: Proxied) -> None:
    with proxied.start(CUT, agent=LOADS) as editor:
        session = begin_turn(editor, proxied)
        assert loaded_in_a_new_process(proxied, session) == WHOLE
        assert texts(recorded_updates(proxied, session)) == ["I have mended it.", "All"]
        editor.kill()
    assert loaded_in_a_new_process(proxied, session) == WHOLE
    assert texts(recorded_updates(proxied, session)) == ["I have mended it.", "All", " is well."]
