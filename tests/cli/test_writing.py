import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from acp_proxy.cli.writing import to_file
from acp_proxy.errors import AlreadyThere


def broken() -> Iterator[bytes]:
    yield b"the beginning"
    raise OSError(28, "No space left on device")


def test_what_cannot_be_written_whole_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No space"):
        to_file(tmp_path / "a", broken(), force=False)
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_written_over_something_leaves_that_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("mine")
    with pytest.raises(AlreadyThere):
        to_file(path, iter([b"other"]), force=False)
    with pytest.raises(OSError, match="No space"):
        to_file(path, broken(), force=True)
    assert [(found.name, found.read_text()) for found in tmp_path.iterdir()] == [("a", "mine")]
    to_file(path, iter([b"other"]), force=True)
    assert path.read_text() == "other"


@pytest.mark.skipif(os.name == "nt", reason="there are no such pipes")
def test_a_pipe_is_written_to_and_stays(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        to_file(path, iter([b"one ", b"two"]), force=False)
        assert os.read(reader, 100) == b"one two"
    finally:
        os.close(reader)
    assert path.is_fifo()
