"""Chooses an agent's folder, so that sessions of different agents never mix and an upgrade loses none.

The folder is named after the name that the user gave, else the agent's own name, else its command. An agent that begins
to report a name keeps the folder of its command, unless that folder may be another agent's: its command can run
different agents and is not called like this one, or the folder contains transcripts of an agent with another name.
"""

import contextlib
import os
from collections.abc import Iterator
from itertools import islice

from acp_proxy.errors import NewerFormat
from acp_proxy.transcripts.files.layout import Layout
from acp_proxy.transcripts.files.names import file_name, is_alike, transcript_in
from acp_proxy.transcripts.files.reading import Reading
from acp_proxy.wire import acp

LOOKED_AT = 5
"""Headers read, of perhaps very many: takes a millisecond or two, because the agent's first answer may have to wait."""


def choose(layout: Layout, given: str | None, told: str | None, command: str, *, may_run_others: bool) -> str:
    """The folder for an agent's sessions. Raises OSError.

    ``given``: the user's name for the agent. ``told``: the name that the agent reports. ``command``: the name derived
    from its command. ``may_run_others``: the same command may run different agents.
    """
    if given is not None:
        return file_name(given)
    own, before = file_name(told or command), file_name(command)
    is_sure = not may_run_others or (told is not None and is_alike(told, command))
    if told and is_sure and not layout.has_agent(own) and layout.has_agent(before):
        return own if _holds_another(layout, before, told) else before
    return own


def _holds_another(layout: Layout, agent: str, name: str) -> bool:
    """Whether one of the first transcripts in a folder is of an agent with another name; True if access is denied.
    Raises OSError."""
    try:
        with os.scandir(layout.transcripts / agent) as found:
            transcripts = (each for file in found if (each := transcript_in(file.name)) is not None)
            first = list(islice(transcripts, LOOKED_AT))
    except PermissionError:
        return True
    return any(told != name for each in first for told in _told(layout, agent, each))


def _told(layout: Layout, agent: str, transcript: str) -> Iterator[str]:
    """The name that a transcript's agent reported, if it did."""
    with contextlib.suppress(OSError, NewerFormat, ImportError):  # deleted meanwhile, or not readable
        reading = Reading(layout.transcript(agent, transcript))
        try:
            name = acp.text(reading.header.agent, "name") if reading.header is not None else None
        finally:
            reading.close()
        if name:
            yield name
