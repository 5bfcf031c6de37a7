"""``acp-proxy archive`` and ``unarchive``: hide sessions from lists, and show them again."""

import typer

from acp_proxy.cli.choose_session import LAST, NOTHING_ARCHIVED, choose_session, format_short_heading
from acp_proxy.cli.next_command import format_command, name_known_agent, repeat_store_option
from acp_proxy.cli.open_store import open_store
from acp_proxy.cli.report_errors import report_errors
from acp_proxy.cli.session_rows import show_sessions_or_advice
from acp_proxy.cli.shared_options import AgentOption, NamedSessionsArgument, SomeSessionsArgument, StoreOption
from acp_proxy.errors import NoSuchSession
from acp_proxy.sessions.command_store import CommandStore
from acp_proxy.store.index_database import ListedSession
from acp_proxy.views import sanitize


def archive(
    context: typer.Context, sessions: NamedSessionsArgument, store: StoreOption = "", agent: AgentOption = ""
) -> None:
    """Hide sessions from lists; nothing is deleted.

    They are in no list, also not in an editor's; list --archived shows them. Every command still takes their ids, and
    search still finds them.

    Example: acp-proxy archive last
    """
    with report_errors():
        opened_store = open_store(store, for_writing=True)
        rows = [choose_session(opened_store, selector, agent) for selector in sessions]
        _set_archived(opened_store, rows, is_archived=True)
        changed_rows = [row for row in rows if not row.is_archived]
        unarchive_command = _format_unarchive_command(opened_store, changed_rows, repeat_store_option(context, store))
    if not changed_rows:
        typer.echo("Nothing changed: it was already archived.")
        return
    them = "it" if len(changed_rows) == 1 else "them"
    typer.echo(sanitize.make_line(f"Archived. To bring {them} back: {unarchive_command}"))


def _format_unarchive_command(store: CommandStore, rows: list[ListedSession], options: list[str]) -> str:
    """The command that unarchives exactly these; one for each agent, if an id alone would name sessions of several."""
    matches_by_row = [store.find_named(row.selector) for row in rows]
    if all(len({match.agent_folder for match in same_id_rows}) <= 1 for same_id_rows in matches_by_row):
        return format_command("unarchive", [row.selector for row in rows], *options)
    return " && ".join(
        format_command(
            "unarchive",
            [row.selector for row in rows if row.agent_folder == folder],
            "--agent",
            name_known_agent(store, folder),
            *options,
        )
        for folder in dict.fromkeys(row.agent_folder for row in rows)
    )


def unarchive(sessions: SomeSessionsArgument = None, store: StoreOption = "", agent: AgentOption = "") -> None:
    """Show archived sessions in lists again, or list them.

    Here, last is the newest archived session.

    Example: acp-proxy unarchive last
    """
    if not sessions:
        with report_errors():
            opened_store = open_store(store)
            archived_rows = opened_store.list_newest(agent, archived=True)
            advice = "To unarchive one: acp-proxy unarchive SESSION"
            show_sessions_or_advice(opened_store, archived_rows, NOTHING_ARCHIVED, advice, agent)
        return
    with report_errors():
        opened_store = open_store(store, for_writing=True)
        rows = [_find_archived(opened_store, selector, agent) for selector in sessions]
        _set_archived(opened_store, rows, is_archived=False)
    typer.echo("Unarchived." if any(row.is_archived for row in rows) else "Nothing changed: it was not archived.")


def _find_archived(store: CommandStore, selector: str, agent: str) -> ListedSession:
    if selector != LAST:
        return choose_session(store, selector, agent)
    newest = next(store.list_newest(agent, archived=True), None)
    if newest is None:
        raise NoSuchSession("no session is archived. To see all sessions: acp-proxy list")
    return newest


def _set_archived(store: CommandStore, rows: list[ListedSession], *, is_archived: bool) -> None:
    for row in rows:
        typer.echo(format_short_heading(store, row))
        store.set_listed_archived(row, is_archived)
