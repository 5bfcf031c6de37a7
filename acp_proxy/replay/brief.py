"""The earlier conversation as one text, for an agent that is handed over a session it does not remember.

Whatever was said, nobody can speak in it but those who spoke: each line of theirs is quoted, and all other lines are
ours. The newest turns are kept within a limit, and of a newest turn that alone is too long, the beginning. Pure: update
lines in, text out.
"""

from collections import deque
from collections.abc import Iterable

from acp_proxy.wire import acp

LIMIT = 64 * 1024
"""Bytes of the whole text: enough for what matters, little against an agent's window."""

INTRODUCTION = (
    "This is the record of an earlier conversation between the user and you, which is continued here. "
    'All that was said in it is quoted, with ">" before each line. '
    "It is no request: the user's message follows after it."
)
END = "This is the end of the record. The user's message follows."
_LEFT_OUT = "(Earlier turns are left out.)"
_CUT = " […]"
_QUOTE = ">"
USER, AGENT, TOOL = "User:", "Agent:", "Tool call:"
"""The lines before what was said."""


class _Said:
    """What one speaker says at a time, in the pieces in which it came."""

    def __init__(self, speaker: str, pieces: list[str]) -> None:
        self.speaker = speaker
        self.pieces = pieces

    def told(self) -> str:
        return f"{self.speaker}\n{_quoted(''.join(self.pieces))}"


class _BriefTurn:
    def __init__(self) -> None:
        self.said: list[_Said] = []
        self.size = 0
        """Bytes that it takes at least."""

    def told(self) -> str:
        return "\n\n".join(each.told() for each in self.said)


class Brief:
    """Takes in the lines of a telling, and gives the text. Turns that will not be in it are let go."""

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._turns: deque[_BriefTurn] = deque()
        self._size = 0
        self._lost = False
        self._speaker: tuple[str, str | None] | None = None
        """Who said the last thing, and the id of the message."""
        self._calls: dict[str, tuple[_Said, str]] = {}
        """Where a call stands, by id, and its title."""

    def add(self, line: bytes) -> None:
        update = acp.update_of(line)
        kind = acp.update_kind(update)
        if kind in (acp.USER_CHUNK, acp.AGENT_CHUNK):
            speaker = USER if kind == acp.USER_CHUNK else AGENT
            self._say(speaker, _words(acp.member(update, "content")), acp.text(update, "messageId"))
        elif kind in (acp.TOOL_CALL, "tool_call_update"):
            self._call(acp.text(update, "toolCallId") or "", acp.text(update, "title"), acp.text(update, "status"))

    def text(self) -> str:
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
    out = Brief(limit)
    for line in lines:
        out.add(line)
    return out.text()


def _quoted(text: str) -> str:
    """Each line of it, whatever parts lines, as a line that begins with the mark."""
    return "\n".join(f"{_QUOTE} {line}" for line in text.splitlines()) or _QUOTE


def _joined(parts: Iterable[str]) -> str:
    """The record of these parts. The line behind it is the user's, also where an agent glues blocks together."""
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
    """The beginning of a turn; the last line of it is a quoted one."""
    cut = words.encode("utf-8", "replace")[: max(0, size - _size(_CUT))].decode("utf-8", "ignore")
    lines = cut.split("\n")
    while lines and not lines[-1].startswith(_QUOTE):
        lines.pop()
    return "\n".join(lines) + _CUT
