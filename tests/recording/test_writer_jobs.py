"""The writer's jobs, and waiting for them."""

import errno
import math
import os
import threading

import pytest

from acp_proxy.recording.writer_jobs import Wakeup
from tests.recording.recorder_harness import RecorderHarness
from tests.waiting import SECONDS


def _find_no_pipe() -> tuple[int, int]:
    raise OSError(errno.EMFILE, "too many open files")


@pytest.mark.parametrize("has_pipe", [True, False])
def test_a_wakeup_sent_before_the_wait_ends_one_wait_however_often_it_was_sent(
    monkeypatch: pytest.MonkeyPatch, has_pipe: bool
) -> None:
    if not has_pipe:
        monkeypatch.setattr(os, "pipe", _find_no_pipe)
    wakeup = Wakeup()
    for _ in range(100_000):  # more than a pipe holds
        wakeup.send()
    while wakeup.wait(0):
        pass
    wakeup.send()
    assert wakeup.wait(SECONDS)
    assert not wakeup.wait(0)


def test_a_wakeup_for_an_earlier_job_does_not_end_the_wait_for_a_later_one(recording: RecorderHarness) -> None:
    is_asked_again = threading.Event()

    class Late(Wakeup):
        is_first = True

        def wait(self, seconds: float = math.inf) -> bool:
            if self.is_first:
                self.is_first = False
                return True
            is_asked_again.set()
            return super().wait(seconds)

    recording.recorder.jobs.wait(recording.recorder.jobs.submit(lambda: None))
    recording.recorder.jobs._spare_wakeups[:] = [Late()]
    assert recording.recorder.run_on_writer(lambda: is_asked_again.wait(SECONDS))
