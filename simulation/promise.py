"""The promise: behind acp-proxy a client has seen at least what it sees without, each thing once, in order, and nothing
that was taken back. It is checked after every step, in every window.

``Truth`` is what was really said behind acp-proxy; everything has an id of its own, so nothing here guesses what is a
copy of what.
"""

import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from acp_proxy.transcript.handover_record_text import END
from simulation.agent import (
    CALL,
    COMPACTION,
    CONTEXT,
    EXPANSION,
    KINDS,
    RESPONSE,
    REWORDED,
    SAY,
    SESSION_CONTEXT,
    THOUGHT,
    USER,
    WARNING,
    Disk,
    Habits,
    Update,
)
from simulation.editor import OUT, View, Window, Word, split
from simulation.plan import Step
from simulation.world import Outcome, World

_CONTEXT = {*CONTEXT.split(), *SESSION_CONTEXT.split(), *RESPONSE.split()}
_ASIDES = {*WARNING.split(), *EXPANSION.split()} | _CONTEXT
_TAKES_BACK = re.compile(r"\s*/(clear|compact|compress|undo|rewind|revert|restore|reset|rollback|new)\b")
_UNLIKE = {"again", "cancel", "in turn", "then"}
"""A load with one of these shows what came by chance, too."""
_RECORD = "record of"
"""Is in the first line of every handover record."""


@dataclass
class Broken:
    """What does not hold: ``which`` promise, and ``how``."""

    which: str
    how: str

    def __str__(self) -> str:
        return f"{self.which}: {self.how}"


@dataclass
class Said:
    """One thing that was said.

    ``how``: typed, said (in a turn), remarked, steered, found (in the agent's memory), or copied
    (before the message of a fork). ``is_gone``: how it was taken
    back, if it was: by a command, a rewind, or a fork. ``is_learned``: found, and a load and a prompt came after that.
    """

    id: str
    kind: str
    text: str
    how: str
    is_gone: str = ""
    output: str = ""
    failed: bool = False
    is_learned: bool = False
    is_begun: bool = False
    """The agent has begun the turn of this prompt."""

    def words(self) -> list[Word]:
        return split([(self.kind, self.text), *([(OUT, self.output)] if self.output else [])])

    @property
    def turn(self) -> str:
        """The tag of its prompt."""
        return self.id.rpartition(".")[0]

    @property
    def must(self) -> bool:
        return not self.is_gone and (self.how in ("said", "steered") or (self.how == "typed" and self.is_begun))


@dataclass(frozen=True)
class Shown:
    """What a load showed, and what that depends on: what was said, and what the agent replayed in which session.
    ``asked``: what the agent was asked. Another window's load may be a handover, of which the client sees all."""

    window: str
    asked: list[str]
    said: list[Said]
    replays: list[tuple[str, list[Update]]]
    words: list[Word]


class Truth:
    """What was said in each session, in order."""

    def __init__(self) -> None:
        self.said: dict[int, list[Said]] = {}
        self.is_shared: set[int] = set()
        """Sessions that were open in two windows at once."""
        self.loaded: set[int] = set()
        self.apart: set[int] = set()
        """Sessions in which a step could be done in one of the two runs only."""
        self.skipped: set[int] = set()
        """Sessions with a turn made elsewhere that was not recorded before a prompt, since they were only resumed. A
        replay after the answer to a load shows it when the transcript, which goes on from there, has been shown: an
        agent that replays later, and one that replays nothing, look the same when the answer comes."""
        self.raced: set[int] = set()
        """Sessions in which a prompt was sent while a late replay was still coming: nothing proves what is past."""
        self.renumbered: dict[int, set[Word]] = defaultdict(set)
        """By session: what is recorded twice after a load in a turn that was answered before its replay came. The calls
        of the turn, if the agent gives calls new ids in each replay: it may call the same tools again. And what it said
        before the first prompt: no user message before it proves a replay, and it may say the same again."""
        self.remarks_of_resumes: dict[int, set[Word]] = defaultdict(set)
        """By session: what the agent said outside turns in a resumed session, before anything showed a turn made
        elsewhere. A later load shows and records that turn after it."""
        self.outputs: set[Word] = set()
        """The outputs that became known in the last step. A load in the same step came before them."""
        self.shown: dict[int, Shown] = {}
        """What the last load of each session showed."""
        self.begun: set[int] = set()
        """Sessions in which something had been said before the last step."""
        self.counted: dict[int, int] = {}
        """How much had been said before the last step."""
        self.lacks_handover_record: set[str] = set()
        """The agent's sessions to which a conversation was handed over and that have not answered its record yet."""
        self.copied: dict[int, int] = {}
        """How much forks have copied from their parents."""
        self.handed_over: set[int] = set()
        """Sessions that have continued in another one of the agent."""
        self.may_continue: set[int] = set()
        """Sessions of which a replay has ended with the only context of the agent. Nothing known follows it, so it
        looks like a message without an answer that was made elsewhere."""
        self._windows: dict[str, Window] = {}

    def of(self, session: int) -> list[Said]:
        return self.said.setdefault(session, [])

    def remarks(self, session: int) -> set[Word]:
        """What the agent said outside turns in a session that was open in two windows. Each window records what it
        heard with its next request for the session, so the others may have gone on before that. A fork at a message may
        have no past until its first load."""
        is_at_message = any(each.how == "copied" for each in self.of(session))
        said = self.of(session) if session in self.is_shared or is_at_message else []
        return {word for each in said if each.how == "remarked" for word in each.words()}

    def loose(self, session: int) -> set[Word]:
        """What may come in another order: remarks, calls with new ids, and the rest of a turn that the agent finished
        without us or a remark that was not recorded, if a prompt was sent while that was coming."""
        hows = ("found", "remarked") if session in self.raced else ()
        found = (each for each in self.of(session) if each.how in hows)
        return (
            self.remarks(session)
            | self.renumbered[session]
            | self.remarks_of_resumes[session]
            | {word for each in found for word in each.words()}
        )

    def find_mistaken(self, session: int) -> tuple[set[Word], set[Word]]:
        """What follows a message without an answer that was made elsewhere: remarks, which look like that answer, and
        then another such message. The agent does not replay the remarks, so what it sends after that may be it."""
        remarks, messages = set[Word](), set[Word]()
        said = [each for each in self.of(session) if not each.is_gone]
        for at, each in enumerate(said):
            later = list(itertools.takewhile(lambda other: other.how == "remarked", said[at + 1 :]))
            following = said[at + 1 + len(later) : at + 3 + len(later)]
            if each.how == "found" and each.kind == USER and later:
                remarks |= {word for other in later for word in other.words()}
                is_message = [(other.how, other.kind) for other in following][:1] == [("found", USER)]
                if is_message and all(other.turn != following[0].turn for other in following[1:]):
                    messages |= {*following[0].words()}
        return remarks, messages

    def follow(self, outcome: Outcome, disk: Disk, windows: dict[str, Window]) -> None:
        """Take what happened in a step."""
        self._windows = windows
        self.outputs = set()
        self.counted = {session: len(said) for session, said in self.said.items()}
        self.begun = {session for session, said in self.said.items() if any(each.must for each in said)}
        for what, *about in outcome.events:
            if what == "asked" and about[0] == "session/new" and outcome.session in self.counted:
                self.handed_over.add(outcome.session)
            getattr(self, f"_{what.replace(' ', '_')}", lambda *_: None)(*about)
        for memory in disk.sessions.values():
            if memory.label is None:
                continue
            known = {each.id for each in self.of(memory.label)}
            for item in memory.items:
                if item.id not in known:
                    said = Said(item.id, item.kind, item.text, "found", output=item.output)
                    self.of(memory.label).append(said)
        count = Counter(session for window in windows.values() for session in window.views)
        self.is_shared |= {session for session, number in count.items() if number > 1}

    def _add(self, session: int | None, said: Said) -> None:
        if session is not None:
            self.of(session).append(said)

    def _typed(self, session: int, id: str, text: str) -> None:
        if any(each.how == "found" and not each.is_learned for each in self.of(session)) and any(
            session in window.views and window.views[session].opened == "resume" for window in self._windows.values()
        ):
            self.skipped.add(session)
        for each in self.of(session):
            each.is_learned = each.is_learned or session in self.loaded
        self._add(session, Said(id, USER, text, "typed"))

    def _begun(self, session: int, id: str) -> None:
        for each in self.of(session):
            each.is_begun = each.is_begun or each.id == id

    def _raced(self, session: int) -> None:
        self.raced.add(session)

    def _told_in_turn(self, session: int, call_ids: str) -> None:
        said = self.of(session)
        begin = max((at for at, each in enumerate(said) if each.is_begun), default=0)
        again = [each for each in said[begin:] if each.kind == CALL and call_ids == "fresh"]
        again += itertools.takewhile(lambda each: each.how == "remarked", said)
        self.renumbered[session] |= {word for each in again for word in each.words()}

    def _failed(self, session: int, id: str) -> None:
        for each in self.of(session):
            each.failed = each.failed or each.id == id

    def _said(self, session: str, label: int, id: str, kind: str, text: str) -> None:
        self._add(label, Said(id, kind, text, "said"))

    def _steered(self, session: str, label: int, id: str, kind: str, text: str) -> None:
        self._add(label, Said(id, kind, text, "steered"))

    def _remarked(self, session: str, label: int, id: str, kind: str, text: str) -> None:
        said = Said(id, kind, text, "remarked")
        views = (window.views[label] for window in self._windows.values() if label in window.views)
        lacks_turn = any(each.how == "found" and not each.is_learned for each in self.of(label))
        if lacks_turn and any(view.opened == "resume" for view in views):
            self.remarks_of_resumes[label] |= {*said.words()}
        self._add(label, said)

    def _output(self, session: str, label: int, id: str, output: str) -> None:
        self.outputs |= {*split([(OUT, output)])}
        for each in self.of(label):
            if each.id == id:
                each.output = output

    def _took_back(self, label: int, ids: list[str], how: str) -> None:
        gone = [each for each in self.of(label) if each.id in ids and not each.is_gone]
        for each in gone:
            each.is_gone = how
        if how == "rewind":  # it takes back remarks, too, which the agent does not remember
            self.shown.pop(label, None)
        for window in self._windows.values():
            if label in window.views:  # it showed that when it was said, or in each replay
                view = window.views[label]
                view.excused.update(word for each in gone * view.replays for word in each.words())

    def _forked(self, label: int, parent: int, dropped: list[str], is_at_message: bool) -> None:
        copies = [Said(**vars(each)) for each in self.of(parent)]
        for each in copies:
            each.is_gone = each.is_gone or ("fork" if each.id in dropped else "")
        if is_at_message:  # agents end such a fork in different places
            for each in copies:
                each.how = "copied"
        self.said[label] = copies
        self.copied[label] = len(copies)
        for sessions in (self.is_shared, self.raced):
            sessions |= {label} if parent in sessions else set()

    def _replayed(self, session: str, label: int, updates: list[Update]) -> None:
        self.loaded.add(label)
        if _ends_with_first_context(updates):
            self.may_continue.add(label)


def _ends_with_first_context(updates: Sequence[Update]) -> bool:
    said = [each for each in updates if each["sessionUpdate"] != KINDS[THOUGHT]]
    is_context = [each.get("content", {}).get("text") == CONTEXT for each in said if "toolCallId" not in each]
    return said[-1:] != [] and "toolCallId" not in said[-1] and is_context.count(True) == 1 and is_context[-1]


def check_step(truth: Truth, step: Step, bare: World, proxied: World, alone: Outcome, behind: Outcome) -> list[Broken]:
    """What does not hold after a step that was done alone and behind acp-proxy."""
    session = behind.session
    are_apart = session is not None and session in truth.apart and bare.memory(session) != proxied.memory(session)
    found = [
        Broken("refused", f"{method} was answered alone, and behind us {behind.errors[method]}")
        for method in alone.ok
        if method in behind.errors and not are_apart
    ]
    busy = {number for window in proxied.windows.values() for number in window.turns if window.is_busy(number)}
    _follow_parting(truth, proxied, alone, behind)
    for name, window in proxied.windows.items():
        for session, view in window.views.items():
            other = bare.windows.get(name)
            its = other.views.get(session) if other is not None else None
            is_loaded = "session/load" in behind.ok and behind.session == session and behind.window == name
            if session in truth.apart and bare.memory(session) != proxied.memory(session):
                view.is_apart = True
            if view.is_apart:
                its = _replay_of(behind) if is_loaded else None
            elif its is not None and its.at != view.at:
                its = None
            found += check_view(
                truth,
                session,
                its,
                view,
                is_whole=is_loaded and not _explains_gap(truth, session, behind, proxied.habits),
                is_busy=session in busy,
                habits=proxied.habits,
                name=name,
            )
    found += check_live(truth, proxied, behind)
    found += check_same_again(truth, step, proxied, behind)
    found += check_handover_records(truth, step, behind)
    found += [Broken("foreign", f"an update of {id}") for id in behind.unknown - {*proxied.ids.values()}]
    found += [Broken("version", f"the client of version 1 got {kind}") for kind in behind.odd]
    found += check_list(alone, behind, bare, proxied)
    found += [Broken("title", repr(title)) for title in behind.titles if _RECORD in title]
    for blocks in (about[3] for what, *about in behind.events if what == "prompted"):
        found += [Broken("forged", f"the agent got {b} as the user's") for b in blocks if b["type"] != "text"]
    return found


def _follow_parting(truth: Truth, proxied: World, alone: Outcome, behind: Outcome) -> None:
    """Note where the two runs part. A rewind needs a message id, for example, which only one of two windows may have.

    From there, the session is two conversations for as long as the two agents remember other things. What the client
    alone sees then says nothing about the other one: behind us, a load must show what its own agent replays.
    """
    if alone.is_skipped != behind.is_skipped:
        truth.apart |= {each for each in (behind.session, behind.forked) if each is not None}
        for window in proxied.windows.values():
            if behind.session in window.views:
                window.views[behind.session].is_apart = True
    elif behind.session in truth.apart and behind.forked is not None:
        truth.apart.add(behind.forked)


def _replay_of(behind: Outcome) -> View | None:
    """What a client without us would see of the load in this step, from the agent that is behind us, if it replays."""
    replays = [about[2] for what, *about in behind.events if what == "replayed" and about[1] == behind.session]
    if not replays:
        return None
    view = View("load")
    for update in itertools.chain.from_iterable(replays):
        view.add(_without_handover_record(update), {})
    return view


def _without_handover_record(update: Update) -> Update:
    """The update without the handover record, which also quotes prompts that were refused."""
    if update["sessionUpdate"] != KINDS[USER]:
        return update
    return {**update, "content": {"type": "text", "text": update["content"]["text"].rpartition(END)[2]}}


def _explains_gap(truth: Truth, session: int, behind: Outcome, habits: Habits) -> bool:
    """Whether what the agent leaves out looks as if it was taken back. Then the agent's replay is shown.

    It replays a turn made elsewhere, and nothing of the turn before it, as if that had been taken back there; or a
    fork, and nothing of the last turns that were copied, or only after its answer, as if it had been made before them.
    Or it replays a turn made elsewhere after a message whose answer it has lost, as if that were the answer.
    """
    view, said = _replay_of(behind), truth.of(session)
    replayed = {*plain(view.words())} if view is not None else set()
    begins = [at for at, each in enumerate(said) if each.kind == USER and each.how != "steered" and not each.is_gone]
    turns = [said[start:end] for start, end in itertools.pairwise([*begins, len(said)])]
    is_replayed = [any(word in replayed for each in turn for word in each.words()) for turn in turns]
    is_answered = [any(word in replayed for each in turn[1:] for word in each.words()) for turn in turns]
    counted = [
        (at, turn[0].how == "found", is_here)
        for at, turn, is_here in zip(begins, turns, is_replayed, strict=True)
        if is_here or any(each.kind in (SAY, CALL) for each in turn)
    ]
    copied = [is_here for at, _, is_here in counted if at < truth.copied.get(session, 0)]
    lacks_last = len(copied) > 1 and not (copied[-1] and habits.tells != "split")
    if habits.loses == "last" and any(
        len(turn) > 1 and is_here and not has_answer and following[0].how == "found" and is_next_answered
        for turn, is_here, has_answer, following, is_next_answered in zip(
            turns, is_replayed, is_answered, turns[1:], is_answered[1:], strict=False
        )
    ):
        return True
    return (lacks_last and any(copied)) or any(
        not was_here and is_found and is_here
        for (_, _, was_here), (_, is_found, is_here) in itertools.pairwise(counted)
    )


def check_view(
    truth: Truth,
    session: int,
    alone: View | None,
    behind: View,
    *,
    is_whole: bool,
    is_busy: bool,
    habits: Habits,
    name: str,
) -> list[Broken]:
    """What does not hold in a view. ``is_whole``: a load shows everything, unless something else explains a gap."""
    said = truth.of(session)
    seen, without = plain(behind.words()), plain(alone.words()) if alone is not None else []
    asides, asides_without = (
        Counter(word for _, word in view.words() if word in _CONTEXT) if view is not None else Counter[str]()
        for view in (behind, alone)
    )
    where = f"session {session} in window {name}"
    if behind.since is None:  # a resume returns no messages, and what an agent sends nevertheless was said before
        behind.since = (
            truth.counted.get(session, 0) if behind.opened == "resume" and habits.tells_resumed == "never" else 0
        )
    told = Counter(word for each in said[behind.since :] if not each.is_gone for word in each.words())
    gone = Counter(word for each in said if each.is_gone for word in each.words())
    turns = {each.turn for each in said if _takes_back(each)}
    lacks_words = habits.loses == "last" or _lacks_remarks(said)
    commands = Counter(
        word
        for each in said
        if each.is_gone == "command" and (_takes_back(each) or (lacks_words and each.turn in turns))
        if each.kind != COMPACTION or all(other.kind != COMPACTION or other.is_gone for other in said)
        for word in each.words()
    )
    unknown_rewinds = Counter(word for each in said if each.is_gone == "rewind" for word in each.words())
    if not (session in truth.handed_over and habits.ids == "fresh"):  # else nobody knows where the message stood
        unknown_rewinds.clear()
    by_command = Counter(word for each in said if each.is_gone == "command" for word in each.words())
    without = [word for word in without if not word[1].startswith("greeting-")]  # each run has its own
    if behind.is_apart:  # the agent behind us also has what we sent it ourselves: the handover record
        without = [word for word in without if told[word]]
    has, has_without = Counter(seen), Counter(without)
    times = behind.replays
    found: list[Broken] = []
    once = behind.is_mixed  # a replay may have been dropped, because it was asked for twice
    # The rest of a late replay that comes in a turn: a user message from elsewhere looks like the prompt's echo, with
    # what the agent has added to it. It was seen in the turn where it came; later loads show the two as one.
    echoed = {word for each in said if each.how == "found" and each.kind == USER for word in each.words()}
    echoed = echoed if session in truth.raced else set()
    # What is at first taken for the answer to another message, in other words; and what another window has not recorded
    # yet, of a session whose new one has only greeted.
    _, mistaken = truth.find_mistaken(session)
    if habits.is_late and habits.leaves_out and [(each.how, each.kind) for each in said[-1:]] == [("found", USER)]:
        mistaken |= {*said[-1].words()}  # the turns before it may still come
    last = next((each for each in reversed(said) if each.how != "remarked"), None)
    if habits.warns == "last" and last is not None and (last.how, last.kind) == ("found", USER):
        mistaken |= {*last.words()}  # a warning after it that the transcript has once says that it is old
    if session in truth.handed_over and habits.greets:
        mistaken |= {word for each in said if each.how == "remarked" for word in each.words()}
    if session in truth.skipped and (lacks_words or habits.is_late):  # after known messages, agents add their own
        sizes, after_known = Counter(each.turn for each in said), said if lacks_words else said[1:]
        lonely = (each for each in after_known if (each.how, each.kind) == ("found", USER) and sizes[each.turn] == 1)
        mistaken |= {word for each in lonely for word in each.words()}
    excused = echoed | mistaken
    # Before the first prompt to the new session of a handover, a remark in other words looks like a new warning.
    retold = Counter(word for each in said if each.how == "remarked" for word in each.words())
    if not (habits.rewords and habits.remembers_remarks and session in truth.handed_over):
        retold.clear()
    lacks = [
        w for w in has_without if has[w] < min(has_without[w], 1 if once else max(1, told[w])) and w not in excused
    ]
    if lacks:
        why = "which the agent replayed" if behind.is_apart else "which is there without us"
        found.append(Broken("worse", f"{where} lacks {_text(lacks)}, {why}"))
    if alone is not None and not behind.is_apart and session not in truth.raced:  # the next load knows
        ended = {title for title, status in alone.statuses.items() if status == "completed"}
        failed = [title for title in ended if behind.statuses.get(title) == "failed"]
        found += [Broken("worse", f"{where} has {title!r} as failed") for title in failed]
    for word, count in has.items():
        most = (
            max(told[word] * times, has_without[word]) + behind.excused[word] + (unknown_rewinds + retold)[word] * times
        )
        # Nobody can know what a command took back, and what is only left out; so it is shown after a handover, too.
        if alone is None or behind.is_apart or habits.leaves_out or session in truth.handed_over:
            most += by_command[word] * times
        else:  # an agent that leaves commands out sends the same as one whose next command took the command back
            most += commands[word] * times
        if count <= most or (session in truth.raced and told[word]) or word in truth.renumbered[session]:
            continue
        if told[word]:
            found.append(Broken("twice", f"{where} has {_text([word])} {count} times"))
        elif gone[word]:
            found.append(Broken("taken back", f"{where} has {_text([word])}"))
        elif word[0] != OUT:
            found.append(Broken("foreign", f"{where} has {_text([word])}, which nobody said there"))
    if alone is not None and not behind.is_apart and session not in truth.may_continue:
        added = [word for word, count in asides.items() if count > asides_without[word]]
        found += [Broken("foreign", f"{where} has {word} {asides[word]} times, of the agent's own") for word in added]
    if found:
        return found
    loose = truth.loose(session)
    if habits.is_late and without:
        loose |= _find_mistaken_turns(said, has_without)
    seen, without = ([word for word in words if word not in loose] for words in (seen, without))
    order = [word for each in said for word in each.words()]
    turn_order = list(dict.fromkeys(each.turn for each in said))
    by_turn = [word for each in sorted(said, key=lambda each: turn_order.index(each.turn)) for word in each.words()]
    if without:
        told_once = [word for word in seen if word[0] != OUT or word in order]  # what the agent has not asked for
        if session in truth.raced:  # the rest of a turn may come twice
            told_once = [word for at, word in enumerate(told_once) if word[0] != SAY or word not in told_once[:at]]
        is_in_order = _is_in(told_once, order) or _is_in(told_once, by_turn) or _is_in(without, seen)
    else:  # prompts may have been queued; and in the others, a word may be seen twice, or come late
        is_in_order = session in truth.raced | truth.is_shared or _is_in(_agents(seen), order)
    if echoed or (habits.is_late and session in truth.skipped):
        is_in_order = True
    if not behind.is_mixed and not is_in_order:
        found.append(Broken("order", f"{where} has {_text(seen)}, said was {_text(order)}"))
    if is_whole and times == 1 and not behind.is_mixed and not is_busy:
        found += _check_whole(truth, session, has, where, habits=habits)
    return found


def _check_whole(truth: Truth, session: int, has: Counter[Word], where: str, *, habits: Habits) -> list[Broken]:
    """Nothing explains that something is missing: then a load shows everything."""
    said = truth.of(session)
    is_plain = not habits.rewords and not any(
        each.is_gone or each.kind == COMPACTION or _takes_back(each) for each in said
    )
    # A turn made elsewhere begins with a user message.
    is_known = session not in truth.is_shared and "users" not in habits.leaves_out
    learned = all(each.how != "found" or (each.is_learned and is_known) for each in said)
    if not (is_plain and learned):
        return []
    wanted = Counter(word for each in said if each.must for word in each.words())
    lacks = [word for word in wanted if has[word] < wanted[word] and word not in truth.outputs]
    return [Broken("lost", f"{where} lacks {_text(lacks)} after a load")] if lacks else []


def _find_mistaken_turns(said: Sequence[Said], replayed: Counter[Word]) -> set[Word]:
    """The words of turns made elsewhere directly after a message whose answer the agent has lost: they look like that
    answer, in other words, so they are not recorded, and in a late replay they come after the transcript."""
    turns = [list(turn) for _, turn in itertools.groupby(said, lambda each: each.turn)]
    return {
        word
        for before, turn in itertools.pairwise(turns)
        if turn[0].how == "found" and len(before) > 1
        if not any(replayed[word] for each in before[1:] for word in each.words())
        for each in turn
        for word in each.words()
    }


def _lacks_remarks(said: Sequence[Said]) -> bool:
    """Whether the agent has said anything outside turns, after a prompt: its replay lacks that."""
    return any(each.how == "remarked" for each in itertools.dropwhile(lambda other: other.how != "typed", said))


def _takes_back(said: Said) -> bool:
    return said.kind == USER and _TAKES_BACK.match(said.text) is not None


def check_live(truth: Truth, proxied: World, behind: Outcome) -> list[Broken]:
    """In a turn, what the agent says goes to the client."""
    if behind.last is not None:
        return []
    found = []
    by_session: dict[int, list[Word]] = {}
    for what, *about in behind.events:
        if what in ("said", "remarked") and about[1] is not None:
            by_session.setdefault(about[1], []).extend(split([(about[3], about[4])]))
    for session, words in by_session.items():
        heard = split(behind.heard.get(session, []))
        view = proxied.windows[behind.window].views.get(session) if behind.window in proxied.windows else None
        if proxied.habits.is_late and view is not None and view.opened == "resume":
            remarks, _ = truth.find_mistaken(session)  # a resume replays nothing, and they look like its replay's end
            words = [word for word in words if word not in remarks]
        if session == behind.session and not _is_in(words, heard):
            found.append(Broken("swallowed", f"session {session}: said {_text(words)}, came {_text(heard)}"))
    return found


def check_same_again(truth: Truth, step: Step, proxied: World, behind: Outcome) -> list[Broken]:
    """The same load shows the same."""
    window = proxied.windows.get(behind.window)
    session = behind.session
    if session is None or "session/load" not in behind.ok or window is None or {*step} & _UNLIKE:
        return []
    replays = [(about[0], about[2]) for what, *about in behind.events if what == "replayed" and about[1] == session]
    said = [Said(**vars(each)) for each in truth.of(session)]
    asked = [about[0] for what, *about in behind.events if what == "asked"]
    shown = plain(window.views[session].words())
    last, now = truth.shown.get(session), Shown(window.name, asked, said, replays, shown)
    truth.shown[session] = now
    if proxied.habits.is_late and any(each.how == "found" or _takes_back(each) for each in said):
        return []  # once a turn made elsewhere is recorded, it may explain what a late replay has not shown yet
    if last is None or (last.said, last.replays) != (said, replays):
        return []
    if last.window != window.name and last.asked != asked:
        return []
    # A rewind leaves out what was typed after its point, too, although the agent has not begun with it.
    not_begun = {word for each in said if each.how == "typed" and not each.is_begun for word in each.words()}
    loose = truth.remarks(session) | not_begun
    if [word for word in last.words if word not in loose] == [word for word in now.words if word not in loose]:
        return []
    return [Broken("not again", f"session {session}: first {_text(last.words)}, now {_text(now.words)}")]


def check_handover_records(truth: Truth, step: Step, behind: Outcome) -> list[Broken]:
    """An agent to which a conversation was handed over gets its record, and commands come alone."""
    found: list[Broken] = []
    for what, *about in behind.events:
        if what == "asked" and about[0] == "session/new" and step["do"] != "new" and behind.session in truth.begun:
            truth.lacks_handover_record.add(about[1])
        elif what == "ended" and len(about[1]) > 1:
            truth.lacks_handover_record.discard(about[0])
        elif what == "prompted":
            session, label, _, blocks, is_queued = about
            is_command = blocks[-1].get("text", "").startswith("/")
            if is_command and len(blocks) > 1:
                found.append(Broken("record", f"session {label}: a command came with a record"))
            elif session in truth.lacks_handover_record and len(blocks) == 1 and not is_command and not is_queued:
                found.append(Broken("record", f"session {label}: the agent got {blocks[0].get('text')!r} alone"))
    return found


def check_list(alone: Outcome, behind: Outcome, bare: World, proxied: World) -> list[Broken]:
    if behind.rows is None:
        return []
    ids = [row["sessionId"] for row in behind.rows]
    numbers = {id: number for number, id in proxied.ids.items()}
    found = [Broken("list", f"{id} is listed twice") for id, count in Counter(ids).items() if count > 1]
    found += [Broken("title", str(row)) for row in behind.rows if _RECORD in str(row.get("title"))]
    found += [Broken("list", f"{id} is no session of the client's") for id in ids if id not in numbers]
    before = {id: number for number, id in bare.ids.items()}
    for row in alone.rows or ():
        number = before.get(row["sessionId"])
        if number in proxied.ids and proxied.ids[number] not in ids:
            found.append(Broken("list", f"session {number} is listed only without us"))
    return found


def check_transcript(truth: Truth, session: int, actual: Sequence[Word]) -> list[Broken]:
    """The transcript holds each thing once. ``actual``: the words of its prompts and updates."""
    said = truth.of(session)
    has = Counter(plain(actual))
    most = Counter(word for each in said for word in each.words())
    least = Counter(word for each in said if each.must and each.how != "steered" for word in each.words())
    found = [
        Broken("recorded twice", f"session {session}: {_text([word])} {count} times")
        for word, count in has.items()
        if count > most[word]
        and word[0] != OUT
        and not (session in truth.raced and most[word])
        and word not in truth.renumbered[session]
    ]
    lacks = [word for word in least if has[word] < least[word] and word[0] != OUT]
    if lacks:
        found.append(Broken("not recorded", f"session {session}: {_text(lacks)}"))
    order = [word for each in said for word in each.words()]
    loose = truth.loose(session)
    ordered = [word for word in plain(actual) if word[0] != OUT and word not in loose]
    if not (found or session in truth.raced | truth.is_shared or _is_in(ordered, order)):
        found.append(Broken("recorded in another order", f"session {session}: {_text(actual)}"))
    return found


def check_context(truth: Truth, session: int, entries: Iterable[tuple[str, Any]]) -> list[Broken]:
    """What the agent adds to its replays is no user's, so it is not recorded. A transcript may begin with a replay."""
    said = truth.of(session)
    if any(each.how != "typed" for each in said[:1]) or session in truth.may_continue | truth.raced:
        return []
    texts = (_user_text(message) for sender, message in entries if sender == "agent" and isinstance(message, dict))
    found = [text for text in texts if any(word in _CONTEXT for word in text.split())]
    return [Broken("foreign", f"session {session}: {text!r} was recorded as the user's") for text in found]


def _user_text(message: dict[str, Any]) -> str:
    update = (message.get("params") or {}).get("update") or {}
    is_user = update.get("sessionUpdate") in (KINDS[USER], "user_message")
    content = update.get("content") if is_user else None
    blocks = content if isinstance(content, list) else [content]
    return " ".join(str(block.get("text", "")) for block in blocks if isinstance(block, dict))


def plain(words: Iterable[Word]) -> list[Word]:
    """Words without what nobody said, and in their first wording."""
    return [(kind, word.removeprefix(REWORDED)) for kind, word in words if word not in _ASIDES]


def _agents(words: Iterable[Word]) -> list[Word]:
    return [word for word in words if word[0] not in (USER, OUT)]


def _is_in(part: Sequence[Word], whole: Sequence[Word]) -> bool:
    """Whether the words of ``part`` are in ``whole``, in order."""
    rest = iter(whole)
    return all(word in rest for word in part)


def _text(words: Iterable[Word]) -> str:
    return " ".join(f"{kind}:{word}" for kind, word in words)


def transcript_words(entries: Iterable[tuple[str, Any]]) -> list[Word]:
    """The words of a transcript's messages: pairs of who sent it, and what. What the user sent counts, not its echo."""
    pieces: list[Word] = []
    view = View("transcript")
    for sender, message in entries:
        if not isinstance(message, dict):
            continue
        params = message.get("params") or {}
        if sender == "client" and "prompt" in params:
            pieces.append((USER, "".join(str(block.get("text", "")) for block in params["prompt"])))
        elif sender == "agent" and message.get("method") == "session/update":
            pieces += _of_update(view, params["update"])
    return split(pieces)


def _of_update(view: View, update: dict[str, Any]) -> list[Word]:
    terminals = {each["terminalId"]: "" for each in update.get("content") or () if "terminalId" in each}
    words = view.add(update, terminals)
    return [(kind, text) for kind, text in words if kind in (SAY, CALL, COMPACTION, "thought")]
