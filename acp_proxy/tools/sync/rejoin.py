"""Moves this machine to another shared place: it begins a new log there, and remembers its sessions.

What a machine cannot find in its files is said there again: titles, archive states, and deletes. All machines must read
the old place to its end when they move, so that one that moves later knows what the earlier ones knew.
"""

from acp_proxy.tools.sync import records
from acp_proxy.tools.sync.records import Death
from acp_proxy.tools.sync.state_db import MACHINE_NAME, SyncState


def begin_at_new_place(state: SyncState, machine: str) -> None:
    """Forget what the old place had, and put into the outbox what no file tells. ``machine``: this one's new id."""
    name = state.get_text(MACHINE_NAME)
    for place, _, _ in state.list_outbox():
        state.remove_from_outbox(place)  # what counts of it is published again below
    for tree in state.list_deleted_trees():
        death = Death(tree, tree)
        state.add_to_outbox(death, records.encode(death, name))
    for label in state.list_session_labels():
        state.add_to_outbox(label, records.encode(label, name))
    state.begin_anew(machine)
    state.commit()
