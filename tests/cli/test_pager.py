"""The pager, and readers that stop early."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from acp_proxy.cli.pager import is_attended
from tests import forked
from tests.cli.terminal import run_on_terminal, write_pager
from tests.stored import EPOCH, WholeStore, store_session

COPIES = "import sys; print('PAGED:'); print(sys.stdin.read())"
SAYS_ITS_SETTINGS = "import os, sys; sys.stdin.read(); print(os.environ['LESS'], os.environ['LV'])"
LEAVES = "import sys; print(sys.stdin.readline(), end='')"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> WholeStore:
    """For tests that only read."""
    made = WholeStore(tmp_path_factory.mktemp("screen") / "store")
    for number in range(300):
        store_session(made, f"s{number:03}", ("Fix it" * 20, []), at=EPOCH + number)
    made.list_all()
    return made


def list_on_terminal(store: WholeStore, *words: str, **settings: str) -> str:
    return run_on_terminal("list", "--store", str(store.root), *words, settings=settings)


def test_a_list_on_a_terminal_goes_through_the_users_pager(store: WholeStore, tmp_path: Path) -> None:
    own = write_pager(tmp_path, COPIES)
    paged = list_on_terminal(store, ACP_PROXY_PAGER=own, NO_COLOR="1")
    assert paged.startswith("PAGED:\nID ")
    assert "s000" in paged
    assert list_on_terminal(store, PAGER=own, NO_COLOR="1", ACP_PROXY_PAGER="cat").startswith("ID ")


def test_less_gets_the_options_of_git_unless_the_user_set_others(store: WholeStore, tmp_path: Path) -> None:
    own = write_pager(tmp_path, SAYS_ITS_SETTINGS)
    assert list_on_terminal(store, ACP_PROXY_PAGER=own) == "FRX -c\n"
    assert list_on_terminal(store, ACP_PROXY_PAGER=own, LESS="S") == "S -c\n"


def test_less_reads_utf_8_where_python_writes_it(store: WholeStore, tmp_path: Path) -> None:
    own = write_pager(tmp_path, "import os, sys; sys.stdin.read(); print(os.environ.get('LESSCHARSET'))")
    assert list_on_terminal(store, ACP_PROXY_PAGER=own, LC_ALL="C") == "utf-8\n"
    assert list_on_terminal(store, ACP_PROXY_PAGER=own, LC_ALL="C", LESSCHARSET="latin1") == "latin1\n"


def test_browse_names_a_terminal_that_it_cannot_use(store: WholeStore) -> None:
    screen = run_on_terminal("browse", "--store", str(store.root), status=2, settings={"TERM": "dumb"})
    assert "TERM says 'dumb'" in " ".join(screen.split())


@pytest.mark.parametrize("wish", ["", "cat", "/no/such/pager", "'"])
def test_without_a_pager_the_list_is_only_printed(store: WholeStore, wish: str) -> None:
    text = list_on_terminal(store, "--limit", "3", ACP_PROXY_PAGER=wish, PAGER="cat", NO_COLOR="1")
    assert [line[:4] for line in text.splitlines()] == ["ID  ", "s299", "s298", "s297"]


def test_a_dumb_terminal_has_no_pager(store: WholeStore, tmp_path: Path) -> None:
    assert "PAGED" not in list_on_terminal(
        store, "--limit", "3", ACP_PROXY_PAGER=write_pager(tmp_path, COPIES), TERM="dumb"
    )


def test_leaving_the_pager_ends_the_command_silently(store: WholeStore, tmp_path: Path) -> None:
    text = list_on_terminal(store, ACP_PROXY_PAGER=write_pager(tmp_path, LEAVES), NO_COLOR="1")
    assert len(text.splitlines()) == 1


def test_a_program_that_stops_reading_ends_the_command_silently(store: WholeStore) -> None:
    command = [sys.executable, "-m", "acp_proxy", "list", "--json", "--store", str(store.root)]
    with forked.start(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode in (0, 141)


@pytest.mark.parametrize(
    "words",
    [
        ("list",),
        ("show", "s"),
        ("replay", "s", "--speed", "0"),
        ("delete", "s", "--yes"),
    ],
)
def test_a_terminal_with_another_character_set_gets_replacements(tmp_path: Path, words: tuple[str, ...]) -> None:
    store = WholeStore(tmp_path / "latin")
    store_session(store, "s", ("Grüße 日本", []))
    text = subprocess.run(
        [sys.executable, "-m", "acp_proxy", *words, "--store", str(store.root)],
        capture_output=True,
        check=True,
        env=os.environ | {"PYTHONIOENCODING": "latin-1"},
    ).stdout
    assert "Grüße ??".encode("latin-1") in text


def test_nobody_types_at_the_null_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """On Windows, isatty says that this device is a terminal."""
    with open(os.devnull) as null:
        monkeypatch.setattr(sys, "stdin", null)
        assert not is_attended()
