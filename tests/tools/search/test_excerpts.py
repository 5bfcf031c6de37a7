"""Excerpts have the lines in which the words are, in full, and no marks of Markdown."""

import pytest

from acp_proxy.tools.search.excerpts import make_excerpt_text
from acp_proxy.tools.search.query import BEGIN, BETWEEN, END


def mark(text: str, *words: str) -> str:
    """The text as a table gives it, with these words found."""
    for word in words:
        text = text.replace(word, f"{BEGIN}{word}{END}")
    return text


def shorten(text: str, *words: str, column: str = "text") -> str:
    shown, marks = make_excerpt_text([(column, mark(text, *words))])
    assert {shown[start:end] for start, end in marks} <= {*words}
    return shown


MESSAGE = """\
## What is done
The **change** to `main.py`
is small:

- alpha
- two `code`

Then run:

```sh
pytest -q --step 0
echo `date`
```

| file | lines |
|---|---|
| new.py | 11 |

> A quote
1. first
2. second
"""


@pytest.mark.parametrize(
    ("word", "shown"),
    [
        ("done", "What is done"),
        ("small", "The change to main.py is small: alpha"),
        ("main.py`\nis small", "The change to main.py is small: alpha"),
        ("alpha", "alpha"),
        ("two", "two code"),
        ("Then run", "Then run: pytest -q --step 0"),
        ("sh", "sh"),
        ("pytest", "pytest -q --step 0"),
        ("step 0\necho", "pytest -q --step 0 echo `date`"),
        ("lines", "file, lines"),
        ("11", "new.py, 11"),
        ("quote", "A quote"),
        ("second", "2. second"),
    ],
)
def test_an_excerpt_is_the_line_or_paragraph_without_markdown(word: str, shown: str) -> None:
    assert make_excerpt_text([("text", mark(MESSAGE, word))])[0] == shown


@pytest.mark.parametrize("word", ["capybara", "tapir", "ibex", "gnu", "capybara](http://tapir"])
def test_a_word_in_the_target_of_a_link_is_shown(word: str) -> None:
    links = "first\n\nA **bold** [capybara](http://tapir.example) ![ibex](gnu.png)"
    shown, [(start, end)] = make_excerpt_text([("text", mark(links, word))])
    assert shown.startswith("A bold capybara")
    assert shown[start:end].replace(" (", "](") == word


def test_marks_go_but_not_the_parts_of_names() -> None:
    assert shorten("use _private foo_bar, ~~not~~ this", "bar") == "use _private foo_bar, not this"
    assert shorten("_really_ mend it", "really") == "really mend it"


def test_a_line_of_code_that_ends_in_a_colon_stands_for_itself() -> None:
    code = "Run:\n```python\ndef frobnicate(x):\n    return x\n```"
    assert shorten(code, "frobnicate") == "def frobnicate(x):"
    assert shorten(code, "Run") == "Run: def frobnicate(x):"


def test_an_excerpt_has_only_messages_with_a_match() -> None:
    said = BETWEEN.join(["The login fails.", "Read orders.py", "Edit cookie.py", "Done with step 1"])
    assert shorten(said, "login", "cookie") == "The login fails. · Edit cookie.py"
    printed = BETWEEN.join(["def old():\n    pass", "line 1\nImportError: no flask"])
    assert shorten(printed, "ImportError", column="output") == "ImportError: no flask"
    failure = ("aside", f"def old():\n    pass\nE   {mark('ImportError', 'ImportError')}: no flask\n== 1 failed")
    assert make_excerpt_text([failure])[0] == "E ImportError: no flask"
    thought = ("aside", f"The user wants: {'much ' * 100}{BETWEEN}{mark('ImportError: no flask', 'ImportError')}")
    assert make_excerpt_text([("text", "Mend it"), thought]) == ("ImportError: no flask", [(0, 11)])


def test_what_a_tool_printed_is_no_markdown() -> None:
    assert shorten("| a |\n| b |\n```\n- `c`", "b", column="output") == "| b |"
    assert shorten("| a |\n| b |\n```\n- `c`", "c", column="output") == "- `c`"


def test_an_excerpt_has_each_word_rather_than_one_of_them_often() -> None:
    text = "\n".join([*("The login is here, and it is there, and everywhere." for _ in range(20)), "A cookie"])
    shown = shorten(text.replace("\n", "\n\n"), "login", "cookie")
    assert shown.endswith(" … A cookie")
    assert shown.startswith("The login is here")


def test_paragraphs_are_told_apart_and_sentences_follow_each_other() -> None:
    assert shorten("Fix the login\n\nIt loses the cookie", "login", "cookie") == "Fix the login … It loses the cookie"
    assert shorten("Fix the login.\n\nIt loses the cookie", "login", "cookie") == "Fix the login. It loses the cookie"


def test_of_a_long_paragraph_only_the_sentences_with_the_words_are_shown() -> None:
    text = f"{'Something else happened before. ' * 20}The login fails. {'Something else happened later. ' * 20}"
    shown = shorten(text, "login")
    assert "The login fails." in shown
    assert len(shown) <= 160


def test_a_long_excerpt_begins_and_ends_between_words() -> None:
    shown = shorten("before " * 100 + "found" + " after" * 100, "found")
    assert (shown[:8], shown[-7:]) == ("…before ", " after…")
    assert len(shown) <= 162
    shown = shorten("x" * 300 + " found " + "y" * 300, "found")
    assert (shown[:2], " found " in shown, shown[-2:]) == ("…x", True, "y…")
