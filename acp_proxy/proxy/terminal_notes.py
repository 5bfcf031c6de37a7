"""Follows the terminals that clients run for agents, and decides when their output is noted in the transcript.

A terminal that a tool call shows is noted when its output becomes known, and when that has doubled: whoever opens the
session in the turn, or after a crash, has it too, and all notes of an output together are not many times its size. The
rest is noted at the end of the turn, or of a later one in which it becomes known. Outputs take at most ``OUTPUT_LIMIT``
bytes of memory. docs/transcript-format.md describes the note.
"""

from collections.abc import Mapping

from msgspec import Struct

from acp_proxy.protocol import acp, jsonrpc
from acp_proxy.proxy.effects import RecordNote, TranscriptEffect
from acp_proxy.transcript.file_format import NoteType

OUTPUT_LIMIT = 64 * 1024 * 1024
"""The most bytes of output that wait for the ends of turns. Output beyond that is lost, and what is shown of the past
says so."""


_TERMINAL_OVERHEAD = 512
"""Bytes of a terminal, beside its output."""
_EXIT_STATUS_LIMIT = 4096
"""The most bytes of an exit status as JSON: more is none."""


class Terminal(Struct):
    """A command that the client runs for the agent.

    ``output``: all of it, or None if it is unknown or too large. ``is_truncated``: the client kept only its end.
    ``exit_status``: the protocol's, or None. ``is_shown``: a tool call refers to it. ``has_news``: the client has sent
    output that was not noted. ``is_released``: the agent has released it. ``noted_size``: that of its output when it
    was noted last; None: it was not noted.
    """

    output: str | None = None
    is_truncated: bool = False
    exit_status: object = None
    is_shown: bool = False
    has_news: bool = False
    is_final: bool = False
    is_released: bool = False
    noted_size: int | None = None

    @property
    def size(self) -> int:
        """How many bytes the terminal takes in memory."""
        return _TERMINAL_OVERHEAD + len(self.output or "")

    def has_grown(self, output: str | None) -> bool:
        """Whether so much of this output is new that it is noted before the end of the turn."""
        return self.is_shown and bool(output) and len(output or "") >= 2 * (self.noted_size or 0)


class SessionTerminals:
    """The terminals of one session, by terminal id."""

    def __init__(self) -> None:
        self.current: dict[str, Terminal] = {}
        """Those that a tool call of this turn shows, or may still show."""
        self.earlier: dict[str, Terminal] = {}
        """Those that were shown in earlier turns, and of which more may become known."""

    def find(self, params: object) -> Terminal | None:
        """The terminal that a request is about. ``params``: the request's."""
        id = acp.text(params, "terminalId") or ""
        return self.current.get(id) or self.earlier.get(id)

    def mark_shown(self, update: object) -> None:
        """Mark the terminals that an update's content refers to."""
        for id in _find_terminal_ids(update) if self.current else ():
            if id in self.current:
                self.current[id].is_shown = True


class Terminals:
    """Updates the terminals of all sessions, within ``OUTPUT_LIMIT``."""

    def __init__(self) -> None:
        self._size = 0

    def handle_answer(
        self, session_id: str, session_terminals: SessionTerminals, method: str, params: object, result: object
    ) -> list[TranscriptEffect]:
        """The client has answered a request about a terminal. ``method``, ``params``: of the request. Returns its note,
        if its output is noted now."""
        current, earlier = session_terminals.current, session_terminals.earlier
        if method == acp.TERMINAL_CREATE:
            if (id := acp.text(result, "terminalId")) is not None and self._has_room(_TERMINAL_OVERHEAD):
                for by_id in (current, earlier):  # clients may use an id again
                    self._drop({id: by_id.pop(id)} if id in by_id else {})
                current[id] = Terminal()
                self._size += _TERMINAL_OVERHEAD
            return []
        if (terminal := session_terminals.find(params)) is None:
            return []
        if method == acp.TERMINAL_OUTPUT:
            self._keep_output(terminal, result)
            return (
                _make_notes(session_id, {acp.text(params, "terminalId") or "": terminal})
                if terminal.has_grown(terminal.output)
                else []
            )
        elif method == acp.TERMINAL_WAIT and isinstance(result, Mapping):
            terminal.exit_status = _limit_exit_status({key: result.get(key) for key in ("exitCode", "signal")})
            terminal.has_news = True
        return []

    def _keep_output(self, terminal: Terminal, result: object) -> None:
        if (output := acp.text(result, "output")) is None:
            return
        self._size -= len(terminal.output or "")
        terminal.has_news = True
        terminal.output = output if self._has_room(len(output)) else None
        self._size += len(terminal.output or "")
        terminal.is_truncated = acp.member(result, "truncated") is True
        terminal.is_final = acp.member(result, "exitStatus") is not None
        terminal.exit_status = _limit_exit_status(acp.member(result, "exitStatus")) or terminal.exit_status

    def release(self, session_id: str, session_terminals: SessionTerminals, params: object) -> list[TranscriptEffect]:
        """The agent has released a terminal: note its last state, or wait for the turn's end if no call shows it."""
        id = acp.text(params, "terminalId") or ""
        if id in session_terminals.current and not session_terminals.current[id].is_shown:
            session_terminals.current[id].is_released = True  # a tool call may show it until the turn ends
            return []
        for terminals in (session_terminals.current, session_terminals.earlier):
            if id in terminals:
                terminals[id].is_released = True
        terminal = session_terminals.current.pop(id, None)
        if (
            terminal is None
            and (terminal := session_terminals.earlier.pop(id, None)) is not None
            and not terminal.has_news
        ):
            self._drop({id: terminal})
            return []
        return _make_notes(session_id, self._drop({id: terminal})) if terminal is not None else []

    def note_shown_terminals(self, session_id: str, session_terminals: SessionTerminals) -> list[TranscriptEffect]:
        """A turn has ended, or the session: the terminals shown in it are earlier ones from here on. Returns their
        notes, and those of earlier ones of which more is known."""
        if not (session_terminals.current or session_terminals.earlier):  # the usual case
            return []
        shown_terminals = {id: terminal for id, terminal in session_terminals.current.items() if terminal.is_shown}
        self._drop(
            {
                id: terminal
                for id, terminal in session_terminals.current.items()
                if terminal.is_released and not terminal.is_shown
            }
        )
        session_terminals.current = {
            id: terminal
            for id, terminal in session_terminals.current.items()
            if not (terminal.is_shown or terminal.is_released)
        }
        noted_terminals = {
            id: terminal for id, terminal in shown_terminals.items() if terminal.has_news or terminal.noted_size is None
        }
        notes = _make_notes(
            session_id,
            noted_terminals | {id: terminal for id, terminal in session_terminals.earlier.items() if terminal.has_news},
        )
        session_terminals.earlier |= {
            id: terminal for id, terminal in shown_terminals.items() if not terminal.is_released
        }
        ended_terminals = {id: terminal for id, terminal in session_terminals.earlier.items() if terminal.is_final}
        ended_terminals |= {id: terminal for id, terminal in shown_terminals.items() if terminal.is_released}
        self._drop(ended_terminals)
        session_terminals.earlier = {
            id: terminal for id, terminal in session_terminals.earlier.items() if id not in ended_terminals
        }
        for terminal in session_terminals.earlier.values():  # what was noted need not stay in memory
            self._size -= len(terminal.output or "")
            terminal.output, terminal.has_news = None, False
        return notes

    def forget(self, session_terminals: SessionTerminals) -> None:
        """Forget a session's terminals."""
        self._drop(session_terminals.current | session_terminals.earlier)

    def _has_room(self, size: int) -> bool:
        return self._size + size <= OUTPUT_LIMIT

    def _drop(self, terminals: dict[str, Terminal]) -> dict[str, Terminal]:
        """Give back the memory of these terminals, and return them."""
        self._size -= sum(terminal.size for terminal in terminals.values())
        return terminals


def _make_notes(session_id: str, terminals: Mapping[str, Terminal]) -> list[TranscriptEffect]:
    for terminal in terminals.values():
        if terminal.is_shown:
            terminal.noted_size, terminal.has_news = len(terminal.output or ""), False
    return [
        RecordNote(
            session_id,
            {
                "type": NoteType.TERMINAL,
                "terminalId": id,
                "output": terminal.output,
                "truncated": terminal.is_truncated,
                "exitStatus": terminal.exit_status,
                "final": terminal.is_final or terminal.is_released,
            },
        )
        for id, terminal in terminals.items()
        if terminal.is_shown
    ]


def _limit_exit_status(value: object) -> object:
    return value if len(jsonrpc.dump(value)) <= _EXIT_STATUS_LIMIT else None


def _find_terminal_ids(update: object) -> list[str]:
    """The ids of the terminals that a tool call's content refers to."""
    content = acp.member(update, "content")
    if not isinstance(content, list):
        return []
    ids = [acp.text(item, "terminalId") for item in content if acp.text(item, "type") == "terminal"]
    return [id for id in ids if id is not None]
