"""``restore``: what it lists, brings back, and says, and the command for it that a delete names."""

import json
import os
import shlex
import sys
import time

import pytest

from acp_proxy import shell_quote
from acp_proxy.errors import Unreadable
from acp_proxy.sessions.command_store import CommandStore
from acp_proxy.store.proxy_store import ProxyStore
from tests import forked
from tests.cli.commands import get_error, get_json, get_stdout, list_titles, run
from tests.cli.terminal import run_on_terminal
from tests.stored import EPOCH, find_files_with, read_files, store_session


@pytest.fixture
def store(three_sessions: ProxyStore) -> ProxyStore:
    return three_sessions


def test_a_deleted_session_is_removed_after_its_days(store: ProxyStore, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, days in (("abc-1", "1"), ("abc-2", "3")):
        monkeypatch.setenv("ACP_PROXY_BIN_DAYS", days)
        get_stdout(store, "delete", name, "--yes")
    later = time.time() + 2 * 24 * 60 * 60
    monkeypatch.setattr(time, "time", lambda: later)
    assert [row["sessionId"] for row in get_json(store, "restore")] == ["abc-2"]
    assert run(store, "restore", "abc-1").exit_code == 1
    assert not any(b"the words of abc-1" in data for _, data in read_files(store.root))
    get_stdout(store, "restore", "abc-2")
    assert sorted(list_titles(store)) == ["the words of abc-2", "the words of xyz"]


def test_on_a_full_disk_a_restore_mentions_the_index_and_no_newer_session(
    store: ProxyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: CommandStore, *_: object, **__: object) -> None:
        raise Unreadable("ENOSPC")

    get_stdout(store, "delete", "abc-1", "--yes")
    monkeypatch.setattr(CommandStore, "index_transcript", fail)
    result = run(store, "restore", "abc-1", "--json")
    assert "The index cannot be written now." in result.stderr
    assert "newer session" not in result.stderr
    monkeypatch.undo()
    [row] = [row for row in get_json(store, "list") if row["sessionId"] == "abc-1"]
    assert json.loads(result.stdout)[0]["transcript"] == row["transcript"]


def test_the_restore_command_names_exactly_the_session(store: ProxyStore) -> None:
    for agent in ("agent", "other"):
        store_session(store, "same", (f"same of {agent}", []), agent=agent, at=EPOCH + 60)
    store_session(store, "-tab\tid", ("tab", []), at=EPOCH + 60)
    get_stdout(store, "delete", "same", "--agent", "agent", "--soft", "--yes")
    before = list_titles(store)
    for row in get_json(store, "list")[:2]:
        stdout = get_stdout(store, "delete", row["transcript"], "--soft", "--yes")
        words = shlex.split(stdout.partition("within 30 days: ")[2])
        assert words[:2] == ["acp-proxy", "restore"]
        assert row["title"] not in list_titles(store)
        get_stdout(store, *words[1:])
        assert list_titles(store) == before


def test_the_restore_command_has_whole_ids_which_later_deletes_do_not_make_ambiguous(store: ProxyStore) -> None:
    for number in (1, 2):
        store_session(store, f"mock-session-6{number}", ("Mend it", []))
    stdout = get_stdout(store, "delete", "mock-session-61", "--yes")
    assert "acp-proxy restore mock-session-61 " in stdout
    get_stdout(store, "delete", "mock-session-62", "--yes")
    get_stdout(store, *shell_quote.split(stdout.partition("within 30 days: ")[2])[1:-2])


def test_the_restore_command_names_the_agents_of_an_id_that_several_have(store: ProxyStore) -> None:
    for agent in ("codex", "gemini"):
        store_session(store, "same", (f"same of {agent}", []), agent=agent)
    where = shell_quote.join(["--store", str(store.root)])
    back = f"acp-proxy restore same --agent codex {where}"
    assert f"To bring it back within 30 days: {back}\n" in get_stdout(store, "delete", "same", "-a", "codex", "--yes")
    get_stdout(store, "delete", "same", "--yes")
    get_stdout(store, "restore", "same", "--agent", "codex")
    get_stdout(store, "restore", "same", "--agent", "gemini")
    names = [row["transcript"] for row in get_json(store, "list") if row["sessionId"] == "same"]
    assert len(names) == 2


def test_a_deleted_id_of_several_agents_is_answered_with_a_command_for_each(store: ProxyStore) -> None:
    for agent in ("codex", "gemini"):
        store_session(store, "same", (f"same of {agent}", []), agent=agent)
        get_stdout(store, "delete", "same", "--agent", agent, "--yes")
    where = shell_quote.join(["--store", str(store.root)])
    assert get_error(store, "restore", "same")[1].splitlines()[-3:] == [
        "Choose the agent:",
        f"  acp-proxy restore same {where} --agent gemini",
        f"  acp-proxy restore same {where} --agent codex",
    ]


def test_an_empty_word_matches_no_soft_deleted_session(store: ProxyStore) -> None:
    run(store, "delete", "abc-1", "--soft", "--yes")
    for words in (("restore", ""), ("delete", "", "--yes")):
        assert run(store, *words).exit_code == 1
    assert [row["sessionId"] for row in get_json(store, "restore")] == ["abc-1"]


def test_soft_deleted_sessions_are_listed_and_restored(store: ProxyStore) -> None:
    get_stdout(store, "rename", "abc-1", "Mine")
    result = run(store, "delete", "abc-1", "xyz", "--soft", "--yes")
    assert result.stdout.endswith(
        f"Deleted. To bring them back within 30 days: acp-proxy restore abc-1 xyz --store {store.root}\n"
    )
    assert list_titles(store) == ["the words of abc-2"]
    for words in ([], ["--list"], ["abc-1", "--list"]):
        second, first = (line.split("\t") for line in get_stdout(store, "restore", *words).splitlines())
        assert (first[:2], second[:2]) == (["abc-1", "Mine"], ["xyz", "the words of xyz"])
        listed = get_json(store, "restore")[0]
        keys = ("sessionId", "title", "agent", "cwd", "deletedAt", "turns", "bytes")
        assert second == [str(listed[key]) for key in keys]
    assert [(row["sessionId"], row["title"], row["cwd"]) for row in get_json(store, "restore")] == [
        ("xyz", "the words of xyz", "/project"),
        ("abc-1", "Mine", "/project"),
    ]
    assert "Mine" in run(store, "restore", "abc").stderr
    assert sorted(list_titles(store)) == ["Mine", "the words of abc-2"]
    [restored] = get_json(store, "restore", "last")
    assert restored["sessionId"] == "xyz"
    assert sorted(list_titles(store)) == ["Mine", "the words of abc-2", "the words of xyz"]
    result = run(store, "restore")
    assert (result.exit_code, result.stdout, "can be restored" in result.stderr) == (0, "", True)
    assert get_json(store, "restore") == []


def test_on_a_terminal_deleted_sessions_have_the_columns_of_list(store: ProxyStore) -> None:
    where = ("--store", str(store.root))
    heading, *_ = run_on_terminal("list", *where, settings={"NO_COLOR": "1"}).splitlines()
    get_stdout(store, "delete", "abc-1", "--yes")
    shown, row, advice = run_on_terminal("restore", *where, settings={"NO_COLOR": "1"}).splitlines()
    assert shown.split() == heading.split()
    assert (row.split()[0], row[row.index("now") :].split()[0]) == ("abc-1", "now")
    assert advice == "WHEN is the time of the delete. To restore one: acp-proxy restore SESSION"


def test_soft_deleted_sessions_of_one_id_have_names_in_the_list(store: ProxyStore) -> None:
    for said in ("once", "twice"):
        store_session(store, "s0", (said, []), at=EPOCH + 60)
        get_stdout(store, "delete", "s0", "--soft", "--yes")
    latest, before = (line.split("\t")[:2] for line in get_stdout(store, "restore").splitlines())
    assert latest == ["s0", "twice"]
    assert (before[0].startswith("s0~"), before[1]) == (True, "once")
    get_stdout(store, "restore", before[0])
    assert "once" in list_titles(store)
    [kept] = get_json(store, "restore")
    get_stdout(store, "restore", kept["transcript"])
    assert "s0~1\ttwice" in get_stdout(store, "list")


def test_a_session_that_cannot_be_restored_is_named(store: ProxyStore) -> None:
    get_stdout(store, "delete", "abc-1", "abc-2", "--soft", "--yes")
    code, said = get_error(store, "restore", "xyz")
    assert (code, "--list" in said) == (1, True)
    code, said = get_error(store, "restore", "abc")
    assert (code, "abc-1 " in said, "abc-2 " in said) == (1, True, True)
    code, said = get_error(store, "restore", "abc-1", "--agent", "other")
    assert code == 1
    assert len(get_json(store, "restore")) == 2


@pytest.mark.parametrize(
    ("content", "reason"), [("", ""), ('{"acp-transcript": 9}\n', "cannot be read, so no list")], ids=["empty", "newer"]
)
def test_a_session_that_cannot_be_read_is_deleted_and_restored_like_any_other(
    store: ProxyStore, content: str, reason: str
) -> None:
    [row] = [row for row in get_json(store, "list") if row["sessionId"] == "abc-1"]
    path = store.layout.transcript_path(row["agent"], row["transcript"])
    path.write_text(content)
    assert "within 30 days: acp-proxy restore abc-1" in get_stdout(store, "delete", "abc-1", "--yes")
    assert [row["sessionId"] for row in get_json(store, "restore")] == ["abc-1"]
    result = run(store, "restore", "abc-1")
    assert (result.exit_code, "Restored:" in result.stderr, reason in result.stderr) == (0, True, True)
    assert path.read_text() == content


def test_what_is_deleted_and_cannot_be_read_can_be_removed_for_good(
    store: ProxyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    days = ((("delete", "--permanent", "abc-1"), "abc-1"), (("prune", "--deleted"), "abc-2"))
    for _, session in days:
        [row] = [row for row in get_json(store, "list") if row["sessionId"] == session]
        store.layout.transcript_path(row["agent"], row["transcript"]).write_bytes(b"")
        get_stdout(store, "delete", session, "--yes")
    for command, session in days:
        get_stdout(store, *command, "--yes")
        assert session not in {row["sessionId"] for row in get_json(store, "restore")}
    [row] = get_json(store, "list")
    store.layout.transcript_path(row["agent"], row["transcript"]).write_bytes(b"")
    get_stdout(store, "delete", "xyz", "--yes")
    later = time.time() + 31 * 24 * 60 * 60
    monkeypatch.setattr(time, "time", lambda: later)
    store.remove_expired()
    assert not any("deleted" in path.parts for path, _ in read_files(store.root))


def test_a_restored_session_may_share_its_id_with_a_newer_one(store: ProxyStore) -> None:
    get_stdout(store, "delete", "xyz", "--soft", "--yes")
    store_session(store, "xyz", ("newer words", []), at=EPOCH + 100)
    result = run(store, "restore", "xyz")
    assert "newer session" in result.stderr
    assert list_titles(store)[:2] == ["newer words", "the words of xyz"]
    for word in ("xyz", "xyz~1"):  # as list shows them
        assert f"acp-proxy restore {shell_quote.quote(word)} " in get_stdout(store, "delete", word, "--yes")
    assert get_stdout(store, "prune", "--deleted", "--dry-run").startswith("xyz~1\t")
    assert "Restored: the words of xyz" in run(store, "restore", "xyz~1").stderr


def test_a_reader_of_the_list_may_stop_early(store: ProxyStore) -> None:
    for number in range(50):
        store_session(store, f"many-{number}", (f"{number}", []))
    get_stdout(store, "prune", "--keep", "0", "--soft", "--yes")
    command = [sys.executable, "-m", "acp_proxy", "restore", "--store", str(store.root)]
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "wb") as unread:
        result = forked.run(command, stdout=unread)
    assert b"doctor" not in result.stderr
    assert result.returncode == 141


def test_soft_deleted_sessions_are_verified_repaired_and_redacted(store: ProxyStore) -> None:
    key = "sk-ant-api03-" + "a1B2" * 20
    store_session(store, "leaky", (f"my key is {key}", []))
    get_stdout(store, "delete", "leaky", "xyz", "--soft", "--yes")
    [path] = (store.root / "deleted").glob("*/xyz-*.jsonl")
    path.write_bytes(path.read_bytes() + b'{"at":"torn')
    assert "torn" in run(store, "verify").stdout
    assert run(store, "repair").exit_code == 0
    assert get_stdout(store, "verify") == "No damage found.\n"
    get_stdout(store, "redact", "--yes")
    assert find_files_with(store, key) == []
    other = "sk-ant-api03-" + "c3D4" * 20
    store_session(store, "leaky", (f"my key is {other}", []))
    get_stdout(store, "delete", "leaky", "--soft", "--yes")
    store_session(store, "leaky", ("harmless", []))
    get_stdout(store, "redact", "leaky", "--yes")
    assert find_files_with(store, other) == []
    get_stdout(store, "rename", "leaky", f"titled {other}")
    get_stdout(store, "redact", "leaky", "--yes")
    assert find_files_with(store, other) == []
    get_stdout(store, "restore", "leaky", "xyz")
    assert "the words of xyz" in list_titles(store)
