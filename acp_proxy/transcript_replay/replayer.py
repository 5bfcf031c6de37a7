"""Turns the entries of a transcript into the lines of a replay, which leave a client in the same state as live.

Entries go in one at a time. A prompt's blocks come out as soon as it is certain which id an echo gives them; what
follows waits for that, up to ``ECHO_WAIT_LIMIT`` bytes. The rest of a segment comes out folded when the segment has
ended (``compact``), or line by line at once (``full``). State comes last, from ``list_states``.

The same entries always give the same bytes. Nothing raises: what makes no sense is left out. docs/transparency.md says
what a replay contains.
"""

from collections import deque
from collections.abc import Collection, Mapping
from typing import Literal

from acp_proxy.protocol import acp, jsonrpc, update_kinds
from acp_proxy.protocol.jsonrpc import Peer
from acp_proxy.protocol.update_kinds import KINDS, ReplayForm
from acp_proxy.transcript.chunk_runs import READ_TOGETHER_KINDS, AlikeChunks
from acp_proxy.transcript.file_format import Entry, NoteType
from acp_proxy.transcript_replay import entry_updates, tool_calls
from acp_proxy.transcript_replay.entry_updates import Update
from acp_proxy.transcript_replay.prompts import Echoes, Prompt
from acp_proxy.transcript_replay.replayed_calls import Key, ReplayedCalls
from acp_proxy.transcript_replay.segments import CompactSegment, FullSegment, Segment
from acp_proxy.transcript_replay.terminal_output import AgentTerminals, ReplayedTerminals
from acp_proxy.transcript_replay.tool_calls import CallStatement

Mode = Literal["compact", "full"]
TOOL_LIMIT = 1024 * 1024
"""The default for the most bytes of a tool call in a compact replay: more than anybody reads."""

FOLDED_PAGE = 16 * 1024 * 1024
"""The most bytes of a turn that a load folds at once: no client shows more, and other sessions wait less."""
ECHO_WAIT_LIMIT = 1024 * 1024
"""The most bytes that wait for the echo of a prompt. Beyond that, the prompt gets an id from acp-proxy."""


class Replayer:
    """One replay. The methods return lines that are certain now, in order; an item may be several lines."""

    def __init__(
        self,
        session_id: str,
        *,
        run_id: str,
        is_in_use_elsewhere: bool = False,
        mode: Mode = "compact",
        tool_limit: int = TOOL_LIMIT,
        other_ids: frozenset[str] = frozenset(),
        page_size: int = 0,
        client_update_kinds: frozenset[str] = frozenset(),
        client_shows_agent_terminals: bool = True,
        prompt_ends_wait: bool = False,
        message_ids: Mapping[tuple[str, bytes], str] | None = None,
    ) -> None:
        """``run_id``: the connection that asks for the replay; its own turn may still be under way.

        ``is_in_use_elsewhere``: another connection has the session open, and a turn may be under way there.
        ``tool_limit``: the most bytes of one tool call in a compact replay; 0 for no limit.
        ``other_ids``: ids of other sessions whose entries belong to this one; they are replayed with its id.
        ``page_size``: a segment longer than this many bytes is replayed as several segments; 0 for never.
        ``client_update_kinds``: the optional kinds of updates that the client announced.
        ``client_shows_agent_terminals``: as ``agent_terminals.are_shown``; if not, their output becomes text.
        ``message_ids``: the ids that the agent gives the user's messages, by ``Entry.request_key``.
        ``prompt_ends_wait``: the next prompt ends the wait for echoes of earlier ones.
        """
        self._session_id = session_id
        self._session_ids = other_ids | {session_id}
        self._run_id = run_id
        self._is_in_use_elsewhere = is_in_use_elsewhere
        self._last_other_run, self._last_other_line = "", 0
        """The last one that has recorded something, of those of other connections, and the number of that line: lines
        come in the order of ``order_turns``."""
        self._mode = mode
        self._limit = tool_limit if mode == "compact" else 0
        self._page_size, self._page_filled = page_size, 0
        self._terminals = ReplayedTerminals(self._limit)
        self._agent_terminals = AgentTerminals() if not client_shows_agent_terminals else None
        self._left_out_kinds = update_kinds.OPTIONAL - client_update_kinds
        self._prompt_ends_wait = prompt_ends_wait
        self._message_ids = message_ids or {}
        self._replayed_calls = ReplayedCalls()
        self._segment = self._make_segment()
        self._echoes = Echoes()
        self._held_items: deque[Prompt | bytes] = deque()
        self._held_size = 0
        self._new_prompt: Prompt | None = None
        """The prompt that is being added; it follows what it makes certain."""
        self._latest_states: dict[str, bytes] = {}
        self._may_add_chunks = False
        """Whether the last entry was replayed with its exact bytes, and more of its message would be."""

    def add(self, line_number: int, entry: Entry) -> list[bytes]:
        """Add the next entry. ``line_number``: its line in the transcript."""
        lines = self._add(line_number, entry)
        if self._page_size and entry.raw is not None:
            lines = lines + self._end_page_if_full(len(entry.raw))
        certain = self._release(lines)
        if self._new_prompt is not None:
            self._held_items.append(self._new_prompt)
            self._new_prompt = None
        return certain

    def _add(self, line_number: int, entry: Entry) -> list[bytes]:
        self._may_add_chunks = False
        if entry.run != self._run_id and line_number >= self._last_other_line:
            self._last_other_run, self._last_other_line = entry.run, line_number
        if entry.note is not None:
            return self._add_note(entry.run, entry.note)
        if entry.raw is None or b"\n" in entry.raw:
            return []
        method = acp.text(entry.value, "method")
        if entry.peer is Peer.CLIENT:
            return self._add_from_client(line_number, entry, method)
        lines = self._end_prompt(entry) if entry.answered_method == acp.PROMPT else []
        if method == acp.REQUEST_PERMISSION:
            return lines + self._add_permission(entry)
        update = entry_updates.read(entry, self._session_id, self._session_ids) if method == acp.UPDATE else None
        if update is None:
            return lines
        self._may_add_chunks = update.kind in READ_TOGETHER_KINDS and update.raw is entry.raw
        return lines + self._add_update(update)

    def add_chunks(self, line_number: int, chunks: AlikeChunks) -> list[bytes]:
        """Add entries that equal the last one except for time and text. ``line_number``: the line of the last one."""
        lines = self._segment.add_chunks(chunks) if self._may_add_chunks else None
        if lines is None:
            return [line for entry in chunks.decode_entries() for line in self.add(line_number, entry)]
        return self._release(lines + self._end_page_if_full(chunks.size) if self._page_size else lines)

    def end(self, *, may_turns_go_on: bool = False) -> list[bytes]:
        """End the replay. ``may_turns_go_on``: any open turn may go on. If not, those of ``run_id`` go on unless they
        were cancelled, since a load ends a cancelled turn. So do those of the connection that has the session open
        elsewhere: nobody knows which one that is, but one that has ended records nothing after it."""
        lines = self._replay_user_messages(
            self._echoes.settle() + self._echoes.give_up_prompts(self._run_id, only_cancelled=True)
        )
        live_runs = {self._run_id, self._last_other_run} if self._is_in_use_elsewhere else {self._run_id}
        under_way = self._echoes.list_busy_runs() & live_runs
        if not may_turns_go_on:
            self._echoes.leave_out_queued(self._run_id)
        given_up = [] if may_turns_go_on else self._replayed_calls.take_given_up(under_way)
        lines += self._end_segment(given_up, is_last=True)
        self._replayed_calls.take_given_up(())  # forget what is unfinished, since nothing more is replayed
        self._echoes.stop_waiting()
        lines = self._release(lines)
        self._segment, self._echoes = self._make_segment(), Echoes()
        return lines

    def end_part(self) -> list[bytes]:
        """End a part of the replay, or all of it. Entries may follow, and with them echoes of its prompts."""
        echoes = self._echoes
        lines = self.end()
        self._echoes = echoes
        return lines

    def list_states(self) -> list[bytes]:
        """The lines of the latest commands and usage, to send after the answer."""
        return [self._latest_states[kind.name] for kind in KINDS if kind.name in self._latest_states]

    def _release(self, lines: list[bytes]) -> list[bytes]:
        """Remove and return the lines that are certain now."""
        if not self._held_items:
            return lines
        self._held_items += lines
        self._held_size += sum(map(len, lines))
        if self._held_size > ECHO_WAIT_LIMIT:
            self._echoes.stop_waiting()
        certain: list[bytes] = []
        while self._held_items:
            first = self._held_items[0]
            if isinstance(first, bytes):
                certain.append(first)
                self._held_size -= len(first)
            elif first.is_certain:
                certain += first.take_chunks()
            else:
                break
            self._held_items.popleft()
        return certain

    def _make_segment(self) -> Segment:
        if self._mode == "full":
            return FullSegment(self._session_id, self._replayed_calls, self._terminals)
        return CompactSegment(self._session_id, self._replayed_calls, self._terminals, self._limit)

    def _end_page_if_full(self, size: int) -> list[bytes]:
        """Count bytes of a segment, and end it if they fill a page."""
        self._page_filled += size
        if self._page_filled < self._page_size:
            return []
        lines = self._end_segment([])
        self._segment, self._page_filled, self._may_add_chunks = self._make_segment(), 0, False
        return lines

    def _end_segment(self, failed: Collection[Key], *, is_last: bool = False) -> list[bytes]:
        """The last lines of the segment. ``failed``: the calls and compactions that were never finished."""
        notes = self._agent_terminals.make_notes(of_all=is_last) if self._agent_terminals is not None else ()
        lines = [line for run, note in notes for line in self._note_terminal(run, note)]
        return lines + self._segment.end(failed)

    def _add_from_client(self, line_number: int, entry: Entry, method: str | None) -> list[bytes]:
        if method == acp.CANCEL:
            self._echoes.cancel_prompts(entry.run)
        if method == acp.STEERING:
            return self._add_steering(line_number, entry)
        return self._begin_turn(line_number, entry) if method == acp.PROMPT else []

    def _make_prompt(self, line_number: int, entry: Entry) -> Prompt:
        return Prompt(self._session_id, line_number, entry, self._message_ids.get(entry.request_key))

    def _add_steering(self, line_number: int, entry: Entry) -> list[bytes]:
        """The user's words into a running turn: a user message in their place, since agents do not repeat them."""
        lines = self._make_prompt(line_number, entry).take_chunks()
        user_updates = [update for line in lines if (update := entry_updates.read_line(line, entry.run)) is not None]
        return self._replay_user_messages(self._echoes.end_echoes(entry.run)) + self._replay_user_messages(user_updates)

    def _begin_turn(self, line_number: int, entry: Entry) -> list[bytes]:
        """A prompt, which begins a segment. Unfinished calls go on if their turn, of the same run, has no answer."""
        prompt = self._make_prompt(line_number, entry)
        under_way = self._echoes.list_busy_runs() & {entry.run}
        if self._prompt_ends_wait:
            self._echoes.stop_waiting()
        lines = self._replay_user_messages(self._echoes.begin_prompt(prompt))
        lines += self._end_segment(self._replayed_calls.take_given_up(under_way))
        self._segment, self._page_filled = self._make_segment(), 0
        self._new_prompt = prompt
        return lines

    def _end_prompt(self, entry: Entry) -> list[bytes]:
        return self._replay_user_messages(
            self._echoes.answer_prompt(entry.run, jsonrpc.dump(acp.member(entry.value, "id")))
        )

    def _add_note(self, run_id: str, note: Mapping[str, object]) -> list[bytes]:
        match note.get("type"):
            case NoteType.FAILED:
                return self._replay_user_messages(self._echoes.give_up_prompts(run_id, only_cancelled=False))
            case NoteType.OPENED if note.get("method") == acp.FORK:  # open prompts are answered in the parent
                return self._replay_user_messages(self._echoes.give_up_prompts(run_id, only_cancelled=False))
            case NoteType.OPENED if note.get("method") == acp.LOAD:
                return self._replay_user_messages(self._echoes.give_up_prompts(run_id, only_cancelled=True))
            case NoteType.TERMINAL:
                return self._note_terminal(run_id, note)
            case _:
                return []

    def _note_terminal(self, run_id: str, note: Mapping[str, object]) -> list[bytes]:
        """Note the output of a terminal, and replay the calls again that were replayed without it."""
        lines: list[bytes] = []
        for id, content in self._terminals.note(run_id, note).items():
            lines += self._segment.add_call(
                CallStatement(id, content.run, False, {"content": content.content}, {}, shows_terminal=True)
            )
        return lines

    def _add_update(self, update: Update) -> list[bytes]:
        if not update_kinds.is_conversation(update.kind):
            if update_kinds.find(update.kind).form_v1 is ReplayForm.LAST:
                self._latest_states[update.kind] = update.line
            return []
        if update.kind == update_kinds.USER_CHUNK:
            return [] if self._echoes.hold(update) else self._segment.add(update)
        if update.kind in update_kinds.V1_CALLS:
            return self._add_call(tool_calls.read_statement(update))
        lines = self._replay_user_messages(self._echoes.end_echoes(update.run))
        return lines if update.kind in self._left_out_kinds else lines + self._segment.add(update)

    def _add_permission(self, entry: Entry) -> list[bytes]:
        raw = entry_updates.read_raw(entry, self._session_id, self._session_ids)
        if raw is None:
            return []
        return self._add_call(tool_calls.read_permission(raw, acp.member(entry.value, "params"), entry.run))

    def _add_call(self, call: CallStatement | None) -> list[bytes]:
        if call is None:
            return []
        if self._agent_terminals is not None and call.has_terminal_output:
            call = self._agent_terminals.take(call)
        return self._replay_user_messages(self._echoes.end_echoes(call.run)) + self._segment.add_call(call)

    def _replay_user_messages(self, user_updates: list[Update]) -> list[bytes]:
        """Replay user messages that are not echoes."""
        return [line for update in user_updates for line in self._segment.add(update)]
