"""What a transcript says, laid out so that a telling of it can be compared with it.

Texts are kept as letters: without white space, so that the way in which they were cut into chunks does not matter.
Positions are offsets into all letters that the agent said. Nothing here raises on foreign input.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from typing import TYPE_CHECKING

import orjson

from acp_proxy.wire import acp, jsonrpc, record
from acp_proxy.wire.jsonrpc import Peer
from acp_proxy.wire.record import Entry
from acp_proxy.wire.value import Value

if TYPE_CHECKING:  # loaded where a transcript is read
    from acp_proxy.wire.streams import Stream

LETTERS_LIMIT = 32 * 1024 * 1024
"""Letters that are laid out: far more than anybody has talked in one session. Of more, nothing is decided."""
UNFINISHED = frozenset({None, "pending", "in_progress"})
"""States of a tool call that is not over."""
PLAN = "plan"
CALL_UPDATE = "tool_call_update"
CALLS = frozenset({acp.TOOL_CALL, CALL_UPDATE})
_COMPACTION = "compaction"
_SIXTEEN_DIGITS = 0xFFFF_FFFF_FFFF_FFFF
_COMMANDS = re.compile(r"\s*/(clear|compact|compress|undo|rewind|revert|restore|reset|rollback|new)\b", re.IGNORECASE)
"""Prompts by which users take something back."""


class User(Value, frozen=False):
    """A message of the user's, which begins a turn.

    ``forms``: its letters, as it was sent and as the agent echoed it. ``start`` and ``call``: the first letter and the
    first tool call behind it. ``takes_back``: it is a command that takes something back. ``is_elsewhere``: it was not
    sent through this proxy.
    """

    forms: list[str]
    start: int
    call: int
    takes_back: bool
    is_elsewhere: bool
    is_echoed: bool = False


class KnownCall(Value, frozen=False):
    """A tool call. ``turn``: the number of user messages before it. ``status``: the last one."""

    id: str
    title: str | None
    turn: int
    status: str | None


class Past:
    def __init__(self) -> None:
        self.words = ""
        """All letters of the agent, in order."""
        self.thoughts = ""
        self.users: list[User] = []
        self.calls: list[KnownCall] = []
        self.calls_by_id: dict[str, list[int]] = {}
        self.calls_by_title: dict[str, list[int]] = {}
        self.others: set[bytes] = set()
        """Updates of any other kind, as JSON."""
        self.messages: list[int] = []
        """Where messages of the agent begin."""
        self.taken_back_at = 0
        """The last turn in which something was taken back or compacted; 0: none."""
        self.is_too_long = self.is_unfinished = False
        """The second: the last prompt has no answer."""
        self._by_letters: dict[str, list[int]] = {}
        self._starts: list[int] = []

    @property
    def is_empty(self) -> bool:
        return not (self.words or self.users or self.calls)

    def next_user(self, letters: str, start: int) -> int | None:
        """The first message of the user's, from one on, that has these letters."""
        found = self._by_letters.get(letters, ())
        at = bisect_right(found, start - 1)
        return found[at] if at < len(found) else None

    def turn_at(self, offset: int) -> int:
        """The turn in which a letter stands: the number of user messages before it."""
        return bisect_right(self._starts, offset)

    def span(self, turn: int) -> tuple[int, int]:
        """The letters of a turn; turn 0 is what was said before the first message of the user's."""
        start = self.users[turn - 1].start if turn else 0
        return start, self.users[turn].start if turn < len(self.users) else len(self.words)

    def calls_of(self, turn: int) -> range:
        start = self.users[turn - 1].call if turn else 0
        return range(start, self.users[turn].call if turn < len(self.users) else len(self.calls))

    def has_answer(self, turn: int) -> bool:
        """Whether the agent said or did anything in this turn."""
        start, end = self.span(turn)
        return end > start or len(self.calls_of(turn)) > 0

    def begins_message(self, at: int) -> bool:
        """Whether a message of the agent's begins at this letter."""
        place = bisect_left(self.messages, at)
        return place < len(self.messages) and self.messages[place] == at

    def ends_message(self, at: int) -> bool:
        """Whether one ends before this letter."""
        return at == len(self.words) or self.begins_message(at)

    def index(self) -> None:
        """To be called once all is there."""
        self._starts = [user.start for user in self.users]
        for number, call in enumerate(self.calls):
            if call.title is not None:
                self.calls_by_title.setdefault(call.title, []).append(number)
        for number, user in enumerate(self.users):
            for form in user.forms:
                self._by_letters.setdefault(form, []).append(number)


class Laying:
    """Lays out a transcript, entry by entry."""

    def __init__(self) -> None:
        self._past = Past()
        self._words: list[str] = []
        self._thoughts: list[str] = []
        self._size = self._thought_size = 0
        self._run: tuple[str, str | None] | None = None
        self._said: list[str] = []  # of the user's message that the agent tells just now
        self._spoke = True  # the agent has said something since the last prompt
        self._open: list[User] = []  # prompts without an answer
        self._left: list[User] = []  # those that nobody will answer any more

    def add(self, entry: Entry) -> None:
        method = acp.text(entry.value, "method")
        params = acp.member(entry.value, "params")
        if entry.peer is Peer.CLIENT and method == acp.PROMPT:
            self._prompted(acp.member(params, "prompt"))
        elif entry.peer is Peer.AGENT and entry.of == acp.PROMPT:
            self._answered()
        elif entry.peer is Peer.AGENT and method == acp.UPDATE:
            self.update(acp.member(params, "update"))
        elif entry.note is not None and entry.note.get("type") == record.FAILED:
            self._answered()
        elif entry.note is not None and entry.note.get("type") == record.OPENED:
            self._end_user()
            self._left = self._open or self._left
            self._open = []  # nobody answers those any more

    def go_on(self, stream: "Stream") -> None:
        """Entries that go on with the message of the last one."""
        if self._run is not None and self._run[0] == acp.THOUGHT_CHUNK:
            self._think(letters(stream.text))
        elif not self._open:  # behind a turn each is a message of its own
            for text in stream.each_text:
                self._past.messages.append(self._size)
                self._speak(letters(text))
        else:
            self._speak(letters(stream.text))

    def update(self, update: object) -> None:
        kind = acp.update_kind(update)
        if kind is None or not isinstance(update, dict) or not acp.is_conversation(kind):
            return
        run = (kind, acp.text(update, "messageId"))
        if run != self._run:
            self._end_user()
            self._run = run
            if kind == acp.AGENT_CHUNK:
                self._past.messages.append(self._size)
        elif kind == acp.AGENT_CHUNK and not self._open:
            self._past.messages.append(self._size)
        if kind == acp.USER_CHUNK:
            self._said.append(block_letters(update.get("content")))
            return
        self._spoke = self._spoke or kind != PLAN
        if kind == acp.AGENT_CHUNK and (shown := shown_by(update)) is not None:
            self._called(acp.TOOL_CALL, shown)
        elif kind == acp.AGENT_CHUNK:
            self._speak(block_letters(update.get("content")))
        elif kind == acp.THOUGHT_CHUNK:
            self._think(block_letters(update.get("content")))
        elif kind in CALLS:
            self._called(kind, update)
        elif kind != PLAN:
            self._past.others.add(digest(update))
            if kind.startswith(_COMPACTION):
                self._past.taken_back_at = len(self._past.users)

    def past(self) -> Past:
        self._end_user()
        past = self._past
        past.is_unfinished = bool(past.users) and past.users[-1] in (*self._open, *self._left)
        past.is_too_long = self._size + self._thought_size > LETTERS_LIMIT
        if not past.is_too_long:
            past.words, past.thoughts = "".join(self._words), "".join(self._thoughts)
        past.index()
        return past

    def _speak(self, said: str) -> None:
        self._size += len(said)
        if self._size <= LETTERS_LIMIT:
            self._words.append(said)

    def _think(self, said: str) -> None:
        self._thought_size += len(said)
        if self._thought_size <= LETTERS_LIMIT:
            self._thoughts.append(said)

    def _prompted(self, blocks: object) -> None:
        self._end_user()
        self._run = None
        items = blocks if isinstance(blocks, list) else []
        text = next((said for item in items if (said := acp.text(item, "text"))), "")
        user = self._begin("".join(map(block_letters, items)), is_elsewhere=False)
        spoken = "".join(letters(said) for item in items if (said := acp.text(item, "text")))
        if spoken and spoken not in user.forms:
            user.forms.append(spoken)
        user.takes_back = takes_back(text)
        if user.takes_back:
            self._past.taken_back_at = len(self._past.users)
        self._open.append(user)
        self._spoke = False

    def _answered(self) -> None:
        self._end_user()
        self._run = None
        if self._open:
            self._open.pop(0)

    def _begin(self, said: str, *, is_elsewhere: bool) -> User:
        user = User([said], self._size, len(self._past.calls), False, is_elsewhere)
        self._past.users.append(user)
        return user

    def _end_user(self) -> None:
        """The agent has told a message of the user's: an echo of a prompt, or one of another client."""
        if not self._said:
            return
        said, self._said = "".join(self._said), []
        waiting = [user for user in self._open if not user.is_echoed]
        echoed = next((user for user in waiting if said in user.forms), None)
        if echoed is None and not self._spoke and waiting:
            echoed = waiting[0]
        if echoed is None:
            self._begin(said, is_elsewhere=not self._open)
            return
        echoed.is_echoed = True
        if said not in echoed.forms:
            echoed.forms.append(said)

    def _called(self, kind: str, update: Mapping[str, object]) -> None:
        id, title, status = (acp.text(update, key) for key in ("toolCallId", "title", "status"))
        if id is None:
            return
        past, turn = self._past, len(self._past.users)
        known = past.calls_by_id.get(id)
        if known and (kind != acp.TOOL_CALL or past.calls[known[-1]].turn == turn):
            call = past.calls[known[-1]]
            call.title = title or call.title
            call.status = status or call.status
            return
        past.calls_by_id.setdefault(id, []).append(len(past.calls))
        past.calls.append(KnownCall(id, title, turn, status))


def letters(text: str) -> str:
    return "".join(text.split())


def block_letters(block: object) -> str:
    """The letters of a block; of one that is no text, what tells it from others."""
    text = acp.text(block, "text") if acp.text(block, "type") in ("text", None) else None
    if text is not None:
        return letters(text)
    return f"\0{digest(block).decode(errors='replace')}\0" if isinstance(block, dict) else ""


def shown_by(update: object) -> Mapping[str, object] | None:
    """What the agent shows that is no text, an image say: known again like a tool call that is over."""
    content = acp.member(update, "content")
    if not isinstance(content, dict) or acp.text(content, "type") in ("text", None):
        return None
    return {"toolCallId": block_letters(content), "status": "completed"}


def digest(value: object) -> bytes:
    """What equal values have in common, in this process."""
    try:
        dumped = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except TypeError:
        dumped = jsonrpc.dump(value)
    return b"%x" % (hash(dumped) & _SIXTEEN_DIGITS)


def takes_back(text: str) -> bool:
    return _COMMANDS.match(text) is not None
