"""Long histories are replayed from the disk as fast as the editor reads, with other sessions in between."""

import json
from typing import Any

import psutil

from acp_proxy.protocol.jsonrpc import Peer
from acp_proxy.transcript import file_format
from acp_proxy.transcript.appender import TranscriptAppender
from acp_proxy.transcript_replay.replayer import FOLDED_PAGE
from tests.client import prompt_params
from tests.end_to_end.proxied import CANCELLED, Editor, Proxied, Updates, texts

UPDATES = 100_000
SOME = 10_000  # 3.5 MB: far more than a pipe of half a megabyte and a read of the client hold
TEXT = 160  # characters of each update; with its envelope, about 400 bytes in the transcript
GROWTH = 15 * 1024 * 1024  # bytes: room for Python, but far less than the 40 MB of the transcript
FULL = ["--replay", "full"]  # so that the replay is as long as the recording
ANSWER = b'{"jsonrpc":"2.0","id":7,"result":{"stopReason":"end_turn"}}'
STRAYS: dict[str, Any] = {
    "methods": {
        "_heard": {"before": [{"stderr": "heard"}]},
        "session/resume": {"after": [{"line": "{session}"}]},
    }
}
"""A message that appears on stderr once everything before it was read: by the agent, and by the proxy."""


def record_long_session(proxied: Proxied, count: int) -> str:
    """A recorded session with one more turn: a prompt, and so many numbered updates."""
    session = proxied.recorded("the first words")
    at, run = "2026-11-20T09:15:02.123Z", "longer"
    asked = {
        "jsonrpc": "2.0",
        "id": 7,
        "method": "session/prompt",
        "params": prompt_params(session, "the longest answer"),
    }
    said = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "TEXT"}}
    update = {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": session, "update": said}}
    before, after = json.dumps(update, separators=(",", ":")).split("TEXT")
    lines = "".join(f"{before}{numbered(number)}{after}\n" for number in range(count)).encode()
    transcript = TranscriptAppender(proxied.transcript(session))
    transcript.append(file_format.encode_message(at, run, Peer.CLIENT, json.dumps(asked).encode()))
    transcript.append(b"".join(file_format.encode_update_parts(at, run, lines)))
    transcript.append(file_format.encode_message(at, run, Peer.AGENT, ANSWER, "session/prompt"))
    transcript.close()
    return session


def numbered(number: int) -> str:
    return f"{number} ".ljust(TEXT, ".")


def numbers(updates: Updates) -> list[int]:
    """The numbers in the updates of the long turn."""
    return [int(text.split()[0]) for text in texts(updates) if text.endswith("....") and len(text) == TEXT]


def memory(editor: Editor) -> int:
    """The memory of the proxy's process in bytes."""
    return int(psutil.Process(editor.pid).memory_info().rss)


def start_slow_load(editor: Editor, session: str, at: str = "the first words") -> int:
    """Start a load, and stop reading at this text; the proxy cannot send far ahead of that."""
    editor.pause(at)
    pending = editor.start_load(session)
    editor.wait_for_text(at)
    return pending


def wait_until_heard(editor: Editor) -> None:
    """Wait until the proxy has read everything sent; the editor need not read."""
    editor.start_request("_heard")
    editor.wait_for_stderr("heard")


def test_100_000_updates_are_replayed_in_order_while_another_session_continues(proxied: Proxied) -> None:
    session = record_long_session(proxied, UPDATES)
    assert proxied.transcript(session).stat().st_size > 36_000_000
    editor = proxied.start(options=FULL)
    other = editor.new_session()
    editor.prompt(other, "before")
    before, since = memory(editor), editor.count_lines()

    pending = start_slow_load(editor, session)
    meanwhile, turn = editor.count_lines(), editor.start_prompt(other, "meanwhile")
    assert editor.answers_to(pending) == []
    assert len(editor.list_updates(session, since)) < UPDATES // 10  # a read is at most a megabyte
    assert memory(editor) - before < GROWTH
    editor.resume()

    assert editor.wait_for_result(turn) == {"stopReason": "end_turn"}
    assert memory(editor) - before < GROWTH
    loaded = editor.loaded(session, pending, since)
    assert loaded.answer["result"] == {}
    assert numbers(loaded.updates) == list(range(UPDATES))
    assert texts(loaded.updates, "user_message_chunk") == ["the first words", "the longest answer"]
    assert editor.find_answer(turn) < editor.find_answer(pending)
    live = editor.list_updates(other, meanwhile, editor.find_answer(turn))
    assert "I remember 1 earlier prompt; the first was: before" in texts(live)
    assert memory(editor) - before < GROWTH


def test_a_turn_is_folded_in_pieces_so_that_memory_is_bounded(proxied: Proxied) -> None:
    session = record_long_session(proxied, UPDATES // 2)
    assert proxied.transcript(session).stat().st_size > FOLDED_PAGE
    with proxied.start() as editor:
        said = texts(editor.load(session).updates)
    pieces = [text for text in said if text.startswith(tuple("0123456789"))]
    assert "".join(pieces) == "".join(map(numbered, range(UPDATES // 2)))
    assert len(pieces) == 2


def test_two_long_sessions_are_replayed_concurrently(proxied: Proxied) -> None:
    sessions = [record_long_session(proxied, SOME) for _ in range(2)]
    editor = proxied.start(STRAYS, options=FULL)
    since = editor.count_lines()
    pending = [start_slow_load(editor, sessions[0]), editor.start_load(sessions[1])]
    editor.wait_for_stderr(sessions[1])
    editor.resume()
    loads = [editor.loaded(session, number, since) for session, number in zip(sessions, pending, strict=True)]
    for loaded in loads:
        assert loaded.answer["result"] == {}
        assert numbers(loaded.updates) == list(range(SOME))
    ends = [editor.find_answer(number) for number in pending]
    for session, end in zip(sessions, reversed(ends), strict=True):
        assert numbers(editor.list_updates(session, since, end)), "one waited for the other's end"


def test_a_cancel_ends_a_replay(proxied: Proxied) -> None:
    session = record_long_session(proxied, SOME)
    editor = proxied.start(STRAYS, options=FULL)
    since = editor.count_lines()
    pending = start_slow_load(editor, session, at=numbered(0))
    editor.notify("$/cancel_request", {"requestId": pending})
    wait_until_heard(editor)
    editor.resume()
    loaded = editor.loaded(session, pending, since)
    assert loaded.answer["error"]["code"] == CANCELLED
    told = numbers(loaded.updates)
    assert told == list(range(len(told)))
    assert 0 < len(told) < SOME
    assert len(editor.sessions()) == 1
    assert editor.list_updates(session, editor.find_answer(pending)) == []
    assert len(editor.answers_to(pending)) == 1

    # The agent has the session open: it continues, and can be replayed from the beginning.
    live = editor.prompt(session, "and now?")
    assert "I remember 1 earlier prompt; the first was: the first words" in texts(live)
    again = editor.load(session)
    assert numbers(again.updates) == list(range(SOME))
    assert texts(again.updates, "user_message_chunk")[-1] == "and now?"


def test_killing_the_editor_during_a_replay_keeps_the_transcript_whole(proxied: Proxied) -> None:
    session = record_long_session(proxied, SOME)
    with proxied.start(options=FULL) as editor:
        start_slow_load(editor, session)
        editor.kill()
    assert numbers(proxied.start(options=FULL).load(session).updates) == list(range(SOME))
