"""Sorts what an agent sends about a session after its answer: what the client has seen already, and what is new.

``Sieve`` works between the answer and the next prompt. ``InTurn`` works in the turn after that, in which everything is
new except a replay that is still running. Lines keep their order, and wait only while they equal what the client has
seen.
"""

from acp_proxy.history.comparison import Comparison
from acp_proxy.history.messages import Span
from acp_proxy.history.past import CALLS, PLAN, block_letters, digest, shown_by
from acp_proxy.wire import acp

WAITING_LIMIT = 1024 * 1024
"""The most bytes that wait for what the agent sends next."""
_CERTAIN = 16
"""So many equal letters are no coincidence, even if nothing else shows that a replay is running."""


class Sieve:
    """Drops repetitions that come after the agent's answer and before the next prompt."""

    def __init__(self, comparison: Comparison, *, ours: bool, shows_tail: bool = True) -> None:
        """``ours``: the client has seen the transcript; else what the agent sent. ``shows_tail``: its tail too."""
        self._comparison = comparison
        self._ours = ours
        self._waiting: list[bytes] = comparison.tail_lines()[1] if ours and shows_tail else []
        self._size = 0
        self._is_unsure = False
        """Unknown words of the agent wait: the transcript's answer in other words, unless nothing known follows."""

    def add(self, line: bytes, update: object) -> list[bytes]:
        """Take a conversation update: its line, and its parsed ``params.update``. Returns the lines to send now."""
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
            return [] if may_be_seen else self._let_go()
        if kind in CALLS or shown_by(update) is not None:
            return self._let_go() if number is None or not self._was_shown_call(number) else self._drop()
        if kind == acp.AGENT_CHUNK and run is not None:
            if not run.is_new and comparison.follow(run) and run.span is not None and self._was_shown(run.span):
                return []
            run.is_new = True
            was_shown = self._ours or comparison.begins_again
            if was_shown and comparison.ends_in_answer(run):
                return self._drop()
            self._is_unsure = was_shown and comparison.is_before_known_turn
            return [] if self._is_unsure else self._let_go()
        is_known = digest(update) in comparison.past.others
        return self._drop() if is_known and self._ours else self._let_go()

    def rest(self) -> list[bytes]:
        """The waiting lines that the client has not seen, since nothing more comes."""
        run = self._comparison.run
        is_shown = run is not None and run.kind == acp.AGENT_CHUNK and not run.is_new
        self._comparison.end_message()
        is_alone = self._ours and (run is None or run.kind != acp.AGENT_CHUNK)  # a user message without an answer
        return self._drop() if is_shown or (is_alone and not self._is_unsure) else self._let_go()

    def _was_shown(self, span: Span) -> bool:
        return self._ours or self._comparison.was_told(span)

    def _was_shown_call(self, number: int) -> bool:
        """Whether the client has seen what is sent about a known call. The end of an unfinished call is new."""
        return (self._ours or self._comparison.begins_again) and not self._comparison.completes

    def _drop(self) -> list[bytes]:
        self._waiting, self._size, self._is_unsure = [], 0, False
        return []

    def _let_go(self) -> list[bytes]:
        waiting = self._waiting
        self._drop()
        return waiting


class InTurn:
    """Follows a replay that is still running when the client prompts, or that begins after that."""

    def __init__(self, comparison: Comparison, *, ours: bool, echo_ends: bool = False) -> None:
        """``echo_ends``: the echo of the prompt ends a replay that is still running."""
        self._echo_ends = echo_ends
        self.ours = ours
        """Whether the client has seen the whole transcript, so that it must not get the repetition."""
        self._past = comparison.past
        self._at, self._user = comparison.at, comparison.user
        is_at_end = self._at >= len(self._past.words) and self._user >= len(self._past.users)
        self.is_running = comparison.told_anything and not is_at_end
        self._is_certain = comparison.awaits_answer
        """Whether the last thing that the agent sent is a user message that the transcript has."""
        self._calls: set[str] = set()
        self._unsure: list[bytes] = []
        """Plans and known thoughts, which say nothing alone: what the agent sends next decides about them."""
        self._unsure_size = 0
        self._held: list[bytes] = []
        self._said = ""
        self._run: tuple[str, str | None] | None = None

    def add(self, line: bytes, update: object, prompts: list[str]) -> list[tuple[bytes, bool]]:
        """Take an update of a turn: its line, and its parsed ``params.update``.

        ``prompts``: the letters of the open prompts without an echo; an echoed one is removed. Returns lines in order,
        each with whether it is new. A line that waits is returned by a later call, or by ``rest``.
        """
        kind = acp.update_kind(update) or ""
        run = (kind, acp.text(update, "messageId"))
        out = self._ended(kind) if run != self._run else []
        self._run = run
        if kind == acp.USER_CHUNK:
            return out + self._user_said(line, block_letters(acp.member(update, "content")), prompts)
        if not self.is_running:
            return [*out, (line, True)]
        if (shown := shown_by(update)) is not None:
            return [*out, *self._decided(line, is_new=not self._is_told_again(acp.TOOL_CALL, shown))]
        if kind == acp.AGENT_CHUNK:
            return out + self._agent_said(line, block_letters(acp.member(update, "content")))
        if kind == PLAN or (kind == acp.THOUGHT_CHUNK and self._is_known_thought(update)):
            self._unsure.append(line)
            self._unsure_size += len(line)
            return out + (self._decide(is_new=True) if self._unsure_size > WAITING_LIMIT else [])
        return [*out, *self._decided(line, is_new=not self._is_told_again(kind, update))]

    def rest(self) -> list[tuple[bytes, bool]]:
        """The waiting lines, each with whether it is new, since the turn is over."""
        return self._ended("") + self._decide(is_new=not self._is_certain)

    def _user_said(self, line: bytes, said: str, prompts: list[str]) -> list[tuple[bytes, bool]]:
        self._said += said
        self._held.append(line)
        echoed = next((prompt for prompt in prompts if prompt.startswith(self._said)), None)
        if echoed is not None:
            if echoed == self._said:
                prompts.remove(echoed)
                self.is_running = self.is_running and not self._echo_ends
            return self._decide(is_new=False) + self._let_go(is_new=True, ends=False)
        places = (
            (self._said, self._user),
            (self._said, 0),
            (said, 0),
        )  # where it goes on, from the beginning, in context
        number = next((found for place in places if (found := self._past.next_user(*place)) is not None), None)
        forms = self._past.users[number].forms if number is not None else []
        if (sent := next((prompt for prompt in prompts if prompt in forms), None)) is not None:
            prompts.remove(sent)  # the user repeats a prompt, and the agent echoes it as before
            return self._decide(is_new=False) + self._let_go(is_new=True, ends=False)
        if number is not None:
            self.is_running = self._is_certain = True
            self._at, self._user = self._past.users[number].begins(self._at), number + 1
            return self._let_go(is_new=False)
        if self._is_certain:
            return []  # perhaps a known message within context: what the agent sends next will show
        following = [*self._past.users[self._user : self._user + 1], *self._past.users[:1]]
        if any(form.startswith(self._said) for user in following for form in user.forms):
            return []
        self.is_running = False
        return self._let_go(is_new=True)

    def _agent_said(self, line: bytes, said: str) -> list[tuple[bytes, bool]]:
        told = self._said
        self._said += said
        if self._place() is not None:
            self._held.append(line)
            return []
        out: list[tuple[bytes, bool]] = []
        self._said = told
        if told and self._is_whole():  # a new message follows a known one
            out = self._ended(acp.AGENT_CHUNK)
            self._said = said
            if self._place() is not None:
                self._held.append(line)
                return out
        self._held.append(line)
        self.is_running = False
        return out + self._let_go(is_new=True)

    def _is_whole(self) -> bool:
        """Whether a message in the transcript ends where the words of the current message end."""
        place = self._place()
        return place is not None and self._past.ends_message(place + len(self._said))

    def _place(self) -> int | None:
        """The offset in ``past.words`` of the current message's words: the expected one, or a later one in its turn."""
        words = self._past.words
        if words.startswith(self._said, self._at):
            return self._at
        if not self._is_certain:
            return None
        end = self._past.span(self._user)[1] if self._user else 0
        found = words.find(self._said, self._at, end)
        return found if found >= 0 else None

    def _ended(self, following: str) -> list[tuple[bytes, bool]]:
        """End a message, and return its lines. It is a repetition if its words are known, and enough not to be a
        coincidence. ``following``: the kind of the update that comes now."""
        was_user = self._run is not None and self._run[0] == acp.USER_CHUNK
        if was_user and self._held and self.is_running and following == acp.AGENT_CHUNK:
            self._said = ""
            return []  # the agent's words decide about it
        place = self._place() if self._held and self.is_running and not was_user and self._said else None
        if place is not None and (self._is_certain or len(self._said) >= _CERTAIN):
            self._at = place + len(self._said)
            return self._let_go(is_new=False)
        return self._let_go(is_new=True)

    def _is_told_again(self, kind: str, update: object) -> bool:
        if kind in CALLS:
            id = acp.text(update, "toolCallId") or ""
            if id in self._past.calls_by_id:
                self._calls.add(id)
                self._is_certain = True
            else:
                self.is_running = False
            return id in self._calls
        return kind != acp.THOUGHT_CHUNK and digest(update) in self._past.others

    def _is_known_thought(self, update: object) -> bool:
        return block_letters(acp.member(update, "content")) in self._past.thoughts

    def _let_go(self, *, is_new: bool, ends: bool = True) -> list[tuple[bytes, bool]]:
        held, self._held = self._held, []
        if ends:
            self._said = ""
        return [*(self._decide(is_new=is_new) if held else []), *((line, is_new) for line in held)]

    def _decided(self, line: bytes, *, is_new: bool) -> list[tuple[bytes, bool]]:
        return [*self._decide(is_new=is_new), (line, is_new)]

    def _decide(self, *, is_new: bool) -> list[tuple[bytes, bool]]:
        """Return what waits for what the agent sends next, which is new or not."""
        unsure, self._unsure, self._unsure_size = self._unsure, [], 0
        return [(line, is_new) for line in unsure]
