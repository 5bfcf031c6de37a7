"""The errors that a user can see. Each text says what happened and what to do."""

import errno

DISK_FULL = ("ENOSPC", "EDQUOT")
"""The names (``errno_name``) of a full disk's errors."""
FREE_SPACE = "The disk is full. Free some space, then try again"


class AcpProxyError(Exception):
    """An error that the user can fix. Its text is shown unchanged, each argument on its own line."""


class UsageError(AcpProxyError):
    """The command line is wrong."""


class StoreRefused(AcpProxyError):
    """The store cannot be used: acp-proxy neither records nor shows sessions.

    ``is_temporary``: a call failed, which may work the next time; else this is how the store is.
    """

    def __init__(self, text: str, *, is_temporary: bool = False) -> None:
        super().__init__(text)
        self.is_temporary = is_temporary


class NoStore(AcpProxyError):
    """There is no store at the path in use."""

    def __init__(
        self,
        root: object,
        advice: str = "Check the path (for commands: --store or ACP_PROXY_STORE). "
        "To set up your editor: acp-proxy setup",
    ) -> None:
        super().__init__(f"there is no store at {root}. {advice}")


class NewerFormat(AcpProxyError):
    """A later version of acp-proxy wrote the file."""

    def __init__(self, found: int, known: int) -> None:
        self.reason = f"the file has format {found}, and this version reads formats up to {known}"
        super().__init__(f"{self.reason}. Upgrade acp-proxy.")


class Unreadable(AcpProxyError):
    """A recorded session cannot be read. ``name``: the name of an errno. It replaces the system's text, to which some
    clients react."""

    def __init__(self, name: str) -> None:
        advice = f"{FREE_SPACE}." if name in DISK_FULL else "Run: acp-proxy doctor"
        super().__init__(f"recorded sessions cannot be read ({name}). {advice}")
        self.name = name


class InvalidCursor(AcpProxyError):
    """The client asked for a page with a cursor that acp-proxy did not give for this filter."""

    def __init__(self) -> None:
        super().__init__("Invalid cursor")


class NoFullText(AcpProxyError):
    """This Python has no full-text search."""

    def __init__(self) -> None:
        super().__init__("the SQLite of this Python has no full-text search (FTS5). Run acp-proxy with another Python.")


class NoSuchSession(AcpProxyError):
    """A SESSION on the command line matches no session, or more than one."""


class NoSuchTurn(AcpProxyError):
    """The session has no such turn."""


class NothingToSave(AcpProxyError):
    """The conversation has nothing to save, or saving would replace a file."""


class NoTranscript(AcpProxyError):
    """A FILE on the command line is not a transcript."""


class Unmendable(AcpProxyError):
    """A repair cannot change this damaged file."""


class AlreadyThere(AcpProxyError):
    """The file exists; acp-proxy does not replace it without --force."""

    def __init__(self, path: object) -> None:
        super().__init__(f"{path} already exists. Give another name, or use --force to replace it.")


class NotWritable(AcpProxyError):
    """The place cannot be written, or is full."""

    def __init__(self, path: object, problem: OSError) -> None:
        advice = _ADVICE_BY_ERRNO.get(problem.errno or 0, "Choose another place.")
        super().__init__(f"{path} cannot be written: {problem.strerror}. {advice}")


_ADVICE_BY_ERRNO = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), "Free some space, or choose another place."),
    **dict.fromkeys((errno.EEXIST, errno.ENOTDIR), "A file has the name of a directory. Choose another place."),
    errno.EISDIR: "Name a file in it.",
    errno.ENOENT: "Create its directory first, or choose another place.",
}


class NotImported(AcpProxyError):
    """The file is not a transcript, or cannot be imported as it is."""


REPLACED = "acp-proxy was upgraded or removed"
"""Used instead of an errno's name if a module that is needed is missing or belongs to another version."""


def errno_name(problem: BaseException) -> str:
    """The name of a problem's errno, such as ``ENOSPC``, without the system's text or a path; ``EIO`` if it has none.

    An ImportError gives ``REPLACED``, a NewerFormat ``ENOTSUP``.
    """
    if isinstance(problem, ImportError):
        return REPLACED
    if isinstance(problem, NewerFormat):
        return "ENOTSUP"
    number = problem.errno if isinstance(problem, OSError) else _find_sqlite_errno(problem)
    name = errno.errorcode.get(number or errno.EIO, "EIO")
    return name.removeprefix("WSA")  # a few have it on Windows


_SQLITE_ERRNOS = {5: errno.EBUSY, 6: errno.EBUSY, 8: errno.EROFS, 13: errno.ENOSPC}
"""SQLite's codes BUSY, LOCKED, READONLY and FULL. They are numbers because sqlite3 is not imported here."""
_SHMSIZE = 4874
"""SQLite's code for a disk without room for its shared memory (IOERR_SHMSIZE)."""


def _find_sqlite_errno(problem: BaseException) -> int | None:
    """The errno that one of SQLite's errors stands for, if it is known."""
    code = getattr(problem, "sqlite_errorcode", 0)
    return errno.ENOSPC if code == _SHMSIZE else _SQLITE_ERRNOS.get(code & 0xFF)
