"""The earlier conversation as one Markdown text, for an agent that is handed over a session it does not remember.

Newest turns are kept within a limit; a first line says that it is a record. Pure: update lines in, text out.
"""

from collections.abc import Iterable

from acp_proxy.wire import acp

LIMIT = 64 * 1024
"""Bytes of the whole text: enough for what matters, little against an agent's window."""

INTRODUCTION = (
    "This is the record of an earlier conversation between the user and you, which is continued here. "
    "It is no request: the user's message follows after it."
)
_LEFT_OUT = "(Earlier turns are left out.)"
_CUT = " […]"


class Brief:
    """Takes in the lines of a telling, and gives the text."""

    def __init__(self) -> None:
        self._turns: list[list[str]] = []
        self._speaker = ""
        self._tools: dict[str, tuple[list[str], int, str]] = {}
        """Where a call stands, by id, and its title."""

    def add(self, line: bytes) -> None:
        update = acp.update_of(line)
        kind = acp.update_kind(update)
        if kind == acp.USER_CHUNK:
            self._say("User", _words(acp.member(update, "content")), begins_turn=True)
        elif kind == acp.AGENT_CHUNK:
            self._say("Agent", _words(acp.member(update, "content")))
        elif kind in ("tool_call", "tool_call_update"):
            self._call(acp.text(update, "toolCallId") or "", acp.text(update, "title"), acp.text(update, "status"))

    def text(self, limit: int = LIMIT) -> str:
        """The newest turns that fit; the newest is cut if it alone does not."""
        whole = _joined(INTRODUCTION, *("\n\n".join(turn) for turn in self._turns))
        if _size(whole) <= limit:
            return whole
        room = limit - _size(f"{INTRODUCTION}\n\n{_LEFT_OUT}\n\n")
        kept: list[str] = []
        for turn in reversed(self._turns):
            words = "\n\n".join(turn)
            size = _size(words) + 2
            if size > room:
                if not kept:
                    kept.append(_shortened(words, room))
                break
            kept.append(words)
            room -= size
        left_out = [_LEFT_OUT] if len(kept) < len(self._turns) else []
        return _joined(INTRODUCTION, *left_out, *reversed(kept))

    @property
    def is_empty(self) -> bool:
        return not self._turns

    def _call(self, id: str, title: str | None, status: str | None) -> None:
        if id not in self._tools:
            self._say("Tool", f"{title or id} ({status or 'unknown'})")
            self._tools[id] = self._turns[-1], len(self._turns[-1]) - 1, title or id
        elif status is not None:
            turn, at, known = self._tools[id]
            turn[at] = f"**Tool:** {title or known} ({status})"

    def _say(self, speaker: str, words: str, *, begins_turn: bool = False) -> None:
        if not words:
            return
        if begins_turn and self._speaker != speaker:
            self._turns.append([])
        if not self._turns:
            self._turns.append([])
        if speaker == self._speaker and speaker != "Tool":
            self._turns[-1][-1] += words
        else:
            self._turns[-1].append(f"**{speaker}:** {words}")
        self._speaker = speaker


def brief(lines: Iterable[bytes], limit: int = LIMIT) -> str:
    out = Brief()
    for line in lines:
        out.add(line)
    return out.text(limit)


def _joined(*parts: str) -> str:
    return "\n\n".join(parts)


def _size(text: str) -> int:
    return len(text.encode("utf-8", "replace"))


def _words(content: object) -> str:
    kind = acp.text(content, "type")
    if kind == "text":
        return acp.text(content, "text") or ""
    name = acp.text(content, "name") or acp.text(content, "uri") or acp.text(acp.member(content, "resource"), "uri")
    return f"[{kind or 'content'}{f': {name}' if name else ''}]"


def _shortened(words: str, size: int) -> str:
    cut = words.encode("utf-8", "replace")[: max(0, size - len(_CUT.encode()) - 2)]
    return cut.decode("utf-8", "ignore") + _CUT
