"""Transcripts, journals and the index are damaged.

Each damaged file is read, loaded, listed, continued, verified, repaired and verified again. The intact part is known
from the damage itself, not from acp-proxy's reader.
"""

import itertools
import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from unittest.mock import patch

from acp_proxy.errors import Unreadable
from acp_proxy.protocol.jsonrpc import Peer
from acp_proxy.tools.maintenance.damage import SECOND_HEADER, DamagedStretch
from acp_proxy.tools.maintenance.repair_findings import repair_finding
from acp_proxy.tools.maintenance.verify import NEWER, REPAIR, verify_store
from acp_proxy.transcript import appender
from acp_proxy.transcript.appender import TranscriptAppender
from acp_proxy.transcript.file_format import RECORDED, Header, encode_message, encode_note
from acp_proxy.transcript.file_names import file_name
from acp_proxy.transcript.reader import TranscriptReader
from acp_proxy.transcript_replay.replayer import Replayer
from tests.end_to_end.proxied import PROXY, Proxied, texts
from tests.stored import WholeStore
from torture import damaged
from torture.damaged import OLD, SESSION, Damaged, describe_entry, expected, is_entry
from torture.outcome import Outcome, Scale

NAME = file_name(SESSION)
GOING_ON = encode_note("2026-11-21T00:00:00.000Z", "zzz999", {"type": "closed", "method": "session/close"})


@dataclass
class Count:
    tried: int = 0
    checked: int = 0
    lost: int = 0
    named: int = 0
    mended: int = 0
    trouble: list[str] = field(default_factory=list)

    def outcome(self, fault: str, what: str = "intact entries") -> Outcome:
        also = f"{self.named:,} reported, {self.mended:,} repaired"
        return Outcome(fault, self.tried, self.checked, what, self.lost, also=also, trouble=tuple(self.trouble))


def run(scale: Scale) -> Iterator[Outcome]:
    chance = scale.chance("texts")
    files = damaged.read_samples() | {f"generated {n}": damaged.generate(chance, n + 1) for n in range(scale.of(12, 2))}
    with no_waiting_for_the_disk():
        for fault, accidents in ACCIDENTS.items():
            yield mutated(scale, fault, accidents, files)
        yield journals(scale)
        yield indexes(scale)
    yield no_files(scale)
    yield while_appended_to(scale)
    yield under_a_running_proxy(scale)


@contextmanager
def no_waiting_for_the_disk() -> Iterator[None]:
    """Skip fsync: power failures are not tested here, and it would take an hour for tens of thousands of repairs."""
    kept = os.fsync
    os.fsync = lambda fd: None
    try:
        yield
    finally:
        os.fsync = kept


# Transcripts.

Accidents = Callable[[bytes, random.Random, Scale], Iterable[Damaged]]


def cut_anywhere(data: bytes, chance: random.Random, scale: Scale) -> Iterator[Damaged]:
    """Cut at every byte of the last two lines."""
    start = data.rstrip(b"\n").rfind(b"\n", 0, max(data.rstrip(b"\n").rfind(b"\n"), 0)) + 1
    places = range(start, len(data) + 1)
    most = scale.of(600, 2)
    for size in places if len(places) <= most else sorted(chance.sample(places, most)):
        yield damaged.cut(data, size)


def bits(data: bytes, chance: random.Random, scale: Scale) -> Iterator[Damaged]:
    """Flip bits in every byte of the header and of one line, and elsewhere."""
    lines = [at for at, _ in damaged.list_intact(data)] or [0]
    start = chance.choice(lines)
    every = [*range(min(len(data), 260)), *range(start, min(len(data), start + 260))]
    anywhere = [chance.randrange(len(data)) for _ in range(scale.of(200, 1))]
    newlines = [at for at, byte in enumerate(data) if byte == 10]
    chosen = chance.sample(every, min(len(every), scale.of(520, 1))) + chance.sample(
        newlines, min(len(newlines), scale.of(50, 1))
    )
    for at in [*chosen, *anywhere]:
        yield damaged.flip_bit(data, at, chance.randrange(8))


def blocks(data: bytes, chance: random.Random, scale: Scale) -> Iterator[Damaged]:
    for _ in range(scale.of(120, 1)):
        yield damaged.overwrite_with_nul(data, chance.randrange(len(data)), chance.choice((1, 7, 512, 4096)))


def order(data: bytes, chance: random.Random, scale: Scale) -> Iterator[Damaged]:
    if data.count(b"\n") > 2:
        for _ in range(scale.of(40, 1)):
            yield damaged.swap_lines(data, chance)
            yield damaged.double_line(data, chance)


def foreign(data: bytes, chance: random.Random, scale: Scale) -> Iterator[Damaged]:
    """Put foreign bytes anywhere, also a line of text, and NUL bytes."""
    for _ in range(scale.of(120, 1)):
        new = chance.choice(
            (chance.randbytes(chance.randrange(1, 300)), b"npm WARN deprecated\n", b"\0" * 64, b"{", b"\n")
        )
        yield damaged.insert_bytes(data, chance.randrange(len(data)), new)


def twice(data: bytes, chance: random.Random, scale: Scale) -> Iterator[Damaged]:
    """Repeat a tail of the file, as if two copies were joined."""
    for at, _ in damaged.list_intact(data)[1:][: scale.of(20, 1)]:
        whole = data if data.endswith(b"\n") else data + b"\n"
        yield damaged.reorder(data, [whole, data[at:]], f"again from {at}")


ACCIDENTS: dict[str, Accidents] = {
    "transcripts cut in the last two lines": cut_anywhere,
    "bits of transcripts flipped": bits,
    "NUL blocks in transcripts": blocks,
    "lines of transcripts swapped or doubled": order,
    "foreign bytes in transcripts": foreign,
    "parts of transcripts twice": twice,
}


def mutated(scale: Scale, fault: str, accidents: Accidents, texts: dict[str, bytes]) -> Outcome:
    count, number = Count(), itertools.count()
    for name, data in texts.items():
        for accident in accidents(data, scale.chance(fault, name), scale):
            if count.tried % _PER_STORE == 0:
                store = WholeStore(scale.place / f"store-{next(_stores)}")
            try:
                # Nobody else writes here: for the rest of a torn line, an appender need not wait.
                with patch.object(appender, "_LOCK_PAUSE_SECONDS", 0):
                    examine(store, f"a{next(number)}", damaged.leave_out_quotable(accident), count)
            except Exception as problem:  # noqa: BLE001 - whatever it is, it must not happen
                count.trouble.append(f"{name}: {accident.how}: {type(problem).__name__}: {problem}")
            count.tried += 1
    return count.outcome(fault)


_stores = itertools.count()
_PER_STORE = 200
"""Each accident has an agent of its own, and each query looks at the folders of all agents."""


def examine(store: WholeStore, agent: str, one: Damaged, count: Count) -> None:
    """Examine one damaged transcript from its first reading to its end."""

    def check(well: bool, what: str) -> None:
        if not well:
            count.trouble.append(f"{agent}: {one.how}: {what}")

    def serve(when: str, wanted: list[bytes]) -> None:
        reader = store.open_reader(agent, SESSION)
        try:
            found = [describe_entry(line.entry) for line in reader.read_lines() if line.entry is not None]
            heard = texts_told(reader)
        finally:
            reader.close()
        missing = missing_of([expected(line) for line in wanted], found)
        count.checked += len(wanted)
        count.lost += len(missing)
        check(not missing, f"{when}: not served: {missing[:2]}")
        silent = {text for line in wanted if (text := damaged.read_chunk_text(line)) is not None} - heard
        check(not silent, f"{when}: not told by a load: {list(silent)[:2]}")

    path = store.root / "transcripts" / agent / f"{NAME}.jsonl"
    path.parent.mkdir(mode=0o700)
    path.touch(0o600)
    path.write_bytes(one.data)
    os.utime(path, OLD)
    store.mark(agent, SESSION)
    session_ids = [row.session_id for row in store.list_page(agent, None, None, "").rows]
    findings = list(verify_store(store, (agent, NAME)))
    stretches = [finding.stretch for finding in findings if finding.stretch is not None]
    if findings and findings[0].kind == NEWER:  # the damaged bit is the one that says so
        count.named += 1
        return
    serve("at first", one.entries)
    has_place = any(b'"cwd":"/home/me/project"' in line for _, line in one.lines)
    if has_place and any(map(damaged.is_prompt, one.entries)):
        check(session_ids == [SESSION], f"listed as {session_ids}")

    check(bool(stretches) or not one.has_damage, "damage is not named")
    count.named += bool(stretches)
    for stretch in stretches:
        over = [at for at, line in one.lines if is_entry(line) and at < stretch.end and stretch.offset < at + len(line)]
        check(not over, f"said to be damaged: {stretch}, and intact at {over[:3]}")

    before, held = os.stat(path), TranscriptAppender(path)  # a proxy that has it open all the while
    to_mend = [finding for finding in findings if finding.remedy == REPAIR]
    if to_mend:
        check(to_mend[0].path == path, f"{to_mend[0].kind}: {to_mend[0].text}")
        copy = repair_finding(store, to_mend[0])
        count.mended += 1
        check(copy is not None and copy.read_bytes() == one.data, "there is no copy of it as it was")
    held.append(GOING_ON)
    held.close()
    after, data = os.stat(path), path.read_bytes()
    check(before.st_ino == after.st_ino and after.st_size > before.st_size, "it is another file, or shorter")
    os.utime(path, OLD)
    changed = [line for at, line in one.lines if is_kept(line, stretches, at) and data[at : at + len(line)] != line]
    check(not changed, f"changed by the repair: {changed[:2]}")
    left = [finding for finding in verify_store(store, (agent, NAME)) if finding.remedy == REPAIR]
    check(not left, f"left after the repair: {left[:2]}")
    serve("after the repair", [*one.entries, GOING_ON[:-1]])
    if any(stretch.kinds != (SECOND_HEADER,) for stretch in stretches):
        reader = store.open_reader(agent, SESSION)
        check(not reader.is_complete or not to_mend, "said to be complete")
        reader.close()
    store.delete(agent, SESSION, soft=False)
    check(not list(store.root.glob(f"backups/{agent}/*.jsonl")), "a backup is left after a delete")


def is_kept(line: bytes, stretches: list[DamagedStretch], at: int) -> bool:
    """A second header may be removed."""
    return is_entry(line) or not any(stretch.offset <= at < stretch.end for stretch in stretches)


def texts_told(reader: TranscriptReader) -> set[str]:
    """The agent's text in a load."""
    telling, lines = Replayer(SESSION, run_id="", mode="full", other_ids=reader.other_ids), list[bytes]()
    for line in reader.read_lines():
        if line.entry is not None:
            lines += telling.add(line.number, line.entry)
    messages = (line.decode("utf-8", "surrogateescape").lstrip("\ufeff") for line in [*lines, *telling.end()])
    return {text for message in messages if (text := damaged.chunk_text(json.loads(message))) is not None}


def missing_of(wanted: list[tuple[object, ...]], found: list[tuple[object, ...]]) -> list[tuple[object, ...]]:
    """The elements missing from the found ones, in order."""
    rest = iter(found)
    counted = Counter(found)
    missing = [each for each in wanted if not counted[each]]
    if not missing:
        for each in wanted:
            if each not in rest:
                return [("out of order",), each]
    return missing


# Journals.


def journals(scale: Scale) -> Outcome:
    """Intact deletes and a new one are known, whatever happened beside them; the repair removes none."""
    count = Count()
    for number in range(scale.of(5_000, 25)):
        chance = scale.chance("journal", number)
        store = WholeStore(scale.place / "journals")
        agent = f"a{number}"
        folder = store.root / "transcripts" / agent
        sessions = [f"s-{n}-\u00e4" for n in range(chance.randrange(2, 9))]
        for session in sessions:
            store.delete(agent, session, soft=False)
        path = folder / "state.jsonl"
        data = path.read_bytes()
        at = chance.randrange(len(data))
        how = chance.choice(("cut", "flip", "nul", "put"))
        if how == "cut":
            new = data[:at]
        elif how == "put":
            new = data[:at] + chance.choice((b"\0\0", b"{", b"garbage\n")) + data[at:]
        else:
            over = bytes([data[at] ^ (1 << chance.randrange(8))]) if how == "flip" else b"\0" * len(data[at : at + 90])
            new = data[:at] + over + data[at + len(over) :]
        path.write_bytes(new)
        lines = data.split(b"\n")[:-1]
        known = {session for session, line in zip(sessions, lines, strict=True) if line in new}
        for when in ("at first", "after the repair"):
            deleted = store.read_deleted(agent)
            count.checked += len(known)
            count.lost += len(known - deleted)
            if when == "at first":
                store.delete(agent, "one more", soft=False)
                known.add("one more")
                findings = [finding for finding in verify_store(store) if finding.agent_folder == agent]
                count.named += bool(findings)
                for finding in findings[:1]:
                    count.mended += 1
                    repair_finding(store, finding)
        if any(finding.remedy == REPAIR for finding in verify_store(store)):
            count.trouble.append(f"{agent}: {how} at {at}: damage is left")
        count.tried += 1
        shutil.rmtree(store.root)
    return count.outcome("journals of deletes", "deletes")


# The index.

AGENT = "agent"


def indexes(scale: Scale) -> Outcome:
    """The list answers, and after a verify and a repair it matches the transcripts."""
    count = Count()
    root = scale.place / "indexed"
    store = WholeStore(root)
    for number in range(40):
        store_turn(store, f"session-{number}", number)
    wanted = [row.session_id for row in store.list_page(AGENT, None, None, "").rows]
    rows = store.list_all()
    del store
    files = {path.name: path.read_bytes() for path in root.glob("index.sqlite3*")}
    for number in range(scale.of(3_000, 14)):
        chance = scale.chance("index", number)
        for path in root.glob("index.sqlite3*"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        for name, data in files.items():
            (root / name).write_bytes(data)
            (root / name).chmod(0o600)
        how = chance.choice(list(INDEX_ACCIDENTS))
        INDEX_ACCIDENTS[how](root, chance)
        opened = WholeStore(root)
        try:
            first = [row.session_id for row in opened.list_page(AGENT, None, None, "").rows]
            findings = list(verify_store(opened))
            if first != wanted and not any(finding.is_damage for finding in findings):
                count.trouble.append(f"{how} ({number}): the list is wrong, and nobody says so: {first}")
            count.named += any(finding.is_damage for finding in findings)
            for finding in findings:
                if finding.remedy == REPAIR:
                    count.mended += 1
                    repair_finding(opened, finding)
            again = opened.list_all()
            count.checked += len(rows)
            count.lost += len(rows) - sum(1 for row in rows if row in again)
            left = [finding for finding in verify_store(opened) if finding.remedy == REPAIR]
            if left:
                count.trouble.append(f"{how} ({number}): left after the repair: {left[:2]}")
        except Exception as problem:  # noqa: BLE001 - whatever it is, it must not happen
            count.trouble.append(f"{how} ({number}): {type(problem).__name__}: {problem}")
        count.tried += 1
    return count.outcome("indexes damaged, old, or of another version", "listed sessions")


def store_turn(store: WholeStore, session: str, number: int) -> None:
    at = f"2026-11-20T09:{number:02d}:00.000Z"
    transcript = store.open_to_append(AGENT, Header(session, "/project", RECORDED, at), is_new=False)
    store.mark(AGENT, session)
    prompt = {
        "method": "session/prompt",
        "params": {"sessionId": session, "prompt": [{"type": "text", "text": session}]},
    }
    transcript.append(encode_message(at, "aaa111", Peer.CLIENT, json.dumps({"id": 1} | prompt).encode()))
    transcript.append(encode_message(at, "aaa111", Peer.AGENT, b'{"id":1,"result":{}}', "session/prompt"))
    transcript.close()


def _index(root: Path) -> Path:
    return root / "index.sqlite3"


def flip_index(root: Path, chance: random.Random) -> None:
    path = chance.choice([path for path in root.glob("index.sqlite3*") if path.stat().st_size])
    data = bytearray(path.read_bytes())
    for _ in range(chance.choice((1, 1, 10, 100))):
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    path.write_bytes(data)


def cut_index(root: Path, chance: random.Random) -> None:
    path = _index(root)
    data = path.read_bytes()
    path.write_bytes(data[: chance.randrange(len(data))])


def blank_index(root: Path, chance: random.Random) -> None:
    path = _index(root)
    data = path.read_bytes()
    at = chance.randrange(len(data))
    path.write_bytes(data[:at] + b"\0" * 4096 + data[at + 4096 :])


def age_index(root: Path, chance: random.Random) -> None:
    with closing(sqlite3.connect(_index(root))) as database:
        database.execute(f"PRAGMA user_version = {chance.choice((1, 99, -5))}")


def empty_rows(root: Path, chance: random.Random) -> None:
    """Make the index look older: some sessions are missing, and others have fewer entries."""
    with closing(sqlite3.connect(_index(root), isolation_level=None)) as database:
        for (name,) in database.execute("SELECT name FROM transcripts").fetchall():
            if chance.random() < 0.3:
                database.execute("DELETE FROM transcripts WHERE name = ?", (name,))
            elif chance.random() < 0.3:
                database.execute("UPDATE transcripts SET listed = 0, size = 0, lines = 0 WHERE name = ?", (name,))


def another_side_file(root: Path, chance: random.Random) -> None:
    name = chance.choice(("index.sqlite3-wal", "index.sqlite3-shm"))
    (root / name).write_bytes(chance.choice((chance.randbytes(8192), b"", b"\0" * 40_000)))
    if chance.random() < 0.5:
        _index(root).unlink()


def no_index(root: Path, chance: random.Random) -> None:
    for path in root.glob("index.sqlite3*"):
        path.unlink()
    if chance.random() < 0.5:
        _index(root).write_bytes(chance.choice((b"", b"not a database\n" * 400, chance.randbytes(20_000))))


INDEX_ACCIDENTS: dict[str, Callable[[Path, random.Random], None]] = {
    "bits flipped": flip_index,
    "cut": cut_index,
    "NUL block": blank_index,
    "another version": age_index,
    "behind": empty_rows,
    "side files of another": another_side_file,
    "missing or foreign": no_index,
}


# Other kinds of files.


def no_files(scale: Scale) -> Outcome:
    """A directory, a link, a pipe or a socket in place of a transcript, a journal or the index."""
    count = Count()
    for number, (place, what) in enumerate(itertools.product(("transcript", "journal", "index"), NO_FILES)):
        store = WholeStore(scale.place / f"no-files-{number}")
        store_turn(store, "session-0", 0)
        store_turn(store, "session-1", 1)
        folder = store.root / "transcripts" / AGENT
        path = {
            "transcript": folder / f"{file_name('session-0')}.jsonl",
            "journal": folder / "state.jsonl",
            "index": store.root / "index.sqlite3",
        }[place]
        path.unlink(missing_ok=True)
        NO_FILES[what](path)
        try:
            findings = [finding for finding in verify_store(store) if finding.path == path]
            if not findings or any(finding.remedy == REPAIR for finding in findings):
                count.trouble.append(f"{what} in the place of the {place}: {findings}")
            count.named += bool(findings)
            rows = store.list_page(AGENT, None, None, "").rows
            count.checked += 1
            count.lost += "session-1" not in [row.session_id for row in rows]
            store.open_reader(AGENT, "session-1").close()
            with suppress(OSError):
                store.open_reader(AGENT, "session-0").close()
            with suppress(OSError):
                store.open_to_append(AGENT, Header("session-0", None, RECORDED, ""), is_new=False).close()
        except Unreadable as problem:  # without the deletes, a list would be a guess
            if place != "journal":
                count.trouble.append(f"{what} in the place of the {place}: {problem}")
        count.tried += 1
    return count.outcome("directories, links and pipes in a file's place", "other sessions")


NO_FILES: dict[str, Callable[[Path], object]] = {
    "directory": lambda path: path.mkdir(),
    "link": lambda path: path.symlink_to("/etc/hostname"),
    "link to nothing": lambda path: path.symlink_to("nowhere"),
    "pipe": os.mkfifo,
}


# Concurrent writers.


def while_appended_to(scale: Scale) -> Outcome:
    """Two processes append and tear lines while a third repairs: every whole line is there at the end."""
    count = Count()
    for number in range(scale.of(30, 1)):
        store = WholeStore(scale.place / f"appended-{number}")
        store_turn(store, SESSION, 0)
        path = store.root / "transcripts" / AGENT / f"{NAME}.jsonl"
        lines = scale.of(2_000, 200)
        words = [sys.executable, "-m", __name__, str(path), str(lines)]
        writers = [subprocess.Popen([*words, name], cwd=damaged.ROOT) for name in ("one111", "two222")]
        try:
            while any(writer.poll() is None for writer in writers):
                count.mended += repaired(store)
        finally:
            for writer in writers:
                writer.kill()
                writer.wait()
        count.mended += repaired(store)
        reader = store.open_reader(AGENT, SESSION)
        found = [(line.entry.run, line.entry.note) for line in reader.read_lines() if line.entry and line.entry.note]
        reader.close()
        for name in ("one111", "two222"):
            numbers = [note.get("number") for run, note in found if run == name]
            count.checked += lines
            count.lost += lines - len(set(numbers) & set(range(lines)))
            if [number for number in numbers if number is not None] != list(range(lines)):
                count.trouble.append(f"{name}: out of order")
        count.tried += 1
    return count.outcome("repairs while two processes append and tear lines", "appended entries")


def repaired(store: WholeStore) -> int:
    findings = [finding for finding in verify_store(store, (AGENT, NAME)) if finding.stretch is not None]
    if findings:
        repair_finding(store, findings[0])
    return bool(findings)


def main() -> None:
    """A writer: numbered entries in a transcript, and torn lines, as on a full disk."""
    path, lines, run = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    transcript, chance = TranscriptAppender(path), random.Random(run)
    for number in range(lines):
        if chance.random() < 0.1:
            with path.open("ab", buffering=0) as torn:
                # At least 5: after a line cut off at its colon, nobody can tell the other writer's entry from a part
                # of this one (file_format.find_entries), so it is rightly not served.
                torn.write(encode_note(_NOW, run, {"type": "torn", "text": "x" * chance.randrange(5, 300)})[:-9])
            if chance.random() < 0.3:
                transcript.close()
                transcript = TranscriptAppender(path)
        transcript.append(encode_note(_NOW, run, {"type": "said", "number": number}))
    transcript.close()


_NOW = "2026-11-20T10:00:00.000Z"


def under_a_running_proxy(scale: Scale) -> Outcome:
    """A proxy continues a session whose transcript is damaged and is repaired by a command while it is open."""
    count = Count()
    for number in range(scale.of(10, 1)):
        (scale.place / f"proxied-{number}").mkdir()
        proxied = Proxied(scale.place / f"proxied-{number}")
        try:
            session = proxied.recorded("one", "two", script="echo")
            path = proxied.transcript(session)
            lines = path.read_bytes().splitlines(keepends=True)
            lines[2:2] = [b"\0" * 512 + b"\n", lines[1][:40]]
            path.write_bytes(b"".join(lines))
            with proxied.start("echo") as editor:
                editor.load(session)
                first = editor.prompt(session, "three")
                command = [*PROXY, "repair", "--store", str(proxied.store)]
                mending = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
                turns = [first, *(editor.prompt(session, f"more {turn}") for turn in range(5))]
                said, _ = mending.communicate(timeout=60)
                turns.append(editor.prompt(session, "last"))
                loaded = texts(editor.load(session).updates)
                editor.end()
            heard = [text for turn in turns for text in texts(turn)]
            count.checked += len(heard)
            count.lost += len([text for text in heard if text not in "".join(loaded)])
            count.mended += b"  repaired" in said
            if mending.returncode:
                count.trouble.append(said.decode())
            left = subprocess.run([*PROXY, "verify", "--store", str(proxied.store)], capture_output=True)
            if left.returncode:
                count.trouble.append(left.stdout.decode())
        finally:
            proxied.close()
        count.tried += 1
    return count.outcome("repairs under a running proxy", "updates")


if __name__ == "__main__":
    main()
