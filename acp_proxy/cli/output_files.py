"""Write results to stdout, or to files that are either complete or absent."""

import errno
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from acp_proxy.errors import AlreadyThere, NotWritable
from acp_proxy.views import sanitize


def write_to_stdout(pieces: Iterable[bytes]) -> None:
    """Write the bytes unchanged; on a terminal, without control characters."""
    for piece in pieces:
        if sys.stdout.isatty():
            sys.stdout.write(sanitize.make_printable(piece.decode("utf-8", "replace")))
        else:
            sys.stdout.buffer.write(piece)
    sys.stdout.flush()


@contextmanager
def report_output_errors(target: object) -> Iterator[None]:
    """Turn an error of writing to ``target``, a path or a stream's name, into NotWritable. Leave alone BrokenPipeError,
    which says that the reader has left, and FileExistsError."""
    try:
        yield
    except (BrokenPipeError, FileExistsError):
        raise
    except OSError as problem:
        raise NotWritable(target, problem) from problem


def make_directory(path: Path) -> None:
    """Create a directory and those above it. Raises NotWritable."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise NotWritable(path, problem) from problem


def write_file(path: Path, pieces: Iterable[bytes], *, force: bool) -> None:
    """Write a file: complete, or not at all. ``force``: replace an existing one.

    Raises AlreadyThere, NotWritable, and what the pieces raise.
    """
    if path.is_dir():  # Windows would only say that access is denied
        raise NotWritable(path, IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR)))
    if path.exists() and not path.is_file():  # a pipe, a terminal
        with path.open("wb", buffering=0) as file:
            _fill(path, file, pieces)
        return
    with _claim_name(path, force=force), _open_temporary(path) as file:
        _fill(path, file, pieces)


def _fill(path: Path, file: IO[bytes], pieces: Iterable[bytes]) -> None:
    """Write the pieces without a buffer, which would fail a second time when closed. Raises NotWritable, and what the
    pieces raise.
    """
    for piece in pieces:
        remaining = memoryview(piece)
        while remaining:
            with report_output_errors(path):
                remaining = remaining[file.write(remaining) :]


@contextmanager
def _claim_name(path: Path, *, force: bool) -> Iterator[None]:
    """Create an empty file at ``path``, and remove it if the block fails; with ``force``, do nothing. Raises
    AlreadyThere, NotWritable."""
    if force:
        yield
        return
    try:
        path.touch(exist_ok=False)
    except FileExistsError as problem:
        raise AlreadyThere(path) from problem
    except OSError as problem:
        raise NotWritable(path, problem) from problem
    try:
        yield
    except BaseException:
        path.unlink(missing_ok=True)
        raise


@contextmanager
def _open_temporary(path: Path) -> Iterator[IO[bytes]]:
    """A temporary file that gets its name when it is complete."""
    from tempfile import NamedTemporaryFile  # imported late: other commands write no files

    try:
        file = NamedTemporaryFile(dir=path.parent, prefix=f".{path.name[:40]}.", buffering=0, delete=False)  # noqa: SIM115
    except OSError as problem:
        raise NotWritable(path, problem) from problem
    try:
        with file:
            yield file.file
        os.replace(file.name, path)
    except BaseException:
        Path(file.name).unlink(missing_ok=True)
        raise
