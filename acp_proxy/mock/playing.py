"""Answers one prompt: plays a recorded turn step by step, at its own pace or faster.

Sent lines become part of the session. Lines without a pause between them leave in one write.
"""

import anyio
import anyio.lowlevel

from acp_proxy.mock.connection import Connection
from acp_proxy.mock.course import Course, Verdict, retold
from acp_proxy.mock.played import RUN, PlayedSession
from acp_proxy.mock.steps import Answer, Ask, Await, Keep, RecordedTurn, Send
from acp_proxy.wire import acp, jsonrpc
from acp_proxy.wire.jsonrpc import Peer, Request, RequestId
from acp_proxy.wire.record import Entry

_BATCH = 64 * 1024  # bytes; a cancel takes effect between batches


class Playing:
    """The answer to one prompt."""

    def __init__(self, connection: Connection, session: PlayedSession, request: Request, speed: float) -> None:
        """``speed``: times faster than recorded; 0: as fast as possible."""
        self.session = session
        self.request = request
        self.scope = anyio.CancelScope()
        """Cancels the turn."""
        self._connection = connection
        self._speed = speed
        self._course = Course(session.id)
        self._out: list[tuple[bytes, Entry]] = []
        self._asked: dict[int, tuple[Ask, RequestId]] = {}
        self._answered = False

    async def play(self, turn: RecordedTurn) -> None:
        """Play a turn. If ``scope`` is cancelled, the turn ends with the stop reason ``cancelled``."""
        self._begin(turn.at)
        with self.scope:
            for step in turn.steps:
                await self._step(step)
            await self._flush()
        if not self._answered:
            self._out.clear()
            await self._answer(jsonrpc.result(self.request.id, {"stopReason": "cancelled"}), turn.at)

    async def say(self, text: str) -> None:
        """Answer with this text."""
        at = self.session.summary.last or ""
        self._begin(at)
        update = {"sessionUpdate": acp.AGENT_CHUNK, "content": {"type": "text", "text": text}}
        self._send(jsonrpc.notification(acp.UPDATE, {"sessionId": self.session.id, "update": update}), at)
        await self._answer(jsonrpc.result(self.request.id, {"stopReason": "end_turn"}), at)

    async def _step(self, step: Send | Keep | Ask | Await | Answer) -> None:
        match step:
            case Send():
                await self._pause(step.wait)
                self._retell(step.entry, self._course.line(step))
            case Keep():
                self._out.append((b"", step.entry))
            case Ask():
                await self._pause(step.wait)
                self._ask(step)
            case Await():
                await self._hear(step)
            case Answer():
                await self._pause(step.wait)
                at = step.entry.at if step.entry is not None else self.session.summary.last or ""
                await self._answer(self._ending(step), at)
        if sum(len(line) for line, _ in self._out) > _BATCH:
            await self._flush()

    def _ask(self, step: Ask) -> None:
        id = self._connection.question()
        line = self._question(step, id)
        if line is not None:
            self._asked[step.number] = step, id
            self._out.append((line, retold(step.entry, line)))

    def _question(self, step: Ask, id: RequestId) -> bytes | None:
        return self._course.question(step, id)

    def _ending(self, step: Answer) -> bytes:
        return self._course.answer(step, self.request.id)

    async def _hear(self, step: Await) -> None:
        asked = self._asked.pop(step.number, None)
        if asked is None:
            return
        await self._flush()
        verdict = self._course.answered(asked[0], step, await self._connection.answer(asked[1]))
        if verdict is Verdict.CANCELLED:
            self.scope.cancel()
            await anyio.lowlevel.checkpoint()
        elif verdict is Verdict.REFUSED and (line := self._course.failed(asked[0])) is not None:
            self._send(line, asked[0].entry.at)

    # Sending.

    def _begin(self, at: str) -> None:
        raw = self.request.raw
        self.session.take(Entry(at, RUN, Peer.CLIENT, None, raw, jsonrpc.look(raw)))

    def _retell(self, entry: Entry, line: bytes | None) -> None:
        if line is not None:
            self._out.append((line, retold(entry, line)))

    def _send(self, line: bytes, at: str, of: str | None = None) -> None:
        """Send a line of our own."""
        self._out.append((line, retold(Entry(at, RUN, Peer.AGENT, of), line)))

    async def _answer(self, line: bytes, at: str) -> None:
        self._send(line, at, acp.PROMPT)
        await self._flush()
        self._answered = True

    async def _pause(self, seconds: float) -> None:
        """There is no pause after the answer: late updates follow at once, however late they came."""
        if self._speed and not self._answered and (seconds := seconds / self._speed) > 0:
            await self._flush()
            await self._connection.pause(seconds)

    async def _flush(self) -> None:
        """Write complete lines, even if the turn is cancelled meanwhile. They become part of the session."""
        await anyio.lowlevel.checkpoint()
        out, self._out = self._out, []
        for _, entry in out:
            self.session.take(entry)
        if lines := b"".join(line for line, _ in out):
            with anyio.CancelScope(shield=True):
                await self._connection.write(lines)
