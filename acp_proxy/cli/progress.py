"""How far long work has come, on stderr, where that is a terminal; nothing is said where it is not."""

import sys
from collections.abc import Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")


def advancing(items: Sequence[T], what: str) -> Iterator[T]:
    """The items, one after the other. It is gone from the terminal when they are done."""
    if len(items) < 2 or not sys.stderr.isatty():
        yield from items
        return
    from rich.console import Console
    from rich.progress import track

    yield from track(items, what, console=Console(stderr=True), transient=True)
