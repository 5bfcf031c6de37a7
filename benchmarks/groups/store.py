"""The store: the cost of recording, of finding, and of disk space.

In one process, with a warm page cache. A search first checks whether its tables are up to date.
"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path

from acp_proxy.decisions.effects import BeginTranscript, IdentifyAgent, RecordUnparsedUpdates
from acp_proxy.recording.recorder import Recorder
from acp_proxy.store import delete
from acp_proxy.store.compress import CompressionOptions
from acp_proxy.store.index_database import Index
from acp_proxy.store.layout import Layout
from acp_proxy.tools.search import query
from acp_proxy.tools.search.search import SearchRequest, SearchTables, search_store
from acp_proxy.transcript import file_format
from benchmarks import stores
from benchmarks.figures import BYTES, SECONDS, Reading, Row, measured
from benchmarks.rounds import Numbers, Task, interleaved
from benchmarks.subjects import Effort
from tests.stored import WholeStore

WRITE, RECORDER = "write", "recorder"
SIZES = (1_000, 10_000, 100_000)
BATCHES, IN_A_BATCH, ALONE = 300, 327, 20_000  # a read of 64 KiB holds 327 lines of 200 bytes
TOKENS = 4_000
ASKED, DELETED = 20, 10
RARE, COMMON = "777", "question"
AT = "2026-11-20T09:15:02.123Z"


def run(effort: Effort) -> Iterator[Row]:
    rounds = effort.rounds(11, 5)
    for what, batches, lines in (
        ("an update in a batch of 64 KiB", BATCHES, IN_A_BATCH),
        ("an update on its own", ALONE, 1),
    ):
        keeping: dict[str, Task] = {
            WRITE: partial(bare, effort, batches, lines),
            RECORDER: partial(recorded, effort, batches, lines),
        }
        seen = interleaved(keeping, rounds, effort.chance)
        yield Reading(what, SECONDS, "each", WRITE).row(seen)
    yield disk(effort)
    if not effort.quick:
        yield from lists(effort, SIZES)


def make_chunks(lines: int) -> bytes:
    start = b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"one","update":'
    start += b'{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"'
    end = b'"}}}}\n'
    return (start + b"x" * (200 - len(start) - len(end)) + end) * lines


def bare(effort: Effort, batches: int, lines: int) -> Numbers:
    """Write only the bytes that the recorder would write."""
    data = b"".join(file_format.encode_update_parts(AT, "bench1", make_chunks(lines)))
    with effort.folder() as folder:
        file = os.open(folder / "transcript", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        began = time.perf_counter()
        for _ in range(batches):
            os.write(file, data)
        spent = time.perf_counter() - began
        os.close(file)
    return {"each": spent / batches / lines}


def recorded(effort: Effort, batches: int, lines: int) -> Numbers:
    data = make_chunks(lines)
    with effort.folder() as folder:
        recorder = Recorder(WholeStore(folder / "store"), ["bench"], None, "never", lambda text: None)
        recorder.start()
        recorder.add(IdentifyAgent("bench", "1"))
        recorder.add(BeginTranscript("one", "/bench", [], file_format.RECORDED))
        recorder.wait_until_recorded()
        began = time.perf_counter()
        for _ in range(batches):
            recorder.add(RecordUnparsedUpdates("one", data))
            recorder.record_soon()  # as the relay does after updates
        recorder.wait_until_recorded()
        spent = time.perf_counter() - began
        recorder.stop(1.0)
    return {"each": spent / batches / lines}


def disk(effort: Effort) -> Row:
    """The disk space of a streamed answer: real prose, about a token every twenty milliseconds."""
    answer = stores.prose(TOKENS)
    words = sum(len(token.encode()) for token in answer)
    with effort.folder() as folder:
        path = stores.long(folder / "store", stores.make_answer(answer, effort.chance))
        made = WholeStore(folder / "store").compress(path.parent.name, path.stem, CompressionOptions(older_than=0.0))
    if made is None:
        raise RuntimeError(f"{path} was not compressed")
    samples = {"text": [float(words)], "transcript": [float(made.size)], "compressed": [float(made.compressed_size)]}
    return measured(f"disk: an answer of {TOKENS:,} tokens, a chunk each", BYTES, samples, "text")


def lists(effort: Effort, sizes: tuple[int, ...]) -> Iterator[Row]:
    """Lists, by the number of sessions."""
    roots = {size: stores.filled(effort.place / f"sessions-{size}", size) for size in sizes}
    made = {f"{size:,}": [rebuilt(root)] for size, root in roots.items()}
    opened = {size: WholeStore(root) for size, root in roots.items()}
    middles = {size: cursor_of_middle(store, size) for size, store in opened.items()}
    questions: dict[str, Callable[[int], Task]] = {
        "list, first page": lambda size: partial(asked, opened[size], None, None),
        "list, a page in the middle": lambda size: partial(asked, opened[size], None, middles[size]),
        "list, first page of one directory": lambda size: partial(asked, opened[size], stores.project(7), None),
        "list, first page, in a new process": lambda size: partial(opened_and_asked, roots[size]),
        "delete": lambda size: partial(deleted, opened[size]),
    }
    for what, question in questions.items():
        tasks = {f"{size:,}": question(size) for size in sizes}
        seen = interleaved(tasks, effort.rounds(11), effort.chance)
        yield Reading(what, SECONDS, "each", f"{sizes[0]:,}").row(seen, sized=True)
    yield measured("index rebuilt", SECONDS, made, f"{sizes[0]:,}", sized=True)
    yield from searches(effort, roots)


def searches(effort: Effort, roots: dict[int, Path]) -> Iterator[Row]:
    """Searches, by the number of sessions: for a word in one of them, and for one in all."""
    first = f"{min(roots):,}"
    made = {f"{size:,}": [searched(root, RARE)["each"]] for size, root in roots.items()}
    questions: dict[str, Callable[[Path], Task]] = {
        "search, a word of one session": lambda root: partial(looked_up, root, RARE),
        "search, a word of every session": lambda root: partial(looked_up, root, COMMON),
        "search, in a new process": lambda root: partial(searched, root, RARE),
    }
    for what, question in questions.items():
        tasks = {f"{size:,}": question(root) for size, root in roots.items()}
        seen = interleaved(tasks, effort.rounds(11), effort.chance)
        yield Reading(what, SECONDS, "each", first).row(seen, sized=True)
    yield measured("search tables rebuilt", SECONDS, made, first, sized=True)


def looked_up(root: Path, word: str) -> Numbers:
    """A search in open tables that are up to date."""
    layout, sought = Layout(root), SearchRequest(query.make_query([word]), [stores.AGENT_FOLDER])
    with ExitStack() as stack:
        tables = SearchTables(layout, stack.enter_context(closing(Index(layout.index_path))), stack)
        return {"each": timed(lambda: tables.search(sought), ASKED)}


def searched(root: Path, word: str) -> Numbers:
    sought = SearchRequest(query.make_query([word]), [stores.AGENT_FOLDER])
    return {"each": timed(lambda: search_store(WholeStore(root), sought))}


def rebuilt(root: Path) -> float:
    for part in root.glob("index.sqlite3*"):
        part.unlink()
    return opened_and_asked(root)["each"]


def timed(action: Callable[[], object], times: int = 1) -> float:
    began = time.perf_counter()
    for _ in range(times):
        action()
    return (time.perf_counter() - began) / times


def asked(store: WholeStore, cwd: str | None, cursor: str | None) -> Numbers:
    return {"each": timed(lambda: store.list_page(stores.AGENT_FOLDER, cwd, cursor, ""), ASKED)}


def opened_and_asked(root: Path) -> Numbers:
    return {"each": timed(lambda: WholeStore(root).list_page(stores.AGENT_FOLDER, None, None, ""))}


def cursor_of_middle(store: WholeStore, size: int) -> str | None:
    seen, cursor = 0, None
    while seen < size // 2:
        page = store.list_page(stores.AGENT_FOLDER, None, cursor, "")
        seen, cursor = seen + len(page.rows), page.next
    return cursor


def deleted(store: WholeStore) -> Numbers:
    """Delete some of the newest sessions; they are restored afterwards."""
    rows = store.list_page(stores.AGENT_FOLDER, None, None, "").rows[:DELETED]
    began = time.perf_counter()
    for row in rows:
        store.delete_listed(row, soft=False)
    spent = (time.perf_counter() - began) / len(rows)
    for row in rows:
        delete.lift_delete(store.layout, row.agent_folder, row.session_id)
        stores.small(store, row.agent_folder, int(row.session_id.rpartition("-")[2]))
        store.index_session(row.agent_folder, row.session_id)
    return {"each": spent}
