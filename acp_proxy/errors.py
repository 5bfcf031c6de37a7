"""The errors a person can meet. Each says what happened and what to do about it."""

import errno


class AcpProxyError(Exception):
    """Something that the user can mend; its text is shown as it is, each argument on a line of its own."""


class UsageError(AcpProxyError):
    """The command line is not one that we understand."""


class StoreRefused(AcpProxyError):
    """The store cannot be used: nothing is recorded, nothing of it is shown."""


class NoStore(AcpProxyError):
    """The place that the user gave for the store has none."""

    def __init__(self, place: object) -> None:
        super().__init__(
            f"there is no store at {place}: nothing has been recorded there. "
            "Check --store (or ACP_PROXY_STORE). To put acp-proxy in front of an agent: acp-proxy editor EDITOR AGENT"
        )


class NewerFormat(AcpProxyError):
    """A file was written by a later version of this program."""

    def __init__(self, found: int, known: int) -> None:
        super().__init__(f"written in format {found}, and this version reads up to {known}. Upgrade acp-proxy.")


class Unreadable(AcpProxyError):
    """Stored history could not be read. ``name`` is an errno's: clients act on words of the system's text."""

    def __init__(self, name: str) -> None:
        super().__init__(f"stored sessions cannot be read ({name}). Run: acp-proxy doctor")
        self.name = name


class InvalidCursor(AcpProxyError):
    """A page was asked for with a cursor that we did not give for this filter."""

    def __init__(self) -> None:
        super().__init__("Invalid cursor")


class NoFullText(AcpProxyError):
    """This Python cannot search."""

    def __init__(self) -> None:
        super().__init__("the SQLite of this Python has no full-text search (FTS5). Run acp-proxy with another Python.")


class NoSuchSession(AcpProxyError):
    """A SESSION on the command line names none, or more than one."""


class NoSuchTurn(AcpProxyError):
    """A turn on the command line that the session does not have."""


class NothingToSave(AcpProxyError):
    """What was to be saved from a conversation is not in it, or would overwrite something."""


class NoTranscript(AcpProxyError):
    """A FILE on the command line is none that was recorded."""


class Unmendable(AcpProxyError):
    """A damaged file that a repair leaves as it is."""


class AlreadyThere(AcpProxyError):
    """A file that somebody has; nothing is written over it unasked."""

    def __init__(self, path: object) -> None:
        super().__init__(f"{path} is there already. Give another name, or --force to write over it.")


class NotWritable(AcpProxyError):
    """A place that takes nothing, or no more."""

    def __init__(self, path: object, problem: OSError) -> None:
        advice = _WHERE_NOT.get(problem.errno or 0, "Choose another place.")
        super().__init__(f"{path} cannot be written: {problem.strerror}. {advice}")


_WHERE_NOT = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), "Make room there, or choose another place."),
    **dict.fromkeys((errno.EEXIST, errno.ENOTDIR), "A file is where a directory is wanted: choose another place."),
    errno.ENOENT: "Make its directory first, or choose another place.",
}


class NotImported(AcpProxyError):
    """A file that is no transcript, or one that cannot be taken in as it is."""


REPLACED = "acp-proxy was upgraded or removed"
"""In place of an errno's name: what is needed is not there any more, or is not of this version."""


def errno_name(problem: BaseException) -> str:
    """The name of what went wrong, without the system's words or a path."""
    if isinstance(problem, ImportError):
        return REPLACED
    if isinstance(problem, NewerFormat):
        return "ENOTSUP"
    number = problem.errno if isinstance(problem, OSError) else _of_sqlite(problem)
    return errno.errorcode.get(number or errno.EIO, "EIO")


_SQLITE = {5: errno.EBUSY, 6: errno.EBUSY, 8: errno.EROFS, 13: errno.ENOSPC}
"""By SQLite's own numbers, since it is not imported here: BUSY, LOCKED, READONLY, FULL."""
_SHMSIZE = 4874
"""What it says of a full disk where its file of shared memory does not fit (IOERR_SHMSIZE)."""


def _of_sqlite(problem: BaseException) -> int | None:
    code = getattr(problem, "sqlite_errorcode", 0)
    return errno.ENOSPC if code == _SHMSIZE else _SQLITE.get(code & 0xFF)
