"""Follows the terminals that clients run for agents, and decides when their output is noted in the transcript.

A terminal that a tool call shows is noted when its output becomes known, and when that has doubled: whoever opens the
session in the turn, or after a crash, has it too, and all notes of an output together are not many times its size. The
rest is noted at the end of the turn, or of a later one in which it becomes known. Outputs in memory have at most
``OUTPUT_LIMIT`` characters. docs/transcript-format.md describes the note.
"""

from collections.abc import Mapping

from msgspec import Struct

from acp_proxy.decisions.effects import RecordNote, TranscriptEffect
from acp_proxy.protocol import acp, jsonrpc
from acp_proxy.transcript.file_format import NoteType

OUTPUT_LIMIT = 64 * 1024 * 1024
"""The most characters of output that wait for the ends of turns. Output beyond that is lost, and what is shown of the
past says so."""
_TERMINAL_OVERHEAD = 512
"""As how many characters a terminal counts, beside its output."""
_EXIT_STATUS_LIMIT = 4096
"""The most bytes of an exit status as JSON: more is none."""


class Terminal(Struct):
    """A command that the client runs for the agent.

    ``output``: what the client has sent of it, or None if that is unknown, too large, or noted in an earlier turn.
    ``is_truncated``: the client kept only its end. ``exit_status``: the protocol's, or None. ``is_shown``: a tool call
    refers to it. ``has_news``: the client has sent an output or an exit status that was not noted. ``is_released``: the
    agent has released it. ``is_earlier``: it was shown in an earlier turn, and more of it may become known.
    ``noted_size``: that of its output when it was noted last; None: it was not noted.
    """

    output: str | None = None
    is_truncated: bool = False
    exit_status: object = None
    is_shown: bool = False
    has_news: bool = False
    is_final: bool = False
    is_released: bool = False
    is_earlier: bool = False
    noted_size: int | None = None

    @property
    def size(self) -> int:
        return _TERMINAL_OVERHEAD + len(self.output or "")

    def must_note_output(self, output: str | None) -> bool:
        """Whether so much of this output is new that it is noted before the end of the turn."""
        return self.is_shown and bool(output) and len(output or "") >= 2 * (self.noted_size or 0)


class TerminalMemory:
    """The size of the terminals of all sessions, in characters, at most ``OUTPUT_LIMIT``."""

    def __init__(self) -> None:
        self.used = 0

    def has_room(self, size: int) -> bool:
        return self.used + size <= OUTPUT_LIMIT


class SessionTerminals:
    """The terminals of one session. Its methods return the notes of those that are noted now."""

    def __init__(self, session_id: str, memory: TerminalMemory) -> None:
        self._session_id = session_id
        self._memory = memory
        self._by_id: dict[str, Terminal] = {}

    @property
    def has_any_of_this_turn(self) -> bool:
        """Whether a tool call of this turn shows one, or may still show it."""
        return any(not terminal.is_earlier for terminal in self._by_id.values())

    def find(self, params: object) -> Terminal | None:
        """The terminal that a request is about. ``params``: the request's."""
        return self._by_id.get(acp.text(params, "terminalId") or "")

    def remember_shown(self, update: object) -> None:
        """Mark the terminals that an update's content refers to."""
        for id in _find_terminal_ids(update) if self._by_id else ():
            if id in self._by_id:
                self._by_id[id].is_shown = True

    def handle_answer(self, method: str, params: object, result: object) -> list[TranscriptEffect]:
        """The client has answered a request about a terminal. ``method``, ``params``: of the request."""
        if method == acp.TERMINAL_CREATE:
            if (id := acp.text(result, "terminalId")) is not None and self._memory.has_room(_TERMINAL_OVERHEAD):
                self._drop(id)  # clients may use an id again
                self._by_id[id] = Terminal()
                self._memory.used += _TERMINAL_OVERHEAD
            return []
        if (terminal := self.find(params)) is None:
            return []
        if method == acp.TERMINAL_OUTPUT:
            self._keep_output(terminal, result)
            return (
                self._note({acp.text(params, "terminalId") or "": terminal})
                if terminal.must_note_output(terminal.output)
                else []
            )
        if method == acp.TERMINAL_WAIT and isinstance(result, Mapping):
            terminal.exit_status = _limit_exit_status({key: result.get(key) for key in ("exitCode", "signal")})
            terminal.has_news = True
        return []

    def _keep_output(self, terminal: Terminal, result: object) -> None:
        if (output := acp.text(result, "output")) is None:
            return
        self._memory.used -= len(terminal.output or "")
        terminal.has_news = True
        terminal.output = output if self._memory.has_room(len(output)) else None
        self._memory.used += len(terminal.output or "")
        terminal.is_truncated = acp.member(result, "truncated") is True
        terminal.is_final = acp.member(result, "exitStatus") is not None
        terminal.exit_status = _limit_exit_status(acp.member(result, "exitStatus")) or terminal.exit_status

    def release(self, params: object) -> list[TranscriptEffect]:
        """The agent has released a terminal: note its last state, or wait for the turn's end if no call shows it."""
        id = acp.text(params, "terminalId") or ""
        if (terminal := self._by_id.get(id)) is None:
            return []
        terminal.is_released = True
        if not terminal.is_shown:  # a tool call may show it until the turn ends
            return []
        self._drop(id)
        return self._note({id: terminal}) if terminal.has_news or not terminal.is_earlier else []

    def end_turn(self) -> list[TranscriptEffect]:
        """A turn has ended, or the session: what is shown now is earlier from here on. Notes that, and earlier ones of
        which more is known."""
        notes = self._note({id: each for id, each in self._by_id.items() if each.has_news or each.noted_size is None})
        for id, terminal in list(self._by_id.items()):
            if terminal.is_released or (terminal.is_shown and terminal.is_final):
                self._drop(id)
            elif terminal.is_shown:  # what was noted need not stay in memory
                self._memory.used -= len(terminal.output or "")
                terminal.output, terminal.has_news, terminal.is_earlier = None, False, True
        return notes

    def forget(self) -> None:
        for id in list(self._by_id):
            self._drop(id)

    def _drop(self, id: str) -> None:
        """Forget this terminal, if there is one."""
        terminal = self._by_id.pop(id, None)
        self._memory.used -= terminal.size if terminal is not None else 0

    def _note(self, terminals: Mapping[str, Terminal]) -> list[TranscriptEffect]:
        """The notes of those of these terminals that are shown."""
        notes: list[TranscriptEffect] = []
        for id, terminal in terminals.items():
            if not terminal.is_shown:
                continue
            terminal.noted_size, terminal.has_news = len(terminal.output or ""), False
            note = {
                "type": NoteType.TERMINAL,
                "terminalId": id,
                "output": terminal.output,
                "truncated": terminal.is_truncated,
                "exitStatus": terminal.exit_status,
                "final": terminal.is_final or terminal.is_released,
            }
            notes.append(RecordNote(self._session_id, note))
        return notes


def _limit_exit_status(value: object) -> object:
    return value if len(jsonrpc.dump(value)) <= _EXIT_STATUS_LIMIT else None


def _find_terminal_ids(update: object) -> list[str]:
    """The ids of the terminals that a tool call's content refers to."""
    content = acp.member(update, "content")
    if not isinstance(content, list):
        return []
    ids = [acp.text(item, "terminalId") for item in content if acp.text(item, "type") == "terminal"]
    return [id for id in ids if id is not None]
