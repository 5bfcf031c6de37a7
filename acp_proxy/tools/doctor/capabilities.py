"""What an agent offers, what acp-proxy adds to it, and why: an explanation of the decision in ``decisions/``. Pure."""

from dataclasses import dataclass

from acp_proxy.decisions import capabilities
from acp_proxy.decisions.capabilities import (
    AGENT,
    ALWAYS,
    ARCHIVE,
    AUTO,
    DELETE,
    LIST,
    LOAD,
    NEVER,
    RESUME,
    STATUS,
    STORE,
    TITLE,
    Modes,
    Offer,
)
from acp_proxy.protocol import acp

BY_PROXY, BY_AGENT, BY_NOBODY = "acp-proxy", "agent", "nobody"
_ORDER = (LIST, LOAD, RESUME, DELETE)
_DRAFTS = {TITLE: acp.SET_TITLE, ARCHIVE: acp.ARCHIVE, STATUS: acp.STATUS}


@dataclass(frozen=True, slots=True)
class Ability:
    """Who answers a request, and why."""

    name: str
    answered_by: str
    reason: str


def list_abilities(offer: Offer, modes: Modes, why_passive: str | None) -> list[Ability]:
    """Who answers each request that editors send about sessions. ``why_passive``: why acp-proxy adds nothing at all, or
    None."""
    if why_passive is None and offer.dialect is None:
        why_passive = capabilities.explain_unknown_version(offer)
    added = capabilities.choose_served_here(offer, modes) if why_passive is None else ()
    return [
        _find_ability(name, offer.served_by_agent, modes, added, why_passive)
        for name in (*_ORDER, *(_DRAFTS if modes.unstable else ()))
    ]


def _find_ability(
    name: str, served_by_agent: frozenset[str], modes: Modes, added: tuple[str, ...], why_passive: str | None
) -> Ability:
    if name in added:
        return Ability(name, BY_PROXY, _explain_added(name, served_by_agent, modes))
    if name in served_by_agent:
        return Ability(name, BY_AGENT, _EXPLAIN_NATIVE[name](modes) if why_passive is None else "the agent's own")
    return Ability(
        name, BY_NOBODY, why_passive if why_passive is not None else _explain_missing(name, served_by_agent, modes)
    )


def _explain_added(name: str, served_by_agent: frozenset[str], modes: Modes) -> str:
    if name in served_by_agent:
        return f"the agent has its own, but --{LIST if name == ARCHIVE else name} {STORE} is set"
    if name in _DRAFTS:
        return f"the agent has no {_DRAFTS[name]}, and --unstable is set"
    if name == RESUME:
        return f"uses the agent's load, because --resume {STORE} is set"
    if name != LOAD:
        return f"the agent has no session/{name}"
    if RESUME in served_by_agent:
        return "the agent can resume a session, but not show it; acp-proxy shows it"
    return "the agent can neither load nor resume; acp-proxy continues a session in a new one, with a record of it"


def _explain_missing(name: str, served_by_agent: frozenset[str], modes: Modes) -> str:
    if name == STATUS:
        return "the agent has none, and no session can be opened again"
    if name in _DRAFTS:
        return f"the agent has none, and --{LIST} {AGENT} is set"
    if name == RESUME:
        hint = f"; --resume {STORE} adds it" if LOAD in served_by_agent else ""
        return f"the agent has none; editors use session/load instead{hint}"
    if name == LOAD and getattr(modes, name) != AGENT and modes.handover == NEVER:
        return f"the agent can neither load nor resume, and --handover {NEVER} is set"
    return f"the agent has none, and --{name} {AGENT} is set"


def _explain_list(modes: Modes) -> str:
    return "the agent's own, without the sessions deleted here" if modes.list == AUTO else f"--list {AGENT} is set"


def _explain_load(modes: Modes) -> str:
    hint = "; if the agent refuses, a new session continues" if modes.handover == ALWAYS else ""
    match modes.load:
        case "auto":
            return f"the agent's own; if it leaves something out, acp-proxy shows the transcript{hint}"
        case "store":
            return f"the agent's own; --load {STORE} shows the transcript instead, if it is complete{hint}"
    return f"the agent's own, unchanged, because --load {AGENT} is set"


def _explain_own(modes: Modes) -> str:
    return "the agent's own"


def _explain_delete(modes: Modes) -> str:
    return (
        "the agent's own; acp-proxy deletes the transcript as well"
        if modes.delete == AUTO
        else f"--delete {AGENT} is set"
    )


_EXPLAIN_NATIVE = {LIST: _explain_list, LOAD: _explain_load, DELETE: _explain_delete} | dict.fromkeys(
    (RESUME, *_DRAFTS), _explain_own
)
