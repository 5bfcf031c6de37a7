"""Answers one prompt in protocol version 2.

The prompt is accepted and repeated at once, and the agent's state ends the turn. Updates recorded in version 2 are sent
as they came, others in the forms of version 2. Ids get a prefix, since a turn may be played twice in a session.
"""

from acp_proxy.mock.connection import Connection
from acp_proxy.mock.course import retold
from acp_proxy.mock.played import RUN, PlayedSession
from acp_proxy.mock.playing import Playing
from acp_proxy.mock.steps import Answer, Ask
from acp_proxy.replay.renaming import renamed
from acp_proxy.replay.restating import Restating
from acp_proxy.wire import acp, dialect, jsonrpc
from acp_proxy.wire.jsonrpc import Peer, Request, RequestId
from acp_proxy.wire.record import FIRST, Entry

SECOND = dialect.SECOND.version


class PlayingSecond(Playing):
    """The answer to one prompt, in version 2."""

    def __init__(self, connection: Connection, session: PlayedSession, request: Request, speed: float) -> None:
        super().__init__(connection, session, request, speed)
        self._restating = Restating(session.id)
        self._name = ""

    def _begin(self, at: str) -> None:
        self.session.played += 1
        self._name = f"mock-{self.session.played}"
        raw, blocks = self.request.raw, acp.member(self.request.params, "prompt")
        self.session.take(Entry(at, RUN, Peer.CLIENT, None, raw, jsonrpc.look(raw), protocol=SECOND))
        accepted = jsonrpc.result(self.request.id, {"messageId": self._name})
        self._put(self._update({"sessionUpdate": acp.STATE, "state": "running"}), at)
        self._put(accepted, at, acp.PROMPT)
        self._put(self._update({"sessionUpdate": "user_message", "messageId": self._name, "content": blocks}), at)

    def _retell(self, entry: Entry, line: bytes | None) -> None:
        if line is None or acp.update_kind(acp.update_of(line)) == acp.CURRENT_MODE:
            return
        lines = [line] if entry.protocol == SECOND else self._restating.all([line])
        [said] = renamed(lines, f"{self._name}-")
        self._out.append((said, retold(entry.but(protocol=SECOND), said)))

    def _send(self, line: bytes, at: str, of: str | None = None) -> None:
        self._retell(Entry(at, RUN, Peer.AGENT, of), line)

    def _question(self, step: Ask, id: RequestId) -> bytes | None:
        line = super()._question(step, id)
        if line is None:
            return None
        params = acp.member(jsonrpc.look(line), "params")
        call = acp.member(params, "toolCall" if step.entry.protocol == FIRST else "subject")
        if step.entry.protocol != FIRST:
            call = acp.member(call, "toolCall")
        asked: dict[str, object] = {"sessionId": self.session.id, "options": acp.member(params, "options")}
        asked["title"] = acp.text(params, "title") or acp.text(call, "title") or "May I go on?"
        if isinstance(call, dict):
            asked["subject"] = {
                "type": "tool_call",
                "toolCall": self._called(call, is_first=step.entry.protocol == FIRST),
            }
        return jsonrpc.request(id, acp.REQUEST_PERMISSION, asked)

    def _called(self, call: dict[str, object], *, is_first: bool) -> object:
        line = self._update({"sessionUpdate": "tool_call_update", **call})
        [said] = renamed(Restating(self.session.id).all([line]) if is_first else [line], f"{self._name}-")
        told = acp.update_of(said)
        return (
            {name: value for name, value in told.items() if name != "sessionUpdate"} if isinstance(told, dict) else {}
        )

    def _ending(self, step: Answer) -> bytes:
        if step.entry is not None and step.entry.protocol == SECOND and step.entry.of is None:
            return self._course.told(step.entry) or self._idle({})
        return super()._ending(step)

    async def _answer(self, line: bytes, at: str) -> None:
        said = jsonrpc.look(line)
        if acp.text(said, "method") is None:
            error, result = acp.member(said, "error"), acp.member(said, "result")
            more = (
                {"stopReason": acp.text(result, "stopReason")}
                if error is None
                else {"stopReason": "error", "error": error}
            )
            line = self._idle({name: value for name, value in more.items() if value is not None})
        self._put(line, at)
        await self._flush()
        self._answered = True

    def _put(self, line: bytes, at: str, of: str | None = None) -> None:
        self._out.append((line, retold(Entry(at, RUN, Peer.AGENT, of, protocol=SECOND), line)))

    def _update(self, update: dict[str, object]) -> bytes:
        return jsonrpc.notification(acp.UPDATE, {"sessionId": self.session.id, "update": update})

    def _idle(self, more: dict[str, object]) -> bytes:
        return self._update({"sessionUpdate": acp.STATE, "state": "idle", **more})
