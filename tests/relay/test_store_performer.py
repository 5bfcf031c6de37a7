"""A delete is answered when it is done: with its row, and forced to the disk; or refused, and nothing is lost. Titles
and archiving are refused with what failed.
"""

import errno
import os
import sqlite3
import time
from pathlib import Path

import pytest

from acp_proxy.decisions.effects import AnswerStatus, SetArchived, SetTitle
from acp_proxy.errors import Unreadable
from acp_proxy.protocol.jsonrpc import RequestId
from acp_proxy.store.proxy_store import ProxyStore
from tests.relay.relay_conversation import RelayConversation

DELETE = {"sessionId": "s"}
NOT_WRITTEN = "The change cannot be written to the session history (EROFS). Run: acp-proxy doctor"


def begin_talk(store: ProxyStore, fsync: str = "turn") -> RelayConversation:
    """A talk with a session that has had a turn, and is in the index."""
    talk = RelayConversation(store, fsync=fsync)
    talk.open()
    talk.turn("mend it")
    assert listed(talk) == ["s"]
    return talk


def listed(talk: RelayConversation) -> list[str]:
    return [row["sessionId"] for row in talk.ask("session/list", {})["result"]["sessions"]]


def count_rows(store: ProxyStore) -> int:
    """The rows of the index, without a list, which would remove those of deleted sessions."""
    with sqlite3.connect(store.root / "index.sqlite3") as database:
        [count] = database.execute("SELECT count(*) FROM transcripts").fetchone()
    database.close()
    return int(count)


class SlowStore(ProxyStore):
    def remove_from_index(self, agent_folder: str, session_id: str) -> None:
        time.sleep(0.1)  # so that an answer that does not wait for it comes first
        super().remove_from_index(agent_folder, session_id)


def test_a_deleted_sessions_file_and_row_are_gone_when_the_answer_comes(tmp_path: Path) -> None:
    talk = begin_talk(SlowStore(tmp_path / "store"))
    assert (len(list(talk.store.root.glob("transcripts/*/s-*"))), count_rows(talk.store)) == (1, 1)
    assert talk.ask("session/delete", DELETE)["result"] == {}
    assert (list(talk.store.root.glob("transcripts/*/s-*")), count_rows(talk.store)) == ([], 0)
    talk.end()


@pytest.mark.parametrize(("fsync", "forced"), [("turn", True), ("never", False)])
def test_a_delete_is_forced_to_the_disk_before_its_answer_unless_turned_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fsync: str, forced: bool
) -> None:
    store = ProxyStore(tmp_path / "store")
    talk = RelayConversation(store, fsync=fsync)
    talk.open()
    synced: list[int] = []

    def force_slowly(fd: int) -> None:
        time.sleep(0.1)  # so that an answer that does not wait for it comes first
        synced.append(os.fstat(fd).st_ino)

    monkeypatch.setattr(os, "fsync", force_slowly)
    assert talk.ask("session/delete", {"sessionId": "s"})["result"] == {}
    before_the_answer = set(synced)
    talk.end()
    [journal] = store.root.glob("transcripts/*/state.jsonl")
    assert (journal.stat().st_ino in before_the_answer) == forced  # the disk may be slow to take the turn before
    assert (journal.stat().st_ino in synced) == forced


class ReadOnlyStore(ProxyStore):
    def delete(self, agent_folder: str, session_id: str, *, soft: bool) -> None:
        raise OSError(errno.EROFS, "read-only")

    def set_title(self, agent_folder: str, session_id: str, title: str | None, *, by_agent: bool = False) -> None:
        raise OSError(errno.EROFS, "read-only")

    def set_archived(self, agent_folder: str, session_id: str, is_archived: bool, *, by_agent: bool = False) -> None:
        raise OSError(errno.EROFS, "read-only")


def test_a_delete_that_fails_is_refused_with_the_reason_and_the_session_goes_on_after_a_gap(tmp_path: Path) -> None:
    talk = begin_talk(ReadOnlyStore(tmp_path / "store"))
    error = talk.ask("session/delete", DELETE)["error"]
    assert error == {"code": -32603, "message": NOT_WRITTEN}
    assert listed(talk) == ["s"]
    talk.turn("go on")
    talk.end()
    assert talk.transcript_items() == ["opened", "mend it", "gap", "go on"]


@pytest.mark.parametrize(
    "effect", [SetTitle(RequestId("7"), "s", True, "My title"), SetArchived(RequestId("7"), "s", True, True)]
)
def test_a_title_or_archiving_that_cannot_be_stored_is_refused_with_what_failed(
    tmp_path: Path, effect: SetTitle | SetArchived
) -> None:
    talk = begin_talk(ReadOnlyStore(tmp_path / "store"))
    talk.relay.perform(effect)
    assert talk.editor.hear(id=7)["error"] == {"code": -32603, "message": NOT_WRITTEN}
    talk.end()


class UnreadableJournal(ProxyStore):
    def read_deleted(self, agent_folder: str) -> frozenset[str]:
        raise OSError(errno.EIO, "damaged")


def test_a_status_that_cannot_be_read_is_refused_as_unreadable(tmp_path: Path) -> None:
    talk = RelayConversation(UnreadableJournal(tmp_path / "store"))
    talk.relay.perform(AnswerStatus(RequestId("7"), "s", True, False))
    message = talk.editor.hear(id=7)["error"]["message"]
    assert message == "Session history cannot be read (EIO). Run: acp-proxy doctor"
    talk.end()


class StuckIndex(ProxyStore):
    def remove_from_index(self, agent_folder: str, session_id: str) -> None:
        raise Unreadable("EIO")


def test_a_delete_whose_row_cannot_be_removed_is_answered_and_the_session_is_listed_no_more(tmp_path: Path) -> None:
    talk = begin_talk(StuckIndex(tmp_path / "store"))
    assert talk.ask("session/delete", DELETE)["result"] == {}
    assert talk.warnings == ["a deleted session stays in the index until that can be written: EIO"]
    assert listed(talk) == []
    talk.end()


def test_a_delete_under_the_agents_id_deletes_the_session_that_continues_there(tmp_path: Path) -> None:
    talk = begin_talk(ProxyStore(tmp_path / "store"))
    talk.store.add_alias(talk.recorder.find_agent_folder(), "s", "agents")
    assert talk.ask("session/delete", {"sessionId": "agents"})["result"] == {}
    assert (listed(talk), count_rows(talk.store)) == ([], 0)
    talk.end()
