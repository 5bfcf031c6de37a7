"""The requests to open sessions that are under way or in question, and the lines that wait behind their answers.

What the agent tells of a session belongs to its oldest open request, else to the last one that was answered. A line for
the client waits behind the latest that has no answer there yet, so that nothing overtakes a replay.
"""

from acp_proxy.core.load import AWAITING, Load, LoadState
from acp_proxy.wire import acp, jsonrpc
from acp_proxy.wire.jsonrpc import Request, RequestId

HELD_LIMIT = 64 * 1024 * 1024
"""Bytes of a session that may wait for its load. Beyond that, before the agent's answer they are let go and it is the
agent's replay; while ours is told, the agent is not read until that ends."""
ALL_HELD_LIMIT = 4 * HELD_LIMIT
"""Bytes that may wait for all loads together; past it, the one that grows is treated as if it alone were too much."""
AT_ONCE = 128
"""Requests that wait for an answer. Each has a file open and may have a thread."""
IN_QUESTION = 32
"""Sessions that were opened and not prompted yet: of each, what was said is in memory."""
GIVEN_UP = 10_000
"""Requests that the client gave up and the agent has not answered: so many are remembered."""


class UnderWay:
    def __init__(self) -> None:
        self.in_question: dict[str, Load] = {}
        """By session: the last request that was answered, until nothing of it is in question any more."""
        self._open: dict[RequestId, Load] = {}
        self._number = 0

    def __contains__(self, id: RequestId) -> bool:
        return id in self._open

    def __bool__(self) -> bool:
        return bool(self._open or self.in_question)

    def all(self) -> list[Load]:
        return list(self._open.values())

    def get(self, id: RequestId) -> Load | None:
        return self._open.get(id)

    def of(self, request: Request) -> Load | None:
        """The load that this request is."""
        found = self._open.get(request.id)
        return found if found is not None and found.request is request else None

    def of_session(self, session: str) -> list[Load]:
        """In the order in which they came."""
        return [load for load in self._open.values() if load.session == session] if self._open else []

    def current(self, session: str) -> Load | None:
        """To which what the agent tells of a session now belongs."""
        found = self.of_session(session)
        known = self.in_question.get(session)
        answered = [load for load in found if load.state not in AWAITING] + ([known] if known is not None else [])
        last = max(answered, key=lambda load: load.number, default=None)
        waiting = (load for load in found if load.state in AWAITING and not load.is_past)
        return next(waiting, last)

    def is_in_question(self, session: str) -> bool:
        """Whether updates of a session are not simply new."""
        return bool(self) and self.current(session) is not None

    def add(self, load: Load) -> None:
        self._number += 1
        load.number = self._number
        self._open[load.request.id] = load
        if len(self._open) > GIVEN_UP:
            oldest = next(iter(self._open))
            if self._open[oldest].state is LoadState.CANCELLED:
                del self._open[oldest]

    def leave(self, load: Load) -> None:
        """The client has its answer."""
        if self._open.get(load.request.id) is load:
            del self._open[load.request.id]

    def follows(self, load: Load) -> bool:
        """Whether an earlier request for its session was answered since: what is told may be behind that."""
        earlier = (other for other in self.of_session(load.session) if other.number < load.number)
        return load.follows or any(other.state not in AWAITING for other in earlier)

    def overtakes(self, load: Load) -> list[tuple[bytes, bool]]:
        """The agent answers this request, and never those before it that were given up: what it told was for this one.
        Taken out."""
        told: list[tuple[bytes, bool]] = []
        for other in self.of_session(load.session):
            if (other.state is LoadState.CANCELLED or other.was_cancelled) and other.number < load.number:
                told += self._past(other)
        return told

    def forget_given_up(self, session: str) -> None:
        """A whole turn has passed: what was told for requests that were given up before is of no use any more."""
        for other in self.of_session(session):
            if other.state is LoadState.CANCELLED:
                self._past(other)

    @staticmethod
    def _past(load: Load) -> list[tuple[bytes, bool]]:
        load.is_past = True
        told, load.told, load.size = load.told, [], 0
        return told

    def answered(self, load: Load) -> None:
        """The client has its answer; what is told from here on may belong to it, or to the requests behind it."""
        self.leave(load)
        for other in self.of_session(load.session):
            other.follows = other.follows or other.number > load.number

    def settled(self, load: Load) -> None:
        """Nothing of it is in question any more."""
        if self.in_question.get(load.session) is load:
            del self.in_question[load.session]

    @property
    def are_many(self) -> bool:
        """Whether no more of them are taken on."""
        return sum(load.state is not LoadState.CANCELLED for load in self._open.values()) >= AT_ONCE

    # --- what waits

    @property
    def is_full(self) -> bool:
        return sum(load.size for load in (*self._open.values(), *self.in_question.values())) > ALL_HELD_LIMIT

    @property
    def hold_too_much(self) -> bool:
        """Whether the agent should not be read until a replay has ended."""
        if not self._open:
            return False
        sizes = [load.size for load in self._open.values() if load.holds and load.state not in AWAITING]
        return bool(sizes) and (max(sizes) > HELD_LIMIT or self.is_full)

    def holder(self, session: str) -> Load | None:
        """The request behind whose answer a line of this session waits: the latest."""
        holding = [load for load in self.of_session(session) if load.holds]
        return holding[-1] if holding else None

    def held(self, load: Load) -> list[tuple[bytes, object]]:
        """What waits for the answer to this request and to earlier ones for its session; taken out."""
        held: list[tuple[bytes, object]] = []
        for other in self.of_session(load.session):
            held, other.held, other.size = held + other.held, [], 0
            if other is load:
                break
        return held

    def is_told_again(self, id: RequestId) -> bool:
        """Whether updates of the conversation wait behind a replay. The record of a handover is told to nobody else."""
        load = self._open.get(id)
        if load is None or load.is_handed_over:
            return False
        return any(update is not None for other in self.of_session(load.session) for _, update in other.held)

    def held_back(self, load: Load) -> bool:
        """Let what it holds wait for the request for the same session before it, where one holds lines."""
        of_session = self.of_session(load.session)
        before = [other for other in of_session[: of_session.index(load)] if other.holds] if load in of_session else []
        if before:
            before[-1].held += load.held
            before[-1].size += load.size
            load.held, load.size = [], 0
        return bool(before)

    def asks_in(self, params: object) -> str | None:
        """The session whose waiting lines hold the agent's request that it cancels now."""
        wanted = jsonrpc.dump(acp.member(params, "requestId")).decode()
        for load in self._open.values():
            for line, _ in load.held:
                held = jsonrpc.read_message(line)
                if isinstance(held, Request) and held.id == wanted:
                    return load.session
        return None
