"""Moves this machine to another shared place: it begins a new log there, and remembers its sessions.

What a machine cannot find in its files is said there again: titles, archive states, and deletes. All machines must read
the old place to its end when they move, so that one that moves later knows what the earlier ones knew.
"""

from acp_proxy.tools.sync import records
from acp_proxy.tools.sync.records import Dead
from acp_proxy.tools.sync.state_db import Remembered


def move(kept: Remembered, machine: str) -> None:
    """``machine``: the new id of this one."""
    name = kept.text("name")
    for place, _, _ in kept.outbox():
        kept.posted(place)  # what counts of it is posted below
    for dead in kept.buried():
        kept.post("dead", records.encode(Dead(dead, dead), name))
    for label in kept.whole_labels():
        kept.post("title", records.encode(label, name))
    kept.begin_anew(machine)
    kept.commit()
