"""Prepares text for the full-text search, and turns what a user typed into a query. Pure.

SQLite's tokenizer (unicode61) makes a word of every run of letters and digits, ignoring case and, of Latin letters,
diacritics. It compares characters, so text and queries get one normal form of Unicode. In scripts without spaces, a run
would be a whole sentence: there, every letter is made a word, by invisible spaces around it, and a query becomes a
phrase of letters. So is every sign that is newer than the tokenizer's Unicode (6.1), such as most emoji: it takes them
for letters. Any input becomes a query with valid syntax.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from itertools import product

from acp_proxy.errors import UsageError
from acp_proxy.views.sanitize import normalize_unicode


class TurnPart(StrEnum):
    """The parts of a turn: the user's words, the agent's messages, what its tool calls are, and what they printed."""

    USER = "user"
    AGENT = "agent"
    TOOLS = "tools"
    OUTPUT = "output"


SPACE = "\N{ZERO WIDTH SPACE}"
"""Separates words invisibly; removed before text is shown."""
BEGIN, END = "\x02", "\x03"
"""Enclose a match in an excerpt. Searched text never contains them."""

BETWEEN = "\x1e"
"""Separates the messages and titles of tool calls within a turn."""

_UNSPACED = (
    "\u0e00-\u0fff"  # Thai, Lao, Tibetan
    "\u1000-\u109f\u1780-\u17ff"  # Burmese, Khmer
    "\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3040-\u30ff\u3100-\u318f\u31a0-\u31ff"  # kana, bopomofo, radicals
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Chinese characters
    "\uac00-\ud7af\uff66-\uffdc"  # Korean, whose words have their endings on them; half-width forms
)
_NEW_SIGNS = (
    "\u20ba-\u20cf\u2066-\u2069\u23f4-\u23ff\u2700\u2b4d-\u2bff\u2e3c-\u2e7f"  # currencies, symbols, punctuation
    "\U0001f000-\U0001faff"  # emoji: the blocks are filled up with every version
)
_ALONE_RUN = re.compile(f"[{_UNSPACED}{_NEW_SIGNS}]+")
_NO_TEXT = re.compile("[\x00-\x08\x0b-\x1d\x1f\x7f\ud800-\udfff]")
_SHARP_S = re.compile("ss|ß", re.IGNORECASE)
_MOST_SPELLINGS = 8
_QUOTED_OR_WORD = re.compile(r'"([^"]*)"?(\*?)|([^\s"]+)')


def separate_words(text: str) -> str:
    """The text in a form in which SQLite finds every word of it."""
    if text.isascii() and text.isprintable():
        return text
    text = normalize_unicode(_NO_TEXT.sub(" ", text))
    return text if text.isascii() else _ALONE_RUN.sub(lambda run: f"{SPACE}{SPACE.join(run[0])}{SPACE}", text)


def join_words(text: str) -> str:
    """The original of a text after ``separate_words``, in the form of ``normalize_unicode``, except for characters that
    SQLite cannot store."""
    return text.replace(SPACE, "")


SAID_COLUMN = "text"
"""The column with what user and agents said and the titles of tool calls, without thoughts, plans and failures."""
ASIDE_COLUMN = "aside"
"""The column with thoughts, plans and failures."""


def limit_to_said(fts_query: str) -> str:
    """The same query, for what was said alone (``SAID_COLUMN``)."""
    return f"{SAID_COLUMN} : ({fts_query})"


def limit_to_parts(fts_query: str, parts: Iterable[TurnPart]) -> str:
    """The same query, for these parts of a turn alone, which are columns: each word may be in any of them."""
    return f"{{{' '.join(parts)}}} : ({fts_query})"


def close_quotes(words: Iterable[str]) -> list[str]:
    """The words with a quote at the end of each phrase, as ``make_query`` takes them."""
    return [f'{word.rstrip("*")}"{word[len(word.rstrip("*")) :]}' if word.count('"') % 2 else word for word in words]


def make_query(words: Iterable[str]) -> str:
    """The SQLite query for all of these, in any order: words, beginnings of words (``log*``), phrases (``"log in"``).

    Raises UsageError if there is no letter or digit to search for.
    """
    terms = split_query(words)
    if not terms:
        raise UsageError('there is nothing to search for. Give words of letters or digits: login, log*, "log in"')
    return (" AND " if any("(" in term for term in terms) else " ").join(terms)


def split_query(words: Iterable[str]) -> list[str]:
    """A query for each of these. Each once: SQLite would look up every one of a pasted text, and that takes minutes."""
    terms = (_quote_term(part) for word in words for part in _split_parts(word))
    return list(dict.fromkeys(term for term in terms if term is not None))


def make_any_query(queries: Iterable[str]) -> str:
    """The query for what at least one of ``split_query`` matches."""
    return " OR ".join(queries)


def widen_query(words: Sequence[str]) -> str | None:
    """The query for beginnings of these words, for when nothing has the words; None if that is the same question.

    A phrase in quotes is meant as it is. Raises as ``make_query``.
    """
    if any('"' in word for word in words):
        return None
    widened = make_query(add_stars(words))
    return widened if widened != make_query(words) else None


def add_stars(words: Sequence[str]) -> list[str]:
    """The beginnings of these words."""
    return [f"{word}*" for word in " ".join(words).split()]


def explain_wider(words: Sequence[str]) -> str:
    """How the results of ``widen_query`` differ from what was asked."""
    match " ".join(words).split():
        case [word]:
            return f"No '{word}'; these begin with it:"
        case _:
            return "Nothing has all of these words; these have words that begin with them:"


def _split_parts(word: str) -> Iterator[str]:
    if '"' not in word:
        yield word
        return
    for part in _QUOTED_OR_WORD.finditer(word):
        yield part[3] or part[1] + part[2]


def _quote_term(part: str) -> str | None:
    """A quoted phrase of one or more words, in each spelling: SQLite sees no syntax in it."""
    text = separate_words(part.replace('"', " "))
    if not any(letter.isalnum() for letter in text):
        return None
    spellings = [f'"{spelling.rstrip("*")}"' + ("*" if spelling.endswith("*") else "") for spelling in _spell(text)]
    return f"({' OR '.join(spellings)})" if len(spellings) > 1 else spellings[0]


def _spell(text: str) -> list[str]:
    """The text as it is, and with ss for ß and the reverse: that is no diacritic for SQLite."""
    pieces = _SHARP_S.split(text)
    places = len(pieces) - 1
    ways = product(("ss", "ß"), repeat=places) if 2**places <= _MOST_SPELLINGS else (["ss"] * places, ["ß"] * places)
    spellings = ("".join(map("".join, zip(pieces, [*way, ""], strict=True))) for way in ways)
    return list(dict.fromkeys([text, *spellings]))
