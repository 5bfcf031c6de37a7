"""Lines too long to hold in memory: the state of each while its pieces are written, by session.

Other entries of the session wait for the line's end, in bounded memory: if they become too many, the line is given up.
"""

from collections.abc import Callable

from acp_proxy.protocol.jsonrpc import Peer
from acp_proxy.proxy.effects import IdentifyAgent, ProtocolVersion, Recording, RecordPiece
from acp_proxy.recording.backlog import PATIENCE_BYTES, Dropped, Timed, size_of
from acp_proxy.recording.files import OpenTranscripts, RecordedSession


class LongLine:
    """A long line that has not ended.

    ``held``: all its pieces, if another process appends to the same file, or if secrets are masked, as one may span two
    pieces. None: each piece is written as it comes.
    """

    def __init__(self, session: str, peer: Peer, held: list[bytes] | None) -> None:
        self.session = session
        self.peer = peer
        self.held = held
        self.behind: list[Timed] = []
        """The session's other entries, which wait."""
        self.behind_bytes = 0


class LongLines(dict[str, LongLine]):
    """The unfinished long lines by session."""

    def __init__(self, files: OpenTranscripts, *, holds: bool) -> None:
        """``holds``: write no line before its end."""
        super().__init__()
        self._files = files
        self._holds = holds

    def put(self, known: RecordedSession, piece: RecordPiece, data: bytes, write: Callable[[bytes], None]) -> None:
        """Write or hold a piece of a long line; ``data``: its entry's bytes.

        ``write``: writes whole lines, after a gap note if one is due. Raises OSError.
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
        """The long line that must end before this effect can be written, or None."""
        if isinstance(effect, IdentifyAgent | ProtocolVersion | Dropped):
            return None
        if (line := self.get(effect.session)) is None:
            return None
        return None if isinstance(effect, RecordPiece) and effect.peer is line.peer else line

    def wait(self, line: LongLine, seconds: float, effect: Recording | Dropped) -> list[Timed]:
        """Let an effect wait for a long line; if too much waits, give the line up and return what waited."""
        line.behind.append((seconds, effect))
        line.behind_bytes += size_of(effect)
        if line.behind_bytes <= PATIENCE_BYTES:
            return []
        return [(seconds, Dropped(line.session)), *self.ended(line.session)]

    def ended(self, session: str) -> list[Timed]:
        """End a session's long line; returns what waited for it."""
        line = self.pop(session, None)
        return line.behind if line is not None else []
