"""Compares what an agent sends about a session with its transcript, and finds what is known, new or missing.

The input is every conversation update that the agent sends between a request to open the session and the next prompt,
in order, before and after its answer. The agent's words are known if the transcript contains their letters after the
last known place; a tool call is known by its id, or else as the next call with the same title; an update of any other
kind is known if the transcript has an equal one. User messages and thoughts are neutral, but a user message in the
transcript marks the agent's position there. What follows the last known message is the tail; only the tail can be new.

Never raises on what an agent sends. Texts are compared without white space. docs/transparency.md has the rules.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from itertools import accumulate, takewhile

from msgspec import Struct
from msgspec.structs import replace

from acp_proxy.comparison.transcript_text import (
    UNFINISHED,
    TextBuilder,
    TranscriptText,
    block_letters,
    digest,
    shown_by,
)
from acp_proxy.protocol import acp, jsonrpc, update_kinds, v2_updates

# --- The pieces of what an agent sends: updates, messages made of chunks, and spans of letters.


Span = tuple[int, int]
"""A range of letters: the offset of the first one, and of the one after the last."""


class ComparedUpdate(Struct):
    """An update. ``late``: it came after the agent's answer. ``stands_somewhere``: the transcript has it somewhere.
    ``goes_on``: it is a user message that follows the transcript's last turn."""

    line: bytes
    kind: str
    late: bool
    stands_somewhere: bool = False
    goes_on: bool = False


class ChunkRun:
    """Adjacent chunks of one message. ``said``: the letters of each chunk. ``size``: how many letters in all."""

    def __init__(self, kind: str, message: str | None) -> None:
        """``message``: the ``messageId``, if there is one."""
        self.kind = kind
        self.message = message
        self.said: list[str] = []
        self.size = 0
        self.pieces: list[ComparedUpdate] = []
        self._joined: str | None = None
        self.span: Span | None = None
        """The place of all its letters in the transcript, if they have been looked for and found."""
        self.is_new = False

    @property
    def text(self) -> str:
        """The letters of all chunks."""
        if self._joined is None or len(self._joined) != self.size:
            self._joined = "".join(self.said)
        return self._joined

    def behind(self, size: int) -> list[ComparedUpdate]:
        """The chunks that begin after the first ``size`` letters."""
        starts = accumulate((len(said) for said in self.said), initial=0)
        return [told for told, start in zip(self.pieces, starts, strict=False) if start >= size]

    def divided(self, size: int) -> list[ComparedUpdate] | None:
        """The chunks behind the first ``size`` letters; the chunk that has the last of these, without them.

        None if that chunk cannot be divided: it is no chunk of text, or its letters were masked in the transcript.
        """
        out: list[ComparedUpdate] = []
        for told, said in zip(self.pieces, self.said, strict=True):
            if 0 < size < len(said):
                text = acp.text(acp.member(acp.update_of(told.line), "content"), "text") or ""
                if acp.update_kind(acp.update_of(told.line)) != self.kind or "".join(text.split()) != said:
                    return None
                try:
                    out.append(replace(told, line=acp.with_chunk_text(told.line, behind(text, size))))
                except (ValueError, KeyError):  # the line says something twice
                    return None
            elif size <= 0:
                out.append(told)
            size -= len(said)
        return out

    def rest(self, count: int) -> "ChunkRun":
        """The chunks after the first ``count``, as a message of their own."""
        rest = ChunkRun(self.kind, self.message)
        rest.said, rest.pieces = self.said[count:], self.pieces[count:]
        rest.size = sum(map(len, rest.said))
        return rest


def behind(text: str, size: int) -> str:
    """The text behind its first ``size`` letters, which are all characters but white space."""
    for at, each in enumerate(text):
        if not size:
            return text[at:]
        size -= not each.isspace()
    return ""


def merged(spans: list[Span]) -> list[Span]:
    """The spans in order, with overlapping and adjacent ones joined."""
    out: list[Span] = []
    for start, end in sorted(spans):
        if out and start <= out[-1][1]:
            out[-1] = out[-1][0], max(end, out[-1][1])
        else:
            out.append((start, end))
    return out


# --- Finds letters in a transcript within a budget, so that every comparison takes a fraction of a second.


_BUDGET = 32 * 1024 * 1024
"""The most letters that are searched in one comparison. One that needs more is left undecided."""
_LOOK = 256
"""The least that one search costs, in letters, however near its result is."""
SHORT = 16
"""A text with fewer letters may be found anywhere by chance, so it counts only at the beginning of a message."""


class Search:
    """The searches of one comparison, with their budget."""

    def __init__(self, past: TranscriptText) -> None:
        self.is_exhausted = False
        """Whether the budget ended before a search did."""
        self._past = past
        self._budget = self._thought_budget = _BUDGET
        self._thought_at = 0

    def words(self, said: str, at: int) -> Span | None:
        """The first place of these letters from the offset ``at`` on, or None.

        A short text must stand exactly at the offset, or at the beginning of a message.
        """
        words = self._past.words
        if words.startswith(said, at):
            return at, at + len(said)
        while self._budget > 0:
            found = words.find(said, at)
            self._budget -= (found if found >= 0 else len(words)) - at + len(said) + _LOOK
            if found < 0:
                return None
            if len(said) >= SHORT or self._past.begins_message(found):
                return found, found + len(said)
            at = found + 1
        self.is_exhausted = True
        return None

    def thought(self, said: str) -> bool:
        """Whether the transcript has these thoughts after the last known ones. False if the budget is spent."""
        if self._thought_budget <= 0:
            return False
        thoughts, at = self._past.thoughts, self._thought_at
        found = thoughts.find(said, at)
        self._thought_budget -= (found if found >= 0 else len(thoughts)) - at + len(said) + _LOOK
        self._thought_at = found + len(said) if found >= 0 else at
        return found >= 0

    def begin_thoughts(self) -> None:
        """Search for thoughts from the first one again, since another replay begins."""
        self._thought_at = 0

    def stands(self, said: str) -> bool:
        """Whether the transcript has these letters anywhere. False if the budget is spent."""
        if self._budget <= 0:
            self.is_exhausted = True
            return False
        self._budget -= len(self._past.words) + _LOOK
        return said in self._past.words


# --- Keeps what an agent sends after the last known message: only this can be new, and only if nothing known follows.


TAIL_LIMIT = 1024 * 1024
"""The most bytes of a tail that can be recorded."""


class Tail:
    """The tail of one comparison."""

    def __init__(self) -> None:
        self.users = 0
        """How many user messages it has."""
        self.has_unknown = False
        """Whether it has words or calls that the transcript lacks."""
        self.completes = False
        """Whether it completes a turn that the transcript has begun."""
        self.is_rest = False
        """Whether it follows the last words of a turn that was cut, so that new words or calls in it are the rest."""
        self._told: list[ComparedUpdate] = []
        self._size = 0
        self._first: list[ComparedUpdate] = []  # what came before the first known message, such as a greeting

    def keep(self, *told: ComparedUpdate) -> None:
        """Add updates, up to the limit."""
        for each in told:
            self._size += len(each.line)
            if self._size <= TAIL_LIMIT:
                self._told.append(each)

    def clear(self) -> None:
        """Something known follows."""
        self._told, self._size, self.users = [], 0, 0
        self.has_unknown = self.completes = self.is_rest = False

    def begins_history(self) -> None:
        """The first known user message follows: what comes before the first user message may still be new."""
        begins = takewhile(lambda told: told.kind != update_kinds.USER_CHUNK, self._told)
        self._first = [told for told in begins if told.kind not in update_kinds.NEUTRAL]

    @property
    def goes_on(self) -> bool:
        """Whether it has a user message that follows the transcript's last turn, answered or not."""
        return any(told.goes_on for told in self._told)

    def end_turn(self) -> None:
        """The transcript's last turn has not ended: no user message of the tail follows it."""
        for told in self._told:
            told.goes_on = False

    def lines(self, *, may_be_past: bool) -> tuple[list[bytes], list[bytes]]:
        """All lines, in two parts: those that are new, and the neutral ones after them, which depend on what the agent
        sends next. ``may_be_past``: a user message without an answer is one of these."""
        told = [*self._first, *self._told]
        end = _last_answer(told) if may_be_past else _end(told)
        return [each.line for each in told[:end]], [each.line for each in told[end:]]

    def new(self, *, is_all_new: bool, is_open_elsewhere: bool | None) -> list[bytes]:
        """The lines to record. ``is_all_new``: the transcript is empty. ``is_open_elsewhere``: see ``Comparison``."""
        told_later = {told.line for told in self._told}  # an earlier replay may have ended with the same lines
        tail = [*(told for told in self._first if told.line not in told_later), *self._told]
        if is_all_new:
            return [told.line for told in tail]
        if self.completes and not is_open_elsewhere:
            return [told.line for told in tail[: _end(tail)]]  # what is not shown is not recorded
        begins = _turn_begins(tail, is_answered=self.goes_on and not is_open_elsewhere)
        if self.is_rest and is_open_elsewhere is False and any(map(_is_missing, self._told)):
            begins, tail = len(tail) - len(self._told), tail[: _end(tail)]
        loose = [told for told in tail[:begins] if told.late and told.kind not in update_kinds.NEUTRAL]
        return [told.line for told in (*(told for told in loose if not told.stands_somewhere), *tail[begins:])]

    @property
    def has_turn(self) -> bool:
        """Whether it has a turn: a user message and something from the agent."""
        return _turn_begins(self._told) < len(self._told)

    def outlasts(self, run: ChunkRun) -> bool:
        """Whether a known message does not end the tail: it came after the agent's answer, and a turn made elsewhere
        before it. Such words are a warning that comes with every load."""
        begins = _turn_begins(self._told)
        return run.pieces[0].late and begins < len(self._told) and not self._told[begins].late


def _is_missing(told: ComparedUpdate) -> bool:
    """Whether these are words or a call that the transcript has nowhere."""
    return told.kind in (update_kinds.AGENT_CHUNK, *update_kinds.CALLS) and not told.stands_somewhere


def _turn_begins(tail: list[ComparedUpdate], *, is_answered: bool = False) -> int:
    """The index of the first user message, if anything from the agent follows it or need not; else the length."""
    begins = next((number for number, told in enumerate(tail) if told.kind == update_kinds.USER_CHUNK), len(tail))
    is_answered = is_answered or any(told.kind not in update_kinds.NEUTRAL for told in tail[begins:])
    return begins if is_answered else len(tail)


def _end(tail: list[ComparedUpdate]) -> int:
    """How many updates are shown and recorded whatever follows: all, if a user message goes on behind the last turn."""
    return len(tail) if any(told.goes_on for told in tail) else _last_answer(tail)


def _last_answer(tail: list[ComparedUpdate]) -> int:
    """How many updates there are up to the last one that is not neutral."""
    return max((number for number, each in enumerate(tail, 1) if each.kind not in update_kinds.NEUTRAL), default=0)


_HALF_SHORT = SHORT // 2
"""A user message counts as the start of a longer one only if it has at least this many letters."""


class Comparison:
    """The state of one comparison: feed it with ``add``, then ask ``verdict``, ``new`` or ``tail_lines``."""

    def __init__(self, past: TranscriptText, mask: Callable[[bytes], bytes] | None = None) -> None:
        """``mask``: masks secrets in JSON, as they are masked in the transcript; None: none are."""
        self.past = past
        self._mask = mask
        self.at = 0
        """The offset after the last known letter, in ``past.words``."""
        self.user = 0
        """The index of the next user message, in ``past.users``."""
        self.spans: list[Span] = []
        """The known letters of the current replay, in order; ``_earlier``: those of replays before it."""
        self._earlier: list[Span] = []
        self.called: set[int] = set()
        """The indexes in ``past.calls`` of the tool calls that were sent again."""
        self.ids: dict[tuple[str, bytes], str] = {}
        """By ``User.key``: the ids of the user's messages in the agent's replay."""
        self.users = 0
        """How many user messages came before the tail."""
        self.placed: set[int] = set()
        """The indexes in ``past.users`` of the user messages that were sent again."""
        self.told_thoughts = self.told_anything = False
        self.begins_again = False
        """The agent began its replay once more: what it sends now, the client may have seen."""
        self.lacks = self.is_odd = self.continues = self.repeats = False
        """``lacks``: the transcript lacks words or calls from before the tail. ``is_odd``: it lacks an update of
        another kind. ``continues``: it lacks the end of its last words or call. ``repeats``: something was sent
        twice."""
        self._tail = Tail()
        self._rewrites = False
        self._is_placed = False
        self._anchor: int | None = None
        self._last_call = -1
        self._ids: dict[str, int | None] = {}
        self._run: ChunkRun | None = None
        self._search = Search(past)

    # --- feeding

    def add(self, line: bytes, update: object, *, late: bool) -> int | None:
        """Take one conversation update: its line, and its parsed ``params.update``.

        ``late``: it came after the agent's answer. Returns the index in ``past.calls`` if it is about a known call.
        """
        update = self._as_recorded(update)
        kind = acp.update_kind(update) or ""
        self.told_anything = True
        told = ComparedUpdate(line, kind, late)
        shown = shown_by(update) if kind == update_kinds.AGENT_CHUNK else None
        if kind in update_kinds.CHUNKS and shown is None:
            self._chunk(told, update)
            return None
        self.end_message()
        if shown is not None:
            return self._call(told, shown)
        if kind in update_kinds.CALLS:
            return self._call(told, update)
        if kind == update_kinds.PLAN:
            self._tail.keep(told)
        elif digest(update) in self.past.others:
            told.stands_somewhere = True
        else:
            self.is_odd = True
            self._tail.keep(told)
        return None

    def end_message(self) -> bool:
        """End the message that is coming in chunks. Returns whether the transcript has it."""
        run, self._run = self._run, None
        if run is None or not run.size:
            return False
        if run.kind == update_kinds.USER_CHUNK:
            return self._user(run)
        if run.kind == update_kinds.THOUGHT_CHUNK:
            self.told_thoughts = True
            is_known = self._search.thought(run.text)
            if self._tail.users or not is_known:
                self._tail.keep(*self._behind_last_thought(run))
            return is_known
        return self._words(run)

    @property
    def is_undecided(self) -> bool:
        """Whether nothing can be decided: the transcript is too long, or the search was given up."""
        return self.past.is_too_long or self._search.is_exhausted

    @property
    def run(self) -> ChunkRun | None:
        """The message that is coming in chunks, if any."""
        return self._run

    @property
    def may_begin_again(self) -> bool:
        """Whether the user message that is coming may begin another replay."""
        run = self._run
        return (
            run is not None
            and run.kind == update_kinds.USER_CHUNK
            and self._begins_again(run.text, whole=False) is not None
        )

    @property
    def stops_in_turn(self) -> bool:
        """Whether the replay has come to a user message of the transcript and not to the end of that turn."""
        past, turn = self.past, self.user
        return turn > 0 and (
            self.at < past.latest_end(turn) or any(call not in self.called for call in past.calls_of(turn))
        )

    @property
    def is_before_known_turn(self) -> bool:
        """Whether the last that was told is a user message that the transcript has, with its answer and a turn behind
        it: unknown words are that answer, rewritten (gemini: ``[Thought: true]I will…``)."""
        return self._rewrites and self.user < len(self.past.users)

    def skip_answer(self, run: ChunkRun) -> bool:
        """Move behind the first message with which the transcript answers the last user message, if this message ends
        in that. Returns whether it does."""
        if not self._rewrites:
            return False
        start, end = self.past.span(self.user)
        following = bisect_right(self.past.messages, start)
        end = min([end, *self.past.messages[following : following + 1]])
        if start == end or run.text.partition(answer := self.past.words[start:end])[1:] != (answer, ""):
            return False
        self.at = max(self.at, end)
        return True

    @property
    def completes(self) -> bool:
        """Whether the tail completes a turn that the transcript has begun."""
        return self._tail.completes

    def follow(self, run: ChunkRun) -> bool:
        """Find the letters of an unfinished agent message, and set ``run.span``. Returns whether all are known."""
        if run.span is None:
            run.span = self._find(run.text)
        return run.span is not None

    def rest(self, run: ChunkRun) -> list[bytes] | None:
        """The new part of an unfinished agent message that begins with the last words of a turn that was cut; None for
        any other message."""
        span = self._continued(run.text) if self.past.is_cut else None
        divided = self._divided(run, span) if span is not None else None
        return None if divided is None else [told.line for told in divided]

    def tail_lines(self) -> tuple[list[bytes], list[bytes]]:
        """The lines that the transcript may lack, in two parts: those that are new, and user messages, thoughts and
        plans after the agent's last words, calls and other updates, which depend on what the agent sends next. A user
        message that follows the transcript's last turn is new, unless the agent has sent user messages only: then the
        answer to the last one may still come (gemini sends the first part of its replay before it answers)."""
        self.end_message()
        return self._tail.lines(may_be_past=self._rewrites and not self.covered and not self.called)

    def new(self, *, is_open_elsewhere: bool | None = None) -> list[bytes]:
        """The lines to record.

        From a user message in the tail on that is answered or follows the transcript's last turn, these are all lines,
        since the session continued elsewhere.
        Before it, they are the end of a turn that has no answer in the transcript, or else what came after the agent's
        answer and is nowhere in the transcript. If the transcript is empty, they are all lines.

        ``is_open_elsewhere``: whether another process can append to the transcript. The turn may be running there, and
        that process records its end. None if that is not known: then a turn with a part of its answer is not completed.
        """
        self.end_message()
        if self.is_undecided:
            return []
        return self._tail.new(is_all_new=self.past.is_empty, is_open_elsewhere=is_open_elsewhere)

    @property
    def goes_on(self) -> bool:
        """Whether the tail has a user message that follows the transcript's last turn, answered or not."""
        return self._tail.goes_on

    @property
    def is_going_on(self) -> bool:
        """Whether what is coming is new, whatever the agent sends next: such a user message, or something after it."""
        run = self._run
        if self._rewrites or run is None or run.kind != update_kinds.USER_CHUNK:
            return self._tail.goes_on and not self._rewrites
        last = self.past.users[self.user - 1 :] if self.user else self.past.users
        may_be_known = any(form.startswith(run.text) for user in last for form in user.forms)
        return self._is_at_end and not (
            may_be_known or self._begins_again(run.text, whole=False) is not None or self._next_user(run) is not None
        )

    @property
    def _is_at_end(self) -> bool:
        """Whether the replay has come to the transcript's last turn: no user message of the transcript follows."""
        users = self.past.users
        return self.user == len(users) or users[-1].start < self.at or users[-1].call <= self._last_call

    @property
    def went_on_elsewhere(self) -> bool:
        """Whether the tail has a turn that was made elsewhere: a user message and something from the agent."""
        return self._tail.has_turn

    def _as_recorded(self, update: object) -> object:
        """The update with its secrets masked, if that is what the transcript has: the agent repeats the secrets.

        A secret that was spread over chunks when it was recorded is not masked there, though it may be whole here.
        """
        if self._mask is None or (masked := self._mask(said := jsonrpc.dump(update))) == said:
            return update
        recorded = jsonrpc.parse(masked)
        return recorded if self.past.has(recorded) else update

    # --- messages

    def _chunk(self, told: ComparedUpdate, update: object) -> None:
        message = acp.text(update, "messageId")
        run = self._run
        if run is None or (run.kind, run.message) != (told.kind, message):
            self.end_message()
            run = self._run = ChunkRun(told.kind, message)
        said = block_letters(acp.member(update, "content"))
        if (
            run.said
            and run.kind == update_kinds.AGENT_CHUNK
            and len(said) >= SHORT
            and self.past.has_message(said, self.at)
        ):
            self.end_message()  # a whole message of its own, whatever came before it
            run = self._run = ChunkRun(told.kind, message)
        if run.said and run.span is not None:
            start, end = run.span
            run.span = (start, end + len(said)) if self.past.words.startswith(said, end) else None
            if run.span is None and self.past.ends_message(end):  # a new message follows a known one
                self.end_message()
                run = self._run = ChunkRun(told.kind, message)
        run.said.append(said)
        run.size += len(said)
        run.pieces.append(told)

    def _words(self, run: ChunkRun) -> bool:
        said = run.text
        span = self._find(said)
        if span is not None:
            if not self._tail.outlasts(run):
                self._known([span])
            return True
        if len(run.pieces) > 1 and (spans := self._find_each(run)) is not None:
            self._known(spans)
            return True
        if self._is_last_again(said):
            self.repeats = True
            return True
        again = sum(1 for _ in takewhile(lambda each: len(each) >= SHORT and self._is_last_again(each), run.said))
        if again:
            self.repeats = True
            return again == len(run.said) or self._words(run.rest(again))
        if self._knows_beginning(run):
            return False
        if (end := self._find_end(run)) is not None:
            self._tail.has_unknown = True
            self._known([end])
            return True
        if (rest := self._continued(said)) is not None:
            divided = self._divided(run, rest)
            self._known([rest])
            if divided is not None:
                self._unknown(*divided)
                return False
            self.continues = True
        stands = rest is not None or self._search.stands(said)
        for told in run.pieces:
            told.stands_somewhere = stands
        self._unknown(*run.pieces)
        return False

    def _is_last_again(self, said: str) -> bool:
        """Whether the last known words come once more: the replays of two loads at once are mixed."""
        if self._tail.has_unknown or self._tail.users or not self._is_placed:
            return False
        return self.past.words.endswith(said, 0, self.at) and self.past.begins_message(self.at - len(said))

    def _knows_beginning(self, run: ChunkRun) -> bool:
        """Whether the first chunks are a known message and the others a new one. If so, takes both."""
        span = self._find(run.said[0]) if len(run.said) > 1 else None
        if span is None:
            return False
        (start, end), count = span, 1
        whole = (end, 1) if self.past.ends_message(end) else None
        while count < len(run.said) and self.past.words.startswith(run.said[count], end):
            end, count = end + len(run.said[count]), count + 1
            if self.past.ends_message(end):
                whole = end, count  # the last such place: the next message may begin like another one
        if whole is None or whole[1] == len(run.said):
            return False
        self._known([(start, whole[0])])
        self._words(run.rest(whole[1]))
        return True

    def _find_end(self, run: ChunkRun) -> Span | None:
        """The span of the transcript's last words, if a message ends in these chunks and begins in others.

        A replay without the user's words and without ids is one message. Then unknown words before known ones are the
        agent's rewriting of its history, or a turn made elsewhere. Only before the agent's answer: later, a new
        message may end like the transcript.
        """
        words, said = self.past.words, ""
        found = None
        if self._rewrites or any(told.late for told in run.pieces):
            return None
        for each in reversed(run.said[1:]):
            said = each + said
            if len(words) - len(said) < self.at or not words.endswith(said):
                break
            if len(said) >= _HALF_SHORT:
                found = len(words) - len(said), len(words)
        return found

    def _known(self, spans: list[Span]) -> None:
        self.lacks |= self._tail.has_unknown
        for span in spans:
            self._cover(span)
        self.at = spans[-1][1]
        self._is_placed = True
        self._end_tail()

    def _end_tail(self) -> None:
        """Empty the tail, since something known follows: nothing in it is new."""
        self.users += self._tail.users
        self._tail.clear()
        self._rewrites = False
        self._tail.is_rest = self._is_cut_at(self.at)

    def _divided(self, run: ChunkRun, span: Span) -> list[ComparedUpdate] | None:
        """The message behind the letters that it has in the transcript, if these are the end of a turn that was cut."""
        return run.divided(span[1] - span[0]) if self._is_cut_at(span[1]) else None

    def _is_cut_at(self, at: int) -> bool:
        """Whether the words of a turn that was cut end at this offset, to which the replay has come."""
        users, end = self.past.users, len(self.past.words)
        return self.past.is_cut and at == end and (self.user == len(users) or users[-1].start < end)

    def _behind_last_thought(self, run: ChunkRun) -> list[ComparedUpdate]:
        """The part of a thought that the transcript lacks, if it ends with the beginning of this thought."""
        last = self.past.last_thought if self.past.is_unfinished and not self._tail.users else ""
        is_begun = bool(last) and run.text.startswith(last) and self.user in (0, len(self.past.users))
        divided = run.divided(len(last)) if is_begun else None
        return run.pieces if divided is None else divided

    def _unknown(self, *told: ComparedUpdate) -> None:
        if self._rewrites:  # the last answer in other words; a user message before it is context
            self.lacks = True
            self._tail.end_turn()
            return
        self._tail.has_unknown = True
        self._tail.keep(*told)

    def _user(self, run: ChunkRun) -> bool:
        """Take a whole user message, and move to its place if the transcript has it. Returns whether it does."""
        number = self._next_user(run)
        if number is None and self._is_last_user_again(run):
            self.repeats = True
            return True
        if number is None:
            number = self._begins_again(run.text)
        self._tail.users += 1
        if number is None:
            self._keep_user(*run.pieces)
            return False
        self._place(number)
        if (key := self.past.users[number].key) is not None and run.message is not None:
            self.ids[key] = run.message
        begun = next((form for form in self.past.users[number].forms if run.text.startswith(form)), run.text)
        if rest := run.text[len(begun) :]:  # two messages without anything between them
            other = self.past.next_user(rest, self.user)
            other = self._begins_again(rest) if other is None else other
            if other is not None:
                self._tail.users += 1
                self._place(other)
            elif self._tail.completes and not self.past.is_unfinished:  # else it may be context that the agent added
                self._keep_user(*run.behind(len(begun)))
        return True

    def _keep_user(self, *told: ComparedUpdate) -> None:
        for each in told:
            each.goes_on = self._is_at_end
        self._tail.keep(*told)

    def _place(self, number: int) -> None:
        """Move to the user message with this index."""
        start = self.past.users[number].begins(self.at)
        if self._is_placed:
            self.lacks |= self._tail.has_unknown
            if start < self.at or number < self.user:
                self.repeats = self.begins_again = True
                self._earlier, self.spans = merged([*self._earlier, *self.spans]), []
                self._last_call = -1
                self._search.begin_thoughts()
        else:  # before the first user message: a greeting, a warning, or turns from before recording began
            self.lacks |= self.went_on_elsewhere
            self._tail.begins_history()
            self._anchor = number
        self._is_placed = True
        self._end_tail()
        self.at, self.user = start, number + 1
        self.placed.add(number)
        self._tail.is_rest = self._is_cut_at(self.at)
        self._rewrites = self.past.has_answer(number + 1) and not self._tail.is_rest
        self._tail.completes = number + 1 == len(self.past.users) and not self.past.has_answer(number + 1)

    def _next_user(self, run: ChunkRun) -> int | None:
        said = run.text
        found = self.past.next_user(said, self.user)
        if found is not None:
            return found
        for number in range(self.user, min(self.user + 2, len(self.past.users))):  # with context or the next message
            for form in self.past.users[number].forms:
                if len(form) >= SHORT and form in said:
                    return number
                rest = said.removeprefix(form)
                if rest != said and (len(form) >= _HALF_SHORT or self._follows_at_once(number, rest)):
                    return number
        chunks = (self.past.next_user(each, self.user) for each in run.said)  # messages with nothing between them
        return next((found for found in chunks if found is not None), None)

    def _follows_at_once(self, number: int, said: str) -> bool:
        """Whether the user message behind the one with this index has these letters, with nothing between the two."""
        return not self.past.has_answer(number + 1) and self.past.next_user(said, number + 1) == number + 1

    def _is_last_user_again(self, run: ChunkRun) -> bool:
        """Whether the last known user message comes once more, before anything else."""
        if not self.user or self._tail.users or self._tail.has_unknown:
            return False
        last = self.past.users[self.user - 1]
        return self.at == last.start and self._last_call < last.call and run.text in last.forms

    def _begins_again(self, said: str, *, whole: bool = True) -> int | None:
        """The index of the message that begins another replay: the first one of the transcript, or the first one that
        the agent sent. ``whole``: the message is complete."""
        for number in (0, self._anchor) if self.past.users and self._is_placed else ():
            forms = self.past.users[number].forms if number is not None else ()
            if any(form == said if whole else form.startswith(said) for form in forms):
                return number
        return None

    # --- tool calls

    def _call(self, told: ComparedUpdate, update: object) -> int | None:
        id, title, status = (acp.text(update, key) for key in ("toolCallId", "title", "status"))
        if id is None:
            return None
        if id not in self._ids or (
            told.kind != update_kinds.TOOL_CALL_UPDATE and self._is_of_earlier_turn(self._ids[id])
        ):
            self._ids[id] = self._find_call(id, title)
        number = self._ids[id]
        if number is None:
            told.stands_somewhere = id in self.past.calls_by_id
            self._unknown(told)
            return None
        known = self.past.calls[number]
        self.lacks |= self._tail.has_unknown
        self.called.add(number)
        self._last_call = max(self._last_call, number)
        self.at = max(self.at, self.past.span(known.turn)[0])
        self._is_placed = True
        self._end_tail()
        if known.status in UNFINISHED and status not in UNFINISHED:
            self.continues = True
            self._tail.keep(told)
            self._tail.completes = True
        return number

    def _is_of_earlier_turn(self, number: int | None) -> bool:
        """Whether a known call is of an earlier turn, since some agents number their calls anew in each turn."""
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
        """The spans of all letters that were sent, in order."""
        return merged([*self._earlier, *self.spans]) if self._earlier else self.spans

    def was_told(self, span: Span) -> bool:
        """Whether an earlier replay had these letters."""
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

    def _find_each(self, run: ChunkRun) -> list[Span] | None:
        """The places of the chunks of a message, if the transcript has all of them in this order."""
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
        """The span of the transcript's last words, if these words begin with them and go on: its last message, or in a
        turn that was cut all that follows the last known place."""
        words = self.past.words
        last = max(self.past.messages[-1] if self.past.messages else 0, self.at)
        for start in (last, self.at) if self.past.is_cut else (last,):
            if 0 < len(words) - start < len(said) and said.startswith(words[start:]):
                return start, len(words)
        return None


# --- Decides whether an agent's replay of a session continues an earlier replay of it. Lines in.


def continues(old: list[bytes], new: list[bytes]) -> bool:
    """Whether the new replay has all that the old one has, and more. ``old``, ``new``: updates of the conversation."""
    return _has_more(new, old) and not _has_more(old, new)


def _has_more(told: list[bytes], than: list[bytes]) -> bool:
    """Whether the one has words, calls or other updates that the other lacks. True if that takes too long to find."""
    laying = TextBuilder()
    for line in than:
        laying.update(v2_updates.compared(acp.update_of(line)))
    comparison = Comparison(laying.past())
    for line in told:
        comparison.add(line, v2_updates.compared(acp.update_of(line)), late=False)
    tail = any(comparison.tail_lines())
    return tail or comparison.lacks or comparison.is_odd or comparison.continues or comparison.is_undecided
