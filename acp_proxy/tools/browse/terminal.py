"""The terminal of ``acp-proxy browse``: draws the state, reads keys, and lets threads do the store's work.

The list is drawn before prompt_toolkit is imported, because that takes as long as everything before it. Keys typed
meanwhile are not lost.
"""

import asyncio
import base64
import os
import queue
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from datetime import datetime
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

from acp_proxy.cli.pager import find_screen
from acp_proxy.errors import AcpProxyError
from acp_proxy.relay.worker import Worker
from acp_proxy.store.index_database import ListedSession
from acp_proxy.tools.browse import state as browse_state
from acp_proxy.tools.browse.frame import FrameLook, draw_frame
from acp_proxy.tools.browse.state import Action, BrowseState, TextHit
from acp_proxy.tools.browse.store_worker import BrowseStore, suggest_name
from acp_proxy.tools.show.replay_command import Keyboard

if TYPE_CHECKING:  # imported late: see above
    from prompt_toolkit.application import Application
    from prompt_toolkit.formatted_text import ANSI
    from prompt_toolkit.key_binding import KeyPressEvent

_WHOLE_SCREEN, _AT_THE_TOP, _NO_CURSOR = "\x1b[?1049h", "\x1b[H", "\x1b[?25l"
_RESTORE_SCREEN = "\x1b[?1049l\x1b[?25h"
_REFRESH_SECONDS = 2.0
"""How often the list is read again, for what has been recorded since."""
_REFRESH_SHARE = 20
"""Of the time between, reading a long list takes at most one in so many parts."""
_ESCAPE_SECONDS = 0.05
"""How long the bytes of a key may be apart, even over a slow connection."""

T = TypeVar("T")
Change = Callable[[BrowseState], BrowseState]
PreviewKey = tuple[tuple[str, str], str, int, int]
"""A preview: of which session, when that was last active, from which turn on, and how wide."""


class BrowseTerminal:
    def __init__(self, library: BrowseStore, state: BrowseState) -> None:
        self._library = library
        self._state = state
        self._changes: queue.SimpleQueue[Change] = queue.SimpleQueue()
        self._previews: dict[PreviewKey, list[str]] = {}
        self._awaited_preview: PreviewKey | None = None
        self._reader = Worker(lambda text: self._put_change(partial(replace, message=text)))
        self._searcher = Worker(lambda text: self._put_change(partial(replace, message=text)))
        self._search_store = library.reopen()
        self._application: Application[Action | None] | None = None
        self._stack = ExitStack()
        self._copied: tuple[tuple[str, str], list[str], int] | None = None
        """The session whose code blocks were copied, the blocks, and how many are before the last one copied."""
        self._has_begun = False
        self._read_seconds = 0.0
        """How long the list took to read."""
        self._is_drawn = False  # here, not by prompt_toolkit, which leaves the screen as it was

    def __enter__(self) -> Self:
        self._stack.enter_context(Keyboard(is_wanted=True))  # no echo until prompt_toolkit reads
        if os.name == "posix":
            size = os.get_terminal_size(sys.stdout.fileno())
            lines = draw_frame(self._state, [], self._measure(size.columns, size.lines))
            sys.stdout.write(_WHOLE_SCREEN + _NO_CURSOR + _AT_THE_TOP + "\r\n".join(lines))
            sys.stdout.flush()
            self._is_drawn = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._is_drawn:
            sys.stdout.write(_RESTORE_SCREEN)
            sys.stdout.flush()
        self._stack.close()

    def run(self) -> Action | None:
        """Show the list until the user wants to read a session or its changes, or with None to quit."""
        from prompt_toolkit.application import Application
        from prompt_toolkit.key_binding import KeyBindings
        from prompt_toolkit.keys import Keys
        from prompt_toolkit.layout import Layout, Window
        from prompt_toolkit.layout.controls import FormattedTextControl

        bindings = KeyBindings()
        for name in (*browse_state.KEYS, Keys.Any, Keys.BracketedPaste):
            bindings.add(name, eager=name == "escape")(self._handle_key)
        control = FormattedTextControl(self._draw, show_cursor=False)
        application: Application[Action | None] = Application(
            Layout(Window(control, always_hide_cursor=True)), key_bindings=bindings, full_screen=True
        )
        if not self._has_begun:
            application.after_render += self._begin
        application.ttimeoutlen = application.timeoutlen = _ESCAPE_SECONDS
        self._application, self._is_drawn = application, False

        def begin_refreshing() -> None:
            application.create_background_task(self._refresh())

        try:
            return application.run(pre_run=begin_refreshing)
        finally:
            self._application = None

    async def _refresh(self) -> None:
        """Read the list again and again, until it is no longer shown."""
        while True:
            await asyncio.sleep(max(_REFRESH_SECONDS, self._read_seconds * _REFRESH_SHARE))
            self._reader.put(partial(self._read_rows, self._state.archived, is_refresh=True))

    def _begin(self, application: "Application[Action | None]") -> None:
        """Read the whole list as soon as keys are read: before, it would delay them."""
        application.after_render -= self._begin
        self._has_begun = True
        self._reader.start()
        self._searcher.start()
        self._read_list()

    def read(self, read_from_store: Callable[[], None]) -> None:
        """Let the user read a session, on the screen that the list does not use; then read the list again."""
        self._try_work(read_from_store)
        self._read_list()

    # --- drawing

    def _draw(self) -> "ANSI":
        from prompt_toolkit.application import get_app
        from prompt_toolkit.formatted_text import ANSI

        size = get_app().output.get_size()
        look = self._measure(size.columns, size.rows)
        while not self._changes.empty():
            self._state = self._changes.get()(self._state)
        self._state = browse_state.scroll_to_selected(self._state, look.list_height)
        return ANSI("\n".join(draw_frame(self._state, self._find_preview(look), look)))

    def _measure(self, width: int, height: int) -> FrameLook:
        now, home = datetime.now().astimezone(), os.path.expanduser("~")
        return FrameLook(width, height, now, home, find_screen().forms, self._library.agents)

    def _find_preview(self, look: FrameLook) -> Sequence[str]:
        row = self._state.chosen
        if row is None:
            return []
        key = browse_state.make_key(row), row.updated, self._state.turn, look.width
        if self._awaited_preview != key and key not in self._previews:
            self._awaited_preview = key
            self._reader.put(partial(self._read, key, row, look))
        return self._previews.get(key, [])

    # --- keys

    def _handle_key(self, event: "KeyPressEvent") -> None:
        pressed = event.key_sequence[0]
        name = str(getattr(pressed.key, "value", pressed.key))
        name = _NAMES.get(name, name)
        look = self._measure(event.app.output.get_size().columns, event.app.output.get_size().rows)
        old_state = self._state
        key = name if name in browse_state.KEYS else pressed.data
        if name not in browse_state.KEYS and name != "<bracketed-paste>" and not key.isprintable():
            return
        self._state, action = browse_state.handle_key(old_state, key, look.list_height, suggest_name)
        if self._state.typed != old_state.typed and self._state.typed.strip():
            self._search()
        if action is not None:
            self._do(action, event)

    def _do(self, action: Action, event: "KeyPressEvent") -> None:
        match action.kind:
            case "quit":
                event.app.exit(result=None)
            case "read" | "files":
                event.app.exit(result=action)
            case "suspend":
                event.app.suspend_to_background()
            case "switch":
                self._state = BrowseState(archived=not self._state.archived, bin_days=self._state.bin_days)
                self._read_list()
            case "copy":
                assert action.row is not None
                id = action.row.selector  # of a copy, its short id
                _copy(event.app, id)
                message = f"Copied, if your terminal allows that: {id}"
                self._state = replace(self._state, message=message)
            case "copy code":
                assert action.row is not None
                self._reader.put(partial(self._copy_code, action.row, event.app))
            case "continue":
                self._reader.put(partial(self._perform, action))
            case _:
                self._reader.put(partial(self._perform, action))
                self._read_list()

    # --- the store's work, each method on a worker's thread

    def _read_list(self) -> None:
        self._reader.put(partial(self._read_rows, self._state.archived))

    def _read_rows(self, archived: bool, *, is_refresh: bool = False) -> None:
        """``is_refresh``: nothing was done here, so there may be nothing to show."""
        begun_at, rows = time.monotonic(), None
        if is_refresh:  # without a message, which would come back whenever the user hides it
            with suppress(AcpProxyError, OSError):
                rows = self._library.list_rows(archived)
        else:
            rows = self._try_work(lambda: self._library.list_rows(archived))
        self._read_seconds = time.monotonic() - begun_at
        if is_refresh and (rows is None or tuple(rows) == self._state.rows):
            return
        if rows is not None:
            self._put_change(
                lambda state: browse_state.replace_rows(state, rows) if state.archived == archived else state
            )
        if self._state.typed.strip():  # only now: what was to be done before has changed what is found
            self._search()

    def _search(self) -> None:
        typed, archived = self._state.typed, self._state.archived

        def is_wanted() -> bool:  # else the user has typed on
            return (self._state.typed, self._state.archived) == (typed, archived)

        def show_hits(hits: list[TextHit], *, is_all: bool = False) -> None:
            self._put_change(lambda state: browse_state.replace_hits(state, typed, hits, is_all=is_all))

        def search() -> None:
            if is_wanted():
                hits = self._try_work(lambda: self._search_store.search(typed, archived, show_hits, is_wanted))
                show_hits(hits or [], is_all=True)

        self._searcher.put(search)

    def _read(self, key: PreviewKey, row: ListedSession, look: FrameLook) -> None:
        if self._awaited_preview == key:  # else the user has gone on
            lines = self._try_work(lambda: self._library.read_preview(row, key[2], look.width, look.height))
            self._previews[key] = lines or []
            self._put_change(lambda state: state)

    def _copy_code(self, row: ListedSession, application: "Application[Action | None]") -> None:
        """Copy the session's last code block; if that was the last thing copied, the one before it, and so on."""
        if self._copied is None or self._copied[0] != browse_state.make_key(row):
            blocks = self._try_work(lambda: self._library.read_code_blocks(row))
            if blocks is None:
                return
            self._copied = browse_state.make_key(row), blocks, len(blocks)
        key, blocks, last = self._copied
        if not blocks:
            self._put_change(partial(replace, message="The agent wrote no code block in this session."))
            return
        number = last or len(blocks)
        self._copied = key, blocks, number - 1
        text = blocks[number - 1]
        if application.loop is not None:  # None: the list has ended
            application.loop.call_soon_threadsafe(_copy, application, text)
        message = f"Copied block {number} of {len(blocks)}, if your terminal allows that: {text.partition(chr(10))[0]}"
        self._put_change(partial(replace, message=message))

    def _perform(self, action: Action) -> None:
        message = self._try_work(lambda: self._library.do(action))
        if message is None:
            if action.kind == "export":  # such as a file that exists
                self._put_change(partial(browse_state.ask_again, failed=action))
            return
        if action.kind in ("archive", "delete") and action.row is not None:
            self._put_change(partial(browse_state.remove_row, removed_row=action.row))
        awaited = self._library.brought_back if action.kind == "undo" else None
        self._put_change(partial(replace, message=message, awaited=awaited))

    def _try_work(self, work: Callable[[], T]) -> T | None:
        """The result; None, and a message, if it failed."""
        try:
            return work()
        except AcpProxyError as problem:
            message = " ".join(map(str, problem.args))
        except OSError as problem:
            message = f"{problem.filename or 'the store'}: {problem.strerror}. Run: acp-proxy doctor"
        self._put_change(partial(replace, message=message))
        return None

    def _put_change(self, change: Change) -> None:
        """Change the state before the next drawing, which is soon. For any thread."""
        self._changes.put(change)
        if (application := self._application) is not None:
            application.invalidate()


def _copy(application: "Application[Action | None]", text: str) -> None:
    """Copy to the user's clipboard in the terminal's own way (OSC 52), which works over ssh too."""
    data = base64.b64encode(text.encode("utf-8", "replace")).decode()
    application.output.write_raw(f"\x1b]52;c;{data}\a")
    application.output.flush()


_NAMES = {"c-m": "enter", "c-h": "backspace", "c-j": "enter"}
"""Keys for which prompt_toolkit has other names."""
