"""Creates a fork's transcript: a copy of its parent's at the time of the fork, then what is said in the fork.

The parent may be another agent's session, which continues with this agent. Then a note (``continued``) follows the
copy.

Until the copy is complete, the file has a name of its own (``file_names.forked``) and contains room for the copy. The
fork appends after that room from the start; nobody reads the file yet. A process that wants to read it completes the
copy first (``finish``), also after a crash: a note at the file's head says what belongs in the room. If the parent is
gone by then, a gap note takes its place.

Copying holds the folder's lock, as everything does that overwrites bytes in a file, so nothing is masked meanwhile.
"""

import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import partial
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from acp_proxy.errors import NewerFormat
from acp_proxy.protocol import timestamps
from acp_proxy.store import layout as store_layout
from acp_proxy.store.layout import Layout
from acp_proxy.transcript import file_format, file_names, private_files
from acp_proxy.transcript.file_format import Header
from acp_proxy.transcript.file_names import forked
from acp_proxy.transcript.reader import Reading, Unfinished, cut, header_of
from acp_proxy.transcript.rewinds import Point
from acp_proxy.transcript.rewound import fork_end

AT_ONCE = 1024 * 1024
"""Bytes copied while the agent's answer waits, which takes a millisecond."""
CONTINUED_RUN = "copied"
"""The run of the note that ends the copy of another agent's session."""
_RUN = "forked"
"""The run of the notes at a fork's beginning, since no connection sent them."""
_GONE = "deleted"
"""The reason of the gap note for a parent that no longer exists."""
_BLANK = b" " * (64 * 1024 - 1) + b"\n"
"""Blank lines, which every reader ignores."""


class Room(Struct, frozen=True):
    """The room in a fork's file.

    ``agent``: the parent's folder. ``parent``, ``created_at``: its transcript's name, and the time in its header.
    ``size``: bytes to copy. ``at``: the room's offset. ``note``: where the note about it begins and ends.
    """

    agent: str
    parent: str
    created_at: str
    size: int
    at: int
    note: tuple[int, int]


def begin(
    layout: Layout, agent: str, parent: str, header: Header, until: int | None = None, of: str | None = None
) -> Reading | None:
    """Begin a fork's transcript with a copy of its parent's. Does nothing if the parent has none.

    ``parent``: its transcript's name. ``header``: the fork's.
    ``until``: the parent's size when it was forked; None: now. ``of``: the parent's folder, if it is another agent's.

    Returns the parent's transcript if it is too long to be copied at once: pass it to ``finish``, then close it. Raises
    OSError; then nothing was created (FileExistsError: another process creates the fork, or a crash left it).
    """
    try:
        source = Reading(layout.transcript(of or agent, parent), unfinished=True)
    except (FileNotFoundError, NewerFormat):
        return None
    is_left = False
    try:
        if (known := source.header) is not None:
            source.size = min(source.size, until or source.size)
            ids = [known.session, *known.forked_from]
            is_left = _begun(
                layout, agent, source, replace(header, origin=known.origin, forked_from=ids, uid=file_names.new_uid())
            )
    finally:
        if not is_left:
            source.close()
    return source if is_left else None


def _begun(layout: Layout, agent: str, source: Reading, header: Header) -> bool:
    """Create the file; returns whether there is still something to copy. Raises OSError."""
    size = max(source.size - source.entries_at, 0)
    is_large = size > AT_ONCE and sys.platform != "win32"  # Windows cannot rename an open file
    head = _head(agent, header, source, size, is_aligned=is_large)
    name = file_names.file_name(header.session)
    path = forked(layout.transcript(agent, name))
    of = source.path.parent.name
    with suppress(OSError):  # the mark only helps the next list to find what a crash left
        layout.mark(agent, name)
    out = private_files.open_private(path, os.O_RDWR | os.O_CREAT | os.O_EXCL)
    try:
        with os.fdopen(out, "wb", buffering=0):  # Windows cannot rename an open file
            private_files.lock(out)  # while this is locked, an incomplete head is not a crash's
            if size:  # marks the room's end; if the parent ends in a newline, this is that one
                private_files.write_at(out, b"\n", len(head) + size - (not _is_torn(source)))
            if of != agent:
                end = max(os.fstat(out).st_size, len(head))
                note = {"type": file_format.CONTINUED, "agent": of, "session": header.forked_from[0]}
                private_files.write_at(out, file_format.encode_note(header.created_at, CONTINUED_RUN, note), end)
            private_files.write_at(out, head, 0)  # last, because it makes the rest count
        if not is_large:
            with suppress(BlockingIOError):  # another process overwrites a file in the folder, or copies
                finish(layout, agent, name, source, wait=False)
                return False
        return True
    except BaseException:
        _remove(path, layout.transcript(agent, name))
        raise


def _remove(unfinished: Path, path: Path) -> None:
    """Remove a fork that could not be begun, which may have its own name already; else the next attempt would set it
    aside as an older session. Raises OSError."""
    with suppress(FileNotFoundError):
        if os.path.samefile(unfinished, path):
            path.unlink()
    unfinished.unlink(missing_ok=True)


def _head(agent: str, header: Header, source: Reading, size: int, *, is_aligned: bool) -> bytes:
    """The header and the note about the room; padded if the copy can share blocks with the parent."""
    assert source.header is not None
    parent = {"transcript": source.path.stem, "createdAt": source.header.created_at, "size": size}
    parent |= {"agent": source.path.parent.name} if source.path.parent.name != agent else {}
    note = file_format.encode_note(header.created_at, _RUN, {"type": file_format.COPIED, **parent})
    head = file_format.encode_header(header) + note
    padding = (source.entries_at - len(head)) % private_files.BLOCK if is_aligned else 0
    return head[:-1] + b" " * padding + b"\n"


def _is_torn(source: Reading) -> bool:
    """Whether the last line has no newline."""
    return b"".join(source.bytes_from(source.size - 1)) != b"\n"


def end(layout: Layout, agent: str, name: str, point: Point | None, at: str | None = None) -> int | None:
    """The uncompressed size of the part of a transcript with which a fork begins, in bytes, header included.

    ``point``: where the fork is made; None: at the end, or before the first entry later than ``at``. Returns None if
    the transcript does not have that message. Raises OSError, NewerFormat.
    """
    if point is not None:
        finish(layout, agent, name)  # it may be an unfinished fork
    with closing(Reading(layout.transcript(agent, name), unfinished=point is None)) as reading:
        if point is not None:
            return fork_end(reading, point)
        if at is None:
            return reading.size
        end = reading.entries_at
        for line in reading.lines():
            if line.entry is not None and line.entry.at > at:
                break
            end = line.end
        return end


def refuse_unfinished(layout: Layout, agent: str, name: str) -> None:
    """Raises Unfinished if the copy in this transcript is not complete."""
    path = layout.transcript(agent, name)
    if os.path.lexists(forked(path)):
        raise Unfinished(path)


def take_up(layout: Layout, agent: str, name: str) -> None:
    """Complete a fork that a crash interrupted. Raises OSError (BlockingIOError: another process may be at work)."""
    if not layout.is_only_read:
        finish(layout, agent, name, wait=False)


def finish(layout: Layout, agent: str, name: str, source: Reading | None = None, *, wait: bool = True) -> None:
    """Complete the copy in a fork's file and give it its own name. Does nothing if that is done or the file is gone.

    ``source``: what ``begin`` returned. Raises OSError (BlockingIOError: another process works in the folder and
    ``wait`` is False); call it again later.
    """
    path = layout.transcript(agent, name)
    with suppress(FileNotFoundError):
        with _opened(path) as out:
            room = _room(out, path)
        if room is not None and (room.agent, room.parent) != (agent, name):
            finish(layout, room.agent, room.parent, wait=wait)  # the parent may be an unfinished fork, too
        with private_files.alone_in(path.parent, wait=wait):
            # The same file under both names: a crash came between the link and the unlink.
            is_done = os.path.lexists(path) and os.path.samefile(path, forked(path))
            if is_done or not _is_made_whole(layout, agent, path, source):
                forked(path).unlink()
                return
            into = store_layout.moved(forked(path), path)
            with suppress(OSError):  # it was marked when it was created, if that was possible
                layout.mark(agent, into)


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    """Open an unfinished transcript to overwrite. Raises OSError (FileNotFoundError: it is finished, or gone)."""
    out = private_files.open_private(forked(path), os.O_RDWR)
    try:
        yield out
    finally:
        os.close(out)


def _is_made_whole(layout: Layout, agent: str, path: Path, source: Reading | None) -> bool:
    """Fill the room. Returns False if the head is incomplete: then nothing was ever written after it.

    Raises OSError (BlockingIOError: the head is being written).
    """
    with _opened(path) as out:
        if not _has_head(out, path):
            private_files.lock(out)
        if not _has_head(out, path):
            return False
        if (room := _room(out, path)) is not None:  # else the parent was gone when another process tried
            _fill(layout, path, out, room, source)
        return True


def _fill(layout: Layout, path: Path, out: int, room: Room, source: Reading | None) -> None:
    """Raises OSError (FileNotFoundError: the fork was deleted meanwhile)."""
    with ExitStack() as stack:
        if source is None or not _is_current(source):
            source = _parent(layout, room)
            stack.callback(lambda: source.close() if source is not None else None)
        left = room.size
        for copied in source.copy(room.size, out, room.at) if source is not None else ():
            _check(path, out)
            left = room.size - copied
    if left:
        _give_up(out, room)


def _give_up(out: int, room: Room) -> None:
    """Replace the room's note by a gap note, and blank the room. Raises OSError.

    What was copied goes too: the user may have deleted the parent to be rid of it.
    """
    for at in range(0, room.size, len(_BLANK)):
        private_files.write_at(out, _BLANK[-min(len(_BLANK), room.size - at) :], room.at + at)
    begin, end = room.note
    gap = file_format.encode_note(timestamps.stamp(time.time()), _RUN, {"type": file_format.GAP, "reason": _GONE})
    private_files.write_at(out, gap[:-1].ljust(end - begin - 1), begin)


def _is_current(source: Reading) -> bool:
    """Whether readers would find the same content in the parent.

    A plain file that was deleted since counts: it was there when it was forked. A compressed one may have been
    decompressed and masked since; an unfinished one may have been removed before it was complete.
    """
    return (source.compressed is None and not source.is_unfinished) or source.is_in_its_place


def _parent(layout: Layout, room: Room) -> Reading | None:
    """The parent's transcript, even if it was set aside; None if it is gone. Raises OSError."""
    deleted = layout.journal(room.agent).deleted()
    for path in layout.named_after(layout.transcript(room.agent, room.parent)):
        with suppress(FileNotFoundError, NewerFormat):
            reading = Reading(path)
            header = reading.header
            is_deleted = header is not None and header.session in deleted and path.stem == room.parent
            if header is not None and header.created_at == room.created_at and not is_deleted:
                return reading
            reading.close()
    return None


def _check(path: Path, out: int) -> None:
    """Raises FileNotFoundError if the unfinished transcript is gone."""
    if not os.path.samestat(os.stat(forked(path)), os.fstat(out)):
        raise FileNotFoundError(path)


def _room(out: int, path: Path) -> Room | None:
    """The room to fill; None if there is none, or it was given up. Raises OSError."""
    begin, end, note = _noted(out, path)
    parent, created, size = note.get("transcript"), note.get("createdAt"), note.get("size")
    of = note.get("agent", path.parent.name)
    if note.get("type") != file_format.COPIED or not (isinstance(parent, str) and file_names.is_ours(parent)):
        return None
    if not (isinstance(of, str) and os.path.basename(of) == of not in ("", ".", "..")):
        return None
    if not isinstance(created, str) or type(size) is not int:
        return None
    return Room(of, parent, created, size, end, (begin, end))


def _has_head(out: int, path: Path) -> bool:
    return bool(_noted(out, path)[2])


def _noted(out: int, path: Path) -> tuple[int, int, Mapping[str, object]]:
    """The note after the header: where it begins and ends, and its content; empty if the head is incomplete."""
    lines = cut(partial(private_files.read_at, out), 0, os.fstat(out).st_size)
    (begin, first), (end, second) = next(lines, (0, b"")), next(lines, (0, b""))
    entry = (
        file_format.decode_entry(second) if second.endswith(b"\n") and header_of(first, path)[0] is not None else None
    )
    return begin, end, entry.note or {} if entry is not None else {}
