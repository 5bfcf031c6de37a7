"""Passing messages on: latency, throughput and cost.

`C` is a relay that only polls, reads and writes. `cat` is `cat | agent | cat`. `two threads` are Python threads that
read, write and append to a file; `wide`: with pipes of half a megabyte, as the proxy has for long lines.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from benchmarks import tapes
from benchmarks.figures import BYTES, BYTES_PER_SECOND, PER_SECOND, SECONDS, Reading, Row
from benchmarks.rounds import interleaved
from benchmarks.subjects import CAT, NONE, PROXY, PYTHON, THREADS, WIDE_THREADS, C, Effort

BATCH = 64 * 1024
ASKED, FILE = 2_000, 4_096
PINGS, SPACED, PACED, TURNS, FLOOD, ALONE, FEWER = 5_000, 500, 1_000, 200, 500_000, 200_000, 20_000
TAPED = 20
"""How often the tape is played."""
SMALL = 200
MANY = 31
"""Rounds for figures that depend on which processors the system chooses: it keeps its choice for seconds."""
STALLED = 200_000_000
SECOND = 2
"""The agent's last argument: the version of the protocol."""
_EVERYBODY = (NONE, C, CAT, THREADS, PROXY)
_PIPES = (NONE, C, PROXY)


@dataclass(frozen=True)
class RelayExchange:
    """What the client and the agent do, and the rows of the results."""

    said: tuple[object, ...]
    agent: tuple[object, ...]
    readings: tuple[Reading, ...]
    subjects: tuple[str, ...] = _EVERYBODY
    quick: bool = False
    rounds: int = 11


def lines(
    name: str, size: int, count: int, *also: str, quick: bool = False, rounds: int = 7
) -> Iterator[RelayExchange]:
    """Lines of one size, in both directions. ``rounds`` and ``also`` (subjects) apply to those to the client."""
    rate, growth = (
        partial(Reading, unit=BYTES_PER_SECOND, key="seconds", against=C, of=size * count),
        partial(Reading, unit=BYTES, key="growth"),
    )
    to_client, to_agent = f"{name} lines to the client", f"{name} lines to the agent"
    yield RelayExchange(
        ("stream",),
        (count, size, BATCH),
        (rate(to_client), growth(f"{to_client}: memory growth")),
        (NONE, C, THREADS, *also, PROXY),
        quick,
        rounds=rounds,
    )
    yield RelayExchange(
        ("up", count, size), (1, SMALL), (rate(to_agent), growth(f"{to_agent}: memory growth")), _PIPES, rounds=7
    )


def exchange_requests(what: str, size: int, row: str) -> Iterator[RelayExchange]:
    """Requests, each sent after the answer to the one before. ``size``: of the client's lines."""
    readings = (
        Reading(f"{row}, p50", SECONDS, "p50", C),
        Reading(f"{row}, p99", SECONDS, "p99", C),
        Reading(f"{row}: CPU", SECONDS, "cpu", C, factor=1 / ASKED),
    )
    yield RelayExchange((what, ASKED, size), (1, SMALL), readings, (NONE, C, THREADS, PROXY))


def long(what: str, row: str) -> RelayExchange:
    """One line of 50 MB to the agent, which then says something."""
    rate = Reading(row, BYTES_PER_SECOND, "seconds", C, of=50_000_000)
    return RelayExchange(
        (what, 1, 50_000_000), (1, SMALL), (rate, Reading(f"{row}: memory growth", BYTES, "growth")), _PIPES
    )


def rush(how: str, count: int, batch: int) -> Iterator[RelayExchange]:
    """A flood right after the start, while the proxy still imports."""
    rate = Reading(f"flood at once after the start, {how}", PER_SECOND, "seconds", C, of=count)
    yield RelayExchange(("rush",), (count, SMALL, batch), (rate,), _PIPES)


TALKS = (
    RelayExchange(
        ("ping", PINGS, SMALL),
        (1, SMALL),
        (
            Reading("round trip, p50", SECONDS, "p50", C),
            Reading("round trip, p90", SECONDS, "p90", C),
            Reading("round trip, p99", SECONDS, "p99", C),
        ),
        quick=True,
        rounds=MANY,
    ),
    RelayExchange(
        ("spaced", SPACED, SMALL),
        (1, SMALL),
        (
            Reading("round trip, one a millisecond, p50", SECONDS, "p50", C),
            Reading("round trip, one a millisecond, p99", SECONDS, "p99", C),
        ),
    ),
    *exchange_requests("ask", SMALL, "a request that means nothing here, and its answer"),
    *exchange_requests("ids", SMALL, "the same request with an id of 200 B"),
    *exchange_requests("files", FILE, "a request of the agent for a file, and its answer"),
    *exchange_requests("terminals", FILE, "a request of the agent for a terminal's output, and its answer"),
    RelayExchange(("turn", TURNS), (1, SMALL), (Reading("a whole turn: prompt, update, answer", SECONDS, "p50", C),)),
    RelayExchange(
        ("stream", PACED),
        (PACED, SMALL, 0, 1000),
        (
            Reading("an update a millisecond: delay, p50", SECONDS, "p50", C),
            Reading("an update a millisecond: delay, p99", SECONDS, "p99", C),
        ),
    ),
    RelayExchange(
        ("stream", PACED),
        (PACED, SMALL, 0, 1000),
        (Reading("CPU per update that arrives alone", SECONDS, "cpu", C, factor=1 / PACED),),
        (C, THREADS, PROXY),
        quick=True,
    ),
    RelayExchange(
        ("stream",),
        (FLOOD, SMALL, BATCH),
        (
            Reading("flood, batches of 64 KiB", PER_SECOND, "seconds", C, of=FLOOD),
            Reading("flood, batches of 64 KiB: memory growth", BYTES, "growth"),
        ),
        quick=True,
    ),
    RelayExchange(
        ("stream",),
        (ALONE, SMALL),
        (Reading("flood, message by message", PER_SECOND, "seconds", C, of=ALONE),),
        quick=True,
    ),
    RelayExchange(
        ("stream",),
        (FEWER, SMALL),
        (Reading("flood of 20,000, message by message", PER_SECOND, "seconds", C, of=FEWER),),
        rounds=MANY,
    ),
    *rush("batches of 64 KiB", FLOOD // 5, BATCH),
    *rush("message by message", ALONE, 0),
    RelayExchange(
        ("turn", TURNS),
        (1, SMALL, 0, 0, SECOND),
        (Reading("version 2: a whole turn", SECONDS, "p50", C),),
        (NONE, C, PROXY),
    ),
    RelayExchange(
        ("stream", PACED),
        (PACED, SMALL, 0, 1000, SECOND),
        (Reading("version 2: CPU per update that arrives alone", SECONDS, "cpu", C, factor=1 / PACED),),
        (C, PROXY),
    ),
    RelayExchange(
        ("stream",),
        (FLOOD, SMALL, BATCH, 0, SECOND),
        (Reading("version 2: flood, batches of 64 KiB", PER_SECOND, "seconds", C, of=FLOOD),),
        (NONE, C, PROXY),
    ),
    *lines("1 kB", 1_000, 100_000),
    *lines("100 kB", 100_000, 1_000),
    *lines("50 MB", 50_000_000, 1, WIDE_THREADS, quick=True, rounds=MANY),
    RelayExchange(
        ("prompt", 0, 50_000_000),
        (1, SMALL),
        (
            Reading("50 MB prompt", BYTES_PER_SECOND, "seconds", C, of=50_000_000),
            Reading("50 MB prompt: memory growth", BYTES, "growth"),
        ),
        _PIPES,
        quick=True,
        rounds=7,
    ),
    long("terminals", "50 MB of a terminal's output to the agent"),
    long("ask", "50 MB of an extension's request"),
    long("ping", "50 MB of an extension's notification"),
    long("batch", "50 MB of a batch, which must be held"),
    RelayExchange(
        ("stall",),
        (STALLED // SMALL, SMALL, BATCH),
        (Reading("client that does not read, 200 MB pending: memory growth", BYTES, "stalled"),),
        _PIPES,
        rounds=3,
    ),
    RelayExchange(
        ("rest", 1),
        (1, SMALL),
        (
            Reading("memory at rest", BYTES, "rest", PYTHON),
            Reading("CPU in a second of rest", SECONDS, "cpu"),
        ),
        (C, PYTHON, PROXY),
        rounds=5,
    ),
)


def tape(effort: Effort) -> RelayExchange:
    """Turns as real agents make them: benchmarks/README.md has the kinds and sizes of their messages."""
    turns = tapes.load()
    path = effort.place / "tape"
    path.write_text(tapes.played(turns), encoding="utf-8")
    each = TAPED * tapes.sent(turns)
    readings = (
        Reading("a message of real agents: time", SECONDS, "seconds", C, factor=1 / each),
        Reading("a message of real agents: CPU", SECONDS, "cpu", C, factor=1 / each),
    )
    return RelayExchange(("tape", TAPED * len(turns)), (1, SMALL, 0, 0, 1, path), readings, (NONE, C, THREADS, PROXY))


def run(effort: Effort) -> Iterator[Row]:
    for talk in (*TALKS, tape(effort)):
        if talk.quick or not effort.quick:
            tasks = {subject: partial(measure_memory, effort, talk, subject) for subject in talk.subjects}
            seen = interleaved(tasks, effort.rounds(talk.rounds), effort.chance)
            yield from (reading.row(seen) for reading in talk.readings)


def measure_memory(effort: Effort, talk: RelayExchange, subject: str) -> dict[str, float]:
    if subject == PYTHON:
        return {"rest": effort.client(["exit"], [effort.built.python, "-c", "pass"])["peak"]}
    return dict(effort.talk(subject, talk.said, talk.agent))
