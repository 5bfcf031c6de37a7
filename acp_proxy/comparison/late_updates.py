"""Sorts what an agent sends after its answer to a load and before the next prompt: what the client has seen, and what
is new. ``updates_in_turn`` sorts what comes after that prompt.

Agents answer before their replay is complete. gemini sends one message of the history, answers, and sends the rest. It
must not be shown after the transcript, nor recorded a second time. But swallowing what is new is worse than showing
something twice. No prompt is open, so a line waits as long as it equals what the client has seen, and is left out once
that is certain.
"""

from acp_proxy.comparison.comparison import Comparison
from acp_proxy.comparison.letter_search import Span
from acp_proxy.comparison.letters import digest, make_substitute_call
from acp_proxy.comparison.sent_messages import SentMessage, SentUpdate
from acp_proxy.protocol import acp, update_kinds
from acp_proxy.protocol.update_kinds import Role

UNDECIDED_LIMIT = 1024 * 1024
"""The most bytes that wait for what the agent sends next. Beyond that, they pass: nothing is proved yet."""


class LateUpdates:
    """The updates of one session between the answer to a load and the next prompt. What is new in them is recorded by
    ``Comparison.find_unrecorded``, which knows only then what follows it."""

    def __init__(
        self,
        comparison: Comparison,
        *,
        hides_replay: bool,
        shows_past: bool = True,
        agent_lacks_past: bool = False,
        turn_may_run_elsewhere: bool | None = None,
    ) -> None:
        """``comparison``: with what the agent sent before its answer. With ``hides_replay`` and
        ``shows_past``, this ends its last message.

        ``hides_replay``: the client does not see the agent's replay, such as because it has the transcript.
        ``shows_past``: as for ``LoadPlan``. ``agent_lacks_past``: as for ``SessionLookedUp``.
        ``turn_may_run_elsewhere``: as for ``Comparison.find_unrecorded``.
        """
        self._comparison = comparison
        self._text = comparison.text
        self._hides_replay = hides_replay
        self._shows_past = shows_past
        self._agent_lacks_past = agent_lacks_past
        self._turn_may_run_elsewhere = turn_may_run_elsewhere
        self._undecided_updates: list[SentUpdate] = []
        self._size = 0
        if hides_replay and shows_past:
            # The tail passed after the transcript, except its end: thoughts, plans and user messages without an
            # answer. What the agent sends next says whether they belong to its replay.
            comparison.end_message()
            self._undecided_updates = comparison.find_undecided()
        self._is_replay = False
        """A user message came before the next prompt, so the agent replays."""
        self._is_reworded = False
        """Unknown words wait: the transcript's answer in other words, unless nothing known follows."""

    def add(self, line: bytes, update: object) -> list[bytes]:
        """Take an update of the conversation: its line, and its parsed ``params.update``. Returns the lines to send
        now."""
        self._is_replay = self._is_replay or update_kinds.find(acp.update_kind(update)).role is Role.USER
        return self._hide_unwanted_past(self._sort(line, update))

    def release(self) -> list[bytes]:
        """The waiting lines that the client has not seen, since something comes that must not overtake them."""
        return self._hide_unwanted_past(self._sort_rest())

    def _hide_unwanted_past(self, lines: list[bytes]) -> list[bytes]:
        """The lines that the client gets: none from the first user message on if its load shows no past. A resume
        replays nothing, and no prompt is open, so nobody typed that message here: it is history, and what follows it
        too, until all of the transcript has come."""
        if self._shows_past or not self._is_replay:
            return lines
        return (
            lines if self._comparison.has_sent_whole_past(turn_may_run_elsewhere=self._turn_may_run_elsewhere) else []
        )

    def _sort(self, line: bytes, update: object) -> list[bytes]:
        comparison, kind = self._comparison, acp.update_kind(update)
        previous_message = comparison.current_message
        call_index = comparison.add(line, update, is_after_an_answer=True)
        message = comparison.current_message
        if previous_message is not None and message is not previous_message:
            self._drop_if_seen(previous_message)
        self._undecided_updates.append(sent_update := comparison.last_update)
        self._size += len(line)
        if self._size > UNDECIDED_LIMIT:
            return self._take_waiting()
        if kind in update_kinds.NEUTRAL:
            # Agents add context to these, so they prove nothing: they share the fate of the agent's next words. A user
            # message after the transcript's last turn is new whatever follows, so nobody has to wait for that.
            may_be_shown = self._client_saw_past or comparison.may_restart
            return [] if may_be_shown and not comparison.is_surely_new else self._take_waiting()
        if kind in update_kinds.V1_CALLS or make_substitute_call(update) is not None:
            return self._sort_call(sent_update, is_known=call_index is not None)
        if message is not None and message.role is Role.AGENT:
            return self._sort_words(message)
        is_known = digest(update) in self._text.whole_update_digests
        return self._drop() if is_known and self._hides_replay else self._take_waiting()

    def _drop_if_seen(self, message: SentMessage) -> None:
        """This message is complete. If the client has seen it, so it has what came before or in it."""
        if message.role is Role.AGENT and not message.is_new:
            self._drop()
        if self._client_saw_message(message):
            self._drop_known()

    def _sort_call(self, sent_update: SentUpdate, *, is_known: bool) -> list[bytes]:
        if not is_known or not self._client_saw_past:
            return self._take_waiting()
        self._drop()  # what came before a known call is known too, but the end of an unfinished call is new
        has_new_end = self._comparison.tail.completes_turn and self._shows_past
        return [self._choose_line(sent_update)] if has_new_end else []

    def _sort_words(self, message: SentMessage) -> list[bytes]:
        """The lines to send now that a message of the agent has come so far."""
        place = self._comparison.place
        if not message.is_new and (span := place.ensure_span(message)) is not None and self._client_saw_span(span):
            return []  # word for word what the client saw next, so far
        new_part = self._comparison.find_new_part(message) if self._hides_replay and not message.is_new else None
        was_new, message.is_new = message.is_new, True
        if new_part is not None:  # the client has seen how this message begins, and what came with it
            self._take_waiting()
            return new_part
        if self._client_saw_past and place.skip_reply(message):
            return self._drop()  # other words before it (gemini: "[Thought: true]"), but it ends with that answer
        # Other words than the transcript's answer, with known turns after it. If one of them follows, these were that
        # answer, which the client has seen in its own words; if nothing follows, they are new.
        self._is_reworded = self._client_saw_past and place.is_before_known_turn and not self._agent_lacks_past
        if self._is_reworded:
            return []
        if self._client_saw_past and not was_new:
            self._drop_known(incoming_count=len(message.updates))
        return self._take_waiting()

    def _sort_rest(self) -> list[bytes]:
        message = self._comparison.current_message
        is_shown = message is not None and message.role is Role.AGENT and not message.is_new
        self._comparison.end_message()
        if message is not None and self._client_saw_message(message):
            self._drop_known()
            return self._take_waiting()
        # Without words of the agent after them, user messages and thoughts are a part of the history, as the client
        # has seen it, except a user message that the transcript lacks.
        is_neutral = self._client_saw_past and (message is None or message.role is not Role.AGENT)
        if is_neutral and self._comparison.is_tail_new_without_reply:
            self._drop_known()
            return self._take_waiting()
        return self._drop() if is_shown or (is_neutral and not self._is_reworded) else self._take_waiting()

    @property
    def _client_saw_past(self) -> bool:
        """Whether the client has seen what the agent replays: in the transcript, or because it comes once more."""
        return self._hides_replay or self._comparison.place.user_cursor.has_restarted

    def _client_saw_message(self, message: SentMessage) -> bool:
        """Whether the client has seen a user message or a thought that is complete, whatever follows it."""
        return message.is_repeated or ((message.is_known_without_reply or message.is_context) and self._client_saw_past)

    def _client_saw_span(self, span: Span) -> bool:
        return self._hides_replay or self._comparison.place.spans.has_sent_earlier(span)

    def _drop(self) -> list[bytes]:
        self._take_waiting()
        return []

    def _drop_known(self, *, incoming_count: int = 0) -> None:
        """The client has seen this message, and no known words need to follow it: what waited came before or in it,
        except messages that the transcript lacks. What follows may be new, and must not bring it along.

        ``incoming_count``: how many updates the message that is coming has, which stay."""
        end = max(0, len(self._undecided_updates) - incoming_count)
        self._undecided_updates[:end] = filter(self._comparison.tail.is_in_tail, self._undecided_updates[:end])

    def _take_waiting(self) -> list[bytes]:
        updates, self._undecided_updates = self._undecided_updates, []
        self._size, self._is_reworded = 0, False
        return [*map(self._choose_line, updates)]

    def _choose_line(self, update: SentUpdate) -> bytes:
        """The line to send, with the call id that the client knows."""
        return update.line if self._hides_replay else update.original_line
