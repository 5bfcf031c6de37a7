"""What an agent remembers of its sessions, and what it loses."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.model import world
from tests.model.habits import Habits
from tests.model.world import CALL, COMPACTION, SAY, THOUGHT, USER, Item, Update, words

_PIECE = 3
"""Characters of a piece, if an agent replays words in other pieces than it said them in."""
_REWORDED = "In other words"


@dataclass
class Disk:
    """What an agent's processes share: sessions by the agent's id, the sessions that lost turns, and those that got the
    record of an earlier conversation."""

    sessions: dict[str, list[Item]] = field(default_factory=dict)
    lost_turns: set[str] = field(default_factory=set)
    have_record: set[str] = field(default_factory=set)
    made: int = 0
    numbers: int = 0

    def number(self) -> int:
        self.numbers += 1
        return self.numbers

    def new_id(self) -> str:
        self.made += 1
        return f"s{self.made}"

    def end_of_process(self, habits: Habits) -> None:
        """Keep of every session what survives."""
        for session, items in self.sessions.items():
            self._survive(session, items, habits.forgets)
            if habits.rewords:
                self._reword(items)

    def _survive(self, session: str, items: list[Item], forgets: frozenset[str]) -> None:
        if "all" in forgets:
            items.clear()
            self.lost_turns.add(session)
        if "turns" in forgets and len(turns := world.turns_of(items)) > 1:
            items[:] = turns[-1]
            self.lost_turns.add(session)
        gone = {CALL: "calls", USER: "users", THOUGHT: "thoughts"}
        items[:] = [item for item in items if gone.get(item.kind, "") not in forgets]

    def _reword(self, items: list[Item]) -> None:
        answers = [at for at, item in enumerate(items) if item.is_answer]
        for at in answers[:-1]:
            item = items[at]
            if item.kind == SAY and not item.text.startswith(_REWORDED):
                items[at] = Item(SAY, f"{_REWORDED}: {item.number}. ", self.number())

    def take_back(self, session: str, command: str) -> Item | None:
        """Forget what a command takes back; a compaction leaves a summary."""
        memory = self.sessions[session]
        if command.startswith("/undo") and (turns := world.turns_of(memory)):
            last = {item.number for item in turns[-1]}
            memory[:] = [item for item in memory if item.number not in last]
        elif command.startswith("/clear"):
            memory.clear()
        elif command.startswith("/compact"):
            number = self.number()
            memory[:] = [Item(COMPACTION, f"summary {number}", number)]
            return memory[0]
        return None


def retold(items: Sequence[Item], pieces: str) -> list[tuple[Item, Update]]:
    """Items as updates. A joined message belongs to its first item."""
    out: list[tuple[Item, Update]] = []
    for item in items:
        if pieces == "split" and item.kind == SAY:
            parts = [item.text[at : at + _PIECE] for at in range(0, len(item.text), _PIECE)]
            out += [(item, words(SAY, part)) for part in parts]
        elif pieces == "joined" and out and out[-1][0].kind == item.kind == SAY:
            first, update = out[-1]
            out[-1] = first, words(SAY, update["content"]["text"] + item.text)
        else:
            out.append((item, world.in_one_line(item)))
    return out
