"""A conversation on a terminal: rendered Markdown, coloured diffs, as wide as the terminal.

Texts are made printable before rich reads them, are never read as rich's markup, and are made printable again after
rendering, because Markdown can spell any character. There are no hyperlinks: the target of a link is written out. Raw
HTML stays text.
"""

import io
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from textwrap import indent
from typing import TYPE_CHECKING, ClassVar

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.padding import Padding
from rich.segment import Segment
from rich.text import Text
from rich.theme import Theme

from acp_proxy.views import formatting
from acp_proxy.views.passages import (
    NAMES,
    AttachmentLine,
    CallHeading,
    CallText,
    Heading,
    Passage,
    PlanSteps,
    Remark,
    ShownDiff,
    SpokenText,
    is_adjacent,
)
from acp_proxy.views.sanitize import clean_output, make_line, make_printable, shorten_paths
from acp_proxy.views.tool_calls import choose_mark

if TYPE_CHECKING:
    from rich.markdown import Markdown
    from rich.table import Table

_PIECE_LENGTH = 16 * 1024
"""Characters of Markdown that are rendered together, if an empty line allows a cut."""
_MOST_RENDERED = 64 * 1024
"""Characters of a piece. A longer one is not prose and is slow to lay out: it is shown unchanged."""
_THEME = Theme({"markdown.code": "bold cyan", "markdown.code_block": "none", "markdown.h1": "bold underline"})
_TRAILING_SPACES = re.compile(" +(?=\n)")  # copied lines should have no trailing spaces
_LEAST_COLUMN_WIDTH, _UNLIMITED_WIDTH = 10, 100_000
"""Columns of the terminal: the least for a column of a table, and enough for any table."""
_SPEAKER_STYLES = {"user": "bold green", "agent": "bold blue", "thought": "dim italic"}
_ROW_STYLES = {"@": "cyan", "+": "green", "-": "red"}


class RichPrinter:
    def __init__(self, width: int, *, has_colours: bool, cwd: str | None = None) -> None:
        """``cwd``: the session's directory; paths in it are shown relative to it."""
        self._console = Console(
            file=io.StringIO(),
            width=width,
            force_terminal=True,
            no_color=not has_colours,
            markup=False,
            emoji=False,
            highlight=False,
            legacy_windows=False,
            theme=_THEME,
        )
        self._previous: Passage | None = None
        self._call_title = ""
        """The title of the last tool call."""
        self._cwd = cwd

    def print(self, passage: Passage) -> Iterator[str]:
        """The text to print, piece by piece, since rendering takes time."""
        passage = self._shorten_paths(passage)
        if not is_adjacent(self._previous, passage):
            yield "\n"
        self._previous = passage
        for renderable in _render(passage):
            yield self.render(renderable)

    def _shorten_paths(self, passage: Passage) -> Passage:
        """The passage with relative paths. A diff of a file that the call's title names has no path."""
        match passage:
            case CallHeading():
                passage = replace(passage, title=shorten_paths(passage.title, self._cwd))
            case ShownDiff():
                passage = replace(passage, path=shorten_paths(passage.path, self._cwd))
        if isinstance(passage, CallHeading):
            self._call_title = passage.title
        elif isinstance(passage, ShownDiff) and passage.path in self._call_title.split():
            passage = replace(passage, path="")
        return passage

    def render(self, renderable: RenderableType) -> str:
        """What the terminal shows, without anything that controls it."""
        with self._console.capture() as captured:
            self._console.print(_Printable(renderable), soft_wrap=isinstance(renderable, _Unwrapped))
        return _TRAILING_SPACES.sub("", captured.get())


class _Unwrapped(Text):
    """Text that is too long to lay out, or that its author has laid out."""


class _Printable:
    """Text without anything that controls a terminal."""

    def __init__(self, renderable: RenderableType) -> None:
        self._renderable = renderable

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for segment in console.render(self._renderable, options):
            if not segment.control:
                yield Segment(make_printable(segment.text), segment.style)


def _render(passage: Passage) -> Iterator[RenderableType]:
    match passage:
        case Heading():
            yield Text(f"Turn {passage.number} · {formatting.format_local_time(passage.started_at)}", "bold reverse")
        case SpokenText():
            if not passage.continues:
                yield Text(NAMES[passage.speaker], _SPEAKER_STYLES[passage.speaker])
            yield from _render_message(passage)
        case AttachmentLine():
            if not passage.continues and passage.speaker is not None:
                yield Text(NAMES[passage.speaker], _SPEAKER_STYLES[passage.speaker])
            yield Padding(Text(f"[{make_line(passage.text)}]", "magenta"), (0, 0, 0, 2))
        case CallHeading():
            yield _render_heading(passage)
        case ShownDiff():
            yield Padding(_render_diff(passage), (0, 0, 0, 2))
        case CallText():
            if passage.name:
                yield Text(f"  {passage.name}", "dim italic")
            yield _Unwrapped(indent(clean_output(passage.text).strip("\n"), "    "), "dim")
        case PlanSteps():
            yield Text("Plan", "bold")
            for status, text in passage.steps:
                yield Text.assemble(
                    "  ", choose_mark(status), " ", (make_line(text), "dim" if status == "completed" else "")
                )
        case Remark():
            text = make_line(passage.text)
            yield Text(f"Error: {text}", "bold red") if passage.is_error else Text(text, "yellow")


def _render_heading(heading: CallHeading) -> Text:
    """The line of a tool call. Rich cuts it to the terminal, unless the title is to be shown whole."""
    sign, style = choose_mark(heading.status)
    text = Text(no_wrap=not heading.is_whole, overflow="fold" if heading.is_whole else "ellipsis").append(
        f"{sign} ", style
    )
    if heading.is_change:
        text.append("later: ", "dim")
    if heading.status not in (None, "completed"):
        text.append(f"{make_line(heading.status or '')}: ", style)
    return text.append(make_line(heading.title))


def _render_diff(change: ShownDiff) -> Text:
    lines = [Text(make_line(change.path), "bold")] if change.path else []
    for row in change.rows:
        text = row.text if row.kind == "@" else row.kind + row.text
        lines.append(Text(make_line(text), _ROW_STYLES.get(row.kind, "none")))
    if change.left_out:
        lines.append(Text(f"… {change.left_out} more rows: --full", "dim"))
    return Text("\n").join(lines)


def _is_too_wide(table: "Table", console: Console, options: ConsoleOptions) -> bool:
    """Whether a column would be too narrow to read, or not be there at all."""
    if options.max_width >= _LEAST_COLUMN_WIDTH * len(table.columns):
        return False
    return console.measure(table, options=options.update(width=_UNLIMITED_WIDTH)).maximum > options.max_width


def _render_rows(table: "Table") -> Iterator[Text]:
    """Each cell on its own lines, after the heading of its column."""
    for number, cells in enumerate(zip(*([*column.cells] for column in table.columns), strict=True)):
        if number:
            yield Text()
        for column, cell in zip(table.columns, cells, strict=True):
            if isinstance(column.header, Text) and isinstance(cell, Text):
                yield Text.assemble(column.header, ": ", cell)


def _render_message(message: SpokenText) -> Iterator[RenderableType]:
    text = make_printable(message.text).strip("\n")
    style = "dim italic" if message.speaker == "thought" else "none"
    for piece in split_markdown(text, _PIECE_LENGTH):
        if len(piece) > _MOST_RENDERED:
            yield _Unwrapped(indent(piece, "  "), style)
        else:
            yield Padding(Text(piece) if message.speaker == "user" else _load_markdown()(piece, style), (0, 0, 0, 2))


def split_markdown(text: str, length: int) -> Iterator[str]:
    """Split at empty lines outside code blocks, if needed, into pieces of about this length."""
    if len(text) <= length:
        yield text
        return
    lines: list[str] = []
    size, fence = 0, ""
    for line in text.split("\n"):
        stripped = line.strip()
        if stripped.startswith(("```", "~~~")) and (not fence or stripped.startswith(fence)):
            fence = "" if fence else stripped[:3]
        if not stripped and not fence and size >= length:
            yield "\n".join([*lines, ""])
            lines, size = [], 0
        lines.append(line)
        size += len(line) + 1
    yield "\n".join(lines)


@cache
def _load_markdown() -> "type[Markdown]":
    """Rich's Markdown, imported late: it is slower to import than everything else here."""
    from markdown_it import MarkdownIt
    from markdown_it.token import Token
    from rich.markdown import CodeBlock, Markdown, TableElement
    from rich.markdown import Heading as RichHeading
    from rich.syntax import Syntax
    from rich.table import Table

    # Without link definitions: a line such as `[Answer]: yes` would vanish.
    parser = MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"]).disable("reference")

    class LeftHeading(RichHeading):
        def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
            self.text.justify = "left"
            yield self.text

    class CompactCode(CodeBlock):
        info = ""
        """What stands behind the fence: the language, and what else an agent says there, such as a path."""

        @classmethod
        def create(cls, markdown: Markdown, token: Token) -> CodeBlock:
            block = super().create(markdown, token)
            assert isinstance(block, cls)
            block.info = token.info.strip()
            return block

        def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
            if self.info:
                yield Text(self.info, "dim")
            for code in super().__rich_console__(console, options):
                if isinstance(code, Syntax):
                    code.padding = (0, 1)  # Markdown has put an empty line before it already
                yield code

    class FoldedTable(TableElement):
        def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
            for table in super().__rich_console__(console, options):
                if isinstance(table, Table):
                    for column in table.columns:
                        column.overflow = "fold"  # a word that is too long continues on the next line
                    table.show_edge = False  # empty lines
                    rows = _render_rows(table) if _is_too_wide(table, console, options) else [table]
                    yield from rows

    class Prose(Markdown):
        elements: ClassVar = {
            **Markdown.elements,
            "heading_open": LeftHeading,
            "table_open": FoldedTable,
            "fence": CompactCode,
            "code_block": CompactCode,
        }

        def __init__(self, text: str, style: str) -> None:
            super().__init__("", code_theme="ansi_dark", style=style, hyperlinks=False)
            self.parsed = parser.parse(text)

    return Prose
