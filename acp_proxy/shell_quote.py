"""Command lines as users type them: in a POSIX shell, or on Windows in cmd.exe and PowerShell."""

import os
import re
import shlex
from collections.abc import Iterable

ON_WINDOWS = os.name == "nt"
_PLAIN = re.compile(r"[\w+=:./\\-]+", re.ASCII)
"""What neither cmd.exe nor PowerShell interprets."""
_IN_QUOTES = re.compile('[\x00-\x1f\x7f"%$`\u201c-\u201f]')
"""What one of them interprets even in quotes; PowerShell takes typographic quotes for quotes."""


def quote(word: str, *, windows: bool = ON_WINDOWS) -> str:
    """The word in quotes if it needs them, for a command to copy.

    Each character that no quotes make safe in both of Windows' shells becomes a question mark.
    """
    if not windows:
        return shlex.quote(word)
    if _PLAIN.fullmatch(word):
        return word
    safe = _IN_QUOTES.sub("?", word)
    return f'"{safe}{_find_trailing_backslashes(safe)}"'


def _find_trailing_backslashes(word: str) -> str:
    """The backslashes at the end of a word, which programs would take as hiding the quote that follows."""
    return word[len(word.rstrip("\\")) :]


def is_typable(word: str, *, windows: bool = ON_WINDOWS) -> bool:
    """Whether a user can type the word, with ``quote``."""
    return word.isprintable() and not (windows and _IN_QUOTES.search(word))


def join(words: Iterable[str], *, windows: bool = ON_WINDOWS) -> str:
    """A command to copy."""
    return " ".join(quote(word, windows=windows) for word in words)


def split(line: str, *, windows: bool = ON_WINDOWS) -> list[str]:
    """The words of a command that a user wrote; on Windows, backslashes and single quotes are like letters.

    Raises ValueError if a quote is not closed.
    """
    if not windows:
        return shlex.split(line)
    reader = shlex.shlex(line, posix=True)
    reader.whitespace_split, reader.commenters, reader.escape, reader.quotes = True, "", "", '"'
    return list(reader)
