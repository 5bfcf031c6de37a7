"""The steps that every editor goes through, each checked on its screen, in the transcript and on the tape."""

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

import psutil

from scripts.editors.desk import Desk
from scripts.editors.editor import COMMAND, Editor
from scripts.editors.terminal import PATIENCE, NotShown, Terminal
from scripts.real_agents import lives, wait_for_the_next_minute

FIRST, SECOND = "please TOOL now", "hello again"
ANSWERS = ("FAKE-FINAL after tool.", "FAKE-ANSWER: I am a fake model.")
"""Of the stand-in model, to these prompts."""


class StepFailed(Exception):
    """The screen shows what it should, but something else was recorded or sent."""


@dataclass
class Outcome:
    """``screens``: after each step, or when it failed. ``problem``: of the last of these steps."""

    editor: type[Editor]
    version: str
    agent: str
    screens: dict[str, str] = field(default_factory=dict)
    problem: str | None = None

    def of(self, step: str) -> str:
        """What the table says of a step."""
        if step not in self.screens:
            return "not tried"
        return "wrong" if self.problem is not None and step == self._last() else "ok"

    def told(self) -> str:
        """All in a word, or the problem with its screen."""
        if self.problem is None:
            return "ok"
        return f"{self._last()}: {self.problem}. The screen:\n\n{self.screens[self._last()]}"

    def _last(self) -> str:
        return list(self.screens)[-1]


class Steps:
    """One editor in front of one agent."""

    def __init__(self, editor: Editor, terminal: Terminal, desk: Desk) -> None:
        self._editor = editor
        self._terminal = terminal
        self._desk = desk

    def walk(self, outcome: Outcome) -> None:
        """Take the steps in their order, up to the first that fails."""
        for name, step in _STEPS.items():
            try:
                step(self)
            except (NotShown, StepFailed, psutil.Error) as problem:
                outcome.problem = str(problem)
            outcome.screens[name] = self._terminal.screen()
            if outcome.problem is not None:
                return

    def _start(self) -> None:
        self._editor.configure()
        self._editor.begin()

    def _call_a_tool(self) -> None:
        self._editor.say(FIRST)
        self._editor.allow()
        self._terminal.wait_for(FIRST, ANSWERS[0])
        self._is_recorded(FIRST)

    def _kill(self) -> None:
        """Kill the editor. The proxy and the agent end by themselves."""
        root = self._terminal.process()
        family = [root, *root.children(recursive=True)]
        for process in family:
            with suppress(psutil.NoSuchProcess):
                if process.name() == root.name():
                    process.kill()
        deadline = time.monotonic() + PATIENCE
        while left := [process for process in family if lives(process)]:
            if time.monotonic() > deadline:
                raise StepFailed(f"after the editor's end these still run: {left}")
            time.sleep(0.1)
        self._terminal.close()
        self._is_recorded(FIRST)

    def _list(self) -> None:
        wait_for_the_next_minute()  # gemini loads no session in the minute in which it was made
        self._editor.show_sessions()

    def _load(self) -> None:
        self._editor.load()
        self._terminal.wait_for(FIRST, self._editor.past_call, ANSWERS[0])
        if not self._desk.answered("session/load"):
            raise StepFailed("the editor has not loaded the session")
        self._is_recorded(FIRST)

    def _go_on(self) -> None:
        self._editor.say(SECOND)
        self._terminal.wait_for(SECOND, ANSWERS[1])
        self._is_recorded(FIRST, SECOND)

    def _is_recorded(self, *prompts: str) -> None:
        """Wait until the store has one session with these turns, all finished."""
        deadline = time.monotonic() + PATIENCE
        while (problem := self._unlike(*prompts)) is not None:
            if time.monotonic() > deadline:
                raise StepFailed(problem)
            time.sleep(0.2)

    def _unlike(self, *prompts: str) -> str | None:
        """How the store differs from these prompts and their answers."""
        sessions = self._desk.sessions()
        if len(sessions) != 1:
            return f"the store has {len(sessions)} sessions with a turn, not one"
        turns = list(sessions[0].turns())
        if [turn.user.strip() for turn in turns] != list(prompts):
            return f"the transcript has the prompts {[turn.user for turn in turns]}"
        for turn, answer in zip(turns, ANSWERS, strict=False):
            if answer not in turn.agent or turn.stop_reason != "end_turn":
                return f"the transcript's answer to {turn.user!r} is {turn.agent!r}, {turn.stop_reason}"
        if not any(COMMAND in title for title in turns[0].tool_calls):
            return f"the transcript has the tool calls {turns[0].tool_calls}"
        return None


_STEPS: dict[str, Callable[[Steps], None]] = {
    "start": Steps._start,
    "tool call": Steps._call_a_tool,
    "SIGKILL": Steps._kill,
    "list": Steps._list,
    "load": Steps._load,
    "next prompt": Steps._go_on,
}
STEPS = tuple(_STEPS)
