"""``acp-proxy search``: find the conversation with these words."""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from acp_proxy.cli import session_filter
from acp_proxy.cli.common import (
    INTERRUPTED,
    AgentOption,
    StoreOption,
    format_command,
    open_store,
    print_on_stderr,
    repeat_agent_option,
    repeat_options,
    repeat_store_option,
    report_errors,
    report_wrong_usage,
    shorten_ids,
)
from acp_proxy.cli.list import explain_empty_list
from acp_proxy.cli.pager import Screen, find_screen, open_pager
from acp_proxy.cli.progress import PATIENCE_SECONDS, ProgressBar, begin_progress
from acp_proxy.cli.session_filter import (
    BranchOption,
    CwdOption,
    HereOption,
    TurnsSinceOption,
    TurnsUntilOption,
    explain_no_match,
    make_filter,
)
from acp_proxy.errors import AcpProxyError, Unreadable
from acp_proxy.store.command_store import CommandStore
from acp_proxy.tools.search.query import TurnPart
from acp_proxy.tools.search.search import search_store
from acp_proxy.views import sanitize

if TYPE_CHECKING:  # imported late: no other command needs them
    from acp_proxy.tools.search.call_search import CallQuery, FoundCalls
    from acp_proxy.tools.search.search import Hit, SearchRequest, SearchResult

_NO_ROOM = ("ENOSPC", "EDQUOT")
_PARTS = ("parts",)
_OF_CALLS = ("file", "tool", "command", "failed")
_NARROWING = ("store", *session_filter.FILTER_PARAMETERS, *_OF_CALLS)
"""The options that another search repeats."""
_WITHOUT_FILTER: dict[str, Any] = {"cwd": None, "below": False, "since": None, "until": None, "branch": "", "limit": 1}
_NO_CALL = "No tool call matches. Try fewer options."


def search(
    context: typer.Context,
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="[WORDS...]", help='Words, "a phrase", or the beginning of a word: begin*'),
    ] = None,
    store: StoreOption = "",
    agent: AgentOption = "",
    cwd: CwdOption = "",
    here: HereOption = False,
    since: TurnsSinceOption = "",
    until: TurnsUntilOption = "",
    branch: BranchOption = "",
    parts: Annotated[
        list[TurnPart] | None,
        typer.Option(
            "--in", metavar="PART", help="Only this part of the turns: user, agent, tools, output. Repeatable."
        ),
    ] = None,
    file: Annotated[
        str, typer.Option("--file", metavar="PATH", help="Only turns with a tool call on this file or directory.")
    ] = "",
    tool: Annotated[
        str, typer.Option("--tool", metavar="NAME", help="Only turns with a call of this tool: its name or kind.")
    ] = "",
    command: Annotated[
        str, typer.Option("--command", metavar="TEXT", help="Only turns with a command that contains this text.")
    ] = "",
    failed: Annotated[bool, typer.Option("--failed", help="Only turns with a tool call that failed.")] = False,
    limit: Annotated[
        int, typer.Option("--limit", "-n", metavar="N", min=1, help="Show at most N sessions, newest first.")
    ] = 10,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
) -> None:
    """Find the turns that contain all of these words.

    Example: acp-proxy search login "session cookie" --since 30d
    Example: acp-proxy search ImportError --in output
    Example: acp-proxy search --failed --here

    It looks in what you and the agent said, thoughts, plans, titles, and why a call failed, in any order, whatever the
    case and accents; --in looks in one part alone, also in what tools printed. An argument with spaces is a phrase. If
    nothing has the words, words that begin with them are searched, then words in different turns (not with --json).
    --file, --tool, --command and --failed need no words: one tool call must be all of them. Without a terminal, each
    line has id, turn, title, agent, directory, time and text, separated by tabs. The exit status is 1 if nothing
    matches.
    """
    from acp_proxy.tools.search.call_search import CallQuery, search_calls
    from acp_proxy.tools.search.nearby import is_printed, list_near_searches
    from acp_proxy.tools.search.query import close_quotes
    from acp_proxy.tools.search.query import make_query as asked
    from acp_proxy.tools.search.search import SearchRequest

    words_given, words = words or [], close_quotes(words or [])
    wants_calls = bool(file or tool or command or failed)
    with report_wrong_usage():
        fts_query = asked(words) if words or parts or not wants_calls else ""
    with report_errors():
        wanted = make_filter(agent, cwd, here, since, until, branch)
        opened = open_store(store)
        target, options = find_screen(), repeat_store_option(context, store)
        request = SearchRequest(
            fts_query,
            opened.list_agents(wanted.agent),
            wanted.cwd,
            wanted.since or None,
            limit,
            excerpts_per_session=3 if target.is_terminal and not as_json else 0,
            until=wanted.until or None,
            below=wanted.below,
            branch=wanted.branch,
            parts=tuple(dict.fromkeys(parts or ())),
        )

        path = os.path.abspath(file) if file else ""
        calls = CallQuery(path, tool, command, failed)
        tries = [_Try(request, calls)]
        if (name := file.rstrip("/\\")) and os.path.basename(name) == name and name not in (".", ".."):
            about = f"No call on {path}; these are on another of that name:"
            tries.append(_Try(request, replace(calls, file="", name=name), about))
        tries += [
            _Try(near.request, calls, near.about)
            for near in (list_near_searches(request, words) if fts_query else ())
            if not (wants_calls and near.request.session_queries)  # a turn has the words and the call
        ]

        def look_up(wanted: _Try, *reports: Any) -> "tuple[SearchResult, FoundCalls | None]":
            if wants_calls:
                return search_calls(opened, wanted.request, wanted.calls, bar)
            return search_store(opened, wanted.request, *reports), None

        def show(hits: "list[Hit]") -> None:
            sys.stdout.writelines(_format_hits(open_store(store), hits, target, options))
            sys.stdout.flush()

        with (
            _handle_interrupt(opened),
            _explain_full_disk(opened),
            begin_progress("Reading new transcripts", PATIENCE_SECONDS) as bar,
        ):
            early = _EarlyHits(bar, show)
            by_early = (early.report_progress, early.report_hit) if target.is_terminal and not as_json else (bar,)
            result, matching_calls = look_up(tries[0], *by_early)
            about = ""
            for near in [] if result.hits else tries[1:]:
                nearby = look_up(near, bar)
                if nearby[0].hits:
                    about = near.about
                    break
            left_out: Sequence[str] = ()  # the parameters without which something matches
            if not (result.hits or about):
                everywhere = {**_WITHOUT_FILTER, "agents": opened.list_agents()} if wanted.is_narrow else {}
                whole = {"parts": ()} if parts and fts_query else {}
                for parameters, changes in (
                    (session_filter.FILTER_PARAMETERS, everywhere),
                    (_PARTS, whole),
                    (
                        (*session_filter.FILTER_PARAMETERS, *_PARTS),
                        {**everywhere, **whole} if everywhere and whole else {},
                    ),
                ):
                    without = [replace(each, request=replace(each.request, **changes)) for each in tries]
                    if changes and any(look_up(each, bar)[0].hits for each in (without[:1] if as_json else without)):
                        left_out = parameters
                        break
        if about and not as_json:  # programs get what they asked for
            result, matching_calls = nearby
            if not target.is_terminal:
                print_on_stderr(sanitize.make_line(about))
        if as_json:
            typer.echo(sanitize.format_json([_encode(hit, matching_calls) for hit in result.hits], indent=2))
        elif early.has_shown:
            show(early.waiting)
        elif result.hits:
            with open_pager(target) as say:
                if about and target.is_terminal:
                    say(f"{sanitize.make_line(about)}\n\n")
                for text in _format_hits(opened, result.hits, target, options):
                    say(text)
        if not result.hits:
            if next(opened.list_newest(agent), None) is None:
                text = explain_empty_list(opened, narrowed=bool(agent), agent=agent)
            elif about:
                text = "Nothing matches as it is. Without --json, what comes near is shown."
            elif left_out:
                kept_parts = () if set(_PARTS) <= set(left_out) else parts or ()
                kept = [*_repeat_parts(kept_parts), *(["--json"] if as_json else [])]
                others = repeat_options(context, *(name for name in _NARROWING if name not in left_out))
                command_text = sanitize.make_line(format_command("search", words, *kept, *others))
                text = explain_no_match(context, command_text, left_out)
            else:
                options = repeat_options(context, *_NARROWING)
                in_output = None if as_json or wants_calls or parts else is_printed(opened, tries[-1].request)
                text = _explain_no_hits(words, tries, path, parts, options, in_output=in_output)
                if words != words_given:
                    text = f"A quote is not closed. Searched: {sanitize.make_line(' '.join(words))}\n{text}"
                if words and not (wants_calls or as_json):
                    first, *rest = text.split("\n")
                    suggestion = _suggest_words(opened, request, words, options, repeat_store_option(context, store))
                    text = "\n".join(filter(None, [first, suggestion, *rest]))
            print_on_stderr(text)
            raise typer.Exit(1)
        if not result.is_all and not as_json:
            count_text = "There is more than 1 session." if limit == 1 else f"There are more than {limit} sessions."
            print_on_stderr(f"{count_text} To see more: -n {2 * limit}. Or give more words.")


def _encode(hit: "Hit", calls: "FoundCalls | None") -> dict[str, object]:
    from acp_proxy.tools.search import results

    if calls is None:
        return results.encode_hit(hit)
    by_turn = calls[hit.row.agent_folder, hit.row.name]
    return results.encode_hit(hit, {turn: calls for turn, (_, calls) in by_turn.items()})


class _EarlyHits:
    """Shows results while transcripts are still read, if that takes more than a moment.

    ``waiting``: those that were not shown.
    """

    def __init__(self, bar: ProgressBar, show: "Callable[[list[Hit]], None]") -> None:
        self.waiting: list[Hit] = []
        self.has_shown = False
        self._bar = bar
        self._show = show
        self._known = set[tuple[str, str]]()

    def report_progress(self, done: int, total: int) -> None:
        self._bar(done, total)
        self._show_waiting()

    def report_hit(self, hit: "Hit") -> bool:
        key = hit.row.agent_folder, hit.row.name
        if key not in self._known:  # else the search began again
            self._known.add(key)
            self.waiting.append(hit)
            self._show_waiting()
        return True

    def _show_waiting(self) -> None:
        if self._bar.has_begun and self.waiting:
            self._bar.hide()
            self._show(self.waiting)
            self.waiting, self.has_shown = [], True


def _format_hits(store: CommandStore, hits: "list[Hit]", target: Screen, options: list[str]) -> Iterator[str]:
    from acp_proxy.tools.search import results
    from acp_proxy.views.session_lines import name_agents

    if not target.is_terminal:
        for hit in hits:
            yield "".join(f"{text}\n" for text in results.format_lines(hit))
        return
    now, home = datetime.now().astimezone(), os.path.expanduser("~")
    agents = name_agents(store.list_agents())
    look = results.SearchLook(target.width, target.is_formatted, target.colours, now, home, agents)
    ids = shorten_ids(store, [hit.row for hit in hits])
    for hit in hits:
        yield results.format_hit(hit, _format_show_command(store, hit, ids[hit.row.selector], options), look)


@dataclass(frozen=True, slots=True)
class _Try:
    """A search. ``about``: how it differs from what was asked, if it does."""

    request: "SearchRequest"
    calls: "CallQuery"
    about: str = ""


def _explain_no_hits(
    words: list[str],
    tries: list[_Try],
    path: str,
    parts: list[TurnPart] | None,
    options: list[str],
    *,
    in_output: bool | None,
) -> str:
    """What to do if nothing is found by any of these. ``path``: that of --file. ``in_output``: whether tools printed
    it; None: nobody has looked."""
    from acp_proxy.tools.search.query import widen_query

    single = " ".join(words).split()
    place = sanitize.make_line(path)
    if not single:
        other = ", nor on another of that name" if len(tries) > 1 else ""
        return f"No tool call on {place} matches{other}. Try fewer options." if path else _NO_CALL
    text = "Nothing matches"
    if widen_query(words) is not None:
        text += ", not even as the beginning of a word"
    if in_output is False:
        text += ", nor in what tools printed"
    text += f" (--file is {place})." if path else "."
    if len(single) > 1:
        text += " Try fewer words."
    if parts or in_output is False:
        return text
    output = sanitize.make_line(format_command("search", words, "--in", "output", *options))
    return f"{text}\n{'A tool printed it' if in_output else 'To search what tools printed'}: {output}"


def _suggest_words(
    store: CommandStore, request: "SearchRequest", words: list[str], options: list[str], of_store: list[str]
) -> str:
    """A line about what the user may have meant; empty if nothing is near. ``options``: for another search;
    ``of_store``: for any command."""
    from acp_proxy.tools.search.nearby import correct_words, explain_operators, find_by_id

    single = " ".join(words).split()
    if operators := explain_operators(single):
        return operators
    if rows := find_by_id(store, single):
        name, other = ("the id of a session", "show") if len(rows) == 1 else ("the beginning of several ids", "list")
        return f"This is {name}: {sanitize.make_line(format_command(other, single, *of_store))}"
    near = correct_words(store, request, single)
    kept = [*_repeat_parts(request.parts), *options]
    return f"Did you mean: {sanitize.make_line(format_command('search', near, *kept))}" if near is not None else ""


def _repeat_parts(parts: Sequence[TurnPart]) -> list[str]:
    return [word for part in parts for word in ("--in", part)]


def _format_show_command(store: CommandStore, hit: "Hit", id: str, options: list[str]) -> str:
    """The command that shows this result, for the user to copy."""
    row = hit.row
    turn = ["--turn", str(hit.turns[0])] if hit.turns else []
    of_agent = repeat_agent_option(store, row.agent_folder, row.session_id)
    return format_command("show", [id], *turn, *of_agent, *options)


@contextmanager
def _explain_full_disk(store: CommandStore) -> Iterator[None]:
    """Explain a full disk: sessions can still be read, only the search cannot. Raises AcpProxyError."""
    try:
        yield
    except Unreadable as problem:
        if problem.name not in _NO_ROOM:
            raise
        raise AcpProxyError(
            f"the disk of {store.root} is too full for the search tables. Free some space and search again; "
            "list and show work without them."
        ) from problem


@contextmanager
def _handle_interrupt(store: CommandStore) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        kept = " The next search continues where this one stopped." if store.read_only_reason is None else ""
        typer.echo(f"Interrupted.{kept}", err=True)
        raise typer.Exit(INTERRUPTED) from None
