"""Reads entries of protocol version 2 as entries of version 1, so that everything that reads a transcript reads both.

Version 2 sends messages, calls, terminals and plans by id: chunks add to them, updates replace parts of them, null
clears. So what a turn says is kept until it ends (or ``LIMIT`` bytes were kept), and returned in its last state, each
in its first place. A turn ends with the agent's ``idle``, which becomes the answer to the turn's prompts; the answers
by which the agent accepted them are left out. Entries of version 1 pass as they are.

With ``at_once``, everything is returned as it comes, and a message whose words were replaced is returned again.

Pure. Never raises on foreign input.
"""

from collections.abc import Iterable, Iterator, Mapping

from acp_proxy.protocol import acp, jsonrpc, update_kinds, v2_updates, versions
from acp_proxy.protocol.jsonrpc import Peer
from acp_proxy.protocol.update_kinds import Role
from acp_proxy.transcript.chunk_runs import AlikeChunks
from acp_proxy.transcript.file_format import ACP_V1, Entry, NoteType
from acp_proxy.transcript.reader import AlikeLines, Line

# --- What protocol version 2 sends by id: messages, calls, plans and terminals. Chunks add to them, updates replace
# what they name, null clears it.
#
# ``take_changes`` returns updates of version 1: what has changed since it did so last. Accepts any value, never raises.


_OUTPUT_LIMIT = 1024 * 1024
"""The most bytes of a terminal's output that are kept: its end."""
_NOT_FIELDS = ("sessionUpdate", "toolCallId", "content", "capabilities")


class V2Message:
    """A message. ``kind``: that of its chunks. ``sent_count``: how many of its blocks were returned."""

    def __init__(self, entry: Entry, kind: str, id: str | None) -> None:
        self.entry = entry
        self.kind = kind
        self.id = id
        self.blocks: list[object] = []
        self.sent_count = 0
        self.is_placed = False

    def add(self, block: object) -> None:
        last_block = self.blocks[-1] if len(self.blocks) > self.sent_count else None
        if _is_text(block) and isinstance(last_block, _JoinedText):
            last_block.pieces.append(acp.text(block, "text") or "")
        else:
            self.blocks.append(_JoinedText(acp.text(block, "text") or "") if _is_text(block) else block)

    def add_chunks(self, text: str) -> None:
        self.add({"type": "text", "text": text})

    def replace(self, content: list[object]) -> None:
        """Replace all blocks. What was sent already is sent again only if it is not how the new content begins."""
        sent_words, self.blocks, self.sent_count = _read_words(self.blocks[: self.sent_count]), [], 0
        new_blocks: list[object] = [block for block in content if isinstance(block, dict)]
        if sent_words and not _read_words(new_blocks).startswith(sent_words):
            self.id = None  # other words begin a new message, since nothing can take back the first ones
        elif sent_words:
            words = _read_words(new_blocks)
            self.blocks, self.sent_count = [_JoinedText(sent_words)], 1
            new_blocks = [block for block in new_blocks if not _is_text(block)]
            if words != sent_words:
                self.blocks.append(_JoinedText(words[len(sent_words) :]))
        for block in new_blocks:
            self.add(block)

    def take_changes(self) -> Iterator[Mapping[str, object]]:
        id_member = {} if self.id is None else {"messageId": self.id}
        for block in self.blocks[self.sent_count :]:
            value = {"type": "text", "text": block.text} if isinstance(block, _JoinedText) else block
            yield {"sessionUpdate": self.kind, "content": value, **id_member}
        self.sent_count = len(self.blocks)


class _JoinedText:
    """Adjacent text blocks."""

    def __init__(self, text: str) -> None:
        self.pieces = [text]

    @property
    def text(self) -> str:
        return "".join(self.pieces)


class V2Call:
    """A tool call."""

    def __init__(self, entry: Entry, id: str) -> None:
        self.entry = entry
        self.id = id
        self.fields: dict[str, object] = {}
        self.content: list[object] = []
        self.has_content = self.was_sent = self.is_placed = False
        self.is_changed = True
        self.terminals: set[str] = set()
        """The terminals that its content shows."""

    def update(self, update: Mapping[str, object]) -> None:
        self.is_changed = True
        for name, value in update.items():
            if name in _NOT_FIELDS:
                continue
            if value is None:
                self.fields.pop(name, None)
            else:
                self.fields[name] = v2_updates.status_as_v1(value) if name == "status" else value
        if "content" in update:
            self.content, self.has_content = [], True
            self.terminals.clear()
            for item in acp.items(update, "content"):
                self.add(item)

    def add(self, item: object) -> None:
        self.is_changed = self.has_content = True
        self.content.append(item)
        if acp.text(item, "type") == "terminal":
            self.terminals.add(acp.text(item, "terminalId") or "")

    @property
    def is_over(self) -> bool:
        return acp.text(self.fields, "status") in v2_updates.FINAL_STATUSES

    def take_changes(self, terminals: "AgentTerminals") -> Iterator[Mapping[str, object]]:
        if not self.is_changed:
            return
        v1_content = [
            v1_item
            for item in self.content
            for v1_item in v2_updates.item_as_v1(item, terminals.get_text(acp.text(item, "terminalId")))
        ]
        kind = update_kinds.TOOL_CALL_UPDATE if self.was_sent else update_kinds.TOOL_CALL
        fields = {"title": self.id, **self.fields} if not self.was_sent else self.fields
        if "locations" not in fields and (paths := v2_updates.list_diff_paths(self.content)):
            fields = {**fields, "locations": [{"path": path} for path in paths]}
        content = {"content": v1_content} if self.has_content else {}
        yield {"sessionUpdate": kind, "toolCallId": self.id, **fields, **content}
        self.was_sent, self.is_changed = True, False


class V2Plans:
    """The plans of a turn, by id. Version 1 has one plan, which has the steps of all of them."""

    def __init__(self, entry: Entry) -> None:
        self.entry = entry
        self.plans: dict[str | None, object] = {}
        self.is_placed, self.is_changed = False, True

    def take_changes(self) -> Iterator[Mapping[str, object]]:
        entries = [entry for plan in self.plans.values() for entry in acp.items(plan, "entries")]
        if self.is_changed:
            yield {"sessionUpdate": update_kinds.PLAN, "entries": entries}
        self.is_changed = False


class AgentTerminals:
    """The terminals of a session."""

    def __init__(self) -> None:
        self._by_id: dict[str, tuple[str | None, bytes, object]] = {}

    def update(self, id: str, update: Mapping[str, object]) -> None:
        command, output, status = self._by_id.get(id, (None, b"", None))
        if "command" in update:
            command = acp.text(update, "command")
        if "output" in update:
            output = v2_updates.decode_output(update["output"]) or b""
        if "exitStatus" in update:
            status = update["exitStatus"]
        self._by_id[id] = command, output[-_OUTPUT_LIMIT:], status

    def add(self, id: str, data: bytes) -> None:
        command, output, status = self._by_id.get(id, (None, b"", None))
        self._by_id[id] = command, (output + data)[-_OUTPUT_LIMIT:], status

    def is_running(self, id: str) -> bool:
        return id in self._by_id and self._by_id[id][2] is None

    def get_text(self, id: str | None) -> str | None:
        """The output in a code fence, and how the command ended."""
        if id not in self._by_id or id is None:
            return None
        command, output, status = self._by_id[id]
        lines = [f"$ {command}"] if command is not None else []
        text = v2_updates.fence("\n".join([*lines, output.decode(errors="replace")]))
        ending = v2_updates.explain_exit(status)
        return text if ending is None else f"{text}\n{ending}"

    def forget(self, kept_ids: set[str]) -> None:
        self._by_id = {id: terminal for id, terminal in self._by_id.items() if id in kept_ids}


def _is_text(block: object) -> bool:
    """Whether a block is text and nothing else, so that texts may be joined."""
    return isinstance(block, dict) and acp.text(block, "type") == "text" and len(block) == 2


def _read_words(blocks: list[object]) -> str:
    return "".join(block.text if isinstance(block, _JoinedText) else acp.text(block, "text") or "" for block in blocks)


LIMIT = 4 * 1024 * 1024
"""The most bytes that are kept of a turn; beyond that, what came so far is returned."""


class _Prompt:
    """A prompt whose turn has not ended."""

    def __init__(self, run: str, id: object) -> None:
        self.run = run
        self.id = id
        self.is_accepted = self.has_work_begun = self.is_over = False


_Item = V2Message | V2Call | V2Plans | Entry


class V2AsV1:
    """The reader of one transcript."""

    def __init__(self, *, at_once: bool = False) -> None:
        self._at_once = at_once
        self._items: list[_Item] = []
        self._messages: dict[tuple[str, str | None], V2Message] = {}
        self._calls: dict[str, V2Call] = {}
        self._plans: V2Plans | None = None
        self._terminals = AgentTerminals()
        self._changed_terminals: set[str] = set()
        """Those that have changed since what had changed was taken."""
        self._prompts: list[_Prompt] = []
        self._sent_calls: set[str] = set()
        """The ids of calls that were sent."""
        self._last_message: V2Message | None = None
        self._size = 0

    @property
    def is_idle(self) -> bool:
        """Whether the next entry can pass as it is, if it is of version 1."""
        return not self._items and not self._prompts

    def add(self, entry: Entry) -> list[Entry]:
        """Add an entry. Returns the entries that are certain now; if ``entry`` is among them, it is the last one."""
        self._last_message = None
        if entry.peer is Peer.AGENT and entry.protocol_version == versions.V2.version:
            entries = self._add_from_agent(entry)
        elif entry.peer is Peer.CLIENT and acp.text(entry.value, "method") != acp.PROMPT:
            entries = [entry]
        else:
            entries = [*self._take_turn(), entry]
            if entry.note is not None:
                self._add_note(entry.run, entry.note)
            elif entry.protocol_version == versions.V2.version:
                self._prompts.append(_Prompt(entry.run, acp.member(entry.value, "id")))
        if self._at_once:
            return [*entries, *self._take_all()]
        return [*entries, *self._take_turn()] if self._size > LIMIT else entries

    def add_chunks(self, chunks: AlikeChunks) -> bool:
        """Add more chunks like the last entry. False: they are of version 1, and pass as they are."""
        if self._last_message is None:
            return False
        self._last_message.add_chunks(chunks.text)
        self._size += chunks.size
        return True

    def end(self) -> list[Entry]:
        """The entries that were not returned yet, since nothing follows."""
        return self._take_turn()

    def _add_note(self, run: str, note: Mapping[str, object]) -> None:
        """The prompts of a run have failed, or those of another one will never be answered."""
        if note.get("type") == NoteType.FAILED:
            self._prompts = [prompt for prompt in self._prompts if prompt.run != run]
        elif note.get("type") == NoteType.OPENED:
            self._prompts = [prompt for prompt in self._prompts if prompt.run == run]

    def _add_from_agent(self, entry: Entry) -> list[Entry]:
        method = acp.text(entry.value, "method")
        params = acp.member(entry.value, "params")
        if entry.answered_method == acp.PROMPT:
            return self._handle_prompt_answer(entry)
        if method == acp.REQUEST_PERMISSION:
            subject = acp.member(params, "subject")
            self._add_update(entry, update_kinds.TOOL_CALL_UPDATE, acp.member(subject, "toolCall"))
            return [*(self._take_all() if self._at_once else ()), _make_permission_request(entry, params)]
        update = acp.member(params, "update")
        kind = acp.update_kind(update)
        if method != acp.UPDATE or kind is None:
            return [entry]
        if kind == update_kinds.WORK_STATE:
            return self._add_state(entry, update)
        if not update_kinds.is_conversation(kind):
            return [entry]
        self._size += len(entry.raw or b"")
        self._add_update(entry, kind, update)
        return []

    def _add_update(self, entry: Entry, kind: str, update: object) -> None:
        """Add an update of the conversation to what is kept."""
        if not isinstance(update, Mapping):
            return
        role = update_kinds.find_v2_role(kind)
        if role in (Role.USER, Role.AGENT, Role.THOUGHT):
            self._add_message(entry, kind, update)
        elif role is Role.CALL:
            if (id := acp.text(update, "toolCallId")) is not None:
                call = self._find_call(entry, id)
                if kind == update_kinds.TOOL_CALL_CHUNK:
                    call.add(acp.member(update, "content"))
                else:
                    call.update(update)
        elif role is Role.TERMINAL:
            if (id := acp.text(update, "terminalId")) is not None:
                self._add_terminal(entry, id, kind, update)
        elif kind == update_kinds.PLAN_REMOVED or acp.text(acp.member(update, "plan"), "type") == "items":
            self._add_plan(entry, kind, update)
        else:
            self._items.append(entry)

    def _add_item(self, item: "V2Message | V2Call | V2Plans") -> None:
        if not item.is_placed:
            item.is_placed = True
            self._items.append(item)

    def _add_message(self, entry: Entry, kind: str, update: Mapping[str, object]) -> None:
        id = acp.text(update, "messageId")
        chunk_kind = update_kinds.CHUNK_OF.get(kind, kind)
        message = self._messages.get((chunk_kind, id))
        if message is None:
            message = self._messages[chunk_kind, id] = V2Message(entry, chunk_kind, id)
        self._add_item(message)
        if kind == chunk_kind:
            message.add(acp.member(update, "content"))
            self._last_message = message
        elif "content" in update:
            message.replace(acp.items(update, "content"))

    def _find_call(self, entry: Entry, id: str) -> V2Call:
        call = self._calls.get(id)
        if call is None:
            call = self._calls[id] = V2Call(entry, id)
            call.was_sent = id in self._sent_calls
        if not call.is_placed:
            call.entry = entry
            self._add_item(call)
        return call

    def _add_terminal(self, entry: Entry, id: str, kind: str, update: Mapping[str, object]) -> None:
        if kind == update_kinds.TERMINAL:
            self._terminals.update(id, update)
        else:
            self._terminals.add(id, v2_updates.decode_output(update) or b"")
        if id in self._changed_terminals:  # so have the calls that show it
            return
        self._changed_terminals.add(id)
        for call in list(self._calls.values()):
            if id in call.terminals:
                self._find_call(entry, call.id).is_changed = True

    def _add_plan(self, entry: Entry, kind: str, update: Mapping[str, object]) -> None:
        if self._plans is None:
            self._plans = V2Plans(entry)
        self._add_item(self._plans)
        self._plans.is_changed = True
        plan = acp.member(update, "plan") if kind != update_kinds.PLAN_REMOVED else None
        id = acp.text(plan if plan is not None else update, "planId")
        if plan is None:
            self._plans.plans.pop(id, None)
        else:
            self._plans.plans[id] = plan

    def _handle_prompt_answer(self, entry: Entry) -> list[Entry]:
        """An answer to a prompt: a refusal, or it only accepts the prompt."""
        id = acp.member(entry.value, "id")
        prompt = next(
            (open_prompt for open_prompt in self._prompts if (open_prompt.run, open_prompt.id) == (entry.run, id)), None
        )
        # An answer without an open prompt (its run has failed, or was read before) ends no turn.
        if acp.member(entry.value, "error") is not None or prompt is None:
            self._prompts = [open_prompt for open_prompt in self._prompts if open_prompt is not prompt]
            return [*self._take_turn(), entry] if acp.member(entry.value, "error") is not None else []
        prompt.is_accepted = True
        return self._end_turn(entry, {}, [prompt]) if prompt.is_over else []

    def _add_state(self, entry: Entry, update: object) -> list[Entry]:
        prompts = [prompt for prompt in self._prompts if prompt.run == entry.run]
        if versions.V2.read_work_state(update) == versions.BUSY:
            for prompt in prompts:
                prompt.has_work_begun, prompt.is_over = True, False
            return []
        # ``idle`` may overtake the answer that accepts the prompt. Before ``busy``, it is older than the turn.
        for prompt in prompts:
            prompt.is_over = prompt.has_work_begun
        return self._end_turn(entry, update, [prompt for prompt in prompts if prompt.is_accepted])

    def _end_turn(self, entry: Entry, update: object, prompts: list[_Prompt]) -> list[Entry]:
        self._prompts = [prompt for prompt in self._prompts if prompt not in prompts]
        entries = self._take_turn()
        for prompt in prompts:
            outcome: dict[str, object] = {"result": {"stopReason": acp.text(update, "stopReason")}}
            if acp.text(update, "stopReason") == "error":
                error = acp.member(update, "error")
                outcome = {"error": error if isinstance(error, dict) else {"message": "the turn failed"}}
            elif (usage := acp.member(update, "usage")) is not None:
                outcome = {"result": {"stopReason": acp.text(update, "stopReason"), "usage": usage}}
            value = {"jsonrpc": "2.0", "id": prompt.id, **outcome}
            entries.append(Entry(entry.at, prompt.run, Peer.AGENT, acp.PROMPT, jsonrpc.dump(value), value))
        return entries

    def _take_turn(self) -> list[Entry]:
        """Return everything, and forget what cannot change any more."""
        entries = list(self._take_all())
        self._sent_calls |= {id for id, call in self._calls.items() if call.was_sent}
        self._calls = {id: call for id, call in self._calls.items() if self._may_change(call)}
        self._terminals.forget({id for call in self._calls.values() for id in call.terminals})
        if not self._prompts:
            self._messages.clear()
        self._plans, self._last_message, self._size = None, None, 0
        return entries

    def _may_change(self, call: V2Call) -> bool:
        return not call.is_over or any(map(self._terminals.is_running, call.terminals))

    def _take_all(self) -> Iterator[Entry]:
        items, self._items = self._items, []
        self._changed_terminals.clear()
        for item in items:
            if isinstance(item, Entry):
                yield item
                continue
            item.is_placed = False
            for update in item.take_changes(self._terminals) if isinstance(item, V2Call) else item.take_changes():
                yield _make_entry(item.entry, update)


def _make_permission_request(entry: Entry, params: object) -> Entry:
    """A permission request as version 1 has it, about a call."""
    id = acp.member(entry.value, "id")
    own_id = f"acp-proxy-permission-{entry.run}-{id}"
    call = v2_updates.permission_call_as_v1(acp.member(params, "subject"), acp.text(params, "title"), own_id)
    v1_params = {"sessionId": acp.session_id(params), "toolCall": call, "options": acp.member(params, "options")}
    value = {"jsonrpc": "2.0", "id": id, "method": acp.REQUEST_PERMISSION, "params": v1_params}
    return Entry(entry.at, entry.run, Peer.AGENT, None, jsonrpc.dump(value), value)


def _make_entry(original: Entry, update: Mapping[str, object]) -> Entry:
    """An entry with this update, in the place of another one of version 2."""
    session_id = acp.session_id(acp.member(original.value, "params"))
    value = {"jsonrpc": "2.0", "method": acp.UPDATE, "params": {"sessionId": session_id, "update": update}}
    return Entry(original.at, original.run, Peer.AGENT, None, jsonrpc.dump(value), value)


# --- The lines of a transcript with entries of protocol version 1 only: those of other versions are read as it.


def read_as_v1(lines: Iterable[Line | AlikeLines]) -> Iterator[Line | AlikeLines]:
    """The lines, with a turn of version 2 in the place where it ends. Each entry made of others has the number and the
    end of the last line that was read for it."""
    reader, number, end, is_whole = V2AsV1(), 0, 0, True
    for line in lines:
        if isinstance(line, AlikeLines):
            if not reader.add_chunks(line.chunks):
                yield line
        elif line.entry is None or (line.entry.protocol_version == ACP_V1 and reader.is_idle):
            yield line
        else:
            for entry in reader.add(line.entry):
                yield line if entry is line.entry else Line(number, end, True, entry)
        number, end, is_whole = line.number, line.end, not isinstance(line, Line) or line.is_whole
    for entry in reader.end():
        yield Line(number, end, is_whole, entry)
