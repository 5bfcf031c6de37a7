"""What is cold is compressed on request, and the command says what that saved."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from acp_proxy.cli.app import app
from acp_proxy.transcripts.files.names import packed
from tests.stored import Both, chunk, store_session
from tests.transcripts.cold import age

CHUNKS = [chunk(f"word{number}") for number in range(3000)]


@pytest.fixture
def store(tmp_path: Path) -> Both:
    return Both(tmp_path / "store")


@pytest.fixture
def cold(store: Both) -> Path:
    path = store_session(store, "cold", ("hello", CHUNKS))
    age(path, 8)
    store_session(store, "warm", ("hello", CHUNKS), agent="other")
    store.sessions()
    return path


def run(store: Both, *words: str) -> Result:
    result = CliRunner().invoke(app, ["sessions", *words, "--store", str(store.root)])
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result


def test_what_is_cold_is_compressed_and_shown_as_before(store: Both, cold: Path) -> None:
    before, listed = run(store, "show", "cold").stdout, run(store, "list").stdout
    assert run(store, "compact", "--dry-run").stdout.splitlines()[-1].startswith("1 would be compressed: ")
    assert cold.exists()
    result = run(store, "compact")
    assert result.exit_code == 0
    one, total = result.stdout.splitlines()
    assert one.startswith("agent-")
    assert total.startswith("1 compressed: ")
    assert total.endswith(" times smaller")
    assert not cold.exists()
    assert run(store, "show", "cold").stdout == before
    assert run(store, "list").stdout == listed
    assert run(store, "verify").exit_code == 0
    assert run(store, "compact").stdout == "0 compressed.\n"


def test_programs_read_the_figures(store: Both, cold: Path) -> None:
    size = cold.stat().st_size
    told = json.loads(run(store, "compact", "--json").stdout)
    after = packed(cold).stat().st_size
    assert told == {
        "dryRun": False,
        "transcripts": [{"agent": cold.parent.name, "transcript": cold.stem, "bytesBefore": size, "bytes": after}],
        "bytesBefore": size,
        "bytes": after,
    }


@pytest.mark.usefixtures("cold")
def test_only_what_is_meant_is_compressed(store: Both) -> None:
    assert run(store, "compact", "warm").stdout == "0 compressed.\n"
    assert run(store, "compact", "--older-than", "0s", "--min-size", "1M").stdout == "0 compressed.\n"
    assert run(store, "compact", "--agent", "oth", "--older-than", "0s").stdout.splitlines()[-1].startswith("1 compr")


@pytest.mark.parametrize("words", [("--older-than", "soon"), ("--older-than", "7"), ("--min-size", "much")])
def test_what_cannot_be_meant_is_refused(store: Both, words: tuple[str, str]) -> None:
    result = run(store, "compact", *words)
    assert result.exit_code == 2
    assert words[0] in result.output


def test_what_cannot_be_read_is_named_and_the_rest_is_done(store: Both, cold: Path) -> None:
    other = store_session(store, "another", ("hello", CHUNKS))
    store.sessions()
    other.unlink()
    other.symlink_to(cold)
    result = run(store, "compact", "--older-than", "0s")
    assert result.exit_code == 1
    assert "not compressed" in result.output
    assert not cold.exists()
