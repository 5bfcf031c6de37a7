"""The agent's own list, amended; and messages of acp-proxy."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_proxy.decisions import proxy_messages
from acp_proxy.decisions.effects import Forward
from acp_proxy.decisions.lists import amend_list
from acp_proxy.decisions.lists.amend_list import ListChanges, amend_rows
from acp_proxy.protocol.jsonrpc import Peer, RequestId
from acp_proxy.transcript.titles import HANDOVER_RECORD_BEGINNINGS
from tests.conversation import line, result
from tests.strategies import spelled, texts, values

# --- the agent's own list


def page(*sessions: object) -> dict[str, Any]:
    return result(1, {"sessions": list(sessions), "nextCursor": "c"})


def test_deleted_sessions_are_removed_and_other_bytes_stay() -> None:
    raw = (
        b'{"id":1.0,"result":{ "sessions":[{"sessionId":"a" , "n":1.0},{"sessionId":"b"},'
        b'{"sessionId":"c","big":123456789012345678901,"s":"\\u2028\\ud800"}], "nextCursor":"\\u0063"}}\r\n'
    )
    assert amend_rows(raw, ListChanges(frozenset({"b"}))) == (
        b'{"id":1.0,"result":{ "sessions":[{"sessionId":"a" , "n":1.0},'
        b'{"sessionId":"c","big":123456789012345678901,"s":"\\u2028\\ud800"}], "nextCursor":"\\u0063"}}\r\n'
    )


def test_every_session_of_a_list_can_be_removed() -> None:
    raw = line(page({"sessionId": "a"}, {"sessionId": "b"}))
    assert amend_rows(raw, ListChanges(frozenset({"a", "b", "z"}))) == line(page())


@pytest.mark.parametrize(
    "said",
    [
        page({"sessionId": "a"}),
        page(),
        page(None, 3, "s", [], {}, {"sessionId": 5}, {"sessionId": None}),
        result(1, None),
        result(1, {"sessions": None}),
        result(1, {"sessions": {"sessionId": "gone"}}),
        result(1, [{"sessionId": "gone"}]),
    ],
)
def test_a_list_without_deleted_sessions_passes_byte_for_byte(said: dict[str, Any]) -> None:
    raw = json.dumps(said, indent=None, separators=(" ,", ":  ")).encode() + b"\n"
    assert amend_rows(raw, ListChanges(frozenset({"gone", "s"}))) == raw
    assert amend_rows(raw, ListChanges()) == raw


def test_the_last_duplicate_session_id_counts() -> None:
    raw = b'{"id":1,"result":{"sessions":[{"sessionId":"a","sessionId":"b"},{"sessionId":"b","sessionId":"a"}]}}\n'
    assert amend_rows(raw, ListChanges(frozenset({"a"}))) == (
        b'{"id":1,"result":{"sessions":[{"sessionId":"a","sessionId":"b"}]}}\n'
    )


sessions = st.lists(st.fixed_dictionaries({"sessionId": st.sampled_from("abcd")}, optional={"title": values}))


@given(spelled(st.fixed_dictionaries({"id": st.just(1), "result": st.fixed_dictionaries({"sessions": sessions})})))
def test_only_deleted_sessions_are_removed(text: str) -> None:
    raw = text.encode() + b"\n"
    before = json.loads(raw)["result"]["sessions"]
    after = amend_rows(raw, ListChanges(frozenset("ac")))
    kept = [session for session in before if session["sessionId"] not in "ac"]
    assert json.dumps(json.loads(after)["result"]["sessions"]) == json.dumps(kept)
    assert (after == raw) is (kept == before)


# The user's titles in the agent's list.

MINE = {"a": "Mine", "b": 'with "quotes" and é'}


def test_the_users_title_replaces_the_agents_and_other_bytes_stay() -> None:
    raw = (
        b'{"id":1.0,"result":{ "sessions":[{"sessionId":"a" , "title" : "x\\u0041", "n":1.0}, '
        b'{"cwd":"/","sessionId":"b" }, '
        b'{"sessionId":"c","title":"theirs","big":123456789012345678901} ], "nextCursor":"\\u0063"}}\r\n'
    )
    assert amend_rows(raw, ListChanges(find_title=MINE.get)) == (
        b'{"id":1.0,"result":{ "sessions":[{"sessionId":"a" , "title" : "Mine", "n":1.0}, '
        b'{"cwd":"/","sessionId":"b","title":"with \\"quotes\\" and \xc3\xa9" }, '
        b'{"sessionId":"c","title":"theirs","big":123456789012345678901} ], "nextCursor":"\\u0063"}}\r\n'
    )


def test_titles_are_set_while_deleted_sessions_are_removed() -> None:
    raw = line(page({"sessionId": "a"}, {"sessionId": "gone", "title": "x"}, {"sessionId": "b", "title": None}))
    listed = json.loads(amend_rows(raw, ListChanges(frozenset({"gone"}), MINE.get)))["result"]["sessions"]
    assert listed == [{"sessionId": "a", "title": "Mine"}, {"sessionId": "b", "title": MINE["b"]}]


def test_the_last_duplicate_title_is_replaced() -> None:
    raw = b'{"id":1,"result":{"sessions":[{"sessionId":"a","title":"Mine","title":"theirs"}]}}\n'
    assert amend_rows(raw, ListChanges(find_title=MINE.get)) == raw.replace(b"theirs", b"Mine")


@pytest.mark.parametrize(
    "said",
    [
        page({"sessionId": "a", "title": "Mine"}),
        page({"sessionId": "c", "title": "theirs"}),
        page(None, 3, "s", [], {}, {"sessionId": 5}, {"sessionId": None}),
        result(1, None),
        result(1, {"sessions": {"sessionId": "a"}}),
    ],
)
def test_a_list_without_changed_titles_passes_byte_for_byte(said: dict[str, Any]) -> None:
    raw = json.dumps(said, indent=None, separators=(" ,", ":  ")).encode() + b"\n"
    assert amend_rows(raw, ListChanges(find_title=MINE.get)) == raw


@given(
    spelled(st.fixed_dictionaries({"id": st.just(1), "result": st.fixed_dictionaries({"sessions": sessions})})), texts
)
def test_only_titles_set_by_the_user_change(text: str, title: str) -> None:
    raw = text.encode() + b"\n"
    mine = {"a": title, "b": "Mine"}
    before = json.loads(raw)["result"]["sessions"]
    after = json.loads(amend_rows(raw, ListChanges(frozenset("c"), mine.get)))["result"]["sessions"]
    expected = [
        session | ({"title": mine[session["sessionId"]]} if mine.get(session["sessionId"]) else {})
        for session in before
        if session["sessionId"] != "c"
    ]
    assert json.dumps(after, sort_keys=True) == json.dumps(expected, sort_keys=True)


def test_a_session_without_a_title_gets_one_and_other_bytes_stay() -> None:
    raw = (
        b'{"id":1.0,"result":{ "sessions":[{"sessionId":"a" , "title" : null, "n":1.0}, {"cwd":"/","sessionId":"b" },'
        b' {"sessionId":"c","title":"theirs"}, {"sessionId":"d"}, {"sessionId":"e","title":""}, 3]}}\n'
    )
    assert amend_list.find_without_usable_title(raw, include_absent=True) == ["a", "b", "d"]
    assert amend_list.find_without_usable_title(raw, include_absent=False) == []
    made = {"a": "One", "b": "Two", "c": "Three", "e": "Five"}
    assert amend_rows(raw, ListChanges(fallback_titles=made)) == raw.replace(b"null", b'"One"').replace(
        b'"b" ', b'"b","title":"Two" '
    )
    listed = json.loads(amend_rows(raw, ListChanges(frozenset("b"), {"a": "Mine"}.get, fallback_titles=made)))[
        "result"
    ]["sessions"]
    assert [row.get("title") for row in listed[:-1]] == ["Mine", "theirs", None, ""]


def test_a_title_made_from_a_handovers_record_is_left_out_of_the_agents_list_or_replaced() -> None:
    title = f"{HANDOVER_RECORD_BEGINNINGS[0]}an agent, which continues here..."
    raw = line(result(1, {"sessions": [{"title": title, "sessionId": "a", "n": 1.0}, {"sessionId": "b"}]}))
    assert amend_list.find_without_usable_title(raw, include_absent=False) == ["a"]
    assert amend_list.find_without_usable_title(raw, include_absent=True) == ["a", "b"]
    [listed, _] = json.loads(amend_rows(raw, ListChanges()))["result"]["sessions"]
    assert listed == {"sessionId": "a", "n": 1.0}
    assert amend_rows(raw, ListChanges(fallback_titles={"a": "Mend it"})) == raw.replace(title.encode(), b"Mend it")
    assert amend_rows(raw, ListChanges(find_title={"a": "Mine"}.get)) == raw.replace(title.encode(), b"Mine")


@given(values)
def test_amending_a_list_of_any_shape_never_raises(value: Any) -> None:
    raw = line(result(1, {"sessions": value}))
    titles = dict.fromkeys(amend_list.find_without_usable_title(raw, include_absent=True), "x")
    amend_rows(raw, ListChanges(frozenset({"a"}), fallback_titles=titles))


# --- refusals, and updates by the proxy


def test_unreadable_history_is_reported_by_the_name_of_the_error_only() -> None:
    refusal = proxy_messages.refuse_unreadable(RequestId('"q"'), "ENOENT")
    assert isinstance(refusal, Forward)
    assert (refusal.to, refusal.is_own) == (Peer.CLIENT, True)
    assert json.loads(refusal.data) == {
        "jsonrpc": "2.0",
        "id": "q",
        "error": {"code": -32603, "message": "Session history cannot be read (ENOENT). Run: acp-proxy doctor"},
    }


@given(texts, st.dictionaries(texts, values, max_size=3))
def test_an_update_by_the_proxy_is_one_line(session: str, body: dict[str, Any]) -> None:
    told = proxy_messages.encode_update(session, {**body, "sessionUpdate": "session_info_update"})
    assert told.endswith(b"\n")
    assert told.count(b"\n") == 1
    value = json.loads(told)
    assert value["method"] == "session/update"
    assert value["params"]["sessionId"] == session
    assert value["params"]["update"]["sessionUpdate"] == "session_info_update"
