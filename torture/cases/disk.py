"""The disk is full, broken, slow, locked or removed, at each system call in turn.

A shared library preloaded into the proxy makes chosen system calls on the store's files fail or hang; without a C
compiler, only limits, modes and a small file system are tested. Checked afterwards: every line of both directions, and
every message that was to be recorded. Lost: a line that did not arrive unchanged, a missing message without a note of a
gap, and a note of a gap where nothing is missing.
"""

import contextlib
import errno
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from acp_proxy.recording.recorder import WAITING_BYTES
from tests.end_to_end.proxied import UNPRIVILEGED, Proxied
from tests.posix import resource
from torture import faults
from torture.faults import Disk
from torture.outcome import Outcome, Scale
from torture.taped_conversation import TapedConversation

_ERRORS = (errno.ENOSPC, errno.EIO, errno.EDQUOT)
_MOST_WAIT = 5.0
"""An exchange is delayed for a second at most; the rest is for a busy machine."""
_LOCKED_LIST_SECONDS = 60.0
_TRANSCRIPT_BYTES = 3000
"""About the size of the file of the conversation below."""


@dataclass
class _Place:
    """The place of one proxy, one agent and one store."""

    proxied: Proxied
    disk: Disk | None

    @property
    def env(self) -> dict[str, str]:
        """No bytecode files: Python would take a truncated one for a whole one in every later process."""
        return (self.disk.env if self.disk is not None else {**os.environ}) | {"PYTHONDONTWRITEBYTECODE": "1"}


def run(scale: Scale) -> Iterator[Outcome]:
    parts: list[Callable[[Scale], Outcome | None]] = []
    if faults.are_available():
        faults.build_library(scale.place)
        parts += [*_list_parts(scale), _hang_calls]
    if sys.platform == "linux":
        parts += [_limit_size, _remove_permissions]
        parts += [] if scale.short else [_fill_file_system]
    parts += [_remove_store] if scale.short else [_remove_store, _lock_index]
    with ThreadPoolExecutor(scale.of(1, len(parts))) as at_once:  # mostly, a part waits until a store is tried again
        yield from (outcome for outcome in at_once.map(lambda part: part(scale), parts) if outcome is not None)


def _make_place(scale: Scale, name: str) -> _Place:
    base = scale.place / name
    base.mkdir()
    proxied = Proxied(base)
    return _Place(proxied, Disk(scale.place, proxied.store) if faults.are_available() else None)


# --- one system call at a time


_CHANGES = faults.CHANGES & ~faults.SYNC
"""Without fsync: if that fails, a note of a gap is right even where nothing is missing. The case ``calls`` tries it."""
_KINDS: list[tuple[str, Callable[[Disk, int, int], AbstractContextManager[None]]]] = [
    (
        "one call fails (ENOSPC, EIO, EDQUOT)",
        lambda disk, error, n: disk.fails(error, _CHANGES, first=n, last=n),
    ),
    (
        "all calls fail from one on",
        lambda disk, error, n: disk.fails(error, _CHANGES, first=n),
    ),
    (
        "a write is cut, later writes fail",
        lambda disk, error, n: disk.tears(error, faults.TRANSCRIPT | faults.JOURNAL | faults.INDEX, first=n),
    ),
    (
        "reads fail too, from one call on",
        lambda disk, error, n: disk.fails(error, _CHANGES | faults.READ, first=n),
    ),
]


def _list_parts(scale: Scale) -> list[Callable[[Scale], Outcome]]:
    """Each kind of fault, in new sessions, and in revived ones."""
    return [
        partial(_run_kind, number, renewed)
        for number in range(len(_KINDS))
        for renewed in (False, True)
        if not scale.short or (number, renewed) in ((0, False), (2, True))
    ]


def _run_kind(number: int, renewed: bool, scale: Scale) -> Outcome:
    fault, arm = _KINDS[number]
    place = _make_place(scale, f"calls-{number}-{renewed}")
    disk = place.disk
    assert disk is not None
    armed = [(error, at) for error in _ERRORS for at in range(1, scale.of(45, 25))]
    if scale.short:
        armed = scale.chance(number, renewed).sample(armed, 5)
    if renewed:
        fault += ", after a delete"
    return _try_faults(fault, place, [partial(arm, disk, error, at) for error, at in armed], renewed=renewed)


def _try_faults(
    fault: str, place: _Place, armed: list[Callable[[], AbstractContextManager[None]]], *, renewed: bool
) -> Outcome:
    """A session for each call: it begins and continues under the fault, and is recorded after it."""
    with _hold_conversation(place) as talk:
        happened = 0
        for arm in armed:
            if renewed:
                session = talk.open()
                talk.prompt(session, "before")
                talk.delete(session)
            with arm():
                if not renewed:
                    session = talk.open()
                talk.prompt(session, "one")
                talk.prompt(session, "two")
                talk.list_sessions()
                happened += place.disk is None or place.disk.hit_count > 0
        return _make_outcome(fault, talk, happened)


# --- a store that hangs


def _hang_calls(scale: Scale) -> Outcome:
    """Each call separately: the hang ends with the fault."""
    place = _make_place(scale, "hanging")
    disk = place.disk
    assert disk is not None
    calls = [
        (calls, files, at)
        for calls, files in (
            (faults.WRITE, faults.TRANSCRIPT),
            (faults.OPEN, faults.TRANSCRIPT),
            (faults.OPEN, faults.MARK),
            (faults.SYNC, faults.TRANSCRIPT),
            (faults.CHANGES, faults.INDEX),
            (faults.CHANGES, faults.ALL_FILES),
        )
        for at in range(1, 5)
    ]
    if scale.short:
        calls = calls[1:2]
    with _hold_conversation(place) as talk:
        happened = 0
        for call, files, at in calls:
            with disk.hangs(call, files, first=at):
                session = talk.open()
                for text in ("one", "x" * WAITING_BYTES if at == 1 and not scale.short else "two", "three"):
                    talk.prompt(session, text)
                happened += disk.hit_count > 0
            left = talk.prompt_until_recorded(session)
            if left:
                return Outcome("hang", happened, 1, "sessions", lost=1, trouble=(f"{left} at {call} {files} {at}",))
        return _make_outcome("a call hangs", talk, happened)


# --- without a compiler


def _limit_size(scale: Scale) -> Outcome:
    """A limit at many sizes of a transcript: in the header, at each line, and within it."""
    place = _make_place(scale, "limit")
    with _hold_conversation(place) as talk:

        @contextmanager
        def limit(size: int) -> Iterator[None]:
            soft, hard = resource.prlimit(talk.editor.pid, resource.RLIMIT_FSIZE)
            resource.prlimit(talk.editor.pid, resource.RLIMIT_FSIZE, (size, hard))
            try:
                yield
            finally:
                resource.prlimit(talk.editor.pid, resource.RLIMIT_FSIZE, (soft, hard))

        sizes = range(0, _TRANSCRIPT_BYTES, scale.of(10, 500))
        for size in sizes:
            with limit(size):
                session = talk.open()
                talk.prompt(session, "one")
                talk.prompt(session, "two")
        return _make_outcome("file size limit (RLIMIT_FSIZE), every 10 bytes", talk, len(sizes))


def _fill_file_system(scale: Scale) -> Outcome | None:
    """A file system that is filled to its last byte and emptied again; only where one can be mounted."""
    place = _make_place(scale, "small")
    where = place.proxied.base / "mounted"
    where.mkdir()
    mounted = shutil.which("mount") and subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=8m,mode=700", "tmpfs", str(where)],
        stderr=subprocess.DEVNULL,
        check=False,
    )
    if not mounted or mounted.returncode:
        return None
    try:
        place.proxied.store = where / "store"
        place.disk = None
        with _hold_conversation(place) as talk:
            filler, times = where / "filler", scale.of(30, 2)
            for _ in range(times):
                session = talk.open()
                talk.prompt(session, "one")
                with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
                    while file.write(bytes(4096)):
                        pass
                talk.prompt(session, "two" * 3000)
                talk.list_sessions()
                talk.prompt(session, "three" * 3000)
                filler.unlink()
            return _make_outcome("a file system is full for a while", talk, times)
    finally:
        subprocess.run(["umount", "--lazy", str(where)], check=False)


def _remove_permissions(scale: Scale) -> Outcome:
    """Directories lose their modes in turn, and get them back; the proxy may do no more than its user, even as root."""
    place = _make_place(scale, "permission")
    with _hold_conversation(place, before=UNPRIVILEGED) as talk:
        first = talk.open()
        talk.prompt(first, "one")
        store = place.proxied.store
        [folder] = store.glob("transcripts/*")
        directories = (store, folder.parent, folder, store / "unindexed", store / "unindexed" / folder.name)
        faults = [(directory, mode) for directory in directories for mode in (0, 0o500)]
        if scale.short:
            faults = [(store, 0), (folder, 0o500), (store / "unindexed" / folder.name, 0)]
        for directory, mode in faults:
            directory.chmod(mode)
            session = talk.open()
            talk.prompt(session, "one")
            talk.prompt(first, "two")
            talk.list_sessions()
            directory.chmod(0o700)
        return _make_outcome("a directory loses its permissions for a while", talk, len(faults))


def _remove_store(scale: Scale) -> Outcome:
    """The store, or a part of it, is removed or renamed; sessions begun or prompted later are recorded."""
    place = _make_place(scale, "removed")
    with _hold_conversation(place) as talk:
        times = 0
        for _ in range(scale.of(10, 1)):
            for remove in (_remove_directory, _rename_directory):
                for part in ("", "transcripts", "unindexed"):
                    session = talk.open()
                    talk.prompt(session, "before")
                    remove(place.proxied.store / part)
                    if part != "unindexed":
                        talk.forget_all()
                    talk.prompt(session, "one")
                    talk.open()
                    talk.prompt(talk.sessions[-1], "two")
                    talk.list_sessions()
                    times += 1
        return _make_outcome("the store or one directory is removed or renamed", talk, times)


def _remove_directory(path: Path) -> None:
    while path.exists():  # the proxy may be creating a file in it
        shutil.rmtree(path, ignore_errors=True)


def _rename_directory(path: Path) -> None:
    number = sum(1 for _ in path.parent.glob(f"{path.name}-aside-*"))
    path.rename(path.with_name(f"{path.name}-aside-{number}"))


def _lock_index(scale: Scale) -> Outcome:
    """Another process holds the index's lock during the conversation."""
    place = _make_place(scale, "locked")
    with _hold_conversation(place) as talk:
        session = talk.open()
        talk.prompt(session, "before")
        talk.editor.request("session/list", {})
        database = sqlite3.connect(place.proxied.store / "index.sqlite3", isolation_level=None)
        database.execute("BEGIN EXCLUSIVE")
        times = scale.of(50, 5)
        for number in range(times):
            talk.prompt(session, f"locked {number}")
            talk.prompt(talk.open(), "new")
        if not scale.short:  # a list tries for some seconds, then works without it
            found = talk.editor.request("session/list", {}, timeout=_LOCKED_LIST_SECONDS)["sessions"]
            if len(found) != times + 1:
                talk.trouble.append(f"{len(found)} sessions are listed while the index is locked, not {times + 1}")
        database.execute("ROLLBACK")
        database.close()
        return _make_outcome("another process locks the index", talk, times)


# --- shared


@contextmanager
def _hold_conversation(place: _Place, before: tuple[str, ...] = ()) -> Iterator[TapedConversation]:
    talk = TapedConversation(place.proxied, env=place.env, before=before)
    try:
        talk.initialize()
        yield talk
    finally:
        talk.editor.close()


def _make_outcome(fault: str, talk: TapedConversation, tried: int) -> Outcome:
    """The fault is over: everything must be recorded from here on, and the rest must be as promised."""
    trouble = list(talk.trouble)
    if left := talk.prompt_until_recorded(*talk.sessions):
        trouble.append(f"never recorded again: {left}")
    listing = talk.editor.request("session/list", {})
    if "_meta" in listing:
        trouble.append(f"the list says that nothing is recorded: {listing['_meta']}")
    if (status := talk.end()) != 0:
        trouble.append(f"the proxy ended with {status}")
    found = talk.compare_transcripts()
    trouble += talk.compare_wire() + found.trouble
    warnings = talk.warnings()
    if len(warnings) > 1 or (found.missing and not warnings and talk.must_warn):
        trouble.append(f"one warning, if anything is missing, and not {len(warnings)}: {warnings}")
    if max(talk.waits) > _MOST_WAIT:
        trouble.append(f"an exchange took {max(talk.waits):.1f} s")
    also = f"{found.gaps:,} gaps, longest wait {max(talk.waits):.2f} s"
    return Outcome(fault, tried, found.said, "messages", lost=len(trouble), also=also, trouble=tuple(trouble))
