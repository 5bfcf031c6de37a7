import contextlib
import os
import signal

import pytest
from hypothesis import HealthCheck, settings

from acp_proxy.config_file import VARIABLE
from acp_proxy.shell.launch import CHECK_VALUES
from acp_proxy.wire.value import check_fields

check_fields()
os.environ[CHECK_VALUES] = "1"  # for the proxies that tests start
os.environ[VARIABLE] = os.path.join(os.path.dirname(__file__), "no-such-config.toml")  # not that of the developer

# A busy machine is no failure, so no time limits. Half of the usual number of examples keeps the suite short;
# `make fuzz` looks for longer.
settings.register_profile("project", max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("project")

# A background process often ignores these signals, and so would every process that a test starts.
for name in ("SIGINT", "SIGHUP"):
    with contextlib.suppress(AttributeError, ValueError):
        if signal.getsignal(number := getattr(signal, name)) is signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if name == "SIGINT" else signal.SIG_DFL)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
