"""Makes a plan from a seed."""

import random
from dataclasses import dataclass, field, replace
from typing import Any

from simulation.agent import REFUSALS, Habits
from simulation.plan import Plan, Step

_ODD = 5
"""The largest number of unusual habits in one agent."""
_STEPS = 16
_OF_VERSION_2 = 8
"""One of so many plans speaks version 2 of the protocol."""
_OF_OPEN_CALLS = 16
"""In one of so many plans, no tool call ends in its turn."""
_WINDOWS = 2
_SESSIONS = 3
_ADDS = ("before", "after", "calls", "responses")
_WHEN = ("before", "after", "split", "never")
_STATUS = "status: everything-is-fine nothing-to-report"
THEMES = (
    "commands",
    "crash",
    "elsewhere",
    "equal",
    "fork",
    "handover",
    "hostile",
    "remarks",
    "repeats",
    "resume",
    "rewind",
    "steering",
    "terminals",
)
"""What some conversations have besides prompts, loads and restarts: two of these, so that nothing hides the others."""
_BESIDE_EQUAL = {"equal", "crash", "fork", "handover", "resume", "terminals"}
"""The themes that go with conversations in which everybody always says the same: with the others, nobody could tell an
answer from that of a turn that was taken back or made elsewhere."""
_BEGINNINGS = ("Let me look at the code first. ", "I will do that now. ", "ok. ", "", "", "", "")
"""How answers begin. Agents often say the same."""

_HABITS: dict[str, tuple[Any, ...]] = {
    "tells": _WHEN,
    "tells_resumed": _WHEN,
    "tells_forked": _WHEN,
    "leaves_out": ("calls", "users", "thoughts", "commands", "cancelled", "old", "all"),
    "rewords": (True,),
    "pieces": ("joined", "split"),
    "streams": (4, 7, 20),
    "ids": ("same", "fresh"),
    "call_ids": ("fresh",),
    "injects": (True,),
    "echoes": ("plain", "expanded", "chunks", "id"),
    "refuses": tuple(sorted({*REFUSALS} - {"not offered"})),
    "refuses_prompt": (True,),
    "renames": (True,),
    "warns": ("first", "last", "after"),
    "loses": ("turn", "last"),
    "finishes": (True,),
    "never_answers": ("prompts", "loads"),
    "answers_cancelled": (True,),
    "overtakes": (True,),
    "greets": (True,),
    "remembers_remarks": (True,),
    "alternates": (True,),
    "titles": (True,),
    "forks_at": ("turn",),
}
_LIKELY = (
    ("crash", "finishes"),
    ("crash", "loses"),
    ("elsewhere", "leaves_out"),
    ("elsewhere", "tells"),
    ("fork", "ids"),
    ("fork", "ids"),
    ("handover", "refuses"),
    ("handover", "titles"),
    ("remarks", "greets"),
    ("remarks", "remembers_remarks"),
    ("resume", "tells"),
    ("rewind", "ids"),
    ("rewind", "ids"),
)
"""The habits that matter to a theme."""
_SETS = ("leaves_out", "never_answers")


def make(seed: int, themes: frozenset[str] | None = None, *, has_context: bool = False) -> Plan:
    """The plan of a seed, always the same. ``themes``: what it is about; by default, two by chance. ``has_context``:
    the agent's replays have user messages that nobody typed; all else is chosen as without this."""
    chance = random.Random(seed)
    themes = themes or frozenset(chance.sample(THEMES, 2))
    if "equal" in themes:
        themes &= _BESIDE_EQUAL
    habits = _habits(chance, themes)
    if seed % _OF_VERSION_2 == _OF_VERSION_2 - 1:
        habits = possible(replace(habits, version=2))
    if seed % _OF_OPEN_CALLS == 3:
        habits = replace(habits, leaves_calls_open=True)
    if has_context:
        habits = _add_context(random.Random(f"context {seed}"), habits)
    is_odd = "resume" in themes and "resume" not in habits.offers and not habits.greets  # it may belong to the replay
    options = {"resume": "store"} if is_odd and chance.random() < 0.7 else {}
    return Plan(habits, tuple(_Author(chance, habits, themes).write()), options, f"seed {seed}")


def _add_context(chance: random.Random, habits: Habits) -> Habits:
    adds = chance.sample(_ADDS, chance.randint(1, 2))
    return possible(
        replace(habits, adds=tuple(sorted(adds)), tells=chance.choice(("before", "after", "split", "split")))
    )


def _habits(chance: random.Random, themes: frozenset[str]) -> Habits:
    """Only some habits are unusual, so that the effect of each alone is seen."""
    offers = [name for name in ("resume", "list", "close") if chance.random() < 0.3]
    offers += [name for name in ("fork", "steering", "rewind") if name in themes]
    if chance.random() < (0.6 if "handover" in themes else 0.9):
        offers.append("load")
    chosen: dict[str, Any] = {"offers": tuple(offers)}
    odd = chance.sample(sorted(_HABITS), chance.randint(0, _ODD))
    odd += [name for theme, name in _LIKELY if theme in themes and chance.random() < 0.5]
    for name in odd:
        value = chance.choice(_HABITS[name])
        chosen[name] = (value,) if name in _SETS else value
    if "repeats" in themes and chance.random() < 0.6:
        chosen["leaves_out"] = ("commands",)
    if "crash" in themes and chance.random() < 0.4:
        chosen["leaves_out"] = ("calls",)
    if "equal" in themes and chosen.get("echoes") == "expanded":  # looks like a replay that begins again
        chosen["echoes"] = "plain"
    return possible(Habits(**chosen))


def possible(habits: Habits) -> Habits:
    """The habits without those of which nobody could tell what is past and what is new."""
    if habits.is_late:  # its reworded replay comes when it is already decided whose replay is shown
        habits = replace(habits, rewords=False)
    if "users" in habits.leaves_out:  # an old answer in other words looks like that of a turn made elsewhere
        habits = replace(habits, rewords=False)
    if habits.warns == "last" and "split" in (habits.tells, habits.tells_resumed):  # it would replace the answer
        habits = replace(habits, warns="after")
    if habits.renames:  # a replay under an id that nobody knows yet passes
        habits = replace(habits, tells_resumed="never", warns="never")
    if habits.greets:  # after the answer to a cancelled load, it may be the beginning of the next one's replay
        # and after a replay that leaves turns out, it waits: it may be one of their answers in other words
        habits = replace(habits, answers_cancelled=False, leaves_out=())
        if habits.is_late:  # a prompt without an answer would go with the greeting
            habits = replace(habits, tells="before", tells_resumed="never")
    if habits.version == 2 or habits.alternates:  # each message has an id, each prompt an echo, and none is left open
        offers = {*habits.offers} - {"steering", "rewind"} | {"load", "resume", "list", "close"}
        never = tuple(name for name in habits.never_answers if name != "prompts")
        habits = replace(habits, offers=tuple(sorted(offers)), ids="same", echoes="id", never_answers=never)
        habits = replace(habits, tells_resumed="never", renames=False)
    if habits.refuses_prompt and (habits.greets or habits.warns != "never") and habits.echoes == "expanded":
        habits = replace(habits, echoes="plain")  # after the greeting of a new session, it may be a message of its own
    if habits.injects or habits.adds:  # user messages are counted, not read
        habits = replace(habits, leaves_out=())
    if habits.pieces == "joined" and "users" in habits.leaves_out:  # answers of two turns would be one message
        habits = replace(habits, pieces="said")
    return habits


@dataclass
class _State:
    """What the author believes; a step that cannot be done is skipped."""

    windows: list[str] = field(default_factory=list)
    started: int = 0
    sessions: list[int] = field(default_factory=list)
    open: dict[tuple[str, int], bool] = field(default_factory=dict)
    """Open sessions, and whether a turn waits there."""
    words: dict[int, list[str]] = field(default_factory=dict)
    terminals: list[str] = field(default_factory=list)


class _Author:
    def __init__(self, chance: random.Random, habits: Habits, themes: frozenset[str]) -> None:
        self._chance = chance
        self._themes = themes
        self._habits = habits
        self._state = _State()
        self._number = 0

    def write(self) -> list[Step]:
        steps = [self._start(), self._new(), self._prompt()]
        for _ in range(self._chance.randint(4, _STEPS)):
            made = self._any()
            steps += made
        return [step for step in steps if step]

    def _any(self) -> list[Step]:
        state, offers = self._state, self._habits.offers
        busy = [key for key, waits in state.open.items() if waits]
        quiet = [key for key, waits in state.open.items() if not waits]
        able: list[tuple[float, Any]] = []
        if not state.windows:
            return [self._start(), self._load()]
        if len(state.windows) < (1 if self._habits.renames else _WINDOWS):  # the other window would ask for the old one
            able.append((1.5, lambda: [self._start(), self._load()]))
        if len(state.sessions) < _SESSIONS:
            able.append((0.7, lambda: [self._new()]))
            if "elsewhere" in self._themes:
                able.append((0.5, lambda: [self._elsewhere(len(state.sessions) + 1)]))
            if "fork" in offers and quiet:
                able.append((1.5, lambda: [self._fork(*self._chance.choice(quiet))]))
        if state.open:
            able.append((6, lambda: [self._prompt()]))
            able.append((3 if {"crash", "steering"} & self._themes else 0.5, lambda: [self._prompt(waits=True)]))
        if busy and self._may_load_in_turns:
            able.append((2, lambda: [{**self._simple("load", *self._chance.choice(busy)), "in turn": True}]))
        if busy:
            able.append((3, lambda: [self._go_on(*self._chance.choice(busy))]))
            able.append((1.5, lambda: [self._cancel(*self._chance.choice(busy))]))
            if "steering" in offers:
                able.append((4, lambda: [self._steer(*self._chance.choice(busy))]))
        if quiet:
            able.append((4 if "remarks" in self._themes else 0.5, lambda: [self._remark(*self._chance.choice(quiet))]))
            if "rewind" in offers:
                able.append((1.5, lambda: [self._rewind(*self._chance.choice(quiet)), self._load()]))
            if "close" in offers:
                able.append((0.5, lambda: [self._simple("close", *self._chance.choice(quiet))]))
        if state.sessions:
            able.append((4, lambda: [self._load()]))
            able.append((3 if "crash" in self._themes else 1.5, self._restart))
            able.append((0.7, lambda: [{"do": "list", "w": self._chance.choice(state.windows)}]))
            if "elsewhere" in self._themes:
                able.append((2, self._continued_elsewhere))
            able.append((3 if "resume" in self._themes else 0.7, lambda: [self._resume()]))
        return self._chance.choices([act for _, act in able], [weight for weight, _ in able])[0]()  # type: ignore[no-any-return]

    @property
    def _may_load_in_turns(self) -> bool:
        """In a turn everything is new except a replay: that begins with the first prompt, and goes on in order."""
        habits = self._habits
        is_plain = not (
            habits.injects or habits.adds or habits.rewords or "users" in habits.leaves_out or habits.warns != "never"
        )
        return is_plain and not self._themes & {"commands", "elsewhere", "equal"}

    # --- words

    def _word(self, what: str) -> str:
        self._number += 1
        return f"{what}-{self._number}"

    def _answer(self, session: int) -> str:
        if "equal" in self._themes:
            return "ok."
        word = self._word("answer")
        self._state.words.setdefault(session, []).append(word)
        beginning = self._chance.choice(_BEGINNINGS) if "repeats" in self._themes else ""
        if beginning and self._chance.random() < 0.15:
            return beginning.strip()
        return f"{beginning}{word}"

    def _turn(self, session: int, *, waits: bool = False) -> list[str]:
        turn = []
        shapes = ["s", "s", "s", "scs", "tsc", "c", "ss", "s" if "equal" in self._themes else ""]
        shapes += ["T", "T", "sO", "O"] * ("terminals" in self._themes) + ["n", "e", "r"] * ("hostile" in self._themes)
        for what in self._chance.choice(shapes):
            if what == "s":
                turn.append(f"say {self._answer(session)}")
            elif what == "t":
                turn.append(f"think {self._word('thought')}")
            elif what == "c":
                turn.append(f"call {self._word('read')}")
            elif what == "T":
                name = self._word("run")
                self._state.terminals.append(name)
                rest = self._chance.choice([["output"], [], ["output", "release"], ["release"]])
                turn += [f"terminal {name}", *(f"{each} {name}" for each in rest)]
            elif what == "O" and self._state.terminals:
                turn.append(f"output {self._chance.choice(self._state.terminals)}")
            elif what == "n" and len(self._state.sessions) > 1:
                turn.append(f"forge-note {self._chance.choice(self._state.sessions)}")
            elif what == "e":
                turn.append(f"forge-entry {self._word('forged')}")
            elif what == "r":
                turn.append(f"resource {self._word('hostile')}")
        if waits:
            turn.insert(self._chance.randint(0, len(turn)), "wait")
        return turn

    # --- steps

    def _start(self) -> Step:
        name = "abcdefghijklmnopqrstuvwxyz"[self._state.started % 26]
        self._state.started += 1
        self._state.windows.append(name)
        return {"do": "start", "w": name}

    def _window(self) -> str:
        return self._chance.choice(self._state.windows)

    def _new(self) -> Step:
        session, window = len(self._state.sessions) + 1, self._window()
        self._state.sessions.append(session)
        self._state.open[window, session] = False
        return {"do": "new", "w": window, "s": session}

    def _prompt(self, *, waits: bool = False) -> Step:
        keys = [key for key, busy in self._state.open.items() if not busy or self._chance.random() < 0.3]
        if not keys:
            return {}
        window, session = self._chance.choice(keys)
        step: Step = {"do": "prompt", "w": window, "s": session}
        kind = self._chance.random()
        if kind < 0.3 and "repeats" in self._themes:
            step |= {"text": "/status", "turn": [f"say {_STATUS}"]}
        elif kind < 0.3 and "commands" in self._themes:
            command = self._chance.choice(["/undo", "/clear", "/compact"])
            step |= {"text": command, "turn": self._chance.choice([[], [f"say {self._answer(session)}"]])}
        elif "equal" in self._themes or (kind < 0.4 and "repeats" in self._themes):
            step |= {"text": "go on", "turn": self._turn(session)}
        else:
            waits = waits or self._chance.random() < 0.2
            step |= {"text": self._word("ask"), "turn": self._turn(session, waits=waits)}
            self._state.open[window, session] = self._state.open[window, session] or waits
        return step

    def _load(self, session: int = 0) -> Step:
        if not self._state.sessions:
            return {}
        window, session = self._window(), session or self._chance.choice(self._state.sessions)
        self._state.open[window, session] = False
        step: Step = {"do": "load", "w": window, "s": session}
        kind = self._chance.random()
        if self._habits.greets:  # two loads, or a load and a prompt: nobody can tell to which a greeting belongs
            return step
        if self._habits.tells == "split" and "equal" in self._themes:  # nor to which replay the same words belong
            return step
        if kind < 0.07:
            step["again"] = True
        elif kind < 0.14:
            step["cancel"] = True
        elif kind < 0.2:
            step |= {"cancel": True, "again": True}
        elif kind < 0.3 and "equal" not in self._themes:
            step |= {"then": {"text": self._word("ask"), "turn": self._turn(session)}}
            step["come"] = self._chance.randint(0, 3) if self._habits.pieces != "split" else 0  # no part of a word
        if kind < 0.2 and self._chance.random() < 0.5:
            step["while told"] = True
        return step

    def _resume(self, session: int = 0) -> Step:
        window, session = self._window(), session or self._chance.choice(self._state.sessions)
        self._state.open[window, session] = False
        return self._simple("resume", window, session)

    def _fork(self, window: str, session: int) -> Step:
        to = len(self._state.sessions) + 1
        self._state.sessions.append(to)
        self._state.open[window, to] = False
        step: Step = {"do": "fork", "w": window, "s": session, "to": to}
        words = self._state.words.get(session, [])
        self._state.words[to] = list(words)
        if words and self._habits.ids != "none" and self._chance.random() < 0.7:
            step["at"] = self._chance.choice(words)
        return step

    def _rewind(self, window: str, session: int) -> Step:
        words = self._state.words.get(session, [])
        self._state.open.pop((window, session), None)
        if not words:
            return {}
        return {"do": "rewind", "w": window, "s": session, "at": self._chance.choice(words)}

    def _restart(self) -> list[Step]:
        window = self._window()
        self._state.windows.remove(window)
        self._state.open = {key: busy for key, busy in self._state.open.items() if key[0] != window}
        self._state.terminals = []
        how = self._chance.choice(["end", "agent", "proxy", "proxy"])
        last: Step = {"do": "end", "w": window} if how == "end" else {"do": "kill", "w": window, "side": how}
        return [last, self._start(), self._load()]

    def _elsewhere(self, session: int) -> Step:
        if session not in self._state.sessions:
            self._state.sessions.append(session)
        turn = [self._answer(session) for _ in range(self._chance.choice([0, 1, 1, 2]))]
        return {"do": "elsewhere", "s": session, "text": self._word("ask"), "turn": turn}

    def _continued_elsewhere(self) -> list[Step]:
        """A turn made elsewhere while nobody has the session open; then it is opened."""
        session = self._chance.choice(self._state.sessions)
        opens = self._resume if "resume" in self._themes else self._load
        closes = [self._simple("close", *key) for key in self._state.open if key[1] == session]
        return [*closes, self._elsewhere(session), opens(session)]

    def _go_on(self, window: str, session: int) -> Step:
        self._state.open[window, session] = False
        return self._simple("go on", window, session)

    def _cancel(self, window: str, session: int) -> Step:
        self._state.open[window, session] = False
        return self._simple("cancel", window, session)

    def _steer(self, window: str, session: int) -> Step:
        return {**self._simple("steer", window, session), "text": self._word("also")}

    def _remark(self, window: str, session: int) -> Step:
        return {**self._simple("remark", window, session), "text": self._word("remark")}

    def _simple(self, what: str, window: str, session: int) -> Step:
        return {"do": what, "w": window, "s": session}
