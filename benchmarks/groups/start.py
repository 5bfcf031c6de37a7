"""The start: until the agent runs, until its first answer, until a command ends; and what `run` loads of acp-proxy."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from benchmarks import stores
from benchmarks.build import PROGRAMS
from benchmarks.figures import COUNT, SECONDS, Reading, Row
from benchmarks.loaded import find_loaded
from benchmarks.rounds import Numbers, Task, interleaved
from benchmarks.subjects import NODE, NONE, PROXY, PYTHON, C, Effort

ROUNDS = 21
KEPT = 1_000  # sessions in the list: a year of heavy use


def run(effort: Effort) -> Iterator[Row]:
    rounds = effort.rounds(ROUNDS, 5)
    ran = partial(waited, effort, effort.built.python, "-c", "pass")
    started: dict[str, Task] = {PYTHON: ran}
    started |= {subject: partial(effort.talk, subject, ["start"], []) for subject in (NONE, C, PROXY)}
    if effort.built.node:
        started[NODE] = partial(effort.talk, NODE, ["start"], [])
    yield Reading("agent started", SECONDS, "started", PYTHON).row(interleaved(started, rounds, effort.chance))

    agents = {"Python": [effort.built.python, str(PROGRAMS / "agent.py")]}
    if effort.built.node:
        agents["Node"] = [effort.built.node, str(PROGRAMS / "agent.mjs")]
    later: dict[str, list[Numbers]] = {}
    for name, agent in agents.items():
        answered = {subject: partial(effort.talk, subject, ["start"], agent) for subject in (NONE, C, PROXY)}
        seen = interleaved({**answered, PYTHON: ran}, rounds, effort.chance)
        yield Reading(f"first answer of a {name} agent", SECONDS, "answered", NONE).row(seen)
        for subject in (C, PROXY):
            later[f"{subject}, {name}"] = [*map(_later, seen[subject], seen[NONE])]
        later.setdefault(PYTHON, seen[PYTHON])
    yield Reading("first answer: later than alone", SECONDS, "started", PYTHON).row(later)

    with effort.folder() as folder:
        loaded = find_loaded(effort.built.python, effort.built.agent, folder / "store")
    yield Row("loaded for a conversation, a load and a list: files", COUNT, {PROXY: len(loaded)})
    yield Row("loaded for a conversation, a load and a list: lines", COUNT, {PROXY: sum(loaded.values())})

    store = stores.filled(effort.place / "sessions", 100 if effort.quick else KEPT)
    commands: dict[str, Task] = {
        "acp-proxy --version": partial(waited, effort, effort.built.proxy, "--version"),
        "acp-proxy list": partial(ran_in, effort, store, "list"),
        "acp-proxy list --limit 30": partial(ran_in, effort, store, "list", "--limit", "30"),
    }
    for what, command in commands.items():
        seen = interleaved({PYTHON: ran, PROXY: command}, rounds, effort.chance)
        yield Reading(what, SECONDS, "started", PYTHON).row(seen)


def _later(through: Numbers, alone: Numbers) -> Numbers:
    return {"started": through["answered"] - alone["answered"]}


def waited(effort: Effort, *command: str, **variables: str) -> Numbers:
    """Run a command until it has ended."""
    return {"started": effort.client(["exit"], command, **variables)["wall"]}


def ran_in(effort: Effort, store: Path, *words: str, **variables: str) -> Numbers:
    """Run one of our commands on this store."""
    return waited(effort, effort.built.proxy, *words, ACP_PROXY_STORE=str(store), **variables)
