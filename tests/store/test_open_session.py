"""A fork begins with a copy of its parent's entries; from then on both are independent."""

import pytest

from acp_proxy.store.proxy_store import ProxyStore
from acp_proxy.transcript import file_format
from tests.store import transcript_lines
from tests.store.session_forks import fork, is_complete, read_header, read_prompts
from tests.store.transcript_lines import answer, prompt
from tests.store.writing import AGENT


def test_a_fork_has_the_parents_entries_and_its_own_header(store: ProxyStore) -> None:
    transcript_lines.store_lines(store, AGENT, "p", prompt("one", session="p"), answer())
    fork(store, "p", "f", prompt("two", session="f"), answer())
    assert read_prompts(store, "f") == ["one", "two"]
    assert read_prompts(store, "p") == ["one"]
    found = read_header(store, "f")
    assert (found.session_id, found.cwd, found.created_at) == ("f", "/elsewhere", transcript_lines.time(1))
    assert (found.origin, found.forked_from) == (file_format.RECORDED, ["p"])


def test_a_fork_and_its_parent_continue_separately(store: ProxyStore) -> None:
    transcript_lines.store_lines(store, AGENT, "p", prompt("one", session="p"), answer())
    fork(store, "p", "f", prompt("two", session="f"), answer())
    transcript_lines.store_lines(store, AGENT, "p", prompt("three", session="p"), answer(), fresh=False)
    assert (read_prompts(store, "p"), read_prompts(store, "f")) == (["one", "three"], ["one", "two"])


@pytest.mark.parametrize(("gone", "left"), [("p", "f"), ("f", "p")])
def test_deleting_a_fork_or_its_parent_keeps_the_other(store: ProxyStore, gone: str, left: str) -> None:
    transcript_lines.store_lines(store, AGENT, "p", prompt("one", session="p"), answer())
    fork(store, "p", "f")
    store.delete(AGENT, gone, soft=False)
    assert read_prompts(store, left) == ["one"]
    with pytest.raises(FileNotFoundError):
        store.read(AGENT, gone)
    assert [row.session_id for row in store.list_page(AGENT, None, None, "").rows] == [left]


def test_a_fork_of_a_fork_names_all_its_parents(store: ProxyStore) -> None:
    transcript_lines.store_lines(store, AGENT, "p", prompt("one", session="p"), answer())
    fork(store, "p", "f", prompt("two", session="f"), answer())
    fork(store, "f", "g", prompt("three", session="g"), answer())
    assert read_prompts(store, "g") == ["one", "two", "three"]
    assert read_header(store, "g").forked_from == ["f", "p"]
    assert is_complete(store, "g")


@pytest.mark.parametrize("origin", [file_format.RECORDED, file_format.IMPORTED, file_format.PARTIAL])
def test_a_fork_is_as_complete_as_its_parent(store: ProxyStore, origin: str) -> None:
    transcript = store.open_to_append(AGENT, transcript_lines.header("p", origin=origin), is_new=False)
    transcript.append(prompt("one", session="p") + answer())
    transcript.close()
    fork(store, "p", "f")
    assert read_header(store, "f").origin == origin
    assert is_complete(store, "f") is (origin == file_format.RECORDED)


def test_a_fork_of_a_parent_with_a_gap_is_incomplete(store: ProxyStore) -> None:
    transcript_lines.store_lines(
        store, AGENT, "p", prompt("one", session="p"), transcript_lines.note("gap", since="x", reason="ENOSPC")
    )
    fork(store, "p", "f")
    assert not is_complete(store, "f")


def test_a_fork_of_an_unknown_parent_is_partial(store: ProxyStore) -> None:
    fork(store, "unknown", "f", prompt("two", session="f"), answer())
    found = read_header(store, "f")
    assert (found.origin, found.forked_from, read_prompts(store, "f")) == (file_format.PARTIAL, [], ["two"])


def test_a_fork_revives_a_deleted_id(store: ProxyStore) -> None:
    transcript_lines.store_lines(store, AGENT, "p", prompt("one", session="p"), answer())
    transcript_lines.store_lines(store, AGENT, "f", prompt("old", session="f"), answer())
    store.delete(AGENT, "f", soft=False)
    fork(store, "p", "f")
    assert "f" not in store.read_deleted(AGENT)
    assert read_prompts(store, "f") == ["one"]


def test_a_fork_with_a_used_id_supersedes_the_older_session(store: ProxyStore) -> None:
    transcript_lines.store_lines(store, AGENT, "p", prompt("one", session="p"), answer())
    transcript_lines.store_lines(store, AGENT, "f", prompt("old", session="f"), answer())
    fork(store, "p", "f")
    assert read_prompts(store, "f") == ["one"]
    assert len(list(store.root.glob("transcripts/*/*-*.jsonl"))) == 3
