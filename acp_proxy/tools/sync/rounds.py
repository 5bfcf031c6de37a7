"""One round of the merge: see what the user did here, read the logs, change the sessions, write what is new.

Every step can be repeated, so a round that ends in the middle is made good by the next one.
"""

from contextlib import closing

from acp_proxy.tools.sync.apply import settle
from acp_proxy.tools.sync.context import Counts, Desk
from acp_proxy.tools.sync.interfaces import Unavailable
from acp_proxy.tools.sync.local_changes import gather
from acp_proxy.tools.sync.pull import pull
from acp_proxy.tools.sync.push import Cloned, push

_TIMES = 3
"""How often this machine may find a copy of itself in one round."""


def forget(desk: Desk, machine: str) -> Counts:
    """Do a round, and never read another machine's log further than it is read now. If it comes back, it gets a new id,
    and nothing that was said on it is lost. Raises Unavailable, OSError."""
    desk.end(machine, desk.kept.logs()[machine])
    desk.kept.commit()
    return synchronize(desk)


def synchronize(desk: Desk, *, deletes: bool = False) -> Counts:
    """Do a whole round. ``deletes``: publish even many deletes. Raises Unavailable, OSError."""
    with closing(desk.fetched):
        return _synchronize(desk, deletes=deletes)


def _synchronize(desk: Desk, *, deletes: bool) -> Counts:
    gather(desk)
    desk.kept.commit()
    for _ in range(_TIMES):
        try:
            pull(desk)
            settle(desk)
            push(desk, deletes=deletes)
            settle(desk)
        except Cloned:
            continue
        desk.kept.set(last=int(desk.now()))
        desk.kept.commit()
        return desk.counts
    raise Unavailable("another machine writes to the log of this one at the same moment. Try again later")
