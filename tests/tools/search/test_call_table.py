"""The tables of tool calls follow their transcripts, and are removed with what they contain."""

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from acp_proxy.protocol.jsonrpc import Peer
from acp_proxy.store.layout import Layout
from acp_proxy.tools.maintenance.verify import verify_store
from acp_proxy.tools.search.call_search import CallQuery, search_calls
from acp_proxy.tools.search.search import SearchRequest
from acp_proxy.transcript.file_names import file_name
from tests.store import transcript_lines
from tests.store.concurrent_writers import AGENT
from tests.store.transcript_lines import prompt_line
from tests.stored import WholeStore
from tests.tools.search.stored_searches import SECRET, append, find_files_with, list_tables, search


def begin(id: str, command: str) -> bytes:
    call = {"sessionUpdate": "tool_call", "toolCallId": id, "kind": "execute", "rawInput": {"command": command}}
    params = {"sessionId": transcript_lines.SESSION, "update": call}
    return transcript_lines.message({"method": "session/update", "params": params}, Peer.AGENT)


def end(id: str, status: str = "completed") -> bytes:
    output = [{"type": "content", "content": {"type": "text", "text": "the output"}}]
    return transcript_lines.update("tool_call_update", toolCallId=id, status=status, content=output)


def find(store: WholeStore, **wanted: object) -> list[tuple[str, list[int], list[str]]]:
    """The sessions with their turns and the calls' results."""
    query = CallQuery(**wanted)  # type: ignore[arg-type]
    result, calls = search_calls(store, SearchRequest("", store.list_agents()), query)
    return [
        (
            hit.row.session_id,
            hit.turns,
            [call.result for _, each in calls[hit.row.agent_folder, hit.row.name].values() for call in each],
        )
        for hit in result.hits
    ]


def test_a_call_that_ends_in_a_later_turn_has_its_result_in_its_own(store: WholeStore) -> None:
    transcript_lines.store_lines(store, AGENT, transcript_lines.SESSION, prompt_line("first"), begin("c", "make"))
    assert find(store, command="make") == [(transcript_lines.SESSION, [1], ["unfinished"])]
    append(store, transcript_lines.SESSION, prompt_line("second", at=60), end("c", "failed"))
    assert find(store, command="make") == [(transcript_lines.SESSION, [1], ["failed"])]


def test_a_call_has_the_turn_of_its_window_while_another_one_prompts(store: WholeStore) -> None:
    prompts = [prompt_line(run, run=run) for run in ("run001", "run002")]
    answers = [transcript_lines.answer(run=run) for run in ("run001", "run002")]
    transcript_lines.store_lines(
        store, AGENT, transcript_lines.SESSION, *prompts, begin("c", "make"), end("c"), *answers
    )
    assert find(store, command="make") == [(transcript_lines.SESSION, [1], ["completed"])]


def test_the_tables_have_no_output(store: WholeStore, root: Path) -> None:
    transcript_lines.store_lines(
        store, AGENT, transcript_lines.SESSION, prompt_line("first"), begin("c", f"make {SECRET}"), end("c")
    )
    assert find(store, command="make")
    assert any(".calls." in name for name in find_files_with(root, SECRET))
    assert not any(name.startswith("search/") for name in find_files_with(root, "the output"))


def test_a_delete_removes_the_calls_and_the_next_search_finds_the_others(store: WholeStore, root: Path) -> None:
    transcript_lines.store_lines(
        store, AGENT, transcript_lines.SESSION, prompt_line("first"), begin("c", f"make {SECRET}"), end("c")
    )
    transcript_lines.store_lines(
        store, AGENT, "other", prompt_line("x", session="other"), begin("c", "make all"), end("c")
    )
    assert len(find(store, command="make")) == 2
    store.delete(AGENT, transcript_lines.SESSION, soft=False)
    assert not any(name.startswith("search/") for name in find_files_with(root))
    assert [session for session, *_ in find(store, command="make")] == ["other"]


@pytest.mark.parametrize(
    "has_index",
    [True, pytest.param(False, marks=pytest.mark.skipif(sys.platform == "win32", reason="the index is open there"))],
)
def test_a_search_for_words_removes_the_calls_of_a_transcript_that_was_removed_by_hand(
    store: WholeStore, root: Path, has_index: bool
) -> None:
    transcript_lines.store_lines(
        store, AGENT, transcript_lines.SESSION, prompt_line("word"), begin("c", f"make {SECRET}"), end("c")
    )
    assert find(store, command="make")
    assert search(store, "word").hits
    Layout(root).transcript_path(AGENT, file_name(transcript_lines.SESSION)).unlink()
    if not has_index:  # then only the tables know that it was there
        Layout(root).remove_index()
        shutil.rmtree(root / "unindexed")
    assert not search(WholeStore(root), "word").hits
    assert find_files_with(root) == []


def test_words_and_calls_have_tables_of_their_own(store: WholeStore, root: Path) -> None:
    transcript_lines.store_lines(
        store, AGENT, transcript_lines.SESSION, prompt_line("word"), begin("c", "make"), end("c")
    )
    assert search(store, "word").hits
    words = list_tables(root)
    assert find(store, command="make")
    assert list_tables(root) > words
    assert search(store, "word").hits
    assert list(verify_store(store)) == []


def test_a_damaged_table_is_reported_and_made_anew(store: WholeStore, root: Path) -> None:
    transcript_lines.store_lines(
        store, AGENT, transcript_lines.SESSION, prompt_line("word"), begin("c", "make"), end("c")
    )
    assert find(store, command="make")
    damaged = list(iterate_call_tables(store.root))
    for path in damaged:
        path.write_bytes(b"no database" * 100)
    assert {finding.path for finding in verify_store(store)} == set(damaged)
    assert find(store, command="make")
    assert list(verify_store(store)) == []


def iterate_call_tables(root: Path) -> Iterator[Path]:
    return root.glob("search/*.calls.sqlite3")
