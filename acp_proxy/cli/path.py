"""``acp-proxy path``: print the path of the store or of a session's transcript."""

from typing import Annotated

import typer

from acp_proxy.cli import completion
from acp_proxy.cli.choose_session import choose_session
from acp_proxy.cli.open_store import find_root, open_store
from acp_proxy.cli.report_errors import report_errors
from acp_proxy.cli.shared_options import AgentOption, StoreOption


def path(
    session: Annotated[
        str | None,
        typer.Argument(
            metavar="SESSION",
            help="An id, the beginning of an id, a title or a part of it, or: last. Default: the store.",
            autocompletion=completion.complete_session,
        ),
    ] = None,
    store: StoreOption = "",
    agent: AgentOption = "",
) -> None:
    """Print the path of the store, or of a session's file.

    A transcript that ends in .zst is compressed. zstdcat shows it.

    Example: acp-proxy path last
    """
    with report_errors():
        root = find_root(store)
        if session is None:
            typer.echo(root)
            return
        opened_store = open_store(store)
        typer.echo(opened_store.find_path(choose_session(opened_store, session, agent)))
