"""Long messages break between words on a terminal, and nowhere else."""

import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from acp_proxy.cli.wrapping import fit_to_stream, wrap
from tests.cli.commands import run
from tests.cli.terminal import run_on_terminal
from tests.stored import WholeStore


@pytest.mark.parametrize(
    ("text", "hanging", "lines"),
    [
        ("as wide as it is", 0, ["as wide as it is"]),
        ("a line that is too long for it", 0, ["a line that is", "too long for it"]),
        ("  1. a line that is long", 5, ["  1. a line that", "     is long"]),
        ("name  a  table's row", 6, ["name  a  table's", "      row"]),
        ("x /a/path/that/nothing/can/hold y", 0, ["x", "/a/path/that/nothing/can/hold", "y"]),
        ("日本語の題 無題の題 題", 0, ["日本語の題", "無題の題 題"]),
        ("    indented-far-more", 0, ["    indented-far-more"]),
    ],
)
def test_lines_break_between_words(text: str, hanging: int, lines: list[str]) -> None:
    assert wrap(text, 16, hanging).split("\n") == lines


def test_a_command_to_copy_stays_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    stream = io.StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: True)
    move = "mv '/home/u/the old settings.json' /home/u/.config/settings.json"
    text = f"It is missing. To bring it back: {move}. If you do not need it: rm /home/u/old"
    assert fit_to_stream(text, stream).split("\n") == [
        "It is missing. To bring it",
        "back:",
        f"{move}.",
        "If you do not need it:",
        "rm /home/u/old",
    ]


@given(st.text("ab 無-", max_size=80), st.integers(1, 30), st.integers(0, 40))
def test_no_word_is_lost_or_broken(text: str, width: int, hanging: int) -> None:
    lines = wrap(text, width, hanging).split("\n")
    assert " ".join(lines).split() == text.split()
    assert all(cell_len(line) <= width or " " not in line.strip() for line in lines[:-1])


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (("show", "a-session"), 1, "acp-proxy: no session is recorded yet. To set up your editor: "),
        (("show", "last", "--raw", "--json"), 2, "cannot be combined with each other or with --full "),
        (("export", "--all"), 2, "acp-proxy: several sessions need a directory. Use --output DIR."),
        (("doctor",), 0, " 1. No editor on this machine starts an agent through acp-proxy. To set them up: "),
        (("editor", "zed", "true"), 0, 'Then: in the agent panel, begin a thread with "true (recorded)". '),
    ],
)
def test_a_terminal_gets_long_messages_in_whole_words(
    tmp_path: Path, words: tuple[str, ...], status: int, said: str
) -> None:
    screen = run_on_terminal(*words, columns=50, status=status, settings={"HOME": str(tmp_path)})
    assert said not in screen
    assert said in " ".join(screen.split()) + " "
    lines = [line for line in screen.split("\n") if not line.lstrip().startswith('"')]  # a snippet keeps its lines
    # A command to copy stays whole, however long the path is by which the tests start acp-proxy.
    assert all(len(line) <= 50 or " " not in line.strip() or " -m acp_proxy " in line for line in lines)


def test_other_outputs_get_messages_on_one_line(tmp_path: Path) -> None:
    result = run(WholeStore(tmp_path), "show", "a-session-with-a-name-that-is-longer-than-a-terminal-is-wide")
    assert result.stderr.count("\n") == 1
