"""The terminals that clients run for agents: what is known of them, and when that is noted.

A terminal is noted at the end of the turn in which a tool call shows it; one that runs on is noted again when more is
known of it. docs/transcript-format.md has the note.
"""

from collections.abc import Mapping

from acp_proxy.core.effects import Recording, RecordNote
from acp_proxy.wire import acp, jsonrpc, record
from acp_proxy.wire.value import Value

SHOWN_LIMIT = 64 * 1024 * 1024
"""Bytes of terminals' outputs that wait for the end of their turns. What is beyond is not kept, and replays say so."""


_TERMINAL = 512  # the same, of a terminal
_EXIT_STATUS = 4096  # as JSON: more is no exit status


class Terminal(Value, frozen=False):
    """A command that the client runs for the agent; ``shown`` when a tool call refers to it. ``has_news``: something
    is known of it that was not noted. ``released``: the agent has let go of it."""

    output: str | None = None
    truncated: bool = False
    exit_status: object = None
    shown: bool = False
    has_news: bool = False
    released: bool = False

    @property
    def size(self) -> int:
        return _TERMINAL + len(self.output or "")


class SessionTerminals:
    """Those of one session."""

    def __init__(self) -> None:
        self.open: dict[str, Terminal] = {}
        """Those that a tool call may still refer to."""
        self.running: dict[str, Terminal] = {}
        """Those that were shown in earlier turns, and whose commands may still write."""

    def refer(self, update: object) -> None:
        """An update of a tool call may show some of them."""
        for item in _shown(update) if self.open else ():
            if item in self.open:
                self.open[item].shown = True


class Terminals:
    """Those of all sessions, within ``SHOWN_LIMIT``."""

    def __init__(self) -> None:
        self._shown_size = 0

    def answered(self, known: SessionTerminals, method: str, params: object, result: object) -> None:
        """What the client told the agent about a terminal."""
        terminals, running = known.open, known.running
        if method == acp.TERMINAL_CREATE:
            if (id := acp.text(result, "terminalId")) is not None and self._has_room(_TERMINAL):
                self._dropped({id: terminals[id]} if id in terminals else {})
                terminals[id] = Terminal()
                self._shown_size += _TERMINAL
            return
        id = acp.text(params, "terminalId") or ""
        if (found := terminals.get(id) or running.get(id)) is None:
            return
        if method == acp.TERMINAL_OUTPUT and (output := acp.text(result, "output")) is not None:
            self._shown_size -= len(found.output or "")
            found.has_news = True
            found.output = output if self._has_room(len(output)) else None
            self._shown_size += len(found.output or "")
            found.truncated = acp.member(result, "truncated") is True
            found.exit_status = _exit_status(acp.member(result, "exitStatus")) or found.exit_status
        elif method == acp.TERMINAL_WAIT and isinstance(result, Mapping):
            found.exit_status = _exit_status({key: result.get(key) for key in ("exitCode", "signal")})

    def released(self, session: str, known: SessionTerminals, params: object) -> list[Recording]:
        """The last that will be known of it."""
        id = acp.text(params, "terminalId") or ""
        if id in known.open and not known.open[id].shown:
            known.open[id].released = True  # a tool call may show it until the turn ends
            return []
        found = known.open.pop(id, None)
        if found is None and (found := known.running.pop(id, None)) is not None and not found.has_news:
            self._dropped({id: found})
            return []
        return _terminal_notes(session, self._dropped({id: found})) if found is not None else []

    def noted(self, session: str, known: SessionTerminals) -> list[Recording]:
        """What is known of the terminals now. Those that run on are noted again when more is known of them."""
        shown = {id: found for id, found in known.open.items() if found.shown}
        self._dropped({id: found for id, found in known.open.items() if found.released and not found.shown})
        known.open = {id: found for id, found in known.open.items() if not (found.shown or found.released)}
        notes = _terminal_notes(session, shown | {id: found for id, found in known.running.items() if found.has_news})
        known.running |= {id: found for id, found in shown.items() if not found.released}
        over = {id: found for id, found in known.running.items() if found.exit_status is not None}
        over |= {id: found for id, found in shown.items() if found.released}
        self._dropped(over)
        known.running = {id: found for id, found in known.running.items() if id not in over}
        for found in known.running.values():  # what was noted takes no room any more
            self._shown_size -= len(found.output or "")
            found.output, found.has_news = None, False
        return notes

    def forget(self, known: SessionTerminals) -> None:
        """Nothing is asked about these any more."""
        self._dropped(known.open | known.running)

    def _has_room(self, size: int) -> bool:
        return self._shown_size + size <= SHOWN_LIMIT

    def _dropped(self, terminals: dict[str, Terminal]) -> dict[str, Terminal]:
        """These are not kept any more."""
        self._shown_size -= sum(each.size for each in terminals.values())
        return terminals


def _terminal_notes(session: str, terminals: Mapping[str, Terminal]) -> list[Recording]:
    return [
        RecordNote(
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
