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
from acp_proxy.tools.maintenance import damage
from acp_proxy.tools.maintenance.damage import DamagedStretch
from acp_proxy.transcript import file_format, private_files
from acp_proxy.transcript.appender import Transcript
from acp_proxy.transcript.file_format import GapReason, Header, NoteType
from acp_proxy.transcript.reader import Reading, cut

REPAIR = "repair"
"""The reason and the run of the gap notes written here, since no connection sent them."""

_CHUNK_BYTES = 1024 * 1024
_SPACES = bytes(10 if byte == 10 else 32 for byte in range(256))
_NEVER_SAID = {damage.SECOND_HEADER}
"""Kinds of damage that lose nothing of the conversation."""


@dataclass(frozen=True, slots=True)
class Patch:
    """What to write over a stretch.

    ``header``: at its beginning. ``note``: where it has a line of its own. Everything else becomes spaces.
    """

    stretch: DamagedStretch
    header: bytes = b""
    note: bytes = b""

    def apply(self, data: bytes, start: int) -> bytes:
        """The new bytes for one piece of the stretch; ``start``: the piece's offset in the file."""
        new = bytearray(data.translate(_SPACES))
        if self.stretch.behind and start == self.stretch.offset:
            new[0] = 10
        if (self.stretch.before or self.stretch.ends) and start + len(data) == self.stretch.end:
            new[-1] = 10
        if self.note and (at := new.find(b" " * len(self.note))) >= 0:
            new[at : at + len(self.note)] = self.note
        if start == self.stretch.offset:
            new[: len(self.header)] = self.header
        return bytes(new)


def make_patches(stretches: Iterator[DamagedStretch], header: Header | None) -> Iterator[Patch]:
    """A patch for each stretch. ``header``: what the file should begin with, if its header is broken."""
    for stretch in stretches:
        if stretch.begins and header is not None:
            if text := fit_header(header, stretch):
                yield Patch(stretch, header=text)
        elif set(stretch.kinds) <= _NEVER_SAID:
            yield Patch(stretch)
        else:
            yield Patch(stretch, note=_encode_gap(stretch.last or stretch.next))


def fit_header(header: Header, stretch: DamagedStretch) -> bytes:
    """The header's bytes, or those of a shorter form, if they fit in place of the broken one; else empty."""
    room = stretch.length - (stretch.before or stretch.ends)
    lines = (file_format.encode_header(form)[:-1] for form in (header, structs.replace(header, agent={})))
    return next((line for line in lines if len(line) <= room), b"")


def rebuild_header(reading: Reading) -> Header | None:
    """The header for a transcript that has none; None if its session id is not found."""
    header = reading.rebuild_header()
    if header is None:
        return None
    began = header.created_at or next((line.entry.at for line in reading.read_lines() if line.entry is not None), "")
    parents = header.forked_from or sorted(reading.other_ids - {header.session_id})
    return structs.replace(header, created_at=began, forked_from=parents)


def repair_transcript(path: Path, copy: Path) -> int:
    """Repair a plain transcript; if it is damaged, first copy it to ``copy``. Returns the number of stretches.

    Raises OSError, NewerFormat, Unmendable.
    """
    with _lock_alone(path) as fd:
        reading = Reading(path)
        try:
            reading.wait_for_last_line()
            header = rebuild_header(reading) if reading.header is None else None
            if reading.header is None and header is None:
                raise Unmendable(f"{path}: it does not contain its session's id. It was not changed.")
            if next(make_patches(damage.find_in_transcript(reading), header), None) is None:
                return 0
            _back_up(path, fd, reading.size, copy)
            done, lost = 0, False
            for patch in make_patches(damage.find_in_transcript(reading), header):
                _write(fd, patch)
                done, lost = done + 1, lost or bool(patch.note)
            private_files.sync(fd)
            if lost and reading.is_complete:  # no note fitted in the place of the damage
                _append_note(path, reading)
            return done
        finally:
            reading.close()


def repair_journal(path: Path, copy: Path) -> int:
    """Repair a journal, without gap notes. Returns the number of damaged stretches. Raises OSError, Unmendable."""
    with _lock_alone(path) as fd:
        size = os.fstat(fd).st_size
        lines = list(damage.find_in_journal(cut(partial(private_files.read_at, fd), 0, size)))
        if lines:
            _back_up(path, fd, size, copy)
        for stretch in lines:
            _write(fd, Patch(stretch))
        private_files.sync(fd)
        return len(lines)


@contextmanager
def _lock_alone(path: Path) -> Iterator[int]:
    """Open a file to overwrite it, under its folder's lock. Raises OSError, Unmendable."""
    with ExitStack() as stack:
        try:
            stack.enter_context(private_files.lock_folder(path.parent))
        except BlockingIOError as problem:
            raise Unmendable(
                f"{path.parent}: another repair, or a compression, is under way. Try again when it has ended."
            ) from problem
        fd = private_files.open_private(path, os.O_RDWR)
        stack.callback(os.close, fd)
        yield fd


def _write(fd: int, patch: Patch) -> None:
    at, end = patch.stretch.offset, patch.stretch.end
    while at < end:
        data = private_files.read_at(fd, min(_CHUNK_BYTES, end - at), at)
        new = patch.apply(data, at)
        private_files.write_at(fd, new, at)
        at += len(data)
        if patch.note in new:
            patch = replace(patch, note=b"")


def _encode_gap(beside: damage.Neighbour | None) -> bytes:
    at = beside.at if beside is not None else timestamps.stamp(time.time())
    return file_format.encode_note(at, REPAIR, {"type": NoteType.GAP, "reason": GapReason.REPAIRED})[:-1]


def _append_note(path: Path, reading: Reading) -> None:
    last = None
    for line in reading.read_lines():
        last = line.entry or last
    transcript = Transcript(path)
    try:
        transcript.append(_encode_gap(damage.Neighbour(0, last.at, "") if last is not None else None) + b"\n")
        transcript.sync()
    finally:
        transcript.close()


def _back_up(path: Path, fd: int, size: int, copy: Path) -> None:
    """Copy a file to disk before it is changed. Raises OSError; then there is no copy."""
    private_files.make_directory(copy.parent)
    out = private_files.open_private(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    try:
        with os.fdopen(out, "wb") as file:
            at = 0
            while at < size and (data := private_files.read_at(fd, min(_CHUNK_BYTES, size - at), at)):
                file.write(data)
                at += len(data)
            file.flush()
            private_files.sync(out)
        if os.stat(path).st_ino != os.fstat(fd).st_ino:
            raise FileNotFoundError(2, "it was deleted in the meantime", str(path))
    except BaseException:
        with contextlib.suppress(OSError):
            copy.unlink(missing_ok=True)
        raise
