"""Reads the searchable text of each turn of a transcript.

That is what ``show`` shows, but for the lines of diffs: the user's text, the agent's messages (chunks joined) and the
titles of tool calls; and apart from these, since an agent that looks up earlier sessions gets only these: thoughts,
plans, why a call or the turn failed. Each is separated by ``BETWEEN``. Not the input and output of tools. A turn begins
with each prompt. In what an agent replayed before the first prompt, a turn begins with a user message that follows
anything but a plan. Turns of several connections at the same time come one after another, as ``show`` shows them.

Reading can continue later from a turn that no other one can still change. Raises only OSError.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from acp_proxy.protocol import acp, update_kinds
from acp_proxy.protocol.jsonrpc import Peer
from acp_proxy.protocol.update_kinds import Role
from acp_proxy.tools.search.query import BETWEEN
from acp_proxy.transcript.file_format import Entry, NoteType
from acp_proxy.transcript.reader import AlikeLines, TranscriptReader
from acp_proxy.transcript.turn_order import WAITING_LIMIT, order_turns
from acp_proxy.transcript.v2_entries import read_as_v1
from acp_proxy.views.sanitize import strip_sequences

_LONGEST_TURN = 1024 * 1024
"""Characters of one turn that are searched: more than anyone says. Longer pasted text is cut."""


@dataclass(frozen=True, slots=True)
class TurnStart:
    """Where a turn begins: offset and number of its first line, and the number of turns before it."""

    offset: int = 0
    line: int = 0
    turns: int = 0


BEGINNING = TurnStart()


@dataclass(slots=True)
class SearchedTurn:
    """One turn.

    ``number``: counted from 1. ``started_at``: when it began, in transcript format. ``start``: where to read to get it;
    earlier ones may come before it. ``prompt``: the text of its prompt. ``pieces``: of what was said; ``asides``: of
    thoughts, plans and failures. ``unique_texts``: what is added only once: the titles of tool calls, the steps of
    plans. ``size``: characters of all.
    """

    number: int
    started_at: str
    start: TurnStart = BEGINNING
    pieces: list[str] = field(default_factory=list)
    asides: list[str] = field(default_factory=list)
    size: int = 0
    prompt: str = ""
    unique_texts: set[str] = field(default_factory=set)
    is_answered: bool = False
    """Whether it contains anything but the user's words."""
    is_independent: bool = False
    """A prompt began it at ``start``, and no earlier one waits for its answer: ``read_parts`` tells the same of it
    without the turns before it, but for changes of their calls, and the past if the agent replays it late."""

    @property
    def texts(self) -> tuple[str, str]:
        """The searchable text: what was said, and the asides."""
        return "".join(self.pieces), "".join(self.asides)

    def add_text(self, text: str, *, continues: bool = False, is_aside: bool = False) -> None:
        """Add text. ``continues``: it belongs to the last message. ``is_aside``: it is a thought, a plan or an
        error."""
        pieces = self.asides if is_aside else self.pieces
        if self.size < _LONGEST_TURN:
            start = BETWEEN if pieces and not continues else ""
            pieces.append(f"{start}{text[: _LONGEST_TURN - self.size]}")
            self.size += len(text)

    def add_once(self, text: str, *, is_aside: bool = False) -> None:
        if text and text not in self.unique_texts:
            self.unique_texts.add(text)
            self.add_text(text, is_aside=is_aside)


class TurnReader:
    """Reads a transcript's turns from a place on.

    ``last_start``: where the last turn begins before which every prompt has its answer: what is recorded later changes
    this turn and those after it. A prompt that has none ``WAITING_LIMIT`` bytes later counts as one of a process that
    was killed. ``read_size``: the offset up to which it was read.
    """

    def __init__(self, start: TurnStart) -> None:
        self.last_start = start
        self.read_size = start.offset
        self._seen_size = start.offset
        """The offset after the last line of the transcript that was seen, which may be incomplete."""
        self._line_number, self._line_end = start.line, start.offset
        self._turn_number = start.turns
        self._turn: SearchedTurn | None = None
        self._is_prompted = False
        self._message: tuple[Role, str] | None = None
        """Whose message the last chunk was of, and its ``messageId``; None if the next chunk begins a new one."""
        self._is_speaking = False
        """Whether the last line was a chunk of the agent's message or thought."""
        self._prompt_key: tuple[str, str] | None = None
        """The run and the request id of the turn's prompt."""
        self._unanswered: dict[tuple[str, str], int] = {}
        """The prompts without an answer, by run and request id, and the offsets of their lines' ends."""
        self._updates: dict[str, list[Mapping[str, object]]] = {}
        """The updates of the turn's calls that have not ended, by call id."""
        self._failed_terminals: set[str] = set()
        """The client's terminals in calls that failed: their output is noted later."""
        self._finished_turns: list[SearchedTurn] = []

    def read(self, reader: TranscriptReader) -> Iterator[SearchedTurn]:
        """The turns in order; the last one may be incomplete. Raises OSError."""
        lines = order_turns(reader.read_alike(self.read_size, self._line_number), reader.find_last_lines)
        for line in read_as_v1(lines):
            if isinstance(line, AlikeLines):
                if self._is_speaking and self._turn is not None and self._message is not None:
                    is_thought = self._message[0] is Role.THOUGHT
                    self._turn.add_text(line.chunks.text, continues=True, is_aside=is_thought)
            elif line.entry is not None:
                self._line_number, self._line_end = line.number, line.end
                self._add(line.entry)
                yield from self._finished_turns
                self._finished_turns.clear()
            if isinstance(line, AlikeLines) or line.is_whole:  # else it is read again, as it may be incomplete
                self.read_size = max(self.read_size, line.end)
            self._seen_size = max(self._seen_size, line.end)
        if self._turn is not None:
            yield self._turn

    def _add(self, entry: Entry) -> None:
        self._is_speaking = False
        if entry.note is not None:
            self._add_note(entry.run, entry.note)
            return
        method, params = acp.text(entry.value, "method"), acp.member(entry.value, "params")
        if entry.peer is Peer.CLIENT:
            if method == acp.PROMPT:
                self._add_prompt(entry.at, acp.member(params, "prompt"))
                self._prompt_key = _make_prompt_key(entry)
                self._unanswered[self._prompt_key] = self._line_end
            elif method == acp.STEERING:
                self._add_steering(entry.at, acp.member(params, "prompt"))
        elif method == acp.UPDATE:
            update = acp.member(params, "update")
            if isinstance(update, Mapping):
                self._add_update(entry.at, update)
        elif method == acp.REQUEST_PERMISSION:
            self._add_call(self._find_turn(entry.at), acp.member(params, "toolCall"))
        elif entry.answered_method == acp.PROMPT:
            prompt_key = _make_prompt_key(entry)
            self._unanswered.pop(prompt_key, None)
            if self._prompt_key == prompt_key:
                self._add_aside(acp.read_error(acp.member(entry.value, "error")))

    def _add_prompt(self, stamp: str, blocks: object) -> None:
        turn = self._begin_turn(stamp)
        self._is_prompted, self._message, turn.is_independent = True, None, turn.number == self.last_start.turns + 1
        turn.prompt = _join_blocks(blocks)
        if turn.prompt:
            turn.add_text(turn.prompt)

    def _add_steering(self, stamp: str, blocks: object) -> None:
        """The user's words into a running turn."""
        self._message = None
        if words := _join_blocks(blocks):
            self._find_turn(stamp).add_text(words)

    def _add_update(self, stamp: str, update: Mapping[str, object]) -> None:
        kind = acp.update_kind(update)
        if kind is None or not update_kinds.is_conversation(kind):
            return
        content = acp.member(update, "content")
        role = update_kinds.find_v1_role(kind)
        if role is Role.USER:
            self._add_user_chunk(stamp, read_block(content))
            return
        turn = self._find_turn(stamp)
        turn.is_answered |= kind != update_kinds.PLAN  # replays have only the last of several, which may move
        if role in (Role.AGENT, Role.THOUGHT):
            message = role, acp.text(update, "messageId") or ""
            turn.add_text(read_reply_block(content), continues=self._message == message, is_aside=role is Role.THOUGHT)
            self._message, self._is_speaking = message, True
            return
        self._message = None
        if role is Role.CALL:
            self._add_call(turn, update)
            self._add_failure(update)
        elif kind == update_kinds.PLAN and isinstance(entries := update.get("entries"), list):
            for entry in entries:
                turn.add_once(acp.text(entry, "content") or "", is_aside=True)

    def _add_user_chunk(self, stamp: str, text: str) -> None:
        """A user message from the agent. If the prompt contains it, it is an echo and not added."""
        turn = self._find_turn(stamp)
        if turn.is_answered and not self._is_prompted:
            turn = self._begin_turn(stamp)
        if text.strip() in turn.prompt:
            self._message = None
        else:
            message = Role.USER, ""
            turn.add_text(text, continues=self._message == message)
            self._message = message

    def _add_call(self, turn: SearchedTurn, call: object) -> None:
        turn.add_once(acp.text(call, "title") or "")

    def _add_failure(self, update: Mapping[str, object]) -> None:
        """Why a call failed, once it has."""
        id, status = acp.text(update, "toolCallId") or "", acp.text(update, "status")
        if any(name in update for name in ("content", "rawOutput", "_meta")):
            self._updates.setdefault(id, []).append(update)
        if status not in ("completed", "failed"):
            return
        updates = self._updates.pop(id, [])
        if status == "failed" and updates:
            # Imported late: slow, and most calls succeed.
            from acp_proxy.views.conversation import ToolCall, merge_updates
            from acp_proxy.views.passages import find_shown_reason

            fields = merge_updates(updates) | {"status": status}
            self._add_aside(find_shown_reason(ToolCall(id, fields, True)))
            content = fields.get("content")
            for item in content if isinstance(content, list) else ():
                self._failed_terminals.add(acp.text(item, "terminalId") or "")

    def _add_note(self, run: str, note: Mapping[str, object]) -> None:
        kind = note.get("type")
        if kind == NoteType.OPENED and note.get("method") == acp.FORK:
            self._unanswered.clear()  # those of the parent
        elif kind == NoteType.FAILED:
            self._unanswered = {key: end for key, end in self._unanswered.items() if key[0] != run}
            self._add_aside(acp.text(note, "message"))
        elif kind == NoteType.TERMINAL and acp.text(note, "terminalId") in self._failed_terminals:
            from acp_proxy.views.passages import shorten_to_end

            self._add_aside(shorten_to_end(strip_sequences(acp.text(note, "output") or "").strip())[0])

    def _add_aside(self, text: str | None) -> None:
        if self._turn is not None:
            self._turn.add_once(text or "", is_aside=True)

    def _find_turn(self, stamp: str) -> SearchedTurn:
        return self._turn if self._turn is not None else self._begin_turn(stamp)

    def _begin_turn(self, stamp: str) -> SearchedTurn:
        if self._turn is not None:
            self._finished_turns.append(self._turn)
        # Not within a damaged line, or if later lines came before this one, whose turn has waited.
        is_last = self._turn is None or self._line_end > self._seen_size
        if is_last and all(self._line_end - end > WAITING_LIMIT for end in self._unanswered.values()):
            self._unanswered.clear()
            self.last_start = TurnStart(self.read_size, self._line_number, self._turn_number)
        self._updates.clear()
        self._failed_terminals.clear()
        self._prompt_key = None
        self._turn_number += 1
        self._turn = SearchedTurn(self._turn_number, stamp, self.last_start)
        return self._turn


def _make_prompt_key(entry: Entry) -> tuple[str, str]:
    """The run and the request's id of a prompt, or of its answer."""
    return entry.run, repr(acp.member(entry.value, "id"))


def _join_blocks(blocks: object) -> str:
    texts = (read_block(block) for block in blocks) if isinstance(blocks, list) else ()
    return " ".join(filter(None, texts))


def read_reply_block(block: object) -> str:
    """What a block of the agent's adds to the text. Its texts are pieces of one; what it refers to stands apart."""
    words = read_block(block)
    return words if acp.text(block, "type") == "text" else f" {words} "


def read_block(block: object) -> str:
    """What a block adds to the text: its text, or the name or URI it refers to."""
    if acp.text(block, "type") == "text":
        return acp.text(block, "text") or ""
    return acp.text(block, "name") or acp.text(block, "uri") or acp.text(acp.member(block, "resource"), "uri") or ""
