"""Asks ``acp-proxy mcp`` with the official MCP client: over stdio, or in this process.

The client is imported where it is used: it takes a second, which every process that collects tests would need."""

import asyncio
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from acp_proxy.tools.recall.lookup import RecallAnswers
from tests.waiting import SECONDS

if TYPE_CHECKING:
    from mcp.client.client import Client
    from mcp_types import CallToolResult, Tool

Call = tuple[str, dict[str, Any]]
Answers = tuple[list["Tool"], list["CallToolResult"]]

COMMAND = [sys.executable, "-P", "-m", "acp_proxy", "mcp"]


def ask_server(
    *calls: Call,
    words: Sequence[str] = (),
    command: Sequence[str] = COMMAND,
    cwd: Path | None = None,
    variables: Mapping[str, str] | None = None,
) -> Answers:
    """The tools of a started server, and what they answer. ``words``: after its command."""
    from mcp import StdioServerParameters, stdio_client
    from mcp.client.client import Client

    paths = {"PYTHONPATH": os.environ["PYTHONPATH"]} if "PYTHONPATH" in os.environ else {}
    started = StdioServerParameters(
        command=command[0], args=[*command[1:], *words], cwd=cwd, env=paths | dict(variables or {})
    )
    return asyncio.run(_ask(Client(stdio_client(started)), calls))


def ask_lookup(lookup: RecallAnswers, *calls: Call) -> Answers:
    """The tools of the server in this process, and what they answer."""
    from mcp.client.client import Client

    from acp_proxy.tools.recall.server import make_server

    return asyncio.run(_ask(Client(make_server(lookup)), calls))


async def _ask(opening: "Client", calls: Sequence[Call]) -> Answers:
    async with asyncio.timeout(SECONDS), opening as client:
        tools = (await client.list_tools()).tools
        return tools, [await client.call_tool(name, given) for name, given in calls]


def texts(results: "list[CallToolResult]") -> list[str]:
    """The text of each result."""
    from mcp_types import TextContent

    return ["".join(one.text for one in result.content if isinstance(one, TextContent)) for result in results]


def make_work_tree(path: Path) -> Path:
    """A directory with a ``.git``."""
    (path / ".git").mkdir(parents=True)
    return path
