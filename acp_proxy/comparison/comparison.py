"""Compares what an agent sends about a session with its transcript, update by update, and finds what is known, new or
missing. ``relay/compare_with_transcript.py`` reads both and feeds them in; ``choose_past`` decides what follows.

The input is every conversation update that the agent sends between a request to open the session and the next prompt,
in order, before and after its answer. The agent's words are known if the transcript contains their letters after the
last known place; a tool call is known by its id, or else as the next call with the same title; an update of any other
kind is known if the transcript has an equal one. User messages, thoughts, plans and terminals are neutral, but a user
message in the transcript marks the agent's position there. What follows the last known message is the tail; only the
tail can be new.

Never raises on what an agent sends. Texts are compared without white space. docs/transparency.md has the rules.
"""

from collections.abc import Callable
from contextlib import suppress
from copy import copy
from itertools import accumulate, takewhile
from typing import NamedTuple

from acp_proxy.comparison.context_messages import ContextMessages
from acp_proxy.comparison.letter_search import Span
from acp_proxy.comparison.letters import SHORT_TEXT_LIMIT, digest, make_substitute_call, read_block_letters
from acp_proxy.comparison.replay_place import ReplayPlace
from acp_proxy.comparison.sent_messages import SentMessage, SentUpdate
from acp_proxy.comparison.tail import Tail
from acp_proxy.comparison.text_builder import has_output
from acp_proxy.comparison.transcript_text import NOT_FINAL_STATUSES, RecordedCall, TranscriptText
from acp_proxy.protocol import acp, json_splice, jsonrpc, update_kinds
from acp_proxy.protocol.update_kinds import ComparedBy, Role


class SentLine(NamedTuple):
    """The line of an update that the agent sent about a session that is loaded. ``is_after_an_answer``: it came after
    the agent's answer to this or another load of the session."""

    line: bytes
    is_after_an_answer: bool


class Comparison:
    """One comparison: feed it with ``add``, then call ``end_message``, since what was found, and the tail, leave out a
    message that is still coming."""

    def __init__(self, text: TranscriptText, mask: Callable[[bytes], bytes] | None = None) -> None:
        """``mask``: masks secrets in JSON, as they are masked in the transcript; None: none are."""
        self.text = text
        self._mask = mask
        self.place = ReplayPlace(text)
        self.message_ids: dict[tuple[str, bytes], str] = {}
        """By ``UserMessage.request_key``: the ids of the user's messages in the agent's replay."""
        self.known_compaction_turns: set[int] = set()
        """The turns in ``text`` whose compactions the agent sent."""
        self.user_message_count_before_tail = 0
        """How many user messages the agent sent before the tail, known or not."""
        self.has_thoughts = False
        """The agent sent thoughts, known or not."""
        self.has_new_before_tail = False
        """The transcript lacks words or calls from before the tail: the agent knows more, or tells it otherwise."""
        self.has_new_whole_update = False
        """The transcript lacks an update that is compared as a whole: one of an unknown kind, or such as a
        compaction."""
        self.continues_last_words = False
        """The transcript lacks the end of its last words."""
        self._calls_with_output: set[int] = set()
        """The indexes in ``text.calls`` of those of which the agent sent something that the call gave, or may have."""
        self.has_repetition = False
        """The agent sent something twice."""
        self.context = ContextMessages(text)
        self.tail = Tail(is_rest_of_turn=self.place.is_cut_at(0))
        self._before_restart: tuple[Tail, list[SentUpdate]] | None = None
        """The tail before the first user message came once more, and that message, if the transcript has nothing else
        and nothing of the agent has come since."""
        self._has_unknown_user_message = False
        """The last user message of the tail is nowhere in the transcript."""
        self._is_in_thoughts = False
        """Thoughts came after the last known user message."""
        self.current_message: SentMessage | None = None
        """The message that is coming in chunks, if any."""
        self.last_update = SentUpdate(b"", "", is_after_an_answer=False)
        """What came last."""
        self._follows_call = False
        """The last that came is a tool call."""

    # --- feeding

    def add(self, line: bytes, update: object, *, is_after_an_answer: bool) -> int | None:
        """Take one conversation update: its line, and its parsed ``params.update``.

        ``is_after_an_answer``: it came after the agent's answer to this or another load of the session. Returns the
        index in ``text.calls`` if it is about a known call.
        """
        update = self._mask_as_recorded(update)
        kind = acp.update_kind(update) or ""
        self.last_update = sent_update = SentUpdate(line, kind, is_after_an_answer, original_line=line)
        compared_by = update_kinds.find(kind).compared_by
        shown_call = make_substitute_call(update) if compared_by is ComparedBy.WORDS else None
        if compared_by in (ComparedBy.WORDS, ComparedBy.NEUTRAL_WORDS) and shown_call is None:
            self._add_chunk(sent_update, update)
            self._follows_call = False
            return None
        self.end_message()
        self._follows_call = compared_by is ComparedBy.CALL or (
            self._follows_call and compared_by is ComparedBy.WHAT_FOLLOWS
        )
        if shown_call is not None:
            return self._compare_call(sent_update, shown_call)
        if compared_by is ComparedBy.CALL:
            return self._compare_call(sent_update, update)
        if compared_by is ComparedBy.WHAT_FOLLOWS:
            self.tail.add(sent_update)
        elif (update_digest := digest(update)) in self.text.whole_update_digests:
            sent_update.is_in_transcript = True
            self.known_compaction_turns |= (
                {self.text.compaction_turns[update_digest]} if update_digest in self.text.compaction_turns else set()
            )
        else:
            self.has_new_whole_update = True
            self.tail.add(sent_update)
        return None

    def end_message(self) -> None:
        """End the message that is coming in chunks."""
        message, self.current_message = self.current_message, None
        if message is None or not message.size:
            return
        if message.role is Role.USER:
            self._compare_user_message(message)
        elif message.role is Role.THOUGHT:
            self.has_thoughts = self._is_in_thoughts = True
            is_known = message.is_known_without_reply = self.place.search.move_past_thought(message.letters)
            if self.tail.user_message_count or not is_known:
                is_first = self._is_thought_surely_new
                for update in message.updates:
                    update.is_new_without_reply = is_first
                self.tail.add(*self._take_new_thought(message))
        else:
            self._compare_words(message)

    def _mask_as_recorded(self, update: object) -> object:
        """The update with its secrets masked, if that is what the transcript has: the agent repeats the secrets.

        A secret that was spread over chunks when it was recorded is not masked there, though it may be whole here.
        """
        if self._mask is None or (masked := self._mask(data := jsonrpc.dump(update))) == data:
            return update
        recorded = jsonrpc.parse(masked)
        return recorded if self.text.has_update(recorded) else update

    # --- what was found

    @property
    def is_too_costly(self) -> bool:
        """Whether nothing can be decided: the transcript is too long, or the search was given up."""
        return self.text.is_too_long or self.place.search.is_exhausted

    @property
    def has_more(self) -> bool:
        """Whether the agent sent something that the transcript lacks, apart from the tail."""
        return self.has_new_before_tail or self.has_new_whole_update or self.continues_last_words

    @property
    def may_restart(self) -> bool:
        """Whether the user message that is coming may begin another replay: the transcript does not have it next."""
        message = self.current_message
        return (
            message is not None
            and message.role is Role.USER
            and self.place.user_cursor.find_whole(message.letters) is None
            and self.place.user_cursor.find_restart(message.letters, is_whole=False) is not None
        )

    @property
    def _has_reached_end(self) -> bool:
        """Whether the replay has come to the end of the transcript."""
        position, end = (
            self.place.position,
            len(self.text.agent_letters),
        )  # agents leave out what they say outside turns
        return self.place.user_cursor.next_index == len(self.text.user_messages) and (
            position == end or self.text.are_unprompted(position, end)
        )

    @property
    def may_tail_be_context(self) -> bool:
        """Whether the tail has a user message, though the replay has not come to the end of the transcript: if that
        goes on, the message is context."""
        return self.tail.user_message_count > 0 and not self._has_reached_end

    def has_sent_whole_past(self, *, turn_may_run_elsewhere: bool | None) -> bool:
        """Whether the replay has come to the end of the transcript, whose last turn is complete, and of no turn made
        elsewhere: what the agent says now is neither the end of that turn nor an answer to a user message.

        ``turn_may_run_elsewhere``: as for ``find_unrecorded``. Then the end of that turn goes there."""
        text, message = self.text, self.current_message
        is_user = message is not None and message.role is Role.USER
        is_interrupted = text.is_last_prompt_open and not turn_may_run_elsewhere
        return self._has_reached_end and not (
            is_interrupted or self.place.is_before_reply or self.tail.user_message_count or is_user
        )

    def find_new_part(self, message: SentMessage) -> list[bytes] | None:
        """The new part of an unfinished agent message that begins with the last words of a turn that was cut; None for
        any other message."""
        span = self.place.find_continued(message.letters) if self.text.is_interrupted else None
        new_part = self._find_new_part(message, span) if span is not None else None
        return None if new_part is None else [update.line for update in new_part]

    def split_tail(self) -> tuple[list[bytes], list[bytes]]:
        """The lines that the transcript may lack, in two parts: those that are new, and after them those
        that are undecided until the agent says or does more.

        Of ``words, thought``, the thought is undecided: if the agent goes on with something known, it is past. Of
        ``words, user message, thought``, all is new: nothing known can follow a user message that the transcript lacks.
        But it is undecided too while the agent has sent nothing known but user messages: the answer to the last of
        these may still come (gemini sends the first part of its replay before it answers)."""
        new_updates, undecided = self._split_tail()
        return [update.line for update in new_updates], [update.line for update in undecided]

    def find_undecided(self) -> list[SentUpdate]:
        """The updates of the second part of ``split_tail``."""
        return self._split_tail()[1]

    def _split_tail(self) -> tuple[list[SentUpdate], list[SentUpdate]]:
        reply_may_follow = (
            self.place.is_before_reply and not self.place.spans.all_spans and not self.place.call_cursor.known_indexes
        )
        return self.tail.split(reply_may_follow=reply_may_follow)

    def find_unrecorded(self, *, turn_may_run_elsewhere: bool | None = None) -> list[bytes]:
        """The lines of the tail to record.

        - If the transcript is empty, all.
        - From a user message on, all: the session continued elsewhere. Of ``words, user message, more words``, the last
          two.
        - Of what comes before that, such as the first ``words``: all if it is the answer that the transcript's last
          turn lacks; else only what came after the agent's answer to the load and is nowhere in the transcript.

        ``turn_may_run_elsewhere``: whether the transcript's last turn may be running in another process that has the
        transcript open to append, and then records its end. None if that is not known: then a turn with a part of its
        answer is not completed.
        """
        if self.is_too_costly:
            return []
        return self.tail.find_unrecorded(is_all_new=self.text.is_empty, turn_may_run_elsewhere=turn_may_run_elsewhere)

    def drop_tail(self) -> None:
        """Hold no more of what was new: it is recorded."""
        self.tail = Tail()

    @property
    def is_tail_new_without_reply(self) -> bool:
        """Whether the tail has something that is new although the agent has said nothing after it: a user message, or
        a thought."""
        return self.tail.has_new_without_reply

    @property
    def is_surely_new(self) -> bool:
        """Whether what is coming is new, whatever the agent sends next. For example, it has sent all of the
        transcript's last turn, and now sends a user message that the transcript lacks, or what follows one."""
        message = self.current_message
        if message is not None and message.role is Role.THOUGHT and self._is_thought_surely_new:
            return True
        if self.place.is_before_reply or message is None or message.role is not Role.USER:
            return self._has_surely_new_turn and not (self.place.is_before_reply or self.place.is_inside_turn)
        may_be_context = self.context.may_begin(message.letters, follows_call=message.follows_call)
        if may_be_context or self.place.is_inside_turn:
            return False
        last_index = max(0, self.place.user_cursor.next_index - 1)
        may_be_known = any(
            form.startswith(message.letters) for user in self.text.user_messages[last_index:] for form in user.variants
        )
        return self.place.may_be_at_end and not (
            may_be_known
            or self.place.user_cursor.find_restart(message.letters, is_whole=False) is not None
            or self.place.user_cursor.find_index(message) is not None
        )

    @property
    def _is_thought_surely_new(self) -> bool:
        """Whether a thought that comes now is new, whatever follows: the agent has nothing of the turn to which the
        replay has come, nor of those after it, in the transcript."""
        last_user = (
            self.text.user_messages[self.place.user_cursor.next_index - 1]
            if self.place.user_cursor.next_index
            else None
        )
        return (
            last_user is not None
            and self.tail.completes_turn
            and last_user.thought_position == len(self.text.thought_letters)
        )

    @property
    def _has_surely_new_turn(self) -> bool:
        """Whether nothing known can follow what is new in the tail."""
        return self.tail.has_new_without_reply and self.place.may_be_at_end

    # --- messages, from their chunks

    def _add_chunk(self, sent_update: SentUpdate, update: object) -> None:
        message_id = acp.text(update, "messageId")
        message = self.current_message
        if message is None or (message.kind, message.message_id) != (sent_update.kind, message_id):
            self.end_message()
            message = self._begin_message(sent_update, message_id)
        letters = read_block_letters(acp.member(update, "content"))
        may_be_whole = message.chunks and message.role is Role.AGENT and len(letters) >= SHORT_TEXT_LIMIT
        if may_be_whole and (self.text.has_message(letters, self.place.position) or self._is_known_remark(letters)):
            self.end_message()  # a whole message of its own, whatever came before it
            message = self._begin_message(sent_update, message_id)
        is_user = message.role is Role.USER
        if message.chunks and is_user and message_id is None and self._is_whole_user_message(message, letters):
            self.end_message()  # agents send the messages of turns without words, and context, one after the other
            message = self._begin_message(sent_update, message_id)
        if message.chunks and message.span is not None:
            start, end = message.span
            message.span = (start, end + len(letters)) if self.text.agent_letters.startswith(letters, end) else None
            if message.span is None and self.text.ends_message(end):  # a new message follows a known one
                self.end_message()
                message = self._begin_message(sent_update, message_id)
        message.chunks.append(letters)
        message.size += len(letters)
        message.updates.append(sent_update)

    def _begin_message(self, sent_update: SentUpdate, message_id: str | None) -> SentMessage:
        follows_call = self._follows_call
        self.current_message = SentMessage(sent_update.kind, message_id, follows_call=follows_call)
        return self.current_message

    def _is_whole_user_message(self, message: SentMessage, following: str) -> bool:
        """Whether a user message is complete before this chunk, which begins another one."""
        is_context = self.context.looks_like_context(message.letters, follows_call=message.follows_call)
        is_before_context = self.context.looks_like_context(following, follows_call=False)
        return is_context or is_before_context or self.place.user_cursor.is_whole(message.letters, following)

    # --- the agent's words

    def _compare_words(self, message: SentMessage) -> None:
        """Take a whole message of the agent, and move to its place if the transcript has it."""
        letters = message.letters
        if (span := self.place.find_words(letters)) is not None:
            self._compare_known_words(message, span)
            return
        if (spans := self.place.find_chunk_spans(message) or self.place.find_joined_messages(message)) is not None:
            self._move_to_words(spans)
            return
        # After a user message that is new, the same words are the answer to that.
        if not self.tail.user_message_count and (span := self.place.find_passed_unprompted(letters)) is not None:
            self.place.spans.add(span)
            return
        if self._repeats_last(letters):
            self.has_repetition = True
            return
        repeated_count = sum(
            1
            for _ in takewhile(
                lambda chunk: len(chunk) >= SHORT_TEXT_LIMIT and self._repeats_last(chunk), message.chunks
            )
        )
        if repeated_count:
            self.has_repetition = True
            if repeated_count < len(message.chunks):
                self._compare_words(message.drop_first(repeated_count))
            return
        if self._try_take_beginning(message):
            return
        if (last_words := self.place.find_last_words(message)) is not None:
            self.has_new_before_tail = True
            self._move_to_words([last_words])
            return
        self._compare_new_words(message)

    def _compare_known_words(self, message: SentMessage, span: Span) -> None:
        """Take a message that the transcript has after the place of the replay."""
        has_place = self.place.user_cursor.has_begun and not self.place.is_before_reply and self.place.may_be_at_end
        is_greeting = span[1] <= self._first_user_message_position or self._is_known_remark(message.letters)
        is_said_again = is_greeting or self.text.has_earlier_message(message.letters, span[0])
        if self._has_surely_new_turn and is_said_again and not self.place.continues_turn(span):
            self.place.spans.add(span)
            # An answer may say the same as an earlier one.
            if not is_greeting and not message.updates[0].is_after_an_answer:
                self._add_new(*message.updates)
        elif is_greeting and self.tail.has_new and not self.place.spans.all_spans:
            self.place.spans.add(span)  # what comes with every load says nothing about what came before it
        elif not self.tail.goes_on_after(message, has_place=has_place):
            self._move_to_words([span])

    def _compare_new_words(self, message: SentMessage) -> None:
        """Take a message that the transcript lacks, or has only the beginning of."""
        letters = message.letters
        continued_span = self.place.find_continued(letters)
        if continued_span is not None:
            new_part = self._find_new_part(message, continued_span)
            self._move_to_words([continued_span])
            if new_part is not None:
                self._add_new(*new_part)
                return
            self.continues_last_words = True
        is_in_transcript = continued_span is not None or self.place.search.has_words(letters)
        for update in message.updates:
            update.is_in_transcript = is_in_transcript
        self._add_new(*message.updates, is_repetition=self.place.is_before_reply and self.text.has_message(letters, 0))

    @property
    def _first_user_message_position(self) -> int:
        """The end of what the agent said before the first user message."""
        return self.text.find_turn_span(0)[1] if self.text.user_messages else 0

    def _is_known_remark(self, letters: str) -> bool:
        """Whether the agent said this before the first user message. Agents greet and warn in the same words in each
        load: no message before that is the past."""
        return self.text.has_earlier_message(letters, self._first_user_message_position)

    def _repeats_last(self, letters: str) -> bool:
        """Whether the last known words come once more: the replays of two loads at once are mixed."""
        if self.tail.has_new or self.tail.user_message_count or not self.place.user_cursor.has_begun:
            return False
        position = self.place.position
        return self.text.agent_letters.endswith(letters, 0, position) and self.text.begins_message(
            position - len(letters)
        )

    def _try_take_beginning(self, message: SentMessage) -> bool:
        """Whether the first chunks are a known message and the others a new one. If so, takes both."""
        span = self.place.find_words(message.chunks[0]) if len(message.chunks) > 1 else None
        if span is None:
            return False
        (start, end), count = span, 1
        last_end = (end, 1) if self.text.ends_message(end) else None
        while count < len(message.chunks) and self.text.agent_letters.startswith(message.chunks[count], end):
            end, count = end + len(message.chunks[count]), count + 1
            if self.text.ends_message(end):
                last_end = end, count  # the last such place: the next message may begin like another one
        if last_end is None or last_end[1] == len(message.chunks):
            return False
        self._move_to_words([(start, last_end[0])])
        self._compare_words(message.drop_first(last_end[1]))
        return True

    def _move_to_words(self, spans: list[Span]) -> None:
        self.place.move_to_words(spans)
        self._begin_tail()

    def _begin_tail(self, *, is_first_user_message: bool = False, completes_turn: bool = False) -> None:
        """Something known has come: nothing before it is new. ``is_first_user_message``: it is that with which
        the replay begins. What comes before that is a greeting or a warning, unless it is a turn."""
        self.has_new_before_tail |= self.tail.has_turn if is_first_user_message else self.tail.has_new
        self.user_message_count_before_tail += self.tail.user_message_count
        self.tail.begin_next(is_rest_of_turn=self.place.is_cut_at(self.place.position), completes_turn=completes_turn)
        self._has_unknown_user_message = False
        self.context.confirm_suspected()

    def _find_new_part(self, message: SentMessage, span: Span) -> list[SentUpdate] | None:
        """What follows a message's letters that are in the transcript, if these are the end of a turn that was cut."""
        return message.without_first_letters(span[1] - span[0]) if self.place.is_cut_at(span[1]) else None

    def _take_new_thought(self, message: SentMessage) -> list[SentUpdate]:
        """The part of a thought that the transcript lacks, if it ends with the beginning of this thought."""
        last_thought = (
            self.text.last_thought_letters if self.text.is_last_prompt_open and not self.tail.user_message_count else ""
        )
        is_begun = (
            bool(last_thought)
            and message.letters.startswith(last_thought)
            and self.place.user_cursor.next_index in (0, len(self.text.user_messages))
        )
        new_part = message.without_first_letters(len(last_thought)) if is_begun else None
        if new_part is None:
            return message.updates
        updates = message.updates[len(message.updates) - len(new_part) :]
        for update, new_update in zip(updates, new_part, strict=True):
            update.line = new_update.line
        return updates

    def _add_new(self, *updates: SentUpdate, is_repetition: bool = False) -> None:
        """``is_repetition``: the transcript has the whole message earlier. Agents warn in the same words in each load;
        nobody gives one answer in the words of another."""
        before_restart, self._before_restart = self._before_restart, None
        if before_restart is not None and not before_restart[0].begins_like(updates[0]):
            earlier_tail, user_updates = before_restart  # no restart: the user has said the same again
            earlier_tail.add_turn(user_updates, self.tail)
            self.tail, self.has_repetition = earlier_tail, False
            self.place.user_cursor.has_restarted = False
        if self.place.is_before_reply and not is_repetition:  # in other words; a user message before it is context
            self.has_new_before_tail = True
            self.tail.note_rewording()
            return
        self.tail.add_new(*updates)

    # --- user messages

    def _compare_user_message(self, message: SentMessage) -> None:
        """Take a whole user message, and move to its place if the transcript has it."""
        if self.context.is_context(message.letters, follows_call=message.follows_call):
            message.is_context = True
            return
        user_index = self.place.user_cursor.find_index(message)
        if user_index is None and self._is_last_user_message_again(message):
            self.has_repetition = message.is_repeated = True
            self.place.repeat_user_message()
            return
        if user_index is None:
            user_index = self.place.user_cursor.find_restart(message.letters)
            if user_index is not None and message.message_id is None and self.text.has_only_first_user_message:
                self._before_restart = copy(self.tail), message.updates
        if user_index is None:
            if self.tail.follows_rewording and self.place.may_be_at_end:  # no turn follows in the transcript
                self.place.pass_reply()
            self.context.suspect(message.letters)
            self._has_unknown_user_message = self.text.find_user_message(message.letters, 0) is None
            self.tail.add_user_message(*message.updates)
            return
        self._note_context_before(message, user_index)
        message.is_repeated = user_index in self.place.user_cursor.known_indexes
        self._move_to_user_message(user_index, message.letters)
        message.is_known_without_reply = not self.place.has_words_left(self.place.user_cursor.next_index)
        if (key := self.text.user_messages[user_index].request_key) is not None and message.message_id is not None:
            self.message_ids[key] = message.message_id
        self._compare_user_messages_after(message, self.place.user_cursor.find_end(message, user_index))

    def _compare_user_messages_after(self, message: SentMessage, position: int) -> None:
        """Take the user messages that follow in one run, with nothing between them. ``position``: where the next
        begins."""
        while following := message.letters[position:]:
            if (chunk := message.find_chunk_at(position)) and self.context.is_context(chunk, follows_call=False):
                position += len(chunk)
                continue
            if self.context.is_context(following, follows_call=False):
                return
            user_index = self.place.user_cursor.find_whole(following)
            user_index = self.place.user_cursor.find_restart(following) if user_index is None else user_index
            size = len(following)
            if user_index is None and (next_size := self.place.user_cursor.measure_next(message, position)):
                user_index, size = self.place.user_cursor.next_index, next_size
            elif user_index is None and chunk:  # the agent has lost what was between
                user_index, size = self.place.user_cursor.find_whole(chunk), len(chunk)
            if user_index is not None:
                self._move_to_user_message(user_index, following)
                position += size
                continue
            if (known_position := self._find_known_position(message, position)) is not None:
                self.context.add(message.letters[position:known_position])
                position = known_position
                continue
            # Another message, or context that the agent added: if it is that, the answer to the known one follows.
            self.context.suspect(message.letters[position:])
            self.tail.add_user_message(*message.find_updates_after(position))
            return

    def _find_known_position(self, message: SentMessage, position: int) -> int | None:
        """Where the next chunk begins that is a user message of the transcript; what stands before it is context."""
        starts = zip(accumulate(map(len, message.chunks), initial=0), message.chunks, strict=False)
        return next(
            (
                start
                for start, letters in starts
                if start > position and self.place.user_cursor.find_whole(letters) is not None
            ),
            None,
        )

    def _note_context_before(self, message: SentMessage, user_index: int) -> None:
        """The chunks before the one that is this user message of the transcript are context."""
        forms = self.text.user_messages[user_index].variants
        context_chunks = [*takewhile(lambda letters: letters not in forms, message.chunks)]
        if len(context_chunks) < len(message.chunks):
            self.context.add("".join(context_chunks))

    def _move_to_user_message(self, user_index: int, letters: str) -> None:
        """Move to the user message with this index. ``letters``: as the agent sent it."""
        if self.place.goes_back_to(user_index):
            self.has_repetition = True
            self.place.restart()
            self.tail.drop_call_ends()
            self.context.drop_suspected()
        is_first = not self.place.user_cursor.has_begun
        if is_first:
            self.tail.keep_greeting()
        self.place.move_to_user_message(user_index, letters)
        self._is_in_thoughts = False
        self.user_message_count_before_tail += 1
        completes_turn = self.place.user_cursor.next_index > self.text.last_replied_turn
        self._begin_tail(is_first_user_message=is_first, completes_turn=completes_turn)

    def _is_last_user_message_again(self, message: SentMessage) -> bool:
        """Whether the last known user message comes once more, before anything else."""
        if not self.place.user_cursor.next_index or self.tail.user_message_count or self.tail.has_new:
            return False
        last_user = self.text.user_messages[self.place.user_cursor.next_index - 1]
        is_next = (
            self.place.position == last_user.turn_start
            and self.place.call_cursor.last_index < last_user.first_call_index
            and not self._is_in_thoughts
        )
        return is_next and message.letters in last_user.variants

    # --- tool calls

    def _compare_call(self, sent_update: SentUpdate, update: object) -> int | None:
        id, title, status = (acp.text(update, key) for key in ("toolCallId", "title", "status"))
        if id is None:
            return None
        may_begin = sent_update.kind != update_kinds.TOOL_CALL_UPDATE
        is_new_turn = self._has_unknown_user_message and self.place.may_be_at_end and not self.place.is_before_reply
        call_index = self.place.call_cursor.match_call(
            id,
            title,
            self.place.user_cursor.next_index,
            position=self.place.position,
            may_begin=may_begin,
            is_new_turn=may_begin and is_new_turn,
        )
        if call_index is None:
            sent_update.is_in_transcript = id in self.text.calls_by_id
            self._add_new(sent_update)
            return None
        known_call = self.text.calls[call_index]
        has_new_end = known_call.status in NOT_FINAL_STATUSES and status not in NOT_FINAL_STATUSES
        if has_output(update) or known_call.id != id:  # one that is known by its title alone may be another call
            self._calls_with_output.add(call_index)
        self.place.move_to_call(call_index, with_new_end=has_new_end)
        self._begin_tail()
        if has_new_end:
            if known_call.id != id:  # some agents give calls new ids in each replay
                with suppress(ValueError, KeyError):
                    sent_update.line = acp.with_text(sent_update.line, known_call.id, "params", "update", "toolCallId")
            sent_update.ends_call = known_call.is_turn_over
            self.tail.add_call_end(sent_update)
        elif known_call.is_turn_over and not known_call.has_output and has_output(update):
            self._add_call_output(sent_update, known_call, update)
        return call_index

    @property
    def lacks_call_output(self) -> bool:
        """Whether the agent sent nothing that a known call gave, of which the transcript has something."""
        calls = {index: self.text.calls[index] for index in self.place.call_cursor.known_indexes}
        return any(
            call.has_output and call.is_turn_over and index not in self._calls_with_output
            for index, call in calls.items()
        )

    def _add_call_output(self, sent_update: SentUpdate, known_call: RecordedCall, update: object) -> None:
        """Add what a known call gave, of which the transcript has nothing: some agents send it only in a replay. Not if
        the call has not ended, or another one has its id: then nothing says later which of them gave that."""
        if known_call.status in NOT_FINAL_STATUSES or len(self.text.calls_by_id[known_call.id]) > 1:
            return
        # With title and status: a transcript may go on in another version, in which nothing begins and ends the call.
        fields: dict[str, object] = {
            "toolCallId": known_call.id,
            "title": known_call.title,
            "status": known_call.status,
        }
        fields |= {name: acp.member(update, name) for name in ("content", "rawOutput", "_meta")}
        stated = {name: value for name, value in fields.items() if value is not None}  # in version 2, null clears
        output = jsonrpc.dump({"sessionUpdate": update_kinds.TOOL_CALL_UPDATE, **stated})
        with suppress(ValueError, KeyError):
            sent_update.line = json_splice.with_value(sent_update.line, output.decode(), "params", "update")
            self.tail.add_call_output(sent_update)
