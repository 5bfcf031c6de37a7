"""The official Python SDK between a client and an agent: its models parse every message and write it again."""

import asyncio
import sys
from asyncio.subprocess import PIPE
from typing import Any

import acp

LIMIT = 256 * 1024 * 1024  # of a line: more than any measured one


class Passing:
    """Passes the requests and notifications of one side to the other. Only the measured methods."""

    def __init__(self, other: Any = None) -> None:
        self.other = other

    async def initialize(self, *args: Any, **params: Any) -> Any:
        return await self.other.initialize(*args, **params)

    async def new_session(self, *args: Any, **params: Any) -> Any:
        return await self.other.new_session(*args, **params)

    async def prompt(self, *args: Any, **params: Any) -> Any:
        return await self.other.prompt(*args, **params)

    async def session_update(self, *args: Any, **params: Any) -> None:
        await self.other.session_update(*args, **params)

    async def ext_notification(self, method: str, params: dict[str, Any]) -> None:
        await self.other.ext_notification(method, params)


class ToAgent(Passing):
    def __init__(self, to_client: Passing) -> None:
        super().__init__()
        self.to_client = to_client

    def on_connect(self, connection: Any) -> None:
        self.to_client.other = connection


async def main(command: list[str]) -> None:
    agent = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, limit=LIMIT)
    to_client: Any = Passing()
    to_agent: Any = ToAgent(to_client)
    to_agent.other = acp.connect_to_agent(to_client, agent.stdin, agent.stdout)
    await acp.run_agent(to_agent, stdio_buffer_limit_bytes=LIMIT)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
