"""The performance goals, and the row that decides each.

A goal is what the design costs on a quiet machine, with room for the difference between two runs.
"""

from dataclasses import dataclass
from typing import Literal

from benchmarks.figures import Figures, Row, digits, format_figure


@dataclass(frozen=True)
class Goal:
    """``limit`` is for the ratio to the baseline, or for the figure itself. ``more``: a minimum, else a maximum."""

    what: str
    group: str
    row: str
    subject: str
    limit: float
    more: bool = False
    of: Literal["ratio", "figure"] = "ratio"

    def limited(self, row: Row | None) -> str:
        sign = "≥" if self.more else "≤"
        if self.of == "ratio":
            return f"{sign} {digits(self.limit)}x {row.against}" if row else f"{sign} {digits(self.limit)}x"
        return f"{sign} {format_figure(self.limit, row.unit)}" if row else f"{sign} {self.limit:g}"

    def reached(self, row: Row) -> float | None:
        return (row.ratios if self.of == "ratio" else row.values).get(self.subject)

    def told(self, row: Row) -> str:
        """The measurement as printed."""
        found = self.reached(row)
        if found is None:
            return "not measured"
        return f"{digits(found)}x" if self.of == "ratio" else format_figure(found, row.unit)

    def is_met(self, row: Row) -> bool | None:
        found = self.reached(row)
        return None if found is None else (found >= self.limit if self.more else found <= self.limit)


_US = "acp-proxy"
_LITTLE = 2_000_000
_SENT, _READ = 160_000_000, 320_000_000
"""Bytes for a line of 50 MB: if it is only held and forwarded, and if its JSON is read."""
_ASKED = "a request that means nothing here, and its answer"
_FILE = "a request of the agent for a file, and its answer"
_OUTPUT = "a request of the agent for a terminal's output, and its answer"
_LONG_OUTPUT = "50 MB of a terminal's output to the agent"
_BATCH = "50 MB of a batch, which must be held"
_AT_ONCE = "flood at once after the start"
GOALS = (
    Goal("round trip of a 200 B message, p50", "relay", "round trip, p50", _US, 2.2),
    Goal("round trip of a 200 B message, p99", "relay", "round trip, p99", _US, 4.0),
    Goal("CPU per message that arrives alone", "relay", "CPU per update that arrives alone", _US, 5.5),
    Goal("an extension's request and its answer, p50", "relay", f"{_ASKED}, p50", _US, 2.8),
    Goal("an extension's request and its answer: CPU", "relay", f"{_ASKED}: CPU", _US, 70e-6, of="figure"),
    Goal("an agent's request for a file, and its answer, p50", "relay", f"{_FILE}, p50", _US, 2.8),
    Goal("an agent's request for a terminal's output, and its answer, p50", "relay", f"{_OUTPUT}, p50", _US, 2.8),
    Goal("a whole turn", "relay", "a whole turn: prompt, update, answer", _US, 600e-6, of="figure"),
    Goal("flood, batches of 64 KiB", "relay", "flood, batches of 64 KiB", _US, 0.3, more=True),
    Goal("flood, message by message", "relay", "flood, message by message", _US, 0.5, more=True),
    Goal("flood at once, batches of 64 KiB", "relay", f"{_AT_ONCE}, batches of 64 KiB", _US, 0.28, more=True),
    Goal("flood at once, message by message", "relay", f"{_AT_ONCE}, message by message", _US, 0.5, more=True),
    Goal("a 50 MB update", "relay", "50 MB lines to the client", _US, 0.12, more=True),
    Goal("a 50 MB update: memory", "relay", "50 MB lines to the client: memory growth", _US, _SENT, of="figure"),
    Goal("a 50 MB prompt", "relay", "50 MB prompt", _US, 0.12, more=True),
    Goal("a 50 MB prompt: memory", "relay", "50 MB prompt: memory growth", _US, _READ, of="figure"),
    Goal("50 MB of a terminal's output", "relay", _LONG_OUTPUT, _US, 0.2, more=True),
    Goal("50 MB of a terminal's output: memory", "relay", f"{_LONG_OUTPUT}: memory growth", _US, _READ, of="figure"),
    Goal(_BATCH, "relay", _BATCH, _US, 0.12, more=True),
    Goal(f"{_BATCH}: memory", "relay", f"{_BATCH}: memory growth", _US, _READ, of="figure"),
    Goal(
        "client stalled, 200 MB pending: memory",
        "relay",
        "client that does not read, 200 MB pending: memory growth",
        _US,
        _LITTLE,
        of="figure",
    ),
    Goal("memory at rest", "relay", "memory at rest", _US, 3.0),
    Goal("agent started", "start", "agent started", _US, 1.45),
    Goal("first answer later than alone", "start", "first answer: later than alone", f"{_US}, Python", 6.5),
    Goal("first answer of a Node agent", "start", "first answer of a Node agent", _US, 3.5),
    Goal("`acp-proxy --version`", "start", "acp-proxy --version", _US, 0.150, of="figure"),
    Goal("`acp-proxy list`", "start", "acp-proxy list", _US, 0.125, of="figure"),
    Goal("`acp-proxy stats`, 5,000 sessions", "scale", "acp-proxy stats", "5,000", 0.3, of="figure"),
    Goal("`acp-proxy stats`, 100,000 sessions", "scale", "acp-proxy stats", "100,000", 1.0, of="figure"),
    Goal("TAB, 100,000 sessions", "scale", "TAB after most of an old id", "100,000", 0.14, of="figure"),
    Goal(
        "first search, 200 MB",
        "scale",
        "first search, 5,000 sessions of 200 MB",
        "nowhere",
        6.0,
        of="figure",
    ),
    Goal("list, first page, 100,000 sessions", "store", "list, first page", "100,000", 1.5),
    Goal("search, 10,000 sessions", "store", "search, a word of one session", "10,000", 0.005, of="figure"),
    Goal("replay of 100,000 updates, `full`", "replay", "100,000 chunks: last update", "full", 4.0),
    Goal("replay of 100,000 updates, `compact`", "replay", "100,000 chunks: last update", "compact", 4.0),
    Goal(
        "replay of 100,000 updates, `compact`, first update out",
        "replay",
        "100,000 chunks: first update",
        "compact",
        0.005,
        of="figure",
    ),
    Goal("recording an update, in a batch", "store", "an update in a batch of 64 KiB", "recorder", 3.0),
)


def rows(figures: Figures) -> list[tuple[Goal, Row | None]]:
    return [(goal, figures.row(goal.group, goal.row)) for goal in GOALS]
