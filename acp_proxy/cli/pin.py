"""``acp-proxy pin`` and ``unpin``: sessions that no prune deletes."""

import typer

from acp_proxy.cli.choose_session import choose_session, format_short_heading
from acp_proxy.cli.open_store import open_store
from acp_proxy.cli.report_errors import report_errors
from acp_proxy.cli.session_rows import show_sessions_or_advice
from acp_proxy.cli.shared_options import AgentOption, NamedSessionsArgument, SomeSessionsArgument, StoreOption


def pin(sessions: NamedSessionsArgument, store: StoreOption = "", agent: AgentOption = "") -> None:
    """Keep sessions from being pruned; list --pinned shows them.

    Lists here mark them; editors do not see it. You can still delete a pinned session yourself; if you restore it, it
    is pinned again.

    Example: acp-proxy pin last
    """
    _set_pinned(sessions, store, agent, is_pinned=True)


def unpin(sessions: SomeSessionsArgument = None, store: StoreOption = "", agent: AgentOption = "") -> None:
    """Let prune delete these sessions again, or list the pinned ones.

    Example: acp-proxy unpin last
    """
    if not sessions:
        with report_errors():
            opened_store = open_store(store)
            pinned_rows = (row for row in opened_store.list_newest(agent) if row.is_pinned)
            show_sessions_or_advice(
                opened_store, pinned_rows, "No session is pinned.", "To unpin one: acp-proxy unpin SESSION", agent
            )
        return
    _set_pinned(sessions, store, agent, is_pinned=False)


def _set_pinned(sessions: list[str], store: str, agent: str, *, is_pinned: bool) -> None:
    with report_errors():
        opened_store = open_store(store, for_writing=True)
        rows = [choose_session(opened_store, selector, agent) for selector in sessions]
        for row in rows:
            opened_store.set_listed_pinned(row, is_pinned)
            typer.echo(format_short_heading(opened_store, row))
    if any(row.is_pinned != is_pinned for row in rows):
        typer.echo("Pinned." if is_pinned else "Unpinned.")
    else:
        typer.echo(f"Nothing changed: it was {'already' if is_pinned else 'not'} pinned.")
