"""What happens on a few machines, as a list of steps; one that fails is short enough to be kept as a test."""

import random
from contextlib import closing
from typing import Any

from tests.tools.sync.users import Users
from tests.tools.sync.world import Faults, Machine

Step = tuple[str, int, int, Any]
"""What happens, on which machine, to which of its sessions, and how."""
KINDS = ["new", "talk", "change", "sync", "fault", "meanwhile", "all", "damage", "import"]
RARE = ["part", "clock", "clone", "backup", "restore", "behind", "arrive", "forget", "move"]
_WEIGHTS = [2, 8, 6, 8, 6, 6, 4, 2, 2, *(1 for _ in RARE)]
CHANGES = ["rename", "archive", "delete", "soft_delete", "prune", "lose", "redact", "repair", "export"]
TALKS = ["prompt", "ask", "hold", "load"]
EMPTIES = False
"""Whether a file may also be cut to zero bytes: it is never fetched again."""
DAMAGES = ["nul", "nul", "newline", "cut", "header", *(["empty"] if EMPTIES else [])]
MOST_DAMAGED = 300
"""Bytes: a turn has about so many."""
FAULTS = ["before", "after", "lost", "late", "refused"]
_MOST_MACHINES = 4


def draw_play(seed: int, count: int) -> list[Step]:
    """A random play."""
    chance = random.Random(seed)
    return [_step(chance) for _ in range(count)]


def _step(chance: random.Random) -> Step:
    kind = chance.choices([*KINDS, *RARE], _WEIGHTS)[0]
    how: Any = None
    match kind:
        case "new":
            how = chance.choice("12")
        case "talk":
            how = chance.choice([*TALKS, "prompt"])
        case "change":
            how = chance.choice([*CHANGES, "rename", "export", "export"])
        case "fault":
            how = chance.randrange(61), chance.choice(FAULTS)
        case "meanwhile":
            how = chance.randrange(61), chance.choice([*CHANGES, *TALKS, *(["sync"] * 6)])
        case "clock":
            how = chance.choice([-1e5, 1e5])
        case "damage":
            how = chance.choice(DAMAGES), chance.randrange(100), chance.randint(1, MOST_DAMAGED)
    return kind, chance.randrange(_MOST_MACHINES), chance.randrange(6), how


def play(steps: list[Step]) -> Users:
    """Perform a play on two machines, let them meet, and check what must be true then."""
    backups: dict[str, Any] = {}
    with closing(Users()) as users:
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
            act(users, machine, session, how)
        case "sync":
            machine.sync()
        case "fault":
            machine.sync(Faults(*how))
        case "meanwhile":
            at, what = how
            machine.sync(Faults(at, meanwhile=lambda: act(users, machine, session, what)))
        case "damage" if machine.sessions.found:
            users.damage(machine, pick(machine, session), how)
        case "import":
            users.bring(machine, session)
        case "all":
            for each in users.machines:
                each.sync()
        case "part":
            machine.is_apart = not machine.is_apart
        case "clock":
            machine.skew = how
        case "clone" if len(users.machines) < _MOST_MACHINES:
            users.clone(machine)
        case "behind":
            machine.fall_behind()
        case "arrive":
            users.place.arrive()
        case "forget":
            users.forget(machine, users.machines[session % len(users.machines)])
        case "move":
            users.move(machine)
        case "backup":
            backups[machine.name] = machine.place, machine.snapshot()
        case "restore" if machine.name in backups and backups[machine.name][0] is machine.place:
            users.restore(machine, backups[machine.name][1])


def act(users: Users, machine: Machine, session: int, what: str) -> None:
    """What a user does to a session; or a round of another machine."""
    if what == "sync":
        others = [each for each in users.machines if each is not machine]
        others[session % len(others)].sync()
        return
    name = pick(machine, session) if machine.sessions.found else users.begin(machine, "1")
    if what not in TALKS or "~" not in name:
        getattr(users, what)(machine, name)


def pick(machine: Machine, session: int) -> str:
    """The name of one of its sessions, of which it must have one."""
    names = sorted(machine.sessions.found)
    return names[session % len(names)]
