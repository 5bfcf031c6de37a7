"""``stats``: a table with bars on a terminal, lines in a pipe, or JSON."""

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from acp_proxy.relay import pipes
from acp_proxy.store.proxy_store import ProxyStore
from tests import forked
from tests.cli.commands import get_json, get_stdout, run
from tests.cli.terminal import run_with_stderr_on_terminal, write_pager
from tests.posix import pty
from tests.stored import EPOCH, chunk, store_session

MONTH = 30 * 24 * 60 * 60


def usage(used: int, amount: float, currency: str = "USD") -> dict[str, Any]:
    cost = {"amount": amount, "currency": currency}
    return {"sessionUpdate": "usage_update", "used": used, "size": 200_000, "cost": cost}


@pytest.fixture
def store(tmp_path: Path) -> ProxyStore:
    store = ProxyStore(tmp_path / "store")
    store_session(store, "a", ("one", [usage(1200, 0.5)]), ("two", [usage(1500, 1.25)]), agent="claude", at=EPOCH)
    store_session(store, "b", ("three", [usage(900, 0.001, "EUR")]), agent="claude", at=EPOCH + MONTH)
    store_session(store, "c", ("four", [chunk("no usage")]), agent="漢字 agent", at=EPOCH)
    sizes = {"a": 1000, "b": 200_000, "c": 3_000}
    for path in store.root.glob("transcripts/*/?-*.jsonl"):  # figures that do not depend on the format
        data = path.read_bytes()
        path.write_bytes(data + b" " * (sizes[path.name[0]] * 10 - len(data) - 1) + b"\n")
    return store


PIPED = """\
agent-*\t2023-11\t1\t1\t\t\t\t30000
claude-*\t2023-12\t1\t1\t\t900\t0.0010 EUR\t2000000
claude-*\t2023-11\t1\t2\t\t1500\t1.25 USD\t10000
"""

WIDE = """\
           sessions  turns  tokens  context                   cost     size  turns
agent
  2023-11         1      1       -        -                      -  30.0 kB  ██████████
claude
  2023-12         1      1       -      900             0.0010 EUR   2.0 MB  ██████████
  2023-11         1      2       -    1,500               1.25 USD  10.0 kB  ████████████████████
all               3      4       -    2,400  0.0010 EUR + 1.25 USD   2.0 MB
"""

NARROW = "".join(f"{line.removesuffix('  turns').rstrip(' █')}\n" for line in WIDE.splitlines())

FEWER_COLUMNS = """\
           turns  tokens                   cost     size
agent
  2023-11      1       -                      -  30.0 kB
claude
  2023-12      1       -             0.0010 EUR   2.0 MB
  2023-11      2       -               1.25 USD  10.0 kB
all            4       -  0.0010 EUR + 1.25 USD   2.0 MB
"""

TOO_NARROW = """\
agent  2023-11  1 session  1 turn  30.0 kB
claude  2023-12  1 session  1 turn
  900 context  0.0010 EUR  2.0 MB
claude  2023-11  1 session  2 turns
  1,500 context  1.25 USD  10.0 kB
all  3 sessions  4 turns  2,400 context
  0.0010 EUR + 1.25 USD  2.0 MB
"""


def shorten_hashes(text: str) -> str:
    """The output without the hashes of agents' folders."""
    return re.sub(r"-[0-9a-f]{16}\t", "-*\t", text)


def test_a_pipe_gets_one_line_per_month_with_tabs(store: ProxyStore) -> None:
    assert shorten_hashes(get_stdout(store, "stats")) == PIPED


BY_DAY = """\
\t2023-12-14\t1\t1\t\t900\t0.0010 EUR\t2000000
\t2023-11-14\t2\t3\t\t1500\t1.25 USD\t40000
"""
BY_PROJECT = """\
\t/project\t3\t4\t\t2400\t0.0010 EUR + 1.25 USD\t2040000
"""
BY_AGENT = """\
claude-*\t\t2\t3\t\t2400\t0.0010 EUR + 1.25 USD\t2010000
agent-*\t\t1\t1\t\t\t\t30000
"""


@pytest.mark.parametrize(("by", "expected"), [("day", BY_DAY), ("project", BY_PROJECT), ("agent", BY_AGENT)])
def test_the_usage_may_be_by_day_project_or_agent(store: ProxyStore, by: str, expected: str) -> None:
    assert shorten_hashes(get_stdout(store, "stats", "--by", by)) == expected
    assert get_json(store, "stats", "--by", by)["total"] == get_json(store, "stats")["total"]


def test_json_by_day_project_or_agent_has_every_figure(store: ProxyStore) -> None:
    [day, _] = get_json(store, "stats", "--by", "day")["days"]
    assert (day.pop("day"), day["turns"], day["cost"]) == ("2023-12-14", 1, {"EUR": 0.001})
    [project] = get_json(store, "stats", "--by", "project")["projects"]
    assert (project.pop("cwd"), project["sessions"]) == ("/project", 3)
    assert set(project) == set(day)
    agents = get_json(store, "stats", "--by", "agent")["agents"]
    assert [(agent["agentName"], agent["total"]["turns"]) for agent in agents] == [("claude", 3), ("agent", 1)]


def test_a_long_directory_leaves_room_for_the_figures(tmp_path: Path) -> None:
    store = ProxyStore(tmp_path / "store")
    store_session(store, "s", ("one", []), cwd="/a/directory/with/a/very/long/name/to/the/monorepo/core")
    shown = on_terminal(store, 80, "stats", "--by", "project", NO_COLOR="1")
    assert "…/to/the/monorepo/core  " in shown
    assert "█" in shown


def test_json_has_every_figure(store: ProxyStore) -> None:
    value = get_json(store, "stats")
    assert [agent["agent"].rsplit("-", 1)[0] for agent in value["agents"]] == ["agent", "claude"]
    assert value["agents"][1]["months"][1] == {
        "month": "2023-11",
        "sessions": 1,
        "turns": 2,
        "tokens": None,
        "contextTokens": 1500,
        "cost": {"USD": 1.25},
        "bytes": 10_000,
    }
    assert value["total"]["turns"] == 4
    assert value["total"]["cost"] == {"USD": 1.25, "EUR": 0.001}
    assert get_json(store, "stats", "--agent", "cl")["total"]["turns"] == 3


def test_the_rows_are_all_that_is_in_the_total(store: ProxyStore) -> None:
    [path] = store.root.glob("transcripts/*/a-*.jsonl")
    store.set_title(path.parent.name, "a", "Another title")
    store_session(store, "silent", agent="claude", at=EPOCH)
    value = get_json(store, "stats")
    months = [month for agent in value["agents"] for month in agent["months"]]
    assert sum(month["bytes"] for month in months) == value["total"]["bytes"]
    assert {month["month"] for month in months} == {"2023-11", "2023-12"}
    note = "Counted only in size: 1 session without a prompt of its own (copies, adopted ones, subagents).\n"
    assert run(store, "stats").stderr == note


def test_an_unreadable_transcript_is_reported_and_the_others_are_counted(store: ProxyStore) -> None:
    [path] = store.root.glob("transcripts/*/b-*.jsonl")
    path.unlink()
    path.symlink_to("/etc/passwd")
    result = run(store, "stats")
    assert (result.exit_code, "\t2023-11\t" in result.stdout) == (1, True)
    assert "Correct its permissions, repair the disk, or delete it." in result.stderr


def on_terminal(store: ProxyStore, columns: int, *words: str, **environment: str) -> str:
    """The output on a terminal of that width."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "acp_proxy", "sessions", *words, "--store", str(store.root)]
    wishes = {"COLUMNS": str(columns), "TERM": "xterm", "ACP_PROXY_PAGER": ""}
    env: Mapping[str, str] = {**os.environ, **wishes, **environment}
    with forked.start(command, stdin=theirs, stdout=theirs, stderr=subprocess.DEVNULL, env=env) as process:
        os.close(theirs)
        text = b"".join(iter(lambda: pipes.read(ours, 65536), b"")).decode()
    os.close(ours)
    assert process.returncode == 0
    return text.replace("\r\n", "\n")


@pytest.mark.parametrize(("columns", "expected"), [(110, WIDE), (76, NARROW), (60, FEWER_COLUMNS), (45, TOO_NARROW)])
def test_a_terminal_gets_a_table_that_fits_with_bars_if_there_is_room(
    store: ProxyStore, columns: int, expected: str
) -> None:
    shown = re.sub(r"\x1b\[[0-9;]*m", "", on_terminal(store, columns, "stats"))
    lines = [line.rstrip() for line in shown.splitlines()]
    assert lines == expected.splitlines()
    assert all(len(line) <= columns for line in lines)


@pytest.mark.parametrize("columns", [82, 84, 90])
def test_bars_are_as_long_as_the_terminal_allows(store: ProxyStore, columns: int) -> None:
    lines = re.sub(r"\x1b\[[0-9;]*m", "", on_terminal(store, columns, "stats")).splitlines()
    assert max(len(line.rstrip()) for line in lines) == columns
    counts = [line.count("█") for line in lines]
    assert counts[5] == 2 * counts[2] + ("▌" in lines[2]) == max(counts)


def test_80_columns_have_room_for_bars(store: ProxyStore) -> None:
    assert "█" * 19 in on_terminal(store, 80, "stats", "--agent", "agent")


def test_the_table_goes_through_the_pager(store: ProxyStore, tmp_path: Path) -> None:
    own = write_pager(tmp_path, "import sys; print('PAGED:'); print(sys.stdin.read())")
    assert on_terminal(store, 110, "stats", ACP_PROXY_PAGER=own, NO_COLOR="1").startswith("PAGED:\n")


def test_no_color_turns_off_colours(store: ProxyStore) -> None:
    assert "\x1b[36" in on_terminal(store, 110, "stats", TERM="xterm-256color", COLORTERM="")
    assert "\x1b[36" not in on_terminal(store, 110, "stats", NO_COLOR="1")


def test_a_terminal_shows_the_progress_on_stderr(store: ProxyStore) -> None:
    words = ("prune", "--keep", "0", "--yes", "--store", str(store.root))
    results, told = run_with_stderr_on_terminal(*words)
    assert results.startswith("3 sessions, ")
    assert "Deleting" in told
