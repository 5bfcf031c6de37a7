"""Agents that follow their habits.

An ``Agent`` is one process. It gets all requests that reached it at once, and says lines. What it keeps for its next
process is on a ``Disk``. Nothing here knows the proxy.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from tests.model import world
from tests.model.habits import REFUSALS, Habits
from tests.model.memory import Disk, retold
from tests.model.world import ASIDE, CALL, SAY, USER, Item, Replayer, Update, words

Message = dict[str, Any]

LIVE, PAST, WARNED, ANSWER = "new", "past", "warning", "answer"
"""Kinds of lines: something new, a copy of the past, the warning of every process, anything else."""

RENAMED = "renamed"
"""Noted like a request: the answer named another session."""
_CANCELLED = -32800
_EXPANSION = " [contents of a file]"
_CONTEXT = Item(ASIDE, "<context>", 0)
_WARNING = Item(ASIDE, world.WARNING, 0)


@dataclass
class Said:
    """A line of an agent, and its kind. ``session`` is the agent's id; ``item``: the content of an update."""

    message: Message
    what: str
    session: str = ""
    item: Item | None = None
    in_turn: bool = False


@dataclass
class Prompted:
    """A prompt as it reached the agent. ``has_record``: the agent's earlier prompts had the record, or this one has."""

    session: str
    text: str
    brings_record: bool
    has_record: bool


@dataclass
class Plan:
    """What the agent says in a turn: at once, and later."""

    user: Item
    now: list[Item]
    later: list[Item]


@dataclass
class _Turn:
    request: Any
    session: str
    plan: Plan
    has_blocks: bool
    is_begun: bool = False


class Agent:
    def __init__(self, habits: Habits, disk: Disk, plans: dict[int, Plan]) -> None:
        """``plans``: by the number of the prompt's item, which the prompt carries in its ``_meta``."""
        self.habits = habits
        self.disk = disk
        self.said: list[Said] = []
        """The lines that it says now, until somebody takes them."""
        self.backlog: list[Said] = []
        """The rest of a replay, which follows an answer."""
        self.tellings: list[tuple[str, Replayer]] = []
        """Every replay that was begun, with its session."""
        self.asked: list[tuple[str, str]] = []
        """Requests that opened or prompted a session, in order: method and id (of ``session/new``, its answer's)."""
        self.prompted: list[Prompted] = []
        """Prompts that it accepted outside a turn."""
        self.holds_loads = False
        """Whether the answer to a load waits for the next event; the part of the replay before it is sent."""
        self.unanswered: set[Any] = set()
        """Ids of requests that it never answers."""
        self._plans = plans
        self._open: set[str] = set()
        self._untried: set[str] = set()
        self._stumbled: set[str] = set()
        self._held: tuple[Any, list[Said], list[Said]] | None = None
        self._turns: list[_Turn] = []

    # --- called by the test

    def hear(self, messages: Sequence[Message]) -> None:
        cancelled = [m["params"]["requestId"] for m in messages if m.get("method") == "$/cancel_request"]
        for message in messages:
            self._hear(message, cancelled)

    def go_on(self, session: str) -> None:
        """Say the rest of the turn, and answer it; begin with the next queued prompt."""
        turn = next((turn for turn in self._turns if turn.session == session), None)
        if turn is not None:
            self._say_items(session, turn.plan.later)
            self._end_turn(turn, "end_turn")

    def remark(self, session: str, item: Item) -> None:
        """Say something outside any turn."""
        self._update(session, words(SAY, item.text), LIVE, item)
        if self.habits.remembers_remarks:
            self.disk.sessions[session].append(item)

    def flush(self, count: int | None = None) -> None:
        """Say the rest of a replay, or ``count`` lines of it."""
        count = len(self.backlog) if count is None else count
        self.said += self.backlog[:count]
        del self.backlog[:count]

    def finish_loads(self) -> None:
        if self._held is not None:
            _, answer, late = self._held
            self._held = None
            self._close_load(answer, late)

    def is_in_turn(self, session: str) -> bool:
        return any(turn.session == session for turn in self._turns)

    def holds(self, request: Any) -> bool:
        """Whether this request has no answer yet, or never gets one."""
        held = self._held is not None and self._held[0] == request
        return held or request in self.unanswered or any(turn.request == request for turn in self._turns)

    def die(self) -> None:
        """End the process: the disk keeps what survives."""
        for turn in self._turns:
            if self.habits.finishes and turn.is_begun:
                self.disk.sessions[turn.session] += turn.plan.later
        self.disk.end_of_process(self.habits)

    # --- hearing

    def _hear(self, message: Message, cancelled: Sequence[Any]) -> None:
        method, id, params = message.get("method"), message.get("id"), message.get("params") or {}
        session = params.get("sessionId", "")
        overtakes = self.habits.overtakes and method == "session/load" and self._held is not None
        if method not in ("session/cancel", "$/cancel_request") and not overtakes:
            self.finish_loads()
            self.flush()
        if method in ("session/load", "session/resume", "session/fork", "session/prompt"):
            self.asked.append((method, session))
        if method == "session/new":
            self._new(id)
        elif method in ("session/load", "session/resume"):
            self._restore(method, id, session, is_cancelled=id in cancelled)
            if overtakes:
                self.flush()
                self.finish_loads()
        elif method == "session/fork":
            self._fork(id, session)
        elif method == "session/prompt":
            self._prompt(id, session, params)
        elif method == "session/cancel":
            self._cancel(session)
        elif method == "$/cancel_request":
            self._cancel_request(params.get("requestId"))
        elif method == "initialize":
            self._answer(id, {"protocolVersion": 1, "agentCapabilities": _capabilities(self.habits.offers)})
        elif method == "session/list":
            self._answer(id, {"sessions": [{"sessionId": each, "cwd": "/w"} for each in self.disk.sessions]})
        elif id is not None and method is not None:
            self._answer(id, {})

    def _new(self, id: Any) -> None:
        session = self.disk.new_id()
        self.asked.append(("session/new", session))
        self.disk.sessions[session] = []
        self._open.add(session)
        self._answer(id, {"sessionId": session})
        if self.habits.warns != "never":
            self._warn(session)
        self._greet(session)

    def _restore(self, method: str, id: Any, session: str, *, is_cancelled: bool) -> None:
        habits = self.habits
        is_known = session in self.disk.sessions
        if session not in self._open and (habits.refuses or not is_known):
            code, text = REFUSALS[habits.refuses or "not found"]
            self.said.append(Said({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": text}}, ANSWER))
            return
        if session not in self._open and habits.refuses_prompt:
            self._untried.add(session)
        result: Message = {}
        if method == "session/resume" and habits.renames:
            old, session = session, self.disk.new_id()
            self.asked.append((RENAMED, session))
            self.disk.sessions[session] = list(self.disk.sessions[old])
            result = {"sessionId": session}
        self._open.add(session)
        tells = habits.tells if method == "session/load" else habits.tells_resumed
        early, late = self._telling(session, tells)
        if habits.greets and not is_cancelled:
            late.append(self._greeting(session))
        answer = [_result(id, result)]
        if is_cancelled and not habits.answers_cancelled:
            self.said += early
            self._drop_load(id)
        elif self.holds_loads and self._held is None:
            self.said += early
            self._held = id, answer, late
        else:
            self.said += early
            self._close_load(answer, late)

    def _close_load(self, answer: list[Said], late: list[Said]) -> None:
        self.said += answer
        self.backlog += late

    def _drop_load(self, id: Any) -> None:
        if "loads" in self.habits.never_answers:
            self.unanswered.add(id)
        else:
            error = {"code": _CANCELLED, "message": "cancelled"}
            self.said.append(Said({"jsonrpc": "2.0", "id": id, "error": error}, ANSWER))

    def _cancel_request(self, request: Any) -> None:
        if self._held is not None and self._held[0] == request:
            if self.habits.answers_cancelled:
                self.finish_loads()
            else:
                self._held = None
                self._drop_load(request)

    def _fork(self, id: Any, parent: str) -> None:
        if parent not in self._open:
            code, text = REFUSALS["not found"]
            self.said.append(Said({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": text}}, ANSWER))
            return
        session = self.disk.new_id()
        self.disk.sessions[session] = list(self.disk.sessions[parent])
        if parent in self.disk.lost_turns:
            self.disk.lost_turns.add(session)
        self._open.add(session)
        early, late = self._telling(session, self.habits.tells_forked, warns=False)
        self.said += early
        self._close_load([_result(id, {"sessionId": session})], late)

    # --- replaying the past

    def _telling(self, session: str, when: str, *, warns: bool = True) -> tuple[list[Said], list[Said]]:
        """The lines of a replay before the answer, and those after it."""
        habits = self.habits
        items = list(self.disk.sessions[session]) if when != "never" else []
        told = Replayer(items, times=habits.times, forgot_turns=session in self.disk.lost_turns)
        if habits.injects and items:
            told.lines.append((words(USER, _CONTEXT.text), _CONTEXT))
        told.lines += [(update, item) for item, update in retold(items, habits.pieces)]
        out = [self._past(session, update, item) for update, item in told.lines] * habits.times
        split = {"after": 0, "split": 1}.get(when, len(out))
        told.late = split < len(out)
        self.tellings.append((session, told))
        early, late = out[:split], out[split:]
        warning = self._past(session, words(SAY, world.WARNING), _WARNING, WARNED)
        if warns and habits.warns == "first":
            early.insert(0, warning)
        elif warns and habits.warns == "last":
            early.append(warning)
        elif warns and habits.warns == "after":
            late.append(warning)
        return early, late

    def _past(self, session: str, update: Update, item: Item | None, what: str = PAST) -> Said:
        return Said(_update(session, update), what, session, item)

    # --- turns

    def _prompt(self, id: Any, session: str, params: Message) -> None:
        refused = session in self._untried
        self._untried.discard(session)
        if refused or session not in self._open:
            self._open.discard(session)
            self.disk.sessions.pop(session, None)
            error = {"code": -32602, "message": f"session not found: {session}"}
            self.said.append(Said({"jsonrpc": "2.0", "id": id, "error": error}, ANSWER))
            return
        if self.habits.stumbles and session not in self._stumbled:
            self._stumbled.add(session)
            code, text = REFUSALS["service failure"]
            self.said.append(Said({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": text}}, ANSWER))
            return
        plan = self._plans[params["_meta"]["plan"]]
        if not self.is_in_turn(session):
            brings = len(params["prompt"]) > 1
            has = brings or session in self.disk.have_record
            self.prompted.append(Prompted(session, plan.user.text, brings, has))
        self._turns.append(_Turn(id, session, plan, len(params["prompt"]) > 1))
        self._begin_turn(session)

    def _begin_turn(self, session: str) -> None:
        turn = next((turn for turn in self._turns if turn.session == session), None)
        if turn is None or turn.is_begun:
            return
        turn.is_begun = True
        user, memory = turn.plan.user, self.disk.sessions[session]
        text = user.text + (_EXPANSION if self.habits.echoes == "expanded" else "")
        if self.habits.echoes != "never" and not turn.has_blocks:
            for update in _echo(text, self.habits.echoes, user.number):
                self._in_turn(session, update, None)
        compact = self.disk.take_back(session, user.text) if self.habits.commands else None
        if compact is not None:
            self._in_turn(session, world.compaction(compact), compact)
        memory.append(replace(user, text=text))
        self._say_items(session, turn.plan.now)
        if not turn.plan.later:
            self._end_turn(turn, "end_turn")

    def _end_turn(self, turn: _Turn, reason: str, *, answers: bool = True) -> None:
        self._turns.remove(turn)
        if answers:
            self._answer(turn.request, {"stopReason": reason})
            self.disk.have_record |= {turn.session} if turn.has_blocks else set()
        else:
            self.unanswered.add(turn.request)
        memory = self.disk.sessions[turn.session]
        if self.habits.forgets_commands and self.habits.commands and turn.plan.user.text.startswith(world.COMMANDS):
            own = {item.number for item in (turn.plan.user, *turn.plan.now, *turn.plan.later)}
            memory[:] = [item for item in memory if item.number not in own]
        self._begin_turn(turn.session)

    def _cancel(self, session: str) -> None:
        turn = next((turn for turn in self._turns if turn.session == session), None)
        if turn is not None:
            self._end_turn(turn, "cancelled", answers="prompts" not in self.habits.never_answers)

    def _say_items(self, session: str, items: Sequence[Item]) -> None:
        for item in items:
            self.disk.sessions[session].append(item)
            if item.kind == CALL:
                self._in_turn(session, world.call_begins(item), item)
                self._in_turn(session, world.call_ends(item), None)
            else:
                self._in_turn(session, words(item.kind, item.text), item)

    # --- saying

    def _update(self, session: str, update: Update, what: str, item: Item | None, *, in_turn: bool = False) -> None:
        self.said.append(Said(_update(session, update), what, session, item, in_turn))

    def _in_turn(self, session: str, update: Update, item: Item | None) -> None:
        self._update(session, update, LIVE, item, in_turn=True)

    def _warn(self, session: str) -> None:
        self._update(session, words(SAY, world.WARNING), WARNED, _WARNING)

    def _greet(self, session: str) -> None:
        if self.habits.greets:
            self.said.append(self._greeting(session))

    def _greeting(self, session: str) -> Said:
        number = self.disk.number()
        item = Item(SAY, f"greeting {number}. ", number)
        if self.habits.remembers_remarks:
            self.disk.sessions[session].append(item)
        return Said(_update(session, words(SAY, item.text)), LIVE, session, item)

    def _answer(self, id: Any, result: Message) -> None:
        self.said.append(_result(id, result))


def _echo(text: str, how: str, number: int) -> list[Update]:
    if how == "chunks":
        half = len(text) // 2
        return [words(USER, text[:half]), words(USER, text[half:])]
    return [words(USER, text, f"echo-{number}" if how == "id" else None)]


def _capabilities(offers: frozenset[str]) -> Message:
    sessions: Message = {name: {} for name in ("resume", "fork", "list", "close") if name in offers}
    return {"loadSession": "load" in offers, "sessionCapabilities": sessions}


def _update(session: str, update: Update) -> Message:
    return {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": session, "update": update}}


def _result(id: Any, result: Message) -> Said:
    return Said({"jsonrpc": "2.0", "id": id, "result": result}, ANSWER)
