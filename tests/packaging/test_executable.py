"""What PyApp changes for its Python stays away from the agents. ``make release`` makes and tries the executable."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import SECONDS

START = (Path(__file__).parents[2] / "packaging" / "executable" / "start.py").read_text(encoding="utf-8")
OURS = os.path.dirname(sys.executable)

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows starts no Python without its PATH")


def environment_of_an_agent(path: str) -> dict[str, str]:
    """The variables that an agent gets. ``path``: PATH as PyApp makes it, with its Python's directory in front."""
    told = "import json, os; print(json.dumps(dict(os.environ)))"
    # The agent is this Python, but not by its name: that is not on PATH any more.
    command = [sys.executable, "-I", "-c", START, "run", "--no-record", "--", sys.executable, "-c", told]
    environment = os.environ | {"PYAPP": "/home/user/acp-proxy", "PYAPP_COMMAND_NAME": "self", "PATH": path}
    result = subprocess.run(
        command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS
    )
    assert result.returncode == 0, result.stderr
    found: dict[str, str] = json.loads(result.stdout)
    return found


@pytest.mark.parametrize(
    ("path", "left"),
    [
        ([OURS, "/usr/local/bin", "/usr/bin"], ["/usr/local/bin", "/usr/bin"]),
        ([OURS, os.path.join(OURS, "Scripts"), "/usr/bin"], ["/usr/bin"]),  # as on Windows
        ([OURS, OURS, "/usr/bin"], [OURS, "/usr/bin"]),  # the user's own
        ([OURS, ""], [""]),
    ],
)
def test_an_agent_gets_the_users_path(path: list[str], left: list[str]) -> None:
    found = environment_of_an_agent(os.pathsep.join(path))
    assert found["PATH"] == os.pathsep.join(left)
    assert not {name for name in found if name.startswith("PYAPP")}


def test_without_a_path_an_agent_gets_none() -> None:
    assert "PATH" not in environment_of_an_agent(OURS)


def test_settings_get_the_executable_itself() -> None:
    command = [sys.executable, "-I", "-c", START, "editor", "zed", "cat"]
    environment = os.environ | {"PYAPP": "/home/user/acp-proxy"}
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=SECONDS, check=True)
    assert '"command": "/home/user/acp-proxy"' in result.stdout
