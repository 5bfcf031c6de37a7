"""Acts on what happens to requests to open sessions: sends or holds lines, records, and asks ``run``.

``states.TRANSITIONS`` says what to do in which state. Only ``Loads``, ``Opening`` and the interceptor call this.
"""

from typing import assert_never

from msgspec.structs import replace

from acp_proxy.comparison.choose_replay import Rule
from acp_proxy.comparison.late_updates import SortedLine
from acp_proxy.comparison.once import drop_repetition, order_replay
from acp_proxy.protocol import acp, jsonrpc, versions
from acp_proxy.protocol.jsonrpc import Notification, Peer, Request, RequestId, Response
from acp_proxy.proxy import handover
from acp_proxy.proxy.aliases import Aliases
from acp_proxy.proxy.effects import (
    CloseTranscript,
    Effect,
    EndTurn,
    Forward,
    NoteAlias,
    ReadPast,
    StartReplay,
    StopReplay,
    TakeOutput,
    Warn,
)
from acp_proxy.proxy.events import ReplayEnded
from acp_proxy.proxy.handover import Handovers
from acp_proxy.proxy.load.open_loads import HELD_LIMIT, IN_QUESTION, OpenLoads
from acp_proxy.proxy.load.states import Do, Load, LoadEvent, LoadState
from acp_proxy.proxy.session_list import refusal
from acp_proxy.proxy.session_log import SessionLog

_TOO_MANY_HANDOVERS = "Too many sessions continue in new sessions of the agent. Restart the agent to open this one."


class LoadMachine:
    """Performs the steps of every ``Load``."""

    def __init__(self, under_way: OpenLoads, notebook: SessionLog, names: Aliases, handovers: Handovers) -> None:
        self.titles = True
        """Whether the client gets the title made from the prompts. It does not if the agent's list shows another."""
        self.agent_lists = False
        """Whether the agent has a list of its own, in which the session that it opens for a handover would appear."""
        self.kinds: frozenset[str] = frozenset()
        """The optional kinds of updates that the client understands."""
        self.takes: frozenset[str] = frozenset()
        """The types of content blocks that the agent takes in a prompt, beside those that every agent takes."""
        self.dialect = versions.V1
        """The connection's version of the protocol."""
        self.resent: dict[RequestId, tuple[Request, bytes]] = {}
        """By request id: a prompt that is sent again in a new session, and the line of the agent's refusal."""
        self.is_over = False
        """Whether the agent has ended."""
        self.under_way = under_way
        self._notebook = notebook
        self._names = names
        self._handovers = handovers

    def happens(self, load: Load, event: LoadEvent, said: object = None) -> list[Effect]:
        """Move a load to its next state. ``said``: the agent's ``Response``, or ``ReplayEnded``, if it has come."""
        effects: list[Effect] = []
        for do in load.steps(event):
            effects += self._do(load, do, said)
        if load.state is LoadState.OPEN and load in self.under_way.all():
            self.under_way.answered(load)
            if not self._notebook.is_deleted(load.session):
                self.under_way.in_question[load.session] = load
                effects += self._bounded()
            effects += self.goes_on(load)
            effects += self._next(load.session)
        elif load.state is LoadState.OVER:
            self.under_way.leave(load)
            self.under_way.settled(load)
            effects += self._next(load.session)
        return effects

    def goes_on(self, load: Load) -> list[Effect]:
        """Act on what happened before the client got its answer: a prompt, another request, the agent's end."""
        is_live = self._notebook.is_live(load.session)
        others = [other for other in self.under_way.of_session(load.session) if not other.is_past]
        is_last_word = self.is_over or bool(others)
        is_open = load.state is LoadState.OPEN and self.under_way.in_question.get(load.session) is load
        if not is_open or not (is_live or is_last_word):
            return []
        if unread := self.unread(load.session):
            return unread
        effects = self.happens(load, LoadEvent.PROMPTED) if is_live else []
        return effects + (self.happens(load, LoadEvent.ENDED) if is_last_word else [])

    def hand_over(self, load: Load) -> list[Effect]:
        """Ask the agent for a new session for this load. If that cannot be done, the load is refused."""
        load.plan = replace(load.plan, sends=acp.NEW, rule=Rule.HANDED_OVER, hands_over="never", catches_up=False)
        id = load.request.id
        try:
            if not self._handovers.are_too_many:
                return [self._handovers.ask(load)]
            load.response = jsonrpc.error(id, jsonrpc.INTERNAL_ERROR, _TOO_MANY_HANDOVERS)
        except (ValueError, KeyError) as problem:
            load.response = jsonrpc.error(id, jsonrpc.INVALID_PARAMS, f"params: {problem}")
        return self.happens(load, LoadEvent.REFUSED)

    def aliased(self, session: str, alias: str) -> list[Effect]:
        """A session continues in the agent's session ``alias``: that is no session of its own in lists and loads."""
        return [NoteAlias(session, alias)] if self.agent_lists and alias != session else []

    def unread(self, session: str | None) -> list[Effect]:
        """The ``ReadPast`` that a prompt, a close or another request for this session must wait for, if any."""
        load = self.under_way.in_question.get(session) if session is not None else None
        if load is None or load.comparison is not None or not load.told or load.state is not LoadState.OPEN:
            return []
        _, is_late = load.told[-1]
        if load.is_imported and not is_late:  # all of it is recorded already
            return []
        return [self.reads(load)]

    def closed(self, session: str | None) -> list[Effect]:
        """The session is closed or opened again: settle what the agent sent about it until now."""
        load = self.under_way.in_question.get(session) if session is not None and self.under_way.in_question else None
        return self.happens(load, LoadEvent.CLOSED) if load is not None else []

    def _do(self, load: Load, do: Do, said: object) -> list[Effect]:
        match do:
            case Do.NOTE:
                return self._written_down(load, said)
            case Do.WAIT_IN_LINE:
                return self._next(load.session)
            case Do.TELL:
                return self._told(load)
            case Do.CLOSE_TRANSCRIPT:
                return [CloseTranscript(load.request.id)]
            case Do.STOP:
                return [StopReplay(load.request.id)]
            case Do.TAKE_OUTPUT:
                return [TakeOutput(load.request.id)]
            case Do.LET_GO:
                told, passes = load.told, load.state is LoadState.PASSING
                load.told = [(line, late) for line, late in told if passes]
                is_shown = load.plan.shows or not passes  # what an agent says before it refuses may say why
                return [Forward(Peer.CLIENT, b"".join(line for line, _ in told))] if told and is_shown else []
            case Do.DROP:
                load.told.clear()
                return []
            case Do.HAND_BACK:
                return self._handed_back(load)
            case Do.ANSWER | Do.SAY_ENDED:
                return self._answer(load, load.response)
            case Do.ANSWER_TOLD:
                return self._answer_told(load, said)
            case Do.SAY_CANCELLED:
                load.is_ours = load.is_ours or load.has_transcript  # the client wants nothing more of the past
                return [refusal(load.request.id, jsonrpc.REQUEST_CANCELLED, "Request cancelled")]
            case Do.OPEN_ANEW:
                load.held.clear()
                load.states.clear()
                load.size = load.states_size = 0
                return self.hand_over(load)
            case Do.SETTLE:
                return self._settled(load)
            case Do.END_TURN:
                return self.release_in_turn(load)
            case _:
                assert_never(do)

    def _answer(self, load: Load, line: bytes) -> list[Effect]:
        prompt = self.resent.pop(load.request.id, None)
        return [Forward(Peer.CLIENT, prompt[1] if prompt is not None else line)] if line else []

    def _written_down(self, load: Load, said: object) -> list[Effect]:
        """Record that the agent has opened the session, and what came before its answer."""
        self.under_way.agreed(load)
        request, session = load.request, load.session
        result = said.result if isinstance(said, Response) else None
        if load.plan.imports and not self._notebook.has_begun(session):
            load.is_imported = True
            told = [line.removesuffix(b"\n") for line in drop_repetition([line for line, _ in load.told])]
            return [*self._notebook.imported(session, request.params, result, told, load.states), EndTurn(session)]
        anew = load.is_handed_over
        effects: list[Effect] = [*self._notebook.opened(session, request.method, request.params, result, anew=anew)]
        if load.alias is not None:
            effects += [*self._notebook.renamed(session, load.alias), *self.aliased(session, load.alias)]
        for state in load.states:
            effects += self._notebook.keep(session, Peer.AGENT, state)
        return effects

    def _told(self, load: Load) -> list[Effect]:
        """Have ``run`` compare and replay; without a transcript, end with what the agent sent."""
        if not load.has_transcript:
            name = jsonrpc.printable(load.session)
            warning = Warn(f"session {name} was not recorded here, so it opens without its history")
            return [*([] if load.told else [warning]), *self.happens(load, LoadEvent.TOLD)]
        resent = self.resent.get(load.request.id)
        return [
            StartReplay(
                load.request.id,
                tuple(load.told),
                bool(load.told) or (load.plan.sends == acp.LOAD and load.plan.rule is None),
                load.plan.rule,
                shows=load.plan.shows and resent is None,
                record=load.is_handed_over or load.plan.catches_up,
                lacking=load.plan.catches_up,
                before=resent[0].id if resent is not None else None,
                titles=self.titles,
                kinds=self.kinds,
                protocol=self.dialect.version,
                takes=self.takes if load.is_handed_over or load.plan.catches_up else frozenset(),
            )
        ]

    def _answer_told(self, load: Load, ended: object) -> list[Effect]:
        """End a replay: send the agent's replay or the transcript's tail, then the answer and the states."""
        told, states = [line for line, _ in order_replay(load.told, load.before)], list[bytes]()
        if isinstance(ended, ReplayEnded):
            load.told, states = [], ended.states
            if ended.rule.is_ours:
                told = (
                    ended.comparison.split_tail()[0] if load.late is not None and ended.comparison is not None else []
                )
        if not load.plan.shows:  # a resume returns no messages
            told.clear()
        if self._handovers.has_record(load.session) and load.is_handed_over:
            told.append(handover.notice(load.session))
        told += [line for line, _ in load.held[: load.first]]
        load.held, load.first = load.held[load.first :], 0
        known = load.comparison
        ids = {key: id for key, id in known.ids.items() if known.text.ids.get(key) != id} if known is not None else {}
        effects: list[Effect] = [*self._notebook.replayed(load.session, load.rule, ids)]
        resent = self.resent.pop(load.request.id, None)
        if resent is None:
            return [*effects, Forward(Peer.CLIENT, b"".join((*told, load.response, *states)))]
        prompt, _ = resent
        line = self._handovers.carried(prompt.raw + b"\n", prompt, load.session)
        again = self._names.to_agent(line, jsonrpc.read_message(line))
        return [*effects, Forward(Peer.CLIENT, b"".join(told)), Forward(Peer.AGENT, again)]

    def _settled(self, load: Load) -> list[Effect]:
        """Record the new part of what the agent sent, and send what waits unless the client has it."""
        effects = self.rest(load)
        comparison = load.comparison
        if comparison is None or load.late is None:
            return effects
        told = comparison.find_new(is_open_elsewhere=load.is_open_elsewhere)
        told = drop_repetition(told) if comparison.text.is_empty else told
        new = [line.removesuffix(b"\n") for line in told]
        for raw in new:
            if raw in load.recorded_since:
                load.recorded_since.remove(raw)
                continue
            message = jsonrpc.read_message(raw)
            effects += self._notebook.update(load.session, raw, _update(message), opening=False)
        for other in self.under_way.of_session(load.session):
            other.recorded_since += new
        if new:
            effects.append(EndTurn(load.session))
        load.late.begin_turn(shows_transcript=load.is_ours)
        return effects

    def release_in_turn(self, load: Load) -> list[Effect]:
        """Send and record what waits in the turn after a load."""
        late = load.late_in_turn
        return self.pass_in_turn(load, late.release_in_turn()) if late is not None else []

    def pass_in_turn(self, load: Load, lines: list[SortedLine]) -> list[Effect]:
        """Send and record what the agent sent in a turn."""
        effects: list[Effect] = []
        for each in lines:
            if each.is_recorded:
                message = jsonrpc.read_message(each.line)
                effects += self._notebook.update(load.session, message.raw, _update(message), opening=False)
            effects += self.behind_what_waits(load, each.line) if each.is_sent else []
        return effects

    def behind_what_waits(self, load: Load, line: bytes) -> list[Effect]:
        """Send an update, or hold it behind the answer to another load of its session."""
        holder = self.under_way.holder(load.session)
        if holder is None:
            return [Forward(Peer.CLIENT, line)]
        holder.held.append((line, None))
        return self.waits(holder, line)

    def rest(self, load: Load) -> list[Effect]:
        """Send the waiting lines that the client has not seen; not in a turn, where ``release_in_turn`` does."""
        if load.late is None or (load.state is LoadState.TURN and load.late.is_in_turn):
            return []
        return [Forward(Peer.CLIENT, line) for line in load.late.release()]

    def reads(self, load: Load) -> Effect:
        """Have ``run`` compare what the agent sent with the transcript."""
        return ReadPast(load.request.id, load.session, tuple(load.told))

    def remembered(self, load: Load, line: bytes, *, late: bool) -> list[Effect]:
        """Remember a line that passes, to compare it when the next prompt comes. ``late``: after the agent's answer."""
        load.size += len(line)
        if load.size <= HELD_LIMIT and not self.under_way.is_full:
            load.told.append((line, late))
        else:  # too much to hold, so nothing of it is compared
            load.told.clear()
            load.plan = replace(load.plan, imports=False)
        return []

    def released(self, load: Load) -> list[Effect]:
        """Send the lines that waited for this load's answer."""
        out: list[bytes] = []
        for line, update in self.under_way.held(load):
            if update is not None and load.late is None:
                self.remembered(load, line, late=True)
            out += load.late.add(line, update) if update is not None and load.late is not None else [line]
        return [Forward(Peer.CLIENT, b"".join(out))] if out else []

    def _handed_back(self, load: Load) -> list[Effect]:
        """Send what a load held, or let it wait behind an earlier request for the session."""
        return [] if self.under_way.held_back(load) else self.released(load)

    def waits(self, load: Load, line: bytes) -> list[Effect]:
        """Count a line that waits. If too much waits before the agent's answer, everything passes."""
        load.size += len(line)
        if load.state is not LoadState.ASKED or (load.size <= HELD_LIMIT and not self.under_way.is_full):
            return []
        if load.plan.rule is not None and load.told:  # the transcript is shown whatever the agent sends
            load.size -= sum(len(told) for told, _ in load.told)
            load.told.clear()
            return []
        return self.happens(load, LoadEvent.FLOODED)

    def _bounded(self) -> list[Effect]:
        """Settle the oldest opened session, if too many are not settled."""
        if len(self.under_way.in_question) <= IN_QUESTION:
            return []
        oldest = next(iter(self.under_way.in_question))
        self.under_way.in_question[oldest].told.clear()
        return self.closed(oldest)

    def _next(self, session: str) -> list[Effect]:
        """Start the next replay of a session, unless one is running."""
        others = self.under_way.of_session(session)
        if any(other.state in (LoadState.TELLING, LoadState.STOPPING) for other in others):
            return []
        queued = next((other for other in others if other.state is LoadState.QUEUED), None)
        return self.happens(queued, LoadEvent.NEXT) if queued is not None else []


def _update(message: object) -> object:
    return acp.member(message.params, "update") if isinstance(message, Notification) else None
