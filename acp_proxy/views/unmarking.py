"""One line of Markdown as words, for titles and headings: without the marks of headings, bold, code and links.

A Markdown parser would take more: it makes ``__init__.py`` and the glob ``a/**/b a/**/c`` bold. These stay.
"""

import re

_HEADING = re.compile(r"#{1,6}\s+(?=\S)")
_CODE = r"(?<!`)(`+)(?!`)(?P<code>.+?)(?<!`)\1(?!`)"
_BOLD = r"(?<![\w*/])\*\*(?![\s*/])(?P<bold>.+?)(?<![\s*/])\*\*(?![\w*/])"
_LINK = r"(?<!\w)!?\[(?P<link>[^\[\]]+)\]\([^()\s]+\)"
_MARKED = re.compile(f"{_CODE}|{_BOLD}|{_LINK}")
_UNCLOSED = re.compile(r"(?<!\S)\*\*(?=\w)|`")
"""Marks in a title that was cut off before they end."""


def unmarked(line: str) -> str:
    words = _MARKED.sub(_words, _HEADING.sub("", line, count=1) if line.startswith("#") else line)
    return (_UNCLOSED.sub("", words) if words.endswith("…") else words).strip()


def _words(found: re.Match[str]) -> str:
    inside = found["bold"] or found["link"]
    return _MARKED.sub(_words, inside) if inside else found["code"].strip()
