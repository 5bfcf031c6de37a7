"""Whether an agent's load tells all that was said: its own telling of a session against what was recorded of it.

Only a session that is complete here, not too large, without a failed or unfinished turn, and in a directory that is
there, is asked for. Asking costs no tokens, and makes no session: it is what an editor does that opens an old one.
"""

import os
from collections.abc import Iterator
from itertools import islice

from acp_proxy.errors import AcpProxyError
from acp_proxy.replay.fuller import Told, ours_is_fuller
from acp_proxy.replay.telling import Mode, Telling
from acp_proxy.shell.replaying import heard
from acp_proxy.transcripts.index import Listed
from acp_proxy.transcripts.reading import Reading
from acp_proxy.transcripts.store import Store
from acp_proxy.wire import acp
from acp_proxy.wire.value import Value

_MAX_BYTES = 16 * 1024 * 1024
"""Of a transcript: it is told three times while somebody waits."""
_LOOKED_AT = 20
_SPEAKERS = {acp.USER_CHUNK: "the user's words", acp.AGENT_CHUNK: "the agent's words"}

WHOLE, LOSES, OTHER = "whole", "loses", "other"


class Compared(Value):
    """``loses``: in words, what the agent's telling leaves out."""

    outcome: str
    loses: tuple[str, ...] = ()


def newest_session(store: Store, agent: str) -> tuple[Listed, Reading] | None:
    """The newest session of this agent that says something about its load, opened. Raises AcpProxyError."""
    rows = (row for row in store.sessions() if row.agent == agent and _is_suitable(row))
    for row in islice(rows, _LOOKED_AT):
        try:
            reading = store.open_listed(row)
        except (OSError, AcpProxyError):
            continue
        if _is_complete(reading):
            return row, reading
        reading.close()
    return None


def _is_complete(reading: Reading) -> bool:
    try:
        return reading.is_complete
    except OSError:
        return False


def _is_suitable(row: Listed) -> bool:
    return not row.failed and row.size <= _MAX_BYTES and row.cwd is not None and os.path.isdir(row.cwd)


def compare(row: Listed, reading: Reading, theirs: Told) -> Compared:
    """Raises OSError."""

    def ours(mode: Mode) -> Told:
        return heard(reading, Telling(row.session, run="", mode=mode, also=reading.also))

    compact = ours("compact")
    if ours_is_fuller(compact, theirs) or ours_is_fuller(ours("full"), theirs):
        return Compared(LOSES, tuple(_losses(compact, theirs)))
    same = all(_amount(compact, speaker) == _amount(theirs, speaker) for speaker in _SPEAKERS)
    return Compared(WHOLE if same and len(compact.tools) == len(theirs.tools) else OTHER)


def _losses(ours: Told, theirs: Told) -> Iterator[str]:
    for speaker, words in _SPEAKERS.items():
        if _amount(theirs, speaker) < _amount(ours, speaker):
            yield f"some of {words}" if _amount(theirs, speaker) else words
    lost = len(ours.tools) - len(theirs.tools)
    if lost > 0:
        yield f"{lost} of {len(ours.tools)} tool call{'s' if len(ours.tools) > 1 else ''}"


def _amount(told: Told, speaker: str) -> int:
    return sum(map(len, told.messages[speaker]))
