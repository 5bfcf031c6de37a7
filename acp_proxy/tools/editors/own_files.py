"""Which of the editors' settings files are this user's to change, and how such a file is written: as a whole."""

import contextlib
import os
import stat
from pathlib import Path

from acp_proxy import shell_quote
from acp_proxy.cli.open_store import read_umask

LARGEST_FILE_BYTES = 16 * 1024 * 1024  # bytes of a file


class NotOurs(ValueError):
    """A file or an entry that setup must not change. The text says why."""


class LeftByHand(NotOurs):
    """A file that only the user can change, or should: a link may lead to what is made by another program."""


def read_own_file(path: Path) -> bytes | None:
    """The content of a settings file. None: it does not exist.

    Raises OSError, and NotOurs for what ``find_hindrance`` names, and what is too large.
    """
    if (hindrance := find_hindrance(path)) is not None:
        raise hindrance
    try:
        if path.lstat().st_size > LARGEST_FILE_BYTES:
            raise NotOurs("it is larger than 16 MiB")
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None


def follow_link(path: Path) -> Path:
    """The file to change: where a link leads, if that is the user's own file, else the path itself."""
    if not os.path.islink(path):
        return path
    target_path = Path(os.path.realpath(path))
    with contextlib.suppress(OSError):
        if target_path.is_file() and find_hindrance(target_path) is None:
            return target_path
    return path


def format_link(path: Path) -> str:
    """A path for people: of a link that is followed, also where it leads."""
    target_path = follow_link(path)
    return str(path) if target_path == path else f"{path} -> {target_path}"


def find_hindrance(path: Path) -> NotOurs | None:
    """Why setup leaves a file, apart from its content; None if it does not, or if there is none. Raises OSError."""
    try:
        status = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    if stat.S_ISLNK(status.st_mode):
        target = os.path.realpath(path)
        return LeftByHand(f"it is a link, to {target}{'' if os.path.lexists(target) else ', which does not exist'}")
    if not stat.S_ISREG(status.st_mode):
        return NotOurs("it is not a file. Move it away")
    if hasattr(os, "geteuid") and status.st_uid != os.geteuid():
        return NotOurs("it belongs to another user. Make it yours, or run acp-proxy setup as that user")
    if not status.st_mode & stat.S_IRUSR and not os.access(path, os.R_OK):
        return LeftByHand(f"it cannot be read. To allow it: chmod u+rw {shell_quote.quote(str(path))}")
    if not status.st_mode & stat.S_IWUSR:
        command = "chmod u+w" if os.name == "posix" else "attrib -R"
        return LeftByHand(f"it is read-only. To allow it: {command} {shell_quote.quote(str(path))}")
    if status.st_nlink > 1:
        return LeftByHand("it has several names (hard links), and only one of them would change")
    return None


def is_there(path: Path) -> bool:
    """Whether there is anything at a path. What cannot be looked at counts too: whoever reads it learns why."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


def replace_file(path: Path, data: bytes, mode: int | None = None) -> None:
    """Write a file as a whole: first under another name, which a write that was killed leaves to the next one.

    ``mode``: its permissions; None: those that it has. Raises OSError, which names this file.
    """
    temporary_path = find_temporary(path)
    if mode is None:
        mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else 0o666 & ~read_umask()
    try:
        try:
            temporary_path.unlink(missing_ok=True)
            with temporary_path.open("xb") as file:
                if os.name == "posix":
                    os.chmod(temporary_path, mode)
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary_path, path)
        finally:
            temporary_path.unlink(missing_ok=True)
    except OSError as problem:
        problem.filename = str(path)
        raise


def explain_no_write(problem: OSError, path: Path | None = None) -> str:
    """Why a file cannot be written, and what to do. ``path``: of the file that the reader has just read of."""
    place = "it" if problem.filename in (None, str(path)) else problem.filename
    return f"{place} cannot be written ({problem.strerror}). Check its permissions and the disk"


def find_temporary(path: Path) -> Path:
    """The name under which a file is written until it is complete."""
    return path.with_name(f".{path.name}.acp-proxy-new")


def make_move(source: Path, target: Path) -> str:
    """The command that puts one file in the place of another, whether this is there or not.

    On Windows it copies: PowerShell's ``move`` refuses a name that is taken, and cmd.exe has no ``mv``.
    """
    return shell_quote.join(["copy" if shell_quote.ON_WINDOWS else "mv", str(source), str(target)])


def make_removal(path: Path) -> str:
    """The command that removes a file; on Windows, one that both cmd.exe and PowerShell know."""
    return shell_quote.join(["del" if shell_quote.ON_WINDOWS else "rm", str(path)])
