"""Makes the plans of how a request to open a session is served, before the agent is asked: from its capabilities, the
store and the options. If too many are open, ``LoadStarter`` lets it pass or refuses it instead.

A plan never changes, but what happens later may override it: ``Load.decision`` says what overrides its rule,
``Load.imports_replay`` what overrides ``may_import``.

docs/transparency.md says who answers what.
"""

import enum

from msgspec import Struct

from acp_proxy.comparison.whose_past import PastDecision, PastRule
from acp_proxy.decisions import capabilities
from acp_proxy.decisions.capabilities import AGENT, ALWAYS, NEVER, STORE, HandoverMode, Modes
from acp_proxy.decisions.events import SessionLookedUp
from acp_proxy.protocol import acp


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
    rule: PastRule | None = None
    """The rule that decides whose past the client sees, if that is known before the agent is asked."""
    shows_past: bool = True
    """False for a resume that acp-proxy serves, and for a prompt that is sent again: the client has the past on the
    screen. True for a resume that passes, whose client gets what the agent sends."""
    may_import: bool = False
    """A transcript may begin with what the agent sends, unless there is one when it answers."""
    keeps_our_id: bool = True
    """If the agent answers with another session id, the client keeps ours."""
    handover_mode: HandoverMode = NEVER
    """Whether the session continues in a new one if the agent refuses."""
    agent_must_catch_up: bool = False
    """The agent's session lacks turns of other machines, and the next prompt carries a record of them."""

    def __post_init__(self) -> None:
        assert self.shows_past or self.rule is not None, "``choose_past`` finds rules for the others only"

    @property
    def passes_at_once(self) -> bool:
        """Whether what the agent sends goes to the client at once. Otherwise it waits until it is decided whose past
        the client sees."""
        return self.rule is PastRule.PASSES

    def decide_by(self, rule: PastRule) -> PastDecision:
        """Whose past the client of this plan sees if ``rule`` holds."""
        return rule.decide(shows_past=self.shows_past)


FORK_PLAN = LoadPlan(acp.FORK, rule=PastRule.PASSES)
"""The plan of a fork. Its load begins with the agent's answer, so nothing is left to decide."""
RESEND_PLAN = LoadPlan(acp.NEW, rule=PastRule.HANDED_OVER, shows_past=False)
"""The plan for a prompt that the agent refused, not knowing the session: a new one, which gets the prompt again."""


def plan_passing(method: str, *, keeps_our_id: bool = True) -> LoadPlan:
    """The plan for a request that passes as it is, since acp-proxy does not serve it, or too many are open.
    ``keeps_our_id``: if the agent answers with another session id, the client keeps ours."""
    return LoadPlan(method, rule=PastRule.PASSES, keeps_our_id=keeps_our_id)


def plan_load(
    method: str, session: SessionLookedUp, served_by_agent: frozenset[str], modes: Modes, *, is_in_turn: bool
) -> LoadPlan | Refusal | None:
    """The plan for a request to open a session. None: acp-proxy does not serve it.

    ``method``: ``session/load`` or ``session/resume``. ``served_by_agent``: what the agent serves
    itself. ``is_in_turn``: a turn of the session is under way.
    """
    if (
        session.agent_has_no_session
        and not is_in_turn
        and (modes.load if method == acp.LOAD else modes.resume) != AGENT
    ):
        new_session_plan = LoadPlan(
            acp.NEW, rule=PastRule.HANDED_OVER, shows_past=method == acp.LOAD, handover_mode=ALWAYS
        )
        return new_session_plan if modes.handover != NEVER else Refusal.NO_HANDOVER
    # A session that the agent is behind of counts as handed over, too (``SessionLookedUp``).
    must_catch_up = session.agent_is_behind and not is_in_turn and modes.handover != NEVER
    if method != acp.LOAD:
        return _plan_session_resume(served_by_agent, modes, must_catch_up=must_catch_up)
    return _plan_session_load(session, served_by_agent, modes, is_in_turn=is_in_turn, must_catch_up=must_catch_up)


def _plan_session_resume(served_by_agent: frozenset[str], modes: Modes, *, must_catch_up: bool) -> LoadPlan:
    """The plan for a ``session/resume`` of a session that the agent has, or is asked for anyway. ``must_catch_up``: its
    session lacks turns."""
    can_resume = capabilities.RESUME in served_by_agent
    if must_catch_up and can_resume and modes.resume != AGENT:
        return LoadPlan(acp.RESUME, rule=PastRule.HANDED_OVER, shows_past=False, agent_must_catch_up=True)
    if can_resume or modes.resume != STORE:
        return plan_passing(acp.RESUME)
    # The rule hides the agent's replay; a client that resumes gets none in its place.
    return LoadPlan(acp.LOAD, rule=PastRule.BY_OPTION, shows_past=False, agent_must_catch_up=must_catch_up)


def _plan_session_load(
    session: SessionLookedUp,
    served_by_agent: frozenset[str],
    modes: Modes,
    *,
    is_in_turn: bool,
    must_catch_up: bool,
) -> LoadPlan | Refusal | None:
    """The plan for a ``session/load`` of a session that the agent has, or is asked for anyway, or of which nothing is
    known."""
    if modes.load == AGENT:
        return plan_passing(acp.LOAD)
    can_load, can_resume = capabilities.LOAD in served_by_agent, capabilities.RESUME in served_by_agent
    handover_rule = PastRule.HANDED_OVER if session.agent_lacks_past else None
    handover_mode = modes.handover if session.has_transcript else NEVER
    # In a turn, the agent has the session open. It cannot replay what was said before a handover, or anything. To open
    # a new session would leave the turn behind: the client's cancel would go to the new one. What an agent sends for a
    # resume, nobody could tell from the turn.
    lacks_replay = session.agent_lacks_past or not can_load
    if is_in_turn and lacks_replay and session.has_transcript:
        return LoadPlan(None, rule=PastRule.HANDED_OVER if session.agent_lacks_past else PastRule.IN_TURN)
    if can_load:
        if is_in_turn or not session.has_transcript:
            return LoadPlan(
                acp.LOAD,
                rule=PastRule.PASSES,
                may_import=not session.has_transcript and not is_in_turn and session.errno_name is None,
            )
        if modes.load == STORE and session.is_complete:
            agent_method = acp.RESUME if can_resume else acp.LOAD
            return LoadPlan(
                agent_method,
                rule=PastRule.BY_OPTION,
                handover_mode=handover_mode,
                agent_must_catch_up=must_catch_up,
            )
        return LoadPlan(acp.LOAD, rule=handover_rule, handover_mode=handover_mode, agent_must_catch_up=must_catch_up)
    if can_resume:
        return LoadPlan(acp.RESUME, rule=handover_rule, handover_mode=handover_mode, agent_must_catch_up=must_catch_up)
    if modes.handover == NEVER:
        return None
    return (
        LoadPlan(acp.NEW, rule=PastRule.HANDED_OVER, handover_mode=ALWAYS)
        if session.has_transcript
        else Refusal.NOT_FOUND
    )
