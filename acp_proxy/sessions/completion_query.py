"""A quick look at the index for shell completion: changes nothing and waits for nothing.

The index is not brought up to date, so a session in its first turn is missing. Without a usable store or index, there
are no results. Never raises.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from msgspec import Struct

from acp_proxy.protocol import jsonrpc, proxy_ids
from acp_proxy.sessions.find_sessions import NUMBER_SQL
from acp_proxy.sessions.soft_deleted import DeletedSession, list_deleted
from acp_proxy.store.databases import make_database_uri
from acp_proxy.store.index_database import SCHEMA
from acp_proxy.store.layout import Layout
from acp_proxy.transcript import file_access, file_names

_MOST_SESSIONS = 100
"""More sessions than a user would choose from."""
NEWEST_QUERY = f"""
SELECT updated, session, agent, name, session || {NUMBER_SQL}, info FROM transcripts
WHERE (agent, name) IN (SELECT agent, name FROM transcripts
  WHERE agent = ?1 AND listed = ?2 AND session >= ?5 AND session < ?6
  AND substr(CAST(session || {NUMBER_SQL} AS BLOB), 1, length(?3)) = ?3
  ORDER BY updated DESC, session DESC LIMIT ?4)
"""
"""The newest of an agent's (?1) listed or unlisted (?2) rows whose id begins with ?3, at most ?4, in the order of an
SQL index, of which ?5 and ?6 are the ends of the part to look at. That index has all that the inner query looks at, so
even a beginning that no id has takes a tenth of a microsecond per row."""


class SuggestedSession(Struct, frozen=True):
    """A session that a shell offers. ``selector``: its id as commands accept it. ``title``: may be empty."""

    selector: str
    title: str


class CompletionQuery:
    """Completion's view of the store at ``root``."""

    def __init__(self, root: Path) -> None:
        self._layout = Layout(file_access.make_reachable(root))

    def list_agents(self) -> list[str]:
        """The folders of all agents."""
        try:
            return self._layout.list_agents()
        except OSError:
            return []

    def find_sessions(self, beginning: str, agent_words: str = "") -> list[SuggestedSession]:
        """The newest sessions that have a turn and an id, or a copy's short id, that starts with ``beginning``, of the
        agents that the user means by ``agent_words``."""
        path = self._layout.index_path
        try:
            if not path.is_file():
                return []
            immutable = "" if path.with_name(f"{path.name}-wal").exists() else "&immutable=1"
            # If nobody has it open, this creates no side files.
            uri = make_database_uri(path, f"mode=ro{immutable}")
            with closing(sqlite3.connect(uri, uri=True, timeout=0)) as index:
                if index.execute("PRAGMA user_version").fetchone() != (SCHEMA,):
                    return []
                agents = file_names.match_agents(self.list_agents(), agent_words)
                is_short = beginning != "" and file_names.COPY.startswith(beginning[: len(file_names.COPY)])
                beginning_bytes = (proxy_ids.PROXY_ID_PREFIX if is_short else beginning).encode()
                # Without the number of what was set aside, which the index keeps elsewhere.
                id_beginning, _, _ = beginning_bytes.partition(file_names.ASIDE.encode())
                shared_values = (beginning_bytes, _MOST_SESSIONS, id_beginning, id_beginning + b"\xff")  # ?3 to ?6
                value_rows = [(folder, listed, *shared_values) for folder in agents for listed in (True, False)]
                rows = sorted(
                    (row for values in value_rows for row in index.execute(NEWEST_QUERY, values)), reverse=True
                )
            sessions = _suggest_sessions(self._layout, [row[2:] for row in rows[:_MOST_SESSIONS]], beginning)
            return [session for session in sessions if session.selector.startswith(beginning)]
        except (sqlite3.Error, OSError, ValueError, TypeError, KeyError):
            return []

    def list_deleted(self) -> list[DeletedSession]:
        """The soft-deleted sessions, last deleted first."""
        try:
            return list_deleted(self._layout)
        except OSError:
            return []


def _suggest_sessions(
    layout: Layout, rows: list[tuple[Any, Any, Any, Any]], beginning: str
) -> Iterator[SuggestedSession]:
    for agent_folder, name, id, info in rows:
        selector = (
            id if beginning and id.startswith(beginning) else file_names.make_copy_id(agent_folder, name, id) or id
        )
        members: Any = jsonrpc.parse(info.encode())
        if members["prompts"]:
            title = layout.get_journal(agent_folder).read_state().titles.get(name)  # the user's title
            yield SuggestedSession(selector, title or members["title"] or "")
