"""Replays protocol version 2: every update of the conversation as it came, byte for byte and in order.

In version 2 the agent repeats each prompt as a user message, so that is replayed. A prompt that it accepted or never
answered, and did not repeat, is replayed as acp-proxy's user message. What a permission request says about a call
comes before the next update of that call. Calls and compactions that were never finished have failed at the end.

Left out: state, notices, permission requests, and calls known only from them. The same entries always give the same
bytes. Nothing raises: what makes no sense is left out. Only entries of version 2 may be added.
"""

from collections.abc import Mapping

from acp_proxy.protocol import acp, jsonrpc, update_kinds, v2_updates
from acp_proxy.protocol.jsonrpc import Peer
from acp_proxy.protocol.update_kinds import Role
from acp_proxy.transcript.chunk_runs import AlikeChunks
from acp_proxy.transcript.file_format import Entry, NoteType
from acp_proxy.transcript_replay import entry_updates, raw_members
from acp_proxy.transcript_replay.entry_updates import Update
from acp_proxy.transcript_replay.newest_values import NewestValues
from acp_proxy.transcript_replay.raw_members import Members
from acp_proxy.transcript_replay.replayed_calls import PERMISSION_BYTES, Key, encode_failed


class _UnechoedPrompt:
    """A prompt that the agent has not repeated. ``message_id``: the agent's id of the message, once it has accepted the
    prompt. ``own_id``: acp-proxy's, which is used if there is none."""

    def __init__(self, entry: Entry, line_number: int) -> None:
        self.run = entry.run
        self.id = acp.member(entry.value, "id")
        self.blocks = acp.member(acp.member(entry.value, "params"), "prompt")
        self.own_id = f"acp-proxy-{entry.run}-{line_number}"
        self.message_id: str | None = None


class V2Replayer:
    """One replay. The methods return lines, in order; an item may be several lines."""

    def __init__(self, session_id: str, *, other_ids: frozenset[str] = frozenset()) -> None:
        """``other_ids``: sessions whose entries belong to this one; they are replayed with its id."""
        self._session_id = session_id
        self._ids = other_ids | {session_id}
        self._unechoed_prompts: list[_UnechoedPrompt] = []
        self._replayed_user_messages: set[tuple[str, str | None]] = set()
        """The run and the id of each user message that was replayed."""
        self._proxy_messages: set[tuple[str, str | None]] = set()
        """The run and the id of each user message that acp-proxy wrote for the replay."""
        self._asked_fields: NewestValues[str, Members] = NewestValues(PERMISSION_BYTES)
        """By call: what permission requests stated about it since its last update. Bounded, since some calls never come
        (the user refuses) and nothing says so."""
        self._unfinished: dict[Key, None] = {}
        self._ended_keys: set[Key] = set()
        """The calls and compactions that have not ended, and those that have, by kind and id."""
        self._may_add_chunks = False

    def add(self, line_number: int, entry: Entry) -> list[bytes]:
        """Add the next entry. ``line_number``: its line in the transcript."""
        self._may_add_chunks = False
        if entry.note is not None:
            return self._add_note(entry.run, entry.note)
        if entry.raw is None or b"\n" in entry.raw:
            return []
        method = acp.text(entry.value, "method")
        if entry.peer is Peer.CLIENT:
            if method == acp.PROMPT:
                self._unechoed_prompts.append(_UnechoedPrompt(entry, line_number))
            return []
        if entry.answered_method == acp.PROMPT:
            self._handle_prompt_answer(entry)
        elif method == acp.REQUEST_PERMISSION:
            self._add_permission(entry)
        update = entry_updates.read(entry, self._session_id, self._ids) if method == acp.UPDATE else None
        if update is None or not update_kinds.is_conversation(update.kind):
            return []
        return self._add_update(update, entry)

    def add_chunks(self, line_number: int, chunks: AlikeChunks) -> list[bytes]:
        """Add entries that equal the last one except for time and text. ``line_number``: the line of the last one."""
        if self._may_add_chunks:
            return [chunks.messages]
        return [line for entry in chunks.decode_entries() for line in self.add(line_number, entry)]

    def end(self, *, resending_run: str | None = None) -> list[bytes]:
        """End a part of the replay, or all of it. ``resending_run``: the run that sends its open prompts again in a new
        session, so that they are repeated there."""
        lines = self._replay_prompts(
            [
                prompt
                for prompt in self._unechoed_prompts
                if prompt.run != resending_run or prompt.message_id is not None
            ]
        )
        unfinished, self._unfinished = list(self._unfinished), {}
        self._ended_keys |= set(unfinished)
        return lines + [encode_failed(self._session_id, key) for key in unfinished]

    def _add_update(self, update: Update, entry: Entry) -> list[bytes]:
        role = update_kinds.find_v2_role(update.kind)
        if role is Role.USER:
            return self._add_user_message(update)
        self._may_add_chunks = update.raw is entry.raw  # else each line needs another session id
        # The agent has accepted these prompts and goes on without repeating them, so they must come before its answer.
        lines = self._replay_prompts(
            [prompt for prompt in self._unechoed_prompts if prompt.run == update.run and prompt.message_id is not None]
        )
        if role is Role.CALL and (id := acp.text(update.parsed, "toolCallId")) is not None:
            if (asked_fields := self._asked_fields.pop(id)) is not None:
                lines.append(raw_members.encode_line(self._session_id, update_kinds.TOOL_CALL_UPDATE, asked_fields))
            self._note_status(update_kinds.TOOL_CALL_UPDATE, id, update)
        elif update.kind == update_kinds.COMPACTION and (id := acp.text(update.parsed, "compactionId")) is not None:
            self._note_status(update_kinds.COMPACTION, id, update)
        return [*lines, update.line]

    def _add_user_message(self, update: Update) -> list[bytes]:
        key = update.run, acp.text(update.parsed, "messageId")
        if key in self._proxy_messages:
            return []  # the repetition came after the agent's first words: the client has it already
        self._replayed_user_messages.add(key)
        self._unechoed_prompts = [prompt for prompt in self._unechoed_prompts if (prompt.run, prompt.message_id) != key]
        return [update.line]

    def _note_status(self, kind: str, id: str, update: Update) -> None:
        """Note whether a call or compaction has ended. One that never had a status has not."""
        if "status" in update.parsed:
            if acp.text(update.parsed, "status") in v2_updates.FINAL_STATUSES:
                self._unfinished.pop((kind, id), None)
                self._ended_keys.add((kind, id))
            else:
                self._unfinished[kind, id] = None
        elif (kind, id) not in self._ended_keys:
            self._unfinished[kind, id] = None

    def _handle_prompt_answer(self, entry: Entry) -> None:
        """The agent has accepted a prompt, or refused it; then it is not part of the conversation."""
        id = acp.member(entry.value, "id")
        prompt = next(
            (
                open_prompt
                for open_prompt in self._unechoed_prompts
                if (open_prompt.run, open_prompt.id) == (entry.run, id)
            ),
            None,
        )
        if prompt is None:
            return
        prompt.message_id = acp.text(acp.member(entry.value, "result"), "messageId")
        if prompt.message_id is None or (prompt.run, prompt.message_id) in self._replayed_user_messages:
            self._unechoed_prompts.remove(prompt)

    def _add_permission(self, entry: Entry) -> None:
        subject = acp.member(acp.member(entry.value, "params"), "subject")
        id = acp.text(acp.member(subject, "toolCall"), "toolCallId")
        raw = entry_updates.read_raw(entry, self._session_id, self._ids)
        if id is None or raw is None:
            return
        try:
            members = raw_members.read_permission_call_v2(raw)
        except (ValueError, KeyError):
            return
        # In version 2 an update replaces the fields that it names, so several statements are one with the last values.
        asked_fields = (self._asked_fields.pop(id) or {}) | members
        if (size := _measure(asked_fields)) > PERMISSION_BYTES:
            asked_fields, size = members, _measure(members)
        self._asked_fields.trim()  # before the newest is added, which is kept whatever its size: its call comes next
        self._asked_fields.put(id, asked_fields, size)

    def _add_note(self, run: str, note: Mapping[str, object]) -> list[bytes]:
        """A turn has failed, or the session was opened again: what was said until then was never repeated."""
        if note.get("type") not in (NoteType.FAILED, NoteType.OPENED):
            return []
        is_failure = note.get("type") == NoteType.FAILED
        unrepeated = [prompt for prompt in self._unechoed_prompts if (prompt.run == run) == is_failure]
        return self._replay_prompts(unrepeated)

    def _replay_prompts(self, prompts: list[_UnechoedPrompt]) -> list[bytes]:
        lines: list[bytes] = []
        for prompt in prompts:
            id = prompt.message_id if prompt.message_id is not None else prompt.own_id
            members = {"messageId": jsonrpc.dump(id), "content": jsonrpc.dump(prompt.blocks)}
            lines.append(raw_members.encode_line(self._session_id, update_kinds.USER_MESSAGE, members))
            self._proxy_messages.add((prompt.run, id))
        self._unechoed_prompts = [prompt for prompt in self._unechoed_prompts if prompt not in prompts]
        return lines


def _measure(members: Members) -> int:
    return sum(len(name) + len(raw) for name, raw in members.items())
