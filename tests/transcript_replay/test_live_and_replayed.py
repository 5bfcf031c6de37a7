"""The live conversation, its full replay and its compact replay leave clients in the same state.

``kept_safe`` implements a second time the rules that make live updates safe to replay. Two models judge: the official
SDK's accumulator, and an editor's list of entries.
"""

import json
from collections.abc import Iterable
from typing import Any

from acp.contrib.session_state import SessionAccumulator
from acp.schema import SessionNotification
from hypothesis import HealthCheck, example, given, settings

from acp_proxy.protocol import update_kinds
from acp_proxy.protocol.jsonrpc import Peer
from acp_proxy.transcript import file_format
from acp_proxy.transcript.file_format import Entry
from acp_proxy.transcript_replay.replayer import Mode, Replayer
from acp_proxy.transcript_replay.terminal_output import PLACEHOLDER
from tests.transcript_replay.conversations import PARENT, RUNS, SESSION, Step, Value, conversations
from tests.transcript_replay.editor_model import Editor, parsed

UNKNOWN = ("compaction_update", "compaction_summary_chunk", "plan_update", "new_kind", "notice")
NOT_REPLAYED = ("notice", "current_mode_update", "config_option_update", "session_info_update")
MODES: tuple[Mode, ...] = ("full", "compact")


# --- the live conversation, made safe


class Safe:
    """The updates of a conversation as they may be replayed."""

    def __init__(self, steps: list[Step], parse: Any) -> None:
        self.outputs = {
            (step.entry.run, step.entry.note["terminalId"]): step.entry.note
            for step in steps
            if step.entry.note is not None and "terminalId" in step.entry.note
        }
        self.told: list[list[Value]] = []
        """The updates of each step; a later step may add to them."""
        self.status: dict[str, str] = {}
        self.runs: dict[str, str] = {}
        self.asked: dict[str, Value] = {}
        self.places: dict[str, list[Value]] = {}
        self.waiting: list[Value] = []
        """The unanswered prompts."""
        self.quiet: set[str] = set()
        self.latest: dict[str, Value] = {}
        self.has_echoes = False
        echoed: int | None = None
        for number, step in enumerate(steps, 1):
            self.told.append([])
            if step.echo is None:
                self.take(number, step.entry, parse)
                continue
            if echoed != step.of:
                self.echo(step, parse)
            echoed = step.of
            if not self.echoing:
                self.told[-1].append(parse(step.entry.raw)["params"]["update"])
        self.leave_out_queued()
        live = {one["run"] for one in self.waiting if not one["cancelled"]} & {RUNS[0]}
        self.told.append(self.finished(live) + list(self.latest.values()))

    @property
    def updates(self) -> list[Value]:
        return [update for told in self.told for update in told]

    def of(self, run: str) -> list[Value]:
        return [one for one in self.waiting if one["run"] == run]

    def take(self, number: int, entry: Entry, parse: Any) -> None:
        run, message = entry.run, parse(entry.raw) if entry.raw is not None else {}
        params = message.get("params", {})
        if entry.note is not None:
            if entry.note["type"] == "failed":
                self.close(self.of(run))
        elif entry.answered_method == "session/prompt":
            of = self.of(run)
            answered = [one for one in of if one["request"] == message["id"]]
            if answered and answered[0] is of[0]:
                self.quiet.add(run)
            self.close(answered)
        elif message.get("method") == "session/cancel":
            for one in self.of(run):
                one["cancelled"] = True
        elif message.get("method") == "session/prompt":
            self.prompt(number, run, message)
        elif "toolCall" in params:
            self.something(run)
            self.call({"sessionUpdate": "tool_call_update", **params["toolCall"]}, run, is_asked=True)
        elif "update" in params:
            self.update(params["update"], run)

    def prompt(self, number: int, run: str, message: Value) -> None:
        self.told[-1] += self.finished({run} if self.of(run) else set())
        self.places.clear()
        if all(one["cancelled"] for one in self.of(run)):  # some agents never answer these
            self.quiet.add(run)
        for one in self.waiting:
            one["certain"] |= one["run"] != run
        id = f"acp-proxy-{run}-{number}"
        kind = "user_message_chunk"
        blocks = [{"sessionUpdate": kind, "content": block, "messageId": id} for block in message["params"]["prompt"]]
        self.told[-1] += blocks
        one = {
            "run": run,
            "request": message["id"],
            "blocks": blocks,
            "certain": False,
            "echoed": False,
            "cancelled": False,
        }
        self.waiting.append(one)

    def update(self, update: Value, run: str) -> None:
        kind = update["sessionUpdate"]
        if kind in ("usage_update", "available_commands_update"):
            self.latest[kind] = update
        elif kind not in NOT_REPLAYED:
            if kind != "user_message_chunk":
                self.something(run)
            if "toolCallId" in update:
                self.call(update, run, is_asked=False)
            else:
                if "compactionId" in update:
                    id = f"compaction {update['compactionId']}"
                    self.status[id] = update.get("status", self.status.get(id, "in_progress"))
                    self.runs[id] = run
                self.told[-1].append(update)

    def something(self, run: str) -> None:
        self.quiet.discard(run)
        for one in self.of(run)[:1]:
            one["certain"] = True

    def close(self, ended: list[Value]) -> None:
        self.waiting = [one for one in self.waiting if one not in ended]
        self.quiet &= {one["run"] for one in self.waiting}

    def echo(self, step: Step, parse: Any) -> None:
        """Find the prompt that this echoes, and give it the echo's id."""
        run, number = step.entry.run, parse(b"[%d]" % step.of)[0]
        waiting = [one for one in self.of(run) if not one["echoed"]]
        own = [one for one in waiting if one["request"] == number]
        may_be_reworded = run in self.quiet and not (len(waiting) > 1 and waiting[0]["cancelled"])
        found = own if step.echo == "exact" and own else waiting if may_be_reworded else []
        self.echoing = bool(found)
        self.has_echoes |= self.echoing
        for one in found[:1]:
            one["echoed"] = True
            id = parse(step.entry.raw)["params"]["update"].get("messageId")
            if id is not None and not one["certain"]:
                for block in one["blocks"]:
                    block["messageId"] = id
            one["certain"] = True

    def leave_out_queued(self) -> None:
        """An agent that echoes prompts will echo those of the loading run that wait for the end of its turn."""
        queued = [one for one in self.of(RUNS[0]) if not one["cancelled"]][1:] if self.has_echoes else []
        left_out = [id(block) for one in queued if not (one["echoed"] or one["certain"]) for block in one["blocks"]]
        for told in self.told:
            told[:] = [update for update in told if id(update) not in left_out]

    def call(self, update: Value, run: str, *, is_asked: bool) -> None:
        id = update["toolCallId"]
        update = {key: value for key, value in update.items() if value is not None}
        if is_asked and id not in self.status:
            self.asked[id] = self.asked.get(id, {}) | safe_content(update, self.outputs, run)
            self.places.setdefault(id, self.told[-1])
            return
        if (asked := self.asked.pop(id, None)) is not None:
            place = self.places.pop(id, self.told[-1])
            place.append(self.safe_call(asked, run))
        self.told[-1].append(self.safe_call(safe_content(update, self.outputs, run), run))

    def safe_call(self, update: Value, run: str) -> Value:
        id = update["toolCallId"]
        if id not in self.status:
            update = {"title": id, **update, "sessionUpdate": "tool_call"}
        if update["sessionUpdate"] == "tool_call":
            self.status[id] = "pending"
        if "status" in update or update["sessionUpdate"] == "tool_call":
            self.runs[id] = run
        self.status[id] = update.get("status", self.status[id])
        return update

    def finished(self, live: set[str]) -> list[Value]:
        """Updates that fail what nobody will finish."""
        unfinished = [id for id, found in self.status.items() if found in ("pending", "in_progress")]
        left = [id for id in unfinished if self.runs[id] not in live]
        self.status |= dict.fromkeys(left, "failed")
        return [failed(id) for id in left]


def failed(id: str) -> Value:
    if id.startswith("compaction "):
        return {
            "sessionUpdate": "compaction_update",
            "compactionId": id.removeprefix("compaction "),
            "status": "failed",
        }
    return {"sessionUpdate": "tool_call_update", "toolCallId": id, "status": "failed"}


def safe_content(update: Value, outputs: dict[Any, Any], run: str) -> Value:
    if "content" not in update or "terminal_info" in update.get("_meta", {}):
        return update
    return update | {"content": [without_terminal(item, outputs, run) for item in update["content"]]}


def make_safe(steps: list[Step], parse: Any) -> list[Value]:
    return Safe(steps, parse).updates


def without_terminal(item: Value, outputs: dict[Any, Any], run: str) -> Value:
    if item["type"] != "terminal":
        return item
    words, noted = PLACEHOLDER, outputs.get((run, item["terminalId"]))
    if noted is not None:
        words = f"```\n{noted['output'].removesuffix(chr(10))}\n```"
        if noted["exitStatus"] is not None:
            words += f"\n[exited with code {noted['exitStatus']['exitCode']}]"
    return {"type": "content", "content": {"type": "text", "text": words}}


# --- the replays


def replay_steps(
    steps: Iterable[Step], mode: Mode, kinds: frozenset[str] = update_kinds.OPTIONAL, page: int = 0
) -> list[bytes]:
    replayer = Replayer(
        SESSION,
        run_id=RUNS[0],
        mode=mode,
        tool_limit=0,
        other_ids=frozenset({PARENT}),
        client_update_kinds=kinds,
        page_size=page,
    )
    told = [line for number, step in enumerate(steps, 1) for line in replayer.add(number, step.entry)]
    return [*told, *replayer.end(), *replayer.list_states()]


# --- the final state of clients


def apply_to_editor(updates: Iterable[Value]) -> Editor:
    editor = Editor()
    for update in updates:
        editor.apply(update)
    assert editor.dropped == 0
    return editor


def accumulate(updates: Iterable[Value]) -> Value:
    accumulator = SessionAccumulator()
    known = [update for update in updates if update["sessionUpdate"] not in UNKNOWN]
    for update in known:
        accumulator.apply(SessionNotification.model_validate({"sessionId": SESSION, "update": update}))
    if not known:
        return {}
    state = accumulator.snapshot().model_dump()
    for speaker in ("user_messages", "agent_messages", "agent_thoughts"):
        state[speaker] = join_texts(state[speaker])
    return state


def join_texts(chunks: Iterable[Value]) -> list[Value]:
    """Adjacent texts of one message, joined: the accumulator keeps one item per chunk."""
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


# --- the test


def sent(peer: Peer, message: Value) -> Entry:
    raw = json.dumps({"jsonrpc": "2.0", **message}).encode()
    found = file_format.decode_entry(file_format.encode_message("2026-11-20T09:15:02.123Z", RUNS[0], peer, raw))
    assert found is not None
    return found


def prompt_step(id: int, words: str) -> Step:
    params = {"sessionId": SESSION, "prompt": [{"type": "text", "text": words}]}
    return Step(sent(Peer.CLIENT, {"id": id, "method": "session/prompt", "params": params}))


def chunk_entry(kind: str, words: str) -> Entry:
    update = {"sessionUpdate": kind, "content": {"type": "text", "text": words}}
    return sent(Peer.AGENT, {"method": "session/update", "params": {"sessionId": SESSION, "update": update}})


QUEUED = [
    prompt_step(0, "a"),
    Step(chunk_entry("user_message_chunk", "a"), "exact"),
    Step(chunk_entry("agent_message_chunk", "b")),
    prompt_step(1, "c"),
    Step(chunk_entry("agent_message_chunk", "d")),
]
"""A prompt that waits for the end of a turn, of an agent that echoes prompts."""
CANCELLED = [
    prompt_step(0, "a"),
    Step(chunk_entry("user_message_chunk", "a"), "exact"),
    Step(chunk_entry("agent_message_chunk", "b")),
    Step(sent(Peer.CLIENT, {"method": "session/cancel", "params": {"sessionId": SESSION}})),
    prompt_step(1, "c"),
    Step(chunk_entry("user_message_chunk", "c, with a file"), "other", 1),
    Step(chunk_entry("agent_message_chunk", "d")),
]
"""A prompt after one whose turn was cancelled, and which the agent never answers."""


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(conversations())
@example(QUEUED)
@example(CANCELLED)
def test_both_replays_leave_clients_in_the_state_of_the_live_conversation(steps: list[Step]) -> None:
    edited_live, accumulated_live = apply_to_editor(make_safe(steps, parsed)), accumulate(make_safe(steps, plain))
    tellings = {mode: replay_steps(steps, mode) for mode in MODES}
    for mode, told in tellings.items():
        assert apply_to_editor(parsed(line)["params"]["update"] for line in told) == edited_live, mode
        assert accumulate(plain(line)["params"]["update"] for line in told) == accumulated_live, mode
        assert all(plain(line)["params"]["sessionId"] == SESSION for line in told)
        assert told == replay_steps(steps, mode)
    assert len(tellings["compact"]) <= len(tellings["full"]) + starts(steps)


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(conversations())
@example(QUEUED)
@example(CANCELLED)
def test_a_turn_that_is_folded_in_pieces_leaves_clients_in_the_same_state(steps: list[Step]) -> None:
    """Except for the place of a call about which the agent asked before it came, in an earlier piece."""
    steps = [step for step in steps if b"request_permission" not in (step.entry.raw or b"")]
    edited_live = apply_to_editor(make_safe(steps, parsed))
    for mode in MODES:
        told = replay_steps(steps, mode, page=500)
        assert apply_to_editor(parsed(line)["params"]["update"] for line in told) == edited_live, mode


def starts(steps: list[Step]) -> int:
    """The number of starts of calls: a repeated start may take one line more."""
    return sum(step.entry.peer is Peer.AGENT and b'"tool_call"' in (step.entry.raw or b"") for step in steps)
