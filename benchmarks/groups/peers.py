"""Beside others: the same talk through other programs.

The official SDKs (client and agent back to back), Node with two `pipe()`s, and the official conductor of proxy chains
with no proxy (where cargo can build it). None of them records, and none starts anything that stays.
"""

from collections.abc import Iterator
from functools import partial

from benchmarks.figures import BYTES, BYTES_PER_SECOND, PER_SECOND, SECONDS, Reading, Row
from benchmarks.rounds import interleaved
from benchmarks.subjects import CONDUCTOR, NODE, NONE, PROXY, PYTHON_SDK, TYPESCRIPT_SDK, C, Effort

PINGS, FLOOD, SMALL, LARGE = 1_000, 20_000, 200, 50_000_000


def run(effort: Effort) -> Iterator[Row]:
    subjects = [NONE, C, PROXY, PYTHON_SDK]
    subjects += [NODE] if effort.built.node else []
    subjects += [TYPESCRIPT_SDK] if effort.built.node and effort.built.typescript_sdk else []
    subjects += [CONDUCTOR] if effort.built.conductor else []
    rounds = effort.rounds(7)
    pings = {each: partial(effort.talk, each, ["ping", PINGS, SMALL], [1, SMALL]) for each in subjects}
    seen = interleaved(pings, rounds, effort.chance)
    yield Reading("round trip, p50", SECONDS, "p50", C).row(seen)
    yield Reading("round trip, p99", SECONDS, "p99", C).row(seen)
    yield Reading("first answer", SECONDS, "answered", C).row(seen)
    yield Reading("memory", BYTES, "rest", C).row(seen)
    floods = {each: partial(effort.talk, each, ["stream"], [FLOOD, SMALL]) for each in subjects}
    seen = interleaved(floods, rounds, effort.chance)
    yield Reading("flood, message by message", PER_SECOND, "seconds", C, of=FLOOD).row(seen)
    able = [each for each in subjects if each != TYPESCRIPT_SDK]  # that one ends at such a line
    long = {each: partial(effort.talk, each, ["stream"], [1, LARGE]) for each in able}
    seen = interleaved(long, rounds, effort.chance)
    yield Reading("50 MB update", BYTES_PER_SECOND, "seconds", C, of=LARGE).row(seen)
    yield Reading("50 MB update: memory growth", BYTES, "growth").row(seen)
