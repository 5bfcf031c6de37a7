"""``-o`` writes a whole file or none, and says which place cannot be written."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from acp_proxy.cli.output_files import make_directory, write_file
from acp_proxy.errors import AlreadyThere, NotWritable
from acp_proxy.store.proxy_store import ProxyStore
from tests import forked
from tests.cli.commands import get_stdout
from tests.stored import WholeStore, chunk, store_session
from tests.waiting import SECONDS

FULL = Path("/dev/full")


def broken() -> Iterator[bytes]:
    yield b"the beginning"
    raise OSError(28, "No space left on device")


def test_an_incomplete_file_is_removed(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No space"):
        write_file(tmp_path / "a", broken(), force=False)
    assert list(tmp_path.iterdir()) == []


def test_a_failed_replacement_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("mine")
    with pytest.raises(AlreadyThere):
        write_file(path, iter([b"other"]), force=False)
    with pytest.raises(OSError, match="No space"):
        write_file(path, broken(), force=True)
    assert [(found.name, found.read_text()) for found in tmp_path.iterdir()] == [("a", "mine")]
    write_file(path, iter([b"other"]), force=True)
    assert path.read_text() == "other"


def test_a_pipe_is_written_to_and_stays(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_file(path, iter([b"one ", b"two"]), force=False)
        assert os.read(reader, 100) == b"one two"
    finally:
        os.close(reader)
    assert path.is_fifo()


def test_an_unwritable_place_is_reported_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(NotWritable, match="Create its directory first, or choose another"):
        write_file(tmp_path / "missing" / "a", iter([b"one"]), force=False)
    with pytest.raises(NotWritable, match=r"A file has the name of a directory\. Choose another"):
        make_directory(tmp_path / "file")


@pytest.mark.skipif(not FULL.exists(), reason="a device of Linux")
def test_a_tilde_that_names_no_user_is_a_part_of_the_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store = WholeStore(tmp_path / "store")
    store_session(store, "s", ("hello", []))
    get_stdout(store, "export", "s", "--output", "~nosuchuser.md")
    assert (tmp_path / "~nosuchuser.md").exists()


def test_a_directory_in_the_place_of_the_file_is_reported(tmp_path: Path) -> None:
    for is_forced in (False, True):
        with pytest.raises(NotWritable) as problem:
            write_file(tmp_path, iter([b"patch"]), force=is_forced)
        assert str(problem.value) == f"{tmp_path} cannot be written: Is a directory. Name a file in it."


def test_a_full_disk_is_reported_for_the_written_file() -> None:
    with pytest.raises(NotWritable, match=r"/dev/full cannot be written: No space.*Free some space, or"):
        write_file(FULL, iter([b"one"]), force=False)


@pytest.mark.skipif(not FULL.exists(), reason="a device of Linux")
@pytest.mark.parametrize(
    "words",
    [
        ("list",),
        ("show", "last"),
        ("show", "last", "--raw"),
        ("export", "last"),
        ("replay", "last", "--speed", "0"),
        ("editor", "zed", "cat"),
    ],
)
def test_a_full_output_is_not_blamed_on_the_store(tmp_path: Path, words: tuple[str, ...]) -> None:
    store = ProxyStore(tmp_path / "store")
    store_session(store, "s", ("one", [chunk("two")]))
    environment = {**os.environ, "ACP_PROXY_STORE": str(store.root)}
    with FULL.open("wb") as full:
        command = [sys.executable, "-m", "acp_proxy", *words]
        result = forked.run(command, stdout=full, text=True, env=environment, timeout=SECONDS)
    said = result.stderr.splitlines()[-1]
    assert (result.returncode, said.startswith("acp-proxy: ")) == (1, True), result.stderr
    assert "No space left on device" in said
    assert "doctor" not in said
