"""How a request to open a session is served: one table, from what the agent offers, what we have and what is wished.

Pure. docs/transparency.md says who answers what.
"""

import enum

from acp_proxy.core.capabilities import AGENT, ALWAYS, LOAD, NEVER, RESUME, STORE, Modes
from acp_proxy.core.events import SessionFound
from acp_proxy.history.verdict import Rule
from acp_proxy.wire import acp
from acp_proxy.wire.value import Value


class Refusal(enum.Enum):
    NOT_FOUND = "neither the agent nor we have anything of it"
    TOO_MANY = "very many are being opened at once"


class OpeningPlan(Value):
    """``sends``: the method that goes to the agent.

    ``passes``: what the agent tells goes to the client as it comes; else it waits until it is decided whose replay the
    client sees. ``rule``: that is decided already. ``shows``: the client wants to see a replay at all. ``imports``:
    what the agent tells begins a transcript. ``renames``: the client keeps its id where the agent answers with another.
    ``hands_over``: when the agent refuses, the session goes on in a new one:
    ``auto`` (where the agent does not know it), ``always`` (unless it wants a login) or ``never``.
    """

    sends: str
    passes: bool = False
    rule: Rule | None = None
    shows: bool = True
    imports: bool = False
    renames: bool = True
    hands_over: str = NEVER


def plan(
    method: str, found: SessionFound, native: frozenset[str], modes: Modes, *, live: bool
) -> OpeningPlan | Refusal | None:
    """What is done about a request to open a session. None: it is not served.

    ``live``: a turn of it is under way.
    """
    hands_over = modes.handover if found.has_transcript else NEVER
    rule = Rule.HANDED_OVER if found.moved else None
    if method != acp.LOAD:
        if RESUME in native or modes.resume != STORE or method != acp.RESUME:
            return OpeningPlan(method, passes=True)
        return OpeningPlan(acp.LOAD, rule=Rule.ASKED_FOR, shows=False)
    if modes.load == AGENT:
        return OpeningPlan(acp.LOAD, passes=True)
    if LOAD in native:
        if live or found.trouble is not None or not found.has_transcript:
            return OpeningPlan(
                acp.LOAD, passes=True, imports=not found.has_transcript and not live and found.trouble is None
            )
        if modes.load == STORE and found.complete:
            sends = acp.RESUME if RESUME in native else acp.LOAD
            return OpeningPlan(sends, rule=Rule.ASKED_FOR, hands_over=hands_over)
        return OpeningPlan(acp.LOAD, rule=rule, hands_over=hands_over)
    if RESUME in native:
        return OpeningPlan(acp.RESUME, rule=rule, hands_over=hands_over)
    if modes.handover == NEVER:
        return None
    return OpeningPlan(acp.NEW, rule=Rule.HANDED_OVER, hands_over=ALWAYS) if found.has_transcript else Refusal.NOT_FOUND
