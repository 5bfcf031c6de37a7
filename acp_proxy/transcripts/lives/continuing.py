"""Copies a session to another agent's folder, so that it continues with that agent. The original does not change."""

from collections.abc import Mapping
from contextlib import ExitStack
from itertools import count

from acp_proxy.transcripts.files.layout import Layout
from acp_proxy.transcripts.files.names import file_name
from acp_proxy.transcripts.lives import beginning, forks
from acp_proxy.wire import foreign, record
from acp_proxy.wire.record import Header


def copied(
    layout: Layout,
    of: tuple[str, str],
    header: Header,
    agent: str,
    about: Mapping[str, object],
    stamp: str,
) -> str:
    """Copy a session. Returns the copy's id, which is new. Raises OSError (FileNotFoundError: the session is gone).

    ``of``: its agent's folder, and its transcript's name. ``header``: its id and directories as a list shows them.
    ``agent``: the folder to copy to. ``about``: the name and version of that agent, if they are known. ``stamp``: now.
    """
    id = _unused(layout, agent, of[0], header.session)
    copy = Header(id, header.cwd, record.PARTIAL, stamp, header.directories, {"id": agent, **about})
    transcript = beginning.continued(layout, agent, copy, *of)
    transcript.close()
    with ExitStack() as stack:
        if transcript.beginning is not None:
            stack.callback(transcript.beginning.close)
        forks.finish(layout, agent, file_name(id), transcript.beginning)
    return id


def _unused(layout: Layout, agent: str, of: str, session: str) -> str:
    """An id that no copy has or had."""
    gone = layout.journal(agent).deleted()
    ids = (foreign.id_of(of, session, number) for number in count(1))
    return next(id for id in ids if id not in gone and not layout.exists(agent, file_name(id)))
