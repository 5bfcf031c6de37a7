"""What happens on a few machines, as a list of steps; one that fails is short enough to be kept as a test."""

import random
from typing import Any

from tests.sync.users import Users
from tests.sync.world import Faults

Step = tuple[str, int, int, Any]
"""What happens, on which machine, to which of its sessions, and how."""
KINDS = [
    "new",
    "talk",
    "change",
    "sync",
    "fault",
    "all",
    "part",
    "clock",
    "clone",
    "backup",
    "restore",
    "forget",
    "move",
]
_WEIGHTS = [2, 8, 6, 8, 6, 4, 1, 1, 1, 1, 1, 1, 2]
_MOST_MACHINES = 4


def drawn(seed: int, count: int) -> list[Step]:
    """A random play."""
    chance = random.Random(seed)
    return [_step(chance) for _ in range(count)]


def _step(chance: random.Random) -> Step:
    kind = chance.choices(KINDS, _WEIGHTS)[0]
    how: Any = None
    match kind:
        case "new":
            how = chance.choice("12")
        case "talk":
            how = chance.choice(["prompt", "ask", "prompt", "hold", "load"])
        case "change":
            how = chance.choice(["rename", "archive", "delete", "hide", "prune", "lose", "redact", "rename"])
        case "fault":
            how = chance.randrange(61), chance.choice(["before", "after", "lost", "refused"])
        case "clock":
            how = chance.choice([-1e5, 1e5])
    return kind, chance.randrange(_MOST_MACHINES), chance.randrange(6), how


def play(steps: list[Step]) -> Users:
    """Perform a play on two machines, let them meet, and check what must be true then."""
    users = Users()
    backups: dict[str, Any] = {}
    for number in range(2):
        users.add(f"machine {number}")
    for step in steps:
        perform(users, backups, step)
    users.meet()
    users.check()
    return users


def perform(users: Users, backups: dict[str, Any], step: Step) -> None:
    """Perform one step. What is impossible then does nothing."""
    kind, number, session, how = step
    machine = users.machines[number % len(users.machines)]
    match kind:
        case "new":
            users.begin(machine, how)
        case "talk" | "change":
            names = sorted(machine.sessions.found) or [users.begin(machine, "1")]
            name = names[session % len(names)]
            if kind == "change" or "~" not in name:
                getattr(users, how)(machine, name)
        case "sync":
            machine.sync()
        case "fault":
            machine.sync(Faults(*how))
        case "all":
            for each in users.machines:
                each.sync()
        case "part":
            machine.is_apart = not machine.is_apart
        case "clock":
            machine.skew = how
        case "clone" if len(users.machines) < _MOST_MACHINES:
            users.clone(machine)
        case "forget":
            users.forget(machine, users.machines[session % len(users.machines)])
        case "move":
            users.move(machine)
        case "backup":
            backups[machine.name] = machine.place, machine.snapshot()
        case "restore" if machine.name in backups and backups[machine.name][0] is machine.place:
            users.restore(machine, backups[machine.name][1])
