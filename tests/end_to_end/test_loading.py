"""Loads that the proxy adds to an agent that can resume."""

import json
from typing import Any

from acp_proxy.tools.demo.display import list_items
from tests.end_to_end.proxied import (
    ASK,
    CANCELLED,
    INTERNAL_ERROR,
    Editor,
    Permission,
    Proxied,
    conversation,
    entries,
    kinds,
    list_said,
    say,
    texts,
)
from tests.stored import WholeStore

COMMANDS = "available_commands_update"


# --- the agent's answers


def test_a_refused_load_gets_the_agents_error_and_changes_nothing(proxied: Proxied) -> None:
    session = proxied.recorded("mend it")
    before = proxied.transcript(session).read_bytes()
    editor = proxied.start("refuses-resume")
    [listed] = editor.sessions()
    loaded = editor.load(session)
    script = json.loads(proxied.script("refuses-resume").read_text())
    assert loaded.answer["error"] == script["methods"]["session/resume"]["error"]
    assert editor.sessions() == [listed]
    assert editor.list_updates() == []
    assert editor.end() == 0
    assert proxied.transcript(session).read_bytes() == before


# --- updates during a resume


def test_a_turn_known_only_to_a_resuming_agent_is_shown_and_recorded_once(proxied: Proxied) -> None:
    """The agent knows only a turn made elsewhere, so the order relative to the others is unknown."""
    session = proxied.recorded("mend it", "and the other?")
    shown = []
    for _ in range(2):
        with proxied.start("replays-on-resume") as editor:
            loaded = editor.load(session)
            shown.append(list_said(loaded.updates))
            editor.sessions()
            later = editor.list_updates(session)[len(loaded.told) :]
            assert conversation(later) == []
            commands = [
                update["availableCommands"][0]["name"] for update in later if update["sessionUpdate"] == COMMANDS
            ]
            assert commands[-1] == "review"  # the live value wins over the stored one
            assert editor.end() == 0
    assert (
        shown
        == [
            [
                ("user", "an earlier prompt, told again"),
                ("agent", "an earlier answer, told again"),
                ("tool call", "An earlier call, told again (completed)"),
            ]
        ]
        * 2
    )
    kept = [entry["message"]["params"] for entry in entries(proxied.transcript(session)) if is_update(entry)]
    assert texts(conversation([params["update"] for params in kept])).count("an earlier answer, told again") == 1


def test_a_replay_after_the_answer_to_a_resume_is_shown_and_recorded_once(proxied: Proxied) -> None:
    spoken = {"turns": [[say("It is "), say("mended, and all of it was tested.")]]}
    session = proxied.recorded("mend it", script=spoken)
    user = {"update": {"sessionUpdate": "user_message_chunk", "content": {"type": "text", "text": "mend it"}}}
    whole = say("It is mended, and all of it was tested.")
    late = [user, whole, say("Something was updated meanwhile."), {"notify": "_told", "params": {"sessionId": session}}]
    shown = []
    for _ in range(3):
        with proxied.start({"methods": {"session/resume": {"after": late}}}) as editor:
            editor.load(session)
            editor.wait_for(lambda message: message.get("method") == "_told")
            shown.append(list_said(conversation(editor.list_updates(session))))
            assert editor.end() == 0
    once = [("user", "mend it"), ("agent", "It is mended, and all of it was tested.Something was updated meanwhile.")]
    assert shown == [once] * 3
    kept = [entry["message"]["params"]["update"] for entry in entries(proxied.transcript(session)) if is_update(entry)]
    assert "".join(texts(conversation(kept))) == once[1][1]


def is_update(entry: dict[str, Any]) -> bool:
    return bool(entry.get("message", {}).get("method") == "session/update")


def begun_without_the_proxy(proxied: Proxied) -> str:
    """A session with one prompt that the proxy does not know."""
    with Editor(proxied.bare_agent()) as editor:
        editor.project = proxied.project
        session = editor.open()
        editor.prompt(session, "said before the proxy came")
    return session


def test_a_session_known_only_to_the_agent_opens_empty_and_is_recorded_from_then_on(proxied: Proxied) -> None:
    session = begun_without_the_proxy(proxied)
    editor = proxied.start()
    loaded = editor.load(session)
    assert (loaded.answer["result"], loaded.told) == ({}, [])
    editor.prompt(session, "from here on")
    assert [row["title"] for row in editor.sessions()] == ["from here on"]
    assert editor.end() == 0
    assert session in editor.read_stderr()
    assert entries(proxied.transcript(session))[0]["origin"] == "partial"


def test_a_lost_transcript_is_an_error_before_the_agent_is_asked(proxied: Proxied) -> None:
    session = proxied.recorded("mend it")
    assert WholeStore(proxied.store).list_all()  # it is in the index, however slow its proxy was
    proxied.transcript(session).unlink()
    editor = proxied.start({"methods": {"session/resume": {"before": [{"stderr": "asked to resume"}]}}})
    loaded = editor.load(session)
    assert loaded.told == []
    assert loaded.answer["error"]["code"] == INTERNAL_ERROR
    assert loaded.answer["error"]["message"] == "Session history cannot be read (ENOENT). Run: acp-proxy doctor"
    assert editor.end() == 0
    assert "asked to resume" not in editor.read_stderr()


# --- loads without an answer


def test_an_unanswered_load_does_not_block_other_sessions(proxied: Proxied) -> None:
    session = proxied.recorded("mend it")
    editor = proxied.start("hangs-on-resume")
    pending = editor.start_load(session)
    other = editor.new_session()
    live = editor.prompt(other, "meanwhile")
    assert texts(live)[1] == "meanwhile"
    assert {row["sessionId"] for row in editor.sessions()} == {session, other}
    assert editor.answers_to(pending) == []
    editor.notify("$/cancel_request", {"requestId": pending})
    assert editor.wait_for_answer(pending)["error"]["code"] == CANCELLED
    editor.prompt(other, "and still")
    assert editor.list_updates(session) == []
    assert len(editor.answers_to(pending)) == 1


def test_an_unanswered_load_is_answered_when_the_editor_ends(proxied: Proxied) -> None:
    session = proxied.recorded("mend it")
    editor = proxied.start("hangs-on-resume")
    pending = editor.start_load(session)
    editor.prompt(editor.new_session(), "meanwhile")
    assert editor.end() == 0
    assert editor.list_updates(session) == []
    assert [answer["error"]["code"] for answer in editor.answers_to(pending)] == [INTERNAL_ERROR]


# Loads of an open session.

MANY = 20_000
ONGOING: dict[str, Any] = {
    "turns": [[{"flood": {"count": MANY, "text": "{i} "}}, ASK, say("granted"), {"stop": "end_turn"}, say("after")]]
}


def test_a_load_during_a_turn_loses_and_repeats_nothing(proxied: Proxied) -> None:
    permission = Permission()
    editor = proxied.start(ONGOING, on_request=permission)
    session = editor.new_session()
    turn = editor.start_prompt(session, "count")
    editor.wait_for_text("100 ")
    since = editor.count_lines()
    loaded = editor.loaded(session, editor.start_load(session), since)
    assert loaded.answer["result"] == {}
    permission.grant()
    assert editor.wait_for_result(turn) == {"stopReason": "end_turn"}
    editor.wait_for_text("after")

    # Updates sent before the load are sent again, beginning with the prompt.
    updates = editor.list_updates(session, since)
    begin = kinds(updates).index("user_message_chunk")
    assert kinds(updates).count("user_message_chunk") == 1
    everything = "".join(f"{number} " for number in range(MANY)) + "grantedafter"
    assert "".join(texts(updates[begin:])) == everything
    assert conversation(updates[begin : len(loaded.told)]) == updates[begin : len(loaded.told)]

    # The transcript has each update once.
    assert editor.end() == 0
    kept = [entry["message"]["params"]["update"] for entry in entries(proxied.transcript(session)) if is_update(entry)]
    assert texts(kept) == [*(f"{number} " for number in range(MANY)), "granted", "after"]


def test_a_second_load_replays_the_turn_since_the_first(proxied: Proxied) -> None:
    session = proxied.recorded("mend it")
    editor = proxied.start()
    first = editor.load(session)
    live = editor.prompt(session, "and the other?")
    second = editor.load(session)
    updates = [update for update in second.updates if update not in first.updates]
    assert list_items(updates)[0].text == "and the other?"
    assert list_items(updates)[1:] == list_items(live)
    assert [line.raw for line in second.told[: len(first.told)]] == [line.raw for line in first.told]
