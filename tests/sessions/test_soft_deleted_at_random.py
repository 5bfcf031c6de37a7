"""Soft-deleted sessions at random: deletes, restores, removals, kills, and an older version on the same store."""

import gc
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from acp_proxy.sessions import soft_deleted
from acp_proxy.sessions.soft_deleted import DeletedSession
from acp_proxy.store import delete, journal
from acp_proxy.store.index_database import ListedSession
from acp_proxy.transcript.file_names import name_before_delete
from tests.store import transcript_lines
from tests.stored import WholeStore, read_files

AGENT, DAY = "agent", timedelta(days=1)
CHANGING = ("write", "unlink", "rename", "replace", "link", "mkdir")
_SESSIONS = st.sampled_from(["s0", "s1"])
_PICK = st.integers(0, 3)
_KILL = st.none() | st.integers(1, 12)
_DAYS = st.sampled_from([None, 1, 30])
"""None: as versions wrote a delete that did not know how long it can be undone."""


class Killed(BaseException):
    """The process ends before a call that changes a file."""


@contextmanager
def kill_before_call(before: int | None) -> Iterator[None]:
    """The process is killed before the call with this number, counted from 1, that changes a file."""
    left = before or 0

    def killing(call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any, **named: Any) -> Any:
            nonlocal left
            left -= 1
            if left == 0:
                raise Killed
            return call(*args, **named)

        return counted

    with pytest.MonkeyPatch.context() as patches:
        for name in CHANGING:
            patches.setattr(os, name, killing(getattr(os, name)))
        with suppress(Killed):
            yield


class SoftDeletes(RuleBasedStateMachine):
    """``live``: the words of each transcript in a list. ``restore_until``: those that can be restored, and until when.
    ``gone``: the words that must be nowhere."""

    def __init__(self) -> None:
        super().__init__()
        self.now = datetime(2026, 1, 1, tzinfo=UTC)
        self.patches = ExitStack()
        self.patches.enter_context(patch.object(journal, "stamp_now", self._stamp))
        self.patches.enter_context(patch.object(os, "fsync", lambda fd: None))  # nothing here loses its power
        self.root = Path(tempfile.mkdtemp())
        self.store = WholeStore(self.root)
        self.live, self.gone = set[str](), set[str]()
        self.restore_until: dict[str, datetime | None] = {}
        self.count = 0

    def teardown(self) -> None:
        self.patches.close()
        del self.store
        gc.collect()  # closes its index: Windows removes no open file
        shutil.rmtree(self.root)

    def _stamp(self) -> str:
        self.now += timedelta(milliseconds=1)
        return f"{self.now:%Y-%m-%dT%H:%M:%S}.{self.now.microsecond // 1000:03}Z"

    def _store(self, days: int | None = None) -> WholeStore:
        """The store, as a process with this setting has it."""
        self.store.layout.bin_days = days
        return self.store

    def _reopen(self, kill: int | None) -> None:
        """After a kill, another process goes on."""
        if kill is not None:
            self.store = WholeStore(self.root)

    def _words_on_disk(self) -> set[str]:
        data = b"".join(
            data for path, data in read_files(self.root) if "transcripts" in path.parts or "deleted" in path.parts
        )
        return {words for words in self.live | self.restore_until.keys() | self.gone if words.encode() in data}

    def _listed(self) -> set[str]:
        return {row.title or "" for row in self._store().list_all()}

    def _restorable(self) -> dict[str, DeletedSession]:
        store = self._store()
        return {store.summarize_deleted(deleted).title or "": deleted for deleted in store.list_deleted()}

    @rule(session=_SESSIONS)
    def begin(self, session: str) -> None:
        """A session begins, or an agent gives its id again."""
        self.count += 1
        words = f"words {self.count:04}"
        store = self._store()
        delete.lift_delete(store.layout, AGENT, session)
        transcript_lines.store_lines(
            store,
            AGENT,
            session,
            transcript_lines.prompt_line(words, session=session) + transcript_lines.answer(),
            at=self.count,
        )
        self.live.add(words)

    def _choose(self, pick: int) -> ListedSession:
        if not self.live:
            self.begin("s0")
        rows = self.store.list_all()
        return rows[pick % len(rows)]

    @rule(pick=_PICK, days=_DAYS, kill=_KILL)
    def delete_softly(self, pick: int, days: int | None, kill: int | None) -> None:
        row, store = self._choose(pick), self._store(days)
        words, at = row.title or "", self.now
        with kill_before_call(kill):
            store.delete_listed(row, soft=True)
        self._reopen(kill)
        if words in self._listed():
            assert kill
            return
        self.live.remove(words)
        self.restore_until[words] = at + days * DAY if days is not None else None

    @rule(pick=_PICK, kill=_KILL)
    def delete_soft_deleted(self, pick: int, kill: int | None) -> None:
        row, store = self._choose(pick), self._store(30)
        words = row.title or ""
        beside = {words for words, each in self._restorable().items() if name_before_delete(each.name) == row.name}
        with kill_before_call(kill):
            store.delete_listed(row, soft=False)
        self._reopen(kill)
        if words in self._listed():
            assert kill
            return
        self.live.remove(words)
        self.gone |= {words, *beside}
        self.restore_until = {words: until for words, until in self.restore_until.items() if words not in beside}

    @rule(pick=_PICK, kill=_KILL)
    def restore(self, pick: int, kill: int | None) -> None:
        if found := list(self._restorable().items()):
            words, each = found[pick % len(found)]
            with kill_before_call(kill):
                soft_deleted.restore(self._store().layout, each)
            self._reopen(kill)
            if words in self._restorable():
                assert kill
                return
            del self.restore_until[words]
            self.live.add(words)

    @rule(kill=_KILL)
    def remove_expired(self, kill: int | None) -> None:
        with kill_before_call(kill):
            self._store().remove_expired()
        self._reopen(kill)
        if kill is None:
            over = {words for words, until in self.restore_until.items() if until is not None and until < self.now}
            self.gone |= over
            self.restore_until = {words: until for words, until in self.restore_until.items() if words not in over}

    @rule(hours=st.sampled_from([1, 23, 25, 24 * 29, 24 * 31]))
    def wait(self, hours: int) -> None:
        self.now += timedelta(hours=hours)

    @invariant()
    def nothing_comes_back_and_nothing_is_removed_early(self) -> None:
        assert self._listed() == self.live
        assert self._restorable().keys() == {
            words for words, until in self.restore_until.items() if until is None or until > self.now
        }
        on_disk = self._words_on_disk()
        assert not on_disk & self.gone
        everywhere = b"".join(data for _, data in read_files(self.root))
        assert not [words for words in self.gone if words.encode() in everywhere]  # nor in the index and search tables
        assert on_disk >= self.live | {
            w for w, until in self.restore_until.items() if until is None or until > self.now
        }


@pytest.mark.filterwarnings("ignore:It looks like `register_random`")
def test_nothing_comes_back_that_was_removed_and_nothing_is_removed_early() -> None:
    run_state_machine_as_test(
        SoftDeletes,
        settings=settings(
            max_examples=25,
            derandomize=True,
            stateful_step_count=25,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow],
        ),
    )
