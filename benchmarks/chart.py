"""Pictures, as SVG written by hand: dots for what is compared, lines for what grows. Readable on light and on dark."""

import math
from collections.abc import Iterator, Sequence
from html import escape

from benchmarks.figures import SECONDS, Row, digits, written

_WIDTH, _LEFT, _RIGHT, _ROW = 860, 330, 30, 26
_TOP, _BOTTOM = 62, 42
_HEIGHT = 460  # of a picture with lines
_COLOURS = (
    "#e8743b",
    "#3b82c4",
    "#7a8794",
    "#a35cc4",
    "#5a9e9e",
    "#c9a227",
    "#d0507a",
    "#6b8e23",
    "#8a6d4b",
    "#4c5fb0",
    "#9aa5b1",
)
_STYLE = """<style>
text { font: 13px system-ui, -apple-system, "Segoe UI", sans-serif; fill: #24292f }
.small { font-size: 11px; fill: #57606a }
.title { font-size: 15px; font-weight: 600 }
.grid { stroke: #d0d7de; stroke-width: 1 }
.one { stroke: #57606a; stroke-width: 1.5 }
.goal { stroke: #2f9e6e; stroke-width: 2.5 }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 } .small { fill: #9da7b1 } .grid { stroke: #30363d } .one { stroke: #9da7b1 }
}
</style>"""


def dots(title: str, rows: Sequence[tuple[Row, float | None]], first: str) -> str:
    """What each subject costs, as a multiple of the row's baseline; ``first`` is drawn on top, and told in words.

    Beside each row, a goal: the most that it may cost. A row of throughput is turned, so that left is always better.
    """
    shown = [(row, goal) for row, goal in rows if any(row.cost(subject) for subject in row.samples)]
    subjects = list(dict.fromkeys(subject for row, _ in shown for subject in row.samples if row.cost(subject)))
    subjects.sort(key=lambda subject: subject != first)
    costs = [cost for row, goal in shown for cost in (*(row.cost(each) for each in row.samples), goal) if cost]
    low, high = _whole(min([*costs, 0.8])), _whole(max([*costs, 2.0]), up=True)
    height = _TOP + _ROW * len(shown) + _BOTTOM

    def x(value: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT - 60) * math.log(value / low) / math.log(high / low)

    out = [_begin(height, title), *_legend(subjects)]
    for mark in _ticks(low, high):
        kind = "one" if mark == 1 else "grid"
        out.append(_line(x(mark), _TOP - 6, x(mark), height - _BOTTOM + 6, kind))
        out.append(_text(x(mark), height - _BOTTOM + 22, f"{mark:g} x", "small", "middle"))
    for at, (row, goal) in enumerate(shown):
        y = _TOP + _ROW * at + _ROW / 2
        out.append(_text(_LEFT - 14, y + 4, f"{row.what} / {row.against}", "", "end"))
        if goal:
            out.append(_line(x(goal), y - 9, x(goal), y + 9, "goal"))
        for subject in reversed(subjects):
            cost = row.cost(subject) if subject in row.samples else None
            if cost:
                colour, size = _COLOURS[subjects.index(subject) % len(_COLOURS)], 6.5 if subject == first else 4.5
                out.append(f'<circle cx="{x(cost):.1f}" cy="{y:.1f}" r="{size}" fill="{colour}"/>')
        if first in row.samples and (cost := row.cost(first)):
            out.append(_text(_WIDTH - _RIGHT, y + 4, f"{digits(cost)} x", "", "end"))
    note = "cost, as a multiple of what stands behind the stroke; left is better" + (
        "; green: the goal" if any(goal for _, goal in shown) else ""
    )
    out.append(_text(_LEFT, height - 4, note, "small", "start"))
    return "\n".join([*out, "</svg>\n"])


def lines(title: str, rows: Sequence[Row]) -> str:
    """What grows with a size, on logarithmic axes: a flat line costs nothing, one that follows the grey is linear."""
    points = {row.what: [(_number(size), row.value(size)) for size in row.samples] for row in rows}
    sizes = sorted({size for line in points.values() for size, _ in line})
    costs = [cost for line in points.values() for _, cost in line]
    low, high = 10 ** math.floor(math.log10(min(costs))), 10 ** math.ceil(math.log10(max(costs)))
    left, right = 80, 300

    def x(size: float) -> float:
        return left + (_WIDTH - left - right) * math.log(size / sizes[0]) / math.log(sizes[-1] / sizes[0])

    def y(cost: float) -> float:
        return _HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * math.log(cost / low) / math.log(high / low)

    out = [_begin(_HEIGHT, title)]
    for power in range(round(math.log10(low)), round(math.log10(high)) + 1):
        out.append(_line(left, y(10.0**power), _WIDTH - right, y(10.0**power), "grid"))
        out.append(_text(left - 10, y(10.0**power) + 4, written(10.0**power, SECONDS), "small", "end"))
    for size in sizes:
        out.append(_line(x(size), _TOP, x(size), _HEIGHT - _BOTTOM, "grid"))
        out.append(_text(x(size), _HEIGHT - _BOTTOM + 18, f"{size:,.0f}", "small", "middle"))
    labels = _apart({what: y(line[-1][1]) for what, line in points.items()})
    for at, (what, line) in enumerate(points.items()):
        colour = _COLOURS[at % len(_COLOURS)]
        path = " ".join(f"{x(size):.1f},{y(cost):.1f}" for size, cost in line)
        out.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2.5"/>')
        out += [f'<circle cx="{x(size):.1f}" cy="{y(cost):.1f}" r="3.5" fill="{colour}"/>' for size, cost in line]
        out.append(f'<circle cx="{_WIDTH - right + 18}" cy="{labels[what]:.1f}" r="4" fill="{colour}"/>')
        out.append(_text(_WIDTH - right + 28, labels[what] + 4, what, "", "start"))
    steepest = math.log(sizes[-1] / sizes[0]) / math.log(high / low)  # a linear cost, from the corner
    ends = (x(sizes[-1]), y(low * math.exp(steepest * math.log(high / low))))
    out.append(
        f'<line x1="{x(sizes[0])}" y1="{y(low)}" x2="{ends[0]:.1f}" y2="{ends[1]:.1f}" class="one" '
        'stroke-dasharray="4 5"/>'
    )
    out.append(_text(left, _HEIGHT - 4, "by size; dashed: a cost that grows as the size does", "small", "start"))
    return "\n".join([*out, "</svg>\n"])


def _begin(height: float, title: str) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height:.0f}" width="{_WIDTH}" '
        f'height="{height:.0f}" role="img"><title>{escape(title)}</title>\n{_STYLE}\n'
        + _text(14, 24, title, "title", "start")
    )


def _legend(subjects: Sequence[str]) -> Iterator[str]:
    at = 14.0
    for number, subject in enumerate(subjects):
        yield f'<circle cx="{at + 5}" cy="42" r="5" fill="{_COLOURS[number % len(_COLOURS)]}"/>'
        yield _text(at + 15, 46, subject, "small", "start")
        at += 32 + 6.5 * len(subject)


def _text(x: float, y: float, text: str, kind: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}">{escape(text)}</text>'


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{kind}"/>'


def _ticks(low: float, high: float) -> list[float]:
    steps = (1.0, 2.0, 5.0) if high / low < 200 else (1.0,)
    marks = [step * 10.0**power for power in range(-9, 10) for step in steps]
    return [mark for mark in marks if low * 0.999 <= mark <= high * 1.001]


def _whole(value: float, *, up: bool = False) -> float:
    """The next of 1, 2, 5, 10, … beyond a value."""
    marks = [step * 10.0**power for power in range(-9, 10) for step in (1.0, 2.0, 5.0)]
    return min(mark for mark in marks if mark >= value) if up else max(mark for mark in marks if mark <= value)


def _apart(wanted: dict[str, float], least: float = 17.0) -> dict[str, float]:
    """Where labels stand, so that none covers another."""
    placed: dict[str, float] = {}
    last = -math.inf
    for what in sorted(wanted, key=lambda name: wanted[name]):
        last = placed[what] = max(wanted[what], last + least)
    over = last - (_HEIGHT - _BOTTOM)
    return {what: at - max(over, 0.0) for what, at in placed.items()} if over > 0 else placed


def _number(size: str) -> float:
    return float(size.replace(",", ""))
