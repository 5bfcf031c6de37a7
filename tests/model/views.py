"""What a client may be shown of the past when it asks for it, and what in a replay is new to the transcript."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Self

from tests.model import world
from tests.model.world import AGENTS, OURS, SAY, USER, Line, Replayer, Token, normal

Views = list[list[Token]]


@dataclass
class Opening:
    """A client's request to open a session. ``kind``: load, resume, fork, or cancelled (a load).

    ``in_turn``: a turn is under way, and the agent's replay passes as it comes. ``is_overtaken``: the next request was
    sent before the part of the replay after the answer, which counts for the next.
    """

    kind: str
    in_turn: bool = False
    is_overtaken: bool = False
    is_refused: bool = False


@dataclass(frozen=True)
class Before:
    """What the transcript had at a request, and what waited to be recorded."""

    said: tuple[Line, ...] = ()
    pending: tuple[Line, ...] = ()

    @classmethod
    def of(cls, said: Sequence[Line], pending: Sequence[Line]) -> Self:
        return cls(tuple(said), tuple(pending))

    @property
    def whole(self) -> tuple[Line, ...]:
        return *self.said, *self.pending

    def readings(self, after: Sequence[Line], *, is_between: bool) -> list[tuple[Line, ...]]:
        """All possible transcripts: everything that waits may have been recorded first, or only what must be.

        ``is_between``: of several requests, the later ones find what was recorded since the first.
        """
        sure = tuple(line for line in self.pending if line.must)
        first = len(self.said) if is_between else len(after)
        grown = [tuple(after[:end]) for end in range(first, len(after) + 1)]
        return [self.said, (*self.said, *sure), self.whole, *grown]


@dataclass(frozen=True)
class Showing:
    """What a load showed (``seen``), and what it could have shown: ``ours`` with the tail, and ``theirs``.

    ``unheard``: it was decided before the agent replayed anything, and the transcript has something that explains why a
    turn may be missing. ``handed_over``: the agent has forgotten the session.
    """

    ours: list[Token]
    theirs: list[Token]
    seen: list[Token]
    unheard: bool
    handed_over: bool

    def should_show_the_same(self, other: "Showing") -> bool:
        """A turn made elsewhere, once it is recorded, may let the agent's late replay be shown instead of ours."""
        return replace(self, seen=other.seen) == other


def new_lines(ours: Sequence[Line], told: Replayer, *, is_import: bool, plain: bool) -> list[Line]:
    """The lines of a replay that belong in the transcript. They must get there if nothing hides what they are.

    Left open, because nobody can tell: a tail after reworded text or after a message without known words, a tail that
    begins without a user message, and a double replay before anything is known.
    """
    known = {line.item.number for line in ours if line.item is not None}
    body, tail = world.parted(told, known)
    if is_import:
        return [Line(update, item, plain and told.times == 1) for update, item in told.lines]
    new = {item.number for item in tail} - known
    is_foreign = any(item.is_answer and item.number not in known for item in body)
    begins = bool(tail) and tail[0].kind == USER and len(new) == len(tail) and told.lines[0][1] in told.items
    certain = plain and begins and not is_foreign and told.times == 1
    return [Line(update, item, certain) for update, item in told.lines if item.number in new]


def strange_lines(ours: Sequence[Line], told: Replayer) -> list[Line]:
    """The lines of a replay during a turn that may be taken for parts of that turn: all that are not known."""
    known = {line.item.number for line in ours if line.item is not None}
    return [Line(update, item, must=False) for update, item in told.lines if item.number not in known]


def may_be_shown(
    openings: Sequence[Opening], tellings: Sequence[Replayer], ours: Sequence[Sequence[Line]], *, handed_over: bool
) -> Views:
    """All views that these requests may show, in order. ``ours``: the possible transcripts."""
    each: list[Views] = []
    for at, opening in enumerate(openings):
        index = at - len(openings) + len(tellings)  # the last requests were replayed
        told = tellings[index] if 0 <= index < len(tellings) else Replayer()
        each.append([view for lines in ours for view in _of(opening, lines, told, handed_over=handed_over)])
    return [world.without_warnings(normal([token for part in parts for token in part])) for parts in product(*each)]


def _of(opening: Opening, ours: Sequence[Line], told: Replayer, *, handed_over: bool) -> Views:
    theirs = world.tokens(update for update, _ in told.lines)
    mine = [*world.told_by_us(ours), *world.seen_of(world.tail_of(ours, told))]
    if opening.is_refused and opening.kind != "cancelled":
        return [[]]
    if opening.kind == "cancelled" or opening.is_overtaken:
        tail = world.seen_of(world.tail_of(ours, told))  # the tail may follow that too
        shown = _beginnings(world.told_by_us(ours))
        passed = [theirs[at:] for at in range(len(theirs))] if told.late and not ours else []  # not held: it may be new
        return [*_beginnings(theirs * told.times), *passed, *_beginnings(mine), *([*view, *tail] for view in shown)]
    if opening.kind == "resume":
        return [[], theirs * told.times]
    whose = world.whose(ours, told, handed_over=handed_over)
    views: Views = []
    if AGENTS in whose or opening.in_turn or opening.kind == "fork":  # the agent's replay of a fork passes as it comes
        views += [theirs, theirs * told.times]
    if OURS in whose:
        views.append(mine)
    if opening.kind == "fork":
        views.append([])
    return views


def has_foreign_words_late(ours: Sequence[Line], tellings: Iterable[Replayer]) -> bool:
    """Whether an agent replays reworded text after the answer with which it was decided whose replay is shown: then
    it is only certain that ours comes first, or that everything is the agent's."""
    known = {line.item.number for line in ours if line.item is not None}
    return any(
        told.late and any(item.kind == SAY and item.number not in known for item in world.parted(told, known)[0])
        for told in tellings
    )


def _beginnings(view: list[Token]) -> Views:
    return [view[:end] for end in range(len(view) + 1)]
