"""Follows requests to open sessions (load, resume, fork), from the question to the agent until everything is settled.

``Loads`` turns what the agent sends, what the client does and what ``run`` finds into events of each ``Load``;
``LoadMachine`` acts on them. Only the interceptor and ``Opening`` call this.
"""

from typing import assert_never

from msgspec.structs import replace

from acp_proxy.comparison.late_updates import SortedLine
from acp_proxy.comparison.once import find_last_replay
from acp_proxy.comparison.transcript_text import block_letters
from acp_proxy.protocol import acp, jsonrpc, update_kinds, v2_updates
from acp_proxy.protocol.jsonrpc import Notification, Peer, Request, RequestId, Response
from acp_proxy.proxy import aliases, handover
from acp_proxy.proxy.aliases import Aliases
from acp_proxy.proxy.effects import DecideLater, Effect, Forward, StopReplay
from acp_proxy.proxy.events import PastRead, ReplayEnded
from acp_proxy.proxy.handover import Handovers
from acp_proxy.proxy.load.machine import LoadMachine
from acp_proxy.proxy.load.open_loads import HELD_LIMIT, OpenLoads
from acp_proxy.proxy.load.plan import LoadPlan
from acp_proxy.proxy.load.states import AWAITING, Load, LoadEvent, LoadState
from acp_proxy.proxy.session_log import SessionLog

_USER = b'"user_message'
"""How the kinds of a user's messages begin, chunks or whole, as JSON."""


class Loads:
    """All requests to open sessions of one connection."""

    def __init__(self, notebook: SessionLog, names: Aliases, handovers: Handovers) -> None:
        self.under_way = OpenLoads()
        self.life = LoadMachine(self.under_way, notebook, names, handovers)
        self._notebook = notebook
        self._names = names
        self._handovers = handovers

    def is_plain(self, session: str, data: bytes) -> bool:
        """Whether these updates of a session can pass unparsed: no load concerns them, or only one in whose turn no
        replay is running. ``data``: lines, or the first bytes of one."""
        if not self.under_way:
            return True
        load = self.under_way.current(session)
        if load is None:
            return True
        late = load.late_in_turn
        may_be_replay = late is not None and late.may_be_replay
        return load.state is LoadState.TURN and not may_be_replay and _USER not in data

    def update(self, load: Load, line: bytes, message: Notification) -> list[Effect]:
        """An update of a session whose load is not settled. ``message``: the same line, parsed."""
        update = v2_updates.compared(acp.member(message.params, "update"))
        if not update_kinds.is_conversation(acp.update_kind(update)):
            return self._state_told(load, line, message)
        if self._notebook.is_live(load.session):
            return self._told_in_turn(load, line, message.raw, update)
        match load.state:
            case LoadState.ASKED:
                load.told.append((line, self.under_way.follows(load)))
                return self.life.waits(load, line)
            case LoadState.PASSING:
                return [
                    *self.life.remembered(load, line, late=self.under_way.follows(load)),
                    *self.life.behind_what_waits(load, line),
                ]
            case LoadState.GIVEN_UP | LoadState.CANCELLED:  # it may never be answered; then this is for the next one
                return self.life.remembered(load, line, late=self.under_way.follows(load))
            case LoadState.QUEUED | LoadState.TELLING | LoadState.STOPPING:
                load.held.append((line, update))
                return self.life.waits(load, line)
            case LoadState.OPEN | LoadState.TURN:
                return self._told_late(load, line, update)
            case LoadState.OVER:
                return [Forward(Peer.CLIENT, line)]
            case _:
                assert_never(load.state)

    def to_client(self, session: str | None, line: bytes) -> list[Effect]:
        """A line that does not belong to a replay. It waits where its session's updates wait, to keep its place."""
        holder = self.under_way.holder(session) if session is not None else None
        if holder is not None:
            holder.held.append((line, None))
            return self.life.waits(holder, line)
        return [*self.rest(session), Forward(Peer.CLIENT, line)]

    def rest(self, session: str | None) -> list[Effect]:
        """Send and record what waits after an answered load, before something that must not overtake it."""
        load = self.under_way.in_question.get(session) if session is not None and self.under_way.in_question else None
        if load is None:
            return []
        return self.life.rest(load) if load.late_in_turn is None else self.life.release_in_turn(load)

    def question(self, session: str | None, line: bytes) -> list[Effect]:
        """A request from the agent. If the agent has not answered the load, it passes at once, after what waited: the
        agent may need the client's answer to give its own. Nothing comes before it if the client gets no replay."""
        load = self.under_way.holder(session) if session is not None else None
        if load is None or load.state is not LoadState.ASKED:
            return self.to_client(session, line)
        waited = (
            self.life.happens(load, LoadEvent.FLOODED) if load.told and load.plan.shows else self.life.released(load)
        )
        return [*waited, Forward(Peer.CLIENT, line)]

    def _state_told(self, load: Load, line: bytes, message: Notification) -> list[Effect]:
        """A state update: recorded, but one that comes before the agent's answer only after that."""
        if load.state not in AWAITING or self._notebook.is_live(load.session):
            effects: list[Effect] = [*self._notebook.update(load.session, message.raw, _update(message), opening=False)]
        else:
            effects = []
            if load.states_size + len(line) <= HELD_LIMIT:
                load.states.append(message.raw)
                load.states_size += len(line)
        if self.under_way.holder(load.session) is None:
            return [Forward(Peer.CLIENT, line, first=True), *effects]
        return [*effects, *self.to_client(load.session, line)]

    def _told_late(self, load: Load, line: bytes, update: object) -> list[Effect]:
        if load.late is not None:
            return [Forward(Peer.CLIENT, each) for each in load.late.add(line, update)]
        if load.is_ours and load.has_transcript and not load.is_handed_over:  # shown without comparing
            return [self.life.reads(load), DecideLater(Peer.AGENT, [line])]
        return [*self.life.remembered(load, line, late=True), Forward(Peer.CLIENT, line, first=True)]

    def _told_in_turn(self, load: Load, line: bytes, raw: bytes, update: object) -> list[Effect]:
        """An update during a turn: new, unless it belongs to a replay that is still running or begins now."""
        late = load.late_in_turn
        if late is None:
            # A session that was handed over is a new one of the agent, which has no past to send.
            may_repeat = load.has_transcript and not load.is_handed_over
            is_user = acp.update_kind(update) == update_kinds.USER_CHUNK and may_repeat
            said = block_letters(acp.member(update, "content")) if is_user else ""
            if said and not any(prompt.startswith(said) for prompt in load.prompts):
                return [self.life.reads(load), DecideLater(Peer.AGENT, [line])]
            return self.life.pass_in_turn(load, [SortedLine(line, is_sent=True, is_recorded=True)])
        return self.life.pass_in_turn(load, late.add_in_turn(line, update, load.prompts))

    def prompted(self, session: str, prompt: Request | None) -> list[Effect]:
        """The client prompts: settle what the agent sent until now. ``prompt``: None if it passes in pieces."""
        effects: list[Effect] = []
        for load in self.under_way.of_session(session):
            _sent(load, prompt)
            if load.state is LoadState.ASKED and load.told:
                effects += self.life.happens(load, LoadEvent.PROMPTED)
            if load.state is LoadState.PASSING:
                load.told.clear()
                load.plan = replace(load.plan, imports=False)
        opened = self.under_way.in_question.get(session)
        if opened is not None:
            effects += self.turn_ends(session)
            _sent(opened, prompt)
            if prompt is not None and opened.state is LoadState.OPEN:
                self._handovers.prompted_first(opened, prompt)
            effects += self.life.happens(opened, LoadEvent.PROMPTED)
        return effects

    def is_handed_over(self, session: str) -> bool:
        """Whether this process has handed the session over and not delivered the record yet."""
        return self._handovers.is_undelivered(session)

    def turn_ends(self, session: str) -> list[Effect]:
        """The agent has answered a prompt, or another is sent: send and record what waits in the turn before that."""
        load = self.under_way.in_question.get(session) if self.under_way.in_question else None
        return self.life.release_in_turn(load) if load is not None else []

    def turn_ended(self, session: str) -> list[Effect]:
        """A prompt is answered. Settles the session's load if no other prompt is open."""
        if not self._notebook.is_live(session):
            self.under_way.forget_given_up(session)
        load = self.under_way.in_question.get(session) if self.under_way.in_question else None
        if load is None or self._notebook.is_live(session):
            return []
        return self.life.happens(load, LoadEvent.TURN_ENDED)

    def delivered(self, session: str, prompt: RequestId | None, *, succeeded: bool) -> list[Effect]:
        """A turn has ended, which may complete a handover. ``prompt``: the one that was answered, if any."""
        if prompt is not None:
            delivered = self._handovers.delivered(prompt, succeeded=succeeded)
        else:
            delivered = self._handovers.turn_ended(session, succeeded=succeeded)
        return [*self._notebook.handed_over(*delivered)] if delivered is not None else []

    def forked(self, request: Request, session: str, told: list[bytes]) -> None:
        """The agent has opened a fork. ``told``: lines without newlines that came before its answer, which are the
        parent's past or new."""
        load = Load(request, session, _FORK, has_transcript=True)
        load.state = LoadState.OPEN
        load.told = [(line + b"\n", False) for line in told]
        self.under_way.in_question[session] = load

    def cancelled(self, message: Notification) -> list[Effect]:
        """The client cancels a load with ``$/cancel_request``: it gets an answer, and the agent's is dropped."""
        params = message.params
        if not isinstance(params, dict) or "requestId" not in params:
            return []
        try:
            id = jsonrpc.request_id(params["requestId"], message.raw, "params", "requestId")
        except ValueError:  # nested too deeply to be the id of a load
            return []
        load = self.under_way.get(id)
        if load is None or id in self.life.resent:
            return []
        load.was_cancelled = load.state is LoadState.PASSING
        return self.life.happens(load, LoadEvent.GAVE_UP)

    def stopped(self, session: str) -> list[Effect]:
        """The session was deleted: stop its replays and forget its load."""
        self._handovers.drop(session)
        self.under_way.in_question.pop(session, None)
        return [StopReplay(load.request.id) for load in self.under_way.of_session(session)]

    def answered(self, load: Load, line: bytes, message: Response) -> list[Effect]:
        """The agent's answer to a load, or to the resume sent in its place. ``message``: the same line, parsed."""
        load.response = line.removesuffix(b"\n") + b"\n"
        told = self.under_way.overtakes(load)
        if message.error is not None:
            return self.life.happens(load, LoadEvent.UNKNOWN if self._can_go_on(load, message) else LoadEvent.REFUSED)
        load.told = find_last_replay([*told, *load.told]) if told else load.told
        load.told = self.under_way.goes_first(load) + load.told
        load.before = self.under_way.begins(load)
        opened = acp.session_id(message.result)
        if opened not in (None, load.session) and load.plan.renames:  # older agents fork; the client keeps its id
            load.alias = opened if self._names.client_of(opened) != load.session else None
            self._names.add(load.session, opened)
            load.response = aliases.renamed_result(load.response, load.session)
        if not load.plan.passes:
            load.response = _with_object(load.response, message)
        load.first = len(load.held) if self.life.dialect.states_first else 0
        return self.life.happens(load, LoadEvent.AGREED, message)

    def _can_go_on(self, load: Load, message: Response) -> bool:
        hands_over = load.plan.hands_over
        if hands_over == "never" or load.state is not LoadState.ASKED or self._notebook.is_live(load.session):
            return False
        if handover.wants_login(message.error):
            return False
        return hands_over == "always" or handover.is_unknown(message.error)

    def opened_anew(self, load: Load, line: bytes, message: Response) -> list[Effect]:
        """The agent's answer to acp-proxy's own ``session/new``, for a handover."""
        id, opened = load.request.id, acp.session_id(message.result)
        if load.state in (LoadState.GIVEN_UP, LoadState.CANCELLED):
            self._handovers.unwanted |= {opened} if opened is not None else set()
            aliased = self.life.aliased(load.session, opened) if opened is not None else []
            return [*aliased, *self.life.happens(load, LoadEvent.REFUSED)]
        if message.error is not None or opened is None:
            try:
                load.response = handover.refused(id, line)
            except (ValueError, KeyError):
                load.response = jsonrpc.error(id, jsonrpc.INTERNAL_ERROR, "The agent opened no new session")
            return self.life.happens(load, LoadEvent.REFUSED)
        self._names.add(load.session, opened)
        self._handovers.opened(load.session, opened)
        load.is_handed_over = True
        load.response = handover.answer(id, message.result)
        if (idle := self.life.dialect.idle(load.session)) is not None:
            load.held.insert(0, (idle, None))
            load.first = 1
        return [*self.life.aliased(load.session, opened), *self.life.happens(load, LoadEvent.AGREED, message)]

    def replay_ended(self, ended: ReplayEnded) -> list[Effect]:
        """``run`` has compared and replayed."""
        load = self.under_way.get(ended.request)
        if load is None or load.state not in (LoadState.TELLING, LoadState.STOPPING):  # cancelled, or the id came again
            for cancelled in self.under_way.in_question.values():
                if cancelled.request.id == ended.request:
                    self._keep_record(cancelled, ended)
            return []
        load.rule = ended.rule
        if ended.comparison is not None and not load.is_handed_over:
            load.compared(ended.comparison, ours=ended.rule.is_ours)
        load.is_ours = ended.rule.is_ours
        self._keep_record(load, ended)
        return self.life.happens(load, LoadEvent.TOLD, ended)

    def _keep_record(self, load: Load, ended: ReplayEnded) -> None:
        if self._notebook.is_deleted(load.session):
            return
        if load.plan.catches_up and ended.record:
            self._names.keep(load.session)  # from now on, its lines are looked at one by one
            self._handovers.catches_up(load.session)
        if load.is_handed_over or ended.record:
            self._handovers.keep(load.session, ended.record, ended.attached)

    def past_read(self, read: PastRead) -> list[Effect]:
        """``run`` has compared what the agent sent about a session."""
        for load in [*self.under_way.in_question.values(), *self.under_way.all()]:
            is_its = (load.request.id, load.session) == (read.request, read.session)
            if is_its and load.comparison is None:
                load.told.clear()
                if read.comparison is None:
                    load.has_transcript = False  # do not read it again
                else:
                    load.compared(read.comparison, ours=load.is_ours)
                    if load.late is not None and self._notebook.is_live(load.session):
                        load.late.begin_turn(shows_transcript=load.is_ours)
                        load.prompts = [user.forms[0] for user in read.comparison.text.queued] or load.prompts
                return self.life.goes_on(load)
        return []

    def output_taken(self, request: RequestId) -> list[Effect]:
        """The client's output is reserved: answer a cancelled load, unless it has its answer."""
        load = self.under_way.get(request)
        return self.life.happens(load, LoadEvent.OUTPUT_TAKEN) if load is not None else []

    def failed(self, how: str) -> list[Effect]:
        """The agent has ended: answer every load with an error, after what it sent. ``how``: the error's text."""
        self.life.is_over = True
        effects: list[Effect] = []
        for load in self.under_way.all():
            if load.state in AWAITING:
                load.response = jsonrpc.error(load.request.id, jsonrpc.INTERNAL_ERROR, how)
                effects += self.life.happens(load, LoadEvent.ENDED)
        for load in list(self.under_way.in_question.values()):
            effects += self.life.goes_on(load) or self.life.happens(load, LoadEvent.ENDED)
        self._handovers.nobody_answers()
        return effects

    def send_again(self, load: Load, prompt: Request, refusal: bytes) -> None:
        """Follow a load that opens a new session for a refused prompt. ``refusal``: the line of the agent's error."""
        self.under_way.add(load)
        _sent(load, prompt)
        self.life.resent[load.request.id] = prompt, refusal


def _update(message: object) -> object:
    return acp.member(message.params, "update") if isinstance(message, Notification) else None


def _sent(load: Load, prompt: Request | None) -> None:
    blocks = acp.member(prompt.params, "prompt") if prompt is not None else None
    said = "".join(map(block_letters, blocks)) if isinstance(blocks, list) else ""
    if said:
        load.prompts.append(said)


def _with_object(line: bytes, message: Response) -> bytes:
    """The response with ``{}`` instead of null as its result, since some clients fail on null."""
    if message.result is not None:
        return line
    try:
        return acp.with_result(line, "{}")
    except (ValueError, KeyError):
        return line


_FORK = LoadPlan(acp.FORK, passes=True)
