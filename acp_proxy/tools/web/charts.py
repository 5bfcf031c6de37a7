"""Charts as SVG within a page. Colours and fonts are the page's classes; a table beside it says the same in words."""

from collections.abc import Sequence
from html import escape

_WIDTH, _HEIGHT = 720, 160
_TOP, _BOTTOM = 24, 26
_GAP = 0.25
"""Of a column's room."""


def draw_columns(title: str, values: Sequence[tuple[str, int]]) -> str:
    """A column for each value, from left to right, with the first, the middle and the last name below.

    ``title``: for people who do not see it.
    """
    most = max((value for _, value in values), default=0)
    step = _WIDTH / max(len(values), 1)
    room = _HEIGHT - _TOP - _BOTTOM
    columns = []
    for at, (name, value) in enumerate(values):
        height = room * value / most if most else 0
        columns.append(
            f'<rect x="{at * step + step * _GAP / 2:.1f}" y="{_TOP + room - height:.1f}"'
            f' width="{step * (1 - _GAP):.1f}" height="{height:.1f}"><title>{escape(name)}: {value:,}</title></rect>'
        )
    names = []
    for at, anchor in {0: "start", len(values) // 2: "middle", len(values) - 1: "end"}.items() if values else ():
        x = {"start": 0.0, "end": float(_WIDTH)}.get(anchor, (at + 0.5) * step)
        names.append(f'<text x="{x:.1f}" y="{_HEIGHT - 6}" text-anchor="{anchor}">{escape(values[at][0])}</text>')
    return (
        f'<svg class="chart" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(title)}">'
        f'<line x1="0" y1="{_TOP + room}" x2="{_WIDTH}" y2="{_TOP + room}"/>{"".join(columns)}'
        f'<text x="0" y="18">{most:,}</text>{"".join(names)}</svg>\n'
    )


def draw_bar(value: int, most: int) -> str:
    """A bar for a row of a table."""
    width = 100 * value / most if most else 0
    return (
        '<svg class="amount" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect x="0" y="0" width="{width:.1f}" height="8"/></svg>'
    )
