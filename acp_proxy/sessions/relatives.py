"""Finds the sessions that share words with others: forks, copies for other agents, what they were made from, and the
sessions of their subagents."""

from collections.abc import Collection, Iterator
from contextlib import closing

from acp_proxy.errors import NewerFormat
from acp_proxy.protocol import proxy_ids
from acp_proxy.store.layout import Layout
from acp_proxy.store.subagents import SessionKey, find_all_subagents
from acp_proxy.transcript import file_names
from acp_proxy.transcript.file_format import Header
from acp_proxy.transcript.reader import TranscriptReader

TranscriptKey = tuple[str, str]
"""A transcript: its agent's folder and its name; of a soft-deleted one, the name that it had before."""


class Relatives:
    """Which transcripts of a store begin alike, as they were when this was made."""

    def __init__(self, layout: Layout) -> None:
        """Opens every transcript. Raises OSError."""
        self._layout = layout
        self._by_ancestor: dict[SessionKey, set[TranscriptKey]] = {}
        self._ancestors: dict[TranscriptKey, list[SessionKey]] = {}
        for transcript, header in _read_headers(layout):
            agent_folder, _ = transcript
            ids = (header.session_id, *header.forked_from)
            self._ancestors[transcript] = list(proxy_ids.list_ancestors(agent_folder, ids))
            for session in self._ancestors[transcript]:
                self._by_ancestor.setdefault(session, set()).add(transcript)

    def find(self, chosen: Collection[TranscriptKey]) -> set[TranscriptKey]:
        """The transcripts that begin as one of these does, without these: forks and copies of them, what they are forks
        and copies of, and so on; and those of the subagents of all of them. A session whose id was given again counts
        like the newer one. Raises OSError."""
        reached, unvisited, visited_sessions = set(chosen), list(chosen), set[SessionKey]()
        while unvisited:
            sessions = set(self._ancestors.get(unvisited.pop(), ())) - visited_sessions
            visited_sessions |= sessions
            for session in sessions:
                relatives = self._by_ancestor[session] - reached
                reached |= relatives
                unvisited += relatives
        for agent_folder, name in list(reached):
            soft_deleted_names = self._layout.list_soft_deleted_of(agent_folder, name)
            paths = [self._layout.soft_deleted_path(agent_folder, each) for each in soft_deleted_names]
            paths.append(self._layout.transcript_path(agent_folder, name))
            reached |= {
                (folder, file_names.file_name(id))
                for folder, id in find_all_subagents(self._layout, agent_folder, paths)
            }
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
