"""One truth, two tellings: what was said live, the full telling and the compact one leave clients in the same state.

``kept_safe`` says in its own words what the rules of safety make of what was said live. Two models judge: the official
SDK's accumulator, and an editor's list of entries.
"""

import json
from collections.abc import Iterable
from typing import Any

from acp.contrib.session_state import SessionAccumulator
from acp.schema import SessionNotification
from hypothesis import HealthCheck, given, settings

from acp_proxy.replay.telling import Mode, Telling
from acp_proxy.replay.terminals import PLACEHOLDER
from acp_proxy.wire.jsonrpc import Peer
from tests.replay.conversations import PARENT, RUNS, SESSION, Step, Value, conversations
from tests.replay.editor_model import Editor, parsed

UNKNOWN = ("compaction_update", "plan_update", "notice")
NOT_REPLAYED = ("notice", "current_mode_update", "config_option_update", "session_info_update")
MODES: tuple[Mode, ...] = ("full", "compact")


# --- what was said, made safe


def kept_safe(steps: list[Step], parse: Any) -> list[Value]:
    """The updates of a conversation as a client may be told them, one for one."""
    told: list[Value] = []
    outputs = {
        (step.entry.run, step.entry.note["terminalId"]): step.entry.note
        for step in steps
        if step.entry.note is not None and "terminalId" in step.entry.note
    }
    status: dict[str, str] = {}
    latest: dict[str, Value] = {}
    live, echoed, held = None, False, []
    for number, step in enumerate(steps, 1):
        entry = step.entry
        if entry.note is not None:
            if entry.note["type"] == "failed" and live is not None and live[0] == entry.run:
                live = None
            continue
        message = parse(entry.raw)
        if entry.of == "session/prompt" and live == (entry.run, message["id"]):
            live = None
        params = message.get("params", {})
        if message.get("method") == "session/prompt":
            told += finished(status)
            live, echoed = (entry.run, message["id"]), step.echoed
            blocks = [
                {
                    "sessionUpdate": "user_message_chunk",
                    "content": block,
                    "messageId": f"acp-proxy-{entry.run}-{number}",
                }
                for block in params["prompt"]
            ]
            # The echo stands in the place of the first text, and for all of them.
            texts = [at for at, block in enumerate(params["prompt"]) if block["type"] == "text"]
            first = texts[0] if echoed else len(blocks)
            told += blocks[:first]
            held = [block for at, block in enumerate(blocks) if at > first and at not in texts]
            continue
        if "toolCall" in params:
            update = {"sessionUpdate": "tool_call_update", **params["toolCall"]}
        elif "update" in params:
            update = params["update"]
        else:
            continue
        if update["sessionUpdate"] in ("usage_update", "available_commands_update"):
            latest[update["sessionUpdate"]] = update
            continue
        if update["sessionUpdate"] in NOT_REPLAYED:
            continue
        if not step.is_echo:
            told += held
            held = []
        if "toolCallId" in update:
            update = safe_call(update, status, outputs, entry.run)
        told.append(update)
    told += held
    if live is None or live[0] != RUNS[0]:
        told += finished(status)
    return told + list(latest.values())


def safe_call(update: Value, status: dict[str, str], outputs: dict[Any, Any], run: str) -> Value:
    id = update["toolCallId"]
    update = {key: value for key, value in update.items() if value is not None}
    if id not in status:
        update = {"title": id, **update, "sessionUpdate": "tool_call"}
    if update["sessionUpdate"] == "tool_call":
        status[id] = "pending"
    status[id] = update.get("status", status[id])
    if "content" in update:
        update["content"] = [without_terminal(item, outputs, run) for item in update["content"]]
    return update


def without_terminal(item: Value, outputs: dict[Any, Any], run: str) -> Value:
    if item["type"] != "terminal":
        return item
    words, noted = PLACEHOLDER, outputs.get((run, item["terminalId"]))
    if noted is not None:
        words = f"```\n{noted['output'].removesuffix(chr(10))}\n```"
        if noted["exitStatus"] is not None:
            words += f"\n[exited with code {noted['exitStatus']['exitCode']}]"
    return {"type": "content", "content": {"type": "text", "text": words}}


def finished(status: dict[str, str]) -> list[Value]:
    """Nobody will finish these any more."""
    left = [id for id, found in status.items() if found in ("pending", "in_progress")]
    status |= dict.fromkeys(left, "failed")
    return [{"sessionUpdate": "tool_call_update", "toolCallId": id, "status": "failed"} for id in left]


# --- what is told


def told_of(steps: Iterable[Step], mode: Mode) -> list[bytes]:
    telling = Telling(SESSION, run=RUNS[0], mode=mode, tool_limit=0, also=frozenset({PARENT}))
    told = [line for number, step in enumerate(steps, 1) for line in telling.add(number, step.entry)]
    return [*told, *telling.end(), *telling.states()]


# --- the state that clients are left in


def edited(updates: Iterable[Value]) -> Editor:
    editor = Editor()
    for update in updates:
        editor.apply(update)
    assert editor.dropped == 0
    return editor


def accumulated(updates: Iterable[Value]) -> Value:
    accumulator = SessionAccumulator()
    known = [update for update in updates if update["sessionUpdate"] not in UNKNOWN]
    for update in known:
        accumulator.apply(SessionNotification.model_validate({"sessionId": SESSION, "update": update}))
    if not known:
        return {}
    state = accumulator.snapshot().model_dump()
    for speaker in ("user_messages", "agent_messages", "agent_thoughts"):
        state[speaker] = joined(state[speaker])
    return state


def joined(chunks: Iterable[Value]) -> list[Value]:
    """Adjacent texts of one message as one: the accumulator keeps one item per chunk."""
    kept: list[Value] = []
    for chunk in chunks:
        before = kept[-1] if kept else None
        if before is not None and is_plain(chunk) and is_plain(before) and chunk["message_id"] == before["message_id"]:
            text = before["content"]["text"] + chunk["content"]["text"]
            kept[-1] = {**chunk, "content": {**chunk["content"], "text": text}}
        else:
            kept.append(chunk)
    return kept


def is_plain(chunk: Value) -> bool:
    content = chunk["content"]
    return (chunk["field_meta"], content["type"]) == (None, "text") and not (
        content["annotations"] is not None or content["field_meta"] is not None
    )


def plain(line: bytes | None) -> Any:
    return json.loads(line or b"null")


# --- the proof


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(conversations())
def test_clients_end_in_the_state_in_which_they_were_live(steps: list[Step]) -> None:
    edited_live, accumulated_live = edited(kept_safe(steps, parsed)), accumulated(kept_safe(steps, plain))
    tellings = {mode: told_of(steps, mode) for mode in MODES}
    for mode, told in tellings.items():
        assert edited(parsed(line)["params"]["update"] for line in told) == edited_live, mode
        assert accumulated(plain(line)["params"]["update"] for line in told) == accumulated_live, mode
        assert all(plain(line)["params"]["sessionId"] == SESSION for line in told)
        assert told == told_of(steps, mode)
    assert len(tellings["compact"]) <= len(tellings["full"]) + starts(steps)


def starts(steps: list[Step]) -> int:
    """A call that is stated anew may take a line more."""
    return sum(step.entry.peer is Peer.AGENT and b'"tool_call"' in (step.entry.raw or b"") for step in steps)
