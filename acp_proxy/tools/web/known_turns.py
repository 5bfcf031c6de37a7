"""Where the turns of a transcript begin, and their topics: a late turn is read without those before it."""

import threading
from collections import OrderedDict

from msgspec import Struct

from acp_proxy.tools.export.hide_home import HomeHider
from acp_proxy.tools.search.turn_text import BEGINNING, TurnReader, TurnStart
from acp_proxy.transcript.reader import TranscriptReader
from acp_proxy.transcript.titles import clean
from acp_proxy.views.formatting import strip_markdown

_TOPIC_LENGTH = 100
"""The most characters of a topic."""
_MOST_TRANSCRIPTS = 8
"""The most transcripts whose turns are kept: those that a reader goes back and forth in."""


class FoundTurn(Struct, frozen=True):
    """A turn of a transcript. ``start``: where to read to get it; earlier ones may come before it."""

    number: int
    start: TurnStart
    topic: str


class _ReadTurns(Struct, frozen=True):
    """What was read of a transcript. ``inode``: the file's. ``size``: how far it was read. ``last_start``: as
    in ``TurnReader``."""

    inode: int
    size: int
    last_start: TurnStart
    turns: list[FoundTurn]


class KnownTurns:
    """The turns of the transcripts that were read last. What a transcript has got since is read when one asks."""

    def __init__(self, most: int = _MOST_TRANSCRIPTS) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._read_turns: OrderedDict[tuple[str, str], _ReadTurns] = OrderedDict()

    def list_turns(self, agent_folder: str, name: str, reader: TranscriptReader, hider: HomeHider) -> list[FoundTurn]:
        """The turns of this transcript, the first one first. Raises OSError."""
        with self._lock:
            read_before = self._read_turns.pop((agent_folder, name), None)
        if read_before is None or read_before.inode != reader.inode or read_before.size > reader.size:
            read_before = _ReadTurns(reader.inode, 0, BEGINNING, [])
        turn_reader = TurnReader(read_before.last_start)
        turns = read_before.turns[: read_before.last_start.turns]
        for turn in turn_reader.read(reader):
            text = (turn.prompt or turn.texts[0]).strip()[: _TOPIC_LENGTH * 100]
            topic = strip_markdown(clean(hider.hide(text).split("\n")[0], _TOPIC_LENGTH) or "")
            start_of_last = turns[-1].start if turns else BEGINNING  # what comes before the first turn is told in it
            start = turn.start if turn.is_independent and turns else start_of_last
            turns.append(FoundTurn(turn.number, start, topic or f"Turn {turn.number}"))
        with self._lock:
            self._read_turns[agent_folder, name] = _ReadTurns(
                reader.inode, turn_reader.read_size, turn_reader.last_start, turns
            )
            while len(self._read_turns) > self._most:
                self._read_turns.popitem(last=False)
        return turns
