"""The agent's ids of sessions that continue in new ones of it, such as after a handover.

The journal keeps them, so that the agent's own list shows such a session once, and so that its id opens the session
that it continues. An id with a transcript of its own is a session of its own: it was recorded before this was known.
"""

import time

from acp_proxy.protocol import timestamps
from acp_proxy.protocol.proxy_ids import is_foreign
from acp_proxy.store import journal
from acp_proxy.store.layout import Layout
from acp_proxy.transcript.file_names import file_name


def add(layout: Layout, agent: str, session: str, alias: str) -> None:
    """Note that a session continues in the agent's ``alias``. Raises OSError."""
    known = layout.journal(agent)
    if alias != session and known.read_state().aliases.get(alias) != session:
        layout.make_folder(layout.transcript(agent, file_name(session)).parent)
        known.append(journal.ALIAS, session, timestamps.stamp(time.time()), alias=alias)


def all_of(layout: Layout, agent: str) -> dict[str, str]:
    """By alias: the session that continues in it. Raises OSError."""
    aliases = layout.journal(agent).read_state().aliases
    return {alias: session for alias, session in aliases.items() if _holds(layout, agent, alias, session)}


def session_of(layout: Layout, agent: str, alias: str) -> str | None:
    """The session that continues in the agent's ``alias``; None if that is no alias. Raises OSError."""
    session = layout.journal(agent).read_state().aliases.get(alias)
    return session if session is not None and _holds(layout, agent, alias, session) else None


def _holds(layout: Layout, agent: str, alias: str, session: str) -> bool:
    """Whether this is an alias still: the id has no transcript, and the session has one, was deleted, or is another
    agent's, which has none here before its first prompt."""
    if alias in layout.journal(agent).read_deleted() or layout.exists(agent, file_name(alias)):
        return False
    is_there = is_foreign(session) or layout.exists(agent, file_name(session))
    return is_there or session in layout.journal(agent).read_deleted()
