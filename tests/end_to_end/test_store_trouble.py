"""Whatever happens to the store, the conversation continues, with one warning, and intact data is served."""

import os
import shutil
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from stat import S_ISDIR
from typing import Any

import pytest

from acp_proxy.store.proxy_store import ProxyStore
from tests.client import TIMEOUT, RequestFailed
from tests.end_to_end.proxied import PROXY, UNPRIVILEGED, Editor, Loaded, Proxied, entries, texts, without_writing
from tests.posix import resource

LINUX_ONLY = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")
READ_ONLY = 0o500
USUAL = 0o700


def warnings(editor: Editor) -> list[str]:
    """The proxy's lines on stderr; the editor has ended."""
    editor.close()
    return [line for line in editor.read_stderr().splitlines() if line.startswith("acp-proxy:")]


def listing(editor: Editor) -> Any:
    return editor.request("session/list", {})


def notes(path: Path) -> list[dict[str, Any]]:
    return [entry["note"] for entry in entries(path) if "note" in entry]


def is_complete(proxied: Proxied, session: str) -> bool:
    store = ProxyStore(proxied.store)
    reader = store.open_reader(proxied.transcript(session).parent.name, session)
    try:
        return reader.is_complete
    finally:
        reader.close()


def start_unprivileged(proxied: Proxied, script: str = "echo") -> Editor:
    """An editor whose proxy must obey file modes, even if the tests run as root."""
    editor = Editor([*UNPRIVILEGED, *proxied.command(script)])
    editor.project = proxied.project
    return editor


def record_session(proxied: Proxied, *prompts: str, script: str = "echo") -> str:
    """Record a session with a proxy that then ends. Returns the session's id."""
    with proxied.editor(script) as editor:
        session = editor.open()
        for text in prompts or ("one",):
            editor.prompt(session, text)
        assert editor.end() == 0
    return session


def start_initialized(proxied: Proxied, script: str = "echo") -> Editor:
    editor = proxied.editor(script)
    editor.initialize()
    return editor


# --- a refused store


def group_writable(proxied: Proxied) -> None:
    proxied.store.mkdir()
    proxied.store.chmod(0o720)


def writable_by_all(proxied: Proxied) -> None:
    proxied.store.mkdir()
    proxied.store.chmod(0o702)


def a_file(proxied: Proxied) -> None:
    proxied.store.write_text("")


def below_a_file(proxied: Proxied) -> None:
    proxied.store.write_text("")
    proxied.store /= "store"


def a_link_to_nowhere(proxied: Proxied) -> None:
    proxied.store.symlink_to(proxied.base / "nowhere")


def a_place_that_cannot_be_created(proxied: Proxied) -> None:
    proxied.store = Path("/sys/kernel/acp-proxy/store")


def a_system_directory(proxied: Proxied) -> None:
    proxied.store = Path("/sys/kernel")


def containing_a_link_to_the_outside(proxied: Proxied) -> None:
    ProxyStore(proxied.store)
    (proxied.base / "elsewhere").mkdir()
    (proxied.store / "transcripts").rmdir()
    (proxied.store / "transcripts").symlink_to(proxied.base / "elsewhere")


def of_a_newer_version(proxied: Proxied) -> None:
    ProxyStore(proxied.store)
    (proxied.store / "format").write_text("99\n")


@pytest.mark.parametrize("spoil", [a_file, below_a_file, of_a_newer_version])
def test_a_refused_store_gives_one_warning_and_nothing_is_added(
    proxied: Proxied, spoil: Callable[[Proxied], None]
) -> None:
    spoil(proxied)
    check_passes_without_recording(proxied, proxied.editor("echo"))


REFUSED = [
    group_writable,
    writable_by_all,
    a_link_to_nowhere,
    pytest.param(a_place_that_cannot_be_created, marks=LINUX_ONLY),
    pytest.param(a_system_directory, marks=LINUX_ONLY),
    containing_a_link_to_the_outside,
]


@pytest.mark.parametrize("spoil", REFUSED)  # another test, since Windows has none of these
def test_a_store_refused_for_its_modes_or_links_gives_one_warning_and_nothing_is_added(
    proxied: Proxied, spoil: Callable[[Proxied], None]
) -> None:
    spoil(proxied)
    check_passes_without_recording(proxied, proxied.editor("echo"))


@LINUX_ONLY
def test_a_read_only_store_gives_one_warning_and_nothing_is_added(proxied: Proxied) -> None:
    record_session(proxied)
    proxied.store.chmod(READ_ONLY)
    assert "chmod -R u+rwX" in check_passes_without_recording(proxied, start_unprivileged(proxied))
    proxied.store.chmod(USUAL)


@LINUX_ONLY
def test_the_warning_names_a_read_only_file_system(proxied: Proxied) -> None:
    record_session(proxied)
    editor = Editor([*without_writing(proxied.store), *proxied.command("echo")])
    editor.project = proxied.project
    warning = check_passes_without_recording(proxied, editor)
    assert "its file system is read-only. Mount it writable" in warning
    assert "chmod" not in warning


def check_passes_without_recording(proxied: Proxied, editor: Editor) -> str:
    """Check that a turn passes unrecorded with one warning, and return the warning."""
    before = [path.stat() for path in proxied.transcripts()]
    params = {"protocolVersion": 1, "clientCapabilities": {}}
    with Editor(proxied.bare_agent("echo")) as direct:
        direct.request("initialize", params)
        editor.request("initialize", params)
        assert editor.lines[0].raw == direct.lines[0].raw
    session = editor.new_session()
    assert texts(editor.prompt(session, "one")) == ["I heard: one"]
    with pytest.raises(RequestFailed) as refusal:
        editor.sessions()
    assert refusal.value.code == -32601
    assert texts(editor.prompt(session, "two")) == ["I heard: two"]
    assert editor.end() == 0
    [warning] = warnings(editor)
    assert [path.stat() for path in proxied.transcripts()] == before
    return warning


def test_a_missing_store_is_created(proxied: Proxied) -> None:
    proxied.store = proxied.base / "not" / "yet" / "there"
    session = record_session(proxied)
    with start_initialized(proxied) as editor:
        assert editor.list_ids() == [session]
    if sys.platform != "win32":
        assert (proxied.base / "not").stat().st_mode & 0o777 == USUAL


# --- modes


def under_an_open_umask(command: list[str]) -> Editor:
    return Editor(["sh", "-c", 'umask 0; exec "$@"', "sh", *command])


def test_every_file_of_a_store_is_private_under_an_open_umask(proxied: Proxied) -> None:
    seen: set[str] = set()

    def check() -> None:
        found = {}
        for path in [proxied.store, *proxied.store.rglob("*")]:
            with suppress(FileNotFoundError):  # marks and the index's temporary files disappear
                found[path] = path.lstat().st_mode
        wrong = {path: oct(mode) for path, mode in found.items() if mode & 0o777 != (0o700 if S_ISDIR(mode) else 0o600)}
        assert wrong == {}
        seen.update(path.name for path in found)
        seen.update(path.suffix for path in found)

    def command(*words: str) -> None:
        with under_an_open_umask([*PROXY, *words, "--store", str(proxied.store)]) as done:
            assert done.wait() == 0
        check()

    with under_an_open_umask(proxied.command("echo")) as editor:
        editor.project = proxied.project
        remaining = editor.open()
        editor.prompt(remaining, "one")
        gone = editor.new_session()
        editor.prompt(gone, "two")
        assert editor.list_ids() == [gone, remaining]
        check()
        editor.request("session/delete", {"sessionId": gone})
        (proxied.store / "index.sqlite3").unlink()
        assert editor.list_ids() == [remaining]
        editor.load(remaining)
        check()
        assert editor.end() == 0
    check()
    command("doctor")
    command("list")
    shutil.rmtree(proxied.store / "unindexed")
    for path in proxied.store.glob("index.sqlite3*"):
        path.unlink()
    command("show", "last")
    command("search", "one")
    with proxied.transcript(remaining).open("ab") as file:
        file.write(b"damage\n")
    command("repair")
    command("compress", "--older-than", "0s", "--min-size", "0B")
    command("delete", "last", "--yes")
    command("list")
    store_files = {
        "format",
        "index.sqlite3",
        "index.sqlite3-wal",
        "index.sqlite3-shm",
        "state.jsonl",
        "unindexed",
    }
    assert seen >= store_files | {"search", "backups", ".zst"}


# --- a full disk


@contextmanager
def full_disk(editor: Editor) -> Iterator[None]:
    """No file of the proxy can grow; the agent, which has started, has space."""
    soft, hard = resource.prlimit(editor.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(editor.pid, resource.RLIMIT_FSIZE, (0, hard))
    try:
        yield
    finally:
        resource.prlimit(editor.pid, resource.RLIMIT_FSIZE, (soft, hard))


def prompt_until(editor: Editor, session: str, done: Callable[[], bool]) -> None:
    """Prompt until it is done; the proxy retries a store in trouble now and then."""
    deadline = time.monotonic() + TIMEOUT
    while not done():
        assert time.monotonic() < deadline
        editor.prompt(session, "and now?")


@LINUX_ONLY
def test_a_full_disk_does_not_stop_the_conversation_and_leaves_a_gap(proxied: Proxied) -> None:
    with proxied.editor("echo") as editor:
        session = editor.open()
        editor.prompt(session, "one")
        assert "_meta" not in listing(editor)
        assert is_complete(proxied, session)
        with full_disk(editor):
            assert texts(editor.prompt(session, "two")) == ["I heard: two"]
            result = listing(editor)
            assert result["_meta"]["acp-proxy"] == {"recording": False}
            [found] = result["sessions"]
            assert (found["sessionId"], found["title"]) == (session, "one")
            assert texts(editor.load(session).updates) == ["I heard: one"]
            assert texts(editor.prompt(session, "three")) == ["I heard: three"]
        prompt_until(editor, session, lambda: bool(notes(proxied.transcript(session))[1:]))
        editor.prompt(session, "four")
        path = proxied.transcript(session)
        [gap] = [note for note in notes(path) if note["type"] == "gap"]
        assert gap["reason"] == "EFBIG"
        assert not is_complete(proxied, session)
        assert "_meta" not in listing(editor)
        assert editor.end() == 0
    assert len(warnings(editor)) == 1
    with start_initialized(proxied) as later:
        told = texts(later.load(session).updates)
        assert told[0] == "I heard: one"
        assert not {"I heard: two", "I heard: three"} & set(told)
        assert told[-1] == "I heard: four"


@LINUX_ONLY
def test_a_delete_that_cannot_be_recorded_is_refused(proxied: Proxied) -> None:
    session = record_session(proxied)
    with start_initialized(proxied) as editor:
        with full_disk(editor):
            with pytest.raises(RequestFailed) as refusal:
                editor.request("session/delete", {"sessionId": session})
            assert refusal.value.code == -32603
            assert "EFBIG" in refusal.value.message
        assert editor.list_ids() == [session]
        assert "_meta" not in listing(editor)
        assert editor.request("session/delete", {"sessionId": session}) == {}
        assert editor.list_ids() == []


@LINUX_ONLY
def test_a_store_that_becomes_read_only_gives_one_warning_and_a_gap(proxied: Proxied) -> None:
    first = record_session(proxied)
    with start_unprivileged(proxied) as editor:
        editor.initialize()
        [directory] = proxied.store.glob("transcripts/*")
        directory.chmod(READ_ONLY)
        session = editor.new_session()
        assert texts(editor.prompt(session, "two")) == ["I heard: two"]
        result = listing(editor)
        assert [row["sessionId"] for row in result["sessions"]] == [first]
        assert result["_meta"]["acp-proxy"]["recording"] is False
        directory.chmod(USUAL)
        prompt_until(editor, session, lambda: session in editor.list_ids())
        assert "_meta" not in listing(editor)
        assert editor.end() == 0
    assert len(warnings(editor)) == 1
    assert [note["type"] for note in notes(proxied.transcript(session))][:1] == ["gap"]


# --- the index


def delete_with_its_log(index: Path) -> None:
    for path in index.parent.glob("index.sqlite3*"):
        path.unlink()


def overwrite(index: Path) -> None:
    with index.open("r+b") as file:
        file.write(b"\xff" * index.stat().st_size)


def empty(index: Path) -> None:
    os.truncate(index, 0)


@pytest.mark.parametrize("damage", [delete_with_its_log, overwrite, empty])
def test_a_lost_index_is_rebuilt_by_a_running_proxy_and_deleted_sessions_stay_deleted(
    proxied: Proxied, damage: Callable[[Path], None]
) -> None:
    with proxied.editor("echo") as editor:
        remaining = editor.open()
        gone = editor.new_session()
        for session in (remaining, gone):
            editor.prompt(session, "one")
        editor.request("session/delete", {"sessionId": gone})
        assert editor.list_ids() == [remaining]
        damage(proxied.store / "index.sqlite3")
        assert editor.list_ids() == [remaining]
        assert texts(editor.prompt(remaining, "two")) == ["I heard: two"]
        new = editor.new_session()
        editor.prompt(new, "three")
        assert editor.list_ids() == [new, remaining]
        assert editor.end() == 0
    assert warnings(editor) == []
    # A connection with everything in memory and in the log may continue with a broken file; the next one repairs it.
    with start_initialized(proxied) as later:
        assert later.list_ids() == [new, remaining]
        assert later.end() == 0
    database = sqlite3.connect(proxied.store / "index.sqlite3")
    assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert database.execute("SELECT count(*) FROM sqlite_master").fetchone() != (0,)
    database.close()


# --- crashes and damaged transcripts


def torn_in_a_character(data: bytes) -> bytes:
    at = data.rindex("🦦".encode())
    return data[: at + 2]


def ended_by_zeros(data: bytes) -> bytes:
    return data + b"\0" * 4096


def with_garbage_in_the_middle(data: bytes) -> bytes:
    first, second, *rest = data.split(b"\n")
    return b"\n".join([first, b'{"at":\xff\xfe garbage', second, b"", b"[]", *rest])


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (torn_in_a_character, ["I heard: one"]),
        (ended_by_zeros, ["I heard: one", "I heard: two 🦦"]),
        (with_garbage_in_the_middle, ["I heard: one", "I heard: two 🦦"]),
    ],
)
def test_a_damaged_transcript_is_replayed_as_far_as_intact_and_continued(
    proxied: Proxied, damage: Callable[[bytes], bytes], told: list[str]
) -> None:
    session = record_session(proxied, "one", "two 🦦", script="echo")
    path = proxied.transcript(session)
    whole = path.read_bytes()
    path.write_bytes(damage(without_the_last_answer(whole)))
    for _ in range(2):
        with start_initialized(proxied) as editor:
            assert editor.list_ids() == [session]
            assert texts(editor.load(session).updates) == told
            assert texts(editor.prompt(session, "more")) == ["I heard: more"]
            told = [*told, "I heard: more"]
            assert texts(editor.load(session).updates) == told
            assert editor.end() == 0
        assert warnings(editor) == []


def without_the_last_answer(data: bytes) -> bytes:
    """The data up to the agent's last update."""
    at = data.rindex(b'"session/update"')
    return data[: data.index(b"\n", at) + 1]


def test_an_empty_transcript_hides_no_other_session_and_is_begun_again(proxied: Proxied) -> None:
    remaining, emptied = record_session(proxied, "kept"), record_session(proxied, "emptied")
    proxied.transcript(emptied).write_bytes(b"")
    (proxied.store / "index.sqlite3").unlink()
    with start_initialized(proxied) as editor:
        assert editor.list_ids() == [remaining]
        assert editor.load(emptied).answer["result"] == {}
        editor.prompt(emptied, "more")
        assert editor.list_ids() == [emptied, remaining]
        assert texts(editor.load(emptied).updates) == ["I heard: more"]


def refusal_of(loaded: Loaded) -> dict[str, Any]:
    assert loaded.told == []
    error = loaded.answer["error"]
    assert isinstance(error, dict)
    return error


def remove_file(path: Path) -> None:
    path.unlink()


def made_a_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def made_a_link(path: Path) -> None:
    elsewhere = path.with_name("elsewhere")
    path.rename(elsewhere)
    path.symlink_to(elsewhere)


def made_unreadable(path: Path) -> None:
    path.chmod(0)


def made_by_a_newer_version(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b'"acp-transcript":1', b'"acp-transcript":99'))


UNREADABLE = {
    "ENOENT": remove_file,
    "EISDIR": made_a_directory,
    "ELOOP": made_a_link,
    "EACCES": made_unreadable,
    "ENOTSUP": made_by_a_newer_version,
}


@LINUX_ONLY
def test_an_unreadable_transcript_is_reported_and_other_sessions_are_served(proxied: Proxied) -> None:
    with proxied.editor("echo") as editor:
        other = editor.open()
        sessions = {name: editor.new_session() for name in UNREADABLE}
        for session in (other, *sessions.values()):
            editor.prompt(session, "one")
        assert editor.end() == 0
    paths = {name: proxied.transcript(session) for name, session in sessions.items()}
    for name, spoil in UNREADABLE.items():
        spoil(paths[name])
    with start_unprivileged(proxied) as editor:
        editor.initialize()
        for name, session in sessions.items():
            assert refusal_of(editor.load(session)) == {
                "code": -32603,
                "message": f"Session history cannot be read ({name}). Run: acp-proxy doctor",
            }
        assert texts(editor.load(other).updates) == ["I heard: one"]
        assert texts(editor.prompt(other, "more")) == ["I heard: more"]


def test_a_store_removed_from_a_running_proxy_is_created_again_at_the_next_prompt(proxied: Proxied) -> None:
    with proxied.editor("echo") as editor:
        session = editor.open()
        editor.prompt(session, "one")
        assert editor.list_ids() == [session]
        shutil.rmtree(proxied.store)
        assert editor.sessions() == []
        assert texts(editor.prompt(session, "two")) == ["I heard: two"]
        assert editor.list_ids() == [session]
        assert texts(editor.load(session).updates) == ["I heard: two"]
        new = editor.new_session()
        editor.prompt(new, "three")
        assert editor.list_ids() == [new, session]
        assert editor.end() == 0
    assert len(warnings(editor)) == 1
    assert not is_complete(proxied, session)
    assert proxied.store.stat().st_mode & 0o777 == USUAL
