"""What users do on several machines, and what must be true once all machines have met."""

import copy
import itertools
import re
from dataclasses import dataclass, field

from msgspec.structs import replace

from acp_proxy.errors import Unmendable
from acp_proxy.tools.sync import records
from acp_proxy.tools.sync.interfaces import Move
from acp_proxy.tools.sync.session_tree import Segment
from acp_proxy.tools.sync.state_db import MACHINE, SENT
from acp_proxy.transcript.file_format import RECORDED, Header, encode_header, find_entries
from tests.store import transcript_lines
from tests.tools.sync.world import AGENT, MASKED, Faults, Machine, MemoryFile, MemoryPlace, answered, secret_prompt

_PROMPT = b'"method":"session/prompt"'
_WORD = re.compile(rb"w\d{4}")
_SECRET = re.compile(rb"s\d{4}")
_ROUNDS = 12
IMPORTS_ELSEWHERE = False
"""Whether a session is also imported where sync knows it under another name, or as deleted: then two files have one
uid, or what is imported is deleted."""
Damage = tuple[str, int, int]
"""``nul``, ``newline``, ``cut`` or ``header``; where, in percent of the entries, or of the header; and how many bytes.
``empty``: nothing is left."""


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
    hurt: set[bytes] = field(default_factory=set)
    """Words that some damage has hit: they may come back or not, so what follows them says nothing of them."""
    lost: set[bytes] = field(default_factory=set)
    """Those of ``hurt`` that were nowhere else."""
    exports: list[tuple[Header, bytes]] = field(default_factory=list)
    imports: dict[str, list[bytes]] = field(default_factory=dict)
    """The words of each session that was imported under a new uid: they may also be in the one that was exported."""
    gone_of: set[tuple[str, bytes]] = field(default_factory=set)
    """Words that must not be in this tree, though they may be in another, into which they were imported."""
    has_lost: bool = False
    """Whether something was damaged that was nowhere else."""
    have_twins: bool = False
    """Whether a session was imported under its own uid: two machines may publish the same turns."""
    was_restored: bool = False
    """Whether a machine went back to a backup: it has unpublished what is published."""
    pruned: set[str] = field(default_factory=set)
    """Trees of which a machine has pruned a session."""
    doubtful: set[str] = field(default_factory=set)
    """Trees that were renamed on a machine of which a backup was restored later: the rename may be lost."""
    have_moved: bool = False
    """Whether ``place`` is not the first one."""
    time: float = 1_700_000_000.0

    def __post_init__(self) -> None:
        self._numbers = itertools.count(1)

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
        machine.sessions.deleted.discard(id)
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
        if file.is_open or file.broken_header is not None:
            return b""
        _end_line(file)
        number = next(self._numbers)
        word, secret = f"w{number:04}", f"s{number:04}"
        self.before[word.encode()] = tuple(words(file))
        self.tree[word.encode()] = self.tree_of(machine, file)
        session = name.partition("~")[0]
        session = file.header.session_id if session != file.header.session_id else session
        file.data += secret_prompt(word, secret, session)
        file.version += 1
        file.is_open = True
        file.asked = word
        return word.encode()

    def answer(self, machine: Machine, name: str) -> None:
        file = machine.sessions.found[name]
        if file.is_open:
            file.is_open = False
            _end_line(file)
            file.data += answered(file.asked)
            file.version += 1

    def hold(self, machine: Machine, name: str) -> None:
        """An editor opens the session, and has it open until it is loaded again."""
        machine.sessions.load(name)
        machine.sessions.found[name].is_held = True

    def load(self, machine: Machine, name: str) -> None:
        machine.sessions.load(name)

    def damage(self, machine: Machine, name: str, how: Damage) -> None:
        """A crash or a bad disk changes bytes.

        Those that are published nowhere only where no machine has them a second time, to publish them as they were. And
        not while machines move, as for ``redact``.
        """
        file = machine.sessions.found[name]
        if not self._is_settled:
            return
        kind, percent, size = how
        old, data, broken_header = file.entries, file.data, file.broken_header
        at = len(data) * percent // 100
        match kind:
            case "nul":
                data = data[:at] + bytes(min(size, len(data) - at)) + data[at + size :]
            case "newline":
                data = data[:at] + b"\n"[: len(data) - at] + data[at + 1 :]
            case "cut":
                data = data[:at]
            case "header" if broken_header is None:
                line = encode_header(file.header)[:-1]
                at = len(line) * percent // 100
                broken_header = line[:at] + bytes(min(size, len(line) - at)) + line[at + size :] + b"\n"
            case "empty":
                data, broken_header, at = b"", b"", 0
        is_published = at + size * (kind == "nul") + (kind == "newline") <= self._measure_published(machine, file)
        local = machine.state.find_local_session(file.first_uid)
        if local.name == "" if local is not None else kind == "header":
            return  # nobody knows yet which session it is
        is_published = (is_published and len(file.data) <= self._measure_published(machine, file)) or kind == "header"
        has_copies = any(each.name.startswith("copy") for each in self.machines)
        if not is_published and (self.was_restored or self.have_twins or has_copies):
            return
        damaged = copy.copy(file)
        damaged.data, damaged.broken_header = data, broken_header
        if broken_header is not None and not _can_be_repaired(damaged):
            return  # a user would remove the file, which sync fetches again
        if damaged.entries == old:
            return
        self.has_lost = self.has_lost or not is_published
        hurt = set(words(file)).difference(words(damaged))
        self.hurt |= hurt
        self.lost |= hurt.difference(self._list_published(machine, file))
        if not self._is_published(machine, file):  # nobody knows any more that it was redacted
            self.secrets -= {b"s" + word[1:] for word in hurt}
        file.data, file.broken_header, file.is_damaged = data, broken_header, True
        file.version += 1
        if kind in ("cut", "empty"):
            file.is_open = file.is_held = False

    def repair(self, machine: Machine, name: str) -> None:
        """``acp-proxy repair``: no word that is intact is lost."""
        file = machine.sessions.found[name]
        if file.is_damaged:
            intact = words(file)
            file.repair()
            assert words(file) == intact, f"{machine.name}: repair makes {words(file)} of {intact}"

    def export(self, machine: Machine, name: str) -> None:
        """``acp-proxy export --format jsonl`` of a session that nothing is wrong with."""
        file = machine.sessions.found[name]
        if not file.is_open and not file.is_damaged and file.header.uid and "~" not in name:
            self.exports.append((file.header, file.data))

    def bring(self, machine: Machine, number: int) -> None:
        """``acp-proxy import`` of what was exported before. It does nothing if there is a session with this id."""
        if not self.exports or not self.are_together:
            return
        header, data = self.exports[number % len(self.exports)]
        id, sessions = header.session_id, machine.sessions
        if id in sessions.found and id not in sessions.deleted:
            return
        if sessions.has_deleted_uid(header.uid, id):
            uid = self.random()
            header = replace(header, uid=uid, branch_of=uid if header.branch_of else "")
            told = _words(data)
            self.imports[header.uid] = told
            self.gone_of |= {(self.tree[word], word) for word in self.gone.intersection(told)}
            self.gone.difference_update(told)
            self.secrets.difference_update(_SECRET.findall(data))
        elif not IMPORTS_ELSEWHERE and self._is_elsewhere(machine, header):
            return
        else:
            self.have_twins = True
        sessions.deleted.discard(id)
        sessions.found[id] = MemoryFile(header, data)

    def _is_elsewhere(self, machine: Machine, header: Header) -> bool:
        """Whether this machine knows the session under another name, or as deleted."""
        local = machine.state.find_local_session(header.uid)
        return (
            any(file.first_uid == header.uid for file in machine.sessions.found.values())
            or (local is not None and local.name not in ("", header.session_id))
            or bool(machine.state.read_tree(header.branch_of or header.uid).deaths)
        )

    def tree_of(self, machine: Machine, file: MemoryFile) -> str:
        local = machine.state.find_local_session(file.first_uid)
        return local.tree if local is not None else file.first_uid

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
        local = machine.state.find_local_session(file.first_uid)
        is_known = local is not None and local.name == name and machine.state.read_tree(tree).segments
        # Others are on this machine alone, or a crash came right after they were fetched.
        if is_known and tree not in self.pruned:
            published = set(_words(file.data[: self._measure_published(machine, file)])) - others
            imported = published.intersection(itertools.chain(*self.imports.values()))
            self.gone |= published - imported
            self.gone_of |= {(tree, word) for word in imported}
        self.forgiving.add(tree)
        machine.sessions.faults = Faults()
        machine.sessions.delete(AGENT, name, file.own_uid)

    def prune(self, machine: Machine, name: str) -> None:
        file = machine.sessions.found[name]
        if (
            machine.state.find_local_session(file.first_uid) is None
            or file.is_open
            or not self._is_published(machine, file)
        ):
            return  # what was never published is gone everywhere
        if not self.are_together:
            return  # those that have moved may not have it
        self.pruned.add(self.tree_of(machine, file))
        del machine.sessions.found[name]
        machine.sessions.deleted.add(name.partition("~")[0])
        machine.sessions.events.append(Move(name, only_on_this_machine=True, uid=file.own_uid))

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
        if any(each.name.startswith("copy") for each in self.machines) or not self._is_settled:
            return
        secrets = _SECRET.findall(file.data)
        if secrets and not file.is_open and not file.is_damaged and self._is_published(machine, file):
            file.data = file.data.replace(secrets[-1], MASKED)
            file.version += 1
            if b"w" + secrets[-1][1:] not in itertools.chain(*self.imports.values()):
                self.secrets.add(secrets[-1])

    @property
    def _is_settled(self) -> bool:
        """Whether all machines are in one shared place, and have said something there if it is not the first."""
        return self.are_together and not (
            self.have_moved and any(each.state.get_number(SENT) == 0 for each in self.machines)
        )

    def _is_moving_fork(self, machine: Machine, file: MemoryFile) -> bool:
        """While machines move, what is done to one of several branches is not known in the new place."""
        return not self.are_together and len(machine.state.list_local_sessions(self.tree_of(machine, file))) > 1

    def _is_published(self, machine: Machine, file: MemoryFile) -> bool:
        local = machine.state.find_local_session(file.first_uid)
        if local is None or local.title != file.title or local.file_version != file.stamp or local.has_news:
            return False
        size = self._measure_published(machine, file)
        return size > 0 and size == len(file.data)

    def _measure_published(self, machine: Machine, file: MemoryFile) -> int:
        """The bytes of the file that are published, as this machine knows."""
        return sum(segment.length for segment in self._find_path(machine, file))

    def _find_path(self, machine: Machine, file: MemoryFile) -> list[Segment]:
        local = machine.state.find_local_session(file.first_uid)
        return machine.state.read_tree(local.tree).find_path(local.tip) or [] if local is not None else []

    def _list_published(self, machine: Machine, file: MemoryFile) -> list[bytes]:
        """The words of the file that are in the shared place, as this machine knows."""
        found = []
        for segment in self._find_path(machine, file):
            record = records.decode(machine.place.records[segment.machine][segment.number]).record
            found += _words(record.data) if isinstance(record, records.SegmentRecord) else []
        return found

    def clone(self, machine: Machine) -> Machine:
        """A copy of a whole machine, such as a container's image."""
        for file in machine.sessions.found.values():
            local = machine.state.find_local_session(file.first_uid)
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
        self._repair_all()
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
        if self.has_lost:
            return  # it may have what was lost
        self.was_restored = True
        lost = {word for file in machine.sessions.found.values() for word in words(file)}
        self.forgiving |= self.imports.keys()
        self.gone_of.clear()
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
        self._repair_all()
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

    def _repair_all(self) -> None:
        for machine in self.machines:
            for name in machine.sessions.found:
                self.repair(machine, name)

    def check(self) -> None:
        """What must be true after ``meet``."""
        shown = {machine.name: self._decode_session(machine) for machine in self.machines}
        for machine in self.machines:
            self._check_files(machine)
            local_sessions = machine.state.list_local_sessions()
            troubles = {local.name: local.trouble for local in local_sessions if local.trouble and not local.is_pruned}
            assert not troubles, f"{machine.name} shares no more of {troubles}, though all is repaired"
        self._check_words(shown)
        self._check_same(shown)
        self._check_gone()

    def _decode_session(self, machine: Machine) -> dict[tuple[bytes, ...], MemoryFile]:
        found: dict[tuple[bytes, ...], MemoryFile] = {}
        for name, file in machine.sessions.found.items():
            told = self._tell(machine, file)
            if not words(file):
                continue  # all were lost: no list has it
            with_loss = self.tree_of(machine, file) in {self.tree[word] for word in self.lost}
            assert told not in found or with_loss, f"{machine.name} shows {told} twice"
            if "~" not in name:
                found[told] = file
        return found

    def _tell(self, machine: Machine, file: MemoryFile) -> tuple[bytes, ...]:
        """The words of a session. One that was imported under a new uid is told apart from the one with its words."""
        tree = self.tree_of(machine, file)
        return (*([tree.encode()] if tree in self.imports else []), *words(file))

    def _check_files(self, machine: Machine) -> None:
        for file in machine.sessions.found.values():
            told = words(file)
            assert len(set(told)) == len(told), f"{machine.name} has words twice: {told}"
            for at, word in enumerate(told):
                before, here = (
                    [each for each in some if each not in self.hurt] for some in (self.before[word], told[:at])
                )
                assert before == here, f"{machine.name}: {word!r} follows {told[:at]}"
        for one, other in itertools.permutations(self._decode_session(machine), 2):
            if other[: len(one)] == one and self.tree[one[-1]] not in {self.tree[word] for word in self.lost}:
                raise AssertionError(f"{machine.name} shows the beginning {one} of {other} alone")

    def _check_words(self, shown: dict[str, dict[tuple[bytes, ...], MemoryFile]]) -> None:
        for machine in self.machines:
            here = {word for told in shown[machine.name] for word in told}
            hidden_from_here = self._pruned_trees(machine)
            for word, tree in self.tree.items():
                if tree not in self.forgiving and tree not in hidden_from_here and word not in self.lost:
                    assert word in here, f"{machine.name} has lost {word!r}"
            for tree in self.imports.keys() - self.forgiving - hidden_from_here:
                of_import = {word for told in shown[machine.name] if told[0] == tree.encode() for word in told}
                assert of_import.issuperset(set(self.imports[tree]) - self.lost), f"{machine.name} has lost an import"

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
        everything_of = [
            (self.tree_of(machine, file), file.data)
            for machine in self.machines
            for file in machine.sessions.found.values()
        ]
        for log in self.place.records.values() if self.gone_of else ():
            for record in (records.decode(data).record for data in log.values()):
                everything_of += [(record.tree, record.data)] if isinstance(record, records.SegmentRecord) else []
        for tree, data in everything_of:
            assert self.gone_of.isdisjoint((tree, word) for word in _words(data)), "an import brings a delete back"


def words(file: MemoryFile) -> list[bytes]:
    """The words of a session, in order."""
    return _words(file.data)


def _words(data: bytes) -> list[bytes]:
    pieces = (
        line[piece.start : piece.end] for line in data.split(b"\n") if _PROMPT in line for piece in find_entries(line)
    )
    return [_WORD.findall(piece)[-1] for piece in pieces if _PROMPT in piece]


def _end_line(file: MemoryFile) -> None:
    """As a writer does: what it appends begins a line."""
    if file.data and not file.data.endswith(b"\n"):
        file.data += b"\n"


def _can_be_repaired(file: MemoryFile) -> bool:
    try:
        copy.copy(file).repair()
    except Unmendable:
        return not file.entries  # it is empty: a user need not do anything
    return True
