"""``acp-proxy restore``: bring deleted sessions back."""

import os
from collections.abc import Iterator
from datetime import datetime
from typing import Annotated

import typer
from msgspec.structs import replace

from acp_proxy.cli import completion
from acp_proxy.cli.choose_session import LAST, advise_on_several, find_deleted_matching, format_candidates, shorten_ids
from acp_proxy.cli.open_store import open_store
from acp_proxy.cli.pager import Screen, find_screen
from acp_proxy.cli.report_errors import report_errors
from acp_proxy.cli.shared_options import AgentOption, JsonOption, StoreOption
from acp_proxy.errors import NoSuchSession, Unreadable
from acp_proxy.sessions.command_store import CommandStore
from acp_proxy.sessions.find_sessions import find_titled
from acp_proxy.sessions.soft_deleted import DeletedSession
from acp_proxy.store.index_database import ListedSession
from acp_proxy.transcript.file_names import file_name, name_before_delete
from acp_proxy.views import formatting, sanitize, session_lines

NOTHING_DELETED = "no deleted session can be restored"


def restore(
    sessions: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SESSION...",
            help="Ids, beginnings of ids, titles, or: last. Default: list them.",
            show_default=False,
            autocompletion=completion.complete_deleted,
        ),
    ] = None,
    store: StoreOption = "",
    agent: AgentOption = "",
    listing: Annotated[bool, typer.Option("--list", help="List the sessions that can be restored.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Undo deletes, or list what can be restored.

    A session that you delete, here or in your editor, can be restored for 30 days (bin-days in config.toml). The list
    begins with the latest delete.

    Example: acp-proxy restore last

    If the output is not a terminal, each line of the list has id, title, agent, directory, time of the delete, turns
    and bytes in full, separated by tabs.
    """
    with report_errors():
        opened_store = open_store(store, for_writing=bool(sessions) and not listing)
        if listing or not sessions:
            deleted = find_deleted_matching(opened_store.list_deleted(), None, agent)
            _show_deleted(opened_store, deleted, as_json)
            if agent and not deleted:  # as for list
                raise typer.Exit(1)
            return
        chosen_sessions = {
            (session.agent_folder, session.name): session
            for selector in sessions
            for session in [_choose_deleted(opened_store, selector, agent)]
        }
        restored_rows = [_restore(opened_store, session) for session in chosen_sessions.values()]
    if as_json:
        typer.echo(sanitize.format_json([session_lines.encode_row(row) for row in restored_rows], indent=2))


def _choose_deleted(store: CommandStore, selector: str, agent: str) -> DeletedSession:
    """The latest delete of exactly one session. Raises NoSuchSession."""
    matches = find_deleted_matching(store.list_deleted(), None if selector == LAST else selector, agent)
    if not matches:
        titles = [
            (session, row.title or "")
            for session, row in _summarize_each(store, find_deleted_matching(store.list_deleted(), None, agent))
        ]
        matches = find_titled(titles, selector) or find_titled(
            ((session, formatting.strip_markdown(title)) for session, title in titles), selector
        )
    if not matches and not find_deleted_matching(store.list_deleted(), None, agent):
        consequence = "" if selector == LAST else f", so none matches {selector!r}"
        raise NoSuchSession(f"{NOTHING_DELETED}{consequence}. To see those that are not deleted: acp-proxy list")
    if not matches:
        raise NoSuchSession(f"no deleted session matches {selector!r}. To see them: acp-proxy restore --list")
    if selector != LAST and len({(session.agent_folder, session.session_id) for session in matches}) > 1:
        raise NoSuchSession(
            f"{selector!r} matches several sessions:",
            *format_candidates(store, *_make_rows(store, matches)),
            *advise_on_several(store, matches),
        )
    return matches[0]


def _restore(store: CommandStore, deleted: DeletedSession) -> ListedSession:
    row = replace(store.summarize_deleted(deleted), name=name_before_delete(deleted.name))
    [id] = session_lines.shorten_selectors([deleted], ()).values()
    try:
        row = store.restore(deleted)
        [id] = shorten_ids(store, [row]).values()
    except Unreadable:
        typer.echo("The index cannot be written now. The next list adds the session to it.", err=True)
    typer.echo(sanitize.make_line(f"Restored: {formatting.format_title(row.title)}  {id}"), err=True)
    if explanation := store.explain_if_unreadable(row.agent_folder, row.name):
        path, reason, advice = explanation
        problem = f"{path} cannot be read, so no list shows the session: {reason}. {advice}."
        typer.echo(sanitize.make_line(problem), err=True)
    if row.name != file_name(row.session_id):
        typer.echo("A newer session has the same id. Editors show that one; acp-proxy list shows both.", err=True)
    return row


def _show_deleted(store: CommandStore, deleted_sessions: list[DeletedSession], as_json: bool) -> None:
    if as_json:
        values = [
            session_lines.encode_row(row) | {"deletedAt": session.deleted_at, "removedAt": session.removed_at or None}
            for session, row in _summarize_each(store, deleted_sessions)
        ]
        typer.echo(sanitize.format_json(values, indent=2))
    elif not deleted_sessions:
        typer.echo(f"{NOTHING_DELETED.capitalize()}.", err=True)
    else:
        target = find_screen()
        is_table = target.is_terminal
        for text in (
            _format_table(store, deleted_sessions, target)
            if is_table
            else _format_tab_separated(store, deleted_sessions)
        ):
            typer.echo(text)
        when = "WHEN is the time of the delete. " if is_table else ""
        typer.echo(f"{when}To restore one: acp-proxy restore SESSION", err=True)


def _format_table(store: CommandStore, deleted_sessions: list[DeletedSession], target: Screen) -> Iterator[str]:
    """As ``list`` shows sessions, with the times of the deletes."""
    from acp_proxy.views import session_table  # imported late, as list does

    rows, ids = _make_rows(store, deleted_sessions)
    now, home = datetime.now().astimezone(), os.path.expanduser("~")
    agents = session_lines.make_distinct_names({row.agent_folder for row in rows})
    look = session_table.ListLook(target.width, target.has_colours, now, home, target.forms, agents)
    table = session_table.make_table(rows, ids, look)
    yield table.format_heading()
    yield from table.format_rows(rows, ids)


def _format_tab_separated(store: CommandStore, deleted_sessions: list[DeletedSession]) -> Iterator[str]:
    """As ``list`` writes sessions for programs, with the times of the deletes and without the state: none runs."""
    for session, row in _summarize_each(store, deleted_sessions):
        turns, size = str(row.prompt_count), str(row.size)
        yield session_lines.join_with_tabs(
            session.selector, row.title or "", row.agent_folder, row.cwd or "", session.deleted_at, turns, size
        )


def _make_rows(
    store: CommandStore, deleted_sessions: list[DeletedSession]
) -> tuple[list[ListedSession], dict[str, str]]:
    """The sessions with the times of the deletes, and the displayed forms of their ids."""
    short_ids = session_lines.shorten_selectors(deleted_sessions, ())
    rows, ids = list[ListedSession](), dict[str, str]()
    for session, row in _summarize_each(store, deleted_sessions):
        rows.append(replace(row, updated=session.deleted_at))
        ids[row.selector] = short_ids[session.selector]
    return rows, ids


def _summarize_each(
    store: CommandStore, deleted_sessions: list[DeletedSession]
) -> Iterator[tuple[DeletedSession, ListedSession]]:
    for session in deleted_sessions:
        yield session, store.summarize_deleted(session)
