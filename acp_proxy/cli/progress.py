"""A progress bar on stderr for long work, if stderr is a terminal."""

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, ClassVar, TypeVar

if TYPE_CHECKING:
    from rich.progress import Progress

PATIENCE_SECONDS = 0.5
"""How long to wait for the end of the work before a bar appears: one for shorter work would only flash."""

T = TypeVar("T")


def show_progress(items: Sequence[T], title: str) -> Iterator[T]:
    """The items, one after the other. The bar disappears when they are done."""
    if len(items) < 2:
        yield from items
        return
    with begin_progress(title) as report:
        for done, item in enumerate(items):
            report(done, len(items))
            yield item


@contextmanager
def begin_progress(title: str, patience: float = 0.0) -> Iterator["ProgressBar"]:
    """For work that reports how much is done, and how much there is, by calling what this yields.

    The bar appears when some work is left and ``patience`` seconds have passed. There is only one bar at a time.
    """
    bar = ProgressBar(title, time.monotonic() + patience)
    try:
        yield bar
    finally:
        bar.hide()


class ProgressBar:
    """A bar that is called with how much is done, and appears if work is left at a time. ``has_begun``: it appeared."""

    _is_one_shown: ClassVar[bool] = False

    def __init__(self, title: str, begins_at: float) -> None:
        self._title = title
        self._begins_at = begins_at
        self._bar: Progress | None = None
        self.has_begun = False

    def __call__(self, done: int, total: int) -> None:
        if self._bar is None and done < total and self._may_begin():
            self._bar = _start(self._title, total)
            ProgressBar._is_one_shown = self.has_begun = True
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=done, total=total)

    def hide(self) -> None:
        """Remove the bar until the next progress."""
        if self._bar is not None:
            self._bar.stop()
            self._bar, ProgressBar._is_one_shown = None, False

    def _may_begin(self) -> bool:
        return not ProgressBar._is_one_shown and time.monotonic() >= self._begins_at and sys.stderr.isatty()


def _start(title: str, total: int) -> "Progress":
    """Show a bar. Results that are printed in the meantime stay above it, and on stdout."""
    from rich.console import Console
    from rich.progress import Progress

    bar = Progress(console=Console(stderr=True), transient=True, redirect_stdout=sys.stdout.isatty())
    bar.add_task(title, total=total)
    bar.start()
    return bar
