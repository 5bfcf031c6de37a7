"""``compress`` compresses old, large transcripts and reports what it saved."""

import errno
import json
from pathlib import Path

import pytest

from acp_proxy.sessions.command_store import CommandStore
from acp_proxy.transcript.file_names import compressed_path
from tests.cli.commands import run
from tests.store.compressible import age
from tests.stored import WholeStore, chunk, store_session

CHUNKS = [chunk(f"word{number}") for number in range(3000)]


@pytest.fixture
def cold(store: WholeStore) -> Path:
    path = store_session(store, "cold", ("hello", CHUNKS))
    age(path, 8)
    store_session(store, "warm", ("hello", CHUNKS), agent="other")
    store.list_all()
    return path


def test_old_transcripts_are_compressed_and_shown_as_before(store: WholeStore, cold: Path) -> None:
    before, listed = run(store, "show", "cold").stdout, run(store, "list").stdout
    assert run(store, "compress", "--dry-run").stdout.splitlines()[-1].startswith("1 would be compressed: ")
    assert cold.exists()
    result = run(store, "compress")
    assert result.exit_code == 0
    one, total = result.stdout.splitlines()
    assert one.startswith("cold  hello: ")
    assert total.startswith("1 compressed: ")
    assert total.endswith(" times smaller")
    assert not cold.exists()
    assert run(store, "show", "cold").stdout == before
    assert run(store, "list").stdout == listed
    assert run(store, "verify").exit_code == 0
    nothing = "Nothing to compress: no transcript of 256K or more was unused for 7d.\n"
    assert run(store, "compress").stdout == nothing


def test_json_has_the_figures(store: WholeStore, cold: Path) -> None:
    size = cold.stat().st_size
    told = json.loads(run(store, "compress", "--json").stdout)
    after = compressed_path(cold).stat().st_size
    assert told == {
        "dryRun": False,
        "transcripts": [{"agent": cold.parent.name, "transcript": cold.stem, "bytesBefore": size, "bytes": after}],
        "bytesBefore": size,
        "bytes": after,
    }


@pytest.mark.usefixtures("cold")
def test_only_matching_transcripts_are_compressed(store: WholeStore) -> None:
    assert run(store, "compress", "warm").stdout.startswith("Nothing to compress: ")
    stdout = run(store, "compress", "--older-than", "0s", "--min-size", "1M").stdout
    assert stdout == "Nothing to compress: no transcript of 1M or more was unused for 0s.\n"
    assert run(store, "compress", "--agent", "oth", "--older-than", "0s").stdout.splitlines()[-1].startswith("1 compr")


@pytest.mark.parametrize("words", [("--older-than", "soon"), ("--older-than", "7"), ("--min-size", "much")])
def test_wrong_values_are_refused(store: WholeStore, words: tuple[str, str]) -> None:
    result = run(store, "compress", *words)
    assert result.exit_code == 2
    assert words[0] in result.output


def test_where_nothing_could_be_compressed_only_the_reason_is_said(
    store: WholeStore, cold: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(CommandStore, "compress", fail)
    result = run(store, "compress")
    assert (result.exit_code, result.stdout, cold.exists()) == (1, "", True)
    assert "not compressed" in result.stderr
    assert "No space left on device. Fix this problem" in result.stderr


def test_an_unreadable_file_is_named_and_the_others_are_compressed(store: WholeStore, cold: Path) -> None:
    other = store_session(store, "another", ("hello", CHUNKS))
    store.list_all()
    other.unlink()
    other.symlink_to(cold)
    result = run(store, "compress", "--older-than", "0s")
    assert result.exit_code == 1
    assert "not compressed" in result.output
    assert not cold.exists()
