"""Jobs are done in order on a thread of their own, which no job can end."""

import threading
import time

from acp_proxy.relay.worker import DELAY_SECONDS, Worker
from tests.waiting import SECONDS


def test_jobs_are_done_in_order_on_one_thread_that_is_not_the_callers() -> None:
    done: list[tuple[int, str]] = []
    worker = Worker(lambda text: None)
    for number in range(3):
        worker.put(lambda number=number: done.append((number, threading.current_thread().name)))  # type: ignore[misc]
    worker.start()
    worker.finish(SECONDS)
    names = {name for _, name in done}
    assert [number for number, _ in done] == [0, 1, 2]
    assert len(names) == 1
    assert threading.current_thread().name not in names


def test_a_job_that_was_put_off_is_done_later_and_before_the_end() -> None:
    done: list[str] = []
    worker = Worker(lambda text: None)
    worker.put_delayed(lambda: done.append("put off"))
    worker.put(lambda: done.append("put"))
    worker.start()
    worker.finish(SECONDS)
    assert done == ["put", "put off"]


def test_a_job_that_was_put_off_does_not_wait_for_another() -> None:
    done = threading.Event()
    worker = Worker(lambda text: None)
    worker.start()
    worker.put_delayed(done.set)
    assert done.wait(SECONDS)
    worker.finish(SECONDS)


def test_a_job_that_is_due_is_done_before_what_was_queued_since() -> None:
    done: list[str] = []
    over = threading.Event()
    worker = Worker(lambda text: None)
    worker.put_delayed(lambda: done.append("put off"))
    worker.put(lambda: time.sleep(2 * DELAY_SECONDS))
    worker.put(lambda: done.append("put"))
    worker.put(over.set)
    worker.start()
    assert over.wait(SECONDS)
    worker.finish(SECONDS)
    assert done == ["put off", "put"]


def test_a_failed_job_is_reported_and_the_next_one_is_done() -> None:
    def fail() -> None:
        raise ValueError

    complaints: list[str] = []
    done = threading.Event()
    worker = Worker(complaints.append)
    worker.put(fail)
    worker.put(done.set)
    worker.start()
    assert done.wait(SECONDS)
    worker.finish(SECONDS)
    [complaint] = complaints
    assert "ValueError" in complaint


def test_the_end_does_not_wait_for_a_hanging_job() -> None:
    begun, release, dropped = threading.Event(), threading.Event(), threading.Event()

    def hang() -> None:
        begun.set()
        release.wait(SECONDS)

    worker = Worker(lambda text: None)
    worker.start()
    worker.put(hang)
    worker.put(dropped.set)
    assert begun.wait(SECONDS)
    worker.finish(0.01)
    assert not dropped.is_set()
    release.set()
    assert dropped.wait(SECONDS)


def test_a_worker_that_was_never_started_finishes_at_once() -> None:
    Worker(lambda text: None).finish(SECONDS)
