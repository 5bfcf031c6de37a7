"""Completion offers sessions, agents, editors and options. It never fails or offers text that a shell evaluates."""

import gc
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner

from acp_proxy.cli.app import RootGroup, SessionsGroup, app
from acp_proxy.sessions.completion_query import NEWEST_QUERY
from acp_proxy.store.layout import Layout
from acp_proxy.tools.editors.command import NAMES
from tests.stored import EPOCH, WholeStore, store_session
from tests.waiting import SECONDS

HOSTILE = "\\\" <(touch x) '$(touch y)' `z`; [red]ünder|&\x1b[2J:\n{1} 1.5%"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ACP_PROXY_STORE", str(tmp_path / "store"))
    return tmp_path / "store"


@pytest.fixture
def store(root: Path) -> WholeStore:
    """A store with three indexed sessions of two agents."""
    store = WholeStore(root)
    store_session(store, "aaa-1", ("Mend it", []), agent="one", at=EPOCH)
    store_session(store, "aab-2", ("Break it", []), agent="other one", at=EPOCH + 60)
    store_session(store, "bbb-3", ("Paint it", []), agent="one", at=EPOCH + 120)
    store_session(store, "never-prompted", agent="one")
    WholeStore(root).list_all()  # so that this store's index stays closed: Windows removes no file that is open
    return store


def complete_line(line: str) -> list[list[str]]:
    """The completions for fish, with their help texts."""
    environment = {
        "_ACP_PROXY_COMPLETE": "complete_fish",
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
        "_TYPER_COMPLETE_ARGS": f"acp-proxy {line}",
    }
    result = CliRunner().invoke(app, [], env=environment, prog_name="acp-proxy")
    assert (result.exit_code, result.stderr) == (0, "")
    return [each.split("\t") for each in result.stdout.splitlines() if each]


def words(line: str) -> list[str]:
    return [each[0] for each in complete_line(line)]


@pytest.mark.parametrize("command", ["show", "rename", "delete", "path", "compress", "redact", "verify", "repair"])
def test_sessions_are_offered_newest_first_with_their_titles(store: WholeStore, command: str) -> None:
    assert complete_line(f"{command} ") == [
        ["last", "the newest"],
        ["bbb-3", "Paint it"],
        ["aab-2", "Break it"],
        ["aaa-1", "Mend it"],
    ]


@pytest.mark.parametrize("command", ["replay", "mock-agent"])
def test_files_are_offered_with_sessions_if_the_argument_may_be_a_file(
    store: WholeStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "aa-folder").mkdir()
    for name in ("aa.jsonl", "aa-folder/old.jsonl.zst", "aa.txt", "aa$(touch x).jsonl", "bb.jsonl"):
        (tmp_path / name).touch()
    assert words(f"{command} aa") == ["aab-2", "aaa-1", "aa-folder/", "aa.jsonl"]
    assert words(f"{command} aa-folder/") == ["aa-folder/old.jsonl.zst"]
    assert words(f"{command} no-folder/") == words(f"{command} $(ls)/") == []


def test_ids_are_found_without_reading_and_sorting_the_whole_index(store: WholeStore) -> None:
    with closing(sqlite3.connect(Layout(store.root).index_path)) as index:
        plan = index.execute(f"EXPLAIN QUERY PLAN {NEWEST_QUERY}", ("one", True, b"", 100, b"", b"\xff")).fetchall()
    assert [row[3] for row in plan if "transcripts" in row[3]] == [
        "SEARCH transcripts USING PRIMARY KEY (agent=? AND name=?)",
        "SEARCH transcripts USING COVERING INDEX listing (agent=? AND listed=?)",
    ]


def test_the_users_title_is_offered_instead_of_the_agents(store: WholeStore) -> None:
    [row] = [row for row in store.list_all() if row.session_id == "aaa-1"]
    store.set_listed_title(row, "Mine")
    assert complete_line("show aaa") == [["aaa-1", "Mine"]]


def test_restorable_sessions_are_offered_latest_first(store: WholeStore) -> None:
    assert words("restore aa") == []
    for session in ("aaa-1", "aab-2"):
        [row] = [row for row in store.list_all() if row.session_id == session]
        store.set_listed_title(row, "Mine")
        store.delete_listed(row, soft=True)
    assert complete_line("restore ") == [["last", "the latest"], ["aab-2", "Mine"], ["aaa-1", "Mine"]]
    assert words("restore aaa") == ["aaa-1"]
    assert words("show aa") == []
    (store.root / "transcripts" / row.agent_folder / "state.jsonl").unlink()
    (store.root / "transcripts" / row.agent_folder / "state.jsonl").mkdir()
    assert words("restore aaa") == []


def test_sessions_are_offered_by_their_beginning_and_agent(store: WholeStore) -> None:
    assert words("show aa") == ["aab-2", "aaa-1"]
    assert words("show l") == ["last"]
    assert words("show nothing") == []
    assert words("show --agent other aa") == ["aab-2"]


def test_an_older_session_of_an_id_is_offered_with_its_number(store: WholeStore) -> None:
    store_session(store, "aaa-1", ("Again", []), agent="one", at=EPOCH + 600)
    store.list_all()
    assert complete_line("show aaa") == [["aaa-1", "Again"], ["aaa-1~1", "Mend it"]]
    assert words("show aaa-1~") == ["aaa-1~1"]


def test_the_store_option_on_the_line_is_used(store: WholeStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ACP_PROXY_STORE")
    assert words(f"show --store {store.root} aaa") == ["aaa-1"]


def test_agents_are_offered_in_the_form_that_the_option_takes(store: WholeStore) -> None:
    assert words("list --agent ") == ["one", "other-one"]
    assert words("list --agent ot") == ["other-one"]
    store_session(store, "ccc-4", ("Read it", []), agent="@scope/third")
    store.list_all()
    assert words("list --agent ") == ["one", "other-one", "third"]
    assert words("list --agent sc") == ["scope-third"]
    assert words("show --agent third cc") == words("show --agent scope cc") == ["ccc-4"]
    assert words("show --agent on aa") == ["aab-2", "aaa-1"]
    assert words("show --agent one aa") == ["aaa-1"]


def test_editors_and_the_choices_of_options_are_offered() -> None:
    assert words("editor ") == NAMES
    assert words("run --load ") == ["auto", "agent", "store"]
    assert words("run --load s") == ["store"]


def test_config_offers_what_can_come_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "patterns").touch()
    (tmp_path / "more").mkdir()
    assert words("config ")[:3] == ["get", "set", "unset"]
    assert words("config red") == words("config set red") == words("config get red") == ["redact"]
    assert "set" not in words("config set ")
    assert words("config set redact ") == ["off", "keys", "more/", "patterns"]
    assert words("config set redact k") == ["keys"]
    assert words("config set load ") == ["auto", "agent", "store"]
    assert words("config set recall ") == ["false", "true"]
    assert words("config set registry p") == ["patterns"]
    for line in ("config set grace ", "config set nothing ", "config unset redact ", "config redact "):
        assert words(line) == []
    assert words("config set redact keys ") == []


def test_words_after_the_agents_command_are_not_completed() -> None:
    assert "--load" in words("run --")
    assert "--json" in words("doctor --")
    for line in ("run npx --", "run --load store npx --", "editor zed npx --", "doctor npx --"):
        assert words(line) == []


def test_text_that_a_shell_would_evaluate_is_not_offered(store: WholeStore) -> None:
    store_session(store, "hostile", (HOSTILE, []), at=EPOCH + 600)
    store_session(store, "$(touch z)", ("Mend it", []), at=EPOCH + 700)
    store.list_all()
    environment = {"_ACP_PROXY_COMPLETE": "complete_zsh", "_TYPER_COMPLETE_ARGS": "acp-proxy show "}
    stdout = CliRunner().invoke(app, [], env=environment, prog_name="acp-proxy").stdout
    assert '"hostile":"touch x touch y z red ünder"' in stdout
    assert "(touch" not in stdout
    assert "aaa-1" in stdout


def test_shells_that_only_show_a_title_get_its_colons_and_parentheses(store: WholeStore) -> None:
    store_session(store, "titled", ("feat(cli): mend it; $(touch x)", []), at=EPOCH + 600)
    store.list_all()
    assert ["titled", "feat(cli): mend it (touch x)"] in complete_line("show ")


def damage_missing_index(root: Path) -> None:
    (root / "index.sqlite3").unlink()


def damage_garbage(root: Path) -> None:
    (root / "index.sqlite3").write_bytes(b"garbage" * 1000)
    (root / "index.sqlite3-wal").unlink(missing_ok=True)


def damage_a_directory(root: Path) -> None:
    (root / "index.sqlite3").unlink()
    (root / "index.sqlite3").mkdir()


@pytest.mark.parametrize("damage", [damage_missing_index, damage_garbage, damage_a_directory])
def test_a_broken_store_offers_nothing_and_is_not_changed(store: WholeStore, damage: object) -> None:
    assert callable(damage)
    damage(store.root)
    before = sorted(store.root.rglob("*"))
    assert words("show ") == ["last"]
    assert words("list --agent ") == ["one", "other-one"]
    assert sorted(store.root.rglob("*")) == before


def test_a_missing_store_is_not_created(root: Path) -> None:
    assert words("show ") == ["last"]
    assert words("list --agent ") == []
    assert not root.exists()
    root.write_text("")
    assert words("show ") == ["last"]
    assert words("list --agent ") == []


@pytest.mark.parametrize(("line", "word"), [("show bb", "bbb-3\tPaint it"), ("run --load a", "auto\nagent")])
def test_completion_imports_nothing_slow(store: WholeStore, line: str, word: str) -> None:
    environment = {**os.environ, "_ACP_PROXY_COMPLETE": "complete_fish", "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    environment["_TYPER_COMPLETE_ARGS"] = f"acp-proxy {line}"
    command = [sys.executable, "-X", "importtime", "-m", "acp_proxy"]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=SECONDS, check=True)
    assert result.stdout.strip() == word
    loaded = {each.rsplit("|", 1)[1].strip() for each in result.stderr.splitlines()}
    assert not {"rich", "anyio", "asyncio", "psutil", "pygments", "markdown_it"} & loaded


@pytest.mark.parametrize("shell", ["fish", "zsh", "bash", "powershell"])
def test_all_commands_are_offered_in_every_shell(shell: str) -> None:
    """To offer them imports each one, by the program itself."""
    environment = {**os.environ, "_ACP_PROXY_COMPLETE": f"complete_{shell}", "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    for group, table in (("", RootGroup.commands_by_name), ("sessions ", SessionsGroup.commands_by_name)):
        line = f"acp-proxy {group}"
        environment |= {"_TYPER_COMPLETE_ARGS": line, "_TYPER_COMPLETE_WORD_TO_COMPLETE": "", "COMP_WORDS": line}
        environment["COMP_CWORD"] = str(len(line.split()))
        command = [sys.executable, "-m", "acp_proxy"]
        result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=SECONDS)
        assert (result.returncode, result.stderr) == (0, "")
        assert [name for name in table if name not in result.stdout] == []


@pytest.mark.parametrize("command", RootGroup.commands_by_name)
def test_every_command_offers_its_options(command: str) -> None:
    assert "--help" in words(f"{command} --")


def test_reading_the_index_leaves_no_files_behind(root: Path) -> None:
    store = WholeStore(root)
    store_session(store, "aaa-1", ("Mend it", []))
    store.list_all()
    del store
    gc.collect()
    before = sorted(root.rglob("*"))
    assert not (root / "index.sqlite3-wal").exists()
    assert words("show aa") == ["aaa-1"]
    assert sorted(root.rglob("*")) == before


def test_a_session_is_offered_while_another_process_writes_the_index(store: WholeStore) -> None:
    """The index has a log beside it with the changes of the other process."""
    store.list_all()
    assert (store.root / "index.sqlite3-wal").exists()
    store_session(store, "ccc-4", ("More", []), at=EPOCH + 900)
    store.list_all()
    assert words("show cc") == ["ccc-4"]
