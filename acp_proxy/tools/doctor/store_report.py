"""Check the store: its place, whether it is usable, and its size. This changes nothing and creates no store.

It is quick: it reads only the beginning of each transcript, while ``acp-proxy verify`` reads all of it. If the store
does not answer, the check says so after a bounded time.
"""

import contextlib
import os
import shutil
import stat
import sys
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from acp_proxy import shell_quote
from acp_proxy.errors import AcpProxyError, Unreadable
from acp_proxy.sessions.command_store import CommandStore
from acp_proxy.store.layout import JOURNAL_FILE, Layout
from acp_proxy.tools.doctor.advice import Advice
from acp_proxy.transcript import file_access

ANSWER_SECONDS = 20.0
"""How long the store may take to answer: rebuilding the index of a large one takes several seconds."""
_LITTLE_SPACE = 256 * 1024 * 1024
_BLOCK = 4096

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class StoreReport:
    """What was found of a store. ``size``: bytes of all files; ``transcripts``, ``deleted``: bytes of the transcripts,
    and of those that can be restored. ``sessions``: how many there are; None if they cannot be counted.
    ``why_not_recording``: why nothing can be recorded now; None: something can."""

    root: Path
    exists: bool
    mode: int | None = None
    files: int = 0
    size: int = 0
    agents: int = 0
    sessions: int | None = None
    unreadable: tuple[tuple[Path, str], ...] = ()
    free_bytes: int | None = None
    why_not_recording: str | None = None
    transcripts: int = 0
    deleted: int = 0


def examine(root: Path) -> tuple[StoreReport, list[Advice]]:
    report = run_in_time(lambda: _examine(root))
    if report is None:
        reason = "it does not answer"
        return StoreReport(root, True, why_not_recording=reason), [
            Advice(f"{root} does not answer. Choose another place with --store.")
        ]
    return report


def run_in_time(check: Callable[[], T]) -> T | None:
    """The result; None after a timeout, when the thread is left alone."""
    results: list[T] = []
    thread = threading.Thread(target=lambda: results.append(check()), daemon=True)
    thread.start()
    thread.join(ANSWER_SECONDS)
    return results[0] if results else None


def _examine(root: Path) -> tuple[StoreReport, list[Advice]]:
    if not os.path.lexists(root):
        reason = _explain_unmakeable(root)
        return StoreReport(root, False, why_not_recording=reason), [Advice(reason)] if reason else []
    try:
        store = CommandStore(root, create=False)
        store.check_writable()  # raises StoreRefused, also before a store is created
        _write(root)
    except AcpProxyError as problem:
        return _report_refusal(root, str(problem))
    except OSError as problem:
        return _report_refusal(
            root, f"{root} cannot be written: {problem.strerror}. Free some space, or repair the disk."
        )
    if not store.exists:
        return StoreReport(root, False), []
    files, size = _measure(root)
    transcripts, deleted = (_measure(folder)[1] for folder in (store.layout.transcripts, store.layout.deleted))
    transcripts -= _measure(store.layout.transcripts, JOURNAL_FILE)[1]
    free_bytes = shutil.disk_usage(root).free
    advice = _advise_on_unwritable(store.layout)
    sessions = None
    try:
        sessions = len(store.list_all())
    except Unreadable as problem:
        advice.append(Advice(f"The index cannot be read ({problem.name}). Run: acp-proxy verify"))
    unreadable_files = list(store.find_unreadable())
    advice += [
        Advice(f"{path} cannot be read: {reason}. {what_to_do}.") for path, reason, what_to_do in unreadable_files
    ]
    unreadable = tuple((path, reason) for path, reason, _ in unreadable_files)
    if free_bytes < _LITTLE_SPACE:
        advice.append(
            Advice(f"The disk of {root} is nearly full. Free some space, or move the store with --store.", False)
        )
    mode = _read_mode(root)
    if mode is not None and mode & 0o077:
        advice.append(Advice(f"Others can read {root}. Run: {shell_quote.join(['chmod', '700', str(root)])}"))
    report = StoreReport(root, True, mode, files, size, len(store.list_agents()), sessions, unreadable, free_bytes)
    return replace(report, transcripts=transcripts, deleted=deleted), advice


def _advise_on_unwritable(layout: Layout) -> list[Advice]:
    """What to do about files and directories of the store that this user cannot write to, however the root is."""
    paths = [layout.index_path]
    for part in (layout.transcripts, layout.unindexed, layout.deleted, layout.backups, layout.search):
        for folder, _, names in os.walk(part):
            paths += (Path(folder), *(Path(folder, name) for name in names))
    path_by_command: dict[str, Path] = {}
    for path in paths:
        with contextlib.suppress(FileNotFoundError):  # deleted in the meantime
            status = os.lstat(path)
            if not stat.S_ISLNK(status.st_mode) and not os.access(path, os.W_OK):
                path_by_command.setdefault(file_access.format_unlock(layout.root, status), path)
    return [Advice(f"{path} cannot be written to. Run: {command}") for command, path in path_by_command.items()]


def _report_refusal(root: Path, reason: str) -> tuple[StoreReport, list[Advice]]:
    return StoreReport(root, True, _read_mode(root), why_not_recording=reason), [Advice(reason)]


def _read_mode(root: Path) -> int | None:
    """The permissions of the directory; None if they cannot be read, or say nothing, as on Windows."""
    try:
        return stat.S_IMODE(os.stat(root).st_mode) if sys.platform != "win32" else None
    except OSError:
        return None


def _explain_unmakeable(root: Path) -> str | None:
    """Why the directory cannot be created, and what to do."""
    above = next(path for path in root.absolute().parents if os.path.lexists(path))
    if not os.path.exists(above):
        return file_access.explain_no_directory(above)
    try:
        _write(above)  # a mode says little: root may write everywhere, but not in /proc
    except OSError as problem:
        reason = "it is a file" if above.is_file() else problem.strerror
        return f"{root} cannot be created: {above} cannot be written ({reason}). Choose another place with --store."
    return None


def _write(root: Path) -> None:
    """Write a block to the disk. Raises OSError, also for a full disk."""
    with tempfile.TemporaryFile(dir=root) as file:  # without a name, if the system allows it
        file.write(bytes(_BLOCK))
        file.flush()
        os.fsync(file.fileno())


def _measure(root: Path, name: str = "") -> tuple[int, int]:
    """The number of files, of all or of those with a name, and their bytes. A missing directory has none."""
    files = size = 0
    for folder, _, names in os.walk(root):
        for file in names:
            if name not in ("", file):
                continue
            try:
                size += os.lstat(os.path.join(folder, file)).st_size
            except OSError:  # deleted in the meantime
                continue
            files += 1
    return files, size
