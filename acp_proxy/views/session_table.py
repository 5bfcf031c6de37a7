"""The list of sessions as a table, as wide as the terminal.

Titles, ids and directories come from other people: they are made printable. Characters whose width differs between
terminals (joined emoji, variants) appear in their plain form, so that columns stay aligned.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from rich.cells import cell_len, set_cell_size

from acp_proxy.sessions.command_store import TokensAndCost
from acp_proxy.store.index_database import ListedSession
from acp_proxy.transcript.file_names import name_agent
from acp_proxy.views import formatting
from acp_proxy.views.sanitize import RUNNING, make_line

_HEADINGS = {
    "id": "ID",
    "title": "TITLE",
    "agent": "AGENT",
    "directory": "DIRECTORY",
    "when": "WHEN",
    "turns": "TURNS",
    "tokens": "TOKENS",
    "cost": "COST",
    "size": "SIZE",
}
_LONG_COLUMNS = ("tokens", "cost", "size")
"""The columns that only ``list --long`` has."""
_RIGHT_ALIGNED = ("turns", *_LONG_COLUMNS)
_GAP = "  "
_ELLIPSIS = "…"
_LEAST_WIDTHS = {"title": 40, "agent": 16, "directory": 12, "when": 8, "tokens": 6, "cost": 8, "size": 7}
_LEAST_WIDTHS_LONG = _LEAST_WIDTHS | {"title": 20, "agent": 10, "directory": 10}
"""The widths that these columns get before another column is shown; the title alone shrinks further. Where they
fit, there are the same columns every time, whatever the rows have."""
_USUAL_ID_WIDTH, _MOST_ID_WIDTH = 9, 16
"""What an id takes more than the usual width, such as that of a copy, the title gives: no column goes for it."""
_AGENT_END = 5
"""Characters at the end of an agent's name that stay: as many as ``make_distinct_names`` adds."""
_DROPPED_FIRST = ("size", "turns", "agent", "directory")
_DROPPED_OF_SEVERAL_AGENTS = ("size", "turns", "directory", "agent")
_SHRINKING = ("title", "agent", "directory")
_GROWING = (("agent", 20), ("title", 60), ("directory", 32), ("title", 1000), ("directory", 1000))
"""The columns that grow if there is room, and their maximum widths."""
_COLOURS = {"id": "33", "agent": "36", "when": "32", "heading": "1"}
AMBIGUOUS = re.compile("[\u200c\u200d\ufe0e\ufe0f\U0001f3fb-\U0001f3ff]")  # joiners, variants, shades of skin


@dataclass(frozen=True, slots=True)
class ListLook:
    """How a list appears. ``width``: in columns. ``home``: the directory shown as ``~``. ``forms``: what the terminal
    shows in place of some characters. ``agents``: the names shown for agents' folders.
    """

    width: int
    has_colours: bool
    now: datetime
    home: str = ""
    forms: Mapping[int, str] = field(default_factory=dict)
    agents: Mapping[str, str] = field(default_factory=dict)


FiguresByRow = Mapping[tuple[str, str], TokensAndCost]
"""What sessions used, by agent and transcript name."""


def make_table(
    rows: Sequence[ListedSession],
    ids: Mapping[str, str],
    look: ListLook,
    usage: FiguresByRow | None = None,
    *,
    short_titles: bool = False,
    with_size: bool = False,
) -> "Table":
    """A table with room for these rows; later rows adapt. ``ids``: the displayed forms, by selector. ``usage``: for the
    columns of tokens and cost; None: without them. ``short_titles``: titles give room to the other columns.
    ``with_size``: the size stays in any width."""
    values = [_format_values(row, ids, look, usage) for row in rows]
    wished_widths = {name: max(cell_len(texts[name]) for texts in (_HEADINGS, *values)) for name in _HEADINGS}
    # An id that begins with another whole id is shown with one letter more than that. Only its own row makes room.
    fitting_ids = [text_width for texts in values if (text_width := cell_len(texts["id"])) <= _MOST_ID_WIDTH]
    wished_widths["id"] = max(fitting_ids, default=wished_widths["id"])
    least_widths = dict(_LEAST_WIDTHS_LONG if short_titles or usage is not None else _LEAST_WIDTHS)
    least_widths["title"] -= min(max(wished_widths["id"], _USUAL_ID_WIDTH), _MOST_ID_WIDTH) - _USUAL_ID_WIDTH
    widths = {
        name: min(text_width, least_widths.get(name, text_width)) if name in _SHRINKING else text_width
        for name, text_width in wished_widths.items()
    }
    reserved = {name: least_widths.get(name, text_width) for name, text_width in wished_widths.items()}
    fixed_columns = {"size"} if with_size else set[str]()
    columns = [name for name in _HEADINGS if usage is not None or name not in _LONG_COLUMNS or name in fixed_columns]
    for name in _DROPPED_FIRST if len({row.agent_folder for row in rows}) < 2 else _DROPPED_OF_SEVERAL_AGENTS:
        if (
            name in columns
            and name not in fixed_columns
            and max(_count_free(columns, tried_widths, look.width) for tried_widths in (reserved, widths)) < 0
        ):
            columns.remove(name)
    for name, most_width in _GROWING:
        if name in columns:
            room = widths[name] + _count_free(columns, widths, look.width)
            widths[name] = max(min(wished_widths[name], most_width, room), min(widths[name], room), 1)
    return Table(columns, widths, look)


class Table:
    """The columns of a list and their widths (``make_table``)."""

    def __init__(self, columns: list[str], widths: Mapping[str, int], look: ListLook) -> None:
        self._columns = columns
        self._widths = widths
        self._look = look

    def format_heading(self) -> str:
        text = self._format_line(_HEADINGS)
        return f"\x1b[{_COLOURS['heading']}m{text}\x1b[0m" if self._look.has_colours else text

    def format_rows(
        self, rows: Sequence[ListedSession], ids: Mapping[str, str], usage: FiguresByRow | None = None
    ) -> Iterator[str]:
        for row in rows:
            values = _format_values(row, ids, self._look, usage)
            yield self._format_line(values, _colour if self._look.has_colours else None)

    def _format_line(self, values: Mapping[str, str], paint: Callable[[str, str], str] | None = None) -> str:
        room = self._look.width
        excess = max(cell_len(values["id"]) - self._widths["id"], 0)  # ids are never cut: the title shrinks
        missing = max(excess - max(_count_free(self._columns, self._widths, room), 0), 0)
        widths = {**self._widths, "id": self._widths["id"] + excess, "title": max(self._widths["title"] - missing, 1)}
        cells = []
        for name in self._columns:
            cell = _fit(name, values[name], min(widths[name], room), _ELLIPSIS.translate(self._look.forms))
            room -= cell_len(cell) + len(_GAP)
            cells.append(paint(name, cell) if paint is not None else cell)
            if room <= 0:
                break
        return _GAP.join(cells).rstrip()


def _format_values(
    row: ListedSession, ids: Mapping[str, str], look: ListLook, usage: FiguresByRow | None = None
) -> dict[str, str]:
    figures = (usage or {}).get((row.agent_folder, row.name), TokensAndCost())
    texts = {
        "id": ids.get(row.selector, row.selector),
        "title": formatting.format_title(row.title, is_pinned=row.is_pinned, is_copy=row.copy_of is not None),
        "agent": look.agents.get(row.agent_folder) or name_agent(row.agent_folder),
        "directory": formatting.shorten_home(row.cwd or "", look.home),
        "when": RUNNING if row.is_running else formatting.format_short_time(row.updated, look.now),
        "turns": str(row.prompt_count),
        "size": formatting.format_size(row.size),
        "tokens": formatting.format_number(figures.tokens) if figures.tokens is not None else "-",
        "cost": formatting.format_amounts(figures.cost) or "-",
    }
    return {name: AMBIGUOUS.sub("", make_line(text)).translate(look.forms) for name, text in texts.items()}


def _count_free(columns: Sequence[str], widths: Mapping[str, int], width: int) -> int:
    """How many of the terminal's ``width`` these columns leave free; negative if they do not fit."""
    return width - sum(widths[name] for name in columns) - len(_GAP) * (len(columns) - 1)


def _fit(name: str, text: str, width: int, ellipsis: str) -> str:
    """Text of exactly this width. A directory keeps its end. An agent keeps its end too, which may be what tells it
    from another one."""
    if cell_len(text) > width:
        room = width - len(ellipsis)
        if name == "directory":
            text = cut_directory(text, width, ellipsis)
        elif name == "agent" and room > 2 * _AGENT_END:
            end = text[-_AGENT_END:]
            text = set_cell_size(text, room - cell_len(end)) + ellipsis + end
        else:
            text = set_cell_size(text, room) + ellipsis if room > 0 else ellipsis[:width]
    space = " " * (width - cell_len(text))
    return space + text if name in _RIGHT_ALIGNED else text + space


def cut_directory(path: str, width: int, ellipsis: str) -> str:
    """The end of a directory that fits so many columns, from a whole name on if one fits, as ``git diff --stat`` cuts
    paths."""
    if cell_len(path) <= width:
        return path
    end = path
    while end and cell_len(end) > width - cell_len(ellipsis):
        end = end[1:]
    return ellipsis[: max(width, 0)] + end[max(end.find("/"), 0) :]


def _colour(name: str, cell: str) -> str:
    return f"\x1b[{_COLOURS[name]}m{cell}\x1b[0m" if name in _COLOURS else cell
