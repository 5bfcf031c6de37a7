"""Performs what ``proxy/load`` decides: looks up a load's transcript, and shows the past, on a thread of its own.

``store_requests`` serves everything else that needs the store.
"""

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from acp_proxy.errors import NewerFormat, errno_name
from acp_proxy.protocol.jsonrpc import RequestId
from acp_proxy.proxy.effects import ComparePast, FindSession, RelayEffect, ShowPast
from acp_proxy.proxy.events import Event, PastCompared, PastShown, SessionFound
from acp_proxy.recording.recorder import Recorder
from acp_proxy.run.output import Output
from acp_proxy.transcript.reader import Reading

if TYPE_CHECKING:  # imported for the first load
    from acp_proxy.replay.replayer import Mode
    from acp_proxy.run.show_past import ShowPastThread


class ReplayOptions(Struct, frozen=True):
    """How a ``Replayer`` makes updates of the transcript. ``tool_limit``: bytes per tool call in mode ``compact``; 0:
    no limit.
    ``handover_record_size``: the most bytes of a handover record."""

    mode: "Mode"
    tool_limit: int
    handover_record_size: int = 64 * 1024


class LoadRequests:
    """The transcripts that were looked up for a load, and the threads that show them, by the load's request. False if
    none."""

    def __init__(
        self,
        recorder: Recorder,
        client_output: Output,
        options: ReplayOptions,
        deciding_lock: threading.Lock,
        decide_locked: Callable[[Event], list[RelayEffect]],
        on_end: Callable[[PastShown], bool],
        warn: Callable[[str], None],
    ) -> None:
        """``deciding_lock``: the lock on deciding. ``decide_locked``: called with it held; decides on an event.
        ``on_end``: as for ``ShowPastThread``. ``client_output``: where what the client gets is written.
        """
        self._recorder = recorder
        self._client_output = client_output
        self._options = options
        self._deciding_lock = deciding_lock
        self._decide_locked = decide_locked
        self._on_end = on_end
        self._warn = warn
        self._threads: dict[RequestId, ShowPastThread] = {}

    def __bool__(self) -> bool:
        return bool(self._threads)

    def find(
        self, effect: FindSession, find_missing_reason: Callable[[str], str | None]
    ) -> SessionFound | list[RelayEffect]:
        """Look a session up, and fix what of it can be shown: what is recorded up to now.

        Returns the effects of what was found, or what was found if there is no transcript: that must be decided on.
        ``find_missing_reason``: as for ``look_up``.
        """
        from acp_proxy.run.show_past import ShowPastThread

        request, client_id, options = effect.request, effect.client_id or effect.session_id, self._options
        transcript = look_up(self._recorder, effect, find_missing_reason)
        if isinstance(transcript, SessionFound):
            return transcript

        def keep_to_show(is_complete: bool) -> list[RelayEffect]:
            self._threads[request] = ShowPastThread(
                client_id,
                transcript.reading,
                self._client_output,
                self._on_end,
                self._warn,
                run_id=self._recorder.run_id,
                other_ids=transcript.other_ids,
                mode=options.mode,
                tool_limit=options.tool_limit,
                title=transcript.title,
                handover_record_size=options.handover_record_size,
                mask=self._recorder.mask,
                is_open_elsewhere=transcript.is_open_elsewhere,
            )
            return self._decide_locked(transcript.describe(request, is_complete=is_complete))

        try:
            return transcript.run_when_written(self._deciding_lock, keep_to_show)
        except OSError as problem:
            return SessionFound(request, trouble=errno_name(problem))

    def compare_past(self, effect: ComparePast) -> PastCompared:
        """Compare the updates that came with a request with what is recorded up to now, or since an earlier comparison.

        What was recorded since counts although a rewind may have taken it back: it is in the transcript.
        """
        from acp_proxy.run.compare_replay import compare_replay
        from acp_proxy.transcript.drop_rewound import drop_rewound

        recorder, comparison, size = self._recorder, None, 0
        try:
            reading = recorder.run_on_writer(
                lambda: recorder.store.read(recorder.find_agent_folder(), effect.session_id), Reading.close
            )
            try:
                lines = drop_rewound(reading) if effect.since_size is None else reading.read_alike(effect.since_size, 1)
                comparison, size = compare_replay(lines, effect.updates, recorder.mask), reading.size
            finally:
                reading.close()
        except (OSError, NewerFormat) as problem:
            if not isinstance(problem, FileNotFoundError):
                self._warn(f"what the agent replayed is not recorded: {errno_name(problem)}")
        return PastCompared(effect.request, effect.session_id, comparison, size)

    def start(self, effect: ShowPast) -> None:
        """Start to show the past, for which the transcript was looked up."""
        self._threads[effect.request].start(effect)

    def stop(self, request: RequestId) -> None:
        """Send nothing more of the past for this request, if that was begun."""
        if request in self._threads:
            self._threads[request].stop()

    def close(self, request: RequestId) -> None:
        """Close a transcript that was looked up and is not shown, if there is one."""
        if request in self._threads:
            self._threads.pop(request).close()

    def forget(self, request: RequestId) -> None:
        """The past is shown."""
        self._threads.pop(request, None)

    def join(self) -> None:
        """Wait until all threads have ended."""
        while running := [thread for thread in list(self._threads.values()) if thread.is_running]:
            running[0].join()


# --- Looks a session up: whether it was deleted, and what can be shown. Raises nothing: a failure of the store is
# part of the result.


class OpenedTranscript:
    """A transcript that can be shown.

    ``other_ids``: other session ids that its entries may have. ``title``: the user's title, if there is one.
    ``is_foreign``: it is another agent's, and this one has no copy of it. ``is_open_elsewhere``: as for
    ``choose_replay``. ``is_archived``: the session is archived in the store.
    """

    def __init__(
        self,
        recorder: Recorder,
        session_id: str,
        reading: Reading,
        title: str | None,
        *,
        is_foreign: bool = False,
        is_open_elsewhere: bool | None = None,
        is_archived: bool = False,
    ) -> None:
        self.reading = reading
        self.title = title
        self.is_foreign = is_foreign
        self.is_open_elsewhere = is_open_elsewhere
        own_id = reading.header.session_id if is_foreign and reading.header is not None else session_id
        self.other_ids = reading.other_ids | {own_id}
        self._recorder = recorder
        self._session_id = session_id
        self._is_archived = is_archived

    def describe(self, request: RequestId, *, is_complete: bool) -> SessionFound:
        """What deciding needs to know about it."""
        agent_session = self.reading.agent_session
        session = SessionFound(
            request, has_transcript=True, is_complete=is_complete, is_archived_here=self._is_archived
        )
        if self.is_foreign:
            return replace(session, agent_has_only_part=True, is_copy=True, is_foreign=True)
        return replace(
            session,
            alias=agent_session.alias,
            agent_has_only_part=agent_session.was_handed_over,
            is_copy=agent_session.is_missing,
            is_behind=agent_session.is_behind,
            is_open_elsewhere=self.is_open_elsewhere,
        )

    def run_when_written(
        self, deciding_lock: threading.Lock, action: Callable[[bool], list[RelayEffect]]
    ) -> list[RelayEffect]:
        """Run ``action`` holding ``deciding_lock`` once all decided entries are in the transcript, and fix its size
        there.

        ``action`` gets whether the transcript is complete. Raises OSError; then the transcript is closed.
        """
        is_complete = False

        def measure() -> None:
            nonlocal is_complete
            self.reading.measure()
            is_complete = self.reading.is_still_complete and not self._recorder.has_gap(self._session_id)

        try:
            while self._recorder.run_on_writer(self.reading.search):
                pass  # step by step, so that a long transcript does not count as a hang
            return self._recorder.run_when_written(deciding_lock, measure, lambda: action(is_complete))
        except OSError:
            self._recorder.jobs.submit(self.reading.close)  # after what may still use it there
            raise


def look_up(
    recorder: Recorder, effect: FindSession, find_missing_reason: Callable[[str], str | None]
) -> SessionFound | OpenedTranscript:
    """The transcript of the wanted session, or an event that says why there is none.

    ``find_missing_reason``: given a session without a transcript, returns the reason if it should have one.
    """
    request, session_id = effect.request, effect.session_id

    def look_on_writer() -> SessionFound | OpenedTranscript:
        recorder.append_waiting_turns(session_id)
        if (continued_session_id := recorder.store.find_by_alias(recorder.find_agent_folder(), session_id)) is not None:
            return SessionFound(request, continued_session_id=continued_session_id)
        state = recorder.store.read_state(recorder.find_agent_folder())
        if session_id in state.deleted_ids:
            return SessionFound(request, is_deleted=True)
        is_open_elsewhere = recorder.close_and_check_elsewhere(session_id)
        try:
            reading = recorder.store.read_in_place(recorder.find_agent_folder(), session_id)
            return OpenedTranscript(
                recorder,
                session_id,
                reading,
                state.find_title(session_id),
                is_open_elsewhere=is_open_elsewhere,
                is_archived=session_id in state.archived_here,
            )
        except FileNotFoundError:
            # Another process may have deleted it between our two checks.
            if session_id in recorder.store.read_deleted(recorder.find_agent_folder()):
                return SessionFound(request, is_deleted=True)
            reading = recorder.store.read_original(session_id, recorder.list_other_agents())
            return OpenedTranscript(recorder, session_id, reading, state.find_title(session_id), is_foreign=True)

    def close_late(result: SessionFound | OpenedTranscript) -> None:
        if isinstance(result, OpenedTranscript):
            result.reading.close()

    try:
        return recorder.run_on_writer(look_on_writer, close_late)
    except FileNotFoundError:
        # Only the index knows whether there was one; it must not be used on this thread.
        return SessionFound(request, trouble=find_missing_reason(session_id) if effect.only_here else None)
    except (OSError, NewerFormat) as problem:
        return SessionFound(request, trouble=errno_name(problem))
