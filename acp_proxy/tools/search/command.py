"""``acp-proxy search``: find the conversation with these words."""

import os
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from acp_proxy.cli import session_filter
from acp_proxy.cli.choose_session import explain_empty_list, shorten_ids
from acp_proxy.cli.confirm import INTERRUPTED
from acp_proxy.cli.next_command import format_command, repeat_agent_option, repeat_options, repeat_store_option
from acp_proxy.cli.open_store import open_store
from acp_proxy.cli.pager import Screen, find_screen, open_pager
from acp_proxy.cli.progress import PATIENCE_SECONDS, ProgressBar, begin_progress
from acp_proxy.cli.report_errors import print_failures, print_on_stderr, report_errors, report_wrong_usage
from acp_proxy.cli.session_filter import (
    BranchOption,
    CwdOption,
    HereOption,
    TurnsSinceOption,
    TurnsUntilOption,
    explain_no_match,
    make_filter,
)
from acp_proxy.cli.shared_options import AgentOption, StoreOption
from acp_proxy.errors import DISK_FULL, AcpProxyError, Unreadable, UsageError
from acp_proxy.sessions.command_store import CommandStore
from acp_proxy.tools.search.query import TurnPart
from acp_proxy.tools.search.search import search_store
from acp_proxy.views import sanitize

if TYPE_CHECKING:  # imported late: no other command needs them
    from acp_proxy.tools.search.attempts import Alternatives, Attempt
    from acp_proxy.tools.search.call_search import FoundCalls
    from acp_proxy.tools.search.search import Hit, SearchRequest

_MOST_TOOLS = 15
"""Tools that are listed for one that nobody has called."""
_PART_OPTIONS = ("parts",)
_PARTS_OF_CALLS = (TurnPart.TOOLS, TurnPart.OUTPUT)
_CALL_OPTIONS = ("file", "tool", "command", "failed")
_REPEATED_OPTIONS = ("store", *session_filter.FILTER_PARAMETERS, *_CALL_OPTIONS)
"""The options that another search repeats."""


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
    nothing has the words, words that begin with them are searched, then words in different turns (not shown with
    --json). --file, --tool, --command and --failed need no words: one tool call must be all of them. Without a
    terminal, each line has id, turn, title, agent, directory, time and text, separated by tabs. The exit status is 1 if
    nothing matches.
    """
    from acp_proxy.tools.search.attempts import Alternatives, Attempt, Found, find_alternatives, list_attempts
    from acp_proxy.tools.search.call_search import CallQuery, search_calls
    from acp_proxy.tools.search.query import close_quotes
    from acp_proxy.tools.search.query import make_query as make_fts_query
    from acp_proxy.tools.search.search import SearchRequest

    words_given, words = words or [], close_quotes(words or [])
    wants_calls = bool(file or tool or command or failed)
    with report_wrong_usage():
        if parts and not words and wants_calls:
            raise UsageError("--in says where words are looked for. Give words, or leave --in out.")
        fts_query = make_fts_query(words) if words or parts or not wants_calls else ""
    with report_errors():
        row_filter = make_filter(agent, cwd, here, since, until, branch)
        opened_store = open_store(store)
        target, options = find_screen(), repeat_store_option(context, store)
        request = SearchRequest(
            fts_query,
            opened_store.list_agents(row_filter.agent),
            row_filter.cwd,
            row_filter.since or None,
            limit,
            excerpts_per_session=3 if target.is_terminal and not as_json else 0,
            until=row_filter.until or None,
            includes_below=row_filter.includes_below,
            branch=row_filter.branch,
            parts=tuple(dict.fromkeys(parts or ())),
        )
        calls = CallQuery(os.path.abspath(file) if file else "", tool, command, failed) if wants_calls else None
        attempts = list_attempts(request, words, calls, file)

        def run(attempt: Attempt, *reports: Any) -> Found:
            if attempt.calls is None:
                return Found(attempt, search_store(opened_store, attempt.request, *(reports or (bar,))))
            return Found(attempt, *search_calls(opened_store, attempt.request, attempt.calls, bar))

        def show(hits: "list[Hit]") -> None:
            sys.stdout.writelines(_format_hits(open_store(store), hits, target, options))
            sys.stdout.flush()

        with (
            _handle_interrupt(opened_store),
            _explain_full_disk(opened_store),
            begin_progress("Reading new transcripts", PATIENCE_SECONDS) as bar,
        ):
            early_hits = _EarlyHits(bar, show)
            shows_early = target.is_terminal and not as_json
            found = run(attempts[0], *((early_hits.report_progress, early_hits.report_hit) if shows_early else ()))
            if found.result.hits:
                alternatives = Alternatives()
            else:
                unfiltered_folders = opened_store.list_agents() if row_filter.is_narrow else None
                alternatives = find_alternatives(attempts, run, unfiltered_folders, only_as_asked=as_json)
        explanation = ""
        if alternatives.near is not None and not as_json:  # programs get what they asked for
            found = alternatives.near
            explanation = sanitize.make_line(found.attempt.explanation)
            if not target.is_terminal:
                print_on_stderr(explanation)
        hits = found.result.hits
        if as_json:
            typer.echo(sanitize.format_json([_encode_hit(hit, found.calls) for hit in hits], indent=2))
        elif early_hits.has_shown:
            show(early_hits.unshown)
        elif hits:
            with open_pager(target) as write:
                if explanation and target.is_terminal:
                    write(f"{explanation}\n\n")
                for text in _format_hits(opened_store, hits, target, options):
                    write(text)
        if not hits:
            asked = _Asked(context, words_given, words, store, agent, parts or [], as_json)
            print_on_stderr(_explain_nothing(opened_store, asked, attempts, alternatives))
        print_failures("not searched", opened_store.list_unreadable(agent))
        if not hits:
            raise typer.Exit(1)
        if not found.result.is_all and not as_json:
            count_text = "There is more than 1 session." if limit == 1 else f"There are more than {limit} sessions."
            print_on_stderr(f"{count_text} To see more: -n {2 * limit}. Or give more words.")


def _encode_hit(hit: "Hit", calls: "FoundCalls | None") -> dict[str, object]:
    from acp_proxy.tools.search import results

    if calls is None:
        return results.encode_hit(hit)
    by_turn = calls[hit.row.agent_folder, hit.row.name]
    return results.encode_hit(hit, {turn: calls for turn, (_, calls) in by_turn.items()})


class _EarlyHits:
    """Shows results while transcripts are still read, if that takes more than a moment.

    ``unshown``: those that were not shown.
    """

    def __init__(self, bar: ProgressBar, show: "Callable[[list[Hit]], None]") -> None:
        self.unshown: list[Hit] = []
        self.has_shown = False
        self._bar = bar
        self._show = show
        self._seen_keys = set[tuple[str, str]]()

    def report_progress(self, done: int, total: int) -> None:
        self._bar(done, total)
        self._show_waiting()

    def report_hit(self, hit: "Hit") -> bool:
        key = hit.row.agent_folder, hit.row.name
        if key not in self._seen_keys:  # else the search began again
            self._seen_keys.add(key)
            self.unshown.append(hit)
            self._show_waiting()
        return True

    def _show_waiting(self) -> None:
        if self._bar.has_begun and self.unshown:
            self._bar.hide()
            self._show(self.unshown)
            self.unshown, self.has_shown = [], True


def _format_hits(store: CommandStore, hits: "list[Hit]", target: Screen, options: list[str]) -> Iterator[str]:
    from acp_proxy.tools.search import results
    from acp_proxy.views.session_lines import make_distinct_names

    if not target.is_terminal:
        for hit in hits:
            yield "".join(f"{text}\n" for text in results.format_lines(hit))
        return
    now, home = datetime.now().astimezone(), os.path.expanduser("~")
    agents = make_distinct_names(store.list_agents())
    look = results.SearchLook(target.width, target.is_formatted, target.has_colours, now, home, agents)
    ids = shorten_ids(store, [hit.row for hit in hits])
    for hit in hits:
        yield results.format_hit(hit, _format_show_command(store, hit, ids[hit.row.selector], options), look)


@dataclass(frozen=True, slots=True)
class _Asked:
    """The parameters of a search that another command line repeats. ``words``: ``given_words`` with quotes closed."""

    context: typer.Context
    given_words: list[str]
    words: list[str]
    store: str
    agent: str
    parts: list[TurnPart]
    as_json: bool

    def format_other(self, *words_after: str, without: Collection[str] = ()) -> str:
        """Another search for the same words, for the user to copy. ``without``: the parameters to leave out."""
        options = repeat_options(self.context, *(name for name in _REPEATED_OPTIONS if name not in without))
        return sanitize.make_line(format_command("search", self.words, *words_after, *options))


def _explain_nothing(
    store: CommandStore, asked: _Asked, attempts: "Sequence[Attempt]", alternatives: "Alternatives"
) -> str:
    """What to say if a search has found nothing."""
    if next(store.list_newest(asked.agent), None) is None:
        return explain_empty_list(store, is_narrow=bool(asked.agent), agent=asked.agent)
    if alternatives.near is not None:
        return "Nothing matches as it is. Without --json, what comes near is shown."
    if (left_out := alternatives.left_out) is not None:
        parameters = (
            *(session_filter.FILTER_PARAMETERS if left_out.is_filter else ()),
            *(_PART_OPTIONS if left_out.are_parts else ()),
        )
        repeated = [*_repeat_parts(() if left_out.are_parts else asked.parts), *(["--json"] if asked.as_json else [])]
        return explain_no_match(asked.context, asked.format_other(*repeated, without=parameters), parameters)
    return _explain_no_match_at_all(store, asked, attempts, alternatives.has_namesake)


def _explain_no_match_at_all(
    store: CommandStore, asked: _Asked, attempts: "Sequence[Attempt]", has_namesake: bool | None
) -> str:
    """``has_namesake``: whether another file of the same name matches; None: nobody has looked."""
    from acp_proxy.tools.search.call_search import list_tools
    from acp_proxy.tools.search.nearby import is_in_parts

    request, calls = attempts[0].request, attempts[0].calls
    is_for_people = calls is None and not asked.as_json
    in_calls = is_in_parts(store, attempts[-1].request, _PARTS_OF_CALLS) if is_for_people and not asked.parts else None
    path, options = calls.file if calls is not None else "", repeat_options(asked.context, *_REPEATED_OPTIONS)
    text = _explain_no_hits(asked.words, path, asked.parts, options, in_calls=in_calls, has_namesake=has_namesake)
    if has_namesake:
        name_option = ["--file", os.path.basename(path), *_repeat_parts(asked.parts)]
        other_command = asked.format_other(*name_option, without=("file",))
        text = f"{text}\nFor others of that name, wherever they are: {other_command}"
    if calls is not None and calls.tool and not asked.words:
        tools = list_tools(store, request.agent_folders)
        if calls.tool.casefold() not in map(str.casefold, tools):
            text = f"{text}\nTools that were called: {sanitize.make_line(', '.join(tools[:_MOST_TOOLS]))}"
    if asked.words != asked.given_words:
        text = f"A quote is not closed. Searched: {sanitize.make_line(' '.join(asked.words))}\n{text}"
    if asked.words and is_for_people:
        first_line, *other_lines = text.split("\n")
        store_option = repeat_store_option(asked.context, asked.store)
        suggestion = _suggest_words(store, request, asked.words, options, store_option)
        text = "\n".join(filter(None, [first_line, suggestion, *other_lines]))
    return text


def _explain_no_hits(
    words: list[str],
    path: str,
    parts: list[TurnPart],
    options: list[str],
    *,
    in_calls: bool | None,
    has_namesake: bool | None,
) -> str:
    """What to do if nothing is found. ``path``: that of --file. ``options``: those of the command. ``in_calls``:
    whether tool calls have it; ``has_namesake``: whether another file of that name matches; None: nobody has looked."""
    from acp_proxy.tools.search.query import widen_query

    single_words = " ".join(words).split()
    shown_path = sanitize.make_line(path)
    if not single_words:
        more_text = ", nor on another of that name" if has_namesake is False else ""
        narrowing_options = [word for word in options if word.startswith("--") and word != "--store"]
        advice = " Try fewer options." if len(narrowing_options) > 1 else ""
        return f"No tool call{f' on {shown_path}' if path else ''} matches{more_text}.{advice}"
    text = "Nothing matches"
    if widen_query(words) is not None:
        text += ", not even as the beginning of a word"
    if in_calls is False:
        text += ", nor in what tools did or printed"
    text += f" (--file is {shown_path})." if path else "."
    if len(single_words) > 1:
        text += " Try fewer words."
    if parts or in_calls is False:
        return text
    other_command = sanitize.make_line(format_command("search", words, *_repeat_parts(_PARTS_OF_CALLS), *options))
    reason = "A tool did or printed it" if in_calls else "To search what tools did and printed"
    return f"{text}\n{reason}: {other_command}"


def _suggest_words(
    store: CommandStore, request: "SearchRequest", words: list[str], options: list[str], store_option: list[str]
) -> str:
    """A line about what the user may have meant; empty if nothing is near. ``options``: for another search;
    ``store_option``: for any command."""
    from acp_proxy.tools.search.nearby import correct_words, explain_operators, find_by_id

    single_words = " ".join(words).split()
    if operators := explain_operators(single_words):
        return operators
    if rows := find_by_id(store, single_words):
        id_kind, command = (
            ("the id of a session", "show") if len(rows) == 1 else ("the beginning of several ids", "list")
        )
        return f"This is {id_kind}: {sanitize.make_line(format_command(command, single_words, *store_option))}"
    corrected = correct_words(store, request, single_words)
    repeated = [*_repeat_parts(request.parts), *options]
    return (
        f"Did you mean: {sanitize.make_line(format_command('search', corrected, *repeated))}"
        if corrected is not None
        else ""
    )


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
        if problem.name not in DISK_FULL:
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
        hint = " The next search continues where this one stopped." if store.read_only_reason is None else ""
        typer.echo(f"Interrupted.{hint}", err=True)
        raise typer.Exit(INTERRUPTED) from None
