"""One round: see what the user did here, read the logs, change the sessions, write what is new.

Every step can be repeated, so a round that ends in the middle is made good by the next one.
"""

from contextlib import closing

from acp_proxy.tools.sync.apply import apply_changes
from acp_proxy.tools.sync.context import Counts, SyncContext
from acp_proxy.tools.sync.interfaces import Unavailable
from acp_proxy.tools.sync.local_changes import note_local_changes
from acp_proxy.tools.sync.pull import pull
from acp_proxy.tools.sync.push import MachineCopied, push
from acp_proxy.tools.sync.state_db import LAST_ROUND

_MOST_ATTEMPTS = 3
"""How often this machine may find a copy of itself in one round."""


def forget(context: SyncContext, machine: str) -> Counts:
    """Do a round, and never read another machine's log further than it is read now. If it comes back, it gets a new id,
    and nothing that was said on it is lost. Raises Unavailable, OSError."""
    context.publish_end(machine, context.state.read_logs()[machine])
    context.state.commit()
    return do_round(context)


def do_round(context: SyncContext, *, confirms_deletes: bool = False) -> Counts:
    """Do a whole round. ``confirms_deletes``: publish even many deletes. Raises Unavailable, OSError."""
    with closing(context.fetched):
        return _do_steps(context, confirms_deletes=confirms_deletes)


def _do_steps(context: SyncContext, *, confirms_deletes: bool) -> Counts:
    note_local_changes(context)
    context.state.commit()
    for _ in range(_MOST_ATTEMPTS):
        try:
            pull(context)
            apply_changes(context)
            push(context, confirms_deletes=confirms_deletes)
            apply_changes(context)
        except MachineCopied:
            continue
        context.state.set_facts({LAST_ROUND: int(context.now())})
        context.state.commit()
        return context.counts
    raise Unavailable("another machine writes to the log of this one at the same moment. Try again later")
