"""Lets a load or a resume of a session wait until the client has the answer to an earlier one, since nobody could tell
two replays at once apart. What the client asks about that session after it waits too, so that nothing overtakes it.

A load that the client has cancelled is not waited for once it has its answer, or if that is to come from the agent:
agents may leave it out.
"""

from msgspec import Struct

from acp_proxy.protocol import acp, jsonrpc
from acp_proxy.protocol.jsonrpc import Message, Notification, Request, RequestId
from acp_proxy.proxy import own_messages
from acp_proxy.proxy.capabilities import AGENT, Answerers
from acp_proxy.proxy.effects import DecideWaiting, Effect
from acp_proxy.proxy.load.lookups import Lookups
from acp_proxy.proxy.load.open_loads import OpenLoads

WAITING_LIMIT = 32 * 1024 * 1024
"""The most bytes of messages that may wait. Beyond that, requests are refused."""
_OVERHEAD = 1024
"""Bytes of one message, beside its line."""
_TOO_MANY = "Too many requests wait for sessions that are being opened. Try again when they are open."


class _Queue(Struct):
    """What waits for one session. It exists until all of it went to the agent or was answered."""

    messages: list[tuple[Request | Notification, bytes]] = []
    """With their lines, as the client sent them."""
    decided: Request | Notification | None = None
    """The message that was taken from it last. What it needs may be decided on in several steps."""
    is_called: bool = False
    """Whether ``DecideWaiting`` was returned, and ``take_next`` not called since."""


class WaitingRequests:
    """What the client has sent that waits for loads. False if there is nothing."""

    def __init__(self, answerers: Answerers, open_loads: OpenLoads, lookups: Lookups) -> None:
        self._answerers = answerers
        self._open_loads = open_loads
        self._lookups = lookups
        self._queues: dict[str, _Queue] = {}

    def __bool__(self) -> bool:
        return bool(self._queues)

    def add(self, line: bytes, message: Message) -> list[Effect] | None:
        """Let a message from the client wait if it must. Returns what follows then; None: it does not wait.

        ``line``: as the client sent it. ``message``: with the session's id that is used here.
        """
        if isinstance(message, Notification) and self._queues:
            return self._add_cancel(line, message)
        session_id = acp.session_id(message.params) if isinstance(message, Request) else None
        if not isinstance(message, Request) or session_id is None:
            return None
        waits = session_id in self._queues or self._must_wait(session_id, message)
        if not waits or (session_id not in self._queues and self._lookups.is_in_use(message.id)):
            return None
        queue = self._queues.setdefault(session_id, _Queue())
        if isinstance(queue.decided, Request) and message.id == queue.decided.id:
            return None
        effects: list[Effect] = []
        if message.method in (acp.CLOSE, acp.DELETE):  # does not wait for the agent, and ends what the others want
            effects = _refuse(queue, jsonrpc.REQUEST_CANCELLED, "Request cancelled")
        elif self._size + len(line) + _OVERHEAD > WAITING_LIMIT:
            return [own_messages.refuse(message.id, jsonrpc.INTERNAL_ERROR, _TOO_MANY)]
        queue.messages.append((message, line))
        return effects

    def call_next(self) -> list[Effect]:
        """Have the next message of each session decided on that need not wait any more."""
        effects: list[Effect] = []
        for session_id, queue in self._queues.items():
            next_message = queue.messages[0][0] if queue.messages else None
            if not queue.is_called and not self._must_wait(session_id, next_message):
                queue.is_called = True
                effects.append(DecideWaiting(session_id))
        return effects

    def take_next(self, session_id: str) -> list[bytes]:
        """What was taken before went to the agent or was answered. Returns the line of the session's next message;
        empty if there is none, or if it must wait."""
        queue = self._queues.get(session_id, _Queue())
        queue.is_called, queue.decided = False, None
        if not queue.messages:
            self._queues.pop(session_id, None)
            return []
        if self._must_wait(session_id, queue.messages[0][0]):
            return []
        queue.decided, line = queue.messages.pop(0)
        return [line]

    def fail(self, reason: str) -> list[Effect]:
        """The agent has ended: answer all requests that wait with an error. ``reason``: its text."""
        queues, self._queues = self._queues.values(), {}
        return [effect for queue in queues for effect in _refuse(queue, jsonrpc.INTERNAL_ERROR, reason)]

    def _must_wait(self, session_id: str, message: Message | None) -> bool:
        if self._lookups.is_looked_up(session_id):  # the agent does not have that request yet
            return True
        opens = isinstance(message, Request) and message.method in (acp.LOAD, acp.RESUME)
        # Where acp-proxy serves no load and no resume, it holds none back either.
        is_served = self._answerers.is_ready and {self._answerers.modes.load, self._answerers.modes.resume} != {AGENT}
        return opens and is_served and self._open_loads.is_being_opened(session_id)

    def _add_cancel(self, line: bytes, message: Notification) -> list[Effect] | None:
        """A cancel does not wait for a load. That of a request which waits ends here. That of a turn goes to the agent,
        and once more after the prompts that wait: it means them too."""
        if message.method == acp.CANCEL:
            queue = self._queues.get(acp.session_id(message.params) or "", _Queue())
            methods = [waiting.method for waiting, _ in queue.messages]
            if acp.PROMPT in methods and methods[-1] != acp.CANCEL and message != queue.decided:
                queue.messages.append((message, line))
            return None
        id = jsonrpc.read_cancelled_id(message) if message.method == acp.CANCEL_REQUEST else None
        if id is None:
            return None
        for session_id, queue in self._queues.items():
            is_decided = isinstance(queue.decided, Request) and queue.decided.id == id
            if is_decided and self._lookups.is_looked_up(session_id):  # so it is cancelled once the agent has it
                queue.messages.insert(0, (message, line))
                return []
        code, reason = jsonrpc.REQUEST_CANCELLED, "Request cancelled"
        return [effect for queue in self._queues.values() for effect in _refuse(queue, code, reason, id)] or None

    @property
    def _size(self) -> int:
        return sum(len(line) + _OVERHEAD for queue in self._queues.values() for _, line in queue.messages)


def _refuse(queue: _Queue, code: int, reason: str, id: RequestId | None = None) -> list[Effect]:
    """Answer all requests of a queue with an error, or only the one with this id."""
    refused = [each for each, _ in queue.messages if isinstance(each, Request) and id in (None, each.id)]
    queue.messages = [waiting for waiting in queue.messages if id is not None and waiting[0] not in refused]
    return [own_messages.refuse(each.id, code, reason) for each in refused]
