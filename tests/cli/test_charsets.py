"""Where the character set lacks our own marks, they have ASCII forms; recorded text stays."""

import io
import re
from pathlib import Path

import pytest

from acp_proxy.cli.stdio import find_ascii_forms
from tests.cli.terminal import run_on_terminal, write_pager
from tests.stored import WholeStore, chunk, store_session

BYTES = "import sys; sys.stdout.write(ascii(sys.stdin.buffer.read()))"
CALL = {"sessionUpdate": "tool_call", "toolCallId": "c", "title": "Edit " * 50, "status": "completed"}
TEXT = "- one…\n\n> quoted\n\n日本"


@pytest.fixture
def store(tmp_path: Path) -> WholeStore:
    made = WholeStore(tmp_path / "store")
    store_session(made, "s1", ("Mend 日本 " + "the login page " * 9, [CALL, chunk(TEXT)]), cwd="/a" * 50)
    store_session(made, "s2", ("Short", []))
    made.list_all()
    return made


def print_as_ascii(store: WholeStore, *words: str, **settings: str) -> str:
    return run_on_terminal(*words, "--store", str(store.root), settings={"LC_ALL": "C", "NO_COLOR": "1", **settings})


def test_the_columns_of_a_list_stay_aligned(store: WholeStore) -> None:
    heading, *rows = print_as_ascii(store, "list").splitlines()
    assert len(rows) == 2
    assert "Mend 日本 the l" in rows[1]
    cells = rows[1].encode("gb18030").decode("latin-1")  # two bytes for a character that takes two columns
    at = heading.index("AGENT")
    assert cells[at - 5 : at + 5] == "...  agent"
    assert len(rows[0]) == len(cells) == 80
    assert heading.index("WHEN") == cells.index("Nov 2023")


def test_a_pager_gets_ascii_forms(store: WholeStore, tmp_path: Path) -> None:
    paged = print_as_ascii(store, "list", ACP_PROXY_PAGER=write_pager(tmp_path, BYTES))
    assert "..." in paged
    assert "\\xe2\\x80\\xa6" not in paged
    assert "\\xe6\\x97\\xa5\\xe6\\x9c\\xac" in paged
    assert "\\xe2\\x80\\xa6" in print_as_ascii(
        store, "list", ACP_PROXY_PAGER=write_pager(tmp_path, BYTES), LC_ALL="C.UTF-8"
    )


def test_a_conversation_has_ascii_forms_and_no_line_is_too_wide(store: WholeStore) -> None:
    text = re.sub("\x1b\\[[0-9;]*m", "", print_as_ascii(store, "show", "s1"))
    for wanted in ("Turn 1 - ", "* one...", "| quoted", "日本"):
        assert wanted in text
    [call] = [line for line in text.splitlines() if "Edit Edit" in line]
    assert call.startswith("+ Edit")
    assert call.endswith("...")
    assert len(call) <= 80
    [played] = [
        line for line in print_as_ascii(store, "replay", "s1", "--speed", "0").splitlines() if "Edit Edit" in line
    ]
    assert played.endswith("...")


def test_help_has_ascii_forms() -> None:
    text = run_on_terminal("replay", "--help", settings={"LC_ALL": "C"})
    assert "n or ->" in text
    assert text.isascii()


def test_a_terminal_with_utf_8_and_a_pipe_get_the_marks_themselves() -> None:
    assert "n or →" in run_on_terminal("replay", "--help", settings={"LC_ALL": "C.UTF-8"})
    assert find_ascii_forms(io.TextIOWrapper(io.BytesIO(), "UTF_8")) == {}


@pytest.mark.parametrize("charset", ["ascii", "latin-1", "cp1252", "cp437", "cp850"])
def test_only_what_a_character_set_lacks_has_another_form(charset: str) -> None:
    forms = find_ascii_forms(io.TextIOWrapper(io.BytesIO(), charset))
    text = "… → · ✓ ┼─│ █ ü".translate(forms)
    expected = {
        "ascii": "... -> - + +-| # ü",
        "latin-1": "... -> · + +-| # ü",
        "cp1252": "… -> · + +-| # ü",
        "cp437": "... -> · + ┼─│ █ ü",  # of consoles
        "cp850": "... -> · + ┼─│ █ ü",
    }
    assert text == expected[charset]


def test_an_unknown_character_set_counts_as_ascii() -> None:
    class Odd(io.StringIO):
        encoding = "no-such-charset"

    assert find_ascii_forms(Odd())[ord("…")] == "..."
