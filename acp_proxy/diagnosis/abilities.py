"""What an agent offers an editor, what we add to it, and why: the proxy's own decision, explained. Pure."""

from acp_proxy.core import capabilities
from acp_proxy.core.capabilities import AGENT, ALWAYS, AUTO, DELETE, LIST, LOAD, NEVER, RESUME, STORE, Modes, Offer
from acp_proxy.wire import acp
from acp_proxy.wire.value import Value

OURS, THEIRS, NOBODY = "acp-proxy", "agent", "nobody"
_ORDER = (LIST, LOAD, RESUME, DELETE)


class Ability(Value):
    """Who answers for it, and why."""

    name: str
    by: str
    why: str


def abilities(offer: Offer, modes: Modes, off: str | None) -> list[Ability]:
    """``off``: why nothing is added at all, if that is so."""
    if off is None and (offer.version != acp.VERSION or isinstance(offer.version, bool)):
        off = f"it speaks version {offer.version} of the protocol, of which everything passes and nothing is added"
    serves = capabilities.additions(offer, modes) if off is None else ()
    return [_ability(name, offer.native, modes, serves, off) for name in _ORDER]


def _ability(name: str, native: frozenset[str], modes: Modes, serves: tuple[str, ...], off: str | None) -> Ability:
    if name in serves:
        return Ability(name, OURS, _added(name, native, modes))
    if name in native:
        return Ability(name, THEIRS, _ADDITION[name](modes) if off is None else "the agent's own")
    return Ability(name, NOBODY, off if off is not None else _missing(name, native, modes))


def _added(name: str, native: frozenset[str], modes: Modes) -> str:
    if name in native:
        return f"the agent has one of its own, and --{name} {STORE} is set"
    if name == RESUME:
        return f"on top of the agent's load, since --resume {STORE} is set"
    if name != LOAD:
        return f"the agent has no session/{name}"
    if RESUME in native:
        return "the agent can resume a session, and not show it: we show it"
    return "the agent can restore nothing: a session goes on in a new one of it, which is given a record of the old"


def _missing(name: str, native: frozenset[str], modes: Modes) -> str:
    if name == RESUME:
        also = f"; on top of the agent's load, if you wish: --resume {STORE}" if LOAD in native else ""
        return f"the agent has none, and editors load then{also}"
    if name == LOAD and getattr(modes, name) != AGENT and modes.handover == NEVER:
        return f"the agent can restore nothing, and --handover {NEVER} is set"
    return f"the agent has none, and --{name} {AGENT} is set"


def _of_list(modes: Modes) -> str:
    return "the agent's own, less what was deleted here" if modes.list == AUTO else f"--list {AGENT} is set"


def _of_load(modes: Modes) -> str:
    also = "; where it refuses, in a new session" if modes.handover == ALWAYS else ""
    match modes.load:
        case "auto":
            return f"the agent's own; where it leaves something out, ours is shown in its place{also}"
        case "store":
            return f"the agent's own; ours is shown whenever it is complete, since --load {STORE} is set{also}"
    return f"the agent's own, as it is, since --load {AGENT} is set"


def _of_resume(modes: Modes) -> str:
    return "the agent's own"


def _of_delete(modes: Modes) -> str:
    return "the agent's own, and ours with it" if modes.delete == AUTO else f"--delete {AGENT} is set"


_ADDITION = {LIST: _of_list, LOAD: _of_load, RESUME: _of_resume, DELETE: _of_delete}
