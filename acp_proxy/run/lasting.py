"""Imports what ``run`` needs later, while the agent starts or right after its first answer.

By the time it is needed, days later, an upgrade of acp-proxy may have replaced the files. The standard library's
modules may load later, since those stay. Except in ``load_ending``, a failed import is ignored here; the code that
needs the module reports it.
"""

import gc
from contextlib import suppress

from acp_proxy.run.later import Later
from acp_proxy.store import store

_UNUSED = "subprocess"
"""psutil imports it, but only its ``Popen`` uses it."""


def load_telling() -> None:
    """Import what loads need; an editor may ask for one at once."""
    with suppress(Exception):
        from acp_proxy.run import replay_thread, store_requests  # noqa: F401


def load_ending() -> None:
    """Import what the end needs. Raises ImportError."""
    from acp_proxy.run import process_tree

    with Later(_UNUSED):
        process_tree.load()


def load_stores() -> None:
    """Import what lists, damage, compression and the start of sync need."""
    store.load_the_rest()
    with suppress(Exception):
        from acp_proxy.run import (
            idle_compression,  # noqa: F401
            start_sync,  # noqa: F401
        )


def collect_garbage() -> None:
    """Start the garbage collector, which ``launch`` stopped. What was loaded stays, so it need not be visited."""
    gc.freeze()
    gc.enable()
