"""docs/reliability.md: tests/promises.toml names tests for each promise, and they exist.

Whether a test holds its promise, nothing here can say: read its body when you add a row.
"""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "reliability.md"
TESTS = tomllib.loads((ROOT / "tests" / "promises.toml").read_text(encoding="utf-8"))
NO_PROMISE = ("Not ", "What else stays", "|", "`make ", "What is limited", "Within its limit")
"""How the paragraphs begin that promise nothing, or say how something was tried."""


def promises(section: str) -> list[str]:
    """The items and the other paragraphs of a section, each in one line."""
    paragraphs = re.split(r"\n\n|\n(?=- )", section)
    lines = (" ".join(paragraph.removeprefix("- ").split()) for paragraph in paragraphs)
    return [line for line in lines if line and not line.startswith(NO_PROMISE)]


def sections() -> dict[str, list[str]]:
    """The promises of each section of the page."""
    parts = re.split(r"^## (.+)\n", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {title: promises(text) for title, text in zip(parts[1::2], parts[2::2], strict=True)}


def test_every_promise_has_a_test_and_every_test_a_promise() -> None:
    for title, found in sections().items():
        named = TESTS.get(title, {})
        without = [line for line in found if not any(line.startswith(key) for key in named)]
        gone = [key for key in named if not any(line.startswith(key) for line in found)]
        assert (title, without, gone) == (title, [], [])
    assert TESTS.keys() <= sections().keys()


def test_the_tests_exist() -> None:
    named = [test for section in TESTS.values() for tests in section.values() for test in tests]
    assert named
    for test in named:
        path, _, name = test.partition("::")
        text = (ROOT / path).read_text(encoding="utf-8")
        assert not name or re.search(rf"^(async )?def {name}\(", text, re.MULTILINE), test
