"""Which folder is an agent's: sessions of different agents never mix, and an upgrade takes none away.

By the name that the user gives it, else by its own, else by its command's. An agent that begins to tell its name keeps
the folder of its command's name, unless nobody can be sure that it is the one that was there: where the command may run
one agent today and another one tomorrow and is not called alike, or where an agent of another name is in there.
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
"""Headers, of perhaps very many: a millisecond or two, since the agent's first answer may have to wait for it."""


def choose(layout: Layout, given: str | None, told: str | None, command: str, *, may_run_others: bool) -> str:
    if given is not None:
        return file_name(given)
    own, before = file_name(told or command), file_name(command)
    is_sure = not may_run_others or (told is not None and is_alike(told, command))
    if told and is_sure and not layout.has_agent(own) and layout.has_agent(before):
        return own if _holds_another(layout, before, told) else before
    return own


def _holds_another(layout: Layout, agent: str, name: str) -> bool:
    """Whether one of the first transcripts there is of an agent of another name; also where nobody may look."""
    try:
        with os.scandir(layout.transcripts / agent) as found:
            transcripts = (each for file in found if (each := transcript_in(file.name)) is not None)
            first = list(islice(transcripts, LOOKED_AT))
    except OSError:
        return True
    return any(told != name for each in first for told in _told(layout, agent, each))


def _told(layout: Layout, agent: str, transcript: str) -> Iterator[str]:
    """What the agent of a transcript called itself, if it did."""
    with contextlib.suppress(OSError, NewerFormat, ImportError):  # deleted meanwhile, or not for us to read
        reading = Reading(layout.transcript(agent, transcript))
        try:
            name = acp.text(reading.header.agent, "name") if reading.header is not None else None
        finally:
            reading.close()
        if name:
            yield name
