"""The fuller of two tellings of one past: the agent's own replay, and ours.

Agents' replays lose things: tool calls, the user's words, all but the last hundred messages. Ours is sent in place of
the agent's only if nothing is lost by it: everything that the agent tells is in ours, and something of ours is
missing in the agent's. Thoughts, plans and state do not count, and white space does not.
"""

from collections.abc import Iterable

from acp_proxy.wire import acp

_SPEAKERS = (acp.USER_CHUNK, acp.AGENT_CHUNK)
_TOOLS = ("tool_call", "tool_call_update")
_STEPS = 20_000_000
"""Comparisons that one speaker's text is worth, a second or two; a text that wants more is not ours to judge."""


class Told:
    """What a client hears in a telling: per speaker the messages without white space, and the tool calls."""

    def __init__(self) -> None:
        self.messages: dict[str, list[str]] = {speaker: [] for speaker in _SPEAKERS}
        self.tools: dict[str, str | None] = {}
        """Titles by id."""

    def add(self, line: bytes) -> None:
        """One update line. What is no update of the conversation adds nothing."""
        update = acp.update_of(line)
        kind = acp.update_kind(update)
        if kind in _SPEAKERS:
            text = acp.text(acp.member(update, "content"), "text")
            if text is not None and (folded := "".join(text.split())):
                self.messages[str(kind)].append(folded)
        elif kind in _TOOLS and (id := acp.text(update, "toolCallId")) is not None:
            self.tools[id] = acp.text(update, "title") or self.tools.get(id)

    def take(self, lines: Iterable[bytes]) -> None:
        for line in lines:
            self.add(line)


def told(lines: Iterable[bytes]) -> Told:
    out = Told()
    out.take(lines)
    return out


def ours_is_fuller(ours: Told, theirs: Told) -> bool:
    """Whether ours contains all of theirs, and more."""
    titles = {title for title in ours.tools.values() if title is not None}
    if not all(id in ours.tools or (title is not None and title in titles) for id, title in theirs.tools.items()):
        return False
    lacks = len(theirs.tools) < len(ours.tools)
    for speaker in _SPEAKERS:
        text = "".join(theirs.messages[speaker])
        if not _is_made_of(text, ours.messages[speaker]):
            return False
        lacks |= len(text) < sum(map(len, ours.messages[speaker]))
    return lacks


def _is_made_of(text: str, messages: list[str]) -> bool:
    """Whether a text is some of these messages, in order, one behind the other."""
    if text == "".join(messages):
        return True
    places, steps = {0}, 0
    for message in messages:
        steps += len(places)
        if steps > _STEPS:
            return False
        places |= {at + len(message) for at in places if text.startswith(message, at)}
    return len(text) in places
