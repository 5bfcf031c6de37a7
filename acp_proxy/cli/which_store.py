"""Which store, and which directory, a command means. Does not import typer: ``browse`` and ``sessions list`` open the
store without it."""

import os
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from acp_proxy import config_file
from acp_proxy.cli.progress import MOMENT, advanced
from acp_proxy.errors import AcpProxyError, NoStore, UsageError
from acp_proxy.transcripts.archive import PRIVATE_UMASK, Archive, Listed, default_root, is_windows
from acp_proxy.views import figures

if TYPE_CHECKING:  # imported late: no other command needs it
    from acp_proxy.transcripts.archive import Candidate

STORE_VARIABLE = "ACP_PROXY_STORE"


def root_of(given: str) -> Path:
    """The store's directory: ``given``, else that of the configuration file, else the default. Raises UsageError."""
    os.umask(PRIVATE_UMASK)
    given = given or _configured()
    return Path(given).expanduser() if given else default_root()


def _configured() -> str:
    """The directory in the configuration file; empty if it names none. Raises UsageError."""
    return config_file.checked().get("store", "")


def is_usual(root: Path) -> bool:
    """Whether a command without --store uses this store."""
    with suppress(UsageError):
        return root == root_of(os.environ.get(STORE_VARIABLE, ""))
    return False


def store_of(given: str, *, make: bool = False, change: bool = False) -> Archive:
    """Open the store. If it has to rebuild its index, which may take long, a progress bar appears.

    Only ``make`` creates a store. Without it, a missing store is empty in the default place, and an error elsewhere.
    ``make`` and ``change`` refuse a read-only store. Raises StoreRefused, NoStore, UsageError.
    """
    configured = "" if given else _configured()
    given = given or configured
    root = root_of(given)
    store = Archive(root, make=make)
    if configured and not store.is_made:
        raise NoStore(root, f"{config_file.place()} names it. acp-proxy run creates it with the first session.")
    if given and not store.is_made:
        raise NoStore(root)
    if change and store.only_read is not None:
        raise store.only_read
    store.filling = partial(advanced, "Rebuilding the index", MOMENT)
    return store


def directory(cwd: str, *, here: bool) -> str | None:
    """The absolute directory of --cwd or --here. Raises AcpProxyError."""
    if cwd and here:
        raise UsageError("--here and --cwd exclude each other. Give one of them.")
    if not cwd and not here:
        return None
    try:
        return cwd if os.path.isabs(cwd) or is_windows(cwd) else os.path.join(os.getcwd(), cwd or ".")
    except FileNotFoundError as problem:
        raise AcpProxyError("the current directory no longer exists. Give an absolute path: --cwd DIR") from problem


def short_ids(store: Archive, sessions: "Sequence[Listed | Candidate]") -> dict[str, str]:
    """The shortest unique form of each id, for display."""
    ids = [each.session for each in sessions]
    short = figures.short(ids, store.alike(ids, figures.SHORTEST))
    return {  # the short id of a copy stays as it is
        each.named: each.named.replace(each.session, short[each.session], 1) for each in sessions
    }
