"""``acp-proxy prune``: delete old sessions, or too many. Nothing else ever prunes."""

import sys
import time
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from msgspec.structs import replace

from acp_proxy.cli import values
from acp_proxy.cli.choose_session import check_agent, format_table, shorten_ids
from acp_proxy.cli.confirm import ask_to_confirm
from acp_proxy.cli.open_store import open_store
from acp_proxy.cli.pager import find_screen
from acp_proxy.cli.progress import show_progress
from acp_proxy.cli.report_errors import report_errors
from acp_proxy.cli.shared_options import AgentOption, JsonOption, StoreOption, YesOption
from acp_proxy.errors import Unreadable, UsageError
from acp_proxy.protocol import timestamps
from acp_proxy.sessions.command_store import CommandStore
from acp_proxy.store.index_database import ListedSession
from acp_proxy.tools.maintenance.prune import (
    IN_USE,
    Candidate,
    Limits,
    find_candidates,
    prune_sessions,
    select_exceeding,
)
from acp_proxy.transcript.file_names import match_agents, name_agent
from acp_proxy.views import formatting, sanitize


def prune(
    store: StoreOption = "",
    agent: AgentOption = "",
    older_than: Annotated[
        str | None,
        typer.Option("--older-than", metavar="AGE", help="Delete sessions not used for this long: 90d, 12w."),
    ] = None,
    keep: Annotated[
        int | None, typer.Option("--keep", metavar="N", min=0, help="Keep the N newest sessions; delete the rest.")
    ] = None,
    max_size: Annotated[
        str | None,
        typer.Option("--max-size", metavar="SIZE", help="Delete the oldest sessions until the rest fits: 5GB, 500M."),
    ] = None,
    deleted: Annotated[
        bool,
        typer.Option("--deleted", help="Only deleted sessions, by the time of the delete. Without a limit: all."),
    ] = False,
    soft: Annotated[bool, typer.Option("--soft", help="Let acp-proxy restore bring them back, for bin-days.")] = False,
    everywhere: Annotated[
        bool, typer.Option("--everywhere", help="With acp-proxy sync, delete them on all machines, not only here.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List what would be deleted; delete nothing.")] = False,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Delete old sessions, or too many, permanently. It asks first.

    A session goes if at least one limit applies. Sessions that run now, or have continued since the question, stay; so
    do pinned ones, which do not count. The age counts from the last message, sizes are those of the files. A subagent's
    session goes with the one that it worked for.

    Example: acp-proxy prune --older-than 90d --keep 500 --max-size 5GB --dry-run

    If the output is not a terminal, each line of --dry-run has id, title, agent, time and bytes in full, separated by
    tabs.
    """
    with report_errors():
        is_for_all = deleted and older_than is None and keep is None and max_size is None
        limits = _parse_limits(older_than, 0 if is_for_all else keep, max_size)
        if deleted and soft:
            raise UsageError("--deleted and --soft exclude each other. Give one of them.")
        if as_json and not (dry_run or yes):
            raise UsageError("--json cannot ask. Add --dry-run or --yes.")
        opened_store = open_store(store, for_writing=not dry_run)
        if soft and not dry_run and not opened_store.bin_days:
            raise UsageError(
                "bin-days is 0, so no deleted session can be restored. Leave out --soft, or change bin-days."
            )
        check_agent(opened_store, agent)
        if everywhere and not _is_synchronized(opened_store):
            typer.echo("This store is not synchronized: --everywhere changes nothing.", err=True)
        candidates = find_candidates(opened_store, deleted=deleted)
        agents = match_agents(
            {*opened_store.list_agents(), *(candidate.agent_folder for candidate in candidates)}, agent
        )
        chosen = select_exceeding(limits, [candidate for candidate in candidates if candidate.agent_folder in agents])
        if dry_run or not chosen:
            if dry_run and not as_json:
                _show(opened_store, chosen)
            _report(chosen, {}, as_json, dry_run=dry_run)
            return
        if not as_json:
            _show(opened_store, chosen, err=True)
        if not yes:
            pronoun = "this" if len(chosen) == 1 else "these"
            days = formatting.format_count(opened_store.bin_days, "day")
            ending = f"? Restorable for {days}." if soft else " permanently?"
            ask_to_confirm(f"Delete {pronoun} {_format_total(chosen)}{ending}")
        reasons = _prune_all(opened_store, chosen, soft=soft, only_on_this_machine=not everywhere)
    _report(chosen, reasons, as_json, dry_run=False)
    if soft and not as_json:
        typer.echo("To bring one back: acp-proxy restore", err=True)
    if set(reasons.values()) - {IN_USE}:
        raise typer.Exit(1)


def _is_synchronized(store: CommandStore) -> bool:
    from acp_proxy.tools.sync.membership import SyncMembership  # imported late: few need it

    return SyncMembership(store.root).is_joined


def _parse_limits(older_than: str | None, keep: int | None, max_size: str | None) -> Limits:
    """The limits that these options mean; an empty value is an error, not a missing option. Raises UsageError."""
    if older_than is None and keep is None and max_size is None:
        raise UsageError(
            "prune needs a limit. Give --older-than, --keep or --max-size (or --deleted, which needs none)."
        )
    age = values.parse_seconds("--older-than", older_than) if older_than is not None else None
    older_than_stamp = timestamps.format_now(max(time.time() - age, 0.0)) if age is not None else None
    return Limits(older_than_stamp, keep, values.parse_size("--max-size", max_size) if max_size is not None else None)


def _prune_all(
    store: CommandStore, chosen: Sequence[Candidate], *, soft: bool, only_on_this_machine: bool
) -> dict[tuple[str, str], str]:
    """The sessions that were not deleted, by agent and name, with the reason."""
    reasons: dict[tuple[str, str], str] = {}
    try:
        for candidate, reason in prune_sessions(
            store, show_progress(chosen, "Deleting"), soft=soft, only_on_this_machine=only_on_this_machine
        ):
            if reason is not None:
                reasons[candidate.agent_folder, candidate.name] = reason
    except Unreadable:
        typer.echo("The index cannot be written now. The next list removes the sessions from it.", err=True)
    return reasons


def _report(chosen: Sequence[Candidate], reasons: dict[tuple[str, str], str], as_json: bool, *, dry_run: bool) -> None:
    deleted = [candidate for candidate in chosen if (candidate.agent_folder, candidate.name) not in reasons]
    if as_json:
        not_deleted = [
            _encode_candidate(candidate) | {"reason": reasons[candidate.agent_folder, candidate.name]}
            for candidate in chosen
            if candidate not in deleted
        ]
        value = {
            "dryRun": dry_run,
            "sessions": [_encode_candidate(candidate) for candidate in deleted],
            "left": not_deleted,
        }
        typer.echo(sanitize.format_json(value | {"bytes": sum(candidate.size for candidate in deleted)}, indent=2))
        return
    outcome_of_deleted = "would be deleted" if dry_run else "deleted"
    # A program that reads what --dry-run lists gets lines of one form.
    typer.echo(f"{_format_total(deleted)} {outcome_of_deleted}.", err=dry_run and not find_screen().is_terminal)
    for candidate in chosen:
        reason = reasons.get((candidate.agent_folder, candidate.name))
        if reason is not None:
            outcome = "is in use; not deleted" if reason == IN_USE else f"not deleted ({reason}). Run: acp-proxy doctor"
            typer.echo(sanitize.make_line(f"acp-proxy: {candidate.selector}: {outcome}"), err=True)


def _show(store: CommandStore, chosen: Sequence[Candidate], *, err: bool = False) -> None:
    from acp_proxy.views.session_lines import join_with_tabs

    target = find_screen()
    if not (err or target.is_terminal):
        for candidate in chosen:
            typer.echo(
                join_with_tabs(
                    candidate.selector,
                    candidate.title or "",
                    candidate.agent_folder,
                    candidate.last_used,
                    str(candidate.size),
                )
            )
        return
    short_ids = shorten_ids(store, chosen)
    rows = [_make_row(candidate) for candidate in chosen]
    ids = {row.selector: short_ids[candidate.selector] for row, candidate in zip(rows, chosen, strict=True)}
    for text in format_table(store, rows, ids, sys.stderr if err else sys.stdout, with_size=True) if rows else ():
        typer.echo(text, err=err)


def _make_row(candidate: Candidate) -> ListedSession:
    """As a list shows it, with the size of all its files, and of a deleted session with the time of the delete."""
    return replace(candidate.row, updated=candidate.last_used, size=candidate.size)


def _format_total(chosen: Sequence[Candidate]) -> str:
    count = formatting.format_count(len(chosen), "session")
    return f"{count}, {formatting.format_size(sum(candidate.size for candidate in chosen))}" if chosen else count


def _encode_candidate(candidate: Candidate) -> dict[str, Any]:
    return {
        "sessionId": candidate.session_id,
        "agent": candidate.agent_folder,
        "agentName": name_agent(candidate.agent_folder),
        "title": candidate.title,
        "updatedAt": None if candidate.is_soft_deleted else candidate.last_used,
        "deletedAt": candidate.last_used if candidate.is_soft_deleted else None,
        "bytes": candidate.size,
        "transcript": candidate.name,
    }
