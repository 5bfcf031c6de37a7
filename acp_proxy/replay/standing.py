"""How things stand with the tool calls and compactions of a conversation, from one segment of it to the next.

A call that is known only from a permission request is not told; what was said of it then counts when the call itself
comes. What is carried of such calls is bounded; ids are not.
"""

from collections.abc import Collection

from acp_proxy.replay import calls
from acp_proxy.replay.calls import ReplayedCall
from acp_proxy.replay.newest import Newest
from acp_proxy.replay.updates import TOOL_CALL
from acp_proxy.wire import acp

CARRIED = 1024 * 1024
"""Bytes of what permission requests said of calls that have not come: far more than any agent asks at a time."""

Key = tuple[str, str]
"""What may be left unfinished: TOOL_CALL or COMPACTION, and the id."""


class Standing:
    def __init__(self) -> None:
        self.known: set[str] = set()
        """The calls that have been told."""
        self.own: set[str] = set()
        """Those of them whose terminals are the agent's own."""
        self.compactions: set[str] = set()
        """The compactions that have been told."""
        self._unfinished: dict[str, dict[Key, None]] = {}
        """By the run that was at it."""
        self._runs: dict[Key, str] = {}
        self._asked: Newest[str, ReplayedCall] = Newest(CARRIED)

    def take(self, call: ReplayedCall) -> list[ReplayedCall]:
        """What is to be told of a call now: this, behind what was asked before it came; nothing if it is only asked."""
        if call.is_asked and call.id not in self.known:
            self._ask(call)
            return []
        asked = self._asked.pop(call.id)
        told = [call] if asked is None else [asked, call]
        for each in told:
            self._note(each, call.run)
        return told

    def compacts(self, id: str, status: str | None, run: str) -> None:
        """What is said of a compaction: its status, or without one more of its summary."""
        is_new = id not in self.compactions
        self.compactions.add(id)
        if status == acp.IN_PROGRESS or (status is None and is_new):
            self._begin((acp.COMPACTION, id), run)
        elif status is not None:
            self._finish((acp.COMPACTION, id))

    def given_up(self, live: Collection[str]) -> list[Key]:
        """What nobody will finish any more, told once. ``live``: the runs in which a turn goes on."""
        given_up = [key for run, keys in self._unfinished.items() if run not in live for key in keys]
        for key in given_up:
            self._finish(key)
        return given_up

    def _note(self, call: ReplayedCall, run: str) -> None:
        """``run``: that which is at it."""
        is_start = call.is_start or call.id not in self.known
        self.known.add(call.id)
        if call.keeps_output:
            self.own.add(call.id)
        if call.status in calls.UNFINISHED or (call.status is None and is_start):
            self._begin((TOOL_CALL, call.id), run)
        elif call.status is not None:
            self._finish((TOOL_CALL, call.id))

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

    def _ask(self, call: ReplayedCall) -> None:
        before = self._asked.get(call.id)
        asked = call if before is None else before.followed_by(call)
        self._asked.trim()  # the newest is kept however large it is: its call will come next
        self._asked.put(call.id, asked, asked.size)
