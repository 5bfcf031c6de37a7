"""What a search tries, one after the other, if nothing is as the user asked: what comes near, then the same with fewer
options. Nothing here prints."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from acp_proxy.tools.search.call_search import CallQuery, FoundCalls
from acp_proxy.tools.search.nearby import list_near_searches
from acp_proxy.tools.search.search import SearchRequest, SearchResult

_UNFILTERED: dict[str, Any] = {
    "cwd": None,
    "includes_below": False,
    "since": None,
    "until": None,
    "branch": "",
}


@dataclass(frozen=True, slots=True)
class Attempt:
    """A search. ``calls``: None if it is for words alone. ``explanation``: how it differs from what was asked, if it
    does."""

    request: SearchRequest
    calls: CallQuery | None = None
    explanation: str = ""


@dataclass(frozen=True, slots=True)
class Found:
    """What an attempt has found. ``calls``: None if it was for words alone."""

    attempt: Attempt
    result: SearchResult
    calls: FoundCalls | None = None


Run = Callable[[Attempt], Found]


@dataclass(frozen=True, slots=True)
class LeftOut:
    """The options without which something is found. ``is_filter``: those that choose the sessions. ``are_parts``: those
    that choose the parts of the turns."""

    is_filter: bool
    are_parts: bool


@dataclass(frozen=True, slots=True)
class Alternatives:
    """What there is in place of what was asked. ``near``: what comes near it. ``left_out``: if nothing does, the
    options that hide what would match. ``has_namesake``: if none hides anything, whether calls on another file of that
    name match; None: nobody has looked."""

    near: Found | None = None
    left_out: LeftOut | None = None
    has_namesake: bool | None = None


def list_attempts(
    request: SearchRequest, words: Sequence[str], calls: CallQuery | None = None, given_file: str = ""
) -> list[Attempt]:
    """What was asked, then what comes near it, in the order in which to try.

    ``words``: those of ``request``. ``given_file``: the file of ``calls`` as the user typed it.
    """
    attempts, name = [Attempt(request, calls)], given_file.rstrip("/\\")
    if calls is not None and name not in ("", ".", "..") and os.path.basename(name) == name:
        explanation = f"No call on {calls.file}; these are on another of that name:"
        attempts.append(Attempt(request, _name_file(calls, name), explanation))
    attempts += [
        Attempt(near_search.request, calls, near_search.about)
        for near_search in (list_near_searches(request, words) if request.fts_query else ())
        if calls is None or not near_search.request.session_queries  # a turn has the words and the call
    ]
    return attempts


def find_alternatives(
    attempts: Sequence[Attempt], run: Run, unfiltered_folders: Sequence[str] | None, *, only_as_asked: bool = False
) -> Alternatives:
    """What there is if the first attempt has found nothing. Raises as ``run``.

    ``unfiltered_folders``: the agents' folders to search without the options that choose the sessions; None if none was
    given. ``only_as_asked``: with fewer options, try only what was asked, not also what comes near.
    """
    near = next((found for attempt in attempts[1:] if (found := run(attempt)).result.hits), None)
    if near is not None:
        return Alternatives(near)
    left_out = _find_left_out(attempts[:1] if only_as_asked else attempts, run, unfiltered_folders)
    asked = attempts[0]
    if left_out is not None or only_as_asked or asked.calls is None or not (name := os.path.basename(asked.calls.file)):
        return Alternatives(left_out=left_out)
    namesake = replace(asked, calls=_name_file(asked.calls, name))
    return Alternatives(has_namesake=bool(run(namesake).result.hits))


def _find_left_out(attempts: Sequence[Attempt], run: Run, unfiltered_folders: Sequence[str] | None) -> LeftOut | None:
    """The fewest options without which one of the attempts finds something."""
    request = attempts[0].request
    has_filter, has_parts = unfiltered_folders is not None, bool(request.parts and request.fts_query)
    for is_filter, are_parts in ((True, False), (False, True), (True, True)):
        if is_filter > has_filter or are_parts > has_parts:
            continue
        changes = {**_UNFILTERED, "agent_folders": unfiltered_folders} if is_filter else {}
        changes |= {"parts": ()} if are_parts else {}
        # One session is enough.
        wider = (replace(attempt, request=replace(attempt.request, limit=1, **changes)) for attempt in attempts)
        if any(run(attempt).result.hits for attempt in wider):
            return LeftOut(is_filter, are_parts)
    return None


def _name_file(calls: CallQuery, name: str) -> CallQuery:
    """The same calls, on any file of a name."""
    return replace(calls, file="", name=name)
