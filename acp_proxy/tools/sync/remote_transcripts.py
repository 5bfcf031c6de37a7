"""Creates transcripts that were recorded on another machine, and masks in them what was masked there."""

import os
from collections.abc import Iterable
from contextlib import closing
from itertools import count

from msgspec.structs import replace

from acp_proxy.protocol import proxy_ids
from acp_proxy.store import delete, open_session
from acp_proxy.store.layout import Layout, lock_folder
from acp_proxy.store.remote_turns import complete_header, join_parts, write_unfinished
from acp_proxy.transcript import file_access, file_format
from acp_proxy.transcript.file_format import Header
from acp_proxy.transcript.file_names import file_name, unfinished_path
from acp_proxy.transcript.reader import TranscriptReader


def create(layout: Layout, agent_folder: str, header: Header, data: bytes, *, has_local_id: bool) -> str:
    """Create a transcript. Returns its name. Raises OSError.

    ``has_local_id``: an agent gave the session's id on this machine. If not, or if the id is taken, it gets one of
    acp-proxy's: an agent here could know another session by the old one.
    """
    path = layout.transcript_path(agent_folder, file_name(header.session_id))
    layout.make_folder(path.parent)
    with lock_folder(path.parent, wait=True), layout.get_journal(agent_folder).lock():
        if (
            not has_local_id
            or layout.has_transcript(agent_folder, path.stem)
            or header.session_id in layout.get_journal(agent_folder).read_deleted()
        ):
            ids = (proxy_ids.make_remote_id(header.uid, number) for number in count(1))
            # An import may have the first one: of what another machine exported, under a uid of its own.
            new_id = next(id for id in ids if not layout.has_transcript(agent_folder, file_name(id)))
            header = replace(header, session_id=new_id, forked_from=[header.session_id, *header.forked_from])
            path = layout.transcript_path(agent_folder, file_name(header.session_id))
            delete.lift_delete(layout, agent_folder, header.session_id)  # it may have been here before
        header = replace(header, remote_parts=join_parts(header.remote_parts))
        write_unfinished(path, iter([file_format.encode_header(complete_header(header, data)), data]))
        layout.mark(agent_folder, path.stem)
        unfinished_path(path).replace(path)
        layout.mark(agent_folder, path.stem)
    return path.stem


def overwrite(layout: Layout, agent_folder: str, name: str, spans: Iterable[tuple[int, bytes]]) -> None:
    """Overwrite parts of a transcript's entries, as masking does. Raises OSError, NewerFormat.

    ``spans``: what to write, each with its offset from the first entry, in bytes.
    """
    path = layout.path_by_name(agent_folder, name)
    with lock_folder(path.parent, wait=True):
        if not os.path.lexists(path):
            open_session.ensure_plain(layout, agent_folder, path)
        with closing(TranscriptReader(path)) as reader:
            start = reader.entries_start
        fd = file_access.open_private(path, os.O_RDWR)
        try:
            for offset, data in spans:
                file_access.write_at(fd, data, start + offset)
            file_access.fsync(fd)
        finally:
            os.close(fd)
    layout.remove_search_tables(name)  # they have the words that were masked
