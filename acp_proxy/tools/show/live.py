"""A conversation on a terminal as it streams: Markdown as ``acp-proxy show`` renders it, and a status line below.

Pure: takes the pieces of ``streaming`` and returns what to write. The lines of the current message are written again
when they change, as far as they are on the screen. Lines are never wider than the terminal, and wrap at words.
"""

import re
from collections.abc import Iterable

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from acp_proxy.views.conversation import Speaker
from acp_proxy.views.passages import SpokenText
from acp_proxy.views.rich_text import RichPrinter, split_markdown
from acp_proxy.views.streaming import QUIET, StreamedText

_STYLE = re.compile(r"\x1b\[[0-9;]*m")
_PIECE = 4 * 1024
"""Characters of a message that are rendered again with each chunk; what is before them stays."""
_WRAPPED = "\0"
"""Stands for a line of the screen that the terminal has wrapped: no line to write is equal."""
_LONGEST = 32 * 1024
"""A longer piece, such as a code block without an empty line, is cut at a line end: rendering it would take long."""


class LiveText:
    def __init__(self, width: int, height: int, *, colours: bool) -> None:
        self._colours = colours
        self._set_size(width, height)
        self._done: list[str] = []  # lines that are complete, but not on the screen yet
        self._shown: list[str] = []  # the lines that were written and may still change; the last one is the status
        self._line: list[StreamedText] = []  # the current line, unless it is in a message
        self._message: tuple[str, str] | None = None
        """The current message that is Markdown: its style, and its text from the last finished piece on."""

    def _set_size(self, width: int, height: int) -> None:
        self._size = width, height
        self._width = width - 1  # the last column stays free: terminals differ after it
        self._height = height
        self._printer = RichPrinter(self._width, colours=self._colours)

    def resize(self, width: int, height: int) -> None:
        """The terminal has this size now. It has wrapped what it shows; the current message is written again."""
        if (width, height) == self._size:
            return
        self._set_size(width, height)
        rows = sum(max(1, -(-cell_len(_STYLE.sub("", line).rstrip()) // width)) for line in self._shown)
        self._shown = [_WRAPPED] * rows

    def take(self, pieces: Iterable[StreamedText]) -> None:
        for piece in pieces:
            if piece.is_prose:
                self._take_prose(piece)
            else:
                self._put(piece)

    @property
    def is_full(self) -> bool:
        """Whether there is enough to write it soon."""
        return len(self._done) >= self._height

    def draw(self, status: str = "") -> str:
        """What brings the screen up to date. Without a status, the cursor is on a new line afterwards."""
        wanted = [*self._done, *self._render_current(), self._render_status(status)]
        first = 0  # the first line to write
        while first < min(len(self._shown), len(wanted)) and self._shown[first] == wanted[first]:
            first += 1
        if first == len(wanted) == len(self._shown):
            return ""
        first = min(max(first, len(self._shown) - self._height), len(wanted) - 1)  # what has left the screen stays
        up = len(self._shown) - 1 - first
        start = "" if not self._shown else f"\x1b[{up}A\r" if up > 0 else "\r" if up == 0 else "\n"
        self._shown, self._done = wanted[len(self._done) :], []
        return f"{start}\x1b[J" + "\n".join(wanted[first:])

    def _render_status(self, text: str) -> str:
        if cell_len(text) > self._width:
            text = set_cell_size(text, max(self._width - 1, 0)) + "…"
        return self._render(Text(text, QUIET, no_wrap=True))[0] if text else ""

    def _render_current(self) -> list[str]:
        if self._message is not None:
            return self._render_prose(*self._message)
        return self._render(_join_pieces(self._line)) if self._line else []

    def _take_prose(self, piece: StreamedText) -> None:
        if self._line:
            self._end_line()
        _, before = self._message or ("", "")
        text = before + piece.text
        if len(before) // _PIECE != len(text) // _PIECE:  # not with each chunk: this reads the whole text
            *finished, text = split_markdown(text, _PIECE)
            for part in finished:
                self._done += [*self._render_prose(piece.style, part), ""]
        if len(text) > _LONGEST:
            end = text.rfind("\n") + 1 or len(text)
            self._done += self._render_prose(piece.style, text[:end])
            text = text[end:]
        self._message = piece.style, text

    def _put(self, piece: StreamedText) -> None:
        text = piece.text
        if self._message is not None:
            look, message = self._message
            self._done += self._render_prose(look, message)
            self._message = None
            if not message.endswith("\n"):  # the piece begins with the end of the last line of the message
                text = text.removeprefix("\n")
        if piece.replaces_line:
            self._line = []
        *lines, rest = text.split("\n")
        for line in lines:
            self._line.append(StreamedText(line, piece.style))
            self._end_line()
        if rest:
            self._line.append(StreamedText(rest, piece.style))

    def _end_line(self) -> None:
        self._done += self._render(_join_pieces(self._line))
        self._line = []

    def _render_prose(self, look: str, text: str) -> list[str]:
        speaker: Speaker = "thought" if look == QUIET else "agent"
        rendered = "".join(self._printer.print(SpokenText(speaker, text, continues=True))) if text.strip() else ""
        lines = rendered.split("\n")
        while lines and not _STYLE.sub("", lines[-1]).strip():
            lines.pop()
        return lines

    def _render(self, text: Text) -> list[str]:
        return self._printer.render(text).removesuffix("\n").split("\n")


def _join_pieces(line: Iterable[StreamedText]) -> Text:
    return Text.assemble(*((piece.text, piece.style) for piece in line))
