"""Sessions in one line each, for commands that say which ones they mean: columns that stay columns.

Titles and ids are somebody else's text: nothing that could steer a terminal comes through, and wide characters count
as the two columns that they take.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size

from acp_proxy.transcripts.archive import called
from acp_proxy.views import figures, terminal

_GAP = "  "
_MINUTE = len("2026-11-20 09:15")


@dataclass(frozen=True, slots=True)
class Row:
    """``at``: when it was used last, or deleted. ``id``: as it is shown. ``size``: bytes."""

    at: str
    agent: str
    id: str
    title: str | None
    size: int


def lines(rows: Sequence[Row], width: int | None) -> Iterator[str]:
    """When, how large, agent, id, title; cut to ``width`` columns if there are any."""
    cells = [_cells(row) for row in rows]
    widths = [max(cell_len(each[at]) for each in cells) for at in range(4)] if cells else []
    for when, size, *others, title in cells:
        padded = [set_cell_size(text, wide) for text, wide in zip(others, widths[2:], strict=True)]
        text = _GAP.join([when, size.rjust(widths[1]), *padded, title])
        if width is not None and cell_len(text) > width:
            text = set_cell_size(text, width - 1).rstrip() + "\N{HORIZONTAL ELLIPSIS}"
        yield text


def _cells(row: Row) -> tuple[str, str, str, str, str]:
    when = figures.local(row.at)[:_MINUTE]
    return (
        when,
        figures.size(row.size),
        terminal.line(called(row.agent)),
        terminal.line(row.id),
        terminal.line(row.title or "(no title)"),
    )
