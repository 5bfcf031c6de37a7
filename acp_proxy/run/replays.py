"""The replays of one connection: from the look-up of a session's transcript to the end of its replay's thread."""

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Struct

from acp_proxy.errors import NewerFormat, errno_name
from acp_proxy.protocol.jsonrpc import RequestId
from acp_proxy.proxy.effects import FindSession, ReadPast, RelayEffect, StartReplay
from acp_proxy.proxy.events import Event, PastRead, ReplayEnded, SessionFound
from acp_proxy.recording.recorder import Recorder
from acp_proxy.run.output import Output
from acp_proxy.store.store import Reading

if TYPE_CHECKING:  # imported for the first load
    from acp_proxy.replay.replayer import Mode
    from acp_proxy.run.replay_thread import ReplayThread


class ReplayOptions(Struct, frozen=True):
    """How to replay. ``tool_limit``: bytes per tool call in a compact replay; 0: no limit. ``record_size``: the most
    bytes of a handover's record."""

    mode: "Mode"
    tool_limit: int
    record_size: int = 64 * 1024


class Replays:
    """The transcripts that were looked up for a load, and their replays, by the load's request. False if none."""

    def __init__(
        self,
        recorder: Recorder,
        client: Output,
        options: ReplayOptions,
        core_lock: threading.Lock,
        decide_locked: Callable[[Event], list[RelayEffect]],
        end: Callable[[ReplayEnded], bool],
        warn: Callable[[str], None],
    ) -> None:
        """``decide_locked``: called with the core's lock held; decides on an event. ``end``: as for ``ReplayThread``.

        ``client``: the client's output.
        """
        self._recorder = recorder
        self._client = client
        self._options = options
        self._core_lock = core_lock
        self._decide_locked = decide_locked
        self._end = end
        self._warn = warn
        self._threads: dict[RequestId, ReplayThread] = {}

    def __bool__(self) -> bool:
        return bool(self._threads)

    def find(
        self, wanted: FindSession, trouble_of_missing: Callable[[str], str | None]
    ) -> SessionFound | list[RelayEffect]:
        """Look a session up, and fix what a replay of it will show: what is recorded up to now.

        Returns the effects of what was found, or what was found if there is no transcript: that must be decided on.
        ``trouble_of_missing``: as for ``look_up``.
        """
        from acp_proxy.run.look_up import look_up
        from acp_proxy.run.replay_thread import ReplayThread

        request, client_id, options = wanted.request, wanted.client_id or wanted.session, self._options
        opened = look_up(self._recorder, wanted, trouble_of_missing)
        if isinstance(opened, SessionFound):
            return opened

        def found(is_complete: bool) -> list[RelayEffect]:
            self._threads[request] = ReplayThread(
                client_id,
                opened.reading,
                self._client,
                self._end,
                self._warn,
                run=self._recorder.run_id,
                also=opened.also,
                mode=options.mode,
                tool_limit=options.tool_limit,
                title=opened.title,
                record_size=options.record_size,
                mask=self._recorder.mask,
            )
            return self._decide_locked(opened.found(request, is_complete=is_complete))

        try:
            return opened.run_when_written(self._core_lock, found)
        except OSError as problem:
            return SessionFound(request, trouble=errno_name(problem))

    def read_past(self, wanted: ReadPast) -> PastRead:
        """Compare the updates that came with a request with what is recorded up to now, or since an earlier comparison.

        What was recorded since counts although a rewind may have taken it back: it is in the transcript.
        """
        from acp_proxy.run.replay_thread import compare
        from acp_proxy.store.store import drop_rewound

        recorder, comparison, size = self._recorder, None, 0
        try:
            reading = recorder.run_on_writer(lambda: recorder.store.read(recorder.agent, wanted.session), Reading.close)
            try:
                lines = drop_rewound(reading) if wanted.since is None else reading.read_alike(wanted.since, 1)
                comparison, size = compare(lines, wanted.updates, recorder.mask), reading.size
            finally:
                reading.close()
        except (OSError, NewerFormat) as problem:
            if not isinstance(problem, FileNotFoundError):
                self._warn(f"what the agent replayed is not recorded: {errno_name(problem)}")
        return PastRead(wanted.request, wanted.session, comparison, size)

    def start(self, wanted: StartReplay) -> None:
        """Start a replay of the transcript that was looked up."""
        self._threads[wanted.request].start(wanted)

    def stop(self, request: RequestId) -> None:
        """Let a replay send nothing more, if there is one."""
        if request in self._threads:
            self._threads[request].stop()

    def close(self, request: RequestId) -> None:
        """Close a transcript that was looked up and is not replayed, if there is one."""
        if request in self._threads:
            self._threads.pop(request).close()

    def forget(self, request: RequestId) -> None:
        """A replay has ended."""
        self._threads.pop(request, None)

    def join(self) -> None:
        """Wait until all replays have ended."""
        while running := [thread for thread in list(self._threads.values()) if thread.is_running]:
            running[0].join()
