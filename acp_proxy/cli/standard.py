"""The standard streams of every command but ``run``: all three exist.

A failed write to stdout is ``NotWritable``, so that nobody blames another file; if the reader has left, it stays a
``BrokenPipeError``. A failed write to stderr is ignored.
"""

import errno
import io
import os
import sys
from collections.abc import Mapping

from acp_proxy.cli.charsets import ascii_forms
from acp_proxy.errors import NotWritable

TYPE_CHECKING = False  # typing itself is slow to import
if TYPE_CHECKING:
    from typing import TextIO

    from _typeshed import ReadableBuffer

_STDIN, _STDOUT, _STDERR = 0, 1, 2


def prepare() -> None:
    for number in (_STDIN, _STDOUT, _STDERR):  # the next file we open would get a closed number
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDONLY)  # read-only for stdout too, so that writes fail
    if sys.stdin is None:
        sys.stdin = io.StringIO()
    sys.stdout = _made(sys.stdout, _Output(_STDOUT, "wb", closefd=False), "replace")
    sys.stderr = _made(sys.stderr, _Talk(_STDERR, "wb", closefd=False), "backslashreplace")


def _made(before: "TextIO | None", raw: io.FileIO, errors: str) -> "TextIO":
    """``errors``: how to write characters that the character set of a terminal or a file lacks."""
    if isinstance(before, io.TextIOWrapper) and not isinstance(getattr(before.buffer, "raw", before.buffer), io.FileIO):
        before.reconfigure(errors=errors)
        return before  # a Windows console
    encoding = before.encoding if before is not None else None
    by_line = before is None or before.line_buffering or getattr(before, "write_through", False)
    return _Text(io.BufferedWriter(raw), encoding, errors, line_buffering=bool(by_line))


class _Text(io.TextIOWrapper):
    forms: Mapping[int, str] | None = None

    def write(self, text: str) -> int:
        if self.forms is None:
            self.forms = ascii_forms(self)
        return super().write(text.translate(self.forms) if self.forms else text)


class _Talk(io.FileIO):
    def write(self, data: "ReadableBuffer") -> int:
        try:
            return super().write(data)
        except OSError:
            return memoryview(data).nbytes


class _Output(io.FileIO):
    has_failed = False

    def write(self, data: "ReadableBuffer") -> int:
        if not self.has_failed:
            try:
                return super().write(data)
            except OSError as problem:
                self.has_failed = True
                if isinstance(problem, BrokenPipeError):
                    raise
                if sys.platform == "win32" and problem.errno == errno.EINVAL:  # what Windows says of such a pipe
                    raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE)) from problem
                raise NotWritable("the output", problem) from problem
        return memoryview(data).nbytes  # already reported: the flush at exit must not fail again
