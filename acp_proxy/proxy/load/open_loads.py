"""Keeps and finds the requests to open sessions that are open or not settled.

It decides which loads there are and in which order, and changes none of them: ``LoadMachine`` does, and calls it.
"""

from acp_proxy.comparison.repeated_replays import count_rest
from acp_proxy.protocol.jsonrpc import Request, RequestId
from acp_proxy.proxy.load.load import Load
from acp_proxy.proxy.load.states import ABANDONED_STATES, CANCELLED_STATES, LoadState

HOLDING_LIMIT = 128
"""The most requests that hold lines back. Each may have a file open, and a thread."""
UNSETTLED_LIMIT = 32
"""The most sessions that were opened and not prompted yet. The conversation of each may be in memory."""
ALL_TAILS_LIMIT = 256 * 1024 * 1024
"""The most bytes that may be new in these sessions together."""
UNANSWERED_LIMIT = 10_000
"""The most requests without an answer that are remembered although they hold no lines back."""


class OpenLoads:
    """All loads that are not settled. ``in`` asks for an open request by its id; False if there are no loads."""

    def __init__(self) -> None:
        self._unsettled: dict[str, Load] = {}
        """By session: the last load that was answered, until everything that the agent sent is settled."""
        self._unanswered: dict[RequestId, Load] = {}
        """The loads whose answer the client does not have, in the order in which they were sent."""
        self._answered_by_agent: list[Load] = []
        """The loads that the agent has answered, in the order of its answers."""
        self._following: set[RequestId] = set()
        """The open loads sent before the client got its answer to another one of their session."""
        self._first_lines: dict[str, bytes] = {}
        """By session: how the last replay began, while a request is open."""

    def __contains__(self, id: RequestId) -> bool:
        return id in self._unanswered

    def __bool__(self) -> bool:
        return bool(self._unanswered or self._unsettled)

    # --- what is there

    def list_open(self) -> list[Load]:
        """The open loads, oldest first."""
        return list(self._unanswered.values())

    def get(self, id: RequestId) -> Load | None:
        """The open load with this request id."""
        return self._unanswered.get(id)

    def find_by_request(self, request: Request) -> Load | None:
        """The open load of exactly this request object."""
        load = self._unanswered.get(request.id)
        return load if load is not None and load.request is request else None

    def find_by_session(self, session_id: str) -> list[Load]:
        """The session's open loads, oldest first."""
        return [load for load in self._unanswered.values() if load.session_id == session_id] if self._unanswered else []

    def find_earlier(self, load: Load) -> list[Load]:
        """The open loads of its session that were sent before this one."""
        of_session = self.find_by_session(load.session_id)
        return of_session[: of_session.index(load)] if load in of_session else []

    def find_current(self, session_id: str) -> Load | None:
        """The load to which the session's updates belong now, or None if they are simply new.

        An update names its session, never the request for which the agent sends it. Agents work on one request after
        another, so it belongs to the oldest one without an answer. If all are answered, it is late, and belongs to the
        last one that was answered, whatever was asked first.
        """
        expected = (
            load
            for load in self.find_by_session(session_id)
            if load.awaits_agent and load.state not in ABANDONED_STATES
        )
        return next(expected, None) or next(
            (
                load
                for load in reversed(self._answered_by_agent)
                if load.session_id == session_id and self._is_known(load)
            ),
            None,
        )

    def find_unsettled(self, session_id: str | None) -> Load | None:
        """The session's load that was answered and is not settled."""
        return self._unsettled.get(session_id) if session_id is not None and self._unsettled else None

    def list_unsettled(self) -> list[Load]:
        """The answered loads that are not settled, of which the oldest comes first."""
        return list(self._unsettled.values())

    def may_be_replay(self, session_id: str) -> bool:
        """Whether the session's updates belong to a load, and may not be new."""
        return bool(self) and self.find_current(session_id) is not None

    def follows(self, load: Load) -> bool:
        """Whether another request for its session was answered since this one was sent, so that what the agent sends
        may follow that answer."""
        return load.request.id in self._following or any(
            not other.awaits_agent for other in self.find_by_session(load.session_id)
        )

    def may_replay_again(self, load: Load) -> bool:
        """Whether the agent may replay the session again, for another open load."""
        other_loads = (other for other in self.find_by_session(load.session_id) if other is not load)
        return any(other.state not in ABANDONED_STATES | CANCELLED_STATES for other in other_loads)

    @property
    def are_many(self) -> bool:
        """Whether no more requests can be opened at once."""
        return sum(load.holds_lines for load in self._unanswered.values()) >= HOLDING_LIMIT

    def _is_known(self, load: Load) -> bool:
        return self._unsettled.get(load.session_id) is load or self._unanswered.get(load.request.id) is load

    # --- what becomes of them

    def add(self, load: Load) -> None:
        """Add an open load."""
        self._unanswered[load.request.id] = load
        if len(self._unanswered) > UNANSWERED_LIMIT:
            oldest = next(iter(self._unanswered))
            if not self._unanswered[oldest].holds_lines:
                del self._unanswered[oldest]
                self._following.discard(oldest)

    def note_agents_answer(self, load: Load) -> None:
        """The agent has answered: what it sends from here on follows this answer, whatever was asked first."""
        self._answered_by_agent = [other for other in self._answered_by_agent if self._is_known(other)]
        self._answered_by_agent.append(load)

    def note_clients_answer(self, load: Load) -> None:
        """The client has its answer. What the agent sends from here on may belong to this load, or to later ones."""
        self._remove_unanswered(load)
        self._following |= {other.request.id for other in self.find_by_session(load.session_id)}

    def add_unsettled(self, load: Load) -> Load | None:
        """The load was answered: until it is settled, what the agent sends about its session is compared. Returns one
        that must be settled now: the oldest if there are too many, or the largest that waits for a prompt if they hold
        too much."""
        self._unsettled[load.session_id] = load
        if len(self._unsettled) > UNSETTLED_LIMIT:
            return next(iter(self._unsettled.values()))
        if sum(each.tail_size for each in self._unsettled.values()) <= ALL_TAILS_LIMIT:
            return None
        waiting_loads = [
            each for each in self._unsettled.values() if each is not load and each.state is LoadState.ANSWERED
        ]
        return max(waiting_loads, key=lambda each: each.tail_size, default=None)

    def forget(self, load: Load) -> None:
        """Everything is settled."""
        self._remove_unanswered(load)
        if self._unsettled.get(load.session_id) is load:
            del self._unsettled[load.session_id]

    def _remove_unanswered(self, load: Load) -> None:
        if self._unanswered.get(load.request.id) is load:
            del self._unanswered[load.request.id]
            self._following.discard(load.request.id)
        if not self.find_by_session(load.session_id):
            self._first_lines.pop(load.session_id, None)

    def swap_beginning(self, load: Load) -> bytes:
        """The first line of what the agent sent for the request of this session that it answered before this one; empty
        if none is known. From now on, this load's counts."""
        earlier_line, items = self._first_lines.get(load.session_id, b""), load.uncompared.items
        if items:
            self._first_lines[load.session_id] = items[count_rest(items, earlier_line)][0]
        return earlier_line
