"""One replay: a thread that tells the client what was recorded.

It takes the client's output for at most ``TAKE`` bytes of whole lines at a time, so that other sessions flow between.
``stop`` is heard between takes: after it returns, a cancelled replay sends nothing more. The last take ends the
replay (``end``), with the output still held.
"""

import threading
import time
from collections.abc import Callable

from acp_proxy.core import answers
from acp_proxy.errors import errno_name
from acp_proxy.replay.brief import Brief
from acp_proxy.replay.fuller import Told, ours_is_fuller, told
from acp_proxy.replay.telling import Mode, Telling
from acp_proxy.shell.output import WIDE, Output
from acp_proxy.transcripts.reading import Line, Lines, Reading
from acp_proxy.transcripts.summary import Summary
from acp_proxy.wire import acp, framing
from acp_proxy.wire.record import Header
from acp_proxy.wire.value import Value

TAKE = 64 * 1024
_PATIENCE = 0.005
"""Seconds for which lines wait for more of them: the first are with the editor at once."""


class Ended(Value):
    """How a replay ended. ``ours`` False: the agent's telling is to be told, and nothing was."""

    states: list[bytes]
    ours: bool
    brief: str


class Replay:
    def __init__(
        self,
        session: str,
        reading: Reading,
        client: Output,
        end: Callable[[Ended], None],
        warn: Callable[[str], None],
        *,
        telling: Callable[..., Telling],
        title: str | None = None,
        is_complete: Callable[[Callable[[], bool]], bool] = lambda goes_on: False,
    ) -> None:
        """``telling`` begins a new telling of this session, in the mode that it is given or else the user's.

        ``title``: what the user calls it. ``is_complete``: whether all that was said is in it, asked while somebody
        waits for it; may raise OSError.
        """
        self._session = session
        self._reading = reading
        self._client = client
        self._end = end
        self._warn = warn
        self._begin_telling = telling
        self._title = title
        self._is_complete = is_complete
        self._if_complete = False
        self._weigh: tuple[bytes, ...] | None = None
        self._brief: Brief | None = None
        self._stopped = False
        self._waiting: list[bytes] = []
        self._size = 0
        self._taken = 0.0
        self._thread = threading.Thread(target=self._run, name="replay", daemon=True)

    def start(self, weigh: tuple[bytes, ...] | None = None, *, brief: bool = False, if_complete: bool = False) -> None:
        """``weigh``: tell it only if it is fuller than this telling of the agent's. ``brief``: make a record too.

        ``if_complete``: tell it only then.
        """
        self._weigh, self._if_complete = weigh, if_complete
        self._brief = Brief() if brief else None
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
        telling = self._begin_telling()
        summary = Summary.begun(self._reading.header or Header(self._session, None, "", ""))
        ours = False
        try:
            ours = self._is_to_be_told()
            if ours and self._reading.size > WIDE:
                self._client.widen()
            for line in self._reading.streams() if ours else ():
                if not self._goes_on():
                    break
                if isinstance(line, Line) and line.entry is not None:
                    summary.add(line.entry)  # of which only title and _meta are told
                self._tell(_told_of(telling, line))
                if self._waiting and time.monotonic() - self._taken > _PATIENCE:
                    self._take()
            self._tell(telling.end())
        except OSError as problem:  # what could be read was told; the agent has restored the session
            self._warn(f"a replay ended early: {errno_name(problem)}")
        except Exception as bug:  # noqa: BLE001 - the load must be answered whatever happens here
            self._warn(f"internal error, a replay ended early: {type(bug).__name__}: {bug}")
        finally:
            self._reading.close()
        brief = "" if self._brief is None or self._brief.is_empty else self._brief.text()
        with self._client.lock:
            self._take_locked()
            self._end(Ended(self._states(telling, summary) if ours else [], ours, brief))

    def _states(self, telling: Telling, summary: Summary) -> list[bytes]:
        """The latest state of the session, and the title that a list shows."""
        info = summary.info() | ({"title": self._title} if self._title is not None else {})
        named = [answers.update(self._session, {"sessionUpdate": acp.SESSION_INFO, **info})] if info else []
        return [*telling.states(), *named]

    def _goes_on(self) -> bool:
        return not (self._stopped or self._client.is_gone)

    def _is_to_be_told(self) -> bool:
        """Of one that is stopped nothing is, of either telling."""
        if self._if_complete and not self._is_complete(self._goes_on):
            return not self._goes_on()
        return self._weigh is None or self._is_fuller(told(self._weigh))

    def _is_fuller(self, theirs: Told) -> bool:
        """Whether ours has all of theirs, and more: by messages, else by the pieces in which they were streamed."""
        modes: tuple[Mode, ...] = ("compact", "full")
        return any(ours_is_fuller(heard(self._reading, self._begin_telling(mode=mode)), theirs) for mode in modes)

    def _tell(self, lines: list[bytes]) -> None:
        """Each item one or more whole lines."""
        for line in lines:
            if self._waiting and self._size + len(line) > TAKE:
                self._take()
            if self._brief is not None:
                for each in framing.cut(line):
                    self._brief.add(each)
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


def heard(reading: Reading, telling: Telling) -> Told:
    """What a client would hear of a transcript. Raises OSError."""
    out = Told()
    for line in reading.streams():
        out.take(_one_by_one(_told_of(telling, line)))
    out.take(_one_by_one(telling.end()))
    return out


def _one_by_one(lines: list[bytes]) -> list[bytes]:
    return framing.cut(b"".join(lines))


def _told_of(telling: Telling, line: Line | Lines) -> list[bytes]:
    if isinstance(line, Lines):
        return telling.go_on(line.number, line.stream)
    return telling.add(line.number, line.entry) if line.entry is not None else []
