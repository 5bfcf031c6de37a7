"""A transcript as turns, messages and calls: whole, or in pieces with bounded memory."""

import json
import tracemalloc
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from acp_proxy.errors import NewerFormat
from acp_proxy.protocol import jsonrpc
from acp_proxy.protocol.jsonrpc import Peer
from acp_proxy.store.proxy_store import ProxyStore
from acp_proxy.transcript import file_format
from acp_proxy.transcript.file_format import NoteType
from acp_proxy.transcript.reader import TranscriptReader
from acp_proxy.views import conversation
from acp_proxy.views.conversation import ConversationTurn, Note, OtherUpdate, Plan, SpokenMessage, ToolCall, TurnBegin
from tests.store import transcript_lines
from tests.stored import EPOCH, chunk, message, store_session

FIXTURES = Path(__file__).parents[2] / "fixtures"
STAMP = "2023-11-14T22:13:20.000Z"


def turns_of(tmp_path: Path, *turns: tuple[str, list[dict[str, Any]]], **options: Any) -> list[ConversationTurn]:
    store = ProxyStore(tmp_path / "store")
    store_session(store, "s", *turns, **options)
    return read(store)


def read(store: ProxyStore) -> list[ConversationTurn]:
    reader = store.open_reader(store.list_agents()[0], "s")
    try:
        return list(conversation.read_turns(reader, "s"))
    finally:
        reader.close()


def read_message(item: conversation.Item) -> tuple[str, str]:
    assert isinstance(item, SpokenMessage)
    return item.speaker, "".join(map(conversation.read_words, item.blocks))


def tool(id: str, name: str = "tool_call", /, **fields: Any) -> dict[str, Any]:
    return {"sessionUpdate": name, "toolCallId": id, **fields}


def test_the_answers_of_two_windows_at_once_are_not_mixed(tmp_path: Path) -> None:
    store = ProxyStore(tmp_path / "store")
    lines = [
        *(transcript_lines.prompt_line(run, run=run) for run in ("run001", "run002")),
        *(transcript_lines.agent_chunk(f" {run} {n}", run=run) for n in range(3) for run in ("run001", "run002")),
        *(transcript_lines.answer(run=run) for run in ("run002", "run001")),
    ]
    transcript_lines.store_lines(store, "agent", transcript_lines.SESSION, *lines)
    reader = store.open_reader("agent", transcript_lines.SESSION)
    for items in (
        [item for turn in conversation.read_turns(reader, transcript_lines.SESSION) for item in turn.items],
        conversation.read_parts(reader, transcript_lines.SESSION),
    ):
        words = "".join(read_message(item)[1] for item in items if isinstance(item, SpokenMessage))
        assert words == "run001 run001 0 run001 1 run001 2run002 run002 0 run002 1 run002 2"
    reader.close()


def test_a_turn_before_a_queued_prompt_has_its_answer_and_its_end(tmp_path: Path) -> None:
    store = ProxyStore(tmp_path / "store")
    lines = [
        *(transcript_lines.prompt_line(f"ask {number}", id=number) for number in (1, 2)),
        *(line for n in (1, 2) for line in (transcript_lines.agent_chunk(f"say {n}"), transcript_lines.answer(id=n))),
    ]
    transcript_lines.store_lines(store, "agent", transcript_lines.SESSION, *lines)
    with closing(store.open_reader("agent", transcript_lines.SESSION)) as reader:
        turns = list(conversation.read_turns(reader, transcript_lines.SESSION))
    assert [[read_message(item) for item in turn.items] for turn in turns] == [
        [("user", f"ask {number}"), ("agent", f"say {number}")] for number in (1, 2)
    ]
    assert [turn.stop_reason for turn in turns] == ["end_turn", "end_turn"]


def test_the_end_and_the_handover_of_a_turn_stand_at_it_whatever_another_window_did(tmp_path: Path) -> None:
    store = ProxyStore(tmp_path / "store")
    lines = [
        transcript_lines.prompt_line("one", run="run001"),
        transcript_lines.prompt_line("two", run="run002"),
        transcript_lines.answer(run="run002"),
        transcript_lines.note(NoteType.HANDOVER, to="new", run="run001"),
        transcript_lines.note(NoteType.FAILED, method="session/prompt", message="agent exited", run="run001"),
    ]
    transcript_lines.store_lines(store, "agent", transcript_lines.SESSION, *lines)
    reader = store.open_reader("agent", transcript_lines.SESSION)
    first, second = conversation.read_turns(reader, transcript_lines.SESSION)
    reader.close()
    assert (first.error, first.stop_reason) == ("agent exited", None)
    assert (second.error, second.stop_reason) == (None, "end_turn")
    assert [isinstance(turn.items[0], Note) for turn in (first, second)] == [True, False]


def test_a_turn_has_each_message_once_and_in_order(tmp_path: Path) -> None:
    [turn] = turns_of(
        tmp_path,
        (
            "Fix the login",
            [chunk("hm", "agent_thought_chunk"), chunk("Look"), chunk("ing."), tool("1", title="read"), chunk("Done.")],
        ),
    )
    assert (turn.number, turn.started_at, turn.stop_reason, turn.error) == (1, STAMP, "end_turn", None)
    assert [read_message(item) for item in turn.items if isinstance(item, SpokenMessage)] == [
        ("user", "Fix the login"),
        ("thought", "hm"),
        ("agent", "Looking."),
        ("agent", "Done."),
    ]
    assert isinstance(turn.items[3], ToolCall)


def test_a_tool_call_is_one_item_with_its_last_values(tmp_path: Path) -> None:
    diff = {"type": "diff", "path": "/a", "oldText": "x", "newText": "y"}
    done = tool("1", "tool_call_update", status="completed", content=[diff])
    [turn] = turns_of(tmp_path, ("go", [tool("1", title="Edit a", kind="edit", status="pending"), done]))
    assert turn.items[1:] == [
        ToolCall("1", {"title": "Edit a", "kind": "edit", "status": "completed", "content": [diff]}, is_new=True)
    ]


def test_a_call_changed_in_a_later_turn_appears_there_with_its_changes(tmp_path: Path) -> None:
    first, second = turns_of(
        tmp_path,
        ("one", [tool("1", title="Build", status="completed")]),
        ("two", [tool("1", "tool_call_update", title="Build again")]),
    )
    assert isinstance(first.items[1], ToolCall)
    assert second.items[1:] == [ToolCall("1", {"title": "Build again"}, is_new=False)]


def test_calls_of_an_unanswered_turn_keep_their_status(tmp_path: Path) -> None:
    store = ProxyStore(tmp_path / "store")
    path = store_session(store, "s")
    params: dict[str, Any] = {"sessionId": "s", "prompt": [{"type": "text", "text": "go"}]}
    running = {"sessionId": "s", "update": tool("1", title="Build", status="in_progress")}
    with path.open("ab") as file:
        file.write(message(STAMP, Peer.CLIENT, {"id": 1, "method": "session/prompt", "params": params}))
        file.write(message(STAMP, Peer.AGENT, {"method": "session/update", "params": running}))
    [turn] = read(store)
    assert (turn.stop_reason, turn.error) == (None, None)
    assert turn.items[1:] == [ToolCall("1", {"title": "Build", "status": "in_progress"}, is_new=True)]


def test_a_failed_prompt_has_its_error(tmp_path: Path) -> None:
    [turn] = turns_of(tmp_path, ("go", []), error={"code": -32000, "message": "Authentication required"})
    assert (turn.stop_reason, turn.error) == (None, "Authentication required")
    error = {"code": -32603, "message": "Internal error", "data": {"details": "Credit balance is too low"}}
    [turn] = turns_of(tmp_path / "data", ("go", []), error=error)
    assert turn.error == "Internal error: Credit balance is too low"


def test_a_gap_follows_its_turn_and_a_handover_begins_it(tmp_path: Path) -> None:
    notes = [{"type": "gap", "since": STAMP, "reason": "ENOSPC"}, {"type": "handover", "to": "t"}]
    before, turn = turns_of(tmp_path, ("go", [chunk("ok")]), ("on", [chunk("ok")]), notes=notes)
    assert len(before.items) == 2
    assert turn.items[0] == Note(NoteType.HANDOVER, "t")
    assert turn.items[3:] == [Note(NoteType.GAP, "ENOSPC")]


def test_an_imported_conversation_is_divided_into_turns(tmp_path: Path) -> None:
    store = ProxyStore(tmp_path / "store")
    path = store_session(store, "s", origin=file_format.IMPORTED)
    history = [chunk("one", "user_message_chunk"), chunk("1"), chunk("two", "user_message_chunk"), chunk("2")]
    with path.open("ab") as file:
        for update in history:
            value = {"method": "session/update", "params": {"sessionId": "s", "update": update}}
            file.write(message(STAMP, Peer.AGENT, value))
        prompt = {"sessionId": "s", "prompt": [{"type": "text", "text": "three"}]}
        file.write(message(STAMP, Peer.CLIENT, {"id": 1, "method": "session/prompt", "params": prompt}))
    turns = read(store)
    with closing(store.open_reader(store.list_agents()[0], "s")) as reader:
        assert [number for number, _ in conversation.number_turns(reader.read_lines())] == [1, 1, 2, 2, 3]
    assert [turn.number for turn in turns] == [1, 2, 3]
    assert [[read_message(item) for item in turn.items] for turn in turns] == [
        [("user", "one"), ("agent", "1")],
        [("user", "two"), ("agent", "2")],
        [("user", "three")],
    ]


@pytest.mark.parametrize("path", sorted(FIXTURES.rglob("*.jsonl")), ids=lambda path: path.stem)
def test_lines_have_the_turns_of_the_conversation(path: Path) -> None:
    try:
        reader = TranscriptReader(path)
    except NewerFormat:
        return
    with closing(reader):
        header = reader.header or reader.rebuild_header()
        begun = list(conversation.read_turns(reader, header.session_id)) if header is not None else []
        numbers = dict.fromkeys(number for number, _ in conversation.number_turns(reader.read_lines()))
        assert [number for number in numbers if number] == [turn.number for turn in begun]


def test_a_user_message_within_a_turn_stays_in_it(tmp_path: Path) -> None:
    [turn] = turns_of(tmp_path, ("go", [chunk("ok"), chunk("and this", "user_message_chunk"), chunk("fine")]))
    assert [read_message(item)[1] for item in turn.items] == ["go", "ok", "and this", "fine"]


def test_the_output_of_the_agents_own_terminals_is_content_of_the_call(tmp_path: Path) -> None:
    shown = [{"type": "terminal", "terminalId": "1"}, {"type": "content", "content": {"type": "text", "text": "x"}}]
    meta: list[dict[str, Any]] = [{"terminal_info": {"cwd": "/"}}, {"terminal_output": {"data": "a"}}]
    calls = [
        tool("1", title="Run", content=shown, _meta=meta[0]),
        tool("1", "tool_call_update", _meta=meta[1]),
        tool("1", "tool_call_update", _meta={"terminal_output_delta": {"data": "b"}}),
        tool("1", "tool_call_update", status="completed", _meta={"terminal_exit": {"exit_code": 0}}),
        tool("2", title="Other", status="completed", content=shown, _meta=meta[0]),
    ]
    [turn] = turns_of(tmp_path, ("go", [*calls, chunk("ok")]))
    run, other = (item for item in turn.items if isinstance(item, ToolCall))
    assert run.fields["content"] == [{"type": "content", "content": {"type": "text", "text": "ab"}}, shown[1]]
    assert (run.fields["title"], run.fields["status"], run.is_new) == ("Run", "completed", True)
    assert other.fields["content"] == shown


def test_updates_of_optional_kinds_are_included(tmp_path: Path) -> None:
    compacted = {"sessionUpdate": "compaction_update", "compactionId": "c", "status": "completed"}
    [turn] = turns_of(tmp_path, ("go", [compacted, chunk("ok")]))
    assert turn.items[1] == OtherUpdate(
        {"sessionUpdate": "compaction_update", "compactionId": "c", "status": "completed"}
    )


def test_two_prompts_sent_at_once_have_a_turn_each(tmp_path: Path) -> None:
    store = ProxyStore(tmp_path / "store")
    path = store_session(store, "s")
    with path.open("ab") as file:
        for number, words in enumerate(("one", "two")):
            params = {"sessionId": "s", "prompt": [{"type": "text", "text": words}]}
            file.write(message(STAMP, Peer.CLIENT, {"id": number, "method": "session/prompt", "params": params}))
    assert [[read_message(item) for item in turn.items] for turn in read(store)] == [
        [("user", "one")],
        [("user", "two")],
    ]


def test_plans_and_unknown_updates_are_kept_whole(tmp_path: Path) -> None:
    plan = {"sessionUpdate": "plan", "entries": [{"content": "look", "status": "completed", "priority": "high"}]}
    new = {"sessionUpdate": "new_kind", "before": 10}
    [turn] = turns_of(tmp_path, ("go", [plan, new]))
    assert set(map(json.dumps, (_plain(item) for item in turn.items[1:]))) == {
        json.dumps(plan["entries"]),
        json.dumps(new),
    }


def _plain(item: conversation.Item) -> object:
    assert isinstance(item, Plan | OtherUpdate)
    return item.entries if isinstance(item, Plan) else dict(item.update)


def test_a_long_streamed_answer_is_one_message(tmp_path: Path) -> None:
    [turn] = turns_of(tmp_path, ("go", [chunk(f"{number} ") for number in range(3000)]))
    assert [read_message(item)[1] for item in turn.items] == ["go", "".join(f"{number} " for number in range(3000))]


def test_words_name_content_that_is_not_text() -> None:
    blocks: list[Mapping[str, object]] = [
        {"type": "text", "text": "see"},
        {"type": "image", "mimeType": "image/png", "data": "AA=="},
        {"type": "resource_link", "name": "a.py", "uri": "file:///a.py"},
        {"type": "resource", "resource": {"uri": "file:///b.py", "text": "x"}},
        {"type": "audio"},
    ]
    assert list(map(conversation.read_words, blocks)) == [
        "see",
        "[image: image/png]",
        "[resource_link: a.py]",
        "[resource: file:///b.py]",
        "[audio]",
    ]


def test_the_stamp_equals_that_of_stored_sessions() -> None:
    from acp_proxy.protocol import timestamps

    assert timestamps.format_now(EPOCH) == STAMP


MEGABYTE = 1024 * 1024


def test_a_long_turn_is_read_in_pieces_of_a_few_megabytes(tmp_path: Path) -> None:
    store = ProxyStore(tmp_path / "store")
    calls = [tool(str(number), title=f"read {number}", rawOutput="x" * MEGABYTE) for number in range(40)]
    later = [tool("0", "tool_call_update", status="completed")]
    store_session(store, "s", ("go", [*calls, *later, chunk("Done.")]))
    reader = store.open_reader(store.list_agents()[0], "s")
    size, parts = reader.size, conversation.read_parts(reader, "s")
    assert next(parts) == TurnBegin(1, STAMP, True)
    assert isinstance(next(parts), SpokenMessage)
    assert isinstance(next(parts), ToolCall)
    tracemalloc.start()
    rest = [(part.id, part.is_new, part.fields.get("status")) for part in parts if isinstance(part, ToolCall)]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    reader.close()
    assert rest == [*((str(number), True, None) for number in range(1, 40)), ("0", False, "completed")]
    assert peak < 30 * MEGABYTE < size


def test_pieces_and_whole_turns_have_the_same_messages(tmp_path: Path) -> None:
    store = ProxyStore(tmp_path / "store")
    streamed = [chunk("word " * 2000) for _ in range(1000)]
    store_session(store, "s", ("one", [*streamed, tool("1", title="Build"), chunk("ok")]), ("two", streamed[:2]))
    whole = [read_message(item) for turn in read(store) for item in turn.items if isinstance(item, SpokenMessage)]
    reader = store.open_reader(store.list_agents()[0], "s")
    pieces: list[tuple[str, str]] = []
    for part in conversation.read_parts(reader, "s"):
        if isinstance(part, SpokenMessage):
            speaker, words = read_message(part)
            if pieces and speaker == pieces[-1][0]:
                words = pieces.pop()[1] + words
            pieces.append((speaker, words))
        elif isinstance(part, ToolCall):
            pieces.append(("", ""))
    reader.close()
    assert [piece for piece in pieces if piece[0]] == whole


def test_a_fork_with_a_damaged_header_begins_with_its_parents_messages(tmp_path: Path) -> None:
    store = ProxyStore(tmp_path / "store")
    store_session(store, "parent", ("one", [chunk("1")]))
    agent = store.list_agents()[0]
    store.open_to_append(
        agent, file_format.Header("s", "/project", file_format.RECORDED, STAMP), is_new=False, parent_id="parent"
    ).close()
    [path] = (store.root / "transcripts" / agent).glob("s-*.jsonl")
    path.write_bytes(path.read_bytes().replace(b'{"acp-transcript":1', b'{"acp-transcri', 1))
    [turn] = read(store)
    assert [read_message(item) for item in turn.items] == [("user", "one"), ("agent", "1")]


def test_a_turn_knows_when_it_ended_and_the_model_it_began_with(tmp_path: Path) -> None:
    options = {"configOptions": [{"id": "model", "currentValue": "small", "options": []}]}
    changed = {"sessionUpdate": "config_option_update", **options}
    [one, two] = turns_of(tmp_path, ("one", [changed]), ("two", []), error={"code": 1, "message": "no"})
    assert (one.model, two.model) == (None, "small")
    assert (one.ended_at, two.ended_at) == (STAMP, STAMP)


def test_the_model_that_the_agent_says_it_used_counts_before_the_chosen_one(tmp_path: Path) -> None:
    chosen = {"configOptions": [{"id": "model", "currentValue": "default", "options": []}]}
    store = ProxyStore(tmp_path / "store")
    path = store_session(store, "s", ("one", [{"sessionUpdate": "config_option_update", **chosen}]), ("two", []))
    used = [{"model": "little", "token_count": {"input": 3}}, {"model": "opus", "token_count": {"input": 5, "x": "no"}}]
    lines = path.read_bytes().splitlines(keepends=True)
    answer = b'"end_turn"'
    lines[-1] = lines[-1].replace(answer, answer + b',"_meta":{"quota":' + jsonrpc.dump({"model_usage": used}) + b"}")
    path.write_bytes(b"".join(lines))
    assert [turn.model for turn in read(store)] == [None, "opus"]
