"""Relays between the client and the agent: runs the two pumps and the threads that show the past, and performs the
effects.

Locks: one on deciding, and so on the order of recording, never held during a write to a peer; one per output, held for
whole lines. The lock on deciding may be taken while holding an output's: a thread that chooses the past decides at its
end while it still holds the client's, so that nothing comes between it and the answer. Never the reverse: a pump that
waited for the client's output while holding the lock on deciding would wait for that thread, which waits for the lock;
and a client that does not read would stop both directions, though deciding needs no peer.
Nobody waits for the writer of the recorder while holding the lock on deciding, since the writer takes it too.

Effects are performed in order, by a pump once their entries are recorded (``Pump._perform_in_order``), and by other
threads each once all is recorded (``_perform_each_when_recorded``). A thread that holds the client's output does not
wait for that first (``_perform_with_output_reserved``), but some effects ask the writer, and wait for its answer.

An exception in deciding causes a warning, and the lines in question pass unchanged.
"""

import math
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import assert_never

from acp_proxy.decisions import proxy_messages
from acp_proxy.decisions.connection import Connection
from acp_proxy.decisions.effects import (
    AddAlias,
    AmendList,
    AmendTitles,
    AnswerStatus,
    ChooseAndShowPast,
    CloseTranscript,
    CompareUnsettled,
    DecideLater,
    DecideWaiting,
    DeleteSession,
    Effect,
    Forward,
    ListSessions,
    LookUpSession,
    RecordUnparsedUpdates,
    RelayEffect,
    ReserveOutput,
    SetArchived,
    SetTitle,
    StopShowingPast,
    StoreAgentsChange,
    TranscriptEffectBase,
    Warn,
    WriteToStderr,
)
from acp_proxy.decisions.events import (
    AgentEnded,
    Event,
    LinesRead,
    LineTooLong,
    OutputReserved,
    PastChosen,
    SessionLookedUp,
    UnsettledCompared,
)
from acp_proxy.errors import errno_name
from acp_proxy.protocol.jsonrpc import Peer, RequestId
from acp_proxy.recording.recorder import Recorder
from acp_proxy.relay.idle_work import IdleWork
from acp_proxy.relay.load_performer import LoadPerformer
from acp_proxy.relay.opened_transcript import ShowOptions
from acp_proxy.relay.pipes import Output, stderr
from acp_proxy.relay.pump import Pump
from acp_proxy.relay.store_performer import StorePerformer

IDLE_SECONDS = 5 * 60.0
"""Without a line in either direction for so long, the user is away or the agent is thinking."""
WAITING_THREAD_NAME = "waiting messages"


class Relay:
    """The relay of one connection. Its methods may be called from any thread.

    ``on_side_ended``: called when a side ends or is closed. ``client_pump``, ``agent_pump``: what reads from them.
    """

    def __init__(
        self,
        connection: Connection,
        recorder: Recorder | None,
        *,
        from_client: int,
        to_client: int,
        from_agent: int,
        to_agent: int,
        warn: Callable[[str], None],
        show_options: ShowOptions,
        idle_seconds: float | None = None,
        compresses: bool = True,
    ) -> None:
        """``recorder``: None: nothing is recorded. ``from_client`` to ``to_agent``: descriptors.

        ``idle_seconds``: empty the bin, and with ``compresses`` compress the store, after this time without a line in
        either direction; None: never.
        """
        self.on_side_ended: Callable[[], None] = lambda: None
        """Set by whoever waits for an end: ``shutdown.supervise``, or ``serve_chain``."""
        self._connection = connection
        self._recorder = recorder
        self._warn = warn
        self._deciding_lock = threading.Lock()
        self._client_output = Output(to_client, self._notify)
        self._agent_output = Output(to_agent, self._handle_closed_input, from_client, self._handle_hang_up)
        self.client_pump = Pump(Peer.CLIENT, from_client, self, self._notify)
        self.agent_pump = Pump(Peer.AGENT, from_agent, self, self._notify)
        self._client_has_hung_up = False
        self.agent_reads_no_more = False
        """Whether the agent has closed its input, which shows when something is sent to it."""
        self._store_performer = StorePerformer(recorder, self._client_output, warn) if recorder is not None else None
        self.pauses_agent = False
        self._may_read_agent = threading.Event()
        self._may_read_agent.set()
        self._load_performer = (
            LoadPerformer(
                recorder,
                self._client_output,
                show_options,
                self._deciding_lock,
                self._decide_locked,
                self._try_finish_past,
                warn,
            )
            if recorder is not None
            else None
        )
        self._idle_work: IdleWork | None = None
        if recorder is not None and idle_seconds is not None:
            root = recorder.store.root
            self._idle_work = IdleWork(root, idle_seconds, self._has_loads, warn, compresses=compresses)

    def start(self) -> None:
        """Start the pumps and the store's threads."""
        if self._recorder is not None:
            self._recorder.start()
        self.client_pump.start()
        self.agent_pump.start()
        if self._store_performer is not None:
            self._store_performer.start()
        if self._idle_work is not None:
            self._idle_work.start()

    def request_sync_round(self) -> None:
        """Start a round of sync, if the user has set that up."""
        if self._store_performer is not None:
            self._store_performer.changed_sessions.request_sync_round()

    @property
    def client_is_gone(self) -> bool:
        """Whether the client has closed its side, or no longer reads."""
        return self.client_pump.ended.is_set() or self._client_has_hung_up or self._client_output.is_gone

    @property
    def agent_has_unread_input(self) -> bool:
        """Whether the client has closed its side while the agent does not read what came before that."""
        return self._client_has_hung_up and not self.client_pump.ended.is_set() and not self._client_output.is_gone

    @property
    def slow_write_count(self) -> int:
        """Grows while an agent that is behind reads."""
        return self._agent_output.slow_write_count

    @property
    def has_waiting_requests(self) -> bool:
        """Whether requests of the client wait for loads, so that the agent has not got them."""
        return bool(self._connection.waiting_messages)

    def end_input(self) -> None:
        """Close the agent's input once the write under way is done: what was posted and is not written is lost. Returns
        at once."""
        threading.Thread(target=self._agent_output.close, name="end of input", daemon=True).start()

    def close(self) -> None:
        """Close the outputs to both sides, each once the write under way is done."""
        self._agent_output.close()
        self._client_output.close()

    def handle_agent_end(self, reason: str, advice: str = "") -> None:
        """Call this when the agent is gone: waits for what chooses the past, answers open requests, and records the
        rest.

        ``reason``: who ended, and how, for people. ``advice``: what follows if ``initialize`` is not answered.
        """
        if self._load_performer is not None:
            self._load_performer.join_threads()
        self._client_output.wait_until_written()
        self._perform_each_when_recorded(self._decide(AgentEnded(reason, advice)))
        if self._recorder is not None:
            self._recorder.flush()

    def finish_work(self, seconds: float) -> None:
        """Let the store's remaining work run, the worker's, the output and the writer for at most ``seconds`` each."""
        if self._store_performer is not None:
            self._store_performer.finish(seconds)
            self._client_output.wait_until_written(seconds)
        if self._recorder is not None:
            self._recorder.stop(seconds)
        if self._idle_work is not None:
            self._idle_work.end()

    # --- for the pumps

    def decide_on_lines(self, peer: Peer, lines: list[bytes]) -> list[RelayEffect]:
        """Decide on complete lines from ``peer``. Returns the effects to perform."""
        return self._decide(LinesRead(peer, lines))

    def try_pass_to_agent(self, data: bytes) -> bool:
        """Forward a client's lines (``data``) if nothing has to be decided about them; returns whether it did."""
        with self._deciding_lock:
            if not self._try_admit_simple_lines(Peer.CLIENT, data):
                return False
        self._agent_output.write(data)
        self.note_activity()
        return True

    def try_pass_to_client(self, data: bytes) -> bool:
        """Forward an agent's lines (``data``) if nothing has to be decided about them, and record them if they are
        updates; returns whether it did."""
        with self._deciding_lock:
            try:
                session_id = self._connection.fast_path.try_admit_updates(data)
            except Exception as bug:  # noqa: BLE001 - the conversation must not suffer from a bug of ours
                self._warn_of_bug(bug)
                return False
            if session_id is None:
                if not self._try_admit_simple_lines(Peer.AGENT, data):
                    return False
            elif self._recorder is not None:  # there is one: else no update is admitted
                self._recorder.add(RecordUnparsedUpdates(session_id, data))
        self._client_output.write(data)
        if session_id is not None:
            self.record_soon()
        self.note_activity()
        return True

    def _try_admit_simple_lines(self, peer: Peer, data: bytes) -> bool:
        try:
            return self._connection.fast_path.try_admit_simple_lines(data, peer)
        except Exception as bug:  # noqa: BLE001 - the conversation must not suffer from a bug of ours
            self._warn_of_bug(bug)
            return False

    def _warn_of_bug(self, bug: Exception) -> None:
        self._warn(f"internal error, lines are handled one by one: {type(bug).__name__}: {bug}")

    @contextmanager
    def pass_overlong_line(self, peer: Peer, beginning: bytes) -> Iterator[Callable[[bytes], None]]:
        """Hold the other peer's output for the bytes of a line that is too long to be read; yields what writes them."""
        effects = self._decide(LineTooLong(peer, beginning))
        self.wait_until_recorded()
        for effect in effects:
            self.perform(effect)
        with self._get_output(peer.other).reserve():
            yield self._get_output(peer.other).write_locked

    def wait_until_recorded(self) -> None:
        """Return once the decided entries are recorded, or a gap stands for them, or the store hangs."""
        if self._recorder is not None:
            self._recorder.wait_until_recorded()

    def record_soon(self) -> None:
        """Let the decided entries be recorded within a moment. Waits if much is to be written."""
        if self._recorder is not None:
            self._recorder.record_soon()

    def note_activity(self) -> None:
        """Something was relayed: work for idle times stops."""
        if self._idle_work is not None:
            self._idle_work.is_idle = False

    def wait_while_paused(self, peer: Peer) -> None:
        """Wait until the agent may be read again, if ``peer`` is the agent."""
        if peer is Peer.AGENT:
            self._may_read_agent.wait()

    def perform(self, effect: RelayEffect) -> list[RelayEffect]:
        """Perform an effect, or what takes its place if it fails. Returns the effects to perform next."""
        try:
            return self._perform_or_raise(effect)
        except ImportError as problem:  # an upgrade of acp-proxy has replaced its files
            return self._replace_failed(effect, errno_name(problem))
        except Exception as bug:  # noqa: BLE001 - the conversation must not suffer from a bug of ours
            self._warn(f"internal error: {type(bug).__name__}: {bug}")
            # A bug has no errno. With that of a store that does not answer, nobody takes a file for missing or damaged.
            return self._replace_failed(effect, "ETIMEDOUT")

    def _perform_or_raise(self, effect: RelayEffect) -> list[RelayEffect]:
        match effect:
            case Forward():
                output = self._get_output(effect.to)
                if effect.is_own:
                    self._send_own(effect)
                else:
                    output.write(effect.data)
            case WriteToStderr(data):
                stderr.write(data)
            case Warn(text):
                self._warn(text)
            case ListSessions():
                self._require_store_performer().list_performer.answer_list(effect)
            case AmendList():
                amended = self._require_store_performer().list_performer.amend_list(effect)
                return amended if isinstance(amended, list) else self._decide(amended)
            case AmendTitles():
                return [Forward(Peer.CLIENT, self._require_store_performer().list_performer.amend_titles(effect))]
            case SetTitle() | SetArchived() | AnswerStatus():
                self._require_store_performer().answer_draft_request(effect)
            case StoreAgentsChange():
                return self._require_store_performer().store_agents_change(effect)
            case DeleteSession(session_id, request_id):
                self._require_store_performer().delete(session_id, request_id)
            case AddAlias(session_id, alias):
                self._require_store_performer().add_alias(session_id, alias)
            case LookUpSession():
                outcome = self._require_load_performer().look_up(
                    effect, self._require_store_performer().find_missing_reason
                )
                return outcome if isinstance(outcome, list) else self._decide(outcome)
            case DecideLater(peer, lines):
                return self._decide(LinesRead(peer, lines))
            case DecideWaiting(session_id):
                threading.Thread(
                    target=lambda: self._perform_each_when_recorded(self._decide_waiting(session_id)),
                    name=WAITING_THREAD_NAME,
                    daemon=True,
                ).start()
            case CompareUnsettled():
                return self._decide(self._require_load_performer().compare_unsettled(effect))
            case ChooseAndShowPast():
                self._require_load_performer().start_load_thread(effect)
            case StopShowingPast(request_id):
                if self._load_performer is not None:
                    self._load_performer.stop_load_thread(request_id)
            case CloseTranscript(request_id):
                if self._load_performer is not None:
                    self._load_performer.close_transcript(request_id)
            case ReserveOutput(request_id):
                # On a separate thread: a line that passes unread and never ends may hold the client's output.
                threading.Thread(
                    target=self._reserve_output_and_decide, args=(request_id,), name="reserve output", daemon=True
                ).start()
            case _:
                assert_never(effect)
        return []

    def _replace_failed(self, effect: RelayEffect, trouble: str) -> list[RelayEffect]:
        """The effects to perform in place of one that fails, so that nobody waits for an answer forever."""
        match effect:
            case ChooseAndShowPast():  # its thread could not start
                past_chosen = self._require_load_performer().give_up_past(effect)
                self.pauses_agent = False
                self._may_read_agent.set()
                return self._decide(past_chosen)
            case LookUpSession(request_id):
                return self._decide(SessionLookedUp(request_id, errno_name=trouble))
            case CompareUnsettled(request_id, session_id):
                return self._decide(UnsettledCompared(request_id, session_id, None))
            case DecideWaiting(session_id):
                return self._decide_waiting(session_id)
            case AmendList(line=data) | AmendTitles(data):
                return [Forward(Peer.CLIENT, data)]
            case ListSessions(request_id):
                return [proxy_messages.refuse_unreadable(request_id, trouble)]
            case DeleteSession(request_id=RequestId() as request_id):
                return [proxy_messages.refuse_unwritable(request_id, trouble)]
            case SetTitle(request_id=request_id) | SetArchived(request_id=request_id):
                return [proxy_messages.refuse_unwritable(request_id, trouble)]
            case AnswerStatus(request_id=request_id):
                return [proxy_messages.refuse_unreadable(request_id, trouble)]
            case _:  # ``ReserveOutput``, too: its cancelled load is answered with the agent's answer, or its past
                return []

    def _send_own(self, effect: Forward) -> None:
        """Write a message of our own.

        The pump that reads from its receiver must not wait for it: the receiver may read nothing until it has written.
        """
        output = self._get_output(effect.to)
        if effect.to is Peer.AGENT and self.agent_pump.runs_on_thread(threading.get_ident()):
            output.post(effect.data, math.inf)  # requests for a load, a list or a close, whose numbers are limited
        elif effect.to is Peer.CLIENT and self.client_pump.runs_on_thread(threading.get_ident()):
            output.post(effect.data)
        else:
            output.write(effect.data, is_own=True)

    def _perform_each_when_recorded(self, effects: list[RelayEffect]) -> None:
        """Perform effects and what follows from them, each once all that was decided is recorded."""
        pending = deque(effects)
        while pending:
            self.wait_until_recorded()
            pending.extendleft(self.perform(pending.popleft())[::-1])

    # --- deciding

    def _decide(self, event: Event) -> list[RelayEffect]:
        with self._deciding_lock:
            return self._decide_locked(event)

    def _decide_locked(self, event: Event) -> list[RelayEffect]:
        try:
            effects = self._connection.handle(event)
        except Exception as bug:  # noqa: BLE001 - the conversation must not suffer from a bug of ours
            self._warn(f"internal error, the lines pass unchanged: {type(bug).__name__}: {bug}")
            return [Forward(event.peer.other, line) for line in event.lines] if isinstance(event, LinesRead) else []
        if self._connection.must_pause_agent:
            self._may_read_agent.clear()
            self.pauses_agent = True
        return self._give_to_recorder(effects)

    def _decide_waiting(self, session_id: str) -> list[RelayEffect]:
        """Decide on the next line that waits for a load of this session. It is taken under the same lock, so that it
        is known to ``Connection`` at any time, also when the agent ends."""
        with self._deciding_lock:
            lines = self._connection.waiting_messages.take_next(session_id)
            return self._decide_locked(LinesRead(Peer.CLIENT, lines))

    def _give_to_recorder(self, effects: list[Effect]) -> list[RelayEffect]:
        """Give the effects for the transcript to the recorder, in order; returns the others."""
        relay_effects: list[RelayEffect] = []
        for effect in effects:
            if not isinstance(effect, TranscriptEffectBase):
                relay_effects.append(effect)
            elif self._recorder is not None:
                self._recorder.add(effect)
        return relay_effects

    # --- loads

    def _try_finish_past(self, past_chosen: PastChosen) -> bool:
        """The past is chosen, and the transcript sent if it is that: decide what follows, and do it.
        Called with the client's output held, so that nothing comes between the past and the answer.

        Returns False if there are updates that must be compared first; then it is not over.
        """
        with self._deciding_lock:
            if self._connection.must_compare_first(past_chosen):
                return False
            effects = self._decide_locked(past_chosen)
        self._require_load_performer().forget(past_chosen.request_id)
        self.pauses_agent = False
        self._may_read_agent.set()
        self._perform_with_output_reserved(effects)
        self._wake_recorder()
        return True

    def _reserve_output_and_decide(self, request_id: RequestId) -> None:
        with self._client_output.reserve():
            self._perform_with_output_reserved(self._decide(OutputReserved(request_id)))
            self._wake_recorder()

    def _perform_with_output_reserved(self, effects: list[RelayEffect]) -> None:
        """Perform effects while holding the client's output. Does not wait until all is recorded, since nobody else may
        write meanwhile; an effect that asks the writer still waits for its answer."""
        for effect in effects:
            if isinstance(effect, Forward) and effect.to is Peer.CLIENT:
                self._client_output.write_locked(effect.data, is_own=effect.is_own)
            elif isinstance(effect, Forward):
                self._agent_output.post(effect.data, math.inf)  # never wait for one output while holding the other
            else:
                self._perform_with_output_reserved(self.perform(effect))

    def _wake_recorder(self) -> None:
        if self._recorder is not None:
            self._recorder.wake()  # never waits: an output is held here

    # --- small things

    def _get_output(self, peer: Peer) -> Output:
        return self._client_output if peer is Peer.CLIENT else self._agent_output

    def _has_loads(self) -> bool:
        return self._load_performer is not None and self._load_performer.has_loads

    def _require_load_performer(self) -> LoadPerformer:
        if self._load_performer is None:
            raise RuntimeError("nothing is recorded, so nothing is served")
        return self._load_performer

    def _require_store_performer(self) -> StorePerformer:
        if self._store_performer is None:
            raise RuntimeError("nothing is recorded, so nothing is served")
        return self._store_performer

    def _handle_closed_input(self) -> None:
        self.agent_reads_no_more = True
        self._notify()

    def _handle_hang_up(self) -> None:
        self._client_has_hung_up = True
        self._notify()

    def _notify(self) -> None:
        self.on_side_ended()
