"""Where an agent's replay has come to in the transcript, as far as it is in a ``Comparison``, before and after the
agent's answer, and what of the transcript it has sent until there.

``UpdatesInTurn`` begins at this place and keeps its own.
"""

from bisect import bisect_left, bisect_right
from itertools import accumulate

from acp_proxy.comparison.letter_search import LetterSearch, SentSpans, Span
from acp_proxy.comparison.letters import DIGEST_MARK, SHORT_TEXT_LIMIT
from acp_proxy.comparison.sent_messages import SentMessage
from acp_proxy.comparison.transcript_text import TranscriptText

_HALF_SHORT = SHORT_TEXT_LIMIT // 2
"""Words at the end of the transcript, and a user message as the start of a longer one, count only from so many letters
on."""


class ReplayPlace:
    """The place of one replay, in words, calls and user messages, which agents leave out one by one.

    Something of the transcript that has come moves it: words, a call or a user message.
    """

    def __init__(self, text: TranscriptText) -> None:
        self.text = text
        self.position = 0
        """The position after the last known letter, in ``text.agent_letters``."""
        self.user_cursor = UserMessageCursor(text)
        self.call_cursor = CallCursor(text)
        self.spans = SentSpans()
        self.search = LetterSearch(text)
        self.is_before_reply = False
        """The last that came is a user message whose answer the transcript has. Unknown words are that answer, in
        other words: agents rewrite their history (gemini: ``[Thought: true]I will…``)."""

    def move_to_words(self, spans: list[Span]) -> None:
        """The agent has sent these words, in order."""
        for span in spans:
            self.spans.add(span)
        self.position = spans[-1][1]
        self.user_cursor.has_begun = True
        self.is_before_reply = False

    def move_to_call(self, index: int, *, with_new_end: bool) -> None:
        """The agent has sent this tool call. ``with_new_end``: with its end, which the transcript lacks: the words that
        follow it there may come otherwise."""
        self.call_cursor.move_to(index)
        self.position = max(self.position, self.text.find_turn_span(self.text.calls[index].turn_number)[0])
        self.user_cursor.has_begun = True
        self.is_before_reply = with_new_end and self.has_words_left(self.user_cursor.next_index)

    def move_to_user_message(self, index: int, letters: str) -> None:
        """The agent has sent this user message. ``letters``: as it sent it, with context that it adds."""
        stays = self._is_overtaken(index)
        self.position = self._find_turn_start(index)
        self.user_cursor.move_to(index, letters, next_index=self.user_cursor.next_index if stays else index + 1)
        self.is_before_reply = self.has_words_left(self.user_cursor.next_index) and not self.is_cut_at(self.position)

    def goes_back_to(self, index: int) -> bool:
        """Whether the agent begins its replay once more if it sends this user message now."""
        is_before = self._find_turn_start(index) < self.position or index < self.user_cursor.next_index
        is_expected = self._is_overtaken(index) or index in self.user_cursor.skipped_indexes
        return self.user_cursor.has_begun and is_before and not is_expected

    def restart(self) -> None:
        """The agent begins its replay once more."""
        self.user_cursor.has_restarted = True
        self.spans.restart()
        self.call_cursor.restart()
        self.search.restart()

    def repeat_user_message(self) -> None:
        """The agent sends the last user message once more, before anything else."""
        self.user_cursor.has_restarted = True
        self.search.restart()

    def pass_reply(self) -> None:
        """The answer to the last user message has come, in other words."""
        self.is_before_reply = False

    def _is_overtaken(self, index: int) -> bool:
        """Whether the replay has passed this user message only because others went into the turn for whose end it
        waited: then the place stays."""
        return index < self.user_cursor.next_index <= self.text.user_messages[index].overtaken_by + 1

    def _find_turn_start(self, index: int) -> int:
        """The position of this user message."""
        return (
            self.position
            if self._is_overtaken(index)
            else self.text.user_messages[index].find_turn_start(self.position)
        )

    @property
    def stops_inside_turn(self) -> bool:
        """Whether the replay has come to a user message of the transcript and not to the end of that turn."""
        text, turn = self.text, self.user_cursor.next_index
        return turn > 0 and (
            self.position < text.find_max_end(turn)
            or any(index not in self.call_cursor.known_indexes for index in text.find_possible_calls(turn))
        )

    @property
    def is_inside_turn(self) -> bool:
        """Whether the replay has come into a turn, and the transcript has more words of that turn than remarks: these
        may follow whatever the agent adds between."""
        start, end = self.text.find_turn_span(self.user_cursor.next_index)
        start = max(start, self.position)
        return self._has_begun_turn and start < end and not self.text.are_unprompted(start, end)

    def continues_turn(self, span: Span) -> bool:
        """Whether these words of the transcript are the next ones of the turn into which the replay has come."""
        return self._has_begun_turn and span[0] == self.position and self.is_inside_turn

    @property
    def _has_begun_turn(self) -> bool:
        """Whether the last that came is something of the turn to which the replay has come."""
        text, turn = self.text, self.user_cursor.next_index
        has_begun = self.position > text.find_turn_span(turn)[
            0
        ] or self.call_cursor.last_index in text.find_call_indexes(turn)
        return turn > 0 and has_begun and not self.is_before_reply

    @property
    def is_before_known_turn(self) -> bool:
        """Whether the last that was sent is a user message that the transcript has, with its answer and another
        answered turn after it: unknown words are that answer, rewritten (gemini: ``[Thought: true]I will…``). A prompt
        without an answer may still wait, perhaps in another window, and the agent does not replay it."""
        return self.is_before_reply and self.text.last_replied_turn > self.user_cursor.next_index

    @property
    def may_be_at_end(self) -> bool:
        """Whether no user message with an answer follows in the transcript for sure: the replay has come to the last of
        these, or nothing says where it is, since the agent leaves out whatever the transcript has."""
        text, user_messages = self.text, self.text.user_messages
        is_before_first = (
            not self.user_cursor.next_index
            and self.position <= text.find_turn_span(0)[1]
            and self.call_cursor.last_index < text.find_call_indexes(0).stop
        )
        if is_before_first or self.user_cursor.next_index == len(user_messages):
            return True
        is_last = (
            user_messages[-1].turn_start < self.position
            or user_messages[-1].first_call_index <= self.call_cursor.last_index
        )
        next_message = user_messages[self.user_cursor.next_index]
        start = next_message.find_turn_start(self.position)
        call_index = max(next_message.first_call_index, self.call_cursor.last_index + 1)
        return is_last or (start == len(text.agent_letters) and call_index == len(text.calls))

    def has_words_left(self, turn: int) -> bool:
        """Whether the transcript has words in this turn, to which the replay has come, that were not sent yet.

        Remarks do not count: the agent leaves them out, and something new may follow. Nor do warnings, from the last
        answered turn on.
        """
        start, end = self.text.find_turn_span(turn)
        start = max(start, self.position)
        is_last = turn >= self.text.last_replied_turn
        return start < end and not self.text.are_unprompted(start, end, or_repeated=is_last)

    def is_cut_at(self, position: int) -> bool:
        """Whether the last prompt has no answer, and the replay has come to the end of what was said after it: at this
        position, and not at an earlier message of the user, since some agents leave out all of them."""
        user_messages, end = self.text.user_messages, len(self.text.agent_letters)
        is_in_turn = (
            self.user_cursor.next_index in (0, self.text.last_begun_turn, len(user_messages))
            or user_messages[-1].turn_start < end
        )
        return self.text.is_last_prompt_open and position == end and is_in_turn

    def skip_reply(self, message: SentMessage) -> bool:
        """Move past the first message with which the transcript answers the last user message, if this message ends
        in that. Returns whether it does."""
        if not self.is_before_reply:
            return False
        start, end = self.text.find_turn_span(self.user_cursor.next_index)
        passed_count = bisect_right(self.text.message_positions, start)
        end = min([end, *self.text.message_positions[passed_count : passed_count + 1]])
        if start == end or message.letters.partition(answer := self.text.agent_letters[start:end])[1:] != (answer, ""):
            return False
        self.position = max(self.position, end)
        return True

    def ensure_span(self, message: SentMessage) -> Span | None:
        """Set the ``span`` of an unfinished agent message unless it has one, and return it; None if its letters are not
        known."""
        if message.span is None:
            message.span = self.find_words(message.letters)
        return message.span

    def find_words(self, letters: str) -> Span | None:
        """The first place of these letters from here on, as ``LetterSearch.find_words`` has it."""
        return self.search.find_words(letters, self.position)

    def find_chunk_spans(self, message: SentMessage) -> list[Span] | None:
        """The places of the chunks of a message, if there are several and the transcript has all of them in this
        order."""
        if len(message.updates) < 2:
            return None
        spans: list[Span] = []
        position = self.position
        for letters in filter(None, message.chunks):
            span = self.search.find_words(letters, position)
            if span is None:
                return None
            spans.append(span)
            position = span[1]
        return spans or None

    def find_joined_messages(self, message: SentMessage) -> list[Span] | None:
        """The places of the transcript's next messages, if this message is all of them, joined, and the transcript has
        remarks between them: each window records what it heard, and an agent may remember only some of that."""
        return self.text.find_joined_messages(
            message.letters, self.position, self.text.find_max_end(self.user_cursor.next_index)
        )

    def find_passed_unprompted(self, letters: str) -> Span | None:
        """The place of a remark that the replay has passed without it, if it has these letters: windows record remarks
        in another order than that in which the agent made them."""
        start = self.text.find_message(letters, self.text.find_turn_span(self.user_cursor.next_index)[0], self.position)
        if start is None or start not in self.text.unprompted_positions:
            return None
        span = start, start + len(letters)
        return span if not self.spans.contains(span) else None

    def find_last_words(self, message: SentMessage) -> Span | None:
        """The span of the transcript's last words, if a message ends in these chunks and begins in others.

        A replay without the user's words and without ids is one message. Then unknown words before known ones are the
        agent's rewriting of its history, or a turn made elsewhere. Only before the agent's answer: later, a new
        message may end like the transcript.
        """
        words, letters = self.text.agent_letters, ""
        span = None
        if self.is_before_reply or any(update.is_after_an_answer for update in message.updates):
            return None
        for chunk in reversed(message.chunks[1:]):
            letters = chunk + letters
            if len(words) - len(letters) < self.position or not words.endswith(letters):
                break
            if len(letters) >= _HALF_SHORT:
                span = len(words) - len(letters), len(words)
        return span

    def find_continued(self, letters: str) -> Span | None:
        """The span of the transcript's last words, if these words begin with them and go on: its last message, or in a
        turn that was cut all that follows the last known place."""
        words = self.text.agent_letters
        last_message = max(self.text.message_positions[-1] if self.text.message_positions else 0, self.position)
        for start in (last_message, self.position) if self.text.is_interrupted else (last_message,):
            if 0 < len(words) - start < len(letters) and letters.startswith(words[start:]):
                return start, len(words)
        return None


class UserMessageCursor:
    """Where one agent's replay has come to in the user messages of the transcript, and which of them it has sent.

    Agents add context to them, split one, or send several with nothing between them. So a message is found by its
    letters where the replay has come to, or as the one with which the agent begins its replay once more.
    """

    def __init__(self, text: TranscriptText) -> None:
        self._text = text
        self.next_index = 0
        """The index of the next user message, in ``text.user_messages``."""
        self.known_indexes: set[int] = set()
        """The indexes of those that were sent."""
        self.has_begun = False
        """Something known has come, a user message or anything else: the first message begins another replay now."""
        self.has_restarted = False
        """The agent began its replay once more: what it sends now, the client may have seen."""
        self.first_index: int | None = None
        """The index of the user message with which the replay began, if the agent lacks those before it."""
        self.skipped_indexes = range(0)
        """The indexes of messages that stand before those that were sent last, and may come after them: what is made
        elsewhere is recorded when a load shows it, perhaps after the prompts of another window."""
        self.first_letters = ""
        """The letters of that message as the agent sent it, with context that it adds."""

    def find_index(self, message: SentMessage) -> int | None:
        """The index of a message that is complete, which may have context before it, or more messages after it."""
        letters, user_messages = message.letters, self._text.user_messages
        whole_index = self.find_whole(letters)
        if whole_index is not None:
            return whole_index
        # With context that the agent added, or with the next message after it. Only the next two: the further
        # on, the likelier it is that the words are there by chance.
        for index in range(self.next_index, min(self.next_index + 2, len(user_messages))):
            for form in user_messages[index].variants:
                if len(form) >= SHORT_TEXT_LIMIT and form in letters:
                    return index
                following = letters.removeprefix(form)
                if following != letters and (len(form) >= _HALF_SHORT or self._follow_at_once(index, following)):
                    return index
        # Several messages with nothing between them, each in its own chunk.
        while message.searched_chunk_count < len(message.chunks):
            user_index = self.find_whole(message.chunks[message.searched_chunk_count])
            if user_index is not None:
                return user_index
            message.searched_chunk_count += 1
        return None

    def find_whole(self, letters: str) -> int | None:
        """The index of the next user message that has these letters. One that the replay has passed may come next if it
        waited for the end of the turn, and others went into that, or if it is in ``skipped_indexes``."""
        later_index = self._text.find_user_message(letters, self.next_index)
        passed = self._text.find_overtaken(letters, self.next_index)
        skipped = self._text.find_user_message(letters, self.skipped_indexes.start) if later_index is None else None
        if skipped is not None and skipped in self.skipped_indexes:
            passed.append(skipped)
        return next((index for index in passed if self.has_restarted or index not in self.known_indexes), later_index)

    def move_to(self, index: int, letters: str, *, next_index: int) -> None:
        """The agent has sent this message. ``letters``: as it sent it. What stands before it may come after it, if it
        was made elsewhere."""
        if not self.has_begun:
            self.first_index, self.first_letters, self.has_begun = index, letters, True
        first = self.skipped_indexes.start if self.skipped_indexes else self.next_index
        self.skipped_indexes = range(first if self._text.user_messages[index].bypassed_proxy else index, index)
        self.known_indexes.add(index)
        self.next_index = next_index

    def find_restart(self, letters: str, *, is_whole: bool = True) -> int | None:
        """The index of the message that begins another replay: the first one of the transcript, or the first one that
        the agent sent. ``is_whole``: the message is complete."""
        for index in (0, self.first_index) if self._text.user_messages and self.has_begun else ():
            forms = self._text.user_messages[index].variants if index is not None else ()
            if index is not None and index == self.first_index:
                forms = (*forms, self.first_letters)
            if any(form == letters if is_whole else form.startswith(letters) for form in forms):
                return index
        return None

    def is_whole(self, letters: str, following: str) -> bool:
        """Whether these are the letters of a user message from the next one on, or of one that begins another replay,
        and those that follow begin another message. A short one further on may be there by chance."""
        user_messages = self._text.user_messages
        index = self.find_whole(letters)
        index = self.find_restart(letters) if index is None else index
        if index is None:
            return False
        if any(form.startswith(letters + following) for user in user_messages for form in user.variants):
            return False
        return (
            index == self.next_index
            or len(letters) >= _HALF_SHORT
            or any(form.startswith(following) for user in user_messages[index:] for form in user.variants)
            or bool(self._text.find_overtaken(following, index + 1))
        )

    def find_end(self, message: SentMessage, index: int) -> int:
        """Where the user message with this index ends in one that begins with it, or has it as a chunk after context;
        else the end of that."""
        forms = self._text.user_messages[index].variants
        if form := next((form for form in forms if message.letters.startswith(form)), ""):
            return len(form)
        ends = zip(message.chunks, accumulate(map(len, message.chunks)), strict=True)
        return next((end for letters, end in ends if letters in forms), len(message.letters))

    def measure_next(self, message: SentMessage, position: int) -> int:
        """How many letters the transcript's next user message has, if it follows there at once, in chunks of its own
        or with all that follow it at once; else 0. Short messages count here: the transcript has nothing between the
        two either."""
        if not self.next_index < len(self._text.user_messages) or self._text.has_reply(self.next_index):
            return 0
        ends = {*accumulate(map(len, message.chunks))}
        forms = self._text.user_messages[self.next_index].variants
        for form in filter(lambda form: message.letters.startswith(form, position), forms):
            end = position + len(form)
            if end in ends or self._follow_at_once(self.next_index, message.letters[end:]):
                return len(form)
        return 0

    def _follow_at_once(self, index: int, letters: str) -> bool:
        """Whether these are the letters of the user messages after the one with this index, with nothing between."""
        user_messages, ends = self._text.user_messages, {0}
        while ends and index + 1 < len(user_messages) and not self._text.has_reply(index + 1):
            index += 1
            forms = user_messages[index].variants
            ends = {end + len(form) for end in ends for form in forms if letters.startswith(form, end)}
            if len(letters) in ends:
                return True
        return False


class CallCursor:
    """Where one agent's replay has come to in the transcript's calls, and which of them it has sent. Each is known by
    its id, or else as the next call with the same title, since many agents give new ids when they replay."""

    def __init__(self, text: TranscriptText) -> None:
        self._text = text
        self.known_indexes: set[int] = set()
        """The indexes in ``text.calls`` of those that were sent."""
        self.last_index = -1
        """The index of the last one of the current replay; -1 if none was sent."""
        self._by_id: dict[str, int | None] = {}
        """By ``toolCallId`` in the replay: the index in ``text.calls``; None: the transcript lacks the call."""
        self._has_unique_ids = all(
            len(indexes) == 1 for id, indexes in text.calls_by_id.items() if not id.startswith(DIGEST_MARK)
        )
        """Whether no two calls of the transcript have one id: else the agent numbers them anew in each turn."""
        self._keeps_ids = False
        """The agent has sent a call with the id that the transcript has, which is no chance if ids are unique, or if it
        has begun to number its calls anew since."""

    def match_call(
        self, id: str, title: str | None, turn: int, *, position: int, may_begin: bool, is_new_turn: bool
    ) -> int | None:
        """The index of a call; None if the transcript lacks it. ``turn``, ``position``: the number of the turn and the
        position to which the replay has come. ``may_begin``: an update of this kind may begin a call. ``is_new_turn``:
        this one begins a call after a user message that the transcript lacks: an id that was sent is another call's
        there, and a title that the replay has passed proves nothing, since agents use few titles."""
        index = self._by_id.get(id)
        call = self._text.calls[index] if index is not None else None
        # Some agents number their calls anew in each turn.
        begins_anew = call is not None and (is_new_turn or (may_begin and call.turn_number < turn))
        if begins_anew and call is not None and call.id == id:
            self._keeps_ids = True
        if is_new_turn and (index is not None or (self._keeps_ids and id not in self._text.calls_by_id)):
            self._by_id[id] = None
            return None
        if id not in self._by_id or begins_anew:
            self._by_id[id] = index = self._match(id, title, position if is_new_turn else 0)
        return index

    def move_to(self, index: int) -> None:
        """The agent has sent this call."""
        self.known_indexes.add(index)
        self.last_index = max(self.last_index, index)

    def restart(self) -> None:
        """The agent begins its replay once more."""
        self.last_index = -1

    def _match(self, id: str, title: str | None, first_position: int) -> int | None:
        if (indexes := self._text.calls_by_id.get(id)) is not None:
            self._keeps_ids = self._has_unique_ids
            passed_count = bisect_left(indexes, self.last_index + 1)
            return indexes[passed_count] if passed_count < len(indexes) else indexes[-1]
        if title is None:
            return None
        indexes = self._text.calls_by_title.get(title, [])
        passed_count = bisect_left(indexes, self.last_index + 1)
        calls = self._text.calls
        passed_count = bisect_left(indexes, first_position, lo=passed_count, key=lambda index: calls[index].position)
        return indexes[passed_count] if passed_count < len(indexes) else None
