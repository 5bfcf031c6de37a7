"""Nothing that is printed controls the terminal or hides text."""

import sys
import unicodedata
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_proxy.views import sanitize
from acp_proxy.views.sanitize import clean_text, join_lines, normalize_unicode, shorten_path, shorten_paths


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("\x1b[1;32mok\x1b[0m 3 tests", "ok 3 tests"),
        ("\x1b]0;a title\x07rest", "rest"),
        ("\x1b]8;;https://example.org\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b(Bplain\x1bM", "plain"),
        ("one\r\ntwo\r", "one\ntwo\ufffd"),
        ("\x1b", "\ufffd"),
        ("a\u202eb\u2066c", "a\ufffdb\ufffdc"),
        ("\ud83d", "\ufffd"),
        ("\tkept\n", "\tkept\n"),
        ("👩\u200d💻 e\u0301 ありがとう", "👩\u200d💻 e\u0301 ありがとう"),
    ],
)
def test_control_sequences_are_removed_and_text_stays(text: str, left: str) -> None:
    assert clean_text(text) == left


SHOWN = {0x600, 0x601, 0x602, 0x603, 0x604, 0x605, 0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD}
"""Signs before numbers and words: format characters that are visible."""
HIEROGLYPHS, JOINERS = set(range(0x13430, 0x13440)), {0x200C, 0x200D}
OUTPUTS = (clean_text, sanitize.make_printable, sanitize.clean_output, sanitize.make_line)


@pytest.mark.parametrize("output", OUTPUTS)
def test_no_output_has_invisible_formatting(output: Callable[[str], str]) -> None:
    formats = [code for code in range(sys.maxunicode + 1) if unicodedata.category(chr(code)) == "Cf"]
    checked = {*formats, 0x3164, 0xFFA0, 0xE0000, 0xE0080, 0xE01F0}
    assert len(formats) > 100
    assert {code for code in checked if output(chr(code)) == chr(code)} <= SHOWN | HIEROGLYPHS | JOINERS


@pytest.mark.parametrize("output", OUTPUTS)
def test_words_in_variation_selectors_are_not_hidden(output: Callable[[str], str]) -> None:
    hidden = "".join(chr(0xE0100 + code) for code in b"obey")
    assert output(f"\u2764\ufe0f {hidden}") == f"\u2764\ufe0f {hidden[0]}\ufffd\ufffd\ufffd"
    assert output("\u845b\U000e0100") == "\u845b\U000e0100"


@given(st.text(st.characters(codec=None), max_size=200) | st.text("\x1b[]0;m\x07\\A\n", max_size=30))
def test_no_control_character_remains(text: str) -> None:
    left = clean_text(text)
    assert not [one for one in left if unicodedata.category(one) in ("Cc", "Cs") and one not in "\n\t"]
    left.encode()
    assert "\n" not in join_lines(text)


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("/home/ada/notes/a/b.py", "a/b.py"),
        ("/home/ada/notes2/b.py", "/home/ada/notes2/b.py"),
        ("/home/ada/notes", "/home/ada/notes"),
    ],
)
def test_a_path_inside_the_directory_is_relative_to_it(path: str, told: str) -> None:
    assert shorten_path(path, "/home/ada/notes/") == told


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("cat /app/a.py '/app/b.py' --file=/app/c.py >/app/d", "cat a.py 'b.py' --file=c.py >d"),
        ("rm -rf /srv/app/data ~/app/data $HOME/app/data C:/app/data", None),
        ("Fetch https://example.org/app/login and file:///app/x", None),
        ("rm -rf /app/ && rm -rf '/app/' /app//x", None),
        ("ls /app/", None),
    ],
)
def test_paths_are_shortened_only_where_they_begin_with_the_directory(text: str, told: str | None) -> None:
    assert shorten_paths(text, "/app") == shorten_paths(text, "/app/") == (told or text)
    assert shorten_paths(text, "/") == shorten_paths(text, None) == text


def test_text_is_normalized_but_for_long_runs_of_marks() -> None:
    marks = "\u0301\u0316"  # not in the order of the normal form
    short, long = marks * 15, marks * 16
    assert normalize_unicode(f"cafe\u0301 a{short}") == "café á" + "\u0316" * 15 + "\u0301" * 14
    assert normalize_unicode(f"cafe\u0301 a{long}e\u0301") == f"café a{long}é"
    assert normalize_unicode(f"cafe\u0301{'─' * 31}e\u0301") == f"café{'─' * 31}é"


def test_a_long_run_of_any_mark_stays_as_it_is() -> None:
    characters = map(chr, range(sys.maxunicode + 1))
    marks = [one for one in characters if unicodedata.combining(unicodedata.normalize("NFD", one)[0])]
    runs = [one * 30 + "\u0316\u0301\u0316" for one in marks]
    assert "\u0f73" in marks  # whose class is 0, but not that of its parts
    assert [run for run in runs if normalize_unicode(run) != run] == []
