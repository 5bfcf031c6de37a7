"""Knows the requests to open sessions that are open or not settled, and the lines that wait for their answers.

What the agent sends about a session belongs to the session's oldest open request, or else to the last one that was
answered. A line for the client waits for the answer to the session's latest request that holds lines, so that nothing
overtakes a replay.
"""

from acp_proxy.comparison.once import find_last_replay
from acp_proxy.protocol import acp, jsonrpc
from acp_proxy.protocol.jsonrpc import Request, RequestId
from acp_proxy.proxy.load.states import AWAITING, Load, LoadState

HELD_LIMIT = 64 * 1024 * 1024
"""The most bytes that may wait for a load. Beyond that, before the agent's answer, they pass and the client sees the
agent's replay; during the transcript's replay, the agent is not read until it ends."""
ALL_HELD_LIMIT = 4 * HELD_LIMIT
"""The most bytes that may wait for all loads together. Beyond that, a load that grows counts as over its limit."""
AT_ONCE = 128
"""The most requests that hold lines back. Each may have a file open, and a thread."""
IN_QUESTION = 32
"""The most sessions that were opened and not prompted yet. The conversation of each may be in memory."""
UNANSWERED = 10_000
"""The most requests without an answer that are remembered although they hold no lines back."""


class OpenLoads:
    """All loads that are not settled. ``in`` asks for an open request by its id; False if there are no loads."""

    def __init__(self) -> None:
        self.in_question: dict[str, Load] = {}
        """By session: the last load that was answered, until everything that the agent sent is settled."""
        self._open: dict[RequestId, Load] = {}
        self._begins: dict[str, bytes] = {}
        """By session: how the last replay began, while a request is open."""
        self._number = self._answers = 0

    def __contains__(self, id: RequestId) -> bool:
        return id in self._open

    def __bool__(self) -> bool:
        return bool(self._open or self.in_question)

    def all(self) -> list[Load]:
        """The open loads, oldest first."""
        return list(self._open.values())

    def get(self, id: RequestId) -> Load | None:
        """The open load with this request id."""
        return self._open.get(id)

    def of(self, request: Request) -> Load | None:
        """The open load of exactly this request object."""
        found = self._open.get(request.id)
        return found if found is not None and found.request is request else None

    def of_session(self, session: str) -> list[Load]:
        """The session's open loads, oldest first."""
        return [load for load in self._open.values() if load.session == session] if self._open else []

    def current(self, session: str) -> Load | None:
        """The load to which the session's updates belong now, or None if they are simply new."""
        found = self.of_session(session)
        known = self.in_question.get(session)
        answered = [load for load in found if load.state not in AWAITING] + ([known] if known is not None else [])
        last = max(answered, key=lambda load: load.answer_number, default=None)
        waiting = (load for load in found if load.state in AWAITING and not load.is_past)
        return next(waiting, last)

    def is_in_question(self, session: str) -> bool:
        """Whether the session's updates belong to a load, and may not be new."""
        return bool(self) and self.current(session) is not None

    def add(self, load: Load) -> None:
        """Add an open load, and give it its number."""
        self._number += 1
        load.number = self._number
        self._open[load.request.id] = load
        if len(self._open) > UNANSWERED:
            oldest = next(iter(self._open))
            if not self._open[oldest].holds:
                del self._open[oldest]

    def agreed(self, load: Load) -> None:
        """The agent has answered: what it sends from here on follows this answer, whatever was asked first."""
        self._answers += 1
        load.answer_number = self._answers

    def leave(self, load: Load) -> None:
        """Remove an open load, since the client has its answer."""
        if self._open.get(load.request.id) is load:
            del self._open[load.request.id]
        if not self.of_session(load.session):
            self._begins.pop(load.session, None)

    def follows(self, load: Load) -> bool:
        """Whether another request for its session was answered since this one was sent, so that what the agent sends
        may follow that answer."""
        return load.follows or any(other.state not in AWAITING for other in self.of_session(load.session))

    def overtakes(self, load: Load) -> list[tuple[bytes, bool]]:
        """The agent answers this load, so it will not answer earlier ones that were cancelled.

        Removes and returns what it sent for those, which belongs to this load.
        """
        told: list[tuple[bytes, bool]] = []
        for other in self.of_session(load.session):
            is_cancelled = other.state in (LoadState.GIVEN_UP, LoadState.CANCELLED) or other.was_cancelled
            if is_cancelled and other.number < load.number:
                told += self._past(other)
        return told

    def goes_first(self, load: Load) -> list[tuple[bytes, bool]]:
        """The agent agrees to this load before the oldest open one, so its last replay until now is this one's.

        Removes and returns that replay.
        """
        oldest = next((other for other in self.of_session(load.session) if other.state in AWAITING), load)
        if oldest is load or not oldest.state is load.state is LoadState.ASKED:
            return []
        told = find_last_replay(oldest.told)
        oldest.told = oldest.told[: len(oldest.told) - len(told)]
        oldest.size -= sum(len(line) for line, _ in told)
        return told

    def begins(self, load: Load) -> bytes:
        """The first line of what the agent sent for the request of this session that it answered before this one; empty
        if none is known. From now on, this load's counts."""
        before = self._begins.get(load.session, b"")
        if load.told:
            self._begins[load.session] = load.told[0][0]
        return before

    def forget_given_up(self, session: str) -> None:
        """A whole turn has passed: drop what the agent sent for cancelled requests of this session."""
        for other in self.of_session(session):
            if other.state is LoadState.CANCELLED:
                self._past(other)

    @staticmethod
    def _past(load: Load) -> list[tuple[bytes, bool]]:
        load.is_past = True
        told, load.told, load.size = load.told, [], 0
        return told

    def answered(self, load: Load) -> None:
        """The client has its answer. What the agent sends from here on may belong to this load, or to later ones."""
        self.leave(load)
        for other in self.of_session(load.session):
            other.follows = True

    def settled(self, load: Load) -> None:
        """Forget an answered load, since everything that the agent sent is settled."""
        if self.in_question.get(load.session) is load:
            del self.in_question[load.session]

    @property
    def are_many(self) -> bool:
        """Whether no more requests can be opened at once."""
        return sum(load.holds for load in self._open.values()) >= AT_ONCE

    # --- what waits

    @property
    def is_full(self) -> bool:
        """Whether too much waits for all loads together."""
        return sum(load.size for load in (*self._open.values(), *self.in_question.values())) > ALL_HELD_LIMIT

    @property
    def hold_too_much(self) -> bool:
        """Whether so much waits that the agent must not be read until a replay has ended."""
        if not self._open:
            return False
        sizes = [load.size for load in self._open.values() if load.holds and load.state not in AWAITING]
        return bool(sizes) and (max(sizes) > HELD_LIMIT or self.is_full)

    def holder(self, session: str) -> Load | None:
        """The load behind whose answer the session's lines wait: the latest one that holds lines."""
        holding = [load for load in self.of_session(session) if load.holds]
        return holding[-1] if holding else None

    def held(self, load: Load) -> list[tuple[bytes, object]]:
        """Remove and return the lines that wait for this load and for earlier ones of its session."""
        held: list[tuple[bytes, object]] = []
        for other in self.of_session(load.session):
            held, other.held, other.size = held + other.held, [], 0
            if other is load:
                break
        return held

    def is_told_again(self, id: RequestId) -> bool:
        """Whether conversation updates wait behind a replay. Never for a handover: the agent's new session has no
        past."""
        load = self._open.get(id)
        if load is None or load.is_handed_over:
            return False
        return any(update is not None for other in self.of_session(load.session) for _, update in other.held)

    def held_back(self, load: Load) -> bool:
        """Let the lines of a load wait for an earlier one of its session. Returns whether there is one that holds."""
        of_session = self.of_session(load.session)
        before = [other for other in of_session[: of_session.index(load)] if other.holds] if load in of_session else []
        if before:
            before[-1].held += load.held
            before[-1].size += load.size
            load.held, load.size = [], 0
        return bool(before)

    def asks_in(self, params: object) -> str | None:
        """The session whose waiting lines contain the request that the agent cancels with these parameters, or None."""
        wanted = jsonrpc.dump(acp.member(params, "requestId")).decode()
        for load in self._open.values():
            for line, _ in load.held:
                held = jsonrpc.read_message(line)
                if isinstance(held, Request) and held.id == wanted:
                    return load.session
        return None
