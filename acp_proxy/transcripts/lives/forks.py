"""A fork's transcript: a copy of its parent's as that was when the agent answered, then what is said in the fork.

Until the copy is whole, the file has a name of its own (``names.forked``). There is room for the copy in it; who
appends writes behind that from the first moment on, and nobody reads it. Who wants to read it finishes it (``finish``),
also after a crash: the head of the file says what belongs into the room. Where the parent is gone by then, a note of a
gap stands for it. Who copies holds the folder's lock, as all who overwrite in a file do: nothing is masked meanwhile.
"""

import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import partial
from pathlib import Path

from acp_proxy.errors import NewerFormat
from acp_proxy.transcripts.files import access, names
from acp_proxy.transcripts.files.layout import Layout
from acp_proxy.transcripts.files.names import forked
from acp_proxy.transcripts.files.reading import Reading, Unfinished, cut, header_of
from acp_proxy.transcripts.lives import deleting
from acp_proxy.wire import clock, record
from acp_proxy.wire.record import Header
from acp_proxy.wire.value import Value

AT_ONCE = 1024 * 1024
"""Bytes that are copied while the agent's answer waits: that takes a millisecond."""
_RUN = "forked"
"""The run that the notes at the beginning stand under: no connection said them."""
_GONE = "deleted"
"""The reason of the gap that stands for a parent that is not there any more."""
_BLANK = b" " * (64 * 1024 - 1) + b"\n"
"""Nothing, in lines that no reader minds."""


class Room(Value):
    """What is to be copied, and where to. ``parent`` and ``created_at`` (of its header) tell of which transcript."""

    parent: str
    created_at: str
    size: int
    at: int
    note: tuple[int, int]
    """Where the note that says so begins and ends."""


def begin(layout: Layout, agent: str, parent: str, header: Header, until: int | None = None) -> Reading | None:
    """Begin a fork's transcript with what its parent's (by name) holds, as complete as that is. Nothing without one.

    What is too much to be copied at once is still to be copied from what is returned (``finish``), which is to be
    closed then. ``until``: the parent's size when it was forked, if that was not now. Raises OSError; then nothing was
    begun (FileExistsError: another process begins it, or a crash left it).
    """
    try:
        source = Reading(layout.transcript(agent, parent), unfinished=True)
    except (FileNotFoundError, NewerFormat):
        return None
    is_left = False
    try:
        if (known := source.header) is not None:
            source.size = min(source.size, until or source.size)
            ids = [known.session, *known.forked_from]
            is_left = _begun(layout, agent, source, header.but(origin=known.origin, forked_from=ids))
    finally:
        if not is_left:
            source.close()
    return source if is_left else None


def _begun(layout: Layout, agent: str, source: Reading, header: Header) -> bool:
    """Whether it is still to be copied. Raises OSError."""
    size = max(source.size - source.entries_at, 0)
    is_large = size > AT_ONCE and sys.platform != "win32"  # which renames no file that is open
    head = _head(header, source, size, is_aligned=is_large)
    name = names.file_name(header.session)
    path = forked(layout.transcript(agent, name))
    with suppress(OSError):  # it only makes the next list find what a crash leaves
        layout.mark(agent, name)
    out = access.open_private(path, os.O_RDWR | os.O_CREAT | os.O_EXCL)
    try:
        with os.fdopen(out, "wb", buffering=0):  # nobody renames what is open, on Windows
            access.lock(out)  # half a head is a crash's only where nobody has this
            access.write_at(out, head, 0)
            if size:  # who appends does so behind the room; the newline is the copy's own, but for one that is torn
                access.write_at(out, b"\n", len(head) + size - (not _is_torn(source)))
        if not is_large:
            with suppress(BlockingIOError):  # somebody overwrites in another file of the folder, or copies
                finish(layout, agent, name, source, wait=False)
                return False
        return True
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def _head(header: Header, source: Reading, size: int, *, is_aligned: bool) -> bytes:
    """The header, and a note of what is to come behind it; so long that blocks can be shared, if that is worth it."""
    assert source.header is not None
    of = {"transcript": source.path.stem, "createdAt": source.header.created_at, "size": size}
    note = record.encode_note(header.created_at, _RUN, {"type": record.COPIED, **of})
    head = record.encode_header(header) + note
    padding = (source.entries_at - len(head)) % access.BLOCK if is_aligned else 0
    return head[:-1] + b" " * padding + b"\n"


def _is_torn(source: Reading) -> bool:
    """Whether it ends within a line."""
    return b"".join(source.bytes_from(source.size - 1)) != b"\n"


def size(layout: Layout, agent: str, name: str) -> int:
    """Of a transcript, now. Raises OSError, NewerFormat."""
    with closing(Reading(layout.transcript(agent, name), unfinished=True)) as reading:
        return reading.size


def refuse_unfinished(layout: Layout, agent: str, name: str) -> None:
    """Raises Unfinished where this transcript is not whole yet."""
    path = layout.transcript(agent, name)
    if os.path.lexists(forked(path)):
        raise Unfinished(path)


def take_up(layout: Layout, agent: str, name: str) -> None:
    """Finish what a crash left of a fork. Raises OSError (BlockingIOError: perhaps somebody is at it)."""
    if not layout.is_only_read:
        finish(layout, agent, name, wait=False)


def finish(layout: Layout, agent: str, name: str, source: Reading | None = None, *, wait: bool = True) -> None:
    """Fill the room at a fork's beginning, and give the file its own name. Nothing where that is done, or it is gone.

    ``source``: what ``begin`` returned. Raises OSError (BlockingIOError: not ``wait``, and somebody is at work in the
    folder); then it can be tried again.
    """
    path = layout.transcript(agent, name)
    with suppress(FileNotFoundError):
        with _opened(path) as out:
            room = _room(out, path)
        if room is not None and room.parent != name:
            finish(layout, agent, room.parent, wait=wait)  # it may be an unfinished fork, too
        with access.alone_in(path.parent, wait=wait):
            is_done = os.path.lexists(path) and os.path.samefile(path, forked(path))  # a crash came behind that
            if is_done or not _is_made_whole(layout, agent, path, source):
                forked(path).unlink()
                return
            into = deleting.moved(forked(path), path)
            with suppress(OSError):  # it has one from its beginning, if that was possible
                layout.mark(agent, into)


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    """An unfinished transcript, to be written over. Raises OSError (FileNotFoundError: it is finished, or gone)."""
    out = access.open_private(forked(path), os.O_RDWR)
    try:
        yield out
    finally:
        os.close(out)


def _is_made_whole(layout: Layout, agent: str, path: Path, source: Reading | None) -> bool:
    """False for half a head: nothing was ever said behind it. Raises OSError (BlockingIOError: it is being written)."""
    with _opened(path) as out:
        if not _has_head(out, path):
            access.lock(out)
        if not _has_head(out, path):
            return False
        if (room := _room(out, path)) is not None:  # else somebody has given up
            _fill(layout, agent, path, out, room, source)
        return True


def _fill(layout: Layout, agent: str, path: Path, out: int, room: Room, source: Reading | None) -> None:
    """Raises OSError (FileNotFoundError: it was deleted meanwhile)."""
    with ExitStack() as stack:
        if source is None or not _is_current(source):
            source = _parent(layout, agent, room)
            stack.callback(lambda: source.close() if source is not None else None)
        left = room.size
        for copied in source.copy(room.size, out, room.at) if source is not None else ():
            _check(path, out)
            left = room.size - copied
    if left:
        _give_up(out, room)


def _give_up(out: int, room: Room) -> None:
    """What was copied of it goes too: it may be what somebody wanted to be gone. Raises OSError."""
    for at in range(0, room.size, len(_BLANK)):
        access.write_at(out, _BLANK[-min(len(_BLANK), room.size - at) :], room.at + at)
    begin, end = room.note
    gap = record.encode_note(clock.stamp(time.time()), _RUN, {"type": record.GAP, "reason": _GONE})
    access.write_at(out, gap[:-1].ljust(end - begin - 1), begin)


def _is_current(source: Reading) -> bool:
    """Whether it is what readers find. A plain one that was deleted since counts: it was forked before.

    One that is plain by now may have been masked there; one that was unfinished may have gone before it was whole.
    """
    return (source.packed is None and not source.is_unfinished) or source.is_in_its_place


def _parent(layout: Layout, agent: str, room: Room) -> Reading | None:
    """The parent's transcript, also where it was set aside; None where it is gone. Raises OSError."""
    deleted = layout.journal(agent).deleted()
    for path in layout.named_after(layout.transcript(agent, room.parent)):
        with suppress(FileNotFoundError, NewerFormat):
            reading = Reading(path)
            header = reading.header
            is_deleted = header is not None and header.session in deleted and path.stem == room.parent
            if header is not None and header.created_at == room.created_at and not is_deleted:
                return reading
            reading.close()
    return None


def _check(path: Path, out: int) -> None:
    """Raises FileNotFoundError where the unfinished transcript is gone."""
    if not os.path.samestat(os.stat(forked(path)), os.fstat(out)):
        raise FileNotFoundError(path)


def _room(out: int, path: Path) -> Room | None:
    """The room that is to be filled. None: there is none, or it was given up. Raises OSError."""
    begin, end, note = _noted(out, path)
    parent, created, size = note.get("transcript"), note.get("createdAt"), note.get("size")
    if note.get("type") != record.COPIED or not (isinstance(parent, str) and names.is_ours(parent)):
        return None
    return Room(parent, created, size, end, (begin, end)) if isinstance(created, str) and type(size) is int else None


def _has_head(out: int, path: Path) -> bool:
    return bool(_noted(out, path)[2])


def _noted(out: int, path: Path) -> tuple[int, int, Mapping[str, object]]:
    """The note behind the header: where it begins and ends, and what it says; nothing where the head is not whole."""
    lines = cut(partial(access.read_at, out), 0, os.fstat(out).st_size)
    (begin, first), (end, second) = next(lines, (0, b"")), next(lines, (0, b""))
    entry = record.decode_entry(second) if second.endswith(b"\n") and header_of(first, path)[0] is not None else None
    return begin, end, entry.note or {} if entry is not None else {}
