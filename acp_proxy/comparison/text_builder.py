"""Builds the ``TranscriptText`` of a transcript, entry by entry: which messages of the user there are, when their turns
begin and end, and what the agent said and did in each. Nothing here raises on foreign input.
"""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from acp_proxy.comparison.letters import (
    SHORT_TEXT_LIMIT,
    digest,
    make_substitute_call,
    read_block_letters,
)
from acp_proxy.comparison.transcript_text import LETTERS_LIMIT, RecordedCall, TranscriptText, UserMessage
from acp_proxy.protocol import acp, agent_terminals, update_kinds
from acp_proxy.protocol.jsonrpc import Peer
from acp_proxy.protocol.update_kinds import ComparedBy, Role
from acp_proxy.transcript import rewinds
from acp_proxy.transcript.file_format import ANEW, Entry, NoteType

if TYPE_CHECKING:  # loaded where a transcript is read
    from acp_proxy.transcript.chunk_runs import AlikeChunks

_ABANDONED_LIMIT = 64
"""The most prompts without an answer, from before the session was last opened again, after which others may wait."""
_COMMANDS = re.compile(
    r"\s*/(clear|compact|compress|undo|rewind|revert|restore|reset|rollback|new)(?!\S)", re.IGNORECASE
)
"""Slash commands that take back a part of the conversation."""


class TextBuilder:
    """Builds a ``TranscriptText`` from entries of a transcript, or from updates."""

    def __init__(self) -> None:
        self._text = TranscriptText()
        self._words: list[str] = []
        self._thoughts: list[str] = []
        self._size = self._thought_size = self._thought_position = 0
        self._message_key: tuple[str, str | None] | None = None
        self._user_chunks: list[str] = []
        """The letters of the user message that the agent is sending."""
        self._quiet_runs: set[str] = set()
        """The runs in whose turn the agent has sent nothing but user messages yet."""
        self._open_prompts: list[UserMessage] = []
        """The prompts without an answer."""
        self._run_id = ""
        """The run that wrote the last entry."""
        self._chunk_size = 0
        """How many letters the last chunk of the agent's words had."""
        self._steering_messages: list[UserMessage] = []
        """The user's words into a turn that has not ended."""
        self._ends_in_thought = False
        """Whether nothing has followed the last thought but prompts that wait."""
        self._is_opened_anew = False
        """Whether the agent has opened a new session for a prompt that it had refused."""
        self._abandoned_prompts: list[UserMessage] = []
        """Prompts from before the session was opened again; they may never be answered."""
        self._earlier_abandoned_prompts: list[UserMessage] = []
        """Prompts from before the session was opened the time before: others after them in the same window may
        wait."""

    def add(self, entry: Entry) -> None:
        """Add the next entry of the transcript."""
        if entry.run != self._run_id:
            self._end_user_message()  # the message was the other run's
        self._run_id = entry.run
        method = acp.text(entry.value, "method")
        params = acp.member(entry.value, "params")
        if rewinds.is_rewind(entry):
            self._text.taken_back_turn = self._text.rewound_turn = len(self._text.user_messages)
        if entry.peer is Peer.CLIENT and method == acp.PROMPT:
            self._add_prompt(acp.member(params, "prompt"))
            self._text.user_messages[-1].request_key = entry.request_key
            self._overtake(is_same_run=False)
        elif entry.peer is Peer.CLIENT and method == acp.CANCEL:
            for user in self._open_prompts:
                user.is_cancelled = True
        elif entry.peer is Peer.CLIENT and method == acp.STEERING:
            self._steering_messages.append(self._add_user_message(acp.member(params, "prompt")))
            self._text.user_messages[-1].request_key = entry.request_key
            self._overtake(is_same_run=True)
        elif entry.peer is Peer.AGENT and entry.answered_method == acp.PROMPT:
            self._end_prompts(entry.request_key)
        elif entry.peer is Peer.AGENT and method == acp.UPDATE:
            self.add_update(acp.member(params, "update"))
        elif entry.note is not None and entry.note.get("type") == NoteType.FAILED:
            self._fail_prompt()
        elif entry.note is not None and entry.note.get("type") == NoteType.OPENED:
            self._end_user_message()
            self._reopen(entry, entry.note.get("method"))
        elif entry.note is not None and entry.note.get("type") == NoteType.REPLAY:
            self._text.message_ids |= rewinds.read_given_ids(entry.note)
            if self._is_opened_anew:  # the open prompt is sent again now: its answer is a message of its own
                self._message_key, self._is_opened_anew = None, False

    def add_chunks(self, stream: "AlikeChunks") -> None:
        """Add many entries that are chunks like the last one."""
        if self._is_in_thought:
            self._add_thought(acp.fold_letters(stream.text))
        elif not self._open_prompts_of_run:
            for text in map(acp.fold_letters, stream.each_text):
                self._begin_message(text)
                self._add_words(text)
        else:
            self._add_words(acp.fold_letters(stream.text))

    def add_update(self, update: object) -> None:
        """Add an update (``params.update``); ignores what is not part of the conversation."""
        kind = acp.update_kind(update)
        row = update_kinds.find(kind)
        role, compared_by = row.role, row.compared_by
        if row.takes_back:
            self._text.taken_back_turn = len(self._text.user_messages)
        if kind is None or not isinstance(update, dict) or not update_kinds.is_conversation(kind):
            return
        message_key = (kind, acp.text(update, "messageId"))
        if message_key != self._message_key:
            self._end_user_message()
            self._message_key = message_key
            if role is Role.THOUGHT:
                self._thought_position = self._thought_size
            if role is Role.AGENT:
                self._begin_message()
        elif role is Role.AGENT and not self._open_prompts_of_run:
            self._begin_message(read_block_letters(update.get("content")))
        if role is Role.USER:
            self._user_chunks.append(read_block_letters(update.get("content")))
            return
        if compared_by is not ComparedBy.WHAT_FOLLOWS:
            self._quiet_runs.discard(self._run_id)
        self._ends_in_thought = role is Role.THOUGHT
        if role is Role.AGENT and (shown_call := make_substitute_call(update)) is not None:
            self._add_call(update_kinds.TOOL_CALL, shown_call)
        elif role is Role.AGENT:
            self._add_words(read_block_letters(update.get("content")))
        elif role is Role.THOUGHT:
            self._add_thought(read_block_letters(update.get("content")))
        elif compared_by is ComparedBy.CALL:
            self._add_call(kind, update)
        elif compared_by is not ComparedBy.WHAT_FOLLOWS:
            self._text.whole_update_digests.add(digest(update))
            if row.takes_back:
                self._text.compaction_turns[digest(update)] = len(self._text.user_messages)

    def finish(self) -> TranscriptText:
        """The finished ``TranscriptText``. Nothing may be added after this."""
        self._end_user_message()
        text = self._text
        live_prompts = [
            user for user in (*self._earlier_abandoned_prompts, *self._abandoned_prompts) if not user.is_cancelled
        ] + self._open_prompts
        for run in {user.run for user in live_prompts} - {None}:
            self._postpone_turns(self._select_of_run(live_prompts, run)[1:])
        self._note_waiting()
        # Without the earlier abandoned ones: a window that was left earlier has probably ended.
        unanswered = [*self._abandoned_prompts, *self._open_prompts]
        for user in (user for user in unanswered if not user.has_failed):
            for call in text.calls[user.max_first_call_index :]:
                call.is_turn_over = call.is_turn_over and user.run not in (None, call.run)
        unanswered += self._steering_messages if unanswered else []
        text.is_last_prompt_open = bool(text.user_messages) and any(
            user is text.user_messages[-1] for user in unanswered
        )
        text.unechoed_prompts = self._find_queued()
        text.is_too_long = self._size + self._thought_size > LETTERS_LIMIT
        if not text.is_too_long:
            text.agent_letters, text.thought_letters = "".join(self._words), "".join(self._thoughts)
            text.last_thought_letters = text.thought_letters[self._thought_position :] if self._ends_in_thought else ""
        text.build_lookups()
        return text

    @property
    def _open_prompts_of_run(self) -> list[UserMessage]:
        """The prompts without an answer of the run that wrote the last entry: what the agent says in one window answers
        no prompt of another."""
        return self._select_of_run(self._open_prompts, self._run_id)

    @property
    def _all_unanswered(self) -> list[UserMessage]:
        return [*self._earlier_abandoned_prompts, *self._abandoned_prompts, *self._open_prompts]

    @property
    def _is_in_thought(self) -> bool:
        """Whether the last update was a thought."""
        return self._message_key is not None and update_kinds.find(self._message_key[0]).role is Role.THOUGHT

    def _find_queued(self) -> list[UserMessage]:
        """The last open prompts, if the prompt before them has an echo: agents that echo echo each prompt."""
        prompts = [user for user in self._text.user_messages if user.request_key is not None]
        first = next((count for count in range(len(prompts), 0, -1) if prompts[count - 1].is_echoed), len(prompts))
        queued = prompts[first:]
        return queued if all(any(user is open_user for open_user in self._open_prompts) for user in queued) else []

    def _begin_message(self, chunk: str | None = None) -> None:
        """Begin an agent message. ``chunk``: the letters of one that continues another; outside turns, such chunks are
        messages of their own. A turn made elsewhere may also have come in short chunks, in which answers are alike."""
        is_elsewhere = bool(self._text.user_messages) and self._text.user_messages[-1].bypassed_proxy
        if chunk is not None and is_elsewhere and max(len(chunk), self._chunk_size) < SHORT_TEXT_LIMIT:
            return
        self._text.message_positions.append(self._size)
        if self._text.user_messages and not self._open_prompts_of_run and not is_elsewhere:
            self._text.unprompted_positions.add(self._size)

    def _add_words(self, new_letters: str) -> None:
        self._chunk_size = len(new_letters)
        self._size += len(new_letters)
        if self._size <= LETTERS_LIMIT:
            self._words.append(new_letters)

    def _add_thought(self, new_letters: str) -> None:
        self._thought_size += len(new_letters)
        if self._thought_size <= LETTERS_LIMIT:
            self._thoughts.append(new_letters)

    def _add_prompt(self, blocks: object) -> None:
        user = self._add_user_message(blocks)
        items = blocks if isinstance(blocks, list) else []
        user.takes_back = takes_back(next((text for item in items if (text := acp.text(item, "text"))), ""))
        if user.takes_back:
            self._text.taken_back_turn = len(self._text.user_messages)
        self._ends_in_thought &= bool(self._open_prompts)
        if all(other.is_cancelled for other in self._open_prompts_of_run):  # else it waits for the end of the turn
            self._quiet_runs.add(self._run_id)
        self._open_prompts.append(user)

    def _add_user_message(self, blocks: object) -> UserMessage:
        """Add a user message that the client sent: a prompt, or words into a running turn."""
        self._end_user_message()
        self._message_key = None
        items = blocks if isinstance(blocks, list) else []
        user = self._append_user_message("".join(map(read_block_letters, items)), is_elsewhere=False)
        # Some agents echo a prompt without its attachments.
        only_text = "".join(acp.fold_letters(text) for item in items if (text := acp.text(item, "text")))
        if only_text and only_text not in user.variants:
            user.variants.append(only_text)
        return user

    def _overtake(self, *, is_same_run: bool) -> None:
        """The user's last words come before prompts that wait for the end of a turn. ``is_same_run``: those of the same
        run; else of others, since another window does not wait for it."""
        prompts: dict[str, list[UserMessage]] = {}
        for user in self._all_unanswered:
            if user.run is not None:
                prompts.setdefault(user.run, []).append(user)
        for run, unanswered in prompts.items():
            for user in unanswered[1:] if (run == self._run_id) is is_same_run else ():
                user.overtaken_by = len(self._text.user_messages) - 1

    def _reopen(self, entry: Entry, method: object) -> None:
        """The session was opened again. A load in a turn ends only cancelled prompts, and those of another process. The
        prompts that a fork has copied are answered in its parent."""
        prompts, self._open_prompts = self._open_prompts, []
        abandoned: list[UserMessage] = []
        for user in prompts:
            is_ours = user.run == entry.run
            (self._open_prompts if is_ours and not user.is_cancelled and method != acp.FORK else abandoned).append(user)
        if abandoned:
            self._earlier_abandoned_prompts = [*self._earlier_abandoned_prompts, *self._abandoned_prompts][
                -_ABANDONED_LIMIT:
            ]
            self._abandoned_prompts = abandoned
        self._is_opened_anew = entry.note is not None and ANEW in entry.note and bool(self._open_prompts)
        if method == acp.FORK:
            self._text.copied_turn_count = len(self._text.user_messages)

    def _fail_prompt(self) -> None:
        """The agent has ended before it answered the oldest prompt. It may have finished that turn, without us."""
        self._end_user_message()
        self._message_key = None
        self._abandoned_prompts += (failed := self._open_prompts[:1])
        del self._open_prompts[:1]
        for user in failed:
            user.has_failed = True
        for user in self._open_prompts:
            user.max_turn_start = self._size

    def _end_prompts(self, key: tuple[str, bytes]) -> None:
        """The prompt with this ``UserMessage.request_key`` has its answer. If it was taken back in its turn, there is
        none."""
        self._end_user_message()
        self._message_key, self._ends_in_thought = None, False
        unanswered = next(
            (
                user_messages
                for user_messages in (self._open_prompts, self._abandoned_prompts, self._earlier_abandoned_prompts)
                if any(user.request_key == key for user in user_messages)
            ),
            self._open_prompts,
        )
        answered = next((user for user in unanswered if user.request_key == key), None)
        is_first = answered is next(iter(self._open_prompts_of_run), None)
        if answered is not None:  # cancelled ones from before it will never be answered
            index = next(index for index, user in enumerate(unanswered) if user is answered)
            unanswered[: index + 1] = [user for user in unanswered[:index] if not user.is_cancelled]
        if not unanswered:
            self._steering_messages.clear()
        self._postpone_turns(self._select_of_run(unanswered, key[0]))
        if answered is not None and is_first:  # the turn of the next prompt begins
            self._quiet_runs.add(key[0])

    @staticmethod
    def _select_of_run(user_messages: list[UserMessage], run: str | None) -> list[UserMessage]:
        """The prompts of one run: those of another do not wait for its turns."""
        return [user for user in user_messages if user.run == run]

    def _note_waiting(self) -> None:
        """In each process, the first prompt without an answer has begun a turn, and the others may wait for its end."""
        busy = set()
        for user in self._all_unanswered:
            if not user.is_cancelled:
                user.is_waiting = user.run in busy
                busy.add(user.run)

    def _postpone_turns(self, user_messages: list[UserMessage]) -> None:
        """The turns of these prompts have not begun yet."""
        for user in user_messages:
            user.max_turn_start, user.max_first_call_index = self._size, len(self._text.calls)

    def _append_user_message(self, form: str, *, is_elsewhere: bool) -> UserMessage:
        calls, thoughts = len(self._text.calls), self._thought_size
        user = UserMessage(
            [form],
            turn_start=self._size,
            max_turn_start=self._size,
            first_call_index=calls,
            max_first_call_index=calls,
            thought_position=thoughts,
            takes_back=False,
            bypassed_proxy=is_elsewhere,
        )
        self._text.user_messages.append(user)
        return user

    def _end_user_message(self) -> None:
        """End a user message that the agent sent: an echo of a prompt, or a message from another client."""
        if not self._user_chunks:
            return
        form, self._user_chunks = "".join(self._user_chunks), []
        unechoed = [user for user in self._open_prompts_of_run if not user.is_echoed]
        echoed_user = next((user for user in unechoed if form in user.variants), None)
        if echoed_user is None and self._run_id in self._quiet_runs and unechoed:
            # After a cancelled prompt, which has perhaps no echo, it may be of any of them, or the agent's own: it has
            # the prompt's words, up to the first mention of a file.
            alike = (user for user in unechoed if user.variants[0].partition("@")[0] in form)
            is_clear = len(unechoed) == 1 or not unechoed[0].is_cancelled
            echoed_user = unechoed[0] if is_clear else next(alike, None)
        if echoed_user is None:
            self._append_user_message(form, is_elsewhere=not self._open_prompts_of_run)
            return
        echoed_user.is_echoed = True
        if form not in echoed_user.variants:
            echoed_user.variants.append(form)

    def _add_call(self, kind: str, update: Mapping[str, object]) -> None:
        id, title, status = (acp.text(update, key) for key in ("toolCallId", "title", "status"))
        if id is None:
            return
        text, turn = self._text, len(self._text.user_messages)
        known_indexes = text.calls_by_id.get(id)
        if known_indexes and (kind != update_kinds.TOOL_CALL or text.calls[known_indexes[-1]].turn_number == turn):
            call = text.calls[known_indexes[-1]]
            call.title = title or call.title
            call.status = status or call.status
            is_cleared = acp.member(update, "content") == []
            call.has_output = has_output(update) or (call.has_output and not is_cleared)
            return
        text.calls_by_id.setdefault(id, []).append(len(text.calls))
        text.calls.append(
            RecordedCall(
                id,
                title,
                turn_number=turn,
                position=self._size,
                status=status,
                has_output=has_output(update),
                run=self._run_id,
            )
        )


def has_output(update: object) -> bool:
    """Whether an update of a call has something of what the call gave. Empty texts and values are nothing."""
    return (
        any(acp.member(acp.member(item, "content"), "text") != "" for item in acp.items(update, "content"))
        or acp.member(update, "rawOutput") not in (None, "", {}, [])
        or agent_terminals.has_any(acp.member(update, "_meta"))
    )


def takes_back(text: str) -> bool:
    """Whether a prompt is a command that takes back a part of the conversation, such as ``/undo``."""
    return _COMMANDS.match(text) is not None
