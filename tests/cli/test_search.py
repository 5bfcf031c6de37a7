"""The results of ``sessions search``, for people and for programs."""

import json
import os
import re
import sqlite3
import sys
from datetime import UTC, datetime
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import typer
from typer.testing import Result

from acp_proxy import shell_quote
from acp_proxy.cli.app import app
from acp_proxy.protocol import timestamps
from acp_proxy.relay import pipes
from acp_proxy.store.index_database import ListedSession
from acp_proxy.tools.search import command, nearby, results, search
from acp_proxy.tools.search.fts_table import Excerpt
from acp_proxy.tools.search.search import Hit
from acp_proxy.views import session_lines
from tests.cli.commands import get_error, invoke
from tests.cli.terminal import run_on_terminal
from tests.cli.test_control_characters import NEVER_PRINTED, STEERING
from tests.posix import pty
from tests.stored import EPOCH, WholeStore, chunk, store_session
from tests.tools.changes.calls import edit_call, ended_call, started_call

DAY = 24 * 60 * 60.0
IN_CALLS = "--in", "tools", "--in", "output"


def run(store: WholeStore, *words: str) -> Result:
    return invoke("search", "--store", str(store.root), *words)  # before a "--" among the words


def get_stdout(store: WholeStore, *words: str) -> str:
    result = run(store, *words)
    assert result.exit_code == 0, result.stderr
    return result.stdout


def list_ids(store: WholeStore, *words: str) -> list[str]:
    return [hit["sessionId"] for hit in json.loads(run(store, "--json", *words).stdout)]


def two_sessions(store: WholeStore) -> None:
    turn = [chunk("The cookie is set by the "), chunk("login page.")]
    store_session(store, "first", ("Mend the login page", turn), ("Thanks", []), agent="one", cwd="/one", at=EPOCH)
    store_session(
        store, "second", ("Hello", []), ("Where is the login?", []), agent="other", cwd="/other", at=EPOCH + DAY
    )


def on_terminal(store: WholeStore, *words: str, width: int = 80, **more: str) -> str:
    """What a terminal shows, stderr included."""
    settings = {"PAGER": "cat", "ACP_PROXY_PAGER": "cat", "HOME": "/home/nobody", **more}
    return run_on_terminal("search", *words, "--store", str(store.root), columns=width, settings=settings)


# --- matches


def test_a_pipe_gets_one_line_per_match(store: WholeStore) -> None:
    two_sessions(store)
    one, other = (store.choose_agent(None, name, "") for name in ("one", "other"))
    assert get_stdout(store, "login") == (
        f"second\t2\tHello\t{other}\t/other\t2023-11-15T22:13:20.000Z\tWhere is the login?\n"
        f"first\t1\tMend the login page\t{one}\t/one\t2023-11-14T22:13:20.000Z"
        "\tMend the login page · The cookie is set by the login page.\n"
    )


@pytest.mark.parametrize("words", [("word",), ("--tool", "edit")])
def test_a_pipe_gets_every_turn_of_a_session(store: WholeStore, words: tuple[str, ...]) -> None:
    store_session(store, "s", *((f"word {n}", edit_call(f"c{n}", f"{n}.py", "0\n", "1\n")) for n in range(1, 8)))
    assert [line.split("\t")[1] for line in get_stdout(store, *words).splitlines()] == list("1234567")


def test_json_has_the_positions_of_the_words(store: WholeStore) -> None:
    two_sessions(store)
    agent = store.choose_agent(None, "one", "")
    [hit] = json.loads(get_stdout(store, "cookie", "--json"))
    [listed] = [session_lines.encode_row(row) for row in store.list_all() if row.session_id == "first"]
    assert (listed["agent"], listed["turns"]) == (agent, 2)
    assert hit == {
        **listed,
        "found": [
            {
                "turn": 1,
                "at": "2023-11-14T22:13:20.000Z",
                "text": "The cookie is set by the login page.",
                "marks": [[4, 10]],
            }
        ],
    }


GOLDEN = """\
\x1b[1mHello\x1b[0m
\x1b[2mother · /other · AGO\x1b[0m
  \x1b[32mturn 2  \x1b[0mWhere is the \x1b[1;31mlogin\x1b[0m?
  \x1b[36macp-proxy show second --turn 2 --store STORE\x1b[0m

\x1b[1mMend the login page\x1b[0m
\x1b[2mone · /one · AGO\x1b[0m
  \x1b[32mturn 1  \x1b[0mMend the \x1b[1;31mlogin\x1b[0m page · The cookie
  is set by the \x1b[1;31mlogin\x1b[0m page.
  \x1b[36macp-proxy show first --turn 1 --store STORE\x1b[0m

"""


def test_a_terminal_shows_marked_words_and_the_command_for_the_turn(store: WholeStore) -> None:
    two_sessions(store)
    run(store, "login")
    seen = on_terminal(store, "login", width=44)
    for year in range(1, 100):
        seen = seen.replace(f"{year} years ago", "AGO")
    assert seen == GOLDEN.replace("STORE", str(store.root))


def test_a_part_without_words_is_answered_with_what_it_is_for(store: WholeStore) -> None:
    code, text = get_error(store, "search", "--failed", "--in", "output")
    assert (code, text) == (2, "acp-proxy: --in says where words are looked for. Give words, or leave --in out.\n")


def test_words_are_marked_without_colours_too(store: WholeStore) -> None:
    two_sessions(store)
    seen = on_terminal(store, "login", NO_COLOR="1")
    assert "Where is the \x1b[1mlogin\x1b[0m?" in seen
    assert set(re.findall(r"\x1b\[[0-9;]*m", seen.partition("Hello")[2])) == {"\x1b[0m", "\x1b[1m", "\x1b[2m"}


def test_the_shown_command_opens_the_session(store: WholeStore) -> None:
    for session in ("plain", "-begins-like-an-option", "with 'quotes' and $HOME"):
        store_session(store, session, (f"the word of {session}", []), agent="one")
    store_session(store, "plain", ("another", []), agent="other")
    seen = on_terminal(store, "word")
    told = [line.strip() for line in seen.replace("\x1b[36m", "").replace("\x1b[0m", "").split("\n") if "show" in line]
    assert len(told) == 3
    for line in told:
        words = shell_quote.split(line)[1:]
        index = words.index("--turn")
        assert words[index : index + 2] == ["--turn", "1"]
        result = invoke(*words[:index] + words[index + 2 :])
        assert result.exit_code == 0, (line, result.stderr)
        assert "the word of" in result.stdout


def test_an_older_session_of_an_id_is_opened_by_its_number(store: WholeStore) -> None:
    store_session(store, "s", ("the older word", []), at=EPOCH)
    store_session(store, "s", ("the newer word", []), at=EPOCH + 60)
    seen = on_terminal(store, "word", NO_COLOR="1", width=400)
    assert "acp-proxy show s --turn 1" in seen.partition("the older word")[0]
    assert "acp-proxy show 's~1' --turn 1" in seen.partition("the older word")[2]
    assert [line.split("\t")[0] for line in run(store, "word").stdout.splitlines()] == ["s", "s~1"]


def test_a_terminal_shows_progress_and_the_newest_results_while_transcripts_are_read(
    store: WholeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(12):
        store_session(store, f"s{number}", (f"word {number}", []), at=EPOCH + 60 * number)
    monkeypatch.setattr(command, "PATIENCE_SECONDS", 0.0)
    monkeypatch.setattr(search, "_FIRST_BATCH", 1)
    monkeypatch.setenv("PAGER", "cat")
    first, later = seen_in_process(store, monkeypatch), seen_in_process(store, monkeypatch)
    shown = re.findall(r"word (\d+)\x1b", first)
    assert [*dict.fromkeys(shown)] == [str(number) for number in reversed(range(2, 12))]
    assert first.index("word 11") < first.rindex("Reading new transcripts") < first.index("word 2\x1b")
    assert re.findall(r"word (\d+)\x1b", later) == shown
    assert "Reading" not in later + run(store, "word").stderr


def seen_in_process(store: WholeStore, monkeypatch: pytest.MonkeyPatch) -> str:
    """What a terminal shows of a search in this process, stderr included."""
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w") as written, monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", written)
        patch.setattr(sys, "stderr", written)
        patch.setenv("TERM", "xterm-256color")
        reader = Thread(target=lambda: seen.extend(iter(lambda: pipes.read(ours, 65536), b"")))
        seen: list[bytes] = []
        reader.start()
        app(["search", "word", "--store", str(store.root)], standalone_mode=False)
    reader.join()
    os.close(ours)
    return b"".join(seen).decode()


def test_a_disk_too_full_for_the_search_tables_is_reported(store: WholeStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store_session(store, "s", ("word", []))
    connect = sqlite3.connect

    def crowded(path: Path | str, **given: Any) -> sqlite3.Connection:
        database: sqlite3.Connection = connect(path, **given)
        if "search" in Path(path).parts:
            database.execute("PRAGMA max_page_count = 1")
        return database

    monkeypatch.setattr(sqlite3, "connect", crowded)
    result = run(store, "word")
    assert (result.exit_code, result.stdout) == (1, "")
    assert f"the disk of {store.root} is too full" in result.stderr
    assert "Free some space and search again" in result.stderr


def test_the_limit_is_reported_if_there_are_more_sessions(store: WholeStore) -> None:
    for number in range(12):
        store_session(store, f"s{number:02}", ("word", []), at=EPOCH + number)
    result = run(store, "word")
    assert [line.split("\t")[0] for line in result.stdout.splitlines()] == [f"s{11 - n:02}" for n in range(10)]
    assert "There are more than 10 sessions. To see more: -n 20." in result.stderr
    assert run(store, "word", "-n", "1").stderr.startswith("There is more than 1 session. ")
    assert len(list_ids(store, "word", "--limit", "20")) == 12
    assert list_ids(store, "word", "--limit", "1") == ["s11"]


def test_further_turns_of_a_session_are_named() -> None:
    excerpts = [Excerpt(turn, "", "word", [(0, 4)]) for turn in (1, 2, 3)]
    look = results.SearchLook(80, is_formatted=False, has_colours=False, now=datetime.fromtimestamp(EPOCH, UTC))
    for turns, said in (
        ([1], "show\n\n"),
        ([1, 2, 3], "show\n  (and turns 2, 3)\n"),
        ([1, 2, 3, 9], "and turn 9\n"),
        (list(range(1, 20)), "and turns 4, 5, 6, 7, 8, 9, 10, 11, 12, 13 and 6 more\n"),
    ):
        assert said in results.format_hit(Hit(a_row(), timestamps.format_now(EPOCH), turns, excerpts), "show", look)


def test_agents_with_one_name_are_told_apart() -> None:
    look = results.SearchLook(
        80,
        is_formatted=False,
        has_colours=False,
        now=datetime.fromtimestamp(EPOCH, UTC),
        agents={a_row().agent_folder: "agent-0123"},
    )
    assert "\nagent-0123 · " in results.format_hit(Hit(a_row(), timestamps.format_now(EPOCH), [], []), "show", look)


def test_a_directory_that_does_not_fit_loses_its_beginning_as_in_the_list(store: WholeStore) -> None:
    cwd = "/somewhere/far/away/with/a/long/name/project/directory"
    store_session(store, "s", ("word", []), agent="agent", cwd=cwd, at=EPOCH)
    assert f"agent · {cwd} · " in on_terminal(store, "word")
    assert re.search(r"agent · …/[a-z/]*/project/directory · [^\n]*\n  ", on_terminal(store, "word", width=48))
    assert "\x1b[2m…/project/directory " in on_terminal(store, "word", width=20)


def a_row() -> ListedSession:
    return ListedSession("agent-0123456789abcdef", "s", "s", "/", "title", "", 1, 1, False, False, [], {}, 0, "")


# --- filters


def printing_session(store: WholeStore) -> None:
    error = {
        "content": [{"type": "content", "content": {"type": "text", "text": "\x1b[31mImportError: no flask\x1b[0m"}}]
    }
    listed: dict[str, Any] = {"rawInput": {"command": "pip ls --no-color"}, "rawOutput": "wheel 0.45\nflake8 7"}
    turn = [
        chunk("Perhaps a venv.", "agent_thought_chunk"),
        *(started_call("b", title="pip list", kind="execute"), ended_call("b", **listed)),
        *(started_call("c", title="pytest", kind="execute"), ended_call("c", "failed", **error)),
        chunk("The import fails."),
    ]
    store_session(store, "printing", ("Run the tests", turn), ("And flask?", []))


def test_what_tools_printed_is_found_on_request(store: WholeStore) -> None:
    printing_session(store)
    assert run(store, "wheel").exit_code == 1
    assert list_ids(store, "wheel", "--in", "output") == ["printing"]
    [line] = get_stdout(store, "ImportError", "--in", "output").splitlines()
    assert (line.split("\t")[:2], line.split("\t")[-1]) == (
        ["printing", "1"],
        "ImportError: no flask",
    )
    [hit] = json.loads(get_stdout(store, "flask", "--in", "output", "--json"))
    [found] = hit["found"]
    assert (found["turn"], found["text"], found["marks"]) == (
        1,
        "ImportError: no flask",
        [[16, 21]],
    )


def test_why_a_call_failed_and_thoughts_are_found_without_asking(store: WholeStore) -> None:
    printing_session(store)
    [line] = get_stdout(store, "ImportError", "import", "fails").splitlines()
    assert line.split("\t")[-1] == "The import fails. · ImportError: no flask"
    assert list_ids(store, "venv") == ["printing"]


def test_parts_may_be_combined_and_are_found_with_calls(store: WholeStore) -> None:
    printing_session(store)
    assert (
        list_ids(store, "flask", "--in", "user")
        == list_ids(store, "flask", "--in", "output", "--failed")
        == ["printing"]
    )
    assert list_ids(store, "flask", "--in", "user", "--failed") == list_ids(store, "flask", "--in", "agent") == []
    [line] = get_stdout(store, "tests", "ImportError", "--in", "user", "--in", "output").splitlines()
    assert line.split("\t")[-1] == "Run the tests · ImportError: no flask"


# --- no match, and errors


def test_no_match_exits_with_1(store: WholeStore) -> None:
    for words in (("nothing",), ("nothing", "--json"), ("login", "--agent", "one", "--since", "2999-01-01")):
        two_sessions(store)
        result = run(store, *words)
        assert (result.exit_code, result.stdout) == (1, "[]\n" if "--json" in words else "")
        assert "Nothing matches" in result.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("logi",), "No 'logi'; these begin with it:\n"),
        (("logi pag",), "Nothing has all of these words; these have words that begin with them:\n"),
        (("logi", "cooki*"), "Nothing has all of these words; these have words that begin with them:\n"),
        (("logi", "--in", "user"), "No 'logi'; these begin with it:\n"),
    ],
)
def test_words_that_nothing_has_are_searched_as_beginnings(
    store: WholeStore, words: tuple[str, ...], said: str
) -> None:
    two_sessions(store)
    result = run(store, *words)
    assert (result.exit_code, result.stderr) == (0, said)
    assert "first\t1\tMend the login page" in result.stdout


def test_beginnings_are_searched_only_if_nothing_has_the_words_and_not_in_quotes(store: WholeStore) -> None:
    two_sessions(store)
    store_session(store, "third", ("Of a log", []))
    assert (run(store, "log").stderr, list_ids(store, "log")) == ("", ["third"])
    assert (run(store, '"logi"').exit_code, run(store, '"logi"').stdout) == (1, "")


def test_on_a_terminal_the_pager_says_that_the_words_only_begin_so(store: WholeStore) -> None:
    two_sessions(store)
    assert on_terminal(store, "logi").startswith("No 'logi'; these begin with it:\n\n")


def test_json_has_only_what_was_asked_for(store: WholeStore) -> None:
    two_sessions(store)
    result = run(store, "logi", "--json")
    assert (result.exit_code, result.stdout) == (1, "[]\n")
    assert result.stderr == "Nothing matches as it is. Without --json, what comes near is shown.\n"


@pytest.mark.parametrize(
    ("words", "names", "rest"),
    [
        (("login", "--cwd", "/nowhere"), "--cwd", ""),
        (("login", "--here"), "--here", ""),
        (("logi", "-S", "2999-01-01"), "--since", ""),  # also as a beginning
        (("login", "--until", "2001-01-01", "--branch", "x", "--in", "user"), "--until and --branch", " --in user"),
        (("login", "--cwd", "/nowhere", "--json"), "--cwd", " --json"),
    ],
)
def test_no_match_because_of_a_filter_says_so(store: WholeStore, words: tuple[str, ...], names: str, rest: str) -> None:
    two_sessions(store)
    stderr = run(store, *words).stderr
    them, again = "them" if " and " in names else "it", shell_quote.join(["--store", str(store.root)])
    assert stderr.startswith(
        f"Nothing matches with {names}. Without {them}, something does: acp-proxy search {words[0]}"
    )
    assert stderr.endswith(f"{rest} {again}\n")
    assert run(store, *shell_quote.split(stderr.partition(" search ")[2])).exit_code == 0


def test_no_match_because_of_words_blames_no_filter(store: WholeStore) -> None:
    two_sessions(store)
    assert run(store, "nowhere", "--here").stderr.startswith("Nothing matches, not even as the beginning of a word")


def test_no_match_says_what_was_tried(store: WholeStore) -> None:
    two_sessions(store)
    assert run(store, "logi pag", "x").stderr == (
        "Nothing matches, not even as the beginning of a word, nor in what tools did or printed. Try fewer words.\n"
    )
    assert run(store, "zz*", "yy*").stderr == "Nothing matches, nor in what tools did or printed. Try fewer words.\n"
    assert list_ids(store, "logi*", "pag*") == ["first"]


def test_no_match_says_how_to_search_output_if_a_tool_printed_the_words(store: WholeStore) -> None:
    printing_session(store)
    for words in (["wheel"], ["whee"], ["no flask", "flake8"], ["no-color"]):
        output = shell_quote.join(["acp-proxy", "search", *words, *IN_CALLS, "--store", str(store.root)])
        stderr = run(store, *words).stderr
        assert stderr.endswith(f"\nA tool did or printed it: {output}\n")
        assert run(store, *words, *IN_CALLS).exit_code == 0


def test_much_output_is_not_read_for_a_hint(store: WholeStore, monkeypatch: pytest.MonkeyPatch) -> None:
    printing_session(store)
    monkeypatch.setattr(nearby, "_READ_FOR_HINT", 10)
    output = shell_quote.join(["acp-proxy", "search", "wheel", *IN_CALLS, "--store", str(store.root)])
    assert run(store, "wheel").stderr.endswith(f"\nTo search what tools did and printed: {output}\n")
    run(store, "wheel", "--in", "output")
    assert "\nA tool did or printed it: " in run(store, "wheel").stderr


def test_hints_repeat_the_options_that_were_given(store: WholeStore) -> None:
    two_sessions(store)
    words, options = ["zebra", "horse"], ["--agent", "one", "--failed", "--limit", "3"]
    output = ["acp-proxy", "search", *words, *IN_CALLS, "--store", str(store.root), *options[:3]]
    assert f"{shell_quote.join(output)}\n" in run(store, *words, *options).stderr
    near = ["acp-proxy", "search", "login", "--store", str(store.root), "--since", "90000d"]
    assert f"Did you mean: {shell_quote.join(near)}\n" in run(store, "logn", "--since", "90000d").stderr


def test_a_quote_that_is_not_closed_is_closed_and_mentioned(store: WholeStore) -> None:
    two_sessions(store)
    printing_session(store)
    stderr = run(store, '"flake8 7').stderr
    assert stderr.startswith('A quote is not closed. Searched: "flake8 7"\nNothing matches.')
    assert shell_quote.join(["acp-proxy", "search", '"flake8 7"', *IN_CALLS]) in stderr
    assert list_ids(store, '"login pag*') == list_ids(store, '"login pag"*')


def test_a_misspelt_word_is_answered_with_the_one_that_is_there(store: WholeStore) -> None:
    two_sessions(store)
    with_store = ["--store", str(store.root)]
    for words, near in ((["logn"], ["login"]), (["cokie", "page"], ["cookie", "page"]), (["thnaks"], ["thanks"])):
        lines = run(store, *words).stderr.splitlines()
        assert lines[1] == f"Did you mean: {shell_quote.join(['acp-proxy', 'search', *near, *with_store])}"
        assert "Nothing matches" in lines[0]
        assert run(store, *near).exit_code == 0
    assert "Did you mean" not in run(store, "zebra").stderr
    assert "Did you mean" not in run(store, "cokie", "hello").stderr  # no turn has both
    assert "Did you mean" not in run(store, "logn", "--json").stderr


def test_operators_of_other_searches_are_said_to_be_words(store: WholeStore) -> None:
    two_sessions(store)
    lines = run(store, "log*in", "page*").stderr.splitlines()
    assert lines[1] == "* stands only for the end of a word, not as in log*in."
    assert "* stands" not in run(store, "nothing*").stderr
    lines = run(store, "login", "OR", "nothing").stderr.splitlines()
    assert lines[1] == "OR is searched as a word: there are no operators."
    lines = run(store, "login", "OR", "nothing", "AND").stderr.splitlines()
    assert lines[1] == "AND, OR are searched as words: there are no operators."


def test_no_match_in_a_part_says_what_is_found_without_it(store: WholeStore) -> None:
    two_sessions(store)
    again = shell_quote.join(["--store", str(store.root)])
    for words, without, rest in (
        (("logi", "--in", "output"), "with --in. Without it", "logi"),
        (("cookie", "--in", "user", "--agent", "one"), "with --in. Without it", "cookie"),
        (("cookie", "--in", "user", "--in", "tools", "--json"), "with --in. Without it", "cookie --json"),
        (("login", "--in", "agent", "--agent", "other"), "with --agent. Without it", "login --in agent"),
        (("cookie", "--in", "user", "--agent", "other"), "with --agent and --in. Without them", "cookie"),
    ):
        stderr = run(store, *words).stderr
        assert stderr.startswith(f"Nothing matches {without}, something does: acp-proxy search {rest} {again}"), words
        assert run(store, *shell_quote.split(stderr.partition(" search ")[2])).exit_code == 0
    assert run(store, "zebra", "--in", "output").stderr == "Nothing matches, not even as the beginning of a word.\n"
    near = shell_quote.join(["acp-proxy", "search", "login", "--in", "user", "--store", str(store.root)])
    assert run(store, "logn", "--in", "user").stderr.endswith(f"\nDid you mean: {near}\n")


def renamed_and_read(store: WholeStore) -> None:
    for number in range(2):
        turns = [("Rename UserStore", [chunk("Done")]), ("Thanks", []), ("Also update the README", [chunk("Yes.")])]
        store_session(store, f"apart{number}", *turns, ("UserStore again", []), agent="one", at=EPOCH + number)
    store_session(store, "one", ("UserStore", []), ("Thanks", []), agent="one", at=EPOCH + 9)


def test_words_in_different_turns_are_found_if_no_turn_has_all(store: WholeStore) -> None:
    renamed_and_read(store)
    about = "No turn has all of these words; these sessions have them in different turns:\n"
    result = run(store, "README", "UserStore")
    assert (result.exit_code, result.stderr) == (0, about)
    assert [line.split("\t")[:2] for line in result.stdout.splitlines()] == [
        ["apart1", "3"],
        ["apart1", "4"],
        ["apart0", "3"],
        ["apart0", "4"],
    ]
    assert run(store, "userstore", "readme", "update").stdout == result.stdout
    assert run(store, "UserStore", "again", "--in", "user").stderr == ""
    assert run(store, "UserStore", '"the README"', "--in", "user").stderr == about
    assert on_terminal(store, "UserStore", "README").startswith(about)
    wider = run(store, "UserSto", "README")
    assert wider.stderr == about.replace("them in", "words that begin with them, in")
    assert len(wider.stdout.splitlines()) == 4
    assert run(store, "UserStore", "README", "--json").stdout == "[]\n"
    assert run(store, "UserStore", "README", "zebra").exit_code == 1
    assert "Without it, something does" in run(store, "UserStore", "README", "--cwd", "/x").stderr
    assert run(store, "UserStore", "README", "--failed").exit_code == 1


def test_a_misspelt_word_may_be_in_another_turn(store: WholeStore) -> None:
    renamed_and_read(store)
    near = shell_quote.join(["acp-proxy", "search", "readme", "Thanks", "--store", str(store.root)])
    assert f"\nDid you mean: {near}\n" in run(store, "raedme", "Thanks").stderr


def test_an_id_is_answered_with_the_command_that_shows_it(store: WholeStore) -> None:
    for name in ("db4d3d03-1", "db4d9999-2"):
        store_session(store, name, ("Hello", []))
    again = shell_quote.join(["--store", str(store.root)])
    assert (
        f"\nThis is the id of a session: acp-proxy show db4d3d03 {again}\n" in run(store, "db4d3d03", "-S", "1d").stderr
    )
    stderr = run(store, "db4d").stderr
    assert f"\nThis is the beginning of several ids: acp-proxy list db4d {again}\n" in stderr
    assert "the id" not in run(store, "db4e").stderr + run(store, "db4d3d03", "x").stderr


@pytest.mark.parametrize("words", [("---",), ('"',), ("",)])
def test_a_search_without_a_word_says_what_to_give(store: WholeStore, words: tuple[str, ...]) -> None:
    result = run(store, "--", *words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "letters or digits" in result.stderr


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("a", "--limit", "0"),
        ("a", "--until", "tomorrow"),
        ("a", "--no-such"),
        ("a", "--in", "x"),
        ("--failed", "--in", "user"),
    ],
)
def test_wrong_usage_exits_with_2(store: WholeStore, words: tuple[str, ...]) -> None:
    assert run(store, *words).exit_code == 2


@pytest.mark.parametrize("is_written", [True, False])
def test_an_interrupted_search_says_whether_its_work_is_kept(
    store: WholeStore, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, is_written: bool
) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: is_written)
    with pytest.raises(typer.Exit) as ended, command._handle_interrupt(WholeStore(store.root, create=False)):
        raise KeyboardInterrupt
    assert ended.value.exit_code == 130
    assert ("continues where this one stopped" in capsys.readouterr().err) == is_written


# --- hostile text


def test_control_sequences_are_not_printed(store: WholeStore) -> None:
    words = f"Mend{STEERING} it"
    for number in range(2):
        store_session(
            store,
            f"id{number}{STEERING}",
            (words, [chunk(words), {"sessionUpdate": "tool_call", "toolCallId": "1", "title": words}]),
            agent=words,
            cwd=f"/{words}",
            at=EPOCH + number,
        )
    for options in ((), ("--json",)):
        assert not NEVER_PRINTED & set(get_stdout(store, "mend", *options))
    seen = on_terminal(store, "mend", NO_COLOR="1", TERM="dumb")
    assert "Mend" in seen
    assert not NEVER_PRINTED & set(seen.replace("\x1b[0m", "").replace("\x1b[1m", "").replace("\x1b[2m", ""))


def test_on_a_terminal_titles_and_excerpts_have_no_marks_of_markdown(store: WholeStore) -> None:
    store_session(store, "marked", ("## Use **the** `zebra` command", []))
    assert on_terminal(store, "zebra", NO_COLOR="1").count("Use the ") == 2
    assert "`" not in on_terminal(store, "zebra")


def test_on_a_terminal_paths_of_the_directory_are_short(store: WholeStore) -> None:
    turn = [started_call("c", title="Edit /one/src/zebra.py and /one/b.py"), ended_call("c")]
    store_session(store, "s", ("Look", turn), cwd="/one")
    shown = on_terminal(store, "zebra", NO_COLOR="1")
    assert "Edit src/\x1b[1mzebra\x1b[0m.py and b.py" in shown
    assert "Edit /one/src/zebra.py" in get_stdout(store, "zebra")


# --- tool calls


ROOT = os.path.abspath(os.sep)
ONE, LOGIN = os.path.abspath("/one"), os.path.abspath("/one/src/login.py")
ANN = f"{ROOT}Users/ann" if os.name == "nt" else "/home/ann"


def three_with_calls(store: WholeStore) -> None:
    made = edit_call("c1", "src/login.py", None, "new\n")
    ran = [
        started_call("c2", kind="execute", title="Run tests", rawInput={"command": "make TEST"}),
        ended_call("c2", "failed"),
    ]
    read = [started_call("c3", kind="read", title="Read", name="view", locations=[{"path": f"{ANN}/notes/a.md"}])]
    store_session(store, "writes", ("Hello", []), ("Make the login", made), cwd=ONE, at=EPOCH)
    store_session(store, "runs", ("Test the login", ran), cwd="/two", at=EPOCH + DAY)
    store_session(
        store, "reads", ("What does it say?", [*read, ended_call("c3")]), cwd="/two/below", at=EPOCH + 2 * DAY
    )


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (("--file", LOGIN), ["writes"]),
        (("--file", ONE), ["writes"]),
        (("--file", ONE[:-1]), []),
        (("--file", f"{ANN}/notes/"), ["reads"]),
        (("--tool", "VIEW"), ["reads"]),
        (("--tool", "edit"), ["writes"]),
        (("--command", "make test"), ["runs"]),
        (("--failed",), ["runs"]),
        (("--failed", "--tool", "edit"), []),
        (("login", "--tool", "edit"), ["writes"]),
        (("hello", "--tool", "edit"), []),
        (("login", "--failed", "--cwd", ONE), []),
        (("--failed", "--cwd", "/two"), ["runs"]),
        (("--failed", "--cwd", ONE), []),
        (("--failed", "--agent", "other"), []),
        (("--file", "/", "--limit", "2"), ["reads", "writes"]),
    ],
)
def test_calls_are_found_by_file_tool_command_and_failure(
    store: WholeStore, words: tuple[str, ...], found: list[str]
) -> None:
    three_with_calls(store)
    store_session(store, "elsewhere", ("login", []), agent="other", at=EPOCH)
    assert list_ids(store, *words) == found


def test_calls_are_found_in_turns_of_the_given_time(store: WholeStore) -> None:
    three_with_calls(store)
    day = datetime.fromtimestamp(EPOCH + 2 * DAY).astimezone().strftime("%Y-%m-%d")
    assert list_ids(store, "--file", "/", "--since", day) == ["reads"]
    assert list_ids(store, "--failed", "--since", day) == []


def test_a_file_below_the_home_is_found_below_another_home(store: WholeStore, monkeypatch: pytest.MonkeyPatch) -> None:
    three_with_calls(store)
    for name in ("HOME", "USERPROFILE"):  # the second one is Windows'
        monkeypatch.setenv(name, f"{ROOT}Users/eve")
    assert list_ids(store, "--file", f"{ROOT}Users/eve/notes") == ["reads"]
    assert list_ids(store, "--file", f"{ROOT}Users/eve/other") == []
    assert list_ids(store, "--file", "/srv/ann/notes") == []


def test_json_has_the_calls_with_their_files_and_results(store: WholeStore) -> None:
    three_with_calls(store)
    [hit] = json.loads(get_stdout(store, "--failed", "--json"))
    [found] = hit["found"]
    assert (found["turn"], found["text"], found["marks"]) == (1, "make TEST (failed)", [])
    assert found["calls"] == [
        {
            "toolCallId": "c2",
            "title": "Run tests",
            "name": None,
            "kind": "execute",
            "command": "make TEST",
            "result": "failed",
            "files": [],
        }
    ]
    [hit] = json.loads(get_stdout(store, "login", "--tool", "edit", "--json"))
    [found] = hit["found"]
    assert (found["turn"], len(found["marks"])) == (2, 1)
    assert found["calls"][0]["files"] == [{"action": "create", "path": LOGIN}]


def test_a_pipe_gets_a_line_per_turn_with_the_files(store: WholeStore) -> None:
    three_with_calls(store)
    assert get_stdout(store, "--file", ONE).split("\t")[-1] == f"create {LOGIN}\n"


def test_a_file_that_no_call_names_is_told_with_its_path(store: WholeStore) -> None:
    three_with_calls(store)
    path = os.path.abspath("docs/x.py")
    for words, said in (
        (("--file", "docs/x.py"), f"No tool call on {path} matches, nor on another of that name."),
        (
            ("--file", "docs/x.py", "--failed"),
            f"No tool call on {path} matches, nor on another of that name. Try fewer options.",
        ),
        (("login", "--file", "docs/x.py"), f"Nothing matches, not even as the beginning of a word (--file is {path})."),
    ):
        result = run(store, *words)
        assert (result.exit_code, result.stdout, result.stderr.splitlines()[0]) == (1, "", said)


def test_what_was_done_through_a_link_is_found_by_its_file(store: WholeStore, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "other").symlink_to("elsewhere")
    for name in ("link", "other"):
        store_session(store, name, ("Hello", edit_call("1", name, None, "x\n")), cwd=str(tmp_path))
    assert list_ids(store, "--file", str(tmp_path / "real")) == ["link"]


@pytest.mark.parametrize(("name", "found"), [("login.py", LOGIN), ("src/", LOGIN)])
def test_a_name_without_a_directory_is_found_elsewhere(store: WholeStore, name: str, found: str) -> None:
    three_with_calls(store)
    result = run(store, "--file", name)
    path = os.path.abspath(name)
    assert (result.exit_code, result.stderr) == (0, f"No call on {path}; these are on another of that name:\n")
    assert result.stdout.endswith(f"create {found}\n")
    assert list_ids(store, "--file", name) == []
    assert run(store, "--file", "other.py").stderr == (
        f"No tool call on {os.path.abspath('other.py')} matches, nor on another of that name.\n"
    )


def test_a_path_with_a_directory_leads_to_others_of_that_name(store: WholeStore) -> None:
    three_with_calls(store)
    path = os.path.abspath("lib/login.py")
    command = shell_quote.join(["acp-proxy", "search", "--file", "login.py", "--store", str(store.root)])
    advice = f"For others of that name, wherever they are: {command}"
    result = run(store, "--file", "lib/login.py")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.splitlines() == [f"No tool call on {path} matches.", advice]
    assert advice.replace("search", "search login") in run(store, "login", "--file", "lib/login.py").stderr


def test_no_matching_call_exits_with_1(store: WholeStore) -> None:
    three_with_calls(store)
    result = run(store, "--tool", "nothing")
    assert (result.exit_code, result.stdout, result.stderr) == (
        1,
        "",
        "No tool call matches.\nTools that were called: edit, execute, read, view\n",
    )
    assert run(store, "--tool", "VIEW", "--failed").stderr == "No tool call matches. Try fewer options.\n"
    both = run(store, "--tool", "nothing", "--failed")
    assert both.stderr.startswith("No tool call matches. Try fewer options.\nTools that were called: ")


@pytest.mark.parametrize("is_indexed", [False, True])
@pytest.mark.parametrize("words", [["login"], ["--failed"], ["login", "--in", "user"]])
def test_a_transcript_that_cannot_be_read_is_named(store: WholeStore, words: list[str], is_indexed: bool) -> None:
    two_sessions(store)
    [path] = store.root.glob("transcripts/*/first-*.jsonl")
    if is_indexed:
        store.list_all()
    path.write_bytes(path.read_bytes().replace(b'"acp-transcript":1', b'"acp-transcript":9'))
    *_, line = run(store, *words).stderr.splitlines()
    assert line.startswith(f"acp-proxy: not searched: {path}: ")
    assert "not searched" not in run(store, *words, "--agent", "other").stderr
