"""``acp-proxy rename``: give a session your own title."""

from typing import Annotated

import typer

from acp_proxy.cli.common import (
    LAST,
    AgentOption,
    NamedSessionsArgument,
    SessionArgument,
    StoreOption,
    choose_session,
    mask_as_run,
    open_store,
    repeat_store_option,
    report_errors,
    write_command,
)
from acp_proxy.errors import NoSuchSession, UsageError
from acp_proxy.store.sessions import ListedSession, Sessions
from acp_proxy.transcript.titles import AGENT_TITLE_LENGTH, clean
from acp_proxy.views import formatting, sanitize


def rename(
    session: SessionArgument,
    title: Annotated[str | None, typer.Argument(metavar="TITLE", help="Your title.", show_default=False)] = None,
    store: StoreOption = "",
    agent: AgentOption = "",
    clear: Annotated[bool, typer.Option("--clear", help="Remove your title and show the agent's again.")] = False,
) -> None:
    """Give a session your own title.

    It replaces the agent's title, here and in every list of an editor, also for proxies that are already running: one
    line of at most 500 characters. Deleting the session deletes it.

    Example: acp-proxy rename last "The login"
    """
    with report_errors():
        wanted = clean(title, AGENT_TITLE_LENGTH)
        if clear == (title is not None):
            raise UsageError("rename needs either a title or --clear. Give one of them.")
        if wanted is None and not clear:
            raise UsageError("the title is empty. To remove your title, use --clear.")
        if wanted == LAST:
            raise UsageError(f"commands take {LAST!r} for the newest session. Choose another title.")
        opened = open_store(store, change=True)
        row = choose_session(opened, session, agent)
        opened.rename(row, mask_as_run(wanted))
        title = _read_title(opened, row.agent, row.name)
    typer.echo(sanitize.make_line(title or "(no title)"))


def _read_title(store: Sessions, agent: str, name: str) -> str | None:
    """The current title of a session."""
    return next((row.title for row in store.list_all() if (row.agent, row.name) == (agent, name)), None)


# --- ``acp-proxy archive`` and ``unarchive``: hide sessions from lists, and show them again.


def archive(
    context: typer.Context, sessions: NamedSessionsArgument, store: StoreOption = "", agent: AgentOption = ""
) -> None:
    """Hide sessions from lists; nothing is deleted.

    They are in no list, also not in an editor's; list --archived shows them. Every command still takes their ids, and
    search still finds them.

    Example: acp-proxy archive last
    """
    with report_errors():
        opened = open_store(store, change=True)
        rows = [choose_session(opened, each, agent) for each in sessions]
        _set(opened, rows, is_archived=True)
    back = write_command("unarchive", [row.selector for row in rows], *repeat_store_option(context, store))
    typer.echo(sanitize.make_line(f"Archived. To bring {'it' if len(rows) == 1 else 'them'} back: {back}"))


def unarchive(sessions: NamedSessionsArgument, store: StoreOption = "", agent: AgentOption = "") -> None:
    """Show archived sessions in lists again.

    Here, last is the newest archived session.

    Example: acp-proxy unarchive last
    """
    with report_errors():
        opened = open_store(store, change=True)
        rows = [_find_archived(opened, each, agent) for each in sessions]
        _set(opened, rows, is_archived=False)
    typer.echo("Unarchived." if any(row.is_archived for row in rows) else "Nothing changed: it was not archived.")


def _find_archived(store: Sessions, wanted: str, agent: str) -> ListedSession:
    if wanted != "last":
        return choose_session(store, wanted, agent)
    newest = next(store.list_newest(agent, archived=True), None)
    if newest is None:
        raise NoSuchSession("no session is archived. To see all sessions: acp-proxy list")
    return newest


def _set(store: Sessions, rows: list[ListedSession], *, is_archived: bool) -> None:
    for row in rows:
        typer.echo(sanitize.format_heading(row, formatting.format_local_time(row.updated)))
        store.set_archived(row, is_archived)
