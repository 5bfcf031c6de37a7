"""Sessions in one line each, for commands that say which sessions they mean.

Titles and ids come from other people: they cannot control the terminal, and wide characters count as two columns.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size

from acp_proxy.store.command_store import name_agent
from acp_proxy.views import formatting, sanitize

_GAP = "  "
_MINUTE = len("2026-11-20 09:15")


@dataclass(frozen=True, slots=True)
class SessionRow:
    """``at``: when it was last used, or deleted. ``id``: the displayed form. ``size``: bytes."""

    at: str
    agent_folder: str
    id: str
    title: str | None
    size: int


def format_lines(rows: Sequence[SessionRow], width: int | None) -> Iterator[str]:
    """Time, size, agent, id, title; cut to ``width`` columns if it is given."""
    cells = [_format_cells(row) for row in rows]
    widths = [max(cell_len(row_cells[at]) for row_cells in cells) for at in range(4)] if cells else []
    for when, size, *others, title in cells:
        padded = [set_cell_size(text, wide) for text, wide in zip(others, widths[2:], strict=True)]
        text = _GAP.join([when, size.rjust(widths[1]), *padded, title])
        if width is not None and cell_len(text) > width:
            text = set_cell_size(text, width - 1).rstrip() + "\N{HORIZONTAL ELLIPSIS}"
        yield text


def _format_cells(row: SessionRow) -> tuple[str, str, str, str, str]:
    when = formatting.format_local_time(row.at)[:_MINUTE]
    return (
        when,
        formatting.format_size(row.size),
        sanitize.make_line(name_agent(row.agent_folder)),
        sanitize.make_line(row.id),
        sanitize.make_line(row.title or "(no title)"),
    )
