"""Processes that write to a store at the same time. This file is both the processes and their starter.

run_together(("append", path, "one", "150"), ("append", path, "two", "150"))
"""

import subprocess
import sys
from pathlib import Path

from acp_proxy.store.journal import DELETED, Event, Journal
from acp_proxy.store.proxy_store import ProxyStore
from acp_proxy.transcript.appender import TranscriptAppender
from acp_proxy.transcript.file_format import PARTIAL, Header
from acp_proxy.transcript.file_names import file_name
from tests.store import transcript_lines
from tests.waiting import SECONDS

ROOT = Path(__file__).parents[2]
AGENT = "agent"
_LENGTHS = (1, 10, 100, 5_000, 100_000)


def run_together(*jobs: tuple[str, Path, str, str]) -> None:
    """Start a process for each job, let them begin together, and wait until all have ended."""
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", __name__, *job], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for job in jobs
    ]
    try:
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        assert [process.wait(SECONDS) for process in processes] == [0] * len(processes)
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def text(writer: str, number: int) -> str:
    """The text of a writer's nth message; the lengths vary."""
    return f"{writer}-{number}-" + "é" * _LENGTHS[number % len(_LENGTHS)]


def append(path: Path, writer: str, count: int) -> None:
    """Append lines to a transcript."""
    transcript = TranscriptAppender(path, Header(transcript_lines.SESSION, None, PARTIAL, transcript_lines.time(0)))
    for number in range(count):
        transcript.append(transcript_lines.agent_chunk(text(writer, number), run=writer))
    transcript.close()


def delete(path: Path, writer: str, count: int) -> None:
    """Append deletes to a journal."""
    journal = Journal(path)
    for number in range(count):
        journal.append(Event(DELETED, f"{writer}-{number}"), transcript_lines.time(number))


def rename(path: Path, writer: str, count: int) -> None:
    """Append titles to a journal, and erase each with the delete of its session."""
    journal = Journal(path)
    for number in range(count):
        session = f"{writer}-{number}"
        with journal.lock():
            journal.append(
                Event.make_title(session, file_name(session), f"secret {session}"), transcript_lines.time(number)
            )
        journal.append(Event(DELETED, session), transcript_lines.time(number))
        with journal.lock():
            journal.erase_titles([file_name(session)])


def store_sessions(path: Path, writer: str, count: int) -> None:
    """Record sessions in a store; index and list each."""
    store = ProxyStore(path)
    for number in range(count):
        transcript_lines.store_lines(store, AGENT, f"{writer}-{number}", at=number)
        store.index_session(AGENT, f"{writer}-{number}")
        store.list_page(AGENT, None, None, writer)


def renew(path: Path, writer: str, count: int) -> None:
    """Record new sessions in a store, all with the same id."""
    store = ProxyStore(path)
    for number in range(count):
        transcript = store.open_to_append(AGENT, transcript_lines.header(at=number), is_new=True)
        for part in range(2):
            transcript.append(transcript_lines.prompt_line(f"{writer}-{number}.{part}", run=writer))
        transcript.close()


def main() -> None:
    job, path, writer, count = sys.argv[1:]
    print("ready", flush=True)
    sys.stdin.readline()
    jobs = {"append": append, "delete": delete, "keep": store_sessions, "rename": rename, "renew": renew}
    jobs[job](Path(path), writer, int(count))


if __name__ == "__main__":
    main()
