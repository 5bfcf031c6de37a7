"""tests/promises.toml names tests for each promise of docs/reliability.md and each section, and some rules, of
docs/transparency.md; and they exist.

Whether a test holds its promise, nothing here can say: read its body when you add a row.
"""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TESTS = tomllib.loads((ROOT / "tests" / "promises.toml").read_text(encoding="utf-8"))
RELIABILITY = {title: tests for title, tests in TESTS.items() if title != "transparency"}
NO_PROMISE = ("Not ", "What else stays", "`make ")
"""How the paragraphs begin that promise nothing, or say how something was tried."""


def promises(section: str) -> list[str]:
    """The items, the rows of tables and the other paragraphs of a section, each in one line."""
    section = re.sub(r"^\|.*\n\|-.*\n", "", section, flags=re.MULTILINE)  # a table's heading
    paragraphs = re.split(r"\n\n|\n(?=- )|\n(?=\|)", section)
    lines = (" ".join(paragraph.removeprefix("- ").split()) for paragraph in paragraphs)
    return [line for line in lines if line and not line.startswith(NO_PROMISE)]


def is_of(key: str, line: str) -> bool:
    """Whether a promise has this key: its first words, or of a row the whole first cell."""
    return line.startswith(f"{key}|" if key.startswith("|") else key)


def sections(page: str, level: str) -> dict[str, str]:
    """The text of each section of a page of docs/, by its title. ``level``: a pattern for its hashes."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    parts = re.split(rf"^{level} (.+)\n", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_every_promise_has_a_test_and_every_test_a_promise() -> None:
    found = {title: promises(text) for title, text in sections("reliability.md", "##").items()}
    for title, lines in found.items():
        named = RELIABILITY.get(title, {})
        without = [line for line in lines if not any(is_of(key, line) for key in named)]
        gone = [key for key in named if not any(is_of(key, line) for line in lines)]
        assert (title, without, gone) == (title, [], [])
    assert RELIABILITY.keys() <= found.keys()


def test_every_section_of_what_passes_has_a_test() -> None:
    assert list(TESTS["transparency"]) == list(sections("transparency.md", "##+"))


@pytest.mark.parametrize("title", [title for title, named in TESTS["transparency"].items() if isinstance(named, dict)])
def test_every_rule_of_what_is_changed_or_answered_has_a_test_and_every_test_a_rule(title: str) -> None:
    rules, named = promises(sections("transparency.md", "##+")[title]), TESTS["transparency"][title]
    assert [rule for rule in rules if not any(is_of(key, rule) for key in named)] == []
    assert [key for key in named if not any(is_of(key, rule) for rule in rules)] == []


def test_the_tests_exist() -> None:
    entries = [entry for section in TESTS.values() for entry in section.values()]
    lists = [tests for entry in entries for tests in (entry.values() if isinstance(entry, dict) else [entry])]
    named = [test for tests in lists for test in tests]
    assert named
    for test in named:
        path, _, name = test.partition("::")
        text = (ROOT / path).read_text(encoding="utf-8")
        assert not name or re.search(rf"^(async )?def {name}\(", text, re.MULTILINE), test
