"""Decides what passes, what is recorded, what acp-proxy answers, and what waits.

``handle`` takes an event and returns effects, whose order ``effects`` explains. It never raises, whatever a peer sends.
It does no I/O and asks for no time. ``relay/`` calls it under one lock.
"""

from acp_proxy.decisions import proxy_messages
from acp_proxy.decisions.agent_answers import AgentAnswers
from acp_proxy.decisions.capabilities import Settings
from acp_proxy.decisions.client_requests import ClientRequests
from acp_proxy.decisions.connection_state import ConnectionState
from acp_proxy.decisions.draft_methods import DraftMethods
from acp_proxy.decisions.effects import (
    DecideLater,
    Effect,
    Forward,
    LookUpSession,
    RecordGap,
    RecordMessage,
    RecordUnparsedUpdates,
    Warn,
    WriteToStderr,
)
from acp_proxy.decisions.events import (
    AgentEnded,
    Event,
    LinesRead,
    LineTooLong,
    OutputReserved,
    PageEmptied,
    PastChosen,
    SessionLookedUp,
    UnsettledCompared,
)
from acp_proxy.decisions.fast_path import FastPath
from acp_proxy.decisions.handover import handover_lines
from acp_proxy.decisions.handover.continuations import Continuations
from acp_proxy.decisions.handover.handover_filter import HandoverFilter
from acp_proxy.decisions.lists.agent_list import AgentList
from acp_proxy.decisions.lists.jetbrains_index import JetBrainsIndex
from acp_proxy.decisions.load.load_machine import LoadMachine
from acp_proxy.decisions.load.load_starter import LoadStarter
from acp_proxy.decisions.load.waiting_messages import WaitingMessages
from acp_proxy.decisions.message_tracker import MessageTracker
from acp_proxy.decisions.negotiation import Negotiation
from acp_proxy.decisions.session_look_ups import SessionLookUps
from acp_proxy.decisions.session_states import UNOPENED_LIMIT
from acp_proxy.decisions.turn_ends import TurnEnds
from acp_proxy.protocol import acp, jsonrpc, update_kinds, versions
from acp_proxy.protocol.jsonrpc import Batch, Message, Notification, Opaque, Peer, Request, Response
from acp_proxy.protocol.update_kinds import Role
from acp_proxy.transcript.file_format import GapReason
from acp_proxy.transcript.titles import HANDOVER_RECORD_BYTES

_SETTLING_METHODS = frozenset({acp.PROMPT, acp.STEERING, acp.CLOSE, acp.LOAD, acp.RESUME}) | acp.REWINDS
"""Client requests that settle what the agent sent about their session before them."""


class Connection:
    """The state of one connection between a client and an agent."""

    def __init__(self, settings: Settings) -> None:
        self._has_warned_crowded = False
        self._end_reason: str | None = None
        """The text of errors, once the agent has ended."""
        shared = ConnectionState(settings)
        self._negotiated = shared.negotiated
        self._open_requests = shared.open_requests
        self._session_tracker = shared.session_tracker
        self._unnamed_agent_entries = shared.unnamed_agent_entries
        self._aliases = shared.aliases
        self._client_ids = shared.client_ids
        self._handovers = shared.handovers
        self._uncopied_sessions = shared.uncopied_sessions
        # Requests to open a session.
        continuations = Continuations(shared)
        self._load_machine = LoadMachine(shared, continuations)
        self._load_line_handler = self._load_machine.line_handler
        self._load_starter = LoadStarter(shared, self._load_machine, continuations)
        self._look_ups = SessionLookUps(shared, self._load_machine, self._load_starter)
        self.waiting_messages = WaitingMessages(shared, self._load_machine.loads, self._look_ups)
        self._handover_filter = HandoverFilter(shared, self._load_machine.loads)
        # Other requests that acp-proxy serves.
        self._agent_list = AgentList(shared)
        self._jetbrains_index = JetBrainsIndex(shared, self._agent_list.agent_has)
        self._draft_methods = DraftMethods(shared, self._load_machine.end_opened_load, self._agent_list.agent_has)
        # All messages.
        self._negotiation = Negotiation(shared, continuations)
        self._message_tracker = MessageTracker(shared, self._load_machine.loads.has_load_for_updates)
        self._client_requests = ClientRequests(
            shared,
            self._load_machine,
            self._load_starter,
            self._look_ups,
            self._draft_methods,
            self._jetbrains_index,
            self._agent_list,
        )
        self._turn_ends = TurnEnds(shared, self._message_tracker, self._load_machine, self._look_ups)
        self._agent_answers = AgentAnswers(
            shared,
            self._negotiation,
            self._message_tracker,
            self._load_machine,
            self._load_starter,
            self._draft_methods,
            self._jetbrains_index,
            self._agent_list,
            self._turn_ends,
        )
        self.fast_path = FastPath(
            shared,
            self._message_tracker,
            self._load_machine,
            self.waiting_messages,
        )
        """Lets lines pass without ``handle``."""

    @property
    def must_pause_agent(self) -> bool:
        """Whether so much waits that the agent must not be read until the past is shown."""
        return self._load_machine.limits.must_pause_agent

    def must_compare_first(self, past_chosen: PastChosen) -> bool:
        """Whether nothing was compared, and updates wait that may repeat what was shown. Then ``relay/`` must compare
        before it passes ``past_chosen`` to ``handle``."""
        return past_chosen.comparison_was_skipped and self._load_machine.loads.has_waiting_updates_of_replay(
            past_chosen.request_id
        )

    def handle(self, event: Event) -> list[Effect]:
        """Decide what to do about an event. Never raises on anything that a peer sends.

        The conversation must not end because acp-proxy does not understand a line: whatever cannot be read passes as it
        is. For a bug of ours, ``relay/`` does the same: it warns, and forwards the event's lines without recording
        them.
        """
        try:
            return self._handle_event(event)
        finally:
            self.fast_path.require_new_check()

    def _handle_event(self, event: Event) -> list[Effect]:
        effects: list[Effect] = []
        match event:
            case LinesRead(peer, lines):
                effects = self._handle_client_lines(lines) if peer is Peer.CLIENT else self._handle_agent_lines(lines)
            case LineTooLong(peer, beginning):
                effects = self._handle_too_long_line(peer, beginning)
            case SessionLookedUp():
                effects = self._look_ups.handle_looked_up(event)
            case PastChosen():
                effects = self._load_machine.handle_past_chosen(event)
            case UnsettledCompared():
                effects = self._load_machine.handle_unsettled_compared(event)
            case OutputReserved(request_id):
                effects = self._load_machine.handle_output_reserved(request_id)
            case PageEmptied():
                effects = self._agent_list.ask_next_page(event)
            case AgentEnded(reason, advice):
                self._end_reason = reason
                self.fast_path.agent_has_ended = True
                effects = self._handle_agent_end(reason, advice)
        if self._end_reason is not None:
            # What was decided in several steps may only now wait for an answer that nobody else gives.
            if not isinstance(event, AgentEnded):
                effects += self._handle_agent_end(self._end_reason)
            effects = [*self._unnamed_agent_entries.hold_back(effects), *self._unnamed_agent_entries.handle_agent_end()]
        effects = self._hold_and_rewrite(effects)
        effects += self.waiting_messages.announce_next()
        if self._session_tracker.sessions.is_crowded and not self._has_warned_crowded:
            self._has_warned_crowded = True
            effects.append(
                Warn(
                    f"the agent has named more than {UNOPENED_LIMIT:,} sessions that were not opened here; "
                    "acp-proxy records others only after they are opened or prompted"
                )
            )
        return effects

    def _hold_and_rewrite(self, effects: list[Effect]) -> list[Effect]:
        """Hold entries back that must wait; return the other effects, with titles and ids as the client knows them."""
        # The entries of lines were held back line by line, since one read may have lines from before and after the
        # agent's name. So this first one finds only those of other events.
        effects = self._unnamed_agent_entries.hold_back(effects)
        effects = self._draft_methods.have_titles_amended(effects)
        effects = self._uncopied_sessions.hold_back(effects)
        return self._client_ids.rewrite_effects(effects)

    def _handle_too_long_line(self, peer: Peer, beginning: bytes) -> list[Effect]:
        """A line of which no more is read: its bytes pass, and its session's transcript lacks it."""
        effects: list[Effect] = [
            Warn(f"a line of the {peer.value} is too long to be read. It passes unchanged, and is not recorded.")
        ]
        session_id = acp.guess_session_id(beginning)
        if session_id is not None and self._session_tracker.is_recording:
            effects += self._unnamed_agent_entries.hold_back([RecordGap(session_id, GapReason.LINE_TOO_LONG)])
        return effects

    # --- from the client

    def _handle_client_lines(self, lines: list[bytes]) -> list[Effect]:
        effects: list[Effect] = []
        for index, line in enumerate(lines):
            line, message = self._negotiation.read_and_amend_client_line(line)
            if self._client_ids:
                line, message = self._negotiation.read_and_amend_client_line(
                    self._client_ids.track_and_rewrite_from_client(line, message)
                )
            if (waiting_effects := self.waiting_messages.try_add(lines[index], message)) is not None:
                effects += waiting_effects
                continue
            if comparison_effects := self._compare_before_request(message):
                return [*effects, *comparison_effects, DecideLater(Peer.CLIENT, lines[index:])]
            effects += self._unnamed_agent_entries.hold_back(self._handle_client_message(line, message))
            if isinstance(effects[-1], LookUpSession) and index + 1 < len(lines):
                return [*effects, DecideLater(Peer.CLIENT, lines[index + 1 :])]
        return effects

    def _compare_before_request(self, message: Message) -> list[Effect]:
        """Send what waits and have ``relay/`` compare before this request goes on, if what the agent sent may be
        new."""
        if not isinstance(message, Request):
            return []
        if message.method not in _SETTLING_METHODS and not self._draft_methods.settles_updates(message.method):
            return []
        return self._load_line_handler.compare_before_request(acp.session_id(message.params))

    def _handle_client_message(self, line: bytes, message: Message) -> list[Effect]:
        if isinstance(message, Request) and (own_effects := self._client_requests.intercept(line, message)) is not None:
            return own_effects
        effects = self._settle_before(message)
        if isinstance(message, Request) and message.method == acp.INITIALIZE:
            self._negotiation.handle_initialize(message.params)
        effects += [
            *self._message_tracker.track(Peer.CLIENT, message),
            Forward(Peer.AGENT, self._prepare_for_agent(line, message)),
        ]
        if isinstance(message, Notification) and message.method == acp.CANCEL_REQUEST:
            self._handovers.handle_request_cancel(jsonrpc.read_cancelled_id(message), line)
            effects += self._load_machine.cancel(message)
        elif isinstance(message, Notification) and message.method == acp.CANCEL:
            self._handovers.handle_turn_cancel(acp.session_id(message.params) or "", line)
        return effects

    def _settle_before(self, message: Message) -> list[Effect]:
        """Settle what the agent sent about a session before the client's prompt, rewind or close, or its words into a
        turn: without a turn, they begin one that has no end."""
        session_id = acp.session_id(message.params) if isinstance(message, Request) else None
        if not isinstance(message, Request) or session_id is None:
            return []
        if message.method == acp.PROMPT:
            return self._load_machine.handle_prompt(session_id, message)
        begins_turn = message.method == acp.STEERING and not self._session_tracker.sessions.is_in_turn(session_id)
        ends = message.method == acp.CLOSE or message.method in acp.REWINDS or begins_turn
        return self._load_machine.end_opened_load(session_id) if ends else []

    def _prepare_for_agent(self, line: bytes, message: Message) -> bytes:
        """A line from the client as the agent gets it: a prompt with the handover record, if it carries one, and the
        session with the id that the agent knows."""
        if not self._aliases:  # whoever awaits a handover record has a pair of ids there (``Aliases.require_parsing``)
            return line
        if isinstance(message, Request) and message.method == acp.PROMPT:
            line = self._handovers.add_handover_record(line, message, acp.session_id(message.params) or "")
        return self._aliases.rewrite_for_agent(line, message)

    # --- from the agent

    def _handle_agent_lines(self, lines: list[bytes]) -> list[Effect]:
        effects: list[Effect] = []
        # Before anything reads them: titles that the agent has made of a handover record.
        if self._session_tracker.is_recording and any(HANDOVER_RECORD_BYTES in line for line in lines):
            lines = [
                remaining for line in lines if (remaining := handover_lines.without_handover_title(line)) is not None
            ]
        next_index, count = 0, len(lines)
        while next_index < count:
            line, next_index = lines[next_index], next_index + 1
            session_id = self.fast_path.try_admit_updates(line)
            if session_id is not None:  # one write for several
                first = next_index - 1
                while next_index < count and self.fast_path.try_admit_updates(lines[next_index]) == session_id:
                    next_index += 1
                data = b"".join(lines[first:next_index])
                effects += [
                    Forward(Peer.CLIENT, data, may_precede_recording=True),
                    RecordUnparsedUpdates(session_id, data),
                ]
                continue
            if self._aliases:
                line = self._aliases.rewrite_from_agent(line, jsonrpc.read_message(line))
            visible_lines = self._handover_filter.filter(line, jsonrpc.read_message(line))
            line_effects = self._unnamed_agent_entries.hold_back(self._handle_visible_lines(visible_lines))
            self.fast_path.require_new_check()
            if (with_rest := _try_defer_lines_after(line_effects, lines[next_index:])) is not None:
                return effects + with_rest
            effects += line_effects
        return effects

    def _handle_visible_lines(self, lines: list[tuple[bytes, Message]]) -> list[Effect]:
        """Lines of the agent that the client may see. If one is decided on later, so are those after it."""
        effects: list[Effect] = []
        for index, (line, message) in enumerate(lines):
            line_effects = self._handle_agent_message(line, message)
            with_rest = _try_defer_lines_after(line_effects, [line for line, _ in lines[index + 1 :]])
            if with_rest is not None:
                return effects + with_rest
            effects += line_effects
        return effects

    def _handle_agent_message(self, line: bytes, message: Message) -> list[Effect]:
        match message:
            case Opaque(is_json=False):
                return [WriteToStderr(line)]
            case Notification(method=acp.UPDATE, params=params):
                session_id = acp.session_id(params)
                work_state = self._negotiated.dialect.read_work_state(acp.member(params, "update"))
                if session_id is not None and work_state is not None:
                    return self._handle_work_state(session_id, work_state, line, message)
                return self._handle_update(session_id, line, message)
            case Response(id=id):
                load = self._handovers.take_load_asked_for(id)
                if load is None:
                    return self._agent_answers.handle(line, message)
                return [
                    *self._load_machine.handle_new_session_answer(load, line, message),
                    *self._handle_agent_lines(self._handover_filter.take_unidentified()),
                ]
            case Request(method=method, params=params):
                session_id = acp.session_id(params)
                if session_id is not None:
                    self._handovers.forget_first_prompt(session_id)
                effects: list[Effect] = [
                    *self._load_line_handler.release_undecided_updates(session_id),
                    *self._message_tracker.track(Peer.AGENT, message),
                ]
                return effects + self._load_line_handler.send_agents_request(session_id, method, line)
            case Notification(method=method) if (
                amendment := self._jetbrains_index.make_amendment(method, line)
            ) is not None:
                return [amendment]
            case Notification(method=method, params=params):
                session_id = (
                    self._load_machine.loads.find_session_of_held_request(message)
                    if method == acp.CANCEL_REQUEST
                    else acp.session_id(params)
                )
                effects = [
                    *self._load_line_handler.release_undecided_updates(session_id),
                    *self._message_tracker.track(Peer.AGENT, message),
                ]
                return effects + self._load_line_handler.send_in_order(session_id, line)
            case Batch() | Opaque():
                return [*self._message_tracker.track(Peer.AGENT, message), Forward(Peer.CLIENT, line)]

    def _handle_update(self, session_id: str | None, line: bytes, message: Notification) -> list[Effect]:
        if session_id is None:
            return [Forward(Peer.CLIENT, line, may_precede_recording=True)]
        update = acp.member(message.params, "update")
        load = self._load_machine.loads.find_load_for_updates(session_id)
        if load is not None:
            effects = self._load_line_handler.handle_update(load, line, message)
        else:
            may_be_new = self._open_requests.may_open_new_session
            effects = [
                Forward(Peer.CLIENT, line, may_precede_recording=True),
                *self._session_tracker.track_update(session_id, message.raw, update, session_may_be_new=may_be_new),
            ]
        # What is recorded in a turn is no replay. A user message may be an echo, and agents send state at any time.
        if (
            self._handovers.may_resend_prompt(session_id)
            and update_kinds.find(acp.update_kind(update)).role not in (Role.USER, Role.STATE)
            and any(isinstance(effect, RecordMessage) for effect in effects)
        ):
            self._handovers.forget_first_prompt(session_id)
        return effects

    def _handle_work_state(self, session_id: str, work_state: str, line: bytes, message: Notification) -> list[Effect]:
        """Version 2: the agent says that it works on a session, or that nothing is under way, which ends turns."""
        if work_state == versions.BUSY:
            self._session_tracker.begin_work(session_id)
            return self._handle_update(session_id, line, message)
        was_in_turn = self._session_tracker.sessions.is_in_turn(session_id)
        late_effects = self._load_line_handler.release_undecided_updates(session_id) if was_in_turn else []
        end_effects = self._session_tracker.end_work(session_id)
        title_effects = self._turn_ends.send_title(session_id) if end_effects else []
        handover_effects = (
            self._turn_ends.note_delivered_record(session_id, None, succeeded=work_state == versions.IDLE)
            if end_effects
            else []
        )
        effects = [
            *late_effects,
            *title_effects,
            *self._handle_update(session_id, line, message),
            *end_effects,
            *handover_effects,
        ]
        return [*effects, *self._load_machine.handle_turn_end(session_id)] if was_in_turn else effects

    def _handle_agent_end(self, reason: str, advice: str = "") -> list[Effect]:
        """The agent has ended: send and record what waits, and answer every open request with an error, since nobody
        else will. ``reason``: its text. ``advice``: what follows in the answer to ``initialize``."""
        effects = self._handle_visible_lines(self._handover_filter.take_all_partial_lines())
        for session_id, id in self._session_tracker.sessions.list_accepted_prompts():
            effects += self._load_line_handler.release_undecided_updates(session_id)
            effects += self._session_tracker.track_failed_prompt(session_id, reason, id)
        for open_request in list(self._open_requests.list_all(Peer.CLIENT)):
            request = open_request.request
            if request.method == acp.PROMPT and open_request.session_id is not None:
                effects += self._load_line_handler.release_undecided_updates(open_request.session_id)
                effects += self._session_tracker.track_failed_prompt(open_request.session_id, reason, request.id)
            if request.method == acp.INITIALIZE and advice:
                text = f"{reason}. {advice}"
                effects += [Warn(text), proxy_messages.refuse(request.id, jsonrpc.INTERNAL_ERROR, text)]
            elif not self._load_machine.loads.will_answer(request):
                effects.append(proxy_messages.refuse(request.id, jsonrpc.INTERNAL_ERROR, reason))
        effects += [
            *self._load_machine.handle_agent_end(reason),
            *self._handle_agent_lines(self._handover_filter.take_unidentified()),
            *self._look_ups.handle_agent_end(reason),
        ]
        effects += self.waiting_messages.handle_agent_end(reason)
        effects += [
            *self._draft_methods.handle_agent_end(),
            *self._agent_list.handle_agent_end(reason),
            *self._session_tracker.handle_agent_end(),
        ]
        self._open_requests.clear()
        return [*effects, *self._message_tracker.track_early_updates()]


def _try_defer_lines_after(effects: list[Effect], lines: list[bytes]) -> list[Effect] | None:
    """The effects of an agent's line that is decided on later, with the agent's lines that follow it added; None if it
    is not decided on later."""
    for index, effect in enumerate(effects):
        if isinstance(effect, DecideLater) and effect.peer is Peer.AGENT:
            later = DecideLater(Peer.AGENT, [*effect.lines, *lines])
            return [*effects[:index], later, *effects[index + 1 :]]
    return None
