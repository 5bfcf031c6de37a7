"""The options that say which sessions a command is about mean the same in each; words, order and use in lists."""

import json
from pathlib import Path

import pytest

from acp_proxy.cli.session_filter import make_filter
from acp_proxy.tools.browse.store_worker import BrowseStore
from acp_proxy.transcript.file_format import GitHead
from tests.cli.commands import get_json, get_stdout, run
from tests.stored import EPOCH, WholeStore, chunk, store_session

DAY = 24 * 60 * 60
SEVERAL = [
    ((), ["new", "mid", "old"]),
    (("--agent", "one"), ["mid", "old"]),
    (("--since", "2023-11-15T00:00:00Z"), ["new", "mid"]),
    (("--until", "2023-11-16T00:00:00Z"), ["mid", "old"]),
    (("--since", "2023-11-15T00:00:00Z", "--until", "2023-11-16T00:00:00Z"), ["mid"]),
    (("--cwd", "/project"), ["mid", "old"]),
    (("--branch", "topic"), ["new", "mid"]),
    (("--branch", "topic", "--cwd", "/project"), ["mid"]),
    (("--agent", "one", "--cwd", "/project", "--since", "2023-11-15T00:00:00Z"), ["mid"]),
]


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> WholeStore:
    here = tmp_path / "here"
    (here / "below").mkdir(parents=True)
    monkeypatch.chdir(here)
    store = WholeStore(tmp_path / "store")
    store_session(store, "old", ("Mend the login", [chunk("words")]), agent="one", cwd="/project", at=EPOCH)
    words, topic = [chunk("words")], GitHead("topic", "0123456789" * 4)
    store_session(store, "mid", ("Mend the index", words), agent="one", cwd="/project", at=EPOCH + DAY, git=topic)
    below = str(here / "below")
    store_session(store, "new", ("Deploy the login", words), agent="two", cwd=below, at=EPOCH + 2 * DAY, git=topic)
    return store


@pytest.mark.parametrize(("options", "left"), SEVERAL)
def test_the_same_options_leave_the_same_sessions_everywhere(
    store: WholeStore, tmp_path: Path, options: tuple[str, ...], left: list[str]
) -> None:
    assert [row["sessionId"] for row in get_json(store, "list", *options)] == left
    assert [row["sessionId"] for row in get_json(store, "search", "the", *options)] == left
    out = tmp_path / "out"
    get_stdout(store, "export", "--all", *options, "--format", "jsonl", "--output", f"{out}/")
    assert {json.loads(path.read_bytes().splitlines()[0])["sessionId"] for path in out.iterdir()} == set(left)
    assert get_json(store, "stats", *options)["total"]["sessions"] == len(left)
    given = dict(zip(options[::2], options[1::2], strict=True))
    names = ("--agent", "--cwd", "--since", "--until", "--branch")
    agent, cwd, since, until, branch = (given.get(name, "") for name in names)
    wanted = make_filter(agent, cwd, since=since, until=until, branch=branch)
    assert [row.session_id for row in BrowseStore(store.root, wanted).list_rows(archived=False)] == left


def test_the_branch_where_a_session_began_is_shown(store: WholeStore) -> None:
    [row] = get_json(store, "list", "index")
    assert (row["branch"], row["commit"]) == ("topic", "0123456789" * 4)
    assert "branch topic at 01234567" in get_stdout(store, "show", "mid")
    [row] = get_json(store, "list", "--cwd", "/project", "login")
    assert (row["branch"], row["commit"]) == (None, None)
    assert run(store, "list", "--branch", "top", "--json").stdout == "[]\n"


def test_a_branch_that_is_not_utf8_is_found(store: WholeStore) -> None:
    store_session(store, "odd", ("go", []), git=GitHead(b"br\xff".decode(errors="replace"), ""))
    branch = b"br\xff".decode(errors="surrogateescape")  # as a shell passes it
    assert [row["sessionId"] for row in get_json(store, "list", "--branch", branch)] == ["odd"]


def test_here_means_this_directory_and_those_below_in_each_command(store: WholeStore, tmp_path: Path) -> None:
    for command in (("list",), ("search", "the")):
        assert [row["sessionId"] for row in get_json(store, *command, "--here")] == ["new"]
    assert get_json(store, "stats", "--here")["total"]["sessions"] == 1
    get_stdout(store, "export", "--here", "--output", f"{tmp_path / 'out'}/")
    assert len(list((tmp_path / "out").iterdir())) == 1
    assert [row.session_id for row in BrowseStore(store.root, make_filter(here=True)).list_rows(archived=False)] == [
        "new"
    ]


def test_a_list_has_the_sessions_whose_title_or_directory_has_all_words(store: WholeStore) -> None:
    assert [row["sessionId"] for row in get_json(store, "list", "LOGIN")] == ["new", "old"]
    assert [row["sessionId"] for row in get_json(store, "list", "login", "project")] == ["old"]
    result = run(store, "list", "nothing", "such")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "To look in what was said: acp-proxy search nothing such" in result.stderr
