"""Sorts what an agent sends in a turn after a load, or during one: a replay that still runs or begins, and what is new.
``late_updates`` sorts what comes after the agent's answer and before that turn.

Agents answer a load before their replay is complete, and a client that prompts at once meets the rest in its first
turn. It must not be shown after the transcript, nor recorded a second time. But an answer to a prompt may have the
same words as the history, and swallowing it is worse than showing something twice. So what the agent sends in the turn
goes to the client at once, and is recorded. Only a user message that nobody typed can prove that it is history,
together with what follows it in order.
"""

from msgspec import Struct

from acp_proxy.comparison.comparison import Comparison
from acp_proxy.comparison.late_updates import UNDECIDED_LIMIT
from acp_proxy.comparison.letters import digest, make_substitute_call, read_block_letters
from acp_proxy.comparison.transcript_text import NOT_FINAL_STATUSES
from acp_proxy.protocol import acp, update_kinds
from acp_proxy.protocol.update_kinds import ComparedBy, Role


class SortedLine(Struct, frozen=True):
    """A line of a turn, and what to do with it now: send it to the client, record it, both or neither."""

    line: bytes
    should_send: bool
    should_record: bool


class UpdatesInTurn:
    """The updates of one session in that turn. The comparison is over, so each line comes out with whether
    to record it."""

    def __init__(self, comparison: Comparison, *, hides_replay: bool, replay_may_come: bool = False) -> None:
        """``comparison``: with what the agent sent before the prompt. ``hides_replay``: the client must not get
        that, since it has seen the transcript, or wants nothing of the past.
        ``replay_may_come``: as for ``add``."""
        self._text, self._context = comparison.text, comparison.context
        self._hides_replay = hides_replay
        self._position, self._next_user_index = comparison.place.position, comparison.place.user_cursor.next_index
        """Where the replay has come to, as ``position`` and ``user_cursor.next_index`` of the comparison's place."""
        self._thought_position = 0
        """Where the replay has come to in the thought with which the transcript ends."""
        self._next_call_index = 0
        """Where a proved replay has come to in the transcript's calls."""
        self._may_continue = comparison.place.stops_inside_turn or replay_may_come
        """Whether what the agent sends next may go on in order."""
        self._is_replay_proven = self._is_message_proof = False
        """Whether a user message has proved that what comes is a replay, and whether the one that is coming does."""
        self._undecided: list[tuple[bytes, bool]] = []
        """Lines that may belong to the replay and are not recorded, each with whether it was sent."""
        self._size = 0
        """The bytes of the undecided lines."""
        self._message_key: tuple[str, str | None] | None = None
        """The kind and the id of the message that is coming."""
        self._letters = ""
        """The letters of the message that is coming, if it may belong to the replay."""
        self._may_become_echo = False
        """Whether the user message that is coming may belong to the replay ("go") or begin an echo ("go on"). Then its
        lines alone are undecided."""
        self._replay_may_come = False
        """As for ``add``: the replay comes now."""
        self._was_awaited = False
        """Whether that was so when the last user message came."""
        self._begun_count = sum(not user.is_waiting for user in self._text.user_messages)
        """How many turns have begun; the last of them may be running."""
        self._follows_call = False
        """Whether the last that came before this message is a tool call, while a replay may go on."""
        self._renamed_call_ids: set[str] = set()
        """The ids that replays have given to calls of the transcript."""
        self._ended_calls: set[int] = set()
        """The indexes of the calls of which the replay has sent the end."""

    @property
    def replay_may_still_run(self) -> bool:
        """Whether a replay may still run, so that other updates than user messages may belong to it, or end a message
        that may."""
        return self._may_continue or bool(self._undecided) or bool(self._letters)

    def add(
        self, line: bytes, update: object, unechoed_letters: list[str], *, replay_may_come: bool = False
    ) -> list[SortedLine]:
        """Take an update of a turn: its line, and its parsed ``params.update``.

        ``unechoed_letters``: the letters of the open prompts without an echo; an echoed one is removed.
        ``replay_may_come``: as for ``Load``. A line that was not sent or not recorded comes back later, from this or
        from ``release``, unless it belongs to a replay.
        """
        self._replay_may_come = replay_may_come
        kind = acp.update_kind(update) or ""
        message_key = (kind, acp.text(update, "messageId"))
        sorted_lines = self._end_message() if message_key != self._message_key else []
        self._message_key = message_key
        letters, shown_call = read_block_letters(acp.member(update, "content")), make_substitute_call(update)
        row = update_kinds.find(kind)
        compared_by = row.compared_by
        if row.role is Role.USER:
            return sorted_lines + self._add_user_message(line, letters, unechoed_letters)
        if not self._may_continue:
            return sorted_lines + self._pass_as_new(line)
        self._follows_call = compared_by is ComparedBy.CALL or (
            self._follows_call and compared_by is ComparedBy.WHAT_FOLLOWS
        )
        if compared_by is ComparedBy.WORDS and shown_call is None:
            return sorted_lines + self._add_words(line, letters)
        if compared_by is ComparedBy.CALL or shown_call is not None:
            return sorted_lines + self._add_call(line, shown_call or update)
        if compared_by is ComparedBy.NEUTRAL_WORDS and self._is_last_thought(letters):
            self._thought_position += len(letters)
            return sorted_lines + self._leave_undecided(line) + self._resolve_undecided(is_new=False)
        is_known = compared_by is ComparedBy.WHAT_FOLLOWS or (
            letters in self._text.thought_letters
            if compared_by is ComparedBy.NEUTRAL_WORDS
            else digest(update) in self._text.whole_update_digests
        )
        if is_known and self._replay_may_come and self._is_replay_proven and compared_by is ComparedBy.NEUTRAL_WORDS:
            return sorted_lines + self._leave_undecided(line) + self._resolve_undecided(is_new=False)
        return sorted_lines + (self._leave_undecided(line) if is_known else self._pass_as_new(line))

    def release(self) -> list[SortedLine]:
        """The lines that wait, since the turn is over, or something comes that must not overtake them."""
        sorted_lines = self._end_message()
        self._message_key = None
        return sorted_lines + self._resolve_undecided(is_new=True)

    def _add_user_message(self, line: bytes, letters: str, prompts: list[str]) -> list[SortedLine]:
        """Take a chunk of a user message: context, an echo of a prompt, a proof of the replay, or what may become one
        of the latter two with its next chunk. Anything else is new."""
        may_become_echo = any(prompt.startswith(self._letters + letters) for prompt in prompts)
        if not may_become_echo and self._context.looks_like_context(letters, follows_call=self._follows_call):
            return [SortedLine(line, not (self._hides_replay and self._is_replay_proven), should_record=False)]
        self._letters += letters
        self._was_awaited = self._replay_may_come
        proof_index = self._find_proof(self._letters)
        proof_index = proof_index if proof_index is not None else self._find_proof(letters)  # within context
        may_become_proof = self._may_become_proof()
        echoed = self._find_echoed(prompts, proof_index)
        if echoed is not None or (may_become_echo and proof_index is None and not may_become_proof):
            if echoed is not None:
                prompts.remove(echoed)
            return self._end_replay_at_echo(line)
        # What came before this message is the past, whether this is an echo or a proof.
        is_decided = (may_become_echo or proof_index is not None) and not self._may_become_echo
        sorted_lines = self._resolve_undecided(is_new=False) if is_decided else []
        self._may_become_echo, self._is_message_proof = may_become_echo, proof_index is not None
        if proof_index is not None:
            self._move_to_user_message(proof_index)
        elif not (may_become_proof or self._is_replay_proven):
            return sorted_lines + self._break_off(line)
        # In a proved replay, anything else is context of the agent's own, if the replay goes on after it.
        return sorted_lines + self._leave_undecided(line)

    def _find_echoed(self, prompts: list[str], proof_index: int | None) -> str | None:
        """The prompt that the user message echoes: in its letters, or in a form of the one with ``proof_index``."""
        # Once the prompt of the running turn is echoed, no other is before its end: this belongs to the replay.
        is_running_echoed = self._begun_count > 0 and self._text.user_messages[self._begun_count - 1].is_echoed
        if self._replay_may_come and is_running_echoed and proof_index is not None and proof_index < self._begun_count:
            return None
        forms = [self._letters, *(self._text.user_messages[proof_index].variants if proof_index is not None else [])]
        return next((prompt for prompt in prompts if prompt in forms), None)

    def _end_replay_at_echo(self, line: bytes) -> list[SortedLine]:
        """Agents repeat a prompt before they answer it: whatever they replayed before, the answer follows."""
        is_begun_echo = self._may_become_echo  # then only earlier chunks of it are undecided
        self._may_continue = self._is_replay_proven = self._is_message_proof = self._may_become_echo = False
        return [*self._resolve_undecided(is_new=is_begun_echo), SortedLine(line, True, True)]

    def _may_become_proof(self) -> bool:
        """Whether the user message that is coming may become a proof with its next chunk."""
        user_messages = self._text.user_messages
        candidates = (
            user_messages
            if self._replay_may_come
            else [*user_messages[self._next_user_index : self._next_user_index + 1], *user_messages[:1]]
        )
        return any(form.startswith(self._letters) for user in candidates for form in user.variants)

    def _move_to_user_message(self, index: int) -> None:
        """The agent replays, and has come to this user message."""
        self._may_continue = self._is_replay_proven = True
        user = self._text.user_messages[index]
        self._position, self._next_user_index = user.find_turn_start(self._position), index + 1
        self._thought_position, self._next_call_index = 0, user.find_turn_call(self._next_call_index)
        self._ended_calls.clear()
        self._renamed_call_ids.clear()  # of calls of an earlier turn: the running one may have the same ids

    def _find_proof(self, letters: str) -> int | None:
        """The index of the transcript's user message that these letters are, if they prove a replay.

        Nobody typed these words in this turn, and they go on where the replay stopped before the prompt, or begin the
        transcript. Any other user message may be one that the agent sends to itself, unless it was asked for a replay:
        that may begin anywhere, since agents leave out commands, what another window said, or old turns.
        """
        next_index = self._next_user_index
        if next_index and (index := self._text.find_user_message(letters, next_index)) is not None:
            return index
        if self._replay_may_come:
            return self._text.find_user_message(letters, 0)
        return 0 if self._text.user_messages and letters in self._text.user_messages[0].variants else None

    def _add_words(self, line: bytes, letters: str) -> list[SortedLine]:
        sorted_lines: list[SortedLine] = []
        if not self._try_continue(letters):
            is_whole = bool(self._letters) and self._may_end(self._position + len(self._letters))
            sorted_lines = self._end_message() if is_whole else []
            if not (is_whole and self._try_continue(letters)):
                return sorted_lines + self._break_off(line)
        self._letters += letters
        return sorted_lines + self._leave_undecided(line)

    def _try_continue(self, letters: str) -> bool:
        """Whether the message that is coming goes on with these letters in the transcript, within its turn. In a replay
        that the agent was asked for, tries to move to a later message of the turn, or a later remark: the transcript
        also has what the agent says outside turns, such as greetings, and prompts that the agent does not replay."""
        end_of_turn = self._text.find_max_end(self._next_user_index)
        if self._text.agent_letters.startswith(letters, self._position + len(self._letters), end_of_turn):
            return True
        if not self._replay_may_come:
            return False
        message = self._letters + letters
        start = self._text.find_message_start(message, self._position, end_of_turn)
        if (
            start is None
            and (spans := self._text.find_joined_messages(message, self._position, end_of_turn)) is not None
        ):
            start = spans[-1][1] - len(message)  # so that it ends there
        if start is None:  # after a message that a rewind took back, or which waits
            start = self._text.find_unprompted(message, end_of_turn)
        self._position = start if start is not None else self._position
        return start is not None

    def _may_end(self, position: int) -> bool:
        """Whether a message of the replay may end before this position. In a replay that the agent was asked for, the
        rest may be something that it said outside turns, which stands there in the same message."""
        return self._text.ends_message(position) or (self._is_replay_proven and self._was_awaited)

    @property
    def _has_rest_of_turn(self) -> bool:
        """Whether the transcript has words or calls of this turn after the place to which the replay has come."""
        text, turn = self._text, self._next_user_index
        return self._position < text.find_max_end(turn) or self._next_call_index < text.find_possible_calls(turn).stop

    def _is_last_thought(self, letters: str) -> bool:
        """Whether a proved replay goes on with the thought with which the transcript ends. No known words follow it,
        which would say that it is the past."""
        is_at_end = self._next_user_index >= self._begun_count and self._position == len(self._text.agent_letters)
        goes_on = bool(letters) and self._text.last_thought_letters.startswith(letters, self._thought_position)
        return self._is_replay_proven and is_at_end and goes_on

    def _add_call(self, line: bytes, fields: object) -> list[SortedLine]:
        id, title = acp.text(fields, "toolCallId") or "", acp.text(fields, "title")
        calls = self._text.find_possible_calls(self._next_user_index)
        call_index = next((index for index in self._text.calls_by_id.get(id, ()) if index in calls), None)
        if call_index is not None and acp.update_kind(fields) == update_kinds.TOOL_CALL:
            call_index = None if self._is_other_call(call_index, fields) else call_index
        is_past = self._replay_may_come or self._next_user_index < self._begun_count
        if call_index is None and is_past and self._is_replay_proven and self._next_call_index in calls:
            # Some agents give calls new ids in each replay. Titles prove less: the running turn may call a tool again.
            call_index = self._next_call_index if self._text.calls[self._next_call_index].title == title else None
            self._renamed_call_ids |= {id} if call_index is not None else set()
        if call_index is None and id not in self._renamed_call_ids:
            return self._break_off(line)
        if call_index is not None and acp.text(fields, "status") not in NOT_FINAL_STATUSES:
            self._ended_calls.add(call_index)
        self._next_call_index = max(self._next_call_index, call_index + 1 if call_index is not None else 0)
        sorted_lines = self._leave_undecided(line)
        return sorted_lines + (self._resolve_undecided(is_new=False) if self._is_replay_proven else [])

    def _is_other_call(self, call_index: int, fields: object) -> bool:
        """Whether a ``tool_call`` with the id of this call is another one of the running turn: some agents number
        theirs anew in each turn. The replay has sent this one to its end, or the title says so; and it has sent all
        that the transcript has, or words after it, or nothing else would begin an ended call anew."""
        call, has_ended = self._text.calls[call_index], call_index in self._ended_calls
        may_be_other = has_ended or acp.text(fields, "title") != call.title
        is_at_end = self._next_user_index >= self._begun_count and not self._has_rest_of_turn
        begins_anew = has_ended and acp.text(fields, "status") in NOT_FINAL_STATUSES
        is_passed = is_at_end or self._position > call.position or begins_anew
        return call_index < self._next_call_index and may_be_other and is_passed

    @property
    def _is_in_user_message(self) -> bool:
        """Whether a user message is coming."""
        return self._message_key is not None and update_kinds.find(self._message_key[0]).role is Role.USER

    def _end_message(self) -> list[SortedLine]:
        letters, self._letters, self._may_become_echo = self._letters, "", False
        if self._message_key is None or not letters:
            return []
        if self._is_in_user_message:
            if self._is_message_proof and self._has_rest_of_turn and not self._was_awaited:
                return []  # the agent's words decide about it too
            if self._is_replay_proven and not self._is_message_proof:
                return []  # nor is it known whether this is context
            return self._resolve_undecided(is_new=False) if self._is_message_proof else self._break_off()
        self._position += len(letters)
        if not self._is_replay_proven:
            return []  # equal words prove nothing: agents say the same twice, and leave turns out of their replays
        if not self._may_end(self._position):  # a part of the transcript's message: the agent says less now
            self._may_continue = self._is_replay_proven = False
        return self._resolve_undecided(is_new=not self._is_replay_proven)

    def _leave_undecided(self, line: bytes) -> list[SortedLine]:
        """Do not record a line until it is known whether it is new.

        It is sent now, unless the agent's replay is hidden and the line is a user message, which is not the agent's
        answer, or belongs to a replay that a user message has proved.
        """
        is_sent = not (self._hides_replay and (self._is_replay_proven or self._is_in_user_message))
        self._undecided.append((line, is_sent))
        self._size += len(line)
        sorted_lines = [SortedLine(line, True, False)] if is_sent else []
        return sorted_lines + (self._break_off() if self._size > UNDECIDED_LIMIT else [])

    def _break_off(self, *line: bytes) -> list[SortedLine]:
        """Something comes that does not go on in order: it is new, and so is what waited for it."""
        self._may_continue = self._is_replay_proven = self._is_message_proof = False
        return self._pass_as_new(*line)

    def _pass_as_new(self, *lines: bytes) -> list[SortedLine]:
        return [*self._resolve_undecided(is_new=True), *(SortedLine(line, True, True) for line in lines)]

    def _resolve_undecided(self, *, is_new: bool) -> list[SortedLine]:
        """The undecided lines are new, and come out; or they belong to a replay, and are left out."""
        undecided, self._undecided, self._size = self._undecided, [], 0
        return [SortedLine(line, not is_sent, True) for line, is_sent in undecided] if is_new else []
