"""Commands that are printed can be pasted into the user's shell."""

import subprocess
import sys
from pathlib import Path

import pytest

from acp_proxy.shell_quote import is_typable, join, quote, split

PLAIN = ["sessions", "--store=C:\\Users\\me\\store", "abc-1.2", "a:b/c"]
IN_QUOTES = ["", "two words", "a&b|c", "(x)", "logi*", "@a,b", "it's", "#1", "ä", "~", "C:\\a b\\", "{a;b}", "^", "!x!"]


def test_on_windows_a_word_is_quoted_for_both_shells() -> None:
    assert [quote(word, windows=True) for word in PLAIN] == PLAIN
    for word in IN_QUOTES:
        assert quote(word, windows=True).strip('"').rstrip("\\") == word.rstrip("\\")
        assert quote(word, windows=True)[0] == quote(word, windows=True)[-1] == '"'
    assert join(["acp-proxy", "C:\\a b\\", "x"], windows=True) == 'acp-proxy "C:\\a b\\\\" x'


@pytest.mark.parametrize("character", ['"', "%", "$", "`", "\n", "\x00", "\u201c", "\u201d", "\u201e"])
def test_on_windows_a_command_never_contains_what_a_shell_interprets_in_quotes(character: str) -> None:
    word = f"a{character}& calc"
    assert quote(word, windows=True) == '"a?& calc"'
    assert not is_typable(word, windows=True)


def test_elsewhere_words_are_quoted_as_for_a_posix_shell() -> None:
    assert join(["a", "two words", "$(x)"], windows=False) == "a 'two words' '$(x)'"
    assert is_typable("$(x)", windows=False)
    assert not is_typable("tab\t", windows=False)


def test_on_windows_a_line_is_split_without_interpreting_backslashes() -> None:
    line = r'"C:\Program Files\less.exe" -R C:\it\'s "" # x'
    assert split(line, windows=True) == [r"C:\Program Files\less.exe", "-R", r"C:\it\'s", "", "#", "x"]
    assert split(r"'a b' c\ d", windows=False) == ["a b", "c d"]
    for windows in (False, True):
        with pytest.raises(ValueError, match="No closing quotation"):
            split('"open', windows=windows)


def test_a_program_gets_the_words_that_a_shell_was_given(tmp_path: Path) -> None:
    words = [word for word in (*PLAIN, *IN_QUOTES) if "!" not in word]
    script = tmp_path / "say.py"
    script.write_text("import sys; sys.stdout.buffer.write('\\n'.join(sys.argv[1:]).encode())", encoding="utf-8")
    line = join([sys.executable, str(script), *words])
    result = subprocess.run(line, shell=True, stdout=subprocess.PIPE)  # noqa: S602 - it is what is tested
    assert result.stdout.decode().split("\n") == words
