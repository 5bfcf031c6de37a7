"""The store's own directory: where it is, created if it is missing, and refused if it cannot be used or written to.

A refusal raises or is a ``StoreRefused``, whose text names the command that fixes it.
"""

import os
import stat
import sys
from pathlib import Path

from acp_proxy.errors import StoreRefused
from acp_proxy.transcript import file_access

_OWNER_WRITES = stat.S_IWUSR | stat.S_IXUSR
_INNER_FOLDERS = ("transcripts", "unindexed")
"""What each recording writes to. A copy of a read-only store has them read-only, whatever the root is."""
_DATA_FOLDERS = {"linux": ".local/share", "darwin": "Library/Application Support"}


def find_default_root() -> Path:
    """The default store directory: in the user's data directory, as the operating system defines it."""
    home = os.environ.get("HOME", "")
    if (
        sys.platform in _DATA_FOLDERS
        and home.startswith("/")
        and not {"XDG_DATA_HOME", "ANDROID_DATA"} & os.environ.keys()
    ):
        return Path(home, _DATA_FOLDERS[sys.platform], "acp-proxy")
    import platformdirs  # finds the same, which a test compares, but its import takes 20 ms of CPU: a third of a start

    return Path(platformdirs.user_data_dir("acp-proxy", appauthor=False))


def resolve_root(path: str) -> Path:
    """The store's directory: ``path``, else the default. Raises StoreRefused if the home directory is not known: that
    of ``~name``, or without HOME, for a user id that the system has no name for, as in some containers."""
    try:
        return Path(path).expanduser() if path else find_default_root()
    except RuntimeError as problem:
        if (user := path.replace(os.sep, "/").split("/")[0]) not in ("", "~"):
            raise StoreRefused(f"{user} is no user here. Name another directory with --store.") from problem
        raise StoreRefused("Your home directory is not known. Set HOME, or name a directory with --store.") from problem


def prepare(root: Path) -> None:
    """Create the store's directory if missing, and check that only this user can write to it. Raises StoreRefused."""
    make_root(root)
    if (refusal := find_refusal(root)) is not None:
        raise refusal


def make_root(root: Path) -> None:
    """Create the store's directory if it is missing. It may still be read-only. Raises StoreRefused."""
    try:
        file_access.make_directory(root)
        status = os.stat(root)
    except FileExistsError as problem:  # on Windows, also for a file above it
        raise StoreRefused(file_access.explain_no_directory(problem.filename)) from problem
    except OSError as problem:
        reason = problem.strerror or type(problem).__name__
        text = f"{root} cannot be used: {reason}. Choose another place with --store."
        raise StoreRefused(text, is_temporary=file_access.is_temporary(problem)) from problem
    file_access.check_owner(root, status)


def find_refusal(root: Path) -> StoreRefused | None:
    """The refusal, with advice, if the store cannot be written; None if it can."""
    folders = (root, *(folder for name in _INNER_FOLDERS if os.path.isdir(folder := root / name)))
    unwritable = next((folder for folder in folders if not os.access(folder, os.W_OK | os.X_OK)), None)
    if unwritable is None:
        return None
    advice = "Choose another place with --store."
    try:
        status, is_read_only = os.stat(unwritable), _is_on_read_only_mount(unwritable)
    except OSError as problem:  # it was removed in the meantime
        return StoreRefused(f"{unwritable} cannot be used: {problem.strerror}. {advice}", is_temporary=True)
    what = f"{unwritable} cannot be written to"
    if is_read_only:
        advice = "Mount it writable, or choose another place with --store. Its sessions can still be read and exported."
        return StoreRefused(f"{what}: its file system is read-only. {advice}")
    if status.st_mode & _OWNER_WRITES != _OWNER_WRITES:
        return StoreRefused(f"{what}. Run: {file_access.format_unlock(root, status)}")
    reason = "the system protects it (a snapshot, a flag, a sandbox)"
    text = f"{what}, although its mode allows it: {reason}. {advice}"
    return StoreRefused(text, is_temporary=True)  # the check itself may have failed


def _is_on_read_only_mount(path: Path) -> bool:
    """Whether the file system of this path is mounted read-only. Raises OSError."""
    return hasattr(os, "statvfs") and bool(os.statvfs(path).f_flag & os.ST_RDONLY)  # not on Windows
