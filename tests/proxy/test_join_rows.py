"""Copies join the first page of the agent's list; every other byte of it stays."""

import json
from dataclasses import dataclass, field, replace

import pytest

from acp_proxy.proxy.session_list import join_rows
from tests.conversation import line, raw


@dataclass
class Row:
    session_id: str
    updated: str
    cwd: str | None = "/w"
    title: str | None = None
    prompt_count: int = 1
    reply_count: int = 0
    has_failed: bool = False
    directories: list[str] = field(default_factory=list)
    meta: dict[str, object] = field(default_factory=dict)
    is_archived: bool = False
    machine: str = ""


def item(row: Row) -> bytes:
    meta = {"messageCount": 1, "hasErrors": False}
    return raw({"sessionId": row.session_id, "cwd": "/w", "updatedAt": row.updated, "_meta": meta})


NEW, OLD = Row("c2", "2026-02-01T00:00:00.000Z"), Row("c1", "2026-01-01T00:00:00.000Z")
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
    told = join_rows(page % b",".join(theirs), [NEW, OLD], supports_directories=False, says_archived=False)
    assert told == page % b",".join(expected)


def test_without_rows_the_line_stays() -> None:
    page = line({"jsonrpc": "2.0", "id": 1, "result": None})
    assert join_rows(page, [], supports_directories=False, says_archived=False) == page


def test_rows_in_an_agents_index_say_there_whether_they_are_archived() -> None:
    page = line({"result": {"sessions": []}})
    old = replace(OLD, is_archived=True, meta={"jetbrains": {"air": {"model": "m", "archived": False}}, "x": 1})
    told = join_rows(page, [NEW, old], supports_directories=False, says_archived=False, is_of_index=True)
    rows = json.loads(told)["result"]["sessions"]
    assert [row["_meta"]["jetbrains"] for row in rows] == [
        {"air": {"archived": False}},
        {"air": {"model": "m", "archived": True}},
    ]
    assert "archived" not in rows[0]
