"""What a proxy does while nobody says anything: once a day, large and cold transcripts are compressed.

A thread with a low priority, which looks between chunks of work whether it still may. Trouble with the store is
silently left to those who need the store: tomorrow is another day.
"""

import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from acp_proxy.errors import AcpProxyError
from acp_proxy.transcripts.store import Store, Terms

_NICE = 10
"""Gives way to everybody, and still gets out of the way: a thread that never ran could not let the others go on."""


def compact(root: Path, go_on: Callable[[], bool]) -> None:
    """Do it, if nobody has today. For a thread of its own."""
    if sys.platform == "linux":  # where a thread has a priority of its own
        thread = threading.get_native_id()
        os.setpriority(os.PRIO_PROCESS, thread, max(_NICE, os.getpriority(os.PRIO_PROCESS, thread)))
    try:
        store = Store(root)  # the index is for one thread at a time
        with store.daily() as is_due:
            if is_due:
                _compact_all(store, Terms(go_on=go_on))
    except (OSError, AcpProxyError, _Interrupted):
        return


class _Interrupted(Exception):
    """Somebody says something: the rest is done in the next idle minutes."""


def _compact_all(store: Store, terms: Terms) -> None:
    for agent, name in store.compactable():
        if not terms.go_on():
            raise _Interrupted
        try:
            store.compact(agent, name, terms)
        except OSError:  # one file's trouble is not the others'
            continue
