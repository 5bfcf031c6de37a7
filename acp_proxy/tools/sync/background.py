"""The process that does rounds while nobody looks: ``python -m acp_proxy.tools.sync.background STORE``.

``run`` starts it at its own start, after turns and after lists. Of one store's processes, one does a round and one
waits, until a minute has passed since the last round began: so the last turn before an editor is closed is sent, too.
All others end at once. If the shared place does not answer, it tries again, less and less often.

File locks keep them apart, so one that is killed leaves nothing behind.
"""

import os
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from acp_proxy.errors import AcpProxyError
from acp_proxy.relay.start_sync_round import FOLDER, LOCK, WAITING, write_trouble
from acp_proxy.transcript.file_access import PRIVATE_UMASK, lock, open_private

_ROUND_SECONDS = 60.0
"""Seconds between the beginnings of two rounds."""
_PAUSES_SECONDS = (60.0, 120.0, 300.0, *[600.0] * 24)
"""Seconds before each further attempt: about four hours in all."""
_NICENESS = 10
_DESCRIPTORS = 4096
"""Below this number, all descriptors are closed that the editor passed on to its agents."""


def main(root: Path) -> None:
    """Do a round for the store at ``root``, unless another process waits to do so."""
    _detach()
    os.closerange(3, _DESCRIPTORS)
    os.umask(PRIVATE_UMASK)
    os.chdir(root.anchor)  # on Windows, a directory in which a process runs can be neither removed nor renamed
    do_rounds_until_idle(root, time.sleep)


def do_rounds_until_idle(root: Path, sleep: Callable[[float], None]) -> None:
    """Wait until a round may begin and do it, again as long as it fails; end at once if another process waits.
    ``sleep``: as ``time.sleep``."""
    folder = root / FOLDER
    for pause in (0.0, *_PAUSES_SECONDS):
        with ExitStack() as waiting:
            if not _is_first(folder, waiting):
                return
            sleep(max(pause, _measure_remaining_seconds(folder)))
            if _is_over(root, waiting.close):
                return


def _detach() -> None:
    """Editors end an agent with all its children, and its process group."""
    if sys.platform != "win32":
        if os.fork():
            os._exit(0)
        os.setsid()
        os.nice(_NICENESS)


def _is_first(folder: Path, waiting: ExitStack) -> bool:
    """Begin to wait, until ``waiting`` is closed. False: another process does."""
    try:
        fd = open_private(folder / WAITING, os.O_RDWR | os.O_CREAT)
    except FileNotFoundError:  # the store was removed
        return False
    waiting.callback(os.close, fd)
    try:
        lock(fd)
    except BlockingIOError:
        return False
    return True


def _measure_remaining_seconds(folder: Path) -> float:
    """Seconds until the next round may begin."""
    try:
        elapsed = time.time() - (folder / LOCK).stat().st_mtime
    except OSError:
        return 0.0
    return min(max(_ROUND_SECONDS - elapsed, 0.0), _ROUND_SECONDS)


def _is_over(root: Path, on_begin: Callable[[], None]) -> bool:
    """Do a round. ``on_begin``: called when another process may begin to wait. False: another attempt may help."""
    from acp_proxy.tools.sync.interfaces import Unavailable
    from acp_proxy.tools.sync.membership import NotJoined, SyncMembership  # heavier than what waits
    from acp_proxy.tools.sync.open_place import open_logs, read_key

    membership = SyncMembership(root)
    try:
        settings = membership.read_settings()
        if not settings.manual:
            logs = open_logs(settings.url, read_key(settings.key_file))
            membership.do_round(logs, patience=None, on_begin=on_begin)
    except NotJoined:  # since it was started
        return True
    except (Unavailable, OSError) as problem:
        write_trouble(root / FOLDER, str(problem))
        return False
    except Exception as problem:  # noqa: BLE001 - nobody sees a traceback
        bug = "" if isinstance(problem, AcpProxyError) else f"internal error: {type(problem).__name__}: "
        write_trouble(root / FOLDER, f"{bug}{problem}")
    return True


if __name__ == "__main__":
    main(Path(sys.argv[1]))
