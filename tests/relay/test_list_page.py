"""Stored sessions as a page of their own, and among those of the agent's list: every other byte of it stays."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from acp_proxy.protocol.jsonrpc import RequestId
from acp_proxy.relay.list_page import encode_page, insert_rows
from acp_proxy.store.index_database import ListedSession
from tests.conversation import line, raw
from tests.listed import make_row
from tests.strategies import texts, values


def item(row: ListedSession) -> bytes:
    meta = {"messageCount": 1, "hasErrors": False}
    return raw({"sessionId": row.session_id, "cwd": "/w", "updatedAt": row.updated, "_meta": meta})


NEW, OLD = (
    make_row("c2", updated="2026-02-01T00:00:00.000Z", reply_count=0),
    make_row("c1", updated="2026-01-01T00:00:00.000Z", reply_count=0),
)
LATE = b'{"sessionId": "a",  "updatedAt":"2026-03-01T00:00:00+00:00"}'
EARLY = b'{"updatedAt":"2025-03-01T00:00:00Z","sessionId":"b", "cwd":"/w"}'
TIMELESS = b'{"sessionId":"t"}'


@pytest.mark.parametrize(
    ("theirs", "expected"),
    [
        ([], [item(NEW), item(OLD)]),
        ([LATE, EARLY], [LATE, item(NEW), item(OLD), EARLY]),
        ([TIMELESS], [TIMELESS, item(NEW), item(OLD)]),
        ([EARLY, LATE], [item(NEW), item(OLD), EARLY, LATE]),
    ],
)
def test_rows_join_by_time_and_no_byte_of_the_others_changes(theirs: list[bytes], expected: list[bytes]) -> None:
    page = b'{"id":1 ,"result":{"sessions":[%s], "nextCursor":"x"},"jsonrpc":"2.0"}\n'
    told = insert_rows(page % b",".join(theirs), [NEW, OLD], supports_directories=False)
    assert told == page % b",".join(expected)


def test_without_rows_the_line_stays() -> None:
    page = line({"jsonrpc": "2.0", "id": 1, "result": None})
    assert insert_rows(page, [], supports_directories=False) == page


def test_rows_in_an_agents_index_say_there_whether_they_are_archived() -> None:
    page = line({"result": {"sessions": []}})
    old = replace(OLD, is_archived=True, meta={"jetbrains": {"air": {"model": "m", "archived": False}}, "x": 1})
    told = insert_rows(page, [NEW, old], supports_directories=False, is_of_jetbrains_index=True)
    rows = json.loads(told)["result"]["sessions"]
    assert [row["_meta"]["jetbrains"] for row in rows] == [
        {"air": {"archived": False}},
        {"air": {"model": "m", "archived": True}},
    ]
    assert "archived" not in rows[0]


# --- a whole page


def page_of(*rows: ListedSession, cursor: str | None = None, directories: bool = False, recording: bool = True) -> Any:
    answer = encode_page(RequestId("7"), rows, cursor, supports_directories=directories, is_recording_all=recording)
    assert answer.endswith(b"}\n")
    assert answer.count(b"\n") == 1
    value = json.loads(answer)
    assert (value["jsonrpc"], value["id"]) == ("2.0", 7)
    return value["result"]


def test_a_listed_session_has_every_known_field() -> None:
    row = make_row(
        title="Mend it", prompt_count=2, reply_count=1, has_failed=True, directories=["/x"], meta={"agent.example": 1}
    )
    assert page_of(row, directories=True) == {
        "sessions": [
            {
                "sessionId": "s",
                "cwd": "/w",
                "additionalDirectories": ["/x"],
                "title": "Mend it",
                "updatedAt": "2026-11-20T09:15:02.123Z",
                "_meta": {"messageCount": 3, "hasErrors": True, "agent.example": 1},
            }
        ]
    }


def test_a_session_that_was_begun_on_another_machine_names_it() -> None:
    [session] = page_of(make_row(machine="desktop"))["sessions"]
    assert session["_meta"] == {"messageCount": 2, "hasErrors": False, "acp-proxy": {"machine": "desktop"}}


def test_unknown_fields_are_left_out() -> None:
    [session] = page_of(make_row(), directories=True)["sessions"]
    assert session == {
        "sessionId": "s",
        "cwd": "/w",
        "updatedAt": "2026-11-20T09:15:02.123Z",
        "_meta": {"messageCount": 2, "hasErrors": False},
    }


def test_directories_are_listed_only_if_the_agent_supports_them() -> None:
    [session] = page_of(make_row(directories=["/x"]), directories=False)["sessions"]
    assert "additionalDirectories" not in session


def test_the_agents_metadata_overrides_ours() -> None:
    [session] = page_of(make_row(meta={"messageCount": 40, "hasErrors": None}))["sessions"]
    assert session["_meta"] == {"messageCount": 40, "hasErrors": None}


def test_a_page_keeps_the_order_and_the_cursor() -> None:
    page = page_of(make_row("b"), make_row("a"), make_row("c"), cursor="next")
    assert [session["sessionId"] for session in page["sessions"]] == ["b", "a", "c"]
    assert page["nextCursor"] == "next"


def test_the_last_page_has_no_cursor() -> None:
    assert page_of() == {"sessions": []}


def test_a_list_says_when_nothing_is_recorded() -> None:
    assert page_of(recording=False) == {"sessions": [], "_meta": {"acp-proxy": {"recording": False}}}


@given(texts, texts, st.dictionaries(texts, values, max_size=3))
def test_any_text_can_be_listed_on_one_line(session: str, title: str, meta: dict[str, Any]) -> None:
    answer = encode_page(
        RequestId('"x"'),
        [make_row(session, title=title, meta=meta)],
        None,
        supports_directories=True,
        is_recording_all=True,
    )
    assert answer.count(b"\n") == 1
    [told] = json.loads(answer)["result"]["sessions"]
    assert (told["sessionId"], told["title"]) == (session, title)
