"""JSON as editors write it: with comments, and with commas before the bracket that closes."""

import json
import re

_COMMENTS = re.compile(r'("(?:[^"\\]|\\.)*+")|//[^\n]*+|/\*.*?\*/', re.DOTALL)
_LAST_COMMAS = re.compile(r'("(?:[^"\\]|\\.)*+")|,(?=\s*+[\]}])', re.DOTALL)


def read(text: str) -> object:
    """Raises ValueError on what is no JSON, RecursionError on what is nested too deeply to tell."""
    text = _LAST_COMMAS.sub(lambda found: found[1] or "", _bare(text))
    return json.loads(text, strict=False) if text.strip() else {}


def says_nothing(text: str) -> bool:
    """Whether there is not even a value in it."""
    return not _bare(text).strip()


def _bare(text: str) -> str:
    return _COMMENTS.sub(lambda found: found[1] or " ", text.removeprefix("\ufeff"))
