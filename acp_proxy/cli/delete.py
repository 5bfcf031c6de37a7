"""``acp-proxy sessions delete``: delete sessions, permanently or so that they can be restored."""

import sys
from contextlib import suppress
from typing import Annotated

import typer

from acp_proxy.cli import completing
from acp_proxy.cli.restore import matching
from acp_proxy.cli.storing import (
    AgentOption,
    StoreOption,
    YesOption,
    agreed,
    chosen,
    command,
    explained,
    same_store,
    short_ids,
    store_of,
)
from acp_proxy.cli.wrapping import fitted
from acp_proxy.errors import AcpProxyError, NewerFormat, Unreadable
from acp_proxy.transcripts.archive import Archive, DeletedSession, Listed, kept_name
from acp_proxy.typed import is_typable
from acp_proxy.views import rows, terminal


def delete(
    context: typer.Context,
    sessions: Annotated[
        list[str],
        typer.Argument(
            metavar="SESSION...",
            help="Ids, beginnings of ids, titles, or: last.",
            show_default=False,
            autocompletion=completing.sessions,
        ),
    ],
    store: StoreOption = "",
    agent: AgentOption = "",
    soft: Annotated[bool, typer.Option("--soft", help="Let sessions restore bring it back.")] = False,
    yes: YesOption = False,
    force: Annotated[
        bool, typer.Option("--force", help="With --yes: delete sessions whose turn is running, too.")
    ] = False,
) -> None:
    """Delete sessions permanently.

    This removes every word of a session from the store. The agent's own data stays. delete-mode in config.toml is for
    deletes in an editor only. Give the id of a soft-deleted
    session to delete it permanently. If the turn of a session is running, the question says so, and --yes needs
    --force: the conversation continues, but the rest of that turn is not recorded.

    Example: acp-proxy sessions delete last
    """
    with explained():
        opened = store_of(store, change=True)
        meant = list(
            {
                (row.agent, row.name): row for each in sessions for row in _meant(opened, each, agent, soft, whole=yes)
            }.values()
        )
        running = [row for row in meant if isinstance(row, Listed) and row.is_running]
        if running and yes and not force:
            raise AcpProxyError(
                "the turn of a session is running, so nothing was deleted:",
                *(f"  {one}" for one in rows.candidates(running, short_ids(opened, running))),
                "Wait until the turn ends, or add --force.",
            )
        for row in meant:
            heading = terminal.heading(row) if isinstance(row, Listed) else _heading(opened, row)
            typer.echo(fitted(heading, sys.stdout if yes else sys.stderr), err=not yes)
        if not yes:
            if running:
                is_one = len(meant) == 1
                what = "Its turn is running. The rest of it" if is_one else "Some are running. The rest of their turns"
                typer.echo(f"{what} will not be recorded.", err=True)
            agreed(
                f"Delete {'it' if len(meant) == 1 else f'these {len(meant)}'}{' softly' if soft else ' permanently'}?"
            )
        for row in meant:
            try:
                opened.remove(row, soft=soft) if isinstance(row, Listed) else opened.remove_kept(row)
            except Unreadable:
                typer.echo("The index cannot be written now. The next list removes the session from it.", err=True)
        names = restorable(opened.kept(), meant) if soft else []
    back = command("sessions restore", names, *same_store(context, store)) if names else None
    typer.echo(
        terminal.line(f"Deleted. To bring {'it' if len(names) == 1 else 'them'} back: {back}") if back else "Deleted."
    )


def _meant(store: Archive, wanted: str, agent: str, soft: bool, *, whole: bool) -> list[Listed | DeletedSession]:
    """One session, or the soft-deleted copies of one session. ``whole``: see ``chosen``. Raises NoSuchSession."""
    if not soft and wanted != "last" and not store.meant(wanted, agent):
        found = matching(store.kept(), wanted, agent)
        if len({(each.agent, each.session) for each in found}) == 1:
            return list(found)
    return [chosen(store, wanted, agent, whole=whole)]


def restorable(kept: list[DeletedSession], deleted: list[Listed | DeletedSession]) -> list[str]:
    """Words that name exactly these sessions now, and that a user can type."""
    names = []
    for row in deleted:
        mine = next((each for each in kept if (each.agent, kept_name(each.name)) == (row.agent, row.name)), None)
        if mine is not None:
            is_plain = is_typable(mine.named) and all(
                each.agent == mine.agent for each in kept if each.session == mine.session
            )
            names.append(mine.named if is_plain else mine.name)
    return names


def _heading(store: Archive, kept: DeletedSession) -> str:
    title = kept.title
    with suppress(OSError, NewerFormat):  # it can be deleted even if it cannot be read
        title = store.look(kept).title
    return terminal.line(f"{title or '(no title)'}  {kept.named}  {kept.agent}  deleted {kept.at}")
