"""As the store grows: daily work by the number of sessions, and a load by its length."""

import http.client
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks import stores
from benchmarks.figures import SECONDS, Reading, Row
from benchmarks.groups.replay import COMPACT, FULL, loads
from benchmarks.groups.start import ran_in, waited
from benchmarks.groups.store import SIZES
from benchmarks.rounds import Numbers, Task, interleaved
from benchmarks.subjects import PROXY, Effort

TURNS = 100
LENGTHS = (1_000, 10_000, 100_000)
COMMAND_SIZES = (1_000, 5_000, 100_000)
WORDY = 5_000
_ROWS = 100  # of a page in the browser
_TAB = {
    "_ACP_PROXY_COMPLETE": "complete_fish",
    "_TYPER_COMPLETE_FISH_ACTION": "get-args",
    "_TYPER_COMPLETE_ARGS": "acp-proxy show session-",
}
_OLD_ID = {**_TAB, "_TYPER_COMPLETE_ARGS": "acp-proxy show session-000012"}
COMMANDS: Mapping[str, tuple[Sequence[str], Mapping[str, str], int]] = {
    "acp-proxy list, the newest 30": (("list", "--limit", "30"), {}, 7),
    "acp-proxy list, all of them": (("list",), {}, 3),
    "acp-proxy stats": (("stats",), {}, 5),
    "TAB after the beginning of an id": ((), _TAB, 7),
    "TAB after most of an old id": ((), _OLD_ID, 7),
}
"""By row: the words, the environment, and the rounds."""


def run(effort: Effort) -> Iterator[Row]:
    roots = {f"{size:,}": stores.filled(effort.place / f"sessions-{size}", size) for size in SIZES}
    least = f"{SIZES[0]:,}"
    rounds = effort.rounds(7)

    started: dict[str, Task] = {size: partial(effort.talk, PROXY, ["start"], [], root) for size, root in roots.items()}
    yield Reading("first answer", SECONDS, "answered", least).row(
        interleaved(started, rounds, effort.chance), sized=True
    )
    turns: dict[str, Task] = {
        size: partial(effort.talk, PROXY, ["turn", TURNS], [1, 200], root) for size, root in roots.items()
    }
    yield Reading("a turn", SECONDS, "p50", least).row(interleaved(turns, rounds, effort.chance), sized=True)
    stored = {f"{size:,}": stores.filled(effort.place / f"sessions-{size}", size) for size in COMMAND_SIZES}
    for root in stored.values():
        ran_in(effort, root, "list", "--limit", "1")  # makes the index
    for what, (words, variables, tries) in COMMANDS.items():
        commands: dict[str, Task] = {
            size: partial(ran_in, effort, root, *words, **variables) for size, root in stored.items()
        }
        seen = interleaved(commands, effort.rounds(tries), effort.chance)
        yield Reading(what, SECONDS, "started", least).row(seen, sized=True)

    pages: dict[str, Task] = {size: partial(open_web, effort, root) for size, root in stored.items()}
    seen = interleaved(pages, effort.rounds(7), effort.chance)
    yield Reading("acp-proxy web, until the first page has its rows", SECONDS, "opened", least).row(seen, sized=True)
    yield Reading("acp-proxy web, the first page again", SECONDS, "again", least).row(seen, sized=True)
    yield first_search(effort)

    by_length = {}
    for length in LENGTHS:
        with effort.folder() as folder:
            by_length[f"{length:,}"] = loads(effort, folder, stores.chunks(length), effort.rounds(5))
    for mode in (FULL, COMPACT):
        seen = {length: loaded[mode] for length, loaded in by_length.items()}
        yield Reading(f"load of so many chunks, {mode}", SECONDS, "last", f"{LENGTHS[0]:,}").row(seen, sized=True)


def open_web(effort: Effort, root: Path) -> Numbers:
    """From the command's start until a browser would have the list's first page, and the time of one more."""
    command, environment = [effort.built.proxy, "web", "--no-open"], {"ACP_PROXY_STORE": str(root)}
    began = time.perf_counter()
    with subprocess.Popen(
        command, env=effort.environment() | environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as server:
        assert server.stdout is not None
        try:
            link = urlsplit(server.stdout.readline().strip())
            with closing(http.client.HTTPConnection(link.netloc)) as browser:
                browser.request("GET", f"/?{link.query}")
                answer = browser.getresponse()
                answer.read()
                place, cookie = answer.headers["Location"], answer.headers["Set-Cookie"].partition(";")[0]

                def read_list() -> float:
                    browser.request("GET", place, headers={"Cookie": cookie})
                    page = browser.getresponse().read()
                    if page.count(b"/session/") < _ROWS:
                        raise RuntimeError(f"acp-proxy web: {page[:1000].decode()}")
                    return time.perf_counter()

                opened = read_list()
                return {"opened": opened - began, "again": read_list() - opened}
        finally:
            server.send_signal(signal.SIGINT)


def first_search(effort: Effort) -> Row:
    """Searches in a store that was never searched, for a word that no session has, and for one that all have.

    The answers are of our documentation, which may have any real word.
    """
    root = stores.wordy(effort.place / "wordy", WORDY)
    ran_in(effort, root, "list", "--limit", "1")

    def searched(word: str) -> Numbers:
        shutil.rmtree(root / "search", ignore_errors=True)
        command = ("/bin/sh", "-c", '"$@"; :', "sh", effort.built.proxy, "search", word)  # finding nothing exits with 1
        return waited(effort, *command, ACP_PROXY_STORE=str(root))

    tasks: dict[str, Task] = {"nowhere": partial(searched, "xqzywv"), "question": partial(searched, "question")}
    seen = interleaved(tasks, effort.rounds(3), effort.chance)
    return Reading(f"first search, {WORDY:,} sessions of 200 MB", SECONDS, "started", "nowhere").row(seen)
