"""``state.jsonl``: one line per delete and per lifted delete, for one agent. The truth about what was deleted.

Appending is one ``write``; several processes append. Reading skips what is damaged. A transcript is removed, and a
deleted session lives again, only by who holds ``alone``: so no file is removed that was made behind a lifted delete.
"""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from acp_proxy.transcripts.access import lock, open_private, read_at
from acp_proxy.wire import acp, jsonrpc, remains
from acp_proxy.wire.remains import Piece

DELETED, LIFTED = "deleted", "lifted"
_START = re.compile(rb'\{"at":"[^"]*","event":"')


class Journal:
    """The deleted sessions of one agent, as all processes know them."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: tuple[tuple[int, int], frozenset[str]] | None = None

    @contextmanager
    def alone(self, *, wait: bool = True) -> Iterator[None]:
        """For the moment, no other process does what this is held for. Raises OSError (BlockingIOError: one does)."""
        fd = open_private(self._path, os.O_RDWR | os.O_CREAT)
        try:
            lock(fd, wait=wait)
            yield
        finally:
            os.close(fd)

    def append(self, event: str, session: str, at: str) -> None:
        """Raises OSError."""
        fd = open_private(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
        try:
            size = os.fstat(fd).st_size
            torn = size > 0 and read_at(fd, 1, size - 1) != b"\n"
            line = jsonrpc.dump({"at": at, "event": event, "sessionId": session}) + b"\n"
            data = b"\n" + line if torn else line
            if os.write(fd, data) != len(data):
                raise OSError(28, "No space left on device")
        finally:
            os.close(fd)

    def sync(self) -> None:
        """What was appended is on the disk when this returns. Raises OSError."""
        fd = open_private(self._path, os.O_RDWR)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def deleted(self) -> frozenset[str]:
        """Ids of the sessions that are deleted now. Raises OSError."""
        try:
            found = os.stat(self._path)
        except FileNotFoundError:
            return frozenset()
        now = found.st_ino, found.st_size
        if self._known is None or self._known[0] != now:
            deleted: set[str] = set()
            for event, session in self._events():
                (deleted.add if event == DELETED else deleted.discard)(session)
            self._known = now, frozenset(deleted)
        return self._known[1]

    def _events(self) -> Iterator[tuple[str, str]]:
        fd = open_private(self._path, os.O_RDONLY)
        with os.fdopen(fd, "rb") as file:
            for line in file.read().split(b"\n"):
                yield from (piece.value for piece in events_in(line))


def events_in(line: bytes) -> list[Piece[tuple[str, str]]]:
    """The intact events of a line, and the sessions they are about: one, or what stands beside damage."""
    event = _event(line)
    if event is not None:
        return [Piece(0, len(line.rstrip(b"\r\n")), event)]
    return remains.pieces(line, _START, _event)


def _event(line: bytes) -> tuple[str, str] | None:
    try:
        value = jsonrpc.parse(line)
    except (ValueError, RecursionError):
        return None
    event, session = acp.text(value, "event"), acp.session_id(value)
    return (event, session) if event in (DELETED, LIFTED) and session is not None else None
