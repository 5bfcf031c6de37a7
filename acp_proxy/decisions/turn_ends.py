"""Decides what the end of a turn brings: what waited in it is sent, and a handover may be complete.

The agent's answer to a prompt ends a turn. In version 2, an answer only accepts the prompt, and turns end when the
agent says that nothing is under way, which ``Connection`` reads.
"""

from acp_proxy.decisions import capabilities, proxy_messages
from acp_proxy.decisions.connection_state import ConnectionState
from acp_proxy.decisions.effects import Effect, EndTurn
from acp_proxy.decisions.load.load_machine import LoadMachine
from acp_proxy.decisions.message_tracker import MessageTracker
from acp_proxy.decisions.open_requests import OpenRequest
from acp_proxy.decisions.session_look_ups import SessionLookUps
from acp_proxy.protocol import update_kinds
from acp_proxy.protocol.jsonrpc import Peer, RequestId, Response
from acp_proxy.transcript.file_format import NoteType


class TurnEnds:
    """The ends of the turns of one connection."""

    def __init__(
        self,
        shared: ConnectionState,
        message_tracker: MessageTracker,
        load_machine: LoadMachine,
        look_ups: SessionLookUps,
    ) -> None:
        self._negotiated = shared.negotiated
        self._services = shared.services
        self._open_requests = shared.open_requests
        self._session_tracker = shared.session_tracker
        self._message_tracker = message_tracker
        self._load_machine = load_machine
        self._look_ups = look_ups
        self._handovers = shared.handovers
        self._load_line_handler = load_machine.line_handler

    def handle_prompt_answer(
        self, open_request: OpenRequest, session_id: str, line: bytes, message: Response
    ) -> list[Effect]:
        """The agent's answer to a prompt, which follows the turn's updates."""
        id = open_request.request.id
        if self._negotiated.dialect.is_acceptance(message):
            return self._handle_acceptance(session_id, id, line, message)
        refused_prompt = self._handovers.take_prompt_to_resend(session_id, id, message.error)
        is_being_opened = self._load_machine.loads.is_being_opened(session_id)
        if refused_prompt is not None and self._services.modes.handover != capabilities.NEVER and not is_being_opened:
            load, prompt = refused_prompt
            self._open_requests.add(Peer.CLIENT, prompt, session_id)
            return self._look_ups.look_up_to_resend(load, prompt, line)
        effects = self._load_line_handler.release_undecided_updates(session_id)
        effects += self.note_delivered_record(session_id, id, succeeded=message.error is None)
        effects += [
            *self._message_tracker.track_answer(open_request, message),
            *self._load_machine.handle_turn_end(session_id),
        ]
        return [*effects, *self.send_title(session_id), *self._load_line_handler.send_in_order(session_id, line)]

    def _handle_acceptance(self, session_id: str, id: RequestId, line: bytes, message: Response) -> list[Effect]:
        """Version 2: the agent has accepted a prompt. Its turn may have ended before."""
        self._handovers.forget_first_prompt(session_id)
        accept_effects = self._session_tracker.track_accepted_prompt(session_id, message.raw, id)
        is_over = EndTurn(session_id) in accept_effects
        end_effects = (
            [*self.send_title(session_id), *self.note_delivered_record(session_id, id, succeeded=True)]
            if is_over
            else []
        )
        return [
            *accept_effects,
            *self._load_machine.handle_turn_end(session_id),
            *end_effects,
            *self._load_line_handler.send_in_order(session_id, line),
        ]

    def note_delivered_record(self, session_id: str, prompt_id: RequestId | None, *, succeeded: bool) -> list[Effect]:
        """A turn has ended, which may complete a handover, or catching up. ``prompt_id``: of the prompt that was
        answered, if any."""
        delivered = self._handovers.take_delivered_record(session_id, prompt_id, succeeded=succeeded)
        if delivered is None:
            return []
        if delivered.agent_id is None:
            return [*self._session_tracker.note(session_id, NoteType.CAUGHT_UP)]
        return [*self._session_tracker.note(session_id, NoteType.HANDOVER, to=delivered.agent_id)]

    def send_title(self, session_id: str) -> list[Effect]:
        """Send an update with the title made from the prompts, if the list has that too, so that both show the same."""
        title = self._session_tracker.take_title(session_id) if self._services.fills_titles else None
        if title is None:
            return []
        update = {"sessionUpdate": update_kinds.SESSION_INFO, "title": title}
        return self._load_line_handler.send_in_order(session_id, proxy_messages.encode_update(session_id, update))
