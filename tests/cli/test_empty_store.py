"""Commands that only read create no store, and report a missing one."""

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from acp_proxy import shell_quote
from acp_proxy.cli.app import SessionsGroup, app
from acp_proxy.cli.common import choose_session, shorten_ids
from acp_proxy.store.sessions import find_default_root
from tests.cli.commands import parsed_json, printed, refused, titles
from tests.cli.commands import run as answered
from tests.stored import EPOCH, WholeStore, store_session

NONE_YET = (
    "No sessions are recorded yet. To set up your editor: acp-proxy setup. To take over older ones: acp-proxy adopt\n"
)
NO_SESSION = "acp-proxy: no session is recorded yet. To set up your editor: acp-proxy setup\n"
ON_EMPTY_STORE: dict[tuple[str, ...], tuple[int, str, str]] = {
    ("sessions", "list"): (0, "", NONE_YET),
    ("sessions", "list", "--json"): (0, "[]\n", ""),
    ("sessions", "show", "last"): (1, "", NO_SESSION),
    ("sessions", "search", "word*"): (1, "", NONE_YET),
    ("sessions", "search", "word*", "--json"): (1, "[]\n", NONE_YET),
    ("sessions", "stats"): (0, "", NONE_YET),
    ("sessions", "path", "last"): (1, "", NO_SESSION),
    ("sessions", "diff", "last"): (1, "", NO_SESSION),
    ("sessions", "export", "last"): (1, "", NO_SESSION),
    ("sessions", "export", "--all", "-o", "out"): (
        0,
        "",
        "There is no session to export. To see all sessions: acp-proxy list\n",
    ),
    ("sessions", "rename", "last", "A title"): (1, "", NO_SESSION),
    ("sessions", "archive", "last"): (1, "", NO_SESSION),
    ("sessions", "pin", "last"): (1, "", NO_SESSION),
    ("sessions", "unpin", "last"): (1, "", NO_SESSION),
    ("sessions", "continue", "last", "--with", "other"): (1, "", NO_SESSION),
    ("sessions", "unarchive", "last"): (
        1,
        "",
        "acp-proxy: no session is archived. To see all sessions: acp-proxy list\n",
    ),
    ("sessions", "delete", "last", "--yes"): (1, "", NO_SESSION),
    ("sessions", "restore"): (
        0,
        "",
        "No deleted session can be restored.\n",
    ),
    ("sessions", "restore", "last"): (
        1,
        "",
        "acp-proxy: no deleted session can be restored. To see all sessions: acp-proxy list\n",
    ),
    ("sessions", "prune", "--keep", "1", "--yes"): (0, "0 sessions deleted.\n", ""),
    ("sessions", "verify"): (0, "No damage found.\n", ""),
    ("sessions", "repair"): (0, "Nothing to repair.\n", ""),
    ("sessions", "redact", "--yes"): (0, "0 masked, in 0 of 0 files.\n", ""),
    ("sessions", "compress"): (0, "Nothing to compress: no transcript of 256K or more was unused for 7d.\n", ""),
    ("replay", "last"): (1, "", NO_SESSION),
    ("mock-agent", "last"): (1, "", NO_SESSION),
}
"""For each command on an empty store: its exit code, stdout and stderr."""

commands = pytest.mark.parametrize("words", ON_EMPTY_STORE, ids=" ".join)


def run(*words: str) -> Result:
    result = CliRunner().invoke(app, words)
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result


def test_every_command_on_sessions_is_tested_here() -> None:
    assert {words[1] for words in ON_EMPTY_STORE if words[0] == "sessions"} == set(SessionsGroup.table) - {
        "import",
        "adopt",
        "blame",  # asks for a file first
    }


@commands
def test_a_missing_default_store_is_like_an_empty_one_and_not_created(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    for name in ("HOME", "XDG_DATA_HOME", "WIN_PD_OVERRIDE_LOCAL_APPDATA"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.chdir(tmp_path)
    result = run(*words)
    assert (result.exit_code, result.stdout, result.stderr) == ON_EMPTY_STORE[words]
    assert list(tmp_path.iterdir()) == []
    find_default_root().mkdir(parents=True)
    result = run(*words)
    assert (result.exit_code, result.stdout, result.stderr) == ON_EMPTY_STORE[words]
    assert list(find_default_root().iterdir()) == []


@commands
def test_an_empty_store_is_not_a_missing_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    WholeStore(tmp_path / "store")
    result = run(*words, "--store", str(tmp_path / "store"))
    assert (result.exit_code, result.stdout, result.stderr) == ON_EMPTY_STORE[words]


@commands
def test_a_given_place_without_a_store_is_an_error(tmp_path: Path, words: tuple[str, ...]) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "project").mkdir(mode=0o775)
    (tmp_path / "project" / "main.py").touch()
    before = sorted(tmp_path.rglob("*"))
    for place in (tmp_path / "mistyped" / "store", tmp_path / "empty", tmp_path / "project"):
        result = run(*words, "--store", str(place))
        assert (result.exit_code, result.stdout) == (1, "")
        assert result.stderr.startswith(f"acp-proxy: there is no store at {place}. ")
        assert "Check the path" in result.stderr
    assert sorted(tmp_path.rglob("*")) == before


def test_a_place_in_a_variable_counts_as_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACP_PROXY_STORE", str(tmp_path / "mistyped"))
    result = run("sessions", "list")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "ACP_PROXY_STORE" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_broken_link_is_not_a_missing_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("acp_proxy.cli.common.find_default_root", lambda: tmp_path / "link")
    (tmp_path / "link").symlink_to(tmp_path / "away")
    result = run("sessions", "list")
    assert (result.exit_code, result.stdout) == (1, "")
    assert str(tmp_path / "link") in result.stderr
    assert not (tmp_path / "away").exists()


def test_a_file_in_place_of_a_store_is_reported(tmp_path: Path) -> None:
    (tmp_path / "store").touch()
    result = run("sessions", "list", "--store", str(tmp_path / "store"))
    assert (result.exit_code, result.stdout) == (1, "")
    assert "is not a directory" in result.stderr


@pytest.fixture
def counted(tmp_path: Path) -> WholeStore:
    """Three sessions with the same id, as an agent with a counter makes them."""
    store = WholeStore(tmp_path / "store")
    for number, said in enumerate(("first", "second", "third")):
        store_session(store, "s0", (f"the {said} words", []), at=EPOCH + number)
    return store


def test_sessions_of_one_id_have_names_in_the_list(counted: WholeStore) -> None:
    shown = [line.split("\t")[:2] for line in printed(counted, "list").splitlines()]
    assert shown == [["s0", "the third words"], ["s0~2", "the second words"], ["s0~1", "the first words"]]
    for row, (name, title) in zip(parsed_json(counted, "list"), shown, strict=True):
        assert row["sessionId"] == "s0"
        for each in (name, row["transcript"]):
            assert printed(counted, "show", each).startswith(f"{title}\n{name}  ")
            assert title in printed(counted, "export", each)
            assert row["transcript"] in printed(counted, "path", each)
    printed(counted, "rename", "s0~1", "Mine")
    assert titles(counted) == ["the third words", "the second words", "Mine"]
    assert refused(counted, "show", "s0~3")[0] == 1


def test_deleting_an_id_twice_in_one_command_deletes_one_session(counted: WholeStore) -> None:
    printed(counted, "delete", "s0", "--yes")
    assert refused(counted, "delete", "s0", "--yes")[0] == 1
    assert titles(counted) == ["the second words", "the first words"]
    printed(counted, "delete", "s0~1", "--yes")
    assert titles(counted) == ["the second words"]


def test_a_terminal_shows_short_ids_with_their_numbers(tmp_path: Path) -> None:
    store = WholeStore(tmp_path / "store")
    for session, at in (("0123456789-a", 0), ("0123456789-a", 1), ("9876543210-b", 2)):
        store_session(store, session, ("words", []), at=EPOCH + at)
    rows = store.list_all()
    assert list(shorten_ids(store, rows).values()) == ["98765432", "01234567", "01234567~1"]
    assert [choose_session(store, "01234567~1", ""), choose_session(store, "0123", "")] == [rows[2], rows[1]]


def test_import_creates_a_store(tmp_path: Path) -> None:
    path = store_session(WholeStore(tmp_path / "store"), "s", ("Mend it", []))
    other = tmp_path / "new" / "store"
    assert run("sessions", "import", str(path), "--store", str(other)).exit_code == 0
    assert [row.session for row in WholeStore(other).list_all()] == ["s"]


# Titles.


@pytest.fixture
def entitled(tmp_path: Path) -> WholeStore:
    store = WholeStore(tmp_path / "store")
    for number, title in enumerate(("Fix the login", "Fix the login page", "Größe ändern", "Mend s9", "fix")):
        store_session(store, f"s{number}", (title, []), at=EPOCH + number)
    return store


@pytest.mark.parametrize(
    ("given", "session"),
    [
        ("Fix the login", "s0"),
        ("PAGE", "s1"),
        ("grösse", "s2"),
        ("fix", "s4"),
        ("s1", "s1"),
    ],
)
def test_a_session_is_named_by_its_title_or_a_part_of_it(entitled: WholeStore, given: str, session: str) -> None:
    assert choose_session(entitled, given, "").session == session
    assert f"\n{session}  " in printed(entitled, "show", given)


@pytest.mark.parametrize(
    ("given", "more"),
    [("", ""), ("0af3", ""), ("no such title", ". To search in them: acp-proxy search 'no such title'")],
)
def test_a_word_that_is_in_no_title_is_refused(entitled: WholeStore, given: str, more: str) -> None:
    assert refused(entitled, "show", given) == (
        1,
        f"acp-proxy: no session matches {given!r}. To see all sessions: acp-proxy list{more}\n",
    )


def test_several_titles_are_listed(entitled: WholeStore) -> None:
    status, said = refused(entitled, "show", "the LOGIN")
    assert (status, said.splitlines()) == (
        1,
        [
            "acp-proxy: the titles of several sessions match 'the LOGIN':",
            "  s1  agent  Fix the login page",
            "  s0  agent  Fix the login",
            "Give the id instead.",
        ],
    )


def test_the_same_title_of_sessions_with_one_id_is_no_name(tmp_path: Path) -> None:
    store = WholeStore(tmp_path / "store")
    for number in range(2):
        store_session(store, "s0", ("Mend it", []), at=EPOCH + number)
    assert "\n  s0~1  agent  Mend it\n" in refused(store, "show", "Mend it")[1]


def test_yes_needs_more_than_a_part_of_a_title(entitled: WholeStore) -> None:
    for words in (("delete", "page", "--yes"), ("redact", "page", "--yes")):
        status, said = refused(entitled, *words)
        assert (status, "\n  s1  agent  Fix the login page\n" in said) == (1, True)
    assert answered(entitled, "delete", "page", answer="y\n").exit_code == 0
    printed(entitled, "delete", "Fix the login", "--yes")
    assert titles(entitled) == ["fix", "Mend s9", "Größe ändern"]


def test_the_id_of_a_deleted_session_is_no_part_of_a_title(entitled: WholeStore) -> None:
    store_session(entitled, "s9", ("words", []))
    assert choose_session(entitled, "s9", "").session == "s9"
    printed(entitled, "delete", "s9", "--yes")
    assert refused(entitled, "show", "s9")[0] == 1


def test_a_deleted_session_is_restored_by_its_title(entitled: WholeStore) -> None:
    printed(entitled, "delete", "s1", "--soft", "--yes")
    printed(entitled, "restore", "LOGIN")
    assert "Fix the login page" in titles(entitled)


def test_a_file_in_place_of_a_session_is_answered_with_what_reads_files(entitled: WholeStore, tmp_path: Path) -> None:
    file = tmp_path / "my session.jsonl"
    file.write_text("{}")
    result = CliRunner().invoke(app, ["sessions", "show", str(file), "--store", str(entitled.root)])
    assert result.exit_code == 1
    assert (
        f"is a file. To watch it: acp-proxy replay {shell_quote.quoted(str(file))}. To add it to the store: acp-proxy"
        in result.stderr
    )
