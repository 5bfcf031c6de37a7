"""``acp-proxy sessions restore``: restore soft-deleted sessions."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Annotated

import typer

from acp_proxy.cli import completing
from acp_proxy.cli.screen import screen
from acp_proxy.cli.storing import AgentOption, JsonOption, StoreOption, explained, store_of
from acp_proxy.errors import NewerFormat, NoSuchSession, Unreadable
from acp_proxy.transcripts.archive import Archive, DeletedSession, Listed, file_name, meant, titled
from acp_proxy.views import figures, rows, terminal


def restore(
    sessions: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SESSION...",
            help="Ids, beginnings of ids, titles, or: last. Default: list them.",
            show_default=False,
            autocompletion=completing.deleted,
        ),
    ] = None,
    store: StoreOption = "",
    agent: AgentOption = "",
    listing: Annotated[bool, typer.Option("--list", help="List the sessions that can be restored.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Restore soft-deleted sessions, or list them.

    The list begins with the latest delete. These delete softly: sessions delete --soft, sessions prune --soft, and an
    editor's delete under run --delete-mode soft.

    Example: acp-proxy sessions restore last
    """
    with explained():
        opened = store_of(store, change=bool(sessions) and not listing)
        if listing or not sessions:
            _list(opened, matching(opened.kept(), None, agent), as_json)
            return
        meant = {(each.agent, each.name): each for wanted in sessions for each in [_chosen(opened, wanted, agent)]}
        restored = [_restored(opened, each) for each in meant.values()]
    if as_json:
        typer.echo(terminal.json_text([rows.for_programs(row) for row in restored], indent=2))


def matching(kept: Iterable[DeletedSession], wanted: str | None, agent: str) -> list[DeletedSession]:
    """The sessions with this id or transcript, else those whose id begins with it. An empty word matches none.

    None: all.
    """
    all_kept = list(kept)
    agents = meant({each.agent for each in all_kept}, agent)
    found = [each for each in all_kept if each.agent in agents]
    if wanted is None:
        return found
    return (
        [each for each in found if each.session == wanted]
        or [each for each in found if wanted in (each.named, each.name)]
        or [each for each in found if wanted and each.session.startswith(wanted)]
    )


def _chosen(store: Archive, wanted: str, agent: str) -> DeletedSession:
    """The latest delete of exactly one session. Raises NoSuchSession."""
    found = matching(store.kept(), None if wanted == "last" else wanted, agent)
    if not found:
        by_title = ((each, row.title) for each, row in _looked_at(store, matching(store.kept(), None, agent)))
        found = titled(by_title, wanted)
    if not found:
        raise NoSuchSession(f"no deleted session matches {wanted!r}. To see them: acp-proxy sessions restore --list")
    if wanted != "last" and len({(each.agent, each.session) for each in found}) > 1:
        raise NoSuchSession(
            f"{wanted!r} matches several sessions:", *_lines(store, found), "Give more of the id, or use --agent."
        )
    return found[0]


def _restored(store: Archive, kept: DeletedSession) -> Listed:
    row = store.look(kept)
    try:
        row = store.restore(kept)
    except Unreadable:
        typer.echo("The index cannot be written now. The next list adds the session to it.", err=True)
    typer.echo(terminal.line(f"Restored: {row.title or '(no title)'}  {row.session}"), err=True)
    if row.name != file_name(row.session):
        typer.echo("A newer session has the same id. Editors show that one; sessions list shows both.", err=True)
    return row


def _list(store: Archive, kept: list[DeletedSession], as_json: bool) -> None:
    if as_json:
        values = [rows.for_programs(row) | {"deletedAt": each.at} for each, row in _looked_at(store, kept)]
        typer.echo(terminal.json_text(values, indent=2))
    elif not kept:
        typer.echo(
            "No session was deleted softly. To delete one softly: acp-proxy sessions delete --soft SESSION", err=True
        )
    else:
        for text in _lines(store, kept):
            typer.echo(text)
        typer.echo("To restore one: acp-proxy sessions restore SESSION", err=True)


def _lines(store: Archive, kept: list[DeletedSession]) -> list[str]:
    from acp_proxy.views.meant import SessionRow, lines

    ids = figures.short((each.session for each in kept), ())
    shown = [
        SessionRow(each.at, each.agent, ids[each.session] + each.named.removeprefix(each.session), row.title, row.size)
        for each, row in _looked_at(store, kept)
    ]
    target = screen()
    return list(lines(shown, target.width if target.is_terminal else None))


def _looked_at(store: Archive, kept: list[DeletedSession]) -> Iterator[tuple[DeletedSession, Listed]]:
    for each in kept:
        with suppress(OSError, NewerFormat):  # sessions verify reports it
            yield each, store.look(each)
