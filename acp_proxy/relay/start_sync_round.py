"""What a running proxy does for sync: starts the process that does a round (``background``), and tells what went
wrong in it.

Loads nothing of sync and waits for nothing. If the store is not synchronized, this costs one look for a file.
"""

import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import orjson

from acp_proxy import invocation
from acp_proxy.transcript.file_access import lock, open_private

FOLDER = "sync"
"""The part of a store's directory that belongs to sync."""
SETTINGS = "settings.json"
LOCK = "lock"
"""The file that is locked during a round; its time is that of the last round's beginning."""
WAITING = "waiting"
"""The file that is locked by the process that waits for the next round."""
NEW_TROUBLE, REPORTED_TROUBLE = "trouble", "trouble-told"
"""What went wrong last; the second name, if a proxy has told the user since the last success."""


def start_sync_round(root: Path, warn: Callable[[str], None]) -> None:
    """Start the process for the store at ``root``, unless one is waiting already: that will see what is there now."""
    folder = root / FOLDER
    if not _syncs_automatically(folder):  # the usual case
        return
    text = _take_unreported(folder)
    if text is not None:
        warn(f"sync failed: {text.rstrip('.')}. To see the state: acp-proxy sync status")
    try:
        if not _has_waiting_process(folder):
            _start_process(root)
    except OSError as problem:
        write_trouble(folder, f"no process could be started: {problem.strerror}")


def _syncs_automatically(folder: Path) -> bool:
    """Whether the store is synchronized, and not only when the user says so."""
    try:
        return orjson.loads((folder / SETTINGS).read_bytes()).get("manual") is not True
    except (OSError, ValueError, AttributeError):
        return False


def _has_waiting_process(folder: Path) -> bool:
    fd = open_private(folder / WAITING, os.O_RDWR | os.O_CREAT)
    try:
        lock(fd)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def _start_process(root: Path) -> None:
    command = invocation.make_child_command("acp_proxy.tools.sync.background", os.path.abspath(root))
    if sys.platform == "win32":
        from subprocess import CREATE_BREAKAWAY_FROM_JOB, CREATE_NO_WINDOW, DEVNULL, IDLE_PRIORITY_CLASS, Popen

        # Its own console, which nobody sees. Without one, the Python that a venv's python.exe starts would open one.
        flags = CREATE_NO_WINDOW | IDLE_PRIORITY_CLASS
        try:  # the editor may end its job with us
            Popen(
                command, stdin=DEVNULL, stdout=DEVNULL, stderr=DEVNULL, creationflags=flags | CREATE_BREAKAWAY_FROM_JOB
            )
        except PermissionError:  # its job does not allow that
            Popen(command, stdin=DEVNULL, stdout=DEVNULL, stderr=DEVNULL, creationflags=flags)
    else:
        null = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in (0, 1, 2)]
        pid = os.posix_spawn(command[0], command, os.environ, file_actions=null, setpgroup=0, setsigmask=())
        # It forks at once and ends: so it is nobody's child when an editor ends all of ours.
        threading.Thread(target=os.waitpid, args=(pid, 0), name="start of sync", daemon=True).start()


# --- what went wrong


def write_trouble(folder: Path, text: str) -> None:
    """Keep what went wrong, for ``run`` and ``sync status``. A proxy tells it once until the next success."""
    name = REPORTED_TROUBLE if (folder / REPORTED_TROUBLE).exists() else NEW_TROUBLE
    new_file = folder / f"{name}.new"
    try:
        fd = open_private(new_file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        with os.fdopen(fd, "wb") as file:
            file.write(text.encode("utf-8", "replace"))
        new_file.replace(folder / name)
    except OSError:  # the disk is full: then it is not told
        return


def _take_unreported(folder: Path) -> str | None:
    """What went wrong, if no proxy has told it: from now on, this one has."""
    try:
        text = (folder / NEW_TROUBLE).read_text("utf-8", "replace")
        (folder / NEW_TROUBLE).replace(folder / REPORTED_TROUBLE)
    except OSError:  # there is nothing, or another proxy was faster
        return None
    return text
