"""Keeps the tail, which is what an agent sends after the last known message. Only this can be new, and only if nothing
known follows. Says which lines of it to record.
"""

from contextlib import suppress
from itertools import takewhile

from msgspec.structs import replace

from acp_proxy.comparison.sent_messages import SentMessage, SentUpdate, read_without_ids
from acp_proxy.protocol import acp, update_kinds
from acp_proxy.protocol.update_kinds import Role

TAIL_LIMIT = 64 * 1024 * 1024
"""The most bytes of a tail that can be shown and recorded: as many as may wait before it is decided whose past is
shown."""


class Tail:
    """The tail of one comparison."""

    def __init__(self, *, is_rest_of_turn: bool = False) -> None:
        self.user_message_count = 0
        """How many user messages it has."""
        self.has_new = False
        """Whether it has words or calls that the transcript lacks."""
        self.completes_turn = False
        """Whether it completes a turn that the transcript has begun."""
        self.is_rest_of_turn = is_rest_of_turn
        """Whether it follows the last words of a turn that was cut, so that new words or calls in it are the rest."""
        self.follows_rewording = False
        """Whether the last turn's answer has come before it, in other words."""
        self.has_new_without_reply = False
        """Whether it has an update that ``is_new_without_reply``."""
        self._updates: list[SentUpdate] = []
        self._size = 0
        self._tail_number = 1
        """How many tails there have been so far."""
        self._call_ends: list[SentUpdate] = []
        """The ends of calls from before what is known now, and what calls gave: these are new all the same."""
        self._call_ends_size = 0
        self._greeting: list[SentUpdate] = []
        """What came before the first known message, such as a greeting."""

    @property
    def size(self) -> int:
        """The bytes that it holds."""
        return min(self._size, TAIL_LIMIT) + self._call_ends_size

    def add(self, *updates: SentUpdate) -> None:
        """Add updates; those beyond the limit are not recorded."""
        for update in updates:
            update.tail_number = self._tail_number
            self._size += len(update.line)
            if self._size <= TAIL_LIMIT:
                self._updates.append(update)
                self.has_new_without_reply |= update.is_new_without_reply

    def add_new(self, *updates: SentUpdate) -> None:
        """Add words or calls that the transcript lacks."""
        self.has_new = True
        self.add(*updates)

    def add_user_message(self, *updates: SentUpdate) -> None:
        """Add a user message that the transcript lacks there."""
        self.user_message_count += 1
        for update in updates:
            update.is_new_without_reply = True
        self.add(*updates)

    def add_call_end(self, update: SentUpdate) -> None:
        """Add the end of a call that the transcript left unfinished."""
        self.completes_turn = True
        self.add(update)

    def add_call_output(self, update: SentUpdate) -> None:
        """Add what a call gave, of which the transcript has nothing. It is new whatever follows."""
        if self._call_ends_size + len(update.line) <= TAIL_LIMIT:
            self._call_ends.append(update)
            self._call_ends_size += len(update.line)

    def begin_next(self, *, is_rest_of_turn: bool, completes_turn: bool) -> None:
        """Something known follows, so nothing in it is new, and another tail begins. The end of a call is new all the
        same: some agents do not send it in the turn (codex-acp, if the command is over at once)."""
        for update in self._updates:
            if update.ends_call and self._call_ends_size + len(update.line) <= TAIL_LIMIT:
                with suppress(ValueError, KeyError):
                    line = acp.with_text(
                        update.line, update_kinds.TOOL_CALL_UPDATE, "params", "update", "sessionUpdate"
                    )
                    self._call_ends.append(replace(update, line=line))
                    self._call_ends_size += len(line)
        self._updates, self._size, self.user_message_count = [], 0, 0
        self._tail_number += 1
        self.is_rest_of_turn, self.completes_turn = is_rest_of_turn, completes_turn
        self.has_new = self.follows_rewording = self.has_new_without_reply = False

    def drop_call_ends(self) -> None:
        """The agent begins its replay once more."""
        self._call_ends, self._call_ends_size = [], 0

    def begins_like(self, update: SentUpdate) -> bool:
        """Whether the first that the agent says or does in it is this, perhaps with another id."""
        first = next((kept for kept in self._updates if kept.role in (Role.AGENT, Role.CALL)), None)
        return first is not None and read_without_ids(first.line) == read_without_ids(update.line)

    def add_turn(self, user_updates: list[SentUpdate], later_tail: "Tail") -> None:
        """Add a user message and what has come since that."""
        self.user_message_count += 1 + later_tail.user_message_count
        self.add(*user_updates, *later_tail._updates)

    def keep_greeting(self) -> None:
        """The first known user message follows: what comes before the first user message may still be new."""
        before_user = takewhile(lambda update: update.role is not Role.USER, self._updates)
        self._greeting = [update for update in before_user if update.kind not in update_kinds.NEUTRAL]

    def note_rewording(self) -> None:
        """The last turn's answer comes, in other words: the user messages in the tail so far are context in it."""
        if not self.follows_rewording:
            for update in self._updates:
                update.tail_number = update.tail_number if update.role is not Role.USER else 0
            self._updates = [*filter(self.is_in_tail, self._updates)]
        self.follows_rewording, self.has_new_without_reply = True, False
        for update in self._updates:
            update.is_new_without_reply = False

    def is_in_tail(self, update: SentUpdate) -> bool:
        """Whether this update is in the tail, or was left out because of the limit."""
        return update.tail_number == self._tail_number

    def split(self, *, reply_may_follow: bool) -> tuple[list[SentUpdate], list[SentUpdate]]:
        """All updates, in two parts: those that are new, and the neutral ones after them, which depend on what the
        agent sends next. ``reply_may_follow``: to a user message that the transcript has, so one that it lacks depends
        on that too."""
        updates = [*self._greeting, *self._call_ends, *self._updates]
        end = _count_to_last_answer(updates) if reply_may_follow else _count_shown(updates)
        return updates[:end], updates[end:]

    def find_unrecorded(self, *, is_all_new: bool, turn_may_run_elsewhere: bool | None) -> list[bytes]:
        """The lines to record. ``is_all_new``: the transcript is empty. ``turn_may_run_elsewhere``: as for
        ``Comparison.find_unrecorded``."""
        sent_again = {update.line for update in self._updates}  # an earlier replay may have ended with the same lines
        tail = [*(update for update in self._greeting if update.line not in sent_again), *self._updates]
        if is_all_new:
            return [update.line for update in tail]
        end_lines = [update.line for update in self._call_ends]
        # The transcript's last prompt has no answer, and this is it. Not if another process may be recording the turn.
        # Neutral updates at the end are not shown before something follows them, and what is not shown is not recorded.
        if self.completes_turn and not turn_may_run_elsewhere:
            return end_lines + [update.line for update in tail[: _count_shown(tail)]]
        # From a user message on, the session went on elsewhere.
        turn_start = _find_turn_start(tail, is_new_without_reply=self.has_new_without_reply)
        # The rest of a turn that was cut, if it has words or calls that the transcript has nowhere: a greeting that
        # comes with every load is no rest. Where nobody knows whether the turn still runs elsewhere, it may.
        if self.is_rest_of_turn and turn_may_run_elsewhere is False and any(map(_is_new, self._updates)):
            turn_start, tail = len(tail) - len(self._updates), tail[: _count_shown(tail)]
        # Before that: only what came after the answer, since the agent says it now. What came before it may be history
        # in other words, and what the transcript has somewhere is a repetition.
        loose_updates = [
            update
            for update in tail[:turn_start]
            if update.is_after_an_answer and update.kind not in update_kinds.NEUTRAL
        ]
        turn_lines = [update.line for update in tail[turn_start:]]
        sent_in_turn = set(turn_lines)
        loose_lines = [
            update.line for update in loose_updates if not (update.is_in_transcript or update.line in sent_in_turn)
        ]
        return end_lines + loose_lines + turn_lines

    @property
    def has_turn(self) -> bool:
        """Whether it has a turn: a user message and something from the agent."""
        return _find_turn_start(self._updates) < len(self._updates)

    def goes_on_after(self, message: SentMessage, *, has_place: bool) -> bool:
        """Whether the tail goes on after a known message: it came after the agent's answer, and a turn made elsewhere
        before it. Such words are a warning that comes with every load.

        ``has_place``: something known came before the tail, and not a user message whose answer is still to come; else
        a user message without an answer may be context, and the rest of the replay is coming.
        """
        turn_start = _find_turn_start(self._updates, is_new_without_reply=has_place and self.has_new_without_reply)
        return (
            message.updates[0].is_after_an_answer
            and turn_start < len(self._updates)
            and not self._updates[turn_start].is_after_an_answer
        )


def _is_new(update: SentUpdate) -> bool:
    """Whether these are words or a call that the transcript has nowhere."""
    return update.role in (Role.AGENT, Role.CALL) and not update.is_in_transcript


def _find_turn_start(tail: list[SentUpdate], *, is_new_without_reply: bool = False) -> int:
    """The index of the first user message, if anything from the agent follows it or need not; else the length."""
    turn_start = next((index for index, update in enumerate(tail) if update.role is Role.USER), len(tail))
    is_answered = is_new_without_reply or any(update.kind not in update_kinds.NEUTRAL for update in tail[turn_start:])
    return turn_start if is_answered else len(tail)


def _count_shown(tail: list[SentUpdate]) -> int:
    """How many updates are shown and recorded whatever follows: all, if a user message goes on after the last turn."""
    return len(tail) if any(update.is_new_without_reply for update in tail) else _count_to_last_answer(tail)


def _count_to_last_answer(tail: list[SentUpdate]) -> int:
    """How many updates there are up to the last one that is not neutral."""
    return max((count for count, update in enumerate(tail, 1) if update.kind not in update_kinds.NEUTRAL), default=0)
