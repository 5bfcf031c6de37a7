"""Lets a load or a resume of a session wait until the client has the answer to an earlier one, since nobody could tell
two replays at once apart. What the client sends about that session after it waits too, so that nothing overtakes it.

A load that the client has cancelled is not waited for once it has its answer, or if that is to come from the agent:
agents may leave it out.
"""

from collections import OrderedDict

from msgspec import Struct

from acp_proxy.decisions import proxy_messages
from acp_proxy.decisions.capabilities import AGENT
from acp_proxy.decisions.connection_state import ConnectionState
from acp_proxy.decisions.effects import DecideWaiting, Effect
from acp_proxy.decisions.load.current_loads import CurrentLoads
from acp_proxy.decisions.session_look_ups import SessionLookUps
from acp_proxy.protocol import acp, jsonrpc
from acp_proxy.protocol.jsonrpc import Message, Notification, Request, RequestId

WAITING_LIMIT = 32 * 1024 * 1024
"""The most bytes of messages that may wait. Beyond that, requests are refused, and notifications pass."""
_OVERHEAD = 1024
"""Bytes of one message, beside its line."""
_TOO_MANY = "Too many requests wait for sessions that are being opened. Try again when they are open."


class _WaitingMessage(Struct, frozen=True):
    """``line``: as the client sent it."""

    message: Request | Notification
    line: bytes

    @property
    def size(self) -> int:
        return len(self.line) + _OVERHEAD

    @property
    def is_prompt(self) -> bool:
        return isinstance(self.message, Request) and self.message.method == acp.PROMPT


class _Queue:
    """What waits for one session. It exists until all of it went to the agent or was answered."""

    def __init__(self) -> None:
        self.messages: OrderedDict[int, _WaitingMessage] = OrderedDict()
        """By number."""
        self.in_flight: _WaitingMessage | None = None
        """The message that was taken from it last, and may be on its way to the agent: what it needs may be decided on
        in several steps."""
        self.cancel_methods: set[str] = set()
        """The methods of the cancels that follow that message, one of each."""
        self.is_announced = False
        """Whether ``DecideWaiting`` was returned, and ``take_next`` not called since."""
        self.uncancelled: set[int] = set()
        """The numbers of the prompts after which no ``session/cancel`` waits."""

    @property
    def first(self) -> Message | None:
        number = next(iter(self.messages), None)
        return self.messages[number].message if number is not None else None


class WaitingMessages:
    """What the client has sent that waits for loads. False if there is nothing."""

    def __init__(self, shared: ConnectionState, loads: CurrentLoads, look_ups: SessionLookUps) -> None:
        self._services = shared.services
        self._loads = loads
        self._look_ups = look_ups
        self._queues: dict[str, _Queue] = {}
        """By session."""
        self._places: dict[RequestId, tuple[_Queue, int]] = {}
        """By request id: where the request waits, as its queue and its number there."""
        self._last_number = 0
        self._size = 0

    def __bool__(self) -> bool:
        return bool(self._queues)

    def try_add(self, line: bytes, message: Message) -> list[Effect] | None:
        """Let a message from the client wait if it must. Returns what follows then; None: it does not wait.

        ``line``: as the client sent it. ``message``: with the session's id that is used here.
        """
        if isinstance(message, Notification):
            return self._try_add_notification(_WaitingMessage(message, line)) if self._queues else None
        session_id = acp.session_id(message.params) if isinstance(message, Request) else None
        if not isinstance(message, Request) or session_id is None:
            return None
        queue = self._queues.get(session_id)
        if queue is None:
            if self._look_ups.is_request_id_in_use(message.id) or not self._must_wait(session_id, message):
                return None
            queue = self._queues[session_id] = _Queue()
        elif queue.in_flight is not None and _has_id(queue.in_flight, message.id):
            return None
        if message.id in self._places:
            return [proxy_messages.refuse(message.id, jsonrpc.INVALID_REQUEST, "This request id is in use")]
        effects: list[Effect] = []
        waiting = _WaitingMessage(message, line)
        if message.method in (acp.CLOSE, acp.DELETE):  # does not wait for the agent, and ends what the others want
            effects = self._refuse_all(queue, jsonrpc.REQUEST_CANCELLED, "Request cancelled")
        elif self._size + waiting.size > WAITING_LIMIT:
            return [proxy_messages.refuse(message.id, jsonrpc.INTERNAL_ERROR, _TOO_MANY)]
        self._append(queue, waiting)
        return effects

    def announce_next(self) -> list[Effect]:
        """Have the next message of each session decided on that need not wait any more."""
        effects: list[Effect] = []
        for session_id, queue in self._queues.items():
            # What was taken has reached the agent once ``relay/`` has performed what follows: it asks again then.
            next_message = queue.first if queue.in_flight is None else None
            if not queue.is_announced and not self._must_wait(session_id, next_message):
                queue.is_announced = True
                effects.append(DecideWaiting(session_id))
        return effects

    def take_next(self, session_id: str) -> list[bytes]:
        """What was taken before went to the agent or was answered. Returns the line of the session's next message;
        empty if there is none, or if it must wait."""
        queue = self._queues.get(session_id, _Queue())
        queue.is_announced = False
        if self._must_wait(session_id, None):
            return []
        queue.in_flight = None
        queue.cancel_methods.clear()
        if not queue.messages:
            self._queues.pop(session_id, None)
            return []
        if self._must_wait(session_id, queue.first):
            return []
        queue.in_flight = self._remove(queue, next(iter(queue.messages)))
        return [queue.in_flight.line]

    def handle_agent_end(self, reason: str) -> list[Effect]:
        """The agent has ended: answer all requests that wait with an error. ``reason``: its text."""
        effects = [
            effect
            for queue in self._queues.values()
            for effect in self._refuse_all(queue, jsonrpc.INTERNAL_ERROR, reason)
        ]
        self._queues, self._size = {}, 0
        return effects

    def _must_wait(self, session_id: str, message: Message | None) -> bool:
        """Whether this message of a session must wait; None: any."""
        if self._look_ups.is_being_looked_up(session_id):  # the agent does not have that request yet
            return True
        opens = isinstance(message, Request) and message.method in (acp.LOAD, acp.RESUME)
        # Where acp-proxy serves no load and no resume, it holds none back either.
        is_served = self._services.is_ready and {self._services.modes.load, self._services.modes.resume} != {AGENT}
        return opens and is_served and self._loads.is_being_opened(session_id)

    def _try_add_notification(self, waiting: _WaitingMessage) -> list[Effect] | None:
        """A notification keeps its place behind what waits for its session. Cancels do not wait for a load."""
        method, params = waiting.message.method, waiting.message.params
        if method == acp.CANCEL_REQUEST:
            id = jsonrpc.read_cancelled_id(waiting.message) if isinstance(waiting.message, Notification) else None
            return self._cancel_request(id, waiting) if id is not None else None
        queue = self._queues.get(acp.session_id(params) or "")
        if queue is None or (queue.in_flight is not None and queue.in_flight.line is waiting.line):
            return None
        if method == acp.CANCEL:
            self._add_cancel_of_turn(queue, waiting)
            return None
        if self._size + waiting.size > WAITING_LIMIT:
            return None
        self._append(queue, waiting)
        return []

    def _add_cancel_of_turn(self, queue: _Queue, cancel: _WaitingMessage) -> None:
        """A cancel goes to the agent at once, and means the prompts too that the agent does not have: it follows that
        which is on its way, and the last one that waits."""
        if queue.in_flight is not None and queue.in_flight.is_prompt:
            self._put_cancel_first(queue, cancel)
        if queue.uncancelled:
            self._append(queue, cancel)
            queue.uncancelled.clear()

    def _cancel_request(self, id: RequestId, cancel: _WaitingMessage) -> list[Effect] | None:
        """The cancel of a request that waits ends here, and that of one which is on its way follows it."""
        if id in self._places:
            queue, number = self._places[id]
            self._remove(queue, number)
            return [proxy_messages.refuse(id, jsonrpc.REQUEST_CANCELLED, "Request cancelled")]
        for queue in self._queues.values():
            if queue.in_flight is not None and queue.in_flight.line is not cancel.line and _has_id(queue.in_flight, id):
                self._put_cancel_first(queue, cancel)
                return []
        return None

    def _put_cancel_first(self, queue: _Queue, cancel: _WaitingMessage) -> None:
        """Let a cancel follow the message that is on its way."""
        if cancel.message.method not in queue.cancel_methods:
            queue.cancel_methods.add(cancel.message.method)
            self._append(queue, cancel)
            queue.messages.move_to_end(self._last_number, last=False)

    def _append(self, queue: _Queue, waiting: _WaitingMessage) -> None:
        self._last_number += 1
        queue.messages[self._last_number] = waiting
        self._size += waiting.size
        if isinstance(waiting.message, Request):
            self._places[waiting.message.id] = queue, self._last_number
        if waiting.is_prompt:
            queue.uncancelled.add(self._last_number)

    def _remove(self, queue: _Queue, number: int) -> _WaitingMessage:
        waiting = queue.messages.pop(number)
        queue.uncancelled.discard(number)
        self._size -= waiting.size
        if isinstance(waiting.message, Request):
            del self._places[waiting.message.id]
        return waiting

    def _refuse_all(self, queue: _Queue, code: int, reason: str) -> list[Effect]:
        """Answer all requests of a queue with an error."""
        requests = [
            (number, waiting.message.id)
            for number, waiting in queue.messages.items()
            if isinstance(waiting.message, Request)
        ]
        for number, _ in requests:
            self._remove(queue, number)
        return [proxy_messages.refuse(id, code, reason) for _, id in requests]


def _has_id(waiting: _WaitingMessage, id: RequestId) -> bool:
    return isinstance(waiting.message, Request) and waiting.message.id == id
