"""The directory of another machine's session, which sessions leave this one, and whose database is refused."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from acp_proxy.tools.sync.membership import SyncSettings, is_shared, localize_header
from acp_proxy.tools.sync.state_db import MACHINE_NAME, SyncState
from acp_proxy.transcript.file_format import RECORDED, Header


def header(cwd: str) -> Header:
    return Header("s", cwd, RECORDED, "2026-01-01T00:00:00.000Z")


@pytest.mark.parametrize(
    ("cwd", "theirs", "ours", "shown"),
    [
        ("/home/ann/work/app", "/home/ann", "/Users/ann", "/Users/ann/work/app"),
        ("/home/ann", "/home/ann/", "/Users/ann", "/Users/ann"),
        ("/home/anna/work", "/home/ann", "/Users/ann", "/home/anna/work"),
        ("/home/Ann/work", "/home/ann", "/Users/ann", "/home/Ann/work"),
        ("/srv/app", "/srv", "/", "/app"),
        ("/home/ann/work/app", "/home/ann", r"C:\Users\ann", r"C:\Users\ann\work\app"),
        (r"c:\users\Ann\work\app", r"C:\Users\ann", "/home/ann", "/home/ann/work/app"),
        (r"C:\Users\ann\work", "C:/Users/ann", r"D:\Users\me", r"D:\Users\me\work"),
        (r"C:\Users\anna\work", r"C:\Users\ann", "/home/ann", r"C:\Users\anna\work"),
        (r"D:\work", "D:\\", "/mnt/d", "/mnt/d/work"),
    ],
)
def test_a_directory_below_one_of_another_machine_is_below_the_one_here(
    cwd: str, theirs: str, ours: str, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert localize_header(header(cwd), "", SyncSettings("", "", places={theirs: ours})).cwd == shown
    for name in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(name, ours)
    assert localize_header(header(cwd), theirs, SyncSettings("", "")).cwd == shown


@pytest.mark.parametrize(
    ("cwd", "is_in"), [(r"C:\work", True), (r"c:\Work\app", True), ("C:/work/app", True), (r"C:\works", False)]
)
def test_only_sessions_below_a_chosen_directory_leave(cwd: str, is_in: bool) -> None:
    assert is_shared("agent", header(cwd), SyncSettings("", "", directories=(r"C:\work",))) is is_in


@pytest.mark.parametrize("statement", ["PRAGMA user_version = 0", "PRAGMA user_version = 99"])
def test_the_database_of_another_version_is_refused_and_kept(statement: str, tmp_path: Path) -> None:
    path = tmp_path / "state.sqlite3"
    with closing(SyncState(str(path))) as state:
        state.set_facts({MACHINE_NAME: "laptop"})
        state.commit()
    with closing(sqlite3.connect(path)) as database:
        database.execute(statement)
    before = path.read_bytes()
    with pytest.raises(sqlite3.DatabaseError, match="another version of acp-proxy"):
        SyncState(str(path))
    assert path.read_bytes() == before
