"""What the character set of the output lacks: our own marks, such as an ellipsis, have ASCII forms then.

Other characters stay: a title is recorded text, and a terminal may show more than the locale says.
"""

import os
import sys
from collections.abc import Mapping

TYPE_CHECKING = False  # typing itself is slow to import
if TYPE_CHECKING:
    from typing import TextIO

_FORMS = {"…": "...", "→": "->", "←": "<-", "·": "-", "•": "*", "✓": "+", "✗": "x", "▸": ">", "○": "o"}
_LINES = range(0x2500, 0x2580)
"""The characters that draw boxes; of these, the ones that have another ASCII form than ``+``:"""
_STRAIGHT = {"-": "─━┄┅┈┉╌╍═╴╶╸╺╼╾", "|": "│┃┆┇┊┋╎╏║╵╷╹╻╽╿▌"}
_BARS = range(0x2580, 0x25A0)


def ascii_forms(stream: "TextIO") -> Mapping[int, str]:
    """The ASCII forms of the marks that an output cannot show, for ``str.translate``."""
    charset = _charset(stream)
    if charset.lower().replace("-", "").replace("_", "") == "utf8":
        return {}
    straight = {mark: form for form, marks in _STRAIGHT.items() for mark in marks}
    drawn = dict.fromkeys(map(chr, _LINES), "+") | dict.fromkeys(map(chr, _BARS), "#") | straight
    return {ord(mark): form for mark, form in (drawn | _FORMS).items() if not _has(charset, mark)}


def _charset(stream: "TextIO") -> str:
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
