"""A search in parts of turns finds what is in these parts, and the tables follow their transcripts."""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from acp_proxy.protocol import acp
from acp_proxy.protocol.jsonrpc import Peer
from acp_proxy.redaction.masking import Masking
from acp_proxy.store.layout import Layout
from acp_proxy.tools.maintenance.repair_findings import repair_finding
from acp_proxy.tools.maintenance.verify import verify_store
from acp_proxy.tools.redact.redact_files import redact_stored
from acp_proxy.tools.search import turn_parts
from acp_proxy.tools.search.query import TurnPart
from acp_proxy.tools.search.turn_parts import read_turn_parts
from acp_proxy.views.conversation import read_parts
from acp_proxy.views.passages import CallText, make_passages
from acp_proxy.views.tool_calls import strip_fence
from tests.store import compressible, transcript_lines
from tests.store.concurrent_writers import AGENT
from tests.store.transcript_lines import agent_chunk, answer, note, prompt_line, update
from tests.stored import WholeStore
from tests.tools.search.stored_searches import (
    DELETES,
    SECRET,
    append,
    delete_by_editor,
    find_files_with,
    find_turns,
    list_tables,
    search,
)

FIXTURE = Path(__file__).parents[3] / "fixtures/conversations/login.jsonl"
OUTPUT, REPLIES = (TurnPart.OUTPUT,), (TurnPart.AGENT,)


def text(words: str) -> dict[str, Any]:
    return {"type": "content", "content": {"type": "text", "text": words}}


def begin(**fields: Any) -> bytes:
    return update("tool_call", toolCallId="c", **{"title": "Run", **fields})


def end(*content: object, **fields: Any) -> bytes:
    return update("tool_call_update", toolCallId="c", status="completed", content=list(content), **fields)


def store_output(store: WholeStore, words: str, session: str = transcript_lines.SESSION, agent: str = AGENT) -> None:
    call = [begin(session=session), end(text(words), session=session)]
    transcript_lines.store_lines(store, agent, session, prompt_line("run it", session=session), *call, answer())


# --- what is found


def test_every_line_of_a_long_new_file_is_found_as_what_a_tool_did(store: WholeStore) -> None:
    lines = "def a_function(): pass\n" * 500
    new_file = {"type": "diff", "path": "/a.py", "oldText": None, "newText": f"{lines}needle\n{lines}"}
    edit = [begin(rawInput={"text": f"{lines}pin\n{lines}"}), end(new_file)]
    transcript_lines.store_lines(store, AGENT, transcript_lines.SESSION, prompt_line("x"), *edit, answer())
    for word in ("needle", "pin"):
        assert find_turns(store, word, parts=(TurnPart.TOOLS,)) == [(transcript_lines.SESSION, [1])]


def test_what_a_reply_refers_to_and_what_it_colours_are_found_in_the_reply(store: WholeStore) -> None:
    link = {"type": "resource_link", "uri": "file:///y/report.pdf", "name": "quarterly.pdf"}
    resource = {"type": "resource", "resource": {"uri": "file:///y/table.csv", "text": "1"}}
    said = [
        agent_chunk("see"),
        update("agent_message_chunk", content=link),
        agent_chunk("in \x1b[31mcrim"),
        agent_chunk("son\x1b[0m"),
        update("agent_thought_chunk", content=resource),
    ]
    transcript_lines.store_lines(store, AGENT, transcript_lines.SESSION, prompt_line("x"), *said, answer())
    found = [(transcript_lines.SESSION, [1])]
    for words in ("see quarterly.pdf in", "crimson"):
        assert find_turns(store, words) == find_turns(store, words, parts=REPLIES) == found
    assert find_turns(store, "table.csv") == found


WORDS = {
    "login": TurnPart.USER,
    "notes.txt": TurnPart.USER,
    "cookie": TurnPart.AGENT,
    "make tests": TurnPart.TOOLS,
    "tests verbose": TurnPart.TOOLS,
    "src mend.py": TurnPart.TOOLS,
    "other.py": TurnPart.TOOLS,
    "written line": TurnPart.TOOLS,
    "former line": TurnPart.TOOLS,
    "passed": TurnPart.OUTPUT,
    "xylophone": TurnPart.OUTPUT,
}


@pytest.mark.parametrize(("words", "part"), WORDS.items())
def test_words_are_found_in_their_part_alone(store: WholeStore, words: str, part: TurnPart) -> None:
    link = {"type": "resource_link", "name": "notes.txt", "uri": "file:///n"}
    resource = {"type": "resource", "resource": {"uri": "file:///x.md", "text": "xylophone"}}
    given = {"command": ["make", "tests"], "env": [{"name": "tests", "value": "verbose"}]}
    diff = {"type": "diff", "path": "/p/other.py", "oldText": "same\nformer line", "newText": "same\nwritten line"}
    transcript_lines.store_lines(
        store,
        AGENT,
        transcript_lines.SESSION,
        prompt_line("Mend the login", link),
        agent_chunk("The coo"),
        agent_chunk("kie is old"),
        update("agent_thought_chunk", content={"type": "text", "text": "secretly"}),
        begin(rawInput=given, locations=[{"path": "/p/src/mend.py"}]),
        end(text("3 passed"), diff, {"type": "content", "content": resource}),
        answer(),
    )
    assert [each for each in TurnPart if find_turns(store, words, parts=(each,))] == [part]
    assert find_turns(store, words, parts=tuple(TurnPart)) == [(transcript_lines.SESSION, [1])]
    assert not find_turns(store, "secretly", parts=tuple(TurnPart))
    assert not find_turns(store, "same", parts=tuple(TurnPart))


def test_without_parts_output_and_input_are_neither_found_nor_stored(store: WholeStore, root: Path) -> None:
    transcript_lines.store_lines(
        store, AGENT, transcript_lines.SESSION, prompt_line("x"), begin(rawInput={"command": SECRET}), end(text(SECRET))
    )
    assert find_turns(store, "run") == [(transcript_lines.SESSION, [1])]
    assert not find_turns(store, SECRET)
    assert not any(name.startswith("search/") for name in find_files_with(root))


def test_words_into_a_running_turn_are_the_users(store: WholeStore) -> None:
    params = {"sessionId": transcript_lines.SESSION, "prompt": [{"type": "text", "text": "use a needle"}]}
    steering = transcript_lines.message({"id": 7, "method": acp.STEERING, "params": params}, Peer.CLIENT)
    transcript_lines.store_lines(
        store,
        AGENT,
        transcript_lines.SESSION,
        prompt_line("begin"),
        agent_chunk("I be"),
        steering,
        agent_chunk("gin"),
        answer(),
    )
    assert [each for each in TurnPart if find_turns(store, "needle", parts=(each,))] == [TurnPart.USER]


def test_a_store_without_locks_is_searched_in_memory(
    store: WholeStore, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store_output(store, "needle")
    monkeypatch.setattr(Layout, "can_use_sqlite", False)
    assert find_turns(WholeStore(root), "needle", parts=OUTPUT) == [(transcript_lines.SESSION, [1])]
    assert list_tables(root) == set()


TERMINAL = {"type": "terminal", "terminalId": "t"}
PRINTED = {
    "content": [begin(), end(text("the needle"))],
    "content in a fence": [begin(), end(text("```console\nthe needle\n```"))],
    "colours": [begin(), end(text("the \x1b[1;31mneedle\x1b[0m"))],
    "raw text": [begin(), end(rawOutput="the needle")],
    "raw members": [begin(), end(rawOutput={"exit": 1, "streams": [{"stderr": "no\nthe needle"}]})],
    "the client's terminal": [
        begin(content=[TERMINAL]),
        note("terminal", terminalId="t", output="the needle", exitStatus={"exitCode": 0}),
        update("tool_call_update", toolCallId="c", status="completed"),
    ],
    "the agent's terminal": [
        begin(content=[TERMINAL], _meta={"terminal_info": {"terminal_id": "t"}}),
        update("tool_call_update", toolCallId="c", _meta={"terminal_output": {"terminal_id": "t", "data": "the nee"}}),
        update("tool_call_update", toolCallId="c", _meta={"terminal_output": {"terminal_id": "t", "data": "dle"}}),
        update("tool_call_update", toolCallId="c", status="completed"),
    ],
}


@pytest.mark.parametrize("printed", PRINTED.values(), ids=PRINTED)
def test_what_a_tool_printed_is_found_wherever_agents_state_it(store: WholeStore, printed: list[bytes]) -> None:
    transcript_lines.store_lines(store, AGENT, transcript_lines.SESSION, prompt_line("x"), *printed, answer())
    [hit] = search(store, "the needle", parts=OUTPUT).hits
    assert hit.turns == [1]
    [excerpt] = hit.excerpts
    [(start, end)] = excerpt.marks
    assert (excerpt.text[start:end], "\x1b" in excerpt.text) == ("the needle", False)


def test_what_show_shows_of_tools_is_found(store: WholeStore) -> None:
    id = b"0d1f5a1e-7c0b-4f2e-9a44-5b1f3c8e2a10"
    transcript_lines.store_lines(
        store,
        AGENT,
        transcript_lines.SESSION,
        FIXTURE.read_bytes().partition(b"\n")[2].replace(id, transcript_lines.SESSION.encode()),
    )
    [row] = store.list_all()
    with closing(store.open_listed(row)) as reader:
        passages = make_passages(read_parts(reader, transcript_lines.SESSION), full=True)
        texts = [passage.text for passage in passages if isinstance(passage, CallText) and passage.name != "input"]
    assert texts
    for words in texts:
        assert find_turns(store, strip_fence(words).replace('"', " "), parts=OUTPUT), words


def test_input_that_an_agent_repeats_in_the_raw_output_is_not_output(store: WholeStore) -> None:
    given = {"command": ["/bin/bash", "-lc", "make tests"], "cwd": "/project"}
    call = [begin(rawInput=given), end(rawOutput=given | {"aggregated_output": "3 passed\n"})]
    transcript_lines.store_lines(store, AGENT, transcript_lines.SESSION, prompt_line("x"), *call, answer())
    assert find_turns(store, "make", parts=OUTPUT) == []
    assert find_turns(store, "passed", parts=OUTPUT) == find_turns(store, "make", parts=(TurnPart.TOOLS,))


def test_of_long_output_the_beginning_and_the_end_are_found(store: WholeStore) -> None:
    lines = "a line\n" * 5000
    store_output(store, f"first {lines} middle {lines} last")
    assert find_turns(store, "first last", parts=OUTPUT) == []
    assert find_turns(store, "first", "last", parts=OUTPUT) == [(transcript_lines.SESSION, [1])]
    assert find_turns(store, "middle", parts=OUTPUT) == []


def test_an_excerpt_has_each_part_with_a_word(store: WholeStore) -> None:
    store_output(store, f"{'x' * 300} the needle {'y' * 300}")
    [hit] = search(store, "it", "needle", parts=(TurnPart.USER, TurnPart.OUTPUT)).hits
    [excerpt] = hit.excerpts
    assert excerpt.text.startswith("run it · …")
    assert [excerpt.text[start:end] for start, end in excerpt.marks] == ["it", "needle"]
    assert len(excerpt.text) < 250


def test_the_directory_and_the_time_narrow_a_search_in_parts(store: WholeStore) -> None:
    later = [prompt_line("y", at=3600), begin(), end(text("word again"))]
    transcript_lines.store_lines(
        store, AGENT, transcript_lines.SESSION, prompt_line("x"), begin(), end(text("word")), *later, cwd="/here"
    )
    assert find_turns(store, "word", parts=OUTPUT) == [(transcript_lines.SESSION, [1, 2])]
    assert find_turns(store, "word", parts=OUTPUT, since=transcript_lines.time(1800)) == [
        (transcript_lines.SESSION, [2])
    ]
    assert find_turns(store, "word", parts=OUTPUT, until=transcript_lines.time(1800)) == [
        (transcript_lines.SESSION, [1])
    ]
    assert find_turns(store, "word", parts=OUTPUT, cwd="/here") == [(transcript_lines.SESSION, [1, 2])]
    assert find_turns(store, "word", parts=OUTPUT, cwd="/elsewhere") == []


def test_of_a_session_and_its_copy_one_is_found(store: WholeStore) -> None:
    store_output(store, "the needle")
    store.copy_for_agent(next(store.list_newest()), "other", {})
    assert find_turns(store, "needle", parts=OUTPUT) == [(transcript_lines.SESSION, [1])]


# --- updates


def test_output_that_comes_later_is_found_in_the_turn_that_printed_it(store: WholeStore) -> None:
    transcript_lines.store_lines(store, AGENT, transcript_lines.SESSION, prompt_line("x"), begin())
    assert find_turns(store, "needle", parts=OUTPUT) == []
    append(
        store,
        transcript_lines.SESSION,
        end(text("needle")),
        answer(),
        prompt_line("y", at=60),
        begin(),
        end(text("another needle")),
    )
    assert find_turns(store, "needle", parts=OUTPUT) == [(transcript_lines.SESSION, [1, 2])]
    assert find_turns(store, "another", parts=OUTPUT) == [(transcript_lines.SESSION, [2])]


def test_tables_that_are_up_to_date_are_not_read_again(store: WholeStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store_output(store, f"needle {'x' * 5000}", agent=compressible.AGENT)
    assert find_turns(store, "needle", parts=OUTPUT)
    compressible.compress_now(store)
    assert find_turns(store, "needle", parts=OUTPUT)
    monkeypatch.setattr(turn_parts, "read_turn_parts", None)
    assert find_turns(store, "needle", parts=OUTPUT)


# --- deletes and masks


@pytest.mark.parametrize("delete", DELETES)
def test_deleted_output_is_in_no_file(store: WholeStore, root: Path, delete: Callable[[WholeStore], None]) -> None:
    store_output(store, f"my word is {SECRET}", "s")
    store_output(store, "my word is another", "kept")
    assert len(find_turns(store, "word", parts=OUTPUT)) == 2
    assert any(name.endswith(".parts.sqlite3") for name in find_files_with(root))
    delete(store)
    assert find_files_with(root) == []
    assert find_turns(store, "word", parts=OUTPUT) == [("kept", [1])]
    assert find_files_with(root) == []


@pytest.mark.parametrize("act", ["soft delete", "rename"])
def test_a_soft_delete_and_a_rename_remove_the_table(store: WholeStore, root: Path, act: str) -> None:
    store_output(store, f"my word is {SECRET}")
    assert find_turns(store, "word", parts=OUTPUT)
    [row] = store.list_all()
    if act == "rename":
        store.set_listed_title(row, "Another")
    else:
        store.delete_listed(row, soft=True)
    assert not any(name.startswith("search/") for name in find_files_with(root))
    assert bool(find_turns(store, "word", parts=OUTPUT)) == (act == "rename")


def test_masked_output_is_in_no_file(store: WholeStore, root: Path) -> None:
    key = "sk-ant-api03-" + "Ab1-Cd2_Ef3" * 9 + "AA"
    store_output(store, f"my key is {key}")
    assert find_turns(store, "key", parts=OUTPUT)
    assert any(name.startswith("search/") for name in find_files_with(root, key))
    for path in store.find_redactable(None):
        redact_stored(store, path, Masking(), dry_run=False)
    store.reindex(None)
    assert find_files_with(root, key) == []
    assert find_turns(store, "my key", parts=OUTPUT) == [(transcript_lines.SESSION, [1])]
    assert find_files_with(root, key) == []


def test_output_read_before_a_delete_is_not_written_after_it(
    store: WholeStore, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store_output(store, f"my word is {SECRET}", "s")

    def read_and_delete(*given: Any) -> object:
        addition = read_turn_parts(*given)
        monkeypatch.undo()
        delete_by_editor(WholeStore(root))
        return addition

    monkeypatch.setattr(turn_parts, "read_turn_parts", read_and_delete)
    assert find_turns(store, "word", parts=OUTPUT) == []
    assert find_files_with(root) == []


def test_a_damaged_table_is_reported_and_made_anew(store: WholeStore, root: Path) -> None:
    store_output(store, "needle")
    assert find_turns(store, "needle", parts=OUTPUT)
    assert list(verify_store(store)) == []
    paths = sorted(store.root.glob("search/*.parts.sqlite3"))
    assert len(paths) == len(list_tables(root)) == 16
    for path in paths:
        path.write_bytes(b"no database" * 100)
    findings = list(verify_store(store))
    assert sorted(finding.path for finding in findings) == paths
    for finding in findings:
        repair_finding(store, finding)
    assert find_turns(store, "needle", parts=OUTPUT)
    assert list(verify_store(store)) == []
