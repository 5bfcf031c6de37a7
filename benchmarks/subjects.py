"""Subjects: what runs between the client and the agent, and one conversation through each."""

import json
import os
import random
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.build import PROGRAMS, Built
from benchmarks.rounds import Numbers

NONE, C, CAT, THREADS, WIDE_THREADS, PROXY = "none", "C", "cat", "two threads", "two threads, wide", "acp-proxy"
NODE, PYTHON_SDK, TYPESCRIPT_SDK = "Node pipe", "Python SDK", "TypeScript SDK"
CONDUCTOR = "conductor 5.0.0"
PYTHON = "python -c pass"

_TALK_SECONDS = 400  # the client gives up earlier
_READ, _WIDE_READ = 64 * 1024, 512 * 1024
_CAT = 'cat | "$@" | cat'


@dataclass(frozen=True)
class Effort:
    """The settings of a group. ``quick``: only the main rows, in few rounds. ``place``: a directory for the run.

    ``most``: the maximum number of rounds.
    """

    built: Built
    place: Path
    quick: bool = False
    most: int = 1_000
    chance: random.Random = field(default_factory=random.Random)

    def rounds(self, full: int, quick: int = 3) -> int:
        return min(quick if self.quick else full, self.most)

    @contextmanager
    def folder(self) -> Iterator[Path]:
        """An empty directory for one try."""
        path = Path(tempfile.mkdtemp(dir=self.place))
        try:
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)

    def talk(self, subject: str, said: Sequence[object], agent: Sequence[object], store: Path | None = None) -> Numbers:
        """One conversation of the C client through a subject. ``agent``: its command, or arguments for the C agent."""
        command = [str(word) for word in agent]
        if not command or command[0].isdecimal():
            command = [self.built.agent, *command]
        with self.folder() as folder:
            if subject == CONDUCTOR and self.built.conductor:
                return self.client(said, [self.built.conductor, "agent", shlex.join(command)])
            return self.client(said, [*self.before(subject, store or folder / "store"), *command])

    def client(self, said: Sequence[object], command: Sequence[str], **variables: str) -> Numbers:
        what, count, size = [*said, 0, 0][:3]
        words = [self.built.client, str(what), str(count), str(size), *command]
        ran = subprocess.run(words, env=self.environment() | variables, capture_output=True, timeout=_TALK_SECONDS)
        if ran.returncode != 0:
            raise RuntimeError(f"{' '.join(words)}: {ran.stderr.decode(errors='replace')[-1000:]}")
        numbers: dict[str, float] = json.loads(ran.stdout)
        if numbers["status"]:
            raise RuntimeError(f"{' '.join(words)}: it ended with {numbers['status']}")
        return numbers

    def environment(self) -> dict[str, str]:
        """The environment without the checkout, so that the installed proxy runs."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "ACP_PROXY"))}
        return kept | {"HOME": str(self.place)}

    def before(self, subject: str, store: Path) -> list[str]:
        """The words before the agent's command."""
        match subject:
            case "none":
                return []
            case "C":
                return [self.built.relay]
            case "cat":
                return ["/bin/sh", "-c", _CAT, "sh"]
            case "two threads" | "two threads, wide":
                size = _READ if subject == THREADS else _WIDE_READ
                return [self.built.python, str(PROGRAMS / "threads.py"), f"{store}.jsonl", str(size)]
            case "acp-proxy" | "full" | "compact":
                replay = [] if subject == PROXY else ["--replay", subject]
                return [self.built.proxy, "run", "--store", str(store), *replay, "--"]
            case "Node pipe" if self.built.node:
                return [self.built.node, str(PROGRAMS / "pipe.mjs")]
            case "Python SDK":
                return [sys.executable, str(PROGRAMS / "python_sdk.py")]
            case "TypeScript SDK" if self.built.node and self.built.typescript_sdk:
                return [self.built.node, str(PROGRAMS / "typescript_sdk.mjs"), self.built.typescript_sdk]
        raise LookupError(f"there is no {subject} here")
