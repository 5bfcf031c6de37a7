"""Says which lines need no decision by ``Connection``: the one place that knows when only forwarding and recording
follow.

Nine reads in ten are updates of the session that was updated last. They pass unparsed, since parsing one costs more
than forwarding and recording it. Simple requests and responses are parsed here, and pass as well. Any other line goes
to ``Connection.handle``, which would do the same with those that pass here, at a higher cost.
"""

from acp_proxy.decisions.connection_state import ConnectionState
from acp_proxy.decisions.load.load_machine import LoadMachine
from acp_proxy.decisions.load.waiting_messages import WaitingMessages
from acp_proxy.decisions.message_tracker import MessageTracker
from acp_proxy.protocol import acp, framing, jsonrpc, update_kinds
from acp_proxy.protocol.jsonrpc import Message, Notification, Peer, Request, Response

_UPDATE_END = b"}}}\n"
"""The end of an update's line: the braces of the update, the parameters and the message."""
_SESSION_METHOD = b'"session/'
"""Bytes in nearly every line that means something here."""
_READ_TWICE_LIMIT = 1024 * 1024
"""Bytes. ``try_admit_simple_lines`` parses a line, and ``Connection.handle`` once more if it has a meaning: too much
for a longer one."""
_CLIENT_NOTIFICATIONS = acp.CANCEL, acp.CANCEL_REQUEST
"""Client notifications that mean something here."""
_CLIENT_METHODS = acp.EXTENSIONS | {*_CLIENT_NOTIFICATIONS, acp.INITIALIZE}
"""Client methods that mean something here, beside those that begin like ``_CLIENT_PREFIXES``."""
_CLIENT_PREFIXES = acp.SESSION_PREFIX, "terminal/"
_AGENT_REQUESTS = acp.RECORDED_REQUESTS | acp.TERMINALS
"""Agent requests that mean something here."""
_TERMINAL_QUESTIONS = frozenset({acp.TERMINAL_OUTPUT, acp.TERMINAL_WAIT})
"""Agent requests whose answers are remembered, and seldom noted before the turn ends. Some agents send ten a second."""


class FastPath:
    """Says which lines pass without a decision; whoever asks then sends and records them.

    The connection's state changes with that: a request that passes is open from then on, and a response that passes
    closes one."""

    def __init__(
        self,
        shared: ConnectionState,
        message_tracker: MessageTracker,
        load_machine: LoadMachine,
        waiting_messages: WaitingMessages,
    ) -> None:
        self._negotiated = shared.negotiated
        self._session_tracker = shared.session_tracker
        self._open_requests = shared.open_requests
        self._message_tracker = message_tracker
        self._load_machine = load_machine
        self._handovers = shared.handovers
        self._unnamed_agent_entries = shared.unnamed_agent_entries
        self._aliases = shared.aliases
        self._client_ids = shared.client_ids
        self._uncopied = shared.uncopied_sessions
        self._waiting_messages = waiting_messages
        self.agent_has_ended = False
        """Set by ``Connection``: from then on, it answers each request."""
        self._session_id = ""
        """The session updated last."""
        self._prefix = acp.UPDATE_PREFIX + b'"'
        """How its updates begin."""
        self._parsed_if_contains: tuple[bytes, ...] = ()
        """An update of this session that contains any of these bytes must be parsed."""
        self._is_known_to_pass = False
        """Whether its updates without these bytes pass unparsed. False also if that is not known."""

    def try_admit_updates(self, data: bytes) -> str | None:
        """Return the session if these whole lines of the agent are all its updates, and may be sent and recorded
        unparsed; else None.

        The session that they begin with counts as updated last, whatever is returned.
        """
        if not data.startswith(self._prefix) and not self._switch_session(data):
            return None
        if not self._is_known_to_pass:
            self._set_what_passes()
            if not self._is_known_to_pass:
                return None
        for part in self._parsed_if_contains:
            if data.rfind(part) >= 0:  # faster than ``in``
                return None
        if not data.endswith(_UPDATE_END):
            return None
        if data.find(b"\n") + 1 < len(data):
            count = len(framing.split_lines(data))  # a third of the time that counting the newlines takes
            if data.count(_UPDATE_END + self._prefix) != count - 1:
                return None
        return self._session_id

    def try_admit_simple_lines(self, data: bytes, peer: Peer) -> bool:
        """Whether whole lines of ``peer`` may pass undecided. If so, this opens or closes the request that one opens or
        closes; if not, nothing has changed.

        They may if they mean nothing here, or that is all that follows from them. Several at once may only if none
        means anything, since each may depend on the one before.
        """
        # Lines whose ids the other side knows by another name are rewritten, so they are parsed.
        if self._aliases or self._client_ids:
            return False
        # What the agent sends may have to wait for the answer to a load, or be compared until the turn after it ends.
        if peer is Peer.AGENT and self._load_machine.loads:
            return False
        # What the client asks about a session may have to wait behind a load of that.
        if peer is Peer.CLIENT and (self._waiting_messages or self.agent_has_ended):
            return False
        if len(data) > _READ_TWICE_LIMIT or data.rfind(_SESSION_METHOD) >= 0:
            return False
        if data.find(b"\n") + 1 < len(data):
            return all(self._means_nothing(jsonrpc.read_message(line), peer) for line in framing.split_lines(data))
        message = jsonrpc.read_message(data)
        return self._means_nothing(message, peer) or self._track_request_or_answer(message, peer)

    def require_new_check(self) -> None:
        """Check again before the next update passes: something has happened that could concern it."""
        self._is_known_to_pass = False

    def _switch_session(self, data: bytes) -> bool:
        """Take the session of these lines as the one updated last. False if they do not begin with an update."""
        id = acp.find_plain_session_id(data)
        if id is None:
            return False
        try:
            self._session_id = id.decode()
        except UnicodeDecodeError:  # the parser decides what that is
            return False
        self._prefix = acp.UPDATE_PREFIX + id + b'"'
        self._is_known_to_pass = False
        return True

    def _set_what_passes(self) -> None:
        """Set whether nothing but forwarding and recording follows from this session's updates, and which must be
        parsed nevertheless. Holds until ``require_new_check``."""
        session_id, load_machine = self._session_id, self._load_machine
        self._is_known_to_pass = (
            self._session_tracker.is_recording  # else there is no transcript for them
            and self._unnamed_agent_entries.is_folder_known  # else entries wait for the agent's name
            # It exists here and is not deleted, else its transcript is begun first, or not at all. And it has no
            # terminal that a tool call may show, since the output of that is noted.
            and self._session_tracker.sessions.needs_no_parsing(session_id)
            and self._aliases.find_our_id(session_id) is None  # else the client knows it by another id
            and self._client_ids.find_client_id(session_id) is None
            # Another agent's gets a transcript when it is prompted.
            and not self._uncopied.is_uncopied(session_id)
            # else it may repeat the handover record, which the client must not see
            and not self._handovers.may_repeat_handover_record(session_id)
            # else the agent's first words say that it knows the session
            and not self._handovers.may_resend_prompt(session_id)
            # Until the first turn after a load, an update may be of the past, and is compared first. In that turn it
            # is new, unless a replay still runs.
            and not load_machine.line_handler.claims_all_updates(session_id)
        )
        self._parsed_if_contains = self._negotiated.dialect.always_parsed
        if load_machine.loads.has_load_for_updates(session_id):
            self._parsed_if_contains += update_kinds.PARSED_AFTER_LOAD

    def _means_nothing(self, message: Message, peer: Peer) -> bool:
        """Whether a message has no meaning here: from the client a notification, or an answer to a request that is not
        remembered; from the agent a request, such as for a file."""
        if peer is Peer.AGENT:
            return isinstance(message, Request) and message.method not in _AGENT_REQUESTS
        if isinstance(message, Notification):
            return message.method not in _CLIENT_NOTIFICATIONS
        return isinstance(message, Response) and self._open_requests.find(Peer.AGENT, message.id) is None

    def _track_request_or_answer(self, message: Message, peer: Peer) -> bool:
        """Open a request that has no other effect, or close one that is answered: a client's without a meaning here, or
        the agent's for a terminal's output. Returns whether the message is one of these."""
        if isinstance(message, Request):
            if not _is_only_remembered(message.method, peer):
                return False
            self._open_requests.add(peer, message, acp.session_id(message.params))
            return True
        answered = self._open_requests.find(peer.other, message.id) if isinstance(message, Response) else None
        if answered is None or not _is_only_remembered(answered.request.method, peer.other):
            return False
        if self._session_tracker.must_note_output(answered.session_id, answered.request.params, message):
            return False
        # Closes the request, and makes no entries: none are made for such a request of the client, and the note of a
        # terminal's output was ruled out above.
        self._message_tracker.track(peer, message)
        return True


def _is_only_remembered(method: str, requester: Peer) -> bool:
    """Whether such requests of ``requester``, and their answers, have no effect but that they are remembered. Only the
    answer with a terminal's output may have one (``SessionTracker.must_note_output``)."""
    if requester is Peer.AGENT:
        return method in _TERMINAL_QUESTIONS
    return method not in _CLIENT_METHODS and not method.startswith(_CLIENT_PREFIXES)
