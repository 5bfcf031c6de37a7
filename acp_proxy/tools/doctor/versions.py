"""The versions of acp-proxy, Python and the libraries."""

import platform
import sys
from importlib import metadata

from acp_proxy import __version__

PROGRAMS = ("acp-proxy", "Python", "SQLite", "system")
_LIBRARIES = ("anyio", "orjson", "platformdirs", "psutil", "typer", "rich", "markdown-it-py", "pygments")
_ZSTD = "backports.zstd"


def versions() -> dict[str, str | None]:
    """By name, libraries last. None: the library is missing."""
    import sqlite3

    python = f"{platform.python_version()} ({platform.python_implementation()})"
    programs = zip(PROGRAMS, (__version__, python, sqlite3.sqlite_version, platform.platform()), strict=True)
    needed = _LIBRARIES if sys.version_info >= (3, 14) else (*_LIBRARIES, _ZSTD)  # part of Python since then
    return {**dict(programs), **{name: _library(name) for name in needed}}


def _library(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
