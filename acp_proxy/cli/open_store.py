"""Which store a command is about, and opening it."""

import os
from contextlib import suppress
from functools import partial
from pathlib import Path

from acp_proxy.cli import config_values
from acp_proxy.cli.progress import PATIENCE_SECONDS, begin_progress
from acp_proxy.config import config_file
from acp_proxy.errors import AcpProxyError, NoStore, UsageError
from acp_proxy.sessions.command_store import CommandStore
from acp_proxy.store.store_root import resolve_root
from acp_proxy.transcript.file_access import PRIVATE_UMASK

STORE_VARIABLE = "ACP_PROXY_STORE"


def find_root(path: str) -> Path:
    """The store's directory: ``path``, else that of the configuration file, else the default. Raises UsageError,
    StoreRefused."""
    return resolve_root(path or _read_configured_root())


def read_umask() -> int:
    """The umask of this process. For one thread: the system only tells it to whoever sets another, so that is done, and
    undone."""
    os.umask(umask := os.umask(0))
    return umask


def make_new_files_private() -> None:
    """Set the umask of this process: what it creates from now on, nobody else can read. An agent that it starts gets
    the user's own, which ``read_umask`` must have read before."""
    os.umask(PRIVATE_UMASK)


def _read_configured_root() -> str:
    """The directory in the configuration file; empty if it names none. Raises UsageError."""
    return config_file.read_valid().get("store", "")


def is_default_store(root: Path) -> bool:
    """Whether a command without --store uses this store."""
    with suppress(UsageError):
        return root == find_root(os.environ.get(STORE_VARIABLE, ""))
    return False


def _find_usual_store() -> Path | None:
    """The store without --store and the variable, if it has sessions."""
    with suppress(AcpProxyError, OSError):  # another store is meant
        if CommandStore(root := find_root(""), create=False).list_transcripts():
            return root
    return None


def open_store(path: str, *, create: bool = False, for_writing: bool = False) -> CommandStore:
    """Open the store. If it has to rebuild its index, which may take long, a progress bar appears. What this process
    creates from now on is private (``make_new_files_private``).

    Only ``create`` creates a store. Without it, a missing store is empty in the default place, and an error elsewhere.
    ``create`` and ``for_writing`` refuse a read-only store. Raises StoreRefused, NoStore, UsageError.
    """
    make_new_files_private()
    configured_path = "" if path else _read_configured_root()
    root = resolve_root(path or configured_path)
    bin_days = config_values.read_bin_days() if for_writing else None
    store = CommandStore(root, create=create, bin_days=bin_days)
    if configured_path and not store.exists:
        advice = "acp-proxy run creates it with the first session. To set up your editor: acp-proxy setup"
        raise NoStore(root, f"{config_file.find_path()} names it. {advice}")
    if path and not store.exists:
        if (usual_root := _find_usual_store()) is not None:
            raise NoStore(root, f"--store or {STORE_VARIABLE} names it. Without them, you see those in {usual_root}.")
        raise NoStore(root)
    if for_writing and store.read_only_reason is not None:
        raise store.read_only_reason
    if for_writing and store.exists:
        with suppress(OSError):  # whatever cannot be removed now must not keep the user from something else
            store.remove_expired()
    store.show_progress = partial(begin_progress, "Rebuilding the index", PATIENCE_SECONDS)
    return store
