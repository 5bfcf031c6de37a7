"""What is remembered of each session of a connection, within a fixed limit of memory: whether it is open, recorded or
deleted, and which of its prompts have no answer.
"""

from collections import OrderedDict
from collections.abc import Mapping

from acp_proxy.decisions.terminal_notes import SessionTerminals, TerminalMemory
from acp_proxy.protocol.jsonrpc import RequestId
from acp_proxy.transcript.titles import Titles

UNOPENED_LIMIT = 10_000
"""The most sessions recorded that were neither opened nor prompted here. Each is a file, and an agent can name any
number of sessions; one that works with sub-agents all day names some hundreds."""
REMEMBERED_LIMIT = 4 * 1024 * 1024
"""The bytes for what is remembered of sessions, here and in the recorder, a character counted as one: about two
thousand sessions. Beyond that, the one that was used longest ago is forgotten, and begun again if a message names
it."""
_SESSION_OVERHEAD = 2048
"""Bytes that a session takes here and in the recorder, beside its texts."""
_SECOND_CHANCES = 64
"""How many sessions in a turn are skipped when one must be forgotten."""


class _Prompt:
    """A prompt whose turn has not ended. ``is_cancelled``: the client has cancelled its turn.

    ``is_accepted``: the agent has answered it, and its turn goes on (version 2). ``has_work_begun``: the agent has
    begun to work since. ``is_work_over``: it has ended that before it answered.
    """

    def __init__(self, id: RequestId | None) -> None:
        self.id = id
        self.is_cancelled = self.is_accepted = self.has_work_begun = self.is_work_over = False


class PromptsInTurn:
    """A session's prompts whose turns have not ended, oldest first. False if there are none.

    In version 1, the answer to a prompt ends its turn. In version 2, it only accepts the prompt, and the turn ends when
    the agent says that it works no more, which may come before the answer.
    """

    def __init__(self) -> None:
        self._prompts: list[_Prompt] = []

    def __bool__(self) -> bool:
        return bool(self._prompts)

    def add(self, id: RequestId | None) -> None:
        self._prompts.append(_Prompt(id))

    def cancel_all(self) -> None:
        for prompt in self._prompts:
            prompt.is_cancelled = True

    def drop_cancelled(self) -> None:
        """Do not count cancelled prompts any more, although the agent has not answered them."""
        self._prompts = [prompt for prompt in self._prompts if not prompt.is_cancelled]

    def end(self, id: RequestId | None) -> None:
        """The prompt is answered, which ends its turn."""
        prompt = self._find(id)
        if prompt is not None:
            self._prompts.remove(prompt)

    def accept(self, id: RequestId | None) -> bool:
        """The prompt is answered, and its turn goes on. Returns True if that is over already."""
        prompt = self._find(id)
        if prompt is None:
            return False
        prompt.is_accepted = True
        if prompt.is_work_over:
            self._prompts.remove(prompt)
        return prompt.is_work_over

    def begin_work(self) -> None:
        for prompt in self._prompts:
            prompt.has_work_begun, prompt.is_work_over = True, False

    def end_work(self) -> bool:
        """The agent works no more: that ends the turns of the prompts that it has accepted, or accepts later although
        it has worked since they came. Returns whether any has ended now."""
        for prompt in self._prompts:
            prompt.is_work_over = prompt.has_work_begun
        accepted = self.accepted_ids
        self._prompts = [prompt for prompt in self._prompts if not prompt.is_accepted]
        return bool(accepted)

    @property
    def accepted_ids(self) -> list[RequestId | None]:
        """The ids of the prompts that the agent has accepted."""
        return [prompt.id for prompt in self._prompts if prompt.is_accepted]

    def _find(self, id: RequestId | None) -> _Prompt | None:
        return next((prompt for prompt in self._prompts if prompt.id == id), None)


class SessionState:
    """What is remembered of a session beside its transcript. ``is_recorded``: its recording has begun. ``cwd``,
    ``directories``: for the header of a new transcript. ``is_deleted``: it was deleted, and not prompted since.
    ``size``: its bytes in memory."""

    def __init__(self, terminals: SessionTerminals) -> None:
        self.is_recorded = False
        self.cwd: str | None = None
        self.directories: list[str] = []
        self.opening_answer: Mapping[str, object] = {}
        """What the agent answered last when it opened the session, without the id: its modes, for example."""
        self.prompts = PromptsInTurn()
        self.is_deleted = False
        self.is_open = False
        """Whether the agent has it in memory: it was opened or prompted here, and not closed since."""
        self.awaits_title = False
        """Whether it is new and the client has no title of it yet."""
        self.titles = Titles()
        self.terminals = terminals
        self.size = 0


class SessionStates(OrderedDict[str, SessionState]):
    """The sessions' states by id, the one used longest ago first. ``SessionTracker`` changes them, others ask."""

    def __init__(self) -> None:
        super().__init__()
        self.is_crowded = False
        """Whether the agent named more than ``UNOPENED_LIMIT`` sessions that were not opened here."""
        self._unopened = 0
        self._size = 0
        self._terminal_memory = TerminalMemory()

    def is_in_turn(self, session_id: str) -> bool:
        """Whether the turn of a prompt of this session has not ended."""
        return session_id in self and bool(self[session_id].prompts)

    def is_recorded(self, session_id: str) -> bool:
        """Whether this process has begun to record the session."""
        return session_id in self and self[session_id].is_recorded

    def is_deleted(self, session_id: str) -> bool:
        """Whether the session was deleted, and not prompted since."""
        return session_id in self and self[session_id].is_deleted

    def exists_in_run(self, session_id: str) -> bool:
        """Whether the session was opened or named in this run, and not deleted since."""
        return session_id in self and not self[session_id].is_deleted

    def is_open(self, session_id: str) -> bool:
        return self.exists_in_run(session_id) and self[session_id].is_open

    def find_opening_answer(self, session_id: str) -> Mapping[str, object]:
        """What the agent answered last when it opened the session here, without the id: its modes, for example."""
        return self[session_id].opening_answer if session_id in self else {}

    def needs_no_parsing(self, session_id: str) -> bool:
        """Whether the session's updates can be recorded without parsing them. One that is remembered here and not
        deleted is recorded."""
        session = self.get(session_id)
        return session is not None and not session.is_deleted and not session.terminals.has_any_of_this_turn

    def list_accepted_prompts(self) -> list[tuple[str, RequestId | None]]:
        """The accepted prompts whose turns have not ended, with their sessions."""
        return [(session_id, id) for session_id, session in self.items() for id in session.prompts.accepted_ids]

    # --- within limits

    def try_admit_session(self, session_id: str) -> bool:
        """Count the session of an update, if it was not opened here. Returns False, and sets ``is_crowded``, if
        ``UNOPENED_LIMIT`` others were counted: then it is not recorded."""
        if session_id in self:
            return True
        self.is_crowded = self._unopened == UNOPENED_LIMIT
        self._unopened += not self.is_crowded
        return not self.is_crowded

    def find_or_add(
        self, session_id: str, text_size: int | None = None
    ) -> tuple[SessionState, dict[str, SessionState]]:
        """The session, which is remembered from here on, and those that are forgotten for that.

        ``text_size``: the characters of its new texts, if they change.
        """
        session = self.get(session_id)
        if session is not None and text_size is None:
            return session, {}
        if session is None:
            session = self[session_id] = SessionState(SessionTerminals(session_id, self._terminal_memory))
        self._size -= session.size
        session.size = _SESSION_OVERHEAD + len(session_id) + (text_size or 0)
        self._size += session.size
        forgotten: dict[str, SessionState] = {}
        while self._size > REMEMBERED_LIMIT and len(self) > 1:
            oldest = self._skip_to_oldest(session_id)
            forgotten[oldest] = self.pop(oldest)
            self._size -= forgotten[oldest].size
            forgotten[oldest].terminals.forget()
        return session, forgotten

    def _skip_to_oldest(self, needed: str) -> str:
        """The session that was used longest ago. Sessions in a turn are skipped, up to ``_SECOND_CHANCES``."""
        for _ in range(_SECOND_CHANCES):
            oldest = next(iter(self))
            if oldest != needed and not self[oldest].prompts:
                return oldest
            self.move_to_end(oldest)
        return next(session_id for session_id in self if session_id != needed)

    def forget_all(self) -> None:
        self.clear()
        self._size = self._unopened = 0
        self._terminal_memory = TerminalMemory()
