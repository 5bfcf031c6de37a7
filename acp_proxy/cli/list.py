"""``acp-proxy list``: list the recorded sessions, newest first."""

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from textwrap import indent
from typing import Annotated, Any, Literal

import typer
from msgspec import structs

from acp_proxy.cli.choose_session import explain_empty_list, explain_unknown_agent
from acp_proxy.cli.next_command import format_command, repeat_options
from acp_proxy.cli.open_store import open_store
from acp_proxy.cli.pager import find_screen, open_pager
from acp_proxy.cli.report_errors import print_failures, report_errors
from acp_proxy.cli.session_filter import (
    FILTER_PARAMETERS,
    BranchOption,
    CwdOption,
    HereOption,
    SessionFilter,
    SinceOption,
    UntilOption,
    explain_no_match,
    make_filter,
)
from acp_proxy.cli.session_rows import ROWS_PER_BLOCK, show_rows
from acp_proxy.cli.shared_options import AgentOption, StoreOption
from acp_proxy.cli.wrapping import fit_to_stream
from acp_proxy.sessions.command_store import CommandStore, TokensAndCost
from acp_proxy.store.index_database import ListedSession
from acp_proxy.views import formatting, sanitize
from acp_proxy.views.session_lines import encode_row, has_words

_OPTIONS_OF_CORRECTED = ("store", *FILTER_PARAMETERS, "archived", "pinned")
"""The options that a list with corrected words repeats."""
_Sort = Literal["newest", "oldest", "title", "agent", "directory", "turns", "size"]
_SORT_KEYS: dict[str, Callable[[ListedSession], Any]] = {
    "oldest": lambda row: row.updated,
    "title": lambda row: formatting.strip_markdown(row.title or "").casefold(),
    "agent": lambda row: row.agent_folder,
    "directory": lambda row: row.cwd or "",
    "turns": lambda row: -row.prompt_count,
    "size": lambda row: -row.size,
}
"""By the value of ``--sort``: what to sort by. Sessions with an equal key stay newest first."""


def list_sessions(
    context: typer.Context,
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="WORD...",
            help="Only sessions whose title, directory or agent has these, or whose id begins so.",
            show_default=False,
        ),
    ] = None,
    store: StoreOption = "",
    agent: AgentOption = "",
    cwd: CwdOption = "",
    here: HereOption = False,
    since: SinceOption = "",
    until: UntilOption = "",
    branch: BranchOption = "",
    sort: Annotated[
        _Sort, typer.Option("--sort", metavar="BY", help="newest, oldest, title, agent, directory, turns or size.")
    ] = "newest",
    long: Annotated[
        bool, typer.Option("--long", "-l", help="Also tokens and cost, as far as agents say them.")
    ] = False,
    archived: Annotated[
        bool, typer.Option("--archived", help="Only archived sessions. Without it: only others.")
    ] = False,
    pinned: Annotated[bool, typer.Option("--pinned", help="Only pinned sessions.")] = False,
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", metavar="N", min=1, help="Show at most N sessions.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
) -> None:
    """List the sessions of all agents, newest first.

    Example: acp-proxy list login --here --since 7d
    Example: acp-proxy list --sort size --limit 10

    If an agent has used one id for several sessions, the id means the newest one; the others are s0~1 and so on. If the
    output is not a terminal, each line has id, title, agent, directory, time, turns, bytes and state (running or empty)
    in full, separated by tabs; with --long, tokens and cost follow.
    """
    with report_errors():
        session_filter = make_filter(agent, cwd, here, since, until, branch, tuple(words or ()))
        opened_store = open_store(store)
        matching_rows = session_filter.list_newest(opened_store, archived)
        if pinned:
            matching_rows = (row for row in matching_rows if row.is_pinned)
        rows = islice(matching_rows if sort == "newest" else iter(sorted(matching_rows, key=_SORT_KEYS[sort])), limit)
        first_rows = list(islice(rows, ROWS_PER_BLOCK))
        if not first_rows and not as_json:
            text = _explain_nothing_listed(context, opened_store, session_filter, words or (), archived, pinned)
            if not words and session_filter.cwd is not None and not os.path.isdir(session_filter.cwd):
                text = f"{sanitize.make_line(session_filter.cwd)} does not exist. {text}"
            typer.echo(fit_to_stream(text, sys.stderr), err=True)
        elif as_json:
            with open_pager(find_screen()) as write:
                for block in _encode_json(_encode_rows(opened_store, chain(first_rows, rows), is_long=long)):
                    write(block)
        else:
            show_rows(opened_store, chain(first_rows, rows), is_long=long)
        print_failures("not listed", opened_store.list_unreadable(agent))
        # As for grep: what was asked for is not there.
        if not first_rows and (session_filter.is_narrow or pinned or archived):
            raise typer.Exit(1)


def _explain_nothing_listed(
    context: typer.Context,
    store: CommandStore,
    session_filter: SessionFilter,
    words: Sequence[str],
    archived: bool,
    pinned: bool,
) -> str:
    """Why the list with these options is empty, and what to do. ``words``: as they were typed."""
    words_alone = make_filter(words=tuple(words))
    is_known_agent = explain_unknown_agent(store, session_filter.agent) is None
    if words and is_known_agent and next(words_alone.list_newest(store, archived), None) is not None:
        command = format_command("list", words, *repeat_options(context, "store", "archived"))
        return explain_no_match(context, sanitize.make_line(command), (*FILTER_PARAMETERS, "pinned"))
    filter_without_words = structs.replace(session_filter, words=()) if words else session_filter
    rows_to_compare = filter_without_words.list_newest(store, archived)
    corrected_words = _correct_words(
        [row for row in rows_to_compare if row.is_pinned or not pinned], session_filter.words
    )
    corrected_options = repeat_options(context, *_OPTIONS_OF_CORRECTED)
    return explain_empty_list(
        store,
        is_narrow=session_filter.is_narrow or pinned,
        agent=session_filter.agent,
        archived=archived,
        words=words,
        search_options=repeat_options(context, "store", *FILTER_PARAMETERS),
        near_command=format_command("list", corrected_words, *corrected_options) if corrected_words else "",
    )


def _correct_words(rows: Sequence[ListedSession], words: Sequence[str]) -> list[str]:
    """The words, with a near one that these sessions have in place of each that none of them has; empty if there is no
    such word, or no session that has all of them then."""
    from acp_proxy.views.near_words import can_be_misspelt, find_near_word

    texts = (" ".join(filter(None, (row.title, row.cwd, row.agent_folder))).casefold() for row in rows)
    known_words = {word for text in texts for word in re.findall(r"[^\W_]+", text)} if words else set()
    corrected_words = [
        (
            can_be_misspelt(word)
            and not any(has_words(row, [word]) for row in rows)
            and find_near_word(word, known_words)
        )
        or word
        for word in words
    ]
    is_better = corrected_words != list(words) and any(has_words(row, corrected_words) for row in rows)
    return corrected_words if is_better else []


def _encode_rows(store: CommandStore, rows: Iterator[ListedSession], *, is_long: bool) -> Iterator[dict[str, Any]]:
    """The rows for programs."""
    while chunk := list(islice(rows, ROWS_PER_BLOCK)):
        usage = store.read_tokens_and_cost(chunk) if is_long else {}
        for row in chunk:
            figures = usage.get((row.agent_folder, row.name), TokensAndCost())
            yield encode_row(row) | ({"tokens": figures.tokens, "cost": figures.cost} if is_long else {})


def _encode_json(rows: Iterable[dict[str, Any]]) -> Iterator[str]:
    """A JSON array, written while the rows are read."""
    separator = "["
    for row in rows:
        yield separator + "\n" + indent(sanitize.format_json(row, indent=2), "  ")
        separator = ","
    yield "[]\n" if separator == "[" else "\n]\n"
