"""``acp-proxy replay``: show a conversation as it streamed."""

import os
import re
import select
import signal
import sys
import time
from collections import deque
from collections.abc import Iterator
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Annotated, Any, Self

import typer

from acp_proxy.cli import recordings, values
from acp_proxy.cli.confirm import INTERRUPTED
from acp_proxy.cli.pager import find_screen
from acp_proxy.cli.report_errors import print_on_stderr, report_errors
from acp_proxy.cli.shared_options import AgentOption, StoreOption
from acp_proxy.protocol import acp
from acp_proxy.sessions.raw_lines import read_raw_lines
from acp_proxy.tools.show.command import find_turns
from acp_proxy.transcript import file_format
from acp_proxy.transcript.file_format import Entry, Header
from acp_proxy.transcript.reader import Line, TranscriptReader
from acp_proxy.views import formatting, sanitize
from acp_proxy.views.conversation import number_turns
from acp_proxy.views.moments import measure_between

if TYPE_CHECKING:
    from rich.console import Console

    from acp_proxy.tools.show.live import LiveText
    from acp_proxy.views.streaming import StreamedText


# --- Single key presses, without echo, while a conversation is on the terminal.
#
# The terminal's modes are set back on every exit: at the end, at Ctrl-C, or at a signal that ends the process. Where
# stdin is not a terminal, or cannot be read this way (Windows), there are no keys, only waiting.


PAUSE, NEXT, PREVIOUS, QUIT = "pause", "next", "previous", "quit"

_KEY_NAMES = {
    b" ": PAUSE,
    b"n": NEXT,
    b"\x1b[C": NEXT,
    b"\x1bOC": NEXT,
    b"p": PREVIOUS,
    b"\x1b[D": PREVIOUS,
    b"\x1bOD": PREVIOUS,
}
_KEY_NAMES |= {b"q": QUIT, b"\x04": QUIT}
_KEY_PATTERN = re.compile(rb"\x1b[\[O][0-9;]*[A-Za-z~]|.", re.DOTALL)
_ENDING_SIGNALS = ("SIGTERM", "SIGHUP")
_READ_SIZE = 1024


class Keyboard:
    def __init__(self, *, is_wanted: bool) -> None:
        self._is_wanted = is_wanted
        self._fd: int | None = None
        self._signal_reader, self._signal_writer = -1, -1
        """The ends of a pipe that a signal writes to. A signal that comes just before ``select`` would otherwise
        wait for the next key: Python runs its handler only after the call."""
        self._modes: list[Any] = []
        self._unread_keys: deque[str] = deque()
        self._handlers: dict[int, Any] = {}

    @property
    def can_read(self) -> bool:
        return self._fd is not None

    def __enter__(self) -> Self:
        if self._is_wanted and os.name == "posix" and sys.stdin.isatty():
            import termios

            self._fd = sys.stdin.fileno()
            self._modes = termios.tcgetattr(self._fd)
            self._signal_reader, self._signal_writer = os.pipe()
            os.set_blocking(self._signal_writer, False)  # a full pipe says enough
            signal.set_wakeup_fd(self._signal_writer, warn_on_full_buffer=False)
            for name in _ENDING_SIGNALS:
                self._handle(name, _exit_on_signal)
            self._handle("SIGCONT", lambda *_: self._use_single_keys())  # the shell used the terminal in the meantime
            self._use_single_keys()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._fd is not None:
            import termios

            termios.tcsetattr(self._fd, termios.TCSADRAIN, self._modes)
            for number, handler in self._handlers.items():
                signal.signal(number, handler)
            signal.set_wakeup_fd(-1)
            os.close(self._signal_reader)
            os.close(self._signal_writer)

    def wait(self, seconds: float | None) -> str | None:
        """The next key with a meaning; None at the timeout. Without a timeout, wait for a key."""
        if self._fd is None:
            time.sleep(seconds or 0)
            return None
        deadline = time.monotonic() + seconds if seconds is not None else None
        while not self._unread_keys:
            remaining = max(deadline - time.monotonic(), 0.0) if deadline is not None else None
            ready = select.select([self._fd, self._signal_reader], [], [], remaining)[0]
            if not ready:
                return None
            if self._signal_reader in ready:
                os.read(self._signal_reader, _READ_SIZE)  # the handler has run, or runs now
                continue
            data = os.read(self._fd, _READ_SIZE)
            names = (_KEY_NAMES.get(key) for key in _KEY_PATTERN.findall(data))
            self._unread_keys.extend([key for key in names if key is not None] if data else [QUIT])
        return self._unread_keys.popleft()

    def _use_single_keys(self) -> None:
        import termios
        import tty

        if self._fd is not None:
            tty.setcbreak(self._fd, termios.TCSADRAIN)

    def _handle(self, name: str, handler: Any) -> None:
        number = getattr(signal, name)
        self._handlers[number] = signal.signal(number, handler)


def _exit_on_signal(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


_KEYS_HELP = "space: pause  n: next  p: previous  q: quit"
MAX_PAUSE = 2.0  # seconds: long enough to be seen as a pause


def replay(
    session: recordings.RecordingArgument,
    speed: Annotated[
        float, typer.Option(metavar="TIMES", min=0, help="Play this many times faster. 0: show everything at once.")
    ] = 1.0,
    turn: values.TurnOption = "",
    max_pause: Annotated[
        float, typer.Option(metavar="SECONDS", min=0, help="The longest pause, before --speed applies.")
    ] = MAX_PAUSE,
    store: StoreOption = "",
    agent: AgentOption = "",
) -> None:
    """Watch a conversation as it streamed.

    The words appear at their original pace; pauses last at most two seconds. Keys: space pauses and continues, n or →
    skips to the next turn (in the last one, to the end), p or ← returns to the previous turn, q quits. If the output is
    not a terminal, it is plain text, and there are no keys. Recorded text cannot control the terminal.

    Example: acp-proxy replay last --speed 4
    """
    with report_errors():
        turns = values.parse_turns(turn)
    with report_errors(), recordings.open_recording(session, store, agent) as (reader, header, heading):
        try:
            span = _find_span(reader, turns)
            for text in (heading or _format_heading(header)).split("\n"):
                print_on_stderr(text)
            _play(reader, speed, max_pause, span)
        except KeyboardInterrupt:
            typer.echo("\x1b[0m")  # typer removes it if the output is not a terminal
            raise typer.Exit(INTERRUPTED) from None


def _format_heading(header: Header) -> str:
    """The heading of a file that is in no store."""
    short_id = formatting.shorten_ids([header.session_id], ())[header.session_id]
    facts = (short_id, header.cwd, formatting.format_local_time(header.created_at))
    return sanitize.make_line("  ".join(filter(None, facts)))


_WHOLE_SPAN = (0, None)


def _find_span(reader: TranscriptReader, turns: values.Turns) -> tuple[int, int | None]:
    """The offsets in the transcript where these turns begin and end; None: its end. Raises NoSuchTurn."""
    if turns == (1, None):
        return _WHOLE_SPAN
    first, last = find_turns(reader, turns)
    start, previous_end = None, 0
    for number, line in number_turns(reader.read_lines()):
        if number >= first and start is None:
            start = previous_end
        if last is not None and number > last:
            return start or 0, previous_end
        previous_end = line.end
    return start or 0, None


def _play(reader: TranscriptReader, speed: float, max_pause: float, span: tuple[int, int | None]) -> None:
    from rich.console import Console

    console = Console(highlight=False)
    with Keyboard(is_wanted=console.is_terminal) as keys:
        if keys.can_read and console.is_dumb_terminal:
            typer.echo(_KEYS_HELP, err=True)
        if console.is_terminal:
            typer.echo(err=True)  # an empty line below the heading
        _Playback(console, reader, keys, speed, max_pause, span).run()


class _Playback:
    """One playback. A position in the transcript is an offset and a line number."""

    def __init__(
        self,
        console: "Console",
        reader: TranscriptReader,
        keys: Keyboard,
        speed: float,
        max_pause: float,
        span: tuple[int, int | None],
    ) -> None:
        """``span``: the offsets between which it shows; what is before is only read."""
        from acp_proxy.views.streaming import StreamPrinter

        self._console = console
        self._live: LiveText | None = None
        target = find_screen()
        if console.is_terminal and not console.is_dumb_terminal:
            from acp_proxy.tools.show import live

            self._live = live.LiveText(target.line_width, console.height, has_colours=not console.no_color)
        self._streaming = StreamPrinter(target.line_width if self._live is not None else None)
        self._turn_count = _count_prompts(reader) if self._live is not None else 0
        self._last_turn = self._turn_count if span[1] is None else _count_prompts(reader, span[1])
        """The number of the last turn that is shown."""
        self._reader = reader
        self._keys = keys
        self._speed = speed
        self._max_pause = max_pause
        self._start, self._end = span
        self._turn_positions: list[tuple[int, int]] = []
        """The position of each turn seen so far."""
        self._turn_number = 0
        """The number of turns that have begun."""
        self._is_hurrying = False  # the rest of the last turn is shown at once

    def run(self) -> None:
        position: tuple[int, int] | None = (0, 0)
        try:
            while position is not None:
                position = self._play_from(position)
            self._write(self._streaming.end())
        finally:
            self._draw()

    def _play_from(self, position: tuple[int, int]) -> tuple[int, int] | None:
        """Show the rest, to the end or to a jump. The result is the position of the jump."""
        previous_stamp, is_skipping = "", False
        for start, line in self._read_lines(position):
            entry = line.entry
            if entry is None:
                continue
            if self._end is not None and start >= self._end:
                return None
            is_prompt = entry.is_prompt
            if start < self._start:
                previous_stamp = entry.at
                if is_prompt:
                    self._begin_turn((start, line.number))
                self._skip(entry)
                self._streaming.begin_screen()
                continue
            if is_skipping and not is_prompt:
                self._skip(entry)
                continue
            key = None if is_skipping else self._wait(measure_between(previous_stamp or entry.at, entry.at))
            previous_stamp = entry.at
            if key == QUIT:
                return None
            if key == PREVIOUS and self._turn_number:
                return self._go_back()
            self._is_hurrying |= key == NEXT and self._turn_number >= self._last_turn
            is_skipping = key == NEXT and not is_prompt and not self._is_hurrying
            if is_prompt:
                self._begin_turn((start, line.number))
            if is_skipping:
                self._write(self._streaming.end())
                self._skip(entry)
            else:
                self._write(self._streaming.take(entry))
        return None

    def _skip(self, entry: Entry) -> None:
        """Read an entry without showing it: later entries may refer to it."""
        self._streaming.take(entry)
        self._streaming.end()

    def _go_back(self) -> tuple[int, int]:
        """The position of the previous turn, or of the first one."""
        self._turn_number, self._is_hurrying = max(self._turn_number - 2, 0), False
        self._write(self._streaming.end())
        self._streaming.rewind_to(self._turn_number + 1)
        return self._turn_positions[self._turn_number]

    def _read_lines(self, position: tuple[int, int]) -> Iterator[tuple[int, Line]]:
        """The lines from a position on, each with its own position."""
        start, number = position
        for line in self._reader.read_lines(start, number):
            yield start, line
            start = line.end

    def _begin_turn(self, position: tuple[int, int]) -> None:
        if self._turn_number == len(self._turn_positions):
            self._turn_positions.append(position)
        self._turn_number += 1

    def _wait(self, seconds: float) -> str | None:
        is_at_once = self._is_hurrying or not self._speed
        pause = 0.0 if is_at_once else max(0.0, min(seconds, self._max_pause) / self._speed)  # this turns NaN into 0
        if pause:
            self._draw(self._format_status())
        key = self._keys.wait(pause)
        while key == PAUSE:
            self._draw(self._format_status(is_paused=True))
            key = self._keys.wait(None)
            if key == PAUSE:
                return None
        return key

    def _format_status(self, *, is_paused: bool = False) -> str:
        keys = (_KEYS_HELP.replace("pause", "continue") if is_paused else _KEYS_HELP) if self._keys.can_read else ""
        progress = (
            f"Turn {self._turn_number} of {self._turn_count}{', paused' if is_paused else ''}"
            if self._turn_number
            else ""
        )
        return "  ".join(filter(None, (progress, keys)))

    def _draw(self, status: str = "") -> None:
        if self._live is None:
            return
        self._live.resize(find_screen().line_width, self._console.height)
        if text := self._live.draw(status):
            self._console.file.write(text)
            sys.stdout.flush()

    def _write(self, pieces: "list[StreamedText]") -> None:
        if self._live is not None:
            self._live.take(pieces)
            if self._live.is_full:
                self._draw(self._format_status())
            return
        from rich.text import Text

        for piece in pieces:
            if piece.replaces_line:
                self._console.file.write("\n")
            self._console.print(Text(piece.text, piece.style), end="", soft_wrap=True)
        if pieces:
            sys.stdout.flush()


def _count_prompts(reader: TranscriptReader, end: int | None = None) -> int:
    """The number of prompts before an offset, or all; only lines that may be one are parsed."""
    lines = (
        line
        for _, start, line in read_raw_lines(reader)
        if acp.PROMPT.encode() in line and (end is None or start < end)
    )
    entries = (piece.value for line in lines for piece in file_format.find_entries(line))
    return sum(entry.is_prompt for entry in entries)
