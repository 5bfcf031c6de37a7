"""What is already kept is masked on request, and the command tells of it without telling the secrets."""

import json
import random
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from acp_proxy.cli.app import app
from tests.stored import Both, chunk, store_session
from torture.planted import planted

TOKEN = planted("GitHub token", random.Random(0)).secret


@pytest.fixture
def store(tmp_path: Path) -> Both:
    store = Both(tmp_path / "store")
    store_session(store, "first", (f"use {TOKEN}", [chunk(TOKEN[:9]), chunk(TOKEN[9:]), chunk(" and INTERN-1")]))
    store_session(store, "second", ("hello", [chunk(TOKEN)]), agent="other")
    return store


def run(store: Both, *words: str, **environment: str) -> Result:
    result = CliRunner().invoke(app, ["sessions", "redact", *words, "--store", str(store.root)], env=environment)
    assert result.exception is None or isinstance(result.exception, SystemExit)
    assert TOKEN not in result.output
    return result


def kept(store: Both) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(store.root.rglob("*.jsonl")))


def test_nothing_of_it_stays_in_the_index(store: Both) -> None:
    assert len(store.sessions()) == 2
    run(store)
    assert not [path for path in store.root.iterdir() if path.is_file() and TOKEN.encode() in path.read_bytes()]
    assert [row.title for row in store.sessions() if row.session == "first"] == ["use [redacted]" + "*" * 30]


def test_everything_is_redacted_where_no_session_is_named(store: Both) -> None:
    result = run(store)
    assert result.exit_code == 0
    first, second, total = result.stdout.splitlines()
    assert first.startswith("transcripts/agent-")
    assert first.endswith(": 2 x GitHub token")
    assert second.endswith(": 1 x GitHub token")
    assert total == "3 masked, in 2 of 2 files."
    assert TOKEN.encode() not in kept(store)
    assert TOKEN[9:].encode() not in kept(store)
    assert run(store).stdout == "0 masked, in 0 of 2 files.\n"


def test_a_dry_run_changes_nothing(store: Both) -> None:
    before = kept(store)
    assert run(store, "--dry-run").stdout.splitlines()[-1] == "3 would be masked, in 2 of 2 files."
    assert kept(store) == before


@pytest.mark.parametrize("words", [["second"], ["--agent", "other"], ["sec", "second"]])
def test_only_what_is_named_is_redacted(store: Both, words: list[str]) -> None:
    assert run(store, *words).stdout.splitlines()[-1] == "1 masked, in 1 of 1 files."
    assert {row.session: row.title for row in store.sessions()}["first"] == f"use {TOKEN}"


def test_a_program_can_read_what_was_found(store: Both) -> None:
    for dry in ("--dry-run", "--json"):
        told = json.loads(run(store, "--json", dry).stdout)
        assert told["dryRun"] == (dry == "--dry-run")
        assert [each["masked"] for each in told["files"]] == [{"GitHub token": 2}, {"GitHub token": 1}]
        assert {Path(each["file"]) for each in told["files"]} <= set(store.root.rglob("*.jsonl"))


@pytest.mark.parametrize("by_variable", [False, True])
def test_the_users_patterns_count_too(store: Both, tmp_path: Path, by_variable: bool) -> None:
    patterns = tmp_path / "patterns"
    patterns.write_text("# of our own\n\nINTERN-\\d\n")
    result = run(store, ACP_PROXY_REDACT=str(patterns)) if by_variable else run(store, "--redact", str(patterns))
    assert "2 x GitHub token, 1 x own pattern 1" in result.stdout
    assert b"INTERN" not in kept(store)


def test_redaction_that_is_off_while_recording_is_not_off_where_it_is_asked_for(store: Both) -> None:
    assert run(store, ACP_PROXY_REDACT="off").stdout.splitlines()[-1] == "3 masked, in 2 of 2 files."


def test_a_bad_pattern_or_session_redacts_nothing(store: Both, tmp_path: Path) -> None:
    patterns = tmp_path / "patterns"
    patterns.write_text("good\n(bad\n")
    before = kept(store)
    for words in (["--redact", str(patterns)], ["--redact", "no-such-file"], ["no-such-session"], ["first", "no"]):
        result = run(store, *words)
        assert result.exit_code == (2 if "--redact" in words else 1)
        assert result.stderr.startswith("acp-proxy: ")
    assert kept(store) == before


def test_a_file_that_cannot_be_written_is_named_and_the_others_are_redacted(store: Both) -> None:
    first, second = (next(store.root.glob(f"transcripts/{agent}-*/*.jsonl")) for agent in ("agent", "other"))
    target = first.with_name("target")
    first.rename(target)
    first.symlink_to(target)
    result = run(store)
    assert result.exit_code == 1
    assert f"not redacted: {first.relative_to(store.root)}" in result.stderr
    assert TOKEN.encode() not in second.read_bytes()
    assert TOKEN.encode() in target.read_bytes()
