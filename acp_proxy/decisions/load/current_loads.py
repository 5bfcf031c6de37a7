"""Keeps and finds the loads that are not over.

A load is *pending* until the agent has answered it and the client has its answer. The agent's answer may come long
before the client's, or, if the client cancels, after it. From then on, unless it was refused, the load is *opened*, and
what the agent sends may still be of its replay (``BEFORE_PROMPT``, ``IN_FIRST_TURN``), until it is over.

It decides which loads there are and in which order, and changes none of them: ``LoadMachine`` does, and calls it.
"""

from acp_proxy.decisions.load.load import Load
from acp_proxy.decisions.load.load_states import ABANDONED_STATES, LoadState
from acp_proxy.protocol import jsonrpc
from acp_proxy.protocol.jsonrpc import Notification, Request, RequestId

HOLDING_LOADS_LIMIT = 128
"""The most requests that hold lines back. Each may have a file open, and a thread."""
OPENED_LOADS_LIMIT = 32
"""The most loads that are opened and not over. The conversation of each may be in memory."""
ALL_TAILS_LIMIT = 256 * 1024 * 1024
"""The most bytes that may be new in these sessions together."""
PENDING_LOADS_LIMIT = 10_000
"""The most pending loads. Beyond that, the oldest is forgotten if it holds no lines back."""


class CurrentLoads:
    """All loads that are not over. ``in`` asks for a pending load by its request id; False if there are no loads."""

    def __init__(self) -> None:
        self._opened: dict[str, Load] = {}
        """By session: the latest load that was opened, until it is over."""
        self._pending: dict[RequestId, Load] = {}
        """The pending loads by request id, in the order in which they were sent."""

    def __contains__(self, id: RequestId) -> bool:
        return id in self._pending

    def __bool__(self) -> bool:
        return bool(self._pending or self._opened)

    # --- what is there

    def list_pending(self) -> list[Load]:
        """The pending loads, oldest first."""
        return list(self._pending.values())

    def find_pending(self, id: RequestId) -> Load | None:
        """The pending load with this request id."""
        return self._pending.get(id)

    def find_pending_by_request(self, request: Request) -> Load | None:
        """The pending load of exactly this request object."""
        load = self._pending.get(request.id)
        return load if load is not None and load.request is request else None

    def will_answer(self, request: Request) -> bool:
        """Whether the client gets the answer to this request from a pending load: its own, or the one that opens a new
        session for a prompt that the agent refused."""
        load = self._pending.get(request.id)
        return load is not None and (load.request is request or load.refused_prompt is not None)

    def list_pending_of_session(self, session_id: str) -> list[Load]:
        """The session's pending loads, oldest first."""
        return [load for load in self._pending.values() if load.session_id == session_id] if self._pending else []

    def list_earlier(self, load: Load) -> list[Load]:
        """The pending loads of its session that were sent before this one."""
        of_session = self.list_pending_of_session(load.session_id)
        return of_session[: of_session.index(load)] if load in of_session else []

    def is_being_opened(self, session_id: str) -> bool:
        """Whether the client waits for an answer to a load of this session, other than one of the agent to a load that
        it has cancelled, which agents may leave out."""
        return any(
            load.holds_lines or load.state is LoadState.PASSING for load in self.list_pending_of_session(session_id)
        )

    def find_load_for_updates(self, session_id: str) -> Load | None:
        """The load to which the session's updates belong now, or None if they are simply new.

        An update names its session, never the request for which the agent sends it. Agents work on one request after
        another, so it belongs to the oldest one that the agent has not answered. If there is none, it is late, and
        belongs to the one that it has answered.
        """
        loads = self.list_pending_of_session(session_id)
        expected = [load for load in loads if load.awaits_agents_answer and load.state not in ABANDONED_STATES]
        agreed = [load for load in loads if not load.awaits_agents_answer]
        return next(iter(expected + agreed), None) or self._opened.get(session_id)

    def find_opened(self, session_id: str | None) -> Load | None:
        """The session's load that is opened and not over."""
        return self._opened.get(session_id) if session_id is not None and self._opened else None

    def list_opened(self) -> list[Load]:
        """The opened loads, oldest first."""
        return list(self._opened.values())

    def has_load_for_updates(self, session_id: str) -> bool:
        """Whether the session's updates belong to a load (``find_load_for_updates``), which finds out whether they are
        new."""
        return bool(self) and self.find_load_for_updates(session_id) is not None

    def find_load_holding_lines(self, session_id: str | None) -> Load | None:
        """The load for whose answer the session's lines wait."""
        loads = self.list_pending_of_session(session_id) if session_id is not None else []
        return next((load for load in loads if load.holds_lines), None)

    def has_waiting_updates_of_replay(self, id: RequestId) -> bool:
        """Whether conversation updates that wait for a load's answer may belong to the agent's replay."""
        load = self.find_pending(id)
        if load is None or not load.agent_may_replay:
            return False
        return any(item.update is not None for item in load.lines.to_send_after_answer.items)

    def find_session_of_held_request(self, cancel: Notification) -> str | None:
        """The session whose waiting lines contain the request that the agent cancels, or None."""
        cancelled_id = jsonrpc.read_cancelled_id(cancel)
        for load in self.list_pending():
            for line in load.lines.to_send_before_answer.lines + load.lines.to_send_after_answer.lines:
                message = jsonrpc.read_message(line)
                if isinstance(message, Request) and message.id == cancelled_id:
                    return load.session_id
        return None

    @property
    def has_too_many_holding(self) -> bool:
        """Whether no more requests can be opened at once."""
        return sum(load.holds_lines for load in self._pending.values()) >= HOLDING_LOADS_LIMIT

    # --- what becomes of them

    def add(self, load: Load) -> None:
        """Add a pending load. Beyond ``PENDING_LOADS_LIMIT``, the oldest is forgotten in its state, without an event,
        unless it holds lines back; so is one with the same request id."""
        self._pending.pop(load.request.id, None)  # else this one would take its place in the order
        self._pending[load.request.id] = load
        if len(self._pending) > PENDING_LOADS_LIMIT:
            oldest = next(iter(self._pending))
            if not self._pending[oldest].holds_lines:
                del self._pending[oldest]

    def remove_pending(self, load: Load) -> None:
        """A load is pending no more: it is opened, or over."""
        if self._pending.get(load.request.id) is load:
            del self._pending[load.request.id]

    def add_opened(self, load: Load) -> Load | None:
        """Keep a load that is opened, until it is over.

        Returns a load that must end now, to make room: the oldest one beyond ``OPENED_LOADS_LIMIT``; beyond
        ``ALL_TAILS_LIMIT``, the one with the longest tail of those that wait for a prompt.
        """
        self._opened[load.session_id] = load
        if len(self._opened) > OPENED_LOADS_LIMIT:
            return next(iter(self._opened.values()))
        if sum(each.tail_size for each in self._opened.values()) <= ALL_TAILS_LIMIT:
            return None
        waiting_loads = [
            each for each in self._opened.values() if each is not load and each.state is LoadState.BEFORE_PROMPT
        ]
        return max(waiting_loads, key=lambda each: each.tail_size, default=None)

    def forget(self, load: Load) -> None:
        """A load is over."""
        self.remove_pending(load)
        if self._opened.get(load.session_id) is load:
            del self._opened[load.session_id]
