"""Forks at a message, with agents that behave as claude-agent-acp and codex-acp: the fork's past ends there."""

from typing import Any

import pytest

from tests.end_to_end.proxied import Editor, Proxied, conversation, entries, list_rules, list_said, load_anew, say

ABLE = ("--capabilities", "load,resume,fork")
CODEX = ("--name", "@agentclientprotocol/codex-acp")


def user(text: str) -> dict[str, Any]:
    return {"update": {"sessionUpdate": "user_message_chunk", "content": {"type": "text", "text": text}}}


def script(*replay: dict[str, Any]) -> dict[str, Any]:
    """An agent that says two messages in each turn. ``replay``: what it sends for a load."""
    return {
        "methods": {"session/load": {"before": list(replay), "result": {}}},
        "turns": [[say("look {prompt}. ", "a{n}"), say("done {prompt}.", "b{n}")]],
    }


def turn(prompt: str) -> list[tuple[str, str]]:
    return [("user", prompt), ("agent", f"look {prompt}. "), ("agent", f"done {prompt}.")]


def make_replay(prompt: str) -> list[dict[str, Any]]:
    return [user(prompt), say(f"look {prompt}. ", "x"), say(f"done {prompt}.", "y")]


def air(id: str, version: int = 1) -> dict[str, Any]:
    return {"_meta": {"jetbrains": {"air": {"fork": {"version": version, "messageId": id}}}}}


def fork(editor: Editor, session: str, params: dict[str, Any]) -> str:
    return str(editor.request("session/fork", editor.place(session) | params)["sessionId"])


def record_fork(proxied: Proxied, params: dict[str, Any], *, agent: tuple[str, ...] = ()) -> str:
    """The fork of a session of three turns, with a turn of its own."""
    with proxied.start(script(), agent=(*ABLE, *agent)) as editor:
        session = editor.new_session()
        for prompt in ("one", "two", "three"):
            editor.prompt(session, prompt)
        made = fork(editor, session, params)
        editor.prompt(made, "four")
        assert editor.end() == 0
    return made


def load_items(
    proxied: Proxied, session: str, *replay: dict[str, Any], mode: str = "compact", agent: tuple[str, ...] = ()
) -> list[tuple[str, str]]:
    return load_anew(proxied, session, script(*replay), mode=mode, agent=(*ABLE, *agent))


@pytest.mark.parametrize(("params", "mode"), [(air("b2:segment:1"), "compact"), ({"messageId": "b2"}, "full")])
def test_the_past_of_a_fork_ends_with_its_message(proxied: Proxied, params: dict[str, Any], mode: str) -> None:
    session = record_fork(proxied, params)
    assert load_items(proxied, session, mode=mode) == [*turn("one"), *turn("two"), *turn("four")]


def test_an_agents_own_replay_of_the_fork_lacks_nothing(proxied: Proxied) -> None:
    session = record_fork(proxied, air("b2"))
    replay = [*make_replay("one"), *make_replay("two"), *make_replay("four")]
    for _ in range(2):
        assert load_items(proxied, session, *replay) == [*turn("one"), *turn("two"), *turn("four")]
    assert list_rules(proxied, session) == [5, 5]


@pytest.mark.parametrize(("agent", "messages"), [((), 1), (CODEX, 2)])
def test_codex_forks_after_the_whole_turn_of_the_message(
    proxied: Proxied, agent: tuple[str, ...], messages: int
) -> None:
    session = record_fork(proxied, air("a2"), agent=agent)
    shown = load_items(proxied, session, agent=agent)
    assert shown == [*turn("one"), *turn("two")[: 1 + messages], *turn("four")]


def test_a_fork_of_a_fork_ends_with_its_message_too(proxied: Proxied) -> None:
    first = record_fork(proxied, air("b2"))
    with proxied.start(script(), agent=ABLE) as editor:
        editor.load(first)
        second = fork(editor, first, air("b1"))
        editor.prompt(second, "five")
        assert editor.end() == 0
    assert load_items(proxied, second) == [*turn("one"), *turn("five")]
    assert load_items(proxied, first) == [*turn("one"), *turn("two"), *turn("four")]


UNKNOWN = [air("nobody"), {"_meta": {"other": {"forkPoint": {"turnIndex": 2}}}}]


@pytest.mark.parametrize("params", UNKNOWN)
def test_a_fork_at_an_unknown_point_begins_with_its_first_replay(proxied: Proxied, params: dict[str, Any]) -> None:
    with proxied.start(script(), agent=ABLE) as editor:
        session = editor.new_session()
        editor.prompt(session, "one")
        editor.prompt(session, "two")
        made = fork(editor, session, params)
        assert editor.end() == 0
    for _ in range(2):
        assert load_items(proxied, made, *make_replay("one")) == turn("one")
    assert load_items(proxied, made) == turn("one")  # now we have it, though the agent has lost it
    assert b"two" not in proxied.transcript(made).read_bytes()


@pytest.mark.parametrize("params", UNKNOWN)
def test_a_fork_at_an_unknown_point_shows_what_the_agent_has(proxied: Proxied, params: dict[str, Any]) -> None:
    session = record_fork(proxied, params)
    replay = [*make_replay("one"), *make_replay("four")]
    for _ in range(2):
        assert load_items(proxied, session, *replay) == [*turn("one"), *turn("four")]


def test_an_agent_that_forked_earlier_than_we_could_read_is_believed(proxied: Proxied) -> None:
    session = record_fork(proxied, {})
    replay = [*make_replay("one"), *make_replay("four")]
    assert load_items(proxied, session, *replay) == [*turn("one"), *turn("four")]
    assert list_rules(proxied, session) == [3]


def test_an_agent_that_lost_the_whole_past_of_a_fork_is_helped(proxied: Proxied) -> None:
    session = record_fork(proxied, {})
    past = [*turn("one"), *turn("two"), *turn("three"), *turn("four")]
    assert load_items(proxied, session, *make_replay("four")) == past


def test_a_fork_of_a_session_that_was_handed_over_ends_with_its_message(proxied: Proxied) -> None:
    able = ("--capabilities", "fork")  # neither load nor resume
    with proxied.start(script(), agent=able) as editor:
        session = editor.new_session()
        editor.prompt(session, "one")
        assert editor.end() == 0
    with proxied.start(script(), agent=able) as editor:
        editor.load(session)
        for prompt in ("two", "three"):  # the agent counts from one again
            editor.prompt(session, prompt)
        made = fork(editor, session, air("b1"))
        editor.prompt(made, "four")
        assert editor.end() == 0
    with proxied.start(script(), agent=able) as editor:
        shown = list_said(conversation(editor.load(made).updates))
        assert editor.end() == 0
    assert [text for kind, text in shown if kind == "user"] == ["one", "two", "four"]


@pytest.mark.parametrize("lacks", [[], [2]], ids=["the agent's replay is shown", "the transcript is shown"])
def test_a_fork_at_a_user_message_as_a_load_named_it_has_what_came_up_to_it(proxied: Proxied, lacks: list[int]) -> None:
    """claude-agent-acp gives the user's messages ids only in its replays."""
    with proxied.start(script(), agent=ABLE) as editor:
        session = editor.new_session()
        for prompt in ("one", "two", "three"):
            editor.prompt(session, prompt)
        assert editor.end() == 0
    replay = [step for word in ("one", "two", "three") for step in make_replay(word)]
    for step in replay[::3]:
        step["update"]["messageId"] = f"id of {step['update']['content']['text']}"
    known = [step for number, step in enumerate(replay) if number not in lacks]
    for _ in range(2):
        with proxied.start(script(*known), agent=ABLE) as editor:
            loaded_updates = conversation(editor.load(session).updates)
            assert editor.end() == 0
        users = [update["messageId"] for update in loaded_updates if update["sessionUpdate"] == "user_message_chunk"]
        assert users == ["id of one", "id of two", "id of three"]
    notes = [entry["note"] for entry in entries(proxied.transcript(session)) if "note" in entry]
    assert [len(note.get("users", ())) for note in notes if note["type"] == "replay"] == [3, 0]
    with proxied.start(script(), agent=ABLE) as editor:
        editor.request("session/resume", editor.place(session))
        made = fork(editor, session, air("id of two"))
        editor.prompt(made, "four")
        assert editor.end() == 0
    assert load_items(proxied, made) == [*turn("one"), ("user", "two"), *turn("four")]
