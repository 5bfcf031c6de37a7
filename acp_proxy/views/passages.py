"""The passages of a conversation: which words, in which order. Other modules decide how they look.

Texts are foreign and unchanged: whoever prints them makes them printable.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

from acp_proxy.protocol import acp
from acp_proxy.views import diffs, document, tool_calls
from acp_proxy.views.attachments import describe_block, read_attachment
from acp_proxy.views.conversation import (
    Item,
    Note,
    OtherUpdate,
    Part,
    Plan,
    Speaker,
    SpokenMessage,
    Subagent,
    ToolCall,
    TurnBegin,
    TurnEnd,
)

_DIFF_ROWS = 80  # about a screen or two; a new file may have thousands
_TITLE_LENGTH = 500
_REASON_LINES, _REASON_LENGTH = 10, 1000
"""How much is shown of what a failed call says."""
_LONGEST_MESSAGE = 1024 * 1024
"""Characters of a message in one passage; a longer message gets an extra line break there."""


@dataclass(frozen=True, slots=True)
class Heading:
    """A turn: its number, and when it began, in the form of transcripts."""

    number: int
    started_at: str


@dataclass(frozen=True, slots=True)
class SpokenText:
    """A message, or a part of one; the agent writes Markdown. ``continues``: the same speaker spoke just before."""

    speaker: Speaker
    text: str
    continues: bool


@dataclass(frozen=True, slots=True)
class AttachmentLine:
    """An attachment. ``speaker``: who shows it, if known. ``continues``: the same speaker or tool call came just
    before."""

    speaker: Speaker | None
    text: str
    continues: bool


@dataclass(frozen=True, slots=True)
class CallHeading:
    """A tool call. ``is_change``: it appeared in an earlier turn, and this is what changed. ``is_whole``: its title may
    need several lines."""

    title: str
    status: str | None
    is_change: bool
    is_whole: bool


@dataclass(frozen=True, slots=True)
class ShownDiff:
    """A diff. ``left_out``: the number of rows not shown."""

    path: str
    rows: list[diffs.DiffRow]
    left_out: int


@dataclass(frozen=True, slots=True)
class CallText:
    """The input or output of a tool call."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class PlanSteps:
    """A plan: status and content of each entry."""

    steps: list[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Remark:
    """A notice in our own words."""

    is_error: bool
    text: str


NAMES: dict[Speaker, str] = {"user": "User", "agent": "Agent", "thought": "Thought"}

Passage = Heading | SpokenText | AttachmentLine | CallHeading | ShownDiff | CallText | PlanSteps | Remark


def make_passages(parts: Iterable[Part], *, full: bool = False) -> Iterator[Passage]:
    """The passages of a conversation. ``full``: with all content of tool calls, and with unknown kinds of updates."""
    return _PassageBuilder(full).build(parts)


def is_adjacent(previous: Passage | None, passage: Passage) -> bool:
    """Whether a passage follows the previous one without an empty line."""
    match passage:
        case SpokenText() | AttachmentLine():
            return passage.continues
        case CallHeading():
            return isinstance(previous, CallHeading)
        case ShownDiff() | CallText():
            return True
        case _:
            return False


class _PassageBuilder:
    def __init__(self, is_full: bool) -> None:
        self._is_full = is_full
        self._turn = 0
        self._is_prompted = False
        self._speaker: tuple[Speaker, str | None] | None = None
        self._continues = False
        self._texts: list[str] = []
        self._size = 0
        self._titles: dict[str, str] = {}

    def build(self, parts: Iterable[Part]) -> Iterator[Passage]:
        for part in parts:
            if not isinstance(part, SpokenMessage):
                yield from self._end_message()
                self._speaker = None
            if isinstance(part, TurnBegin):
                self._turn, self._is_prompted = part.number, part.is_prompted
                yield Heading(part.number, part.started_at)
            elif isinstance(part, TurnEnd):
                yield from self._end_turn(part)
            elif isinstance(part, SpokenMessage):
                yield from self._add_message(part)
            else:
                yield from self._add_item(part)
        yield from self._end_message()

    def _add_item(self, item: Item) -> Iterator[Passage]:
        match item:
            case ToolCall():
                yield from self._add_call(item)
            case Plan():
                yield PlanSteps(
                    [(acp.text(entry, "status") or "", acp.text(entry, "content") or "") for entry in item.entries]
                )
            case Note():
                yield Remark(False, document.explain_note(item))
            case Subagent():
                builder = _PassageBuilder(self._is_full)
                builder._turn = self._turn
                yield Remark(False, f"The subagent {item.title[:_TITLE_LENGTH]} begins.")
                yield from builder.build(item.items)
                yield Remark(False, f"The subagent {item.title[:_TITLE_LENGTH]} ends.")
            case OtherUpdate() if self._is_full:
                yield AttachmentLine(None, acp.update_kind(item.update) or "an update of no kind", False)
                yield CallText("", _format_json(item.update))

    def _add_message(self, message: SpokenMessage) -> Iterator[Passage]:
        if (speaker := (message.speaker, message.id)) != self._speaker:
            yield from self._end_message()
            self._speaker, self._continues = speaker, False
        for block in message.blocks:
            if acp.text(block, "type") == "text":
                yield from self._add_text(acp.text(block, "text") or "")
            else:
                yield from self._end_message()
                yield AttachmentLine(message.speaker, self._describe_attachment(block), self._continues)
                self._continues = True
                if self._is_full and (text := acp.text(acp.member(block, "resource"), "text")) is not None:
                    yield CallText("", text)

    def _add_text(self, text: str) -> Iterator[Passage]:
        """A message comes in pieces, but attachments of a user have their own lines."""
        if self._size > _LONGEST_MESSAGE:
            yield from self._end_message()
        is_users = self._speaker is not None and self._speaker[0] == "user"
        if is_users and self._texts and not (text[:1].isspace() or self._texts[-1][-1:].isspace()):
            self._texts.append("\n")
        self._texts.append(text)
        self._size += len(text)

    def _end_message(self) -> Iterator[Passage]:
        if self._speaker is not None and self._texts:
            yield SpokenText(self._speaker[0], "".join(self._texts), self._continues)
            self._texts, self._size, self._continues = [], 0, True

    def _describe_attachment(self, block: Mapping[str, object]) -> str:
        advice = f"; to save it: --turn {self._turn} --extract DIR" if read_attachment(block) is not None else ""
        return f"{describe_block(block)}{advice}"

    def _add_call(self, call: ToolCall) -> Iterator[Passage]:
        title = acp.text(call.fields, "title") or self._titles.get(call.id) or acp.text(call.fields, "name") or call.id
        if not self._is_full and len(title) > _TITLE_LENGTH:
            title = title[: _TITLE_LENGTH - 1] + "…"
        self._titles[call.id] = title
        yield CallHeading(title, acp.text(call.fields, "status"), not call.is_new, self._is_full)
        if self._is_full:
            yield from (AttachmentLine(None, f"at {path}", True) for path in tool_calls.list_paths(call))
            if (raw_input := call.fields.get("rawInput")) is not None:
                yield CallText("input", _format_json(raw_input))
        content = call.fields.get("content")
        for item in content if isinstance(content, list) else []:
            yield from self._add_content(item)
        if self._is_full and (raw_output := call.fields.get("rawOutput")) is not None:
            yield CallText("output", _format_json(raw_output))
        if not self._is_full and (reason := tool_calls.find_reason(call)) is not None:
            end_of_reason, is_cut = shorten_to_end(reason)
            yield CallText("", f"(only its end: --full shows all)\n{end_of_reason}" if is_cut else end_of_reason)

    def _add_content(self, item: object) -> Iterator[Passage]:
        block = acp.member(item, "content")
        if acp.text(item, "type") == "diff":
            yield self._make_diff(item)
        elif isinstance(block, Mapping) and acp.text(block, "type") != "text":
            yield AttachmentLine(None, self._describe_attachment(block), True)
            if self._is_full and (text := acp.text(acp.member(block, "resource"), "text")) is not None:
                yield CallText("", text)
        elif self._is_full:
            yield CallText("", text if (text := acp.text(block, "text")) is not None else _format_json(item))

    def _make_diff(self, item: object) -> ShownDiff:
        old, new = acp.text(item, "oldText"), acp.text(item, "newText") or ""
        rows = diffs.diff_texts(old, new)
        shown_rows = list(islice(rows, None if self._is_full else _DIFF_ROWS))
        return ShownDiff(acp.text(item, "path") or "", shown_rows, sum(1 for _ in rows))

    def _end_turn(self, turn_end: TurnEnd) -> Iterator[Passage]:
        if turn_end.error is not None:
            yield Remark(True, turn_end.error)
        elif turn_end.stop_reason is None and self._is_prompted:
            yield Remark(False, "This turn has no end: it is still running, or its process ended.")
        elif (text := document.explain_end(turn_end)) is not None:
            yield Remark(False, text)


def find_shown_reason(call: ToolCall) -> str | None:
    """What is shown, without ``full``, of why a call failed; None if it did not fail, or if the agent did not say."""
    reason = tool_calls.find_reason(call)
    return shorten_to_end(reason)[0] if reason is not None else None


def shorten_to_end(text: str) -> tuple[str, bool]:
    """The last lines of a text, which tell how it ended; and whether there are more."""
    lines = text.rsplit("\n", _REASON_LINES)
    shown = "\n".join(lines[-_REASON_LINES:])
    return shown[-_REASON_LENGTH:], len(lines) > _REASON_LINES or len(shown) > _REASON_LENGTH


def _format_json(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)
