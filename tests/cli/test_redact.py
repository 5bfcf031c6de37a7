"""``redact`` masks recorded transcripts and reports it without showing the secrets."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from acp_proxy.errors import Unreadable
from acp_proxy.sessions.command_store import CommandStore
from acp_proxy.tools.maintenance.verify import verify_store
from acp_proxy.tools.redact import redact_files
from acp_proxy.tools.search.query import make_query
from acp_proxy.tools.search.search import SearchRequest, search_store
from tests.cli.commands import invoke
from tests.cli.terminal import run_on_terminal
from tests.redaction.made_up_secrets import plant
from tests.stored import WholeStore, chunk, store_session, store_with_subagents

TOKEN = plant("GitHub token", random.Random(0)).secret


@pytest.fixture
def store(tmp_path: Path) -> WholeStore:
    store = WholeStore(tmp_path / "store")
    store_session(store, "first", (f"use {TOKEN}", [chunk(TOKEN[:9]), chunk(TOKEN[9:]), chunk(" and INTERN-1")]))
    store_session(store, "second", ("hello", [chunk(TOKEN)]), agent="other")
    return store


def invoke_redact(store: WholeStore, *words: str, **environment: str) -> Result:
    return invoke("redact", *words, "--store", str(store.root), variables=environment)


def run(store: WholeStore, *words: str, **environment: str) -> Result:
    words = words if "--dry-run" in words else (*words, "--yes")
    result = invoke_redact(store, *words, **environment)
    assert result.exception is None or isinstance(result.exception, SystemExit)
    assert TOKEN not in result.output
    return result


def read_transcripts(store: WholeStore) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(store.root.rglob("*.jsonl")))


def test_the_index_forgets_masked_text(store: WholeStore) -> None:
    assert len(store.list_all()) == 2
    run(store)
    assert not [path for path in store.root.iterdir() if path.is_file() and TOKEN.encode() in path.read_bytes()]
    assert [row.title for row in store.list_all() if row.session_id == "first"] == ["use [redacted]"]


def test_without_a_session_everything_is_redacted(store: WholeStore) -> None:
    result = run(store)
    assert result.exit_code == 0
    first, second, total = result.stdout.splitlines()
    assert first == "first   agent  use [redacted]: 2 x GitHub token"
    assert second == "second  other  hello: 1 x GitHub token"
    assert total == "3 masked, in 2 of 2 files."
    assert TOKEN.encode() not in read_transcripts(store)
    assert TOKEN[9:].encode() not in read_transcripts(store)
    assert run(store).stdout == "0 masked, in 0 of 2 files.\n"


def test_a_dry_run_changes_nothing(store: WholeStore) -> None:
    before = read_transcripts(store)
    assert run(store, "--dry-run", "--backup", "nowhere").stdout.splitlines() == [
        "first   agent  use [redacted]: 2 x GitHub token",
        "second  other  hello: 1 x GitHub token",
        "3 would be masked, in 2 of 2 files.",
    ]
    assert read_transcripts(store) == before
    assert not Path("nowhere").exists()


# --- the question


def run_and_answer(store: WholeStore, *words: str, answer: str, status: int = 0) -> str:
    text = run_on_terminal("redact", *words, "--store", str(store.root), answer=answer, status=status, columns=200)
    assert TOKEN not in text
    return text


def test_the_question_says_what_would_be_masked_in_which_session(store: WholeStore, tmp_path: Path) -> None:
    before = read_transcripts(store)
    text = run_and_answer(store, answer="n\n", status=1)
    assert "first   agent  use [redacted]: 2 x GitHub token\n" in text
    assert "second  other  hello: 1 x GitHub token\n" in text
    assert "3 would be masked, in 2 of 2 files.\nThere will be no backup; --backup DIR makes one.\n" in text
    assert "Mask these secrets permanently? [y/N]: " in text
    run_and_answer(store, "--backup", str(tmp_path / "originals"), answer="\n", status=1)
    assert read_transcripts(store) == before
    assert not (tmp_path / "originals").exists()
    assert run_and_answer(store, answer="y\n").endswith("3 masked, in 2 of 2 files.\n")
    assert TOKEN.encode() not in read_transcripts(store)


def test_nothing_is_asked_if_nothing_is_found(store: WholeStore) -> None:
    run(store)
    assert run_and_answer(store, answer="").endswith("0 masked, in 0 of 2 files.\n")


@pytest.mark.parametrize("words", [[], ["--json"], ["--backup", "originals"]])
def test_without_a_terminal_it_masks_nothing_unless_yes_is_given(store: WholeStore, words: list[str]) -> None:
    before = read_transcripts(store)
    result = invoke_redact(store, *words)
    is_wrong = words == ["--json"]
    assert (result.exit_code, result.stdout.strip()) == (2 if is_wrong else 1, "")
    no_answer = "stdin is not a terminal, so there is no answer. To skip the question: --yes\n"  # as delete says it
    assert result.stderr.endswith("Add --dry-run or --yes.\n" if is_wrong else no_answer)
    assert read_transcripts(store) == before


def test_the_beginning_of_a_secret_in_a_cut_title_is_not_shown(store: WholeStore) -> None:
    store_session(store, "cut", (f"{'x' * 60} {'y' * 30}:{TOKEN}", []))
    text = run(store, "cut", "--dry-run").stdout
    assert "x…: 1 x GitHub token" in text
    assert TOKEN[:8] not in text


# --- originals


def read_all(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*.jsonl")}


def test_a_backup_has_the_originals_of_all_changed_files(store: WholeStore, tmp_path: Path) -> None:
    store_session(store, "harmless", ("hello", []))
    store.delete_listed(next(row for row in store.list_all() if row.session_id == "second"), soft=True)
    before, originals = read_all(store.root), tmp_path / "new" / "originals"
    result = run(store, "--backup", str(originals))
    assert result.stdout.splitlines()[-1] == f"The originals are in {originals}. They contain the secrets."
    after = read_all(store.root)
    assert read_all(originals) == {name: data for name, data in before.items() if after[name] != data}
    assert len(read_all(originals)) == 2
    assert {path.stat().st_mode & 0o077 for path in (tmp_path / "new").rglob("*")} == {0}


def test_originals_are_not_put_into_the_store_or_among_other_files(store: WholeStore, tmp_path: Path) -> None:
    before = read_transcripts(store)
    (tmp_path / "file").touch()
    for place in (store.root / "backups", tmp_path, tmp_path / "file"):
        result = run(store, "--backup", str(place))
        assert (result.exit_code, result.stdout) == (2, "")
        assert "Give another directory." in result.stderr
    (tmp_path / "empty").mkdir()
    result = run(store, "--backup", str(tmp_path / "file" / "inner"))
    assert (result.exit_code, result.stdout) == (1, "")
    assert "Choose another place." in result.stderr
    assert read_transcripts(store) == before
    assert run(store, "--backup", str(tmp_path / "empty")).exit_code == 0


@pytest.mark.parametrize("words", [["second"], ["--agent", "other"], ["sec", "second"]])
def test_only_the_given_sessions_are_redacted(store: WholeStore, words: list[str]) -> None:
    assert run(store, *words).stdout.splitlines()[-1] == "1 masked, in 1 of 1 files."
    assert {row.session_id: row.title for row in store.list_all()}["first"] == f"use {TOKEN}"


def copy_session(store: WholeStore, session: str) -> str:
    """A copy of a session for another agent to continue. Its id."""
    [row] = [row for row in store.list_all() if row.session_id == session]
    return store.copy_for_agent(row, "third", {})


def store_fork(store: WholeStore, parent: str, session: str) -> None:
    store_session(store, session, ("go on", []), parent=parent)


@pytest.mark.parametrize("chosen", ["first", "fork", "copy of the fork", "copy"])
def test_copies_and_forks_are_masked_with_a_session_and_it_with_them(store: WholeStore, chosen: str) -> None:
    store_fork(store, "first", "fork")
    ids = {"copy": copy_session(store, "first"), "copy of the fork": copy_session(store, "fork")}
    run(store, ids.get(chosen, chosen))
    left = {row.session_id for row in store.list_all() if TOKEN.encode() in store.find_path(row).read_bytes()}
    assert left == {"second"}
    run(store, "second")
    assert TOKEN.encode() not in read_transcripts(store)


def test_the_sessions_of_subagents_are_masked_with_the_session_that_they_worked_for(store: WholeStore) -> None:
    store_with_subagents(store, "parent", TOKEN)
    assert run(store, "parent").stdout.splitlines()[-1] == "2 masked, in 2 of 3 files."
    run(store, "first")
    run(store, "second")
    assert TOKEN.encode() not in read_transcripts(store)


def test_a_session_that_is_soft_deleted_in_the_meantime_is_masked_too(
    store: WholeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def delete_and_redact(*args: Any, **options: Any) -> Any:
        for row in store.list_all():
            store.delete_listed(row, soft=True)
        return redact_files.redact_stored(*args, **options)

    monkeypatch.setattr("acp_proxy.tools.redact.command.redact_stored", delete_and_redact)
    assert run(store).stdout.splitlines()[-1] == "3 masked, in 2 of 4 files."
    assert TOKEN.encode() not in read_transcripts(store)
    assert len(store.list_deleted()) == 2


def test_a_session_that_is_soft_deleted_and_restored_in_the_meantime_is_masked_too(
    store: WholeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    has_begun = False

    def delete_and_restore(whole_store: Any, path: Path, *args: Any, **options: Any) -> Any:
        nonlocal has_begun
        if path.name.startswith("second") and not has_begun:
            has_begun = True
            [row] = [row for row in store.list_all() if row.session_id == "second"]
            store.delete_listed(row, soft=True)
            try:
                return redact_files.redact_stored(whole_store, path, *args, **options)
            finally:
                store.restore(*store.list_deleted())
        return redact_files.redact_stored(whole_store, path, *args, **options)

    monkeypatch.setattr("acp_proxy.tools.redact.command.redact_stored", delete_and_restore)
    run(store)
    assert has_begun
    assert TOKEN.encode() not in read_transcripts(store)


def test_what_was_masked_is_told_also_if_the_index_cannot_be_written(
    store: WholeStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise Unreadable("ENOSPC")

    monkeypatch.setattr(CommandStore, "reindex", fail)
    result = run(store, "--backup", str(tmp_path / "originals"))
    assert "3 masked, in 2 of 2 files." in result.stdout
    assert f"The originals are in {tmp_path / 'originals'}." in result.stdout
    assert "not redacted: titles in the index (ENOSPC). Fix this problem, then run the command again." in result.stderr
    assert result.exit_code == 1


def test_a_pattern_that_matches_spaces_leaves_erased_titles_alone(store: WholeStore, tmp_path: Path) -> None:
    patterns = tmp_path / "patterns"
    patterns.write_text('[^"{}]{30,}\n')
    for title in ("Mine", None):
        for row in store.list_all():
            store.set_listed_title(row, title)
    for _ in range(2):
        run(store, "--redact", str(patterns))
        assert list(verify_store(store)) == []


def test_soft_deleted_copies_are_masked_and_titles_of_copies(store: WholeStore) -> None:
    [row] = [row for row in store.list_all() if row.session_id == "first"]
    store.set_listed_title(row, f"Mine {TOKEN}")
    copy = copy_session(store, "first")
    [theirs] = [row for row in store.list_all() if row.session_id == copy]
    assert theirs.title == f"Mine {TOKEN}"
    store.delete_listed(theirs, soft=True)
    assert run(store, "first").stdout.splitlines()[-1] == "6 masked, in 4 of 4 files."
    run(store, "second")
    assert TOKEN.encode() not in read_transcripts(store)
    assert store.restore(store.list_deleted()[0]).title == "Mine [redacted]"


def test_a_title_in_the_journal_leaves_the_search_tables_of_other_sessions(store: WholeStore) -> None:
    store_session(store, "harmless", ("hello", []))
    for session in ("first", "harmless"):
        [row] = [row for row in store.list_all() if row.session_id == session]
        store.set_listed_title(row, f"Mine {TOKEN}")
    assert len(search_store(store, SearchRequest(make_query(["mine"]), store.list_agents())).hits) == 2
    run(store, "first")
    run(store, "second")
    assert not [path for path in store.root.rglob("*") if path.is_file() and TOKEN.encode() in path.read_bytes()]


def test_a_pattern_that_matches_names_of_transcripts_changes_only_titles_in_the_journal(
    store: WholeStore, tmp_path: Path
) -> None:
    patterns = tmp_path / "patterns"
    patterns.write_text("[0-9a-f]{8,}\n")
    [row] = [row for row in store.list_all() if row.session_id == "first"]
    store.delete_listed(row, soft=True)
    store_session(store, "harmless", ("hello", []))
    [row] = [row for row in store.list_all() if row.session_id == "harmless"]
    store.set_listed_title(row, "Mine deadbeef01")
    before = store.read_state(row.agent_folder).deleted
    run(store, "--redact", str(patterns))
    assert [deleted.session_id for deleted in store.list_deleted()] == ["first"]
    assert store.read_state(row.agent_folder).deleted == before != {}
    assert {row.title for row in store.list_all() if row.session_id == "harmless"} == {"Mine [redacted]"}


def test_json_has_the_number_of_masked_secrets(store: WholeStore) -> None:
    for dry in ("--dry-run", "--json"):
        told = json.loads(run(store, "--json", dry).stdout)
        assert told["dryRun"] == (dry == "--dry-run")
        assert [file["masked"] for file in told["files"]] == [{"GitHub token": 2}, {"GitHub token": 1}]
        assert {Path(file["file"]) for file in told["files"]} <= set(store.root.rglob("*.jsonl"))
        assert ([file["sessionId"] for file in told["files"]], told["backup"]) == (["first", "second"], None)


@pytest.mark.parametrize("by_variable", [False, True])
def test_the_users_patterns_apply_too(store: WholeStore, tmp_path: Path, by_variable: bool) -> None:
    patterns = tmp_path / "patterns"
    patterns.write_text("# of our own\n\nINTERN-\\d\n")
    result = run(store, ACP_PROXY_REDACT=str(patterns)) if by_variable else run(store, "--redact", str(patterns))
    assert "2 x GitHub token, 1 x own pattern 1" in result.stdout
    assert b"INTERN" not in read_transcripts(store)


def test_the_command_redacts_even_if_recording_does_not(store: WholeStore) -> None:
    assert run(store, ACP_PROXY_REDACT="off").stdout.splitlines()[-1] == "3 masked, in 2 of 2 files."


def test_a_bad_pattern_or_session_redacts_nothing(store: WholeStore, tmp_path: Path) -> None:
    patterns = tmp_path / "patterns"
    patterns.write_text("good\n(bad\n")
    before = read_transcripts(store)
    for words in (["--redact", str(patterns)], ["--redact", "no-such-file"], ["no-such-session"], ["first", "no"]):
        result = run(store, *words)
        assert result.exit_code == (2 if "--redact" in words else 1)
        assert result.stderr.startswith("acp-proxy: ")
    assert read_transcripts(store) == before


def test_an_unwritable_file_is_named_and_the_others_are_redacted(store: WholeStore) -> None:
    first, second = (next(store.root.glob(f"transcripts/{agent}-*/*.jsonl")) for agent in ("agent", "other"))
    target = first.with_name("target")
    first.rename(target)
    first.symlink_to(target)
    result = run(store)
    assert result.exit_code == 1
    assert f"not redacted: {first.relative_to(store.root)}" in result.stderr
    assert TOKEN.encode() not in second.read_bytes()
    assert TOKEN.encode() in target.read_bytes()
