"""The modules that are loaded after the first exchange, and those that never are."""

import subprocess
import sys

SECONDS = 20.0
LOADED = """
import sys
from acp_proxy.run import lasting, proxy
lasting.load_ending()
lasting.load_stores()
print(*sys.modules)
import psutil
print(psutil.Popen([sys.executable, "-c", ""]).wait())
"""
NEEDED = {"sqlite3", "acp_proxy.run.process_tree"} | ({"psutil"} if sys.platform != "linux" else set())
NEEDED |= {f"acp_proxy.transcript.{name}" for name in ("compressed", "rebuild_header")}
NEEDED |= {f"acp_proxy.store.{name}" for name in ("index_update", "soft_deleted", "compress")}
NEEDED |= {"acp_proxy.run.idle_compression", "acp_proxy.run.shutdown", "acp_proxy.run.start_sync"}


def test_modules_for_lists_idle_minutes_and_the_end_are_loaded_and_slow_ones_that_nothing_needs_are_not() -> None:
    done = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, timeout=SECONDS, check=True)
    modules, status = done.stdout.splitlines()
    assert set(modules.split()) >= NEEDED
    assert not {"_ssl", "ssl", "_hashlib", "anyio", "asyncio", "subprocess"} & set(modules.split())
    assert not {name for name in modules.split() if name.startswith("acp_proxy.tools.")}
    assert not {"obstore", "nacl"} & set(modules.split())
    assert status == "0"  # what was delayed can still be used
