"""``acp-proxy sessions archive`` and ``unarchive``: hide sessions from lists, and show them again."""

from typing import Annotated

import typer

from acp_proxy.cli import completing
from acp_proxy.cli.storing import AgentOption, StoreOption, chosen, command, explained, same_store, store_of
from acp_proxy.errors import NoSuchSession
from acp_proxy.transcripts.archive import Archive, Listed
from acp_proxy.views import terminal

ArchivedArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="SESSION...",
        help="Ids, beginnings of ids, titles, or: last.",
        show_default=False,
        autocompletion=completing.sessions,
    ),
]


def archive(
    context: typer.Context, sessions: ArchivedArgument, store: StoreOption = "", agent: AgentOption = ""
) -> None:
    """Hide sessions from lists; nothing is deleted.

    An archived session is in no list, also not in an editor's, until you unarchive it. sessions list --archived shows
    it. Every command still takes its id, and sessions search still finds it.

    Example: acp-proxy sessions archive last
    """
    with explained():
        opened = store_of(store, change=True)
        rows = [chosen(opened, each, agent) for each in sessions]
        _set(opened, rows, is_archived=True)
    back = command("sessions unarchive", [row.named for row in rows], *same_store(context, store))
    typer.echo(terminal.line(f"Archived. To bring {'it' if len(rows) == 1 else 'them'} back: {back}"))


def unarchive(sessions: ArchivedArgument, store: StoreOption = "", agent: AgentOption = "") -> None:
    """Show archived sessions in lists again.

    Here, last is the newest archived session.

    Example: acp-proxy sessions unarchive last
    """
    with explained():
        opened = store_of(store, change=True)
        rows = [_archived(opened, each, agent) for each in sessions]
        _set(opened, rows, is_archived=False)
    typer.echo("Unarchived." if any(row.is_archived for row in rows) else "Nothing changed: it was not archived.")


def _archived(store: Archive, wanted: str, agent: str) -> Listed:
    if wanted != "last":
        return chosen(store, wanted, agent)
    newest = next(store.newest(agent, archived=True), None)
    if newest is None:
        raise NoSuchSession("no session is archived. To see all sessions: acp-proxy sessions list")
    return newest


def _set(store: Archive, rows: list[Listed], *, is_archived: bool) -> None:
    for row in rows:
        typer.echo(terminal.heading(row))
        store.set_archived(row, is_archived)
