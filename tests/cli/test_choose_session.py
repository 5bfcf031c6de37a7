"""Which session a word means: an id, its beginning, a number after it, `last`, a title or a part of one."""

import os
import re
from pathlib import Path

import pytest

from acp_proxy import shell_quote
from acp_proxy.cli.choose_session import choose_session, shorten_ids
from acp_proxy.store.proxy_store import ProxyStore
from acp_proxy.transcript.file_names import file_name
from tests.cli.commands import get_error, get_json, get_stdout, invoke, list_ids, list_titles, run
from tests.cli.terminal import run_on_terminal
from tests.stored import EPOCH, WholeStore, store_session


def store_three_sessions(store: ProxyStore) -> None:
    store_session(store, "abc-1", ("first", []), at=EPOCH)
    store_session(store, "abc-12", ("second", []), at=EPOCH + 60)
    store_session(store, "b", ("third", []), at=EPOCH + 30)


@pytest.mark.parametrize("words", [("show", ""), ("export", ""), ("delete", "", "--yes"), ("redact", "", "--yes")])
def test_an_empty_word_matches_no_session(store: ProxyStore, words: tuple[str, ...]) -> None:
    store_session(store, "abc-1", ("first", []))
    result = run(store, *words)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "no session matches ''" in result.stderr
    assert list_ids(store) == ["abc-1"]


def test_a_session_is_named_by_the_beginning_of_its_id_or_as_the_last(store: ProxyStore) -> None:
    store_three_sessions(store)
    store_session(store, "xyz", ("fourth", []), at=EPOCH + 10)
    assert get_stdout(store, "show", "x").startswith("fourth")
    assert get_stdout(store, "show", "last").startswith("second")


@pytest.mark.parametrize("word", ["lats", "latest"])
def test_a_word_like_last_is_answered_with_that(store: ProxyStore, word: str) -> None:
    store_three_sessions(store)
    assert f"no session matches '{word}'. Did you mean: last?" in get_error(store, "show", word)[1]
    assert "Did you mean" not in get_error(store, "show", "login")[1]


def test_a_byte_that_is_not_utf_8_is_shown_as_it_was_typed(store: ProxyStore) -> None:
    store_three_sessions(store)
    for word, shown in (("a\udcffb", r"'a\xffb'"), (r"a\udcffb", r"'a\\udcffb'")):
        assert get_error(store, "show", word)[1].startswith(f"acp-proxy: no session matches {shown}.")


@pytest.mark.parametrize("command", ["show", "delete"])
def test_an_unknown_session_is_an_error(store: ProxyStore, command: str) -> None:
    store_three_sessions(store)
    for wanted in ("nobody", "abc-123"):
        result = run(store, command, wanted)
        assert (result.exit_code, result.stdout) == (1, "")
        assert wanted in result.stderr
    assert list_ids(store) == ["abc-12", "b", "abc-1"]


def test_the_error_for_a_deleted_session_says_how_to_bring_it_back(store: ProxyStore) -> None:
    store_three_sessions(store)
    store_session(store, "xyz-1", ("fourth", []), at=EPOCH + 10)
    get_stdout(store, "delete", "xyz-1", "--yes")
    for wanted in ("xyz-1", "xyz"):
        result = run(store, "show", wanted)
        back = f"acp-proxy: '{wanted}' is deleted. To bring it back: acp-proxy restore {wanted}\n"
        assert (result.exit_code, result.stderr) == (1, back)
    run(store, "restore", "xyz")
    assert get_stdout(store, "show", "xyz").startswith("fourth")
    get_stdout(store, "delete", "xyz", "--yes", "--permanent")
    assert "no session matches 'xyz'" in run(store, "show", "xyz").stderr


@pytest.mark.parametrize("command", ["show", "delete"])
def test_an_ambiguous_session_is_an_error_that_lists_the_candidates(store: ProxyStore, command: str) -> None:
    store_three_sessions(store)
    result = run(store, command, "abc")
    assert (result.exit_code, result.stdout) == (1, "")
    first, *rows, last = result.stderr.splitlines()
    assert (first, last) == ("acp-proxy: 'abc' matches several sessions:", "Give more of the id, or use --agent.")
    assert rows == [
        "  ID      TITLE   AGENT  DIRECTORY  WHEN      TURNS",
        "  abc-12  second  agent  /project   Nov 2023      1",
        "  abc-1   first   agent  /project   Nov 2023      1",
    ]
    assert len(list_ids(store)) == 3


def test_an_id_of_two_agents_needs_the_agent(store: ProxyStore) -> None:
    store_session(store, "s", ("first", []), agent="one")
    store_session(store, "s", ("second", []), agent="other")
    assert run(store, "show", "s").exit_code == 1
    assert get_stdout(store, "show", "s", "--agent", "one").startswith("first")
    assert get_stdout(store, "show", "s", "--agent", "other").startswith("second")


def test_an_id_of_two_agents_is_answered_with_a_command_for_each(store: ProxyStore) -> None:
    store_session(store, "s", ("first", []), agent="one", at=EPOCH)
    store_session(store, "s", ("second", []), agent="other", at=EPOCH + 1)
    where = ("--store", str(store.root))
    result = invoke("rename", "s", *where, "--", "-my title")
    assert result.exit_code == 1
    lines = result.stderr.splitlines()
    assert [line.split()[:3] for line in lines[2:4]] == [["s", "second", "other"], ["s", "first", "one"]]
    assert lines[4:] == [
        "Choose the agent:",
        f"  acp-proxy rename s {shell_quote.join(where)} --agent other -- {shell_quote.quote('-my title')}",
        f"  acp-proxy rename s {shell_quote.join(where)} --agent one -- {shell_quote.quote('-my title')}",
    ]
    assert invoke(*shell_quote.split(result.stderr.splitlines()[-1])[1:]).exit_code == 0
    assert get_stdout(store, "show", "s", "--agent", "one").startswith("-my title")


def test_web_takes_the_agent_of_an_id_that_two_agents_have(store: ProxyStore) -> None:
    store_session(store, "s", ("first", []), agent="one")
    store_session(store, "s", ("second", []), agent="other")
    result = invoke("web", "s", "--store", str(store.root))
    assert (result.exit_code, "  acp-proxy web s --store" in result.stderr) == (1, True)
    words = ("web", "s", "--port", "0", "--agent", "nobody", "--store", str(store.root))
    assert "no agent called 'nobody'" in invoke(*words).stderr


def test_a_session_without_a_transcript_is_unknown(store: ProxyStore) -> None:
    path = store_session(store, "s", ("Mend it", []))
    assert list_ids(store) == ["s"]
    path.unlink()
    result = run(store, "show", "s")
    assert (result.exit_code, "no session matches 's'" in result.stderr) == (1, True)
    assert list_ids(store) == []


@pytest.fixture
def numbered_store(tmp_path: Path) -> WholeStore:
    """Three sessions with the same id, as an agent with a counter makes them."""
    store = WholeStore(tmp_path / "store")
    for number, said in enumerate(("first", "second", "third")):
        store_session(store, "s0", (f"the {said} words", []), at=EPOCH + number)
    return store


def test_sessions_of_one_id_have_names_in_the_list(numbered_store: WholeStore) -> None:
    shown = [line.split("\t")[:2] for line in get_stdout(numbered_store, "list").splitlines()]
    assert shown == [["s0", "the third words"], ["s0~2", "the second words"], ["s0~1", "the first words"]]
    for row, (name, title) in zip(get_json(numbered_store, "list"), shown, strict=True):
        assert row["sessionId"] == "s0"
        for each in (name, row["transcript"]):
            assert get_stdout(numbered_store, "show", each).startswith(f"{title}\n{name}  ")
            assert title in get_stdout(numbered_store, "export", each)
            assert row["transcript"] in get_stdout(numbered_store, "path", each)
    get_stdout(numbered_store, "rename", "s0~1", "Mine")
    assert list_titles(numbered_store) == ["the third words", "the second words", "Mine"]
    assert get_error(numbered_store, "show", "s0~3")[0] == 1


def test_a_terminal_shows_short_ids_with_their_numbers(tmp_path: Path) -> None:
    store = WholeStore(tmp_path / "store")
    for session, at in (("0123456789-a", 0), ("0123456789-a", 1), ("9876543210-b", 2)):
        store_session(store, session, ("words", []), at=EPOCH + at)
    rows = store.list_all()
    assert list(shorten_ids(store, rows).values()) == ["98765432", "01234567", "01234567~1"]
    assert [choose_session(store, "01234567~1", ""), choose_session(store, "0123", "")] == [rows[2], rows[1]]


def test_deleting_an_id_twice_in_one_command_deletes_one_session(numbered_store: WholeStore) -> None:
    get_stdout(numbered_store, "delete", "s0", "--yes")
    assert get_error(numbered_store, "delete", "s0", "--yes")[0] == 1
    assert list_titles(numbered_store) == ["the second words", "the first words"]
    get_stdout(numbered_store, "delete", "s0~1", "--yes")
    assert list_titles(numbered_store) == ["the second words"]


# --- titles


@pytest.fixture
def titled_store(tmp_path: Path) -> WholeStore:
    store = WholeStore(tmp_path / "store")
    for number, title in enumerate(("Fix the login", "Fix the login page", "Größe ändern", "Mend s9", "fix")):
        store_session(store, f"s{number}", (title, []), at=EPOCH + number)
    return store


@pytest.mark.parametrize(
    ("given", "session"),
    [
        ("Fix the login", "s0"),
        ("PAGE", "s1"),
        ("grösse", "s2"),
        ("fix", "s4"),
        ("s1", "s1"),
    ],
)
def test_a_session_is_named_by_its_title_or_a_part_of_it(titled_store: WholeStore, given: str, session: str) -> None:
    assert choose_session(titled_store, given, "").session_id == session
    assert f"\n{session}  " in get_stdout(titled_store, "show", given)


@pytest.mark.parametrize(
    ("given", "more"),
    [
        ("", ""),
        ("0af3", ""),
        ("no such title", f"\nTo search in them: acp-proxy search {shell_quote.quote('no such title')}"),
    ],
)
def test_a_word_that_is_in_no_title_is_refused(titled_store: WholeStore, given: str, more: str) -> None:
    assert get_error(titled_store, "show", given) == (
        1,
        f"acp-proxy: no session matches {given!r}. To see all sessions: acp-proxy list{more}\n",
    )


def test_several_titles_are_listed(titled_store: WholeStore) -> None:
    status, said = get_error(titled_store, "show", "the LOGIN")
    first, heading, *rows, last = said.splitlines()
    assert (status, first) == (1, "acp-proxy: the titles of several sessions match 'the LOGIN':")
    assert heading.split() == ["ID", "TITLE", "AGENT", "DIRECTORY", "WHEN", "TURNS"]
    assert [re.split("  +", row.strip())[:4] for row in rows] == [
        ["s1", "Fix the login page", "agent", "/project"],
        ["s0", "Fix the login", "agent", "/project"],
    ]
    assert last == "Give the id instead."


def test_a_terminal_shows_several_titles_in_lines_of_its_width(tmp_path: Path) -> None:
    store = WholeStore(tmp_path / "store")
    for number in range(2):
        store_session(store, f"s{number}", (f"Mend it {'and that ' * 20}", []), cwd=f"/work/site{number}")
    words = ("show", "Mend", "--store", str(store.root))
    for columns in (60, 80):
        lines = run_on_terminal(*words, columns=columns, status=1).splitlines()
        assert len(lines) == 5
        assert all(len(line) <= columns for line in lines)
    assert "/site1 " in lines[2]
    store_session(store, "other", ("Mend it for the other agent, whose title is a long one", []), agent="other")
    lines = run_on_terminal(*words, columns=80, status=1).splitlines()
    assert lines[1].split() == ["ID", "TITLE", "AGENT", "DIRECTORY", "WHEN", "TURNS"]


def test_a_copy_among_several_titles_is_marked(tmp_path: Path) -> None:
    store = WholeStore(tmp_path / "store")
    store_session(store, "s0", ("Mend it", []))
    [original] = store.find_named("s0")
    store.copy_for_agent(original, file_name("other"), {})
    told = get_error(store, "show", "Mend it")[1]
    assert re.search(r"\n  copy-\w+ +copy · Mend it +other  ", told)
    assert re.search(r"\n  s0 +Mend it +agent  ", told)


def test_the_same_title_of_sessions_with_one_id_is_no_name(tmp_path: Path) -> None:
    store = WholeStore(tmp_path / "store")
    for number in range(2):
        store_session(store, "s0", ("Mend it", []), at=EPOCH + number)
    assert "\n  s0~1  Mend it  agent  " in get_error(store, "show", "Mend it")[1]


def test_the_id_of_a_deleted_session_is_no_part_of_a_title(titled_store: WholeStore) -> None:
    store_session(titled_store, "s9", ("words", []))
    assert choose_session(titled_store, "s9", "").session_id == "s9"
    get_stdout(titled_store, "delete", "s9", "--yes")
    assert get_error(titled_store, "show", "s9")[0] == 1


def test_a_deleted_session_is_restored_by_its_title(titled_store: WholeStore) -> None:
    get_stdout(titled_store, "delete", "s1", "--soft", "--yes")
    get_stdout(titled_store, "restore", "LOGIN")
    assert "Fix the login page" in list_titles(titled_store)


def test_a_file_in_place_of_a_session_is_answered_with_what_reads_files(
    titled_store: WholeStore, tmp_path: Path
) -> None:
    file = tmp_path / "my session.jsonl"
    file.write_text("{}")
    result = invoke("export", str(file), "--store", str(titled_store.root))
    assert result.exit_code == 1
    name = shell_quote.quote(str(file))
    said = f"is a file outside of the store. To show it: acp-proxy show {name}. To add it: acp-proxy import {name}\n"
    assert result.stderr.endswith(said)


def test_a_directory_in_place_of_a_session_is_answered_with_its_list(titled_store: WholeStore, tmp_path: Path) -> None:
    code, said = get_error(titled_store, "show", str(tmp_path))
    assert code == 1
    assert f"a directory. To see the sessions in it: acp-proxy list --cwd {shell_quote.quote(str(tmp_path))}" in said


@pytest.mark.parametrize("command", ["show", "export", "diff", "delete", "path"])
@pytest.mark.parametrize("word", ["/nope.jsonl", "nope.jsonl", "nope.jsonl.zst", "there/nope"])
def test_a_path_of_no_file_is_not_taken_for_words(titled_store: WholeStore, command: str, word: str) -> None:
    word = word.replace("/", os.sep)
    expected = f"acp-proxy: {word} does not exist. To see all sessions: acp-proxy list\n"
    assert get_error(titled_store, command, word) == (1, expected)


def test_a_title_with_a_path_is_a_name(titled_store: WholeStore) -> None:
    store_session(titled_store, "s9", ("Mend src/nope.jsonl", []))
    assert get_stdout(titled_store, "show", "src/nope.jsonl").startswith("Mend src/nope.jsonl\n")


def test_a_file_of_the_store_means_its_session(
    titled_store: WholeStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = get_stdout(titled_store, "path", "s1").strip()
    assert get_stdout(titled_store, "show", path) == get_stdout(titled_store, "show", "s1")
    assert get_stdout(titled_store, "export", path) == get_stdout(titled_store, "export", "s1")
    link = tmp_path / "link"
    link.symlink_to(Path(path).parent)
    monkeypatch.chdir(link)
    assert get_stdout(titled_store, "show", Path(path).name) == get_stdout(titled_store, "show", "s1")
    assert get_error(titled_store, "show", path, "--agent", "nobody")[0] == 1
    get_stdout(titled_store, "delete", path, "--yes")
    assert get_error(titled_store, "show", path)[0] == 1
    other = tmp_path / Path(path).name
    other.write_text("{}")
    assert "is a file" in get_error(titled_store, "export", str(other))[1]


def test_a_title_is_shown_without_marks_of_markdown_everywhere_and_taken_so(tmp_path: Path) -> None:
    store = WholeStore(tmp_path / "store")
    store_session(store, "s0", ("# Heading of **two** words", []))
    shown = "Heading of two words"
    assert get_stdout(store, "show", shown.upper()).startswith(f"{shown}\n")
    assert get_stdout(store, "pin", shown).startswith(f"{shown}\n")
    assert list_ids(store, "of two words") == ["s0"]
    deleted = run(store, "delete", shown, "--yes", "--soft")
    assert (deleted.exit_code, f"{shown}\n" in deleted.stdout, "# " in deleted.output) == (0, True, False)
    restored = run(store, "restore", shown)
    assert (restored.exit_code, restored.stderr) == (0, f"Restored: {shown}  s0\n")
    get_stdout(store, "delete", "s0", "--yes", "--soft")
    assert f"{shown}  s0  agent  deleted " in run(store, "delete", "s0", "--permanent", answer="n\n").stderr


def test_yes_needs_more_than_a_part_of_a_title(titled_store: WholeStore) -> None:
    for words in (("delete", "page", "--yes"), ("redact", "page", "--yes")):
        status, said = get_error(titled_store, *words)
        assert (status, "\n  s1  Fix the login page  agent  " in said) == (1, True)
    assert run(titled_store, "delete", "page", answer="y\n").exit_code == 0
    get_stdout(titled_store, "delete", "Fix the login", "--yes")
    assert list_titles(titled_store) == ["fix", "Mend s9", "Größe ändern"]
