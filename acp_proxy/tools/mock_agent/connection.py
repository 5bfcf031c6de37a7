"""The mock agent's connection: reads lines, writes complete lines, asks the client questions, and pauses.

At the end of the input all waits end: pauses are over, and unanswered questions count as cancelled. Reading and writing
run on threads, so that a client can cancel while it does not read.
"""

import os
from collections.abc import AsyncIterator

import anyio
import anyio.to_thread

from acp_proxy.protocol.framing import LineFramer
from acp_proxy.protocol.jsonrpc import RequestId, Response

_STDIN, _STDOUT = 0, 1
_READ_SIZE = 64 * 1024
_CANCELLED: object = {"outcome": {"outcome": "cancelled"}}


class _Question:
    def __init__(self) -> None:
        self.answered = anyio.Event()
        self.result: object = None


class Connection:
    """The connection on stdin and stdout."""

    def __init__(self) -> None:
        self._writing = anyio.Lock()
        self._ended = anyio.Event()
        self._questions: dict[RequestId, _Question] = {}
        self._count = 0

    async def read_lines(self) -> AsyncIterator[bytes]:
        """The lines of the input, to its end."""
        framer = LineFramer()
        while data := await anyio.to_thread.run_sync(os.read, _STDIN, _READ_SIZE, abandon_on_cancel=True):
            for line in framer.feed(data):
                yield line
        if rest := framer.take_unfinished():
            yield rest
        self._ended.set()
        for question in self._questions.values():
            self._answer(question, _CANCELLED)

    async def write(self, lines: bytes) -> None:
        """Write complete lines. Raises BrokenPipeError."""
        async with self._writing:
            await anyio.to_thread.run_sync(_write_all, lines)

    def begin_question(self) -> RequestId:
        """The next id for a question. Ids are counted, so the same requests produce the same ids."""
        id = RequestId(str(self._count))
        self._count += 1
        question = self._questions[id] = _Question()
        if self._ended.is_set():
            self._answer(question, _CANCELLED)
        return id

    async def await_answer(self, id: RequestId) -> object:
        """The result of a question; None for an error."""
        try:
            await self._questions[id].answered.wait()
            return self._questions[id].result
        finally:
            del self._questions[id]

    def take(self, response: Response) -> None:
        """Take the client's answer to a question; answers to others are ignored."""
        if response.id is not None and (question := self._questions.get(response.id)) is not None:
            self._answer(question, response.result if response.error is None else None)

    async def pause(self, seconds: float) -> None:
        """Wait, at most until the input ends."""
        with anyio.move_on_after(seconds):
            await self._ended.wait()

    def _answer(self, question: _Question, result: object) -> None:
        if not question.answered.is_set():
            question.result = result
            question.answered.set()


def _write_all(lines: bytes) -> None:
    view = memoryview(lines)
    while view:
        view = view[os.write(_STDOUT, view) :]
