"""A transcript's conversation, laid out so that an agent's replay can be compared with it, and looked up in it.

``text_builder`` makes it. In this package, ``words`` is one string of the letters (``letters``) of all that the agent
said, in which a position counts; ``text`` is a ``TranscriptText``.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import pairwise

from msgspec import Struct

from acp_proxy.comparison.letters import digest, read_block_letters
from acp_proxy.protocol import acp, update_kinds
from acp_proxy.protocol.update_kinds import Role

LETTERS_LIMIT = 32 * 1024 * 1024
"""The most letters that are laid out, far more than any session has. A longer transcript is not compared."""
_JOINED_LIMIT = 64
"""The most messages of a transcript that are looked at for one message of an agent."""
NOT_FINAL_STATUSES = frozenset({None, "pending", "in_progress"})
"""The statuses of a tool call that has not ended."""
MASK = "[redacted"
"""How a masked secret begins in a transcript."""


class UserMessage(Struct):
    """A user message, which begins a turn. Variables call it ``user``."""

    variants: list[str]
    """Its letters, as it was sent and as the agent echoed it."""
    turn_start: int
    """The position of the first letter that follows it."""
    max_turn_start: int
    """The position at which its turn began at the latest; more than ``turn_start`` if it was sent during a turn."""
    first_call_index: int
    """The index of the first tool call that follows it."""
    max_first_call_index: int
    """To ``first_call_index`` what ``max_turn_start`` is to ``turn_start``."""
    thought_position: int
    """Where the thoughts that follow it begin in the letters of all thoughts."""
    takes_back: bool
    """It is a command that takes something back."""
    bypassed_proxy: bool
    """It was not sent through acp-proxy."""
    is_echoed: bool = False
    request_key: tuple[str, bytes] | None = None
    """The run and the request's id, as JSON, of a message that the client sent."""
    is_cancelled: bool = False
    """It is a prompt that the client has cancelled."""
    overtaken_by: int = -1
    """The index of the last user message that went into the running turn, or came in another window, while this prompt
    waited for the end of that turn, so that it may come after that; -1 if none did."""
    is_waiting: bool = False
    """Nothing says that its turn has begun."""
    has_failed: bool = False
    """The agent ended before it answered this prompt."""

    @property
    def run(self) -> str | None:
        """The run whose client sent it; None if none did."""
        return self.request_key[0] if self.request_key is not None else None

    def find_turn_start(self, position: int) -> int:
        """The position of its turn's first letter in a replay that has come to this position."""
        return position if self.turn_start <= position <= self.max_turn_start else self.turn_start

    def find_turn_call(self, next_call: int) -> int:
        """The index of its turn's first tool call in a replay of which this call comes next."""
        return next_call if self.first_call_index <= next_call <= self.max_first_call_index else self.first_call_index


class RecordedCall(Struct):
    """A tool call."""

    id: str
    title: str | None
    turn_number: int
    """That of its turn: how many user messages came before the call."""
    position: int
    """The position of the first letter that follows it."""
    status: str | None
    """Its last one."""
    has_output: bool
    """Whether the transcript has anything of what it gave."""
    run: str
    """The one that recorded it."""
    is_turn_over: bool = True
    """Its turn is over; else that may be running."""


class TranscriptText:
    """The conversation in a transcript. A turn's number is the number of user messages up to it; turn 0 has none, and
    turn 1 has the user message with index 0."""

    def __init__(self) -> None:
        self.agent_letters = ""
        """The letters of all agent messages, in order; empty if the transcript is too long."""
        self.thought_letters = ""
        self.user_messages: list[UserMessage] = []
        self.calls: list[RecordedCall] = []
        self.calls_by_id: dict[str, list[int]] = {}
        self.calls_by_title: dict[str, list[int]] = {}
        self.whole_update_digests: set[bytes] = set()
        """The digests of updates of all other kinds."""
        self.message_positions: list[int] = []
        """The positions at which agent messages begin."""
        self.unprompted_positions: set[int] = set()
        """The positions at which remarks begin: messages that the agent said when the client's last prompt had been
        answered."""
        self.taken_back_turn = 0
        """The last turn in which something was taken back or compacted, without saying what; 0 if there is none."""
        self.rewound_turn = 0
        """The last turn in which a rewind took something back, from a message that the transcript does not have."""
        self.compaction_turns: dict[bytes, int] = {}
        """The turns that have a compaction, by the digest of each of its updates."""
        self.message_ids: dict[tuple[str, bytes], str] = {}
        """By ``UserMessage.request_key``: the ids of these messages in the agent's replays, as the transcript notes
        them."""
        self.copied_turn_count = 0
        """How many turns were copied from the session that this is a fork of."""
        self.is_too_long = self.is_last_prompt_open = False
        """``is_too_long``: longer than ``LETTERS_LIMIT``. ``is_last_prompt_open``: the last prompt has no answer."""
        self.last_begun_turn = 0
        """The last turn that has begun, as far as is known: prompts may wait for its end. 0 if there is none."""
        self.last_replied_turn = 0
        """The last turn in which the agent said or did anything, beside remarks; 0 if there is none."""
        self.last_thought_letters = ""
        """The letters of the thought with which the transcript ends, apart from prompts that wait, if it does."""
        self.unechoed_prompts: list[UserMessage] = []
        """The prompts without an answer that an agent which echoes prompts has not echoed yet."""
        self._overtaken: list[int] = []
        self._by_letters: dict[str, list[int]] = {}
        self._by_message: dict[str, list[int]] | None = None

    @property
    def is_empty(self) -> bool:
        """Whether nothing was said and no tool was called."""
        return not (self.agent_letters or self.user_messages or self.calls)

    @property
    def has_only_first_user_message(self) -> bool:
        """Whether it has one user message, and neither words nor calls of the agent: an agent has answered a load after
        its first message."""
        return len(self.user_messages) == 1 and not (self.agent_letters or self.calls)

    @property
    def is_masked(self) -> bool:
        """Whether secrets were masked in what was said."""
        forms = (form for user in self.user_messages for form in user.variants)
        return any(MASK in text for text in (self.agent_letters, self.thought_letters, *forms, *self.calls_by_title))

    def has_update(self, update: object) -> bool:
        """Whether this has what an update says, anywhere."""
        kind, content = acp.update_kind(update), read_block_letters(acp.member(update, "content"))
        role = update_kinds.find(kind).role
        if role is Role.AGENT:
            return content in self.agent_letters
        if role is Role.THOUGHT:
            return content in self.thought_letters
        if role is Role.USER:
            return any(content in form for user in self.user_messages for form in user.variants)
        return (
            acp.text(update, "title") in self.calls_by_title
            if kind in update_kinds.V1_CALLS
            else digest(update) in self.whole_update_digests
        )

    def find_user_message(self, letters: str, start: int) -> int | None:
        """The index of the first user message, from index ``start`` on, that has these letters."""
        indexes = self._by_letters.get(letters, ())
        passed_count = bisect_right(indexes, start - 1)
        return indexes[passed_count] if passed_count < len(indexes) else None

    def find_overtaken(self, letters: str, start: int) -> list[int]:
        """The indexes of the prompts before index ``start`` that have these letters and may come there."""
        return [
            index
            for index in self._overtaken
            if index < start <= self.user_messages[index].overtaken_by + 1
            and letters in self.user_messages[index].variants
        ]

    def find_turn_span(self, turn: int) -> tuple[int, int]:
        """The letters of a turn: the positions of its first one and of the one after its last."""
        start = self.user_messages[turn - 1].turn_start if turn else 0
        return start, self.user_messages[turn].turn_start if turn < len(self.user_messages) else len(self.agent_letters)

    def find_max_end(self, turn: int) -> int:
        """The position at which a turn ends at the latest: the next prompt may have waited for its end."""
        turn = self._find_overtaking_turn(turn)
        return self.user_messages[turn].max_turn_start if turn < len(self.user_messages) else len(self.agent_letters)

    def find_call_indexes(self, turn: int) -> range:
        """The indexes of a turn's tool calls."""
        start = self.user_messages[turn - 1].first_call_index if turn else 0
        return range(
            start, self.user_messages[turn].first_call_index if turn < len(self.user_messages) else len(self.calls)
        )

    def find_possible_calls(self, turn: int) -> range:
        """The indexes of the tool calls that a turn may have: the next prompt may have waited for its end."""
        start, turn = self.user_messages[turn - 1].first_call_index if turn else 0, self._find_overtaking_turn(turn)
        return range(
            start, self.user_messages[turn].max_first_call_index if turn < len(self.user_messages) else len(self.calls)
        )

    def _find_overtaking_turn(self, turn: int) -> int:
        """The turn after which this one ends: that of the last words into the turn that it waited for."""
        return max(turn, self.user_messages[turn - 1].overtaken_by + 1) if turn else 0

    @property
    def is_interrupted(self) -> bool:
        """Whether the last turn has no answer to its prompt, although the agent has said or done something in it."""
        return self.is_last_prompt_open and self.has_reply(self.last_begun_turn)

    def has_reply(self, turn: int) -> bool:
        """Whether the agent said or did anything in this turn."""
        start, end = self.find_turn_span(turn)
        return end > start or len(self.find_call_indexes(turn)) > 0

    def begins_message(self, position: int) -> bool:
        """Whether an agent message begins at this position."""
        index = bisect_left(self.message_positions, position)
        return index < len(self.message_positions) and self.message_positions[index] == position

    def has_message(self, letters: str, start: int) -> bool:
        """Whether an agent message from the position ``start`` on has exactly these letters."""
        return bool(positions := self._find_messages(letters)) and positions[-1] >= start

    def find_message(self, letters: str, start: int, end: int) -> int | None:
        """The position of the first agent message between two positions that has exactly these letters."""
        positions = self._find_messages(letters)
        index = bisect_left(positions, start)
        return positions[index] if index < len(positions) and positions[index] < end else None

    def find_joined_messages(self, letters: str, start: int, end: int) -> list[tuple[int, int]] | None:
        """The spans of the first agent messages between two positions, if these letters are all of them, joined,
        without some of the remarks after the first one."""
        first, stop = bisect_left(self.message_positions, start), bisect_left(self.message_positions, end)
        starts = self.message_positions[first : min(stop, first + _JOINED_LIMIT)]
        ends = [*self.message_positions[first + 1 : first + 1 + len(starts)], len(self.agent_letters)]
        spans: list[tuple[int, int]] = []
        joined_size = 0
        for span in zip(starts, ends, strict=False):
            message = self.agent_letters[slice(*span)]
            if letters.startswith(message, joined_size):
                spans.append(span)
                joined_size += len(message)
            elif not spans or span[0] not in self.unprompted_positions:
                return None
            if joined_size == len(letters):
                return spans
        return None

    def find_unprompted(self, letters: str, start: int) -> int | None:
        """The position of the first remark, from a position on, that has exactly these letters."""
        position = self.find_message(letters, start, len(self.agent_letters))
        return position if position in self.unprompted_positions else None

    def has_earlier_message(self, letters: str, end: int) -> bool:
        """Whether an agent message that begins before the position ``end`` has exactly these letters."""
        return bool(positions := self._find_messages(letters)) and positions[0] < end

    def _has_more_than_unprompted(self, turn: int) -> bool:
        start, end = self.find_turn_span(turn)
        return (start < end and not self.are_unprompted(start, end)) or len(self.find_call_indexes(turn)) > 0

    def are_unprompted(self, start: int, end: int, *, or_repeated: bool = False) -> bool:
        """Whether all messages between two positions are no answer: the agent said them outside turns. ``or_repeated``:
        or in words in which it has said something before, such as a warning; nobody says an answer in the words of
        another one."""
        first, stop = bisect_left(self.message_positions, start), bisect_left(self.message_positions, end)
        starts, ends = self.message_positions[first:stop], [*self.message_positions[first + 1 : stop], end]
        return starts[:1] == [start] and all(
            begin in self.unprompted_positions
            or (or_repeated and self.has_earlier_message(self.agent_letters[begin:ending], begin))
            for begin, ending in zip(starts, ends, strict=True)
        )

    def _find_messages(self, letters: str) -> Sequence[int]:
        if self._by_message is None:
            self._by_message = {}
            for begin, end in pairwise([*self.message_positions, len(self.agent_letters)]):
                self._by_message.setdefault(self.agent_letters[begin:end], []).append(begin)
        return self._by_message.get(letters, ())

    def find_message_start(self, letters: str, start: int, end: int) -> int | None:
        """The position of the first agent message between two positions that begins with these letters."""
        indexes = range(bisect_left(self.message_positions, start), bisect_left(self.message_positions, end))
        starts = (self.message_positions[index] for index in indexes)
        return next((position for position in starts if self.agent_letters.startswith(letters, position, end)), None)

    def ends_message(self, position: int) -> bool:
        """Whether an agent message ends before this position."""
        return position == len(self.agent_letters) or self.begins_message(position)

    def build_lookups(self) -> None:
        """Prepare the look-ups. Call once, when everything has been added."""
        for index, call in enumerate(self.calls):
            if call.title is not None:
                self.calls_by_title.setdefault(call.title, []).append(index)
        for index, user in enumerate(self.user_messages):
            for form in user.variants:
                self._by_letters.setdefault(form, []).append(index)
        self._overtaken = [index for index, user in enumerate(self.user_messages) if user.overtaken_by >= 0]
        self.last_begun_turn = next(
            (turn for turn in range(len(self.user_messages), 0, -1) if not self.user_messages[turn - 1].is_waiting), 0
        )
        last_answered = next(filter(self._has_more_than_unprompted, range(len(self.user_messages), 0, -1)), 0)
        self.last_replied_turn = min(last_answered, self.last_begun_turn)  # prompts that wait have no answer yet
