"""Runs a plan alone and behind acp-proxy, step by step, and checks the promise after each."""

import contextlib
import json
import shutil
import sys
import tempfile
import traceback
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from acp_proxy.protocol.jsonrpc import Peer
from acp_proxy.store.proxy_store import ProxyStore
from simulation import links
from simulation.agent import Agent
from simulation.links import Stuck
from simulation.plan import Plan
from simulation.promise import Broken, Truth, check_context, check_step, check_transcript, transcript_words
from simulation.v2 import V2Agent, V2Link
from simulation.world import World

_EXPECTED = "was not recorded here"
"""In a warning that is right."""


@dataclass
class Run:
    """What a plan led to. ``at``: the step after which something was broken; else the number of steps."""

    at: int
    broken: list[Broken] = field(default_factory=list)
    journal: list[str] = field(default_factory=list)

    @property
    def kinds(self) -> set[str]:
        return {each.which for each in self.broken}


def run(plan: Plan, *, with_processes: bool = False) -> Run:
    """Run a plan until something is broken, or to its end. ``with_processes``: real ones, which are really killed."""
    root = Path(tempfile.mkdtemp(prefix="simulation-", dir=_memory()))
    store = ProxyStore(root / "store")
    made: list[links.Proxied] = []

    def directly(agent: Agent) -> links.Link:
        return V2Link(links.Direct(V2Agent(agent))) if agent.habits.version == 2 else links.Direct(agent)

    def behind(agent: Agent) -> links.Link:
        is_second = agent.habits.version == 2
        own_store = ProxyStore(root / "store")  # as each process has: its index is for one thread at a time
        made.append(links.Proxied(own_store, V2Agent(agent) if is_second else agent, plan.options))
        return V2Link(made[-1]) if is_second else made[-1]

    if with_processes:
        bare, proxied = _real(plan, root)
    else:
        bare, proxied = World(plan, directly), World(plan, behind)
    truth, out = Truth(), Run(len(plan.steps))
    try:
        for at, step in enumerate(plan.steps):
            header = f"{at} {' '.join(f'{name}={value!r}' for name, value in step.items())}"
            bare.journal.append(header)
            proxied.journal.append(header)
            try:
                alone = bare.do(at, step)
                result = proxied.do(at, step)
            except Stuck as stuck:
                out.broken = [Broken("stuck", str(stuck))]
            except Exception:  # noqa: BLE001 a plan that fails in this way is shrunk like any other
                out.broken = [Broken("error", traceback.format_exc())]
            else:
                truth.follow(result, proxied.disk, proxied.windows)
                out.broken = check_step(truth, step, bare, proxied, alone, result)
                warnings = [str(each) for link in made for each in link.warnings]
                out.broken += [Broken("warning", each) for each in warnings if _EXPECTED not in each]
                folder = next((path.name for path in (root / "store" / "transcripts").glob("*")), "")
                out.broken += _check_transcripts(store, folder, truth, proxied)
            if out.broken:
                out.at = at
                break
        out.journal = ["alone:", *bare.journal, "", "behind acp-proxy:", *proxied.journal]
        return out
    finally:
        for world in (bare, proxied):
            with contextlib.suppress(Stuck):
                world.close()
        shutil.rmtree(root, ignore_errors=True)


def _real(plan: Plan, root: Path) -> tuple[World, World]:
    """The two worlds with processes of their own."""

    def command(world: str, agent: Agent) -> list[str]:
        return [sys.executable, "-m", "simulation.agent", str(root / world), json.dumps(agent.habits.as_json())]

    options = [f"--{name}={value}" for name, value in plan.options.items()]
    ours = [sys.executable, "-m", "acp_proxy", "run", "--store", str(root / "store"), *options, "--"]

    def link(agent: Agent, command: list[str]) -> links.Link:
        return V2Link(links.Process(command)) if agent.habits.version == 2 else links.Process(command)

    return (
        World(plan, lambda agent: link(agent, command("alone", agent)), root / "alone"),
        World(plan, lambda agent: link(agent, [*ours, *command("behind", agent)]), root / "behind"),
    )


def _check_transcripts(store: ProxyStore, folder: str, truth: Truth, world: World) -> list[Broken]:
    found: list[Broken] = []
    for session, id in world.ids.items():
        try:
            reader = store.open_reader(folder, id)
        except FileNotFoundError:
            continue
        try:
            entries = [
                ("client" if line.entry.peer is Peer.CLIENT else "agent", line.entry.value)
                for line in reader.read_lines()
                if line.entry is not None and line.entry.peer is not None
            ]
        finally:
            reader.close()
        found += check_transcript(truth, session, transcript_words(entries))
        found += check_context(truth, session, entries)
    return found


def _memory() -> str | None:
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


def report(plan: Plan, result: Run) -> Iterable[str]:
    """What happened, for people."""
    yield from result.journal
    yield ""
    yield f"after step {result.at}:"
    yield from (f"  {each}" for each in result.broken)
