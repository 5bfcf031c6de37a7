"""The results of a search: for a terminal, as lines for programs, or as JSON.

Titles, ids and messages come from other people: their text cannot control a terminal.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from io import StringIO
from typing import TYPE_CHECKING, Any

from acp_proxy.tools.changes.edits import CallSummary
from acp_proxy.tools.search.fts_table import Excerpt
from acp_proxy.tools.search.search import Hit
from acp_proxy.transcript.file_names import name_agent
from acp_proxy.views import formatting, session_lines, session_table
from acp_proxy.views.sanitize import RUNNING, make_line, shorten_paths

if TYPE_CHECKING:  # imported late: pipes do not need it
    from rich.text import Text

_FOUND_STYLE = "bold red"
_INDENT = "  "
_SEPARATOR = " · "
_BEGIN, _END = "\x02", "\x03"
"""Around a found word, while directories are removed: no printable text has them."""
_NARROWEST = 20  # columns of text: narrower terminals wrap by themselves
_MOST_LISTED = 10  # further turns to list


@dataclass(frozen=True, slots=True)
class SearchLook:
    """How results appear. ``is_formatted``: words may be emphasised, with colours if ``has_colours``. ``home``: the
    directory shown as ``~``. ``agents``: the names shown for agents' folders.
    """

    width: int
    is_formatted: bool
    has_colours: bool
    now: datetime
    home: str = ""
    agents: Mapping[str, str] = field(default_factory=dict)


def format_hit(hit: Hit, command: str, look: SearchLook) -> str:
    """A session, its excerpts, the command that opens the first one, and an empty line."""
    from rich.cells import cell_len
    from rich.console import Console
    from rich.text import Text

    row, output = hit.row, StringIO()
    console = Console(
        file=output,
        width=look.width,
        force_terminal=True,
        color_system="standard" if look.is_formatted else None,
        no_color=not look.has_colours,
        legacy_windows=False,
        emoji=False,
        markup=False,
        highlight=False,
    )
    console.print(Text(make_line(formatting.strip_markdown(row.title or "") or "(no title)"), style="bold"))
    directory = formatting.shorten_home(make_line(row.cwd or ""), look.home)
    facts = [
        make_line(look.agents.get(row.agent_folder) or name_agent(row.agent_folder)),
        directory,
        formatting.format_age(hit.last_match_at, look.now),
        "copy" if row.copy_of else "",
        RUNNING if row.is_running else "",
    ]
    excess = cell_len(_SEPARATOR.join(filter(None, facts))) - look.width
    if excess > 0:  # a terminal would break a directory within a name
        width = max(cell_len(directory) - excess, min(_NARROWEST, look.width))
        facts[1] = session_table.cut_directory(directory, width, "…")
    console.print(Text(_SEPARATOR.join(filter(None, facts)), style="dim"))
    lines = [_format_excerpt(excerpt, row.cwd) for excerpt in hit.excerpts]
    if other_turns := hit.turns[len(hit.excerpts) :]:
        lines.append(Text(f"and {_format_numbers(other_turns)}"))
    for line in lines:
        for text in line.wrap(console, max(look.width - len(_INDENT), _NARROWEST)):
            text.rstrip()
            console.print(Text(_INDENT).append(text), soft_wrap=True)
    console.print(Text(_INDENT).append(make_line(command), style="cyan"), soft_wrap=True)
    if further_turns := hit.turns[1:]:  # on a line of its own: the command above it can be copied whole
        console.print(Text(f"{_INDENT}(and {_format_numbers(further_turns)})", style="dim"), soft_wrap=True)
    console.print()
    return output.getvalue()


def format_lines(hit: Hit) -> Iterator[str]:
    """A line for each excerpt: id, turn (0: the title), title, agent, directory, time, text."""
    row = hit.row
    for excerpt in hit.excerpts:
        texts = (
            row.full_selector,
            str(excerpt.turn),
            row.title or "",
            row.agent_folder,
            row.cwd or "",
            excerpt.stamp,
            excerpt.text,
        )
        yield "\t".join(make_line(text) for text in texts)


def encode_hit(hit: Hit, calls: Mapping[int, Sequence[CallSummary]] | None = None) -> dict[str, Any]:
    """A hit as JSON. ``calls``: by turn, if the search was for calls."""
    excerpts: list[dict[str, Any]] = [
        {
            "turn": excerpt.turn or None,
            "at": excerpt.stamp,
            "text": excerpt.text,
            "marks": [list(mark) for mark in excerpt.marks],
        }
        | ({"calls": [_encode_call(call) for call in calls.get(excerpt.turn, ())]} if calls is not None else {})
        for excerpt in hit.excerpts
    ]
    return session_lines.encode_row(hit.row) | {"found": excerpts}


def _encode_call(call: CallSummary) -> dict[str, Any]:
    return {
        "toolCallId": call.call,
        "title": call.title,
        "name": call.name or None,
        "kind": call.kind or None,
        "command": call.command or None,
        "result": call.result,
        "files": [{"action": action, "path": path} for action, path in call.files],
    }


def split_excerpt(excerpt: Excerpt, cwd: str | None) -> Iterator[tuple[str, bool]]:
    """The pieces of an excerpt, on one line, with paths relative to ``cwd``; and whether each is what
    was searched for."""
    line, position, pieces = make_line(excerpt.text), 0, list[str]()
    for start, end in excerpt.marks:
        pieces += [line[position:start], _BEGIN, line[start:end], _END]
        position = end
    # Directories go after the words are marked, since their places are those in the text with them.
    text = "".join([*pieces, line[position:]])
    for piece in shorten_paths(text, cwd).split(_BEGIN):
        word, is_marked, text_after = piece.partition(_END)
        yield from ((word, bool(is_marked)), (text_after, False))


def _format_excerpt(excerpt: Excerpt, cwd: str | None) -> "Text":
    from rich.text import Text

    text = Text().append(f"turn {excerpt.turn}  " if excerpt.turn else "title  ", style="green")
    for piece, is_found in split_excerpt(excerpt, cwd):
        text.append(piece, style=_FOUND_STYLE if is_found else "")
    return text


def _format_numbers(turns: list[int]) -> str:
    numbers = ", ".join(str(turn) for turn in turns[:_MOST_LISTED])
    noun = "turn" if len(turns) == 1 else "turns"
    return f"{noun} {numbers}" + (f" and {len(turns) - _MOST_LISTED} more" if len(turns) > _MOST_LISTED else "")
