"""How a request to open a session is served: one table, from what the agent offers, what we have and what is wished.

Pure. Source: design, "Who answers what", "session/load and session/resume", "Handover".
"""

import enum

from acp_proxy.core.capabilities import AGENT, ALWAYS, LOAD, NEVER, RESUME, STORE, Modes
from acp_proxy.core.events import Found
from acp_proxy.wire import acp
from acp_proxy.wire.value import Value


class Past(enum.Enum):
    """What becomes of what the agent tells of the past before it answers."""

    DROPPED = "ours is told"
    TOLD = "it is what is told; ours only if that is complete, or if there is none of it"
    WEIGHED = "the fuller of the two is told"
    IMPORTED = "it passes, and begins the transcript that we lack"


class Refused(enum.Enum):
    NOT_FOUND = "neither the agent nor we have anything of it"
    TOO_MANY = "very many are being opened at once"


class Plan(Value):
    """``sends``: the method that goes to the agent. ``tells``: whether ours is told at all.
    ``hands_over``: if the agent refuses, the session is handed over."""

    sends: str
    past: Past
    tells: bool = True
    hands_over: bool = False


def plan(
    method: str, found: Found, native: frozenset[str], modes: Modes, *, live: bool, moved: bool
) -> Plan | Refused | None:
    """What is done about a request to open a session; None: it passes as it came.

    ``live``: a turn of it is under way. ``moved``: it was handed over in this process.
    """
    always = modes.handover == ALWAYS and found.held
    if method == acp.RESUME:
        wanted = RESUME not in native and modes.resume == STORE
        return Plan(acp.LOAD, Past.DROPPED, tells=False) if wanted else None
    if modes.load == AGENT:
        return None
    if moved and found.held:
        return Plan(acp.NEW, Past.DROPPED)
    if LOAD in native:
        return _native(found, native, modes, live=live, always=always)
    if RESUME in native:
        return Plan(acp.RESUME, Past.TOLD, hands_over=always)
    if modes.handover == NEVER:
        return None
    return Plan(acp.NEW, Past.DROPPED) if found.held else Refused.NOT_FOUND


def _native(found: Found, native: frozenset[str], modes: Modes, *, live: bool, always: bool) -> Plan | None:
    if live or found.trouble is not None:
        return None
    if modes.load == STORE and found.complete:
        return Plan(acp.RESUME if RESUME in native else acp.LOAD, Past.DROPPED, hands_over=always)
    if found.complete or always:
        return Plan(acp.LOAD, Past.WEIGHED, hands_over=always)
    return None if found.held else Plan(acp.LOAD, Past.IMPORTED)
