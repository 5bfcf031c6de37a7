"""One replay: a thread that tells the client what was recorded.

It takes the client's output for at most ``TAKE`` bytes of whole lines at a time, so that other sessions flow between.
``stop`` is heard between takes: after it returns, a cancelled replay sends nothing more. The last take ends the
replay (``end``), with the output still held.
"""

import threading
from collections.abc import Callable

from acp_proxy.core import answers
from acp_proxy.errors import errno_name
from acp_proxy.replay.telling import Telling
from acp_proxy.shell.output import Output
from acp_proxy.transcripts.summary import Summary
from acp_proxy.transcripts.transcript import Reading
from acp_proxy.wire import acp
from acp_proxy.wire.record import Header

TAKE = 64 * 1024


class Replay:
    def __init__(
        self,
        session: str,
        reading: Reading,
        client: Output,
        end: Callable[[list[bytes]], None],
        warn: Callable[[str], None],
    ) -> None:
        self._session = session
        self._reading = reading
        self._client = client
        self._end = end
        self._warn = warn
        self._stopped = False
        self._waiting: list[bytes] = []
        self._size = 0
        self._thread = threading.Thread(target=self._run, name="replay", daemon=True)

    def start(self) -> None:
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
        telling = Telling(self._session)
        summary = Summary.begun(self._reading.header or Header(self._session, None, "", ""))
        try:
            for line in self._reading.lines():
                if self._stopped or self._client.is_gone:
                    break
                if line.entry is not None:
                    summary.add(line.entry)
                    self._tell(telling.add(line.number, line.entry))
            self._tell(telling.end())
        except OSError as problem:  # what could be read was told; the agent has restored the session
            self._warn(f"a replay ended early: {errno_name(problem)}")
        except Exception as bug:  # noqa: BLE001 - the load must be answered whatever happens here
            self._warn(f"internal error, a replay ended early: {type(bug).__name__}: {bug}")
        finally:
            self._reading.close()
        with self._client.lock:
            self._take_locked()
            self._end(_states(self._session, telling, summary))

    def _tell(self, lines: list[bytes]) -> None:
        for line in lines:
            if self._waiting and self._size + len(line) > TAKE:
                with self._client.lock:
                    self._take_locked()
            self._waiting.append(line)
            self._size += len(line)

    def _take_locked(self) -> None:
        if not self._stopped:
            self._client.write_locked(b"".join(self._waiting))
        self._waiting.clear()
        self._size = 0


def _states(session: str, telling: Telling, summary: Summary) -> list[bytes]:
    """The latest state of the session, and the title that a list shows."""
    info: dict[str, object] = {"sessionUpdate": acp.SESSION_INFO}
    if summary.title is not None:
        info["title"] = summary.title
    if summary.meta:
        info["_meta"] = summary.meta
    return [*telling.states(), answers.update(session, info)] if len(info) > 1 else telling.states()
