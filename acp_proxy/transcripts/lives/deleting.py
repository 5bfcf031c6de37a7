"""What becomes of whole sessions: deleted for good or softly, restored, alive again; and what the user calls them.

A line in ``state.jsonl`` is what counts. What it means for files follows at once, under the lock on that file; whatever
ends this half-way, who next asks the index, or lets the session live again, finishes it (``finish``). A title goes with
its transcript: whenever that gets another name a new line says so, and the old words are overwritten.
"""

import errno
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from acp_proxy.transcripts.files import access, journal
from acp_proxy.transcripts.files.layout import Layout
from acp_proxy.transcripts.files.names import ASIDE, file_name, kept_as, kept_name, packed
from acp_proxy.wire import clock

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
_SURELY_UNUSED_SECONDS = 24 * 60 * 60.0
"""Without locks nobody can tell who has a transcript open; what was written to more recently may be in use."""


def delete(layout: Layout, agent: str, session: str, *, soft: bool, is_unused: bool = False) -> None:
    """Take a session away; it stays known as deleted. ``soft``: its transcript can be restored. Raises OSError.

    ``is_unused``: the caller keeps others from opening its transcript (``unused``).
    """
    name = file_name(session)
    layout.make_folder(layout.transcript(agent, name).parent)
    with suppress(OSError):  # it only makes the index look sooner
        layout.mark(agent, name)
    known = layout.journal(agent)
    with known.alone():
        at = _now()
        if not soft:
            _say_deleted(layout, agent, session, at, is_unused=is_unused)
        elif session not in known.deleted():  # else what is kept of it stays as it is
            kept = kept_as(name, at)
            _copy_title(layout, agent, session, name, kept)
            known.append(journal.DELETED, session, at, transcript=kept)
        finish(layout, agent, session)


def _say_deleted(layout: Layout, agent: str, session: str, at: str, *, is_unused: bool) -> None:
    """Where the disk is full the transcript goes first: a delete is what makes room there. Raises OSError.

    One that somebody has open would make none: then it stays, and nothing is deleted.
    """
    known, name = layout.journal(agent), file_name(session)
    path = layout.transcript(agent, name)
    try:
        known.append(journal.DELETED, session, at)
    except OSError as problem:
        with ExitStack() as stack:
            is_full = problem.errno in _NO_ROOM
            if not is_full or not (is_unused or stack.enter_context(unused(path))):
                raise
            with suppress(FileNotFoundError):  # it is packed
                os.truncate(path, 0)  # whoever keeps others from opening it has it open: without a name it takes room
            layout.remove(agent, name)
            known.append(journal.DELETED, session, at)


def finish(layout: Layout, agent: str, session: str) -> None:
    """What a delete means for files, for who holds the lock. Raises OSError."""
    name, known = file_name(session), layout.journal(agent)
    kept = known.state().deleted[session]
    if kept is None:
        erase_titles(layout, agent, name, *layout.kept_of(agent, name))
        layout.remove(agent, name)
    else:
        erase_titles(layout, agent, name)
        _put_aside(layout, agent, name, kept)


def unfinished(layout: Layout, agent: str) -> list[str]:
    """The deleted sessions of which something is left that should not be there. Raises OSError."""
    state = layout.journal(agent).state()
    kept = {kept_name(name) for name in layout.kept_names(agent)} if state.deleted else set()

    def is_left(name: str, softly: str | None) -> bool:
        return name in state.titled or (softly is None and name in kept) or layout.exists(agent, name)

    return [session for session, softly in state.deleted.items() if is_left(file_name(session), softly)]


def lift(layout: Layout, agent: str, session: str) -> None:
    """A deleted session lives again; said before its new file is made, so that nobody removes that one."""
    known = layout.journal(agent)
    if session not in known.deleted():
        return
    with known.alone():
        if session in known.deleted():
            finish(layout, agent, session)  # what a crash in the middle of the delete left
            known.append(journal.LIFTED, session, _now())


def remove(layout: Layout, agent: str, session: str, name: str, *, soft: bool, is_unused: bool = False) -> None:
    """Delete one transcript, also where its id belongs to a newer session: that one is left alone. Raises OSError.

    ``is_unused``: as for ``delete``.
    """
    if name == file_name(session):
        delete(layout, agent, session, soft=soft, is_unused=is_unused)
    else:
        _remove_superseded(layout, agent, session, name, soft=soft)


def _remove_superseded(layout: Layout, agent: str, session: str, name: str, *, soft: bool) -> None:
    layout.mark(agent, name)
    known = layout.journal(agent)
    with known.alone():
        if soft:
            kept = kept_as(name, _now())
            move_title(layout, agent, session, name, kept)
            _put_aside(layout, agent, name, kept)
        else:
            _forget_titles(layout, agent, session, name, *layout.kept_of(agent, name))
            layout.remove(agent, name)


def remove_kept(layout: Layout, agent: str, session: str, kept: str) -> None:
    """Delete for good what was deleted softly. Raises OSError."""
    with layout.journal(agent).alone():
        _forget_titles(layout, agent, session, kept)
        layout.remove_kept(agent, kept)


def restore(layout: Layout, agent: str, session: str, kept: str) -> str:
    """Bring back what was deleted softly; its name. Raises OSError (FileNotFoundError: it is not there any more).

    Where its id belongs to a newer session by now, it comes back beside that one, as if it had been set aside.
    """
    known = layout.journal(agent)
    with known.alone():
        name = kept_name(kept)
        layout.mark(agent, name)
        after = moved(layout.kept(agent, kept), layout.transcript(agent, name))
        layout.mark(agent, after)
        layout.move_backups(agent, kept, after)
        if after == file_name(session) and session in known.deleted():
            known.append(journal.RESTORED, session, _now())
        move_title(layout, agent, session, kept, after)
        return after


def set_title(layout: Layout, agent: str, session: str, name: str, title: str | None) -> None:
    """What the user calls it; None: nothing. Raises OSError (FileNotFoundError: it was deleted)."""
    known = layout.journal(agent)
    with known.alone():
        if name == file_name(session) and session in known.deleted():
            raise FileNotFoundError(errno.ENOENT, "it was deleted", session)
        if title is None:
            _forget_titles(layout, agent, session, name)
        else:
            _say_title(layout, agent, session, name, title)
        layout.forget_words(name)  # the title is among them


def move_title(layout: Layout, agent: str, session: str, before: str, after: str) -> None:
    """A transcript has another name now, and its title goes with it: for who holds the lock. Raises OSError."""
    _copy_title(layout, agent, session, before, after)
    _forget_titles(layout, agent, session, before)


def erase_titles(layout: Layout, agent: str, *names: str) -> None:
    """No word of these titles is left, in copies of damaged files neither: for who holds the lock. Raises OSError."""
    known = layout.journal(agent)
    if known.state().titled.isdisjoint(names):
        return
    known.erase_titles(names)
    for copy in layout.journal_backups(agent):
        copy.unlink(missing_ok=True)


@contextmanager
def unused(path: Path) -> Iterator[bool]:
    """Whether nobody has a transcript open to append; then nobody opens it meanwhile. Raises OSError.

    One that is packed may be made plain, and opened, by anybody while the journal is not ``alone`` the caller's.
    """
    try:
        fd = access.open_private(path, os.O_RDWR)  # as some network file systems want it for a lock
    except FileNotFoundError:  # it is packed: who appends makes it plain
        yield True
        return
    try:
        yield access.lock(fd) or time.time() - os.fstat(fd).st_mtime >= _SURELY_UNUSED_SECONDS
    except BlockingIOError:
        yield False
    finally:
        os.close(fd)


def _copy_title(layout: Layout, agent: str, session: str, before: str, after: str) -> None:
    title = layout.journal(agent).state().titles.get(before)
    if title is not None:
        _say_title(layout, agent, session, after, title)


def _forget_titles(layout: Layout, agent: str, session: str, *names: str) -> None:
    for name in names:
        if name in layout.journal(agent).state().titles:
            _say_title(layout, agent, session, name, None)  # for who has read the file already
    erase_titles(layout, agent, *names)


def _say_title(layout: Layout, agent: str, session: str, name: str, title: str | None) -> None:
    of = {} if name == file_name(session) else {"transcript": name}
    layout.journal(agent).append(journal.TITLED, session, _now(), **of, title=title)


def _put_aside(layout: Layout, agent: str, name: str, kept: str) -> None:
    if layout.exists(agent, name):  # else that was done before
        layout.make_folder(layout.deleted / agent)
        kept = moved(layout.transcript(agent, name), layout.kept(agent, kept))
    layout.move_backups(agent, name, kept)


def moved(source: Path, target: Path) -> str:
    """The name that a transcript has now: one with a number behind it where the target's is taken. Raises OSError."""
    is_packed = not os.path.lexists(source)
    while True:
        plain_form, packed_form = (source, target), (packed(source), packed(target))
        (before, after), (leftover, other) = (packed_form, plain_form) if is_packed else (plain_form, packed_form)
        if not os.path.lexists(other) and _is_moved(before, after):
            break
        target = target.with_stem(_next(target.stem))
    leftover.unlink(missing_ok=True)  # where both forms are there, the plain one counts
    return target.stem


def _is_moved(before: Path, after: Path) -> bool:
    """False where another file has that name already: it is never replaced. Raises OSError."""
    try:
        os.link(before, after)
    except FileExistsError:
        if not os.path.samefile(before, after):  # else a crash came between the two steps
            return False
    except FileNotFoundError:
        raise
    except OSError:  # a file system without links
        if os.path.lexists(after):
            return False
        before.rename(after)
        return True
    before.unlink()
    return True


def _next(name: str) -> str:
    head, aside, number = name.rpartition(ASIDE)
    return f"{head}{ASIDE}{int(number) + 1}" if aside else f"{name}{ASIDE}1"


def _now() -> str:
    return clock.stamp(time.time())
