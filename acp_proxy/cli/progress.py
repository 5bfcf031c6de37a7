"""How far long work has come, on stderr, where that is a terminal; nothing is said where it is not."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from rich.progress import Progress

T = TypeVar("T")


def advancing(items: Sequence[T], what: str) -> Iterator[T]:
    """The items, one after the other. It is gone from the terminal when they are done."""
    if len(items) < 2 or not sys.stderr.isatty():
        yield from items
        return
    with _bar() as bar:
        yield from bar.track(items, description=what)


@contextmanager
def advanced(what: str) -> Iterator[Callable[[int, int], None]]:
    """For work that tells how much of it is done, and how much there is; it is shown once some is left."""
    if not sys.stderr.isatty():
        yield lambda done, total: None
        return
    bar = _bar()
    task = bar.add_task(what, total=None)

    def tell(done: int, total: int) -> None:
        if done < total:
            bar.start()
        bar.update(task, completed=done, total=total)

    try:
        yield tell
    finally:
        bar.stop()


def _bar() -> "Progress":
    """Results that are printed meanwhile stay above it, and on stdout."""
    from rich.console import Console
    from rich.progress import Progress

    return Progress(console=Console(stderr=True), transient=True, redirect_stdout=sys.stdout.isatty())
