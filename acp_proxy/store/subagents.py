"""Finds the sessions of subagents: those that an agent began for its own work. Nobody opens them and no list has them,
so they go where the session goes that names them (``subagent_update``, a draft of the protocol)."""

from collections.abc import Iterable
from contextlib import closing, suppress
from pathlib import Path

from acp_proxy.errors import NewerFormat
from acp_proxy.protocol import acp, update_kinds
from acp_proxy.protocol.jsonrpc import Peer
from acp_proxy.store.layout import Layout
from acp_proxy.transcript.file_format import PARTIAL, Header
from acp_proxy.transcript.file_names import file_name
from acp_proxy.transcript.reader import Line, TranscriptReader


def is_of_subagent(header: Header | None) -> bool:
    """Whether a transcript that another one names is a subagent's: a session that somebody opened has a directory."""
    return header is not None and header.origin == PARTIAL and header.cwd is None


def list_subagents(layout: Layout, agent_folder: str, path: Path) -> list[str]:
    """The ids of the subagents' sessions that a transcript names, and that have a transcript. ``path``: of the plain
    file. Empty if it cannot be read."""
    ids: dict[str, None] = {}
    with suppress(OSError, NewerFormat), closing(TranscriptReader(path)) as reader:
        for line in reader.read_alike():
            if not isinstance(line, Line) or line.entry is None or line.entry.peer is not Peer.AGENT:
                continue
            update = acp.member(acp.member(line.entry.value, "params"), "update")
            if acp.update_kind(update) == update_kinds.SUBAGENT and (id := acp.session_id(update)) is not None:
                ids[id] = None
    return [id for id in ids if _is_subagent(layout, agent_folder, id)]


def find_all_subagents(layout: Layout, agent_folder: str, paths: Iterable[Path]) -> list[str]:
    """The ids of the sessions of these transcripts' subagents, and of theirs, and so on."""
    found: dict[str, None] = {}
    paths = list(paths)
    while paths:
        new_ids = [id for id in list_subagents(layout, agent_folder, paths.pop()) if id not in found]
        found |= dict.fromkeys(new_ids)
        paths += [layout.transcript_path(agent_folder, file_name(id)) for id in new_ids]
    return list(found)


def _is_subagent(layout: Layout, agent_folder: str, session_id: str) -> bool:
    with (
        suppress(OSError, NewerFormat),
        closing(TranscriptReader(layout.transcript_path(agent_folder, file_name(session_id)))) as reader,
    ):
        return is_of_subagent(reader.header)
    return False
