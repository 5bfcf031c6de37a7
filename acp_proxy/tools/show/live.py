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
_PIECE_LENGTH = 4 * 1024
"""Characters of a message that are rendered again with each chunk; what is before them stays."""
_WRAPPED_LINE = "\0"
"""Stands for a line of the screen that the terminal has wrapped: no line to write is equal."""
_LONGEST_PIECE = 32 * 1024
"""A longer piece, such as a code block without an empty line, is cut at a line end: rendering it would take long."""


class LiveText:
    def __init__(self, width: int, height: int, *, has_colours: bool) -> None:
        self._has_colours = has_colours
        self._set_size(width, height)
        self._finished_lines: list[str] = []  # lines that are complete, but not on the screen yet
        self._screen_lines: list[
            str
        ] = []  # the lines that were written and may still change; the last one is the status
        self._line_pieces: list[StreamedText] = []  # the current line, unless it is in a message
        self._message: tuple[str, str] | None = None
        """The current message that is Markdown: its style, and its text from the last finished piece on."""

    def _set_size(self, width: int, height: int) -> None:
        self._size = width, height
        self._width = width - 1  # the last column stays free: terminals differ after it
        self._height = height
        self._printer = RichPrinter(self._width, has_colours=self._has_colours)

    def resize(self, width: int, height: int) -> None:
        """The terminal has this size now. It has wrapped what it shows; the current message is written again."""
        if (width, height) == self._size:
            return
        self._set_size(width, height)
        rows = sum(max(1, -(-cell_len(_STYLE.sub("", line).rstrip()) // width)) for line in self._screen_lines)
        self._screen_lines = [_WRAPPED_LINE] * rows

    def take(self, pieces: Iterable[StreamedText]) -> None:
        for piece in pieces:
            if piece.is_prose:
                self._take_prose(piece)
            else:
                self._take_other(piece)

    @property
    def is_full(self) -> bool:
        """Whether there is enough to write it soon."""
        return len(self._finished_lines) >= self._height

    def draw(self, status: str = "") -> str:
        """What brings the screen up to date. Without a status, the cursor is on a new line afterwards."""
        lines = [*self._finished_lines, *self._render_current(), self._render_status(status)]
        first_changed = 0  # the first line to write
        while (
            first_changed < min(len(self._screen_lines), len(lines))
            and self._screen_lines[first_changed] == lines[first_changed]
        ):
            first_changed += 1
        if first_changed == len(lines) == len(self._screen_lines):
            return ""
        # What has left the screen stays.
        first_changed = min(max(first_changed, len(self._screen_lines) - self._height), len(lines) - 1)
        rows_up = len(self._screen_lines) - 1 - first_changed
        start = (
            "" if not self._screen_lines else f"\x1b[{rows_up}A\r" if rows_up > 0 else "\r" if rows_up == 0 else "\n"
        )
        self._screen_lines, self._finished_lines = lines[len(self._finished_lines) :], []
        return f"{start}\x1b[J" + "\n".join(lines[first_changed:])

    def _render_status(self, text: str) -> str:
        if cell_len(text) > self._width:
            text = set_cell_size(text, max(self._width - 1, 0)) + "…"
        return self._render(Text(text, QUIET, no_wrap=True))[0] if text else ""

    def _render_current(self) -> list[str]:
        if self._message is not None:
            return self._render_prose(*self._message)
        return self._render(_join_pieces(self._line_pieces)) if self._line_pieces else []

    def _take_prose(self, piece: StreamedText) -> None:
        if self._line_pieces:
            self._end_line()
        _, old_text = self._message or ("", "")
        text = old_text + piece.text
        if (
            len(old_text) // _PIECE_LENGTH != len(text) // _PIECE_LENGTH
        ):  # not with each chunk: this reads the whole text
            *finished, text = split_markdown(text, _PIECE_LENGTH)
            for part in finished:
                self._finished_lines += [*self._render_prose(piece.style, part), ""]
        if len(text) > _LONGEST_PIECE:
            end = text.rfind("\n") + 1 or len(text)
            self._finished_lines += self._render_prose(piece.style, text[:end])
            text = text[end:]
        self._message = piece.style, text

    def _take_other(self, piece: StreamedText) -> None:
        text = piece.text
        if self._message is not None:
            style, message = self._message
            self._finished_lines += self._render_prose(style, message)
            self._message = None
            if not message.endswith("\n"):  # the piece begins with the end of the last line of the message
                text = text.removeprefix("\n")
        if piece.replaces_line:
            self._line_pieces = []
        *lines, unfinished = text.split("\n")
        for line in lines:
            self._line_pieces.append(StreamedText(line, piece.style))
            self._end_line()
        if unfinished:
            self._line_pieces.append(StreamedText(unfinished, piece.style))

    def _end_line(self) -> None:
        self._finished_lines += self._render(_join_pieces(self._line_pieces))
        self._line_pieces = []

    def _render_prose(self, style: str, text: str) -> list[str]:
        speaker: Speaker = "thought" if style == QUIET else "agent"
        rendered = "".join(self._printer.print(SpokenText(speaker, text, continues=True))) if text.strip() else ""
        lines = rendered.split("\n")
        while lines and not _STYLE.sub("", lines[-1]).strip():
            lines.pop()
        return lines

    def _render(self, text: Text) -> list[str]:
        return self._printer.render(text).removesuffix("\n").split("\n")


def _join_pieces(line: Iterable[StreamedText]) -> Text:
    return Text.assemble(*((piece.text, piece.style) for piece in line))
