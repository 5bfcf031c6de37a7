"""The standard streams of every command but ``run``: all three exist.

A failed write to stdout is ``NotWritable``, so that nobody blames another file; if the reader has left, it stays a
``BrokenPipeError``. A failed write to stderr is ignored.
"""

import errno
import io
import os
import sys
from collections.abc import Mapping

from acp_proxy import own_command
from acp_proxy.errors import NotWritable

TYPE_CHECKING = False  # typing itself is slow to import
if TYPE_CHECKING:
    from typing import TextIO

    from _typeshed import ReadableBuffer


# --- What the character set of the output lacks: our own marks, such as an ellipsis, have ASCII forms then.
#
# Other characters stay: a title is recorded text, and a terminal may show more than the locale says.


_FORMS = {"…": "...", "→": "->", "←": "<-", "·": "-", "•": "*", "✓": "+", "✗": "x", "▸": ">", "○": "o"}
_LINES = range(0x2500, 0x2580)
"""The characters that draw boxes; of these, the ones that have another ASCII form than ``+``:"""
_STRAIGHT = {"-": "─━┄┅┈┉╌╍═╴╶╸╺╼╾", "|": "│┃┆┇┊┋╎╏║╵╷╹╻╽╿▌"}
_BARS = range(0x2580, 0x25A0)


def find_ascii_forms(stream: "TextIO") -> Mapping[int, str]:
    """The ASCII forms of the marks that an output cannot show, for ``str.translate``."""
    charset = _find_charset(stream)
    if charset.lower().replace("-", "").replace("_", "") == "utf8":
        return {}
    straight = {mark: form for form, marks in _STRAIGHT.items() for mark in marks}
    drawn = dict.fromkeys(map(chr, _LINES), "+") | dict.fromkeys(map(chr, _BARS), "#") | straight
    return {ord(mark): form for mark, form in (drawn | _FORMS).items() if not _has(charset, mark)}


def _find_charset(stream: "TextIO") -> str:
    """A terminal's, and its pager's, is that of the locale: with LC_ALL=C, Python itself writes UTF-8."""
    is_pythons = bool(sys.flags.utf8_mode) and not {"PYTHONUTF8", "PYTHONIOENCODING"} & os.environ.keys()
    if is_pythons and sys.platform != "win32" and stream.isatty():
        import locale

        return locale.getencoding()
    return stream.encoding or "utf-8"


def _has(charset: str, mark: str) -> bool:
    try:
        mark.encode(charset)
    except (UnicodeEncodeError, LookupError):
        return False
    return True


_STDIN, _STDOUT, _STDERR = 0, 1, 2


def prepare() -> None:
    """Make the standard streams usable for every command, also where one is closed or takes only ASCII."""
    for number in (_STDIN, _STDOUT, _STDERR):  # the next file we open would get a closed number
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDONLY)  # read-only for stdout too, so that writes fail
    if sys.stdin is None:
        sys.stdin = io.StringIO()
    global _output
    _output = _Output(_STDOUT, "wb", closefd=False)
    sys.stdout = _wrap(sys.stdout, _output, "replace")
    sys.stderr = _wrap(sys.stderr, _Talk(_STDERR, "wb", closefd=False), "backslashreplace", _Messages)


def has_lost_reader() -> bool:
    """Whether the reader of stdout has gone before all was written."""
    return _output is not None and _output.has_lost_reader


def _wrap(before: "TextIO | None", raw: io.FileIO, errors: str, kind: "type[_Text] | None" = None) -> "TextIO":
    """``errors``: how to write characters that the character set of a terminal or a file lacks."""
    if isinstance(before, io.TextIOWrapper) and not isinstance(getattr(before.buffer, "raw", before.buffer), io.FileIO):
        before.reconfigure(errors=errors)
        return before  # a Windows console
    encoding = before.encoding if before is not None else None
    by_line = before is None or before.line_buffering or getattr(before, "write_through", False)
    return (kind or _Text)(io.BufferedWriter(raw), encoding, errors, line_buffering=bool(by_line))


class _Text(io.TextIOWrapper):
    forms: Mapping[int, str] | None = None

    def write(self, text: str) -> int:
        if self.forms is None:
            self.forms = find_ascii_forms(self)
        return super().write(text.translate(self.forms) if self.forms else text)


class _Messages(_Text):
    def write(self, text: str) -> int:
        return super().write(own_command.write_as_typed(text))


class _Talk(io.FileIO):
    def write(self, data: "ReadableBuffer") -> int:
        try:
            return super().write(data)
        except OSError:
            return memoryview(data).nbytes


class _Output(io.FileIO):
    has_failed = False
    has_lost_reader = False

    def write(self, data: "ReadableBuffer") -> int:
        if not self.has_failed:
            try:
                return super().write(data)
            except OSError as problem:
                self.has_failed = True
                if isinstance(problem, BrokenPipeError):
                    self.has_lost_reader = True
                    raise
                if sys.platform == "win32" and problem.errno == errno.EINVAL:  # what Windows says of such a pipe
                    self.has_lost_reader = True
                    raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE)) from problem
                raise NotWritable("the output", problem) from problem
        return memoryview(data).nbytes  # already reported: the flush at exit must not fail again


_output: _Output | None = None
"""What writes to stdout."""
