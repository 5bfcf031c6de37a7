"""A search finds turns and titles, with their sessions and times."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from acp_proxy.tools.maintenance.verify import verify_store
from acp_proxy.tools.search import query, turn_text
from acp_proxy.tools.search import search as search_search
from acp_proxy.tools.search.search import Hit, SearchRequest, search_store
from acp_proxy.transcript.file_names import file_name
from tests.store import compressible, transcript_lines
from tests.store.concurrent_writers import AGENT
from tests.store.transcript_lines import agent_chunk, answer, info, prompt_line
from tests.stored import WholeStore
from tests.tools.search.stored_searches import append, find_turns, list_tables, search, store_turns

# Matches.


def test_a_turn_with_all_words_is_found_with_their_positions(store: WholeStore) -> None:
    store_turns(store, "s", "Mend the login page", "Then the cookie of the login", "Thanks")
    [hit] = search(store, "COOKIE", "login").hits
    assert (hit.row.session_id, hit.row.title, hit.turns) == ("s", "Mend the login page", [2])
    [excerpt] = hit.excerpts
    assert (excerpt.turn, excerpt.stamp, excerpt.text) == (2, transcript_lines.time(60), "Then the cookie of the login")
    assert [excerpt.text[start:end] for start, end in excerpt.marks] == ["cookie", "login"]


def test_words_in_different_turns_do_not_match(store: WholeStore) -> None:
    store_turns(store, "s", "one", "other")
    assert find_turns(store, "one", "other") == []


def test_a_phrase_is_found_across_chunks(store: WholeStore) -> None:
    transcript_lines.store_lines(
        store,
        AGENT,
        "s",
        prompt_line("x"),
        *(agent_chunk(part) for part in ("it was the coo", "kie, as ", "I said")),
        answer(),
    )
    assert find_turns(store, "the cookie as I") == [("s", [1])]


def test_sessions_are_ordered_by_their_newest_match_and_turns_by_number(store: WholeStore) -> None:
    store_turns(store, "old", "word", "word", at=0)
    store_turns(store, "new", "word", at=3600)
    store_turns(store, "goes-on", "word", "nothing", "word", at=3500)
    assert find_turns(store, "word") == [("goes-on", [1, 3]), ("new", [1]), ("old", [1, 2])]
    assert find_turns(store, "word", limit=1) == [("goes-on", [1, 3])]
    assert not search(store, "word", limit=2).is_all
    assert search(store, "word", limit=3).is_all


def test_sessions_of_nearly_one_moment_are_ordered_by_the_whole_time(store: WholeStore) -> None:
    """The tables number two turns of one second as if they were a second apart."""
    times = {"a": (5.1, 5.2, 5.3), "b": (6.0,), "c": (5.9,), "d": (5.25, 5.25), "e": (4.9, 4.9, 4.9, 4.9), "f": (5.3,)}
    for session, of_turns in times.items():
        transcript_lines.store_lines(
            store, AGENT, session, *(prompt_line("word", at=at, session=session) for at in of_turns)
        )
    newest_first = ["b", "c", "a", "f", "d", "e"]
    hits = search(store, "word").hits
    assert [hit.row.session_id for hit in hits] == newest_first
    assert [hit.last_match_at for hit in hits] == [
        transcript_lines.time(max(times[session])) for session in newest_first
    ]
    for limit in range(1, 6):
        assert [session for session, _ in find_turns(store, "word", limit=limit)] == newest_first[:limit]


def test_each_match_is_told_at_once_and_the_search_may_end_early(store: WholeStore) -> None:
    for number in range(5):
        store_turns(store, f"s{number}", "word", at=number)
    told: list[str] = []

    def tell(hit: Hit) -> bool:
        told.append(hit.row.session_id)
        return len(told) < 3

    sought = SearchRequest(query.make_query(["word"]), store.list_agents(), limit=None)
    assert not search_store(store, sought, report_hit=tell).is_all
    assert told == ["s4", "s3", "s2"]
    assert len(search_store(store, sought).hits) == 5


def test_a_match_is_told_as_soon_as_no_newer_one_can_come(store: WholeStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search_search, "_BATCH_SIZE", 0)  # a batch for each transcript
    for number in range(5):
        store_turns(store, f"s{number}", "word", at=10 * number)
    transcript_lines.store_lines(store, AGENT, "continued", prompt_line("word", at=5), prompt_line("another", at=60))
    events: list[object] = []

    def tell(hit: Hit) -> bool:
        events.append(hit.row.session_id)
        return True

    sought = SearchRequest(query.make_query(["word"]), store.list_agents(), limit=None)
    result = search_store(store, sought, lambda done, total: events.append(done), tell)
    assert [hit.row.session_id for hit in result.hits] == ["s4", "s3", "s2", "s1", "continued", "s0"]
    assert events == [1, 2, "s4", 3, "s3", 4, "s2", 5, "s1", "continued", 6, "s0"]


def test_a_search_that_has_its_results_leaves_the_rest_to_the_next_one(
    store: WholeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search_search, "_BATCH_SIZE", 0)
    for number in range(20):
        store_turns(store, f"s{number}", "word", at=number)

    def read(limit: int | None, since: str | None = None) -> tuple[list[str], bool, int]:
        """The sessions found, whether these are all, and how many were read."""
        done = [0]
        sought = SearchRequest(query.make_query(["word"]), store.list_agents(), since=since, limit=limit)
        result = search_store(store, sought, lambda now, total: done.append(now))
        return [hit.row.session_id for hit in result.hits], result.is_all, done[-1]

    assert read(2) == (["s19", "s18"], False, 3)
    assert read(2) == (["s19", "s18"], False, 1)
    assert read(None, since=transcript_lines.time(12))[1:] == (True, 4)
    assert read(2) == (["s19", "s18"], False, 1)
    found, is_all, count = read(None)
    assert (found, is_all, count) == ([f"s{number}" for number in reversed(range(20))], True, 11)


def test_all_turns_of_one_moment_are_found(store: WholeStore) -> None:
    transcript_lines.store_lines(store, AGENT, "s", *(prompt_line(f"word {number}", at=5) for number in range(1, 31)))
    assert find_turns(store, "word") == [("s", list(range(1, 31)))]
    assert find_turns(store, "17") == [("s", [17])]


def test_the_number_of_excerpts_is_limited_on_request(store: WholeStore) -> None:
    store_turns(store, "s", *["word"] * 5)
    assert [excerpt.turn for excerpt in search(store, "word", excerpts_per_session=2).hits[0].excerpts] == [1, 2]
    assert [excerpt.turn for excerpt in search(store, "word", excerpts_per_session=0).hits[0].excerpts] == [
        1,
        2,
        3,
        4,
        5,
    ]


def test_a_title_is_found_even_if_no_turn_has_it(store: WholeStore) -> None:
    transcript_lines.store_lines(store, AGENT, "s", prompt_line("x"), info(title="Mending the login"), answer())
    [hit] = search(store, "mending").hits
    assert (hit.turns, [(excerpt.turn, excerpt.text) for excerpt in hit.excerpts]) == ([], [(0, "Mending the login")])
    append(store, "s", info(title="Another title"))
    assert find_turns(store, "mending") == []
    assert find_turns(store, "another title") == [("s", [])]


def test_agent_directory_and_time_narrow_the_search(store: WholeStore, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    store_turns(store, "a", "word", at=0, cwd=str(tmp_path / "real"))
    store_turns(store, "b", "word", "word", at=3600, agent="other", cwd=str(tmp_path / "elsewhere"))
    assert find_turns(store, "word", agents=("other",)) == [("b", [1, 2])]
    assert find_turns(store, "word", agents=(AGENT,)) == [("a", [1])]
    assert find_turns(store, "word", agents=()) == []
    assert find_turns(store, "word", cwd=str(tmp_path / "link")) == [("a", [1])]
    assert find_turns(store, "word", cwd=str(tmp_path)) == []
    assert find_turns(store, "word", since=transcript_lines.time(3630)) == [("b", [2])]
    assert find_turns(store, "word", since=transcript_lines.time(7200)) == []


def test_sessions_of_two_agents_with_the_same_id_are_separate(store: WholeStore) -> None:
    store_turns(store, "s", "word one", at=0)
    store_turns(store, "s", "word other", at=60, agent="other")
    assert [hit.row.agent_folder for hit in search(store, "word").hits] == ["other", AGENT]


def test_of_a_session_and_its_copy_only_one_is_found_unless_both_went_on(store: WholeStore) -> None:
    store_turns(store, "s", "word", "Word again")
    copies = [store.copy_for_agent(next(store.list_newest()), agent, {}) for agent in ("other", "third")]
    assert find_turns(store, "word") == [("s", [1, 2])]
    assert find_turns(store, "word", agents=("other",)) == [(copies[0], [1, 2])]
    transcript_lines.store_lines(
        store, "other", copies[0], prompt_line("word there", at=600, session=copies[0]), answer(at=600), fresh=False
    )
    assert find_turns(store, "word") == [(copies[0], [1, 2, 3])]
    transcript_lines.store_lines(
        store, AGENT, "s", prompt_line("word here", at=900, session="s"), answer(at=900), fresh=False
    )
    assert find_turns(store, "word") == [("s", [1, 2, 3]), (copies[0], [1, 2, 3])]


def test_a_title_of_a_session_and_its_copy_is_found_once(store: WholeStore) -> None:
    transcript_lines.store_lines(store, AGENT, "s", prompt_line("x"), info(title="Named word"), answer())
    store.copy_for_agent(next(store.list_newest()), "other", {})
    store.copy_for_agent(next(store.list_newest()), "other", {})
    assert find_turns(store, "named") == [("s", [])]


def test_a_masked_secret_is_short_in_a_title_and_in_an_excerpt(store: WholeStore) -> None:
    store_turns(store, "s", f"use [redacted]{'*' * 90} for the login")
    [hit] = search(store, "login").hits
    assert hit.row.title == hit.excerpts[0].text == "use [redacted] for the login"


def test_without_a_matching_agent_no_tables_are_made(store: WholeStore, root: Path) -> None:
    assert search(store, "login").hits == []
    store_turns(store, "s", "login")
    assert search(store, "login", agents=()).hits == []
    assert list_tables(root) == set()


def test_a_session_without_a_prompt_is_not_found(store: WholeStore) -> None:
    transcript_lines.store_lines(store, AGENT, "s", agent_chunk("word"))
    assert find_turns(store, "word") == []
    append(store, "s", prompt_line("hello"))
    assert find_turns(store, "word") == [("s", [1])]


def test_an_excerpt_separates_messages(store: WholeStore) -> None:
    call = transcript_lines.update("tool_call", toolCallId="t", title="Edit file.py")
    transcript_lines.store_lines(
        store, AGENT, "s", prompt_line("Fix the flag\nin it"), call, agent_chunk("Fixed: needle")
    )
    [excerpt] = search(store, "needle", "flag").hits[0].excerpts
    assert excerpt.text == "Fix the flag in it · Fixed: needle"
    assert [excerpt.text[start:end] for start, end in excerpt.marks] == ["flag", "needle"]


def test_an_excerpt_is_one_line_around_the_match(store: WholeStore) -> None:
    before, after = "a\tb\n" * 500, "\n日本語 c" * 500
    store_turns(store, "s", f"{before} the needle {after}")
    [excerpt] = search(store, "needle").hits[0].excerpts
    assert "the needle 日本語 c" in excerpt.text
    assert len(excerpt.text) < 200
    assert excerpt.text.isprintable()
    assert [excerpt.text[start:end] for start, end in excerpt.marks] == ["needle"]


@pytest.mark.parametrize("text", ["{0} needle {0}", "needle {0}", "{0} needle", "{0} needle {0} needle", "needle{0}"])
def test_an_excerpt_of_very_long_words_is_bounded(store: WholeStore, text: str) -> None:
    store_turns(store, "s", text.format("x" * 5000))
    [excerpt] = search(store, "needle*").hits[0].excerpts
    assert len(excerpt.text) <= 242
    assert {excerpt.text[start:end][:6] for start, end in excerpt.marks} == {"needle"}


# --- updates


def test_only_new_turns_are_read_before_a_search(
    store: WholeStore, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store_turns(store, "s", "first", "second")
    store_turns(store, "other", "first", at=10)
    assert len(find_turns(store, "first")) == 2
    read: list[int] = []

    class Watched(turn_text.TurnReader):
        def __init__(self, start: turn_text.TurnStart) -> None:
            read.append(start.turns)
            super().__init__(start)

    monkeypatch.setattr(search_search, "TurnReader", Watched)
    assert len(find_turns(store, "first")) == 2
    assert read == []
    append(store, "s", agent_chunk("more of it", at=61), prompt_line("third", at=120), agent_chunk("coo", at=121))
    assert find_turns(store, "third") == [("s", [3])]
    assert find_turns(store, "more", "second") == [("s", [2])]
    assert read == [1]
    append(store, "s", agent_chunk("kie", at=122))
    assert find_turns(store, "third", "cookie") == [("s", [3])]
    assert find_turns(store, "coo") == []
    assert read == [1, 2]
    assert find_turns(store, "first") == [("other", [1]), ("s", [1])]


def test_a_turn_in_another_window_at_the_same_time_is_found_apart(store: WholeStore) -> None:
    store_turns(store, "s", "first")
    append(store, "s", prompt_line("mine", at=60), agent_chunk("coo", at=61), prompt_line("its", at=62, run="run002"))
    append(store, "s", agent_chunk("rec", at=63, run="run002"))
    assert find_turns(store, "mine", "coo") == [("s", [2])]
    append(store, "s", agent_chunk("kie", at=64), agent_chunk("ipe", at=65, run="run002"), answer(at=66))
    append(store, "s", answer(at=67, run="run002"))
    assert find_turns(store, "mine", "cookie") == [("s", [2])]
    assert find_turns(store, "its", "recipe") == [("s", [3])]
    assert [finding.kind for finding in verify_store(store)] == []


def test_a_compressed_transcript_is_read_again_only_if_it_continues(store: WholeStore) -> None:
    transcript_lines.store_lines(
        store, compressible.AGENT, "s", prompt_line("word", session="s"), agent_chunk("x" * 5000), answer()
    )
    assert find_turns(store, "word") == [("s", [1])]
    compressible.compress_now(store, "s")
    assert find_turns(store, "word") == [("s", [1])]
    append(store, "s", prompt_line("again", at=60))
    assert find_turns(store, "again") == [("s", [2])]
    assert find_turns(store, "word") == [("s", [1])]


def test_sessions_with_the_same_id_are_found_separately(store: WholeStore) -> None:
    store_turns(store, "s", "first word")
    assert find_turns(store, "word") == [("s", [1])]
    store_turns(store, "s", "second word", at=60)
    assert [hit.row.title for hit in search(store, "word").hits] == ["second word", "first word"]


def test_a_shrunk_file_is_read_again(store: WholeStore, root: Path) -> None:
    store_turns(store, "s", "first", "second")
    assert find_turns(store, "second") == [("s", [2])]
    path = root / "transcripts" / AGENT / f"{file_name('s')}.jsonl"
    os.truncate(path, path.read_bytes().index(b'"second"'))
    store.reindex(None)
    assert find_turns(store, "second") == []
    assert find_turns(store, "first") == [("s", [1])]


def test_the_next_search_continues_after_an_interruption(
    store: WholeStore, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search_search, "_BATCH_SIZE", 0)
    for number in range(60):
        store_turns(store, f"s{number}", f"word number {number}", at=number)
    told: list[tuple[int, int]] = []

    def progress(done: int, total: int) -> None:
        told.append((done, total))
        if done == 20:
            raise KeyboardInterrupt

    sought = SearchRequest(query.make_query(["word"]), store.list_agents(), limit=100)
    with pytest.raises(KeyboardInterrupt):
        search_store(store, sought, progress)
    assert told == [(done, 60) for done in range(1, 21)]
    told.clear()
    assert len(search_store(store, sought, lambda done, total: told.append((done, total))).hits) == 60
    assert told == [(done, 40) for done in range(1, 41)]


@pytest.mark.parametrize("time", range(3))
def test_simultaneous_searches_find_the_same(store: WholeStore, root: Path, time: int) -> None:
    for number in range(60):
        store_turns(store, f"s{number}", "word")

    def search_once(_: int) -> int:
        return len(search(WholeStore(root), "word", limit=1000).hits)

    with ThreadPoolExecutor(6) as at_once:
        assert list(at_once.map(search_once, range(6))) == [60] * 6
    assert len(find_turns(store, "word", limit=1000)) == 60
    assert len(list_tables(root)) == 16
