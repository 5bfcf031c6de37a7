"""Each limit that docs/reliability.md names is the one in the code."""

import re
from pathlib import Path

import pytest

from acp_proxy.comparison import tail
from acp_proxy.config.options import OPTIONS
from acp_proxy.decisions import aliases, open_requests, session_states, terminal_notes, unnamed_agent
from acp_proxy.decisions.handover import handovers
from acp_proxy.decisions.load import current_loads, load_limits, waiting_messages
from acp_proxy.recording import recorder, transcript_files, writer_jobs
from acp_proxy.relay import agent_process, pipes, pump, serve, worker
from acp_proxy.store import proxy_store
from acp_proxy.transcript import summary, turn_order
from acp_proxy.transcript_replay import replayer

DOCS = Path(__file__).parent.parent / "docs"
IN_WORDS = {0.75: "three quarters of a", 1: "a", 10: "ten", 15: "fifteen"}


def size(count: int) -> str:
    """Bytes as the docs write them."""
    unit, name = (1024 * 1024, "MiB") if count >= 1024 * 1024 else (1024, "KiB")
    assert count % unit == 0
    return f"{count // unit} {name}"


def seconds(count: float) -> str:
    """A time as the docs write it in a sentence."""
    return f"{IN_WORDS[count]} second" + "s" * (count > 1)


LIMITS = {
    "open requests": size(open_requests.OPEN_BYTES_LIMIT),
    "sessions of this process": size(session_states.REMEMBERED_LIMIT),
    "transcripts of sessions that were not opened or prompted": f"{session_states.UNOPENED_LIMIT:,} a process",
    "a turn that a load folds": size(replayer.FOLDED_PAGE),
    "a turn that follows another window's, shown": size(turn_order.WAITING_LIMIT),
    "loads at once": f"{current_loads.HOLDING_LOADS_LIMIT:,}",
    "new in a load, until the next prompt": size(tail.TAIL_LIMIT),
    "new in all loads, when one is answered": size(current_loads.ALL_TAILS_LIMIT),
    "messages that wait for a load of their session": f"{size(waiting_messages.WAITING_LIMIT)}",
    "waiting for loads": f"{size(load_limits.HELD_BYTES_LIMIT)} each, {size(load_limits.ALL_HELD_LIMIT)} in all",
    "lists and deletes waiting for the store": f"{worker.QUESTION_LIMIT:,}",
    "answers that an editor does not read": size(pipes.POSTED_LIMIT),
    "handovers": f"{handovers.HANDOVER_LIMIT:,} a process",
    "ids that replace others": size(aliases.LIMIT),
    "terminal output of running turns": size(terminal_notes.OUTPUT_LIMIT),
    "a line": size(pump.LINE_LIMIT),
    "a session's `_meta` in lists": size(summary._META_LIMIT),
}
"""The first two columns of the table, without what is said in round numbers ("about ...")."""

SENTENCES = [
    ("reliability.md", f"{recorder.GATHER_SECONDS * 1000:g} ms, at most {size(recorder.GATHERED_BYTES)}"),
    ("reliability.md", f"wait for that or a prompt, at most {size(unnamed_agent.UNNAMED_AGENT_LIMIT)}"),
    ("store.md", f"unless a prompt, or more than {size(unnamed_agent.UNNAMED_AGENT_LIMIT)} to record"),
    ("reliability.md", f"While the store hangs, up to {size(recorder.WAITING_BYTES)} wait in memory"),
    ("reliability.md", f"at most {seconds(writer_jobs.PATIENCE_SECONDS)} for a slow store and"),
    ("reliability.md", f"and {seconds(writer_jobs.STALL_SECONDS)} for a hanging one"),
    ("reliability.md", f"A delete that itself hangs gets an error after {seconds(worker.ANSWER_SECONDS)}"),
    ("reliability.md", f"new transcripts for at most {seconds(proxy_store.CATCH_UP_SECONDS)}"),
    ("architecture.md", f"a mark, for at most {seconds(proxy_store.CATCH_UP_SECONDS)}"),
    ("reliability.md", f"less than a second, and a start by {IN_WORDS[serve._OPENING_SECONDS]};"),
    ("reliability.md", f"Recording is retried after {seconds(transcript_files._RETRY_SECONDS)}"),
    ("reliability.md", f"The answer to a fork waits for its copy, at most {seconds(writer_jobs.PATIENCE_SECONDS)}"),
    ("reliability.md", f"`--grace` ({OPTIONS['grace'].default} s) SIGTERM"),
    ("reliability.md", f"{agent_process.TERM_SECONDS:g} s later SIGKILL"),
    ("reliability.md", f"After {size(pump.LINE_LIMIT)} of a message"),
    ("architecture.md", f"{writer_jobs.STALL_SECONDS:g} s, or {writer_jobs.PATIENCE_SECONDS:g} s if it moves"),
    ("architecture.md", f"{worker.ANSWER_SECONDS:g} s, then the editor gets an error"),
    ("architecture.md", f"Each direction waits once for {writer_jobs.STALL_SECONDS:g} s"),
    ("architecture.md", f"Up to {size(recorder.WAITING_BYTES)} wait in `Recorder.add`"),
    ("architecture.md", f"If it does not answer in {seconds(serve._OPENING_SECONDS)}"),
]


def read(page: str) -> str:
    """The page as one line."""
    return " ".join((DOCS / page).read_text(encoding="utf-8").split())


def test_the_table_of_limits_is_that_of_the_code() -> None:
    text = (DOCS / "reliability.md").read_text(encoding="utf-8")
    table = text.partition("|what|limit|beyond it|\n|-|-|-|\n")[2].partition("\n\n")[0]
    rows = dict(line.strip("|").split("|")[:2] for line in table.splitlines())
    assert {what: re.sub(r" \(about .*\)", "", limit) for what, limit in rows.items()} == LIMITS


@pytest.mark.parametrize(("page", "words"), SENTENCES)
def test_a_sentence_names_the_limit_of_the_code(page: str, words: str) -> None:
    assert words in read(page)


def test_a_hanging_store_delays_a_direction_by_less_than_a_second() -> None:
    assert writer_jobs.STALL_SECONDS < 1
