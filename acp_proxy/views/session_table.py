"""The list of sessions as a table, as wide as the terminal.

Titles, ids and directories come from other people: they are made printable. Characters whose width differs between
terminals (joined emoji, variants) appear in their plain form, so that columns stay aligned.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from rich.cells import cell_len, set_cell_size

from acp_proxy.store.command_store import ListedSession, TokensAndCost, name_agent
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
_LONG = ("tokens", "cost", "size")
"""The columns that only ``list --long`` has."""
_TO_THE_RIGHT = ("turns", *_LONG)
_GAP = "  "
_ELLIPSIS = "…"
_LEAST = {"title": 40, "agent": 16, "directory": 12, "when": 8, "tokens": 6, "cost": 8, "size": 7}
_LEAST_LONG = _LEAST | {"title": 20, "agent": 10, "directory": 10}
"""The widths that these columns get before another column is shown; the title alone shrinks further. Where they
fit, there are the same columns every time, whatever the rows have."""
_MOST_ID = 16
_AGENT_END = 5
"""Characters at the end of an agent's name that stay: as many as ``name_agents`` adds."""
_FIRST_TO_GO = ("size", "turns", "agent", "directory")
_WITH_SEVERAL_AGENTS = ("size", "turns", "directory", "agent")
_SHRINK = ("title", "agent", "directory")
_SHARED_OUT = (("agent", 20), ("title", 60), ("directory", 32), ("title", 1000), ("directory", 1000))
"""The columns that grow if there is room, and their maximum widths."""
_COLOURS = {"id": "33", "agent": "36", "when": "32", "heading": "1"}
AMBIGUOUS = re.compile("[\u200c\u200d\ufe0e\ufe0f\U0001f3fb-\U0001f3ff]")  # joiners, variants, shades of skin


@dataclass(frozen=True, slots=True)
class ListLook:
    """``home``: the directory shown as ``~``. ``forms``: what the terminal shows in place of some characters.
    ``agents``: the names shown for agents' folders.
    """

    width: int
    colours: bool
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
    used: FiguresByRow | None = None,
    *,
    short_titles: bool = False,
    with_size: bool = False,
) -> "Table":
    """A table with room for these rows; later rows adapt. ``ids``: the displayed forms. ``used``: None: not shown.
    ``short_titles``: titles give room to the other columns. ``with_size``: the size stays in any width."""
    values = [_format_values(row, ids, look, used) for row in rows]
    wished = {name: max(cell_len(texts[name]) for texts in (_HEADINGS, *values)) for name in _HEADINGS}
    # An id that begins with another whole id is shown with one letter more than that. Only its own row makes room.
    short = [wide for texts in values if (wide := cell_len(texts["id"])) <= _MOST_ID]
    wished["id"] = max(short, default=wished["id"])
    least = _LEAST_LONG if short_titles or used is not None else _LEAST
    widths = {name: min(wide, least.get(name, wide)) if name in _SHRINK else wide for name, wide in wished.items()}
    reserved = {name: least.get(name, wide) for name, wide in wished.items()}
    staying = {"size"} if with_size else set[str]()
    columns = [name for name in _HEADINGS if used is not None or name not in _LONG or name in staying]
    for name in _FIRST_TO_GO if len({row.agent_folder for row in rows}) < 2 else _WITH_SEVERAL_AGENTS:
        if (
            name in columns
            and name not in staying
            and max(_measure_room(columns, taken, look.width) for taken in (reserved, widths)) < 0
        ):
            columns.remove(name)
    for name, most in _SHARED_OUT:
        if name in columns:
            room = widths[name] + _measure_room(columns, widths, look.width)
            widths[name] = max(min(wished[name], most, room), min(widths[name], room), 1)
    return Table(columns, widths, look)


class Table:
    def __init__(self, columns: list[str], widths: Mapping[str, int], look: ListLook) -> None:
        self._columns = columns
        self._widths = widths
        self._look = look

    def format_heading(self) -> str:
        text = self._format_line(_HEADINGS)
        return f"\x1b[{_COLOURS['heading']}m{text}\x1b[0m" if self._look.colours else text

    def format_rows(
        self, rows: Sequence[ListedSession], ids: Mapping[str, str], used: FiguresByRow | None = None
    ) -> Iterator[str]:
        for row in rows:
            values = _format_values(row, ids, self._look, used)
            yield self._format_line(values, _colour if self._look.colours else None)

    def _format_line(self, values: Mapping[str, str], paint: Callable[[str, str], str] | None = None) -> str:
        room = self._look.width
        more = max(cell_len(values["id"]) - self._widths["id"], 0)  # ids are never cut: the title shrinks
        lacks = max(more - max(_measure_room(self._columns, self._widths, room), 0), 0)
        widths = {**self._widths, "id": self._widths["id"] + more, "title": max(self._widths["title"] - lacks, 1)}
        cells = []
        for name in self._columns:
            cell = _fit(name, values[name], min(widths[name], room), _ELLIPSIS.translate(self._look.forms))
            room -= cell_len(cell) + len(_GAP)
            cells.append(paint(name, cell) if paint is not None else cell)
            if room <= 0:
                break
        return _GAP.join(cells).rstrip()


def _format_values(
    row: ListedSession, ids: Mapping[str, str], look: ListLook, used: FiguresByRow | None = None
) -> dict[str, str]:
    use = (used or {}).get((row.agent_folder, row.name), TokensAndCost())
    texts = {
        "id": ids.get(row.selector, row.selector),
        "title": formatting.format_title(row.title, is_pinned=row.is_pinned, is_copy=row.copy_of is not None),
        "agent": look.agents.get(row.agent_folder) or name_agent(row.agent_folder),
        "directory": formatting.shorten_home(row.cwd or "", look.home),
        "when": RUNNING if row.is_running else formatting.format_short_time(row.updated, look.now),
        "turns": str(row.prompt_count),
        "size": formatting.format_size(row.size),
        "tokens": formatting.format_count(use.tokens) if use.tokens is not None else "-",
        "cost": formatting.format_amounts(use.cost) or "-",
    }
    return {name: AMBIGUOUS.sub("", make_line(text)).translate(look.forms) for name, text in texts.items()}


def _measure_room(columns: Sequence[str], widths: Mapping[str, int], width: int) -> int:
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
    return space + text if name in _TO_THE_RIGHT else text + space


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
