"""The command line's first look: what must be quick loads nothing slow."""

import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from acp_proxy import __version__
from tests.stored import Both, chunk, store_session

SECONDS = 20.0
posix_only = pytest.mark.skipif(os.name != "posix", reason="there is no such shell")
linux_only = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has /dev/full")
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


# The standard streams.

COMMANDS = [
    ("--version",),
    ("--help",),
    ("sessions", "list"),
    ("sessions", "list", "--json"),
    ("sessions", "stats", "--json"),
    ("sessions", "restore", "--list", "--json"),
    ("sessions", "path"),
    ("sessions", "show", "here"),
    ("sessions", "export", "here"),
]


def ran(tmp_path: Path, words: Sequence[str], streams: str) -> tuple[int, str]:
    """The status of a command whose streams a shell redirects so, and what it says on stderr, if it has that."""
    store = Both(tmp_path / "store")
    if not store.transcripts():
        store_session(store, "here", ("hello", [chunk("hello")]))
    command = shlex.join([sys.executable, "-m", "acp_proxy", *words])
    environment = os.environ | {"ACP_PROXY_STORE": str(store.root)}
    done = subprocess.run(
        ["sh", "-c", f"{command} {streams}"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=environment,
        text=True,
        timeout=SECONDS,
    )
    return done.returncode, done.stderr


@posix_only
@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("streams", [">&-", pytest.param(">/dev/full", marks=linux_only)])
def test_a_result_that_cannot_be_written_is_said_to_be_so(tmp_path: Path, words: list[str], streams: str) -> None:
    status, said = ran(tmp_path, words, streams)
    assert status == 1
    [line] = said.splitlines()
    assert line.startswith("acp-proxy: the output cannot be written: ")


@posix_only
@pytest.mark.parametrize("streams", ["2>&-", pytest.param("2>/dev/full", marks=linux_only)])
@pytest.mark.parametrize("words", [("sessions", "list"), ("sessions", "restore", "--list")], ids=" ".join)
def test_a_command_does_its_work_where_nothing_can_be_said(tmp_path: Path, words: list[str], streams: str) -> None:
    assert ran(tmp_path, words, streams) == (0, "")


@posix_only
def test_a_question_that_nobody_can_answer_is_no_yes(tmp_path: Path) -> None:
    status, said = ran(tmp_path, ["sessions", "delete", "here"], "<&-")
    assert status == 1
    assert said.endswith("Nobody is there to answer. To do it unasked: --yes\n")
    assert Both(tmp_path / "store").sessions()


@posix_only
def test_who_stops_reading_ends_a_command_without_a_word(tmp_path: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    try:
        command = [sys.executable, "-m", "acp_proxy", "--version"]
        done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, timeout=SECONDS)
    finally:
        os.close(write)
    assert (done.returncode, done.stderr) == (1, b"")
