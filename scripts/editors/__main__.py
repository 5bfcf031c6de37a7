"""Drives real editors in front of real agents, and writes the table in docs/editors.md: `make editors`.

    python -m scripts.editors                                  # all, and the table
    python -m scripts.editors --only toad --agents opencode    # these alone, and no table
    python -m scripts.editors --only toad --keep DIR           # keeps the screens, the stores and the tapes there

Ends with 1 if a step fails, and shows its screen; with 2 if something is missing, and says what.
"""

import argparse
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from scripts.agents_table import workplace
from scripts.editors import tree
from scripts.editors.agent_shell import AgentShell
from scripts.editors.codecompanion import CodeCompanion
from scripts.editors.desk import OFFLINE_AGENTS, Agent, Desk
from scripts.editors.editor import Editor
from scripts.editors.page import PAGE, page, table
from scripts.editors.steps import Outcome, Steps
from scripts.editors.terminal import Terminal
from scripts.editors.toad import Toad
from scripts.real_agents import AGENTS, names, stand_in_model

EDITORS: dict[str, type[Editor]] = {editor.name: editor for editor in (Toad, CodeCompanion, AgentShell)}
USUAL = ("opencode", "gemini")
"""One agent restores nearly everything, the other has neither a list nor a load that works."""


def main(words: Sequence[str]) -> int:
    given = arguments(words)
    editors = [EDITORS[name] for name in given.only]
    if lacking := prepared(editors, given.agents):
        print("\n".join(["The editors cannot be tried:", *(f"- {line}" for line in lacking)]), file=sys.stderr)
        return 2
    with stand_in_model() as port, workplace(given.keep) as base:
        outcomes = [tried(editor, OFFLINE_AGENTS[name], port, base) for editor in editors for name in given.agents]
    print(table(outcomes), end="")
    if given.is_whole:
        PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), outcomes), encoding="utf-8")
    return 1 if any(outcome.problem for outcome in outcomes) else 0


def arguments(words: Sequence[str]) -> argparse.Namespace:
    """``only`` and ``agents`` as names; ``is_whole``: whether to write the table."""
    parser = argparse.ArgumentParser(prog="editors", description="Drives real editors in front of real agents.")
    parser.add_argument("--only", metavar="EDITOR,…", help=f"of {', '.join(EDITORS)}")
    parser.add_argument("--agents", metavar="AGENT,…", help=f"of {', '.join(OFFLINE_AGENTS)}")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep screens, stores and tapes there")
    given = parser.parse_args(words)
    given.is_whole = given.only is None and given.agents is None
    given.only = given.only.split(",") if given.only else list(EDITORS)
    given.agents = given.agents.split(",") if given.agents else list(USUAL)
    if unknown := sorted({*given.only, *given.agents}.difference(EDITORS, OFFLINE_AGENTS)):
        parser.error(f"no such editor or agent here: {', '.join(unknown)}")
    return given


def prepared(editors: Sequence[type[Editor]], agents: Sequence[str]) -> list[str]:
    """Install what is missing. What is still missing then, and what to do."""
    lacking = [] if (AGENTS / "setup").exists() else [f"there are no real agents: {AGENTS} is not there"]
    lacking = [*tree.missing(), *lacking] or tree.clone(plugin for editor in editors for plugin in editor.plugins)
    if lacking:
        return lacking
    try:
        subprocess.run([sys.executable, AGENTS / "setup", *agents], check=True, stdout=sys.stderr)
        tree.make()
    except subprocess.CalledProcessError as failed:
        return [f"this ended with {failed.returncode}, see above: {' '.join(map(str, failed.cmd))}"]
    return []


def tried(kind: type[Editor], agent: Agent, port: int, base: Path) -> Outcome:
    """Take the steps, and leave no process behind."""
    place = base / f"{kind.name}-{agent.name}"
    desk = Desk(place, agent, port)
    outcome = Outcome(kind, kind.version(), agent.title)
    try:
        with Terminal(place) as terminal:
            Steps(kind(terminal, desk), terminal, desk).walk(outcome)
    finally:
        sweep(place)
    for number, (step, screen) in enumerate(outcome.screens.items(), start=1):
        (place / f"{number}-{step.replace(' ', '-')}.txt").write_text(f"{screen}\n", encoding="utf-8")
    print(f"{kind.title}, {agent.title}: {outcome.told()}", file=sys.stderr, flush=True)
    return outcome


def sweep(place: Path) -> None:
    for process in psutil.process_iter():
        if names(process, place):
            with suppress(psutil.NoSuchProcess):
                process.kill()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
