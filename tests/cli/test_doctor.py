"""The doctor says whether the store can be used, and what to do if not."""

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from acp_proxy.cli.app import app
from acp_proxy.transcripts.store import Store
from tests.stored import store_session


def doctor(root: Path) -> Result:
    result = CliRunner().invoke(app, ["doctor", "--store", str(root)])
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result


def test_a_store_in_order_is_counted(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    store_session(store, "a", ("one", []), agent="one")
    store_session(store, "b", ("two", []), agent="other")
    store_session(store, "never prompted", agent="other")
    result = doctor(store.root)
    assert result.exit_code == 0
    facts = dict(line.split(maxsplit=1) for line in result.stdout.splitlines())
    assert facts["store"] == str(store.root)
    assert (facts["mode"], facts["agents"], facts["sessions"]) == ("0700", "2", "2")


def test_a_transcript_that_cannot_be_read_is_named_and_the_rest_is_counted(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    store_session(store, "a", ("one", []))
    newer, directory = (store_session(store, session, ("two", [])) for session in ("b", "c"))
    newer.write_bytes(newer.read_bytes().replace(b'"acp-transcript":1', b'"acp-transcript":9'))
    directory.unlink()
    directory.mkdir()
    result = doctor(store.root)
    assert result.exit_code == 1
    assert {str(path) in result.stdout for path in (newer, directory)} == {True}
    assert "EISDIR" in result.stdout
    assert "sessions  1" in result.stdout


@pytest.mark.parametrize("mode", [0o720, 0o702, 0o777])
def test_a_store_that_others_can_write_to_is_refused_with_the_command_that_mends_it(tmp_path: Path, mode: int) -> None:
    root = tmp_path / "store"
    root.mkdir()
    root.chmod(mode)
    result = doctor(root)
    assert result.exit_code == 1
    assert f"chmod 700 {root}" in result.stderr


def test_a_file_where_the_store_should_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "store").write_text("")
    result = doctor(tmp_path / "store")
    assert result.exit_code == 1
    assert str(tmp_path / "store") in result.stderr
