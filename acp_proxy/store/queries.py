"""Queries of the index that a running proxy and commands share, and what the index does not know of a row
(``complete_rows``)."""

import json
from collections.abc import Collection, Iterable, Iterator

from msgspec.structs import replace

from acp_proxy.protocol import proxy_ids
from acp_proxy.store.index_database import Index, ListedSession, decode_id, encode_id
from acp_proxy.store.journal import EMPTY_STATE, JournalState
from acp_proxy.store.layout import Layout
from acp_proxy.transcript.appender import is_in_use

COPY_ID_RANGE = (
    encode_id(proxy_ids.PROXY_ID_PREFIX),
    encode_id(proxy_ids.PROXY_ID_PREFIX[:-1] + chr(ord(proxy_ids.PROXY_ID_PREFIX[-1]) + 1)),
)
"""The ids of copies and of sessions of other machines are from the first to before the second."""


def find_titles(index: Index, agent_folder: str, names: Collection[str]) -> dict[str, str]:
    """The titles of those of an agent's transcripts that have one, by session id."""
    query = (
        "SELECT session, json_extract(info, '$.title') FROM transcripts"
        " WHERE agent = ? AND name IN (SELECT value FROM json_each(?))"
    )
    return {
        decode_id(session_id): title
        for session_id, title in index.select(query, [agent_folder, json.dumps(list(names))])
        if title
    }


def complete_rows(layout: Layout, rows: Iterable[ListedSession]) -> Iterator[ListedSession]:
    """The rows, with the user's titles in place of the index's, with turns that nobody runs any more as failed, and
    with what is archived and pinned. A journal that cannot be read counts as empty."""
    states: dict[str, JournalState] = {}
    for row in rows:
        if row.is_running and not is_open(layout, row):
            row = replace(row, is_running=False, has_failed=True)
        if row.agent_folder not in states:
            states[row.agent_folder] = read_state(layout, row.agent_folder)
        state = states[row.agent_folder]
        title, is_archived, is_pinned = state.titles.get(row.name), row.name in state.archived, row.name in state.pinned
        if title is not None or is_archived or is_pinned:
            title = row.title if title is None else title
            row = replace(row, title=title, is_archived=is_archived, is_pinned=is_pinned)
        yield row


def read_state(layout: Layout, agent_folder: str) -> JournalState:
    """The state of an agent's journal; empty if that cannot be read."""
    try:
        return layout.get_journal(agent_folder).read_state()
    except OSError:
        return EMPTY_STATE


def is_open(layout: Layout, row: ListedSession) -> bool:
    """Whether a process has the transcript open to append; False if that cannot be determined."""
    return is_in_use(layout.transcript_path(row.agent_folder, row.name))
