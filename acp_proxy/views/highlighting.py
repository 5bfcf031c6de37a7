"""Code as HTML, coloured by classes whose colours the page has. Never raises, whatever the code and its language.

Time is bounded: some languages' readers take the square of the length of what is made to be hard for them. Code that
takes too long is told without colours, and so is that language from then on.
"""

import re
import time
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from html import escape

import pygments
from pygments.formatters import HtmlFormatter
from pygments.lexer import Lexer
from pygments.lexers import find_lexer_class_for_filename, get_lexer_by_name
from pygments.token import _TokenType
from pygments.util import ClassNotFound

LIMIT = 32 * 1024
"""Characters that are coloured: nobody reads more of it in colour."""
_LONGEST_LINE = 1000
"""Characters: no line that people write is longer, and what is made by programs is not read in colour."""
_PATIENCE = 1.0
"""Seconds of work: a thousand times what code of this length takes."""
_NAME = re.compile(r"[\w+#.-]{1,40}", re.ASCII)
_OPTIONS: Mapping[str, bool] = {"stripnl": False, "ensurenl": False}
_slow: set[type[Lexer]] = set()


class _TooSlow(Exception):
    pass


def highlighted(code: str, language: str) -> str:
    """A block of code. ``language``: as it is called in a fence."""
    return f'<pre tabindex="0"><code>{_coloured(code, _lexer(language))}</code></pre>\n'


def highlighted_file(code: str, path: str) -> str:
    """The same of a file's contents."""
    return f'<pre tabindex="0"><code>{_coloured(code, _lexer_for(path))}</code></pre>\n'


def _coloured(code: str, lexer: Lexer | None) -> str:
    if lexer is None or type(lexer) in _slow or len(code) > LIMIT or max(map(len, code.split("\n"))) > _LONGEST_LINE:
        return escape(code)
    try:
        return str(pygments.format(_in_time(lexer.get_tokens(code)), _formatter()))
    except _TooSlow:
        _slow.add(type(lexer))
        return escape(code)


def _in_time(tokens: Iterable[tuple[_TokenType, str]]) -> Iterator[tuple[_TokenType, str]]:
    until = time.process_time() + _PATIENCE
    for token in tokens:
        if time.process_time() > until:
            raise _TooSlow
        yield token


@cache
def _lexer(language: str) -> Lexer | None:
    if not _NAME.fullmatch(language):
        return None
    try:
        return get_lexer_by_name(language, **_OPTIONS)
    except ClassNotFound:
        return None


def _lexer_for(path: str) -> Lexer | None:
    name = re.split(r"[/\\]", path)[-1][-200:]
    try:
        found = find_lexer_class_for_filename(name)
    except ClassNotFound:
        return None
    return found(**_OPTIONS) if found is not None else None


@cache
def _formatter() -> HtmlFormatter[str]:
    return HtmlFormatter(nowrap=True)
