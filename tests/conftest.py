import contextlib
import signal

import pytest

# A background process often ignores these signals, and so would every process that a test starts.
for name in ("SIGINT", "SIGHUP"):
    with contextlib.suppress(AttributeError, ValueError):
        if signal.getsignal(number := getattr(signal, name)) is signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if name == "SIGINT" else signal.SIG_DFL)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
