"""Chooses whose past is shown for one load, on a thread of its own: compares the agent's replay with the transcript,
has ``choose_past`` decide, and sends the transcript if that is the one to show. The agent's replay is not sent from
here.

On its own thread, since a transcript may have gigabytes, and nobody else's session may wait for it. It reserves the
client's output for at most ``SEND_SIZE`` bytes of whole lines at a time, or for one item that is longer, so other
sessions' lines leave in between.
``stop`` takes effect between two of these: once somebody else has the output, a stopped thread sends nothing more. The
last one reports the end (``try_finish``) while it still has the output, so nothing comes between the past and the
answer to the load.

It also makes the handover record, even when it is stopped, and finds the session's latest state.
"""

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from msgspec.structs import replace

from acp_proxy.comparison.comparison import Comparison
from acp_proxy.comparison.whose_past import WhosePast, choose_past
from acp_proxy.decisions import proxy_messages
from acp_proxy.decisions.effects import ChooseAndShowPast
from acp_proxy.decisions.events import PastChosen
from acp_proxy.errors import errno_name
from acp_proxy.protocol import acp, framing, jsonrpc, update_kinds
from acp_proxy.protocol.jsonrpc import Peer, Request
from acp_proxy.relay.compare_with_transcript import compare_with_transcript
from acp_proxy.relay.opened_transcript import OpenedTranscript, ShowOptions
from acp_proxy.relay.pipes import WIDE_PIPE_BYTES, Output
from acp_proxy.transcript.drop_rewound import drop_rewound
from acp_proxy.transcript.file_format import ACP_V1, Entry, Header
from acp_proxy.transcript.handover_record_text import INTRODUCTION, LACKING
from acp_proxy.transcript.reader import AlikeLines, Line
from acp_proxy.transcript.summary import Summary
from acp_proxy.transcript.turn_order import order_turns
from acp_proxy.transcript.v2_entries import read_as_v1
from acp_proxy.transcript_replay.handover_record import HandoverRecord
from acp_proxy.transcript_replay.replayer import FOLDED_PAGE, Replayer
from acp_proxy.transcript_replay.v2_client_replayer import V2ClientReplayer
from acp_proxy.transcript_replay.v2_fold import V2Fold
from acp_proxy.transcript_replay.v2_replayer import V2Replayer

THREAD_NAME = "load"
SEND_SIZE = 64 * 1024
_GATHER_SECONDS = 0.005
"""Seconds that lines wait for more of them, so that the first ones reach the editor at once."""


class LoadThread:
    """Chooses once whose past of a session is shown, and sends the transcript if it is that."""

    def __init__(
        self,
        session_id: str,
        transcript: OpenedTranscript,
        options: ShowOptions,
        client_output: Output,
        try_finish: Callable[[PastChosen], bool],
        warn: Callable[[str], None],
        *,
        run_id: str,
        mask: Callable[[bytes], bytes] | None = None,
    ) -> None:
        """``session_id``: the client's id. ``transcript``: this closes it. ``run_id``: this connection's. ``mask``:
        masks secrets in what is recorded.

        ``try_finish``: called at the end with the result; returns False if updates arrived that must be compared first.
        """
        self._session_id = session_id
        self._transcript = transcript
        self._reader = transcript.reader
        self._options = options
        self._client_output = client_output
        self._try_finish = try_finish
        self._warn = warn
        self._run_id = run_id
        self._mask = mask
        self._effect: ChooseAndShowPast  # what to do; set by ``start``
        self._is_stopped = False
        self._unsent: list[bytes] = []
        self._unsent_size = 0
        self._sent_at = 0.0
        self._thread = threading.Thread(target=self._run, name=THREAD_NAME, daemon=True)

    def start(self, effect: ChooseAndShowPast) -> None:
        self._effect = effect
        self._thread.start()

    def stop(self) -> None:
        self._is_stopped = True

    def close(self) -> None:
        """Call this if the thread will not be started."""
        self._reader.close()

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    def join(self) -> None:
        self._thread.join()

    def _run(self) -> None:
        effect = self._effect
        # What holds if the transcript cannot be read.
        decision = choose_past(None, planned=effect.planned_decision, comparison_failed=True)
        replayer = self._make_replayer(effect, None)
        summary = Summary.begin(self._reader.header or Header(self._session_id, None, "", ""))
        comparison: Comparison | None = None
        ended_early = True
        with self._catch_early_end():
            comparison = self._compare() if effect.needs_comparison else None
            replayer = self._make_replayer(effect, comparison)
            if comparison is not None:
                comparison.end_message()
            decision = choose_past(
                comparison,
                planned=effect.planned_decision,
                comparison_failed=effect.needs_comparison and comparison is None,  # given up, since nobody waits for it
                is_in_use_elsewhere=self._transcript.is_in_use_elsewhere,
            )
            ended_early = False
            if decision.whose_past is WhosePast.TRANSCRIPT:
                ended_early = not self._show_transcript(replayer, summary)
        handover_record, attached = self._make_handover_record(comparison) if effect.makes_handover_record else ("", ())
        states = self._make_states(replayer, summary) if decision.whose_past is WhosePast.TRANSCRIPT else []
        # If nothing was compared, what waits by now may still be a late replay: ``try_finish`` then has it compared
        # first. Not if the transcript could not be read.
        comparison_was_skipped = not ended_early and not effect.needs_comparison
        size = self._reader.size
        self._report(
            PastChosen(
                effect.request_id,
                decision,
                comparison,
                latest_state_lines=states,
                handover_record=handover_record,
                attached_blocks=attached,
                comparison_was_skipped=comparison_was_skipped,
                transcript_size=size,
            )
        )

    @contextmanager
    def _catch_early_end(self) -> Iterator[None]:
        """Catch an exception in comparing, in sending, or in making the handover record, with a warning: what could be
        read is used, and the load is answered."""
        try:
            yield
        except OSError as problem:
            self._warn(f"showing the transcript ended early: {errno_name(problem)}")
        except Exception as bug:  # noqa: BLE001 - the load must be answered whatever happens here
            self._warn(f"internal error, showing the transcript ended early: {type(bug).__name__}: {bug}")

    def _make_replayer(self, effect: ChooseAndShowPast, comparison: Comparison | None) -> Replayer | V2ClientReplayer:
        """What turns the transcript's entries into updates for a client of the wanted protocol version."""
        v1_replayer = Replayer(
            self._session_id,
            run_id=self._run_id,
            is_in_use_elsewhere=self._transcript.is_in_use_elsewhere is True,
            mode=self._options.mode,
            tool_limit=self._options.tool_limit,
            other_ids=self._transcript.other_ids,
            page_size=FOLDED_PAGE,
            client_update_kinds=effect.client_update_kinds,
            client_shows_agent_terminals=effect.client_shows_agent_terminals,
            message_ids=comparison.message_ids if comparison is not None else None,
        )
        if effect.protocol_version == ACP_V1:
            return v1_replayer
        v2_replayer = V2Replayer(self._session_id, other_ids=self._transcript.other_ids)
        is_folded, tool_limit = self._options.mode == "compact", self._options.tool_limit
        v2_fold = V2Fold(self._session_id, tool_limit, page_size=FOLDED_PAGE) if is_folded else None
        return V2ClientReplayer(self._session_id, v1_replayer, v2_replayer, v2_fold)

    def _report(self, past_chosen: PastChosen) -> None:
        """Report the result. The transcript is read again only if the agent sent updates after its answer."""
        # Not ``reserve``, which queues so that ``_send_unsent`` cannot keep others out: here, the lock is taken once.
        with self._client_output.lock:
            self._send_unsent_locked()
            is_over = self._try_finish(past_chosen)
        if not is_over:
            comparison: Comparison | None = None
            try:
                comparison = self._compare()
            except Exception as problem:  # noqa: BLE001 - the load must be answered whatever happens here
                self._warn(f"what the agent replayed is not compared: {type(problem).__name__}: {problem}")
            with self._client_output.lock:  # it is over now, since no comparison was skipped
                self._try_finish(replace(past_chosen, comparison=comparison, comparison_was_skipped=False))
        self._reader.close()

    def _compare(self) -> Comparison | None:
        """Compare the agent's replay with the transcript; if that is empty, make the comparison to which ``decisions/``
        adds what comes late. Raises OSError."""
        return compare_with_transcript(self._read_lines(), self._effect.updates, self._mask, self._is_needed)

    def _show_transcript(self, replayer: Replayer | V2ClientReplayer, summary: Summary) -> bool:
        """Send the transcript to the client. Returns whether all of it was read."""
        if isinstance(replayer, V2ClientReplayer) and self._effect.agent_lacks_past:
            catches_up = self._effect.only_what_agent_lacks  # in the session that the agent has: ids stay as they are
            replayer.new_session_count = self._reader.agent_session.new_session_count + (
                self._effect.makes_handover_record and not catches_up
            )
        lines = self._order(self._read_lines())
        if self._reader.size > WIDE_PIPE_BYTES:
            self._client_output.widen()
        for line in read_as_v1(lines) if self._effect.protocol_version == ACP_V1 else lines:
            if not self._is_needed():
                return False
            if isinstance(line, Line) and line.entry is not None:
                summary.add(line.entry)  # only its title and _meta are used
            self._add_unsent(_replay_line(replayer, line))
            if self._unsent and time.monotonic() - self._sent_at > _GATHER_SECONDS:
                self._send_unsent()
        self._add_unsent(replayer.end())
        return True

    def _make_handover_record(self, comparison: Comparison | None) -> tuple[str, tuple[bytes, ...]]:
        """The handover record, of what a client of version 1 would see, and what is attached to it; empty if nothing
        was said."""
        effect = self._effect
        introduction = LACKING if effect.only_what_agent_lacks else INTRODUCTION
        record = HandoverRecord(self._options.handover_record_size, effect.accepted_content, introduction)
        replayer = self._make_replayer(replace(effect, protocol_version=ACP_V1), comparison)

        def add(items: list[bytes]) -> None:
            for line in framing.split_lines(b"".join(items)):
                record.add(line)

        with self._catch_early_end():
            lines = self._read_lacking() if effect.only_what_agent_lacks else self._read_lines()
            for line in read_as_v1(self._order(lines)):
                if not self._is_needed():
                    break
                if isinstance(line, Line) and line.entry is not None:
                    record.note_turn_outcome(line.entry)
                add(_replay_line(replayer, line))
            add(replayer.end())
        return ("", ()) if record.is_empty else (record.make_text(), record.attached)

    def _order(self, lines: Iterable[Line | AlikeLines]) -> Iterable[Line | AlikeLines]:
        """The lines as they are shown. What is compared keeps the recorded order: agents that keep one list for all
        windows replay that."""
        return order_turns(lines, self._reader.find_last_lines)

    def _read_lacking(self) -> Iterable[Line | AlikeLines]:
        """The part of the transcript that the agent's session lacks."""
        agent_session, start = self._reader.agent_session, self._reader.entries_start
        lines = self._reader.read_alike(start + agent_session.first_lacking, 1)
        return (line for line in drop_rewound(self._reader, lines) if agent_session.lacks(line.end - 1 - start))

    def _read_lines(self) -> Iterable[Line | AlikeLines]:
        """The transcript, up to the prompt that the agent will get again."""
        for line in drop_rewound(self._reader):
            if self._effect.before_prompt is not None and isinstance(line, Line) and self._is_resent_prompt(line.entry):
                return
            yield line

    def _is_resent_prompt(self, entry: Entry | None) -> bool:
        if entry is None or entry.peer is not Peer.CLIENT or entry.run != self._run_id or entry.raw is None:
            return False
        match jsonrpc.read_message(entry.raw):
            case Request(method=acp.PROMPT, id=id):
                return id == self._effect.before_prompt
            case _:
                return False

    def _make_states(self, replayer: Replayer | V2ClientReplayer, summary: Summary) -> list[bytes]:
        """Updates with the session's latest state, and the title that a list shows."""
        info = summary.make_info()
        if not self._effect.sends_title and summary.agent_title is None:
            info.pop("title", None)  # the agent's own list has another title
        info |= {"title": self._transcript.title} if self._transcript.title is not None else {}
        title_lines = (
            [proxy_messages.encode_update(self._session_id, {"sessionUpdate": update_kinds.SESSION_INFO, **info})]
            if info
            else []
        )
        return [*replayer.list_states(), *title_lines]

    def _is_needed(self) -> bool:
        is_for_nobody = self._is_stopped and not self._effect.makes_handover_record  # which is for the agent
        return not (is_for_nobody or self._client_output.is_gone)

    def _add_unsent(self, items: list[bytes]) -> None:
        """Add items, each of one or more whole lines, to what is sent."""
        for data in items:
            if self._unsent and self._unsent_size + len(data) > SEND_SIZE:
                self._send_unsent()
            self._unsent.append(data)
            self._unsent_size += len(data)

    def _send_unsent(self) -> None:
        with self._client_output.reserve():
            self._send_unsent_locked()
        self._sent_at = time.monotonic()

    def _send_unsent_locked(self) -> None:
        if not self._is_stopped:
            self._client_output.write_locked(b"".join(self._unsent))
        self._unsent.clear()
        self._unsent_size = 0


def _replay_line(replayer: Replayer | V2ClientReplayer, line: Line | AlikeLines) -> list[bytes]:
    if isinstance(line, AlikeLines):
        return replayer.add_chunks(line.number, line.chunks)
    return replayer.add(line.number, line.entry) if line.entry is not None else []
