"""What is written down of each session, and when (design: what is recorded).

Turns what passes into ``Recording`` effects. Knows which sessions are open here and how many turns are under way;
knows nothing of capabilities, of answers, or of where lines go.
"""

from collections import OrderedDict
from collections.abc import Mapping, Sequence

from acp_proxy.core.effects import Begin, BeginTurn, EndTurn, Forget, Keep, KeepNote, KeepUpdates, Recording
from acp_proxy.wire import acp, jsonrpc, record
from acp_proxy.wire.jsonrpc import Peer
from acp_proxy.wire.titles import Titles
from acp_proxy.wire.value import Value

WAITING_LIMIT = 1024 * 1024
"""Bytes of updates that may wait for the answer that tells whose they are."""
STRANGERS = 10_000
"""Sessions that the agent speaks of and nobody opened or prompted here: so many are recorded. Each is a file, and an
agent can name them without end; one that works with sub-agents all day names some hundreds."""
KNOWN_LIMIT = 4 * 1024 * 1024
"""Bytes for what is remembered of sessions, here and where they are written: two thousand of them. Past it the one that
was used longest ago is forgotten, and begun again if it is heard of again."""
SHOWN_LIMIT = 64 * 1024 * 1024
"""Bytes of terminals' outputs that wait for the end of their turns. What is beyond is not kept, and replays say so."""

_SESSION = 2048  # bytes that one takes here and in the recorder, beside its texts
_TERMINAL = 512  # the same, of a terminal
_EXIT_STATUS = 4096  # as JSON: more is no exit status
_SECOND_CHANCES = 64  # sessions in a turn that are passed over, when one has to be forgotten


class Terminal(Value, frozen=False):
    """A command that the client runs for the agent; ``shown`` when a tool call refers to it."""

    output: str | None = None
    truncated: bool = False
    exit_status: object = None
    shown: bool = False

    @property
    def size(self) -> int:
        return _TERMINAL + len(self.output or "")


class Session:
    """``begun``: it has a transcript. ``cwd`` and ``directories`` are what that would begin with."""

    def __init__(self) -> None:
        self.begun = False
        self.cwd: str | None = None
        self.directories: list[str] = []
        self.turns = 0
        self.deleted = False
        self.untold = False
        """New here, and no title of it is with the client yet."""
        self.titles = Titles()
        self.terminals: dict[str, Terminal] = {}
        self.size = 0


class Notebook:
    """``records`` False: everything comes out empty."""

    def __init__(self, *, records: bool) -> None:
        self.records = records
        self.sessions: OrderedDict[str, Session] = OrderedDict()
        self.is_crowded = False
        """Whether there were more strangers than are recorded."""
        self._strangers = 0
        self._size = 0
        self._shown_size = 0
        self._waiting: dict[str, list[tuple[bytes, object]]] = {}
        self._waiting_size = 0

    def is_live(self, session: str) -> bool:
        """Whether a prompt of this session has no answer yet."""
        return session in self.sessions and self.sessions[session].turns > 0

    def is_deleted(self, session: str) -> bool:
        """Whether it was deleted, and not prompted since."""
        return session in self.sessions and self.sessions[session].deleted

    def is_plain(self, session: str) -> bool:
        """Whether its updates can be written down without being looked into."""
        found = self.sessions.get(session)
        return found is not None and not found.deleted and not found.terminals

    def opened(self, session: str, method: str, params: object, result: object) -> list[Recording]:
        """The agent agreed to open it; updates that came before the answer follow the header."""
        parent = acp.session_id(params) if method == acp.FORK else None
        origin = record.RECORDED if method == acp.NEW else record.PARTIAL
        return self._opened(session, method, params, result, origin, parent=parent)

    def imported(self, session: str, params: object, result: object, told: list[bytes]) -> list[Recording]:
        """The agent loaded a session that we lack: what it told of the past begins the transcript."""
        kept = [Keep(session, Peer.AGENT, raw) for raw in told]
        return self._opened(session, acp.LOAD, params, result, record.IMPORTED, before=kept)

    def handed_over(self, session: str, new: str) -> list[Recording]:
        """It goes on in another session of the agent."""
        return self._noted(session, {"type": record.HANDOVER, "to": new})

    def title(self, session: str) -> str | None:
        """The title that the client should hear of, once: at the end of a new session's first turn, where the agent has
        not sent one itself."""
        known = self.sessions.get(session)
        if known is None or known.deleted or not known.untold:
            return None
        known.untold = False
        return known.titles.best

    def title_told(self, session: str, update: object) -> None:
        """The agent names its session itself."""
        if acp.text(update, "title") is not None and session in self.sessions:
            self.sessions[session].untold = False

    def _opened(
        self,
        session: str,
        method: str,
        params: object,
        result: object,
        origin: str,
        *,
        parent: str | None = None,
        before: Sequence[Recording] = (),
    ) -> list[Recording]:
        if not self.records:
            return []
        cwd, directories = acp.text(params, "cwd"), acp.strings(params, "additionalDirectories")
        known, forgotten = self._entered(session, len(cwd or "") + sum(map(len, directories)))
        known.cwd, known.directories = cwd, directories
        if method == acp.NEW:
            known.deleted, known.untold, known.titles = False, True, Titles()
        elif method == acp.FORK:
            known.deleted = False
        elif known.deleted:
            return forgotten
        known.begun = True
        note: dict[str, object] = {"type": record.OPENED, "method": method}
        note |= {"cwd": cwd, "additionalDirectories": directories}
        note |= {key: found for key in ("modes", "configOptions") if (found := acp.member(result, key)) is not None}
        servers = acp.member(params, "mcpServers")
        names = [acp.text(server, "name") for server in servers] if isinstance(servers, list) else []
        note["mcpServers"] = [name for name in names if name is not None]
        begin = Begin(session, cwd, directories, origin, parent)
        return [*forgotten, begin, *before, KeepNote(session, note), *self._no_longer_waiting(session)]

    def stop(self) -> None:
        """Record nothing from here on."""
        self.records = False
        self.sessions.clear()
        self._waiting.clear()

    def nothing_opens(self) -> list[Recording]:
        """No answer is awaited that could tell whose the waiting updates are: they begin transcripts of their own."""
        begun: list[Recording] = []
        for session in list(self._waiting):
            if self._takes_in(session):
                begun += self._begun(session)
            else:
                self._no_longer_waiting(session)
        return begun

    def updates(self, session: str, data: bytes) -> Recording:
        """Updates of a plain session, whole lines."""
        return KeepUpdates(session, data)

    def update(self, session: str, raw: bytes, update: object, *, opening: bool) -> list[Recording]:
        """One update. ``opening``: an answer is awaited that may tell that this session is its own."""
        if not self.records:
            return []
        if session not in self.sessions and opening and self._waiting_size + len(raw) <= WAITING_LIMIT:
            self._waiting.setdefault(session, []).append((raw, update))
            self._waiting_size += len(raw)
            return []
        known = self.sessions.get(session)
        if (known is not None and known.deleted) or not self._takes_in(session):
            return []
        effects = self._begun(session)
        known = self.sessions[session]
        if known.terminals:
            for item in _shown(update):
                if item in known.terminals:
                    known.terminals[item].shown = True
        effects.append(Keep(session, Peer.AGENT, raw))
        if acp.update_kind(update) == acp.SESSION_INFO:
            self.title_told(session, update)
            effects.append(EndTurn(session))
        return effects

    def prompt(self, session: str, raw: bytes, blocks: object) -> list[Recording]:
        begun = self._turn_begun(session)
        if begun and (known := self.sessions[session]).untold:
            known.titles.consider(blocks)
        return [*begun, Keep(session, Peer.CLIENT, raw)] if begun else []

    def prompt_begins(self, session: str, blocks: object) -> list[Recording]:
        """The same of one that passes in pieces, by what is known of its blocks: those to come may say more, so what
        would only stand in for a title is none."""
        begun = self._turn_begun(session)
        if begun and (known := self.sessions[session]).untold:
            known.titles.consider(blocks)
            known.titles = Titles(known.titles.line)
        return begun

    def _turn_begun(self, session: str) -> list[Recording]:
        if not self.records:
            return []
        effects = self._begun(session)
        self.sessions.move_to_end(session)
        known = self.sessions[session]
        known.turns += 1
        known.deleted = False
        return [*effects, BeginTurn(session)]

    def prompt_answered(self, session: str, raw: bytes) -> list[Recording]:
        return self._end_turn(session, [Keep(session, Peer.AGENT, raw, acp.PROMPT)])

    def prompt_failed(self, session: str, how: str) -> list[Recording]:
        """The agent is gone before it answered."""
        note = {"type": record.FAILED, "method": acp.PROMPT, "message": how}
        return self._end_turn(session, [KeepNote(session, note)])

    def keep(self, session: str | None, peer: Peer, raw: bytes, of: str | None = None) -> list[Recording]:
        """Any other line that is recorded, of a session that is."""
        if session is None or session not in self.sessions or self.sessions[session].deleted:
            return []
        return [Keep(session, peer, raw, of)]

    def closed(self, session: str) -> list[Recording]:
        return self._noted(session, {"type": record.CLOSED, "method": acp.CLOSE})

    def _noted(self, session: str, note: Mapping[str, object]) -> list[Recording]:
        if session not in self.sessions or self.sessions[session].deleted:
            return []
        return [KeepNote(session, note)]

    def deleted(self, session: str) -> list[Recording]:
        """Nothing of it is kept any more, until somebody prompts it again."""
        if not self.records:
            return []
        self._no_longer_waiting(session)
        known, forgotten = self._entered(session)
        known.deleted = True
        return forgotten

    def terminal_answered(self, session: str, method: str, params: object, result: object) -> None:
        """What the client told the agent about a terminal."""
        if session not in self.sessions:
            return
        terminals = self.sessions[session].terminals
        if method == acp.TERMINAL_CREATE:
            if (id := acp.text(result, "terminalId")) is not None and self._has_room(_TERMINAL):
                self._dropped({id: terminals[id]} if id in terminals else {})
                terminals[id] = Terminal()
                self._shown_size += _TERMINAL
            return
        if (found := terminals.get(acp.text(params, "terminalId") or "")) is None:
            return
        if method == acp.TERMINAL_OUTPUT and (output := acp.text(result, "output")) is not None:
            self._shown_size -= len(found.output or "")
            found.output = output if self._has_room(len(output)) else None
            self._shown_size += len(found.output or "")
            found.truncated = acp.member(result, "truncated") is True
            found.exit_status = _exit_status(acp.member(result, "exitStatus")) or found.exit_status
        elif method == acp.TERMINAL_WAIT and isinstance(result, Mapping):
            found.exit_status = _exit_status({key: result.get(key) for key in ("exitCode", "signal")})

    def terminal_released(self, session: str, params: object) -> list[Recording]:
        """The last that will be known of it."""
        id = acp.text(params, "terminalId")
        known = self.sessions.get(session)
        if known is None or id not in known.terminals or not known.terminals[id].shown:
            return []
        return _terminal_notes(session, self._dropped({id: known.terminals.pop(id)}))

    def _end_turn(self, session: str, last: list[Recording]) -> list[Recording]:
        known = self.sessions.get(session)
        if known is None:
            return []
        known.turns = max(0, known.turns - 1)
        terminals, known.terminals = known.terminals, {}
        notes = _terminal_notes(session, self._dropped(terminals))
        if known.deleted:
            return []
        return [*notes, *last, EndTurn(session)]

    def _begun(self, session: str) -> list[Recording]:
        """The beginning of a transcript for a session that nobody opened here, where it needs one."""
        known, forgotten = self._entered(session)
        if known.begun:
            return forgotten
        known.begun = True
        begin = Begin(session, known.cwd, known.directories, record.PARTIAL)
        return [*forgotten, begin, *self._no_longer_waiting(session)]

    def _takes_in(self, session: str) -> bool:
        """Whether what the agent says of a session is recorded: of any that is known, and of so many that are not."""
        if session in self.sessions:
            return True
        self.is_crowded = self._strangers == STRANGERS
        self._strangers += not self.is_crowded
        return not self.is_crowded

    def _entered(self, session: str, texts: int | None = None) -> tuple[Session, list[Recording]]:
        """A session that is remembered from here on, and what is forgotten for it. ``texts``: the size of new ones."""
        known = self.sessions.get(session)
        if known is not None and texts is None:
            return known, []
        if known is None:
            known = self.sessions[session] = Session()
        self._size -= known.size
        known.size = _SESSION + len(session) + (texts or 0)
        self._size += known.size
        forgotten: list[Recording] = []
        while self._size > KNOWN_LIMIT and len(self.sessions) > 1:
            forgotten += self._forgotten(session)
        return known, forgotten

    def _forgotten(self, needed: str) -> list[Recording]:
        """Forget the session that was used longest ago; one in a turn only if all of the oldest are."""
        for _ in range(_SECOND_CHANCES):
            oldest = next(iter(self.sessions))
            if oldest != needed and not self.sessions[oldest].turns:
                break
            self.sessions.move_to_end(oldest)
        else:
            oldest = next(session for session in self.sessions if session != needed)
        gone = self.sessions.pop(oldest)
        self._size -= gone.size
        self._dropped(gone.terminals)
        return [Forget(oldest)] if gone.begun else []

    def _has_room(self, size: int) -> bool:
        return self._shown_size + size <= SHOWN_LIMIT

    def _dropped(self, terminals: dict[str, Terminal]) -> dict[str, Terminal]:
        """These are not kept any more."""
        self._shown_size -= sum(each.size for each in terminals.values())
        return terminals

    def _no_longer_waiting(self, session: str) -> list[Recording]:
        waited = self._waiting.pop(session, [])
        self._waiting_size -= sum(len(raw) for raw, _ in waited)
        for _, update in waited:
            if acp.update_kind(update) == acp.SESSION_INFO:
                self.title_told(session, update)
        return [Keep(session, Peer.AGENT, raw) for raw, _ in waited]


def _terminal_notes(session: str, terminals: Mapping[str, Terminal]) -> list[Recording]:
    return [
        KeepNote(
            session,
            {
                "type": record.TERMINAL,
                "terminalId": id,
                "output": found.output,
                "truncated": found.truncated,
                "exitStatus": found.exit_status,
            },
        )
        for id, found in terminals.items()
        if found.shown
    ]


def _exit_status(value: object) -> object:
    return value if len(jsonrpc.dump(value)) <= _EXIT_STATUS else None


def _shown(update: object) -> list[str]:
    """The terminals that a tool call's content refers to."""
    content = acp.member(update, "content")
    if not isinstance(content, list):
        return []
    ids = [acp.text(item, "terminalId") for item in content if acp.text(item, "type") == "terminal"]
    return [id for id in ids if id is not None]
