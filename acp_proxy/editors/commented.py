"""JSON as editors write it: with comments, and with commas before the bracket that closes."""

import json
import re

_COMMENTS = re.compile(r'("(?:[^"\\]|\\.)*+")|//[^\n]*+|/\*.*?\*/', re.DOTALL)
_LAST_COMMAS = re.compile(r'("(?:[^"\\]|\\.)*+")|,(?=\s*+[\]}])', re.DOTALL)


def read(text: str) -> object:
    """Raises ValueError on what is no JSON, RecursionError on what is nested too deeply to tell."""
    text = _COMMENTS.sub(lambda found: found[1] or " ", text.removeprefix("\ufeff"))
    text = _LAST_COMMAS.sub(lambda found: found[1] or "", text)
    return json.loads(text, strict=False) if text.strip() else {}
