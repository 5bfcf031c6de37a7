"""Code as HTML, coloured by classes whose colours the page has. Never raises, whatever the code and its language."""

import re
from collections.abc import Mapping
from functools import cache
from html import escape

from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexer import Lexer
from pygments.lexers import find_lexer_class_for_filename, get_lexer_by_name
from pygments.util import ClassNotFound

LIMIT = 64 * 1024
"""Characters that are coloured: nobody reads more of it in colour, and some languages are slow to read."""
_NAME = re.compile(r"[\w+#.-]{1,40}", re.ASCII)


def highlighted(code: str, language: str) -> str:
    """A block of code. ``language``: as it is called in a fence."""
    return f'<pre tabindex="0"><code>{_coloured(code, _lexer(language))}</code></pre>\n'


def highlighted_file(code: str, path: str) -> str:
    """The same of a file's contents."""
    return f'<pre tabindex="0"><code>{_coloured(code, _lexer_for(path))}</code></pre>\n'


def _coloured(code: str, lexer: Lexer | None) -> str:
    if lexer is None or len(code) > LIMIT:
        return escape(code)
    return str(highlight(code, lexer, _formatter()))


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


_OPTIONS: Mapping[str, bool] = {"stripnl": False, "ensurenl": False}
