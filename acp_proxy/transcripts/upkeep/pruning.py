"""Which sessions are pruned, and how each is: whole, and never one that somebody has open.

Each limit is a promise about what is left, so a session goes if any of them says so. Choosing is pure.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from acp_proxy.errors import errno_name
from acp_proxy.transcripts.files.layout import Layout
from acp_proxy.transcripts.files.names import aside, compressed
from acp_proxy.transcripts.listing.catalog import Catalog
from acp_proxy.transcripts.listing.keeping import kept, titled
from acp_proxy.transcripts.listing.queries import everything
from acp_proxy.transcripts.lives import deleting

IN_USE = "in use"


@dataclass(frozen=True, slots=True)
class Limits:
    """``before``: a time; nothing older is left. ``keep``: so many sessions are. ``size``: bytes that they may take."""

    before: str | None = None
    keep: int | None = None
    size: int | None = None


@dataclass(frozen=True, slots=True)
class Candidate:
    """``at``: when it was used last, or deleted. ``size``: bytes on the disk. ``counts``: it has a turn."""

    agent: str
    name: str
    session: str
    at: str
    size: int
    title: str | None
    counts: bool = True
    is_kept: bool = False
    """It was deleted softly."""
    written: tuple[int, int] | None = None
    """Time and size of its file, if they are known: what has changed since is not what was chosen."""

    @property
    def named(self) -> str:
        """What names it on a command line."""
        return self.session if self.is_kept else self.session + aside(self.name)


def beyond(limits: Limits, candidates: Sequence[Candidate]) -> list[Candidate]:
    """Those that go, of these, which begin with the newest. They are in the same order."""
    count = size = 0
    gone = []
    for candidate in candidates:
        count += candidate.counts
        size += candidate.size
        is_old = limits.before is not None and candidate.at < limits.before
        is_many = limits.keep is not None and (count > limits.keep or (count == limits.keep and not candidate.counts))
        is_much = limits.size is not None and size > limits.size
        if is_old or is_many or is_much:
            gone.append(candidate)
    return gone


def of_listed(layout: Layout, catalog: Catalog) -> list[Candidate]:
    """Every session, the newest first. Raises OSError, Unreadable."""
    rows = catalog.ask(everything, *layout.agents())
    sizes = {agent: layout.sizes(agent) for agent in layout.agents()}
    return [
        Candidate(
            row.agent,
            row.name,
            row.session,
            row.updated,
            size,
            row.title,
            counts=row.prompts > 0,
            written=_written(layout.transcript(row.agent, row.name)),
        )
        for row in titled(layout, rows)
        if (size := sizes.get(row.agent, {}).get(row.name)) is not None
    ]


def of_kept(layout: Layout, catalog: Catalog) -> list[Candidate]:
    """What was deleted softly, the latest first. Raises OSError, Unreadable."""
    catalog.ask(lambda index: None, *layout.agents())  # of which nothing is left in the index then
    sizes = {agent: layout.sizes(agent) for agent in layout.agents()}
    return [
        Candidate(each.agent, each.name, each.session, each.at, size, each.title, is_kept=True)
        for each in kept(layout)
        if (size := sizes.get(each.agent, {}).get(each.name)) is not None
    ]


def prune(
    layout: Layout, catalog: Catalog, candidates: Iterable[Candidate], *, soft: bool
) -> Iterator[tuple[Candidate, str | None]]:
    """As ``Archive.prune``."""
    gone: dict[str, list[str]] = {}
    try:
        for candidate in candidates:
            trouble = _delete(layout, candidate, soft=soft)
            if trouble is None:
                gone.setdefault(candidate.agent, []).append(candidate.name)
            yield candidate, trouble
    finally:
        for agent, names in gone.items():
            layout.journal(agent).sync()
            catalog.forget(agent, names)


def _delete(layout: Layout, candidate: Candidate, *, soft: bool) -> str | None:
    """Why it was not, if so: somebody has it open, or has gone on with it meanwhile, or an errno's name."""
    agent, session, name = candidate.agent, candidate.session, candidate.name
    path = layout.kept(agent, name) if candidate.is_kept else layout.transcript(agent, name)
    try:
        with layout.journal(agent).alone(), deleting.unused(path) as is_unused:  # nobody makes it plain meanwhile
            if not is_unused or (candidate.written is not None and _written(path) != candidate.written):
                return IN_USE
            if candidate.is_kept:
                deleting.remove_kept(layout, agent, session, name)
            else:
                deleting.remove(layout, agent, session, name, soft=soft, is_unused=True)
    except OSError as problem:
        return errno_name(problem)
    return None


def _written(path: Path) -> tuple[int, int] | None:
    """None: it is not there."""
    for form in (path, compressed(path)):
        with suppress(FileNotFoundError):
            found = os.stat(form)
            return found.st_mtime_ns, found.st_size
    return None
