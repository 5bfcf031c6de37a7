"""Rewinds, by the methods and the update of the drafts that claude-agent-acp, codex-acp and the protocol have open."""

from typing import Any

import pytest

from acp_proxy.store.proxy_store import ProxyStore
from acp_proxy.tools.demo.client import RequestFailed
from acp_proxy.tools.demo.display import list_items
from tests.cli.commands import get_json, get_stdout
from tests.end_to_end.proxied import Editor, Proxied, list_rules, load_anew, say

LOADS = ("--capabilities", "load,resume")
TRUNCATED: dict[str, Any] = {"update": {"sessionUpdate": "history_truncated", "lastMessageId": "m1"}}


def user(text: str, id: str) -> dict[str, Any]:
    content = {"type": "text", "text": text}
    return {"update": {"sessionUpdate": "user_message_chunk", "content": content, "messageId": id}}


TURNS = [[user(f"{word} please", f"u{n}"), say(f"done {word}", f"m{n}")] for n, word in enumerate("abcd", 1)]


def answered_turns(*words: str) -> list[tuple[str, str]]:
    return [one for word in words for one in (("user", f"{word} please"), ("agent", f"done {word}"))]


def script(
    *replay: dict[str, Any], result: Any = None, refuses: bool = False, turns: list[list[dict[str, Any]]] = TURNS
) -> dict[str, Any]:
    """An agent that answers a rewind with ``result``. ``replay``: what it sends for a load."""
    answer = {"error": {"code": -32602, "message": "no"}} if refuses else {"result": result}
    rewinds = dict.fromkeys(("session/rewind", "_session/rewind"), answer)
    return {"methods": {**rewinds, "session/load": {"before": list(replay), "result": {}}}, "turns": turns}


def talk(editor: Editor, session: str, words: str) -> None:
    for word in words:
        editor.prompt(session, f"{word} please")


def record_rewound(proxied: Proxied, method: str, params: dict[str, Any], result: Any, **how: Any) -> str:
    """A session that was rewound after three turns, and then had a fourth one."""
    with proxied.start(script(result=result, **how), agent=LOADS) as editor:
        session = editor.new_session()
        talk(editor, session, "abc")
        try:
            editor.request(method, {"sessionId": session, **params})
        except RequestFailed:
            assert how.get("refuses")
        talk(editor, session, "d")
        assert editor.end() == 0
    return session


def load_items(proxied: Proxied, session: str, *replay: dict[str, Any], mode: str = "compact") -> list[tuple[str, str]]:
    return load_anew(proxied, session, script(*replay), mode=mode, agent=LOADS)


TO_FIRST: tuple[str, dict[str, Any], Any] = ("session/rewind", {"toMessageId": "m1"}, {"lastMessageId": "m1"})
BEFORE_SECOND: tuple[str, dict[str, Any], Any] = ("_session/rewind", {"messageId": "u2"}, {"rewound": True})


@pytest.mark.parametrize(("way", "mode"), [(TO_FIRST, "compact"), (BEFORE_SECOND, "full")])
def test_what_was_taken_back_is_not_replayed(proxied: Proxied, way: tuple[str, dict[str, Any], Any], mode: str) -> None:
    session = record_rewound(proxied, *way)
    assert load_items(proxied, session, mode=mode) == answered_turns("a", "d")  # the agent's replay is empty


def test_what_was_taken_back_is_not_missed_in_the_agents_replay(proxied: Proxied) -> None:
    session = record_rewound(proxied, *TO_FIRST)
    before = proxied.transcript(session).read_bytes()
    for _ in range(2):
        assert load_items(proxied, session, *TURNS[0], *TURNS[3]) == answered_turns("a", "d")
    assert list_rules(proxied, session) == [5, 5]
    added = proxied.transcript(session).read_bytes()[len(before) :]
    assert b"session/update" not in added


def test_what_was_taken_back_stays_in_the_transcript_with_a_remark(proxied: Proxied) -> None:
    session = record_rewound(proxied, *TO_FIRST)
    store = ProxyStore(proxied.store)
    for command in ("show", "export"):
        told_by = get_stdout(store, command, session)
        assert all(word in told_by for word in ("done a", "done b", "done c", "Rewound", "done d"))
    [found] = get_json(store, "search", "done b")
    assert [one["turn"] for one in found["found"]] == [2]


def test_a_rewind_that_the_agent_refuses_takes_nothing_back(proxied: Proxied) -> None:
    session = record_rewound(proxied, "session/rewind", {"toMessageId": "m1"}, None, refuses=True)
    assert load_items(proxied, session) == answered_turns("a", "b", "c", "d")


def test_an_update_of_the_agent_takes_back_what_came_before_it(proxied: Proxied) -> None:
    turns = [*TURNS[:2], [*TURNS[2], TRUNCATED], TURNS[3]]
    with proxied.start(script(turns=turns), agent=LOADS) as editor:
        session = editor.new_session()
        talk(editor, session, "abcd")
        assert editor.end() == 0
    assert load_items(proxied, session) == answered_turns("a", "d")
    assert "Rewound" in get_stdout(ProxyStore(proxied.store), "show", session)


def test_after_a_rewind_to_an_unknown_message_the_agent_is_believed(proxied: Proxied) -> None:
    session = record_rewound(proxied, "session/rewind", {"toMessageId": "of another client"}, {})
    assert load_items(proxied, session, *TURNS[0], *TURNS[3]) == answered_turns("a", "d")
    assert list_rules(proxied, session) == [3]


def test_a_rewind_after_a_load_counts_the_messages_from_before_it(proxied: Proxied) -> None:
    with proxied.start(script(), agent=LOADS) as editor:
        session = editor.new_session()
        talk(editor, session, "ab")
        assert editor.end() == 0
    replay = [*TURNS[0], *TURNS[1]]
    with proxied.start(script(*replay, result={}), agent=LOADS) as editor:
        editor.load(session)
        editor.request("session/rewind", {"sessionId": session, "toMessageId": "m1"})
        assert [item.text for item in list_items(editor.prompt(session, "c please"))]
        assert editor.end() == 0
    assert load_items(proxied, session) == answered_turns("a", "c")


def test_a_handovers_record_has_nothing_that_was_taken_back(proxied: Proxied) -> None:
    session = record_rewound(proxied, *TO_FIRST)
    echo = {
        "turns": [
            [{"update": {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "{prompt}"}}}]
        ]
    }
    with proxied.start(echo, agent=("--capabilities", "none")) as editor:
        editor.load(session)
        record = "".join(item.text for item in list_items(editor.prompt(session, "go on")))
        assert editor.end() == 0
    assert "done a" in record or "done d" in record
    assert "done b" not in record


def test_a_turn_made_elsewhere_that_a_load_showed_is_taken_back_too(proxied: Proxied) -> None:
    with proxied.start(script(), agent=LOADS) as editor:
        session = editor.new_session()
        talk(editor, session, "a")
        assert editor.end() == 0
    replay = [*TURNS[0], user("x please", "u9"), say("done x", "m9")]
    with proxied.start(script(*replay, result={}), agent=LOADS) as editor:
        editor.load(session)
        editor.request("session/rewind", {"sessionId": session, "toMessageId": "m1"})
        talk(editor, session, "b")
        assert editor.end() == 0
    assert load_items(proxied, session) == answered_turns("a", "b")
