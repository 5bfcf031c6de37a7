"""Follows the tool calls and compactions of a conversation from one segment to the next.

A call that is known only from a permission request is not replayed; what the request stated counts when the call itself
comes. The bytes kept for such requests are bounded; ids are kept without a limit.
"""

from collections.abc import Collection

from acp_proxy.protocol import acp, jsonrpc, update_kinds
from acp_proxy.transcript_replay import raw_members, tool_calls
from acp_proxy.transcript_replay.entry_updates import Update
from acp_proxy.transcript_replay.fold_compactions import find_compaction_id
from acp_proxy.transcript_replay.newest_values import NewestValues
from acp_proxy.transcript_replay.tool_calls import CallStatement

PERMISSION_BYTES = 1024 * 1024
"""The most bytes kept of permission requests for calls that have not come: far more than agents ask at a time."""

Key = tuple[str, str]
"""A call or a compaction: ``COMPACTION``, or a kind of calls, and its id."""


class ReplayedCalls:
    """Which calls and compactions of a conversation were replayed, and which are unfinished."""

    def __init__(self) -> None:
        self.replayed_ids: set[str] = set()
        """The ids of calls that were replayed."""
        self.with_agent_terminals: set[str] = set()
        """The ids of calls whose terminals are the agent's own."""
        self.replayed_compactions: set[str] = set()
        """The ids of compactions that were replayed."""
        self._unfinished: dict[str, dict[Key, None]] = {}
        """By run: what the run has not finished."""
        self._runs: dict[Key, str] = {}
        self._asked_calls: NewestValues[str, CallStatement] = NewestValues(PERMISSION_BYTES)

    def add_call(self, call: CallStatement) -> list[CallStatement]:
        """Add a statement about a call. Returns those to replay now: this one, after what was asked before the call
        came; none for a permission request whose call has not come."""
        if call.is_from_permission and call.id not in self.replayed_ids:
            self._keep_permission(call)
            return []
        asked_call = self._asked_calls.pop(call.id)
        statements = [call] if asked_call is None else [asked_call, call]
        for statement in statements:
            self._note(statement, call.run)
        return statements

    def note_compaction(self, update: Update) -> bool:
        """Note an update of a compaction. Returns whether the compaction is new."""
        id = find_compaction_id(update)
        # A chunk of the summary has no status.
        status = acp.text(update.parsed, "status") if update.kind == update_kinds.COMPACTION else None
        is_new = id not in self.replayed_compactions
        self.replayed_compactions.add(id)
        if status == acp.COMPACTION_IN_PROGRESS or (status is None and is_new):
            self._begin((update_kinds.COMPACTION, id), update.run)
        elif status is not None:
            self._finish((update_kinds.COMPACTION, id))
        return is_new

    def take_given_up(self, live_runs: Collection[str]) -> list[Key]:
        """Everything that will never be finished; returned once. ``live_runs``: the runs in which a turn goes on."""
        given_up = [key for run, keys in self._unfinished.items() if run not in live_runs for key in keys]
        for key in given_up:
            self._finish(key)
        return given_up

    def _note(self, call: CallStatement, run: str) -> None:
        """Note the status of a call. ``run``: the run that works on it."""
        is_start = call.is_start or call.id not in self.replayed_ids
        self.replayed_ids.add(call.id)
        if call.has_terminal_output:
            self.with_agent_terminals.add(call.id)
        if call.status in tool_calls.UNFINISHED_STATUSES or (call.status is None and is_start):
            self._begin((update_kinds.TOOL_CALL, call.id), run)
        elif call.status is not None:
            self._finish((update_kinds.TOOL_CALL, call.id))

    def _begin(self, key: Key, run: str) -> None:
        if self._runs.get(key) != run:
            self._finish(key)
            self._unfinished.setdefault(run, {})[key] = None
            self._runs[key] = run

    def _finish(self, key: Key) -> None:
        if (run := self._runs.pop(key, None)) is not None:
            del self._unfinished[run][key]
            if not self._unfinished[run]:
                del self._unfinished[run]

    def _keep_permission(self, call: CallStatement) -> None:
        earlier = self._asked_calls.get(call.id)
        merged = call if earlier is None else earlier.merge(call)
        self._asked_calls.trim()  # before the newest is added, which is kept whatever its size: its call comes next
        self._asked_calls.put(call.id, merged, merged.size)


def encode_failed(session_id: str, key: Key) -> bytes:
    """The line of an update that sets the status ``failed``."""
    is_compaction = key[0] == update_kinds.COMPACTION
    kind = update_kinds.COMPACTION if is_compaction else update_kinds.TOOL_CALL_UPDATE
    id = {"compactionId" if is_compaction else "toolCallId": jsonrpc.dump(key[1])}
    return raw_members.encode_line(session_id, kind, id | {"status": tool_calls.FAILED})
