"""Colours for code, which change none of its characters."""

from html import escape

import pytest

from acp_proxy.tools.export import highlighting
from acp_proxy.tools.export.highlighting import highlight, highlight_file

BEGIN = '<div class="code"><pre tabindex="0"><code>'
END = '</code></pre><button type="button" class="copy">Copy</button></div>\n'


def plain(code: str) -> str:
    return f"{BEGIN}{escape(code)}{END}"


def test_the_language_or_the_file_name_decides_the_colours() -> None:
    assert '<span class="k">def</span>' in highlight("def f(): ...", "python")
    assert '<span class="k">def</span>' in highlight_file("def f(): ...", "file:///a/b.py")


@pytest.mark.parametrize("language", ["", "nonsense", "../x", "py\x00thon", "<b>", "x" * 1000, "é"])
def test_code_in_an_unknown_language_is_plain(language: str) -> None:
    assert highlight("a < b\n", language) == plain("a < b\n")
    assert highlight_file("a < b\n", f"/a.{language}") == plain("a < b\n")


def test_highlighting_keeps_every_character() -> None:
    code = "\n\n  x = <&>  \n\n\t# é 😀\n\n"
    told = highlight(code, "python")
    for tag in ("</span>", END, BEGIN):
        told = told.replace(tag, "")
    assert "".join(part.split(">", 1)[-1] for part in told.split('<span class="')) == escape(code)


def test_very_long_code_is_not_coloured() -> None:
    long = "x = 1\n" * (highlighting.LIMIT // 6 + 1)
    assert highlight(long, "python") == plain(long)
    assert highlight(f"x = {'1' * 1000}", "python") == plain(f"x = {'1' * 1000}")


def test_a_language_that_takes_too_long_is_given_up() -> None:
    hard = "\n " * (highlighting.LIMIT // 2)
    assert "<span" in highlight("if 1\n", "autohotkey")
    assert highlight(hard, "autohotkey") == plain(hard)
    assert highlight("if 1\n", "autohotkey") == plain("if 1\n")
