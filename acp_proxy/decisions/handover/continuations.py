"""In which of the agent's sessions a session continues once it is loaded: the one that was asked for, one to which the
agent renames that, or a new one, since the agent cannot open the old one. The last is a handover.

Changes nothing of a ``Load``: ``LoadMachine`` does with it what the results here say. Adds aliases and handovers.
"""

from msgspec import Struct

from acp_proxy.decisions import aliases, proxy_messages
from acp_proxy.decisions.capabilities import ALWAYS, NEVER
from acp_proxy.decisions.connection_state import ConnectionState
from acp_proxy.decisions.effects import AddAlias, Effect, Forward
from acp_proxy.decisions.events import PastChosen
from acp_proxy.decisions.handover import handover_lines
from acp_proxy.decisions.load.load import Load
from acp_proxy.decisions.load.load_states import HOLDING_UNTIL_AGENT_ANSWERS, UNWANTED_STATES, LoadEvent
from acp_proxy.protocol import acp, jsonrpc
from acp_proxy.protocol.jsonrpc import Peer, Response

_TOO_MANY_HANDOVERS = "Too many sessions continue in new sessions of the agent. Restart the agent to open this one."


class NewSessionOutcome(Struct, frozen=True):
    """The agent's answer to acp-proxy's own ``session/new``, and what follows.

    ``event``: what that is for the load. ``answer_line``: with the answer for the client, if it gets one.
    """

    event: LoadEvent
    answer_line: bytes | None
    effects: list[Effect]


class Continuations:
    """In which of the agent's sessions those of one connection continue."""

    def __init__(self, shared: ConnectionState) -> None:
        self.are_listed = False
        """Whether the agent has a list of its own, in which the session that it opens for a handover would appear."""
        self._session_tracker = shared.session_tracker
        self._aliases = shared.aliases
        self._handovers = shared.handovers

    # --- the agent's other id

    def keep_our_id(self, load: Load, opened_id: str | None) -> tuple[bytes, str | None]:
        """The agent has opened a session under this id. It may continue the one that was asked for under another id, as
        older agents do: they fork. The client keeps our id.

        Returns the line of the answer for the client, and the agent's id if it is a new one.
        """
        if opened_id is None or opened_id == load.session_id or not load.plan.keeps_our_id:
            return load.answer_line, None
        has_alias = self._aliases.find_our_id(opened_id) == load.session_id
        self._aliases.add(load.session_id, opened_id)
        return aliases.with_result_session(load.answer_line, load.session_id), opened_id if not has_alias else None

    def make_alias_effects(self, session_id: str, alias: str) -> list[Effect]:
        """The agent's session ``alias`` stands for ours: that is no session of its own in lists and loads."""
        return [AddAlias(session_id, alias)] if self.are_listed and alias != session_id else []

    # --- a new session

    def needs_new_session(self, load: Load, message: Response) -> bool:
        """Whether the session continues in a new one, since the agent refuses it like this."""
        handover_mode = load.plan.handover_mode
        if (
            handover_mode == NEVER
            or load.state not in HOLDING_UNTIL_AGENT_ANSWERS
            or self._session_tracker.sessions.is_in_turn(load.session_id)
        ):
            return False
        if handover_lines.wants_login(message.error):
            return False
        return handover_mode == ALWAYS or handover_lines.says_session_unknown(message.error)

    def ask_for_new_session(self, load: Load) -> Effect | bytes:
        """The request for a new session, or, if that cannot be made, the line that refuses the load."""
        id = load.request.id
        try:
            if not self._handovers.is_full:
                return self._handovers.ask_for_new_session(load)
            return jsonrpc.encode_error(id, jsonrpc.INTERNAL_ERROR, _TOO_MANY_HANDOVERS)
        except (ValueError, KeyError) as problem:
            return jsonrpc.encode_error(id, jsonrpc.INVALID_PARAMS, f"params: {problem}")

    def apply_new_session_answer(self, load: Load, line: bytes, message: Response) -> NewSessionOutcome:
        """The agent's answer to the request for a new session. ``message``: the same line, parsed."""
        id, opened_id = load.request.id, acp.session_id(message.result)
        is_deleted = self._session_tracker.sessions.is_deleted(load.session_id)
        if load.state in UNWANTED_STATES or is_deleted:
            self._handovers.unwanted_ids |= {opened_id} if opened_id is not None else set()
            alias_effects = self.make_alias_effects(load.session_id, opened_id) if opened_id is not None else []
            refusal = proxy_messages.encode_not_found(id, load.session_id) if is_deleted else None
            return NewSessionOutcome(LoadEvent.REFUSED, refusal, alias_effects)
        if message.error is not None or opened_id is None:
            try:
                refusal = handover_lines.encode_refusal(id, line)
            except (ValueError, KeyError):
                refusal = jsonrpc.encode_error(id, jsonrpc.INTERNAL_ERROR, "The agent opened no new session")
            return NewSessionOutcome(LoadEvent.REFUSED, refusal, [])
        self._aliases.add(load.session_id, opened_id)
        self._handovers.begin_handover(load.session_id, opened_id)
        answer = handover_lines.encode_answer(id, message.result)
        return NewSessionOutcome(LoadEvent.AGREED, answer, self.make_alias_effects(load.session_id, opened_id))

    def apply_past_chosen(self, load: Load, past_chosen: PastChosen) -> None:
        """Keep the record that the next prompt carries, and begin what it belongs to."""
        if self._session_tracker.sessions.is_deleted(load.session_id):
            return
        if load.agent_must_catch_up and past_chosen.handover_record:
            self._aliases.require_parsing(load.session_id)  # from now on, its lines are looked at one by one
            self._handovers.begin_catching_up(load.session_id)
        if load.retried_id is not None and not load.opens_new_session and past_chosen.handover_record:
            self._handovers.begin_handover(load.session_id, load.retried_id)
        if load.opens_new_session or past_chosen.handover_record:
            self._handovers.keep_handover_record(
                load.session_id, past_chosen.handover_record, past_chosen.attached_blocks
            )

    def resend_prompt(self, load: Load) -> list[Effect]:
        """The new session is open: the prompt that was refused, if it was for one, and what has cancelled it since."""
        if load.refused_prompt is None:
            return []
        prompt, _ = load.refused_prompt
        line = self._handovers.add_handover_record(prompt.raw + b"\n", prompt, load.session_id)
        lines = [line, *self._handovers.end_resending(load.session_id)]
        return [
            Forward(Peer.AGENT, self._aliases.rewrite_for_agent(each, jsonrpc.read_message(each))) for each in lines
        ]
