"""Opens the shared place, with the packages that only sync needs."""

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from acp_proxy.errors import AcpProxyError

if TYPE_CHECKING:
    from acp_proxy.sync.buckets import SealedLogs
    from acp_proxy.sync.sealing import HistoryKey


def need() -> None:
    """Raises AcpProxyError if the packages are not installed."""
    missing = [name for name in ("nacl", "obstore") if find_spec(name) is None]
    if missing:
        raise AcpProxyError(
            f"sync needs more packages ({', '.join(missing)}). Install acp-proxy with them: "
            "in a clone, uv tool install '.[sync]', or pip install '.[sync]'"
        )


def logs_of(url: str, key: "HistoryKey") -> "SealedLogs":
    """The logs at a URL. Raises AcpProxyError."""
    need()
    from acp_proxy.sync.buckets import SealedLogs

    return SealedLogs(url, key)


def key_in(path: str) -> "HistoryKey":
    """The key in a file. Raises AcpProxyError."""
    need()
    from acp_proxy.sync.sealing import HistoryKey

    return HistoryKey.read(Path(path))
