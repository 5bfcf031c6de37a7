"""Notices transcripts that appeared or disappeared without a mark: copied, synchronized, restored or removed by hand.

An agent's folder is scanned only if its times changed since everything in it was brought in. acp-proxy's own changes
alter them too; such a scan looks at each name, but opens only transcripts that differ. A file that grows does not
change its folder: the process that writes to it leaves a mark.
"""

import os
import sqlite3
import time
from collections.abc import Mapping
from contextlib import suppress

from msgspec import Struct

from acp_proxy.store.index_database import Index
from acp_proxy.store.layout import Layout
from acp_proxy.transcript import file_names

_GRANULE_SECONDS = 2.0
"""The coarsest clock of a file system (FAT): changes within this time may get the same timestamp."""


class FolderChanges(Struct, frozen=True):
    """What differs between an agent's folder and the index.

    ``added``: transcripts that the index lacks or has with another size, the newest first. ``removed``: those that no
    longer exist. ``folder_state``: before the scan; empty if it is unchanged, or too recent to notice a later change.
    ``removals``: how often rows had been removed before the scan.
    """

    added: list[str]
    removed: list[str]
    folder_state: str
    removals: int


def find_changes(layout: Layout, index: Index, agent_folder: str) -> FolderChanges:
    """Compare an agent's folder with the index. Raises OSError, ``sqlite3.Error``."""
    # First, so that a row removed from here on causes another scan.
    indexed_state, removals = index.read_folder(agent_folder)
    folder_state, changed_at = _read_folder_state(layout, agent_folder)
    if folder_state == indexed_state != "":
        return FolderChanges([], [], "", removals)
    present = layout.stat_transcripts(agent_folder)
    query = "SELECT name, json_extract(info, '$.size') FROM transcripts WHERE agent = ?"
    indexed_sizes = dict(index.select(query, (agent_folder,)))
    added = list_newest_first(
        {
            name: status
            for name, status in present.items()
            if name not in indexed_sizes or (status is not None and status.st_size != indexed_sizes[name])
        }
    )
    removed = [name for name in indexed_sizes if name not in present]
    # They become paths of what is to be removed.
    if not all(isinstance(name, str) and file_names.has_generated_form(name) for name in removed):
        raise sqlite3.DatabaseError("a row that we have not written")
    write_times = [status.st_mtime for name in added if (status := present[name]) is not None]  # may still be growing
    is_old_enough = all(abs(time.time() - moment) > _GRANULE_SECONDS for moment in (changed_at, *write_times))
    return FolderChanges(added, removed, folder_state if is_old_enough else "", removals)


def list_newest_first(statuses: Mapping[str, os.stat_result | None]) -> list[str]:
    """The names of transcripts, the last written first; those that are only compressed last. ``statuses``: as
    ``Layout.stat_transcripts`` returns them."""
    return sorted(
        statuses, key=lambda name: 0.0 if (status := statuses[name]) is None else status.st_mtime, reverse=True
    )


def _read_folder_state(layout: Layout, agent_folder: str) -> tuple[str, float]:
    """A text that identifies the state of a folder, and the time of its last change."""
    try:
        status = os.stat(layout.transcripts / agent_folder)
    except FileNotFoundError:
        return "", 0.0
    index_inode = 0
    with suppress(FileNotFoundError):
        index_inode = os.stat(layout.index_path).st_ino  # an index restored from a backup has an old state
    times = status.st_mtime_ns, status.st_ctime_ns  # programs cannot set the second one
    return " ".join(map(str, (index_inode, status.st_ino, *times))), max(status.st_mtime, status.st_ctime)
