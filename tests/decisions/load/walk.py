"""Walks a load through every pair of a state and an event, and describes the effects.

A walk has a kind (how the load is served), a state (a script that brings the load there) and an event. Its description
has what the event does, and what follows when everything that is under way then comes to its end: an agent that still
answers, pasts that are shown, a prompt, its turn, and the end of the agent. So a difference that shows later is found
too.

``python -m tests.decisions.load.walk`` writes the descriptions to ``golden/``, where their differences can be read.
"""

import copy
import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from acp_proxy.decisions import capabilities
from acp_proxy.decisions.capabilities import Modes
from acp_proxy.decisions.effects import (
    AddAlias,
    BeginTranscript,
    BeginTurn,
    ChooseAndShowPast,
    CloseTranscript,
    CompareUnsettled,
    Effect,
    EndTurn,
    Forward,
    LookUpSession,
    RecordMessage,
    RecordNote,
    RecordUnparsedUpdates,
    RelayEffect,
    ReserveOutput,
    SaveAndIndex,
    StopShowingPast,
    TranscriptEffect,
    Warn,
)
from acp_proxy.decisions.load import load_limits
from acp_proxy.decisions.load.load import Load
from acp_proxy.decisions.load.load_machine import LoadMachine
from acp_proxy.decisions.load.load_states import LoadEvent, LoadState
from acp_proxy.protocol.jsonrpc import Peer
from tests.conversation import (
    LOADS,
    RESUMES,
    CoreConversation,
    SimulatedSession,
    Step,
    cancel,
    chunk,
    commands,
    delete,
    error,
    line,
    load,
    make_request_id,
    notification,
    permission,
    prompt,
    prompt_answer,
    request,
    result,
    resume,
    update,
)
from tests.decisions.load.loading import GREETING, PAST, TURN_ONE, TURN_TWO

GOLDEN = Path(__file__).parent / "golden"
Act = Callable[[CoreConversation], Step]


class Impossible(Exception):
    """This cannot happen in this state."""


@dataclass(frozen=True)
class Kind:
    """A way in which a load is served. ``method``: of the client's request; ``sends``: what the agent gets."""

    capabilities: object
    stored: SimulatedSession
    modes: Modes = Modes()  # noqa: RUF009 - frozen
    method: str = "session/load"
    is_handover: bool = False

    def ask(self, id: int) -> dict[str, Any]:
        if self.method == "session/fork":
            return request(id, self.method, {"sessionId": "parent", "cwd": "/w", "mcpServers": []})
        return load(id, "s") if self.method == "session/load" else resume(id, "s")


THERE = SimulatedSession(says=PAST)
KINDS = {
    "load_compared": Kind(LOADS, THERE),
    "load_by_resume": Kind(RESUMES, THERE),
    "load_from_store": Kind(LOADS, THERE, Modes(load=capabilities.STORE)),
    "load_moved": Kind(LOADS, SimulatedSession(says=PAST, moved=True, alias="n")),
    "load_behind": Kind(LOADS, SimulatedSession(says=PAST, behind=True)),
    "load_passing": Kind(LOADS, THERE, Modes(load=capabilities.AGENT)),
    "load_imported": Kind(LOADS, SimulatedSession(has_transcript=False)),
    "resume": Kind(RESUMES, THERE, method="session/resume"),
    "resume_by_load": Kind(LOADS, THERE, Modes(resume=capabilities.STORE), method="session/resume"),
    "handover": Kind({}, THERE, Modes(handover=capabilities.ALWAYS), is_handover=True),
    "fork": Kind({"sessionCapabilities": {"fork": {}}}, THERE, method="session/fork"),
}


class Walk:
    """One load of a kind, and the requests that were sent about it."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.talk = CoreConversation(modes=kind.modes).initialize(kind.capabilities)
        self.talk.stored["s"] = self.talk.stored["parent"] = kind.stored
        self.id = 1
        """The load's request id."""
        self.open: set[int] = set()
        """The requests that the agent has not answered: loads, and prompts (from 50 on)."""
        self.session = "n" if kind.stored.alias or kind.is_handover else "s"

    # --- what happens

    def ask(self, id: int) -> Step:
        self.id, self.open = id, self.open | {id}
        return self.talk.client.say(self.kind.ask(id))

    def agree(self, id: int = 0, session: str | None = None) -> Step:
        id = self._answered(id)
        if self._is_asked_anew(id):
            return self.talk.agent.say(result("acp-proxy/1", {"sessionId": "n"}))
        if self.kind.method == "session/fork":
            return self.talk.agent.say(result(id, {"sessionId": "s"}))
        return self.talk.agent.say(result(id, {"sessionId": session} if session else None))

    def refuse(self, code: int, words: str) -> Step:
        id = self._answered(0)
        return self.talk.agent.say(error("acp-proxy/1" if self._is_asked_anew(id) else id, code, words))

    def _answered(self, id: int) -> int:
        id = id or self.id
        if id not in self.open or id in self.list_waiting():
            raise Impossible
        self.open -= {id}
        return id

    def _is_asked_anew(self, id: int) -> bool:
        return self.kind.is_handover and id == 1

    def list_answerable(self) -> list[int]:
        """The loads that the agent has got and not answered: another one of the session waits until one is answered."""
        return sorted(id for id in self.open - self.list_waiting() if id < 50)

    def list_waiting(self) -> set[int]:
        return {id for id in self.open if make_request_id(id) in self.talk.core.waiting_messages._places}

    def say(self, *updates: Any) -> Step:
        named = (line(each).replace(b'"s"', b'"%s"' % self.session.encode()) for each in updates)
        return self.talk.agent.say(*map(json.loads, named))

    def end_past(self) -> Step:
        if not self.talk.being_shown:
            raise Impossible
        return self.talk.end_past_by_id(self.talk.being_shown[0], handover_record="RECORD")

    def prompt(self) -> Step:
        id = max(50, *self.open, 50) + 1
        self.open |= {id}
        return self.talk.client.say(prompt(id, "s", "and now?"))

    def end_turn(self) -> Step:
        prompts = [id for id in self.open if id > 50]
        if not prompts:
            raise Impossible
        return self.talk.agent.say(prompt_answer(self._answered(min(prompts))))

    def free_output(self) -> Step:
        if not self.talk.wait_for_output:
            raise Impossible
        return self.talk.free_output()

    def cancel(self) -> Step:
        return self.talk.client.say(cancel(self.id))


def _asked(walk: Walk) -> None:
    walk.ask(1)


def _asked_and_replayed(walk: Walk) -> None:
    walk.ask(1)
    walk.say(*TURN_ONE)


def _too_large(walk: Walk) -> None:
    walk.ask(1)
    with patch.object(load_limits, "HELD_BYTES_LIMIT", 100):
        walk.say(*TURN_ONE)
    walk.say(*TURN_TWO)


def _passing(walk: Walk) -> None:
    _asked_and_replayed(walk)
    walk.say(permission(70, "s"))


def _passing_cancelled(walk: Walk) -> None:
    _passing(walk)
    walk.cancel()


def _given_up(walk: Walk) -> None:
    _asked_and_replayed(walk)
    walk.talk.output_is_busy = True
    walk.cancel()


def _cancelled(walk: Walk) -> None:
    _asked_and_replayed(walk)
    walk.cancel()


def _cancelled_and_prompted(walk: Walk) -> None:
    _cancelled(walk)
    walk.prompt()


def _abandoned(walk: Walk) -> None:
    """A later request was answered, and its past was shown."""
    _cancelled(walk)
    walk.ask(2)
    walk.say(*TURN_ONE)
    walk.agree(2)
    if walk.talk.being_shown:
        walk.end_past()
    walk.id = 1


def _waiting(walk: Walk) -> None:
    """For another load of the session."""
    _asked_and_replayed(walk)
    walk.ask(2)
    if walk.list_answerable() != [1]:
        raise Impossible


def _showing(walk: Walk) -> None:
    _asked_and_replayed(walk)
    walk.agree()
    if not walk.talk.being_shown:
        raise Impossible


def _showing_and_updated(walk: Walk) -> None:
    _showing(walk)
    walk.say(*TURN_TWO, GREETING)


def _stopping(walk: Walk) -> None:
    _showing_and_updated(walk)
    walk.talk.output_is_busy = True
    walk.cancel()


def _unanswered(walk: Walk) -> None:
    _asked_and_replayed(walk)
    walk.say(*TURN_TWO)
    walk.agree()
    if walk.talk.being_shown:
        walk.end_past()


def _open_without_replay(walk: Walk) -> None:
    walk.ask(1)
    walk.agree()
    if walk.talk.being_shown:
        walk.end_past()


def _open_and_updated(walk: Walk) -> None:
    _open_without_replay(walk)
    walk.say(*TURN_ONE, *TURN_TWO, GREETING)


def _turn(walk: Walk) -> None:
    _unanswered(walk)
    walk.prompt()


def _turn_in_replay(walk: Walk) -> None:
    _open_without_replay(walk)
    walk.say(*TURN_ONE)
    walk.prompt()


def _over(walk: Walk) -> None:
    _turn(walk)
    walk.end_turn()


STATES: dict[str, Callable[[Walk], None]] = {
    "asked": _asked,
    "asked, replayed": _asked_and_replayed,
    "too large": _too_large,
    "passing": _passing,
    "passing, cancelled": _passing_cancelled,
    "given up": _given_up,
    "cancelled": _cancelled,
    "cancelled, in a turn": _cancelled_and_prompted,
    "abandoned": _abandoned,
    "waiting": _waiting,
    "showing": _showing,
    "showing, updated": _showing_and_updated,
    "stopping": _stopping,
    "open": _unanswered,
    "open, no replay": _open_without_replay,
    "open, updated": _open_and_updated,
    "turn": _turn,
    "turn in replay": _turn_in_replay,
    "over": _over,
}

EVENTS: dict[str, Callable[[Walk], Step]] = {
    "agrees": Walk.agree,
    "agrees, other id": lambda walk: walk.agree(session="other"),
    "refuses": lambda walk: walk.refuse(-32603, "Busy"),
    "does not know it": lambda walk: walk.refuse(-32002, "Session not found"),
    "past shown": Walk.end_past,
    "cancel": Walk.cancel,
    "output is free": Walk.free_output,
    "prompt": Walk.prompt,
    "turn ends": Walk.end_turn,
    "close": lambda walk: walk.talk.client.say(request(80, "session/close", {"sessionId": "s"})),
    "load again": lambda walk: (
        walk.ask(3) if walk.kind.method != "session/fork" else walk.talk.client.say(load(3, "s"))
    ),
    "delete": lambda walk: walk.talk.client.say(delete(81, "s")),
    "agent ends": lambda walk: walk.talk.end_agent(),
    "permission": lambda walk: walk.say(permission(71, "s")),
    "known turn": lambda walk: walk.say(*TURN_TWO),
    "first turn": lambda walk: walk.say(*TURN_ONE),
    "new words": lambda walk: walk.say(chunk("s", "Something quite new.")),
    "call": lambda walk: walk.say(update("s", "tool_call", toolCallId="c", title="Read")),
    "state": lambda walk: walk.say(commands("s", "plan")),
    "notification": lambda walk: walk.say(notification("_x/note", {"sessionId": "s"})),
}


def _come_to_an_end(walk: Walk) -> Iterator[Step]:
    """What follows from here, if both peers go on: everything that is under way ends, and a turn follows."""
    talk = walk.talk
    yield talk.free_output()
    while talk.being_shown or walk.list_answerable():
        for id in walk.list_answerable():
            yield walk.agree(id)
        while talk.being_shown:
            yield walk.end_past()
    yield walk.say(chunk("s", "One more thing."))
    yield walk.prompt()
    yield walk.say(chunk("s", "and now?", "user_message_chunk"), chunk("s", "Now all is well."))
    while any(id > 50 for id in walk.open - walk.list_waiting()):
        yield walk.end_turn()
    yield talk.end_agent()
    while talk.being_shown:
        yield walk.end_past()


def walk_all(kind: str) -> list[str]:
    """The descriptions of all walks of a kind: a line for each event, then each different end after its mark, then
    the moves of the table of transitions that they made."""
    walks: list[str] = []
    ends: dict[str, str] = {}
    with _watch_moves() as transitions:
        for state, bring in STATES.items():
            there = Walk(KINDS[kind])
            try:
                bring(there)
            except Impossible:
                continue
            for event, happen in EVENTS.items():
                walk = copy.deepcopy(there)
                try:
                    step = happen(walk)
                except Impossible:
                    continue
                ending = _describe_end(walk)
                mark = hashlib.sha256(ending.encode()).hexdigest()[:6]
                ends[mark] = ending
                walks.append(f"{state} | {event}: {_describe(step)} | then {mark}")
    return [*walks, *(f"{mark} = {ending}" for mark, ending in sorted(ends.items())), *sorted(transitions)]


def describe_move(state: LoadState, event: LoadEvent) -> str:
    """A row of the table of transitions as ``walk_all`` has it."""
    return f"moved: {state.name} {event.name}"


@contextmanager
def _watch_moves() -> Iterator[set[str]]:
    transitions: set[str] = set()
    move = LoadMachine._apply_event

    def noted(machine: LoadMachine, load: Load, event: LoadEvent) -> list[Effect]:
        transitions.add(describe_move(load.state, event))
        return move(machine, load, event)

    with patch.object(LoadMachine, "_apply_event", noted):
        yield transitions


def _describe_end(walk: Walk) -> str:
    described: list[str] = []
    try:
        for step in _come_to_an_end(walk):
            described += filter(None, [_describe(step)])
    except AssertionError as broken:  # a rule of the conversation
        described.append(f"BROKEN: {broken}")
    return " // ".join(described)


# --- descriptions


def _describe(step: Step) -> str:
    kept = [_recorded(record) for record in step.kept]
    done = [_done(each) for each in step.done]
    return "; ".join(filter(None, (*kept, *done)))


def _recorded(effect: TranscriptEffect) -> str:
    match effect:
        case BeginTranscript(_, _, _, origin):
            return f"begin transcript {origin}"
        case BeginTurn():
            return "begin turn"
        case EndTurn():
            return "end turn"
        case SaveAndIndex():
            return "index"
        case RecordMessage(_, peer, raw):
            return f"record {peer.name.lower()} {_line(raw)}"
        case RecordUnparsedUpdates(_, data):
            return f"record {_lines(data)}"
        case RecordNote(_, note):
            return f"note {' '.join(f'{value}' for value in note.values() if value not in (None, []))}"
        case _:
            return type(effect).__name__


def _flags(effect: ChooseAndShowPast) -> list[tuple[str, bool]]:
    return [
        ("compares", effect.needs_comparison),
        ("record", effect.makes_handover_record),
        ("lacking", effect.only_what_agent_lacks),
    ]


def _done(effect: RelayEffect) -> str:
    match effect:
        case Forward(to, data):
            return f"{'to client' if to is Peer.CLIENT else 'to agent'} {_lines(data)}" if data else ""
        case ChooseAndShowPast():
            told = " ".join(_line(each) + " late" * late for each, late in effect.updates)
            flags = [word for word, is_set in _flags(effect) if is_set]
            rule = [effect.planned_decision.rule.name] if effect.planned_decision is not None else []
            return f"choose past {effect.request_id} {' '.join([*flags, *rule])} [{told}]"
        case CompareUnsettled(request_id, _, told, since):
            part = "past" if since is None else "since"
            return f"compare {part} {request_id} [{' '.join(_line(each) + ' late' * late for each, late in told)}]"
        case (
            CloseTranscript(request_id)
            | StopShowingPast(request_id)
            | ReserveOutput(request_id)
            | LookUpSession(request_id)
        ):
            return f"{type(effect).__name__} {request_id}"
        case AddAlias(session, alias):
            return f"alias {session} {alias}"
        case Warn(text):
            return f"warn {text}"
        case _:
            return type(effect).__name__


def _lines(data: bytes) -> str:
    return " ".join(_line(each) for each in data.splitlines())


def _line(raw: bytes) -> str:
    value = json.loads(raw)
    if "result" in value:
        return f"<answer {value['id']}>" if not value["result"] else f"<answer {value['id']} {_short(value['result'])}>"
    if "error" in value:
        return f"<error {value['id']} {value['error']['code']}>"
    session = value.get("params", {}).get("sessionId")
    of = "" if session == "s" else f" of {session}"
    said = value.get("params", {}).get("update")
    if said is None:
        return f"<{value['method']}{of} {value.get('id', '')}>"
    kind, text = said["sessionUpdate"].removesuffix("_message_chunk"), (said.get("content") or {}).get("text", "")
    return f"<{kind}{of} {text[:24]!r}>" if text else f"<{kind}{of}>"


def _short(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


if __name__ == "__main__":
    GOLDEN.mkdir(exist_ok=True)
    for name in KINDS:
        (GOLDEN / f"{name}.txt").write_text("\n".join(walk_all(name)) + "\n")
