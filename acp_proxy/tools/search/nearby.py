"""What a search without results does next: looks for what comes near, and says what may have been meant."""

from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace

from acp_proxy.sessions.command_store import CommandStore
from acp_proxy.store.index_database import Index, ListedSession
from acp_proxy.store.layout import Layout
from acp_proxy.tools.search.query import (
    TurnPart,
    add_stars,
    explain_wider,
    make_any_query,
    make_query,
    split_query,
    widen_query,
)
from acp_proxy.tools.search.search import PartTables, SearchRequest, SearchTables, TableReplaced, search_store
from acp_proxy.views.near_words import can_be_misspelt

_MOST_APART = 16
"""Words that are looked for in different turns, each by itself: more are a pasted text."""
_OPERATORS = {"AND", "OR", "NOT", "NEAR"}
"""What other searches know."""
_SHORTEST_ID = 4
_READ_FOR_HINT = 16 * 1024 * 1024
"""Bytes of transcripts that are read for a hint alone: a third of a second."""
_APART = "No turn has all of these words; these sessions have them in different turns:"
_WIDER_APART = "No turn has all of these words; these sessions have words that begin with them, in different turns:"


@dataclass(frozen=True, slots=True)
class NearSearch:
    """``about``: how it differs from what was asked."""

    request: SearchRequest
    about: str


def list_near_searches(request: SearchRequest, words: Sequence[str]) -> list[NearSearch]:
    """What to search, one after the other, if nothing has the words, as ``make_query`` takes them. Raises as that."""
    near_searches, wider = list[NearSearch](), widen_query(words)
    if wider is not None:
        near_searches.append(NearSearch(replace(request, fts_query=wider), explain_wider(words)))
    if (apart := search_apart(request, words)) is not None:
        near_searches.append(NearSearch(apart, _APART))
        if wider is not None and (wider_apart := search_apart(request, add_stars(words))) is not None:
            near_searches.append(NearSearch(wider_apart, _WIDER_APART))
    return near_searches


def search_apart(request: SearchRequest, words: Sequence[str]) -> SearchRequest | None:
    """The same for sessions that have these words in any of their turns; None if that is no other search, or would take
    long."""
    queries = split_query(words)
    if not 1 < len(queries) <= _MOST_APART:
        return None
    return replace(request, fts_query=make_any_query(queries), session_queries=tuple(queries))


def explain_operators(words: Sequence[str]) -> str:
    """What these words do not mean here, though they do in other searches; empty if they mean nothing there."""
    if begun := next((word for word in words if word.rstrip("*").partition("*")[1]), None):
        return f"* stands only for the end of a word, not as in {begun}."
    operators = sorted(_OPERATORS & set(words))
    verb = "is searched as a word" if len(operators) == 1 else "are searched as words"
    return f"{', '.join(operators)} {verb}: there are no operators." if operators else ""


def find_by_id(store: CommandStore, words: Sequence[str]) -> list[ListedSession]:
    """The sessions whose id the words are, or its beginning. Raises Unreadable, OSError."""
    return store.find_named(words[0]) if len(words) == 1 and len(words[0]) >= _SHORTEST_ID else []


def correct_words(store: CommandStore, request: SearchRequest, words: Sequence[str]) -> list[str] | None:
    """The words of a search without results, with those that are there in place of words that are not, if that finds
    something; None: nothing does. Raises as ``search_store``."""
    corrected = store.store_index.query(
        lambda index: [_correct_word(store.layout, index, request, word) for word in words], *request.agent_folders
    )
    if corrected == list(words):
        return None
    nearby = replace(request, fts_query=make_query(corrected), limit=1)
    tries = filter(None, (nearby, search_apart(nearby, corrected)))
    return corrected if any(search_store(store, attempt).hits for attempt in tries) else None


def is_in_parts(store: CommandStore, request: SearchRequest, parts: tuple[TurnPart, ...]) -> bool | None:
    """Whether a search of these parts of the turns would find something; None: to know it would take a user's time, as
    long as its tables lack much. Raises as ``search_store``."""

    def measure(index: Index) -> int:
        with ExitStack() as stack:
            return PartTables(store.layout, index, stack).measure_outdated(request.agent_folders)

    with suppress(TableReplaced):
        if store.store_index.query(measure, *request.agent_folders) <= _READ_FOR_HINT:
            return bool(search_store(store, replace(request, parts=parts, limit=1)).hits)
    return None


def _correct_word(layout: Layout, index: Index, request: SearchRequest, word: str) -> str:
    """Raises Unreadable, or ``sqlite3.Error`` of the index."""
    if not can_be_misspelt(word):
        return word
    with ExitStack() as stack, suppress(TableReplaced, OSError):
        tables = SearchTables(layout, index, stack)
        if not any(tables.find_docs(replace(request, fts_query=make_query([word]), since=None, until=None)).values()):
            return tables.find_near_word(word) or word
    return word
