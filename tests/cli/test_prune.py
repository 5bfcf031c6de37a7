"""``prune`` shows what it would delete, asks, and skips sessions in use."""

import re
import time
from pathlib import Path

import pytest

from acp_proxy.store.proxy_store import ProxyStore
from acp_proxy.transcript.appender import TranscriptAppender
from tests.cli.commands import get_error, get_json, get_stdout, list_titles, run
from tests.cli.terminal import run_on_terminal
from tests.stored import chunk, find_files_with, store_session

DAY = 24 * 60 * 60


@pytest.fixture
def store(tmp_path: Path) -> ProxyStore:
    store = ProxyStore(tmp_path / "store")
    for days in (1, 10, 100):
        store_session(store, f"s{days}", (f"{days} days", [chunk("x" * 1000)]), at=time.time() - days * DAY)
    store_session(store, "other", ("200 days", []), agent="other", at=time.time() - 200 * DAY)
    return store


def test_a_dry_run_lists_everything_and_changes_nothing(store: ProxyStore) -> None:
    result = run(store, "prune", "--older-than", "90d", "--dry-run")
    assert [line.split("\t")[:2] for line in result.stdout.splitlines()] == [
        ["s100", "100 days"],
        ["other", "200 days"],
    ]
    assert re.fullmatch(r"2 sessions, \S+ k?B would be deleted\.\n", result.stderr)
    options = ("--older-than", "90d", "--dry-run", "--store", str(store.root))
    heading, *shown, total = run_on_terminal("prune", *options).splitlines()
    assert heading.split() == ["ID", "TITLE", "AGENT", "DIRECTORY", "WHEN", "TURNS", "SIZE"]
    assert [re.split("  +", line)[:4] for line in shown] == [
        ["s100", "100 days", "agent", "/project"],
        ["other", "200 days", "other", "/project"],
    ]
    assert all(line.endswith((" kB", " B")) for line in shown)
    assert f"{total}\n" == result.stderr
    assert len(list_titles(store)) == 4


def test_a_program_gets_all_of_a_session_in_columns_between_tabs(store: ProxyStore) -> None:
    [session, *_] = get_json(store, "prune", "--keep", "2", "--dry-run")["sessions"]
    [line, *_] = get_stdout(store, "prune", "--keep", "2", "--dry-run").splitlines()
    assert line.split("\t") == ["s100", "100 days", session["agent"], session["updatedAt"], str(session["bytes"])]
    store_session(store, "s100", ("another", []), at=time.time() - 99 * DAY)
    get_stdout(store, "prune", "--keep", "2", "--soft", "--yes")
    ids = [line.split("\t")[0] for line in get_stdout(store, "prune", "--deleted", "--dry-run").splitlines()]
    assert len(set(ids)) == 3
    assert set(ids) == {line.split("\t")[0] for line in get_stdout(store, "restore").splitlines()}


def test_it_asks_and_deletes_permanently(store: ProxyStore) -> None:
    assert run(store, "prune", "--keep", "2", answer="n\n").exit_code == 1
    assert len(list_titles(store)) == 4
    result = run(store, "prune", "--keep", "2", answer="y\n")
    assert result.exit_code == 0
    assert "Delete these 2 sessions" in result.stderr
    assert "permanently?" in result.stderr
    assert list_titles(store) == ["1 days", "10 days"]
    assert find_files_with(store, "100 days") == []
    assert get_json(store, "restore") == []


def test_the_question_is_about_sessions_that_are_all_shown(tmp_path: Path) -> None:
    store = ProxyStore(tmp_path / "many")
    for number in range(25):
        store_session(store, f"s{number}", (f"title {number}.", []))
    stderr = run(store, "prune", "--keep", "0", answer="n\n").stderr
    assert "Delete these 25 sessions" in stderr
    assert [number for number in range(25) if f"title {number}." not in stderr] == []


def test_what_is_deleted_without_a_question_is_named(store: ProxyStore) -> None:
    result = run(store, "prune", "--keep", "3", "--yes")
    assert re.search(r"\nother +200 days +other +/project ", result.stderr)
    assert re.fullmatch(r"1 session, \S+ k?B deleted\.\n", result.stdout)


def test_every_limit_applies(store: ProxyStore) -> None:
    size = sum(path.stat().st_size for path in store.root.glob("transcripts/*/s1-*.jsonl"))
    limits = ["--older-than", "150d", "--keep", "3", "--max-size", f"{size + 1}"]
    assert [row["sessionId"] for row in get_json(store, "prune", *limits, "--dry-run")["sessions"]] == [
        "s10",
        "s100",
        "other",
    ]
    assert get_json(store, "prune", *limits[:4], "--dry-run")["sessions"][0]["sessionId"] == "other"
    assert get_json(store, "prune", "--max-size", "5GB", "--dry-run")["sessions"] == []
    assert "is not synchronized" in run(store, "prune", "--keep", "9", "--everywhere").stderr


def test_limits_may_apply_to_one_agent(store: ProxyStore) -> None:
    deleted = get_stdout(store, "prune", "--keep", "1", "--agent", "agent", "--yes")
    assert (deleted.startswith("2 sessions, "), deleted.endswith(" deleted.\n")) == (True, True)
    assert list_titles(store) == ["1 days", "200 days"]


def test_softly_pruned_sessions_can_be_restored_or_pruned_permanently(store: ProxyStore) -> None:
    get_stdout(store, "prune", "--keep", "2", "--soft", "--yes")
    assert list_titles(store) == ["1 days", "10 days"]
    assert len(get_json(store, "restore")) == 2
    assert get_json(store, "prune", "--deleted", "--older-than", "1d", "--dry-run")["sessions"] == []
    get_stdout(store, "restore", "s100")
    result = get_json(store, "prune", "--deleted", "--keep", "0", "--yes")
    [one] = result["sessions"]
    assert (one["sessionId"], one["updatedAt"], result["dryRun"]) == ("other", None, False)
    assert one["deletedAt"] is not None
    assert get_json(store, "restore") == []
    assert len(list_titles(store)) == 3


def test_deleted_without_a_limit_deletes_all_soft_deleted_sessions(store: ProxyStore) -> None:
    get_stdout(store, "prune", "--keep", "2", "--soft", "--yes")
    result = run(store, "prune", "--deleted", answer="n\n")
    assert (result.exit_code, len(get_json(store, "restore"))) == (1, 2)
    assert "Delete these 2 sessions" in result.stderr
    assert re.search(r"\ns100 +100 days +agent +/project ", result.stderr)
    get_stdout(store, "prune", "--deleted", "--yes")
    assert (get_json(store, "restore"), list_titles(store)) == ([], ["1 days", "10 days"])


def test_sessions_in_use_are_skipped_and_named(store: ProxyStore) -> None:
    [path] = store.root.glob("transcripts/*/s100-*.jsonl")
    transcript = TranscriptAppender(path)
    result = run(store, "prune", "--keep", "2", "--yes")
    assert (result.exit_code, result.stdout.startswith("1 session, ")) == (0, True)
    assert "s100: is in use" in result.stderr
    assert list_titles(store) == ["1 days", "10 days", "100 days"]
    assert get_json(store, "prune", "--keep", "2", "--yes")["left"][0]["reason"] == "in use"
    transcript.close()
    get_stdout(store, "prune", "--keep", "2", "--yes")
    assert list_titles(store) == ["1 days", "10 days"]


def test_a_session_that_cannot_be_deleted_exits_with_1(store: ProxyStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("acp_proxy.store.layout.Layout.remove_transcript", refuse)
    result = run(store, "prune", "--keep", "3", "--yes")
    assert result.exit_code == 1
    assert "other: not deleted (EACCES)" in result.stderr


def test_nothing_to_prune_asks_nothing(store: ProxyStore) -> None:
    assert get_stdout(store, "prune", "--keep", "10") == "0 sessions deleted.\n"
    assert get_json(store, "prune", "--keep", "10", "--yes")["sessions"] == []


def test_a_period_before_all_time_matches_nothing(store: ProxyStore) -> None:
    assert run(store, "prune", "--older-than", "999999w", "--dry-run").stderr == "0 sessions would be deleted.\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "--older-than"),
        (["--older-than", "soon"], "--older-than"),
        (["--older-than", "90"], "For days: 90d"),
        (["--max-size", "much"], "--max-size"),
        (["--older-than", "", "--deleted", "--yes"], "--older-than"),
        (["--max-size", "", "--keep", "0", "--yes"], "--max-size"),
        (["--keep", "1", "--deleted", "--soft"], "--soft"),
        (["--keep", "1", "--json"], "--yes"),
    ],
)
def test_wrong_limits_delete_nothing(store: ProxyStore, words: list[str], said: str) -> None:
    code, message = get_error(store, "prune", *words)
    assert (code, said in message) == (2, True)
    assert len(list_titles(store)) == 4


def test_a_negative_number_is_refused(store: ProxyStore) -> None:
    assert run(store, "prune", "--keep", "-1").exit_code == 2
