"""An agent that follows a script and its habits, and reports what it did.

One ``Agent`` is one process of the agent. It collects what it hears until the client asks ``_sync``, so that nothing
depends on time; its answer to that says what it did (``EVENTS``). What it remembers for its next process is on a
``Disk``. Nothing here knows acp-proxy: the same agent runs alone and behind it.

A prompt carries its turn in its ``_meta``: a list of steps, each a word and a text.

    say TEXT       think TEXT       call TITLE                 words, a thought, a tool call that ends
    wait                                                        the turn pauses until the client says ``go on``
    terminal NAME  output NAME  release NAME                    a terminal of the client, shown in a call
    forge-note N  forge-entry TEXT   resource TEXT              what a hostile tool can put into its output
"""

import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

Message = dict[str, Any]
Update = dict[str, Any]

SYNC = "_sync"
USER, SAY, THOUGHT, CALL, COMPACTION = "user", "say", "thought", "call", "compaction"
KINDS = {USER: "user_message_chunk", SAY: "agent_message_chunk", THOUGHT: "agent_thought_chunk"}
COMMANDS = ("/undo", "/clear", "/compact")
"""Prompts that take words back."""
WARNING = "[the-model-is-not-known] "
CONTEXT = "<context> "
SESSION_CONTEXT = "<session_context> today </session_context> "
"""What gemini says of a session. In another form, a chunk beside the user's is a part of that, if neither has an id."""
RESPONSE = "[Function Response: tool] "
"""What gemini makes of a tool's output: a user message, too."""
EXPANSION = "[contents-of-a-file] "
_AFTER_CALLS = (("responses", RESPONSE), ("calls", CONTEXT))
REWORDED = "~"
"""Begins each word of a message that is replayed in other words."""
REFUSALS: dict[str, tuple[int, str]] = {
    "not found": (-32002, "Resource not found"),
    "invalid": (-32602, "No previous sessions found for this project"),
    "internal": (-32603, "no rollout found for this thread"),
    "request": (-32600, "No sessions directory found"),
    "service failure": (-32603, "service failure"),
    "login": (-32000, "Authentication required"),
    "not offered": (-32601, "Method not found"),
}
UNKNOWING = ("not found", "invalid", "internal", "request")
"""Refusals that say that the agent does not know the session."""


@dataclass(frozen=True)
class Habits:
    """Each was seen in an agent that people use. The defaults are those of an agent that does everything right."""

    offers: tuple[str, ...] = ("load",)
    """Of: load, resume, fork, list, close, steering, rewind."""
    tells: str = "before"
    """When a load is replayed: before its answer, after, split (the first message before), or never."""
    tells_resumed: str = "never"
    tells_forked: str = "never"
    times: int = 1
    """How often a load is replayed."""
    leaves_out: tuple[str, ...] = ()
    """What no replay has, of: calls, users, thoughts, commands, cancelled, old (all turns but the last), all."""
    rewords: bool = False
    """All but the last message are replayed in other words."""
    pieces: str = "said"
    """How words are replayed: as they were said, joined, or split."""
    streams: int = 0
    """Letters of a chunk of live words; 0: each message is one chunk."""
    ids: str = "none"
    """Message ids: none, same (a replay has the live ones), fresh (each replay has its own)."""
    call_ids: str = "same"
    """The ids of tool calls in replays: same, or fresh."""
    leaves_calls_open: bool = False
    """Its tool calls never end while they run, but have ended in a replay."""
    injects: bool = False
    """A replay begins with a user message that nobody typed."""
    adds: tuple[str, ...] = ()
    """Where a replay has more of these, of: before (each user message), after (each), calls (after each tool call),
    responses (there, in gemini's form)."""
    echoes: str = "never"
    """Of: never, plain, expanded, chunks, id."""
    refuses: str = ""
    """How a session of an earlier process is refused; empty: it is not."""
    refuses_prompt: bool = False
    """The first prompt to a session of an earlier process is refused instead, and the session is lost."""
    stumbles: bool = False
    """The first prompt to each session fails in each process."""
    renames: bool = False
    """A resumed session continues under another id."""
    warns: str = "never"
    """A warning in every process. Of: never, first (before the past), last (after the past), after (the answer)."""
    loses: str = ""
    """What a crash of its process loses: nothing, the unfinished turn, or the last thing that was said."""
    finishes: bool = False
    """When its client is gone, it finishes the turn."""
    never_answers: tuple[str, ...] = ()
    """Of: prompts, loads. Cancelled ones get no answer."""
    answers_cancelled: bool = False
    """A cancelled load is still replayed and answered."""
    overtakes: bool = False
    """A load that comes while another is open is answered first."""
    greets: bool = False
    """A greeting after the answer to new, load and resume, each time in other words."""
    remembers_remarks: bool = False
    """What it says outside turns is a part of its history."""
    titles: bool = False
    """It makes a title from its first prompt, sends it, and lists it."""
    version: int = 1
    """Of the protocol. Version 2 requires some other habits (``choices.possible``) and has no terminals."""
    alternates: bool = False
    """Every other process of the client and the agent speaks the other version."""
    forks_at: str = "message"
    """Where a fork at a message ends: with the message, or with its turn, as codex-acp's do."""

    @property
    def info(self) -> Message:
        """What the agent says of itself: acp-proxy knows by their names the agents that fork after a turn."""
        return {"name": "codex-acp", "version": "2.6.0"} if self.forks_at == "turn" else {}

    def as_json(self) -> Message:
        """The habits that are not the defaults."""
        odd = ((each.name, getattr(self, each.name), each.default) for each in fields(self))
        return {
            name: list(value) if isinstance(value, tuple) else value for name, value, usual in odd if value != usual
        }

    @classmethod
    def from_json(cls, value: Message) -> "Habits":
        given: dict[str, Any] = {name: tuple(each) if isinstance(each, list) else each for name, each in value.items()}
        return cls(**given)

    def of_process(self, number: int) -> "Habits":
        """Those of the process with this number, which is counted from 0."""
        return replace(self, version=3 - self.version) if self.alternates and number % 2 else self

    @property
    def is_late(self) -> bool:
        return {self.tells, self.tells_resumed} & {"after", "split"} != set()


@dataclass
class Item:
    """One thing that was said. ``id``: unique. ``turn``: the tag of its prompt. ``text``: of a call, its title."""

    id: str
    kind: str
    text: str
    turn: str
    is_cancelled: bool = False
    output: str = ""
    """Of a call, once the agent knows it."""
    resource: str = ""
    """Of a call: an embedded resource in its content."""


@dataclass
class Memory:
    """A session. ``label``: its number in the plan, if a request said that."""

    items: list[Item] = field(default_factory=list)
    label: int | None = None
    title: str = ""
    is_lost: bool = False


_COUNTED = ("made", "replays", "greetings")


@dataclass
class Disk:
    """What the agent's processes share."""

    sessions: dict[str, Memory] = field(default_factory=dict)
    made: int = 0
    replays: int = 0
    greetings: int = 0
    path: Path | None = None
    """Where it is kept, if the processes are real."""
    _saved: str = ""

    def new_id(self) -> str:
        self.made += 1
        return f"s{self.made}"

    def of(self, label: int) -> str | None:
        """The agent's newest session with this label."""
        found = [id for id, each in self.sessions.items() if each.label == label and not each.is_lost]
        return found[-1] if found else None

    def save(self) -> None:
        if self.path is not None:
            sessions = {id: asdict(each) for id, each in self.sessions.items()}
            counted = {name: getattr(self, name) for name in _COUNTED}
            value = {"sessions": sessions, **counted}
            self._saved = json.dumps(value)
            unfinished = self.path.with_suffix(f".{os.getpid()}")
            unfinished.write_text(self._saved, encoding="utf-8")
            unfinished.replace(self.path)  # another process may read it now, or this one be killed

    def reload(self) -> None:
        """Read what other processes saved."""
        text = self.path.read_text(encoding="utf-8") if self.path is not None and self.path.exists() else ""
        if text != self._saved:
            self._saved, value = text, json.loads(text)
            for name in _COUNTED:
                setattr(self, name, value[name])
            for id, each in value["sessions"].items():
                memory = self.sessions.setdefault(id, Memory())
                memory.items = [Item(**item) for item in each["items"]]
                memory.label, memory.title, memory.is_lost = each["label"], each["title"], each["is_lost"]


@dataclass
class _Turn:
    request: Any
    session: str
    tag: str
    steps: list[str]
    text: str
    blocks: list[Message]
    is_begun: bool = False
    waits_for: str = ""
    """The id of its own request that it waits for, or ``wait``."""
    said: int = 0
    unfinished: list[Item] = field(default_factory=list)
    """Calls with a terminal."""


class Agent:
    def __init__(self, habits: Habits, disk: Disk) -> None:
        self.habits = habits
        self.disk = disk
        self._inbox: list[Message] = []
        self._out: list[Message] = []
        self._backlog: list[Message] = []
        self._events: list[list[Any]] = []
        self._holds_loads = False
        self._held: tuple[Any, str, list[Message], list[Message]] | None = None
        self._unanswered: list[Any] = []
        self._turns: list[_Turn] = []
        self._open: set[str] = set()
        self._untried: set[str] = set()
        self._stumbled: set[str] = set()
        self._asked: dict[str, tuple[_Turn, str, str]] = {}
        self._terminals: dict[str, tuple[str, Item, int | None]] = {}
        """The id, the call and the session's label of each terminal; no other session may ask for its output."""
        self._released: set[str] = set()
        self._requests = 0
        self._warned: set[str] = set()

    def hear(self, message: Message) -> list[Message]:
        """Take a message of the client; the lines to send now."""
        if message.get("method") != SYNC:
            self._inbox.append(message)
            return []
        self.disk.reload()
        params = message.get("params") or {}
        self._holds_loads = params.get("holdLoads", self._holds_loads)
        inbox, self._inbox = self._inbox, []
        cancelled = [m["params"]["requestId"] for m in inbox if m.get("method") == "$/cancel_request"]
        for each in inbox:
            self._handle(each, cancelled)
        if params.get("finishLoads"):
            self._finish_loads()
        if "flush" in params:
            self._flush(params["flush"])
        if "goOn" in params:
            self._go_on(params["goOn"])
        if "remark" in params:
            self._remark(*params["remark"])
        status = {
            "backlog": len(self._backlog),
            "holds": [*self._unanswered, *([self._held[0]] if self._held else []), *(t.request for t in self._turns)],
            "waits": list(self._asked),
            "pid": os.getpid(),
            "events": self._events,
        }
        self._events = []
        out, self._out = self._out, []
        self.disk.save()
        return [*out, {"jsonrpc": "2.0", "id": message["id"], "result": status}]

    def end(self, *, killed: bool) -> None:
        """End the process. ``killed``: it is killed itself; otherwise its client is gone."""
        for turn in self._turns:
            items = self.disk.sessions[turn.session].items
            if self.habits.finishes and not killed and turn.is_begun:
                for step in turn.steps:
                    if (item := self._item(turn, step)) is not None:
                        items.append(item)
            elif killed and self.habits.loses == "turn":
                items[:] = [item for item in items if item.turn != turn.tag]
        if killed and self.habits.loses == "last":
            for memory in self.disk.sessions.values():
                if memory.items and memory.items[-1].kind != USER:
                    memory.items.pop()
        self.disk.save()

    # --- hearing

    def _handle(self, message: Message, cancelled: Sequence[Any]) -> None:
        method, id, params = message.get("method"), message.get("id"), message.get("params") or {}
        if method is None:
            self._answered(message)
            return
        session = params.get("sessionId", "")
        overtakes = self.habits.overtakes and method == "session/load" and self._held is not None
        if method not in ("session/cancel", "$/cancel_request") and not overtakes:
            self._finish_loads()
            self._flush(-1)
        marks = (params.get("_meta") or {}).get("simulation") or {}
        if "session" in marks and session in self.disk.sessions and method != "session/fork":
            self.disk.sessions[session].label = marks["session"]
        if method in ("session/load", "session/resume", "session/fork", "session/prompt"):
            self._events.append(["asked", method, session])
        if method == "initialize":
            told = {"agentInfo": info} if (info := self.habits.info) else {}
            self._answer(id, {"protocolVersion": 1, **_capabilities(self.habits.offers), **told})
        elif method == "session/new":
            session = self.disk.new_id()
            self.disk.sessions[session] = Memory(label=marks.get("session"))
            self._open.add(session)
            self._events.append(["asked", method, session])
            self._answer(id, {"sessionId": session})
            if self.habits.warns != "never":
                self._send(session, _words(SAY, WARNING))
            self._backlog += self._greet(session)  # once the client knows the session
        elif method in ("session/load", "session/resume"):
            self._restore(method, id, session, is_cancelled=id in cancelled)
            if overtakes:
                self._flush(-1)
                self._finish_loads()
        elif method == "session/fork":
            self._fork(id, session, params, marks)
        elif method == "session/prompt":
            self._prompt(id, session, params, marks)
        elif method == "session/cancel":
            self._cancel(session)
        elif method == "$/cancel_request":
            self._cancel_request(params.get("requestId"))
        elif method == "session/list":
            rows = [self._row(session) for session in self.disk.sessions] if "list" in self.habits.offers else []
            self._answer(id, {"sessions": rows})
        elif method in ("_session/steering", "session/rewind") and method.rpartition("/")[2] not in self.habits.offers:
            self._refuse(id, "not offered")
        elif method == "_session/steering":
            self._steer(id, session, params, marks)
        elif method == "session/rewind":
            self._rewind(id, session, params["toMessageId"])
        elif id is not None:
            self._answer(id, {})

    def _row(self, session: str) -> Message:
        memory = self.disk.sessions[session]
        return {"sessionId": session, "cwd": "/w", **({"title": memory.title} if memory.title else {})}

    def _has(self, session: str) -> bool:
        return session in self.disk.sessions and not self.disk.sessions[session].is_lost

    def _refuse(self, id: Any, refusal: str) -> None:
        code, text = REFUSALS[refusal]
        self._out.append({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": text}})

    # --- opening sessions

    def _restore(self, method: str, id: Any, session: str, *, is_cancelled: bool) -> None:
        habits = self.habits
        offered = method.removeprefix("session/") in habits.offers
        if not offered:
            self._refuse(id, "not offered")
            return
        if not self._has(session) or (session not in self._open and habits.refuses):
            self._refuse(id, habits.refuses or "not found")
            return
        if session not in self._open and habits.refuses_prompt:
            self._untried.add(session)
        result: Message = {}
        if method == "session/resume" and habits.renames and not is_cancelled:
            old, session = session, self.disk.new_id()
            memory = self.disk.sessions[old]
            self.disk.sessions[session] = Memory(list(memory.items), memory.label, memory.title)
            self._events.append(["asked", "renamed", session])
            result = {"sessionId": session}
        self._open.add(session)
        early, late = self._replay(session, habits.tells if method == "session/load" else habits.tells_resumed)
        answer = [_result(id, result)]
        self._out += early
        if is_cancelled and not habits.answers_cancelled:
            self._drop_load(id)
        elif self._holds_loads and self._held is None:
            self._held = id, session, answer, late
        else:
            self._answer_load(session, answer, late)

    def _answer_load(self, session: str, answer: list[Message], late: list[Message]) -> None:
        self._out += answer
        self._backlog += [*late, *self._greet(session)]

    def _greet(self, session: str) -> list[Message]:
        if not self.habits.greets:
            return []
        self.disk.greetings += 1
        text = f"greeting-{self.disk.greetings} "
        label = self.disk.sessions[session].label
        self._events.append(["remarked", session, label, f"greeting-{self.disk.greetings}", SAY, text])
        return [_update(session, _words(SAY, text))]

    def _finish_loads(self) -> None:
        if self._held is not None:
            _, session, answer, late = self._held
            self._held = None
            self._answer_load(session, answer, late)

    def _drop_load(self, id: Any) -> None:
        if "loads" in self.habits.never_answers:
            self._unanswered.append(id)
        else:
            self._out.append({"jsonrpc": "2.0", "id": id, "error": {"code": -32800, "message": "cancelled"}})

    def _cancel_request(self, request: Any) -> None:
        if self._held is not None and self._held[0] == request:
            if self.habits.answers_cancelled:
                self._finish_loads()
            else:
                self._held = None
                self._drop_load(request)

    def _fork(self, id: Any, parent: str, params: Message, marks: Message) -> None:
        if parent not in self._open or not self._has(parent):
            self._refuse(id, "not found")
            return
        items = self.disk.sessions[parent].items
        kept = list(items)
        air = ((params.get("_meta") or {}).get("jetbrains") or {}).get("air") or {}
        if "fork" in air:
            at = self._find(items, air["fork"]["messageId"])
            if at is None:
                self._out.append(
                    {"jsonrpc": "2.0", "id": id, "error": {"code": -32602, "message": "Fork point was not found"}}
                )
                return
            if self.habits.forks_at == "turn":
                at = max(n for n, item in enumerate(items) if item.turn == items[at].turn)
            kept = items[: at + 1]
        session = self.disk.new_id()
        self.disk.sessions[session] = Memory(
            [replace(item) for item in kept], marks.get("session"), self.disk.sessions[parent].title
        )
        self._open.add(session)
        left = {item.id for item in kept}
        dropped = [item.id for item in items if item.id not in left]
        self._events.append(["forked", marks.get("session"), self.disk.sessions[parent].label, dropped, "fork" in air])
        early, late = self._replay(session, self.habits.tells_forked, warns=False)
        self._out += [*early, _result(id, {"sessionId": session})]
        self._backlog += late

    def _find(self, items: Sequence[Item], message: str) -> int | None:
        """The place of the item that this message id names."""
        return next((n for n, item in enumerate(items) if message.split("/")[0] == f"m-{item.id}"), None)

    def _rewind(self, id: Any, session: str, message: str) -> None:
        items = self.disk.sessions[session].items
        at = self._find(items, message)
        if at is None:
            self._out.append({"jsonrpc": "2.0", "id": id, "error": {"code": -32602, "message": "unknown message"}})
            return
        self._take_back(session, items[at + 1 :], "rewind")
        self._send(session, {"sessionUpdate": "history_truncated", "messageId": message})
        self._answer(id, {})

    # --- replaying the past

    def _replay(self, session: str, when: str, *, warns: bool = True) -> tuple[list[Message], list[Message]]:
        """The lines of a replay before the answer, and those after it."""
        habits = self.habits
        told = list(self._with_context(self._retold(self._replayed(session)))) if when != "never" else []
        self.disk.replays += 1
        if habits.injects and told:
            told.insert(0, _words(USER, CONTEXT))
        if when != "never":
            self._events.append(["replayed", session, self.disk.sessions[session].label, told])
        out = [_update(session, update) for update in told] * habits.times
        has_context = habits.injects or habits.adds
        first = len(list(self._retold(self._replayed(session)[:1]))) if told and not has_context else 1
        split = {"after": 0, "split": first}.get(when, len(out))
        early, late = out[:split], out[split:]
        warning = _update(session, _words(SAY, WARNING))
        if warns and habits.warns == "first":
            early.insert(0, warning)
        elif warns and habits.warns == "last":
            early.append(warning)
        elif warns and habits.warns == "after":
            late.append(warning)
        return early, late

    def _replayed(self, session: str) -> list[Item]:
        items, out = self.disk.sessions[session].items, self.habits.leaves_out
        gone = {kind for kind, name in ((CALL, "calls"), (USER, "users"), (THOUGHT, "thoughts")) if name in out}
        turns = list(dict.fromkeys(item.turn for item in items))
        hidden: set[str] = set(turns) if "all" in out else set()
        if "old" in out:
            hidden |= set(turns[:-1])
        if "commands" in out:
            hidden |= {item.turn for item in items if item.kind == USER and item.text.startswith("/")}
        if "cancelled" in out:
            hidden |= {item.turn for item in items if item.is_cancelled}
        return [item for item in items if item.kind not in gone and item.turn not in hidden]

    def _with_context(self, told: Iterable[Update]) -> Iterator[Update]:
        adds = self.habits.adds
        context = SESSION_CONTEXT if self.habits.ids == "none" else CONTEXT
        for update in told:
            is_user = update["sessionUpdate"] == KINDS[USER]
            if is_user and "before" in adds:
                yield _words(USER, context)
            yield update
            if is_user and "after" in adds:
                yield _words(USER, context)
            if update["sessionUpdate"] == "tool_call":
                yield from (_words(USER, text) for name, text in _AFTER_CALLS if name in adds)

    def _retold(self, items: Sequence[Item]) -> Iterator[Update]:
        habits = self.habits
        says = [item for item in items if item.kind == SAY]
        replay = f"/{self.disk.replays}" if habits.ids == "fresh" else ""
        joined: Update | None = None
        for item in items:
            id = f"m-{item.id}{replay}" if habits.ids != "none" else None
            text = item.text
            if habits.rewords and item.kind == SAY and item is not says[-1]:
                text = "".join(f"{REWORDED}{word} " for word in text.split())
            if joined is not None and not (habits.pieces == "joined" and item.kind == SAY):
                yield joined
                joined = None
            if item.kind == SAY and habits.pieces == "split":
                yield from (_words(SAY, part, id) for part in _cut(text, 3))
            elif item.kind == SAY and habits.pieces == "joined":
                if joined is None:
                    joined = _words(SAY, text, id)
                else:
                    joined["content"]["text"] += text
            elif item.kind == CALL:
                yield self._call(item, "completed", f"/{self.disk.replays}" if habits.call_ids == "fresh" else "")
            elif item.kind == COMPACTION:
                yield _compaction(item)
            else:
                yield _words(item.kind, text, id)
        if joined is not None:
            yield joined

    def _call(self, item: Item, status: str, suffix: str = "") -> Update:
        content: list[Message] = []
        if item.output:
            content.append({"type": "content", "content": {"type": "text", "text": item.output}})
        if item.resource:
            resource = {"uri": "file:///page", "mimeType": "text/plain", "text": item.resource}
            content.append({"type": "content", "content": {"type": "resource", "resource": resource}})
        more = {"content": content} if content else {}
        id = f"c-{item.id}{suffix}"
        return {"sessionUpdate": "tool_call", "toolCallId": id, "title": item.text, "status": status, **more}

    # --- turns

    def _prompt(self, id: Any, session: str, params: Message, marks: Message) -> None:
        refused = session in self._untried
        self._untried.discard(session)
        if refused or session not in self._open or not self._has(session):
            self._open.discard(session)
            if refused:
                self.disk.sessions[session].is_lost = True
            error = {"code": -32602, "message": f"session not found: {session}"}
            self._out.append({"jsonrpc": "2.0", "id": id, "error": error})
            return
        if self.habits.stumbles and session not in self._stumbled:
            self._stumbled.add(session)
            self._refuse(id, "service failure")
            return
        blocks = params["prompt"]
        text = "".join(block.get("text", "") for block in blocks)
        steps = list(marks.get("turn", ()))
        turn = _Turn(id, session, str(marks.get("tag", f"?{id}")), steps, text, blocks)
        is_queued = any(each.session == session for each in self._turns)
        self._events.append(["prompted", session, self.disk.sessions[session].label, turn.tag, blocks, is_queued])
        self._turns.append(turn)
        self._begin_turn(session)

    def _begin_turn(self, session: str) -> None:
        turn = next((turn for turn in self._turns if turn.session == session), None)
        if turn is None or turn.is_begun:
            return
        turn.is_begun = True
        memory, habits = self.disk.sessions[session], self.habits
        text = turn.text + (EXPANSION if habits.echoes == "expanded" else "")
        user = Item(f"{turn.tag}.0", USER, text, turn.tag)
        for update in self._echo(turn, user):
            self._send(session, update)
        if habits.titles and not memory.title:
            memory.title = turn.text.split("\n")[0][:40]
            self._send(session, {"sessionUpdate": "session_info_update", "title": memory.title})
        if turn.text.startswith(COMMANDS):
            self._command(turn)
        memory.items.append(user)
        self._events.append(["begun", memory.label, user.id])
        self._run(turn)

    def _echo(self, turn: _Turn, user: Item) -> list[Update]:
        how = self.habits.echoes
        if how == "never" or (len(turn.blocks) > 1 and self.habits.version == 1):
            return []
        if how == "chunks":
            half = len(user.text) // 2
            return [_words(USER, user.text[:half]), _words(USER, user.text[half:])]
        return [_words(USER, user.text, f"m-{user.id}" if how == "id" else None)]

    def _command(self, turn: _Turn) -> None:
        items = self.disk.sessions[turn.session].items
        if turn.text.startswith("/undo"):
            if items:
                self._take_back(turn.session, [item for item in items if item.turn == items[-1].turn])
        else:
            self._take_back(turn.session, list(items))
        if turn.text.startswith("/compact"):
            summary = Item(f"{turn.tag}.c", COMPACTION, f"summary-{turn.tag} ", turn.tag)
            items.append(summary)
            self._say(turn, summary, _compaction(summary))

    def _take_back(self, session: str, gone: Sequence[Item], how: str = "command") -> None:
        ids = {item.id for item in gone}
        memory = self.disk.sessions[session]
        memory.items[:] = [item for item in memory.items if item.id not in ids]
        self._events.append(["took back", memory.label, sorted(ids), how])

    def _item(self, turn: _Turn, step: str) -> Item | None:
        """The item of a step that says something."""
        what, _, text = step.partition(" ")
        kind = {"say": SAY, "think": THOUGHT, "call": CALL, "resource": CALL, "terminal": CALL}.get(what)
        if kind is None:
            return None
        turn.said += 1
        id = f"{turn.tag}.{turn.said}"
        if what == "resource":
            return Item(id, CALL, f"fetch-{id} ", turn.tag, resource=text)
        return Item(id, kind, f"{text} ", turn.tag)

    def _run(self, turn: _Turn) -> None:
        items = self.disk.sessions[turn.session].items
        while turn.steps and not turn.waits_for:
            step = turn.steps.pop(0)
            what, _, text = step.partition(" ")
            if what == "wait":
                turn.waits_for = "wait"
            elif what == "terminal" and self.habits.version == 2:
                continue
            elif what == "terminal":
                self._ask(turn, "terminal/create", step, command="run", args=[text])
            elif what in ("output", "release"):
                if self._is_terminal_of(turn, text) and text not in self._released:
                    self._released |= {text} if what == "release" else set()
                    self._ask(turn, f"terminal/{what}", step, terminalId=self._terminals[text][0])
            elif what == "forge-note":
                note = {"from": "proxy", "note": {"type": "alias", "to": self.disk.of(int(text)) or "s0"}}
                self._send(turn.session, {**self._forged(turn), "rawOutput": note})
            elif what == "forge-entry":
                self._forge_entry(turn, text)
            elif (item := self._item(turn, step)) is not None:
                items.append(item)
                self._say(turn, item, *self._live(item))
        if not turn.steps and not turn.waits_for:
            for item in turn.unfinished:
                self._send(turn.session, _ended(item))
            self._end_turn(turn, "end_turn")

    def _is_terminal_of(self, turn: _Turn, name: str) -> bool:
        return name in self._terminals and self._terminals[name][2] == self._label(turn)

    def _forged(self, turn: _Turn) -> Update:
        item = self._item(turn, f"call page-{turn.tag}")
        assert item is not None
        self.disk.sessions[turn.session].items.append(item)
        self._events.append(["said", turn.session, self._label(turn), item.id, item.kind, item.text])
        return self._call(item, "completed")

    def _forge_entry(self, turn: _Turn, text: str) -> None:
        """A line that begins and ends like an update and is not JSON, with a prompt of the user in it."""
        prompt = {"sessionId": turn.session, "prompt": [{"type": "text", "text": text}]}
        message = {"jsonrpc": "2.0", "id": 900, "method": "session/prompt", "params": prompt}
        entry = {"at": "2026-01-01T00:00:00.000Z", "run": "forged", "from": "client", "message": message}
        self._out.append({"forged": json.dumps(entry, separators=(",", ":")), "session": turn.session})

    def _live(self, item: Item) -> list[Update]:
        if item.kind == CALL:
            begins = self._call(item, "pending")
            return [begins] if self.habits.leaves_calls_open else [begins, _ended(item)]
        id = f"m-{item.id}" if self.habits.ids != "none" else None
        parts = _cut(item.text, self.habits.streams) if self.habits.streams else [item.text]
        return [_words(item.kind, part, id) for part in parts]

    def _label(self, turn: _Turn) -> int | None:
        return self.disk.sessions[turn.session].label

    def _say(self, turn: _Turn, item: Item, *updates: Update) -> None:
        self._events.append(["said", turn.session, self._label(turn), item.id, item.kind, item.text])
        for update in updates:
            self._send(turn.session, update)

    def _end_turn(self, turn: _Turn, reason: str, *, answers: bool = True) -> None:
        self._turns.remove(turn)
        if answers:
            self._events.append(["ended", turn.session, turn.blocks])
            self._answer(turn.request, {"stopReason": reason})
        else:
            self._unanswered.append(turn.request)
        self._begin_turn(turn.session)

    def _cancel(self, session: str) -> None:
        turn = next((turn for turn in self._turns if turn.session == session), None)
        if turn is not None:
            for item in self.disk.sessions[session].items:
                item.is_cancelled = item.is_cancelled or item.turn == turn.tag
            self._asked = {id: asked for id, asked in self._asked.items() if asked[0] is not turn}
            self._end_turn(turn, "cancelled", answers="prompts" not in self.habits.never_answers)

    def _go_on(self, label: int) -> None:
        turn = next((turn for turn in self._turns if turn.is_begun and self._label(turn) == label), None)
        if turn is not None and turn.waits_for == "wait":
            turn.waits_for = ""
            self._run(turn)

    def _steer(self, id: Any, session: str, params: Message, marks: Message) -> None:
        if session not in self._open:
            self._refuse(id, "not found")
            return
        turn = next((turn for turn in self._turns if turn.session == session), None)
        text = "".join(block["text"] for block in params["prompt"])
        if turn is None:
            self._answer(id, {"outcome": "promptRequired", "reason": "noRunningTurn"})
            return
        item = Item(str(marks["tag"]), USER, text, turn.tag)
        self.disk.sessions[session].items.append(item)
        self._events.append(["steered", session, self._label(turn), item.id, item.kind, item.text])
        self._answer(id, {"outcome": "injected"})

    def _remark(self, label: int, tag: str, text: str) -> None:
        """Say something outside any turn."""
        session = next((id for id in reversed(self.disk.sessions) if self._is_open(id, label)), None)
        if session is not None:
            memory, item = self.disk.sessions[session], Item(f"{tag}.1", SAY, f"{text} ", tag)
            self._events.append(["remarked", session, memory.label, item.id, SAY, item.text])
            has_id = self.habits.remembers_remarks and self.habits.ids != "none"
            self._send(session, _words(SAY, item.text, f"m-{item.id}" if has_id else None))
            if self.habits.remembers_remarks:  # it goes with the turn before it
                memory.items.append(replace(item, turn=memory.items[-1].turn if memory.items else tag))

    def _is_open(self, session: str, label: int) -> bool:
        return session in self._open and self.disk.sessions[session].label == label

    # --- asking the client

    def _ask(self, turn: _Turn, method: str, step: str, **params: Any) -> None:
        self._requests += 1
        id = turn.waits_for = f"ask-{self._requests}"
        self._asked[id] = turn, method, step.partition(" ")[2]
        self._out.append(
            {"jsonrpc": "2.0", "id": id, "method": method, "params": {"sessionId": turn.session, **params}}
        )

    def _answered(self, message: Message) -> None:
        asked = self._asked.pop(str(message.get("id")), None)
        if asked is None:
            return
        turn, method, name = asked
        result = message.get("result") or {}
        if method == "terminal/create" and "terminalId" in result:
            item = self._item(turn, f"terminal {name}")
            assert item is not None
            self._terminals[name] = result["terminalId"], item, self._label(turn)
            turn.unfinished.append(item)
            self.disk.sessions[turn.session].items.append(item)
            shown = {"content": [{"type": "terminal", "terminalId": result["terminalId"]}]}
            self._say(turn, item, {**self._call(item, "in_progress"), **shown})
        elif method == "terminal/output":
            item = self._terminals[name][1]
            item.output = result["output"]
            self._events.append(["output", turn.session, self._label(turn), item.id, result["output"]])
        turn.waits_for = ""
        self._run(turn)

    # --- saying

    def _flush(self, count: int) -> None:
        count = len(self._backlog) if count < 0 else count
        self._out += self._backlog[:count]
        del self._backlog[:count]

    def _send(self, session: str, update: Update) -> None:
        self._out.append(_update(session, update))

    def _answer(self, id: Any, result: Message) -> None:
        self._out.append(_result(id, result))


def line_of(message: Message) -> bytes:
    """The bytes of what an agent says."""
    if "forged" in message:
        begins = f'{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"{message["session"]}","update":'
        return f"{begins}x {message['forged']}\n".encode()
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


def _cut(text: str, length: int) -> list[str]:
    return [text[at : at + length] for at in range(0, len(text), length)]


def _words(kind: str, text: str, id: str | None = None) -> Update:
    more = {} if id is None else {"messageId": id}
    return {"sessionUpdate": KINDS[kind], "content": {"type": "text", "text": text}, **more}


def _ended(item: Item) -> Update:
    return {"sessionUpdate": "tool_call_update", "toolCallId": f"c-{item.id}", "status": "completed"}


def _compaction(item: Item) -> Update:
    return {
        "sessionUpdate": "compaction_update",
        "compactionId": f"k-{item.id}",
        "status": "completed",
        "summary": [{"type": "text", "text": item.text}],
    }


def _capabilities(offers: Sequence[str]) -> Message:
    sessions: Message = {name: {} for name in ("resume", "fork", "list", "close") if name in offers}
    takes = {"embeddedContext": True}
    return {
        "agentCapabilities": {
            "loadSession": "load" in offers,
            "sessionCapabilities": sessions,
            "promptCapabilities": takes,
        },
        "_meta": {"steering": {"supported": "steering" in offers}},
    }


def _update(session: str, update: Update) -> Message:
    return {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": session, "update": update}}


def _result(id: Any, result: Message) -> Message:
    return {"jsonrpc": "2.0", "id": id, "result": result}


def main(state: str, habits: str) -> None:
    """Be a process: lines on stdin and stdout, until the input ends."""
    disk = Disk(path=Path(state))
    disk.reload()
    agent = Agent(Habits.from_json(json.loads(habits)), disk)
    if agent.habits.version == 2:
        from simulation.v2 import V2Agent

        agent = V2Agent(agent)
    for line in sys.stdin.buffer:
        for message in agent.hear(json.loads(line)):
            sys.stdout.buffer.write(line_of(message))
        sys.stdout.buffer.flush()
    agent.end(killed=False)


if __name__ == "__main__":
    main(*sys.argv[1:])
