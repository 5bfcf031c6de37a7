"""A turn as it is played in one session: the lines of its steps, and what becomes of it by the client's answers.

Pure. Lines are the recorded bytes, with this session's id where that is another. An answer that differs from the
recorded one can only be followed as far as the recording goes:

- refused here, allowed in the recording: the tool call has failed, what the recording tells of it from there on is left
  out, and the turn goes on to its end;
- cancelled here and not in the recording: the turn ends there;
- anything else: the turn goes on as recorded, so a call that was refused then fails now as well.
"""

import enum
from collections.abc import Mapping

from acp_proxy.mock.turns import Answer, Ask, Await, Send
from acp_proxy.replay import calls, lines
from acp_proxy.wire import acp, jsonrpc
from acp_proxy.wire.jsonrpc import RequestId
from acp_proxy.wire.record import Entry

_CANCELLED = "cancelled"


class Verdict(enum.Enum):
    """What an answer means for the turn."""

    AS_RECORDED = enum.auto()
    REFUSED = enum.auto()
    CANCELLED = enum.auto()


class Course:
    def __init__(self, session: str) -> None:
        self._session = session
        self._refused: set[str | None] = set()

    def line(self, step: Send) -> bytes | None:
        """None: it is about a call that was refused here, or cannot be told."""
        return None if step.call in self._refused else self.told(step.entry)

    def question(self, step: Ask, id: RequestId) -> bytes | None:
        """The request under an id of ours. None: not asked, since its call was refused already."""
        return _under(self.told(step.entry), id) if step.call not in self._refused else None

    def answer(self, step: Answer, id: RequestId) -> bytes:
        """The end of the turn, as the answer to a request of this id."""
        told = _under(step.entry.raw, id) if step.entry is not None else None
        return told + b"\n" if told is not None else jsonrpc.error(id, jsonrpc.INTERNAL_ERROR, step.problem)

    def answered(self, ask: Ask, recorded: Await, result: object) -> Verdict:
        """``result``: what the client answered; None for an error."""
        verdict = _verdict(ask.kinds, _outcome(recorded.result), _outcome(result))
        if verdict is Verdict.REFUSED and ask.call is not None:
            self._refused.add(ask.call)
        return verdict

    def failed(self, ask: Ask) -> bytes | None:
        """The update that tells of a refused call."""
        return calls.updated(self._session, ask.call, {"status": calls.FAILED}, {}) if ask.call is not None else None

    def told(self, entry: Entry) -> bytes | None:
        """A recorded line under this session's id; None where that cannot be."""
        if entry.raw is None or (id := acp.session_id(acp.member(entry.value, "params"))) is None:
            return None
        try:
            return (entry.raw if id == self._session else lines.retold(entry.raw, self._session)) + b"\n"
        except (ValueError, KeyError):
            return None


def _under(raw: bytes | None, id: RequestId) -> bytes | None:
    try:
        return acp.with_id(raw, id) if raw is not None else None
    except (ValueError, KeyError):
        return None


def retold(entry: Entry, line: bytes) -> Entry:
    """The entry of such a line. Its run stays: what it says of terminals is known by that."""
    return entry.but(raw=line.rstrip(b"\n"), value=jsonrpc.look(line))


def _verdict(kinds: Mapping[str, str], recorded: str | None, given: str | None) -> Verdict:
    if given is not None and given == recorded:
        return Verdict.AS_RECORDED
    if given == _CANCELLED:
        return Verdict.CANCELLED
    if _allows(kinds, given) or not (recorded is None or _allows(kinds, recorded)):
        return Verdict.AS_RECORDED
    return Verdict.REFUSED


def _outcome(result: object) -> str | None:
    """The option that was chosen (behind a sign that no other outcome begins with), or what became of it instead."""
    outcome = acp.member(result, "outcome")
    kind, option = acp.text(outcome, "outcome"), acp.text(outcome, "optionId")
    return f"={option}" if kind == "selected" and option is not None else kind


def _allows(kinds: Mapping[str, str], outcome: str | None) -> bool:
    return outcome is not None and kinds.get(outcome.removeprefix("="), "").startswith("allow")
