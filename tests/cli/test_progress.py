"""Long work shows a progress bar on a terminal."""

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from acp_proxy.cli.progress import PATIENCE_SECONDS, begin_progress, show_progress
from tests.posix import pty


@contextmanager
def looked_at(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """With a terminal as stderr. The list gets what the terminal showed."""
    ours, theirs = pty.openpty()
    shown: list[str] = []
    try:
        with os.fdopen(theirs, "w") as written, monkeypatch.context() as patch:
            patch.setattr(sys, "stderr", written)
            patch.setenv("TERM", "xterm-256color")
            yield shown
        if data := read_to_its_end(ours):
            shown.append(data.decode())
    finally:
        os.close(ours)


def read_to_its_end(terminal: int) -> bytes:
    """What a closed terminal showed; the system may deliver it late and in parts."""
    data = b""
    with contextlib.suppress(OSError):  # the end, on Linux
        while part := os.read(terminal, 65536):
            data += part
    return data


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Let so many seconds pass."""
    now = 0.0

    def later(seconds: float) -> None:
        nonlocal now
        now += seconds

    monkeypatch.setattr("acp_proxy.cli.progress.time.monotonic", lambda: now)
    return later


def test_short_work_shows_no_bar(monkeypatch: pytest.MonkeyPatch, passes: Callable[[float], None]) -> None:
    with looked_at(monkeypatch) as shown, begin_progress("Counting", PATIENCE_SECONDS) as tell:
        for done in range(10):
            tell(done, 10)
            passes(PATIENCE_SECONDS / 20)
    assert shown == []


def test_long_work_shows_a_bar_that_disappears(
    monkeypatch: pytest.MonkeyPatch, passes: Callable[[float], None]
) -> None:
    with looked_at(monkeypatch) as shown, begin_progress("Counting", PATIENCE_SECONDS) as tell:
        tell(0, 10)
        passes(2 * PATIENCE_SECONDS)
        tell(5, 10)
    assert "Counting" in shown[0]
    assert "50%" in shown[0]
    assert shown[0].endswith("\x1b[2K")  # the bar was cleared


def test_finished_work_shows_no_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    with looked_at(monkeypatch) as shown:
        with begin_progress("Counting") as tell:
            tell(0, 0)
            tell(3, 3)
        assert list(show_progress([1], "Counting")) == [1]
    assert shown == []


def test_there_is_only_one_bar_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    with looked_at(monkeypatch) as shown:
        for item in show_progress([1, 2], "Outer"):
            with begin_progress(f"Inner {item}") as tell:
                tell(0, 2)
        with begin_progress("Later") as tell:
            tell(0, 2)
    assert "Outer" in shown[0]
    assert "Inner" not in shown[0]
    assert "Later" in shown[0]
