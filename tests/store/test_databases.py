"""A database is emptied so that nothing of it is left, and nothing else is."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from acp_proxy.store import databases

SECRET = "a-secret-word"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "words.sqlite3"


@pytest.fixture
def database(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(path, isolation_level=None)) as opened:
        opened.executescript(
            "PRAGMA user_version = 1; PRAGMA journal_mode = WAL; CREATE VIRTUAL TABLE said USING fts5(text)"
        )
        opened.execute("INSERT INTO said VALUES (?)", (SECRET,))
        yield opened


def has_secret(path: Path) -> bool:
    return any(SECRET.encode() in file.read_bytes() for file in path.parent.iterdir() if not file.name.endswith("-shm"))


@pytest.mark.parametrize("is_damaged", [False, True])
def test_an_emptied_database_has_nothing_left_and_others_miss_its_tables(
    database: sqlite3.Connection, path: Path, is_damaged: bool
) -> None:
    assert has_secret(path)
    assert not databases.is_emptied(path, windows=True)
    if is_damaged:
        database.execute("DELETE FROM said_data")
    databases.empty_database(path)
    assert not has_secret(path)
    assert databases.is_emptied(path, windows=True)
    with pytest.raises(sqlite3.OperationalError, match="no such table"):
        database.execute("INSERT INTO said VALUES (?)", (SECRET,))


def test_a_database_that_is_being_read_is_not_reported_as_emptied(
    database: sqlite3.Connection, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(databases, "_BUSY_SECONDS", 0)
    database.execute("BEGIN")
    database.execute("SELECT * FROM said").fetchall()
    with pytest.raises(PermissionError, match="another process is reading it"):
        databases.empty_database(path)
    database.execute("COMMIT")
    databases.empty_database(path)
    assert not has_secret(path)


def test_what_is_no_database_is_not_emptied(path: Path) -> None:
    assert not databases.is_emptied(path, windows=True)
    path.write_bytes(b"garbage" * 100)
    assert not databases.is_emptied(path, windows=True)
    with pytest.raises(PermissionError, match="not a database"):
        databases.empty_database(path)
