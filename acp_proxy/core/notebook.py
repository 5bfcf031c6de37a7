"""What is written down of each session, and when. docs/transcript-format.md says what is recorded.

Turns what passes into ``Recording`` effects. Knows which sessions are open here and how many turns are under way;
knows nothing of capabilities, of answers, or of where lines go.
"""

from collections import OrderedDict
from collections.abc import Mapping, Sequence

from acp_proxy.core.effects import (
    BeginTranscript,
    BeginTurn,
    EndTurn,
    ForgetSession,
    Recording,
    RecordLine,
    RecordNote,
    RecordUpdates,
)
from acp_proxy.core.terminals import SessionTerminals, Terminals
from acp_proxy.history.verdict import Rule
from acp_proxy.titles import Titles
from acp_proxy.wire import acp, record
from acp_proxy.wire.jsonrpc import Peer, RequestId

WAITING_LIMIT = 1024 * 1024
"""Bytes of updates that may wait for the answer that tells whose they are."""
STRANGERS = 10_000
"""Sessions that the agent speaks of and nobody opened or prompted here: so many are recorded. Each is a file, and an
agent can name them without end; one that works with sub-agents all day names some hundreds."""
KNOWN_LIMIT = 4 * 1024 * 1024
"""Bytes for what is remembered of sessions, here and where they are written: two thousand of them. Past it the one that
was used longest ago is forgotten, and begun again if it is heard of again."""
_SESSION = 2048  # bytes that one takes here and in the recorder, beside its texts
_SECOND_CHANCES = 64  # sessions in a turn that are passed over, when one has to be forgotten


class OpenPrompt:
    """A prompt without an answer; ``cancelled``: the client wants none any more."""

    def __init__(self, id: RequestId | None) -> None:
        self.id = id
        self.cancelled = False


class SessionState:
    """``begun``: it has a transcript. ``cwd`` and ``directories`` are what that would begin with."""

    def __init__(self) -> None:
        self.begun = False
        self.cwd: str | None = None
        self.directories: list[str] = []
        self.prompts: list[OpenPrompt] = []
        """Those without an answer."""
        self.deleted = False
        self.untold = False
        """New here, and no title of it is with the client yet."""
        self.titles = Titles()
        self.terminals = SessionTerminals()
        self.size = 0


class Notebook:
    """``records`` False: everything comes out empty."""

    def __init__(self, *, records: bool) -> None:
        self.records = records
        self.sessions: OrderedDict[str, SessionState] = OrderedDict()
        self.is_crowded = False
        """Whether there were more strangers than are recorded."""
        self._strangers = 0
        self._size = 0
        self._terminals = Terminals()
        self._waiting: dict[str, list[tuple[bytes, object]]] = {}
        self._waiting_size = 0

    def is_live(self, session: str) -> bool:
        """Whether a prompt of this session has no answer yet."""
        return session in self.sessions and bool(self.sessions[session].prompts)

    def is_live_when_opened(self, session: str) -> bool:
        """Whether a turn is under way when the client opens the session: cancelled prompts do not count any more."""
        if self.is_live(session):
            known = self.sessions[session]
            known.prompts = [prompt for prompt in known.prompts if not prompt.cancelled]
        return self.is_live(session)

    def cancelled(self, session: str | None) -> None:
        """The client cancels the turn."""
        known = self.sessions.get(session) if session is not None else None
        for prompt in known.prompts if known is not None else ():
            prompt.cancelled = True

    def has_begun(self, session: str) -> bool:
        """Whether something of this session was recorded here."""
        return session in self.sessions and self.sessions[session].begun

    def is_deleted(self, session: str) -> bool:
        """Whether it was deleted, and not prompted since."""
        return session in self.sessions and self.sessions[session].deleted

    def is_plain(self, session: str) -> bool:
        """Whether its updates can be written down without being looked into."""
        found = self.sessions.get(session)
        return found is not None and not found.deleted and not found.terminals.open

    def opened(self, session: str, method: str, params: object, result: object) -> list[Recording]:
        """The agent agreed to open it; updates that came before the answer follow the header."""
        parent = acp.session_id(params) if method == acp.FORK else None
        origin = record.RECORDED if method == acp.NEW else record.PARTIAL
        return self._opened(session, method, params, result, origin, parent=parent)

    def imported(
        self, session: str, params: object, result: object, told: list[bytes], states: list[bytes]
    ) -> list[Recording]:
        """The agent loaded a session that we lack: what it told of the past begins the transcript."""
        kept = [RecordLine(session, Peer.AGENT, raw) for raw in (*told, *states)]
        return self._opened(session, acp.LOAD, params, result, record.IMPORTED, before=kept)

    def handed_over(self, session: str, new: str) -> list[Recording]:
        """It goes on in another session of the agent, which has got a record of it."""
        return self._noted(session, {"type": record.HANDOVER, "to": new})

    def renamed(self, session: str, new: str) -> list[Recording]:
        """The agent calls it by another id from now on."""
        return self._noted(session, {"type": record.ALIAS, "to": new})

    def replayed(self, session: str, rule: Rule | None) -> list[Recording]:
        """Whose replay a load has shown, and which rule decided."""
        if rule is None:
            return []
        shown = "transcript" if rule.is_ours else "agent"
        return self._noted(session, {"type": record.REPLAY, "shown": shown, "rule": rule.value[0]})

    def told_before(self, session: str) -> list[bytes]:
        """Updates of the conversation of a session that were told before the answer that named it; taken out."""
        waited = self._waiting.get(session, [])
        told = [(raw, update) for raw, update in waited if acp.is_conversation(acp.update_kind(update))]
        self._waiting_size -= sum(len(raw) for raw, _ in told)
        if told:
            self._waiting[session] = [item for item in waited if item not in told]
        return [raw for raw, _ in told]

    def placed(self, session: str, params: object) -> list[Recording]:
        """Where a deleted session is, if it lives again."""
        cwd, directories = acp.text(params, "cwd"), acp.strings(params, "additionalDirectories")
        known, forgotten = self._entered(session, len(cwd or "") + sum(map(len, directories)))
        known.cwd, known.directories, known.deleted = cwd, directories, True
        return forgotten

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
        begin = BeginTranscript(session, cwd, directories, origin, parent)
        return [*forgotten, begin, *before, RecordNote(session, note), *self._no_longer_waiting(session)]

    def start(self) -> None:
        """Record again."""
        self.records = True

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
        return RecordUpdates(session, data)

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
        known.terminals.refer(update)
        effects.append(RecordLine(session, Peer.AGENT, raw))
        if acp.update_kind(update) == acp.SESSION_INFO:
            self.title_told(session, update)
            effects.append(EndTurn(session))
        return effects

    def prompt(self, session: str, raw: bytes, blocks: object, id: RequestId | None = None) -> list[Recording]:
        begun = self._turn_begun(session, id)
        if begun and (known := self.sessions[session]).untold:
            known.titles.consider(blocks)
        return [*begun, RecordLine(session, Peer.CLIENT, raw)] if begun else []

    def prompt_begins(self, session: str, blocks: object, id: RequestId | None = None) -> list[Recording]:
        """A prompt that passes in pieces, by what is known of its blocks: those to come may say more, so what
        would only stand in for a title is none."""
        begun = self._turn_begun(session, id)
        if begun and (known := self.sessions[session]).untold:
            known.titles.consider(blocks)
            known.titles = Titles(known.titles.line)
        return begun

    def _turn_begun(self, session: str, id: RequestId | None) -> list[Recording]:
        if not self.records:
            return []
        effects = self._begun(session)
        self.sessions.move_to_end(session)
        known = self.sessions[session]
        known.prompts.append(OpenPrompt(id))
        known.deleted = False
        return [*effects, BeginTurn(session)]

    def prompt_answered(self, session: str, raw: bytes, id: RequestId | None = None) -> list[Recording]:
        return self._end_turn(session, [RecordLine(session, Peer.AGENT, raw, acp.PROMPT)], id)

    def prompt_failed(self, session: str, how: str, id: RequestId | None = None) -> list[Recording]:
        """The agent is gone before it answered."""
        note = {"type": record.FAILED, "method": acp.PROMPT, "message": how}
        return self._end_turn(session, [RecordNote(session, note)], id)

    def keep(self, session: str | None, peer: Peer, raw: bytes, of: str | None = None) -> list[Recording]:
        """Any other line that is recorded, of a session that is."""
        if session is None or session not in self.sessions or self.sessions[session].deleted:
            return []
        return [RecordLine(session, peer, raw, of)]

    def closed(self, session: str) -> list[Recording]:
        return self._noted(session, {"type": record.CLOSED, "method": acp.CLOSE})

    def _noted(self, session: str, note: Mapping[str, object]) -> list[Recording]:
        if session not in self.sessions or self.sessions[session].deleted:
            return []
        return [RecordNote(session, note)]

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
        if session in self.sessions:
            self._terminals.answered(self.sessions[session].terminals, method, params, result)

    def terminal_released(self, session: str, params: object) -> list[Recording]:
        """The last that will be known of it."""
        known = self.sessions.get(session)
        return self._terminals.released(session, known.terminals, params) if known is not None else []

    def _end_turn(self, session: str, last: list[Recording], id: RequestId | None) -> list[Recording]:
        known = self.sessions.get(session)
        if known is None:
            return []
        answered = next((prompt for prompt in known.prompts if prompt.id == id), None)
        if answered is not None:
            known.prompts.remove(answered)
        notes = self._terminals.noted(session, known.terminals)
        if known.deleted:
            return []
        return [*notes, *last, EndTurn(session)]

    def _begun(self, session: str) -> list[Recording]:
        """The beginning of a transcript for a session that nobody opened here, where it needs one."""
        known, forgotten = self._entered(session)
        if known.begun:
            return forgotten
        known.begun = True
        begin = BeginTranscript(session, known.cwd, known.directories, record.PARTIAL)
        return [*forgotten, begin, *self._no_longer_waiting(session)]

    def _takes_in(self, session: str) -> bool:
        """Whether what the agent says of a session is recorded: of any that is known, and of so many that are not."""
        if session in self.sessions:
            return True
        self.is_crowded = self._strangers == STRANGERS
        self._strangers += not self.is_crowded
        return not self.is_crowded

    def _entered(self, session: str, texts: int | None = None) -> tuple[SessionState, list[Recording]]:
        """A session that is remembered from here on, and what is forgotten for it. ``texts``: the size of new ones."""
        known = self.sessions.get(session)
        if known is not None and texts is None:
            return known, []
        if known is None:
            known = self.sessions[session] = SessionState()
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
            if oldest != needed and not self.sessions[oldest].prompts:
                break
            self.sessions.move_to_end(oldest)
        else:
            oldest = next(session for session in self.sessions if session != needed)
        gone = self.sessions.pop(oldest)
        self._size -= gone.size
        self._terminals.forget(gone.terminals)
        return [ForgetSession(oldest)] if gone.begun else []

    def _no_longer_waiting(self, session: str) -> list[Recording]:
        waited = self._waiting.pop(session, [])
        self._waiting_size -= sum(len(raw) for raw, _ in waited)
        for _, update in waited:
            if acp.update_kind(update) == acp.SESSION_INFO:
                self.title_told(session, update)
        return [RecordLine(session, Peer.AGENT, raw) for raw, _ in waited]
