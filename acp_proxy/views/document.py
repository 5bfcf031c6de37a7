"""The parts that all formats of an exported conversation share: the head, and what is left out."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from acp_proxy.protocol import acp
from acp_proxy.transcript.file_format import NoteType
from acp_proxy.transcript.file_names import name_agent
from acp_proxy.transcript.titles import clean
from acp_proxy.views.conversation import (
    REWOUND,
    ConversationTurn,
    Item,
    Note,
    SpokenMessage,
    Subagent,
    ToolCall,
    TurnEnd,
    read_words,
)
from acp_proxy.views.formatting import format_title, strip_markdown
from acp_proxy.views.sanitize import clean_text, join_lines

Tools = Literal["none", "summary", "full"]
_LINE_LENGTH = 100
_SCOPE = re.compile(r"^@[\w.-]+/")
_STOP_TEXTS = {
    "end_turn": None,
    "cancelled": "The turn was cancelled.",
    "refusal": "The agent refused to go on.",
    "max_tokens": "The turn ended at the limit of tokens.",
    "max_turn_requests": "The turn ended at the limit of requests.",
}


@dataclass(frozen=True, slots=True)
class Head:
    """The head of a document. Times are in the form of transcripts; unknown values are empty.

    ``models``: in the order of their use. ``tokens``: None if the agent did not report them. ``cost``: by currency.
    ``copied_from``: the name of the agent from whose session this was copied; empty: it is no copy.
    """

    session_id: str
    agent: Mapping[str, object]
    title: str | None
    cwd: str | None
    created: str
    updated: str
    origin: str
    models: Sequence[str] = ()
    tokens: int | None = None
    cost: Mapping[str, float] = field(default_factory=dict)
    copied_from: str = ""

    @property
    def name(self) -> str:
        """The agent's own name for itself, else that of its folder, without the scope of a package (``@scope/name``),
        as lists have it."""
        name = clean(acp.text(self.agent, "name") or name_agent(acp.text(self.agent, "id") or ""), _LINE_LENGTH)
        return _SCOPE.sub("", name or "agent") or name or "agent"

    def name_speaker(self, started_at: str) -> str:
        """The agent that spoke in a turn that began at this time: in a copy, first the one of the original."""
        return self.copied_from if self.copied_from and started_at and started_at < self.created else self.name

    @property
    def heading(self) -> str:
        return format_title(clean(self.title, _LINE_LENGTH * 2))


@dataclass(frozen=True, slots=True)
class Choices:
    """The reader's choices. ``tools``: a summary is one line per call. ``first``, ``last``: of the turns; None: all."""

    tools: Tools = "full"
    thoughts: bool = True
    first: int = 1
    last: int | None = None


def select_turns(turns: Iterable[ConversationTurn], choices: Choices) -> Iterator[ConversationTurn]:
    """The turns that the reader has chosen, without the items that were not chosen."""
    for turn in turns:
        if choices.last is not None and turn.number > choices.last:
            return
        if turn.number >= choices.first or choices.first == 1:
            yield replace(turn, items=_select_items(turn.items, choices))


def _select_items(items: Iterable[Item], choices: Choices) -> list[Item]:
    chosen_items = (item for item in items if _is_wanted(item, choices))
    return [
        replace(item, items=_select_items(item.items, choices)) if isinstance(item, Subagent) else item
        for item in chosen_items
    ]


def name_calls(turns: Iterable[ConversationTurn]) -> Iterator[ConversationTurn]:
    """The turns, in which a later change of a call has the title of the call."""
    titles: dict[str, object] = {}
    for turn in turns:
        for index, item in enumerate(turn.items):
            if isinstance(item, ToolCall):
                if not item.is_new and "title" not in item.fields and item.id in titles:
                    turn.items[index] = replace(item, fields={"title": titles[item.id], **item.fields})
                elif "title" in item.fields:
                    titles[item.id] = item.fields["title"]
        yield turn


def explain_end(turn: ConversationTurn | TurnEnd) -> str | None:
    """Why a turn ended, if it did not end normally."""
    if turn.error is not None:
        return f"The turn failed: {join_lines(turn.error)}"
    return (
        _STOP_TEXTS.get(turn.stop_reason, f"The turn ended: {join_lines(turn.stop_reason)}")
        if turn.stop_reason is not None
        else None
    )


def explain_note(item: Note) -> str:
    """A note of the transcript in our own words."""
    if item.kind == NoteType.GAP:
        return (
            f"Something is missing here: the recording was interrupted ({join_lines(item.text) or 'unknown reason'})."
        )
    if item.kind == REWOUND:
        return "Rewound: a part of what is above was taken back, and the agent has forgotten it."
    return "The conversation continues in a new session of the agent, which got a record of it."


def find_topic(turn: ConversationTurn) -> str:
    """The topic of a turn: the first line of the user's prompt."""
    prompt = next((item for item in turn.items if isinstance(item, SpokenMessage) and item.speaker == "user"), None)
    for block in prompt.blocks if prompt is not None else ():
        for line in read_words(block)[: _LINE_LENGTH * 100].split("\n"):
            if topic := strip_markdown(clean(line, _LINE_LENGTH) or ""):
                return topic
    return f"Turn {turn.number}"


def join_texts(blocks: Iterable[Mapping[str, object]]) -> Iterator[str | Mapping[str, object]]:
    """The blocks of a message, with adjacent texts joined."""
    text: list[str] = []
    for block in blocks:
        if acp.text(block, "type") == "text":
            text.append(acp.text(block, "text") or "")
            continue
        if text:
            yield clean_text("".join(text))
            text = []
        yield block
    if text:
        yield clean_text("".join(text))


def _is_wanted(item: Item, choices: Choices) -> bool:
    if isinstance(item, ToolCall):
        return choices.tools != "none"
    return choices.thoughts or not (isinstance(item, SpokenMessage) and item.speaker == "thought")
