"""Copies a session to another agent's folder, so that it continues with that agent. The original does not change."""

from collections.abc import Mapping
from itertools import count

from acp_proxy.protocol import proxy_ids
from acp_proxy.store.layout import Layout
from acp_proxy.store.open_session import open_copy
from acp_proxy.transcript import file_format
from acp_proxy.transcript.file_format import Header
from acp_proxy.transcript.file_names import file_name


def create_copy(
    layout: Layout,
    original: tuple[str, str],
    header: Header,
    agent_folder: str,
    agent_info: Mapping[str, object],
    stamp: str,
) -> str:
    """Copy a session. Returns the copy's id, which is new. Raises OSError (FileNotFoundError: the session is gone).

    ``original``: its agent's folder, and its transcript's name. ``header``: its id and directories as a list shows
    them. ``agent_folder``: where to copy to. ``agent_info``: the name and version of that agent, if they are known.
    ``stamp``: now.
    """
    id = _choose_copy_id(layout, agent_folder, original[0], header.session_id)
    copy = Header(id, header.cwd, file_format.PARTIAL, stamp, header.directories, {"id": agent_folder, **agent_info})
    open_copy(layout, agent_folder, copy, *original).close()
    return id


def _choose_copy_id(layout: Layout, agent_folder: str, parent_folder: str, session_id: str) -> str:
    """An id that no copy has or had."""
    deleted_ids = layout.get_journal(agent_folder).read_deleted()
    ids = (proxy_ids.make_other_agents_id(parent_folder, session_id, number) for number in count(1))
    return next(id for id in ids if id not in deleted_ids and not layout.has_transcript(agent_folder, file_name(id)))
