"""Entries of a transcript, as the recorder writes them, and their replay.

told = tell(prompt_entry("hello"), chunk("Hel"), chunk("lo"), answer())
assert told[1] == message_chunk("Hello")
"""

import json
from collections.abc import Iterable
from typing import Any

from acp_proxy.protocol.jsonrpc import Peer
from acp_proxy.transcript import file_format
from acp_proxy.transcript.file_format import Entry
from acp_proxy.transcript_replay.handover_record import TEXT_LIMIT, HandoverRecord
from acp_proxy.transcript_replay.replayer import TOOL_LIMIT, Mode, Replayer

AT = "2026-11-20T09:15:02.123Z"
SESSION, RUN = "s", "k3f9a1"
AGENT, THOUGHT, USER = "agent_message_chunk", "agent_thought_chunk", "user_message_chunk"

Value = dict[str, Any]


def text(words: str, **more: object) -> Value:
    return {"type": "text", "text": words, **more}


IMAGE = {"type": "image", "data": "aGk=", "mimeType": "image/png"}


def message_entry(
    message: object, peer: Peer = Peer.AGENT, of: str | None = None, run: str = RUN, *, plain: bool = True
) -> Entry:
    raw = message if isinstance(message, bytes) else json.dumps(message, separators=(",", ":")).encode()
    entry = file_format.decode_entry(file_format.encode_message(AT, run, peer, raw, of, is_plain=plain))
    assert entry is not None
    return entry


def noted(note: Value, run: str = RUN) -> Entry:
    entry = file_format.decode_entry(file_format.encode_note(AT, run, note))
    assert entry is not None
    return entry


def prompt_entry(*blocks: object, id: object = 1, run: str = RUN) -> Entry:
    told = [text(block) if isinstance(block, str) else block for block in blocks]
    params = {"sessionId": SESSION, "prompt": told}
    return message_entry(
        {"jsonrpc": "2.0", "id": id, "method": "session/prompt", "params": params}, Peer.CLIENT, run=run
    )


def answer(id: object = 1, run: str = RUN) -> Entry:
    return message_entry(
        {"jsonrpc": "2.0", "id": id, "result": {"stopReason": "end_turn"}}, of="session/prompt", run=run
    )


def crashed(run: str = RUN) -> Entry:
    return noted({"type": "failed", "method": "session/prompt", "message": "agent ended by SIGKILL"}, run)


def notification(value: object, session: str = SESSION, **around: object) -> Value:
    return {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": session, "update": value, **around}}


def update(kind: str, run: str = RUN, /, **members: object) -> Entry:
    return message_entry(notification({"sessionUpdate": kind, **members}), run=run)


def chunk(words: str, kind: str = AGENT, **more: object) -> Entry:
    return update(kind, content=text(words), **more)


def call(id: str, run: str = RUN, /, **fields: object) -> Entry:
    return update("tool_call", run, toolCallId=id, **{"title": f"Call {id}", **fields})


def changed(id: str, run: str = RUN, /, **fields: object) -> Entry:
    return update("tool_call_update", run, toolCallId=id, **fields)


def permission(id: str, run: str = RUN, /, **fields: object) -> Entry:
    params = {"sessionId": SESSION, "toolCall": {"toolCallId": id, **fields}, "options": []}
    return message_entry({"jsonrpc": "2.0", "id": 0, "method": "session/request_permission", "params": params}, run=run)


def plan(*steps: str) -> Entry:
    return update("plan", entries=[{"content": step, "priority": "low", "status": "pending"} for step in steps])


def terminal(id: str, output: str | None, run: str = RUN, **more: object) -> Entry:
    return noted({"type": "terminal", "terminalId": id, "output": output, "truncated": False, **more}, run)


def shows(id: str) -> Value:
    return {"type": "terminal", "terminalId": id}


def content(words: str) -> Value:
    return {"type": "content", "content": text(words)}


def lines_of(
    *entries: Entry,
    mode: Mode = "compact",
    run: str = "a later one",
    tool_limit: int = TOOL_LIMIT,
    other_ids: frozenset[str] = frozenset(),
    is_in_use_elsewhere: bool = False,
    client_shows_agent_terminals: bool = True,
) -> list[bytes]:
    replayer = Replayer(
        SESSION,
        run_id=run,
        is_in_use_elsewhere=is_in_use_elsewhere,
        mode=mode,
        tool_limit=tool_limit,
        other_ids=other_ids,
        client_shows_agent_terminals=client_shows_agent_terminals,
    )
    told = [line for number, entry in enumerate(entries, 1) for line in replayer.add(number, entry)]
    return told + replayer.end()


def updates_in(lines: list[bytes]) -> list[Value]:
    messages = [json.loads(line) for line in lines]
    assert all(message["method"] == "session/update" for message in messages)
    assert all(message["params"]["sessionId"] == SESSION for message in messages)
    return [message["params"]["update"] for message in messages]


def tell(
    *entries: Entry, mode: Mode = "compact", run: str = "a later one", tool_limit: int = TOOL_LIMIT
) -> list[Value]:
    return updates_in(lines_of(*entries, mode=mode, run=run, tool_limit=tool_limit))


def message_chunk(words: str, kind: str = AGENT, **more: object) -> Value:
    return {"sessionUpdate": kind, "content": text(words), **more}


def started(id: str, /, **fields: object) -> Value:
    return {"sessionUpdate": "tool_call", "toolCallId": id, "title": f"Call {id}", **fields}


def updated(id: str, /, **fields: object) -> Value:
    return {"sessionUpdate": "tool_call_update", "toolCallId": id, **fields}


def make_handover_record(lines: Iterable[bytes], limit: int = TEXT_LIMIT) -> str:
    """The handover record of all these lines of a replay."""
    handover_record = HandoverRecord(limit)
    for line in lines:
        handover_record.add(line)
    return handover_record.make_text()
