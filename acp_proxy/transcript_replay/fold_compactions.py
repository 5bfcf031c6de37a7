"""Folds everything that a turn says about a compaction into one update.

The protocol's rules: the last status counts; ``summary``, ``error`` and ``_meta`` keep their value if they are left
out, and null removes them; a chunk adds a block to the summary, and begins an unknown compaction. Values keep their
JSON text.
"""

from acp_proxy.protocol import acp, jsonrpc, update_kinds
from acp_proxy.transcript_replay import raw_members, tool_calls
from acp_proxy.transcript_replay.entry_updates import Update
from acp_proxy.transcript_replay.raw_members import Members

_NULL = b"null"
_SUMMARY, _STATUS = "summary", "status"
_NOT_FIELDS = ("sessionUpdate", "compactionId")


class FoldedCompaction:
    """One compaction in one turn."""

    def __init__(self, session_id: str, id: str) -> None:
        self.id = id
        self._session_id = session_id
        self._fields: Members = {_STATUS: jsonrpc.dump(acp.COMPACTION_IN_PROGRESS)}
        self._summary: list[bytes] = []

    def add(self, update: Update) -> None:
        """Add an update about this compaction."""
        try:
            members, _ = raw_members.split_update(update.raw, update.message)
        except (ValueError, KeyError):
            return
        if update.kind == update_kinds.COMPACTION_CHUNK:
            self._summary.append(members["content"])
            return
        if _SUMMARY in members:
            self._summary = (
                raw_members.split_array(members[_SUMMARY]) if isinstance(update.parsed.get(_SUMMARY), list) else []
            )
        fields = {name: raw for name, raw in members.items() if name not in (*_NOT_FIELDS, _SUMMARY)}
        self._fields = {name: raw for name, raw in (self._fields | fields).items() if raw != _NULL}

    def encode(self, *, failed: bool) -> bytes:
        """The update's line. ``failed``: it was never finished, so its status is ``failed``."""
        summary = {_SUMMARY: raw_members.join_array(self._summary)} if self._summary else {}
        status = {_STATUS: tool_calls.FAILED} if failed else {}
        id = {"compactionId": jsonrpc.dump(self.id)}
        return raw_members.encode_line(self._session_id, update_kinds.COMPACTION, id | self._fields | summary | status)


def find_compaction_id(update: Update) -> str:
    """The id of the compaction that an update is about."""
    return acp.text(update.parsed, "compactionId") or ""
