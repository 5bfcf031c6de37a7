"""How things stand with the tool calls and compactions of a conversation, from one segment of it to the next.

A call that is known only from a permission request is not told; what was said of it then counts when the call itself
comes. What is carried of such calls is bounded; ids are not.
"""

from collections.abc import Collection

from acp_proxy.replay import calls
from acp_proxy.replay.calls import Call
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
        """The same of compactions."""
        self._unfinished: dict[Key, str] = {}  # and the run that was at it
        self._asked: dict[str, Call] = {}
        self._asked_size = 0

    def take(self, call: Call) -> list[Call]:
        """What is to be told of a call now: this, behind what was asked before it came; nothing if it is only asked."""
        if call.is_asked and call.id not in self.known:
            self._ask(call)
            return []
        asked = self._asked.pop(call.id, None)
        self._asked_size -= asked.size if asked is not None else 0
        told = [call] if asked is None else [asked, call]
        for each in told:
            self._note(each)
        return told

    def compacts(self, id: str, status: str | None, run: str) -> None:
        """What is said of a compaction: its status, or without one more of its summary."""
        is_new = id not in self.compactions
        self.compactions.add(id)
        if status == acp.IN_PROGRESS or (status is None and is_new):
            self._unfinished[acp.COMPACTION, id] = run
        elif status is not None:
            self._unfinished.pop((acp.COMPACTION, id), None)

    def given_up(self, live: Collection[str]) -> list[Key]:
        """What nobody will finish any more, told once. ``live``: the runs in which a turn goes on."""
        given_up = [key for key, run in self._unfinished.items() if run not in live]
        for key in given_up:
            del self._unfinished[key]
        return given_up

    def _note(self, call: Call) -> None:
        is_start = call.is_start or call.id not in self.known
        self.known.add(call.id)
        if call.keeps_output:
            self.own.add(call.id)
        if call.status in calls.UNFINISHED or (call.status is None and is_start):
            self._unfinished[TOOL_CALL, call.id] = call.run
        elif call.status is not None:
            self._unfinished.pop((TOOL_CALL, call.id), None)

    def _ask(self, call: Call) -> None:
        before = self._asked.pop(call.id, None)
        self._asked_size -= before.size if before is not None else 0
        self._asked[call.id] = call if before is None else before.followed_by(call)
        self._asked_size += self._asked[call.id].size
        while self._asked_size > CARRIED and len(self._asked) > 1:
            self._asked_size -= self._asked.pop(next(iter(self._asked))).size
