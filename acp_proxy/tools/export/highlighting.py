"""Code as HTML, with classes that the page colours. It never raises, whatever the code and its language.

Time is bounded: some lexers need quadratic time for hostile input. Code that takes too long stays without colours, and
so does its language from then on.
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
"""Characters with colours: nobody reads more of it."""
_LONGEST_LINE = 1000
"""Characters of a line. People write no longer ones, and generated code needs no colours."""
_PATIENCE = 1.0
"""Seconds of work: a thousand times the usual time for code of this length."""
COPY_BUTTON = '<button type="button" class="copy">Copy</button>'
"""Beside an element of code, it copies that. ``copy.js`` shows it, and does it."""
_NAME = re.compile(r"[\w+#.-]{1,40}", re.ASCII)
_OPTIONS: Mapping[str, bool] = {"stripnl": False, "ensurenl": False}
_slow: set[type[Lexer]] = set()


class _TooSlow(Exception):
    pass


def highlighted(code: str, language: str) -> str:
    """A code block. ``language``: its name in a fence."""
    return _render_block(_coloured(code, _lexer(language)))


def highlighted_file(code: str, path: str) -> str:
    """The content of a file as a code block."""
    return _render_block(_coloured(code, _lexer_for(path)))


def _render_block(code: str) -> str:
    """``code``: HTML."""
    return f'<div class="code"><pre tabindex="0"><code>{code}</code></pre>{COPY_BUTTON}</div>\n'


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
        lexer_class = find_lexer_class_for_filename(name)
    except ClassNotFound:
        return None
    return lexer_class(**_OPTIONS) if lexer_class is not None else None


@cache
def _formatter() -> HtmlFormatter[str]:
    return HtmlFormatter(nowrap=True)
