"""Makes all plans of how a request to open a session is served, before the agent is asked: from its capabilities, the
store and the options.

A plan never changes, but what happens later may override it in the ``Load``:

- Too much waits, or a prompt comes: what was to wait passes.
- The agent was asked for a new session instead: ``fixed_rule`` is ``HANDED_OVER``.
- A prompt comes, or there is a transcript by now: ``is_import`` is False.

docs/transparency.md says who answers what.
"""

import enum

from msgspec import Struct

from acp_proxy.comparison.choose_past import Rule
from acp_proxy.protocol import acp
from acp_proxy.proxy import capabilities
from acp_proxy.proxy.capabilities import AGENT, ALWAYS, NEVER, STORE, HandoverMode, Modes
from acp_proxy.proxy.events import SessionFound


class Refusal(enum.Enum):
    """Why a request is refused: the text of the error. That of ``NOT_FOUND`` names the session."""

    NOT_FOUND = "Session not found"
    TOO_MANY = "Too many sessions are being opened at once. Try again when one of them is open."
    NO_HANDOVER = (
        "This session comes from another agent or machine, and continuing it here is a handover. "
        "Start acp-proxy without --handover never."
    )


class LoadPlan(Struct, frozen=True):
    """How a request is served."""

    agent_method: str | None
    """The method that goes to the agent; None: it is not asked, since it has the session open in a turn."""
    passes_at_once: bool = False
    """What the agent sends goes to the client at once. Otherwise it waits until a rule decides whose past the client
    sees."""
    fixed_rule: Rule | None = None
    """The rule, if it is decided before the agent is asked."""
    wants_past: bool = True
    """False only for a resume that acp-proxy serves: that goes on, and the client has the past on the screen."""
    may_import: bool = False
    """A transcript may begin with what the agent sends, unless there is one when it answers."""
    renames: bool = True
    """If the agent answers with another session id, the client keeps its own."""
    handover_mode: HandoverMode = NEVER
    """Whether the session continues in a new one if the agent refuses."""
    catches_up: bool = False
    """The agent's session lacks turns of other machines, and the next prompt carries a record of them."""


FORKED = LoadPlan(acp.FORK, passes_at_once=True)
"""The plan of a fork. Its load begins with the agent's answer, so nothing is left to decide."""
PROMPTED_ANEW = LoadPlan(acp.NEW, fixed_rule=Rule.HANDED_OVER)
"""The plan for a prompt that the agent refused, not knowing the session: a new one, which gets the prompt again."""


def plan_passing(method: str, *, renames: bool = True) -> LoadPlan:
    """The plan for a request that passes as it is, since acp-proxy does not serve it, or too many are open.
    ``renames``: as for ``LoadPlan``."""
    return LoadPlan(method, passes_at_once=True, renames=renames)


def plan_load(
    method: str, session: SessionFound, served_by_agent: frozenset[str], modes: Modes, *, is_in_turn: bool
) -> LoadPlan | Refusal | None:
    """The plan for a request to open a session. None: acp-proxy does not serve it.

    ``method``: ``session/load`` or ``session/resume``. ``served_by_agent``: what the agent serves
    itself. ``is_in_turn``: a turn of the session is under way.
    """
    handover_mode = modes.handover if session.has_transcript else NEVER
    fixed_rule = Rule.HANDED_OVER if session.agent_has_only_part else None
    if session.is_copy and not is_in_turn and (modes.load if method == acp.LOAD else modes.resume) != AGENT:
        new_session_plan = LoadPlan(acp.NEW, fixed_rule=fixed_rule, wants_past=method == acp.LOAD, handover_mode=ALWAYS)
        return new_session_plan if modes.handover != NEVER else Refusal.NO_HANDOVER
    can_load, can_resume = capabilities.LOAD in served_by_agent, capabilities.RESUME in served_by_agent
    is_behind = session.is_behind and not is_in_turn and modes.handover != NEVER
    if method != acp.LOAD:
        if is_behind and can_resume and modes.resume != AGENT:
            return LoadPlan(method, fixed_rule=fixed_rule, wants_past=False, catches_up=True)
        if can_resume or modes.resume != STORE:
            return plan_passing(method)
        return LoadPlan(acp.LOAD, fixed_rule=Rule.ASKED_FOR, wants_past=False, catches_up=is_behind)
    if modes.load == AGENT:
        return plan_passing(acp.LOAD)
    # In a turn, the agent has the session open. It cannot replay what was said before a handover, or anything. To open
    # a new session would leave the turn behind: the client's cancel would go to the new one. What an agent sends for a
    # resume, nobody could tell from the turn.
    lacks_replay = session.agent_has_only_part or not can_load
    if is_in_turn and lacks_replay and session.has_transcript and session.trouble is None:
        return LoadPlan(None, fixed_rule=Rule.HANDED_OVER if session.agent_has_only_part else Rule.IN_TURN)
    if can_load:
        if is_in_turn or session.trouble is not None or not session.has_transcript:
            return LoadPlan(
                acp.LOAD,
                passes_at_once=True,
                may_import=not session.has_transcript and not is_in_turn and session.trouble is None,
            )
        if modes.load == STORE and session.is_complete:
            agent_method = acp.RESUME if can_resume else acp.LOAD
            return LoadPlan(agent_method, fixed_rule=Rule.ASKED_FOR, handover_mode=handover_mode, catches_up=is_behind)
        return LoadPlan(acp.LOAD, fixed_rule=fixed_rule, handover_mode=handover_mode, catches_up=is_behind)
    if can_resume:
        return LoadPlan(acp.RESUME, fixed_rule=fixed_rule, handover_mode=handover_mode, catches_up=is_behind)
    if modes.handover == NEVER:
        return None
    return (
        LoadPlan(acp.NEW, fixed_rule=Rule.HANDED_OVER, handover_mode=ALWAYS)
        if session.has_transcript
        else Refusal.NOT_FOUND
    )
