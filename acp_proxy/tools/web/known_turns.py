"""Where the turns of a transcript begin, and their topics: a late turn is read without those before it."""

import threading
from collections import OrderedDict

from msgspec import Struct

from acp_proxy.store.command_store import Reading
from acp_proxy.tools.export.hide_home import HomeHider
from acp_proxy.tools.search.turn_text import BEGINNING, TurnReader, TurnStart
from acp_proxy.transcript.titles import clean
from acp_proxy.views.formatting import strip_markdown

_TOPIC = 100
"""Characters of a topic."""
_MOST = 8
"""Transcripts whose turns are kept: those that a reader goes back and forth in."""


class FoundTurn(Struct, frozen=True):
    """``start``: where to read to get this turn; earlier ones may come before it."""

    number: int
    start: TurnStart
    topic: str


class _Known(Struct, frozen=True):
    """``inode``, ``size``: the file's, and how far it was read. ``last``, ``waiting``: as of ``TurnReader``."""

    inode: int
    size: int
    last: TurnStart
    waiting: tuple[tuple[str, str], ...]
    turns: list[FoundTurn]


class KnownTurns:
    """The turns of the transcripts that were read last. What a transcript has got since is read when one asks."""

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[str, str], _Known] = OrderedDict()

    def list_turns(self, agent_folder: str, name: str, reading: Reading, hider: HomeHider) -> list[FoundTurn]:
        """The turns of this transcript, the first one first. Raises OSError."""
        with self._lock:
            known = self._kept.pop((agent_folder, name), None)
        if known is None or known.inode != reading.inode or known.size > reading.size:
            known = _Known(reading.inode, 0, BEGINNING, (), [])
        reader, turns = TurnReader(known.last, known.waiting), known.turns[: known.last.turns]
        for turn in reader.read(reading):
            text = (turn.prompt or turn.texts[0]).strip()[: _TOPIC * 100]
            topic = strip_markdown(clean(hider.hide(text).split("\n")[0], _TOPIC) or "")
            before = turns[-1].start if turns else BEGINNING  # what comes before the first turn is told in it
            start = turn.start if turn.is_independent and turns else before
            turns.append(FoundTurn(turn.number, start, topic or f"Turn {turn.number}"))
        with self._lock:
            self._kept[agent_folder, name] = _Known(
                reading.inode, reader.read_size, reader.last_start, reader.unanswered_before, turns
            )
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)
        return turns
