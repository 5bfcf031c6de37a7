"""What is loaded behind the first exchange, and what never is."""

import subprocess
import sys

SECONDS = 20.0
LOADED = """
import sys
from acp_proxy.shell import lasting
print(lasting.supervision().__module__)
before = "ssl" in sys.modules
lasting.load_stores()
print(*sys.modules)
import ssl
print(before, ssl.SSLContext.__module__, hasattr(ssl, "create_default_context"))
"""
NEEDED = {"anyio._backends._asyncio", "anyio._core._signals", "anyio._core._testing", "psutil", "sqlite3"}
NEEDED |= {f"acp_proxy.transcripts.{name}" for name in ("catalog", "keeping", "packed", "packing", "remaking")}
NEEDED |= {"acp_proxy.shell.idling", "acp_proxy.shell.supervise"}


def test_all_that_lists_loads_idle_minutes_and_the_end_need_is_loaded_and_nothing_of_openssl() -> None:
    done = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, timeout=SECONDS, check=True)
    who, modules, afterwards = done.stdout.splitlines()
    assert who == "acp_proxy.shell.supervise"
    assert set(modules.split()) >= NEEDED
    assert not {"_ssl", "ssl", "_hashlib"} & set(modules.split())
    assert afterwards == "False ssl True"  # who wants it afterwards has it
