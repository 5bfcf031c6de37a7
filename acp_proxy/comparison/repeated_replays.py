"""Compares an agent's replays of a session with each other, not with a transcript: where there is none yet, and where
the agent was asked for several. Lines in, lines out.
"""

from collections import deque
from itertools import takewhile

from acp_proxy.comparison.comparison import Comparison, SentLine
from acp_proxy.comparison.context_messages import has_context_form
from acp_proxy.comparison.letters import SHORT_TEXT_LIMIT, digest, read_block_letters
from acp_proxy.comparison.sent_messages import read_update_as_v1, read_without_ids
from acp_proxy.comparison.text_builder import TextBuilder
from acp_proxy.protocol import acp, update_kinds
from acp_proxy.protocol.update_kinds import ComparedBy, Role

_CONTEXT_MARKS = (b"_context", b"Response")
"""What context of one of these forms has, as JSON."""
_SEARCHED_LINES = 16
"""The first user message of a replay is among so many lines."""
_REPLY_ROLES = frozenset({Role.AGENT, Role.THOUGHT})
_TEXT_ROLES = _REPLY_ROLES | {Role.USER}


def drop_context_and_repetition(lines: list[bytes]) -> list[bytes]:
    """The lines of a replay that begin a transcript: without context that the agent adds, and without what it repeats.

    ``lines``: updates of the conversation, in order."""
    return drop_repetition(_drop_context(lines))


def _drop_context(lines: list[bytes]) -> list[bytes]:
    """The lines of a replay without context: user messages that have the form of it. One chunk of several with the same
    id is none."""
    if not any(update_kinds.USER_BYTES in line and any(mark in line for mark in _CONTEXT_MARKS) for line in lines):
        return lines
    kept_lines: list[bytes] = []
    follows_call = False
    updates = [*map(read_update_as_v1, lines)]
    ids = [None, *(acp.text(update, "messageId") for update in updates), None]
    for line, update, previous_id, id, next_id in zip(lines, updates, ids, ids[1:], ids[2:], strict=False):
        row = update_kinds.find(acp.update_kind(update))
        letters = read_block_letters(acp.member(update, "content")) if row.role is Role.USER else ""
        is_chunk = id is not None and id in (previous_id, next_id)
        if is_chunk or not has_context_form(letters, follows_call=follows_call):
            kept_lines.append(line)
        follows_call = row.compared_by is ComparedBy.CALL or (
            follows_call and row.compared_by is ComparedBy.WHAT_FOLLOWS
        )
    return kept_lines


def drop_repetition(lines: list[bytes]) -> list[bytes]:
    """The lines of a replay without what it repeats.

    If the first user message comes again, everything from there on is compared with what comes before it, and only the
    new lines are kept. ``lines``: updates of the conversation, in order.
    """
    if not any(update_kinds.USER_BYTES in line and lines.count(line) > 1 for line in lines[:_SEARCHED_LINES]):
        return lines
    user_letters = [_find_user_letters(line) or None for line in lines]
    first = next(filter(None, user_letters), None)
    repeat_index = (
        user_letters.index(first, user_letters.index(first) + 1)
        if user_letters.count(first) > 1 and first is not None
        else len(lines)
    )
    if repeat_index == len(lines):
        return lines
    bare_lines = [read_without_ids(line) for line in lines]
    starts = [index for index, letters in enumerate(user_letters) if letters == first]
    for size in (start - starts[0] for start in starts[1:]):
        if len(lines) % size == 0 and bare_lines == bare_lines[:size] * (len(lines) // size):
            return lines[:size]
    builder = TextBuilder()
    for line in lines[:repeat_index]:
        builder.add_update(read_update_as_v1(line))
    comparison = Comparison(builder.finish())
    for line in lines[repeat_index:]:
        comparison.add(line, read_update_as_v1(line), is_after_an_answer=False)
    comparison.end_message()
    new_lines = comparison.find_unrecorded()
    if comparison.has_new_before_tail:  # the user has said the same again
        return lines
    return [*lines[:repeat_index], *new_lines]


def find_last_replay(lines: list[SentLine]) -> list[SentLine]:
    """The last of several replays in a row.

    It begins with a repetition of the first user message, or of the first line if there is none, and with what comes
    before that each time: if all that follows came just before, too, with the first such repetition, since the user may
    say the same again; else with the last one. ``lines``: updates of the conversation.
    """
    bare_lines = [read_without_ids(line) for line, _ in lines]
    marks: list[object] = [_find_user_letters(line) for line, _ in lines]
    if not any(marks):
        marks = [*bare_lines]
    first = next((index for index, mark in enumerate(marks) if mark), 0)

    def count_same_before(index: int) -> int:
        return sum(
            1
            for _ in takewhile(
                lambda count: bare_lines[index - count] == bare_lines[first - count], range(1, first + 1)
            )
        )

    starts = [
        index - count_same_before(index) for index in range(first + 1, len(marks)) if marks[index] == marks[first]
    ]
    same_counts = _count_same_as_beginning(bare_lines[::-1])  # seen from the end, for each number of lines
    repeated = (index for index in starts if same_counts[len(bare_lines) - index] >= len(bare_lines) - index)
    return lines[next(repeated, starts[-1] if starts else 0) :]


def _count_same_as_beginning(items: list[dict[str, object]]) -> list[int]:
    """For each place, how many items from there on are the same as from the beginning on.

    Gusfield's Z algorithm: each item is compared at most twice, however often an agent says the same.
    """
    counts = [len(items)] * bool(items)
    begin = end = 0
    for index in range(1, len(items)):
        count = min(counts[index - begin], end - index) if index < end else 0
        while index + count < len(items) and items[count] == items[index + count]:
            count += 1
        if index + count > end:
            begin, end = index, index + count
        counts.append(count)
    return counts


def count_earlier_lines(lines: list[SentLine], earlier_first: bytes) -> int:
    """How many lines of a replay are the rest of an earlier one, before its own beginning; 0 if that never comes.

    ``earlier_first``: the first line of the earlier replay. An agent that answers a load after the first message
    (gemini) sends the rest of one replay before it answers the next load. ``lines``: as for ``find_last_replay``.
    """
    first = _find_user_letters(earlier_first)
    return next(
        (
            index
            for index, (line, _) in enumerate(lines)
            if (_find_user_letters(line) == first if first else earlier_first and are_alike(line, earlier_first))
        ),
        0,
    )


def are_alike(line: bytes, other_line: bytes) -> bool:
    """Whether two updates say the same. Some agents give messages and calls other ids in each replay."""
    return read_without_ids(line) == read_without_ids(other_line)


class RestOfReplay:
    """Updates that the client has from one replay and that the agent may send once more: the rest of another one.

    The agent sends them in order, perhaps with others in between, as gemini does, or with other ones in their place:
    those are new. Only the beginning of a long message proves that it is further ahead. A message or a call that has
    begun as a new one is new to its end: single words, or the end of some call, may well stand in the replay.
    """

    def __init__(self, lines: list[bytes]) -> None:
        self._indexes: dict[bytes, deque[int]] = {}
        """By what an update says: where it stands, after what was taken."""
        self._kinds: list[str | None] = []
        self._call_ids: list[str | None] = []
        """By place: the id of the update's call, or None."""
        for index, line in enumerate(lines):
            self._indexes.setdefault(digest(read_without_ids(line)), deque()).append(index)
            self._kinds.append(acp.update_kind(read_update_as_v1(line)))
            self._call_ids.append(acp.text(read_update_as_v1(line), "toolCallId"))
        self._next_index = 0
        self._replaced_count = 0
        """How many updates from there on had new ones of the same kind in their place."""
        self._new_message: object = None
        """The role and the id of the message that is under way, if it is new."""
        self._calls: dict[str | None, str | None] = {}
        """By a call's id: the id that it has in the rest; None if it is new."""

    def try_take(self, line: bytes) -> bool:
        """Take the next update that says the same as this one, with those before it. Returns whether there is one."""
        update = read_update_as_v1(line)
        kind = acp.update_kind(update)
        role = update_kinds.find(kind).role
        message = (role, acp.member(update, "messageId")) if role in _TEXT_ROLES else None
        call_id = acp.text(update, "toolCallId")
        is_long = role in _REPLY_ROLES and len(read_block_letters(acp.member(update, "content"))) >= SHORT_TEXT_LIMIT
        index = self._find_index(line)
        is_new = (
            index is None
            or (index not in (self._next_index, self._next_index + self._replaced_count) and not is_long)
            or (message is not None and message == self._new_message)
            or self._calls.get(call_id, self._call_ids[index]) != self._call_ids[index]
        )
        self._new_message = message if is_new else None
        if is_new or index is None:
            self._calls.setdefault(call_id, None)
            replaced = self._next_index + self._replaced_count
            if role is not Role.USER:  # a message of the user is never in the place of another one: it begins a turn
                self._replaced_count += self._kinds[replaced : replaced + 1] == [kind]
            return False
        self._calls[call_id] = self._call_ids[index]
        self._next_index, self._replaced_count = index + 1, 0
        return True

    def _find_index(self, line: bytes) -> int | None:
        """The place of the next update that says the same."""
        indexes = self._indexes.get(digest(read_without_ids(line)), deque())
        while indexes and indexes[0] < self._next_index:
            indexes.popleft()
        return indexes[0] if indexes else None


class OtherReplays:
    """What the agent may still send for other loads of the session while one load waits for its replay, so that it is
    not taken for that."""

    def __init__(self) -> None:
        self.agent_answered_other_load = False
        """Whether the agent has answered another load since this one was sent: what comes may be the rest of that."""
        self.first_line: bytes | None = None
        """How this load's replay began that came before the agent's answer; empty if none came, None before that
        answer."""
        self._earlier_first_line: bytes | None = None
        """How the replay began of the load that the agent answered before this one; empty if nothing came before that
        answer, None if there was no such load. Its rest may come before the answer to this one."""
        self._cancelled_counts: dict[object, int] = {}
        """By cancelled load: how many lines had come for it when this one was sent.

        The client cancels a load after ``a b`` and loads again: 2. The agent sends more, and answers only this load. If
        that was ``a b c``, a replay has begun once more, and it is this load's. If it was ``x y``, none has, and this
        load's is what came after the 2."""
        self._rest: RestOfReplay | None = None
        """What came before the agent's answer to this load, but may be the rest of the earlier replay. The rest of this
        load's replay is alike: what comes again after the answer is left out, since the client has it."""

    def expect_rest(self, earlier_first_line: bytes | None) -> None:
        """The agent has answered another load. ``earlier_first_line``: the ``first_line`` of that."""
        self._earlier_first_line = earlier_first_line

    def expect_cancelled_lines(self, load_id: object, count: int) -> None:
        """This load is sent after a cancelled one, for which so many lines have come."""
        self._cancelled_counts[load_id] = count

    def separate(self, lines: list[SentLine], cancelled: dict[object, list[SentLine]]) -> list[SentLine]:
        """The agent has answered this load: return its own replay, followed by what may be the rest of the earlier one.

        ``lines``: what has come for this load. ``cancelled``: by cancelled load that the agent leaves unanswered, what
        has come for that, but was for this one.
        """
        cancelled_lines = [line for lines_of_one in cancelled.values() for line in lines_of_one]
        if cancelled_lines:
            all_lines = [*cancelled_lines, *lines]
            lines = find_last_replay(all_lines)
            if len(lines) == len(all_lines):  # they do not begin alike: this one's began after it was asked for
                count = sum(self._cancelled_counts.get(load_id, 0) for load_id in cancelled)
                lines = find_last_replay(all_lines[count:])
        rest_lines: list[SentLine] = []  # without an earlier replay, all is of this one
        if self._earlier_first_line == b"":
            # Nothing of that came before its answer: all is of it, and this load's own comes after this answer.
            rest_lines = lines
        elif self._earlier_first_line is not None:
            # It ends where such a line comes again.
            # The comparison needs it in order: an agent that lacks old turns does not begin where the transcript does.
            count = count_earlier_lines(lines, self._earlier_first_line)
            rest_lines = lines[:count]
            lines = [*lines[count:], *rest_lines]
        self._rest = RestOfReplay([line for line, _ in rest_lines]) if rest_lines else None
        self.first_line = lines[0][0] if lines else self._earlier_first_line or b""
        return lines

    def try_take_repeated(self, line: bytes) -> bool:
        """Whether this line comes once more, since it was of the earlier replay before."""
        return self._rest is not None and self._rest.try_take(line)

    def end(self) -> None:
        """The client has prompted: what is alike may be new from now on."""
        self._rest = None


def _find_user_letters(line: bytes) -> str:
    update = read_update_as_v1(line)
    is_user = update_kinds.find(acp.update_kind(update)).role is Role.USER
    return read_block_letters(acp.member(update, "content")) if is_user else ""
