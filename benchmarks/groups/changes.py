"""What sessions changed: diff, blame, and searches by file, command and output, with the tables that these make.

The first of each reads every transcript, since nothing but the index is there; the next one finds its tables.
"""

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from benchmarks import stores
from benchmarks.figures import BYTES, SECONDS, Reading, Row, measured
from benchmarks.groups.start import ran_in
from benchmarks.rounds import Numbers, Task, interleaved
from benchmarks.subjects import Effort

SESSIONS = 5_000
EDITS = (10, 100, 1_000)
FIRST, AGAIN = "first", "again"
TABLES: Mapping[str, Sequence[str]] = {
    "words": ("search", "question", "4000"),
    "calls": ("search", "--command", "make 4000"),
    "parts": ("search", "made 4000", "--in", "output"),
}
"""The kinds of tables, and a search that makes each; it makes no other kind."""


def run(effort: Effort) -> Iterator[Row]:
    rounds = effort.rounds(7)
    diffs: dict[str, Task] = {
        f"{count:,}": partial(ran_in, effort, stores.edits(effort.place / f"edits-{count}", count), "diff", "last")
        for count in EDITS
    }
    yield Reading("acp-proxy diff, of so many edits", SECONDS, "started", f"{EDITS[0]:,}").row(
        interleaved(diffs, rounds, effort.chance), sized=True
    )

    folder = effort.place / "project"
    root = stores.edited(effort.place / "edited", SESSIONS, folder)
    ran_in(effort, root, "list", "--limit", "1")  # makes the index
    file = str(folder / stores.module(7))
    questions: Mapping[str, Sequence[str]] = {
        "search, a word of one session": TABLES["words"],
        "search --file": ("search", "--file", file),
        "search --command": TABLES["calls"],
        "search --failed, and a word": ("search", "--failed", "4000"),
        "search --in output": TABLES["parts"],
        "blame": ("blame", file),
    }
    for what, words in questions.items():
        seen = interleaved({FIRST: partial(asked_first, effort, root, words)}, effort.rounds(3), effort.chance)
        seen |= interleaved({AGAIN: partial(measure_command, effort, root, words)}, rounds, effort.chance)
        yield Reading(f"acp-proxy {what}", SECONDS, "started").row(seen)
        yield Reading(f"acp-proxy {what}: CPU", SECONDS, "cpu").row(seen)
    yield table_sizes(effort, root)


def asked_first(effort: Effort, root: Path, words: Sequence[str]) -> Numbers:
    shutil.rmtree(root / "search", ignore_errors=True)
    return measure_command(effort, root, words)


def measure_command(effort: Effort, root: Path, words: Sequence[str]) -> Numbers:
    """Run a command; also its CPU time, which says something on a busy machine, too."""
    before = os.times()
    seen = ran_in(effort, root, *words)
    after = os.times()
    spent = after.children_user - before.children_user + after.children_system - before.children_system
    return {**seen, "cpu": spent}


def table_sizes(effort: Effort, root: Path) -> Row:
    """What each kind of table takes of the disk, beside the transcripts."""
    sizes = {"transcripts": [float(size_of(root / "transcripts"))]}
    for kind, words in TABLES.items():
        asked_first(effort, root, words)
        sizes[kind] = [float(size_of(root / "search"))]
    return measured(f"disk: {SESSIONS:,} sessions, and their tables", BYTES, sizes, "transcripts")


def size_of(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
