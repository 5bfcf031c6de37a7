"""Processes whose files cannot grow past a size. This file is both the process and its starter.

said = run_on_full_disk("append", path, 1000)       # what it printed, line by line
"""

import contextlib
import errno
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from acp_proxy.store.journal import DELETED, Event, Journal
from acp_proxy.tools.export.import_file import import_transcript
from acp_proxy.transcript.appender import TranscriptAppender
from tests.posix import resource
from tests.store import transcript_lines
from tests.store.concurrent_writers import AGENT, ROOT
from tests.stored import WholeStore
from tests.waiting import SECONDS

_MORE_THAN_FIT = 10_000


def run_on_full_disk(job: str, path: Path, size: int) -> list[str]:
    """Run a job in a process whose files cannot grow past a size; its lines of output."""
    command = [sys.executable, "-m", __name__, job, str(path), str(size)]
    result = subprocess.run(
        command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, timeout=SECONDS, check=True
    )
    return result.stdout.decode().splitlines()


@contextmanager
def limit_file_size(size: int) -> Iterator[None]:
    """No file of this process can grow past a size."""
    compiles, sys.dont_write_bytecode = sys.dont_write_bytecode, True  # a truncated .pyc would be taken for a whole one
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        sys.dont_write_bytecode = compiles


def repeat_until_it_fails(write: Callable[[int], None]) -> None:
    """Print the number of successful writes, and the error that stopped the next."""
    for number in range(_MORE_THAN_FIT):
        try:
            write(number)
        except OSError as problem:
            print(number, errno.errorcode[problem.errno or 0])
            return


def append(path: Path, size: int) -> None:
    """Append numbered lines to a transcript until one fails, then one more once there is room."""
    transcript: TranscriptAppender | None = None
    with limit_file_size(size):
        try:
            begun = transcript = TranscriptAppender(path, transcript_lines.header())
        except OSError as problem:
            print("none", errno.errorcode[problem.errno or 0])
        else:
            repeat_until_it_fails(lambda number: begun.append(transcript_lines.agent_chunk(f"{number} ä")))
            for _ in range(3):  # still no room
                with contextlib.suppress(OSError):
                    begun.append(transcript_lines.agent_chunk("never"))
    transcript = transcript or TranscriptAppender(path, transcript_lines.header())
    transcript.append(transcript_lines.agent_chunk("room again"))
    transcript.close()


def delete(path: Path, size: int) -> None:
    """Append numbered deletes to a journal until one fails, then one more once there is room."""
    journal = Journal(path)
    with limit_file_size(size):
        repeat_until_it_fails(lambda number: journal.append(Event(DELETED, str(number)), transcript_lines.time(number)))
    journal.append(Event(DELETED, "room again"), transcript_lines.time(0))


def show(path: Path, size: int) -> None:
    """Print the sessions of a store."""
    with limit_file_size(size):
        for row in WholeStore(path).list_page(AGENT, None, None, "").rows:
            print(row.session_id)


def import_exported(path: Path, size: int, *, as_stream: bool = False) -> None:
    """Import the file "exported.jsonl" beside a store."""
    store = WholeStore(path)
    exported = path.parent / "exported.jsonl"
    with limit_file_size(size), exported.open("rb") as stream:
        try:
            import_transcript(store, stream if as_stream else exported)
        except OSError as problem:
            print(errno.errorcode[problem.errno or 0])


def main() -> None:
    job, path, size = sys.argv[1:]
    jobs = {"append": append, "delete": delete, "show": show, "import": import_exported}
    jobs |= {"import a stream": partial(import_exported, as_stream=True)}
    jobs[job](Path(path), int(size))


if __name__ == "__main__":
    main()
