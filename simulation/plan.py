"""A plan: an agent's habits, acp-proxy's options, and the steps of a conversation. A plan is a file that people read.

Steps, with the names of windows (``w``: a process of the client, a, b, …) and the numbers of sessions (``s``):

    {"do": "start", "w": "a"}                                 a new process of the client, and of the agent
    {"do": "new", "w": "a", "s": 1}
    {"do": "prompt", "w": "a", "s": 1, "text": "ask-1", "turn": ["say answer-1"]}        (turns: see ``agent``)
    {"do": "go on", "w": "a", "s": 1}                         a turn that waits continues
    {"do": "cancel", "w": "a", "s": 1}
    {"do": "steer", "w": "a", "s": 1, "text": "also-2"}       the user's words into a running turn
    {"do": "remark", "w": "a", "s": 1, "text": "by-the-way"}  the agent speaks outside a turn
    {"do": "load", "w": "a", "s": 1}                          also "again": a second one at once; "cancel": the first is
                                                              cancelled; "while told": after the first part of its
                                                              replay; "in turn": a turn waits there; "then": a prompt
                                                              follows the answer at once, after "come" more lines
    {"do": "resume", "w": "a", "s": 1}
    {"do": "fork", "w": "a", "s": 1, "to": 2}                 also "at": the message with this word
    {"do": "rewind", "w": "a", "s": 1, "at": "answer-1"}
    {"do": "close", "w": "a", "s": 1}
    {"do": "list", "w": "a"}                                  also "open": load rows that are nobody's
    {"do": "elsewhere", "s": 1, "text": "ask-2", "turn": […]} a turn that another client made
    {"do": "end", "w": "a"}                                   the client ends
    {"do": "kill", "w": "a", "side": "agent"}                 or "proxy"
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from simulation.agent import Habits

Step = dict[str, Any]


@dataclass(frozen=True)
class Plan:
    """``about``: for people. ``options``: of ``acp-proxy run``, such as ``{"resume": "store"}``."""

    habits: Habits
    steps: tuple[Step, ...]
    options: dict[str, str] = field(default_factory=dict)
    about: str = ""
    open: str = ""
    """Why it still fails, if it does."""

    def with_steps(self, steps: Sequence[Step]) -> "Plan":
        return replace(self, steps=tuple(steps))

    def text(self) -> str:
        """The plan's file: JSON with one step a line."""
        notes = {"about": self.about, "open": self.open}
        parts = [f'  "{name}": {_json(note)}' for name, note in notes.items() if note]
        parts.append(f'  "agent": {_json(self.habits.as_json())}')
        if self.options:
            parts.append(f'  "options": {_json(self.options)}')
        steps = ",\n".join(f"    {_json(step)}" for step in self.steps)
        parts.append(f'  "steps": [\n{steps}\n  ]')
        return "{\n" + ",\n".join(parts) + "\n}\n"


def read(text: str) -> Plan:
    """The plan of a file. Raises ``ValueError`` if it is not one."""
    value = json.loads(text)
    notes = value.get("about", ""), value.get("open", "")
    return Plan(Habits.from_json(value["agent"]), tuple(value["steps"]), value.get("options", {}), *notes)


def read_file(path: Path) -> Plan:
    return read(path.read_text(encoding="utf-8"))


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
