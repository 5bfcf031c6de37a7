"""Repairs damaged files while others append to them.

A file is never moved, replaced or shortened, because running proxies hold it open. Damaged bytes are overwritten in
place: by a gap note if that fits, else by spaces. Newlines stay or are added so that every intact entry has its own
line. Appending never touches old bytes, so no proxy has to wait. A copy is made first. If a crash interrupts a repair,
the rest still counts as damage, and the next repair continues.
"""

import contextlib
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from msgspec import structs

from acp_proxy.errors import Unmendable
from acp_proxy.protocol import timestamps
from acp_proxy.sessions.raw_lines import wait_for_last_line
from acp_proxy.store.layout import lock_folder
from acp_proxy.tools.maintenance import damage
from acp_proxy.tools.maintenance.damage import DamagedStretch
from acp_proxy.transcript import file_access, file_format
from acp_proxy.transcript.appender import TranscriptAppender
from acp_proxy.transcript.file_format import GapReason, Header, NoteType
from acp_proxy.transcript.reader import TranscriptReader, split_file

REPAIR = "repair"
"""The reason and the run of the gap notes written here, since no connection sent them."""

_CHUNK_BYTES = 1024 * 1024
_SPACES = bytes(10 if byte == 10 else 32 for byte in range(256))
_HARMLESS_KINDS = {damage.SECOND_HEADER}
"""Kinds of damage that lose nothing of the conversation."""


@dataclass(frozen=True, slots=True)
class Patch:
    """What to write over a stretch.

    ``header``: to be written at its beginning. ``note``: to be written where it has a line of its own. Everything else
    becomes spaces.
    """

    stretch: DamagedStretch
    header: bytes = b""
    note: bytes = b""

    def apply(self, data: bytes, start: int) -> bytes:
        """The new bytes for one piece of the stretch; ``start``: the piece's offset in the file."""
        patched = bytearray(data.translate(_SPACES))
        if self.stretch.behind and start == self.stretch.offset:
            patched[0] = 10
        if (self.stretch.before or self.stretch.ends) and start + len(data) == self.stretch.end:
            patched[-1] = 10
        if self.note and (position := patched.find(b" " * len(self.note))) >= 0:
            patched[position : position + len(self.note)] = self.note
        if start == self.stretch.offset:
            patched[: len(self.header)] = self.header
        return bytes(patched)


def make_patches(stretches: Iterator[DamagedStretch], header: Header | None) -> Iterator[Patch]:
    """A patch for each stretch. ``header``: what the file should begin with, if its header is broken."""
    for stretch in stretches:
        if stretch.begins and header is not None:
            if text := fit_header(header, stretch):
                yield Patch(stretch, header=text)
        elif set(stretch.kinds) <= _HARMLESS_KINDS:
            yield Patch(stretch)
        else:
            yield Patch(stretch, note=_encode_gap(stretch.last or stretch.next))


def fit_header(header: Header, stretch: DamagedStretch) -> bytes:
    """The header's bytes, or those of a shorter form, if they fit in place of the broken one; else empty."""
    room = stretch.length - (stretch.before or stretch.ends)
    lines = (file_format.encode_header(form)[:-1] for form in (header, structs.replace(header, agent={})))
    return next((line for line in lines if len(line) <= room), b"")


def rebuild_header(reader: TranscriptReader) -> Header | None:
    """The header for a transcript that has none; None if its session id is not found."""
    header = reader.rebuild_header()
    if header is None:
        return None
    created_at = header.created_at or next(
        (line.entry.at for line in reader.read_lines() if line.entry is not None), ""
    )
    parents = header.forked_from or sorted(reader.other_ids - {header.session_id})
    return structs.replace(header, created_at=created_at, forked_from=parents)


def repair_transcript(path: Path, backup: Path) -> int:
    """Repair a plain transcript; if it is damaged, first copy it to ``backup``. Returns the number of stretches.

    Raises OSError, NewerFormat, Unmendable.
    """
    with _open_locked(path) as fd:
        reader = TranscriptReader(path)
        try:
            wait_for_last_line(reader)
            header = rebuild_header(reader) if reader.header is None else None
            if reader.header is None and header is None:
                raise Unmendable(f"{path}: it does not contain its session's id. It was not changed.")
            if next(make_patches(damage.find_in_transcript(reader), header), None) is None:
                return 0
            _back_up(path, fd, reader.size, backup)
            count, has_lost_words = 0, False
            for patch in make_patches(damage.find_in_transcript(reader), header):
                _write_patch(fd, patch)
                count, has_lost_words = count + 1, has_lost_words or bool(patch.note)
            file_access.fsync(fd)
            reader.measure()
            if has_lost_words and reader.is_complete:  # no note fitted in the place of the damage
                _append_note(path, reader)
            return count
        finally:
            reader.close()


def repair_journal(path: Path, backup: Path) -> int:
    """Repair a journal, without gap notes. Returns the number of damaged stretches. Raises OSError, Unmendable."""
    with _open_locked(path) as fd:
        size = os.fstat(fd).st_size
        stretches = list(damage.find_in_journal(split_file(partial(file_access.read_at, fd), 0, size)))
        if stretches:
            _back_up(path, fd, size, backup)
        for stretch in stretches:
            _write_patch(fd, Patch(stretch))
        file_access.fsync(fd)
        return len(stretches)


@contextmanager
def _open_locked(path: Path) -> Iterator[int]:
    """Open a file to overwrite it, under its folder's lock. Raises OSError, Unmendable."""
    with ExitStack() as stack:
        try:
            stack.enter_context(lock_folder(path.parent))
        except BlockingIOError as problem:
            raise Unmendable(
                f"{path.parent}: another repair, or a compression, is under way. Try again when it has ended."
            ) from problem
        fd = file_access.open_private(path, os.O_RDWR)
        stack.callback(os.close, fd)
        yield fd


def _write_patch(fd: int, patch: Patch) -> None:
    offset, end = patch.stretch.offset, patch.stretch.end
    while offset < end:
        data = file_access.read_at(fd, min(_CHUNK_BYTES, end - offset), offset)
        patched = patch.apply(data, offset)
        file_access.write_at(fd, patched, offset)
        offset += len(data)
        if patch.note in patched:
            patch = replace(patch, note=b"")


def _encode_gap(neighbour: damage.Neighbour | None) -> bytes:
    stamp = neighbour.at if neighbour is not None else timestamps.format_now(time.time())
    return file_format.encode_note(stamp, REPAIR, {"type": NoteType.GAP, "reason": GapReason.REPAIRED})[:-1]


def _append_note(path: Path, reader: TranscriptReader) -> None:
    last_entry = None
    for line in reader.read_lines():
        last_entry = line.entry or last_entry
    transcript = TranscriptAppender(path)
    try:
        transcript.append(
            _encode_gap(damage.Neighbour(0, last_entry.at, "") if last_entry is not None else None) + b"\n"
        )
        transcript.fsync()
    finally:
        transcript.close()


def _back_up(path: Path, fd: int, size: int, backup: Path) -> None:
    """Copy a file to disk before it is changed. Raises OSError; then there is no copy."""
    file_access.make_directory(backup.parent)
    out = file_access.open_private(backup, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    try:
        with os.fdopen(out, "wb") as file:
            offset = 0
            while offset < size and (data := file_access.read_at(fd, min(_CHUNK_BYTES, size - offset), offset)):
                file.write(data)
                offset += len(data)
            file.flush()
            file_access.fsync(out)
        if os.stat(path).st_ino != os.fstat(fd).st_ino:
            raise FileNotFoundError(2, "it was deleted in the meantime", str(path))
    except BaseException:
        with contextlib.suppress(OSError):
            backup.unlink(missing_ok=True)
        raise
