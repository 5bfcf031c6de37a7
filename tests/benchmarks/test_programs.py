"""The C programs talk to each other, directly and through the relays."""

import sys
from functools import partial
from pathlib import Path

import pytest

from benchmarks import build
from benchmarks.build import CannotBuild, compiled
from benchmarks.rounds import interleaved
from benchmarks.subjects import CAT, NONE, THREADS, C, Effort

needs_compiler = pytest.mark.skipif(
    build.compiler() is None, reason="no C compiler here (cc, or the one that CC names)"
)


@needs_compiler
def test_every_relay_passes_all_messages(effort: Effort) -> None:
    tasks = {subject: partial(effort.talk, subject, ["ping", 20, 300], [1, 250]) for subject in (NONE, C, CAT, THREADS)}

    seen = interleaved(tasks, 2, effort.chance)

    for tries in seen.values():
        assert len(tries) == 2
        for numbers in tries:
            assert 0 < numbers["p50"] <= numbers["p99"] < numbers["seconds"]
            assert numbers["received"] == 20 * 250


@needs_compiler
@pytest.mark.parametrize(
    ("said", "agent", "least"),
    [
        (["stream", 30], [30, 200, 0, 100], 30 * 200),
        (["stream"], [3_000, 200, 65_536], 3_000 * 200),
        (["stream"], [3_000, 250, 65_536, 0, 2], 3_000 * 250),
        (["stream"], [2, 1_000_000, 65_536], 2 * 1_000_000),
        (["turn", 10], [1, 200], 10 * 200),
        (["ids", 10, 200], [1, 200], 10 * 350),
        (["up", 5, 100_000], [1, 200], 200),
        (["prompt", 0, 1_000_000], [1, 200], 200),
    ],
    ids=lambda value: str(value),
)
def test_everything_from_the_agent_is_received(
    effort: Effort, said: list[object], agent: list[object], least: int
) -> None:
    assert least <= effort.talk(C, said, agent)["received"] <= least + 1_000


BUSY = """
import sys, time
for line in sys.stdin:
    until = time.process_time() + 0.3
    while '"session/prompt"' in line and time.process_time() < until:
        pass
    print('{"result":{"stopReason":"end_turn"}}', flush=True)
"""


@needs_compiler
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere no process may read another's clock")
def test_the_time_of_a_commands_only_thread_is_counted_once(effort: Effort) -> None:
    numbers = effort.client(["turn", 1], [sys.executable, "-c", BUSY])

    assert 0.3 <= numbers["cpu"] < 0.5


RESUMING = """
import subprocess, sys
with subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE) as agent:
    for line in sys.stdin.buffer:
        agent.stdin.write(line.replace(b"session/load", b"session/resume"))
        agent.stdin.flush()
"""


@needs_compiler
def test_the_first_update_is_timed_from_the_request_and_from_the_agents_answer(effort: Effort) -> None:
    numbers = effort.client(["load"], [sys.executable, "-c", RESUMING, effort.built.agent])

    assert 0 < numbers["first"] < numbers["waited"] <= numbers["last"]


@needs_compiler
def test_a_failing_command_raises(effort: Effort) -> None:
    with pytest.raises(RuntimeError, match="it ended with 3"):
        effort.client(["exit"], ["/bin/sh", "-c", "exit 3"])


def test_a_missing_compiler_is_reported_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(CannotBuild, match="install one"):
        compiled("relay", tmp_path)
