"""The sessions that join an agent's own list, because only acp-proxy can list them: copies of other agents'."""

from collections.abc import Sequence

from acp_proxy.transcripts.files.layout import Layout
from acp_proxy.transcripts.listing import keeping
from acp_proxy.transcripts.listing.index import COLUMNS, PAGE, Index, Listed, blob, listed
from acp_proxy.transcripts.listing.queries import AskIndex, inside
from acp_proxy.wire import foreign


def copies(layout: Layout, ask: AskIndex, agent: str, cwd: str | None, run: str, archived: bool | None) -> list[Listed]:
    """An agent's copies, newest first, at most a page. Raises Unreadable.

    ``cwd``, ``run``, ``archived``: as for ``Store.page``.
    """
    found = ask(lambda index: _copies(index, agent, cwd, run), agent)
    rows = keeping.current(layout, found)
    return [row for row in rows if archived is None or row.is_archived == archived]


def _copies(index: Index, agent: str, cwd: str | None, run: str) -> list[Listed]:
    end = foreign.PREFIX[:-1] + chr(ord(foreign.PREFIX[-1]) + 1)
    test, values = inside(index, agent, cwd, below=False) if cwd is not None else ("1", list[object]())
    query = (
        f"SELECT {COLUMNS} FROM transcripts WHERE agent = ? AND listed = 1 AND session >= ? AND session < ? AND {test}"
        " ORDER BY updated DESC, session DESC LIMIT ?"
    )
    bounds: Sequence[object] = [agent, blob(foreign.PREFIX), blob(end)]
    return [listed(row, run) for row in index.select(query, [*bounds, *values, PAGE])]
