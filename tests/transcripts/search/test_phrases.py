"""Whatever a person types is a question that SQLite understands, and finds what is meant by it."""

import sqlite3
from collections.abc import Iterator
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_proxy.errors import UsageError
from acp_proxy.transcripts.search import phrases
from acp_proxy.transcripts.search.words import _TABLES
from tests.strategies import texts


@pytest.fixture(scope="module")
def database() -> Iterator[sqlite3.Connection]:
    made = sqlite3.connect(":memory:", isolation_level=None)
    made.executescript(_TABLES)
    yield made
    made.close()


def finds(database: sqlite3.Connection, text: str, *words: str) -> bool:
    database.execute("DELETE FROM said")
    database.execute("INSERT INTO said(text) VALUES (?)", (phrases.separated(text),))
    return bool(database.execute("SELECT 1 FROM said WHERE said MATCH ?", (phrases.question(words),)).fetchall())


TEXT = (
    'Über die Straße: open src/main.py, "then" run foo_bar(x=1) — 日本語のテキスト and 한국어를 배워요, ข้อความ.'
    " Cafe\u0301!"
)


@pytest.mark.parametrize(
    "words",
    [
        ("run",),
        ("RUN", "open"),
        ("open", "run"),
        ("uber",),
        ("über",),
        ("u\u0308ber",),
        ("café",),
        ("cafe",),
        ("stra*",),
        ("main.py",),
        ("src/main.py",),
        ("foo_bar",),
        ("foo_bar(x=1)",),
        ("die Straße",),
        ('"die Straße"',),
        ('die "then run"',),
        ('"then ru"*',),
        ("then ru*",),
        ("日本語",),
        ("本語",),
        ("テキスト", "日本"),
        ("日本*",),
        ("한국어",),
        ("ข้อความ",),
        ("ความ",),
        ("AND",),
        ("run", "---"),
        ('"run',),
        ("*run",),
        ("run**",),
    ],
)
def test_what_was_said_is_found(database: sqlite3.Connection, words: tuple[str, ...]) -> None:
    assert finds(database, TEXT, *words)


@pytest.mark.parametrize(
    "words",
    [
        ("ru",),
        ("run", "nothing"),
        ("run open",),
        ("Straße die",),
        ('"run open"',),
        ("語本",),
        ("日本人",),
        ("NOT", "run"),
        ("run", "OR", "nothing"),
        ("text:run",),
        ("ain*",),
    ],
)
def test_what_was_not_said_is_not_found(database: sqlite3.Connection, words: tuple[str, ...]) -> None:
    assert not finds(database, TEXT, *words)


@pytest.mark.parametrize("words", [(), ("",), ("---",), ("*",), ('"',), ('""',), ("( ) * :",), ("🚀",), ("\x00",)])
def test_without_a_letter_or_a_digit_there_is_nothing_to_look_for(words: tuple[str, ...]) -> None:
    with pytest.raises(UsageError, match="nothing to search for"):
        phrases.question(words)


_TYPED = st.text(st.sampled_from('ab1"*(){}[]:^+-.,\\ \t\n\0\ud800\u200b日้AND OR NOT NEAR')) | texts


@given(st.lists(_TYPED, max_size=6), _TYPED)
def test_nothing_that_can_be_typed_is_a_syntax_error(database: sqlite3.Connection, words: list[str], text: str) -> None:
    with suppress(UsageError):
        finds(database, text, *words)


@given(st.text(st.sampled_from("abz19 éüÜß.,-_/()'—日本語を한국어กข")).filter(lambda text: any(map(str.isalnum, text))))
def test_any_text_is_found_by_itself(database: sqlite3.Connection, text: str) -> None:
    assert finds(database, f"before {text} behind", text)


def test_very_many_words_are_a_question_too(database: sqlite3.Connection) -> None:
    assert finds(database, TEXT, *["run"] * 5000)
    assert finds(database, TEXT, *['"die Straße"'] * 2000)


def test_what_separates_words_is_taken_out_again() -> None:
    assert phrases.joined(phrases.separated(TEXT)) == TEXT
    assert phrases.separated("plain text") == "plain text"
