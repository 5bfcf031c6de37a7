"""The word that was meant by one that nothing has."""

from collections.abc import Iterable
from difflib import get_close_matches

_LEAST_LIKENESS = 0.75
"""How like a misspelt word another one is, as ``difflib`` measures it: one of four letters may differ."""
_SHORTEST_MISSPELT = 4


def can_be_misspelt(word: str) -> bool:
    return word.isalnum() and len(word) >= _SHORTEST_MISSPELT


def list_near_lengths(word: str) -> range:
    """The lengths of words that may be like it."""
    return range(max(len(word) - 2, 1), len(word) + 3)


def find_near_word(word: str, known_words: Iterable[str]) -> str | None:
    """The word that is most like this one, and begins with the same letter; None: none is like it. ``known_words``:
    case folded."""
    folded, lengths = word.casefold(), list_near_lengths(word)
    alike = {other for other in known_words if len(other) in lengths and other.startswith(folded[:1])}
    return next(iter(get_close_matches(folded, sorted(alike), 1, _LEAST_LIKENESS)), None)
