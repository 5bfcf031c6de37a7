"""The files of SQLite databases: checks, names and removes them. Windows removes no file that a process has open, so
such a database is emptied."""

import errno
import os
import stat
from contextlib import closing
from pathlib import Path

_FILE_SUFFIXES = ("", "-wal", "-shm")
"""Suffixes of the files that SQLite keeps for a database, the database's own first."""
_BUSY_SECONDS = 5.0
_MAGIC, _USER_VERSION, _HEADER_BYTES = b"SQLite format 3\0", slice(60, 64), 100
"""How a database's file begins; where its header has ``user_version``, which ours set; and how long the header is."""


def check_database(path: Path) -> None:
    """Check that a file is a regular file that can be read and written, without opening it. Raises OSError.

    A file that has just been removed raises FileNotFoundError. Opening and closing it would drop the locks that SQLite
    holds on it in this process; another process could then remove SQLite's log while this one writes.
    """
    mode = os.lstat(path).st_mode
    number = 0
    if stat.S_ISLNK(mode):
        number = errno.ELOOP
    elif not stat.S_ISREG(mode):
        number = errno.EISDIR if stat.S_ISDIR(mode) else errno.EINVAL
    elif not os.access(path, os.R_OK | os.W_OK):
        os.lstat(path)  # access says the same of a file that another process has just removed
        number = errno.EACCES
    if number:
        raise OSError(number, os.strerror(number), str(path))


def make_database_uri(path: Path, options: str) -> str:
    """The URI that opens an SQLite database with options such as ``mode=ro``."""
    from urllib.parse import quote  # most processes of ``run`` open none

    return f"file:{quote(os.fsencode(os.path.abspath(path)), safe='')}?{options}"


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
