"""Marks of Markdown are removed from a title."""

import pytest

from acp_proxy.views.formatting import strip_markdown


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("## Fix the **whole** `login`", "Fix the whole login"),
        ("**all of `it`**, and [a **page**](https://example.org)", "all of it, and a page"),
        ("![a picture](a.png) **", "a picture **"),
        ("`` a`b ``", "a`b"),
        ("say `cannot use `x` as` it", "say cannot use x as it"),
        ("Explain the **retry logic that…", "Explain the retry logic that…"),
        ("Explain `retry_on…", "Explain retry_on…"),
        ("```py", "py"),
        ("~~~", ""),
        ("> a quoted line", "a quoted line"),
        ("- [ ] a todo item", "a todo item"),
        ("> * [x] **done**", "done"),
        ("~~struck~~ ***both*** and _it, `a_b`_.", "struck both and _it, a_b_."),
        ("do _this_, not (_that_).", "do this, not (that)."),
    ],
)
def test_the_marks_of_markdown_go(line: str, words: str) -> None:
    assert strip_markdown(line) == words


@pytest.mark.parametrize(
    "line",
    [
        "__init__.py",
        "_private and _other_.py in a/_data_/b, snake_case_",
        "_(text) and gettext_lazy_",
        "$_ and x_, -_-, or _ and _",
        "match *test* files",
        ">= 3, not > 2",
        "-1 - 2",
        ">>> import os",
        "~~/x and ~~/y",
        "[ ] in a list",
        "---",
        "***",
        "| a | b |",
        "f(**kwargs, **more)",
        "a/**/b.py a/**/c.py",
        "**/*.py",
        "2 * 3 * 4",
        "#12 fails",
        "a[0](x) < `b",
        "",
    ],
)
def test_what_may_be_something_else_stays(line: str) -> None:
    assert strip_markdown(line) == line


@pytest.mark.parametrize("mark", ["**a", "~~a", "_a", "[a", "[a]("])
def test_many_marks_that_never_end_do_not_take_long(mark: str) -> None:
    """Half an hour, if each looks for its end in all of the line."""
    line = " ".join([mark] * 200_000)
    assert strip_markdown(line) == line
