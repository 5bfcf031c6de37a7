"""Keeps and finds the loads that are open or answered.

A load is *open* until the agent has answered it and the client has its answer; the agent's may come long before the
client's, or after it if the client cancels. Then, unless it was refused, it is *answered* until nothing that the agent
sends can be of its replay: in the states ``BEFORE_PROMPT`` and ``IN_FIRST_TURN``.

It decides which loads there are and in which order, and changes none of them: ``LoadMachine`` does, and calls it.
"""

from acp_proxy.protocol import jsonrpc
from acp_proxy.protocol.jsonrpc import Notification, Request, RequestId
from acp_proxy.proxy.load.load import Load
from acp_proxy.proxy.load.load_states import ABANDONED_STATES, LoadState

HOLDING_LOADS_LIMIT = 128
"""The most requests that hold lines back. Each may have a file open, and a thread."""
ANSWERED_LOADS_LIMIT = 32
"""The most sessions that were opened and not prompted yet. The conversation of each may be in memory."""
ALL_TAILS_LIMIT = 256 * 1024 * 1024
"""The most bytes that may be new in these sessions together."""
OPEN_LOADS_LIMIT = 10_000
"""The most open loads. Beyond that, the oldest is forgotten if it holds no lines back."""


class LoadRegistry:
    """All loads that are not over. ``in`` asks for an open request by its id; False if there are no loads."""

    def __init__(self) -> None:
        self._answered: dict[str, Load] = {}
        """By session: the last load that was answered, until it is over."""
        self._open: dict[RequestId, Load] = {}
        """The open loads by request id, in the order in which they were sent."""

    def __contains__(self, id: RequestId) -> bool:
        return id in self._open

    def __bool__(self) -> bool:
        return bool(self._open or self._answered)

    # --- what is there

    def list_open(self) -> list[Load]:
        """The open loads, oldest first."""
        return list(self._open.values())

    def find_open(self, id: RequestId) -> Load | None:
        """The open load with this request id."""
        return self._open.get(id)

    def find_open_by_request(self, request: Request) -> Load | None:
        """The open load of exactly this request object."""
        load = self._open.get(request.id)
        return load if load is not None and load.request is request else None

    def will_answer(self, request: Request) -> bool:
        """Whether the client gets the answer to this request from an open load: its own, or the one that opens a new
        session for a prompt that the agent refused."""
        load = self._open.get(request.id)
        return load is not None and (load.request is request or load.refused_prompt is not None)

    def list_open_of_session(self, session_id: str) -> list[Load]:
        """The session's open loads, oldest first."""
        return [load for load in self._open.values() if load.session_id == session_id] if self._open else []

    def list_earlier(self, load: Load) -> list[Load]:
        """The open loads of its session that were sent before this one."""
        of_session = self.list_open_of_session(load.session_id)
        return of_session[: of_session.index(load)] if load in of_session else []

    def is_being_opened(self, session_id: str) -> bool:
        """Whether the client waits for the answer to a load of this session, unless it has cancelled that and the agent
        may leave it out."""
        return any(
            load.holds_lines or load.state is LoadState.PASSING for load in self.list_open_of_session(session_id)
        )

    def find_load_for_updates(self, session_id: str) -> Load | None:
        """The load to which the session's updates belong now, or None if they are simply new.

        An update names its session, never the request for which the agent sends it. Agents work on one request after
        another, so it belongs to the oldest one that the agent has not answered. If there is none, it is late, and
        belongs to the one that it has answered.
        """
        loads = self.list_open_of_session(session_id)
        expected = [load for load in loads if load.awaits_agents_answer and load.state not in ABANDONED_STATES]
        agreed = [load for load in loads if not load.awaits_agents_answer]
        return next(iter(expected + agreed), None) or self._answered.get(session_id)

    def find_answered(self, session_id: str | None) -> Load | None:
        """The session's load that was answered and is not over."""
        return self._answered.get(session_id) if session_id is not None and self._answered else None

    def list_answered(self) -> list[Load]:
        """The answered loads that are not over, of which the oldest comes first."""
        return list(self._answered.values())

    def has_load_for_updates(self, session_id: str) -> bool:
        """Whether the session's updates belong to a load (``find_load_for_updates``), which finds out whether they are
        new."""
        return bool(self) and self.find_load_for_updates(session_id) is not None

    def find_holding(self, session_id: str | None) -> Load | None:
        """The load for whose answer the session's lines wait."""
        loads = self.list_open_of_session(session_id) if session_id is not None else []
        return next((load for load in loads if load.holds_lines), None)

    def has_waiting_updates_of_replay(self, id: RequestId) -> bool:
        """Whether conversation updates that wait for a load's answer may belong to the agent's replay."""
        load = self.find_open(id)
        if load is None or not load.agent_may_replay:
            return False
        return any(update is not None for _, update in load.lines.after_answer.items)

    def find_session_of_held_request(self, cancel: Notification) -> str | None:
        """The session whose waiting lines contain the request that the agent cancels, or None."""
        cancelled_id = jsonrpc.read_cancelled_id(cancel)
        for load in self.list_open():
            for line in load.lines.before_answer.lines + load.lines.after_answer.lines:
                message = jsonrpc.read_message(line)
                if isinstance(message, Request) and message.id == cancelled_id:
                    return load.session_id
        return None

    @property
    def is_full(self) -> bool:
        """Whether no more requests can be opened at once."""
        return sum(load.holds_lines for load in self._open.values()) >= HOLDING_LOADS_LIMIT

    # --- what becomes of them

    def add(self, load: Load) -> None:
        """Add an open load. Beyond ``OPEN_LOADS_LIMIT``, the oldest is forgotten in its state, without an event; so is
        one with the same request id."""
        self._open[load.request.id] = load
        if len(self._open) > OPEN_LOADS_LIMIT:
            oldest = next(iter(self._open))
            if not self._open[oldest].holds_lines:
                del self._open[oldest]

    def remove_open(self, load: Load) -> None:
        """A load is open no more: both have answered it, or it is over."""
        if self._open.get(load.request.id) is load:
            del self._open[load.request.id]

    def add_answered(self, load: Load) -> Load | None:
        """Keep a load that is answered, until it is over.

        Returns a load that must end now, to make room: the oldest one beyond ``ANSWERED_LOADS_LIMIT``; beyond
        ``ALL_TAILS_LIMIT``, the one with the longest tail of those that wait for a prompt.
        """
        self._answered[load.session_id] = load
        if len(self._answered) > ANSWERED_LOADS_LIMIT:
            return next(iter(self._answered.values()))
        if sum(each.tail_size for each in self._answered.values()) <= ALL_TAILS_LIMIT:
            return None
        waiting_loads = [
            each for each in self._answered.values() if each is not load and each.state is LoadState.BEFORE_PROMPT
        ]
        return max(waiting_loads, key=lambda each: each.tail_size, default=None)

    def forget(self, load: Load) -> None:
        """A load is over."""
        self.remove_open(load)
        if self._answered.get(load.session_id) is load:
            del self._answered[load.session_id]
