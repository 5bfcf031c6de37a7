"""Errors have the name of an errno, those of SQLite too."""

import errno
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from acp_proxy.errors import Unreadable, errno_name


@pytest.mark.parametrize(
    ("name", "advice"),
    [("ENOSPC", "The disk is full. Free some space, then try again."), ("EIO", "Run: acp-proxy doctor")],
)
def test_of_a_full_disk_it_is_said_what_to_do_at_once(name: str, advice: str) -> None:
    assert str(Unreadable(name)) == f"recorded sessions cannot be read ({name}). {advice}"


def full(database: sqlite3.Connection) -> None:
    database.execute("PRAGMA max_page_count = 2")
    database.execute("INSERT INTO t VALUES (?)", ("x" * 100_000,))


def busy(database: sqlite3.Connection) -> None:
    path = database.execute("SELECT file FROM pragma_database_list").fetchone()[0]
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        database.execute("BEGIN IMMEDIATE")


def readonly(database: sqlite3.Connection) -> None:
    database.execute("PRAGMA query_only = ON")
    database.execute("INSERT INTO t VALUES (1)")


def wrong(database: sqlite3.Connection) -> None:
    database.execute("SELECT 1 FROM nowhere")


@pytest.mark.parametrize(("what", "name"), [(full, "ENOSPC"), (busy, "EBUSY"), (readonly, "EROFS"), (wrong, "EIO")])
def test_sqlite_errors_have_errno_names(tmp_path: Path, what: Callable[[sqlite3.Connection], None], name: str) -> None:
    with closing(sqlite3.connect(tmp_path / "some.sqlite3", isolation_level=None, timeout=0)) as database:
        database.execute("CREATE TABLE t(a)")
        with pytest.raises(sqlite3.Error) as problem:
            what(database)
        assert errno_name(problem.value) == name


def test_errors_without_a_known_errno_are_eio() -> None:
    assert errno_name(PermissionError(13, "Permission denied")) == "EACCES"
    assert errno_name(TimeoutError(errno.ETIMEDOUT, "")) == "ETIMEDOUT"
    assert errno_name(OSError("made up")) == errno_name(OSError(99_999, "made up")) == errno_name(ValueError()) == "EIO"
