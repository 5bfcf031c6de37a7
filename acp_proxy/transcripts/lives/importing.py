"""Takes a transcript that somebody exported into the store, byte for byte.

What it is not sure of is refused: a file that is no transcript, of a later version, damaged, or of a session that is
here already and says something else. The file gets its name when it is whole and on the disk; nothing that is there is
ever replaced. Where it lies is made of names, never taken from the header's text. A stream is read once, into a file
without a name in the store.
"""

import errno
import os
import shlex
import stat
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

from acp_proxy.errors import NotImported
from acp_proxy.transcripts.files import access, journal
from acp_proxy.transcripts.files.compressed import Compressed, pieces, written
from acp_proxy.transcripts.files.layout import Layout
from acp_proxy.transcripts.files.names import ASIDE, file_name, is_ours, unfinished
from acp_proxy.transcripts.files.reading import Reading
from acp_proxy.transcripts.files.shortening import cut_short
from acp_proxy.transcripts.files.summary import Summary
from acp_proxy.transcripts.lives import deleting
from acp_proxy.wire import acp, record
from acp_proxy.wire.record import Header

_FRAME = b"\x28\xb5\x2f\xfd"
"""How zstd begins."""
_LONGEST_HEADER = 1024 * 1024
"""Bytes: a few ids, paths and names. What has no line end before that is something else."""
_LONGEST_NAME = 100
"""Of a folder: more than any that is made here."""
_AT_ONCE = _LONGEST_HEADER
"""Bytes of a stream: the header lies in the first of them."""
_NO_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})


@dataclass(frozen=True, slots=True)
class Taken:
    """The session of a file. ``prompts``: its turns, as a list counts them. ``is_new``: it was not here before."""

    agent: str
    session: str
    prompts: int
    is_new: bool


class Source:
    """An open file that may be a transcript, plain or compressed."""

    def __init__(self, file: IO[bytes]) -> None:
        """Raises NotImported, OSError."""
        fd = file.fileno()
        if not stat.S_ISREG(os.fstat(fd).st_mode):  # a device may have no end
            raise NotImported("it is neither a file nor a pipe. Write what it gives to a file, and import that")
        self._compressed = Compressed(fd) if access.read_at(fd, len(_FRAME), 0) == _FRAME else None
        self.read: Callable[[int, int], bytes]
        self.read = self._compressed.read if self._compressed is not None else partial(access.read_at, fd)
        self.size = self._compressed.size if self._compressed is not None else os.fstat(fd).st_size

    @property
    def is_damaged(self) -> bool:
        """Its compression, as far as it was read."""
        return self._compressed is not None and self._compressed.is_damaged


def take_in(
    layout: Layout, given: Path | IO[bytes], prepare: Callable[[Path], None], stamp: str, *, damaged: bool = False
) -> Taken:
    """``given``: a file's name, or a stream. ``prepare``: makes a folder. ``damaged``: take it although something in it
    cannot be read.

    Raises NotImported, NewerFormat, OSError.
    """
    with _opened(layout, given) as file:
        source = Source(file)
        header = _header(source)
        prompts = _checked(source, header, damaged=damaged)
        agent, name = folder(header), file_name(header.session)
        into = layout.transcript(agent, name)
        prepare(into.parent)
        with access.alone_in(into.parent, wait=True):  # nobody clears away what is not finished, or compresses it
            known = layout.journal(agent)
            if header.session in known.deleted():
                with known.alone():
                    if header.session in known.deleted():
                        deleting.finish(layout, agent, header.session)  # what a crash in the middle of it left
            elif layout.exists(agent, name):
                _compare(source, into, header)
                return Taken(agent, header.session, prompts, is_new=False)
            _write(layout, agent, into, header, source, stamp)
    return Taken(agent, header.session, prompts, is_new=True)


def folder(header: Header) -> str:
    """The agent's folder: the one that it had, if that is a name of ours, else one that is made of what is said."""
    told = acp.text(header.agent, "id") or acp.text(header.agent, "name") or "agent"
    return told if is_ours(told) and ASIDE not in told and len(told) <= _LONGEST_NAME else file_name(told)


@contextmanager
def _opened(layout: Layout, given: Path | IO[bytes]) -> Iterator[IO[bytes]]:
    """A file, which is read more than once, and where it is wanted. Raises NotImported, NewerFormat, OSError."""
    with ExitStack() as stack:
        file = stack.enter_context(given.open("rb")) if isinstance(given, Path) else given
        if file is given or stat.S_ISFIFO(os.fstat(file.fileno()).st_mode):
            copy = stack.enter_context(TemporaryFile(dir=layout.root, buffering=0))  # gone with us, however we end
            _copy(file, copy)
            file = copy
        yield file


def _copy(stream: IO[bytes], into: IO[bytes]) -> None:
    at = 0
    while data := stream.read(_AT_ONCE):
        access.write_at(into.fileno(), data, at)
        if not at:
            _header(Source(into))  # what is something else may have no end
        at += len(data)


def _header(source: Source) -> Header:
    """Raises NotImported, NewerFormat."""
    line, newline, _ = source.read(min(source.size, _LONGEST_HEADER), 0).partition(b"\n")
    header = record.decode_header(line)
    if header is None or not newline:
        raise NotImported(
            "it is no transcript: its first line is no header. Only jsonl comes back (export --format jsonl)"
        )
    return header


def _checked(source: Source, header: Header, *, damaged: bool) -> int:
    """How many turns it has. Raises NotImported."""
    summary = Summary.begun(header)
    for number, line in enumerate(cut_short(source.read, source.size), 1):
        entry = record.decode_entry(line, header.version) if number > 1 and line is not None else None
        if entry is None and number > 1 and not damaged and (line is None or not line.isspace()):
            raise NotImported(f"line {number} is no entry of a transcript. To take it as it is: --damaged")
        if entry is not None:
            summary.add(entry)
    if source.is_damaged:
        raise NotImported("its compression is damaged. Take a copy that is whole")
    return summary.prompts


def _compare(source: Source, into: Path, header: Header) -> None:
    """That what is here is the same, or goes on behind it. Raises NotImported, OSError."""
    here = Reading(into)
    try:
        if not all(_same(source, here.bytes_from(0))):
            raise NotImported(
                f"session {header.session} is here already, and says something else. "
                f"To take this one in its place, delete that first: acp-proxy sessions delete {_typed(header.session)}"
            )
    finally:
        here.close()


def _typed(session: str) -> str:
    """What names it on a command line, whatever its id is."""
    return shlex.quote(session if session.isprintable() and not session.startswith("-") else file_name(session))


def _same(source: Source, here: Iterator[bytes]) -> Iterator[bool]:
    at = 0
    for data in here:
        other = source.read(min(len(data), source.size - at), at)
        yield data.startswith(other)
        at += len(other)
        if at >= source.size:
            return
    yield at == source.size


def _write(layout: Layout, agent: str, into: Path, header: Header, source: Source, stamp: str) -> None:
    """Raises NotImported, OSError."""
    new = unfinished(into)
    with ExitStack() as stack:
        fd = access.open_private(new, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        stack.callback(os.close, fd)
        stack.callback(lambda: new.unlink(missing_ok=True))
        if written(fd, pieces(source.read, source.size)) != source.size:
            raise NotImported("it became shorter while it was read. Try again")
        known = layout.journal(agent)
        with known.alone():
            if header.session in known.deleted():
                known.append(journal.LIFTED, header.session, stamp)
            layout.mark(agent, into.stem)
            _name(new, into)


def _name(new: Path, into: Path) -> None:
    """Only if nobody else has the name; where files have one name each, that is looked at just before."""
    try:
        os.link(new, into)
    except FileExistsError as problem:
        raise NotImported("the session has just begun here. Try again") from problem
    except FileNotFoundError as problem:
        raise NotImported("somebody deleted the session meanwhile. Try again") from problem
    except OSError as problem:
        if problem.errno not in _NO_LINKS or os.path.lexists(into):
            raise
        new.replace(into)
