"""Text for a terminal: everything readable is printed, and nothing can control the terminal."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_proxy.views import sanitize

UNSEEN = "\xad\u180e\u200b\u200e\u202e\u2066\u206a\ufeff\u3164\U000e0041\U000e007f"


@pytest.mark.parametrize(
    "text",
    [
        "全角\u3000空白",  # the ideographic space
        "Vraiment\xa0? Oui\u202f!",
        "👩\u200d💻 क्\u200dष नी\u200cम",
        "\ue0b0 a glyph of a font",
        "\U0001fae8 newer than this Python's tables",
        "one\ntwo\n",
    ],
)
def test_ordinary_text_is_printed_unchanged(text: str) -> None:
    assert sanitize.make_printable(text) == text


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("a\tb\r\n\tc\rd", "a       b\n        c\ufffdd"),
        ("\x1b[1mbold\x9b31m\x07", "\ufffd[1mbold\ufffd31m\ufffd"),
        (UNSEEN, "\ufffd" * len(UNSEEN)),
    ],
)
def test_controlling_or_invisible_characters_are_replaced_visibly(text: str, printed: str) -> None:
    assert sanitize.make_printable(text) == printed


def test_control_sequences_are_removed_from_output() -> None:
    written = "\x1b[1;32m   Compiling\x1b[0m x\x1b[K\n\x1b]8;;https://example.org\x1b\\docs\x1b]8;;\x1b\\ \x1b[?25h\x07"
    assert sanitize.clean_output(written) == "   Compiling x\ndocs \ufffd"


@given(st.text(st.characters(codec=None), max_size=200) | st.text("\x1b[]0;m\x07\x9b\\A\n\t\r", max_size=30))
def test_no_control_character_is_printed(text: str) -> None:
    for printed in (sanitize.make_printable(text), sanitize.clean_output(text)):
        assert not [one for one in printed if unicodedata.category(one) in ("Cc", "Cs", "Zl", "Zp") and one != "\n"]
    assert "\n" not in sanitize.make_line(text)
