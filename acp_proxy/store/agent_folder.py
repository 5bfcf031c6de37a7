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
from acp_proxy.protocol import acp
from acp_proxy.store.layout import Layout
from acp_proxy.transcript.file_names import file_name, is_alike, parse_transcript_name
from acp_proxy.transcript.reader import TranscriptReader

HEADERS_READ = 5
"""Headers read, of perhaps very many: takes a millisecond or two, because the agent's first answer may have to wait."""


def choose_folder(
    layout: Layout, agent_id: str | None, reported_name: str | None, command: str, *, may_run_others: bool
) -> str:
    """The folder for an agent's sessions. Raises OSError.

    ``agent_id``: the user's name for the agent. ``reported_name``: the name that the agent reports. ``command``: the
    name derived from its command. ``may_run_others``: the same command may run different agents.
    """
    if agent_id is not None:
        return file_name(agent_id)
    preferred, command_folder = file_name(reported_name or command), file_name(command)
    is_sure = not may_run_others or (reported_name is not None and is_alike(reported_name, command))
    if reported_name and is_sure and not layout.has_agent(preferred) and layout.has_agent(command_folder):
        return preferred if _has_other_agent(layout, command_folder, reported_name) else command_folder
    return preferred


def _has_other_agent(layout: Layout, agent_folder: str, name: str) -> bool:
    """Whether one of the first transcripts in a folder is of an agent with another name; True if access is denied.
    Raises OSError."""
    try:
        with os.scandir(layout.transcripts / agent_folder) as files:
            transcripts = (
                name_of_file for file in files if (name_of_file := parse_transcript_name(file.name)) is not None
            )
            first_names = list(islice(transcripts, HEADERS_READ))
    except PermissionError:
        return True
    return any(
        reported_name != name
        for transcript in first_names
        for reported_name in _read_reported_names(layout, agent_folder, transcript)
    )


def _read_reported_names(layout: Layout, agent_folder: str, transcript: str) -> Iterator[str]:
    """The name that a transcript's agent reported, if it did."""
    with contextlib.suppress(OSError, NewerFormat, ImportError):  # deleted in the meantime, or not readable
        reader = TranscriptReader(layout.transcript_path(agent_folder, transcript))
        try:
            name = acp.text(reader.header.agent, "name") if reader.header is not None else None
        finally:
            reader.close()
        if name:
            yield name
