"""The output of commands on a terminal, as pictures: a few invented sessions, and an SVG made by rich.

The commands and the terminal are real. The pictures load nothing: rich's own template names a font that browsers would
download.
"""

import io
import re
import shlex
import time
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import DIMMED_MONOKAI
from rich.text import Text

from acp_proxy.transcripts.store import Store
from tests.cli.terminal import on_terminal
from tests.stored import chunk, store_session

COLUMNS = 110
_HOUR, _DAY = 3600.0, 24 * 3600.0
_NOT_NEEDED = re.compile(r"@font-face \{.*?\}\s*|<!--.*?-->\s*", re.DOTALL)

_SESSIONS: tuple[tuple[str, str, str, float, str, str], ...] = (
    (
        "opencode",
        "~/projects/notes",
        "5f3c2b7a-91d4-4c0e-8a52-c7e1d0b64f19",
        40 * 60.0,
        "Make the search box keep its focus",
        "The list is rendered again on each key, and the box with it. I have given it a key of its own.",
    ),
    (
        "gemini-cli",
        "~/projects/shop",
        "b81e4d02-6c7f-4a3b-9f10-2d5a8e9c4b77",
        3 * _HOUR,
        "Why does the checkout test fail only on Mondays?",
        "It compares against a fixed date in the session cookie, which expires at midnight on Sunday.",
    ),
    (
        "claude-agent-acp",
        "~/projects/shop",
        "0c9a7f35-2e84-47d6-b1a9-f46d03e85c21",
        1 * _DAY,
        "Move the prices to integers (cents)",
        "Done in 14 files. Two places rounded twice; both have a test now.",
    ),
    (
        "opencode",
        "~/projects/notes",
        "e7710b4c-d3f8-4e65-a0c2-98b6f1d5a304",
        2 * _DAY,
        "日本語でも検索できるように",
        "Words of three characters and more are found now, without spaces between them too.",
    ),
    (
        "codex-acp",
        "~/work/firmware",
        "4a2d8c91-57be-4f03-86da-1e9c7b305fd8",
        6 * _DAY,
        "Find the leak in the sensor loop 🔍",
        "The buffer of each reading is allocated anew and freed only when the session expires.",
    ),
    (
        "claude-agent-acp",
        "~/projects/notes",
        "93d5e0f6-b8a1-4c27-9e4f-6a0c2d7b18e5",
        19 * _DAY,
        "Explain the retry logic in sync.py",
        "It waits twice as long after each failure, up to a minute, and gives up after ten.",
    ),
)


def terminal_pictures(conversation: Path, folder: Path) -> Iterator[tuple[str, str]]:
    """Each picture's name and SVG: a list, and a search. ``folder``: a place for the sessions."""
    store = folder / "store"
    settings = {"ACP_PROXY_STORE": str(store), "HOME": "/home/ada"}
    _keep(Store(store))
    on_terminal("sessions", "import", str(conversation), settings=settings)
    on_terminal("sessions", "search", "session", settings=settings)  # everything was read by then
    for name, words in (("list", ["sessions", "list"]), ("search", ["sessions", "search", "session", "expir*"])):
        printed = on_terminal(*words, columns=COLUMNS, settings=settings)
        yield name, _picture(f"acp-proxy {shlex.join(words)}".replace("'expir*'", "expir*"), printed)


def _keep(store: Store) -> None:
    now = time.time()
    for agent, cwd, session, ago, prompt, answer in _SESSIONS:
        turn = (prompt, [chunk(f"{word} ") for word in answer.split()])
        store_session(store, session, turn, agent=agent, cwd=cwd.replace("~", "/home/ada"), at=now - ago)


def _picture(command: str, printed: str) -> str:
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    console.print(Text.assemble(("$ ", "bold green"), (command, "bold")))
    console.print(Text.from_ansi(printed.rstrip("\n")))
    svg = console.export_svg(title="acp-proxy", theme=DIMMED_MONOKAI, unique_id=command.rpartition(" ")[2].strip("*"))
    return _NOT_NEEDED.sub("", svg)
