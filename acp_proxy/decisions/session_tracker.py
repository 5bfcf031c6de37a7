"""Keeps track of each session, and returns what is to be recorded of it. Does not decide where lines go.

Each ``track_…`` method takes note of something that has happened, and returns the effects for the transcript, if there
can be any, which ``recording/`` performs. ``message_tracker`` says what each message means for its session;
single updates come from ``Connection`` and ``LoadLineHandler``. docs/transcript-format.md says what is recorded.
"""

from collections.abc import Mapping, Sequence

from acp_proxy.comparison.whose_past import PastDecision, WhosePast
from acp_proxy.decisions.effects import (
    BeginTranscript,
    BeginTurn,
    EndTurn,
    ForgetSession,
    RecordMessage,
    RecordNote,
    SaveAndIndex,
    TranscriptEffect,
)
from acp_proxy.decisions.session_states import SessionState, SessionStates
from acp_proxy.protocol import acp, jsonrpc, update_kinds
from acp_proxy.protocol.jsonrpc import Peer, RequestId, Response
from acp_proxy.transcript import file_format
from acp_proxy.transcript.file_format import NoteType
from acp_proxy.transcript.rewinds import encode_ids, parse_fork_point
from acp_proxy.transcript.titles import Titles

EARLY_LIMIT = 1024 * 1024
"""The most bytes of updates that wait for the answer that names their session."""


class SessionTracker:
    """Tracks a connection's sessions, and returns the effects for their transcripts. Without ``is_recording`` it does
    neither."""

    def __init__(self, *, is_recording: bool) -> None:
        self.is_recording = is_recording
        self.sessions = SessionStates()
        self._early_updates = EarlyUpdates()

    def track_turn_cancel(self, session_id: str | None) -> None:
        if session_id is not None and session_id in self.sessions:
            self.sessions[session_id].prompts.cancel_all()

    def drop_cancelled_prompts(self, session_id: str) -> None:
        """The client opens the session: prompts that it has cancelled are no turn any more."""
        if session_id in self.sessions:
            self.sessions[session_id].prompts.drop_cancelled()

    def track_opened(
        self,
        session_id: str,
        method: str,
        params: object,
        result: object,
        *,
        is_new_session: bool = False,
        imported: Sequence[bytes] | None = None,
    ) -> list[TranscriptEffect]:
        """The agent has opened a session. Updates that came before its answer follow the note of that.

        ``method``, ``params``: of the request. ``result``: of the answer. ``is_new_session``: it opened a new one
        instead. ``imported``: the updates of its replay, if they begin the transcript.
        """
        if not self.is_recording:
            return []
        cwd, directories = acp.text(params, "cwd"), acp.strings(params, "additionalDirectories")
        members = result if isinstance(result, dict) else {}
        answer = {key: value for key, value in members.items() if key not in ("sessionId", "_meta")}
        size = len(cwd or "") + sum(map(len, directories)) + len(jsonrpc.dump(answer))
        session, forgotten = self._find_or_add(session_id, size)
        session.cwd, session.directories, session.opening_answer = cwd, directories, answer
        origin, parent, point = file_format.PARTIAL, None, None
        if method == acp.NEW:
            origin = file_format.RECORDED
            session.is_deleted, session.awaits_title, session.titles = False, True, Titles()
        elif method == acp.FORK:
            parent, point = acp.session_id(params), parse_fork_point(params)
            session.is_deleted = False
        elif session.is_deleted:
            return forgotten
        if imported is not None:
            origin = file_format.IMPORTED
        session.is_recorded = session.is_open = True
        note: dict[str, object] = {"type": NoteType.OPENED, "method": method} | (
            {file_format.ANEW: True} if is_new_session else {}
        )
        note |= {"cwd": cwd, "additionalDirectories": directories}
        note |= {key: value for key in ("modes", "configOptions") if (value := acp.member(result, key)) is not None}
        servers = acp.member(params, "mcpServers")
        names = [acp.text(server, "name") for server in servers] if isinstance(servers, list) else []
        note["mcpServers"] = [name for name in names if name is not None]
        begin = BeginTranscript(session_id, cwd, directories, origin, parent, point)
        entries = [RecordMessage(session_id, Peer.AGENT, raw) for raw in imported or ()]
        return [*forgotten, begin, *entries, RecordNote(session_id, note), *self._take_early_updates(session_id)]

    def note(self, session_id: str, note_type: NoteType, **members: object) -> list[TranscriptEffect]:
        """A note by acp-proxy, if the session is recorded. ``members``: as in docs/transcript-format.md."""
        exists = self.sessions.exists_in_run(session_id)
        return [RecordNote(session_id, {"type": note_type} | members)] if exists else []

    def note_shown_past(
        self, session_id: str, decision: PastDecision | None, ids: Mapping[tuple[str, bytes], str] | None = None
    ) -> list[TranscriptEffect]:
        """Note whose past a load has shown, and which rule decided. ``ids``: those of the user's messages in the
        agent's replay, by ``Entry.request_key``, if the transcript does not note them yet."""
        if decision is None or decision.rule.number is None:
            return []
        # "transcript" also where nothing was shown, as after a resume. This is meant: it says that the agent's replay
        # was hidden, and readers know no third word.
        shown = "agent" if decision.whose_past is WhosePast.AGENT else "transcript"
        users = {"users": encode_ids(ids)} if ids else {}
        return self.note(session_id, NoteType.REPLAY, shown=shown, rule=decision.rule.number, **users)

    def remember_deleted(self, session_id: str, params: object) -> list[TranscriptEffect]:
        """Remember the directory of a deleted session that the client tries to open: a prompt revives it there."""
        cwd, directories = acp.text(params, "cwd"), acp.strings(params, "additionalDirectories")
        session, forgotten = self._find_or_add(session_id, len(cwd or "") + sum(map(len, directories)))
        session.cwd, session.directories, session.is_deleted = cwd, directories, True
        return forgotten

    def take_title(self, session_id: str) -> str | None:
        """The title made from a new session's prompts, if the client has none yet. Returned once."""
        session = self.sessions.get(session_id)
        if session is None or session.is_deleted or not session.awaits_title:
            return None
        session.awaits_title = False
        return session.titles.best

    def track_title(self, session_id: str, update: object) -> None:
        """The agent has sent a ``session_info_update``, which may contain a title."""
        if acp.text(update, "title") is not None and session_id in self.sessions:
            self.sessions[session_id].awaits_title = False

    def start_recording(self) -> None:
        """From here on, track sessions again."""
        self.is_recording = True

    def stop_recording(self) -> None:
        """From here on, track no sessions, and forget all."""
        self.is_recording = False
        self.sessions.forget_all()
        self._early_updates.drop()

    def take_early_conversation(self, session_id: str) -> list[bytes]:
        """The conversation updates that came before the answer that names their session."""
        return self._early_updates.take_conversation(session_id)

    def begin_early_sessions(self) -> list[TranscriptEffect]:
        """No open request can name the session of the early updates, so they begin transcripts of their own."""
        effects: list[TranscriptEffect] = []
        for session_id in self._early_updates.session_ids:
            if self.sessions.try_admit_session(session_id):
                effects += self._begin(session_id)
            else:
                self._early_updates.take(session_id)
        return effects

    def track_update(
        self, session_id: str, raw: bytes, update: object, *, session_may_be_new: bool
    ) -> list[TranscriptEffect]:
        """The effects of an update. ``session_may_be_new``: an open request may be what opens this session, so its
        updates wait for the answer."""
        if not self.is_recording:
            return []
        if session_id not in self.sessions and session_may_be_new and self._early_updates.hold(session_id, raw, update):
            return []
        if self.sessions.is_deleted(session_id) or not self.sessions.try_admit_session(session_id):
            return []
        effects = self._begin(session_id)
        session = self.sessions[session_id]
        session.terminals.remember_shown(update)
        effects.append(RecordMessage(session_id, Peer.AGENT, raw))
        if acp.update_kind(update) == update_kinds.SESSION_INFO:
            self.track_title(session_id, update)
            effects.append(SaveAndIndex(session_id))
        return effects

    def track_prompt(
        self, session_id: str, raw: bytes, blocks: object, id: RequestId | None = None
    ) -> list[TranscriptEffect]:
        """The effects of a prompt, which begins a turn and revives a deleted session. ``blocks``: its content
        blocks."""
        if not self.is_recording:
            return []
        begin_effects = self._begin(session_id)
        self.sessions.move_to_end(session_id)
        session = self.sessions[session_id]
        session.prompts.add(id)
        session.is_deleted, session.is_open = False, True
        if session.awaits_title:
            session.titles.consider(blocks)
        return [*begin_effects, BeginTurn(session_id), RecordMessage(session_id, Peer.CLIENT, raw)]

    def track_steering(self, session_id: str, raw: bytes) -> list[TranscriptEffect]:
        """The effects of the user's words into a turn, which the agent has just taken."""
        if not self.is_recording or self.sessions.is_deleted(session_id):
            return []
        effects = [*self._begin(session_id), RecordMessage(session_id, Peer.CLIENT, raw)]
        return effects if self.sessions.is_in_turn(session_id) else [*effects, SaveAndIndex(session_id)]

    def track_prompt_answer(self, session_id: str, raw: bytes, id: RequestId | None = None) -> list[TranscriptEffect]:
        """The effects of the agent's answer to a prompt, which ends the turn."""
        return self._end_turn(session_id, [RecordMessage(session_id, Peer.AGENT, raw, acp.PROMPT)], id)

    def track_accepted_prompt(self, session_id: str, raw: bytes, id: RequestId | None) -> list[TranscriptEffect]:
        """The effects of the agent's answer to a prompt that does not end its turn."""
        entries = self.track_message(session_id, Peer.AGENT, raw, acp.PROMPT)
        is_over = session_id in self.sessions and self.sessions[session_id].prompts.accept(id)
        return [*entries, *self._make_turn_end(session_id)] if is_over else entries

    def begin_work(self, session_id: str) -> None:
        if session_id in self.sessions:
            self.sessions[session_id].prompts.begin_work()

    def end_work(self, session_id: str) -> list[TranscriptEffect]:
        """The agent works no more, which may end turns."""
        has_ended = session_id in self.sessions and self.sessions[session_id].prompts.end_work()
        return self._make_turn_end(session_id) if has_ended else []

    def _make_turn_end(self, session_id: str) -> list[TranscriptEffect]:
        return [] if self.sessions.is_deleted(session_id) else [EndTurn(session_id)]

    def track_failed_prompt(self, session_id: str, reason: str, id: RequestId | None = None) -> list[TranscriptEffect]:
        """The agent ended before it answered a prompt. ``reason``: what the note says."""
        note = {"type": NoteType.FAILED, "method": acp.PROMPT, "message": reason}
        return self._end_turn(session_id, [RecordNote(session_id, note)], id)

    def track_message(
        self, session_id: str | None, peer: Peer, raw: bytes, answered_method: str | None = None
    ) -> list[TranscriptEffect]:
        """The effects of any other message, if its session is recorded. ``answered_method``: the method that a response
        answers."""
        if session_id is None or session_id not in self.sessions or self.sessions[session_id].is_deleted:
            return []
        return [RecordMessage(session_id, peer, raw, answered_method)]

    def track_closed(self, session_id: str) -> list[TranscriptEffect]:
        """Note that the agent has closed the session."""
        if session_id in self.sessions:
            self.sessions[session_id].is_open = False
        notes = self._note_shown_terminals(session_id)
        return [*notes, *self.note(session_id, NoteType.CLOSED, method=acp.CLOSE)]

    def track_deleted(self, session_id: str) -> list[TranscriptEffect]:
        """The session was deleted: record nothing of it until it is prompted again."""
        if not self.is_recording:
            return []
        self._take_early_updates(session_id)
        session, forgotten = self._find_or_add(session_id)
        session.is_deleted = True
        return forgotten

    def track_terminal_answer(
        self, session_id: str, method: str, params: object, result: object
    ) -> list[TranscriptEffect]:
        """The client has answered a request about a terminal. ``method``, ``params``: of the request."""
        session = self.sessions.get(session_id)
        if session is None:
            return []
        notes = session.terminals.handle_answer(method, params, result)
        return notes if not session.is_deleted else []

    def must_note_output(self, session_id: str | None, params: object, answer: object) -> bool:
        """Whether the client's answer to a request for a terminal's output is noted before the end of the turn."""
        session = self.sessions.get(session_id or "")
        if session is None or not isinstance(answer, Response):
            return False
        terminal = session.terminals.find(params)
        return terminal is not None and terminal.must_note_output(acp.text(answer.result, "output"))

    def track_terminal_release(self, session_id: str, params: object) -> list[TranscriptEffect]:
        """The agent has released a terminal: note its last state."""
        session = self.sessions.get(session_id)
        return session.terminals.release(params) if session is not None else []

    def _end_turn(
        self, session_id: str, last_entries: list[TranscriptEffect], id: RequestId | None
    ) -> list[TranscriptEffect]:
        session = self.sessions.get(session_id)
        if session is None:
            return []
        session.prompts.end(id)
        notes = self._note_shown_terminals(session_id)
        if session.is_deleted:
            return []
        # Another prompt may have waited in the agent's queue.
        end = SaveAndIndex(session_id) if session.prompts else EndTurn(session_id)
        return [*notes, *last_entries, end]

    def handle_agent_end(self) -> list[TranscriptEffect]:
        """The agent has ended: note what became known of terminals since their sessions' last turns."""
        return [note for session_id in self.sessions for note in self._note_shown_terminals(session_id)]

    def _note_shown_terminals(self, session_id: str) -> list[TranscriptEffect]:
        session = self.sessions.get(session_id)
        notes = session.terminals.end_turn() if session is not None else []
        return notes if session is not None and not session.is_deleted else []

    def _begin(self, session_id: str) -> list[TranscriptEffect]:
        """Begin to record a session that was not opened here, unless that was done."""
        if self.sessions.is_recorded(session_id):
            return []
        session, forgotten = self._find_or_add(session_id)
        session.is_recorded = True
        begin = BeginTranscript(session_id, session.cwd, session.directories, file_format.PARTIAL)
        return [*forgotten, begin, *self._take_early_updates(session_id)]

    def _find_or_add(
        self, session_id: str, text_size: int | None = None
    ) -> tuple[SessionState, list[TranscriptEffect]]:
        """As ``SessionStates.find_or_add``, with the effects of forgetting others."""
        session, forgotten = self.sessions.find_or_add(session_id, text_size)
        return session, [ForgetSession(id) for id, other in forgotten.items() if other.is_recorded]

    def _take_early_updates(self, session_id: str) -> list[TranscriptEffect]:
        early = self._early_updates.take(session_id)
        for _, update in early:
            if acp.update_kind(update) == update_kinds.SESSION_INFO:
                self.track_title(session_id, update)
        return [RecordMessage(session_id, Peer.AGENT, raw) for raw, _ in early]


class EarlyUpdates:
    """Updates of sessions that may be new: an open request may be what opens them, and its answer, which says in which
    directory, has not come. Holds at most ``EARLY_LIMIT`` bytes."""

    def __init__(self) -> None:
        self._updates: dict[str, list[tuple[bytes, object]]] = {}
        """By session: the ``raw`` of each message, with its update."""
        self._size = 0

    @property
    def session_ids(self) -> list[str]:
        """The sessions of which updates are held."""
        return list(self._updates)

    def hold(self, session_id: str, raw: bytes, update: object) -> bool:
        """Hold an update; returns False if too much is held."""
        if self._size + len(raw) > EARLY_LIMIT:
            return False
        self._updates.setdefault(session_id, []).append((raw, update))
        self._size += len(raw)
        return True

    def take(self, session_id: str) -> list[tuple[bytes, object]]:
        """A session's, as they were held."""
        updates = self._updates.pop(session_id, [])
        self._size -= sum(len(raw) for raw, _ in updates)
        return updates

    def take_conversation(self, session_id: str) -> list[bytes]:
        """The ``raw`` of a session's conversation updates. The others are still held."""
        raw_updates = []
        for raw, update in self.take(session_id):
            if update_kinds.is_conversation(acp.update_kind(update)):
                raw_updates.append(raw)
            else:
                self.hold(session_id, raw, update)
        return raw_updates

    def drop(self) -> None:
        self._updates.clear()
        self._size = 0
