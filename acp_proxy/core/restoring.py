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
    """Whether a turn was under way when the load came, or came since: then nothing is the past, nothing is dropped."""
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
    def awaits_past(self) -> bool:
        """Whether what the agent tells of the conversation now is what was, told again."""
        return not self.live and self.phase in (Phase.ASKED, Phase.CANCELLED)

    @property
    def holds(self) -> bool:
        return self.phase is not Phase.CANCELLED and not self.let_go

    def taken(self) -> list[bytes]:
        """What was held, and is no longer."""
        held, self.held, self.size = self.held, [], 0
        return held


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
        """The load that holds back what comes of this session now: the latest, but for those that are cancelled."""
        found = self._of_session(session) if self._under_way else []
        holding = [restore for restore in found if restore.phase is not Phase.CANCELLED]
        return holding[-1] if holding else found[-1] if found else None

    def prompted(self, session: str) -> None:
        """What the agent says of it from here on may be new, whatever becomes of a load."""
        for restore in self._of_session(session):
            restore.live = True

    def to_client(self, session: str | None, line: bytes) -> list[Effect]:
        """A line that tells nothing of the past: it waits where updates of its session wait, and cannot overtake."""
        restore = self.holder(session) if session is not None else None
        if restore is None or not restore.holds:
            return [Forward(Peer.CLIENT, line)]
        return self._held(restore, line)

    def question(self, session: str | None, line: bytes) -> list[Effect]:
        """A request of the agent. Before it answers it is not held: the agent may need the answer to give its own."""
        restore = self.holder(session) if session is not None else None
        if restore is not None and restore.phase is Phase.ASKED:
            return [Forward(Peer.CLIENT, line)]
        return self.to_client(session, line)

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
            return [*self._handed_back(restore), *passed, *self._end(restore)]
        session = restore.session
        effects: list[Effect] = [*self._notebook.opened(session, acp.LOAD, restore.request.params, message.result)]
        for state in restore.states:
            effects += self._notebook.keep(session, Peer.AGENT, state)
        if cancelled:
            return [*effects, *self._end(restore)]
        restore.response = _with_object(line, message).removesuffix(b"\n") + b"\n"
        if any(other.phase is Phase.REPLAYING for other in self._of_session(session)):
            restore.phase = Phase.QUEUED
            return effects
        return [*effects, *self._told(restore)]

    def replay_ended(self, ended: ReplayEnded) -> list[Effect]:
        restore = self._under_way.get(ended.request)
        if restore is None or restore.phase is not Phase.REPLAYING:  # of an id that was cancelled, and used again
            return []
        answer = restore.response + b"".join(ended.states)
        return [Forward(Peer.CLIENT, answer), *self._released(restore), *self._end(restore)]

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
            return [answer, *self._handed_back(restore)]
        return [StopReplay(id), answer, *self._handed_back(restore), *self._end(restore)]

    def stopped(self, session: str) -> list[Effect]:
        """Nothing more of it is told: it was deleted."""
        return [StopReplay(restore.request.id) for restore in self._of_session(session)]

    def failed(self, restore: Restore, how: str) -> list[Effect]:
        """The agent is gone before it answered."""
        cancelled = restore.phase is Phase.CANCELLED
        answer = [] if cancelled else [refusal(restore.request.id, jsonrpc.INTERNAL_ERROR, how)]
        return [*self._handed_back(restore), *answer, *self._end(restore)]

    def _told(self, restore: Restore) -> list[Effect]:
        """Its turn: ours is told and then the answer; or the agent's telling and the answer at once."""
        if restore.held_here and not restore.history and not restore.let_go:
            restore.phase = Phase.REPLAYING
            return [StartReplay(restore.request.id)]
        effects: list[Effect] = []
        if not restore.held_here and not restore.history:
            name = jsonrpc.printable(restore.session)
            effects.append(Warn(f"session {name} was not recorded here; it opens without its history"))
        effects.append(Forward(Peer.CLIENT, b"".join(restore.history) + restore.response))
        return [*effects, *self._released(restore), *self._end(restore)]

    def _released(self, restore: Restore) -> list[Effect]:
        """What was held, for the client; first what loads of the same session before it held."""
        held: list[bytes] = []
        for other in self._of_session(restore.session):
            held += other.taken()
            if other is restore:
                break
        return [Forward(Peer.CLIENT, b"".join(held))] if held else []

    def _handed_back(self, restore: Restore) -> list[Effect]:
        """It comes to nothing: what it held waits for the load of the same session before it, where there is one."""
        of_session = self._of_session(restore.session)
        before = [other for other in of_session[: of_session.index(restore)] if other.holds]
        if not before:
            return self._released(restore)
        return [effect for line in restore.taken() for effect in self._held(before[-1], line)]

    def _of_session(self, session: str) -> list[Restore]:
        return [restore for restore in self._under_way.values() if restore.session == session]

    def _held(self, restore: Restore, line: bytes) -> list[Effect]:
        restore.held.append(line)
        return self._waits(restore, line)

    def _waits(self, restore: Restore, line: bytes) -> list[Effect]:
        """One more line waits; too many do so no longer."""
        restore.size += len(line)
        if restore.size <= HELD_LIMIT or restore.phase is not Phase.ASKED:
            return []
        restore.let_go = True
        told = b"".join(restore.history)
        restore.history.clear()
        return [*([Forward(Peer.CLIENT, told)] if told else []), *self._handed_back(restore)]

    def _end(self, restore: Restore) -> list[Effect]:
        """Forget it; the next load of the same session can have its turn."""
        del self._under_way[restore.request.id]
        effects: list[Effect] = [] if restore.phase is Phase.REPLAYING else [ForgetReplay(restore.request.id)]
        others = self._of_session(restore.session)
        if any(other.phase is Phase.REPLAYING for other in others):
            return effects
        queued = [other for other in others if other.phase is Phase.QUEUED]
        return effects + (self._told(queued[0]) if queued else [])


def _with_object(line: bytes, message: Response) -> bytes:
    """Clients that decode the result into an object fail on null."""
    if message.result is not None:
        return line
    try:
        return acp.with_result(line, "{}")
    except (ValueError, KeyError):
        return line
