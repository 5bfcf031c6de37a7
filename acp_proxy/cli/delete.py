"""``acp-proxy delete``: delete sessions, so that they can be restored, or permanently."""

import sys
from collections.abc import Iterable
from typing import Annotated

import typer

from acp_proxy.cli.choose_session import (
    LAST,
    choose_session,
    find_deleted_matching,
    format_candidates,
    format_short_heading,
)
from acp_proxy.cli.confirm import ask_to_confirm
from acp_proxy.cli.next_command import format_command, name_known_agent, repeat_agent_option, repeat_store_option
from acp_proxy.cli.open_store import open_store
from acp_proxy.cli.report_errors import report_errors
from acp_proxy.cli.shared_options import AgentOption, NamedSessionsArgument, StoreOption, YesOption
from acp_proxy.cli.wrapping import fit_to_stream
from acp_proxy.errors import AcpProxyError, NoSuchSession, Unreadable, UsageError
from acp_proxy.sessions.command_store import CommandStore
from acp_proxy.sessions.soft_deleted import DeletedSession
from acp_proxy.shell_quote import is_typable
from acp_proxy.store.index_database import ListedSession
from acp_proxy.transcript.file_names import name_agent, name_before_delete
from acp_proxy.views import formatting, sanitize, session_lines


def delete(
    context: typer.Context,
    sessions: NamedSessionsArgument,
    store: StoreOption = "",
    agent: AgentOption = "",
    permanent: Annotated[
        bool, typer.Option("--permanent", help="At once and for good, also what was deleted before.")
    ] = False,
    soft: Annotated[bool, typer.Option("--soft", help="As without --permanent.", hidden=True)] = False,
    yes: YesOption = False,
    force: Annotated[
        bool, typer.Option("--force", help="With --yes: delete sessions whose turn is running, too.")
    ] = False,
) -> None:
    """Delete sessions. acp-proxy restore brings them back for 30 days.

    bin-days in config.toml sets how many days; 0: every delete is permanent. After that, or at once with --permanent,
    every word of the session is removed from the store. The agent's own data stays. If the turn of a session is
    running, the question says so, and --yes needs --force: the conversation continues, but the rest of that turn is not
    recorded.

    Example: acp-proxy delete last
    """
    with report_errors():
        opened_store = open_store(store, for_writing=True)
        if soft and permanent:
            raise UsageError("--permanent and --soft exclude each other. Give one of them.")
        if soft and not opened_store.bin_days:
            raise UsageError(
                "bin-days is 0, so no deleted session can be restored. Leave out --soft, or change bin-days."
            )
        soft = not permanent and opened_store.bin_days > 0
        matches = [
            row
            for selector in sessions
            for row in _choose_sessions(opened_store, selector, agent, soft, exact_title=yes)
        ]
        chosen_rows = list({(row.agent_folder, row.name): row for row in matches}.values())
        running_rows = [row for row in chosen_rows if isinstance(row, ListedSession) and row.is_running]
        if running_rows and yes and not force:
            raise AcpProxyError(
                "the turn of a session is running, so nothing was deleted:",
                *format_candidates(opened_store, running_rows),
                "Wait until the turn ends, or add --force.",
            )
        for row in chosen_rows:
            heading = (
                format_short_heading(opened_store, row)
                if isinstance(row, ListedSession)
                else _format_heading(opened_store, row)
            )
            typer.echo(fit_to_stream(heading, sys.stdout if yes else sys.stderr), err=not yes)
        if not yes:
            if running_rows:
                is_one = len(chosen_rows) == 1
                subject = (
                    "Its turn is running. The rest of it" if is_one else "Some are running. The rest of their turns"
                )
                typer.echo(f"{subject} will not be recorded.", err=True)
            pronoun = "it" if len(chosen_rows) == 1 else f"these {len(chosen_rows)}"
            ending = (
                f"? It can be restored for {formatting.format_count(opened_store.bin_days, 'day')}."
                if soft
                else " permanently?"
            )
            ask_to_confirm(
                f"Delete {pronoun}{ending if len(chosen_rows) == 1 else ending.replace('It can', 'They can')}"
            )
        for row in chosen_rows:
            try:
                if isinstance(row, ListedSession):
                    opened_store.delete_listed(row, soft=soft)
                else:
                    opened_store.delete_soft_deleted(row)
            except Unreadable:
                typer.echo("The index cannot be written now. The next list removes the session from it.", err=True)
        restore_command = (
            format_restore_command(opened_store, chosen_rows, repeat_store_option(context, store)) if soft else ""
        )
    pronoun = "it" if len(chosen_rows) == 1 else "them"
    restore_advice = (
        f"To bring {pronoun} back within {formatting.format_count(opened_store.bin_days, 'day')}: {restore_command}"
    )
    typer.echo(sanitize.make_line(f"Deleted. {restore_advice}") if soft else "Deleted permanently.")


def _choose_sessions(
    store: CommandStore, selector: str, agent: str, is_soft: bool, *, exact_title: bool
) -> list[ListedSession | DeletedSession]:
    """One session, or its soft-deleted copies. ``exact_title``: see ``choose_session``. Raises NoSuchSession."""
    if selector != LAST and not store.find_named(selector, agent):
        matches = find_deleted_matching(store.list_deleted(), selector, agent)
        if len({(session.agent_folder, session.session_id) for session in matches}) == 1:
            if is_soft:
                raise NoSuchSession(
                    f"{selector!r} is deleted already. To remove it for good: acp-proxy delete --permanent {selector}"
                )
            return list(matches)
    return [choose_session(store, selector, agent, exact_title=exact_title)]


def format_restore_command(
    store: CommandStore, deleted: Iterable[ListedSession | DeletedSession], options: list[str]
) -> str:
    """The command that restores exactly these; one for each agent, if an id is also that of another agent's session.

    It has whole ids: the beginning of one may soon be that of another.
    """
    all_deleted = store.list_deleted()
    deleted_by_transcript = {
        (session.agent_folder, name_before_delete(session.name)): session for session in reversed(all_deleted)
    }
    restorable_sessions = [
        deleted_by_transcript[transcript]
        for row in deleted
        if (transcript := (row.agent_folder, row.name)) in deleted_by_transcript
    ]
    if not any(_is_of_several_agents(store, session, all_deleted) for session in restorable_sessions):
        return format_command(
            "restore", [_name_deleted(session, all_deleted, "") for session in restorable_sessions], *options
        )
    return " && ".join(
        format_command(
            "restore",
            [
                _name_deleted(session, all_deleted, folder)
                for session in restorable_sessions
                if session.agent_folder == folder
            ],
            "--agent",
            name_known_agent(store, folder),
            *options,
        )
        for folder in dict.fromkeys(session.agent_folder for session in restorable_sessions)
    )


def _is_of_several_agents(store: CommandStore, deleted: DeletedSession, all_deleted: list[DeletedSession]) -> bool:
    has_deleted_namesake = any(
        session.session_id == deleted.session_id and session.agent_folder != deleted.agent_folder
        for session in all_deleted
    )
    return has_deleted_namesake or bool(repeat_agent_option(store, deleted.agent_folder, deleted.session_id))


def _name_deleted(deleted: DeletedSession, all_deleted: list[DeletedSession], agent: str) -> str:
    """The word that names exactly this session, and that a user can type: its id, else its transcript's name."""
    word = deleted.selector
    return word if is_typable(word) and _is_only_name_of(word, deleted, all_deleted, agent) else deleted.name


def _is_only_name_of(word: str, deleted: DeletedSession, all_deleted: list[DeletedSession], agent: str) -> bool:
    """Whether ``restore`` takes this word for exactly this session."""
    matches = find_deleted_matching(all_deleted, word, agent)
    is_one = all(
        (session.agent_folder, session.session_id) == (deleted.agent_folder, deleted.session_id) for session in matches
    )
    return word != LAST and is_one and matches[0] == deleted


def _format_heading(store: CommandStore, deleted: DeletedSession) -> str:
    title = store.summarize_deleted(deleted).title
    [id] = session_lines.shorten_selectors([deleted], ()).values()
    when = formatting.format_local_time(deleted.deleted_at)
    shown_title, agent = formatting.format_title(title), name_agent(deleted.agent_folder)
    return sanitize.make_line(f"{shown_title}  {id}  {agent}  deleted {when}")
