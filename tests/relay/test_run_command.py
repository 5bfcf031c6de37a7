"""The start of ``run``: what it does before, and right after, the agent is started."""

import subprocess
import sys

from tests.waiting import SECONDS

BEFORE_THE_AGENT = """
import sys
before = set(sys.modules)
from acp_proxy.relay import run_command
run_command.config_file.read("/no/such/config.toml")
print(*(set(sys.modules) - before))
"""


def test_almost_nothing_is_imported_before_the_agent_starts() -> None:
    result = subprocess.run([sys.executable, "-c", BEFORE_THE_AGENT], capture_output=True, timeout=SECONDS, check=True)
    others = {name for name in result.stdout.decode().split() if not name.startswith("acp_proxy")}
    assert others <= {"errno", "gc", "_winapi", "msvcrt"}  # parts of the interpreter, not files
