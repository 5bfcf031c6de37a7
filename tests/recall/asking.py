"""Asks ``acp-proxy mcp`` with the official MCP client, over stdio."""

import asyncio
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mcp import StdioServerParameters, stdio_client
from mcp.client.client import Client
from mcp_types import CallToolResult, TextContent, Tool

from tests.client import TIMEOUT

SECONDS = 3 * TIMEOUT
COMMAND = [sys.executable, "-P", "-m", "acp_proxy", "mcp"]


def asked(
    *calls: tuple[str, dict[str, Any]],
    words: Sequence[str] = (),
    command: Sequence[str] = COMMAND,
    cwd: Path | None = None,
    variables: Mapping[str, str] | None = None,
) -> tuple[list[Tool], list[CallToolResult]]:
    """The tools of the server, and what they answer. ``words``: after its command."""

    async def ask() -> tuple[list[Tool], list[CallToolResult]]:
        paths = {"PYTHONPATH": os.environ["PYTHONPATH"]} if "PYTHONPATH" in os.environ else {}
        started = StdioServerParameters(
            command=command[0], args=[*command[1:], *words], cwd=cwd, env=paths | dict(variables or {})
        )
        async with asyncio.timeout(SECONDS), Client(stdio_client(started)) as client:
            tools = (await client.list_tools()).tools
            return tools, [await client.call_tool(name, given) for name, given in calls]

    return asyncio.run(ask())


def texts(results: list[CallToolResult]) -> list[str]:
    """The text of each result."""
    return ["".join(one.text for one in result.content if isinstance(one, TextContent)) for result in results]
