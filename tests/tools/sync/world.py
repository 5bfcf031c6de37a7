"""Machines, their sessions and the shared place, in memory: everything may fail at any step."""

import copy
import itertools
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec.structs import replace

from acp_proxy.store.remote_turns import complete_header
from acp_proxy.tools.maintenance.repair import repair_transcript
from acp_proxy.tools.sync.context import Counts, SyncContext
from acp_proxy.tools.sync.interfaces import KnownHeader, Move, RemotePart, SeenFile, Unavailable
from acp_proxy.tools.sync.rejoin import begin_at_new_place
from acp_proxy.tools.sync.rounds import do_round, forget
from acp_proxy.tools.sync.state_db import MACHINE, MACHINE_NAME, SyncState
from acp_proxy.transcript.file_format import Header, encode_header
from acp_proxy.transcript.file_names import derive_uid, file_name
from acp_proxy.transcript.reader import TranscriptReader
from tests.store import transcript_lines

AGENT = "agent-0123456789abcdef"
MASKED = b"*****"


class Crash(BaseException):
    """The machine loses its power."""


Late = list[Callable[[], object]]
"""Writes that were sent and have not arrived."""


class Faults:
    """Counts the steps of a round; one of them may fail, or ``meanwhile`` something else happens before it."""

    def __init__(self, at: int = -1, kind: str = "", meanwhile: Callable[[], object] = lambda: None) -> None:
        self._left, self._kind, self._meanwhile = at, kind, meanwhile

    def step(self, act: Callable[[], object], *, remote: bool, late: Late | None = None) -> object:
        """``late``: what arrives only later is put here."""
        self._left -= 1
        if self._left != -1:
            return act()
        self._meanwhile()
        match self._kind:
            case "late" if late is not None:
                late.append(act)
                raise Unavailable("the answer is late")
            case "before":
                raise Crash
            case "after":
                act()
                raise Crash
            case "lost" if remote:
                act()
                raise Unavailable("the answer is lost")
            case "refused" if remote:
                raise Unavailable("refused")
        return act()


class MemoryPlace:
    """The shared place."""

    def __init__(self) -> None:
        self.records: dict[str, dict[int, bytes]] = {}
        self.late: Late = []

    def arrive(self) -> None:
        """What is late arrives."""
        while self.late:
            self.late.pop(0)()


@dataclass
class MemoryLogs:
    """A machine's access to it. ``own``: the machine's id. ``is_apart``: it cannot reach it. ``seen``: what it sees of
    other machines' logs, if that is behind."""

    place: MemoryPlace
    faults: Faults
    own: Callable[[], str]
    is_apart: bool = False
    seen: Mapping[str, Mapping[int, bytes]] | None = None
    history: str = ""

    def list_machines(self) -> list[str]:
        own = {self.own()} & self.place.records.keys()
        return self._do(lambda: sorted({*(self.place.records if self.seen is None else self.seen), *own}))  # type: ignore[return-value]

    def get(self, machine: str, number: int) -> bytes | None:
        logs = self.place.records if self.seen is None or machine == self.own() else self.seen
        return self._do(lambda: logs.get(machine, {}).get(number))  # type: ignore[return-value]

    def create(self, machine: str, number: int, data: bytes) -> bool:
        def create() -> bool:
            log = self.place.records.setdefault(machine, {})
            assert not log or max(log) >= number - 1, "a log has a gap"
            return log.setdefault(number, data) is data

        return bool(self._do(create, self.place.late))

    def replace(self, machine: str, number: int, data: bytes) -> None:
        self._do(lambda: self.place.records[machine].update({number: data}), self.place.late)

    def _do(self, act: Callable[[], object], late: Late | None = None) -> object:
        if self.is_apart:
            raise Unavailable("partitioned")
        return self.faults.step(act, remote=True, late=late)


@dataclass
class MemoryFile:
    """A session: its header, its entries, and what the user sees of it.

    ``broken_header``: what is in place of the header's line; None if nothing is wrong with that. ``first_uid``: the one
    it was made with: a repair may lose it. ``is_damaged``: until it is repaired. ``asked``: the last prompt's word.
    """

    header: Header
    data: bytes
    version: int = 0
    is_open: bool = False
    is_held: bool = False
    title: str | None = None
    is_archived: bool = False
    broken_header: bytes | None = None
    first_uid: str = ""
    is_damaged: bool = False
    asked: str = ""
    serial: int = field(default_factory=itertools.count().__next__)

    def __post_init__(self) -> None:
        self.first_uid = self.first_uid or self.header.uid

    @property
    def stamp(self) -> str:
        return f"{self.serial} {self.version}"

    @property
    def uid(self) -> str:
        """As ``TranscriptReader.uid``."""
        return "" if self.broken_header is not None else self.header.uid or derive_uid(encode_header(self.header))

    @property
    def own_uid(self) -> str:
        """What its header says; as ``delete._read_uid``."""
        return "" if self.broken_header is not None else self.header.uid

    @property
    def entries(self) -> bytes:
        """What a reader takes for its entries: a broken header is one of the damaged lines."""
        return (self.broken_header or b"") + self.data

    def replace_entries(self, entries: bytes) -> None:
        size = len(self.broken_header or b"")
        self.broken_header = entries[:size] if self.broken_header is not None else None
        self.data = entries[size:]
        self.version += 1

    def repair(self) -> None:
        """What ``acp-proxy repair`` makes of it. Raises Unmendable."""
        line = self.broken_header if self.broken_header is not None else encode_header(self.header)
        with TemporaryDirectory() as folder:
            path = Path(folder, f"{file_name(self.header.session_id)}.jsonl")
            path.write_bytes(line + self.data)
            os.utime(path, (0, 0))  # else its last line may be on its way
            if repair_transcript(path, Path(folder, "backup")):
                with closing(TranscriptReader(path)) as reader:
                    assert reader.header is not None
                    self.header, self.data = reader.header, b"".join(reader.read_bytes(reader.entries_start))
                self.version += 1
        self.broken_header, self.is_damaged = None, False


@dataclass
class MemorySessions:
    """The sessions of one machine. ``deleted``: the ids that were deleted here, for good or softly."""

    faults: Faults
    found: dict[str, MemoryFile] = field(default_factory=dict)
    events: list[Move] = field(default_factory=list)
    number: int = 0
    deleted: set[str] = field(default_factory=set)
    turns: dict[str, tuple[str, int, bytes]] = field(default_factory=dict)

    def list_agents(self) -> list[str]:
        return [AGENT]

    def list_files(self) -> Iterable[SeenFile]:
        return [SeenFile(AGENT, name, file.stamp) for name, file in self.found.items()]

    def read_header(self, agent: str, name: str) -> KnownHeader | None:
        file = self.found.get(name)
        return KnownHeader(file.uid, file.header) if file is not None and file.broken_header is None else None

    def list_moves(self, agent: str, since: int) -> tuple[list[Move], int]:
        return self.events[since:], len(self.events)

    def read_labels(self, agent: str) -> tuple[Mapping[str, str], frozenset[str]]:
        titles = {name: file.title for name, file in self.found.items() if file.title is not None}
        return titles, frozenset(name for name, file in self.found.items() if file.is_archived)

    def is_soft_deleted(self, name: str) -> bool:
        return "~" in name

    def is_open(self, agent: str, name: str) -> bool:
        return name in self.found and (self.found[name].is_open or self.found[name].is_held)

    def measure(self, agent: str, name: str) -> int:
        return len(self.found[name].entries) if name in self.found else 0

    def read(self, agent: str, name: str, at: int, size: int) -> bytes:
        return self._file(name).entries[at : at + size]

    def _file(self, name: str) -> MemoryFile:
        if name not in self.found:
            raise FileNotFoundError(name)
        return self.found[name]

    def find_folder(self, agent: str) -> str:
        return agent

    def create(self, agent: str, header: Header, data: bytes, *, has_local_id: bool) -> str:
        def create() -> str:
            name = header.session_id
            is_taken = name in self.deleted or any(other.partition("~")[0] == name for other in self.found)
            if not has_local_id or is_taken:
                name = header.uid
                while name in self.found:  # an import has it
                    self.number += 1
                    name = f"{header.uid}-{self.number}"
                self.deleted.discard(name)
            ids = [header.session_id, *header.forked_from]
            self.found[name] = MemoryFile(
                complete_header(replace(header, session_id=name, forked_from=ids), data), data
            )
            return name

        return str(self.faults.step(create, remote=False))

    def append_turns(
        self, agent: str, name: str, uid: str, expected_size: int, data: bytes, remote_parts: list[RemotePart]
    ) -> bool:
        def extend() -> bool:
            if self.read_header(agent, name) is None:
                return False
            file = self._file(name)
            if self.measure(agent, name) != expected_size or self.is_open(agent, name):
                self.turns[name] = uid, expected_size, data
                return False
            self._set(name, file.data + data)
            file.header = complete_header(replace(file.header, uid=file.header.uid or uid), file.data)
            return True

        return bool(self.faults.step(extend, remote=False))

    def remove_end(self, agent: str, name: str, uid: str, expected_size: int, kept_size: int) -> bool:
        def remove() -> bool:
            if self.measure(agent, name) != expected_size or self.is_open(agent, name):
                return False
            file = self._file(name)
            self._set(name, file.data[:kept_size])
            file.header = replace(file.header, uid=file.header.uid or uid)
            return True

        return bool(self.faults.step(remove, remote=False))

    def remove_waiting_turns(self) -> None:
        self.turns.clear()

    def load(self, name: str) -> None:
        """Somebody loads a session, and does not hold it any more."""
        file = self.found[name]
        file.is_held = False
        uid, size, more = self.turns.get(name, ("", 0, b""))
        is_of_file = file.broken_header is None and (file.header.uid or uid) == uid
        if more and not file.is_open and is_of_file and size == len(file.entries):
            self._set(name, file.data + more)
            file.header = complete_header(replace(file.header, uid=uid), more)
            del self.turns[name]

    def mask(self, agent: str, name: str, spans: list[tuple[int, bytes]]) -> None:
        self.overwrite(agent, name, spans)

    def overwrite(self, agent: str, name: str, spans: list[tuple[int, bytes]]) -> None:
        def overwrite() -> None:
            entries = bytearray(self._file(name).entries)
            for at, new in spans:
                entries[at : at + len(new)] = new
            self._file(name).replace_entries(bytes(entries))

        self.faults.step(overwrite, remote=False)

    def delete(self, agent: str, name: str, uid: str) -> None:
        def delete() -> None:
            if name not in self.found or (self.found[name].own_uid or uid) != uid:
                return
            self.turns.pop(name, None)
            own_uid = self.found.pop(name).own_uid
            if "~" not in name:
                self.deleted.add(name)
            self.events.append(Move(name, uid=own_uid))

        self.faults.step(delete, remote=False)

    def note_delete(self, agent: str, uid: str) -> None:
        def note() -> None:
            name = next((move.name for move in self.events if move.only_on_this_machine and move.uid == uid), "")
            if name in self.deleted:
                self.events.append(Move(name, uid=uid))

        self.faults.step(note, remote=False)

    def has_deleted_uid(self, uid: str, id: str) -> bool:
        """Whether an import needs another uid, as in ``import_file._write``."""
        is_pruned = is_deleted = False
        for move in self.events:
            if move.uid == uid:
                is_pruned = is_pruned or move.only_on_this_machine
                if "~" in move.new_name or not (move.new_name or move.only_on_this_machine):
                    is_deleted = True
                elif "~" in move.name and move.new_name:
                    is_deleted = False
        return is_deleted or (id in self.deleted and not is_pruned)

    def set_soft_deleted(self, agent: str, name: str, is_soft_deleted: bool) -> str:
        def change() -> str:
            if self.read_header(agent, name) is None:
                return name
            file = self.found.pop(name)
            self.number += 1
            new = f"{name}~{self.number:017}" if is_soft_deleted else name.partition("~")[0]
            new = next(each for each in (new, file.uid, f"{file.uid}-{self.number}") if each not in self.found)
            (self.deleted.add if is_soft_deleted else self.deleted.discard)(new.partition("~")[0])
            self.found[new] = file
            self.events.append(Move(name, new, uid=file.own_uid))
            return new

        return str(self.faults.step(change, remote=False))

    def set_title(self, agent: str, name: str, title: str | None) -> None:
        file = self._labelled(agent, name)
        self.faults.step(lambda: setattr(file(), "title", title), remote=False)

    def set_archived(self, agent: str, name: str, is_archived: bool) -> None:
        file = self._labelled(agent, name)
        self.faults.step(lambda: setattr(file(), "is_archived", is_archived), remote=False)

    def _labelled(self, agent: str, name: str) -> Callable[[], MemoryFile]:
        """Finds the session whose label is set; one that nobody sees, if it is gone or its header is broken."""
        nobody = MemoryFile(Header("", None, "", ""), b"")
        return lambda: self.found[name] if self.read_header(agent, name) is not None else nobody

    def find_title(self, agent: str, name: str) -> str:
        return self._file(name).title or "first words"

    def _set(self, name: str, data: bytes) -> None:
        self.found[name].data = data
        self.found[name].version += 1


class Machine:
    """One machine. ``skew``: seconds that its clock is wrong by."""

    def __init__(self, name: str, place: MemoryPlace, clock: Callable[[], float], random: Callable[[], str]) -> None:
        self.name, self.place, self.clock, self.random = name, place, clock, random
        self.skew = 0.0
        self.faults = Faults()
        self.sessions = MemorySessions(self.faults)
        self.state = SyncState(":memory:")
        self.state.set_facts({MACHINE: random(), MACHINE_NAME: name})
        self.state.commit()
        self.is_apart = False
        self.seen: Mapping[str, Mapping[int, bytes]] | None = None

    def fall_behind(self) -> None:
        """From now on, it sees other machines' records as they are now; or as they are again."""
        self.seen = {id: dict(log) for id, log in self.place.records.items()} if self.seen is None else None

    def sync(self, faults: Faults | None = None, *, forgets: str = "") -> Counts | None:
        """One round; None if it did not come to its end. ``forgets``: the id of a machine that the user forgets."""
        self.sessions.faults = faults or Faults()
        own = lambda: self.state.get_text(MACHINE)  # noqa: E731 it may change
        logs = MemoryLogs(self.place, self.sessions.faults, own, self.is_apart, self.seen)
        context = SyncContext(logs, self.sessions, self.state, lambda: self.clock() + self.skew, self.random)
        try:
            return forget(context, forgets) if forgets else do_round(context)
        except (Crash, Unavailable, OSError):
            self.state.database.execute("ROLLBACK")
            self.state.database.execute("BEGIN IMMEDIATE")
            return None

    def move(self, place: MemoryPlace) -> None:
        """Begin anew in another shared place."""
        begin_at_new_place(self.state, self.random())
        self.place = place

    def snapshot(self) -> tuple[MemorySessions, bytes]:
        """A backup of the whole machine."""
        self.state.commit()
        self.state.database.execute("COMMIT")
        data = self.state.database.serialize()
        self.state.database.execute("BEGIN IMMEDIATE")
        return copy.deepcopy(self.sessions), data

    def restore(self, backup: tuple[MemorySessions, bytes]) -> None:
        self.sessions = copy.deepcopy(backup[0])
        self.state.close()
        self.state = SyncState(":memory:")
        self.state.database.execute("COMMIT")
        self.state.database.deserialize(backup[1])
        self.state.database.execute("BEGIN IMMEDIATE")


def turn(word: str, secret: str, session: str) -> bytes:
    """A whole turn in which one word and one secret were said."""
    return secret_prompt(word, secret, session) + answered(word)


def secret_prompt(word: str, secret: str, session: str) -> bytes:
    return transcript_lines.prompt_line(f"{word} {secret}", session=session, run=word)


def answered(word: str) -> bytes:
    return transcript_lines.answer(run=word)
