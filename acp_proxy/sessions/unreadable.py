"""Why a transcript cannot be read."""

from pathlib import Path

from acp_proxy.errors import NewerFormat, errno_name
from acp_proxy.transcript.file_access import TooLarge


def explain_unreadable(path: Path, problem: OSError | NewerFormat) -> tuple[Path, str, str]:
    """The file of a transcript that cannot be read, why, and what to do, without full stops. ``path``: the plain file,
    which may be compressed."""
    match problem:
        case NewerFormat():
            return path, problem.reason, "Upgrade acp-proxy"
        case TooLarge():
            return Path(problem.filename or path), problem.reason, problem.advice
    return path, errno_name(problem), "Correct its permissions, repair the disk, or delete it"


def format_unreadable(path: Path, problem: OSError | NewerFormat) -> str:
    """The same as ``explain_unreadable`` gives, as one text."""
    unreadable_path, reason, what_to_do = explain_unreadable(path, problem)
    return f"{unreadable_path}: {reason}. {what_to_do}"
