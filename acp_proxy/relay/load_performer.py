"""Performs what ``decisions/load`` asks for: looks a session up, starts the thread that chooses whose past is shown,
and compares what the agent sends later.

``store_performer`` performs everything else that needs the store.
"""

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from acp_proxy.comparison.whose_past import choose_past
from acp_proxy.decisions.effects import ChooseAndShowPast, CompareUnsettled, LookUpSession, RelayEffect
from acp_proxy.decisions.events import Event, PastChosen, SessionLookedUp, UnsettledCompared
from acp_proxy.errors import NewerFormat, errno_name
from acp_proxy.protocol.jsonrpc import RequestId
from acp_proxy.recording.recorder import Recorder
from acp_proxy.relay.opened_transcript import ShowOptions, look_up_session
from acp_proxy.relay.pipes import Output
from acp_proxy.transcript.reader import TranscriptReader

if TYPE_CHECKING:  # imported for the first load
    from acp_proxy.relay.load_thread import LoadThread


class LoadPerformer:
    """Performs one connection's effects of loads. Has a thread for each request whose session was looked up, with its
    transcript, which is started when the past of a load is to be chosen."""

    def __init__(
        self,
        recorder: Recorder,
        client_output: Output,
        options: ShowOptions,
        deciding_lock: threading.Lock,
        decide_locked: Callable[[Event], list[RelayEffect]],
        try_finish: Callable[[PastChosen], bool],
        warn: Callable[[str], None],
    ) -> None:
        """``decide_locked``: called with ``deciding_lock`` held. ``try_finish``: returns
        False if updates arrived that must be compared first."""
        self._recorder = recorder
        self._client_output = client_output
        self._options = options
        self._deciding_lock = deciding_lock
        self._decide_locked = decide_locked
        self._try_finish = try_finish
        self._warn = warn
        self._load_threads: dict[RequestId, LoadThread] = {}
        """By the request, from its look-up on, until its past is chosen or its transcript is closed."""

    @property
    def has_loads(self) -> bool:
        """Whether there are loads whose sessions were looked up, and whose past is not chosen yet."""
        return bool(self._load_threads)

    def look_up(
        self, effect: LookUpSession, find_missing_reason: Callable[[str], str | None]
    ) -> SessionLookedUp | list[RelayEffect]:
        """Look a session up, and fix what of it can be shown: what is recorded up to now.

        Returns the effects if there is a transcript, since that was decided on with the writer waiting; else the event,
        on which the caller decides. ``find_missing_reason``: returns why a session without a transcript should have
        one, or None.
        """
        from acp_proxy.relay.load_thread import LoadThread

        request_id, recorder, is_complete = effect.request_id, self._recorder, False
        transcript = look_up_session(recorder, effect, find_missing_reason)
        if isinstance(transcript, SessionLookedUp):
            return transcript

        def measure() -> None:
            nonlocal is_complete
            transcript.reader.measure()
            is_complete = transcript.reader.is_complete and not recorder.has_unnoted_gap(effect.session_id)

        def keep_to_show() -> list[RelayEffect]:
            self._load_threads[request_id] = LoadThread(
                effect.client_id or effect.session_id,
                transcript,
                self._options,
                self._client_output,
                self._try_finish,
                self._warn,
                run_id=recorder.run_id,
                mask=recorder.mask,
            )
            return self._decide_locked(transcript.make_event(request_id, is_complete=is_complete))

        try:
            while recorder.run_on_writer(transcript.reader.search):
                pass  # step by step, so that a long transcript does not count as a hang
            return recorder.run_when_recorded(self._deciding_lock, measure, keep_to_show)
        except OSError as problem:
            recorder.jobs.submit(transcript.reader.close)  # after what may still use it there
            return SessionLookedUp(request_id, errno_name=errno_name(problem))

    def compare_unsettled(self, effect: CompareUnsettled) -> UnsettledCompared:
        """Compare the updates that came with a request with what is recorded up to now, or since an earlier comparison.

        What was recorded since counts although a rewind may have taken it back: it is in the transcript.
        """
        from acp_proxy.relay.compare_with_transcript import compare_with_transcript
        from acp_proxy.transcript.drop_rewound import drop_rewound

        recorder, comparison, size = self._recorder, None, 0
        try:
            reader = recorder.run_on_writer(
                lambda: recorder.store.open_reader(recorder.find_agent_folder(), effect.session_id),
                TranscriptReader.close,
            )
            try:
                lines = drop_rewound(reader) if effect.since_size is None else reader.read_alike(effect.since_size, 1)
                comparison, size = compare_with_transcript(lines, effect.updates, recorder.mask), reader.size
            finally:
                reader.close()
        except (OSError, NewerFormat) as problem:
            if not isinstance(problem, FileNotFoundError):
                self._warn(f"what the agent replayed is not recorded: {errno_name(problem)}")
        return UnsettledCompared(effect.request_id, effect.session_id, comparison, len(effect.updates), size)

    def start_load_thread(self, effect: ChooseAndShowPast) -> None:
        """Start the thread of a load whose session was looked up."""
        self._load_threads[effect.request_id].start(effect)

    def give_up_past(self, effect: ChooseAndShowPast) -> PastChosen:
        """The result for a load whose thread could not start: nothing can be shown of its transcript."""
        self.close_transcript(effect.request_id)
        record = ", and the agent gets no record of it" if effect.makes_handover_record else ""
        self._warn(
            f"the recorded history of a session is not shown{record}: no thread could start. "
            "Load the session again when fewer processes run, or raise their limit (ulimit -u)"
        )
        decision = choose_past(None, planned=effect.planned_decision, comparison_failed=True, can_show_transcript=False)
        return PastChosen(effect.request_id, decision, None, [])

    def stop_load_thread(self, request_id: RequestId) -> None:
        """Send nothing more for this request, if that was begun, and compare nothing more unless a handover record is
        made, which still is."""
        if request_id in self._load_threads:
            self._load_threads[request_id].stop()

    def close_transcript(self, request_id: RequestId) -> None:
        """Close a transcript that was looked up and is not needed, if there is one. Its thread was not started."""
        if request_id in self._load_threads:
            self._load_threads.pop(request_id).close()

    def forget(self, request_id: RequestId) -> None:
        """The thread of this request is done."""
        self._load_threads.pop(request_id, None)

    def join_threads(self) -> None:
        while running := [thread for thread in list(self._load_threads.values()) if thread.is_running]:
            running[0].join()
