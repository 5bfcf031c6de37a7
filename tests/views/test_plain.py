import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_proxy.views.plain import one_line, plain, shortened


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
    assert plain(text) == left


@given(st.text(st.characters(codec=None), max_size=200) | st.text("\x1b[]0;m\x07\\A\n", max_size=30))
def test_no_control_character_remains(text: str) -> None:
    left = plain(text)
    assert not [one for one in left if unicodedata.category(one) in ("Cc", "Cs") and one not in "\n\t"]
    left.encode()
    assert "\n" not in one_line(text)


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("/home/ada/notes/a/b.py", "a/b.py"),
        ("/home/ada/notes2/b.py", "/home/ada/notes2/b.py"),
        ("/home/ada/notes", "/home/ada/notes"),
    ],
)
def test_a_path_inside_the_directory_is_relative_to_it(path: str, told: str) -> None:
    assert shortened(path, "/home/ada/notes/") == told
