"""What ``acp-proxy browse`` does with a key: the list, the filter, the selection, the question on the last line. Pure.

``handle_key`` returns the next state, and an action if something outside has to be done. Nothing here draws, reads or
writes.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from acp_proxy.store.index_database import ListedSession
from acp_proxy.views.session_lines import has_words

Question = Literal["rename", "delete", "permanent delete", "export"]
ActionKind = Literal[
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

    kind: ActionKind
    row: ListedSession | None = None
    text: str = ""
    is_soft: bool = False
    turn: int = 1


@dataclass(frozen=True, slots=True)
class TextHit:
    """A session in which the words that the user typed were said, and the place."""

    row: ListedSession
    excerpt: str
    turn: int = 1
    """The first turn in which they were said."""


@dataclass(frozen=True)
class BrowseState:
    """``rows``: the sessions, newest first; more follow unless ``is_complete``. ``archived``: these are archived ones.

    ``typed``: the filter. ``hits``: the sessions in which the words of ``searched``, an earlier filter, were said; more
    follow unless ``has_all_hits``.
    ``selected``: the selected row of ``matching_rows``; ``top``: the first visible one.
    ``question``: the question on the last line; ``answer``: what was typed in reply. ``has_help``: the keys are
    explained. ``bin_days``: how many days a delete can be undone; 0: it is permanent.
    ``awaited``: the session that is selected as soon as the list has it: the user brought it back.
    """

    rows: tuple[ListedSession, ...] = ()
    is_complete: bool = False
    archived: bool = False
    typed: str = ""
    hits: tuple[TextHit, ...] = ()
    searched: str = ""
    has_all_hits: bool = True
    selected: int = 0
    top: int = 0
    question: Question | None = None
    answer: str = ""
    message: str = ""
    has_help: bool = False
    bin_days: int = 0
    awaited: tuple[str, str] | None = None

    @cached_property
    def matching_rows(self) -> tuple[ListedSession, ...]:
        """The rows whose columns have all words of the filter, then those in which some of them were said."""
        words = self.typed.casefold().split()
        if not words:
            return self.rows
        matches = [row for row in self.rows if has_words(row, words)]
        title_keys = {make_key(row) for row in matches}
        all_keys = {make_key(row) for row in self.rows} if self.is_complete else None
        # A search that began before a delete finds the session still.
        return (
            *matches,
            *(
                hit.row
                for hit in self._current_hits
                if (key := make_key(hit.row)) not in title_keys and (all_keys is None or key in all_keys)
            ),
        )

    @property
    def chosen(self) -> ListedSession | None:
        return self.matching_rows[self.selected] if self.selected < len(self.matching_rows) else None

    @property
    def excerpt(self) -> str:
        """Where in the chosen session the words of the filter were said; empty if its columns have them."""
        return hit.excerpt if (hit := self._chosen_hit) is not None else ""

    @property
    def turn(self) -> int:
        """The turn of the chosen session that is shown first: that of ``excerpt``."""
        return hit.turn if (hit := self._chosen_hit) is not None else 1

    @property
    def _chosen_hit(self) -> TextHit | None:
        row = self.chosen
        if row is None or has_words(row, self.typed.casefold().split()):
            return None
        return next((hit for hit in self._current_hits if make_key(hit.row) == make_key(row)), None)

    @property
    def is_searching(self) -> bool:
        """Whether the words of the filter are still being searched."""
        return bool(self.typed.strip()) and not (self.searched == self.typed and self.has_all_hits)

    @property
    def _current_hits(self) -> tuple[TextHit, ...]:
        """The hits of the filter's words; until these are searched, those of its beginning."""
        return self.hits if self.searched and self.typed.startswith(self.searched) else ()


def make_key(row: ListedSession) -> tuple[str, str]:
    return row.agent_folder, row.name


def handle_key(
    state: BrowseState, pressed: str, height: int, suggest_name: Callable[[ListedSession], str]
) -> tuple[BrowseState, Action | None]:
    """The state after a key, and what has to be done.

    ``pressed``: the name of a key, else typed or pasted text. ``height``: how many rows the list shows.
    ``suggest_name``: suggests a file for an export.
    """
    if state.has_help:
        return replace(state, has_help=False), None
    had_message, state = bool(state.message), replace(state, message="", awaited=None)
    if had_message and pressed == "escape" and state.question is None:  # it hides the message, and does not quit
        return state, None
    if state.question is not None:
        return _answer_question(state, pressed)
    if pressed == "f1" or (pressed == "?" and not state.typed):
        return replace(state, has_help=True), None
    if (row := state.chosen) is not None:
        match pressed:
            case "enter":
                return state, Action("read", row, turn=state.turn)
            case "c-r":
                return replace(state, question="rename", answer=row.title or ""), None
            case "c-d" if row.is_running:
                return replace(state, message=TURN_IS_RUNNING), None
            case "c-d":
                return replace(state, question="delete", answer=""), None
            case "c-e":
                return replace(state, question="export", answer=suggest_name(row)), None
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
            return _select(
                state, state.selected + _STEPS[pressed] * (height if pressed.startswith("page") else 1), height
            ), None
        case "home" | "end":
            return _select(state, 0 if pressed == "home" else len(state.matching_rows) - 1, height), None
    typed = edit(state.typed, pressed)
    return (state if typed == state.typed else _filter_rows(state, typed)), None


TURN_IS_RUNNING = "Its turn is running, so it was not deleted. Wait until it ends, or use: acp-proxy delete"
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
    question, row = state.question, state.chosen
    closed = replace(state, question=None, answer="")
    if question is None or row is None or pressed in ("escape", "c-c"):
        return closed, None
    if question in ("delete", "permanent delete"):
        match pressed.lower():
            case "y":  # one key is enough: what it does can be undone, or the question says that it cannot
                return closed, Action("delete", row, is_soft=question == "delete" and state.bin_days > 0)
            case "p" if question == "delete" and state.bin_days:
                return replace(state, question="permanent delete"), None
            case "n" | "enter":
                return closed, None
        return replace(closed, message=NOT_DELETED), None
    if pressed != "enter":
        return replace(state, answer=edit(state.answer, pressed)), None
    answer = state.answer.strip()
    if question == "export":
        return (closed, Action(question, row, answer)) if answer else (replace(state, message=NO_NAME), None)
    return closed, Action("rename", row, answer)


def _filter_rows(state: BrowseState, typed: str) -> BrowseState:
    return replace(state, typed=typed, selected=0, top=0)


def _select(state: BrowseState, selected: int, height: int) -> BrowseState:
    selected = max(min(selected, len(state.matching_rows) - 1), 0)
    return replace(state, selected=selected, top=min(max(state.top, selected - height + 1, 0), selected))


def scroll_to_selected(state: BrowseState, height: int) -> BrowseState:
    """The state with the selected row in view: the terminal's height, or the rows, have changed."""
    return _select(state, state.selected, height)


def replace_rows(state: BrowseState, rows: Sequence[ListedSession]) -> BrowseState:
    """The state with all rows, read again. The same session stays selected if it is still there."""
    return _keep_choice(state, replace(state, rows=tuple(rows), is_complete=True))


def remove_row(state: BrowseState, removed_row: ListedSession) -> BrowseState:
    """The state without a session that was deleted, or is in the other list now."""
    rows = tuple(row for row in state.rows if make_key(row) != make_key(removed_row))
    hits = tuple(hit for hit in state.hits if make_key(hit.row) != make_key(removed_row))
    return _keep_choice(state, replace(state, rows=rows, hits=hits))


def ask_again(state: BrowseState, failed: Action) -> BrowseState:
    """The state with the question that ``failed`` answered, unless the user has gone on to another session."""
    row = state.chosen
    if state.question is not None or row is None or failed.row is None or make_key(row) != make_key(failed.row):
        return state
    return replace(state, question="export", answer=failed.text)


def replace_hits(state: BrowseState, searched: str, hits: Sequence[TextHit], *, is_all: bool = True) -> BrowseState:
    """The state with the result of a search, unless the filter has changed."""
    if searched != state.typed:
        return state
    return _keep_choice(state, replace(state, hits=tuple(hits), searched=searched, has_all_hits=is_all))


def _keep_choice(old_state: BrowseState, new_state: BrowseState) -> BrowseState:
    chosen = old_state.chosen
    if new_state.awaited is not None and new_state.question is None:
        awaited_index = next(
            (index for index, row in enumerate(new_state.matching_rows) if make_key(row) == new_state.awaited), None
        )
        if awaited_index is not None:
            return replace(new_state, selected=awaited_index, awaited=None)
    index = next(
        (
            index
            for index, row in enumerate(new_state.matching_rows)
            if chosen is not None and make_key(row) == make_key(chosen)
        ),
        old_state.selected,
    )
    index = max(min(index, len(new_state.matching_rows) - 1), 0)
    question = (
        new_state.question
        if new_state.chosen is not None and chosen is not None and index < len(new_state.matching_rows)
        else None
    )
    is_same = (
        chosen is not None
        and bool(new_state.matching_rows)
        and make_key(new_state.matching_rows[index]) == make_key(chosen)
    )
    return replace(new_state, selected=index, top=min(new_state.top, index), question=question if is_same else None)
