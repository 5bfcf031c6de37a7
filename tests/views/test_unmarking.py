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
    ],
)
def test_the_marks_of_markdown_go(line: str, words: str) -> None:
    assert strip_markdown(line) == words


@pytest.mark.parametrize(
    "line",
    [
        "__init__.py",
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
