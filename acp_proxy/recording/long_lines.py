"""Lines that are too long to be held: what is known of each while its pieces are written down, by session.

What else is kept of that session waits for the line's end, in bounded memory: of too much the line is given up.
"""

from collections.abc import Callable

from acp_proxy.core.effects import IdentifyAgent, Recording, RecordPiece
from acp_proxy.recording.backlog import PATIENCE_BYTES, Dropped, Timed, size_of
from acp_proxy.recording.files import Files, Known
from acp_proxy.wire.jsonrpc import Peer


class LongLine:
    """``held``: all of its pieces, where another process appends to the same file, or where secrets are masked, which
    may lie across two of them. None: each is written as it comes."""

    def __init__(self, session: str, peer: Peer, held: list[bytes] | None) -> None:
        self.session = session
        self.peer = peer
        self.held = held
        self.behind: list[Timed] = []
        """What is kept of the session meanwhile."""
        self.behind_bytes = 0


class LongLines(dict[str, LongLine]):
    def __init__(self, files: Files, *, holds: bool) -> None:
        """``holds``: none is written before its end."""
        super().__init__()
        self._files = files
        self._holds = holds

    def put(self, known: Known, piece: RecordPiece, data: bytes, write: Callable[[bytes], None]) -> None:
        """A piece, and how it is written down. ``write``: whole lines, behind what there is to note before them.

        Raises OSError.
        """
        line = self.get(piece.session)
        if line is None:
            write(b"")
            is_held = self._holds or not self._files.transcript(known).claim()
            line = self[piece.session] = LongLine(piece.session, piece.peer, [] if is_held else None)
        if line.held is None:
            self._files.transcript(known).append_piece(data, last=piece.last)
            return
        line.held.append(data)
        if piece.last:
            write(b"".join(line.held))

    def before(self, effect: Recording | Dropped) -> LongLine | None:
        """The long line of its session whose end this waits for."""
        if isinstance(effect, IdentifyAgent | Dropped) or (line := self.get(effect.session)) is None:
            return None
        return None if isinstance(effect, RecordPiece) and effect.peer is line.peer else line

    def wait(self, line: LongLine, seconds: float, effect: Recording | Dropped) -> list[Timed]:
        """Behind a long line; if too much waits there, the line is given up, and what waited is returned."""
        line.behind.append((seconds, effect))
        line.behind_bytes += size_of(effect)
        if line.behind_bytes <= PATIENCE_BYTES:
            return []
        return [(seconds, Dropped(line.session)), *self.ended(line.session)]

    def ended(self, session: str) -> list[Timed]:
        """What waited for the end of its long line, if there was one."""
        line = self.pop(session, None)
        return line.behind if line is not None else []
