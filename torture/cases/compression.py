"""Transcripts are compressed and decompressed while others use them.

SIGKILL before each system call of a compression, and of the start of a turn in a compressed session; loads, turns and
deletes of sessions that are compressed and decompressed all the time; damaged frames. Lost: a changed line of a
transcript, and any remains of a deleted session.
"""

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

from acp_proxy.store import compress
from acp_proxy.store.compress import CompressionOptions
from acp_proxy.store.layout import Layout
from acp_proxy.tools.maintenance.verify import verify_store
from acp_proxy.transcript import file_format
from acp_proxy.transcript.file_names import compressed_path
from tests.end_to_end.proxied import PROXY, Proxied, say
from tests.store import compressible, transcript_lines
from tests.stored import WholeStore
from torture import faults
from torture.faults import Disk
from torture.outcome import Outcome, Scale

_SECONDS = 60
_COMPRESS = (*PROXY, "compress", "--older-than", "0s", "--min-size", "1", "--store")
_GO_ON = """
import sys
from pathlib import Path
from tests.stored import WholeStore
from tests.store import transcript_lines
transcript = WholeStore(Path(sys.argv[1])).begin("agent", transcript_lines.header(), fresh=False)
transcript.append(transcript_lines.agent_chunk("more"))
transcript.close()
"""
_MOST_CALLS = 40
"""More calls than either makes on the files of a store."""
_WORDS = "{prompt} and so on"


def run(scale: Scale) -> Iterator[Outcome]:
    if faults.are_available():
        yield _killed(scale)
    yield _in_that_moment(scale)
    yield _damaged(scale)


def _killed(scale: Scale) -> Outcome:
    """A compression and a turn's start, killed in turn; the next one of each finds everything."""
    trouble, checked, died = list[str](), 0, 0
    steps = [(first, way) for first in range(1, _MOST_CALLS) for way in ("compress", "go on")]
    if scale.short:
        steps = scale.chance("steps").sample(steps[:40], 4)
    for number, (first, way) in enumerate(steps):
        store = WholeStore(scale.place / f"killed-{number}")
        path = compressible.store_compressible(store, chunks=200)
        before = path.read_bytes()
        if way == "go on":
            compressible.compress_now(store)
        command = (
            [*_COMPRESS, str(store.root)] if way == "compress" else [sys.executable, "-c", _GO_ON, str(store.root)]
        )
        disk = Disk(scale.place, store.root)
        with disk.kills(faults.CHANGES, faults.ALL_FILES, first):
            _done(command, disk)
        died += disk.hit_count > 0
        said = f"killed before call {first} of {way}: "
        content = compressible.read_content(path)
        if content not in (before, before + transcript_lines.agent_chunk("more")):
            trouble.append(f"{said}{len(content)} bytes of {len(before)}")
        if bad := [
            finding.kind for finding in verify_store(store) if finding.is_damage and not _is_index(finding.path)
        ]:
            trouble.append(f"{said}{bad}")
        for following in (command, [*_COMPRESS, str(store.root)]):
            _done(following)
        store.list_all()
        if not compressible.read_content(path).startswith(before):
            trouble.append(f"{said}not whole when it was done again")
        if left := [finding.kind for finding in verify_store(store)]:
            trouble.append(f"{said}{left} when it was done again")
        checked += 2 * before.count(b"\n")
    what = "SIGKILL before each system call of a compression and of a turn's start"
    return Outcome(what, died, checked, "lines", lost=len(trouble), trouble=tuple(trouble))


def _is_index(path: Path) -> bool:
    """It may be behind until the next list."""
    return path.name == "index.sqlite3"


def _done(command: list[str], disk: Disk | None = None) -> None:
    env = disk.env if disk is not None else None
    subprocess.run(command, env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=_SECONDS, check=False)


def _in_that_moment(scale: Scale) -> Outcome:
    """Each session is compressed and decompressed repeatedly until a proxy opens it."""
    base = scale.place / "moment"
    base.mkdir()
    proxied = Proxied(base)
    trouble, changes, ended = list[str](), [0], threading.Event()
    script = {"turns": [[say(_WORDS)]]}
    count = scale.of(150, 9)
    try:
        with proxied.editor(script, agent=["--capabilities", "resume"]) as editor:
            editor.initialize()
            sessions = [editor.new_session() for _ in range(count)]
            for session in sessions:
                editor.prompt(session, f"first of {session}")
            editor.sessions()
            editor.end()
        changing = threading.Thread(target=_change, args=(proxied.store, ended, changes))
        changing.start()
        with proxied.editor(script, agent=["--capabilities", "resume"]) as editor:
            editor.initialize()
            deleted = set[str]()
            for number, session in enumerate(sessions):
                match number % 3:
                    case 0:
                        told = editor.load(session)
                        if _WORDS.format(prompt=f"first of {session}") not in str(told.updates):
                            trouble.append(f"a load told {told.updates}")
                    case 1:
                        editor.request("session/resume", editor.place(session))
                        editor.prompt(session, f"second of {session}")
                    case _:
                        editor.request("session/delete", {"sessionId": session})
                        deleted.add(session)
                        if left := [path.name for path in proxied.store.rglob("*") if _says(path, session)]:
                            trouble.append(f"deleted, and in {left}")
            editor.end()
        ended.set()
        changing.join(_SECONDS)
        store = WholeStore(proxied.store)
        rows = {row.session_id: row for row in store.list_all()}
        if rows.keys() != set(sessions) - deleted:
            trouble.append(f"{len(rows)} are listed")
        for number, session in enumerate(sessions):
            if session in rows and rows[session].prompt_count != 1 + (number % 3 == 1):
                trouble.append(f"{rows[session].prompt_count} prompts in {session}")
        trouble += [f"{finding.path.name}: {finding.kind}" for finding in verify_store(store) if finding.is_damage]
    finally:
        ended.set()
        proxied.close()
    what = "loads, turns and deletes while the session is compressed and decompressed"
    return Outcome(
        what, count, count, "sessions", len(trouble), also=f"{changes[0]} changes of form", trouble=tuple(trouble)
    )


def _says(path: Path, session: str) -> bool:
    try:
        return path.name.endswith((".jsonl", ".zst", ".new")) and f"first of {session}".encode() in path.read_bytes()
    except OSError:
        return False


def _change(root: Path, ended: threading.Event, changes: list[int]) -> None:
    store, layout = WholeStore(root), Layout(root)
    while not ended.is_set():
        for agent, name in store.list_transcripts_to_compress():
            if not layout.is_marked(agent, name) and store.compress(
                agent, name, CompressionOptions(min_size=1, older_than=0.0)
            ):
                compress.decompress(layout, agent, layout.transcript_path(agent, name))
                store.list_all()
                changes[0] += 1


def _damaged(scale: Scale) -> Outcome:
    """Bytes of a frame are changed or cut off; the part before is replayed, and the session continues."""
    trouble, tried, checked = list[str](), scale.of(300, 10), 0
    store = WholeStore(scale.place / "damaged")
    path = compressible.store_compressible(store, chunks=5000)
    whole = compressible.read_content(path)
    frame = compressible.compress_now(store).read_bytes()
    chance = scale.chance("frames")
    for number in range(tried):
        path.unlink(missing_ok=True)
        damaged, at = bytearray(frame), chance.randrange(len(frame))
        if chance.random() < 0.3:
            del damaged[at:]
        else:
            damaged[at] ^= 1 << chance.randrange(8)
        compressed_path(path).write_bytes(damaged)
        lacks = compressible.read_content(path) != whole  # some bits of a frame have no meaning
        if lacks and not any(
            finding.kind == "damaged compression" for finding in verify_store(store, (compressible.AGENT, path.stem))
        ):
            trouble.append(f"{number}: nothing is named, byte {at}")
        transcript = store.open_to_append(
            compressible.AGENT, transcript_lines.header(origin=file_format.PARTIAL), is_new=False
        )
        transcript.append(transcript_lines.agent_chunk("more"))
        transcript.close()
        reader = store.open_reader(compressible.AGENT, transcript_lines.SESSION)
        if lacks and reader.is_complete:
            trouble.append(f"{number}: taken for complete")
        reader.close()
        if not path.read_bytes().startswith(compressible.decode_before(frame, at)):
            trouble.append(f"{number}: something before byte {at} is lost")
        if not path.read_bytes().endswith(transcript_lines.agent_chunk("more")):
            trouble.append(f"{number}: it does not go on")
        checked += 4
    return Outcome(
        "a compressed file with a flipped bit, or cut off",
        tried,
        checked,
        "promises",
        len(trouble),
        trouble=tuple(trouble),
    )
