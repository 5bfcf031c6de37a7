"""Plays a turn in one session: the lines of its steps, and what the client's answers change.

Pure. Lines are the recorded bytes, with the id of this session. If an answer differs from the recorded one, the turn
follows the recording as far as possible:

- refused now, allowed in the recording: the tool call fails, its later updates are left out, and the turn continues;
- cancelled now, not in the recording: the turn ends;
- anything else: the turn continues as recorded, so a call that was refused then also fails now.
"""

import enum
from collections.abc import Mapping

from msgspec.structs import replace

from acp_proxy.protocol import acp, jsonrpc
from acp_proxy.protocol.jsonrpc import RequestId
from acp_proxy.tools.mock_agent.steps import Answer, Ask, Await, Send
from acp_proxy.transcript.file_format import Entry
from acp_proxy.transcript_replay import tool_calls

_CANCELLED = "cancelled"


class Verdict(enum.Enum):
    """The effect of an answer on the turn."""

    AS_RECORDED = enum.auto()
    REFUSED = enum.auto()
    CANCELLED = enum.auto()


class TurnLines:
    """One turn in one session."""

    def __init__(self, session_id: str) -> None:
        self._session_id = session_id
        self._refused: set[str | None] = set()

    def encode_line(self, step: Send) -> bytes | None:
        """The line of an update. None: its call was refused here, or the line cannot be sent."""
        return None if step.call in self._refused else self.encode_entry(step.entry)

    def encode_question(self, step: Ask, id: RequestId) -> bytes | None:
        """The request under a new id. None: not asked, because its call was already refused."""
        return _set_id(self.encode_entry(step.entry), id) if step.call not in self._refused else None

    def encode_answer(self, step: Answer, id: RequestId) -> bytes:
        """The end of the turn: the answer to the request with this id."""
        answer = _set_id(step.entry.raw, id) if step.entry is not None else None
        return answer + b"\n" if answer is not None else jsonrpc.encode_error(id, jsonrpc.INTERNAL_ERROR, step.problem)

    def judge_answer(self, ask: Ask, recorded: Await, result: object) -> Verdict:
        """What the client's answer changes. ``result``: the answer; None for an error. ``recorded``: the old one."""
        verdict = _judge(ask.kinds, _find_outcome(recorded.result), _find_outcome(result))
        if verdict is Verdict.REFUSED and ask.call is not None:
            self._refused.add(ask.call)
        return verdict

    def fail_call(self, ask: Ask) -> bytes | None:
        """The update that marks a refused call as failed."""
        return (
            tool_calls.encode_update(self._session_id, ask.call, {"status": tool_calls.FAILED}, {})
            if ask.call is not None
            else None
        )

    def encode_entry(self, entry: Entry) -> bytes | None:
        """A recorded line with this session's id; None if that is impossible."""
        if entry.raw is None or (id := acp.session_id(acp.member(entry.value, "params"))) is None:
            return None
        try:
            return (entry.raw if id == self._session_id else acp.with_session_id(entry.raw, self._session_id)) + b"\n"
        except (ValueError, KeyError):
            return None


def _set_id(raw: bytes | None, id: RequestId) -> bytes | None:
    try:
        return acp.with_id(raw, id) if raw is not None else None
    except (ValueError, KeyError):
        return None


def replace_line(entry: Entry, line: bytes) -> Entry:
    """The entry of such a line. It keeps its run, which identifies its terminals."""
    return replace(entry, raw=line.rstrip(b"\n"), value=jsonrpc.parse_leniently(line))


def _judge(kinds: Mapping[str, str], recorded: str | None, answer: str | None) -> Verdict:
    if answer is not None and answer == recorded:
        return Verdict.AS_RECORDED
    if answer == _CANCELLED:
        return Verdict.CANCELLED
    if _is_allowing(kinds, answer) or not (recorded is None or _is_allowing(kinds, recorded)):
        return Verdict.AS_RECORDED
    return Verdict.REFUSED


def _find_outcome(result: object) -> str | None:
    """The chosen option (with a prefix that no other outcome has), or the other outcome."""
    outcome = acp.member(result, "outcome")
    kind, option = acp.text(outcome, "outcome"), acp.text(outcome, "optionId")
    return f"={option}" if kind == "selected" and option is not None else kind


def _is_allowing(kinds: Mapping[str, str], outcome: str | None) -> bool:
    return outcome is not None and kinds.get(outcome.removeprefix("="), "").startswith("allow")
