"""The tests that are not run on Windows: ``not_on_windows.toml`` lists them by reason."""

import tomllib
from collections.abc import Iterator
from pathlib import Path

LIST = Path(__file__).with_name("not_on_windows.toml")
ROOT = LIST.parent.parent


def entries() -> Iterator[tuple[str, str]]:
    """Each entry, which is ``path`` or ``path::test``, with its reason."""
    for reason, listed in tomllib.loads(LIST.read_text(encoding="utf-8")).items():
        for entry in listed:
            yield entry, reason


def paths() -> list[str]:
    """The files and directories none of whose tests are run, absolute."""
    return [str(ROOT / entry) for entry, _ in entries() if "::" not in entry]


def tests() -> dict[str, str]:
    """The reason by test, in files whose other tests are run."""
    return {entry: reason for entry, reason in entries() if "::" in entry}
