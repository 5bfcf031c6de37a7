"""What an agent tells of a session, compared with what its transcript says: known, new or missing.

Fed message by message, in order, with what the agent tells between a request to open a session and the next prompt,
before its answer and behind it alike. The agent's words are known if their letters stand in the transcript behind
what was known before; a tool call by its id, or else as the next one of its title; any other kind if it is equal.
The user's words and thoughts are neutral, but a message of the user's that the transcript has says where in it the
agent is. What follows the last known message is the ``tail``: only that can be new. docs/transparency.md has the rules.
"""

from bisect import bisect_left, bisect_right
from itertools import takewhile

from acp_proxy.history.letters import SHORT, Search
from acp_proxy.history.messages import Run, Span, ToldUpdate, merged
from acp_proxy.history.past import CALL_UPDATE, CALLS, PLAN, UNFINISHED, Past, block_letters, digest, shown_by
from acp_proxy.wire import acp

TAIL_LIMIT = 1024 * 1024
"""Bytes of a tail that are kept to be recorded."""
_HALF_SHORT = SHORT // 2
"""Letters with which a message of the user's may begin by chance."""
_CHUNKS = frozenset({acp.USER_CHUNK, acp.AGENT_CHUNK, acp.THOUGHT_CHUNK})
_NEUTRAL = frozenset({acp.USER_CHUNK, acp.THOUGHT_CHUNK, PLAN})


class Comparison:
    def __init__(self, past: Past) -> None:
        self.past = past
        self.at = 0
        """The letter behind the last known one."""
        self.user = 0
        """The next message of the user's."""
        self.spans: list[Span] = []
        """The letters that were told since it began, in order; ``_earlier``: by tellings before that."""
        self._earlier: list[Span] = []
        self.called: set[int] = set()
        """The tool calls that were told."""
        self.users = 0
        """Messages of the user's that were told before the tail."""
        self.told_thoughts = self.told_anything = False
        self.lacks = self.is_odd = self.continues = self.repeats = False
        """What the transcript lacks: words or calls before the tail, a kind that nobody knows, the end of its last
        words; and whether anything was told twice."""
        self.tail: list[ToldUpdate] = []
        self._tail_size = 0
        self._first: list[ToldUpdate] = []
        self._has_unknown = False  # words or calls in the tail
        self._completes = self._rewrites = False
        self._tail_users = 0
        self._is_placed = False
        self._anchor: int | None = None
        self._last_call = -1
        self._ids: dict[str, int | None] = {}
        self._run: Run | None = None
        self._search = Search(past)

    # --- feeding

    def add(self, line: bytes, update: object, *, late: bool) -> int | None:
        """One update of the conversation. The number of the tool call that it is about, where that is known."""
        kind = acp.update_kind(update) or ""
        self.told_anything = True
        told = ToldUpdate(line, kind, late)
        shown = shown_by(update) if kind == acp.AGENT_CHUNK else None
        if kind in _CHUNKS and shown is None:
            self._chunk(told, update)
            return None
        self.end_message()
        if shown is not None:
            return self._call(told, shown)
        if kind in CALLS:
            return self._call(told, update)
        if kind == PLAN:
            self._keep(told)
        elif digest(update) in self.past.others:
            told.stands_somewhere = True
        else:
            self.is_odd = True
            self._keep(told)
        return None

    def end_message(self) -> bool:
        """What was told in chunks is a whole message now; whether it is known."""
        run, self._run = self._run, None
        if run is None or not run.size:
            return False
        if run.kind == acp.USER_CHUNK:
            return self._user(run)
        if run.kind == acp.THOUGHT_CHUNK:
            self.told_thoughts = True
            is_known = self._search.thought(run.text)
            if self._tail_users or not is_known:
                self._keep(*run.pieces)
            return is_known
        return self._words(run)

    @property
    def is_undecided(self) -> bool:
        """Whether the transcript is too long, or the search would have taken too long."""
        return self.past.is_too_long or self._search.is_exhausted

    @property
    def run(self) -> Run | None:
        """The message that is being told in chunks."""
        return self._run

    @property
    def awaits_answer(self) -> bool:
        """Whether the last that was told is a message of the user's to which the transcript has an answer."""
        return self._rewrites

    @property
    def completes(self) -> bool:
        """Whether the tail completes a turn that the transcript has begun."""
        return self._completes

    def follow(self, run: Run) -> bool:
        """Look for what of a message of the agent's is there (``run.span``); whether all of it stands somewhere."""
        if run.span is None:
            run.span = self._find(run.text)
        return run.span is not None

    def tail_lines(self) -> tuple[list[bytes], list[bytes]]:
        """What nobody has in the transcript yet, in order; and what waits behind it for what the agent says next."""
        self.end_message()
        tail = [*self._first, *self.tail]
        end = max((number for number, told in enumerate(tail, 1) if told.kind not in _NEUTRAL), default=0)
        return [told.line for told in tail[:end]], [told.line for told in tail[end:]]

    def new(self) -> list[bytes]:
        """What is to be recorded of it: all from a message of the user's on, since the session went on elsewhere; what
        completes a turn without an answer; else what came behind the answer and stands nowhere in the transcript."""
        self.end_message()
        if self.is_undecided:
            return []
        told_later = {told.line for told in self.tail}  # the end of another replay went before this one
        tail = [*(told for told in self._first if told.line not in told_later), *self.tail]
        if self.past.is_empty:  # the whole replay begins the transcript
            return [told.line for told in tail]
        begins = len(tail) if self._completes else self._turn_begins(tail)
        loose = tail[:begins]
        if not self._completes:
            loose = [told for told in loose if told.late and told.kind not in _NEUTRAL and not told.stands_somewhere]
        return [told.line for told in (*loose, *tail[begins:])]

    @property
    def went_on_elsewhere(self) -> bool:
        return self._turn_begins(self.tail) < len(self.tail)

    def _turn_begins(self, tail: list[ToldUpdate]) -> int:
        """Where a turn begins that was made elsewhere: a message of the user's, and something of the agent's."""
        begins = next((number for number, told in enumerate(tail) if told.kind == acp.USER_CHUNK), len(tail))
        is_answered = any(told.kind not in _NEUTRAL for told in tail[begins:])
        return begins if is_answered else len(tail)

    # --- messages

    def _chunk(self, told: ToldUpdate, update: object) -> None:
        message = acp.text(update, "messageId")
        run = self._run
        if run is None or (run.kind, run.message) != (told.kind, message):
            self.end_message()
            run = self._run = Run(told.kind, message)
        said = block_letters(acp.member(update, "content"))
        if run.said and run.span is not None:
            start, end = run.span
            run.span = (start, end + len(said)) if self.past.words.startswith(said, end) else None
            if run.span is None and self.past.ends_message(end):  # what is new follows at once
                self.end_message()
                run = self._run = Run(told.kind, message)
        run.said.append(said)
        run.size += len(said)
        run.pieces.append(told)

    def _words(self, run: Run) -> bool:
        said = run.text
        span = self._find(said)
        if span is not None:
            if not self._is_behind_new_turn(run):
                self._known([span])
            return True
        if len(run.pieces) > 1 and (spans := self._find_each(run)) is not None:
            self._known(spans)
            return True
        if self._knows_beginning(run):
            return False
        if (rest := self._continued(said)) is not None:
            self._known([rest])
            self.continues = True
        stands = self.continues or self._search.stands(said)
        for told in run.pieces:
            told.stands_somewhere = stands
        self._unknown(*run.pieces)
        return False

    def _is_behind_new_turn(self, run: Run) -> bool:
        """Whether it was told behind the answer, and before that a turn that was made elsewhere: a warning that stands
        in the transcript, and comes with every load."""
        begins = self._turn_begins(self.tail)
        return run.pieces[0].late and begins < len(self.tail) and not self.tail[begins].late

    def _knows_beginning(self, run: Run) -> bool:
        """Whether the first chunks are a message that is known, and the others one that follows at once."""
        span = self._find(run.said[0]) if len(run.said) > 1 else None
        if span is None:
            return False
        (start, end), count = span, 1
        while count < len(run.said) and self.past.words.startswith(run.said[count], end):
            end, count = end + len(run.said[count]), count + 1
        if count == len(run.said) or not self.past.ends_message(end):
            return False
        self._known([(start, end)])
        self.continues |= self.past.is_unfinished and end == len(self.past.words)
        rest = Run(run.kind, run.message)
        rest.said, rest.pieces = run.said[count:], run.pieces[count:]
        rest.size = sum(map(len, rest.said))
        self._words(rest)
        return True

    def _known(self, spans: list[Span]) -> None:
        self.lacks |= self._has_unknown
        for span in spans:
            self._cover(span)
        self.at = spans[-1][1]
        self._is_placed = True
        self._end_tail()

    def _end_tail(self) -> None:
        """Something known follows: what was told before it is nothing new, or how the agent rewrote its history."""
        self.users += self._tail_users
        self.tail, self._tail_size, self._tail_users = [], 0, 0
        self._has_unknown = self._completes = self._rewrites = False

    def _unknown(self, *told: ToldUpdate) -> None:
        if self._rewrites:
            self.lacks = True
            return
        self._has_unknown = True
        self._keep(*told)

    def _keep(self, *told: ToldUpdate) -> None:
        for each in told:
            self._tail_size += len(each.line)
            if self._tail_size <= TAIL_LIMIT:
                self.tail.append(each)

    def _user(self, run: Run) -> bool:
        """A message of the user's: where in the transcript the agent is, if it is there."""
        number = self._next_user(run.text)
        if number is None:
            number = self._begins_again(run.text)
        self._tail_users += 1
        if number is None:
            self._keep(*run.pieces)
            return False
        self._place(number)
        begun = next((form for form in self.past.users[number].forms if run.text.startswith(form)), run.text)
        if rest := run.text[len(begun) :]:  # two messages that nothing stands between
            other = self.past.next_user(rest, self.user)
            other = self._begins_again(rest) if other is None else other
            if other is not None:
                self._tail_users += 1
                self._place(other)
            elif self._completes and not self.past.is_unfinished:  # else it may be context that the agent added
                self._keep(*run.behind(len(begun)))
        return True

    def _place(self, number: int) -> None:
        """The agent is at this message of the user's."""
        if self._is_placed:
            self.lacks |= self._has_unknown
            if self.past.users[number].start < self.at:
                self.repeats = True
                self._earlier, self.spans = merged([*self._earlier, *self.spans]), []
                self._last_call = -1
                self._search.begin_thoughts()
        else:  # before the first message of the user's: a greeting, a warning, turns from before it was recorded
            self.lacks |= self.went_on_elsewhere
            begins = takewhile(lambda told: told.kind != acp.USER_CHUNK, self.tail)
            self._first = [told for told in begins if told.kind not in _NEUTRAL]
            self._anchor = number
        self._is_placed = True
        self._end_tail()
        self.at, self.user = self.past.users[number].start, number + 1
        self._rewrites = self.past.has_answer(number + 1)
        self._completes = not self._rewrites and number + 1 == len(self.past.users)

    def _next_user(self, said: str) -> int | None:
        found = self.past.next_user(said, self.user)
        if found is not None:
            return found
        for number in range(self.user, min(self.user + 2, len(self.past.users))):  # with context, or with the next one
            for form in self.past.users[number].forms:
                if (len(form) >= SHORT and form in said) or (len(form) >= _HALF_SHORT and said.startswith(form)):
                    return number
        return None

    def _begins_again(self, said: str) -> int | None:
        """The first prompt, or the message of the user's that the agent told first: it tells everything once more."""
        for number in (0, self._anchor) if self.past.users else ():
            if number is not None and self._is_placed and said in self.past.users[number].forms:
                return number
        return None

    # --- tool calls

    def _call(self, told: ToldUpdate, update: object) -> int | None:
        id, title, status = (acp.text(update, key) for key in ("toolCallId", "title", "status"))
        if id is None:
            return None
        if id not in self._ids or (told.kind != CALL_UPDATE and self._is_of_earlier_turn(self._ids[id])):
            self._ids[id] = self._find_call(id, title)
        number = self._ids[id]
        if number is None:
            told.stands_somewhere = id in self.past.calls_by_id
            self._unknown(told)
            return None
        known = self.past.calls[number]
        self.lacks |= self._has_unknown
        self.called.add(number)
        self._last_call = max(self._last_call, number)
        self.at = max(self.at, self.past.span(known.turn)[0])
        self._is_placed = True
        self._end_tail()
        if known.status in UNFINISHED and status not in UNFINISHED:
            self.continues = True
            self._keep(told)
            self._completes = True
        return number

    def _is_of_earlier_turn(self, number: int | None) -> bool:
        """Some agents count their calls anew in each turn."""
        return number is not None and self.past.calls[number].turn < self.user

    def _find_call(self, id: str, title: str | None) -> int | None:
        if (numbers := self.past.calls_by_id.get(id)) is not None:
            later = bisect_left(numbers, self._last_call + 1)
            return numbers[later] if later < len(numbers) else numbers[-1]
        if title is None:
            return None
        numbers = self.past.calls_by_title.get(title, [])
        later = bisect_left(numbers, self._last_call + 1)
        return numbers[later] if later < len(numbers) else None

    # --- letters

    @property
    def covered(self) -> list[Span]:
        """All letters that were told, in order."""
        return merged([*self._earlier, *self.spans]) if self._earlier else self.spans

    def was_told(self, span: Span) -> bool:
        """Whether these letters were told before the agent began again."""
        place = bisect_right(self._earlier, (span[0], len(self.past.words))) - 1
        return place >= 0 and self._earlier[place][1] >= span[1]

    def _cover(self, span: Span) -> None:
        if self.spans and self.spans[-1][0] <= span[0] <= self.spans[-1][1]:
            self.spans[-1] = self.spans[-1][0], max(span[1], self.spans[-1][1])
        elif self.spans and span[0] < self.spans[-1][0]:
            self.spans = merged([*self.spans, span])
        else:
            self.spans.append(span)

    def _find(self, said: str) -> Span | None:
        return self._search.words(said, self.at)

    def _find_each(self, run: Run) -> list[Span] | None:
        """Where the chunks of a message stand, if all of them do, in order."""
        spans: list[Span] = []
        at = self.at
        for said in filter(None, run.said):
            span = self._search.words(said, at)
            if span is None:
                return None
            spans.append(span)
            at = span[1]
        return spans or None

    def _continued(self, said: str) -> Span | None:
        """The transcript's last words, where these go on with them."""
        words = self.past.words
        start = max(self.past.messages[-1] if self.past.messages else 0, self.at)
        rest = words[start:]
        return (start, len(words)) if rest and said.startswith(rest) else None
