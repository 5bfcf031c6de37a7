"""Which session a word means, how to delete one, and that no output can control the terminal."""

import re
import sqlite3
from typing import Any

import pytest
from typer.testing import CliRunner

from acp_proxy.cli.app import app
from acp_proxy.store.store import Store
from tests.cli.commands import ids, printed, run
from tests.cli.terminal import on_terminal
from tests.stored import EPOCH, chunk, contents, running, store_session

ESC, BEL, CSI, RIGHT_TO_LEFT = "\x1b", "\x07", "\u009b", "\u202e"
STEERING = f"{ESC}[2J{BEL}{CSI}31m{RIGHT_TO_LEFT}\r\x00\u2066\u200b\u2028\u061c\x9d\x85\x7f"
NEVER_PRINTED = set(STEERING) - set("[2J31m")
COLOUR = re.compile("\x1b\\[[0-9;]*m")


def three_sessions(store: Store) -> None:
    store_session(store, "abc-1", ("first", []), at=EPOCH)
    store_session(store, "abc-12", ("second", []), at=EPOCH + 60)
    store_session(store, "b", ("third", []), at=EPOCH + 30)


@pytest.mark.parametrize(("wanted", "title"), [("abc-1", "first"), ("abc-12", "second"), ("b", "third")])
def test_a_complete_id_wins_over_a_longer_one(store: Store, wanted: str, title: str) -> None:
    three_sessions(store)
    assert printed(store, "show", wanted).startswith(title)


@pytest.mark.parametrize("words", [("show", ""), ("export", ""), ("delete", "", "--yes"), ("redact", "", "--yes")])
def test_an_empty_word_matches_no_session(store: Store, words: tuple[str, ...]) -> None:
    store_session(store, "abc-1", ("first", []))
    result = run(store, *words)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "no session matches ''" in result.stderr
    assert ids(store) == ["abc-1"]


def test_a_session_is_named_by_the_beginning_of_its_id_or_as_the_last(store: Store) -> None:
    three_sessions(store)
    store_session(store, "xyz", ("fourth", []), at=EPOCH + 10)
    assert printed(store, "show", "x").startswith("fourth")
    assert printed(store, "show", "last").startswith("second")


@pytest.mark.parametrize("command", ["show", "delete"])
def test_an_unknown_session_is_an_error(store: Store, command: str) -> None:
    three_sessions(store)
    for wanted in ("nobody", "abc-123"):
        result = run(store, command, wanted)
        assert (result.exit_code, result.stdout) == (1, "")
        assert wanted in result.stderr
    assert ids(store) == ["abc-12", "b", "abc-1"]


@pytest.mark.parametrize("command", ["show", "delete"])
def test_an_ambiguous_session_is_an_error_that_lists_the_candidates(store: Store, command: str) -> None:
    three_sessions(store)
    result = run(store, command, "abc")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.splitlines() == [
        "acp-proxy: 'abc' matches several sessions:",
        "  abc-12  agent  second",
        "  abc-1   agent  first",
        "Give more of the id, or use --agent.",
    ]
    assert len(ids(store)) == 3


def test_an_id_of_two_agents_needs_the_agent(store: Store) -> None:
    store_session(store, "s", ("first", []), agent="one")
    store_session(store, "s", ("second", []), agent="other")
    assert run(store, "show", "s").exit_code == 1
    assert printed(store, "show", "s", "--agent", "one").startswith("first")
    assert printed(store, "show", "s", "--agent", "other").startswith("second")


def test_a_session_without_a_transcript_is_unknown(store: Store) -> None:
    path = store_session(store, "s", ("Mend it", []))
    assert ids(store) == ["s"]
    path.unlink()
    result = run(store, "show", "s")
    assert (result.exit_code, "no session matches 's'" in result.stderr) == (1, True)
    assert ids(store) == []


# Deletes.


def test_delete_asks_and_needs_a_yes(store: Store) -> None:
    path = store_session(store, "s", ("Mend it", []))
    for answer in ("n\n", "\n", ""):
        result = run(store, "delete", "s", answer=answer)
        assert result.exit_code == 1
        assert "Mend it" in result.stderr
        assert path.exists()
    assert run(store, "delete", "s", answer="y\n").exit_code == 0
    assert not path.exists()


def test_a_mistyped_answer_is_explained_and_asked_again(store: Store) -> None:
    path = store_session(store, "s", ("Mend it", []))
    result = run(store, "delete", "s", answer="what\nno\n")
    assert (result.exit_code, path.exists()) == (1, True)
    assert "Type y for yes, or n for no. Enter alone means no.\n" in result.stderr
    assert result.stderr.count("[y/N]") == 2
    assert run(store, "delete", "s", answer="yess\n YES \n").exit_code == 0
    assert not path.exists()


def test_a_deleted_session_is_not_listed_and_known_as_deleted(store: Store) -> None:
    path = store_session(store, "s", ("Mend it", []))
    kept = store_session(store, "kept", ("Keep it", []))
    assert ids(store) == ["s", "kept"] or ids(store) == ["kept", "s"]
    printed(store, "delete", "s", "--permanent", "--yes")
    assert ids(store) == ["kept"]
    assert store.read_deleted(path.parent.name) == {"s"}
    assert (path.exists(), kept.exists()) == (False, True)
    assert run(store, "delete", "s", "--yes").exit_code == 1
    secret = b"Mend it"
    assert not any(secret in data for _, data in contents(store.root))


def test_sessions_of_one_id_are_deleted_one_by_one(store: Store) -> None:
    first = store_session(store, "s", ("first", []), at=EPOCH)
    store_session(store, "s", ("second", []), at=EPOCH + 60)
    assert len(list(first.parent.glob("s-*.jsonl"))) == 2
    assert "second" in printed(store, "delete", "s", "--yes")
    assert printed(store, "show", "s~1").startswith("first")
    assert "first" in printed(store, "delete", "s~1", "--yes")
    assert ids(store) == []
    assert list(first.parent.glob("s-*.jsonl")) == []


def test_delete_with_yes_refuses_a_running_session_without_force(store: Store) -> None:
    other = store_session(store, "other", ("Mend it", []))
    with running(store, "s", "Break it") as path:
        result = run(store, "delete", "other", "s", "--yes")
        assert (result.exit_code, result.stdout) == (1, "")
        assert result.stderr.splitlines() == [
            "acp-proxy: the turn of a session is running, so nothing was deleted:",
            "  s  agent  Break it (running)",
            "Wait until the turn ends, or add --force.",
        ]
        assert path.exists()
        assert other.exists()
        printed(store, "delete", "other", "--yes")
        printed(store, "delete", "s", "--yes", "--force")
        assert not path.exists()


def test_the_question_says_that_a_session_is_running(store: Store) -> None:
    with running(store, "s", "Break it") as path:
        for words in (("delete", "s"), ("delete", "s", "--force")):
            result = run(store, *words, answer="n\n")
            assert result.exit_code == 1
            assert "Its turn is running. The rest of it will not be recorded." in result.stderr
            assert path.exists()
        assert run(store, "delete", "s", answer="y\n").exit_code == 0
        assert not path.exists()


# Hostile text.


def spoiled(store: Store) -> None:
    """A session with control sequences in every text that is shown."""
    words = f"Mend{STEERING}it"
    updates: list[dict[str, Any]] = [
        chunk(words),
        chunk(words, "agent_thought_chunk"),
        {"sessionUpdate": "plan", "entries": [{"content": words, "status": words}]},
        {"sessionUpdate": "tool_call", "toolCallId": words, "title": words, "status": words},
        {"sessionUpdate": "agent_message_chunk", "content": {"type": words}},
        {"sessionUpdate": "agent_message_chunk", "content": {"type": "resource_link", "name": words, "uri": words}},
        {"sessionUpdate": "session_info_update", "title": words},
    ]
    for number in range(2):
        store_session(
            store,
            f"id{number}{STEERING}",
            (words, updates),
            agent=words,
            cwd=f"/{words}",
            at=EPOCH + number,
            error={"code": 1, "message": words},
            notes=[{"type": "gap", "reason": words}, {"type": "failed", "message": words}],
        )


@pytest.mark.parametrize(
    "words",
    [
        ("list",),
        ("list", "--json"),
        ("show", "last"),
        ("show", "last", "--json"),
        ("show", "id"),
        ("show", f"nobody{STEERING}"),
        ("delete", "last", "--yes"),
        ("delete", "last", "--soft", "--yes"),
        ("delete", "id"),
        ("rename", "last", "--clear"),
        ("rename", "last", f"Mend{STEERING}it"),
        ("restore", f"nobody{STEERING}"),
        ("prune", "--keep", "0", "--dry-run"),
        ("prune", "--keep", "0", "--dry-run", "--json"),
        ("prune", "--keep", "0", "--yes"),
        ("stats",),
        ("stats", "--json"),
    ],
)
def test_control_sequences_are_not_printed(store: Store, words: tuple[str, ...]) -> None:
    spoiled(store)
    result = run(store, *words)
    text = result.stdout + result.stderr
    assert text
    assert not NEVER_PRINTED & set(text)
    assert "Mend" in text or words[0] == "stats" or "--yes" in words or result.exit_code == 1


def test_control_sequences_of_deleted_sessions_are_not_printed(store: Store) -> None:
    spoiled(store)
    printed(store, "rename", "last", f"Mend{STEERING}it")
    assert "Mend" in printed(store, "delete", "last", "--soft", "--yes")
    listed, told = printed(store, "restore"), printed(store, "restore", "--json")
    asked = run(store, "delete", "id1", "--permanent", answer="n\n")
    restored = run(store, "restore", "last").stderr
    for text in (listed, told, asked.stderr, restored):
        assert "Mend" in text
        assert not NEVER_PRINTED & set(text)


def test_removed_characters_leave_a_visible_mark(store: Store) -> None:
    spoiled(store)
    assert "\ufffd[2J\ufffd\ufffd31m\ufffd" in printed(store, "show", "last")


@pytest.mark.parametrize("term", ["dumb", "xterm-256color"])
@pytest.mark.parametrize("columns", [40, 200])
@pytest.mark.parametrize("words", [("list",), ("show", "last"), ("delete", "last", "--yes"), ("show", "id")])
def test_control_sequences_are_not_printed_to_a_real_terminal(
    store: Store, words: tuple[str, ...], columns: int, term: str
) -> None:
    spoiled(store)
    text = on_terminal(
        "sessions",
        *words,
        "--store",
        str(store.root),
        columns=columns,
        status=1 if words == ("show", "id") else 0,
        settings={"TERM": term},
    )
    assert "Mend" in text or "matches several sessions" in text
    assert not NEVER_PRINTED & set(text if term == "dumb" else COLOUR.sub("", text))


def test_a_delete_with_a_locked_index_says_that_the_next_list_updates_it(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("acp_proxy.store.index._BUSY_MS", 50)
    store_session(store, "s", ("Mend it", []))
    assert ids(store) == ["s"]
    other = sqlite3.connect(store.root / "index.sqlite3", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    result = run(store, "delete", "s", "--yes")
    assert (result.exit_code, "Deleted." in result.stdout, "next list" in result.stderr) == (0, True, True)
    other.execute("ROLLBACK")
    other.close()
    assert ids(store) == []


# An unusable store.


@pytest.mark.parametrize(
    "words",
    [("list", "--no-such"), ("show",), ("delete",), ("no-such",), ("stats", "extra")],
)
def test_wrong_usage_exits_with_2(store: Store, words: tuple[str, ...]) -> None:
    result = CliRunner().invoke(app, ["sessions", *words])
    assert result.exit_code == 2
    assert result.stdout == ""
