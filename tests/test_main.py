"""The start of the command line: a fast path loads no slow module."""

import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from acp_proxy import __version__
from tests.stored import WholeStore, chunk, store_session
from tests.waiting import SECONDS

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has /dev/full")
SLOW = {"anyio", "asyncio", "dataclasses", "inspect", "json", "orjson", "platformdirs", "psutil", "re", "sqlite3"}
SLOW |= {"subprocess", "threading", "typer", "typing"}

# Runs the command line, and writes to a file which modules were loaded when the agent was started.
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
    """Run Python with these words: what it prints, and the modules that it loads."""
    command = [sys.executable, "-X", "importtime", *words]
    result = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=True)
    lines = [line for line in result.stderr.splitlines() if line.startswith("import time:")]
    return result.stdout, {line.rsplit("|", 1)[1].strip() for line in lines}


def command_line(*words: str) -> tuple[str, set[str]]:
    """The same for acp-proxy, without the modules that Python loads by itself."""
    said, modules = loaded_by("-m", "acp_proxy", *words)
    return said, modules - loaded_by("-c", "pass")[1]


def test_the_version_is_printed_without_loading_slow_modules() -> None:
    said, modules = command_line("--version")
    assert said == f"acp-proxy {__version__}\n"
    assert "acp_proxy" in modules
    assert not SLOW & modules


def test_other_commands_load_what_they_need() -> None:
    assert {"typer", "acp_proxy.cli.app"} <= command_line("sessions", "--help")[1]


@pytest.mark.parametrize("asked", ["-h", "--help", "--help-all"])
def test_help_before_the_agents_command_is_ours_and_after_it_the_agents(asked: str) -> None:
    assert command_line("run", asked)[0].startswith("Usage: acp-proxy run")
    own = ["run", "--no-record", sys.executable, "-c", "import sys; print(sys.argv[1:])", asked]
    result = subprocess.run(
        [sys.executable, "-m", "acp_proxy", *own],
        stdin=subprocess.PIPE,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert (result.returncode, result.stdout + result.stderr) == (0, f"{[asked]}\n")


def test_the_agent_is_started_before_slow_modules_are_loaded(tmp_path: Path) -> None:
    notes = tmp_path / "modules"
    run = ["run", "--store", str(tmp_path / "store"), "--", sys.executable, "-c", "raise SystemExit(17)"]
    result = subprocess.run(
        [sys.executable, "-c", NOTED, str(notes), *run], stdin=subprocess.PIPE, capture_output=True, timeout=SECONDS
    )
    assert result.returncode == 17, result.stderr
    modules = set(notes.read_text().split())
    assert "acp_proxy.relay.run_command" in modules
    assert not SLOW & modules


# The standard streams.

COMMANDS = [
    ("--version",),
    ("--help",),
    ("list",),
    ("list", "--json"),
    ("stats", "--json"),
    ("restore", "--list", "--json"),
    ("path",),
    ("show", "here"),
    ("export", "here"),
]


def ran(tmp_path: Path, words: Sequence[str], streams: str) -> tuple[int, str]:
    """Run a command with streams redirected by a shell: its exit status, and what it writes to stderr."""
    store = WholeStore(tmp_path / "store")
    if not store.list_transcripts():
        store_session(store, "here", ("hello", [chunk("hello")]))
    command = shlex.join([sys.executable, "-m", "acp_proxy", *words])
    environment = os.environ | {"ACP_PROXY_STORE": str(store.root)}
    result = subprocess.run(
        ["sh", "-c", f"{command} {streams}"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=environment,
        text=True,
        timeout=SECONDS,
    )
    return result.returncode, result.stderr


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("streams", [">&-", pytest.param(">/dev/full", marks=linux_only)])
def test_output_that_cannot_be_written_is_reported(tmp_path: Path, words: list[str], streams: str) -> None:
    status, said = ran(tmp_path, words, streams)
    assert status == 1
    [line] = said.splitlines()
    assert line.startswith("acp-proxy: the output cannot be written: ")


@pytest.mark.parametrize("streams", ["2>&-", pytest.param("2>/dev/full", marks=linux_only)])
@pytest.mark.parametrize("words", [("list",), ("restore", "--list")], ids=" ".join)
def test_a_command_does_its_work_without_a_usable_stderr(tmp_path: Path, words: list[str], streams: str) -> None:
    assert ran(tmp_path, words, streams) == (0, "")


def test_a_question_without_an_answer_is_not_a_yes(tmp_path: Path) -> None:
    status, said = ran(tmp_path, ["delete", "here"], "<&-")
    assert status == 1
    assert said.endswith(
        "Nothing was changed.\nstdin is not a terminal, so there is no answer. To skip the question: --yes\n"
    )
    assert WholeStore(tmp_path / "store").list_all()


def test_a_closed_output_pipe_ends_a_command_silently(tmp_path: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    try:
        command = [sys.executable, "-m", "acp_proxy", "--version"]
        result = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, timeout=SECONDS)
    finally:
        os.close(write)
    assert (result.returncode, result.stderr) == (141, b"")


def test_ctrl_c_while_modules_are_imported_ends_a_command_silently() -> None:
    interrupted = "import os, signal, sys\nsys.argv[1:] = ['list', '--json']\n"
    interrupted += "class Finder:\n    def find_spec(self, name, *_):\n"
    interrupted += "        if name == 'typer': os.kill(os.getpid(), signal.SIGINT)\n"
    interrupted += "sys.meta_path.insert(0, Finder())\nfrom acp_proxy.__main__ import main\nmain()\n"
    result = subprocess.run([sys.executable, "-c", interrupted], capture_output=True, text=True, timeout=60)
    assert (result.returncode, result.stdout, result.stderr) == (130, "", "")
