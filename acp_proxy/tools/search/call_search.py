"""Searches all transcripts for tool calls: which session and turn used a file, tool or command, with what result."""

import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from functools import cache

from acp_proxy.errors import Unreadable, errno_name
from acp_proxy.protocol import timestamps
from acp_proxy.sessions.command_store import CommandStore
from acp_proxy.store.index_database import Index
from acp_proxy.store.layout import Layout
from acp_proxy.store.store_index import Progress
from acp_proxy.tools.changes.edits import CallSummary
from acp_proxy.tools.search.call_table import CallTable, StoredCall, decode_call, read_calls
from acp_proxy.tools.search.fts_table import Addition, Excerpt, IndexedTranscript, Key, count_seconds
from acp_proxy.tools.search.search import (
    TRIES,
    Hit,
    SearchRequest,
    SearchResult,
    SeenHits,
    TableReplaced,
    TranscriptTables,
    search_store,
)
from acp_proxy.transcript.reader import TranscriptReader
from acp_proxy.transcript.titles import shorten_masks

_HOMES = r"(?:/home/[^/]+|/Users/[^/]+|/root|[A-Za-z]:[\\/]Users[\\/][^\\/]+)"
"""Where the homes of other machines and users are."""

_LONGEST_DESCRIPTION = 240
"""Characters that describe a turn's calls, as of an excerpt."""


@dataclass(frozen=True, slots=True)
class CallQuery:
    """Which calls to find: those to which all of this applies; an empty value applies to all.

    ``file``: an absolute path, of a file or a directory above it, or to which a link leads. Below the user's home, the
    same path below another home counts, too. ``tool``: its name, kind or title. ``command``: a part of the command.
    ``only_failed``: only failed ones. ``name``: of a file, or of a directory above it.
    """

    file: str = ""
    tool: str = ""
    command: str = ""
    only_failed: bool = False
    name: str = ""

    def make_test(self) -> Callable[[CallSummary], bool]:
        tool, command = self.tool.casefold(), self.command.casefold()
        has_path = make_path_test(self.file)

        def matches(call: CallSummary) -> bool:
            return (
                (not self.only_failed or call.result == "failed")
                and (not tool or tool in (call.name.casefold(), call.kind.casefold(), call.title.casefold()))
                and (not command or command in call.command.casefold())
                and (not self.file or any(has_path(path) for _, path in call.files))
                and (not self.name or any(self.name in re.split(r"[\\/]", path) for _, path in call.files))
            )

        return matches


FoundCalls = dict[Key, dict[int, tuple[str, list[CallSummary]]]]
"""By transcript and turn: when the turn began, and its calls."""


def search_calls(
    store: CommandStore, request: SearchRequest, query: CallQuery, progress: Progress = lambda done, total: None
) -> tuple[SearchResult, FoundCalls]:
    """The newest sessions with turns in which calls match, and the words of the request, if it has any.

    Raises as ``search_store``.
    """
    matches, has_words = query.make_test(), bool(request.fts_query)
    calls, hits = store.store_index.query(
        lambda index: _search(store.layout, index, request, matches, progress, lists_hits=not has_words),
        *request.agent_folders,
    )
    if has_words:
        all_hits = search_store(store, replace(request, limit=None, excerpts_per_session=0), progress)
        hits = [narrowed for hit in all_hits.hits if (narrowed := _narrow_hit(hit, calls, request)) is not None]
    hits.sort(key=lambda hit: hit.last_match_at, reverse=True)
    shown_hits = hits[: request.limit]
    return SearchResult(shown_hits, is_all=len(shown_hits) == len(hits)), calls


def find_calls(
    store: CommandStore,
    agent_folders: Sequence[str],
    matches: Callable[[CallSummary], bool],
    progress: Progress = lambda done, total: None,
) -> FoundCalls:
    """The calls that match in all transcripts of these agents. Raises as ``search_store``."""
    request = SearchRequest("", agent_folders)
    calls, _ = store.store_index.query(
        lambda index: _search(store.layout, index, request, matches, progress, lists_hits=False), *agent_folders
    )
    return calls


def list_tools(store: CommandStore, agent_folders: Sequence[str]) -> list[str]:
    """The tools that were called, as ``CallQuery.tool`` names them, the most used first. Raises as ``search_store``."""
    found = find_calls(store, agent_folders, lambda call: True)
    all_calls = [call for by_turn in found.values() for _, calls in by_turn.values() for call in calls]
    counts = Counter(word for call in all_calls for word in {call.name, call.kind} if word)
    return sorted(counts, key=lambda name: (-counts[name], name))


class _CallTables(TranscriptTables[StoredCall, CallTable]):
    def __init__(self, layout: Layout, index: Index, stack: ExitStack) -> None:
        super().__init__(layout, index, stack, CallTable)

    def list_calls(self) -> list[tuple[Key, StoredCall]]:
        """All calls. Raises as ``TranscriptTables``."""
        calls: list[tuple[Key, StoredCall]] = []
        for digit, table in self._by_digit.items():
            with self._replace_broken(digit):
                calls += table.list_calls()
        return calls

    def _read(
        self, key: Key, table_state: IndexedTranscript | None, reader: TranscriptReader
    ) -> Addition[StoredCall] | None:
        return read_calls(key, table_state, reader)


def _search(
    layout: Layout,
    index: Index,
    request: SearchRequest,
    is_match: Callable[[CallSummary], bool],
    progress: Progress,
    *,
    lists_hits: bool,
) -> tuple[FoundCalls, list[Hit]]:
    """Bring the tables of calls up to date. Returns the calls that match; and if ``lists_hits``, their sessions."""
    if not request.agent_folders:  # do not create tables
        return {}, []
    for _ in range(TRIES):
        with ExitStack() as stack, suppress(TableReplaced):
            try:
                tables = _CallTables(layout, index, stack)
                for _ in tables.update(request.agent_folders, progress):
                    pass
                calls: FoundCalls = {}
                for key, stored in tables.list_calls():
                    if key[0] in request.agent_folders and is_match(call := decode_call(stored.text)):
                        calls.setdefault(key, {}).setdefault(stored.turn, (stored.turn_started_at, []))[1].append(call)
                return calls, _list_hits(tables, calls, request) if lists_hits else []
            except OSError as problem:
                raise Unreadable(errno_name(problem)) from problem
    raise Unreadable("EBUSY")


def _narrow_hit(hit: Hit, calls: FoundCalls, request: SearchRequest) -> Hit | None:
    """The hit with only the turns in which calls match; None: there are none."""
    calls_by_turn = calls.get((hit.row.agent_folder, hit.row.name), {})
    turns = [turn for turn in hit.turns if turn in calls_by_turn]
    if not turns:
        return None
    excerpts = [excerpt for excerpt in hit.excerpts if excerpt.turn in calls_by_turn]
    return replace(
        hit,
        last_match_at=calls_by_turn[turns[-1]][0],
        turns=turns,
        excerpts=excerpts[: request.excerpts_per_session or None],
    )


def _list_hits(tables: _CallTables, calls: FoundCalls, request: SearchRequest) -> list[Hit]:
    """The sessions of these calls; of a session and its copy, the original."""
    allowed_keys = tables.find_keys_in_scope(request)
    rows = [
        (row, turns_in_range)
        for key, by_turn in calls.items()
        if (allowed_keys is None or key in allowed_keys)
        and (
            turns_in_range := {
                turn: dated_calls for turn, dated_calls in by_turn.items() if _is_between(dated_calls[0], request)
            }
        )
        and (row := tables.find_row(key)) is not None
        and row.prompt_count
    ]
    hits, seen = list[Hit](), SeenHits()
    for row, by_turn in sorted(rows, key=lambda row_and_turns: row_and_turns[0].copy_of is not None):
        excerpts = [Excerpt(turn, stamp, _describe(turn_calls), []) for turn, (stamp, turn_calls) in by_turn.items()]
        excerpts.sort(key=lambda excerpt: excerpt.turn)
        turns = [excerpt.turn for excerpt in excerpts if excerpt.turn]
        hit = Hit(row, max(excerpt.stamp for excerpt in excerpts), turns, excerpts)
        if not seen.has(hit, {count_seconds(excerpt.stamp) for excerpt in excerpts}):
            hits.append(replace(hit, excerpts=excerpts[: request.excerpts_per_session or None]))
    return hits


def _is_between(stamp: str, request: SearchRequest) -> bool:
    since, until = (timestamps.normalize(bound or "") for bound in (request.since, request.until))
    return (since is None or stamp >= since) and (until is None or stamp < until)


def _describe(calls: Sequence[CallSummary]) -> str:
    """Calls in a line: the commands or files, and the results of those that are not completed."""
    texts = []
    for call in calls:
        files = ", ".join(f"{action} {path}" for action, path in call.files)
        text = " ".join((call.command or files or call.title).split())
        texts.append(text if call.result == "completed" else f"{text} ({call.result})")
    text_of_all = shorten_masks("; ".join(texts))
    return text_of_all if len(text_of_all) <= _LONGEST_DESCRIPTION else f"{text_of_all[: _LONGEST_DESCRIPTION - 1]}…"


def make_path_test(file: str) -> Callable[[str], bool]:
    """A function that says whether a path is ``file``, or below it, here or below another home (``CallQuery.file``).
    A link to it is it, too."""
    pattern = re.escape(file.rstrip("/\\")) if file else ""
    try:
        relative = os.path.relpath(file, os.path.expanduser("~")) if file else ""
    except ValueError:  # another drive of Windows
        relative = ".."
    if file and not relative.startswith("..") and relative != ".":
        pattern = rf"(?:{pattern}|{_HOMES}[\\/]{re.escape(relative)})"
    # Agents write the letter of a drive in either case.
    flags = re.DOTALL | re.IGNORECASE if sys.platform == "win32" else re.DOTALL
    pattern_of_path = re.compile(rf"{pattern}(?:[\\/].*)?", flags)
    real = os.path.realpath(file)

    @cache
    def is_at(path: str) -> bool:
        if pattern_of_path.fullmatch(path) is not None:
            return True
        return os.path.islink(path) and os.path.realpath(path) == real  # only a link is resolved: that takes longer

    return is_at
