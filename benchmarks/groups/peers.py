"""Beside others: the same talk through other programs.

The official SDKs (client and agent back to back) and Node with two `pipe()`s. None of them records.
"""

from collections.abc import Iterator
from functools import partial

from benchmarks.figures import BYTES, PER_SECOND, SECONDS, Reading, Row
from benchmarks.rounds import interleaved
from benchmarks.subjects import NODE, NONE, PROXY, PYTHON_SDK, TYPESCRIPT_SDK, C, Effort

PINGS, FLOOD, SMALL = 1_000, 20_000, 200


def run(effort: Effort) -> Iterator[Row]:
    subjects = [NONE, C, PROXY, PYTHON_SDK]
    subjects += [NODE] if effort.built.node else []
    subjects += [TYPESCRIPT_SDK] if effort.built.node and effort.built.typescript_sdk else []
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
