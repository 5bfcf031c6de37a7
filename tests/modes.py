"""What modes allow, also where the tests run as root, who may do everything."""

import os


def has_mode(path: str | os.PathLike[str], mode: int) -> bool:
    """Whether the owner's part of a file's mode allows this: replaces ``os.access`` in a test."""
    return os.path.exists(path) and (os.stat(path).st_mode >> 6) & mode == mode
