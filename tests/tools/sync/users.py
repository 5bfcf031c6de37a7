"""What users do on several machines, and what must be true once all machines have met."""

import itertools
import re
from dataclasses import dataclass, field

from acp_proxy.tools.sync.interfaces import Move
from acp_proxy.tools.sync.state_db import MACHINE, SENT
from acp_proxy.transcript.file_format import RECORDED, Header
from tests.store import transcript_lines
from tests.tools.sync.world import AGENT, MASKED, Faults, Machine, MemoryFile, MemoryPlace, answered, secret_prompt

_WORD = re.compile(rb"w\d{4}")
_SECRET = re.compile(rb"s\d{4}")
_ROUNDS = 12


@dataclass
class Users:
    """The machines, and what was said where.

    ``before``: for each word, the words of its session before it. ``tree``: for each word, its session's uid.
    ``forgiving``: trees of which a part was deleted or soft-deleted: their words may be gone.
    ``gone``: words that must be nowhere. ``secrets``: secrets that must be nowhere.
    ``over``: for each title, the titles that it replaced knowingly.
    """

    place: MemoryPlace = field(default_factory=MemoryPlace)
    machines: list[Machine] = field(default_factory=list)
    before: dict[bytes, tuple[bytes, ...]] = field(default_factory=dict)
    tree: dict[bytes, str] = field(default_factory=dict)
    forgiving: set[str] = field(default_factory=set)
    gone: set[bytes] = field(default_factory=set)
    secrets: set[bytes] = field(default_factory=set)
    over: dict[str, set[str]] = field(default_factory=dict)
    pruned: set[str] = field(default_factory=set)
    """Trees of which a machine has pruned a session."""
    doubtful: set[str] = field(default_factory=set)
    """Trees that were renamed on a machine of which a backup was restored later: the rename may be lost."""
    have_moved: bool = False
    """Whether ``place`` is not the first one."""
    time: float = 1_700_000_000.0

    def __post_init__(self) -> None:
        self._numbers = itertools.count(1)
        self._open: dict[int, bytes] = {}

    def random(self) -> str:
        return f"{next(self._numbers):032x}"

    def add(self, name: str) -> Machine:
        machine = Machine(name, self.place, self._clock, self.random)
        self.machines.append(machine)
        return machine

    def _clock(self) -> float:
        self.time += 0.5
        return self.time

    def close(self) -> None:
        for machine in self.machines:
            machine.state.close()

    # --- what a user does; ``pick`` chooses a session

    def begin(self, machine: Machine, id: str) -> str:
        """A new session, under an id that the agent may have given before. Returns its name."""
        if id in machine.sessions.found or any(name.partition("~")[0] == id for name in machine.sessions.found):
            id = f"{id}-{next(self._numbers)}"
        uid = self.random()
        machine.sessions.found[id] = MemoryFile(Header(id, "/p", RECORDED, transcript_lines.time(0), uid=uid), b"")
        self.prompt(machine, id)
        return id

    def prompt(self, machine: Machine, name: str) -> bytes:
        """A whole turn, or the end of one that was left open. Returns its word."""
        file = machine.sessions.found[name]
        if file.is_open:
            self.answer(machine, name)
            return b""
        word = self.ask(machine, name)
        self.answer(machine, name)
        return word

    def ask(self, machine: Machine, name: str) -> bytes:
        """A prompt that is not answered yet: the session is open."""
        file = machine.sessions.found[name]
        if file.is_open:
            return b""
        number = next(self._numbers)
        word, secret = f"w{number:04}", f"s{number:04}"
        self.before[word.encode()] = tuple(words(file))
        self.tree[word.encode()] = self.tree_of(machine, file)
        session = name.partition("~")[0]
        session = file.header.session_id if session != file.header.session_id else session
        file.data += secret_prompt(word, secret, session)
        file.version += 1
        file.is_open = True
        self._open[id(file)] = word.encode()
        return word.encode()

    def answer(self, machine: Machine, name: str) -> None:
        file = machine.sessions.found[name]
        if file.is_open:
            file.is_open = False
            word = words(file)[-1]
            file.data += answered(word.decode())
            file.version += 1

    def hold(self, machine: Machine, name: str) -> None:
        """An editor opens the session, and has it open until it is loaded again."""
        machine.sessions.load(name)
        machine.sessions.found[name].is_held = True

    def load(self, machine: Machine, name: str) -> None:
        machine.sessions.load(name)

    def tree_of(self, machine: Machine, file: MemoryFile) -> str:
        local = machine.state.find_local_session(file.header.uid)
        return local.tree if local is not None else file.header.uid

    def rename(self, machine: Machine, name: str) -> None:
        file = machine.sessions.found[name]
        title = f"title {next(self._numbers)}"
        self.over[title] = {file.title, *self.over.get(file.title, ())} if file.title is not None else set()
        file.title = title

    def archive(self, machine: Machine, name: str) -> None:
        file = machine.sessions.found[name]
        file.is_archived = not file.is_archived

    def soft_delete(self, machine: Machine, name: str) -> None:
        file = machine.sessions.found[name]
        if not file.is_open and not self._is_moving_fork(machine, file):
            self.forgiving.add(self.tree_of(machine, file))
            machine.sessions.faults = Faults()
            machine.sessions.set_soft_deleted(AGENT, name, "~" not in name)

    def delete(self, machine: Machine, name: str) -> None:
        file = machine.sessions.found[name]
        if self._is_moving_fork(machine, file):
            return
        tree = self.tree_of(machine, file)
        others = {
            word
            for other, each in machine.sessions.found.items()
            if other != name and self.tree_of(machine, each) == tree
            for word in words(each)
        }
        local = machine.state.find_local_session(file.header.uid)
        is_known = local is not None and local.name == name and machine.state.read_tree(tree).segments
        # Others are on this machine alone, or a crash came right after they were fetched.
        if is_known and tree not in self.pruned:
            path = machine.state.read_tree(tree).find_path(local.tip) if local is not None else None
            published = file.data[: sum(segment.length for segment in path or ())]
            self.gone |= set(_words(published)) - others
        self.forgiving.add(tree)
        machine.sessions.faults = Faults()
        machine.sessions.delete(AGENT, name, file.header.uid)

    def prune(self, machine: Machine, name: str) -> None:
        file = machine.sessions.found[name]
        if (
            machine.state.find_local_session(file.header.uid) is None
            or file.is_open
            or not self._is_published(machine, file)
        ):
            return  # what was never published is gone everywhere
        if not self.are_together:
            return  # those that have moved may not have it
        self.pruned.add(self.tree_of(machine, file))
        del machine.sessions.found[name]
        machine.sessions.events.append(Move(name, only_on_this_machine=True, uid=file.header.uid))

    def lose(self, machine: Machine, name: str) -> None:
        """A file is removed without a delete; nothing in it was unpublished."""
        file = machine.sessions.found[name]
        if not file.is_open and self._is_published(machine, file):
            del machine.sessions.found[name]

    def redact(self, machine: Machine, name: str) -> None:
        """Mask the last secret of a session that is published.

        Not where there are copies of machines: one may have the same turns unpublished, which then become a fork. And
        not while machines move, until each has said something in the new place.
        """
        file = machine.sessions.found[name]
        if any(each.name.startswith("copy") for each in self.machines) or not self.are_together:
            return
        if self.have_moved and any(each.state.get_number(SENT) == 0 for each in self.machines):
            return
        secrets = _SECRET.findall(file.data)
        if secrets and not file.is_open and self._is_published(machine, file):
            file.data = file.data.replace(secrets[-1], MASKED)
            file.version += 1
            self.secrets.add(secrets[-1])

    def _is_moving_fork(self, machine: Machine, file: MemoryFile) -> bool:
        """While machines move, what is done to one of several branches is not known in the new place."""
        return not self.are_together and len(machine.state.list_local_sessions(self.tree_of(machine, file))) > 1

    def _is_published(self, machine: Machine, file: MemoryFile) -> bool:
        local = machine.state.find_local_session(file.header.uid)
        if local is None or local.title != file.title or local.file_version != file.stamp or local.has_news:
            return False
        path = machine.state.read_tree(local.tree).find_path(local.tip)
        return bool(path) and sum(segment.length for segment in path or ()) == len(file.data)

    def clone(self, machine: Machine) -> Machine:
        """A copy of a whole machine, such as a container's image."""
        for file in machine.sessions.found.values():
            local = machine.state.find_local_session(file.header.uid)
            if local is None or local.title != file.title:  # both will publish it, each at its own time
                self.doubtful.add(self.tree_of(machine, file))
        copy = self.add(f"copy of {machine.name} {len(self.machines)}")
        copy.restore(machine.snapshot())
        copy.place = machine.place
        return copy

    def forget(self, machine: Machine, other: Machine) -> None:
        """The user believes that another machine is lost. It may come back."""
        id = other.state.get_text(MACHINE)
        if machine.sync() is not None and id in machine.state.read_logs():
            machine.sync(forgets=id)

    def move(self, machine: Machine) -> None:
        """The machine moves to the newest shared place; if all are there, to a new one, once all know the same."""
        if machine.is_apart:
            return
        machine.place.arrive()
        for each in self.machines:
            each.seen = None  # it must have read all of the old place
        if self.are_together:
            if not all(each.sync() is not None for each in (*self.machines, *self.machines)):
                return
            self.place, self.have_moved = MemoryPlace(), True
        if machine.place is not self.place and machine.sync() is not None:
            machine.move(self.place)

    @property
    def are_together(self) -> bool:
        """Whether all machines are in one shared place."""
        return all(machine.place is self.place for machine in self.machines)

    def restore(self, machine: Machine, backup: object) -> None:
        """What was done since the backup, and not published, did not happen."""
        lost = {word for file in machine.sessions.found.values() for word in words(file)}
        self.forgiving |= {self.tree[word] for word in lost} | {self.tree[word] for word in self.gone}
        self.doubtful |= set(self.tree.values())
        self.gone.clear()
        self.secrets.clear()
        machine.restore(backup)  # type: ignore[arg-type]

    # --- in the end

    def meet(self) -> None:
        """Every machine closes its sessions and reaches the shared place until nothing changes."""
        for machine in self.machines:
            machine.place.arrive()
            machine.is_apart, machine.seen = False, None
            for name in list(machine.sessions.found):
                self.answer(machine, name)
                machine.sessions.found[name].is_held = False
        for machine in self.machines:
            if machine.place is not self.place:
                self.move(machine)
        quiet = 0
        for _ in range(_ROUNDS):
            sizes = {machine: dict(log) for machine, log in self.place.records.items()}
            for machine in self.machines:
                assert machine.sync() is not None, f"{machine.name} cannot finish a round"
            quiet = quiet + 1 if sizes == self.place.records else 0
            if quiet == 2:  # what a machine reads in one round may show it in the next that a log goes on
                return
        raise AssertionError("the machines never come to rest")

    def check(self) -> None:
        """What must be true after ``meet``."""
        shown = {machine.name: self._decode_session(machine) for machine in self.machines}
        for machine in self.machines:
            self._check_files(machine)
        self._check_words(shown)
        self._check_same(shown)
        self._check_gone()

    def _decode_session(self, machine: Machine) -> dict[tuple[bytes, ...], MemoryFile]:
        found: dict[tuple[bytes, ...], MemoryFile] = {}
        for name, file in machine.sessions.found.items():
            told = tuple(words(file))
            assert told not in found, f"{machine.name} shows {told} twice"
            if "~" not in name:
                found[told] = file
        return found

    def _check_files(self, machine: Machine) -> None:
        for file in machine.sessions.found.values():
            told = words(file)
            assert len(set(told)) == len(told), f"{machine.name} has words twice: {told}"
            for at, word in enumerate(told):
                assert self.before[word] == tuple(told[:at]), f"{machine.name}: {word!r} follows {told[:at]}"
        for one, other in itertools.permutations(self._decode_session(machine), 2):
            assert other[: len(one)] != one, f"{machine.name} shows the beginning {one} of {other} alone"

    def _check_words(self, shown: dict[str, dict[tuple[bytes, ...], MemoryFile]]) -> None:
        for machine in self.machines:
            here = {word for told in shown[machine.name] for word in told}
            hidden_from_here = self._pruned_trees(machine)
            for word, tree in self.tree.items():
                if tree not in self.forgiving and tree not in hidden_from_here:
                    assert word in here, f"{machine.name} has lost {word!r}"

    def _pruned_trees(self, machine: Machine) -> set[str]:
        return {local.tree for local in machine.state.list_local_sessions() if local.is_pruned}

    def _check_same(self, shown: dict[str, dict[tuple[bytes, ...], MemoryFile]]) -> None:
        pruned = set().union(*map(self._pruned_trees, self.machines))
        first = self.machines[0]
        for machine in self.machines[1:]:
            for one, other in itertools.permutations((first, machine)):
                for told, file in shown[one.name].items():
                    tree = self.tree_of(one, file)
                    if tree in pruned or not told:
                        continue
                    assert told in shown[other.name], f"{one.name} shows {told}, {other.name} does not"
                    self._check_title(
                        one, file, shown[other.name][told], is_alone=len(one.state.list_local_sessions(tree)) == 1
                    )

    def _check_title(self, machine: Machine, file: MemoryFile, other: MemoryFile, *, is_alone: bool) -> None:
        tree = self.tree_of(machine, file)
        if not is_alone or any((each.title or "").endswith(")") for each in (file, other)):  # it was a fork
            return
        assert file.title == other.title, f"titles differ: {file.title} and {other.title}"
        assert file.is_archived == other.is_archived, "only one is archived"
        if file.title is not None and tree not in self.doubtful | self.forgiving:
            for title, replaced in self.over.items():
                assert file.title not in replaced, f"{title!r} was given over {file.title!r}, which is shown"

    def _check_gone(self) -> None:
        everything = [data for log in self.place.records.values() for data in log.values()]
        for machine in self.machines:
            everything += [file.data for file in machine.sessions.found.values()]
        for data in everything:
            assert not self.gone.intersection(_WORD.findall(data)), "deleted words are still there"
            assert not self.secrets.intersection(_SECRET.findall(data)), "a redacted secret is still there"


def words(file: MemoryFile) -> list[bytes]:
    """The words of a session, in order."""
    return _words(file.data)


def _words(data: bytes) -> list[bytes]:
    return [_WORD.findall(line)[-1] for line in data.split(b"\n") if b'"method":"session/prompt"' in line]
