"""Finds the sessions of subagents: those that an agent began for its own work. Nobody opens them and no list has them,
so they go where the session goes that names them (``subagent_update``, a draft of the protocol)."""

from collections.abc import Iterable
from contextlib import closing, suppress
from pathlib import Path

from acp_proxy.errors import NewerFormat
from acp_proxy.protocol import acp, proxy_ids, update_kinds
from acp_proxy.protocol.jsonrpc import Peer
from acp_proxy.store.layout import Layout
from acp_proxy.transcript.file_format import PARTIAL, Header
from acp_proxy.transcript.file_names import file_name
from acp_proxy.transcript.reader import Line, TranscriptReader

SessionKey = tuple[str, str]
"""A session: its agent's folder and its id."""


def is_of_subagent(header: Header | None) -> bool:
    """Whether a transcript that another one names is a subagent's: a session that somebody opened has a directory."""
    return header is not None and header.origin == PARTIAL and header.cwd is None


def open_subagent(layout: Layout, folders: Iterable[str], session_id: str) -> tuple[str, TranscriptReader] | None:
    """The transcript of a subagent's session, after the first of these agents' folders that has it; None if none has.
    Raises OSError, NewerFormat."""
    for folder in folders:
        try:
            reader = TranscriptReader(layout.transcript_path(folder, file_name(session_id)))
        except FileNotFoundError:
            continue
        if is_of_subagent(reader.header):
            return folder, reader
        reader.close()
    return None


def list_folders(agent_folder: str, reader: TranscriptReader) -> list[str]:
    """The folders that may have the sessions of a transcript's subagents: its own, then those of the sessions that it
    is a copy of, since their subagents are not copied."""
    header = reader.header
    ids = (header.session_id, *header.forked_from) if header is not None else ()
    return list(dict.fromkeys([agent_folder, *(folder for folder, _ in proxy_ids.list_ancestors(agent_folder, ids))]))


def list_subagents(layout: Layout, agent_folder: str, path: Path) -> list[SessionKey]:
    """The subagents' sessions that a transcript names, and that have a transcript. ``path``: of the plain file. Empty
    if it cannot be read."""
    ids: dict[str, None] = {}
    folders: list[str] = []
    with suppress(OSError, NewerFormat), closing(TranscriptReader(path)) as reader:
        folders = list_folders(agent_folder, reader)
        for line in reader.read_alike():
            if not isinstance(line, Line) or line.entry is None or line.entry.peer is not Peer.AGENT:
                continue
            update = acp.member(acp.member(line.entry.value, "params"), "update")
            if acp.update_kind(update) == update_kinds.SUBAGENT and (id := acp.session_id(update)) is not None:
                ids[id] = None
    found: list[SessionKey] = []
    for id in ids:
        with suppress(OSError, NewerFormat):
            if (opened := open_subagent(layout, folders, id)) is not None:
                folder, reader = opened
                reader.close()
                found.append((folder, id))
    return found


def find_all_subagents(layout: Layout, agent_folder: str, paths: Iterable[Path]) -> list[SessionKey]:
    """The sessions of these transcripts' subagents, and of theirs, and so on."""
    found: dict[SessionKey, None] = {}
    unread = [(agent_folder, path) for path in paths]
    while unread:
        new_sessions = [session for session in list_subagents(layout, *unread.pop()) if session not in found]
        found |= dict.fromkeys(new_sessions)
        unread += [(folder, layout.transcript_path(folder, file_name(id))) for folder, id in new_sessions]
    return list(found)
