"""Files on Windows: what we ask of the system, and there itself, locks and files that are removed while open."""

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from acp_proxy.store.layout import lock_folder
from acp_proxy.transcript import windows_files
from acp_proxy.transcript.file_access import lock, open_private, read_at

only_there = pytest.mark.skipif(sys.platform != "win32", reason="tests what only Windows has")

READ, WRITE, APPEND = 0x80000000, 0x40000000, 0x4  # GENERIC_READ, GENERIC_WRITE, FILE_APPEND_DATA
CREATE_NEW, CREATE_ALWAYS, OPEN_EXISTING, OPEN_ALWAYS, TRUNCATE_EXISTING = 1, 2, 3, 4, 5


@pytest.mark.parametrize(
    ("flags", "access", "disposition"),
    [
        (os.O_RDONLY, READ, OPEN_EXISTING),
        (os.O_RDWR, READ | WRITE, OPEN_EXISTING),
        (os.O_RDWR | os.O_APPEND, READ | APPEND, OPEN_EXISTING),
        (os.O_RDWR | os.O_APPEND | os.O_CREAT, READ | APPEND, OPEN_ALWAYS),
        (os.O_WRONLY | os.O_CREAT | os.O_EXCL, WRITE, CREATE_NEW),
        (os.O_RDWR | os.O_CREAT | os.O_TRUNC, READ | WRITE, CREATE_ALWAYS),
        (os.O_WRONLY | os.O_TRUNC, WRITE, TRUNCATE_EXISTING),
    ],
)
def test_flags_become_an_access_and_a_disposition(flags: int, access: int, disposition: int) -> None:
    assert windows_files.translate_flags(flags) == (access, disposition)


@pytest.mark.parametrize(
    ("root", "reached"),
    [
        (r"C:\Users\me\AppData\Local\acp-proxy", r"C:\Users\me\AppData\Local\acp-proxy"),
        (rf"C:\{'x' * 64}", rf"C:\{'x' * 64}"),
        (rf"C:\{'x' * 65}", rf"\\?\C:\{'x' * 65}"),
        (rf"C:/{'x' * 65}/a/../b", rf"\\?\C:\{'x' * 65}\b"),
        (rf"\\server\share\{'x' * 65}", rf"\\?\UNC\server\share\{'x' * 65}"),
        (rf"\\?\C:\{'x' * 65}", rf"\\?\C:\{'x' * 65}"),
    ],
)
def test_a_long_path_gets_the_form_without_a_limit(root: str, reached: str) -> None:
    assert windows_files.make_reachable(root) == reached


class OpenFile:
    """A file, opened as often as a test likes."""

    def __init__(self, path: Path, stack: ExitStack) -> None:
        self.path = path
        self._stack = stack

    def again(self, flags: int = os.O_RDWR | os.O_APPEND | os.O_CREAT) -> int:
        fd = open_private(self.path, flags)
        self._stack.callback(os.close, fd)
        return fd


@pytest.fixture
def file(tmp_path: Path) -> Iterator[OpenFile]:
    with ExitStack() as stack:
        yield OpenFile(tmp_path / "file", stack)


@only_there
def test_shared_locks_exclude_only_exclusive_ones(file: OpenFile) -> None:
    one, other = file.again(), file.again()
    assert lock(one, shared=True)
    assert lock(other, shared=True)
    with pytest.raises(BlockingIOError):
        lock(other)
    assert lock(one)  # the failed attempt gave the other's shared lock up
    with pytest.raises(BlockingIOError):
        lock(other, shared=True)


@only_there
def test_closing_gives_a_lock_up(file: OpenFile) -> None:
    fd = open_private(file.path, os.O_RDWR | os.O_CREAT)
    assert lock(fd)
    os.close(fd)
    assert lock(file.again())


@only_there
def test_a_locked_file_is_read_and_written_by_everybody(file: OpenFile) -> None:
    one, other = file.again(), file.again()
    assert lock(one)
    assert os.write(other, b"other\n") == 6
    assert os.write(one, b"one\n") == 4
    assert read_at(other, 20, 0) == b"other\none\n"


@only_there
def test_appends_go_to_the_end_whoever_else_appends(file: OpenFile) -> None:
    one, other = file.again(), file.again()
    for number in range(5):
        os.write((one, other)[number % 2], b"%d\n" % number)
        read_at(one, 1, 0)
    assert file.path.read_bytes() == b"0\n1\n2\n3\n4\n"


@only_there
def test_a_file_is_renamed_and_removed_while_it_is_open(file: OpenFile) -> None:
    fd = open_private(file.path, os.O_RDWR | os.O_CREAT)
    renamed = file.path.rename(file.path.with_name("renamed"))
    assert not file.path.exists()
    renamed.unlink()
    os.close(fd)
    assert not renamed.exists()


@only_there
def test_a_missing_and_an_existing_file_raise_the_usual_errors(file: OpenFile) -> None:
    with pytest.raises(FileNotFoundError) as raised:
        open_private(file.path, os.O_RDWR)
    assert raised.value.filename == str(file.path)
    file.path.touch()
    with pytest.raises(FileExistsError):
        open_private(file.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)


@only_there
def test_one_process_at_a_time_is_alone_in_a_folder_and_its_journal_stays_free(tmp_path: Path) -> None:
    with lock_folder(tmp_path):
        with pytest.raises(BlockingIOError), lock_folder(tmp_path):
            raise AssertionError
        journal = open_private(tmp_path / "state.jsonl", os.O_RDWR)
        assert lock(journal)
        os.close(journal)
    with lock_folder(tmp_path):
        pass
