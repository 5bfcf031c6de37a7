"""Renames transcripts, in whichever form they exist, without ever replacing a file."""

import os
from pathlib import Path

from acp_proxy.transcripts.files.layout import remove_file
from acp_proxy.transcripts.files.names import ASIDE, compressed


def moved(source: Path, target: Path) -> str:
    """Rename a transcript, in whichever form it exists. Returns its new name. Raises OSError.

    If the target's name is taken, the new name gets a number.
    """
    is_compressed = not os.path.lexists(source)
    while True:
        plain_form, compressed_form = (source, target), (compressed(source), compressed(target))
        (before, after), (leftover, other) = (
            (compressed_form, plain_form) if is_compressed else (plain_form, compressed_form)
        )
        if not os.path.lexists(other) and _is_moved(before, after):
            break
        target = target.with_stem(next_name(target.stem))
    leftover.unlink(missing_ok=True)  # if both forms exist, the plain one counts
    return target.stem


def _is_moved(before: Path, after: Path) -> bool:
    """Rename without replacing a file: False if the name is taken. Raises OSError."""
    try:
        os.link(before, after)
    except FileExistsError:
        if not os.path.samefile(before, after):  # else a crash came between link and unlink
            return False
    except FileNotFoundError:
        raise
    except OSError:  # a file system without hard links
        if os.path.lexists(after):
            return False
        before.rename(after)
        return True
    remove_file(before)
    return True


def next_name(name: str) -> str:
    """The name to try if this one is taken: with a number behind it, or the next one."""
    head, aside, number = name.rpartition(ASIDE)
    return f"{head}{ASIDE}{int(number) + 1}" if aside else f"{name}{ASIDE}1"
