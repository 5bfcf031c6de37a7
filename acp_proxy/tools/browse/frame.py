"""The screen of ``acp-proxy browse`` as lines of text: the filter, the list, a preview, and a line for keys or answers.

Pure. Titles and directories come from other people: they are made printable.
"""

import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from rich.cells import cell_len, set_cell_size

from acp_proxy import shell_quote
from acp_proxy.store.index_database import ListedSession
from acp_proxy.tools.browse.state import BrowseState, Question
from acp_proxy.transcript.file_names import name_agent
from acp_proxy.views import formatting
from acp_proxy.views.sanitize import RUNNING, make_line
from acp_proxy.views.session_table import AMBIGUOUS, cut_directory

_BOLD, _QUIET, _SELECTED, _END = "\x1b[1m", "\x1b[2m", "\x1b[7m", "\x1b[0m"
_UNSELECTED = "\x1b[27m"
_STYLE = re.compile("(\x1b\\[[0-9;]*m)")
_OTHER_LINES = 3  # the filter, the line between list and preview, the last line
_HEADINGS = ("TITLE", "AGENT", "DIRECTORY", "WHEN")  # as list has them
_LEAST_HEIGHT_WITH_HEADINGS = 12
_LEAST_TITLE = 30
_LEAST_TITLE_ASKED, _LEAST_TITLE_WRAPPED = 48, 16
_GAP = "  "
_LEAST_DIRECTORY, _MOST_DIRECTORY = 8, 30
_MOST_AGENT, _MOST_AGENT_WIDE, _WIDE_TERMINAL = 12, 20, 100
"""The columns of an agent's name, and those in a terminal of so many columns or more."""
_KEYS = (
    "Enter read",
    "^R rename",
    "^A archive",
    "^D delete",
    "^T archived",
    "^X undo",
    "^F files",
    "^E export",
    "^K copy code",
    "^Y copy id",
    "^O continue",
    "^B pin",
    "^U clear",
    "? keys",
    "Esc quit",
)
_ALWAYS_SHOWN_KEYS = 2  # keys at the end that every terminal shows
_IN_ARCHIVE = {"^A archive": "^A unarchive", "^T archived": "^T others"}
_WHEN_TYPED = {"? keys": "F1 keys", "Esc quit": "Esc clear"}
_HELP = (
    ("Letters", "filter by titles, directories and agents, or by the words said"),
    ("Arrows", "select; so do Page Up, Page Down, Home and End"),
    ("Enter", "read the conversation"),
    ("Ctrl-F", "show what it changed in files"),
    ("Ctrl-R", "rename"),
    ("Ctrl-A", "archive, or unarchive"),
    ("Ctrl-D", "delete: asks whether, and how"),
    ("Ctrl-X", "undo the last delete, or archiving; again: the one before"),
    ("Ctrl-E", "export to a file: asks for its name"),
    ("Ctrl-K", "copy the last code block; again: the one before"),
    ("Ctrl-Y", "copy the id"),
    ("Ctrl-O", "say how to continue it"),
    ("Ctrl-B", "pin, so that prune leaves it alone; again: unpin"),
    ("Ctrl-T", "show the archived sessions, or the others"),
    ("Ctrl-U", "empty the filter"),
    ("Esc", "empty the filter, or quit"),
    ("?", "these keys; so does F1, also with a filter"),
    ("Ctrl-Z", "leave for the shell; fg comes back"),
    ("Ctrl-C", "quit"),
)
_DELETE = (
    "? [y: yes, can be restored for {}; p: permanently; n: no] ",
    "? [y: {} to restore it; p: permanently; n: no] ",  # fits 80 columns
    "? [y/n; p: permanently] ",
)
_DELETE_FOR_GOOD = (" permanently? [y/n] ",)
_LABELS: dict[Question, tuple[str, ...]] = {
    "rename": ("New title (empty: the agent's): ", "New title: ", "Title: "),
    "export": ("Export to: ", "To: "),
}
"""The first that leaves room for the title, or for what is typed, is shown, else the last; so is that of _DELETE."""


@dataclass(frozen=True, slots=True)
class FrameLook:
    """The terminal, and how names appear on it. ``home``: the directory shown as ``~``. ``forms``: what the terminal
    shows in place of some characters. ``agents``: the names shown for agents' folders.
    """

    width: int
    height: int
    now: datetime
    home: str = ""
    forms: Mapping[int, str] = field(default_factory=dict)
    agents: Mapping[str, str] = field(default_factory=dict)

    @property
    def has_headings(self) -> bool:
        """Whether a line above the list says what its columns are."""
        return self.height >= _LEAST_HEIGHT_WITH_HEADINGS

    @property
    def list_height(self) -> int:
        """The rows of the list."""
        return max((self.height - _OTHER_LINES - self.has_headings) // 2, 1)

    @property
    def preview_height(self) -> int:
        """The rows of the preview."""
        return max(self.height - _OTHER_LINES - self.has_headings - self.list_height, 0)


def draw_frame(state: BrowseState, preview: Sequence[str], look: FrameLook) -> list[str]:
    """The lines of the screen, styled by escape sequences. ``preview``: printable lines, which may have styles."""
    if state.has_help:
        lines = _explain_keys(look)
        lines += [""] * (look.height - 1 - len(lines))
        return [*lines, f"{_QUIET}{_cut_end('Press any key to go back.', look.width)}{_END}"]
    visible = state.matching_rows[state.top : state.top + look.list_height]
    lines = [_format_filter(state, look)]
    columns = _measure_columns(visible, look)
    if look.has_headings and visible:
        lines.append(f"{_QUIET}{_format_cells(_HEADINGS, look, columns)}{_END}")
    lines += [
        _format_row(row, look, columns, is_chosen=state.top + index == state.selected)
        for index, row in enumerate(visible)
    ]
    if not visible:
        lines += [f"{_QUIET}{line}{_END}" for line in _wrap_lines(_explain_no_rows(state, look), look.width)]
    lines += [""] * (1 + look.has_headings + look.list_height - len(lines))
    lines.append(_format_divider(state, look))
    lines += [_mark_words(text.translate(look.forms), state.typed.split()) for text in preview[: look.preview_height]]
    lines += [""] * (look.height - 1 - len(lines))
    last_lines = _wrap_message(state, look) if state.message else []
    if state.question is not None:
        last_lines += _format_question(state, look)
    elif not last_lines:
        last_lines = [_format_keys(state, look)]
    return [*lines[: max(look.height - len(last_lines), 0)], *last_lines][-max(look.height, 1) :]


def _mark_words(line: str, words: Sequence[str]) -> str:
    """A line, which may have styles, with what begins with the words of the filter marked, as a search finds them."""
    names = [re.escape(word.rstrip("*")) for word in words if word.rstrip("*")]
    if not names:
        return line
    found = re.compile(rf"(?<!\w)(?:{'|'.join(names)})", re.IGNORECASE)
    pieces = _STYLE.split(line)  # between the texts: the styles
    pieces[::2] = [found.sub(lambda match: f"{_SELECTED}{match[0]}{_UNSELECTED}", text) for text in pieces[::2]]
    return "".join(pieces)


def _explain_keys(look: FrameLook) -> list[str]:
    """A line for each key; in a window with too few lines, one after the other."""
    room = max(look.height - 1, 0)
    if len(_HELP) <= room:
        return [f"{_BOLD}{name:9}{_END}{_cut_end(text, max(look.width - 9, 0))}" for name, text in _HELP]
    text = " | ".join(f"{name}: {text}" for name, text in _HELP)
    return textwrap.wrap(text, max(look.width, 1), break_on_hyphens=False)[:room]


def _format_filter(state: BrowseState, look: FrameLook) -> str:
    count = (
        f"{len(state.matching_rows)} of {len(state.rows)}" if state.is_complete or state.typed else str(len(state.rows))
    )
    count += f"{' archived' if state.archived else ''}{'' if state.is_complete else ', reading…'}"
    count = f"{count}{', searching' if state.is_searching else ''}".translate(look.forms)
    label = "Filter: "
    count = _cut_end(count, max(look.width - len(label) - len(_GAP) - 1, 0))
    room = look.width - len(label) - len(count) - len(_GAP) - 1
    typed = _cut_start(state.typed, room)
    space = " " * max(room - cell_len(typed), 0)
    if state.question is not None:
        return f"{_QUIET}{label}{typed} {space}{_GAP}{count}{_END}"
    return f"{_BOLD}{label}{_END}{typed}{_SELECTED} {_END}{space}{_GAP}{_QUIET}{count}{_END}"


def _measure_columns(rows: Sequence[ListedSession], look: FrameLook) -> tuple[int, int, int]:
    """The widths of titles, agents and directories. A narrow terminal does not show the last two: 0."""
    _, agent_heading, directory_heading, when_heading = (
        cell_len(name) if look.has_headings and rows else 0 for name in _HEADINGS
    )
    widest = max(agent_heading, *(cell_len(_format_agent(row, look)) for row in rows), 0)
    agent = min(widest, _MOST_AGENT if look.width < _WIDE_TERMINAL else _MOST_AGENT_WIDE)
    room = look.width - 2 - max(when_heading, *(len(_format_when(row, look)) for row in rows), 0) - len(_GAP)
    agent = agent if room - agent - len(_GAP) >= _LEAST_TITLE else 0
    room -= agent + len(_GAP) if agent else 0
    widest = max(directory_heading, *(cell_len(_format_directory(row, look)) for row in rows), 0)
    directory = min(widest, _MOST_DIRECTORY, max(room - _LEAST_TITLE - len(_GAP), 0), max(room // 3, _LEAST_DIRECTORY))
    directory = directory if directory >= min(widest, _LEAST_DIRECTORY) else 0
    return room - (directory + len(_GAP) if directory else 0), agent, directory


def _format_agent(row: ListedSession, look: FrameLook) -> str:
    return _clean(look.agents.get(row.agent_folder) or name_agent(row.agent_folder), look)


def _format_directory(row: ListedSession, look: FrameLook) -> str:
    return _clean(formatting.shorten_home(row.cwd or "", look.home), look)


def _format_when(row: ListedSession, look: FrameLook) -> str:
    return RUNNING if row.is_running else formatting.format_short_time(row.updated, look.now)


def _format_row(row: ListedSession, look: FrameLook, columns: tuple[int, int, int], *, is_chosen: bool) -> str:
    """``columns``: as of ``_measure_columns``."""
    title = formatting.format_title(row.title, is_pinned=row.is_pinned, is_copy=row.copy_of is not None)
    texts = _clean(title, look), _format_agent(row, look), _format_directory(row, look), _format_when(row, look)
    text = _format_cells(texts, look, columns, mark=">" if is_chosen else " ")
    return f"{_SELECTED}{text}{_END}" if is_chosen else text


def _format_cells(
    texts: tuple[str, str, str, str], look: FrameLook, columns: tuple[int, int, int], mark: str = " "
) -> str:
    """Title, agent, directory and time as a line. ``columns``: as of ``_measure_columns``."""
    (title, agent, directory, when), (title_width, agent_width, directory_width) = texts, columns
    ellipsis = "…".translate(look.forms)
    cells = [_cut_end(title, title_width, ellipsis, pad=True)]
    if agent_width:
        cells.append(_cut_end(agent, agent_width, ellipsis, pad=True))
    if directory_width:
        cells.append(set_cell_size(cut_directory(directory, directory_width, ellipsis), directory_width))
    text = f"{mark} {_GAP.join(cells)}"
    return text + when.rjust(look.width - cell_len(text))


def _format_divider(state: BrowseState, look: FrameLook) -> str:
    row = state.chosen
    if row is None:
        return ""
    parts = (
        [state.excerpt]
        if state.excerpt
        else [_format_agent(row, look), row.selector, formatting.format_count(row.prompt_count, "turn")]
    )
    text = _cut_end(_clean(" · ".join(parts), look), look.width - 6)
    line = "─".translate(look.forms) * max(look.width - cell_len(text) - 6, 0)
    return f"{_QUIET}{'─'.translate(look.forms) * 3} {_END}{text}{_QUIET} {line}{_END}"


def _format_question(state: BrowseState, look: FrameLook) -> list[str]:
    """The question, wrapped where a narrow window has no room for the title in it; at its end, the cursor."""
    room = look.width - 1
    if state.question in ("delete", "permanent delete") and state.chosen is not None:
        title = _clean(formatting.strip_markdown(state.chosen.title or "") or state.chosen.selector, look)
        title_room = room - len('Delete ""')
        forms = _DELETE if state.question == "delete" and state.bin_days else _DELETE_FOR_GOOD
        endings = [form.format(formatting.format_count(state.bin_days, "day")) for form in forms]
        ending = _choose_form(endings, title, title_room)
        title = _cut_end(title, max(title_room - len(ending), _LEAST_TITLE_WRAPPED), "…".translate(look.forms))
        text = f'Delete "{title}"{ending}'
        lines = [f"{_BOLD}{text}{_END}"] if cell_len(text) <= room else _wrap_bold(text, look)
        return [*lines[:-1], f"{lines[-1]}{_SELECTED} {_END}"]
    answer = _clean(state.answer, look)
    label = _cut_end(_choose_form(_LABELS[state.question], answer, room), room) if state.question in _LABELS else ""
    return [f"{_BOLD}{label}{_END}{_cut_start(answer, room - len(label))}{_SELECTED} {_END}"]


def _choose_form(forms: Sequence[str], text: str, room: int) -> str:
    """The first form that leaves room for the text, or much of it, else the last."""
    least = min(cell_len(text), _LEAST_TITLE_ASKED)
    return next((form for form in forms if len(form) + least <= room), forms[-1])


def _format_keys(state: BrowseState, look: FrameLook) -> str:
    room = look.width - 1
    other_keys = (_IN_ARCHIVE if state.archived else {}) | (_WHEN_TYPED if state.typed else {})
    keys = [other_keys.get(key, key) for key in _KEYS]
    while len(keys) > 1 and len(_GAP.join(keys)) > room:
        keys.pop(-1 - _ALWAYS_SHOWN_KEYS if len(keys) > _ALWAYS_SHOWN_KEYS else 0)
    return f"{_QUIET}{_cut_end(_GAP.join(keys), room)}{_END}"


def _wrap_message(state: BrowseState, look: FrameLook) -> list[str]:
    """The message, wrapped: its end, which says what to do, is always shown."""
    return _wrap_bold(_clean(state.message, look), look)


def _wrap_bold(message: str, look: FrameLook) -> list[str]:
    from rich.console import Console  # imported late: the first screen has no message
    from rich.text import Text

    room = max(look.width - 1, 1)
    lines = Text(message).wrap(Console(width=room), room)
    return [f"{_BOLD}{text.plain.rstrip()}{_END}" for text in lines]


def _explain_no_rows(state: BrowseState, look: FrameLook) -> str:
    if not state.is_complete:
        return "Reading the sessions."
    if state.is_searching:
        return "No title, directory or agent matches. Searching the words said."
    if state.typed:
        search = _clean(shell_quote.join(["acp-proxy", "search", *state.typed.split(), "--in", "output"]), look)
        return f"Nothing matches. Esc empties the filter.\nIn what tools printed: {search}"
    return "No session is archived. ^T shows the others." if state.archived else "No sessions. ^T shows archived ones."


def _wrap_lines(text: str, width: int) -> list[str]:
    lines = (textwrap.wrap(line, max(width, 1), break_on_hyphens=False) for line in text.split("\n"))
    return [line for wrapped in lines for line in wrapped]


def _clean(text: str, look: FrameLook) -> str:
    return AMBIGUOUS.sub("", make_line(text)).translate(look.forms)


def _cut_end(text: str, width: int, ellipsis: str = "", *, pad: bool = False) -> str:
    if cell_len(text) > width:
        return set_cell_size(text, max(width - len(ellipsis), 0)) + ellipsis[:width]
    return set_cell_size(text, width) if pad else text


def _cut_start(text: str, width: int) -> str:
    """The end of a text."""
    while text and cell_len(text) > width:
        text = text[1:]
    return text
