"""``list``, for people and for programs."""

import json
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from acp_proxy import shell_quote
from acp_proxy.protocol import acp, timestamps
from acp_proxy.protocol.jsonrpc import Peer
from acp_proxy.store import folder_changes
from acp_proxy.store.proxy_store import ProxyStore
from tests.cli.commands import Command, get_json, invoke, list_ids
from tests.cli.terminal import run_on_terminal
from tests.stored import EPOCH, WholeStore, chunk, message, store_running_session, store_session

command = Command("list")
run, get_stdout = command.run, command.get_stdout


def test_a_store_without_listable_sessions_is_not_reported_as_empty(store: ProxyStore) -> None:
    path = store_session(store, "s", ("Mend it", []))
    path.write_bytes(b"no transcript\n")
    result = run(store)
    assert (result.exit_code, result.stdout) == (0, "")
    assert "acp-proxy verify" in result.stderr


def test_every_session_of_every_agent_is_listed_newest_first(store: ProxyStore) -> None:
    old = store_session(store, "old", ("Mend it", []), agent="one", at=EPOCH)
    new = store_session(store, "new", ("Break it", []), agent="other", at=EPOCH + 3600)
    store_session(store, "never-prompted", agent="one", at=EPOCH + 7200)
    assert get_stdout(store).splitlines() == [
        f"new\tBreak it\t{new.parent.name}\t/project\t2023-11-14T23:13:20.000Z\t1\t{new.stat().st_size}\t",
        f"old\tMend it\t{old.parent.name}\t/project\t2023-11-14T22:13:20.000Z\t1\t{old.stat().st_size}\t",
    ]
    assert list_ids(store) == ["new", "old"]
    assert list_ids(store, "--agent", "ONE") == ["old"]


def test_json_has_every_field_of_a_session(store: ProxyStore) -> None:
    path = store_session(
        store, "s", ("Mend it", [chunk("done")]), ("more", []), error={"code": -32000, "message": "no"}
    )
    [row] = json.loads(get_stdout(store, "--json"))
    assert row == {
        "sessionId": "s",
        "agent": path.parent.name,
        "agentName": "agent",
        "cwd": "/project",
        "title": "Mend it",
        "createdAt": "2023-11-14T22:13:20.000Z",
        "updatedAt": "2023-11-14T22:13:20.000Z",
        "turns": 2,
        "messageCount": 3,
        "hasErrors": True,
        "isRunning": False,
        "isArchived": False,
        "isPinned": False,
        "bytes": path.stat().st_size,
        "transcript": path.stem,
        "machine": None,
        "branch": None,
        "commit": None,
    }


def test_a_running_session_is_marked_and_has_no_error(store: ProxyStore) -> None:
    with store_running_session(store, "s", "Mend it"):
        [row] = json.loads(get_stdout(store, "--json"))
        assert (row["isRunning"], row["hasErrors"]) == (True, False)
        assert get_stdout(store).endswith("\trunning\n")
        assert "  running  " in table(store, 80, NO_COLOR="1")[1]
        assert "  running\n" in Command("show").get_stdout(store, "s")
    [row] = json.loads(get_stdout(store, "--json"))
    assert (row["isRunning"], row["hasErrors"]) == (False, True)
    assert "running" not in get_stdout(store)


def test_here_fails_if_the_current_directory_was_removed(
    store: ProxyStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store_session(store, "s", ("Mend it", []), cwd=str(tmp_path / "kept"))
    (tmp_path / "removed").mkdir()
    monkeypatch.chdir(tmp_path / "removed")
    (tmp_path / "removed").rmdir()
    result = run(store, "--here")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "--cwd" in result.stderr
    assert list_ids(store, "--cwd", str(tmp_path / "kept")) == ["s"]


def test_a_variable_may_name_the_store(store: ProxyStore) -> None:
    store_session(store, "s", ("Mend it", []))
    result = invoke("list", variables={"ACP_PROXY_STORE": str(store.root)})
    assert "Mend it" in result.stdout


def test_sessions_of_a_directory_are_selected_by_cwd_or_here(
    store: ProxyStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = tmp_path / "one" / "two"
    inner.mkdir(parents=True)
    store_session(store, "outer", ("x", []), cwd=str(inner.parent), at=EPOCH + 1)
    store_session(store, "inner", ("x", []), cwd=f"{inner}/")
    monkeypatch.chdir(inner)
    assert (
        list_ids(store, "--here") == list_ids(store, "--cwd", ".") == list_ids(store, "--cwd", str(inner)) == ["inner"]
    )
    assert list_ids(store, "--cwd", "..") == list_ids(store, "--cwd", str(inner.parent)) == ["outer"]
    monkeypatch.chdir(inner.parent)
    assert list_ids(store, "--here") == ["outer", "inner"]
    assert run(store, "--here", "--cwd", "..").exit_code == 2
    result = run(store, "--cwd", "nowhere")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "To see all sessions: acp-proxy list" in result.stderr


def test_limit_and_since_narrow_the_list(store: ProxyStore) -> None:
    now = time.time()
    for hours in range(5):
        store_session(store, f"{hours}h", ("x", []), at=now - hours * 3600 - 60)
    store_session(store, "long ago", ("x", []))
    assert list_ids(store, "--limit", "2") == ["0h", "1h"]
    assert list_ids(store, "--since", "2h") == ["0h", "1h"]
    assert list_ids(store, "--since", "125m") == ["0h", "1h", "2h"]
    assert list_ids(store, "--since", "1d") == list_ids(store, "--since", "2w") == [f"{hours}h" for hours in range(5)]
    assert list_ids(store, "--since", "2023-11-14T22:13:20Z")[-1] == "long ago"
    assert list_ids(store, "--since", "2023-11-14T22:13:21Z")[-1] == "4h"
    assert list_ids(store, "--until", "2h") == ["2h", "3h", "4h", "long ago"]
    assert list_ids(store, "--until", "2h", "--since", "4h") == ["2h", "3h"]
    assert list_ids(store, "--until", "2023-11-14T22:13:20Z") == []
    assert list_ids(store, "--until", "2023-11-14T22:13:21Z") == ["long ago"]


def test_a_day_is_that_of_the_time_zone_and_counts_whole(store: ProxyStore) -> None:
    today = datetime.now().astimezone().replace(hour=0, minute=0, second=0, microsecond=0)
    for number, moment in enumerate((today, today - timedelta(seconds=1), today - timedelta(days=1, seconds=1))):
        store_session(store, f"{number} days", ("x", []), at=moment.timestamp())
    assert list_ids(store, "--since", "today") == ["0 days"]
    assert list_ids(store, "--since", "yesterday", "--until", "Yesterday") == ["1 days"]
    assert list_ids(store, "--until", "yesterday") == ["1 days", "2 days"]
    for ago in range(3):
        name = f"{datetime.now() - timedelta(days=ago):%A}"
        assert list_ids(store, "--since", name, "--until", name.lower()) == [f"{ago} days"]
    for number in range(3):
        day = (today - timedelta(days=number)).date().isoformat()
        assert list_ids(store, "--since", day, "--until", day) == [f"{number} days"]


@pytest.mark.parametrize("option", ["--since", "--until"])
@pytest.mark.parametrize("when", ["tomorrow", "7", "7y", "-1d", "2026-13-01", "999999w"])
def test_a_wrong_time_is_wrong_usage(store: ProxyStore, when: str, option: str) -> None:
    result = run(store, option, when)
    assert (result.exit_code, result.stdout) == (2, "")
    assert option in result.stderr


def test_a_long_list_is_complete(store: ProxyStore) -> None:
    for number in range(230):
        store_session(store, f"s{number:03}", ("x", []), at=EPOCH + number)
    wanted = [f"s{number:03}" for number in reversed(range(230))]
    assert list_ids(store) == wanted
    assert [line.split("\t")[0] for line in get_stdout(store).splitlines()] == wanted
    table = run_on_terminal("list", "--store", str(store.root), settings={"NO_COLOR": "1"}).splitlines()
    assert [line.split()[0] for line in table] == ["ID", *wanted]


# --- on a terminal


def table(store: ProxyStore, columns: int, **settings: str) -> list[str]:
    return run_on_terminal("list", "--store", str(store.root), columns=columns, settings=settings).splitlines()


def test_a_terminal_gets_a_table_as_wide_as_it_is(store: ProxyStore) -> None:
    now = time.time()
    store_session(store, "0123456789-a", ("Fix the login", []), cwd="/home/me/app", at=now - 2 * 3600 - 60)
    store_session(store, "0123456789-b", ("日本語 👨‍👩‍👧 is fine", []), cwd="/home/me", at=now - 3 * 86400 - 60)
    store_session(store, "fedcba98-7654", ("Mend it", [chunk("ok")]), agent="other", at=now - 5)
    day = datetime.fromtimestamp(now - 3 * 86400 - 60, UTC)
    when = f"{day.day} {day:%b}"
    assert table(store, 80, NO_COLOR="1", HOME="/home/me") == [
        f"ID            TITLE                  AGENT  DIRECTORY  {'WHEN':{len(when)}}  TURNS",
        f"fedcba98      Mend it                other  /project   {'now':{len(when)}}      1",
        f"0123456789-a  Fix the login          agent  ~/app      {'2h':{len(when)}}      1",
        f"0123456789-b  日本語 👨👩👧 is fine  agent  ~          {when}      1",
    ]
    assert table(store, 36, NO_COLOR="1")[:3] == [
        f"ID            {'TITLE':{20 - len(when)}}  WHEN",
        f"fedcba98      {'Mend it':{20 - len(when)}}  now",
        f"0123456789-a  {'Fix the login':{20 - len(when)}}  2h",
    ]


def test_the_terminal_and_the_users_settings_decide_about_colours(store: ProxyStore) -> None:
    store_session(store, "0123456789", ("Fix the login", []))
    assert table(store, 80)[1].startswith("\x1b[33m01234567\x1b[0m  Fix the login  \x1b[36magent\x1b[0m")
    plain = table(store, 80, NO_COLOR="1")
    assert plain[1].startswith("01234567  Fix the login  agent")
    assert table(store, 80, TERM="dumb") == table(store, 80, CLICOLOR="0") == plain
    assert table(store, 80, TERM="dumb", FORCE_COLOR="1") == table(store, 80)


def test_another_program_never_gets_colours(store: ProxyStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store_session(store, "s", ("Mend it", []))
    plain = get_stdout(store)
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert get_stdout(store) == plain


@pytest.mark.parametrize(
    "words", ["nosuch", "--since 2030-01-01", "--agent nosuch", "--cwd /other", "--branch x", "--pinned", "--archived"]
)
def test_the_exit_status_is_1_if_nothing_matches_as_for_stats(store: ProxyStore, words: str) -> None:
    store_session(store, "s", ("Mend it", []))
    assert run(store, "mend").exit_code == 0
    assert (run(store, *words.split()).exit_code, run(store, *words.split(), "--json").stdout) == (1, "[]\n")
    if words.split()[0] in ("--since", "--agent", "--cwd", "--branch"):
        stats = Command("stats")
        assert {stats.run(store, *words.split(), *more).exit_code for more in ((), ("--json",), ("--tokens",))} == {1}
        assert stats.run(store).exit_code == 0


def test_an_empty_list_of_archived_sessions_blames_no_missing_prompt(store: ProxyStore) -> None:
    store_session(store, "s", ("Mend it", []))
    for words in (["--archived"], ["--archived", "--pinned"], ["--archived", "--cwd", "/"]):
        assert run(store, *words).stderr.startswith("No session is archived.")


def test_a_directory_that_does_not_exist_is_named(store: ProxyStore) -> None:
    store_session(store, "s", ("Mend it", []), cwd="/gone")
    nope = str(store.root.parent / "nope")
    assert run(store, "--cwd", nope).stderr.startswith(f"{nope} does not exist. No session matches.")
    assert "does not exist" not in run(store, "--cwd", "/", "mend").stderr
    assert list_ids(store, "--cwd", "/gone") == ["s"]


def test_words_that_only_a_filter_leaves_out_are_not_blamed(store: ProxyStore) -> None:
    store_session(store, "s", ("Mend it", []))
    stderr = run(store, "mend", "--here", "--pinned").stderr
    assert stderr.startswith(
        "Nothing matches with --here and --pinned. Without them, something does: acp-proxy list mend"
    )
    assert run(store, "nosuch", "--here").stderr.startswith("No title, directory or agent has these words.")


def test_a_misspelt_word_is_answered_with_the_one_that_is_there(store: ProxyStore) -> None:
    store_session(store, "s", ("Mend the login_page", []), agent="gemini", cwd="/work/infra")
    again = shell_quote.join(["--store", str(store.root)])
    for words, near in ((["lgoin"], ["login"]), (["Mend", "LOGON"], ["mend", "login"]), (["infar", "gemni"], None)):
        lines = run(store, *words, "--cwd", "/work/infra").stderr.splitlines()
        command = ["acp-proxy", "list", *(near or ["infra", "gemini"])]
        assert lines[:2] == [
            "No title, directory or agent has these words.",
            f"Did you mean: {shell_quote.join(command)} {again} --cwd /work/infra",
        ]
        search = ["acp-proxy", "search", *words, "--store", str(store.root), "--cwd", "/work/infra"]
        assert lines[2] == f"To look in what was said: {shell_quote.join(search)}"
    for words in (["zebra"], ["lgoin", "zebra"], ["lgoin", "--pinned"], ["lgoin", "--archived"]):
        assert "Did you mean" not in run(store, *words).stderr


def test_a_session_without_a_directory_has_no_word_for_that(store: ProxyStore) -> None:
    store_session(store, "s", ("Mend the node", []), cwd=None)
    assert "Did you mean: acp-proxy list node" in run(store, "nonde").stderr


def test_a_word_may_be_in_the_column_of_agents(store: ProxyStore) -> None:
    store_session(store, "s-codex", ("Mend it", []), agent="codex")
    store_session(store, "s-gemini", ("Mend it", []), agent="gemini")
    assert run(store, "CODEX", "mend").stdout.split("\t")[0] == "s-codex"


def test_a_word_is_the_beginning_of_an_id_too(store: ProxyStore) -> None:
    for session in ("abc-1", "xabc"):
        store_session(store, session, ("Mend it", []))
    assert list_ids(store, "abc") == ["abc-1"]


@pytest.mark.parametrize(
    ("order", "found"),
    [
        ("newest", ["new", "mid", "old"]),
        ("oldest", ["old", "mid", "new"]),
        ("title", ["new", "mid", "old"]),
        ("agent", ["mid", "old", "new"]),
        ("turns", ["new", "mid", "old"]),
    ],
)
def test_a_list_is_sorted_and_then_limited(store: WholeStore, order: str, found: list[str]) -> None:
    for number, (session, prompt, agent) in enumerate(
        (("old", "Mend the login", "one"), ("mid", "Mend the index", "one"), ("new", "Deploy the login", "two"))
    ):
        store_session(store, session, (prompt, []), agent=agent, at=EPOCH + number)
    assert [row["sessionId"] for row in get_json(store, "list", "--sort", order)] == found
    assert [row["sessionId"] for row in get_json(store, "list", "--sort", order, "--limit", "1")] == found[:1]


def test_titles_are_sorted_as_they_are_shown(tmp_path: Path) -> None:
    store = WholeStore(tmp_path / "marked")
    for session, title in (("b", "beta"), ("c", "# Gamma"), ("a", "`alpha`")):
        store_session(store, session, (title, []))
    assert list_ids(store, "--sort", "title") == ["a", "b", "c"]


def test_a_long_list_has_tokens_and_cost(store: WholeStore) -> None:
    update = {"sessionUpdate": "usage_update", "used": 10, "size": 100, "cost": {"amount": 1.5, "currency": "USD"}}
    store_session(store, "unused", ("Mend it", []), at=EPOCH - 60)
    path = store_session(store, "used", ("Count it", [update]), at=EPOCH)
    result = {"stopReason": "end_turn", "usage": {"totalTokens": 12345}}
    with path.open("ab") as file:
        file.write(message(timestamps.format_now(EPOCH), Peer.AGENT, {"id": 9, "result": result}, acp.PROMPT))
    first, second, *_ = get_json(store, "list", "--long")
    assert (first["tokens"], first["cost"]) == (12345, {"USD": 1.5})
    assert (second["tokens"], second["cost"]) == (None, {})
    line = get_stdout(store, "--long").splitlines()[0].split("\t")
    assert line[-2:] == ["12345", "1.50 USD"]
    screen = run_on_terminal("list", "--long", "--store", str(store.root), columns=120)
    assert "TOKENS" in screen
    assert "  12k  " in screen
    assert "1.50 USD" in screen


def test_a_session_that_cannot_be_read_yet_is_named_until_it_can(
    store: WholeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder_changes, "_GRANULE_SECONDS", -1.0)  # the folder counts as seen, although it is new
    path = store_session(store, "s", ("Mend it", []))
    content = path.read_bytes()
    path.write_bytes(content.replace(b'"acp-transcript":1', b'"acp-transcript":9'))
    for mark in store.root.glob("unindexed/*/*"):
        mark.unlink()
    assert f"acp-proxy: not listed: {path}: " in run(store).stderr
    assert f"Not read: {path}: " in invoke("show", "s", "--store", str(store.root)).stderr
    path.write_bytes(content)
    result = run(store)
    assert ("Mend it" in result.stdout, result.stderr) == (True, "")
