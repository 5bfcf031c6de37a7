"""What came into an agent's folder, or left it, and is marked nowhere: copied, synchronized, removed by hand.

While a folder is as it was when everything in it had been brought in, it is not looked through: names that come or go
change its times. So do our own; then looking through it costs a look at each name in it, and opens only what differs.
A file that grows in its place changes no folder: who writes to it leaves a mark.
"""

import os
import time
from contextlib import suppress
from dataclasses import dataclass

from acp_proxy.transcripts.files.layout import Layout
from acp_proxy.transcripts.listing.index import Index

_GRANULE_SECONDS = 2.0
"""The coarsest clock of a file system (FAT): what changes within one has the same time as what changed before it."""


@dataclass(frozen=True, slots=True)
class Changes:
    """``come``: transcripts that the index lacks, or knows with another size. ``gone``: those that are there no more.

    ``seen``: how the folder was before it was looked through; nothing where that is no news, or may change unseen.
    """

    agent: str
    come: list[str]
    gone: list[str]
    seen: str
    removals: int

    def remember(self, index: Index) -> None:
        """All of them have been brought in."""
        if self.seen:
            index.remember(self.agent, self.seen, self.removals)


def look(layout: Layout, index: Index, agent: str) -> Changes:
    before, removals = index.folder(agent)  # first: who removes a row from here on has it looked through again
    now, changed = _state(layout, agent)
    if now == before != "":
        return Changes(agent, [], [], "", removals)
    there = layout.forms(agent)
    query = "SELECT name, json_extract(info, '$.size') FROM transcripts WHERE agent = ?"
    known = dict(index.select(query, (agent,)))
    come = [
        name for name, file in there.items() if name not in known or (file is not None and file.st_size != known[name])
    ]
    gone = [name for name in known if name not in there]
    written = [file.st_mtime for name in come if (file := there[name]) is not None]  # perhaps not to its end yet
    is_settled = all(abs(time.time() - at) > _GRANULE_SECONDS for at in (changed, *written))
    return Changes(agent, come, gone, now if is_settled else "", removals)


def _state(layout: Layout, agent: str) -> tuple[str, float]:
    """What tells a folder from what it was, and when it was changed last."""
    try:
        found = os.stat(layout.transcripts / agent)
    except FileNotFoundError:
        return "", 0.0
    file = 0
    with suppress(FileNotFoundError):
        file = os.stat(layout.index).st_ino  # one that was put back remembers how the folder was then
    times = found.st_mtime_ns, found.st_ctime_ns  # the second is nobody's to set
    return " ".join(map(str, (file, found.st_ino, *times))), max(found.st_mtime, found.st_ctime)
