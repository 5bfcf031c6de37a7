"""Commands that only read create no store, and report a missing one."""

from pathlib import Path

import pytest
from typer.testing import Result

from acp_proxy.cli.app import SessionsGroup
from acp_proxy.store.store_root import find_default_root
from tests.cli.commands import invoke
from tests.stored import WholeStore, store_session

NONE_YET = (
    "No sessions are recorded yet. To set up your editor: acp-proxy setup. To take over older ones: acp-proxy adopt\n"
)
NO_SESSION = "acp-proxy: no session is recorded yet. To set up your editor: acp-proxy setup\n"
ON_EMPTY_STORE: dict[tuple[str, ...], tuple[int, str, str]] = {
    ("list",): (0, "", NONE_YET),
    ("list", "--json"): (0, "[]\n", ""),
    ("show", "last"): (1, "", NO_SESSION),
    ("search", "word*"): (1, "", NONE_YET),
    ("search", "word*", "--json"): (1, "[]\n", NONE_YET),
    ("stats",): (0, "", NONE_YET),
    ("path", "last"): (1, "", NO_SESSION),
    ("diff", "last"): (1, "", NO_SESSION),
    ("export", "last"): (1, "", NO_SESSION),
    ("export", "--all", "-o", "out"): (
        0,
        "",
        "There is no session to export. To see all sessions: acp-proxy list\n",
    ),
    ("rename", "last", "A title"): (1, "", NO_SESSION),
    ("archive", "last"): (1, "", NO_SESSION),
    ("pin", "last"): (1, "", NO_SESSION),
    ("unpin", "last"): (1, "", NO_SESSION),
    ("unpin",): (0, "", "No session is pinned.\n"),
    ("unarchive",): (0, "", "No session is archived. To archive one: acp-proxy archive SESSION\n"),
    ("continue", "last", "--with", "other"): (1, "", NO_SESSION),
    ("unarchive", "last"): (
        1,
        "",
        "acp-proxy: no session is archived. To see all sessions: acp-proxy list\n",
    ),
    ("delete", "last", "--yes"): (1, "", NO_SESSION),
    ("restore",): (
        0,
        "",
        "No deleted session can be restored.\n",
    ),
    ("restore", "last"): (
        1,
        "",
        "acp-proxy: no deleted session can be restored. To see those that are not deleted: acp-proxy list\n",
    ),
    ("prune", "--keep", "1", "--yes"): (0, "0 sessions deleted.\n", ""),
    ("verify",): (0, "No damage found.\n", ""),
    ("repair",): (0, "Nothing to repair.\n", ""),
    ("redact", "--yes"): (0, "0 masked, in 0 of 0 files.\n", ""),
    ("compress",): (0, "Nothing to compress: no transcript of 256K or more was unused for 7d.\n", ""),
    ("replay", "last"): (1, "", NO_SESSION),
    ("mock-agent", "last"): (1, "", NO_SESSION),
}
"""For each command on an empty store: its exit code, stdout and stderr."""

commands = pytest.mark.parametrize("words", ON_EMPTY_STORE, ids=" ".join)


def run(*words: str) -> Result:
    return invoke(*words)


def test_every_command_on_sessions_is_tested_here() -> None:
    assert {words[0] for words in ON_EMPTY_STORE} - {"mock-agent"} == set(SessionsGroup.commands_by_name) - {
        "import",
        "adopt",
        "blame",  # asks for a file first
        "browse",  # asks for a terminal first
        "web",  # serves until it is interrupted
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


@pytest.mark.parametrize(
    "words", [words for words, (_, _, stderr) in ON_EMPTY_STORE.items() if stderr == NO_SESSION], ids=" ".join
)
def test_without_a_session_to_show_last_gets_the_reason_that_list_has(tmp_path: Path, words: tuple[str, ...]) -> None:
    store = WholeStore(tmp_path / "store")
    store_session(store, "s")
    reason = run("list", "--store", str(store.root)).stderr
    assert reason.startswith("No recorded session has a prompt yet.")
    result = run(*words, "--store", str(store.root))
    assert (result.exit_code, result.stdout, result.stderr) == (1, "", f"acp-proxy: n{reason[1:]}")


def test_last_is_none_of_the_archived_or_deleted_sessions(tmp_path: Path) -> None:
    store = WholeStore(tmp_path / "store")
    store_session(store, "s", ("Mend it", []))
    at_store = ("--store", str(store.root))
    run("archive", "s", *at_store)
    archived = "acp-proxy: all sessions are archived. To see them: acp-proxy list --archived\n"
    assert run("show", "last", *at_store).stderr == archived
    run("delete", "s", "--yes", *at_store)
    deleted = "acp-proxy: all sessions are deleted. To bring one back: acp-proxy restore\n"
    assert run("show", "last", *at_store).stderr == deleted


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
    result = run("list")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "ACP_PROXY_STORE" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_missing_store_is_reported_with_the_usual_one_if_that_has_sessions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual_root = tmp_path / "usual"
    monkeypatch.setattr("acp_proxy.store.store_root.find_default_root", lambda: usual_root)
    monkeypatch.setenv("ACP_PROXY_STORE", str(tmp_path / "mistyped"))
    WholeStore(usual_root)
    assert str(usual_root) not in run("list").stderr
    store_session(WholeStore(usual_root), "a", ("one", []))
    assert f"Without them, you see those in {usual_root}." in run("list").stderr


def test_a_broken_link_is_not_a_missing_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("acp_proxy.store.store_root.find_default_root", lambda: tmp_path / "link")
    (tmp_path / "link").symlink_to(tmp_path / "away")
    result = run("list")
    assert (result.exit_code, result.stdout) == (1, "")
    assert str(tmp_path / "link") in result.stderr
    assert not (tmp_path / "away").exists()


def test_a_file_in_place_of_a_store_is_reported(tmp_path: Path) -> None:
    (tmp_path / "store").touch()
    result = run("list", "--store", str(tmp_path / "store"))
    assert (result.exit_code, result.stdout) == (1, "")
    assert "is not a directory" in result.stderr


def test_import_creates_a_store(tmp_path: Path) -> None:
    path = store_session(WholeStore(tmp_path / "store"), "s", ("Mend it", []))
    other = tmp_path / "new" / "store"
    assert run("import", str(path), "--store", str(other)).exit_code == 0
    assert [row.session_id for row in WholeStore(other).list_all()] == ["s"]
