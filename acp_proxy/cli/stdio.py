"""The standard streams of every command but ``run``: all three exist.

A failed write to stdout is ``NotWritable``, so that nobody blames another file; if the reader has left, it stays a
``BrokenPipeError``. A failed write to stderr is ignored.
"""

import errno
import io
import os
import sys
from collections.abc import Mapping

from acp_proxy import invocation
from acp_proxy.errors import NotWritable

TYPE_CHECKING = False  # typing itself is slow to import
if TYPE_CHECKING:
    from typing import TextIO

    from _typeshed import ReadableBuffer


# --- What the character set of the output lacks: our own marks, such as an ellipsis, have ASCII forms then.
#
# Other characters stay: a title is recorded text, and a terminal may show more than the locale says.


_ASCII_FORMS = {"…": "...", "→": "->", "←": "<-", "·": "-", "•": "*", "✓": "+", "✗": "x", "▸": ">", "○": "o"}
_BOX_CHARACTERS = range(0x2500, 0x2580)
"""The characters that draw boxes; of these, the ones that have another ASCII form than ``+``:"""
_STRAIGHT = {"-": "─━┄┅┈┉╌╍═╴╶╸╺╼╾", "|": "│┃┆┇┊┋╎╏║╵╷╹╻╽╿▌"}
_BLOCK_CHARACTERS = range(0x2580, 0x25A0)


def find_ascii_forms(stream: "TextIO") -> Mapping[int, str]:
    """The ASCII forms of the marks that an output cannot show, for ``str.translate``."""
    charset = _find_charset(stream)
    if charset.lower().replace("-", "").replace("_", "") == "utf8":
        return {}
    punctuation_forms = {mark: form for form, marks in _STRAIGHT.items() for mark in marks}
    drawing_forms = dict.fromkeys(map(chr, _BOX_CHARACTERS), "+") | dict.fromkeys(map(chr, _BLOCK_CHARACTERS), "#")
    forms = drawing_forms | punctuation_forms | _ASCII_FORMS
    return {ord(mark): form for mark, form in forms.items() if not _can_encode(charset, mark)}


def _find_charset(stream: "TextIO") -> str:
    """A terminal's, and its pager's, is that of the locale: with LC_ALL=C, Python itself writes UTF-8."""
    is_chosen_by_python = bool(sys.flags.utf8_mode) and not {"PYTHONUTF8", "PYTHONIOENCODING"} & os.environ.keys()
    if is_chosen_by_python and sys.platform != "win32" and stream.isatty():
        import locale

        return locale.getencoding()
    return stream.encoding or "utf-8"


def _can_encode(charset: str, mark: str) -> bool:
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
    global _raw_stdout
    _raw_stdout = _RawStdout(_STDOUT, "wb", closefd=False)
    sys.stdout = _wrap(sys.stdout, _raw_stdout, "replace")
    sys.stderr = _wrap(sys.stderr, _RawStderr(_STDERR, "wb", closefd=False), "backslashreplace", _StderrText)


def has_lost_reader() -> bool:
    """Whether the reader of stdout has gone before all was written."""
    return _raw_stdout is not None and _raw_stdout.has_lost_reader


def _wrap(
    stream: "TextIO | None", raw: io.FileIO, errors: str, text_class: "type[_StandardText] | None" = None
) -> "TextIO":
    """A text stream on ``raw``, with the encoding of the ``stream`` that it replaces.

    ``errors``: how to write characters that the character set of a terminal or a file lacks. ``text_class``: the class
    of the result; None: ``_StandardText``.
    """
    if isinstance(stream, io.TextIOWrapper) and not isinstance(getattr(stream.buffer, "raw", stream.buffer), io.FileIO):
        stream.reconfigure(errors=errors)
        return stream  # a Windows console
    encoding = stream.encoding if stream is not None else None
    by_line = stream is None or stream.line_buffering or getattr(stream, "write_through", False)
    return (text_class or _StandardText)(io.BufferedWriter(raw), encoding, errors, line_buffering=bool(by_line))


class _StandardText(io.TextIOWrapper):
    """Writes our own marks in ASCII where the output cannot show them."""

    forms: Mapping[int, str] | None = None

    def write(self, text: str) -> int:
        if self.forms is None:
            self.forms = find_ascii_forms(self)
        return super().write(text.translate(self.forms) if self.forms else text)


class _StderrText(_StandardText):
    """Writes our own commands as the user types them."""

    def write(self, text: str) -> int:
        return super().write(invocation.write_as_typed(text))


class _RawStderr(io.FileIO):
    """Ignores failed writes."""

    def write(self, data: "ReadableBuffer") -> int:
        try:
            return super().write(data)
        except OSError:
            return memoryview(data).nbytes


class _RawStdout(io.FileIO):
    """Reports the first failed write as NotWritable or BrokenPipeError, and then writes nothing more."""

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


_raw_stdout: _RawStdout | None = None
"""What writes to stdout."""
