"""Reads one session's file, plain or compressed, including the intact parts of a damaged one.

Damage never raises: a line that cannot be read has the entry ``None``. Raises OSError if the file itself cannot be
read, and ``NewerFormat``.
"""

import contextlib
import errno
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from acp_proxy.protocol.framing import LineFramer
from acp_proxy.transcript import file_format, file_names
from acp_proxy.transcript.agent_session import AGENT_NOTES, AgentSession
from acp_proxy.transcript.file_access import (
    check_space,
    close,
    lock,
    open_private,
    read_at,
    write_at,
)
from acp_proxy.transcript.file_format import Entry, Header, NoteType
from acp_proxy.transcript.rewinds import REWIND_BYTES

if TYPE_CHECKING:
    from acp_proxy.transcript.chunk_runs import AlikeChunks
    from acp_proxy.transcript.compressed import CompressedTranscript

_SEARCH_STEP = 4 * 1024 * 1024
"""The bytes searched in one step, which takes a moment even on a slow disk."""
_OPEN_TRIES = 2
"""How often each of the two forms of a file is tried, which may turn into each other."""
_SEARCHED_NOTES = AGENT_NOTES | {NoteType.GAP}
_READ_SIZE = 64 * 1024
"""The bytes of one read. Larger reads pass malloc's mmap threshold, and cost twice as much."""


class Line(Struct, frozen=True):
    """One line of a transcript; a damaged one that holds several intact entries gives one for each.

    ``number``: counted from 0, which is the header's line. ``end``: the offset after it. ``is_whole``: it ends in a
    newline, so it can no longer change. ``entry``: None if the line is damaged.
    """

    number: int
    end: int
    is_whole: bool
    entry: Entry | None


class AlikeLines(Struct, frozen=True):
    """Whole lines that differ from the line before them only in time and text. ``number``, ``end``: of the last one."""

    number: int
    end: int
    chunks: "AlikeChunks"


class TranscriptReader:
    """A transcript opened for reading, up to the size it had when opened (``measure`` extends it). A first line that is
    not a header of this file's session counts as damage."""

    def __init__(self, path: Path, *, any_name: bool = False) -> None:
        """Open the transcript at ``path``, the plain file's name, in whichever form it exists. ``any_name``: it is in
        no store, so its name need not belong to the session. Raises OSError, NewerFormat."""
        self._any_name = any_name
        self.path = path
        """The plain file's path, even if the file is compressed."""
        self._fd, self.compressed = open_to_read(path)
        self.read_at: Callable[[int, int], bytes]
        self.read_at = self.compressed.read if self.compressed is not None else partial(read_at, self._fd)
        self._searched_until, self._has_gap, self._may_have_rewind = 0, False, False
        try:
            status = os.fstat(self._fd)
            self.size = status.st_size if self.compressed is None else self.compressed.size
            self.inode = status.st_ino
            self._modified_at = status.st_mtime
            self.first_line = next((line for _, line in split_file(self.read_at, 0, self.size)), b"")
            self.header, self.header_size = read_header(self.first_line, None if any_name else path)
            self.agent_session = AgentSession(self.header)
            """What the agent here has of the session, as far as ``search`` has read."""
        except BaseException:
            self.close()
            raise

    @property
    def uid(self) -> str:
        """The transcript's uid; empty if there is no header."""
        if self.header is None:
            return ""
        return self.header.uid or file_names.derive_uid(self.first_line[: self.header_size])

    def measure_age(self, now: float) -> float:
        """Seconds since the file was last written. ``now``: Unix time."""
        return now - self._modified_at

    @property
    def is_in_its_place(self) -> bool:
        """Whether the path still leads to this file. It may have been compressed or decompressed since."""
        for path in (self.path, file_names.compressed_path(self.path)):
            with contextlib.suppress(OSError):
                return os.stat(path).st_ino == self.inode
        return False

    def keep_in_place(self) -> bool:
        """Keep others from replacing the file with a longer one until this is closed. Returns False if it is being
        replaced, or was. Does nothing for a compressed one."""
        if self.compressed is not None:
            return True
        try:
            lock(self._fd, shared=True)
        except BlockingIOError:
            return False
        return self.is_in_its_place

    def measure(self) -> None:
        """Extend it to what has been appended since. Raises OSError."""
        if self.compressed is not None:
            return
        status = os.fstat(self._fd)
        self.size, self._modified_at = status.st_size, status.st_mtime

    def read_lines(self, start: int = 0, number: int = 0) -> Iterator[Line]:
        """The entries from offset ``start`` on, which is line ``number``; without the header and blank lines."""
        for end, line in split_file(self.read_at, start, self.size):
            yield from self._read_line(number, end, line)
            number += 1

    def read_alike(self, start: int = 0, number: int = 0) -> Iterator[Line | AlikeLines]:
        """The same lines as ``read_lines``, but faster: runs of similar lines come as one ``AlikeLines``."""
        from acp_proxy.transcript.chunk_runs import AlikeChunksFinder  # only loads, lists and searches need it

        finder, framer, offset, end = AlikeChunksFinder(), LineFramer(), start, start
        while offset < self.size and (data := self.read_at(min(_READ_SIZE, self.size - offset), offset)):
            offset += len(data)
            lines, index = framer.feed(data), 0
            while index < len(lines):
                if (chunks := finder.find(lines, index)) is not None:
                    index, number, end = index + chunks.count, number + chunks.count, end + chunks.size
                    yield AlikeLines(number - 1, end, chunks)
                    continue
                line = lines[index]
                index, number, end = index + 1, number + 1, end + len(line)
                read_lines = list(self._read_line(number - 1, end, line))
                finder.last_read = line, read_lines[0].entry if len(read_lines) == 1 else None
                yield from read_lines
        if last_line := framer.take_unfinished():
            yield from self._read_line(number, end + len(last_line), last_line)

    def _read_line(self, number: int, end: int, line: bytes) -> Iterator[Line]:
        """The entries of one line; one ``Line`` with no entry if nothing in it is intact."""
        if number == 0:
            line = line[self.header_size :]
        if line.isspace():
            return
        is_whole = line.endswith(b"\n")
        entry = file_format.decode_entry(line)
        if entry is not None:
            yield Line(number, end, is_whole, entry)
            return
        pieces = file_format.find_entries(line)
        for piece in pieces:
            yield Line(number, end, is_whole, piece.value)
        if not pieces:
            yield Line(number, end, is_whole, None)

    @property
    def entries_start(self) -> int:
        """The offset of the first entry."""
        return self.header_size + (self.first_line[self.header_size : self.header_size + 1] == b"\n")

    def read_bytes(self, offset: int) -> Iterator[bytes]:
        """The file's content from an offset on, unparsed, in chunks."""
        while offset < self.size and (data := self.read_at(min(_READ_SIZE, self.size - offset), offset)):
            offset += len(data)
            yield data

    def find_last_lines(self) -> dict[str, int]:
        """By run: the offset at which its last line begins. Reads the whole file. Raises OSError."""
        last_lines, offset = dict[str, int](), self.entries_start
        for lines in self._read_blocks(offset):
            last_lines |= {run: offset + start for run, start in file_format.find_runs(lines)}
            offset += len(lines)
        return last_lines

    def copy_entries(self, target: int, offset: int) -> int:
        """Copy the entries to this offset of the open file ``target``. Returns the number of bytes copied: fewer if the
        transcript became shorter. Raises OSError."""
        end = offset
        for data in self.read_bytes(self.entries_start):
            write_at(target, data, end)
            end += len(data)
        return end - offset

    def rebuild_header(self) -> Header | None:
        """A header rebuilt from a broken one and the entries; None if no session id is found."""
        from acp_proxy.transcript.rebuild_header import rebuild_header  # only damaged files need this

        broken = self._find_broken_header()
        rest_of_header = broken[: next((piece.start for piece in file_format.find_entries(broken)), None)]

        def rebuild(name: str) -> Header | None:
            return rebuild_header(
                rest_of_header, (line.entry for line in self.read_lines() if line.entry is not None), name
            )

        # The name comes first: entries may also name other sessions.
        return rebuild(self.path.stem) or (rebuild("") if self._any_name else None)

    def _find_broken_header(self) -> bytes:
        """The line that begins as a header before all entries, else the first line: a foreign line may be before it."""
        for _, line in split_file(self.read_at, 0, self.size):
            if line.startswith(file_format.HEADER_START):
                return line
            if line.startswith(file_format.ENTRY_START):
                break
        return self.first_line

    @property
    def other_ids(self) -> frozenset[str]:
        """Other session ids that entries of this transcript may have. Without a header: all ids that they have."""
        if self.header is not None:
            return frozenset(self.header.forked_from)
        from acp_proxy.transcript.rebuild_header import find_session_id  # only damaged files need this

        return frozenset(
            id for line in self.read_lines() if line.entry and (id := find_session_id(line.entry)) is not None
        )

    @property
    def is_complete(self) -> bool:
        """Whether it holds the whole conversation: recorded from the beginning, without a gap or damage, up to the
        size that was measured last. Raises OSError."""
        while self.search():
            pass
        return (
            self._may_be_complete and not self._has_gap and (self.compressed is None or not self.compressed.is_damaged)
        )

    @property
    def may_be_rewound(self) -> bool:
        """Whether it may contain a rewind: only ``rewinds`` knows, which needs all entries. Raises OSError."""
        while self.search():
            pass
        return self._may_have_rewind

    def search(self) -> bool:
        """Read the next few megabytes for gap notes, for what the agent has of the session, and for rewinds.

        All at once, since a load waits for it. Returns False once the end is reached. Raises OSError.
        """
        start = offset = self._searched_until or self.entries_start
        for lines in self._read_blocks(start):
            # ``rfind`` is faster than ``in``.
            self._may_have_rewind = self._may_have_rewind or any(lines.rfind(part) >= 0 for part in REWIND_BYTES)
            self._search_lines(lines, offset - self.entries_start)
            if not lines.endswith(b"\n"):  # it may become longer
                break
            offset += len(lines)
            self._searched_until = offset
            if offset - start >= _SEARCH_STEP:
                return True
        return False

    def _read_blocks(self, start: int) -> Iterator[bytes]:
        """The file's content from an offset on, in whole lines, many at a time. The last one may lack its newline."""
        parts: list[bytes] = []
        for data in self.read_bytes(start):
            if end := data.rfind(b"\n") + 1:
                yield b"".join((*parts, data[:end]))
                parts = []
            parts.append(data[end:])
        if last_line := b"".join(parts):
            yield last_line

    def _search_lines(self, data: bytes, offset: int) -> None:
        for start, note in file_format.find_notes(data, _SEARCHED_NOTES):
            if note["type"] == NoteType.GAP:
                self._has_gap = True
            else:
                self.agent_session.add(note, offset + start)
        if self.agent_session.reads_all:
            self.agent_session.read(data, offset)

    @property
    def _may_be_complete(self) -> bool:
        return self.header is not None and self.header.origin == file_format.RECORDED

    def close(self) -> None:
        """Close the file, which cannot be read any more. Never raises."""
        fd, self._fd = self._fd, -1
        self.read_at = partial(read_at, -1)  # whose number may be another file's from now on
        close(fd)


def split_file(read: Callable[[int, int], bytes], start: int, size: int) -> Iterator[tuple[int, bytes]]:
    """The lines between two offsets, each with its end's offset. ``read(size, offset)`` returns the file's bytes."""
    framer, offset, end = LineFramer(), start, start
    while offset < size and (data := read(min(_READ_SIZE, size - offset), offset)):
        offset += len(data)
        for line in framer.feed(data):
            end += len(line)
            yield end, line
    # The last line has no newline: it may be torn, or only lack that.
    if last_line := framer.take_unfinished():
        yield end + len(last_line), last_line


def open_to_read(path: Path) -> "tuple[int, CompressedTranscript | None]":
    """Open a transcript for reading: the descriptor, and the decompressor if only the compressed file exists. Either
    form may turn into the other in the meantime. Raises OSError, TooLarge."""
    for _ in range(_OPEN_TRIES):
        for form in (path, file_names.compressed_path(path)):
            try:
                fd = open_private(form, os.O_RDONLY)
            except FileNotFoundError:
                continue
            try:
                if form is path:
                    check_space(fd)
                    return fd, None
                from acp_proxy.transcript.compressed import CompressedTranscript

                return fd, CompressedTranscript(fd)
            except OSError as problem:
                close(fd)
                problem.filename = problem.filename or str(form)
                raise
    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))


def read_header(line: bytes, path: Path | None) -> tuple[Header | None, int]:
    """The header at the start of a transcript's first line, and its size; (None, 0) if there is none, or if its id does
    not match the file's name: nobody could find the file by that. ``path``: None accepts any id. Raises NewerFormat."""
    header, size = file_format.find_header(line)
    is_of_file = header is not None and (path is None or file_names.may_belong(header.session_id, path.stem))
    return (header, size) if is_of_file else (None, 0)
