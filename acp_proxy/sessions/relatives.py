"""Finds the sessions that share words with others: forks, copies for other agents, what they were made from, and the
sessions of their subagents."""

from collections.abc import Collection, Iterator
from contextlib import closing

from acp_proxy.errors import NewerFormat
from acp_proxy.protocol import proxy_ids
from acp_proxy.store.layout import Layout
from acp_proxy.store.subagents import find_all_subagents
from acp_proxy.transcript import file_names
from acp_proxy.transcript.file_format import Header
from acp_proxy.transcript.reader import TranscriptReader

TranscriptKey = tuple[str, str]
"""A transcript: its agent's folder and its name; of a soft-deleted one, the name that it had before."""
_SessionKey = tuple[str, str]
"""A session: its agent's folder and its id."""


def find_relatives(layout: Layout, chosen: Collection[TranscriptKey]) -> set[TranscriptKey]:
    """The transcripts that begin as one of these does, without these: forks and copies of them, what they are forks and
    copies of, and so on; and those of the subagents of all of them. A session whose id was given again counts like the
    newer one. Raises OSError."""
    by_ancestor: dict[_SessionKey, set[TranscriptKey]] = {}
    ancestors: dict[TranscriptKey, list[_SessionKey]] = {}
    for transcript, header in _read_headers(layout):
        agent_folder, _ = transcript
        ancestors[transcript] = list(_list_ancestors(agent_folder, header))
        for session in ancestors[transcript]:
            by_ancestor.setdefault(session, set()).add(transcript)
    reached, unvisited = set(chosen), list(chosen)
    while unvisited:
        for session in ancestors.get(unvisited.pop(), ()):
            relatives = by_ancestor.pop(session, set()) - reached
            reached |= relatives
            unvisited += relatives
    for agent_folder, name in list(reached):
        soft_deleted_names = layout.list_soft_deleted_of(agent_folder, name)
        paths = [layout.soft_deleted_path(agent_folder, each) for each in soft_deleted_names]
        ids = find_all_subagents(layout, agent_folder, [layout.transcript_path(agent_folder, name), *paths])
        reached |= {(agent_folder, file_names.file_name(id)) for id in ids}
    return reached - set(chosen)


def _read_headers(layout: Layout) -> Iterator[tuple[TranscriptKey, Header]]:
    for agent_folder in layout.list_agents():
        paths = [(name, layout.transcript_path(agent_folder, name)) for name in layout.list_names(agent_folder)]
        paths += [
            (file_names.name_before_delete(name), layout.soft_deleted_path(agent_folder, name))
            for name in layout.list_soft_deleted_names(agent_folder)
        ]
        for name, path in paths:
            try:
                reader = TranscriptReader(path)
            except (OSError, NewerFormat):
                continue
            with closing(reader):
                if (header := reader.header or reader.rebuild_header()) is not None:
                    yield (agent_folder, name), header


def _list_ancestors(agent_folder: str, header: Header) -> Iterator[_SessionKey]:
    """A session and those that it was made from, the nearest first."""
    for session_id in (header.session_id, *header.forked_from):
        yield agent_folder, session_id
        agent_folder = (proxy_ids.parse_other_agents_id(session_id) or (agent_folder,))[0]
