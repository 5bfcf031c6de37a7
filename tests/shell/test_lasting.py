"""The modules that are loaded after the first exchange, and those that never are."""

import subprocess
import sys

import pytest

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
NOT_WITHOUT = """
import sys
class Fussy:
    def find_spec(self, name, path=None, target=None):
        if name == "FUSSY" and "_ssl" not in sys.modules:
            import ssl
            ssl.SSLError
sys.meta_path.insert(0, Fussy())
from acp_proxy.shell import lasting
print(lasting.supervision().__module__, "_ssl" in sys.modules)
"""
"""The module FUSSY cannot be loaded without OpenSSL."""
NEEDED = {"anyio._backends._asyncio", "anyio._core._signals", "anyio._core._testing", "psutil", "sqlite3"}
NEEDED |= {f"acp_proxy.transcripts.files.{name}" for name in ("compressed", "remaking")}
NEEDED |= {f"acp_proxy.transcripts.{name}" for name in ("listing.catalog", "listing.keeping", "lives.compressing")}
NEEDED |= {"acp_proxy.shell.idling", "acp_proxy.shell.supervise"}


def test_modules_for_lists_loads_idle_minutes_and_the_end_are_loaded_and_openssl_is_not() -> None:
    done = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, timeout=SECONDS, check=True)
    who, modules, afterwards = done.stdout.splitlines()
    assert who == "acp_proxy.shell.supervise"
    assert set(modules.split()) >= NEEDED
    assert not {"_ssl", "ssl", "_hashlib"} & set(modules.split())
    assert afterwards == "False ssl True"  # it can still be imported afterwards


@pytest.mark.parametrize("fussy", ["asyncio.sslproto", "anyio.streams.tls"])
def test_a_library_that_needs_openssl_gets_it(fussy: str) -> None:
    program = NOT_WITHOUT.replace("FUSSY", fussy)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=SECONDS, check=True)
    assert done.stdout.split() == ["acp_proxy.shell.supervise", "True"]
