"""What ``run`` needs once it has begun, loaded while the agent starts, or right behind the first exchange.

Not when it is needed: by then an upgrade of acp-proxy may have replaced the files, days before the editor ends. What is
Python's own may load later, since that stays. But for who stays until the end nothing is raised: what is not there any
more is missed where it is needed, and said there.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from acp_proxy.shell.agent_process import AgentProcess
from acp_proxy.shell.later import Later
from acp_proxy.shell.relay import Relay
from acp_proxy.transcripts import store

_TLS = "ssl"
"""OpenSSL, which asyncio and anyio load and nothing of ours uses: a sixth of the memory of a proxy at rest."""
_NEED_NO_TLS = frozenset({"asyncio", "anyio"})


def load_telling() -> None:
    """For loads, which an editor may ask for at once."""
    with suppress(Exception):
        from acp_proxy.shell import finding, replaying  # noqa: F401


def supervision() -> Callable[[AgentProcess, Relay, float], int]:
    """Who stays until the end. Raises ImportError."""
    try:
        with _without(_TLS):
            import asyncio  # noqa: F401 - it gets on with a Python that has none
        with Later(_TLS, classes=("SSLContext",)):  # anyio names it in annotations
            import anyio._backends._asyncio
    except Exception:  # noqa: BLE001 - a version that does not get on without: it is loaded as a whole, with it
        for name in [name for name in sys.modules if name.partition(".")[0] in _NEED_NO_TLS]:
            del sys.modules[name]
        import anyio._backends._asyncio  # noqa: F401
    import psutil  # noqa: F401

    from acp_proxy.shell.supervise import supervise

    return supervise


def load_stores() -> None:
    """What is asked of the store by others than the recorder."""
    store.load_the_rest()
    with suppress(Exception):
        from acp_proxy.shell import idling  # noqa: F401


@contextmanager
def _without(name: str) -> Iterator[None]:
    """There is no such module, for who gets on without it."""
    if name in sys.modules:
        yield
        return
    sys.modules[name] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules[name]
