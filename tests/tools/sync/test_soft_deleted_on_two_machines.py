"""Soft-deleted sessions on two machines, at random: what was removed comes back on none, and nothing leaves early."""

import gc
import os
import shutil
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from acp_proxy.tools.sync.encryption import HistoryKey
from tests.stored import store_session
from tests.tools.sync.homes import Home

DAYS, BURY_DAYS, DAY = 30, 60, 24 * 60 * 60
_HOME = st.integers(0, 1)
_PICK = st.integers(0, 3)


class TwoBins(RuleBasedStateMachine):
    """``begun``: the words of all sessions. ``touched``: those that were deleted in any way. ``final``: those that were
    deleted permanently. ``kept``: the time until which what was deleted softly can be restored. ``buried``: the time
    from which it may be gone everywhere, also on a machine that has heard of the first soft delete only then."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp())
        self.patches = pytest.MonkeyPatch()
        self.now = time.time()
        self.patches.setattr(time, "time", self._tick)
        self.patches.setattr(os, "fsync", lambda fd: None)  # nothing here loses its power
        url = (self.root / "shared").as_uri()
        (self.root / "shared").mkdir()
        key = HistoryKey.create()
        self.homes = [Home(self.root / name, url, key, name) for name in ("one", "two")]
        for home in self.homes:
            home.store.layout.bin_days = DAYS
        self.begun, self.touched, self.final = set[str](), set[str](), set[str]()
        self.kept: dict[str, float] = {}
        self.buried: dict[str, float] = {}
        for number in (0, 1):
            self.begin(number)
        self.meet()

    def _tick(self) -> float:
        self.now += 0.01
        return self.now

    @rule(number=_HOME)
    def begin(self, number: int) -> None:
        words = f"words {len(self.begun):03}"
        store_session(self.homes[number].store, words.replace(" ", "-"), (words, []))
        self.begun.add(words)

    def _delete(self, number: int, pick: int, *, soft: bool) -> str | None:
        store = self.homes[number].store
        rows = store.list_all()
        if not rows:
            return None
        row = rows[pick % len(rows)]
        store.delete_listed(row, soft=soft)
        self.touched.add(row.title or "")
        return row.title

    @rule(number=_HOME, pick=_PICK)
    def delete_softly(self, number: int, pick: int) -> None:
        if words := self._delete(number, pick, soft=True):
            buried = self.buried.setdefault(words, self.now + BURY_DAYS * DAY)
            self.kept[words] = min(self.now + DAYS * DAY, buried)

    @rule(number=_HOME, pick=_PICK)
    def delete_soft_deleted(self, number: int, pick: int) -> None:
        if words := self._delete(number, pick, soft=False):
            self.final.add(words)

    @rule(number=_HOME, pick=_PICK)
    def restore(self, number: int, pick: int) -> None:
        store = self.homes[number].store
        if kept := store.list_deleted():
            store.restore(kept[pick % len(kept)])

    @rule(number=_HOME)
    def sync(self, number: int) -> None:
        self.homes[number].sync()

    @rule()
    def meet(self) -> None:
        self._sync(2)

    def _sync(self, rounds: int) -> None:
        for home in self.homes * rounds:
            home.sync()

    @rule(number=_HOME, days=st.sampled_from([1, 29, 31]))
    def let_time_pass(self, number: int, days: int) -> None:
        self.now += days * DAY
        self.homes[number].store.remove_expired()

    def teardown(self) -> None:
        try:
            self._sync(3)
            self._check()
        finally:
            self.patches.undo()
            del self.homes
            gc.collect()  # closes their indexes: Windows removes no open file
            shutil.rmtree(self.root)

    def _check(self) -> None:
        one, two = (set(home.prompts()) for home in self.homes)
        bins = [{home.store.summarize_deleted(kept).title for kept in home.store.list_deleted()} for home in self.homes]
        assert one == two
        assert one >= self.begun - self.touched
        assert not self.final & (one | bins[0] | bins[1])
        early = {words for words, until in self.kept.items() if until > self.now + 1} - self.final
        assert early <= one | bins[0] | bins[1]


def test_what_was_removed_comes_back_on_no_machine_and_nothing_is_removed_early() -> None:
    checks = [HealthCheck.too_slow, HealthCheck.filter_too_much]
    run_state_machine_as_test(
        TwoBins, settings=settings(max_examples=20, stateful_step_count=20, deadline=None, suppress_health_check=checks)
    )
