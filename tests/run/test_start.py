"""The start of ``run``: what it does before, and right after, the agent is started."""

import subprocess
import sys

SECONDS = 20.0
MAKES_A_WRONG_VALUE = """
import sys
from acp_proxy.proxy.effects import Warn
from acp_proxy.run import start as launch, proxy

def serve(*given):
    try:
        Warn("text", "more")
    except TypeError:
        return 3
    return 4

proxy.serve = serve
launch.launch(["--no-record", "--", sys.executable, "-c", ""])
"""


BEFORE_THE_AGENT = """
import sys
before = set(sys.modules)
from acp_proxy.run import start as launch
launch.config_file.read("/no/such/config.toml")
print(*(set(sys.modules) - before))
"""


def test_almost_nothing_is_imported_before_the_agent_starts() -> None:
    done = subprocess.run([sys.executable, "-c", BEFORE_THE_AGENT], capture_output=True, timeout=SECONDS, check=True)
    others = {name for name in done.stdout.decode().split() if not name.startswith("acp_proxy")}
    assert others <= {"errno", "gc", "_winapi", "msvcrt"}  # parts of the interpreter, not files


def test_fields_are_checked_in_a_proxy_that_a_test_starts() -> None:
    done = subprocess.run(
        [sys.executable, "-c", MAKES_A_WRONG_VALUE], stdin=subprocess.PIPE, capture_output=True, timeout=SECONDS
    )
    assert done.returncode == 3, done.stderr
