"""Replays a transcript to a client of version 2, whatever version its parts are of.

A part of version 2 is replayed by ``V2Replayer``, and folded by ``V2Folder`` turn by turn if that is wanted. A part of
version 1 is replayed as to a client of version 1, and restated. A part ends where the next line is of the other
version. Notes belong to the part in which they are.

After a handover, the ids from before it are changed, since the agent's new session may use them again.
"""

from collections.abc import Iterable

from acp_proxy.protocol import acp
from acp_proxy.replay.replayer import Replayer
from acp_proxy.replay.v1_as_v2 import V1AsV2
from acp_proxy.replay.v2_folder import V2Folder
from acp_proxy.replay.v2_ids import prefix_ids
from acp_proxy.replay.v2_replayer import V2Replayer
from acp_proxy.transcript import file_format
from acp_proxy.transcript.chunk_runs import AlikeChunks
from acp_proxy.transcript.file_format import V1, Entry, NoteType


class V2ClientReplayer:
    """One replay. The methods are those of ``Replayer``."""

    def __init__(self, session: str, v1: Replayer, v2: V2Replayer, folding: V2Folder | None = None) -> None:
        """``v1``, ``v2``: of the same session, and new. ``folding``: folds parts of version 2."""
        self._folding = folding
        self._v1 = v1
        self._v2 = v2
        self._v1_as_v2 = V1AsV2(session)
        self._is_v1 = False
        self._handovers = 0
        self.handovers = 0
        """How many handovers the session has had, this one included."""

    def add(self, number: int, entry: Entry) -> list[bytes]:
        """Add the next entry. ``number``: its line in the transcript."""
        ready: list[bytes] = []
        is_v1 = entry.protocol == V1 if entry.peer is not None else self._is_v1
        begins_anew = _is_handover(entry)
        if is_v1 != self._is_v1 or begins_anew:
            ready = self._end(entry.run if begins_anew else None)
            self._is_v1 = is_v1
            self._handovers += begins_anew
        if is_v1:
            return ready + self._finish_lines(self._v1.add(number, entry))
        if acp.text(entry.value, "method") == acp.PROMPT:
            ready += self._finish_lines(self._end_turn())
        return ready + self._finish_lines(self._fold(self._v2.add(number, entry)))

    def add_chunks(self, number: int, stream: AlikeChunks) -> list[bytes]:
        """Add entries that equal the last one except for time and text. ``number``: the line of the last one."""
        if self._is_v1:
            return self._finish_lines(self._v1.add_chunks(number, stream))
        ready = self._folding.add_chunks(stream) if self._folding is not None else None
        return self._finish_lines(self._fold(self._v2.add_chunks(number, stream)) if ready is None else ready)

    def end(self) -> list[bytes]:
        """End the replay."""
        return self._end(None)

    def _end(self, sends_again: str | None) -> list[bytes]:
        """End the replay, or a part of it. ``sends_again``: the run whose open prompts belong to the next part."""
        if self._is_v1:
            return self._finish_lines(self._v1.end())
        return self._finish_lines([*self._fold(self._v2.end(sends_again=sends_again)), *self._end_turn()])

    def list_states(self) -> list[bytes]:
        """Nothing: in version 2 the agent itself has sent its state before its answer."""
        return []

    def _fold(self, lines: list[bytes]) -> list[bytes]:
        """Fold these lines of a turn, or return them if nothing is folded."""
        return self._folding.add(lines) if self._folding is not None else lines

    def _end_turn(self) -> list[bytes]:
        return self._folding.end_turn() if self._folding is not None else []

    def _finish_lines(self, lines: list[bytes]) -> list[bytes]:
        ready = self._v1_as_v2.convert(lines) if self._is_v1 else lines
        return prefix_ids(ready, f"acp-proxy-{self._handovers}-") if self._handovers < self.handovers else ready


def count_handovers(entries: Iterable[Entry | None]) -> int:
    """How many handovers these entries have begun."""
    return sum(1 for entry in entries if entry is not None and _is_handover(entry))


def _is_handover(entry: Entry) -> bool:
    note = entry.note or {}
    return note.get("type") == NoteType.OPENED and note.get(file_format.ANEW) is True
