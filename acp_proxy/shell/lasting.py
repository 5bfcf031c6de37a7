"""Imports what ``run`` needs later, while the agent starts or right after its first answer.

By the time it is needed, days later, an upgrade of acp-proxy may have replaced the files. The standard library's
modules may load later, since those stay. Except in ``supervision``, a failed import is ignored here; the code that
needs the module reports it.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from acp_proxy.shell.agent_process import AgentProcess
from acp_proxy.shell.later import Later
from acp_proxy.shell.relay import Relay
from acp_proxy.transcripts import store

_TLS = "ssl"
"""OpenSSL: asyncio and anyio load it, nothing here uses it, and it takes a sixth of an idle proxy's memory."""
_NEED_NO_TLS = frozenset({"asyncio", "anyio"})


def load_telling() -> None:
    """Import what loads need; an editor may ask for one at once."""
    with suppress(Exception):
        from acp_proxy.shell import finding, replaying  # noqa: F401


def supervision() -> Callable[[AgentProcess, Relay, float], int]:
    """Import and return ``supervise.supervise``, which runs until the end. Raises ImportError."""
    try:
        with _without(_TLS):
            import asyncio  # noqa: F401 - works in a Python without ssl
        with Later(_TLS, classes=("SSLContext",)):  # anyio uses it in annotations
            import anyio._backends._asyncio
    except Exception:  # noqa: BLE001 - a version that needs ssl: import it all again, with ssl
        for name in [name for name in sys.modules if name.partition(".")[0] in _NEED_NO_TLS]:
            del sys.modules[name]
        import anyio._backends._asyncio  # noqa: F401
    import psutil  # noqa: F401

    from acp_proxy.shell.supervise import supervise

    return supervise


def load_stores() -> None:
    """Import what lists, damage and compression need."""
    store.load_the_rest()
    with suppress(Exception):
        from acp_proxy.shell import idling  # noqa: F401


@contextmanager
def _without(name: str) -> Iterator[None]:
    """A context in which importing this module fails, for importers that can do without."""
    if name in sys.modules:
        yield
        return
    sys.modules[name] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules[name]
