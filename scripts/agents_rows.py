"""Runs real agents without the proxy and behind it: a conversation, a kill of every process, and a load."""

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from scripts.real_agents import (
    AGENTS,
    Bench,
    Lived,
    Reopened,
    installed,
    second_of_the_minute,
    wait_for_the_next_minute,
)
from tests.client import OutputEnded, RequestFailed

INSTALLATION = 3600.0  # seconds: 2 GB over a slow connection


class OpenedWhen(Enum):
    """When to open the session again, by the clock, for agents that name their files by the minute."""

    AT_ONCE = ""
    IN_THE_MINUTE = "opened in the same minute"
    LATER = "opened a minute later"


SUBJECTS = (
    ("opencode", OpenedWhen.AT_ONCE),
    ("vibe", OpenedWhen.AT_ONCE),
    ("gemini", OpenedWhen.IN_THE_MINUTE),
    ("gemini", OpenedWhen.LATER),
    ("copilot", OpenedWhen.AT_ONCE),
    ("openhands", OpenedWhen.AT_ONCE),
    ("deepagents", OpenedWhen.AT_ONCE),
    ("pydanticacp", OpenedWhen.AT_ONCE),
    ("zedcodex", OpenedWhen.AT_ONCE),
    ("claude", OpenedWhen.AT_ONCE),
    ("codexacp", OpenedWhen.AT_ONCE),
)
NAMES = tuple(dict.fromkeys(name for name, _ in SUBJECTS))
EARLY = 15.0
"""Seconds of a minute after which the rest is too short for a conversation and two starts."""


@dataclass(frozen=True)
class Attempt:
    """One run of an agent: without the proxy or behind it."""

    lived: Lived | None = None
    reopened: Reopened | None = None
    failure: str | None = None  # why the rest is missing


@dataclass(frozen=True)
class Row:
    """One agent."""

    name: str
    opened: OpenedWhen
    package: str
    version: str
    untried: str | None = None
    alone: Attempt = Attempt()
    behind: Attempt = Attempt()


# Running.


def tried(name: str, opened: OpenedWhen, recipe: Mapping[str, Any], port: int) -> Row:
    package, pinned = packaged(recipe)
    with tempfile.TemporaryDirectory(prefix="acp-proxy-agents-", ignore_cleanup_errors=True) as directory:
        base = Path(directory).resolve()
        alone = attempt(Bench(base / "alone", name, port, None), opened)
        behind = attempt(Bench(base / "behind", name, port), opened)
    about = (alone.lived.initialized.get("agentInfo") if alone.lived else None) or {}
    return Row(name, opened, package, str(about.get("version") or pinned), None, alone, behind)


def attempt(bench: Bench, opened: OpenedWhen) -> Attempt:
    lived = None
    try:
        if opened is OpenedWhen.IN_THE_MINUTE and second_of_the_minute() > EARLY:
            wait_for_the_next_minute()
        lived = bench.talk()
        if opened is OpenedWhen.LATER:
            wait_for_the_next_minute()
        return Attempt(lived, bench.reopen(lived.session))
    except (RequestFailed, TimeoutError, OutputEnded, OSError) as problem:
        print(problem, file=sys.stderr)
        where = "the conversation" if lived is None else "the new process"
        what = f"error {problem.code}" if isinstance(problem, RequestFailed) else type(problem).__name__
        return Attempt(lived, None, f"{what} in {where}")


def packaged(recipe: Mapping[str, Any]) -> tuple[str, str]:
    """The name and version of the agent's package."""
    pinned = str((recipe.get("npm") or recipe.get("pip") or [""])[0])
    name, _, version = pinned.replace("==", "@").rpartition("@")
    return name, version


def untried(names: Iterable[str]) -> dict[str, str]:
    """Install missing agents. Those that could not be installed, with the reason."""
    done = subprocess.run(
        [sys.executable, AGENTS / "setup", *sorted(names)],
        stdout=subprocess.PIPE,
        text=True,
        timeout=INSTALLATION,
        check=False,
    )
    print(done.stdout, end="", file=sys.stderr)
    there = installed()
    reasons = dict(re.findall(r"^(\S+): NOT installed: (.*)$", done.stdout, re.MULTILINE))
    return {name: missing(reasons.get(name, "")) for name in names if name not in there}


def missing(why: str) -> str:
    needed = re.search(r"needs (Python [^;]+)", why)
    return f"needs {needed[1]}" if needed else "could not be installed"
