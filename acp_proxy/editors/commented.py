"""JSON as editors write it: with comments and trailing commas."""

import json
import re

_COMMENTS = re.compile(r'("(?:[^"\\]|\\.)*+")|//[^\n]*+|/\*.*?\*/', re.DOTALL)
_LAST_COMMAS = re.compile(r'("(?:[^"\\]|\\.)*+")|,(?=\s*+[\]}])', re.DOTALL)


def read(text: str) -> object:
    """Raises ValueError for text that is not JSON, RecursionError for text that is nested too deeply."""
    text = _LAST_COMMAS.sub(lambda found: found[1] or "", _bare(text))
    return json.loads(text, strict=False) if text.strip() else {}


def says_nothing(text: str) -> bool:
    """Whether the text has no value at all."""
    return not _bare(text).strip()


def _bare(text: str) -> str:
    return _COMMENTS.sub(lambda found: found[1] or " ", text.removeprefix("\ufeff"))
