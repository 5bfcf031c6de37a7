"""An ACP agent that plays back the sessions and turns of transcripts.

It answers requests in order. Each prompt is played by a task; prompts of one session run one after the other. At the
end of its input it answers all earlier requests, without pauses, and exits.
"""

import os
import threading
from collections.abc import Callable, Sequence

import anyio
from anyio.abc import TaskGroup

from acp_proxy.protocol import acp, jsonrpc
from acp_proxy.protocol.acp import InvalidParams
from acp_proxy.protocol.jsonrpc import Batch, Message, Notification, Opaque, Request, RequestId, Response
from acp_proxy.tools.mock_agent.connection import Connection
from acp_proxy.tools.mock_agent.matching import Match, TurnMatcher
from acp_proxy.tools.mock_agent.prompt import PromptPlayer, PromptPlayerV2
from acp_proxy.tools.mock_agent.requests import Capabilities, RequestHandlers, RequestRefused
from acp_proxy.tools.mock_agent.sessions import PlayedSession, PlayedSessions

_PARSE_ERROR = -32700
_GRACE_SECONDS = 2.0
"""Seconds for a client that closed its side to read the rest: far more than a write takes."""


def run(sessions: Sequence[PlayedSession], *, match: Match, speed: float, capabilities: Capabilities) -> None:
    """Serve on stdin and stdout until the input ends or the reader leaves. Never returns: exits with status 0.

    ``match``: how to choose the turn for a prompt. ``speed``: see ``PromptPlayer``. ``capabilities``: what to announce.
    """

    async def serve() -> None:
        played_sessions = PlayedSessions(sessions)
        await MockAgent(
            RequestHandlers(played_sessions, capabilities), TurnMatcher(played_sessions.turns, match), speed
        ).serve()

    try:
        anyio.run(serve)
    except* BrokenPipeError:
        pass
    os._exit(0)  # immediately: a thread may block forever in a read or a write


class MockAgent:
    """The agent on one connection."""

    def __init__(self, handlers: RequestHandlers, matcher: TurnMatcher, speed: float) -> None:
        self._connection = Connection()
        self._handlers = handlers
        self._matcher = matcher
        self._speed = speed
        self._players: list[PromptPlayer] = []
        self._session_locks: dict[str, anyio.Lock] = {}

    async def serve(self) -> None:
        """Serve the input. Raises BrokenPipeError, in a group."""
        async with anyio.create_task_group() as tasks:
            async for line in self._connection.read_lines():
                await self._take(jsonrpc.read_message(line), tasks)
            deadline_timer = threading.Timer(_GRACE_SECONDS, os._exit, [0])
            deadline_timer.daemon = True
            deadline_timer.start()

    async def _take(self, message: Message, tasks: TaskGroup) -> None:
        match message:
            case Request():
                await self._handle_request(message, tasks)
            case Notification():
                self._handle_notification(message)
            case Response():
                self._connection.take(message)
            case Batch(messages=messages) if messages:
                for inner_message in messages:
                    await self._take(inner_message, tasks)
            case Opaque() if not _is_json(message):
                await self._refuse(RequestId("null"), _PARSE_ERROR, "Parse error")
            case _:
                await self._refuse(RequestId("null"), jsonrpc.INVALID_REQUEST, "Invalid request")

    def _handle_notification(self, message: Notification) -> None:
        match message.method:
            case acp.CANCEL:
                self._cancel(lambda playing: playing.session.id == acp.session_id(message.params))
            case acp.CANCEL_REQUEST:
                id = jsonrpc.dump(acp.member(message.params, "requestId"))
                self._cancel(lambda playing: playing.request.id.encode() == id)

    def _cancel(self, is_chosen: Callable[[PromptPlayer], bool]) -> None:
        for player in self._players:
            if is_chosen(player):
                player.scope.cancel()

    async def _handle_request(self, request: Request, tasks: TaskGroup) -> None:
        try:
            if request.method == acp.PROMPT:
                self._start_turn(request, tasks)
                return
            reply = self._handlers.answer(request)
        except RequestRefused as refusal:
            await self._refuse(request.id, refusal.code, str(refusal))
        except InvalidParams as problem:
            await self._refuse(request.id, jsonrpc.INVALID_PARAMS, f"Invalid params: {problem}")
        else:
            if request.method == acp.DELETE:
                self._cancel(lambda playing: playing.session.id == acp.session_id(request.params))
            await self._connection.write(
                b"".join([*reply.lines_before, jsonrpc.encode_result(request.id, reply.result), *reply.lines_after])
            )

    def _start_turn(self, request: Request, tasks: TaskGroup) -> None:
        session = self._handlers.find_prompted(request.params)
        player_class = PromptPlayerV2 if self._handlers.speaks_v2 else PromptPlayer
        player = player_class(self._connection, session, request, self._speed)
        self._players.append(player)
        tasks.start_soon(self._play, player)

    async def _play(self, player: PromptPlayer) -> None:
        try:
            async with self._session_locks.setdefault(player.session.id, anyio.Lock()):
                turn = self._matcher.find(acp.member(player.request.params, "prompt"), player.session.id)
                if turn is not None:
                    await player.play(turn)
                else:
                    await player.send_text(self._matcher.explain_no_match())
        finally:
            self._players.remove(player)

    async def _refuse(self, id: RequestId, code: int, message: str) -> None:
        await self._connection.write(jsonrpc.encode_error(id, code, message))


def _is_json(message: Opaque) -> bool:
    """Whether the line is JSON, although not a message."""
    if message.is_json:
        return True
    try:
        jsonrpc.parse(message.raw)
    except (ValueError, RecursionError):
        return False
    return True
