"""Removes SQLite databases. Windows removes no file that a process has open, so such a database is emptied."""

import errno
import os
from contextlib import closing
from pathlib import Path

_FILE_SUFFIXES = ("", "-wal", "-shm")
"""Suffixes of the files that SQLite keeps for a database, the database's own first."""
_BUSY_SECONDS = 5.0
_MAGIC, _USER_VERSION, _HEADER_BYTES = b"SQLite format 3\0", slice(60, 64), 100
"""How a database's file begins; where its header has ``user_version``, which ours set; and how long the header is."""


def remove_database(path: Path) -> None:
    """Remove a database. Raises OSError."""
    for suffix in _FILE_SUFFIXES:  # its own file first: a process that misses the others sees that it is gone
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def empty_database(path: Path) -> None:
    """Remove all that a database contains, also from SQLite's log; who has it open misses its tables. Raises
    PermissionError."""
    import sqlite3

    try:
        with closing(sqlite3.connect(path, isolation_level=None, timeout=_BUSY_SECONDS)) as database:
            database.execute("PRAGMA writable_schema = ON")  # drops tables of any kind, even damaged ones
            database.executescript("BEGIN IMMEDIATE; DELETE FROM sqlite_master; PRAGMA user_version = 0; COMMIT")
            database.execute("VACUUM")
            (is_busy, *_) = database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    except sqlite3.Error as problem:
        raise PermissionError(errno.EACCES, str(problem), str(path)) from problem
    if is_busy:
        raise PermissionError(errno.EACCES, "another process is reading it", str(path))


def is_emptied(path: Path, *, windows: bool = os.name == "nt") -> bool:
    """Whether ``empty_database`` was here. Raises no error."""
    if not windows:  # elsewhere nothing is emptied, and closing the file would drop locks of SQLite in this process
        return False
    try:
        with path.open("rb") as file:
            header = file.read(_HEADER_BYTES)
    except OSError:
        return False
    return header.startswith(_MAGIC) and header[_USER_VERSION] == bytes(4)
