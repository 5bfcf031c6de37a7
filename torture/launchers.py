"""Ways to start an agent: words before its command, with npx and uvx if installed.

npx and uvx run a small package of ours from a local folder, like adapters: it starts its arguments as a child that
shares its streams. Neither needs a network.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

SECONDS = 120.0
"""Seconds to make the packages, once."""
STAYS = 600
"""Seconds: a process that is not ended outlives its trial."""

WAITS = ("sh", "-c", '"$@"; exit $?', "sh")
FORKS = ("sh", "-c", 'exec 3<&0; "$@" <&3 & exit 0', "sh")

DAEMON = """
import os, sys
if os.fork() == 0:
    os.setsid()
    if daemon := os.fork():
        open(sys.argv[1], "w").write(str(daemon))
        os._exit(0)
    null = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(null, standard)
    os.execvp("sleep", ["sleep", sys.argv[2]])
os.wait()
"""
SERVER = """
import subprocess, sys
null = subprocess.DEVNULL
server = subprocess.Popen(["sleep", sys.argv[2]], stdin=null, stdout=null, stderr=null, start_new_session=True)
open(sys.argv[1], "w").write(str(server.pid))
"""

BIN = """#!/usr/bin/env node
const [program, ...words] = process.argv.slice(2);
require("child_process").spawn(program, words, { stdio: "inherit" }).on("exit", (code) => process.exit(code ?? 1));
"""
NPM_PACKAGE = {"name": "launched-agent", "version": "1.0.0", "bin": {"launched-agent": "bin.js"}}
UV_PACKAGE = """
[project]
name = "launched-agent"
version = "1.0.0"
requires-python = ">=3.11"
[project.scripts]
launched-agent = "launched_agent:main"
[build-system]
requires = ["uv_build"]
build-backend = "uv_build"
"""
UV_MAIN = "import subprocess, sys\ndef main(): sys.exit(subprocess.call(sys.argv[1:]))\n"


@dataclass(frozen=True, slots=True)
class Launcher:
    """``words`` come before the agent's command.

    ``deaf``: the agent ignores EOF and SIGTERM. ``detaches``: a process outside the tree writes its pid to the file in
    the variable DETACHED. ``forks``: the launcher ends at once, and the agent stays alive.
    """

    name: str
    words: tuple[str, ...] = ()
    deaf: bool = False
    detaches: bool = False
    forks: bool = False


def detaching(program: str) -> tuple[str, ...]:
    """Run a Python program, then replace the shell by the agent."""
    return (
        "sh",
        "-c",
        '"$1" -S -E -c "$2" "$DETACHED" "$3"; shift 3; exec "$@"',
        "sh",
        sys.executable,
        program,
        str(STAYS),
    )


def plain() -> list[Launcher]:
    return [
        Launcher("no launcher"),
        Launcher("no launcher, a deaf agent", deaf=True),
        Launcher("a shell that waits", WAITS),
        Launcher("a shell that waits, a deaf agent", WAITS, deaf=True),
        Launcher("a wrapper that forks and exits", FORKS, forks=True),
        Launcher("a wrapper that forks and exits, a deaf agent", FORKS, forks=True, deaf=True),
        Launcher("an agent that daemonises a child", detaching(DAEMON), detaches=True),
        Launcher("an agent whose dev server detached itself", detaching(SERVER), detaches=True),
    ]


def through_npx(place: Path) -> list[Launcher]:
    """None without npx."""
    npx, npm = program("npx"), program("npm")
    if npx is None or npm is None:
        return []
    package, project = place / "npm" / "launched-agent", place / "npm" / "project"
    package.mkdir(parents=True)
    project.mkdir()
    (package / "package.json").write_text(json.dumps(NPM_PACKAGE))
    (package / "bin.js").write_text(BIN)
    (package / "bin.js").chmod(0o755)
    (project / "package.json").write_text("{}")
    run_build([npm, "install", "--offline", "--no-audit", "--no-fund", str(package)], project, surroundings(place))
    words = (npx, "--offline", "--prefix", str(project), "--", "launched-agent")
    return [Launcher("npx", words), Launcher("npx, a deaf agent", words, deaf=True)]


def through_uvx(place: Path) -> list[Launcher]:
    """None without uv."""
    uv = program("uv")
    if uv is None:
        return []
    package = place / "uv"
    source = package / "src" / "launched_agent"
    source.mkdir(parents=True)
    (package / "pyproject.toml").write_text(UV_PACKAGE)
    (source / "__init__.py").write_text(UV_MAIN)
    run = (uv, "tool", "run", "--offline", "--no-config", "--python", sys.executable, "--from", str(package))
    words = (*run, "launched-agent")
    run_build([*words, "true"], place, surroundings(place))
    return [Launcher("uvx", words), Launcher("uvx, a deaf agent", words, deaf=True)]


def surroundings(place: Path) -> Mapping[str, str]:
    """The environment in which they find our packages, and do not touch the user's."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    return {
        "PATH": path,
        "npm_config_cache": str(place / "npm-cache"),
        "npm_config_update_notifier": "false",
        "UV_CACHE_DIR": str(place / "uv-cache"),
        "UV_TOOL_DIR": str(place / "uv-tools"),
    }


def program(name: str) -> str | None:
    """The path of a program: beside our Python, where the project's tools are, or on the PATH."""
    return shutil.which(name, path=surroundings(Path())["PATH"])


def run_build(command: list[str], where: Path, environment: Mapping[str, str]) -> None:
    result = subprocess.run(
        command, cwd=where, env=os.environ | environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=SECONDS
    )
    assert result.returncode == 0, (command, result.stdout, result.stderr)
