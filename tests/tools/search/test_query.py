"""Any text is a valid query, and matches as documented."""

import sqlite3
import unicodedata
from collections.abc import Iterator
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_proxy.errors import UsageError
from acp_proxy.tools.search import query
from acp_proxy.tools.search.fts_table import SearchTable
from tests.strategies import texts


@pytest.fixture(scope="module")
def database() -> Iterator[sqlite3.Connection]:
    made = sqlite3.connect(":memory:", isolation_level=None)
    made.executescript(SearchTable.TABLES)
    yield made
    made.close()


def finds(database: sqlite3.Connection, text: str, *words: str) -> bool:
    database.execute("DELETE FROM said")
    database.execute("INSERT INTO said(text) VALUES (?)", (query.separate_words(text),))
    return bool(database.execute("SELECT 1 FROM said WHERE said MATCH ?", (query.make_query(words),)).fetchall())


def test_each_word_is_looked_up_once() -> None:
    assert query.make_query(["the", "cat", "the", '"the"', "cat*"]) == '"the" "cat" "cat"*'


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
        ("STRASSE",),
        ("strass*", "uber"),
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
def test_matching_words_are_found(database: sqlite3.Connection, words: tuple[str, ...]) -> None:
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
def test_other_words_are_not_found(database: sqlite3.Connection, words: tuple[str, ...]) -> None:
    assert not finds(database, TEXT, *words)


@pytest.mark.parametrize("words", [(), ("",), ("---",), ("*",), ('"',), ('""',), ("( ) * :",), ("🚀",), ("\x00",)])
def test_a_query_without_letters_or_digits_is_refused(words: tuple[str, ...]) -> None:
    with pytest.raises(UsageError, match="nothing to search for"):
        query.make_query(words)


_TYPED = st.text(st.sampled_from('ab1"*(){}[]:^+-.,\\ \t\n\0\ud800\u200b日้AND OR NOT NEAR')) | texts


@given(st.lists(_TYPED, max_size=6), _TYPED)
def test_every_text_is_a_valid_query(database: sqlite3.Connection, words: list[str], text: str) -> None:
    with suppress(UsageError):
        finds(database, text, *words)


@given(st.text(st.sampled_from("abz19 éüÜß.,-_/()'—日本語を한국어กข")).filter(lambda text: any(map(str.isalnum, text))))
def test_any_text_finds_itself(database: sqlite3.Connection, text: str) -> None:
    assert finds(database, f"before {text} after", text)


def test_a_query_can_have_very_many_words(database: sqlite3.Connection) -> None:
    assert finds(database, TEXT, *["run"] * 5000)
    assert finds(database, TEXT, *['"die Straße"'] * 2000)
    words = [f"grüße{number}" for number in range(2000)]
    assert finds(database, " ".join(words), *(word.replace("ß", "ss") for word in words))


def test_a_sharp_s_is_found_as_ss_and_the_reverse(database: sqlite3.Connection) -> None:
    for text, word in (("Größe", "GRÖSSE"), ("GRÖSSE", "größe"), ("GROẞE", "grosse"), ("Fußpass", "fusspaß")):
        assert finds(database, f"Die {text}", word), text
    assert not finds(database, "Maße", "Mase")


@pytest.mark.parametrize("word", ["русский", "ёлка", "한국어", "データ", "ガイド"])
def test_a_word_is_found_in_each_normal_form(database: sqlite3.Connection, word: str) -> None:
    decomposed, composed = (unicodedata.normalize(form, word) for form in ("NFD", "NFC"))
    assert finds(database, f"see {decomposed} end", composed)
    assert finds(database, f"see {composed} end", decomposed)


@pytest.mark.parametrize(
    "word", ["Fixed", "bot", "First", "Done", "tests", "500", "great", "isolated", "paused", "green", "love"]
)
def test_a_word_beside_a_sign_is_found(database: sqlite3.Connection, word: str) -> None:
    signs = "🛠️Fixed 1️⃣First 🤖bot ✅Done🥳 🧪tests ₽500 👍🏽great \u2066isolated\u2069 ⏸paused 🟢green ❤️love"
    assert finds(database, signs, word)
    assert query.join_words(query.separate_words(signs)) == signs


def test_separated_text_can_be_joined_again() -> None:
    assert query.join_words(query.separate_words(TEXT)) == unicodedata.normalize("NFC", TEXT)
    assert query.separate_words("plain text") == "plain text"


def test_a_word_beside_a_long_run_of_marks_is_found(database: sqlite3.Connection) -> None:
    text = "see a" + "\u0301\u0316" * 100 + " \u0435\u0308ж"
    assert query.separate_words(text) == text.replace("\u0435\u0308", "\u0451")
    assert finds(database, text, "\u0451ж")
