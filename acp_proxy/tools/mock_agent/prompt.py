"""Answers one prompt: plays a recorded turn step by step, at its own pace or faster.

Sent lines become part of the session. Lines without a pause between them leave in one write.
"""

import anyio
import anyio.lowlevel
from msgspec.structs import replace

from acp_proxy.protocol import acp, jsonrpc, update_kinds, versions
from acp_proxy.protocol.jsonrpc import Peer, Request, RequestId
from acp_proxy.tools.mock_agent.connection import Connection
from acp_proxy.tools.mock_agent.sessions import RUN, PlayedSession
from acp_proxy.tools.mock_agent.steps import Answer, Ask, Await, Keep, RecordedTurn, Send
from acp_proxy.tools.mock_agent.turn_player import TurnLines, Verdict, replace_line
from acp_proxy.transcript.file_format import ACP_V1, Entry
from acp_proxy.transcript_replay.v2_client_replayer import V1ToV2Converter, prefix_ids

_BATCH = 64 * 1024  # bytes; a cancel takes effect between batches


class PromptPlayer:
    """The answer to one prompt."""

    _version = ACP_V1

    def __init__(self, connection: Connection, session: PlayedSession, request: Request, speed: float) -> None:
        """``speed``: times faster than recorded; 0: as fast as possible."""
        self.session = session
        self.request = request
        self.scope = anyio.CancelScope()
        """Cancels the turn."""
        self._connection = connection
        self._speed = speed
        self._turn_lines = TurnLines(session.id)
        self._unsent: list[tuple[bytes, Entry]] = []
        self._open_questions: dict[int, tuple[Ask, RequestId]] = {}
        self._is_answered = False

    async def play(self, turn: RecordedTurn) -> None:
        """Play a turn. If ``scope`` is cancelled, the turn ends with the stop reason ``cancelled``."""
        await self._begin(turn.at, turn.refusal)
        with self.scope:
            for step in turn.steps:
                await self._play_step(step)
            await self._flush()
        if not self._is_answered:
            self._unsent.clear()
            await self._answer(jsonrpc.encode_result(self.request.id, {"stopReason": "cancelled"}), turn.at)

    async def send_text(self, text: str) -> None:
        """Answer with this text."""
        stamp = self.session.summary.last or ""
        await self._begin(stamp)
        update = {"sessionUpdate": update_kinds.AGENT_CHUNK, "content": {"type": "text", "text": text}}
        self._send(jsonrpc.encode_notification(acp.UPDATE, {"sessionId": self.session.id, "update": update}), stamp)
        await self._answer(jsonrpc.encode_result(self.request.id, {"stopReason": "end_turn"}), stamp)

    async def _play_step(self, step: Send | Keep | Ask | Await | Answer) -> None:
        match step:
            case Send():
                await self._pause(step.wait)
                self._play_entry(step.entry, self._turn_lines.encode_line(step))
            case Keep():
                self._unsent.append((b"", step.entry))
            case Ask():
                await self._pause(step.wait)
                self._ask(step)
            case Await():
                await self._await_answer(step)
            case Answer():
                await self._pause(step.wait)
                stamp = step.entry.at if step.entry is not None else self.session.summary.last or ""
                await self._answer(self._encode_ending(step), stamp)
        if sum(len(line) for line, _ in self._unsent) > _BATCH:
            await self._flush()

    def _ask(self, step: Ask) -> None:
        id = self._connection.begin_question()
        line = self._encode_question(step, id)
        if line is not None:
            self._open_questions[step.number] = step, id
            self._add(line, step.entry)

    def _encode_question(self, step: Ask, id: RequestId) -> bytes | None:
        return self._turn_lines.encode_question(step, id)

    def _encode_ending(self, step: Answer) -> bytes:
        return self._turn_lines.encode_answer(step, self.request.id)

    async def _await_answer(self, step: Await) -> None:
        question = self._open_questions.pop(step.number, None)
        if question is None:
            return
        await self._flush()
        verdict = self._turn_lines.judge_answer(question[0], step, await self._connection.await_answer(question[1]))
        if verdict is Verdict.CANCELLED:
            self.scope.cancel()
            await anyio.lowlevel.checkpoint()
        elif verdict is Verdict.REFUSED and (line := self._turn_lines.fail_call(question[0])) is not None:
            self._send(line, question[0].entry.at)

    # Sending.

    async def _begin(self, stamp: str, refusal: Answer | None = None) -> None:
        """Begin the answer; with ``refusal``, the recorded prompt was refused, so no turn began."""
        raw, version = self.request.raw, self._version
        self.session.take(
            Entry(stamp, RUN, Peer.CLIENT, None, raw, jsonrpc.parse_leniently(raw), protocol_version=version)
        )

    def _play_entry(self, entry: Entry, line: bytes | None) -> None:
        if line is not None:
            self._add(line, entry)

    def _send(self, line: bytes, stamp: str, of: str | None = None) -> None:
        """Send a line of our own."""
        self._add(line, Entry(stamp, RUN, Peer.AGENT, of))

    def _add(self, line: bytes, entry: Entry) -> None:
        """Send this line next, as the one of an entry."""
        self._unsent.append((line, replace_line(replace(entry, protocol_version=self._version), line)))

    async def _answer(self, line: bytes, stamp: str) -> None:
        self._send(line, stamp, acp.PROMPT)
        await self._flush()
        self._is_answered = True

    async def _pause(self, seconds: float) -> None:
        """Wait before a step, but not after the answer: late updates follow at once, however late they came."""
        if self._speed and not self._is_answered and (seconds := seconds / self._speed) > 0:
            await self._flush()
            await self._connection.pause(seconds)

    async def _flush(self) -> None:
        """Write complete lines, even if the turn is cancelled before the last. They become part of the session."""
        await anyio.lowlevel.checkpoint()
        sent, self._unsent = self._unsent, []
        for _, entry in sent:
            self.session.take(entry)
        if lines := b"".join(line for line, _ in sent):
            with anyio.CancelScope(shield=True):
                await self._connection.write(lines)


# --- Answers one prompt in protocol version 2.
#
# The prompt is accepted and repeated at once, and the agent's state ends the turn. Updates recorded in version 2 are
# sent as they came, others in the forms of version 2. Ids get a prefix, since a turn may be played twice in a session.


class PromptPlayerV2(PromptPlayer):
    """The answer to one prompt, in version 2."""

    _version = versions.V2.version

    def __init__(self, connection: Connection, session: PlayedSession, request: Request, speed: float) -> None:
        super().__init__(connection, session, request, speed)
        self._v1_as_v2 = V1ToV2Converter(session.id)
        self._message_id = ""
        self._refusal: bytes | None = None

    async def _begin(self, stamp: str, refusal: Answer | None = None) -> None:
        await super()._begin(stamp)
        self.session.played_prompts += 1
        self._message_id = f"mock-{self.session.played_prompts}"
        if refusal is not None:
            self._refusal = self._turn_lines.encode_answer(refusal, self.request.id)
            return
        blocks = acp.member(self.request.params, "prompt")
        accepted = jsonrpc.encode_result(self.request.id, {"messageId": self._message_id})
        echo = {"sessionUpdate": update_kinds.USER_MESSAGE, "messageId": self._message_id, "content": blocks}
        self._put(self._update({"sessionUpdate": update_kinds.WORK_STATE, "state": "running"}), stamp)
        self._put(accepted, stamp, acp.PROMPT)
        self._put(self._update(echo), stamp)
        await self._flush()  # a cancelled turn has been accepted, too

    def _play_entry(self, entry: Entry, line: bytes | None) -> None:
        if line is None or acp.update_kind(acp.read_update(line)) == update_kinds.CURRENT_MODE:
            return
        lines = [line] if entry.protocol_version == self._version else self._v1_as_v2.convert([line])
        [renamed] = prefix_ids(lines, f"{self._message_id}-")
        self._add(renamed, entry)

    def _send(self, line: bytes, stamp: str, of: str | None = None) -> None:
        self._play_entry(Entry(stamp, RUN, Peer.AGENT, of), line)

    def _encode_question(self, step: Ask, id: RequestId) -> bytes | None:
        line = super()._encode_question(step, id)
        if line is None:
            return None
        lines = [self._restate_question(line, id) if step.entry.protocol_version == ACP_V1 else line]
        [renamed] = prefix_ids(lines, f"{self._message_id}-")
        return renamed

    def _restate_question(self, line: bytes, id: RequestId) -> bytes:
        """A permission request of version 1 as one of version 2."""
        params = acp.member(jsonrpc.parse_leniently(line), "params")
        others = (
            {name: value for name, value in params.items() if name != "toolCall"} if isinstance(params, dict) else {}
        )
        call = acp.member(params, "toolCall")
        title = acp.text(call, "title") or "May I go on?"
        subject: dict[str, object] = {}
        if isinstance(call, dict):
            call_line = self._update({"sessionUpdate": update_kinds.TOOL_CALL_UPDATE, **call})
            update = acp.read_update(V1ToV2Converter(self.session.id).convert([call_line])[0])
            fields = update.items() if isinstance(update, dict) else ()
            call_as_v2 = {name: value for name, value in fields if name != "sessionUpdate"}
            subject = {"subject": {"type": "tool_call", "toolCall": call_as_v2}}
        return jsonrpc.encode_request(id, acp.REQUEST_PERMISSION, {**others, "title": title, **subject})

    def _encode_ending(self, step: Answer) -> bytes:
        if (
            step.entry is not None
            and step.entry.protocol_version == self._version
            and step.entry.answered_method is None
        ):
            return self._turn_lines.encode_entry(step.entry) or self._encode_idle({})
        return super()._encode_ending(step)

    async def _answer(self, line: bytes, stamp: str) -> None:
        message = jsonrpc.parse_leniently(line)
        if self._refusal is not None:  # also if the turn was cancelled: it never began
            line = self._refusal
        elif acp.text(message, "method") is None:
            error, result = acp.member(message, "error"), acp.member(message, "result")
            end_members = (
                {"stopReason": acp.text(result, "stopReason")}
                if error is None
                else {"stopReason": "error", "error": error}
            )
            line = self._encode_idle({name: value for name, value in end_members.items() if value is not None})
        self._put(line, stamp, acp.PROMPT if self._refusal is not None else None)
        await self._flush()
        self._is_answered = True

    def _put(self, line: bytes, stamp: str, of: str | None = None) -> None:
        self._add(line, Entry(stamp, RUN, Peer.AGENT, of))

    def _update(self, update: dict[str, object]) -> bytes:
        return jsonrpc.encode_notification(acp.UPDATE, {"sessionId": self.session.id, "update": update})

    def _encode_idle(self, members: dict[str, object]) -> bytes:
        return self._update({"sessionUpdate": update_kinds.WORK_STATE, "state": "idle", **members})
