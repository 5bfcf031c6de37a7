"""What a client shows of a conversation with an agent, read from its lines, and compared with another.

Text by speaker, and each tool call once, with its last status. The proxy's notice of a handover is left out, since it
is no part of the conversation.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from typing import Any

SPEAKERS = {"user_message_chunk": "user", "agent_message_chunk": "agent", "agent_thought_chunk": "thoughts"}
TOOL_KINDS = ("tool_call", "tool_call_update")
SHORTEST = 8  # characters in common that are no coincidence
NOTICE = "acp-proxy-handover"
"""The id of the proxy's notice of a handover."""


@dataclass
class Shown:
    """A conversation on a client's screen."""

    messages: list[tuple[str, str]] = field(default_factory=list)
    """The speaker and the text; adjacent text of one speaker without a tool call in between is one message."""
    tools: dict[str, str] = field(default_factory=dict)
    """The last status of each tool call, by its id."""

    def say(self, speaker: str, text: str) -> None:
        if self.messages and self.messages[-1][0] == speaker:
            text = self.messages.pop()[1] + text
        self.messages.append((speaker, text))

    def use(self, tool: Mapping[str, Any]) -> None:
        number = str(tool.get("toolCallId"))
        self.tools[number] = str(tool.get("status") or self.tools.get(number, "pending"))
        self.say("tool", "")

    def add(self, later: "Shown") -> None:
        for speaker, text in later.messages:
            self.say(speaker, text)
        self.tools |= later.tools

    def words(self, speaker: str) -> str:
        """All text of the speaker without white space: a restored conversation has other chunks and spaces."""
        return "".join(letters(text) for told, text in self.messages if told == speaker)

    def compared(self, speaker: str, live: "Shown") -> "Comparison":
        """Compare the speaker's text with the live one, in order."""
        here, said = self.words(speaker), live.words(speaker)
        if said in here:
            return Comparison(len(said), len(said), len(here))
        blocks = SequenceMatcher(None, here, said, autojunk=False).get_matching_blocks()
        kept = sum(block.size for block in blocks if block.size >= SHORTEST)
        return Comparison(kept, len(said), len(here))


@dataclass(frozen=True)
class Comparison:
    """In characters: what both have, what was live, what is shown now."""

    kept: int
    said: int
    told: int

    @property
    def whole(self) -> bool:
        return self.kept == self.said

    @property
    def has_more(self) -> bool:
        return self.told > self.kept


def read_shown(messages: Iterable[Any], session: str, prompt: str | None = None) -> Shown:
    """What lines show of a session. A client shows its own prompts, and no echo of them.

    A tool call named only by a permission request is no part of the conversation: openhands asks that way.
    """
    screen = Shown()
    if prompt is not None:
        screen.say("user", prompt)
    for update in updates(messages, session):
        kind = str(update.get("sessionUpdate"))
        if kind in TOOL_KINDS:
            screen.use(update)
        elif kind in SPEAKERS and update.get("messageId") != NOTICE and (prompt is None or SPEAKERS[kind] != "user"):
            screen.say(SPEAKERS[kind], text_of(update.get("content")))
    return screen


def updates(messages: Iterable[Any], session: str) -> Iterator[Mapping[str, Any]]:
    for message in messages:
        match message:
            case {"method": "session/update", "params": {"sessionId": of, "update": dict(update)}} if of == session:
                yield update


def text_of(content: Any) -> str:
    return str(content.get("text", f"<{content.get('type')}>")) if isinstance(content, dict) else ""


def letters(text: str) -> str:
    """The text without white space."""
    return "".join(text.split())
