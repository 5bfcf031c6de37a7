"""Repairs findings: each the whole file of a finding, or what the index says of it."""

from pathlib import Path

from acp_proxy.transcripts.files import access
from acp_proxy.transcripts.files.layout import Layout
from acp_proxy.transcripts.files.names import plain
from acp_proxy.transcripts.listing.catalog import Catalog
from acp_proxy.transcripts.lives import beginning
from acp_proxy.transcripts.upkeep import mending, verifying
from acp_proxy.transcripts.upkeep.verifying import Finding


def repair(layout: Layout, catalog: Catalog, finding: Finding, stamp: str) -> Path | None:
    """See ``Archive.repair``. ``stamp``: the time of the repair."""
    if finding.kind == verifying.MODE:
        access.make_private(finding.path)
    elif finding.path.parent == layout.search:
        layout.remove_words(finding.path)
    elif finding.path == layout.index and finding.name:
        catalog.renew(finding.agent, [finding.name])
    elif finding.path == layout.index:
        catalog.rebuild()
    elif finding.name:
        return _transcript(layout, catalog, finding, stamp)
    else:
        copy = layout.backup(finding.agent, finding.path.stem, stamp)
        return copy if mending.mend_journal(finding.path, copy) else None
    return None


def _transcript(layout: Layout, catalog: Catalog, finding: Finding, stamp: str) -> Path | None:
    path = plain(finding.path)
    decompressed = beginning.make_plain(layout, finding.agent, path)
    copy = layout.backup(finding.agent, finding.name, stamp)
    is_mended = mending.mend_transcript(path, copy) > 0
    if is_mended or decompressed:
        catalog.renew(finding.agent, [finding.name])
    return copy if is_mended else None
