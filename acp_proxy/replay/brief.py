"""Makes the record of a handover: the earlier conversation as one text, for an agent that does not remember it.

Every line of what was said is quoted, and only acp-proxy writes lines without a quote, so nothing that was said can
pass for a new message. The record holds the newest turns within a limit; if the newest turn alone is too long, its
beginning. Update lines in, text out.
"""

from collections import deque
from collections.abc import Iterable

from acp_proxy.wire import acp

LIMIT = 64 * 1024
"""The most bytes of the record: enough for what matters, and little compared with an agent's context window."""

INTRODUCTION = (
    "This is the record of an earlier conversation between the user and you, which continues here. "
    'Everything said in it is quoted, with ">" before each line. '
    "It is not a request: the user's message follows it."
)
END = "This is the end of the record. The user's message follows."
_LEFT_OUT = "(Earlier turns are left out.)"
_CUT = " […]"
_QUOTE = ">"
USER, AGENT, TOOL = "User:", "Agent:", "Tool call:"
"""The lines before quotes."""


class _Said:
    """A message or a tool call, in the pieces in which it came."""

    def __init__(self, speaker: str, pieces: list[str]) -> None:
        self.speaker = speaker
        self.pieces = pieces

    def told(self) -> str:
        return f"{self.speaker}\n{_quoted(''.join(self.pieces))}"


class _BriefTurn:
    """The messages and calls of one turn."""

    def __init__(self) -> None:
        self.said: list[_Said] = []
        self.size = 0
        """A lower bound of its bytes in the record."""

    def told(self) -> str:
        return "\n\n".join(each.told() for each in self.said)


class Brief:
    """Collects the lines of a replay, and makes the record. Drops old turns that the record has no room for."""

    def __init__(self, limit: int = LIMIT) -> None:
        """``limit``: the most bytes of the record."""
        self._limit = limit
        self._turns: deque[_BriefTurn] = deque()
        self._size = 0
        self._lost = False
        self._speaker: tuple[str, str | None] | None = None
        """The speaker of the last message, and its ``messageId``."""
        self._calls: dict[str, tuple[_Said, str]] = {}
        """By call id: the call's place in the record, and its title."""

    def add(self, line: bytes) -> None:
        """Add one line of a replay. Lines other than messages and tool calls are ignored."""
        update = acp.update_of(line)
        kind = acp.update_kind(update)
        if kind in (acp.USER_CHUNK, acp.AGENT_CHUNK):
            speaker = USER if kind == acp.USER_CHUNK else AGENT
            self._say(speaker, _words(acp.member(update, "content")), acp.text(update, "messageId"))
        elif kind in (acp.TOOL_CALL, "tool_call_update"):
            self._call(acp.text(update, "toolCallId") or "", acp.text(update, "title"), acp.text(update, "status"))

    def text(self) -> str:
        """The record."""
        told = [turn.told() for turn in self._turns]
        whole = _joined(told)
        if not self._lost and _size(whole) <= self._limit:
            return whole
        room = self._limit - _size(_joined([_LEFT_OUT, ""]))
        kept: list[str] = []
        for words in reversed(told):
            size = _size(words) + (2 if kept else 0)  # the empty line between two
            if size > room:
                break
            kept.append(words)
            room -= size
        kept = kept or [_shortened(told[-1], room)]
        is_whole = len(kept) == len(told) and not self._lost
        return _joined([*([] if is_whole else [_LEFT_OUT]), *reversed(kept)])

    @property
    def is_empty(self) -> bool:
        """Whether no message or call was added."""
        return not self._turns

    def _call(self, id: str, title: str | None, status: str | None) -> None:
        if id not in self._calls:
            self._say(TOOL, f"{title or id} ({status or 'unknown'})", None)
            self._calls[id] = self._turns[-1].said[-1], title or id
        elif status is not None:
            said, known = self._calls[id]
            said.pieces = [f"{title or known} ({status})"]

    def _say(self, speaker: str, words: str, message_id: str | None) -> None:
        if not words:
            return
        before, self._speaker = self._speaker, (speaker, message_id)
        if not self._turns or (speaker == USER and before is not None and before[0] != USER):
            self._begin()
        turn = self._turns[-1]
        if before == self._speaker and speaker != TOOL:
            turn.said[-1].pieces.append(words)
        else:
            turn.said.append(_Said(speaker, [words]))
        turn.size += len(words)
        self._size += len(words)

    def _begin(self) -> None:
        while self._turns and self._size - self._turns[0].size > self._limit:
            self._size -= self._turns.popleft().size
            self._lost = True
        self._turns.append(_BriefTurn())


def brief(lines: Iterable[bytes], limit: int = LIMIT) -> str:
    """The record of all these lines of a replay."""
    out = Brief(limit)
    for line in lines:
        out.add(line)
    return out.text()


def _quoted(text: str) -> str:
    """The text with the mark before each line, whatever character ends the line."""
    return "\n".join(f"{_QUOTE} {line}" for line in text.splitlines()) or _QUOTE


def _joined(parts: Iterable[str]) -> str:
    """The record made of these parts. Ends in a newline, since some agents join the user's block to it."""
    return "\n\n".join([INTRODUCTION, *parts, f"{END}\n"])


def _size(text: str) -> int:
    return len(text.encode("utf-8", "replace"))


def _words(content: object) -> str:
    kind = acp.text(content, "type")
    if kind == "text":
        return acp.text(content, "text") or ""
    name = acp.text(content, "name") or acp.text(content, "uri") or acp.text(acp.member(content, "resource"), "uri")
    return f"[{kind or 'content'}{f': {name}' if name else ''}]"


def _shortened(words: str, size: int) -> str:
    """The beginning of a turn, which ends with a quoted line."""
    cut = words.encode("utf-8", "replace")[: max(0, size - _size(_CUT))].decode("utf-8", "ignore")
    lines = cut.split("\n")
    while lines and not lines[-1].startswith(_QUOTE):
        lines.pop()
    return "\n".join(lines) + _CUT
