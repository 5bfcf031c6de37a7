"""Repairs what ``verify`` finds in a store: the whole file of a finding, or what the index says of it."""

import time
from pathlib import Path

from acp_proxy.protocol import timestamps
from acp_proxy.sessions.command_store import CommandStore
from acp_proxy.store import open_session
from acp_proxy.store.layout import Layout
from acp_proxy.store.store_index import StoreIndex
from acp_proxy.tools.maintenance import repair
from acp_proxy.tools.maintenance.verify import MODE, Finding, find_plain_path
from acp_proxy.transcript import file_access


def repair_finding(store: CommandStore, finding: Finding) -> Path | None:
    """Repair the whole file of a finding. Returns the path of its backup copy, or None if no file was changed.

    Raises OSError, AcpProxyError.
    """
    layout, store_index, stamp = store.layout, store.store_index, timestamps.format_now(time.time())
    if finding.kind == MODE:
        finding.path.chmod((0o777 if finding.path.is_dir() else 0o666) & ~file_access.PRIVATE_UMASK)
    elif finding.path.parent == layout.search:
        layout.remove_search_table(finding.path)
    elif finding.path == layout.index_path and finding.name:
        store_index.reindex(finding.agent_folder, [finding.name])
    elif finding.path == layout.index_path:
        store_index.rebuild()
    elif finding.name:
        return _repair_transcript(layout, store_index, finding, stamp)
    else:
        backup = layout.backup_path(finding.agent_folder, finding.path.stem, stamp)
        return backup if repair.repair_journal(finding.path, backup) else None
    return None


def _repair_transcript(layout: Layout, store_index: StoreIndex, finding: Finding, stamp: str) -> Path | None:
    path = find_plain_path(finding.path)
    decompressed = open_session.ensure_plain(layout, finding.agent_folder, path)
    backup = layout.backup_path(finding.agent_folder, finding.name, stamp)
    is_repaired = repair.repair_transcript(path, backup) > 0
    if is_repaired or decompressed:
        store_index.reindex(finding.agent_folder, [finding.name])
    return backup if is_repaired else None
