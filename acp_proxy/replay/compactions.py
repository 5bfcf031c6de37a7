"""Folds everything that a turn says about a compaction into one update.

The protocol's rules: the last status counts; ``summary``, ``error`` and ``_meta`` keep their value if they are left
out, and null removes them; a chunk adds a block to the summary, and begins an unknown compaction. Values keep their
JSON text.
"""

from acp_proxy.replay import update_lines
from acp_proxy.replay.standing import Standing
from acp_proxy.replay.update_lines import Members
from acp_proxy.replay.updates import Update
from acp_proxy.wire import acp, jsonrpc

_NULL = b"null"
_FAILED = b'"failed"'
_SUMMARY, _STATUS = "summary", "status"
_NAMES = ("sessionUpdate", "compactionId")


class Compaction:
    """One compaction in one turn."""

    def __init__(self, session: str, id: str) -> None:
        self.id = id
        self._session = session
        self._fields: Members = {_STATUS: jsonrpc.dump(acp.IN_PROGRESS)}
        self._summary: list[bytes] = []

    def add(self, update: Update) -> None:
        """Add an update about this compaction."""
        try:
            members, _ = update_lines.taken_apart(update.raw, update.message)
        except (ValueError, KeyError):
            return
        if update.kind == acp.COMPACTION_CHUNK:
            self._summary.append(members["content"])
            return
        if _SUMMARY in members:
            self._summary = (
                update_lines.items(members[_SUMMARY]) if isinstance(update.value.get(_SUMMARY), list) else []
            )
        said = {name: raw for name, raw in members.items() if name not in (*_NAMES, _SUMMARY)}
        self._fields = {name: raw for name, raw in (self._fields | said).items() if raw != _NULL}

    def told(self, *, failed: bool) -> bytes:
        """The update's line. ``failed``: it was never finished, so its status is ``failed``."""
        summary = {_SUMMARY: update_lines.array(self._summary)} if self._summary else {}
        return _line(self._session, self.id, self._fields | summary | ({_STATUS: _FAILED} if failed else {}))


def id_of(update: Update) -> str:
    """The id of the compaction that an update is about."""
    return acp.text(update.value, "compactionId") or ""


def note(update: Update, standing: Standing) -> bool:
    """Note the status of a compaction. Returns whether it is new."""
    id = id_of(update)
    is_new = id not in standing.compactions
    standing.compacts(id, acp.text(update.value, _STATUS) if update.kind == acp.COMPACTION else None, update.run)
    return is_new


def failed(session: str, id: str) -> bytes:
    """The line of an update that sets the status ``failed``."""
    return _line(session, id, {_STATUS: _FAILED})


def _line(session: str, id: str, fields: Members) -> bytes:
    return update_lines.update(session, acp.COMPACTION, {"compactionId": jsonrpc.dump(id), **fields})
