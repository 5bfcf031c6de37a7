"""The command line's first look: what must be quick loads nothing slow."""

import subprocess
import sys
from pathlib import Path

from acp_proxy import __version__

SECONDS = 20.0
SLOW = {"anyio", "asyncio", "dataclasses", "inspect", "json", "orjson", "platformdirs", "psutil", "re", "sqlite3"}
SLOW |= {"subprocess", "threading", "typer", "typing"}

# Runs the command line, and notes in a file what it had loaded when the agent was started.
NOTED = """
import sys
notes, before = sys.argv.pop(1), set(sys.modules)
def note(event, arguments):
    if event in ("os.fork", "os.posix_spawn"):
        with open(notes, "x") as file:
            file.write("\\n".join(sys.modules.keys() - before))
sys.addaudithook(note)
from acp_proxy.__main__ import main
main()
"""


def loaded_by(*words: str) -> tuple[str, set[str]]:
    """What Python prints when it is run so, and the modules that it loads."""
    command = [sys.executable, "-X", "importtime", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=True)
    lines = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
    return done.stdout, {line.rsplit("|", 1)[1].strip() for line in lines}


def command_line(*words: str) -> tuple[str, set[str]]:
    """The same for our command line, less what Python loads by itself."""
    said, modules = loaded_by("-m", "acp_proxy", *words)
    return said, modules - loaded_by("-c", "pass")[1]


def test_the_version_is_told_without_loading_anything_slow() -> None:
    said, modules = command_line("--version")
    assert said == f"acp-proxy {__version__}\n"
    assert "acp_proxy" in modules
    assert not SLOW & modules


def test_other_commands_load_what_they_need() -> None:
    assert {"typer", "acp_proxy.cli.app"} <= command_line("sessions", "--help")[1]


def test_h_is_help_in_front_of_the_agent_and_the_agents_own_behind_it() -> None:
    assert command_line("run", "-h")[0].startswith("Usage: acp-proxy run")
    own = ["run", "--no-record", sys.executable, "-h"]
    done = subprocess.run(
        [sys.executable, "-m", "acp_proxy", *own], stdin=subprocess.PIPE, capture_output=True, timeout=SECONDS
    )
    assert done.returncode == 0
    assert b"acp-proxy run" not in done.stdout + done.stderr


def test_the_agent_is_started_before_anything_slow_is_loaded(tmp_path: Path) -> None:
    notes = tmp_path / "modules"
    run = ["run", "--store", str(tmp_path / "store"), "--", sys.executable, "-c", "raise SystemExit(17)"]
    done = subprocess.run(
        [sys.executable, "-c", NOTED, str(notes), *run], stdin=subprocess.PIPE, capture_output=True, timeout=SECONDS
    )
    assert done.returncode == 17, done.stderr
    modules = set(notes.read_text().split())
    assert "acp_proxy.shell.launch" in modules
    assert not SLOW & modules
