"""Commands on a terminal, as pictures: a few invented sessions, and an SVG made by rich.

The commands and the terminal are real; programs that fill the screen run in tmux. The pictures load nothing: rich's own
template names a font that browsers would download.
"""

import io
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import DIMMED_MONOKAI
from rich.text import Text

from acp_proxy.store.proxy_store import ProxyStore
from tests.cli.terminal import run_on_terminal
from tests.stored import chunk, store_session


@dataclass(frozen=True)
class Shot:
    """A picture of a command. ``rows``: the height of the screen that a program fills; 0: it prints lines.

    ``until``: the words on the screen that end the wait for such a program, after ``keys`` were typed.
    """

    name: str
    words: tuple[str, ...]
    columns: int
    rows: int = 0
    keys: tuple[str, ...] = ()
    until: str = ""


SHOTS = (
    Shot("list", ("list",), 80),
    Shot("show", ("show", "0d1f5a1e", "--turn", "2"), 100),
    Shot("search", ("search", "session", "expir*"), 110),
    Shot("browse", ("browse",), 110, rows=32, keys=("s", "e", "s"), until="session"),
)
_HOUR, _DAY = 3600.0, 24 * 3600.0
_TRIES, _PAUSE = 100, 0.1
"""Times and seconds to wait for a program that fills the screen."""
_KEPT = ("start-server", ";", "set-option", "-g", "remain-on-exit", "on", ";")
"""The screen of a program that has ended, with its error, stays."""
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
    """Each picture's name and SVG. ``folder``: a place for the sessions."""
    store = folder / "store"
    settings = {"ACP_PROXY_STORE": str(store), "HOME": "/home/ada", "ACP_PROXY_CONFIG": os.devnull}
    _keep(ProxyStore(store))
    run_on_terminal("import", str(conversation), settings=settings)
    run_on_terminal("search", "session", settings=settings)  # everything was read by then
    for shot in SHOTS:
        if shot.rows:
            shown = _full_screen(shot, folder, settings)
        else:
            shown = run_on_terminal(*shot.words, columns=shot.columns, settings=settings)
        yield shot.name, _picture(shot, shown)


def _full_screen(shot: Shot, folder: Path, settings: Mapping[str, str]) -> str:
    """The screen of a program that fills it, once it shows what the picture is about."""
    tmux = ["tmux", "-S", str(folder / "tmux"), "-f", os.devnull]
    size = ["-x", str(shot.columns), "-y", str(shot.rows)]
    given = [f"-e{name}={value}" for name, value in settings.items()]
    subprocess.run(
        [*tmux, *_KEPT, "new-session", "-d", *size, *given, sys.executable, "-m", "acp_proxy", *shot.words], check=True
    )
    try:
        for key in shot.keys:
            subprocess.run([*tmux, "send-keys", key], check=True)
        for _ in range(_TRIES):
            shown = subprocess.run(
                [*tmux, "capture-pane", "-e", "-p"], check=True, capture_output=True, text=True
            ).stdout
            if shot.until in shown:
                return shown
            time.sleep(_PAUSE)
    finally:
        subprocess.run([*tmux, "kill-server"], check=False)
    raise SystemExit(f"acp-proxy {shlex.join(shot.words)} does not show {shot.until!r}:\n{shown}")


def _keep(store: ProxyStore) -> None:
    now = time.time()
    for agent, cwd, session, ago, prompt, answer in _SESSIONS:
        turn = (prompt, [chunk(f"{word} ") for word in answer.split()])
        store_session(store, session, turn, agent=agent, cwd=cwd.replace("~", "/home/ada"), at=now - ago)


def _picture(shot: Shot, printed: str) -> str:
    command = f"acp-proxy {shlex.join(shot.words)}".replace("'expir*'", "expir*")
    console = Console(
        record=True, width=shot.columns, file=io.StringIO(), force_terminal=True, color_system="truecolor"
    )
    console.print(Text.assemble(("$ ", "bold green"), (command, "bold")))
    console.print(Text.from_ansi(printed.rstrip("\n")))
    svg = console.export_svg(title="acp-proxy", theme=DIMMED_MONOKAI, unique_id=shot.name)
    return _NOT_NEEDED.sub("", svg)
