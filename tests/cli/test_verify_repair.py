"""``verify`` and ``repair`` report damage to people and programs, and repair it."""

import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from acp_proxy.store import folder_changes
from tests.cli.commands import run
from tests.cli.terminal import run_with_stderr_on_terminal
from tests.stored import WholeStore, chunk, store_session

LONG_AGO = 1_000_000_000


@pytest.fixture
def store(tmp_path: Path) -> WholeStore:
    os.umask(0o077)
    return WholeStore(tmp_path / "store")


def store_damaged(store: WholeStore, session: str = "s") -> Path:
    path = store_session(store, session, ("Mend it", [chunk("one"), chunk("\x1b[2Jtwo")]))
    lines = path.read_bytes().split(b"\n")
    lines.insert(2, b"\0" * 300)
    path.write_bytes(b"\n".join(lines))
    os.utime(path, (LONG_AGO, LONG_AGO))
    store.list_all()
    return path


def test_a_store_without_damage_is_reported_as_such(store: WholeStore) -> None:
    store_session(store, "s", ("Mend it", []))
    store.list_all()
    result = run(store, "verify")
    assert (result.exit_code, result.stdout) == (0, "No damage found.\n")
    assert run(store, "verify", "--json").stdout == ""
    assert (run(store, "repair").exit_code, run(store, "repair").stdout) == (0, "Nothing to repair.\n")


def test_damage_is_reported_with_its_place_and_what_to_do(store: WholeStore) -> None:
    path = store_damaged(store)
    result = run(store, "verify")
    assert result.exit_code == 1
    assert str(path.relative_to(store.root)) in result.stdout
    assert "line 3, byte " in result.stdout
    assert "300 bytes: NUL bytes" in result.stdout
    assert "line 2 (2023-11-14T22:13:20.000Z client session/prompt)" in result.stdout
    assert "acp-proxy repair" in result.stderr


def test_json_lines_report_the_same_damage(store: WholeStore) -> None:
    path = store_damaged(store)
    [found] = [json.loads(line) for line in run(store, "verify", "--json").stdout.splitlines()]
    assert (found["file"], found["transcript"], found["mend"]) == (str(path), path.stem, "repair")
    assert (found["where"]["line"], found["where"]["length"]) == (3, 300)
    assert found["where"]["next"]["what"] == "agent agent_message_chunk"


def test_a_dry_run_changes_nothing(store: WholeStore) -> None:
    path = store_damaged(store)
    before = path.read_bytes()
    result = run(store, "repair", "--dry-run")
    assert (result.exit_code, path.read_bytes()) == (0, before)
    assert "1 can be repaired. Nothing was changed." in result.stdout
    assert not (store.root / "backups").exists()


def test_a_repair_names_the_copy_of_the_old_file(store: WholeStore) -> None:
    path = store_damaged(store)
    before = path.read_bytes()
    result = run(store, "repair")
    assert result.exit_code == 0
    [copy] = (store.root / "backups").glob("*/*.jsonl")
    assert copy.read_bytes() == before
    assert str(copy) in result.stdout
    assert run(store, "verify").exit_code == 0


def test_only_the_given_sessions_are_checked_and_repaired(store: WholeStore) -> None:
    store_damaged(store, "s")
    store_damaged(store, "t")
    assert run(store, "repair", "s").exit_code == 0
    assert (run(store, "verify", "s").exit_code, run(store, "verify", "t").exit_code) == (0, 1)
    assert run(store, "verify", "nobody").exit_code == 1


def test_sessions_of_two_agents_with_one_id_are_both_repaired(
    store: WholeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder_changes, "_GRANULE_SECONDS", -1.0)  # the folders count as seen, although they are new
    for agent in ("one", "two"):
        store_session(store, "s", ("Mend it", []), agent=agent)
    store.list_all()
    with closing(sqlite3.connect(store.root / "index.sqlite3", isolation_level=None)) as index:
        index.execute("UPDATE transcripts SET updated = ''")
    lines = run(store, "verify").stdout.splitlines()
    assert len(lines) == 2
    assert [agent for agent in ("(one-", "(two-") if not any(agent in line for line in lines)] == []
    assert run(store, "repair").stdout.splitlines()[-1] == "2 repaired."
    assert run(store, "verify").exit_code == 0


def test_damage_that_cannot_be_repaired_exits_with_1(store: WholeStore) -> None:
    path = store_damaged(store)
    path.write_bytes(b"\0" * 99)
    os.utime(path, (LONG_AGO, LONG_AGO))
    result = run(store, "repair")
    assert result.exit_code == 1
    assert "does not contain its session's id" in result.stdout
    assert "cannot be repaired" in result.stderr
    assert path.read_bytes() == b"\0" * 99


def test_a_transcript_cannot_control_the_terminal(store: WholeStore) -> None:
    path = store_damaged(store)
    path.write_bytes(path.read_bytes().replace(b'"at":"2023', b'"at":"\\u001b'))
    os.utime(path, (LONG_AGO, LONG_AGO))
    assert "\x1b" not in run(store, "verify").stdout


def test_progress_is_on_stderr_and_results_are_on_stdout(store: WholeStore) -> None:
    for session in ("a", "b", "c"):
        store_damaged(store, session)
    results, told = run_with_stderr_on_terminal("verify", "--store", str(store.root), status=1)
    assert "Reading transcripts" in told
    assert results.count("NUL bytes") == 6  # twice for each: with its place, and with its look
