"""A look at what the index says, as it is: at once, and without a trace.

For completion at the prompt. Nothing is brought up to date, waited for or made: a session whose first turn is not over
yet is missing, and of a store or an index that is not there, or not in order, there is nothing to tell. Never raises.
"""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from acp_proxy.transcripts.files import names
from acp_proxy.transcripts.files.layout import Layout
from acp_proxy.transcripts.listing.index import SCHEMA
from acp_proxy.transcripts.listing.keeping import DeletedSession, kept
from acp_proxy.transcripts.listing.queries import NUMBER
from acp_proxy.wire import jsonrpc

_MANY = 100
"""More than anybody chooses from."""
_QUERY = f"""
SELECT agent, name, session || {NUMBER}, info FROM transcripts
WHERE agent IN (SELECT value FROM json_each(?1))
  AND substr(CAST(session || {NUMBER} AS BLOB), 1, length(?2)) = ?2
ORDER BY updated DESC, session DESC LIMIT ?3
"""


@dataclass(frozen=True, slots=True)
class GlancedSession:
    named: str
    title: str


class Glance:
    def __init__(self, root: Path) -> None:
        self._layout = Layout(root)

    def agents(self) -> list[str]:
        """The folders of the agents of which something is kept."""
        try:
            return self._layout.agents()
        except OSError:
            return []

    def sessions(self, beginning: str, agent: str = "") -> list[GlancedSession]:
        """The newest sessions with a turn whose ids begin so, of the agents that are meant by this."""
        path = self._layout.index
        try:
            if not path.is_file():
                return []
            alone = "" if path.with_name(f"{path.name}-wal").exists() else "&immutable=1"
            uri = f"{path.absolute().as_uri()}?mode=ro{alone}"  # where nobody has it open, no side files are made
            with closing(sqlite3.connect(uri, uri=True, timeout=0)) as index:
                if index.execute("PRAGMA user_version").fetchone() != (SCHEMA,):
                    return []
                meant = names.meant(self.agents(), agent)
                found = index.execute(_QUERY, (json.dumps(meant), beginning.encode(), _MANY)).fetchall()
            return list(_seen(self._layout, found))
        except (sqlite3.Error, OSError, ValueError, TypeError, KeyError):
            return []

    def kept(self) -> list[DeletedSession]:
        """What was deleted softly, the latest first."""
        try:
            return kept(self._layout)
        except OSError:
            return []


def _seen(layout: Layout, rows: list[tuple[Any, Any, Any, Any]]) -> Iterator[GlancedSession]:
    for agent, name, named, info in rows:
        known: Any = jsonrpc.parse(info.encode())
        if known["prompts"]:
            title = layout.journal(agent).state().titles.get(name)  # the user's own
            yield GlancedSession(named, title or known["title"] or "")
