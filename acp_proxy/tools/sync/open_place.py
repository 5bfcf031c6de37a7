"""Opens the shared place and its key. Help and ``sync status`` work without the packages that only sync needs, so they
are imported when the place is opened.
"""

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from acp_proxy.errors import AcpProxyError
from acp_proxy.installation import advise_install

if TYPE_CHECKING:
    from acp_proxy.tools.sync.encryption import HistoryKey
    from acp_proxy.tools.sync.object_store import SealedLogs


def check_packages() -> None:
    """Raises AcpProxyError if the packages are not installed."""
    missing = [name for name in ("nacl", "obstore") if find_spec(name) is None]
    if missing:
        raise AcpProxyError(
            f"sync needs more packages ({', '.join(missing)}). To install them, too: {advise_install('sync')}"
        )


def open_logs(url: str, key: "HistoryKey") -> "SealedLogs":
    """The logs at a URL. Raises AcpProxyError."""
    check_packages()
    from acp_proxy.tools.sync.object_store import SealedLogs

    return SealedLogs(url, key)


def read_key(path: str) -> "HistoryKey":
    """The key in a file. Raises AcpProxyError."""
    check_packages()
    from acp_proxy.tools.sync.encryption import HistoryKey

    return HistoryKey.read(Path(path))
