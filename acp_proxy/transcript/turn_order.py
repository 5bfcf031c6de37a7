"""Reads the turns of a transcript one after another, where two connections prompted the session at the same time.

Entries are recorded in the order in which they came, so the answers to two such prompts lie between each other, chunk
by chunk. No reader can follow that, and clients join adjacent chunks.
"""

from collections.abc import Iterable, Iterator

from acp_proxy.protocol import acp
from acp_proxy.transcript.file_format import ACP_V1, Entry, NoteType
from acp_proxy.transcript.reader import AlikeLines, Line

WAITING_LIMIT = 16 * 1024 * 1024
"""The most bytes of lines that wait for the end of a turn: far more than is said while two turns run."""


def order_turns(lines: Iterable[Line | AlikeLines]) -> Iterator[Line | AlikeLines]:
    """The lines, where those of other connections wait for the end of the turn that was begun last, or for the next
    prompt. Prompts keep their order, and so do the lines of each connection.

    Turns of version 2 stay as they are: there, each message has an id, by which clients keep them apart.
    """
    turn = _OpenTurns("")
    waiting: list[Line | AlikeLines] = []
    waiting_size = end = 0
    waits = False
    for line in lines:
        if isinstance(line, Line):  # lines alike belong to the connection of the line before them
            entry = line.entry
            if entry is not None and _ends_wait(entry):
                yield from waiting
                waiting, waiting_size = [], 0
                turn = turn if entry.is_prompt and entry.run == turn.run else _OpenTurns(entry.run)
            waits = entry is not None and turn.is_open and entry.run != turn.run
            if entry is not None and not waits:
                turn.note(entry)
        if waits:
            waiting.append(line)
            waiting_size += line.end - end
        else:
            yield line
        end = line.end
        if not turn.is_open or waiting_size > WAITING_LIMIT:
            yield from waiting
            waiting, waiting_size = [], 0
    yield from waiting


class _OpenTurns:
    """The turns of one connection that have not ended; several if prompts wait in the agent's queue."""

    def __init__(self, run: str) -> None:
        self.run = run
        self._prompts: set[tuple[str, bytes]] = set()
        """By ``Entry.request_key``."""

    @property
    def is_open(self) -> bool:
        return bool(self._prompts)

    def note(self, entry: Entry) -> None:
        """Note an entry of this connection, or of any while no turn is open."""
        if entry.is_prompt and entry.protocol_version == ACP_V1:
            self._prompts.add(entry.request_key)
        elif entry.answered_method == acp.PROMPT:
            self._prompts.discard(entry.request_key)
        elif entry.note is not None and entry.note.get("type") == NoteType.FAILED:
            self._prompts.clear()


def _ends_wait(entry: Entry) -> bool:
    """Whether nothing of what came before waits any longer: at a prompt, in a part of version 2, and in a fork, in
    which the parent's open prompts are never answered."""
    if entry.note is not None:
        return entry.note.get("type") == NoteType.OPENED and entry.note.get("method") == acp.FORK
    return entry.is_prompt or entry.protocol_version != ACP_V1
