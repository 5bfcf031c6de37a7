"""What a search tries if nothing is as the user asked, and with what result."""

import os
from collections.abc import Callable
from typing import Any

import pytest

from acp_proxy.tools.search.attempts import (
    Alternatives,
    Attempt,
    Found,
    LeftOut,
    Run,
    find_alternatives,
    list_attempts,
)
from acp_proxy.tools.search.call_search import CallQuery
from acp_proxy.tools.search.query import TurnPart, make_query
from acp_proxy.tools.search.search import SearchRequest, SearchResult

ALL_AGENTS = ["one", "two"]


def request_for(*words: str, **changes: Any) -> SearchRequest:
    return SearchRequest(make_query(words) if words else "", ["one"], **changes)


def run_with_hits_if(matches: Callable[[Attempt], bool]) -> Run:
    """Runs attempts: those that match find a session."""
    some_hits: Any = ["a hit"]
    return lambda attempt: Found(attempt, SearchResult(some_hits if matches(attempt) else [], is_all=True))


def test_what_was_asked_is_tried_first_and_beginnings_of_words_next() -> None:
    first, second, *_ = list_attempts(request_for("log"), ["log"])
    assert (first.request.fts_query, first.explanation) == (make_query(["log"]), "")
    assert second.request.fts_query == make_query(["log*"])
    assert second.explanation


@pytest.mark.parametrize(
    ("given_file", "is_name"), [("a.py", True), ("dir/", True), ("src/a.py", False), ("..", False)]
)
def test_a_file_given_by_its_name_alone_is_tried_anywhere(given_file: str, is_name: bool) -> None:
    attempts = list_attempts(request_for(), [], CallQuery(os.path.abspath(given_file)), given_file)
    assert [attempt.calls and attempt.calls.name for attempt in attempts[1:]] == [given_file.rstrip("/")] * is_name


def test_words_in_different_turns_are_not_tried_with_calls() -> None:
    words = ["one", "two"]
    attempts = list_attempts(request_for(*words), words)
    with_calls = list_attempts(request_for(*words), words, CallQuery(tool="Bash"))
    assert any(attempt.request.session_queries for attempt in attempts)
    assert not any(attempt.request.session_queries for attempt in with_calls)


def test_what_comes_near_counts_before_fewer_options() -> None:
    attempts = list_attempts(request_for("log", cwd="/work"), ["log"])
    run = run_with_hits_if(lambda attempt: attempt != attempts[0])
    assert find_alternatives(attempts, run, ALL_AGENTS) == Alternatives(run(attempts[1]))


@pytest.mark.parametrize(
    ("hiding", "left_out"),
    [
        ({"cwd"}, LeftOut(is_filter=True, are_parts=False)),
        ({"parts"}, LeftOut(is_filter=False, are_parts=True)),
        ({"cwd", "parts"}, LeftOut(is_filter=True, are_parts=True)),
        ({"fts_query"}, None),
    ],
)
def test_no_more_options_are_left_out_than_hide_something(hiding: set[str], left_out: LeftOut | None) -> None:
    attempts = list_attempts(request_for("log", cwd="/work", parts=(TurnPart.USER,)), ["log"])
    run = run_with_hits_if(lambda attempt: not any(getattr(attempt.request, name) for name in hiding))
    assert find_alternatives(attempts, run, ALL_AGENTS) == Alternatives(left_out=left_out)


def test_an_option_that_was_not_given_is_not_left_out() -> None:
    attempts = list_attempts(request_for("log", cwd="/work"), ["log"])
    run = run_with_hits_if(lambda attempt: attempt.request.cwd is None)
    assert find_alternatives(attempts, run, None) == Alternatives()


def test_only_what_was_asked_is_tried_with_fewer_options_for_programs() -> None:
    attempts = list_attempts(request_for("log", cwd="/work"), ["log"])
    run = run_with_hits_if(lambda attempt: attempt.request.cwd is None and bool(attempt.explanation))
    assert find_alternatives(attempts, run, ALL_AGENTS).left_out == LeftOut(is_filter=True, are_parts=False)
    assert find_alternatives(attempts, run, ALL_AGENTS, only_as_asked=True) == Alternatives()


@pytest.mark.parametrize("has_namesake", [True, False])
def test_another_file_of_that_name_is_looked_for_last(has_namesake: bool) -> None:
    attempts = list_attempts(request_for(), [], CallQuery("/work/src/a.py"), "src/a.py")
    run = run_with_hits_if(lambda attempt: has_namesake and attempt.calls == CallQuery(name="a.py"))
    assert find_alternatives(attempts, run, None) == Alternatives(has_namesake=has_namesake)
