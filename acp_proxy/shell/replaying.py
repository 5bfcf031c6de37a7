"""One replay: a thread that compares what the agent told with the transcript, and tells that where it is to be shown.

It takes the client's output for at most ``TAKE`` bytes of whole lines at a time, so that other sessions flow between.
``stop`` is heard between takes: after it returns, a cancelled replay sends nothing more. The last take ends the
replay (``end``), with the output still held.
"""

import threading
import time
from collections.abc import Callable, Iterable

from acp_proxy.core import answers
from acp_proxy.core.effects import StartReplay
from acp_proxy.core.events import ReplayEnded
from acp_proxy.errors import errno_name
from acp_proxy.history.comparison import Comparison
from acp_proxy.history.past import Laying
from acp_proxy.history.verdict import Rule, verdict
from acp_proxy.replay.brief import Brief
from acp_proxy.replay.telling import Telling
from acp_proxy.shell.output import WIDE, Output
from acp_proxy.transcripts.store import AlikeLines, Line, Reading, Summary
from acp_proxy.wire import acp, framing, jsonrpc
from acp_proxy.wire.jsonrpc import Peer, Request, RequestId
from acp_proxy.wire.record import Entry, Header

TAKE = 64 * 1024
_PATIENCE = 0.005
"""Seconds for which lines wait for more of them: the first are with the editor at once."""


class Replay:
    def __init__(
        self,
        session: str,
        reading: Reading,
        client: Output,
        end: Callable[[ReplayEnded], bool],
        warn: Callable[[str], None],
        *,
        run: str,
        telling: Callable[..., Telling],
        title: str | None = None,
    ) -> None:
        """``end``: False where what was replayed has to be compared first. ``run``: this connection. ``telling``
        begins a telling of this session. ``title``: what the user calls it."""
        self._session = session
        self._reading = reading
        self._client = client
        self._end = end
        self._warn = warn
        self._own_run = run
        self._begin_telling = telling
        self._title = title
        self._wanted = StartReplay(RequestId("null"))
        self._brief: Brief | None = None
        self._stopped = False
        self._waiting: list[bytes] = []
        self._size = 0
        self._taken = 0.0
        self._thread = threading.Thread(target=self._run, name="replay", daemon=True)

    def start(self, wanted: StartReplay) -> None:
        self._wanted = wanted
        self._brief = Brief() if wanted.record else None
        self._thread.start()

    def stop(self) -> None:
        self._stopped = True

    def close(self) -> None:
        """It will not be started."""
        self._reading.close()

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    def join(self) -> None:
        self._thread.join()

    def _run(self) -> None:
        wanted, rule = self._wanted, self._wanted.rule or Rule.UNDECIDED
        telling = self._begin_telling(kinds=wanted.kinds)
        summary = Summary.begun(self._reading.header or Header(self._session, None, "", ""))
        comparison: Comparison | None = None
        is_told = False
        try:
            comparison = self._compared() if wanted.compares else None
            rule = wanted.rule or (verdict(comparison) if comparison is not None else Rule.LESS)
            if rule.is_ours and (wanted.shows or wanted.record):
                is_told = self._told(telling, summary)
        except OSError as problem:  # what could be read was told; the agent has opened the session
            self._warn(f"a replay ended early: {errno_name(problem)}")
        except Exception as bug:  # noqa: BLE001 - the load must be answered whatever happens here
            self._warn(f"internal error, a replay ended early: {type(bug).__name__}: {bug}")
        record = "" if self._brief is None or self._brief.is_empty else self._brief.text()
        states = self._states(telling, summary) if rule.is_ours and wanted.shows else []
        is_unread = is_told and comparison is None
        self._ends(ReplayEnded(wanted.request, rule, comparison, states, record, is_unread=is_unread))

    def _ends(self, ended: ReplayEnded) -> None:
        """The agent seldom tells anything behind its answer: only then what was replayed is read again, to compare."""
        with self._client.lock:
            self._take_locked()
            is_over = self._end(ended)
        if not is_over:
            comparison: Comparison | None = None
            try:
                comparison = self._compared()
            except Exception as problem:  # noqa: BLE001 - the load must be answered whatever happens here
                self._warn(f"what the agent told is not compared: {type(problem).__name__}: {problem}")
            with self._client.lock:
                self._end(ended.but(comparison=comparison, is_unread=False))
        self._reading.close()

    def _compared(self) -> Comparison | None:
        """Raises OSError."""
        return compare(self._lines(), self._wanted.told, self._goes_on)

    def _told(self, telling: Telling, summary: Summary) -> bool:
        """Tell the transcript. Whether it was told to its end."""
        if self._reading.size > WIDE:
            self._client.widen()
        for line in self._lines():
            if not self._goes_on():
                return False
            if isinstance(line, Line) and line.entry is not None:
                summary.add(line.entry)  # of which only title and _meta are told
            self._tell(_told_of(telling, line))
            if self._waiting and time.monotonic() - self._taken > _PATIENCE:
                self._take()
        self._tell(telling.end())
        return True

    def _lines(self) -> Iterable[Line | AlikeLines]:
        """The transcript, up to the prompt that is sent again."""
        for line in self._reading.streams():
            if self._wanted.before is not None and isinstance(line, Line) and self._is_prompt(line.entry):
                return
            yield line

    def _is_prompt(self, entry: Entry | None) -> bool:
        if entry is None or entry.peer is not Peer.CLIENT or entry.run != self._own_run or entry.raw is None:
            return False
        match jsonrpc.read_message(entry.raw):
            case Request(method=acp.PROMPT, id=id):
                return id == self._wanted.before
            case _:
                return False

    def _states(self, telling: Telling, summary: Summary) -> list[bytes]:
        """The latest state of the session, and the title that a list shows."""
        info = summary.info()
        if not self._wanted.titles and summary.agent_title is None:
            info.pop("title", None)  # the agent's own list has another
        info |= {"title": self._title} if self._title is not None else {}
        named = [answers.update(self._session, {"sessionUpdate": acp.SESSION_INFO, **info})] if info else []
        return [*telling.states(), *named]

    def _goes_on(self) -> bool:
        return not (self._stopped or self._client.is_gone)

    def _tell(self, lines: list[bytes]) -> None:
        """Each item one or more whole lines."""
        for line in lines:
            if self._waiting and self._size + len(line) > TAKE:
                self._take()
            if self._brief is not None:
                for each in framing.cut(line):
                    self._brief.add(each)
            if self._wanted.shows:
                self._waiting.append(line)
                self._size += len(line)

    def _take(self) -> None:
        with self._client.lock:
            self._take_locked()
        self._taken = time.monotonic()

    def _take_locked(self) -> None:
        if not self._stopped:
            self._client.write_locked(b"".join(self._waiting))
        self._waiting.clear()
        self._size = 0


def compare(
    transcript: Iterable[Line | AlikeLines],
    told: Iterable[tuple[bytes, bool]],
    goes_on: Callable[[], bool] = lambda: True,
) -> Comparison | None:
    """What the agent told (updates, and whether each came behind its answer), compared with a transcript.

    None where that was given up. Raises OSError.
    """
    laying = Laying()
    for line in transcript:
        if not goes_on():
            return None
        _lay(laying, line)
    comparison = Comparison(laying.past())
    for update, late in told:
        comparison.add(update, acp.update_of(update), late=late)
    return comparison


def _lay(laying: Laying, line: Line | AlikeLines) -> None:
    if isinstance(line, AlikeLines):
        laying.go_on(line.stream)
    elif line.entry is not None:
        laying.add(line.entry)


def _told_of(telling: Telling, line: Line | AlikeLines) -> list[bytes]:
    if isinstance(line, AlikeLines):
        return telling.go_on(line.number, line.stream)
    return telling.add(line.number, line.entry) if line.entry is not None else []
