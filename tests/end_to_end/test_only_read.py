"""The commands on a read-only store: those that read work as usual, and no other begins."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from acp_proxy.cli.app import SessionsGroup
from acp_proxy.store.compress import CompressionOptions
from tests.end_to_end.proxied import PROXY, UNPRIVILEGED, Editor, without_writing
from tests.stored import WholeStore, chunk, store_session

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")

Words = tuple[str, ...]
Said = tuple[int, str, str]
Protect = Callable[[Path], Sequence[str]]

READING: list[Words] = [
    ("list",),
    ("list", "--json"),
    ("show", "last"),
    ("show", "compressed"),
    ("search", "cookie"),
    ("export", "last", "--redact", "keys"),
    ("export", "--all", "--format", "jsonl", "--force", "--output", "exported"),
    ("stats",),
    ("path", "last"),
    ("diff", "last"),
    ("blame", "store/format"),
    ("restore", "--list"),
    ("prune", "--keep", "1", "--dry-run"),
    ("compress", "--dry-run"),
    ("redact", "--dry-run"),
    ("repair", "--dry-run"),
    ("replay", "last"),
]
VERIFY: Words = ("verify",)
CHANGING: list[Words] = [
    ("delete", "last", "--yes"),
    ("rename", "last", "A title"),
    ("archive", "last"),
    ("unarchive", "last"),
    ("pin", "last"),
    ("unpin", "last"),
    ("restore", "last"),
    ("prune", "--keep", "1", "--yes"),
    ("compress",),
    ("redact", "--yes"),
    ("repair",),
    ("import", "exported.jsonl"),
    ("continue", "last", "--", sys.executable, "-m", "acp_proxy", "mock-agent", "exported"),
    ("adopt", "--yes", "--", sys.executable, "-m", "acp_proxy", "mock-agent", "exported"),
]

_RUN = """
import json, sys
from typer.testing import CliRunner
from acp_proxy.cli.app import app
done = [CliRunner().invoke(app, words) for words in json.loads(sys.argv[1])]
print(json.dumps([[each.exit_code, each.stdout, each.stderr] for each in done]))
"""

UNUSED = "is not used while the store cannot be written, or its file system has no locks"


def by_modes(place: Path) -> Sequence[str]:
    for path in [place, *place.rglob("*")]:
        path.chmod(0o500 if path.is_dir() else 0o400)
    return UNPRIVILEGED


def by_the_mode_of_its_directory(place: Path) -> Sequence[str]:
    place.chmod(0o500)
    return UNPRIVILEGED


def by_its_file_system(place: Path) -> Sequence[str]:
    return without_writing(place)


every_way = pytest.mark.parametrize("protect", [by_modes, by_the_mode_of_its_directory, by_its_file_system])


@pytest.fixture
def store(tmp_path: Path) -> Iterator[WholeStore]:
    """A store with an index and search tables, and a compressed, a soft-deleted and an unindexed session."""
    store = WholeStore(tmp_path / "store")
    for at, session in enumerate(("plain", "compressed", "gone")):
        store_session(store, session, (f"Mend the {session}", [chunk("The cookie was it")]), at=1_700_000_000 + at)
    run(store, [("search", "cookie")])
    rows = {row.session_id: row for row in store.list_all()}
    assert store.compress(
        rows["compressed"].agent_folder, rows["compressed"].name, CompressionOptions(min_size=1, older_than=0)
    )
    store.delete_listed(rows["gone"], soft=True)
    store_session(store, "newest", ("Mend another cookie", []), at=1_700_000_009)
    yield store
    for path in [store.root, *store.root.rglob("*")]:
        path.chmod(0o700 if path.is_dir() else 0o600)


def run(store: WholeStore, commands: Sequence[Words], before: Sequence[str] = ()) -> dict[Words, Said]:
    """The output and exit code of each command; ``before``: words before the process that runs them."""
    given = json.dumps([[*words[:1], "--store", str(store.root), *words[1:]] for words in commands])
    command = [*before, sys.executable, "-c", _RUN, given]
    result = subprocess.run(
        command, capture_output=True, check=True, stdin=subprocess.DEVNULL, timeout=60, cwd=store.root.parent
    )
    told = json.loads(result.stdout)
    return {words: (status, out, err) for words, (status, out, err) in zip(commands, told, strict=True)}


def read_files_and_modes(root: Path) -> dict[str, tuple[int, int, bytes]]:
    return {
        str(path): (path.stat().st_mode, path.stat().st_mtime_ns, path.read_bytes() if path.is_file() else b"")
        for path in [root, *root.rglob("*")]
    }


def test_every_command_on_sessions_is_tested_here() -> None:
    assert {words[0] for words in [*READING, VERIFY, *CHANGING]} == set(SessionsGroup.commands_by_name) - {
        "browse",  # asks for a terminal first
        "web",  # serves until it is interrupted
    }


@every_way
def test_reading_commands_print_the_same_and_change_nothing(store: WholeStore, protect: Protect) -> None:
    copy = store.root.with_name("copy")
    shutil.copytree(store.root, copy)
    usual = run(store, READING)
    assert {status for status, _, _ in usual.values()} == {0}
    exported = store.root.with_name("exported")
    assert len(list(exported.iterdir())) == 3
    shutil.rmtree(exported)
    shutil.rmtree(store.root)
    copy.rename(store.root)
    before_us = protect(store.root)
    before = read_files_and_modes(store.root)
    assert run(store, READING, before_us) == usual
    assert len(list(exported.iterdir())) == 3
    assert read_files_and_modes(store.root) == before


@every_way
def test_the_mock_agent_plays_a_session(store: WholeStore, protect: Protect) -> None:
    before_us = protect(store.root)
    before = read_files_and_modes(store.root)
    with Editor([*before_us, *PROXY, "mock-agent", "last", "--store", str(store.root)]) as editor:
        editor.initialize()
        assert [session["sessionId"] for session in editor.sessions()] == ["newest"]
        assert editor.end() == 0
    assert read_files_and_modes(store.root) == before


@every_way
def test_verify_says_what_it_skips(store: WholeStore, protect: Protect) -> None:
    before_us = protect(store.root)
    before = read_files_and_modes(store.root)
    [(status, out, _)] = run(store, [VERIFY], before_us).values()
    assert (status, out.splitlines()) == (
        0,
        [
            f"index.sqlite3: not looked at: {UNUSED}",
            f"search: not looked at: {UNUSED}",
            "No damage found.",
        ],
    )
    assert read_files_and_modes(store.root) == before


@every_way
def test_changing_commands_report_the_reason_and_change_nothing(store: WholeStore, protect: Protect) -> None:
    shutil.copy(next(store.root.glob("transcripts/*/plain*.jsonl")), store.root.with_name("exported.jsonl"))
    before_us = protect(store.root)
    before = read_files_and_modes(store.root)
    advice = "read-only. Mount it writable" if protect is by_its_file_system else f"Run: chmod -R u+rwX {store.root}\n"
    for words, (status, out, err) in run(store, CHANGING, before_us).items():
        assert (words, status, out) == (words, 1, "")
        assert err.startswith(f"acp-proxy: {store.root} cannot be written to")
        assert advice in err
    assert read_files_and_modes(store.root) == before
