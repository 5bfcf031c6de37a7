"""Loads that we serve on top of the agent's resume: what is held back, and whose telling of the past is sent.

``Restores`` knows the loads under way and what to do as the agent's answer, its updates, a cancel or the end of a
replay come in. It is the interceptor's, and called by it alone.
"""

import enum
from dataclasses import dataclass, field

from acp_proxy.core.answers import refusal
from acp_proxy.core.effects import Effect, ForgetReplay, Forward, StartReplay, StopReplay, Warn
from acp_proxy.core.events import ReplayEnded
from acp_proxy.core.notebook import Notebook
from acp_proxy.wire import acp, jsonrpc
from acp_proxy.wire.jsonrpc import Notification, Peer, Request, RequestId, Response

HELD_LIMIT = 64 * 1024 * 1024
"""Bytes of a session that may wait for its load. Beyond that, before the agent's answer they are let go and it is the
agent's telling; while we replay, the agent is not read until that ends."""


class Phase(enum.Enum):
    ASKED = "the agent has not answered yet"
    QUEUED = "the agent has restored it; another replay of the same session goes first"
    REPLAYING = "ours is being told"
    CANCELLED = "the client has its answer; the agent's is still to come, and to be swallowed"


@dataclass(slots=True)
class Restore:
    """One ``session/load``."""

    request: Request
    session: str
    held_here: bool
    """Whether the store has a transcript of it."""
    complete: bool
    """Whether that transcript has all; then what the agent tells of the past is dropped."""
    live: bool
    """Whether a turn was under way when the load came: then nothing is the past, and nothing is dropped."""
    phase: Phase = Phase.ASKED
    response: bytes = b""
    held: list[bytes] = field(default_factory=list)
    """Lines of this session for the client, after the answer."""
    states: list[bytes] = field(default_factory=list)
    """State updates among them that are recorded once the agent agrees."""
    history: list[bytes] = field(default_factory=list)
    """The agent's own telling, where ours has gaps."""
    size: int = 0
    """Bytes that wait: held and history."""
    let_go: bool = False
    """It was too much: what waited has left, and nothing waits any more."""

    @property
    def holds(self) -> bool:
        return self.phase is not Phase.CANCELLED and not self.let_go

    def released(self) -> list[Effect]:
        """What was held, for the client."""
        data = b"".join(self.held)
        self.held.clear()
        self.size = 0
        return [Forward(Peer.CLIENT, data)] if data else []


class Restores:
    def __init__(self, notebook: Notebook) -> None:
        self._notebook = notebook
        self._under_way: dict[RequestId, Restore] = {}

    def __contains__(self, id: RequestId) -> bool:
        return id in self._under_way

    @property
    def hold_too_much(self) -> bool:
        """Whether the agent should not be read until a replay has ended."""
        return any(
            restore.size > HELD_LIMIT and restore.phase in (Phase.REPLAYING, Phase.QUEUED)
            for restore in self._under_way.values()
        )

    def add(self, restore: Restore) -> None:
        self._under_way[restore.request.id] = restore

    def of(self, request: Request) -> Restore | None:
        """The load that this request is."""
        found = self._under_way.get(request.id)
        return found if found is not None and found.request is request else None

    def holder(self, session: str) -> Restore | None:
        """The load that holds back what comes of this session now: the latest."""
        found = self._of_session(session) if self._under_way else []
        return found[-1] if found else None

    def to_client(self, session: str | None, line: bytes) -> list[Effect]:
        """A line that tells nothing of the past: it waits where updates of its session wait, and cannot overtake."""
        restore = self.holder(session) if session is not None else None
        if restore is None or not restore.holds:
            return [Forward(Peer.CLIENT, line)]
        restore.held.append(line)
        return self._waits(restore, line)

    def past_update(self, restore: Restore, line: bytes, message: Notification) -> list[Effect]:
        """An update that came before the agent's answer, or after a cancel: the past again, or how things stand."""
        if not acp.is_conversation(acp.update_kind(acp.member(message.params, "update"))):
            restore.states.append(message.raw)
            return self.to_client(restore.session, line)
        if restore.let_go and not restore.complete:
            return [Forward(Peer.CLIENT, line)]
        if restore.phase is Phase.ASKED and not restore.complete:
            restore.history.append(line)
            return self._waits(restore, line)
        return []

    def answered(self, restore: Restore, line: bytes, message: Response) -> list[Effect]:
        """The agent's answer to the resume that stands for a load."""
        cancelled = restore.phase is Phase.CANCELLED
        if message.error is not None:
            passed: list[Effect] = [] if cancelled else [Forward(Peer.CLIENT, line)]
            return [*restore.released(), *passed, *self._end(restore)]
        session = restore.session
        effects: list[Effect] = [*self._notebook.opened(session, acp.LOAD, restore.request.params, message.result)]
        for state in restore.states:
            effects += self._notebook.keep(session, Peer.AGENT, state)
        if cancelled:
            return [*effects, *self._end(restore)]
        restore.response = _with_object(line, message)
        if restore.history or restore.let_go or not restore.held_here:
            if not restore.held_here and not restore.history:
                name = jsonrpc.printable(session)
                effects.append(Warn(f"session {name} was not recorded here; it opens without its history"))
            effects.append(Forward(Peer.CLIENT, b"".join(restore.history) + restore.response))
            return [*effects, *restore.released(), *self._end(restore)]
        if any(other.phase is Phase.REPLAYING for other in self._of_session(session)):
            restore.phase = Phase.QUEUED
            return effects
        restore.phase = Phase.REPLAYING
        return [*effects, StartReplay(restore.request.id)]

    def replay_ended(self, ended: ReplayEnded) -> list[Effect]:
        restore = self._under_way.get(ended.request)
        if restore is None:
            return []
        answer = restore.response + b"".join(ended.states)
        return [Forward(Peer.CLIENT, answer), *restore.released(), *self._end(restore)]

    def cancelled(self, message: Notification) -> list[Effect]:
        """``$/cancel_request``: answered at once; the agent's late answer is swallowed."""
        params = message.params
        if not isinstance(params, dict) or "requestId" not in params:
            return []
        try:
            id = jsonrpc.request_id(params["requestId"], message.raw, "params", "requestId")
        except ValueError:  # nested too deeply: no load's
            return []
        restore = self._under_way.get(id)
        if restore is None or restore.phase is Phase.CANCELLED:
            return []
        answer = refusal(id, jsonrpc.REQUEST_CANCELLED, "Request cancelled")
        if restore.phase is Phase.ASKED:
            restore.phase = Phase.CANCELLED
            return [answer, *restore.released()]
        return [StopReplay(id), answer, *restore.released(), *self._end(restore)]

    def stopped(self, session: str) -> list[Effect]:
        """Nothing more of it is told: it was deleted."""
        return [StopReplay(restore.request.id) for restore in self._of_session(session)]

    def failed(self, restore: Restore, how: str) -> list[Effect]:
        """The agent is gone before it answered."""
        cancelled = restore.phase is Phase.CANCELLED
        answer = [] if cancelled else [refusal(restore.request.id, jsonrpc.INTERNAL_ERROR, how)]
        return [*restore.released(), *answer, *self._end(restore)]

    def _of_session(self, session: str) -> list[Restore]:
        return [restore for restore in self._under_way.values() if restore.session == session]

    def _waits(self, restore: Restore, line: bytes) -> list[Effect]:
        """One more line waits; too many do so no longer."""
        restore.size += len(line)
        if restore.size <= HELD_LIMIT or restore.phase is not Phase.ASKED:
            return []
        restore.let_go = True
        told = b"".join(restore.history)
        restore.history.clear()
        return [*([Forward(Peer.CLIENT, told)] if told else []), *restore.released()]

    def _end(self, restore: Restore) -> list[Effect]:
        """Forget it; the next replay of the same session can begin."""
        del self._under_way[restore.request.id]
        if restore.phase is not Phase.REPLAYING:
            return [ForgetReplay(restore.request.id)]
        for other in self._of_session(restore.session):
            if other.phase is Phase.QUEUED:
                other.phase = Phase.REPLAYING
                return [StartReplay(other.request.id)]
        return []


def _with_object(line: bytes, message: Response) -> bytes:
    """Clients that decode the result into an object fail on null."""
    if message.result is not None:
        return line
    try:
        return acp.with_result(line, "{}")
    except (ValueError, KeyError):
        return line
