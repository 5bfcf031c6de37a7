"""Writes entries to the store, in order, on one thread: no other thread of a conversation writes transcripts.

``add`` is called under the lock on deciding and fixes the order. The writer performs what was added, with one write for
adjacent entries of one session. Once updates of one read, or joined ones, have more than 4 KiB, they are written. What
is forwarded before it is recorded is written a moment later (``record_soon``); everything else waits until it is
(``wait_until_recorded``). What a user asks of the store runs on the same thread, after the effects added before
(``run_on_writer``).

A failing store suspends the recording of a session (``TranscriptFiles``). Nothing waits long for a store that hangs:
entries wait in memory, which is bounded.
"""

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TypeVar, assert_never

from acp_proxy.decisions.effects import (
    BeginTranscript,
    BeginTurn,
    EndTurn,
    ForgetSession,
    IdentifyAgent,
    RecordGap,
    RecordMessage,
    RecordNote,
    RecordUnparsedUpdates,
    SaveAndIndex,
    SetProtocolVersion,
    TranscriptEffect,
)
from acp_proxy.errors import errno_name
from acp_proxy.protocol import jsonrpc, timestamps
from acp_proxy.recording.recorded_sessions import RecordedSessions
from acp_proxy.recording.session_file_state import SessionFileState
from acp_proxy.recording.transcript_files import TranscriptFiles
from acp_proxy.recording.writer_jobs import Heartbeat, Stalled, Wakeup, WriterJobs
from acp_proxy.store.command_names import may_run_others, name_command
from acp_proxy.store.proxy_store import ALL_AGENTS, ProxyStore
from acp_proxy.transcript import file_format
from acp_proxy.transcript.file_format import GapReason

GATHER_SECONDS = 0.002
"""The shortest time from one write to the next. Agents send tokens in bursts, the bursts some 10 ms apart. The first of
a burst is written at once, and what follows it within 2 ms costs one wake-up and one write, made while the pump is back
at its read, so that the two do not compete for the interpreter. Longer gains nothing, and a SIGKILL would lose more."""
GATHERED_BYTES = 1024 * 1024
"""The most that is gathered: in a flood the disk sets the pace, and memory stays bounded. With 256 KiB a flood takes a
third longer, since the two threads change places more often; from 1 MiB on it makes no difference."""
WAITING_BYTES = 4 * 1024 * 1024
"""The most that waits while the store hangs: minutes of what agents send, so that most stalls leave no gap."""
_ENTRY_OVERHEAD = 200
"""Bytes of memory of an entry, besides its content."""

_JOIN_BYTES = 4096
"""Updates of one read with fewer bytes are joined with those of the same millisecond: to copy larger ones would cost
more than it saves. A run of updates with more bytes, joined or not, is written before the next entries."""
_NAME_LENGTH = 500
"""The most characters of a name or version."""

_ENTRY_EFFECTS = (RecordMessage, RecordUnparsedUpdates, RecordNote)
_OtherEffect = (
    IdentifyAgent
    | SetProtocolVersion
    | BeginTranscript
    | BeginTurn
    | EndTurn
    | SaveAndIndex
    | RecordGap
    | ForgetSession
)

T = TypeVar("T")
TimedEffect = tuple[float, TranscriptEffect]
"""An effect and when it was decided, in seconds since 1970."""


class Recorder:
    """The recording of one connection. ``start`` and ``stop`` its thread."""

    def __init__(
        self,
        store: ProxyStore,
        command: list[str],
        agent: str | None,
        fsync: str,
        warn: Callable[[str], None],
        mask: Callable[[bytes], bytes] | None = None,
        *,
        deletes_softly: bool = False,
        other_agents: Sequence[str] = (),
    ) -> None:
        """``command``: the agent's. ``agent``: the user's name for it, if any. ``fsync``: turn, always or never.

        ``mask``: takes whole entries and returns them with secrets masked. ``deletes_softly``: deletes can be undone.
        ``other_agents``: names of agents whose sessions are listed too; one may be ``ALL_AGENTS``.
        """
        self.store = store
        self.fsync_mode = fsync
        self.run_id = _make_run_id()
        self.on_session_changed: Callable[[str], None] = lambda session_id: None
        """Called after ``EndTurn`` or ``SaveAndIndex``. ``StorePerformer`` sets it, to have the worker force the
        transcript to the disk and index it."""
        self._command, self._may_run_others = name_command(command), may_run_others(command)
        self._agent_id = agent
        self._agent_folder = ""
        self._reported_agent: IdentifyAgent | None = None
        self._agent_in_headers: dict[str, object] = {}
        self._protocol_version = file_format.ACP_V1
        self.mask = mask
        self._deletes_softly = deletes_softly
        self._other_agents = other_agents
        self._heartbeat = Heartbeat()
        states_by_id: dict[str, SessionFileState] = {}  # ``RecordedSessions`` adds and removes them
        self._files = TranscriptFiles(
            states_by_id,
            store,
            self._heartbeat,
            self.run_id,
            warn,
            self.find_agent_folder,
            mask=mask,
            fsyncs_each_write=fsync == "always",
        )
        self._recorded_sessions = RecordedSessions(
            states_by_id, self._files, store, self._heartbeat, self.find_agent_folder
        )
        self._warn = warn
        self._adding_lock = threading.Lock()
        """Held for some instructions while ``_unwritten``, ``_unwritten_bytes`` and ``_added_count`` change. They are
        read without it: a thread sees what it has added itself, and need not wait for what others add meanwhile."""
        self._unwritten: deque[TimedEffect] = deque()
        self._unwritten_bytes = 0
        self._added_count = self._done_count = 0
        """How many effects were added, and how many of them are done, with their entries in the kernel or given up."""
        self._wakeup = Wakeup()
        self.jobs = WriterJobs(
            self._heartbeat, self._wakeup, lambda: self._files.warn_of_suspension("it does not answer")
        )
        """What the writer is to do besides writing entries."""
        self._is_asleep = False
        """Whether the writer must be woken; else it looks by itself."""
        self._is_ending = False
        self._changed: list[str] = []
        """The sessions that are to be saved and indexed, until that is reported."""
        self._thread = threading.Thread(target=self._run, name="writer", daemon=True)

    def start(self) -> None:
        # glibc gives free memory back to the system beyond twice the largest block that it had mapped and freed. What a
        # flood has gathered is free every few milliseconds; to get it again, page by page, takes a tenth of a flood.
        bytes(GATHERED_BYTES)
        self._thread.start()

    def stop(self, seconds: float) -> None:
        """Write what was added, try suspended sessions again, and end the writer, within ``seconds``."""
        self._files.allow_retry_now()
        self._is_ending = True
        self._wakeup.send()
        self._thread.join(seconds)
        self._heartbeat.has_ended = True

    # --- under the lock on deciding; ``report_loss`` adds gaps without it

    def add(self, effect: TranscriptEffect) -> None:
        """Add an effect. The lock on deciding fixes their order; a gap needs none, since its note says from when on
        something is missing."""
        with self._adding_lock:
            self._unwritten.append((time.time(), effect))
            self._unwritten_bytes += _measure(effect)
            self._added_count += 1
            if self._heartbeat.is_stalled and self._unwritten_bytes > WAITING_BYTES:
                count_before, self._unwritten = len(self._unwritten), _replace_entries_with_gaps(self._unwritten)
                self._added_count -= count_before - len(self._unwritten)
                self._unwritten_bytes = sum(_measure(unwritten) for _, unwritten in self._unwritten)

    # --- from any thread

    def find_agent_folder(self) -> str:
        """The agent's folder, which the store chooses the first time; empty before the agent has said who it is. Raises
        OSError while the store cannot say."""
        if not self._agent_folder and (info := self._reported_agent) is not None:
            self._agent_folder = self.store.choose_agent(
                self._agent_id, info.name, self._command, may_run_others=self._may_run_others
            )
        return self._agent_folder

    @property
    def is_recording_all(self) -> bool:
        """Whether all sessions are being recorded now."""
        return not self._files.has_any_unnoted_gap and not self._heartbeat.is_stalled

    def wake(self) -> None:
        """Let the writer write what was added, within ``GATHER_SECONDS``. Never waits."""
        if self._is_asleep and self._unwritten:
            self._is_asleep = False
            self._wakeup.send()

    def record_soon(self) -> None:
        """As ``wake``, but waits if much was added: call it after forwarding what need not be recorded before."""
        if self._unwritten_bytes > GATHERED_BYTES:
            self.wait_until_recorded()
        else:
            self.wake()

    def wait_until_recorded(self) -> None:
        """Return once the kernel has everything added before, or a gap stands for what the store does not take. If the
        store hangs, this waits for ``STALL_SECONDS``, or ``PATIENCE_SECONDS`` if the writer moves now and then, and
        then nobody does until it moves."""
        # While something is missing, each wait lets the writer try again.
        if self._added_count == self._done_count and not self._files.has_any_unnoted_gap:
            return
        if self._heartbeat.is_stalled or self._heartbeat.has_ended:
            self.wake()
        else:
            self.jobs.wait(self.jobs.submit(_do_nothing))

    def run_on_writer(self, action: Callable[[], T], discard: Callable[[T], object] | None = None) -> T:
        """Run an action on the store once everything added before is written. ``discard``: gets a result that comes too
        late. Raises what the action raises, and Stalled."""
        if self._heartbeat.is_stalled or self._heartbeat.has_ended:
            self.wake()
            raise Stalled
        job = self.jobs.submit(action)
        if not self.jobs.wait(job):
            if not job.cancel() and discard is not None:
                self.jobs.submit(lambda: discard(job.result()))
            raise Stalled
        return job.result()

    def run_when_recorded(self, deciding_lock: threading.Lock, look: Callable[[], None], action: Callable[[], T]) -> T:
        """Run ``look`` and then, holding the lock on deciding, ``action``, at a moment when all decided entries are
        written. Both run on the writer; only ``look`` may use the store. Raises Stalled, and what ``look`` raises."""
        results: list[T] = []
        is_given_up = False

        def look_and_act() -> None:
            while True:
                self._write_added()
                look()
                with deciding_lock:
                    if is_given_up:
                        return
                    if not self._unwritten:
                        results.append(action())
                        return

        try:
            self.run_on_writer(look_and_act)
        except Stalled:
            with deciding_lock:  # so that either this is an error, or the action runs
                is_given_up = True
            if not results:
                raise
        return results[0]

    def list_other_folders(self) -> list[str]:
        """The folders of the other agents whose sessions are listed too. Raises OSError."""
        folders = (
            folder
            for name in self._other_agents
            for folder in self.store.list_agents("" if name == ALL_AGENTS else name)
        )
        return [folder for folder in dict.fromkeys(folders) if folder != self.find_agent_folder()]

    def has_unnoted_gap(self, session_id: str) -> bool:
        """Whether something is missing in a session that its transcript does not note yet."""
        return self._files.has_unnoted_gap(session_id)

    def report_loss(self, session_id: str, problem: OSError) -> None:
        """Warn that the disk may have lost what was recorded of a session, and have that noted as a gap."""
        self._files.warn_of_loss(errno_name(problem))
        self.add(RecordGap(session_id, errno_name(problem)))
        self.wait_until_recorded()

    def flush(self) -> None:
        """Write a last time: try everything again, however recently it failed, and report the turns that ended."""
        self._files.allow_retry_now()
        self.wait_until_recorded()
        self.jobs.wait(self.jobs.submit(_do_nothing))  # turns are reported after their entries are written

    # --- only on the writer (``run_on_writer``)

    def delete(self, session_id: str) -> None:
        """Delete a session's transcript. Only for an action of ``run_on_writer``. Raises OSError."""
        self._recorded_sessions.delete(self.find_agent_folder(), session_id, soft=self._deletes_softly)

    def close_and_check_in_use(self, session_id: str) -> bool | None:
        """As the method of ``RecordedSessions``. Only for an action of ``run_on_writer``. Raises OSError."""
        return self._recorded_sessions.close_and_check_in_use(self.find_agent_folder(), session_id)

    def append_remote_turns(self, session_id: str) -> None:
        """Add the turns of another machine that wait for a session. Only for an action of ``run_on_writer``."""
        self._recorded_sessions.append_remote_turns(self.find_agent_folder(), session_id)

    # --- the writer

    def _run(self) -> None:
        while self._wait_for_work():
            # The job is taken first, so that all that was added before it is written before it runs.
            job = self.jobs.queue.popleft() if self.jobs.queue else None
            self._write_added()
            if job is not None:
                job.run()
                self._heartbeat.beat()
            self._report_changed_sessions()
        self._write_added()
        self._report_changed_sessions()

    def _wait_for_work(self) -> bool:
        """Wait until there is a job, or something to write and the writer has not moved for ``GATHER_SECONDS``.
        Returns False at the end."""
        if not (self.jobs.queue or self._is_ending):
            self._is_asleep = True
            if not self._unwritten:  # else it was added before the writer was asleep
                self._wakeup.wait()
            self._is_asleep = False
        seconds_left = self._heartbeat.moved_at + GATHER_SECONDS - time.monotonic()
        if seconds_left > 0 and not (self.jobs.queue or self._is_ending):
            self._wakeup.wait(seconds_left)
        return bool(self.jobs.queue) or not self._is_ending

    def _report_changed_sessions(self) -> None:
        """Report the sessions that are to be saved and indexed. Whoever waited for their last entries goes on first."""
        for session_id in self._changed:
            self.on_session_changed(session_id)
        self._changed.clear()

    def _write_added(self) -> None:
        with self._adding_lock:
            batch, self._unwritten, self._unwritten_bytes = self._unwritten, deque(), 0
        count = len(batch)
        while batch:  # a bug costs what was taken from it
            with self._catch_bug():
                self._write_batch(batch)
        with self._catch_bug():
            self._files.try_note_gaps()
        self._done_count += count
        self._heartbeat.beat()

    @contextmanager
    def _catch_bug(self) -> Iterator[None]:
        """Catch an exception with a warning: the conversation must not suffer from a bug in the recorder."""
        try:
            yield
        except Exception as bug:  # noqa: BLE001 - whatever it is
            self._warn(f"internal error, something was not recorded: {type(bug).__name__}: {bug}")

    def _write_batch(self, batch: deque[TimedEffect]) -> None:
        """Write what was added, with one write for adjacent entries of one session (``_JOIN_BYTES``)."""
        # Adjacent entries of one session, and when the first of them was added.
        session_id, parts, first_stamp = "", file_format.Parts(), ""
        while batch:
            seconds, effect = batch.popleft()
            if not isinstance(effect, _ENTRY_EFFECTS) or effect.session_id != session_id:
                self._files.append(session_id, parts, first_stamp)
                parts = file_format.Parts()
            if isinstance(effect, _ENTRY_EFFECTS):
                session_id = effect.session_id
            stamp = timestamps.format_now(seconds)
            first_stamp = first_stamp if parts else stamp  # without parts, the first of a new write comes
            match effect:
                case RecordMessage() if self._recorded_sessions.is_duplicate_import(session_id):
                    pass  # the other import has it. This one ends with the note that ``track_opened`` adds after it
                case RecordMessage(_, peer, raw, answered_method):
                    is_plain = jsonrpc.is_embeddable(raw)
                    parts += file_format.encode_message_parts(
                        stamp,
                        self.run_id,
                        peer,
                        raw,
                        answered_method,
                        is_plain=is_plain,
                        protocol_version=self._protocol_version,
                    )
                case RecordUnparsedUpdates(_, data):
                    # Usually false, and cheaper than to ask for the same millisecond.
                    if len(data) < _JOIN_BYTES and batch and batch[0][0] < seconds + 0.001:
                        data = b"".join([data, *_take_updates(batch, session_id, seconds)])
                    parts += file_format.encode_update_parts(stamp, self.run_id, data, self._protocol_version)
                    if len(data) > _JOIN_BYTES:  # written now, so that its memory serves the next ones
                        self._files.append(session_id, parts, first_stamp)
                        parts = file_format.Parts()
                case RecordNote(_, note):
                    self._recorded_sessions.end_import(session_id)
                    parts.append(file_format.encode_note(stamp, self.run_id, note))
                case _:
                    self._perform(effect, stamp)
        self._files.append(session_id, parts, first_stamp)
        self._recorded_sessions.mark_sessions()

    def _perform(self, effect: _OtherEffect, stamp: str) -> None:
        """Perform an effect that is no entry. ``stamp``: when it was added."""
        match effect:
            case IdentifyAgent():
                self._identify(effect)
            case SetProtocolVersion(version):
                self._protocol_version = version
            case BeginTranscript():
                self._recorded_sessions.begin(effect, self._agent_in_headers, stamp)
            case BeginTurn():
                self._recorded_sessions.begin_turn(effect.session_id, stamp)
            case EndTurn():
                self._recorded_sessions.end_turn(effect.session_id)
                self._changed.append(effect.session_id)
            case SaveAndIndex():
                self._changed.append(effect.session_id)
            case RecordGap():
                # Of a session that was closed since, or never recorded, only the warning says it. What the writer
                # could not take while it was stalled may be the very beginning of one.
                if effect.session_id in self._recorded_sessions or effect.reason == GapReason.STORE_HANGS:
                    self._files.remember_gap(effect.session_id, stamp, effect.reason)
            case ForgetSession():
                self._recorded_sessions.forget(effect.session_id, stamp)
            case _:
                assert_never(effect)

    def _identify(self, info: IdentifyAgent) -> None:
        self._heartbeat.beat()
        self._agent_in_headers = {"name": _shorten(info.name), "version": _shorten(info.version)}
        self._reported_agent, self._agent_folder = info, ""
        with suppress(OSError):  # tried again with each session
            self.find_agent_folder()


def _shorten(text: str | None) -> str | None:
    """A name or version that the agent reported, bounded because every header contains it."""
    return text[:_NAME_LENGTH] if text is not None else None


def _make_run_id() -> str:
    """Six random letters and digits that identify one connection."""
    letters = "0123456789abcdefghijklmnopqrstuvwxyz"
    return "".join(letters[byte % len(letters)] for byte in os.urandom(6))


def _do_nothing() -> None:
    """The action of a job that only waits for what was added before, and by that has gaps tried again."""


def _take_updates(batch: deque[TimedEffect], session_id: str, seconds: float) -> list[bytes]:
    """The updates of one session and one millisecond at the start of a batch, which are recorded together."""
    updates: list[bytes] = []
    end_seconds = (int(seconds * 1000) + 1) / 1000
    while batch and batch[0][0] < end_seconds:
        effect = batch[0][1]
        if not isinstance(effect, RecordUnparsedUpdates) or effect.session_id != session_id:
            break
        updates.append(effect.data)
        batch.popleft()
    return updates


def _measure(effect: TranscriptEffect) -> int:
    """Approximate memory of an effect, in bytes."""
    match effect:
        case RecordUnparsedUpdates(data=data):
            return len(data) + _ENTRY_OVERHEAD
        case RecordMessage(raw=raw):
            return len(raw) + _ENTRY_OVERHEAD
        case RecordNote(note=note):
            return len(jsonrpc.dump(note)) + _ENTRY_OVERHEAD
        case _:
            return _ENTRY_OVERHEAD


def _replace_entries_with_gaps(effects: deque[TimedEffect]) -> deque[TimedEffect]:
    """Without entries, gaps and ``SaveAndIndex``; in place of the first of a session, one gap."""
    kept_effects: deque[TimedEffect] = deque()
    with_gap: set[str] = set()
    for seconds, effect in effects:
        if isinstance(
            effect, IdentifyAgent | SetProtocolVersion | BeginTranscript | BeginTurn | EndTurn | ForgetSession
        ):
            kept_effects.append((seconds, effect))
            if isinstance(effect, BeginTranscript):
                with_gap.discard(effect.session_id)
        elif effect.session_id not in with_gap:
            with_gap.add(effect.session_id)
            kept_effects.append((seconds, RecordGap(effect.session_id, GapReason.STORE_HANGS)))
    return kept_effects
