"""The page that lists several exported sessions and searches them."""

import json
import re
from typing import Any

from acp_proxy.tools.export.index_page import IndexEntry, WordIndex, collect_words, render_index
from acp_proxy.views.conversation import Plan
from acp_proxy.views.document import Choices
from tests.views.turns import call, message, turn


def index_entry(
    number: int, cwd: str = "/project", updated: str = "2026-11-20T09:15:02.123Z", title: str = ""
) -> IndexEntry:
    return IndexEntry(f"{number}.html", title or f"Title {number}", "agent", cwd, updated, 1)


def read_words_of(page: str) -> dict[str, list[int]]:
    """The words in a page, each with the numbers of its sessions."""
    data: dict[str, Any] = json.loads(page.split('id="words">')[1].split("</script>")[0])
    found = {}
    for word, gaps in zip(data["words"].split(), data["sessions"].split(), strict=True):
        numbers, number = [], 0
        for gap in gaps.split(","):
            number += int(gap, 36)
            numbers.append(number)
        found[word] = numbers
    return found


def test_words_are_those_that_search_searches_in_lower_case() -> None:
    output = {"type": "content", "content": {"type": "text", "text": "exited with 1209600"}}
    turns = [
        turn(
            message("user", "Mend `login.py`"),
            message("thought", "secretly"),
            message("agent", "Gr", "öße: O\u0308l, x"),
        ),
        turn(message("agent", "again " + "z" * 41), Plan([{"content": "Step"}]), call("cat file", output)),
        turn(call("make", output, status="failed"), error="Overloaded"),
    ]
    spoken = {"mend", "login", "py", "größe", "öl", "again", "step", "overloaded"}
    everything = spoken | {"secretly", "cat", "file", "make", "exited", "with", "1209600"}
    assert collect_words(turns, Choices()) == everything


def test_words_of_what_is_not_exported_are_not_in_the_page() -> None:
    output = {"type": "content", "content": {"type": "text", "text": "the reason"}}
    turns = [turn(message("thought", "secretly"), message("agent", "Done"), call("make", output, status="failed"))]
    assert collect_words(turns, Choices(thoughts=False, tools="none")) == {"done"}
    assert collect_words(turns, Choices(thoughts=False, tools="summary")) == {"done", "make"}


def test_a_long_run_of_marks_is_not_normalized_for_its_word() -> None:
    turns = [turn(message("user", "la" + "\u0301\u0316" * 100 + " O\u0308l"))]
    assert collect_words(turns, Choices()) == {"la", "öl"}


def test_the_page_has_each_word_once_with_its_sessions() -> None:
    words = WordIndex()
    for number in range(3000):
        words.add({"all"} | ({"few"} if number in (0, 1, 37, 2999) else set()))
    page = "".join(render_index([index_entry(number) for number in range(3000)], words))
    assert read_words_of(page) == {"all": [*range(3000)], "few": [0, 1, 37, 2999]}


def test_beyond_the_limit_the_page_says_which_sessions_are_found_by_title() -> None:
    words = WordIndex(most_characters=100)
    for number in range(10):
        if words.has_room:
            words.add({f"{number}{'x' * 37}"})
    assert words.count == 3
    page = "".join(render_index([index_entry(number) for number in range(10)], words))
    assert "Of all but the newest 3, it finds only the titles." in page
    assert "it finds only" not in "".join(render_index([index_entry(number) for number in range(3)], words))


def test_sessions_are_in_the_order_of_projects_and_days() -> None:
    entries = [
        index_entry(0, "/a", "2026-11-20T23:59:59.000Z"),
        index_entry(1, "/b", "2026-11-20T10:00:00.000Z"),
        index_entry(2, "/a", "2026-11-20T00:00:00.000Z"),
        index_entry(3, "/a", "2026-11-19T23:59:59.000Z"),
        index_entry(4, "", "not a time"),
    ]
    page = "".join(render_index(entries, WordIndex()))
    assert re.findall(r"<h2[^>]*><bdi>(.*?)<|<h3>(.*?)<|Title (\d)<", page) == [
        ("/a", "", ""),
        ("", "2026-11-20", ""),
        ("", "", "0"),
        ("", "", "2"),
        ("", "2026-11-19", ""),
        ("", "", "3"),
        ("/b", "", ""),
        ("", "2026-11-20", ""),
        ("", "", "1"),
        ("No directory", "", ""),
        ("", "At an unknown time", ""),
        ("", "", "4"),
    ]


def test_words_cannot_end_the_element_that_holds_them() -> None:
    words = WordIndex()
    words.add({"</script><script>alert(1)</script>", "<!--", "&amp;"})
    page = "".join(render_index([index_entry(0)], words))
    assert page.count("<script") == 2
    assert read_words_of(page).keys() == {"</script><script>alert(1)</script>", "<!--", "&amp;"}
