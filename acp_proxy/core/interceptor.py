"""The only place that decides: what passes, what is written down, what is answered, what waits.

``handle`` takes an event and returns effects in the order in which they are to be done. It never raises on anything
that a peer can send. The shell calls it under one lock; it keeps no clock and touches no file.
"""

import contextlib

from acp_proxy.core import answers, capabilities, handover
from acp_proxy.core.aliases import Aliases
from acp_proxy.core.answers import refusal
from acp_proxy.core.capabilities import Modes, Service
from acp_proxy.core.effects import (
    AmendList,
    DecideNext,
    DeleteSession,
    Effect,
    EndTurn,
    FindSession,
    Forward,
    Identify,
    KeepPiece,
    ListSessions,
    Recording,
    ToStderr,
    Warn,
)
from acp_proxy.core.events import AgentEnded, Event, Found, Lines, Piece, Releasing, ReplayEnded
from acp_proxy.core.filing import Filing
from acp_proxy.core.handover import Briefed
from acp_proxy.core.ledger import Ledger
from acp_proxy.core.notebook import STRANGERS, Notebook
from acp_proxy.core.opening import Opening
from acp_proxy.core.restoring import HELD_LIMIT, Restores
from acp_proxy.core.scribe import Scribe
from acp_proxy.wire import acp, framing, jsonrpc
from acp_proxy.wire.jsonrpc import Batch, Message, Notification, Opaque, Peer, Request, Response
from acp_proxy.wire.value import Value

_SESSION_INFO = b'"' + acp.SESSION_INFO.encode() + b'"'


class Settings(Value):
    """``records``: there is a store, and the user wants it used. ``serves``: so is what we add to the agent."""

    records: bool
    serves: bool
    release: str
    modes: Modes = Modes()


class Interceptor:
    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._ledger = Ledger()
        self._notebook = Notebook(records=settings.records)
        self._service = Service(settings.modes, is_wanted=settings.records and settings.serves)
        self._filing = Filing()
        self._names = Aliases()
        self._restores = Restores(self._notebook, self._names)
        self._scribe = Scribe(self._ledger, self._notebook, self._restores)
        self._opening = Opening(self._service, self._ledger, self._notebook, self._restores, self._names)
        self._passing: tuple[str, bytes] | None = None
        self._long: dict[Peer, str | None] = {}
        """Whose lines pass in pieces now, and for which transcript."""
        self._unnamed: list[bytes] = []
        self._unnamed_size = 0
        self._said_crowded = False

    @property
    def holds_too_much(self) -> bool:
        """Whether the agent should not be read until a replay has ended."""
        return self._restores.hold_too_much

    def passes(self, lines: bytes) -> str | None:
        """The session, where these whole lines are updates of the session that was updated last, and nothing has
        happened since that they could depend on: they go to the client and into the transcript as they are."""
        if self._passing is None:
            return None
        session, beginning = self._passing
        if not lines.startswith(beginning) or lines.rfind(_SESSION_INFO) >= 0:  # faster than ``in``
            return None
        if lines.find(b"\n") + 1 == len(lines):
            return session
        count = len(framing.cut(lines))  # a third of the time that counting the newlines takes
        return session if lines.count(b"\n" + beginning) == count - 1 else None

    def means_nothing(self, lines: bytes) -> bool:
        """Whether these whole lines of the client's only have to be passed on: notifications that nothing depends on,
        and answers to questions that are not remembered."""
        return not self._names and self._scribe.has_no_use_for(lines)

    def handle(self, event: Event) -> list[Effect]:
        effects: list[Effect] = []
        match event:
            case Lines(peer, lines):
                effects = self._client_lines(lines) if peer is Peer.CLIENT else self._agent_lines(lines)
            case Piece(peer, data, last):
                effects = self._piece(peer, data, first=False, last=last)
            case Found():
                self._passing = None
                effects = self._opening.found(event)
            case ReplayEnded():
                effects = self._restores.replay_ended(event)
            case Releasing(request):
                effects = self._restores.released(request)
            case AgentEnded(how):
                effects = self._agent_ended(how)
        if not self._filing.is_named:
            effects = self._filing.filed(effects)
        if self._notebook.is_crowded and not self._said_crowded:
            self._said_crowded = True
            effects.append(
                Warn(
                    f"the agent has spoken of more than {STRANGERS:,} sessions that were not opened here: those that "
                    "follow are recorded only once they are opened or prompted"
                )
            )
        return effects

    # --- lines that are too long to be held

    def opens_long_line(self, peer: Peer, data: bytes) -> list[Effect] | None:
        """What is done about the beginning of a line that nothing has to be known of but what stands there: updates
        that pass as they are, and prompts. None: it is waited for, and decided on whole."""
        recorded: list[Recording] = []
        if peer is Peer.AGENT:
            id = acp.plain_update_session(data)
            session = self._plain_session(id) if id is not None and not self._names else None
            if session is None or _SESSION_INFO in data or not (self._filing.is_named or not self._notebook.records):
                return None
        else:
            request = acp.prompt_beginning(data) if not self._names else None
            session = acp.session_id(request.params) if request is not None else None
            if request is None or session is None:
                return None
            self._passing = None
            recorded = self._scribe.prompt_begins(session, request)
        self._long[peer] = session if self._notebook.records else None
        return self._filing.filed([*recorded, *self._piece(peer, data, first=True, last=False)])

    def _piece(self, peer: Peer, data: bytes, *, first: bool, last: bool) -> list[Effect]:
        if peer not in self._long:  # its end was taken for certain: the agent is gone
            return []
        session = self._long.pop(peer) if last else self._long[peer]
        forward = Forward(peer.other, data, first=peer is Peer.AGENT, begins=first, ends=last)
        return [KeepPiece(session, peer, data, first, last), forward] if session is not None else [forward]

    # --- from the client

    def _client_lines(self, lines: list[bytes]) -> list[Effect]:
        effects: list[Effect] = []
        for at, line in enumerate(lines, 1):
            message = jsonrpc.read_message(line)
            if not isinstance(message, Notification):
                self._passing = None
            effects += self._filing.filed(self._from_client(line, message))
            if isinstance(effects[-1], FindSession) and at < len(lines):
                effects.append(DecideNext(lines[at:]))
                break
        return effects

    def _from_client(self, line: bytes, message: Message) -> list[Effect]:
        if isinstance(message, Request) and (ours := self._answered_here(line, message)) is not None:
            return ours
        effects: list[Effect] = [
            *self._scribe.recorded(Peer.CLIENT, message),
            Forward(Peer.AGENT, self._outward(line, message)),
        ]
        if isinstance(message, Notification) and message.method == acp.CANCEL_REQUEST:
            effects += self._restores.cancelled(message)
        return effects

    def _answered_here(self, line: bytes, request: Request) -> list[Effect] | None:
        """The effects of a request that the agent does not see as it came; None for all others."""
        method = request.method.removeprefix("session/") if request.method.startswith("session/") else ""
        ours = self._service.ours
        asks = capabilities.DELETE in ours and method in (capabilities.LOAD, capabilities.RESUME)
        if not asks and not self._opening.reads(method):
            return None
        try:
            if method == capabilities.LIST:
                cwd, cursor = (acp.optional_text(request.params, key) for key in ("cwd", "cursor"))
                if cwd is not None and not acp.is_absolute(cwd):
                    raise acp.InvalidParams("cwd must be an absolute path")
                return [ListSessions(request.id, cwd, cursor, self._service.directories)]
            session = acp.required_text(request.params, "sessionId")
        except acp.InvalidParams as problem:
            return [refusal(request.id, jsonrpc.INVALID_PARAMS, str(problem))] if method in ours else None
        if method == capabilities.DELETE:
            forgotten = self._notebook.deleted(session)
            return [*forgotten, *self._restores.stopped(session), DeleteSession(session, request.id)]
        return self._opening.looked_up(line, request, method, session)

    def _outward(self, line: bytes, message: Message) -> bytes:
        """A client's line as the agent gets it: the same, but of a session that has another id there."""
        if not self._names:
            return line
        session = acp.session_id(message.params) if isinstance(message, Request) else None
        if isinstance(message, Request) and message.method == acp.PROMPT and session in self._restores.briefs:
            brief = self._restores.briefs.pop(session or "")
            with contextlib.suppress(ValueError, KeyError):  # a prompt that is none: the agent will say so
                line = handover.with_brief(line, brief)
                self._restores.briefed[session or ""] = handover.Briefed(brief)
        return self._names.to_agent(line, message)

    # --- from the agent

    def _agent_lines(self, lines: list[bytes]) -> list[Effect]:
        effects: list[Effect] = []
        at, count = 0, len(lines)
        while at < count:
            line = lines[at]
            if self._names:
                line = lines[at] = self._names.to_client(line, jsonrpc.read_message(line))
            id = acp.plain_update_session(line)
            session = self._plain_session(id) if id is not None and line.endswith(b"\n") else None
            if session is None or id is None:
                self._passing = None
                effects += self._filing.filed(self._from_agent(line, jsonrpc.read_message(line)))
                at += 1
                continue
            prefix = acp.UPDATE_PREFIX + id + b'"'
            end = at + 1
            while end < count and not self._names and lines[end].startswith(prefix):
                end += 1
            if end == count and not lines[-1].endswith(b"\n"):
                end -= 1
            data = line if end == at + 1 else b"".join(lines[at:end])
            at = end
            if self._filing.is_named and self._notebook.records and not self._names:
                self._passing = session, prefix
            effects.append(Forward(Peer.CLIENT, data, first=True))
            if self._notebook.records:
                effects += self._filing.filed([self._notebook.updates(session, data)])
                if _SESSION_INFO in data:
                    self._title_told(session, data)
                    effects += self._filing.filed([EndTurn(session)])
        return effects

    def _plain_session(self, id: bytes) -> str | None:
        """The session whose updates pass without being parsed: nothing waits for them, nothing depends on them."""
        try:
            session = id.decode()
        except UnicodeDecodeError:
            return None
        if not self._notebook.records:
            return session
        if not self._notebook.is_plain(session) or session in self._restores.briefed:
            return None
        if self._restores.holder(session) or self._scribe.is_reopening(session):
            return None
        return session

    def _from_agent(self, line: bytes, message: Message) -> list[Effect]:
        match message:
            case Opaque(is_json=False):
                return [ToStderr(line)]
            case Notification(method=acp.UPDATE, params=params):
                return self._update(line, message, acp.session_id(params))
            case Response():
                return self._response(line, message)
            case Request(params=params):
                effects: list[Effect] = [*self._scribe.recorded(Peer.AGENT, message)]
                return effects + self._restores.question(acp.session_id(params), line)
            case Notification() | Batch() | Opaque():
                return [*self._scribe.recorded(Peer.AGENT, message), Forward(Peer.CLIENT, line)]

    def _title_told(self, session: str, data: bytes) -> None:
        for line in data.split(b"\n"):
            message = jsonrpc.read_message(line) if _SESSION_INFO in line else None
            if isinstance(message, Notification):
                self._notebook.title_told(session, acp.member(message.params, "update"))

    def _title_line(self, session: str) -> list[bytes]:
        """Our title, for the client: where the list is ours, so that the session has in it what the list will show."""
        title = self._notebook.title(session) if capabilities.LIST in self._service.ours else None
        return (
            [answers.update(session, {"sessionUpdate": acp.SESSION_INFO, "title": title})] if title is not None else []
        )

    def _update(self, line: bytes, message: Notification, session: str | None) -> list[Effect]:
        if session is not None and self._may_be_opened_for_us(session):
            self._unnamed.append(line)  # perhaps of the session that the agent opens for us: its answer will tell
            self._unnamed_size += len(line)
            return [] if self._unnamed_size <= HELD_LIMIT else self._let_go()
        if session in self._restores.unwanted:
            return []
        if (briefed := self._restores.briefed.get(session or "")) is not None:
            said = _without_brief(line, message, briefed)
            if said is None:
                return []
            line, message = said
        restore = self._restores.holder(session) if session is not None else None
        if restore is not None and restore.awaits_past:
            return self._restores.past_update(restore, line, message)
        recorded = self._scribe.recorded(Peer.AGENT, message)
        if restore is not None and restore.holds:
            return [*recorded, *self._restores.to_client(session, line)]
        return [Forward(Peer.CLIENT, line, first=True), *recorded]

    def _may_be_opened_for_us(self, session: str) -> bool:
        known = (
            session in self._notebook.sessions or self._restores.holder(session) or self._scribe.is_reopening(session)
        )
        return self._restores.opens_anew and not known

    def _named(self) -> list[Effect]:
        """What waited for the id of a session that the agent opens for us."""
        unnamed, self._unnamed, self._unnamed_size = self._unnamed, [], 0
        return self._agent_lines(unnamed)

    def _let_go(self) -> list[Effect]:
        """Too much waits for its name: it passes as it came."""
        unnamed, self._unnamed, self._unnamed_size = self._unnamed, [], 0
        return [Forward(Peer.CLIENT, b"".join(unnamed))]

    def _response(self, line: bytes, message: Response) -> list[Effect]:
        if (restore := self._restores.asked_by_us(message.id)) is not None:
            return [*self._restores.opened_anew(restore, line, message), *self._named()]
        found = self._ledger.take(Peer.CLIENT, message.id)
        if found is None:
            return [Forward(Peer.CLIENT, line)]
        if (restore := self._restores.of(found.request)) is not None:
            return [*self._restores.answered(restore, line, message), *self._scribe.nothing_opens()]
        effects: list[Effect] = [*self._scribe.answered(found, message)]
        service = self._service
        is_amended = service.is_wanted and service.modes.list != capabilities.AGENT and self._notebook.records
        match found.request.method:
            case acp.INITIALIZE:
                return effects + self._initialized(line, message)
            case acp.LIST if capabilities.LIST not in self._service.ours and is_amended and message.error is None:
                return [*effects, AmendList(line)]
            case acp.DELETE if found.session is not None and message.error is None and self._notebook.records:
                effects += self._notebook.deleted(found.session)
                effects += [*self._restores.stopped(found.session), DeleteSession(found.session)]
            case acp.PROMPT if found.session is not None:  # behind the updates of its turn
                told = [*self._title_line(found.session), line]
                return effects + [effect for each in told for effect in self._restores.to_client(found.session, each)]
        return [*effects, Forward(Peer.CLIENT, line)]

    def _initialized(self, line: bytes, message: Response) -> list[Effect]:
        if message.error is not None:
            return [Forward(Peer.CLIENT, line)]
        offer = capabilities.read_offer(message.result)
        service = self._service
        service.native, service.directories = offer.native, offer.directories
        if offer.version != acp.VERSION:
            # Another version's lines are not ours to read: nothing is recorded, nothing served.
            self._notebook.stop()
            self._filing.drop()
            service.ours = ()
            return [Forward(Peer.CLIENT, line)]
        effects: list[Effect] = []
        if not self._filing.is_named:
            effects += self._filing.named(Identify(offer.name, offer.release))
        service.ours = capabilities.additions(offer, service.modes) if service.is_wanted else ()
        if service.ours:
            try:
                line = capabilities.amended(line, service.ours, offer.native, self._settings.release)
            except ValueError:  # a line that cannot be amended passes, and promises nothing
                service.ours = ()
        return [*effects, Forward(Peer.CLIENT, line)]

    def _agent_ended(self, how: str) -> list[Effect]:
        effects = self._piece(Peer.AGENT, b"", first=False, last=True)
        for found in list(self._ledger.of(Peer.CLIENT)):
            request = found.request
            if request.method == acp.PROMPT and found.session is not None:
                effects += self._notebook.prompt_failed(found.session, f"agent {how}")
            if self._restores.of(request) is None:
                effects.append(refusal(request.id, jsonrpc.INTERNAL_ERROR, f"agent {how}"))
        effects += [*self._restores.failed(f"agent {how}"), *self._named(), *self._opening.failed(f"agent {how}")]
        self._ledger.clear()
        return [*effects, *self._scribe.nothing_opens()]


def _without_brief(line: bytes, message: Notification, briefed: Briefed) -> tuple[bytes, Notification] | None:
    """An update less what it tells of the brief; None where nothing else is in it."""
    update = acp.member(message.params, "update")
    kind, title = acp.update_kind(update), acp.text(update, "title")
    if kind == acp.SESSION_INFO and title is not None and briefed.is_title(title):
        return None
    text = acp.text(acp.member(update, "content"), "text") if kind == acp.USER_CHUNK else None
    if text is None or (left := briefed.words(text)) == text:
        return line, message
    try:
        line = acp.with_chunk_text(line, left)
    except (ValueError, KeyError):
        return line, message
    told = jsonrpc.read_message(line)
    return (line, told) if left and isinstance(told, Notification) else None
