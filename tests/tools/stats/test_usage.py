"""The use of a whole store comes from the index, by month, day, project or agent, in local time."""

import os
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing

import pytest

from acp_proxy.protocol import acp, timestamps
from acp_proxy.protocol.jsonrpc import Peer
from acp_proxy.store.compress import CompressionOptions
from acp_proxy.tools.stats.usage import GroupUsage, explain_unprompted, measure_usage
from tests.store import transcript_lines
from tests.stored import EPOCH, WholeStore, chunk, message, store_session


def answer_with_tokens(total: int) -> bytes:
    told = {"stopReason": "end_turn", "usage": {"totalTokens": total}}
    return message(timestamps.format_now(EPOCH), Peer.AGENT, {"id": 9, "result": told}, acp.PROMPT)


def test_sessions_without_a_prompt_count_only_by_their_size(store: WholeStore) -> None:
    told = {"sessionUpdate": "usage_update", "used": 10, "size": 100, "cost": {"amount": 1, "currency": "USD"}}
    first = store_session(store, "a", ("prompt", [chunk("usage"), told]), agent="one", at=EPOCH)
    store_session(store, "b", ("prompt", [told]), agent="other", at=EPOCH)
    silent = store_session(store, "c", agent="one", at=EPOCH)
    params = {"sessionId": "c", "update": told}
    with silent.open("ab") as file:
        file.write(message(timestamps.format_now(EPOCH), Peer.AGENT, {"method": "session/update", "params": params}))
    agents, failed = measure_usage(store)
    assert failed == []
    one = agents[first.parent.name]
    assert one.groups == {
        "2023-11": GroupUsage(1, None, None, 10, {"USD": 1.0}, 1, first.stat().st_size + silent.stat().st_size)
    }
    assert len(agents) == 2
    assert explain_unprompted(agents).startswith("Counted only in size: 1 session without a prompt of its own (")


def test_damaged_transcripts_are_counted_and_unreadable_ones_reported(store: WholeStore) -> None:
    path = store_session(store, "a", ("x", []), ("y", []))
    path.write_bytes(path.read_bytes().replace(b"\n", b"\0\0", 2) + b"\0\0 prompt \n")
    agents, failed = measure_usage(store)
    assert (agents[path.parent.name].total.turns, failed) == (2, [])
    unreadable = store_session(store, "b", ("z", []))
    unreadable.unlink()
    unreadable.mkdir()
    agents, failed = measure_usage(store)
    why = "EISDIR. Correct its permissions, repair the disk, or delete it"
    assert (agents[path.parent.name].total.turns, failed) == (2, [f"{unreadable}: {why}"])


@pytest.mark.skipif(sys.platform == "win32", reason="Windows does not say how much of a file is on disk")
def test_of_a_transcript_that_is_too_large_the_size_and_what_to_do_are_said(store: WholeStore) -> None:
    path = store_session(store, "a", ("x", []))
    os.truncate(path, 2**40)
    [text] = measure_usage(store)[1]
    assert text.startswith(f"{path}: File too large: 1,048,576 MiB in ")
    assert text.endswith("as no session has. Move it out of the store, or delete it")


def test_a_file_without_a_session_does_not_count(store: WholeStore) -> None:
    for name in "ab":
        path = store_session(store, name, ("x", []))
    size = path.stat().st_size
    store.set_title(path.parent.name, "b", "B")
    assert (path.parent / "state.jsonl").stat().st_size
    (path.parent / next(name for name in os.listdir(path.parent) if name.startswith("a"))).write_bytes(b"no header\n")
    agents, failed = measure_usage(store)
    assert ([used.bytes for used in agents[path.parent.name].groups.values()], failed) == ([size], [])
    assert agents[path.parent.name].total.bytes == size
    assert explain_unprompted(agents) == ""


def test_a_transcript_that_the_index_knows_is_not_read(store: WholeStore) -> None:
    path = store_session(store, "a", ("x", []), ("y", []))
    before = measure_usage(store)
    with path.open("r+b") as file:
        file.write(b" " * path.stat().st_size)
    assert measure_usage(store) == before


def test_an_index_of_a_version_that_did_not_read_all_tokens_is_made_anew(store: WholeStore) -> None:
    """The version before read no tokens that an agent states only in ``_meta``, as Gemini does."""
    quota = {"token_count": {"input_tokens": 30, "output_tokens": 12}}
    path = store_session(store, "a", ("x", []), at=EPOCH)
    result = {"stopReason": "end_turn", "_meta": {"quota": quota}}
    with path.open("ab") as file:
        file.write(message(timestamps.format_now(EPOCH), Peer.AGENT, {"id": 9, "result": result}, acp.PROMPT))

    def tokens() -> int | None:
        return measure_usage(WholeStore(store.layout.root))[0][path.parent.name].total.turn_tokens

    assert tokens() == 42
    with closing(sqlite3.connect(store.layout.index_path)) as index, index:
        index.execute("UPDATE transcripts SET usage = replace(usage, '42', 'null')")
    assert tokens() is None
    with closing(sqlite3.connect(store.layout.index_path)) as index:
        index.execute("PRAGMA user_version = 8")
    assert tokens() == 42


def test_plain_and_compressed_transcripts_count_with_their_backups(store: WholeStore) -> None:
    paths = [store_session(store, name, ("x", [chunk("said " * 1000)])) for name in "abc"]
    folder = paths[0].parent
    store.list_all()  # the index has them: only such a transcript is compressed
    assert store.compress(folder.name, paths[1].stem, CompressionOptions(min_size=0, older_than=0.0)) is not None
    (store.root / "backups" / folder.name).mkdir(parents=True)
    (store.root / "backups" / folder.name / f"{paths[2].stem}.2026.jsonl").write_bytes(b"before")
    used, failed = measure_usage(store)
    sizes = sum(file.stat().st_size for file in store.root.rglob("*.jsonl*"))
    assert (used[folder.name].total.bytes, failed) == (sizes, [])


def test_a_turn_is_added_to_what_the_index_knows(store: WholeStore) -> None:
    path = store_session(store, "a", ("x", []))
    folder = path.parent.name
    assert measure_usage(store)[0][folder].total.turns == 1
    with path.open("ab") as file:
        file.write(transcript_lines.prompt_line("y", session="a"))
        file.write(transcript_lines.answer())
    store.mark(folder, "a")
    total = measure_usage(store)[0][folder].total
    assert (total.turns, total.sessions, total.bytes) == (2, 1, path.stat().st_size)


def test_a_session_that_goes_on_in_another_month_is_one_session_in_all(store: WholeStore) -> None:
    path = store_session(store, "a", ("x", []))
    with path.open("ab") as file:
        file.write(transcript_lines.prompt_line("y", session="a"))
    [used] = measure_usage(store)[0].values()
    assert {name: (group.sessions, group.turns) for name, group in used.groups.items()} == {
        "2023-11": (1, 1),
        "2026-11": (1, 1),
    }
    assert used.total.sessions == 1


def test_the_kind_of_total_applies_to_all_sessions_of_an_agent(store: WholeStore) -> None:
    for session, totals in (("growing", (10, 20)), ("falling", (10, 5))):
        with store_session(store, session, ("x", [])).open("ab") as file:
            file.write(b"".join(answer_with_tokens(total) for total in totals))
    [used] = measure_usage(store)[0].values()
    assert used.count_tokens(used.total) == 45


@pytest.mark.parametrize(("name", "day"), [("UTC", "2023-11-14"), ("Asia/Kolkata", "2023-11-15")])
def test_a_day_is_local(store: WholeStore, zone: Callable[[str], None], name: str, day: str) -> None:
    store_session(store, "a", ("x", []), at=EPOCH)  # 22:13 UTC
    zone(name)
    [used] = measure_usage(store, by="day")[0].values()
    assert list(used.groups) == [day]
