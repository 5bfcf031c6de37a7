"""Replays protocol version 2: every update of the conversation as it came, byte for byte and in order.

In version 2 the agent repeats each prompt as a user message, so that is replayed. A prompt that it accepted or never
answered, and did not repeat, is replayed as acp-proxy's user message. What a permission request says about a call comes
before the next update of that call. Calls and compactions that were never finished have failed at the end.

Left out: state, notices, permission requests, and calls known only from them. The same entries always give the same
bytes. Nothing raises: what makes no sense is left out. Only entries of version 2 may be added.
"""

from collections.abc import Mapping

from acp_proxy.replay import update_lines, updates
from acp_proxy.replay.updates import Update
from acp_proxy.wire import acp, jsonrpc, record, second
from acp_proxy.wire.jsonrpc import Peer
from acp_proxy.wire.record import Entry
from acp_proxy.wire.streams import Stream

_USERS = frozenset({"user_message", acp.USER_CHUNK})
_CALLS = frozenset({second.CALL_UPDATE, second.CALL_CHUNK})
_FINAL = frozenset({"completed", "failed", "cancelled"})
_FAILED = b'"failed"'


class _UnrepeatedPrompt:
    """A prompt that the agent has not repeated. ``message``: the id that it gave it, once it has accepted it."""

    def __init__(self, entry: Entry, number: int) -> None:
        self.run = entry.run
        self.id = acp.member(entry.value, "id")
        self.blocks = acp.member(acp.member(entry.value, "params"), "prompt")
        self.own = f"acp-proxy-{entry.run}-{number}"
        self.message: str | None = None


class Verbatim:
    """One replay. The methods return lines, in order; an item may be several lines."""

    def __init__(self, session: str, *, run: str, also: frozenset[str] = frozenset()) -> None:
        """``run``: the connection that asks for it. ``also``: ids of other sessions whose entries belong to this one;
        they are replayed with its id."""
        self._session = session
        self._ids = also | {session}
        self._run = run
        self._waiting: list[_UnrepeatedPrompt] = []
        self._repeated: set[tuple[str, str | None]] = set()
        """The run and the id of each user message that was replayed."""
        self._own: set[tuple[str, str | None]] = set()
        """Those of them that acp-proxy wrote."""
        self._asked: dict[str, list[bytes]] = {}
        """By call: what permission requests said about it since its last update."""
        self._open: dict[tuple[str, str], None] = {}
        self._ended: set[tuple[str, str]] = set()
        """The calls and compactions that have not ended, and those that have, by kind and id."""
        self._may_go_on = False

    def add(self, number: int, entry: Entry) -> list[bytes]:
        """Add the next entry. ``number``: its line in the transcript."""
        self._may_go_on = False
        if entry.note is not None:
            return self._noted(entry.run, entry.note)
        if entry.raw is None or b"\n" in entry.raw:
            return []
        method = acp.text(entry.value, "method")
        if entry.peer is Peer.CLIENT:
            if method == acp.PROMPT:
                self._waiting.append(_UnrepeatedPrompt(entry, number))
            return []
        if entry.of == acp.PROMPT:
            self._answered(entry)
        elif method == acp.REQUEST_PERMISSION:
            self._permission(entry)
        update = updates.read(entry, self._session, self._ids) if method == acp.UPDATE else None
        if update is None or not acp.is_conversation(update.kind):
            return []
        return self._updated(update, entry)

    def go_on(self, number: int, stream: Stream) -> list[bytes]:
        """Add entries that equal the last one except for time and text. ``number``: the line of the last one."""
        if self._may_go_on:
            return [stream.messages]
        return [line for entry in stream.entries() for line in self.add(number, entry)]

    def end(self, *, live: bool | None = None, sends_again: str | None = None) -> list[bytes]:
        """End the replay. ``live``: open turns may go on. ``sends_again``: the run that sends its open prompts again
        in a new session, so that they are repeated there."""
        told = self._said([said for said in self._waiting if said.run != sends_again or said.message is not None])
        unfinished, self._open = ([] if live else list(self._open)), {}
        self._ended |= set(unfinished)
        return told + [_failed(self._session, kind, id) for kind, id in unfinished]

    def states(self) -> list[bytes]:
        """Nothing: the agent itself has sent its state before its answer."""
        return []

    def _updated(self, update: Update, entry: Entry) -> list[bytes]:
        if update.kind in _USERS:
            return self._user(update)
        self._may_go_on = update.raw is entry.raw
        told = self._said([said for said in self._waiting if said.run == update.run and said.message is not None])
        if update.kind in _CALLS and (id := acp.text(update.value, "toolCallId")) is not None:
            told += self._asked.pop(id, [])
            self._stands(second.CALL_UPDATE, id, update)
        elif update.kind == acp.COMPACTION and (id := acp.text(update.value, "compactionId")) is not None:
            self._stands(acp.COMPACTION, id, update)
        return [*told, update.line]

    def _user(self, update: Update) -> list[bytes]:
        key = update.run, acp.text(update.value, "messageId")
        if key in self._own:
            return []
        self._repeated.add(key)
        self._waiting = [said for said in self._waiting if (said.run, said.message) != key]
        return [update.line]

    def _stands(self, kind: str, id: str, update: Update) -> None:
        """Note whether a call or compaction has ended. One that never had a status has not."""
        if "status" in update.value:
            if acp.text(update.value, "status") in _FINAL:
                self._open.pop((kind, id), None)
                self._ended.add((kind, id))
            else:
                self._open[kind, id] = None
        elif (kind, id) not in self._ended:
            self._open[kind, id] = None

    def _answered(self, entry: Entry) -> None:
        """The agent has accepted a prompt, or refused it; then it is not part of the conversation."""
        id = acp.member(entry.value, "id")
        said = next((each for each in self._waiting if (each.run, each.id) == (entry.run, id)), None)
        if said is None:
            return
        said.message = acp.text(acp.member(entry.value, "result"), "messageId")
        if said.message is None or (said.run, said.message) in self._repeated:
            self._waiting.remove(said)

    def _permission(self, entry: Entry) -> None:
        subject = acp.member(acp.member(entry.value, "params"), "subject")
        id = acp.text(acp.member(subject, "toolCall"), "toolCallId")
        raw = updates.own_line(entry, self._session, self._ids)
        if id is None or raw is None:
            return
        try:
            members = update_lines.asked_about_subject(raw)
        except (ValueError, KeyError):
            return
        self._asked.setdefault(id, []).append(update_lines.update(self._session, second.CALL_UPDATE, members))

    def _noted(self, run: str, note: Mapping[str, object]) -> list[bytes]:
        """A turn has failed, or the session was opened again: what was said until then was never repeated."""
        if note.get("type") not in (record.FAILED, record.OPENED):
            return []
        is_failure = note.get("type") == record.FAILED
        over = [said for said in self._waiting if (said.run == run) == is_failure]
        return self._said(over)

    def _said(self, waiting: list[_UnrepeatedPrompt]) -> list[bytes]:
        """Replay prompts that the agent did not repeat."""
        told: list[bytes] = []
        for said in waiting:
            id = said.message if said.message is not None else said.own
            members = {"messageId": jsonrpc.dump(id), "content": jsonrpc.dump(said.blocks)}
            told.append(update_lines.update(self._session, "user_message", members))
            self._own.add((said.run, id))
        self._waiting = [said for said in self._waiting if said not in waiting]
        return told


def _failed(session: str, kind: str, id: str) -> bytes:
    name = "compactionId" if kind == acp.COMPACTION else "toolCallId"
    return update_lines.update(session, kind, {name: jsonrpc.dump(id), "status": _FAILED})
