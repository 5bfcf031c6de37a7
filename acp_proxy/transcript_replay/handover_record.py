"""Makes the handover record: the earlier conversation as one text, for an agent that does not remember it.

Every line of what was said is quoted, and only acp-proxy writes lines without a quote, so nothing that was said can
pass for a new message. The record holds the newest turns whole, older ones in less and less detail, and then files, the
last plan and open ends (docs/continue.md). Update lines in, text out.
"""

from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum

from acp_proxy.protocol import acp, jsonrpc, update_kinds
from acp_proxy.protocol.jsonrpc import Peer
from acp_proxy.protocol.update_kinds import Role
from acp_proxy.transcript.file_format import Entry, NoteType
from acp_proxy.transcript.handover_record_text import (
    AGENT,
    ATTACHED,
    CHANGED,
    END,
    INTRODUCTION,
    LEFT_OUT,
    OPEN,
    OUTPUT,
    PLAN,
    QUOTE,
    READ,
    SHORTENED,
    TOOL,
    USER,
)

# --- A turn of the handover record: what was said and done in it, in as much detail as there is room for.


CUT_MARK = "[…]"
"""Stands for what was cut out of a text."""
LONG_OUTPUT_LENGTH = 16 * 1024
"""Characters of a tool call's output in a whole turn. More is rarely read again; its beginning and end are kept."""
SHORT_OUTPUT_LENGTH = 400
GIST_LENGTH = 1000
"""Characters of each message in a turn's gist."""
_DIFF_LIMIT = 20_000
"""The characters of a file beyond which comparing its versions takes too long."""


class Brevity(IntEnum):
    """How much of a turn the record has."""

    WHOLE = 0  # everything, a very long output cut
    SHORT = 1  # outputs cut to a few lines
    SAID = 2  # messages, and the titles of tool calls
    GIST = 3  # the user's words and the agent's last ones, cut


class HandoverItem:
    """A message or a tool call, in the pieces in which it came."""

    def __init__(self, label: str, pieces: list[str]) -> None:
        self.label = label
        self.pieces = pieces
        self.output = ""
        self.is_failed = False

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    def render(self, detail: Brevity = Brevity.SAID) -> str:
        text = self.text if detail is not Brevity.GIST else cut_middle(self.text, GIST_LENGTH)
        rendered = f"{self.label}\n{quote(text)}"
        if self.output and detail < Brevity.SAID:
            output = self.output if detail is Brevity.WHOLE else cut_middle(self.output, SHORT_OUTPUT_LENGTH)
            rendered += f"\n\n{OUTPUT}\n{quote(output)}"
        return rendered

    def render_end(self, size: int) -> str:
        """The end of the message, in at most ``size`` bytes; empty if there is no room for a line of it."""
        room = size - len(self.label) - _measure(f"\n{QUOTE} {CUT_MARK}\n{QUOTE} ")
        lines = quote(self.text).encode("utf-8", "replace")
        end = lines[max(len(lines) - room, 0) :].decode("utf-8", "ignore") if room > 0 else ""
        if not end.strip():
            return ""
        first, newline, other_lines = end.partition("\n")  # the first line has lost its quote
        return f"{self.label}\n{QUOTE} {CUT_MARK}\n{QUOTE} {first.removeprefix(f'{QUOTE} ')}{newline}{other_lines}"


class HandoverTurn:
    """The messages and calls of one turn."""

    def __init__(self) -> None:
        self.items: list[HandoverItem] = []
        self.said_size = 0
        """Characters of its messages and titles, and of its outputs."""
        self.output_size = 0
        self._outputs: list[HandoverItem] = []
        self._is_gist = False

    def add(self, item: HandoverItem) -> None:
        self.items.append(item)

    def set_output(self, item: HandoverItem, output: str, limit: int) -> None:
        """Set a call's output. Beyond ``limit``, the turn's oldest outputs are cut."""
        self.output_size += len(output) - len(item.output)
        item.output = output
        if item in self._outputs:
            self._outputs.remove(item)
        self._outputs.append(item)
        while self.output_size > limit and len(self._outputs) > 1:
            self._shorten(self._outputs.pop(0))

    def render(self, detail: Brevity) -> str:
        items = self.items if detail is not Brevity.GIST else _choose_gist(self.items)
        return "\n\n".join(item.render(detail) for item in items)

    def render_within(self, size: int) -> str:
        """The user's words, at most a quarter, and the newest of what follows."""
        first, *later = self.items
        users_words = first.render()
        if _measure(users_words) > size // 4 and later:
            users_words = f"{first.label}\n{quote(cut_middle(first.text, size // 16))}"
        if not later:
            return first.render_end(size)
        room, newest = size - _measure(users_words) - 2, list[str]()
        for item in reversed(later):
            text = item.render()
            if _measure(text) + 2 > room:
                newest.append(item.render_end(room - 2))
                break
            newest.append(text)
            room -= _measure(text) + 2
        return "\n\n".join([users_words, *(text for text in reversed(newest) if text)])

    def cut_outputs(self) -> None:
        """Cut its outputs, to free memory."""
        for item in self._outputs:
            self._shorten(item)
        self._outputs.clear()

    def keep_gist(self) -> None:
        """Keep only its gist, to free memory."""
        if not self._is_gist:
            self._is_gist, self._outputs, self.output_size = True, [], 0
            self.items = [
                HandoverItem(item.label, [cut_middle(item.text, GIST_LENGTH)]) for item in _choose_gist(self.items)
            ]
            self.said_size = sum(len(item.text) for item in self.items)

    def _shorten(self, item: HandoverItem) -> None:
        short = cut_middle(item.output, SHORT_OUTPUT_LENGTH)
        self.output_size -= len(item.output) - len(short)
        item.output = short


def _choose_gist(items: list[HandoverItem]) -> list[HandoverItem]:
    last_of_agent = next((item for item in reversed(items) if item.label == AGENT), None)
    return [item for item in items if item.label == USER or item is last_of_agent]


def quote(text: str) -> str:
    """The text with the mark before each line, whatever character ends the line."""
    return "\n".join(f"{QUOTE} {line}" for line in text.splitlines()) or QUOTE


def cut_middle(text: str, length: int) -> str:
    """The text without its middle, if it is longer."""
    half = length // 2
    return text if len(text) <= length else f"{text[:half]}\n{CUT_MARK}\n{text[len(text) - half :]}"


def format_output(content: object, attachment_names: list[str]) -> str:
    """The output of a tool call: its ``content`` as text. ``attachment_names``: the names of what is not text, in
    order."""
    names = iter(attachment_names)
    parts = []
    for item in content if isinstance(content, list) else []:
        inner = acp.member(item, "content")
        if acp.text(item, "type") == "diff":
            parts.append(_format_diff(item))
        elif isinstance(inner, dict):
            parts.append((acp.text(inner, "text") or "") if acp.text(inner, "type") == "text" else next(names, ""))
    return cut_middle("\n".join(part for part in parts if part), LONG_OUTPUT_LENGTH)


def _format_diff(item: object) -> str:
    path, old, new = acp.text(item, "path") or "", acp.text(item, "oldText") or "", acp.text(item, "newText") or ""
    if max(len(old), len(new)) > _DIFF_LIMIT:
        return f"[diff: {path}]"
    from difflib import unified_diff  # few records need it

    lines = unified_diff(old.splitlines(), new.splitlines(), path, path, n=1, lineterm="")
    return "\n".join(lines)


def _measure(text: str) -> int:
    return len(text.encode("utf-8", "replace"))


# --- What the handover record states beside the turns: files, the last plan, open ends, and what is attached.


_CHANGING_KINDS = frozenset({"edit", "delete", "move"})
_FILE_LIMIT = 50
_PLAN_LIMIT = 50
_LINE_LENGTH = 300
"""The most characters of a path or a plan's entry."""
_ATTACHABLE = frozenset({"image", "audio", "resource"})
"""The types of blocks that can be attached."""
ATTACHED_BYTES_LIMIT = 1024 * 1024
"""The most bytes of images and files that are sent: a few screenshots."""
ATTACHED_COUNT_LIMIT = 10


_STOP_REASONS = {
    "cancelled": "The user cancelled the last turn.",
    "max_tokens": "The last turn broke off: the most tokens were used.",
    "max_turn_requests": "The last turn broke off: it made too many requests.",
    "refusal": "The agent refused to go on with the last turn.",
}
"""What a stop reason means."""


class HandoverFacts:
    """Collects the files, the last plan and the open ends from the lines of a replay."""

    def __init__(self) -> None:
        self._changed: OrderedDict[str, None] = OrderedDict()
        self._read: OrderedDict[str, None] = OrderedDict()
        self._plan: list[str] = []
        self.stop_reason: str | None = None
        """Why the last turn ended, as text; None: as usual."""

    def add_call(self, update: object) -> None:
        """Note the files that a tool call touches."""
        kind = acp.text(update, "kind")
        locations = acp.items(update, "locations")
        diffs = [item for item in acp.items(update, "content") if acp.text(item, "type") == "diff"]
        changed_items = [*diffs, *(locations if kind in _CHANGING_KINDS else [])]
        read_items = locations if kind == "read" else []
        for files, items in ((self._changed, changed_items), (self._read, read_items)):
            for item in items:
                _note_file(files, acp.text(item, "path") or "")

    def add_plan(self, update: object) -> None:
        """Note a plan, which replaces the one before."""
        lines = [
            f"[{acp.text(entry, 'status') or 'pending'}] {acp.text(entry, 'content') or ''}"
            for entry in acp.items(update, "entries")
        ]
        self._plan = [line[:_LINE_LENGTH] for line in lines[:_PLAN_LIMIT]]

    def note_turn_outcome(self, entry: Entry) -> None:
        """Note from an entry, which may begin or end a turn, how the last turn has ended, if that is not as usual."""
        if entry.is_prompt:
            self.stop_reason = "The user's last message was not answered."
        elif entry.note is not None and entry.note.get("type") == NoteType.FAILED:
            self.stop_reason = "The last turn broke off: the agent ended."
        elif entry.peer is Peer.AGENT and entry.answered_method == acp.PROMPT:
            error = acp.read_error(acp.member(entry.value, "error")) or "no message"
            reason = acp.text(acp.member(entry.value, "result"), "stopReason") or f"with an error: {error}"
            self.stop_reason = (
                None if reason == "end_turn" else _STOP_REASONS.get(reason, f"The last turn ended {reason}")
            )

    def make_sections(self, failed: Sequence[str]) -> list[str]:
        """The parts of the record, the most important ones last. ``failed``: titles of the last turn's failed calls."""
        read_paths = [path for path in self._read if path not in self._changed]
        ends = [f"A tool call failed: {title}"[:_LINE_LENGTH] for title in failed]
        ends = [self.stop_reason[:_LINE_LENGTH], *ends] if self.stop_reason is not None else ends
        parts = ((READ, read_paths), (CHANGED, list(self._changed)), (PLAN, self._plan), (OPEN, ends))
        return [f"{label}\n{quote(chr(10).join(lines))}" for label, lines in parts if lines]


def _note_file(files: OrderedDict[str, None], path: str) -> None:
    path = " ".join(path[:_LINE_LENGTH].splitlines())
    if not path:
        return
    files[path] = None
    files.move_to_end(path)
    if len(files) > _FILE_LIMIT:
        files.popitem(last=False)


class Attachments:
    """Names images and files, and keeps the user's newest ones that the agent takes. They follow the record without a
    quote, as blocks of the user's prompt. What an agent or a tool put out may come from anybody, so it is only
    named."""

    def __init__(self, accepted_content: frozenset[str]) -> None:
        """``accepted_content``: the types of content blocks that the agent takes."""
        self._accepted_content = accepted_content
        self._count = 0
        self._attached: deque[tuple[str, bytes]] = deque()
        self._size = 0

    def add_block(self, block: object, *, is_users: bool) -> str:
        """The name of a content block in the record; with a number if it is the user's and can be attached."""
        kind = acp.text(block, "type") or "content"
        names = acp.text(block, "name"), acp.text(block, "uri"), acp.text(acp.member(block, "resource"), "uri")
        description = " ".join(dict.fromkeys(filter(None, names))) or acp.text(block, "mimeType")
        if is_users and kind in _ATTACHABLE:
            kind = self._number_block(kind, block)
        return f"[{kind}: {description}]" if description else f"[{kind}]"

    def list_attached(self) -> Iterator[tuple[str, bytes]]:
        """What is attached, in the order of the conversation: its name, and the block as JSON."""
        yield from self._attached

    def _number_block(self, kind: str, block: object) -> str:
        """A block's type with a number. The block is kept if the agent takes it; the same block is kept once."""
        data = jsonrpc.dump(block) if kind in self._accepted_content else b""
        known_name = next((name for name, kept_data in self._attached if kept_data == data), None)
        if known_name is not None:
            return known_name
        self._count += 1
        name = f"{kind} {self._count}"
        if data and len(data) <= ATTACHED_BYTES_LIMIT:
            self._attached.append((name, data))
            self._size += len(data)
        while self._size > ATTACHED_BYTES_LIMIT or len(self._attached) > ATTACHED_COUNT_LIMIT:
            self._size -= len(self._attached.popleft()[1])
        return name


TEXT_LIMIT = 64 * 1024
"""The most bytes of the record: enough for what matters, and little compared with an agent's context window."""

_HELD_FACTOR = 3
"""How many times the limit is held in memory before older turns are reduced."""


class HandoverRecord:
    """Collects the lines of a replay, and makes the record. Reduces old turns that the record has no room for."""

    def __init__(
        self, limit: int = TEXT_LIMIT, accepted_content: frozenset[str] = frozenset(), introduction: str = INTRODUCTION
    ) -> None:
        """``limit``: the most bytes of the record. ``accepted_content``: the types of content blocks that the agent
        takes beside text."""
        self._limit = limit
        self._introduction = introduction
        self._turns: list[HandoverTurn] = []
        self._size = 0
        self._has_lost_turns = False
        self._speaker: tuple[str, str | None] | None = None
        """The speaker of the last message, and its ``messageId``."""
        self._calls: dict[str, tuple[HandoverTurn, HandoverItem, str]] = {}
        """By call id: its turn, its place there, and its title."""
        self._facts = HandoverFacts()
        self._attachments = Attachments(accepted_content)

    def add(self, line: bytes) -> None:
        """Add one line of a replay. Lines other than messages, tool calls and plans are ignored."""
        update = acp.read_update(line)
        kind = acp.update_kind(update)
        role = update_kinds.find_v1_role(kind)
        if role in (Role.USER, Role.AGENT):
            speaker = USER if role is Role.USER else AGENT
            words = self._take_words(acp.member(update, "content"), is_users=speaker == USER)
            self._add_words(speaker, words, acp.text(update, "messageId"))
        elif role is Role.CALL:
            self._add_call(acp.text(update, "toolCallId") or "", update)
        elif kind == update_kinds.PLAN:
            self._facts.add_plan(update)

    def note_turn_outcome(self, entry: Entry) -> None:
        """Note from an entry of the transcript, which may begin or end a turn, how the last turn has ended."""
        self._facts.note_turn_outcome(entry)

    @property
    def attached(self) -> tuple[bytes, ...]:
        """The content blocks that follow the record, as JSON."""
        return tuple(block for _, block in self._attachments.list_attached())

    def make_text(self) -> str:
        """The record."""
        names = ", ".join(name for name, _ in self._attachments.list_attached())
        attached = [f"{ATTACHED}{names}."] if names else []
        failed = [item.text for item in self._turns[-1].items if item.is_failed] if self._turns else []
        sections = self._facts.make_sections(failed)
        room = self._limit - _measure(self._join_parts([SHORTENED, "", *attached]))
        while sections and sum(map(_measure, sections)) + 2 * len(sections) > room // 4:
            sections.pop(0)
        last_parts = [*sections, *attached]
        whole_record = self._join_parts([*(turn.render(Brevity.WHOLE) for turn in self._turns), *last_parts])
        if not self._has_lost_turns and _measure(whole_record) <= self._limit:
            return whole_record
        room -= sum(_measure(section) + 2 for section in sections)
        return self._join_parts([*self._choose_turns(room), *last_parts])

    @property
    def is_empty(self) -> bool:
        """Whether no message or call was added."""
        return not self._turns

    def _choose_turns(self, room: int) -> list[str]:
        """The turns that fit, each in the detail for which there is room: it may take half of what newer ones left. An
        eighth of all room is for the gists of old turns."""
        newest, *older = reversed(self._turns)
        reserve = room // 8
        chosen = [_fit_turn(newest, room, room, gist=False) or newest.render_within(room * 3 // 4 if older else room)]
        room -= _measure(chosen[0])
        for turn in older:
            words = _fit_turn(turn, (room - reserve) // 2, room - 2, gist=True)
            if not words:
                break
            chosen.append(words)
            room -= _measure(words) + 2  # the empty line between two
        is_whole = len(chosen) == len(self._turns) and not self._has_lost_turns
        return [SHORTENED if is_whole else LEFT_OUT, *reversed(chosen)]

    def _join_parts(self, parts: Iterable[str]) -> str:
        """The record made of these parts. Ends in a newline, since some agents join the user's block to it."""
        return "\n\n".join([self._introduction, *parts, f"{END}\n"])

    def _add_call(self, id: str, update: object) -> None:
        title, status = acp.text(update, "title"), acp.text(update, "status")
        if id not in self._calls:
            self._add_words(TOOL, f"{title or id} ({status or 'unknown'})", None)
            self._calls[id] = self._turns[-1], self._turns[-1].items[-1], title or id
        turn, item, known_title = self._calls[id]
        if status is not None:
            size_before = len(item.text)
            item.pieces = [f"{title or known_title} ({status})"]
            item.is_failed = status == "failed"
            turn.said_size += len(item.text) - size_before
        content = acp.member(update, "content")
        if isinstance(content, list):
            inner = [acp.member(item_content, "content") for item_content in content]
            names = [
                self._take_words(inner_content)
                for inner_content in inner
                if isinstance(inner_content, dict) and acp.text(inner_content, "type") != "text"
            ]
            size_before = turn.output_size
            turn.set_output(item, format_output(content, names), self._limit)
            self._size += turn.output_size - size_before
        self._facts.add_call(update)

    def _add_words(self, speaker: str, words: str, message_id: str | None) -> None:
        if not words:
            return
        last_speaker, self._speaker = self._speaker, (speaker, message_id)
        if not self._turns or (speaker == USER and last_speaker is not None and last_speaker[0] != USER):
            if self._size > _HELD_FACTOR * self._limit:
                self._free_memory()
            self._turns.append(HandoverTurn())
        turn = self._turns[-1]
        if last_speaker == self._speaker and speaker != TOOL:
            turn.items[-1].pieces.append(words)
        else:
            turn.add(HandoverItem(speaker, [words]))
        turn.said_size += len(words)
        self._size += len(words)

    def _free_memory(self) -> None:
        """Free what the record has no room for: outputs first, then all but the gist, then turns."""
        kept_turns: list[HandoverTurn] = []
        whole_size = words_size = gist_size = 0
        for turn in reversed(self._turns):
            whole_size, words_size = whole_size + turn.said_size + turn.output_size, words_size + turn.said_size
            if whole_size > self._limit:
                turn.cut_outputs()
            if words_size > self._limit:
                turn.keep_gist()
                gist_size += turn.said_size
            if gist_size > self._limit:
                self._has_lost_turns = True
                break
            kept_turns.append(turn)
        self._turns = kept_turns[::-1]
        kept_ids = set(map(id, kept_turns))
        self._calls = {key: place for key, place in self._calls.items() if id(place[0]) in kept_ids}
        self._size = sum(turn.said_size + turn.output_size for turn in self._turns)

    def _take_words(self, content: object, *, is_users: bool = False) -> str:
        if acp.text(content, "type") == "text":
            return acp.text(content, "text") or ""
        return self._attachments.add_block(content, is_users=is_users)


def _fit_turn(turn: HandoverTurn, share: int, room: int, *, gist: bool) -> str:
    """A turn in the most detail that fits into its share, or as a gist into the whole room; empty if nothing fits."""
    for detail in (Brevity.WHOLE, Brevity.SHORT, Brevity.SAID):
        if _measure(words := turn.render(detail)) <= share:
            return words
    words = turn.render(Brevity.GIST) if gist else ""
    return words if _measure(words) <= room else ""
