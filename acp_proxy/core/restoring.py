"""Sessions that are being opened with our help: what is held back, and whose telling of the past is sent.

``Restores`` knows the loads under way and what to do as the agent's answer, its updates, a cancel or the end of a
replay come in. It is the interceptor's, and called by it alone.
"""

from acp_proxy.core import aliases, handover
from acp_proxy.core.aliases import Aliases
from acp_proxy.core.answers import refusal
from acp_proxy.core.effects import Effect, ForgetReplay, Forward, ReleaseHeld, StartReplay, StopReplay, Warn
from acp_proxy.core.events import ReplayEnded
from acp_proxy.core.notebook import Notebook
from acp_proxy.core.planning import Past, Plan
from acp_proxy.core.restore import Phase, Restore
from acp_proxy.wire import acp, jsonrpc
from acp_proxy.wire.jsonrpc import Notification, Peer, Request, RequestId, Response

HELD_LIMIT = 64 * 1024 * 1024
"""Bytes of a session that may wait for its load. Beyond that, before the agent's answer they are let go and it is the
agent's telling; while we replay, the agent is not read until that ends."""

ALL_HELD_LIMIT = 4 * HELD_LIMIT
"""Bytes that may wait for all loads together; past it, the one that grows is treated as if it alone were too much."""
AT_ONCE = 128
"""Loads under way, cancelled ones that the agent has not answered too. Each has a file open and may have a thread."""
HANDOVERS = 1000
"""Sessions that can be handed over in one process; each may have 64 KiB waiting for its prompt."""

_AUTH_REQUIRED = -32000
"""The agent wants a login: no reason to open another session."""
_TOO_MANY_HANDOVERS = "Too many sessions continue in new ones of the agent. Restart the agent to open this one."


class Restores:
    def __init__(self, notebook: Notebook, names: Aliases) -> None:
        self.briefs: dict[str, str] = {}
        """What the next prompt of a session that was handed over carries."""
        self.briefed: dict[str, handover.Briefed] = {}
        """What has been carried, by session."""
        self.moved: set[str] = set()
        """Sessions that were handed over in this process."""
        self.unwanted: set[str] = set()
        """Sessions that the agent opened for loads that were cancelled meanwhile: nobody knows of them."""
        self._notebook = notebook
        self._names = names
        self._under_way: dict[RequestId, Restore] = {}
        self._own: dict[RequestId, Restore] = {}
        self._asked = 0

    def __contains__(self, id: RequestId) -> bool:
        return id in self._under_way

    @property
    def hold_too_much(self) -> bool:
        """Whether the agent should not be read until a replay has ended."""
        if not self._under_way:
            return False
        replaying = [
            restore.size for restore in self._under_way.values() if restore.phase in (Phase.REPLAYING, Phase.QUEUED)
        ]
        return bool(replaying) and (max(replaying) > HELD_LIMIT or self._is_full)

    @property
    def are_many(self) -> bool:
        """Whether no more of them are taken on."""
        return len(self._under_way) >= AT_ONCE

    @property
    def opens_anew(self) -> bool:
        """Whether the agent opens a session for us, whose id nobody knows yet."""
        return bool(self._own)

    def add(self, restore: Restore) -> None:
        self._under_way[restore.request.id] = restore

    def of(self, request: Request) -> Restore | None:
        """The load that this request is."""
        found = self._under_way.get(request.id)
        return found if found is not None and found.request is request else None

    def asked_by_us(self, id: RequestId | None) -> Restore | None:
        """The load for which we have asked this; it is answered now."""
        return self._own.pop(id, None) if id is not None else None

    def holder(self, session: str) -> Restore | None:
        """The load that holds back what comes of this session now: the latest, but for those that are cancelled."""
        found = self._of_session(session) if self._under_way else []
        holding = [restore for restore in found if restore.phase is not Phase.CANCELLED or restore.releases]
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
        is_state = not acp.is_conversation(acp.update_kind(acp.member(message.params, "update")))
        if restore.plan.past is Past.IMPORTED:
            restore.size += len(line)
            restore.imported.append(message.raw)
            if restore.size > HELD_LIMIT or self._is_full:  # it is not recorded
                restore.imported.clear()
                restore.size, restore.let_go = 0, True
            return [Forward(Peer.CLIENT, line, first=True)]
        if is_state and restore.states_size + len(line) <= HELD_LIMIT:
            restore.states.append(message.raw)
            restore.states_size += len(line)
        cancelled = restore.phase is Phase.CANCELLED
        if restore.plan.past is Past.WEIGHED and not cancelled:
            return self._told_later(restore, line)
        if is_state:
            return self.to_client(restore.session, line)
        if restore.plan.past is Past.TOLD and not cancelled:
            return self._told_later(restore, line)
        return []

    def answered(self, restore: Restore, line: bytes, message: Response) -> list[Effect]:
        """The agent's answer to what stands for the load."""
        if message.error is not None:
            return self._refused(restore, line, message)
        effects = self._written_down(restore, message)
        if restore.phase is Phase.CANCELLED:
            return [*effects, *self._let_out(restore), *self._end(restore)]
        line = line.removesuffix(b"\n") + b"\n"
        opened = acp.session_id(message.result)
        if opened is not None and opened != restore.session:  # older agents fork: the client keeps its id
            self._names.add(restore.session, opened)
            line = aliases.renamed_result(line, restore.session)
        is_agents_own = restore.plan.past in (Past.WEIGHED, Past.IMPORTED)
        restore.response = line if is_agents_own else _with_object(line, message)
        return [*effects, *self._told_in_turn(restore)]

    def opened_anew(self, restore: Restore, line: bytes, message: Response) -> list[Effect]:
        """The agent's answer to our own request for a new session, in which this one goes on."""
        id, opened = restore.request.id, acp.session_id(message.result)
        if restore.phase is Phase.CANCELLED:
            self.unwanted |= {opened} if opened is not None else set()
            return [*self._let_out(restore), *self._end(restore)]
        if message.error is not None or opened is None:
            try:
                answer = Forward(Peer.CLIENT, handover.refused(id, line), own=True)
            except (ValueError, KeyError):
                answer = refusal(id, jsonrpc.INTERNAL_ERROR, "The agent opened no new session")
            return [answer, *self._handed_back(restore), *self._end(restore)]
        self._names.add(restore.session, opened)
        self.moved.add(restore.session)
        restore.handed_over = True
        restore.response = handover.answer(id, message.result)
        effects = self._written_down(restore, message)
        effects += self._notebook.handed_over(restore.session, opened)
        return [*effects, *self._told_in_turn(restore)]

    def hand_over(self, restore: Restore) -> list[Effect]:
        """Ask the agent for a new session, under an id of our own."""
        if self._asked == HANDOVERS:
            answer = refusal(restore.request.id, jsonrpc.INTERNAL_ERROR, _TOO_MANY_HANDOVERS)
            return [answer, *self._handed_back(restore), *self._end(restore)]
        self._asked += 1
        restore.plan = Plan(acp.NEW, Past.DROPPED)
        id = jsonrpc.RequestId(f'"{handover.OWN_IDS}{self._asked}"')
        try:
            line = handover.new_session(id, restore.request)
        except (ValueError, KeyError) as problem:
            answer = refusal(restore.request.id, jsonrpc.INVALID_PARAMS, f"params: {problem}")
            return [answer, *self._handed_back(restore), *self._end(restore)]
        self._own[id] = restore
        return [Forward(Peer.AGENT, line, own=True)]

    def replay_ended(self, ended: ReplayEnded) -> list[Effect]:
        restore = self._under_way.get(ended.request)
        if restore is None or restore.phase is not Phase.REPLAYING:  # of an id that was cancelled, and used again
            return []
        if restore.releases:
            return self.released(ended.request)
        if ended.ours:
            told = b""
            if restore.handed_over and not self._notebook.is_deleted(restore.session):
                told = handover.notice(restore.session)
                self.briefs |= {restore.session: ended.brief} if ended.brief else {}
            states = b"".join(line for line in restore.history if _is_state(line))
            answer = told + restore.response + b"".join(ended.states) + states
        else:
            answer = b"".join(restore.history) + restore.response
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
        if restore is None or restore.phase is Phase.CANCELLED or restore.releases or not restore.holds:
            return []
        restore.releases = True
        if restore.phase is Phase.ASKED:
            restore.phase = Phase.CANCELLED
            return [ForgetReplay(id), ReleaseHeld(id)]
        return [StopReplay(id), ReleaseHeld(id)]

    def released(self, request: RequestId) -> list[Effect]:
        """The client's output is ours: a cancelled load is answered, unless that was done meanwhile."""
        restore = self._under_way.get(request)
        if restore is None or not restore.releases:
            return []
        effects = self._let_out(restore)
        return effects if restore.phase is Phase.CANCELLED else effects + self._end(restore)

    def _let_out(self, restore: Restore) -> list[Effect]:
        """The answer to a cancelled load, and what it held, if they have not left yet."""
        if not restore.releases:
            return []
        restore.releases = False
        answer = refusal(restore.request.id, jsonrpc.REQUEST_CANCELLED, "Request cancelled")
        return [answer, *self._handed_back(restore)]

    def stopped(self, session: str) -> list[Effect]:
        """Nothing more of it is told: it was deleted."""
        self.briefs.pop(session, None)
        return [StopReplay(restore.request.id) for restore in self._of_session(session)]

    def failed(self, how: str) -> list[Effect]:
        """The agent is gone: whatever it has not answered is answered, behind what it told."""
        effects: list[Effect] = []
        for restore in list(self._under_way.values()):
            if restore.phase in (Phase.ASKED, Phase.CANCELLED):
                told = b"".join(restore.history) if restore.plan.past is Past.WEIGHED else b""
                effects += [Forward(Peer.CLIENT, told)] if told else []
                effects += self._let_out(restore)
                effects += self._handed_back(restore)
                if restore.phase is Phase.ASKED:
                    effects.append(refusal(restore.request.id, jsonrpc.INTERNAL_ERROR, how))
                effects += self._end(restore)
        self._own.clear()
        return effects

    def _refused(self, restore: Restore, line: bytes, message: Response) -> list[Effect]:
        cancelled = restore.phase is Phase.CANCELLED
        code = acp.member(message.error, "code")
        is_settled = cancelled or restore.let_go or restore.live  # a turn that runs shows that the agent has it
        if restore.plan.hands_over and not is_settled and code != _AUTH_REQUIRED:
            restore.history.clear()
            restore.states.clear()
            restore.taken()
            return self.hand_over(restore)
        effects = self._let_out(restore)
        if restore.history and restore.plan.past is Past.WEIGHED and not cancelled:
            effects.append(Forward(Peer.CLIENT, b"".join(restore.history)))
        effects += self._handed_back(restore)
        return [*effects, *([] if cancelled else [Forward(Peer.CLIENT, line)]), *self._end(restore)]

    def _written_down(self, restore: Restore, message: Response) -> list[Effect]:
        """What is recorded now that the agent has agreed."""
        request, session = restore.request, restore.session
        if restore.plan.past is Past.IMPORTED and not restore.let_go and not restore.live:
            return [*self._notebook.imported(session, request.params, message.result, restore.imported)]
        effects: list[Effect] = [*self._notebook.opened(session, request.method, request.params, message.result)]
        for state in restore.states:
            effects += self._notebook.keep(session, Peer.AGENT, state)
        return effects

    def _told_in_turn(self, restore: Restore) -> list[Effect]:
        if any(other.phase is Phase.REPLAYING for other in self._of_session(restore.session)):
            restore.phase = Phase.QUEUED
            return []
        return self._told(restore)

    def _told(self, restore: Restore) -> list[Effect]:
        """Its turn: ours is told (or weighed), and then the answer; or the agent's telling and the answer at once."""
        weighs = restore.plan.past is Past.WEIGHED and restore.complete
        if_complete = restore.plan.past is Past.TOLD and bool(restore.history)
        theirs = restore.history and not (weighs or if_complete)
        if restore.held_here and restore.plan.tells and not restore.let_go and not theirs and self._may_tell(restore):
            restore.phase = Phase.REPLAYING
            conversation = tuple(line for line in restore.history if not _is_state(line)) if weighs else None
            brief = restore.handed_over
            return [StartReplay(restore.request.id, conversation, brief=brief, if_complete=if_complete)]
        effects: list[Effect] = []
        is_ours_to_tell = restore.plan.tells and restore.plan.past is not Past.IMPORTED
        if not restore.held_here and is_ours_to_tell and not restore.history:
            name = jsonrpc.printable(restore.session)
            effects.append(Warn(f"session {name} was not recorded here; it opens without its history"))
        effects.append(Forward(Peer.CLIENT, b"".join(restore.history) + restore.response))
        return [*effects, *self._released(restore), *self._end(restore)]

    def _may_tell(self, restore: Restore) -> bool:
        """An agent's own load is only ever replaced by a transcript that has all."""
        return restore.handed_over or restore.complete or restore.plan.past is not Past.WEIGHED

    def _told_later(self, restore: Restore, line: bytes) -> list[Effect]:
        if restore.let_go:
            return [Forward(Peer.CLIENT, line)]
        restore.history.append(line)
        return self._waits(restore, line)

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
        if restore.phase is not Phase.ASKED or (restore.size <= HELD_LIMIT and not self._is_full):
            return []
        restore.let_go = True
        told = b"".join(restore.history)
        restore.history.clear()
        return [*([Forward(Peer.CLIENT, told)] if told else []), *self._handed_back(restore)]

    @property
    def _is_full(self) -> bool:
        return sum(restore.size for restore in self._under_way.values()) > ALL_HELD_LIMIT

    def _end(self, restore: Restore) -> list[Effect]:
        """Forget it; the next load of the same session can have its turn."""
        del self._under_way[restore.request.id]
        was_told = restore.phase in (Phase.REPLAYING, Phase.CANCELLED)
        effects: list[Effect] = [] if was_told else [ForgetReplay(restore.request.id)]
        others = self._of_session(restore.session)
        if any(other.phase is Phase.REPLAYING for other in others):
            return effects
        queued = [other for other in others if other.phase is Phase.QUEUED]
        return effects + (self._told(queued[0]) if queued else [])


def _is_state(line: bytes) -> bool:
    message = jsonrpc.read_message(line)
    update = acp.member(message.params, "update") if isinstance(message, Notification) else None
    return not acp.is_conversation(acp.update_kind(update))


def _with_object(line: bytes, message: Response) -> bytes:
    """Clients that decode the result into an object fail on null."""
    if message.result is not None:
        return line
    try:
        return acp.with_result(line, "{}")
    except (ValueError, KeyError):
        return line
