"""JSON as editors write it: with comments and trailing commas."""

import json
import re

_COMMENTS = re.compile(r'("(?:[^"\\]|\\.)*+")|//[^\n]*+|/\*.*?\*/', re.DOTALL)
_NOT_BREAKS = re.compile(r"[^\n]")
_LAST_COMMAS = re.compile(r'("(?:[^"\\]|\\.)*+"|[\[{,]\s*+,)|,(?=\s*+[\]}])', re.DOTALL)
"""After a value. A comma alone, as in ``[,]``, stays: no editor takes it."""

_MISTAKES = {
    "Expecting ',' delimiter": "a comma or a closing bracket is missing",
    "Expecting ':' delimiter": "a colon is missing",
    "Expecting value": "a value is missing or misspelt",
    "Expecting property name enclosed in double quotes": "a name in double quotes or a closing bracket is missing",
    "Unterminated string starting at": "a string has no closing quote",
    "Invalid \\escape": "a string has a single \\ in it; write \\\\",
    "Extra data": "there is text after the end",
}


def decode(text: str) -> object:
    """The value of a text. Raises ValueError, which says what is wrong and where, for text that is not JSON or that is
    nested too deeply."""
    text = _LAST_COMMAS.sub(lambda match: match[1] or " ", blank_comments(text.removeprefix("\ufeff")))
    try:
        return json.loads(text, strict=False) if text.strip() else {}
    except json.JSONDecodeError as problem:
        mistake = _MISTAKES.get(problem.msg) or problem.msg[:1].lower() + problem.msg[1:]
        place = f"line {problem.lineno}, column {problem.colno}"
        raise ValueError(f"it is not valid JSON at {place}: {mistake}") from problem
    except RecursionError as problem:
        raise ValueError("its brackets are nested too deeply") from problem
    except ValueError as problem:
        raise ValueError("it has a number with too many digits") from problem


def says_nothing(text: str) -> bool:
    """Whether the text has no value at all."""
    return not blank_comments(text).strip()


def blank_comments(text: str) -> str:
    """The text with blanks for comments and for a byte order mark, so that every other character stays in its place."""
    text = " " + text[1:] if text.startswith("\ufeff") else text
    return _COMMENTS.sub(lambda match: match[1] or _NOT_BREAKS.sub(" ", match[0]), text)
