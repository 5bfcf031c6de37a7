"""``acp-proxy sessions delete``: for good, or so that it can be restored."""

from typing import Annotated

import typer

from acp_proxy.cli import completing
from acp_proxy.cli.restore import matching
from acp_proxy.cli.storing import AgentOption, StoreOption, YesOption, agreed, chosen, explained, store_of
from acp_proxy.errors import NoSuchSession, Unreadable
from acp_proxy.transcripts.index import Listed
from acp_proxy.transcripts.keeping import Kept
from acp_proxy.transcripts.store import Store
from acp_proxy.views import terminal


def delete(
    sessions: Annotated[
        list[str],
        typer.Argument(
            metavar="SESSION",
            help="Ids, beginnings of them, or: last.",
            show_default=False,
            autocompletion=completing.sessions,
        ),
    ],
    store: StoreOption = "",
    agent: AgentOption = "",
    soft: Annotated[bool, typer.Option("--soft", help="So that sessions restore can bring it back.")] = False,
    yes: YesOption = False,
) -> None:
    """Delete what is kept of sessions, for good.

    No file of the store has a word of them any more. The agent keeps what it has. A session that was deleted with
    --soft is deleted for good by its id.

    Example: acp-proxy sessions delete last
    """
    with explained():
        opened = store_of(store, change=True)
        meant = list(
            {(row.agent, row.name): row for each in sessions for row in _meant(opened, each, agent, soft)}.values()
        )
        for row in meant:
            typer.echo(terminal.heading(row) if isinstance(row, Listed) else _heading(row), err=not yes)
        if not yes:
            agreed("Delete it?" if len(meant) == 1 else f"Delete these {len(meant)}?")
        for row in meant:
            try:
                opened.remove(row, soft=soft) if isinstance(row, Listed) else opened.remove_kept(row)
            except Unreadable:
                typer.echo("The index cannot be written to now: it forgets the session with the next list.", err=True)
    typer.echo("Deleted. To bring it back: acp-proxy sessions restore" if soft else "Deleted.")


def _meant(store: Store, wanted: str, agent: str, soft: bool) -> list[Listed | Kept]:
    """One session; or else what was deleted of one softly. Raises NoSuchSession."""
    try:
        return [chosen(store, wanted, agent)]
    except NoSuchSession:
        if soft or store.meant(wanted, agent):
            raise
        found = matching(store.kept(), wanted, agent) if wanted != "last" else []
        if len({(each.agent, each.session) for each in found}) != 1:
            raise
        return list(found)


def _heading(kept: Kept) -> str:
    return terminal.line(f"{kept.title or '(no title)'}  {kept.session}  {kept.agent}  deleted {kept.at}")
