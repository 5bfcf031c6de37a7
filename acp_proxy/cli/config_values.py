"""The values of options of ``run`` for commands that have no such option, by the environment or this user's file."""

import os
from collections.abc import Callable
from typing import TypeVar

from acp_proxy.config import config_file, options
from acp_proxy.errors import UsageError

T = TypeVar("T")


def read_bin_days() -> int:
    """How many days a deleted session can be restored. Raises UsageError."""
    return _read_checked("bin-days", options.parse_bin_days)


def read_patterns() -> list[str] | None:
    """What ``options.read_patterns`` returns. Raises UsageError."""
    return _read_checked("redact", options.read_patterns)


def _read_checked(name: str, parse: Callable[[str], T]) -> T:
    """The value of an option: its variable's, else the file's, else the default. Raises UsageError."""
    option, file = options.OPTIONS[name], config_file.read_valid()
    try:
        return parse(os.environ.get(option.variable) or file.get(name, option.default))
    except UsageError as problem:  # the variable, since the values of the file are checked
        raise UsageError(*(str(text).replace(f"--{name}", option.variable, 1) for text in problem.args)) from problem
