"""``run`` after the agent's start: the store opens within a limit, and what is needed later is imported."""

import subprocess
import sys
import threading

import pytest

from acp_proxy.config import options
from acp_proxy.relay import serve
from tests.waiting import SECONDS

LOADED = """
import sys
from acp_proxy.relay import serve

class Relay:
    def request_sync_round(self):
        pass

serve.finish_start(object(), Relay())
print(*sys.modules)
"""
NEEDED = {"sqlite3", "acp_proxy.relay.process_tree"}
NEEDED |= {f"acp_proxy.transcript.{name}" for name in ("compressed", "rebuild_header")}
NEEDED |= {f"acp_proxy.store.{name}" for name in ("store_index", "queries", "compress")}
NEEDED |= {f"acp_proxy.relay.{name}" for name in ("idle_work", "load_thread", "shutdown", "start_sync_round")}


def test_all_that_a_conversation_needs_is_imported_at_the_start_and_no_tool() -> None:
    """An upgrade may replace the files under a process that runs for days."""
    result = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, timeout=SECONDS, check=True)
    modules = set(result.stdout.split())
    assert modules >= NEEDED
    assert not {"_ssl", "ssl", "_hashlib", "anyio", "asyncio", "typer"} & modules
    assert not {name for name in modules if name.startswith("acp_proxy.tools.")}
    assert not {"obstore", "nacl", "psutil"} & modules


def test_a_store_that_hangs_at_the_start_is_named_and_nothing_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    given, _ = options.parse(["--store", "/far/away", "agent"], {}, {}, options.RUN)
    comes_back, said = threading.Event(), list[str]()
    monkeypatch.setattr(serve, "ProxyStore", lambda root, bin_days: comes_back.wait())
    monkeypatch.setattr(serve, "_OPENING_SECONDS", 0.01)
    monkeypatch.setattr(serve, "warn", said.append)
    assert serve.make_run_context(given).store is None
    comes_back.set()
    [warning] = said
    assert "away does not answer. Choose another place with --store." in warning
