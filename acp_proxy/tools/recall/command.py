"""``acp-proxy mcp``: an MCP server with which an agent looks up earlier sessions."""

import signal
from typing import Annotated

import typer

from acp_proxy.cli.open_store import open_store
from acp_proxy.cli.pager import is_attended
from acp_proxy.cli.report_errors import report_errors
from acp_proxy.cli.shared_options import StoreOption, choose_directory
from acp_proxy.errors import AcpProxyError
from acp_proxy.installation import explain_no_mcp


def mcp(
    store: StoreOption = "",
    cwd: Annotated[
        str, typer.Option("--cwd", metavar="DIR", help="Show sessions of this directory. Default: where it is started.")
    ] = "",
    everywhere: Annotated[bool, typer.Option("--everywhere", help="Show sessions of all directories.")] = False,
) -> None:
    """Let an agent look up earlier sessions, as an MCP server.

    An agent starts this server, which speaks MCP on stdin and stdout, and only reads. It shows what the user and any
    agent said in earlier sessions of one directory, or of the work tree around it. acp-proxy run --recall gives it to
    an agent. More: docs/recall.md.

    Example: acp-proxy mcp --cwd .
    """
    if cwd and everywhere:
        raise typer.BadParameter("--cwd and --everywhere exclude each other. Give one of them.")
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    with report_errors():
        root = open_store(store).root
        if is_attended():
            raise AcpProxyError("mcp is started by an agent. To give it to one: acp-proxy run --recall AGENT")
        try:
            from acp_proxy.tools.recall.server import make_server
        except ImportError as problem:
            raise AcpProxyError(explain_no_mcp()) from problem
        from acp_proxy.tools.recall.lookup import RecallAnswers
        from acp_proxy.tools.recall.visible_sessions import EVERYWHERE, find_scope

        scope = EVERYWHERE if everywhere else find_scope(choose_directory(cwd or ".", here=False) or "")
        make_server(RecallAnswers(root, scope)).run()
