"""Settings of all tests, and the fixtures that several folders use. What else tests share, and its words:

- `waiting.py`: `SECONDS` is the most that any test waits, `wait_until` waits for another thread or process.
- `stored.py`: `store_session` writes a session as a recorder would have left it, with turns of a text and updates
  (`chunk`); `store_running_session` one whose turn has no answer; `list_ids` are the sessions that an editor's list
  shows; `read_files` reads all files, `find_files_with` names those that contain words. `WholeStore` is a store with
  both faces, as the fixture `store`.
- `client.py`: `Client` starts a command and is its editor: `request`, `notify`, `wait_for_update`, `list_updates`;
  `prompt_params` are the parameters of a prompt, `code_of` the error of a request.
- `agents.py`: small agents as commands. `scripted/`: an agent that does what a list of steps says.
- `forked.py`: starts acp-proxy without its imports, for `Client` and all who run the command.
- `conversation.py`: `CoreConversation` is a connection without processes. `client.say` and `agent.say` send as that
  side and return a `Step`: what is forwarded (`to_agent`, `to_client`), recorded (`kept`) and asked for (`asked`).
  `SimulatedSession` is what its store would have of a session.
- `comparison/short_forms.py`: a past and a replay in short forms: "> x" is the user's, "~ x" a thought, any other text
  the agent's (`expand`). `transcript(*said)` lays out the past, `compare_replay(past, *said)` compares a replay with
  it.
- `recording/recorder_harness.py`: `RecorderHarness` is a recorder over a real store: `begin` a session, `write`
  effects; `read_entries` and `read_texts_and_notes` read what it has recorded. `recording/hanging_store.py`: a store
  that stops answering (`hang`), and answers again (`come_back`), as the fixture `hanging`.
- `passage.py`: `Passage` is the real relay, with a test at both ends: `say`, `hear`, `end`.
  `relay/relay_conversation.py`: `RelayConversation` is the relay with its recorder, as the fixture `talk`:
  `editor.say`, `agent.hear`, `open`, `turn`, `ask`, `transcript_items`. The pipes of a `Side` are called after who uses
  which end: `relay_reads_from`, `test_writes_to`.
- `store/transcript_lines.py`: the lines of a transcript, as bytes; `store_lines` records a session of them.
  `store/indexed_transcripts.py`: transcripts of one agent with an index, as the fixture `transcripts`.
  `store/concurrent_writers.py`: processes that write to one store at once (`run_together`).
  `store/compressible.py`: transcripts worth compressing. `store/session_forks.py`: forks. `store/full_disk.py` and
  `store/killed_*.py`: processes without room, or killed at each call. `tools/search/stored_searches.py`: `store_turns`
  records a turn for each prompt, `find_turns` searches. `redaction/made_up_secrets.py`: secrets of nobody.
  `tools/setup/formatter.py`: lays out settings anew, as an editor does.
- `cli/commands.py`: commands in this process: `invoke`; on a store `run`, `get_stdout`, `get_json`, `get_error`,
  `list_ids` and `list_titles` of the list. `cli/terminal.py`: `run_on_terminal` runs one on a terminal.
  `end_to_end/proxied.py`: an editor, acp-proxy and an agent as processes; `run` has a command print about their store,
  `list_said` tells who said what. `end_to_end/handovers.py`: sessions that were handed over.
- `strategies.py`: values for property tests. `pipes.py`, `posix.py`, `open_files.py`: what differs by system.

The grammar. What does something is a verb: `store_…` records a session, `read_…`, `find_…` and `list_…` look, `run_…`
starts a command, `wait_…` waits. A small function that only makes a value is called after the value: a message
(`prompt`, `update`), a transcript (`transcript`). Where a prompt is no message, its name says what it is:
`prompt_entry`, `prompt_line` (bytes of a transcript), `prompt_params`. A participle says what became of a value: `told`
was said to somebody, `kept` is recorded, `listed` is in a list. What only one file needs is defined there, beside its
tests.

A subject has one home. What is decided is tested where it is decided, and what a command says where its words are;
tests with processes try each kind once, for what only they show: that it reaches both sides, the disk and the next
process.
"""

import contextlib
import gc
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import typer.testing
from _pytest.runner import runtestprotocol
from hypothesis import HealthCheck, settings
from typer.main import get_command

from acp_proxy.config.config_file import VARIABLE
from tests import forked, not_on_windows
from tests.stored import WholeStore
from tests.tools.sync import servers

if TYPE_CHECKING:
    from tests.recording.hanging_store import HangingStore
    from tests.relay.relay_conversation import RelayConversation

forked.is_on = True
os.environ[VARIABLE] = os.devnull  # not that of the developer
os.environ["TZ"] = "UTC"  # nor the developer's zone
os.environ["ACP_PROXY_REGISTRY"] = os.path.join(os.path.dirname(__file__), "no-registry.json")  # no test asks the web

# Thousands of stores are made and synchronized to the disk, whose speed no test is about.
MEMORY, ROOM = "/dev/shm", 4 * 1024**3
if (
    sys.platform == "linux"
    and os.path.isdir(MEMORY)
    and shutil.disk_usage(MEMORY).free > ROOM
    and not os.statvfs(MEMORY).f_flag & os.ST_NOEXEC
):
    tempfile.tempdir = os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", MEMORY)

# A busy machine is no failure, so no time limits. A quarter of the usual number of examples keeps the suite short;
# `make fuzz` looks for longer.
settings.register_profile("project", max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("project")

# A background process often ignores these signals, and so would every process that a test starts.
for name in ("SIGINT", "SIGHUP"):
    with contextlib.suppress(AttributeError, ValueError):
        if signal.getsignal(number := getattr(signal, name)) is signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if name == "SIGINT" else signal.SIG_DFL)

# Typer would make all commands anew for each command line that its runner runs in this process.
vars(typer.testing)["_get_command"] = cache(get_command)

GARBAGE = 20_000
"""New objects between two runs of the garbage collector; the default, 700, takes a tenth of the suite's time."""

collect_ignore = not_on_windows.paths() if sys.platform == "win32" else []


_WHOLE = "tests/end_to_end/test_"
LONG = (
    *(f"{_WHOLE}{name}" for name in ("real_agents", "recall", "web", "exported_page")),
    "tests/torture/",
    "tests/simulation/",
)
"""Where the longest tests are. They come first, so that no worker ends with one while the others have nothing to do;
those that wait for another program before those that compute, which other workers take over."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the longest tests first. On Windows, skip the single tests of the list, with its reasons."""
    items.sort(key=lambda item: next((at for at, start in enumerate(LONG) if item.nodeid.startswith(start)), len(LONG)))
    if sys.platform == "win32":
        listed = not_on_windows.tests()
        for item in items:
            file = Path(item.path).relative_to(not_on_windows.ROOT).as_posix()
            if reason := listed.get(f"{file}::{item.name.partition('[')[0]}"):
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Thousands of tests are collected and stay until the end: the garbage collector need not visit them each time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(GARBAGE)
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """A worker of pytest-xdist sends one report of a test that passes, not six messages: ten seconds of a whole run."""
    if not hasattr(item.config, "workerinput"):
        return None
    for report in runtestprotocol(item, log=False, nextitem=nextitem):
        if report.when == "call" or not report.passed:
            item.ihook.pytest_runtest_logreport(report=report)
    return True


@pytest.fixture
def zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Sets the local time zone, by its name."""

    def use(name: str) -> None:
        monkeypatch.setenv("TZ", name)
        time.tzset()

    yield use
    monkeypatch.undo()
    time.tzset()


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Where ``store`` is."""
    return tmp_path / "store"


@pytest.fixture
def store(root: Path) -> WholeStore:
    return WholeStore(root)


@pytest.fixture(params=["S3" if servers.PROGRAM else "folder"])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[str]:
    """The URL of a place that machines share: the directory ``shared``, or a real server's bucket that lies there."""
    if request.param == "folder":
        yield (tmp_path / servers.BUCKET).as_uri()
        return
    with servers.run_real_server(tmp_path) as server:
        for name, value in servers.environment(f"http://127.0.0.1:{server.port}").items():
            monkeypatch.setenv(name, value)
        yield f"s3://{servers.BUCKET}"


@pytest.fixture
def hanging(tmp_path: Path) -> "Iterator[HangingStore]":
    """A store that stops answering when a test says so."""
    from tests.recording.hanging_store import HangingStore  # imported late: few tests need it

    store = HangingStore(tmp_path / "store")
    yield store
    store.release()


@pytest.fixture
def talk(hanging: "HangingStore") -> "Iterator[RelayConversation]":
    """A relay with its recorder, over a store that may hang."""
    from tests.relay.relay_conversation import RelayConversation  # imported late: few tests need it

    made = RelayConversation(hanging)
    yield made
    hanging.release()
    made.end()
