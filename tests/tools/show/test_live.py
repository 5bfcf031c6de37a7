"""A streamed conversation on a terminal: rendered, wrapped, and with a status line."""

import re
from collections.abc import Iterable

import pytest
from rich.cells import cell_len

from acp_proxy.tools.show.live import LiveText
from acp_proxy.views.streaming import PLAIN, QUIET, StreamedText

TABLE = "| file | lines |\n|-|-|\n| sessions.py | 12 |\n| tests/test_sessions.py | 140 |\n"
PROSE = f"## Found\n\nThe **session** ends too early, as this long line says.\n\n1. Look\n2. Fix\n\n{TABLE}\nDone.\n"
STYLE = re.compile(r"\x1b\[[0-9;]*m")


class Screen:
    """What a terminal shows after the sequences that are used here."""

    def __init__(self) -> None:
        self.lines, self.row = [""], 0

    def write(self, text: str) -> None:
        for up, other in re.findall(r"\x1b\[(\d+)A|(\x1b\[J|\r|\n|[^\x1b\r\n]+)", STYLE.sub("", text)):
            if up:
                self.row -= int(up)
                assert self.row >= 0
            elif other == "\x1b[J":
                self.lines[self.row :] = [""]
            elif other == "\n":
                self.row += 1
                self.lines += [""] * (self.row == len(self.lines))
            elif other != "\r":
                self.lines[self.row] = other


def show_on_screen(found: Iterable[StreamedText], *, width: int = 40, height: int = 50, each: bool = True) -> list[str]:
    """The screen at the end. ``each``: it was drawn after each piece."""
    live, screen = LiveText(width, height, has_colours=False), Screen()
    for piece in found:
        live.take([piece])
        if each:
            screen.write(live.draw("Turn 1 of 2"))
            assert screen.lines[-1] == "Turn 1 of 2"
    screen.write(live.draw())
    return [line.rstrip() for line in screen.lines]


def chunks(text: str, size: int, look: str = PLAIN) -> list[StreamedText]:
    return [StreamedText(text[at : at + size], look, is_prose=True) for at in range(0, len(text), size)]


def test_markdown_is_rendered_and_wrapped_at_words() -> None:
    assert show_on_screen([StreamedText("Turn 1\n"), *chunks(PROSE, 7)]) == [
        "Turn 1",
        "  Found",
        "",
        "  The session ends too early, as this",
        "  long line says.",
        "",
        "   1 Look",
        "   2 Fix",
        "",
        "  file                    lines",
        "  ─────────────────────────────",
        "  sessions.py             12",
        "  tests/test_sessions.py  140",
        "",
        "  Done.",
        "",
    ]


@pytest.mark.parametrize("size", [1, 3, 20, 1000])
@pytest.mark.parametrize("width", [12, 40, 100])
def test_pieces_of_any_size_are_shown_alike(size: int, width: int) -> None:
    pieces = [StreamedText("Turn 1\n"), *chunks(PROSE, size), StreamedText("\n✓ Read\n"), *chunks("Yes.", size)]
    found = show_on_screen(pieces, width=width)
    assert found == show_on_screen(pieces, width=width, each=False)
    assert all(cell_len(line) < width for line in found)


def test_a_message_longer_than_the_screen_is_complete() -> None:
    text = "".join(f"Line {number}.\n\n" for number in range(500))
    for height in (3, 10):
        lines = [line.strip() for line in show_on_screen(chunks(text, 400), height=height) if line]
        assert lines == [f"Line {number}." for number in range(500)]


def test_a_long_block_without_an_empty_line_is_complete() -> None:
    text = "".join(f"line-{number:05}\n" for number in range(20_000))
    found = "".join(show_on_screen(chunks(f"```\n{text}```\n", 10), width=100, each=False))
    assert set(text.split()) <= set(re.findall(r"line-\d{5}", found))


def test_the_line_of_a_call_is_replaced_while_it_is_the_last() -> None:
    calls = [StreamedText("○ pending: Edit"), StreamedText("✓ Edit", "green", replaces_line=True)]
    assert show_on_screen(
        [*chunks("Now.", 2), StreamedText("\n\n"), *calls, StreamedText("\n\n"), *chunks("Done", 2)]
    ) == [
        "  Now.",
        "",
        "✓ Edit",
        "",
        "  Done",
        "",
    ]


def test_long_lines_wrap_at_words_and_the_status_is_cut() -> None:
    live, screen = LiveText(20, 10, has_colours=False), Screen()
    live.take([StreamedText("> Why does the session end so early?\n", "bold green")])
    screen.write(live.draw("Turn 1 of 2   space: pause"))
    assert screen.lines == ["> Why does the ", "session end so ", "early?", "Turn 1 of 2   spac…"]


def test_the_current_message_has_the_new_width_after_a_resize() -> None:
    live, screen = LiveText(40, 10, has_colours=False), Screen()
    live.take([StreamedText("Turn 1\n"), *chunks("The session ends too early, as this says.", 9)])
    screen.write(live.draw("status"))
    assert screen.lines == ["Turn 1", "  The session ends too early, as this", "  says.", "status"]
    screen.lines[1:2] = [screen.lines[1][:20], screen.lines[1][20:]]  # as a terminal wraps it
    screen.row += 1
    live.resize(20, 10)
    live.take(chunks(" Really.", 9))
    screen.write(live.draw("status"))
    said = ["  The session ends", "  too early, as", "  this says.", "  Really."]
    assert [line.rstrip() for line in screen.lines] == ["Turn 1", *said, "status"]


def test_nothing_is_written_if_nothing_has_changed() -> None:
    live = LiveText(20, 10, has_colours=False)
    live.take(chunks("Hello", 5))
    assert live.draw("status")
    assert live.draw("status") == ""


def test_thoughts_are_dimmed_and_recorded_text_does_not_control_the_terminal() -> None:
    live = LiveText(40, 10, has_colours=True)
    live.take([*chunks("Hm \x1b[2J &#27;[2J", 4, QUIET), StreamedText("\n"), *chunks("**x\x1b]0;y\x07**", 50)])
    written = live.draw()
    assert "\x1b[2;3mHm" in written
    assert "\x1b[2J" not in written.removeprefix("\x1b[J")
    assert "\x1b]" not in written
