"""What ``acp-proxy browse`` does with a key: the list, the filter, the selection, the question on the last line. Pure.

``handle_key`` returns the next state, and an action if something outside has to be done. Nothing here draws, reads or
writes.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from acp_proxy.store.command_store import ListedSession
from acp_proxy.views.session_lines import has_words

Question = Literal["rename", "delete", "permanent delete", "export"]
Act = Literal[
    "read",
    "files",
    "rename",
    "archive",
    "delete",
    "export",
    "copy",
    "copy code",
    "continue",
    "pin",
    "undo",
    "switch",
    "suspend",
    "quit",
]


@dataclass(frozen=True, slots=True)
class Action:
    """Something to do with ``row``, or ``undo``: the last delete or archiving that is not undone yet.

    ``text``: the new title, or the file to export to. ``turn``: the one to read first.
    ``is_soft``: the delete can be undone. ``switch``: show the other list, of archived sessions or of all others.
    """

    act: Act
    row: ListedSession | None = None
    text: str = ""
    is_soft: bool = False
    turn: int = 1


@dataclass(frozen=True, slots=True)
class TextHit:
    """A session in which the words that the user typed were said, and the place."""

    row: ListedSession
    place: str
    turn: int = 1
    """The first one in which they were said."""


@dataclass(frozen=True)
class BrowseState:
    """``rows``: the sessions, newest first; more follow unless ``is_complete``. ``archived``: these are archived ones.

    ``typed``: the filter. ``hits``: the sessions in which the words of ``searched``, an earlier filter, were said; more
    follow unless ``has_all_hits``.
    ``at``: the selected row of ``shown``; ``top``: the first visible one.
    ``asked``: the question on the last line; ``answer``: what was typed in reply. ``has_help``: the keys are explained.
    ``bin_days``: how long a delete can be undone; 0: it is permanent.
    ``coming``: the session that is selected as soon as the list has it: the user brought it back.
    """

    rows: tuple[ListedSession, ...] = ()
    is_complete: bool = False
    archived: bool = False
    typed: str = ""
    hits: tuple[TextHit, ...] = ()
    searched: str = ""
    has_all_hits: bool = True
    at: int = 0
    top: int = 0
    asked: Question | None = None
    answer: str = ""
    message: str = ""
    has_help: bool = False
    bin_days: int = 0
    coming: tuple[str, str] | None = None

    @cached_property
    def shown(self) -> tuple[ListedSession, ...]:
        """The rows whose columns have all words of the filter, then those in which some of them were said."""
        words = self.typed.casefold().split()
        if not words:
            return self.rows
        matches = [row for row in self.rows if has_words(row, words)]
        known = {make_key(row) for row in matches}
        listed = {make_key(row) for row in self.rows} if self.is_complete else None
        # A search that began before a delete finds the session still.
        return (
            *matches,
            *(
                hit.row
                for hit in self._current_hits
                if (key := make_key(hit.row)) not in known and (listed is None or key in listed)
            ),
        )

    @property
    def chosen(self) -> ListedSession | None:
        return self.shown[self.at] if self.at < len(self.shown) else None

    @property
    def place(self) -> str:
        """Where in the chosen session the words of the filter were said; empty if its columns have them."""
        return hit.place if (hit := self._chosen_hit) is not None else ""

    @property
    def turn(self) -> int:
        """The turn of the chosen session that is shown first: that of ``place``."""
        return hit.turn if (hit := self._chosen_hit) is not None else 1

    @property
    def _chosen_hit(self) -> TextHit | None:
        row = self.chosen
        if row is None or has_words(row, self.typed.casefold().split()):
            return None
        return next((hit for hit in self._current_hits if make_key(hit.row) == make_key(row)), None)

    @property
    def is_searching(self) -> bool:
        """The words of the filter are still being searched."""
        return bool(self.typed.strip()) and not (self.searched == self.typed and self.has_all_hits)

    @property
    def _current_hits(self) -> tuple[TextHit, ...]:
        """Until the words of the filter are searched, those of its beginning."""
        return self.hits if self.searched and self.typed.startswith(self.searched) else ()


def make_key(row: ListedSession) -> tuple[str, str]:
    return row.agent_folder, row.name


def handle_key(
    state: BrowseState, pressed: str, height: int, suggest_name: Callable[[ListedSession], str]
) -> tuple[BrowseState, Action | None]:
    """``pressed``: the name of a key, else typed or pasted text. ``height``: of the list. ``suggest_name``: suggests a
    file for an export."""
    if state.has_help:
        return replace(state, has_help=False), None
    had_message, state = bool(state.message), replace(state, message="", coming=None)
    if had_message and pressed == "escape" and state.asked is None:  # it hides the message, and does not quit
        return state, None
    if state.asked is not None:
        return _answer_question(state, pressed)
    if pressed == "f1" or (pressed == "?" and not state.typed):
        return replace(state, has_help=True), None
    if (row := state.chosen) is not None:
        match pressed:
            case "enter":
                return state, Action("read", row, turn=state.turn)
            case "c-r":
                return replace(state, asked="rename", answer=row.title or ""), None
            case "c-d" if row.is_running:
                return replace(state, message=RUNS), None
            case "c-d":
                return replace(state, asked="delete", answer=""), None
            case "c-e":
                return replace(state, asked="export", answer=suggest_name(row)), None
            case "c-a":
                return state, Action("archive", row)
            case "c-f":
                return state, Action("files", row)
            case "c-y":
                return state, Action("copy", row)
            case "c-k":
                return state, Action("copy code", row)
            case "c-o":
                return state, Action("continue", row)
            case "c-b":
                return state, Action("pin", row)
    match pressed:
        case "c-c":
            return state, Action("quit")
        case "escape":
            return (_filter_rows(state, ""), None) if state.typed else (state, Action("quit"))
        case "c-t":
            return state, Action("switch")
        case "c-x":
            return state, Action("undo")
        case "c-z":
            return state, Action("suspend")
        case _ if pressed in _STEPS:
            return _move(
                state, state.at + _STEPS[pressed] * (height if pressed.startswith("page") else 1), height
            ), None
        case "home" | "end":
            return _move(state, 0 if pressed == "home" else len(state.shown) - 1, height), None
    typed = edit(state.typed, pressed)
    return (state if typed == state.typed else _filter_rows(state, typed)), None


RUNS = "Its turn is running, so it was not deleted. Wait until it ends, or use: acp-proxy delete"
NOT_DELETED = "Not deleted."
NO_NAME = "The file needs a name. Esc exports nothing."
_STEPS = {"up": -1, "c-p": -1, "down": 1, "c-n": 1, "pageup": -1, "pagedown": 1}


def edit(text: str, pressed: str) -> str:
    """A line of text after a key. Keys that mean nothing in a line leave it as it is."""
    match pressed:
        case "backspace":
            return text[:-1]
        case "c-u":
            return ""
        case "c-w":
            return text.rstrip().rpartition(" ")[0]
        case _ if pressed in KEYS:
            return text
    return text + "".join(character if character.isprintable() else " " for character in pressed)


KEYS: tuple[str, ...] = ("up", "down", "pageup", "pagedown", "home", "end", "enter", "escape", "backspace", "f1")
KEYS += tuple(f"c-{letter}" for letter in "abcdefknoprtuwxyz")
"""The names of keys; all other keys are text."""


def _answer_question(state: BrowseState, pressed: str) -> tuple[BrowseState, Action | None]:
    asked, row = state.asked, state.chosen
    closed = replace(state, asked=None, answer="")
    if asked is None or row is None or pressed in ("escape", "c-c"):
        return closed, None
    if asked in ("delete", "permanent delete"):
        match pressed.lower():
            case "y":  # one key is enough: what it does can be undone, or the question says that it cannot
                return closed, Action("delete", row, is_soft=asked == "delete" and state.bin_days > 0)
            case "p" if asked == "delete" and state.bin_days:
                return replace(state, asked="permanent delete"), None
            case "n" | "enter":
                return closed, None
        return replace(closed, message=NOT_DELETED), None
    if pressed != "enter":
        return replace(state, answer=edit(state.answer, pressed)), None
    answer = state.answer.strip()
    if asked == "export":
        return (closed, Action(asked, row, answer)) if answer else (replace(state, message=NO_NAME), None)
    return closed, Action("rename", row, answer)


def _filter_rows(state: BrowseState, typed: str) -> BrowseState:
    return replace(state, typed=typed, at=0, top=0)


def _move(state: BrowseState, at: int, height: int) -> BrowseState:
    at = max(min(at, len(state.shown) - 1), 0)
    return replace(state, at=at, top=min(max(state.top, at - height + 1, 0), at))


def fit(state: BrowseState, height: int) -> BrowseState:
    """The state with the selected row in view: the terminal's height, or the rows, have changed."""
    return _move(state, state.at, height)


def replace_rows(state: BrowseState, rows: Sequence[ListedSession]) -> BrowseState:
    """The state with all rows, read again. The same session stays selected if it is still there."""
    return _keep_choice(state, replace(state, rows=tuple(rows), is_complete=True))


def remove_row(state: BrowseState, gone: ListedSession) -> BrowseState:
    """The state without a session that was deleted, or is in the other list now."""
    rows = tuple(row for row in state.rows if make_key(row) != make_key(gone))
    hits = tuple(hit for hit in state.hits if make_key(hit.row) != make_key(gone))
    return _keep_choice(state, replace(state, rows=rows, hits=hits))


def ask_again(state: BrowseState, failed: Action) -> BrowseState:
    """The state with the question that ``failed`` answered, unless the user has gone on to another session."""
    row = state.chosen
    if state.asked is not None or row is None or failed.row is None or make_key(row) != make_key(failed.row):
        return state
    return replace(state, asked="export", answer=failed.text)


def replace_hits(state: BrowseState, searched: str, hits: Sequence[TextHit], *, is_all: bool = True) -> BrowseState:
    """The state with the result of a search, unless the filter has changed."""
    if searched != state.typed:
        return state
    return _keep_choice(state, replace(state, hits=tuple(hits), searched=searched, has_all_hits=is_all))


def _keep_choice(before: BrowseState, after: BrowseState) -> BrowseState:
    chosen = before.chosen
    if after.coming is not None and after.asked is None:
        come = next((at for at, row in enumerate(after.shown) if make_key(row) == after.coming), None)
        if come is not None:
            return replace(after, at=come, coming=None)
    at = next(
        (at for at, row in enumerate(after.shown) if chosen is not None and make_key(row) == make_key(chosen)),
        before.at,
    )
    at = max(min(at, len(after.shown) - 1), 0)
    asked = after.asked if after.chosen is not None and chosen is not None and at < len(after.shown) else None
    is_same = chosen is not None and bool(after.shown) and make_key(after.shown[at]) == make_key(chosen)
    return replace(after, at=at, top=min(after.top, at), asked=asked if is_same else None)
