"""The promise, checked in random conversations: any agent, any editor, several proxies over one store.

    MODEL_EXAMPLES=5000 pytest tests/model/machine.py      # long, and other conversations each time
    MODEL_ONLY=tells,kill pytest tests/model/machine.py    # plain agents and editors, except for these features
    MODEL_WITHOUT=echoes pytest tests/model/machine.py     # everything but these

A feature is a habit of agents (a field of ``Habits``) or a rule of ``Conversations`` that is marked as one. A failure
shows the conversation, the transcripts, and what was broken.
"""

import faulthandler
import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from tests.model.habits import REFUSALS, Habits
from tests.model.promise import Session
from tests.model.proxies import Proxied
from tests.model.stage import Stage
from tests.model.world import USER

_EXAMPLES = int(os.environ.get("MODEL_EXAMPLES", "0"))
_USUAL_EXAMPLES = 200
"""They take about twenty seconds."""
_STEPS = 30
_PROXIES = 2
"""At the same time. More would only be slower."""
_SESSIONS = 4
_ODD = 6
"""The largest number of unusual habits in one agent."""

_ONLY = {name for name in os.environ.get("MODEL_ONLY", "").split(",") if name}
_WITHOUT = {name for name in os.environ.get("MODEL_WITHOUT", "").split(",") if name}


def _is_on(feature: str) -> bool:
    return feature not in _WITHOUT and (not _ONLY or feature in _ONLY)


def _some(*names: str) -> st.SearchStrategy[frozenset[str]]:
    return st.frozensets(st.sampled_from(names))


_WHEN = st.sampled_from(["before", "after", "split", "never"])
_HABITS: dict[str, st.SearchStrategy[Any]] = {
    "offers": _some("load", "resume", "fork", "list", "close"),
    "tells": _WHEN,
    "times": st.just(1),  # a double replay has tests of its own: in a turn its second half may be recorded
    "tells_resumed": _WHEN,
    "tells_forked": _WHEN,
    "forgets": _some("calls", "users", "thoughts", "turns", "all"),
    "rewords": st.booleans(),
    "pieces": st.sampled_from(["said", "joined", "split"]),
    "injects": st.booleans(),
    "version": st.sampled_from(["1", "2", "both"]),
    "echoes": st.sampled_from(["never", "plain", "expanded", "chunks", "id"]),
    "refuses": st.sampled_from(["", "", *REFUSALS]),
    "refuses_prompt": st.booleans(),
    "renames": st.booleans(),
    "warns": st.sampled_from(["never", "first", "last", "after"]),
    "greets": st.booleans(),
    "commands": st.booleans(),
    "forgets_commands": st.booleans(),
    "never_answers": _some("prompts", "loads"),
    "answers_cancelled": st.booleans(),
    "overtakes": st.booleans(),
    "finishes": st.booleans(),
    "equal": st.booleans(),
    "remembers_remarks": st.booleans(),
}


@st.composite
def _habits(draw: st.DrawFn) -> Habits:
    """Only some habits are unusual, so that the effect of each alone is seen."""
    names = [name for name in sorted(_HABITS) if _is_on(name)]
    odd = draw(st.lists(st.sampled_from(names), min_size=1, max_size=_ODD, unique=True)) if names else []
    habits = Habits(**{name: draw(_HABITS[name]) for name in sorted(odd)})
    if habits.equal and habits.echoes == "expanded":  # nobody can tell such an echo from a replay that begins again
        habits = replace(habits, echoes="plain")
    if habits.equal:  # nobody can tell an answer from that of a turn that was taken back
        habits = replace(habits, commands=False)
    if habits.is_late:  # its reworded replay comes when it is already decided whose replay is shown
        habits = replace(habits, rewords=False)
    if habits.warns == "last" and "split" in (habits.tells, habits.tells_resumed):  # it would replace the answer
        habits = replace(habits, warns="after")
    if habits.greets:  # a remembered greeting is replayed like an answer
        habits = replace(habits, remembers_remarks=False)
        # after the answer to a cancelled load, it may be the beginning of the next load's replay
        habits = replace(habits, answers_cancelled=False)
    if "load" not in habits.offers:  # a resume replays nothing, so nobody knows what was taken back
        habits = replace(habits, commands=False)
    if habits.renames:  # a replay under an id that nobody knows yet passes
        habits = replace(habits, tells_resumed="never", warns="never")
    if habits.pieces == "joined" and "users" in habits.forgets:  # a known answer and a new one would be one message
        habits = replace(habits, pieces="said")
    if habits.version != "1":
        habits = habits.in_version_2(habits.version)
    if habits.injects:  # user messages are counted, not read
        habits = replace(habits, forgets=frozenset())
    return habits


_turns = st.sampled_from(["s", "s", "scs", "tsc", "c", "ss", ""])
_which = st.integers(0, 7)


def feature(name: str) -> Callable[[Any], Any]:
    """A rule that can be left out."""
    return precondition(lambda self: _is_on(name))


class Conversations(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        faulthandler.cancel_dump_traceback_later()  # every wait here has its own limit, and a failure is shrunk
        self._root = Path(tempfile.mkdtemp(prefix="model-"))

    @initialize(habits=_habits())
    def begins(self, habits: Habits) -> None:
        self.stage = Stage(self._root / "store", habits)
        proxy = self.stage.start()
        self.stage.prompt(self.stage.new(proxy))

    def teardown(self) -> None:
        if hasattr(self, "stage"):
            self.stage.close_all()
        shutil.rmtree(self._root, ignore_errors=True)

    # --- choosing sessions and proxies

    def _pick(self, which: int, *fit: Callable[[Session], bool]) -> Session | None:
        found = [session for session in self.stage.sessions if all(each(session) for each in fit)]
        return found[which % len(found)] if found else None

    def _is_remembered(self, session: Session) -> bool:
        """Whether the agent has not lost it."""
        return session.agent_id in self.stage.disk.sessions

    def _proxy(self, which: int) -> Proxied:
        return self.stage.proxies[which % len(self.stage.proxies)]

    def _loadable(self, which: int, at: int) -> tuple[Session, Proxied] | None:
        """A session that may be loaded, and its proxy: the one that has it, or any."""
        session = self._pick(which, _is_quiet)
        if session is None or not self.stage.proxies:
            return None
        if not self.stage.loads(session):
            return None
        return session, session.proxy or self._proxy(at)

    # --- rules: conversation

    @precondition(lambda self: self.stage.proxies and len(self.stage.sessions) < _SESSIONS)
    @rule(which=_which)
    def new(self, which: int) -> None:
        self.stage.new(self._proxy(which))

    @rule(which=_which, turn=_turns)
    def prompt(self, which: int, turn: str) -> None:
        if session := self._pick(which, _is_open, _is_quiet):
            habits = self.stage.habits  # an unanswered prompt goes with what is replayed or said after it
            self.stage.prompt(session, turn or "s" * (habits.is_late or habits.equal))

    @precondition(lambda self: not self.stage.habits.equal)  # what equals the past waits for what comes next
    @rule(which=_which, turn=_turns, later=_turns)
    def prompt_of_a_long_turn(self, which: int, turn: str, later: str) -> None:
        """A turn that continues later; a prompt during a turn is queued."""
        habits = self.stage.habits  # the order of such turns in the transcript is not the agent's
        is_late = habits.is_late or habits.version != "1"  # in version 2, a queued prompt is said when it is accepted
        if (session := self._pick(which, _is_open)) and not (is_late and session.has_turn):
            self.stage.prompt(session, turn, later or "s")

    @rule(which=_which)
    def go_on(self, which: int) -> None:
        if session := self._pick(which, _is_open, _is_busy):
            self.stage.go_on(session)

    @rule(which=_which)
    def cancel(self, which: int) -> None:
        if session := self._pick(which, _is_open, _is_busy):
            self.stage.cancel(session)

    @precondition(lambda self: self.stage.habits.commands)
    @rule(which=_which, command=st.sampled_from(["/undo", "/clear", "/compact"]), turn=st.sampled_from(["", "s"]))
    def command(self, which: int, command: str, turn: str) -> None:
        if session := self._pick(which, _is_open, _is_quiet):
            self.stage.prompt(session, turn, text=command)

    @feature("remark")
    @rule(which=_which)
    def remark(self, which: int) -> None:
        """Not if it is not heard, has another place in the agent's memory, or may be an old answer in other words."""
        fit = self._is_remembered, lambda session: not (session.is_deaf or session.earlier or session.is_behind)
        heard = self._pick(which, *fit)
        if (session := heard) and not session.ends_in_user and _is_open(session) and _is_quiet(session):
            self.stage.remark(session)

    @feature("elsewhere")
    @precondition(lambda self: not self.stage.habits.equal)  # nobody can tell an equal turn from a repeated one
    @precondition(lambda self: not self.stage.habits.injects)  # an injected message may begin such a turn
    @rule(which=_which)
    def elsewhere(self, which: int) -> None:
        fit = self._is_remembered, _is_quiet, _is_answered, lambda session: not session.handed_over
        if session := self._pick(which, *fit):
            self.stage.elsewhere(session)

    # --- rules: the past

    @rule(which=_which, at=_which)
    def load(self, which: int, at: int) -> None:
        if found := self._loadable(which, at):
            self.stage.load(*found)

    @rule(which=_which, at=_which)
    def load_twice(self, which: int, at: int) -> None:
        """One after the other."""
        if found := self._loadable(which, at):
            self.stage.load(*found)
            self.stage.load(*found)

    @feature("loads at once")
    @rule(which=_which, at=_which, while_told=st.booleans())
    def two_loads_at_once(self, which: int, at: int, while_told: bool) -> None:
        """Not if late or new words may come between the two: nobody can tell to which they belong."""
        habits = self.stage.habits
        is_mixed = habits.is_late or habits.greets or habits.warns != "never"
        if (found := self._loadable(which, at)) and not is_mixed:
            self.stage.load(*found, again=True, while_told=while_told)

    @feature("cancelled loads")
    @rule(which=_which, at=_which, while_told=st.booleans(), again=st.booleans())
    def cancel_a_load(self, which: int, at: int, while_told: bool, again: bool) -> None:
        """Not if a new session greets that nobody may want any more."""
        habits = self.stage.habits
        hands_over = "load" not in habits.offers or habits.refuses or habits.refuses_prompt
        if (found := self._loadable(which, at)) and not (habits.greets and hands_over):
            self.stage.load(*found, cancel=True, again=again and not habits.is_late, while_told=while_told)

    @feature("prompt at once")
    @rule(which=_which, at=_which, turn=_turns, come=st.integers(0, 3))
    def load_and_prompt_at_once(self, which: int, at: int, turn: str, come: int) -> None:
        if (found := self._loadable(which, at)) and not self.stage.habits.equal:
            self.stage.load(*found, then=turn, told_until_then=come)

    @feature("load in a turn")
    @precondition(lambda self: not (self.stage.habits.injects or self.stage.habits.commands))
    @precondition(lambda self: "users" not in self.stage.habits.forgets)
    @rule(which=_which)
    def load_in_a_turn(self, which: int) -> None:
        """In a turn everything is new except a replay, which begins with the first prompt. So not with agents that
        replay no prompts or something before them, and not for a session that continued elsewhere."""
        session = self._pick(which, _is_open, _is_busy, lambda session: not session.is_behind)
        if session and not (self.stage.habits.equal or self.stage.habits.rewords):
            self.stage.load(session)

    @feature("resume")
    @precondition(lambda self: "resume" in self.stage.habits.offers)
    @rule(which=_which, at=_which)
    def resume(self, which: int, at: int) -> None:
        if (found := self._loadable(which, at)) and found[0].has_transcript:
            self.stage.resume(*found)

    @feature("fork")
    @precondition(lambda self: "fork" in self.stage.habits.offers and len(self.stage.sessions) < _SESSIONS)
    @rule(which=_which)
    def fork(self, which: int) -> None:
        if session := self._pick(which, _is_open, _is_quiet, lambda session: not session.handed_over):
            self.stage.fork(session)

    @feature("import")
    @precondition(lambda self: "load" in self.stage.habits.offers and len(self.stage.sessions) < _SESSIONS)
    @rule()
    def known_to_the_agent_alone(self) -> None:
        self.stage.known_to_agent_alone()

    @precondition(lambda self: "close" in self.stage.habits.offers)
    @rule(which=_which)
    def close(self, which: int) -> None:
        if session := self._pick(which, _is_open, _is_quiet):
            self.stage.close(session)

    # --- rules: processes

    @precondition(lambda self: len(self.stage.proxies) < _PROXIES)
    @rule()
    def start(self) -> None:
        self.stage.start()

    @precondition(lambda self: self.stage.proxies)
    @rule(which=_which)
    def end(self, which: int) -> None:
        self.stage.end(self._proxy(which))

    @feature("kill")
    @precondition(lambda self: self.stage.proxies)
    @rule(which=_which)
    def kill(self, which: int) -> None:
        self.stage.kill(self._proxy(which))

    @precondition(lambda self: self.stage.proxies)
    @rule(which=_which)
    def list_sessions(self, which: int) -> None:
        self.stage.list_sessions(self._proxy(which))


def _is_open(session: Session) -> bool:
    return session.proxy is not None


def _is_busy(session: Session) -> bool:
    return session.has_turn


def _is_answered(session: Session) -> bool:
    """Otherwise nobody can tell an echo from a message of another client."""
    items = [line.item for line in session.said if line.item is not None]
    return not items or items[-1].kind != USER


def _is_quiet(session: Session) -> bool:
    return not session.has_turn


Conversations.TestCase.settings = settings(
    max_examples=_EXAMPLES or _USUAL_EXAMPLES,
    stateful_step_count=_STEPS,
    derandomize=not _EXAMPLES,
    deadline=None,
    print_blob=False,
    phases=[Phase.reuse, Phase.generate, Phase.shrink],
    suppress_health_check=list(HealthCheck),
)
TestConversations = Conversations.TestCase
