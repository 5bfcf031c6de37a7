"""``acp-proxy web``: all sessions in the browser, while it runs."""

import socket
import sys
import threading
import webbrowser
from typing import Annotated

import typer

from acp_proxy.cli import completion
from acp_proxy.cli.choose_session import choose_session
from acp_proxy.cli.open_store import open_store
from acp_proxy.cli.report_errors import print_on_stderr, report_errors
from acp_proxy.cli.shared_options import StoreOption
from acp_proxy.errors import AcpProxyError, NoSuchSession
from acp_proxy.installation import explain_no_web
from acp_proxy.sessions.command_store import CommandStore
from acp_proxy.store.index_database import ListedSession


def web(
    session: Annotated[
        str,
        typer.Argument(
            metavar="SESSION",
            help="Begin with this session: an id, the beginning of one, a title, or: last. Default: the list.",
            show_default=False,
            autocompletion=completion.complete_session,
        ),
    ] = "",
    store: StoreOption = "",
    agent: Annotated[
        str,
        typer.Option(
            "--agent",
            "-a",
            metavar="NAME",
            help="Whose SESSION: of agents whose name has a word that begins so.",
            autocompletion=completion.complete_agent,
        ),
    ] = "",
    port: Annotated[
        int,
        typer.Option(
            "--port", metavar="N", min=0, max=65535, help="The port. Default: any that is free.", show_default=False
        ),
    ] = 0,
    no_open: Annotated[bool, typer.Option("--no-open", help="Print the link, and open no browser.")] = False,
) -> None:
    """Read all sessions in the browser.

    There is a list, a search, each conversation, and statistics. The pages are for this machine and its user alone, and
    change nothing. They follow sessions as these grow. The link works once, in one browser; to open another, start the
    command again. Ctrl-C ends it. More: docs/web.md.

    Example: acp-proxy web last
    """
    with report_errors():
        opened_store = open_store(store)
        next(opened_store.list_newest(), None)  # an index that is missing is made now, with its progress
        chosen = _choose_session(opened_store, session, agent)
        try:
            import uvicorn

            from acp_proxy.tools.web.access import Access
            from acp_proxy.tools.web.connections import BACKLOG, Connection
        except ImportError as problem:
            raise AcpProxyError(explain_no_web()) from problem
        try:
            listening = socket.create_server(("127.0.0.1", port))
        except OSError as problem:
            raise AcpProxyError(
                f"port {port} cannot be used: {problem.strerror}. Give another one, or leave out --port."
            ) from problem
    access = Access(listening.getsockname()[1], _locate(chosen))
    typer.echo(access.link)
    print_on_stderr("Ctrl-C ends it.")
    if not no_open:
        # A browser in the terminal returns when it ends, and needs the server until then.
        threading.Thread(target=_open_browser, args=(access.link,), daemon=True).start()
    try:
        from acp_proxy.tools.web.site import make_app  # slow: the browser starts meanwhile, and its request waits

        settings = uvicorn.Config(
            make_app(opened_store.root, access),
            http=Connection,
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="error",
            backlog=BACKLOG,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=1,
        )
        uvicorn.Server(settings).run(sockets=[listening])
    except KeyboardInterrupt:
        if sys.stderr.isatty():  # the terminal has shown ^C, and the prompt follows
            print_on_stderr("")
        raise typer.Exit from None


def _choose_session(store: CommandStore, session: str, agent: str) -> ListedSession | None:
    """Raises NoSuchSession."""
    try:
        return choose_session(store, session, agent) if session else None
    except NoSuchSession as problem:
        if not session.isdigit():
            raise
        raise NoSuchSession(*problem.args, f"For a port: --port {session}") from problem


def _locate(chosen: ListedSession | None) -> str:
    """The address of the page to begin with, from the path of all pages on."""
    if chosen is None:
        return ""
    from acp_proxy.tools.web.pages import locate_session

    return locate_session(chosen)


def _open_browser(link: str) -> None:
    if not webbrowser.open(link):
        print_on_stderr("No browser was found. Open the link yourself.")
