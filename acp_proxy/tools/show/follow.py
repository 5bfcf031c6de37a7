"""``acp-proxy show --follow``: a conversation as it is recorded, by whichever process, until its turn ends."""

import sys
import time
from typing import TYPE_CHECKING

from acp_proxy.cli.choose_session import format_short_heading
from acp_proxy.cli.pager import find_screen
from acp_proxy.sessions.command_store import CommandStore
from acp_proxy.store.index_database import ListedSession
from acp_proxy.transcript.reader import TranscriptReader
from acp_proxy.transcript.summary import Summary
from acp_proxy.views import sanitize

if TYPE_CHECKING:  # importing rich takes as long as everything else
    from acp_proxy.tools.show.live import LiveText
    from acp_proxy.views.streaming import StreamedText

_POLL_SECONDS = 0.1  # soon for a reader, and cheap: an fstat each time


class Follower:
    """Shows a session while it goes on. ``turns``: the first and the last turn to show; negative numbers count from the
    end of what is there now."""

    def __init__(
        self, store: CommandStore, row: ListedSession, reader: TranscriptReader, turns: tuple[int, int | None]
    ) -> None:
        from rich.console import Console

        from acp_proxy.views.streaming import StreamPrinter

        self._console = Console(highlight=False)
        self._live: LiveText | None = None
        line_width = find_screen().line_width
        if self._console.is_terminal and not self._console.is_dumb_terminal:
            from acp_proxy.tools.show import live

            self._live = live.LiveText(line_width, self._console.height, has_colours=not self._console.no_color)
        self._streaming = StreamPrinter(line_width if self._live is not None else None)
        self._store = store
        self._row = row
        self._reader = reader
        first, last = turns
        if first < 0:
            count = sum(line.entry is not None and line.entry.is_prompt for line in reader.read_lines())
            first = last = max(count + first + 1, 1)
        self._first, self._last = first, last
        self._turn = 0
        self._position = 0, 0
        self._summary = Summary()

    def run(self) -> str:
        """Show what is there and what comes, until no turn is running. Returns why it ended."""
        row = self._row  # its heading is as by show
        heading = format_short_heading(self._store, row) if self._console.is_terminal else sanitize.format_heading(row)
        self._console.file.write(f"{heading}\n")
        self._show_new_lines()
        was_running = bool(self._summary.open)
        while self._summary.open:
            is_open = self._store.is_open(self._row)  # before the rest is read, which a process writes before it ends
            self._reader.measure()
            self._show_new_lines()
            if not is_open:
                break
            time.sleep(_POLL_SECONDS)
        self._write(self._streaming.end())
        self._draw()
        if self._summary.open:
            return "The process that ran the turn has ended."
        return "The turn has ended." if was_running else "No turn is running."

    def _show_new_lines(self) -> None:
        """Show the whole lines that were not read yet."""
        start, number = self._position
        for line in self._reader.read_lines(start, number):
            if not line.is_whole:
                break
            self._position = line.end, line.number + 1
            if line.entry is not None:
                self._summary.add(line.entry)
                self._turn += line.entry.is_prompt
                pieces = self._streaming.take(line.entry)
                if self._turn >= self._first and (self._last is None or self._turn <= self._last):
                    self._write(pieces)
        self._draw()

    def _draw(self) -> None:
        if self._live is not None:
            self._live.resize(find_screen().line_width, self._console.height)
            self._console.file.write(self._live.draw())
            sys.stdout.flush()

    def _write(self, pieces: "list[StreamedText]") -> None:
        if self._live is not None:
            self._live.take(pieces)
            if self._live.is_full:
                self._draw()
            return
        from rich.text import Text

        for piece in pieces:
            if piece.replaces_line:
                self._console.file.write("\n")
            self._console.print(Text(piece.text, piece.style), end="", soft_wrap=True)
        sys.stdout.flush()
