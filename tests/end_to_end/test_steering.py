"""The user's words into a running turn (``_session/steering``), with agents that behave as claude-agent-acp and
codex-acp: they answer at once, repeat nothing, and replay the words as a user message in their place."""

from typing import Any

import pytest

from acp_proxy.store.proxy_store import ProxyStore
from acp_proxy.tools.demo.display import list_items
from tests.cli.commands import get_json, get_stdout
from tests.client import prompt_params
from tests.end_to_end.proxied import ASK, Editor, Permission, Proxied, entries, load_anew, say

STEERING = "_session/steering"
LOADS = ("--capabilities", "load,resume")
INJECTED, BEGUN = {"outcome": "injected"}, {"outcome": "startedNewTurn"}
NOT_TAKEN = {"outcome": "promptRequired", "reason": "noRunningTurn"}
PAST = [("user", "count"), ("agent", "one two"), ("user", "faster please"), ("agent", "ninety-nine")]


def said_by_user(text: str) -> dict[str, Any]:
    return {"update": {"sessionUpdate": "user_message_chunk", "content": {"type": "text", "text": text}}}


def script(outcome: Any = INJECTED, *replay: dict[str, Any], after: tuple[dict[str, Any], ...] = ()) -> dict[str, Any]:
    """An agent whose turn waits for the client between its words. ``replay``: what it sends for a load."""
    return {
        "methods": {
            STEERING: {"result": outcome, "after": list(after)},
            "session/load": {"before": list(replay), "result": {}},
        },
        "turns": [[say("one "), say("two"), ASK, say("ninety-nine")]],
    }


REPLAY = (said_by_user("count"), say("one two"), said_by_user("faster please"), say("ninety-nine"))


def steer(editor: Editor, session: str, text: str = "faster please") -> Any:
    return editor.request(STEERING, prompt_params(session, text))


def record_steered(proxied: Proxied, outcome: Any = INJECTED) -> str:
    """A session whose turn the user has steered between two messages."""
    permission = Permission()
    with proxied.editor(script(outcome), agent=LOADS, on_request=permission) as editor:
        session = editor.open()
        number = editor.start_prompt(session, "count")
        editor.wait_for_method("session/request_permission")
        assert steer(editor, session) == outcome
        permission.grant()
        assert editor.wait_for_result(number)["stopReason"] == "end_turn"
        assert editor.end() == 0
    return session


def load_items(proxied: Proxied, session: str, *replay: dict[str, Any], mode: str = "compact") -> list[tuple[str, str]]:
    return load_anew(proxied, session, script(INJECTED, *replay), mode=mode, agent=LOADS)


def list_client_methods(proxied: Proxied, session: str) -> list[Any]:
    """The methods of the client's messages in the transcript."""
    return [
        entry["message"].get("method")
        for entry in entries(proxied.transcript(session))
        if entry.get("from") == "client"
    ]


@pytest.mark.parametrize("mode", ["compact", "full"])
def test_words_into_a_turn_are_replayed_once_in_their_place(proxied: Proxied, mode: str) -> None:
    session = record_steered(proxied)
    assert [method for method in list_client_methods(proxied, session) if method == STEERING] == [STEERING]
    assert load_items(proxied, session, mode=mode) == PAST  # the agent's replay is empty


def test_an_agents_own_replay_with_the_words_lacks_nothing_and_is_not_recorded_again(proxied: Proxied) -> None:
    session = record_steered(proxied)
    before = list_client_methods(proxied, session)
    for _ in range(2):
        assert load_items(proxied, session, *REPLAY) == PAST
    notes = [entry["note"] for entry in entries(proxied.transcript(session)) if "note" in entry]
    assert [note["rule"] for note in notes if note["type"] == "replay"] == [5, 5]
    assert list_client_methods(proxied, session) == before


def test_an_agents_replay_without_the_words_is_replaced(proxied: Proxied) -> None:
    session = record_steered(proxied)
    assert load_items(proxied, session, *REPLAY[:2], *REPLAY[3:]) == PAST


def test_words_into_a_turn_are_found_shown_and_exported(proxied: Proxied) -> None:
    session = record_steered(proxied)
    store = ProxyStore(proxied.store)
    [found] = get_json(store, "search", "faster")
    assert [one["turn"] for one in found["found"]] == [1]
    assert "faster please" in get_stdout(store, "show", session)
    assert "faster please" in get_stdout(store, "export", session)
    [row] = get_json(store, "list")
    assert (row["title"], row["turns"]) == ("count", 1)


@pytest.mark.parametrize("outcome", [NOT_TAKEN, {"outcome": "failed"}, {}, None])
def test_words_that_the_agent_did_not_take_are_not_recorded(proxied: Proxied, outcome: Any) -> None:
    session = record_steered(proxied, outcome)
    assert STEERING not in list_client_methods(proxied, session)


def test_words_without_a_turn_begin_one(proxied: Proxied) -> None:
    """Also right after a load: what the agent then says is new, though nothing says where that turn ends."""
    with proxied.start(agent=LOADS) as editor:
        session = editor.new_session()
        first = list_items(editor.prompt(session, "first"))
        assert editor.end() == 0
    answers = [(one.kind, one.text) for one in first if one.kind == "agent"]
    with proxied.start(script(BEGUN, said_by_user("first"), after=(say("as told"),)), agent=LOADS) as editor:
        editor.load(session)
        assert steer(editor, session) == BEGUN
        editor.wait_for_text("as told")
        assert editor.end() == 0
    shown = load_items(proxied, session)
    assert [one for one in shown if one[0] == "user"] == [("user", "first"), ("user", "faster please")]
    assert [one for one in shown if one[0] == "agent"] == [*answers, ("agent", "as told")]
    [row] = get_json(ProxyStore(proxied.store), "list")
    assert row["turns"] == 2
