"""Sorts what an agent sends about a session after its answer: what the client has seen already, and what is new.

``Sieve`` works between the answer and the next prompt: a line waits only while it equals what the client has seen.
``InTurn`` works in the turn after that, in which what the agent says passes, except a replay that provably runs.
"""

from acp_proxy.comparison.compare import Comparison, Span
from acp_proxy.comparison.transcript_text import CALLS, PLAN, block_letters, digest, shown_by
from acp_proxy.protocol import acp

WAITING_LIMIT = 1024 * 1024
"""The most bytes that wait for what the agent sends next."""
Sorted = tuple[bytes, bool, bool]
"""A line of a turn, whether to send it to the client now, and whether to record it now."""


class Sieve:
    """Drops repetitions that come after the agent's answer and before the next prompt."""

    def __init__(self, comparison: Comparison, *, ours: bool, shows_tail: bool = True) -> None:
        """``ours``: the client has seen the transcript; else what the agent sent. ``shows_tail``: its tail too; else it
        gets no replay, which is known by its first user message."""
        self._comparison = comparison
        self._ours = ours
        self._shows_tail = shows_tail
        self._is_replay = False
        self._waiting: list[bytes] = comparison.tail_lines()[1] if ours and shows_tail else []
        self._size = 0
        self._is_unsure = False
        """Unknown words of the agent wait: the transcript's answer in other words, unless nothing known follows."""

    def add(self, line: bytes, update: object) -> list[bytes]:
        """Take a conversation update: its line, and its parsed ``params.update``. Returns the lines to send now."""
        self._is_replay = self._is_replay or acp.update_kind(update) == acp.USER_CHUNK
        return self._without_replay(self._sort(line, update))

    def rest(self) -> list[bytes]:
        """The waiting lines that the client has not seen, since nothing more comes."""
        return self._without_replay(self._sort_rest())

    def _without_replay(self, lines: list[bytes]) -> list[bytes]:
        """Nothing of a replay, for a client that gets none. Nobody typed that user message here, so it is history."""
        return lines if self._shows_tail or not self._is_replay else []

    def _sort(self, line: bytes, update: object) -> list[bytes]:
        comparison, kind = self._comparison, acp.update_kind(update)
        run = comparison.run
        before = run
        number = comparison.add(line, update, late=True)
        run = comparison.run
        if before is not None and run is not before and before.kind == acp.AGENT_CHUNK and not before.is_new:
            self._drop()  # the client has seen this message, and what came with it
        self._waiting.append(line)
        self._size += len(line)
        if self._size > WAITING_LIMIT:
            return self._let_go()
        if kind in (acp.USER_CHUNK, acp.THOUGHT_CHUNK, PLAN):
            may_be_seen = self._ours or comparison.begins_again or comparison.may_begin_again
            return [] if may_be_seen and not comparison.is_going_on else self._let_go()
        if kind in CALLS or shown_by(update) is not None:
            if number is None or not (self._ours or comparison.begins_again):
                return self._let_go()
            self._drop()  # what came before a known call is known too, but the end of an unfinished call is new
            return [line] if comparison.completes else []
        if kind == acp.AGENT_CHUNK and run is not None:
            if not run.is_new and comparison.follow(run) and run.span is not None and self._was_shown(run.span):
                return []
            rest = comparison.rest(run) if self._ours and not run.is_new else None
            run.is_new = True
            if rest is not None:  # the client has seen how this message begins, and what came with it
                self._waiting = rest
                return self._let_go()
            was_shown = self._ours or comparison.begins_again
            if was_shown and comparison.skip_answer(run):
                return self._drop()
            self._is_unsure = was_shown and comparison.is_before_known_turn
            return [] if self._is_unsure else self._let_go()
        is_known = digest(update) in comparison.past.others
        return self._drop() if is_known and self._ours else self._let_go()

    def _sort_rest(self) -> list[bytes]:
        run = self._comparison.run
        is_shown = run is not None and run.kind == acp.AGENT_CHUNK and not run.is_new
        self._comparison.end_message()
        is_alone = self._ours and (run is None or run.kind != acp.AGENT_CHUNK)  # a user message without an answer
        if is_alone and self._comparison.goes_on:
            new = {line for part in self._comparison.tail_lines() for line in part}
            return [line for line in self._let_go() if line in new]
        return self._drop() if is_shown or (is_alone and not self._is_unsure) else self._let_go()

    def _was_shown(self, span: Span) -> bool:
        return self._ours or self._comparison.was_told(span)

    def _drop(self) -> list[bytes]:
        self._waiting, self._size, self._is_unsure = [], 0, False
        return []

    def _let_go(self) -> list[bytes]:
        waiting = self._waiting
        self._drop()
        return waiting


class InTurn:
    """Finds a replay that still runs when the client prompts, or that begins after that.

    What the agent says in a turn goes to the client at once. Equal words prove nothing: agents say the same twice, and
    leave turns out of their replays. Only a user message proves a replay, if it is no echo, and is the next one of the
    replay before the prompt, or the transcript's first one. What follows it is not new as long as it goes on in order.

    If the replay before the prompt stops in the middle of a turn, what goes on there in order is sent at once too, but
    recorded only when something else follows. It belongs to the replay if such a user message or an echo follows.
    """

    def __init__(self, comparison: Comparison, *, ours: bool) -> None:
        """``ours``: the client has seen the whole transcript, so it must not get the repetition."""
        self._past = comparison.past
        self._ours = ours
        self._at, self._user = comparison.at, comparison.user
        self._goes_on = comparison.stops_in_turn
        """Whether what the agent says next may go on in order."""
        self._is_proven = self._is_next_user = False
        """Whether a user message has proved a replay, and whether the user message that is coming does."""
        self._waiting: list[tuple[bytes, bool]] = []
        """Lines that may belong to the replay and are not recorded, each with whether it was sent."""
        self._size = 0
        self._said = ""
        """The letters of the message that is coming, if it may belong to the replay."""
        self._run: tuple[str, str | None] | None = None

    @property
    def is_running(self) -> bool:
        """Whether other updates than user messages may belong to a replay."""
        return self._goes_on or bool(self._waiting)

    def add(self, line: bytes, update: object, prompts: list[str]) -> list[Sorted]:
        """Take an update of a turn: its line, and its parsed ``params.update``.

        ``prompts``: the letters of the open prompts without an echo; an echoed one is removed. A line that was not sent
        or not recorded comes back later, from this or from ``rest``, unless it belongs to a replay.
        """
        kind = acp.update_kind(update) or ""
        run = (kind, acp.text(update, "messageId"))
        out = self._end_message() if run != self._run else []
        self._run = run
        said, shown = block_letters(acp.member(update, "content")), shown_by(update)
        if kind == acp.USER_CHUNK:
            return out + self._add_user(line, said, prompts)
        if not self._goes_on:
            return out + self._pass(line)
        if kind == acp.AGENT_CHUNK and shown is None:
            return out + self._add_words(line, said)
        if kind in CALLS or shown is not None:
            return out + self._add_call(line, shown or update)
        is_known = kind == PLAN or (
            said in self._past.thoughts if kind == acp.THOUGHT_CHUNK else digest(update) in self._past.others
        )
        return out + (self._wait(line) if is_known else self._pass(line))

    def rest(self) -> list[Sorted]:
        """The lines that wait, since the turn is over, or something comes that must not overtake them."""
        out = self._end_message()
        self._run = None
        return out + self._decide(is_new=True)

    def _add_user(self, line: bytes, said: str, prompts: list[str]) -> list[Sorted]:
        self._said += said
        number = self._next_user(self._said)
        if number is None:  # within context
            number = self._next_user(said)
        forms = [self._said, *(self._past.users[number].forms if number is not None else [])]
        echoed = next((prompt for prompt in prompts if prompt in forms), None)
        if echoed is not None or any(prompt.startswith(self._said) for prompt in prompts):
            if echoed is not None:
                prompts.remove(echoed)
            self._goes_on = self._is_proven = self._is_next_user = False
            return [*self._decide(is_new=False), (line, True, True)]
        self._is_next_user = number is not None
        if number is not None:
            out = self._decide(is_new=False)
            self._goes_on = self._is_proven = True
            self._at, self._user = self._past.users[number].begins(self._at), number + 1
            return out + self._wait(line)
        following = [*self._past.users[self._user : self._user + 1], *self._past.users[:1]]
        if any(form.startswith(self._said) for user in following for form in user.forms):
            return self._wait(line)
        return self._break_off(line)

    def _next_user(self, said: str) -> int | None:
        """The index of the user message with these letters that proves a replay, if it does."""
        if self._user and (found := self._past.next_user(said, self._user)) is not None:
            return found
        return 0 if self._past.users and said in self._past.users[0].forms else None

    def _add_words(self, line: bytes, said: str) -> list[Sorted]:
        out: list[Sorted] = []
        if not self._is_next(said):
            is_whole = bool(self._said) and self._past.ends_message(self._at + len(self._said))
            out = self._end_message() if is_whole else []
            if not (is_whole and self._is_next(said)):
                return out + self._break_off(line)
        self._said += said
        return out + self._wait(line)

    def _is_next(self, said: str) -> bool:
        """Whether the message that is coming goes on with these letters in the transcript, within its turn."""
        return self._past.words.startswith(said, self._at + len(self._said), self._past.latest_end(self._user))

    def _add_call(self, line: bytes, fields: object) -> list[Sorted]:
        numbers = self._past.calls_by_id.get(acp.text(fields, "toolCallId") or "", ())
        if not any(number in self._past.calls_of(self._user) for number in numbers):
            return self._break_off(line)
        out = self._wait(line)
        return out + (self._decide(is_new=False) if self._is_proven else [])

    def _end_message(self) -> list[Sorted]:
        said, self._said = self._said, ""
        if self._run is None or not said:
            return []
        if self._run[0] == acp.USER_CHUNK:
            if self._is_next_user and self._past.has_answer(self._user):
                return []  # the agent's words decide about it too
            return self._decide(is_new=not self._is_next_user)
        self._at += len(said)
        if not self._is_proven:
            return []
        if not self._past.ends_message(self._at):
            self._goes_on = self._is_proven = False
        return self._decide(is_new=not self._is_proven)

    def _wait(self, line: bytes) -> list[Sorted]:
        """Keep a line until it is known whether it is new. It is sent now, unless it belongs to a proven replay."""
        is_user = self._run is not None and self._run[0] == acp.USER_CHUNK
        is_sent = not (self._ours and (self._is_proven or is_user))
        self._waiting.append((line, is_sent))
        self._size += len(line)
        out = [(line, True, False)] if is_sent else []
        return out + (self._break_off() if self._size > WAITING_LIMIT else [])

    def _break_off(self, *line: bytes) -> list[Sorted]:
        """Something comes that does not go on in order."""
        self._goes_on = self._is_proven = self._is_next_user = False
        return self._pass(*line)

    def _pass(self, *lines: bytes) -> list[Sorted]:
        return [*self._decide(is_new=True), *((line, True, True) for line in lines)]

    def _decide(self, *, is_new: bool) -> list[Sorted]:
        waiting, self._waiting, self._size = self._waiting, [], 0
        return [(line, not is_sent, True) for line, is_sent in waiting] if is_new else []
