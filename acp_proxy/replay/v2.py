"""Replays a transcript to a client of version 2, whatever version its parts are of.

A part of version 2 is replayed by ``V2Replayer``, and folded by ``V2Folder`` turn by turn if that is wanted. A part of
version 1 is replayed as to a client of version 1, and restated. A part ends where the next line is of the other
version. Notes belong to the part in which they are.

After a handover, the ids from before it are changed, since the agent's new session may use them again.
"""

import binascii
from collections.abc import Callable, Iterable, Iterator, Mapping

from acp_proxy.protocol import acp, framing, json_splice, jsonrpc, update_kinds, v2_updates
from acp_proxy.protocol.jsonrpc import Peer
from acp_proxy.protocol.update_kinds import Form, Role
from acp_proxy.replay import truncate, update_lines, updates
from acp_proxy.replay.replayer import Replayer
from acp_proxy.replay.terminal_output import Newest
from acp_proxy.replay.unfinished import CARRIED
from acp_proxy.replay.update_lines import Members
from acp_proxy.replay.updates import Update
from acp_proxy.transcript import file_format
from acp_proxy.transcript.chunk_runs import AlikeChunks
from acp_proxy.transcript.file_format import V1, Entry, NoteType

# --- Replays protocol version 2: every update of the conversation as it came, byte for byte and in order.
#
# In version 2 the agent repeats each prompt as a user message, so that is replayed. A prompt that it accepted or never
# answered, and did not repeat, is replayed as acp-proxy's user message. What a permission request says about a call
# comes before the next update of that call. Calls and compactions that were never finished have failed at the end.
#
# Left out: state, notices, permission requests, and calls known only from them. The same entries always give the same
# bytes. Nothing raises: what makes no sense is left out. Only entries of version 2 may be added.


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


class V2Replayer:
    """One replay. The methods return lines, in order; an item may be several lines."""

    def __init__(self, session: str, *, run: str, also: frozenset[str] = frozenset()) -> None:
        """``run``: the connection that asks for it. ``also``: ids of other sessions whose entries belong to this one;
        they are replayed with its id."""
        self._session = session
        self._ids = also | {session}
        self._run = run
        self._unrepeated: list[_UnrepeatedPrompt] = []
        self._repeated: set[tuple[str, str | None]] = set()
        """The run and the id of each user message that was replayed."""
        self._own: set[tuple[str, str | None]] = set()
        """Those of them that acp-proxy wrote."""
        self._asked: Newest[str, Members] = Newest(CARRIED)
        """By call: what permission requests stated about it since its last update. Bounded, since some calls never come
        (the user refuses) and nothing says so."""
        self._open: dict[tuple[str, str], None] = {}
        self._ended: set[tuple[str, str]] = set()
        """The calls and compactions that have not ended, and those that have, by kind and id."""
        self._may_go_on = False

    def add(self, number: int, entry: Entry) -> list[bytes]:
        """Add the next entry. ``number``: its line in the transcript."""
        self._may_go_on = False
        if entry.note is not None:
            return self._add_note(entry.run, entry.note)
        if entry.raw is None or b"\n" in entry.raw:
            return []
        method = acp.text(entry.value, "method")
        if entry.peer is Peer.CLIENT:
            if method == acp.PROMPT:
                self._unrepeated.append(_UnrepeatedPrompt(entry, number))
            return []
        if entry.of == acp.PROMPT:
            self._end_prompt(entry)
        elif method == acp.REQUEST_PERMISSION:
            self._add_permission(entry)
        update = updates.read(entry, self._session, self._ids) if method == acp.UPDATE else None
        if update is None or not update_kinds.is_conversation(update.kind):
            return []
        return self._add_update(update, entry)

    def add_chunks(self, number: int, stream: AlikeChunks) -> list[bytes]:
        """Add entries that equal the last one except for time and text. ``number``: the line of the last one."""
        if self._may_go_on:
            return [stream.messages]
        return [line for entry in stream.entries() for line in self.add(number, entry)]

    def end(self, *, live: bool | None = None, sends_again: str | None = None) -> list[bytes]:
        """End the replay. ``live``: open turns may go on. ``sends_again``: the run that sends its open prompts again
        in a new session, so that they are repeated there."""
        ready = self._replay_prompts(
            [prompt for prompt in self._unrepeated if prompt.run != sends_again or prompt.message is not None]
        )
        unfinished, self._open = ([] if live else list(self._open)), {}
        self._ended |= set(unfinished)
        return ready + [_failed(self._session, kind, id) for kind, id in unfinished]

    def states(self) -> list[bytes]:
        """Nothing: the agent itself has sent its state before its answer."""
        return []

    def _add_update(self, update: Update, entry: Entry) -> list[bytes]:
        role = update_kinds.find_v2_role(update.kind)
        if role is Role.USER:
            return self._add_user(update)
        self._may_go_on = update.raw is entry.raw  # else each line needs another session id
        # The agent has accepted these prompts and goes on without repeating them, so they must come before its answer.
        ready = self._replay_prompts(
            [prompt for prompt in self._unrepeated if prompt.run == update.run and prompt.message is not None]
        )
        if role is Role.CALL and (id := acp.text(update.value, "toolCallId")) is not None:
            if (asked := self._asked.pop(id)) is not None:
                ready.append(update_lines.update(self._session, update_kinds.TOOL_CALL_UPDATE, asked))
            self._note_status(update_kinds.TOOL_CALL_UPDATE, id, update)
        elif update.kind == update_kinds.COMPACTION and (id := acp.text(update.value, "compactionId")) is not None:
            self._note_status(update_kinds.COMPACTION, id, update)
        return [*ready, update.line]

    def _add_user(self, update: Update) -> list[bytes]:
        key = update.run, acp.text(update.value, "messageId")
        if key in self._own:
            return []  # the repetition came after the agent's first words: the client has it already
        self._repeated.add(key)
        self._unrepeated = [prompt for prompt in self._unrepeated if (prompt.run, prompt.message) != key]
        return [update.line]

    def _note_status(self, kind: str, id: str, update: Update) -> None:
        """Note whether a call or compaction has ended. One that never had a status has not."""
        if "status" in update.value:
            if acp.text(update.value, "status") in _FINAL:
                self._open.pop((kind, id), None)
                self._ended.add((kind, id))
            else:
                self._open[kind, id] = None
        elif (kind, id) not in self._ended:
            self._open[kind, id] = None

    def _end_prompt(self, entry: Entry) -> None:
        """The agent has accepted a prompt, or refused it; then it is not part of the conversation."""
        id = acp.member(entry.value, "id")
        prompt = next((each for each in self._unrepeated if (each.run, each.id) == (entry.run, id)), None)
        if prompt is None:
            return
        prompt.message = acp.text(acp.member(entry.value, "result"), "messageId")
        if prompt.message is None or (prompt.run, prompt.message) in self._repeated:
            self._unrepeated.remove(prompt)

    def _add_permission(self, entry: Entry) -> None:
        subject = acp.member(acp.member(entry.value, "params"), "subject")
        id = acp.text(acp.member(subject, "toolCall"), "toolCallId")
        raw = updates.own_line(entry, self._session, self._ids)
        if id is None or raw is None:
            return
        try:
            members = update_lines.asked_about_subject(raw)
        except (ValueError, KeyError):
            return
        # In version 2 an update replaces the fields that it names, so several statements are one with the last values.
        asked = (self._asked.pop(id) or {}) | members
        if (size := _size_of(asked)) > CARRIED:
            asked, size = members, _size_of(members)
        self._asked.trim()  # before the newest is added, which is kept whatever its size: its call comes next
        self._asked.put(id, asked, size)

    def _add_note(self, run: str, note: Mapping[str, object]) -> list[bytes]:
        """A turn has failed, or the session was opened again: what was said until then was never repeated."""
        if note.get("type") not in (NoteType.FAILED, NoteType.OPENED):
            return []
        is_failure = note.get("type") == NoteType.FAILED
        over = [prompt for prompt in self._unrepeated if (prompt.run == run) == is_failure]
        return self._replay_prompts(over)

    def _replay_prompts(self, waiting: list[_UnrepeatedPrompt]) -> list[bytes]:
        """Replay prompts that the agent did not repeat."""
        ready: list[bytes] = []
        for prompt in waiting:
            id = prompt.message if prompt.message is not None else prompt.own
            members = {"messageId": jsonrpc.dump(id), "content": jsonrpc.dump(prompt.blocks)}
            ready.append(update_lines.update(self._session, update_kinds.USER_MESSAGE, members))
            self._own.add((prompt.run, id))
        self._unrepeated = [prompt for prompt in self._unrepeated if prompt not in waiting]
        return ready


def _size_of(members: Members) -> int:
    return sum(len(name) + len(raw) for name, raw in members.items())


def _failed(session: str, kind: str, id: str) -> bytes:
    name = "compactionId" if kind == update_kinds.COMPACTION else "toolCallId"
    return update_lines.update(session, kind, {name: jsonrpc.dump(id), "status": _FAILED})


# --- Folds the updates of version 2 by id, so that a turn has few of them and leaves a client in the same state.
#
# Everything stays where its id came first. Adjacent texts of a message are joined, and a message that was replaced has
# only its last content. What is said about a call, a terminal or a plan is one update with the last value of each
# field. An update with ``_meta``, or of another kind, keeps its bytes. A call or an output longer than the limit is
# cut.
#
# A turn longer than a page is folded in pieces, so what one replay holds does not grow with its turns, except for the
# ids of calls and terminals: one that was named before is only added to.


_MESSAGE = frozenset({"sessionUpdate", "messageId", "content"})
_CALL, _TERMINAL, _PLAN = "call", "terminal", "plan"
_META = b'"_meta"'
_Key = tuple[str, str]


class _JoinedChunks:
    """Adjacent texts of one message. ``kind``: of the chunks."""

    __slots__ = ("kind", "texts")

    def __init__(self, kind: str, text: str) -> None:
        self.kind = kind
        self.texts = [text]


class _MergedUpdates:
    """Updates of one call or terminal. ``appended``: what chunks have added to its content or output."""

    __slots__ = ("appended", "members")

    def __init__(self) -> None:
        self.members: Members = {}
        self.appended: list[bytes] = []


class _FoldedPlace:
    """What is said about one id. ``is_new``: it was not named before this turn, or this piece of it."""

    __slots__ = ("is_new", "key", "pieces")

    def __init__(self, key: _Key, *, is_new: bool) -> None:
        self.key = key
        self.is_new = is_new
        self.pieces: list[_JoinedChunks | _MergedUpdates | bytes] = []


class V2Folder:
    """Folds one replay."""

    def __init__(self, session: str, limit: int, *, page: int = 0) -> None:
        """``limit``: the most bytes of one call, or of one output; 0 for no limit.

        ``page``: a turn longer than this many bytes is folded in several pieces; 0 for never.
        """
        self._session = session
        self._limit = limit
        self._page, self._taken = page, 0
        self._places: dict[_Key, _FoldedPlace] = {}
        self._named: set[_Key] = set()
        self._last: _JoinedChunks | None = None

    def add(self, lines: list[bytes]) -> list[bytes]:
        """Add items of a replay, each of which is one or more lines. Returns the lines of a piece that is full."""
        self._last = None
        for item in lines:
            for line in framing.cut(item):
                self._add(line)
        return self._count_page(sum(map(len, lines)))

    def add_chunks(self, stream: AlikeChunks) -> list[bytes] | None:
        """Add more chunks like the last line. None: they must be added one by one."""
        if self._last is None:
            return None
        self._last.texts.append(stream.text)
        return self._count_page(stream.size)

    def end_turn(self) -> list[bytes]:
        """The lines of everything that was not returned yet. What follows is another turn."""
        ready = [
            line
            for place in self._places.values()
            for piece in place.pieces
            for line in self._encode_piece(place, piece)
        ]
        self._places.clear()
        self._last, self._taken = None, 0
        return ready

    def _count_page(self, size: int) -> list[bytes]:
        """Count bytes of a turn, and end a piece of it if they fill a page."""
        self._taken += size
        return self.end_turn() if self._page and self._taken >= self._page else []

    def _add(self, line: bytes) -> None:
        self._last = None
        update = acp.update_of(line)
        kind, raw = acp.update_kind(update) or "", line.removesuffix(b"\n")
        try:
            members, around = update_lines.taken_apart(raw)
        except (ValueError, KeyError):
            members, around = {}, {"": b""}
        is_plain = not around and "_meta" not in members
        message, call, terminal = (acp.text(update, name) for name in ("messageId", "toolCallId", "terminalId"))
        row = update_kinds.find(kind)
        if row.v2 is Form.JOINED and message is not None:
            self._add_message(kind, message, update, line, is_plain=is_plain and members.keys() <= _MESSAGE)
        elif row.v2 is Form.MERGED and row.role is Role.CALL and call is not None:
            appended = members.get("content") if kind == update_kinds.TOOL_CALL_CHUNK else None
            self._merge((_CALL, call), members, appended, "content", line, is_plain=is_plain)
        elif row.v2 is Form.MERGED and row.role is Role.TERMINAL and terminal is not None:
            data = v2_updates.decode_output(update) if kind == update_kinds.TERMINAL_CHUNK else None
            self._merge((_TERMINAL, terminal), members, data, "output", line, is_plain=is_plain)
        elif row.v2 is Form.LAST_OF_TURN and is_plain and (plan := acp.text(acp.member(update, "plan"), "planId")):
            self._place((_PLAN, plan)).pieces = [line]
        else:
            self._place((kind, f"{len(self._places)}")).pieces.append(line)

    def _place(self, key: _Key) -> _FoldedPlace:
        place = self._places.get(key)
        if place is None:
            place = self._places[key] = _FoldedPlace(key, is_new=key not in self._named)
            if key[0] in (_CALL, _TERMINAL):
                self._named.add(key)
        return place

    def _add_message(self, kind: str, id: str, update: object, line: bytes, *, is_plain: bool) -> None:
        pieces = self._place((update_kinds.CHUNK_OF.get(kind, kind), id)).pieces
        content = acp.member(update, "content")
        if kind in update_kinds.CHUNK_OF:
            if is_plain and isinstance(content, list):
                pieces[:] = [piece for piece in pieces if isinstance(piece, bytes) and _META in piece]
            pieces.append(line)
        elif is_plain and isinstance(content, dict) and content.keys() == {"type", "text"} and _is_text(content):
            last = pieces[-1] if pieces else None
            if isinstance(last, _JoinedChunks):
                last.texts.append(content["text"])
            else:
                pieces.append(last := _JoinedChunks(kind, content["text"]))
            self._last = last
        else:
            pieces.append(line)

    def _merge(
        self, key: _Key, members: Members, appended: bytes | None, grows: str, line: bytes, *, is_plain: bool
    ) -> None:
        """``grows``: the field that chunks add to."""
        pieces = self._place(key).pieces
        if not is_plain:
            pieces.append(line)
            return
        if not pieces or not isinstance(pieces[-1], _MergedUpdates):
            pieces.append(_MergedUpdates())
        merged = pieces[-1]
        assert isinstance(merged, _MergedUpdates)
        if appended is not None:
            merged.appended.append(appended)
            return
        if grows in members:
            merged.appended.clear()
        merged.members |= {name: raw for name, raw in members.items() if name not in _LEADING}

    def _encode_piece(self, place: _FoldedPlace, piece: "_JoinedChunks | _MergedUpdates | bytes") -> Iterator[bytes]:
        if isinstance(piece, bytes):
            yield piece
        elif isinstance(piece, _JoinedChunks):
            content = jsonrpc.dump({"type": "text", "text": "".join(piece.texts)})
            yield self._line(piece.kind, {"messageId": jsonrpc.dump(place.key[1]), "content": content})
        elif place.key[0] == _CALL:
            is_first = place.is_new and piece is place.pieces[0]
            yield from self._encode_call(place.key[1], piece, is_whole=is_first or "content" in piece.members)
        else:
            yield from self._encode_terminal(place.key[1], piece)

    def _encode_call(self, id: str, merged: _MergedUpdates, *, is_whole: bool) -> Iterator[bytes]:
        fields, appended = dict(merged.members), merged.appended
        if is_whole and appended:
            before = fields.get("content", b"[]")
            items = update_lines.items(before) if before != b"null" else []
            fields["content"], appended = update_lines.array([*items, *appended]), []
        left_out = sum(truncate.cut(fields, self._limit).values()) if self._limit else 0
        if left_out and is_whole:
            said = update_lines.items(fields.get("content", b"[]"))
            notice = update_lines.text_item(truncate.notice(self._session, left_out))
            fields["content"] = update_lines.array([*said, notice])
        elif self._limit and appended:
            appended = self._shorten(appended)
        named = {"toolCallId": jsonrpc.dump(id)}
        if fields or is_whole:
            yield self._line(update_kinds.TOOL_CALL_UPDATE, {**named, **fields})
        for item in appended:
            yield self._line(update_kinds.TOOL_CALL_CHUNK, {**named, "content": item})

    def _shorten(self, appended: list[bytes]) -> list[bytes]:
        """What chunks add to the content of a call that was named before, cut to the limit."""
        whole = update_lines.array(appended)
        if len(whole) <= self._limit:
            return appended
        kept = truncate.fewer(whole, self._limit)
        left_out = len(whole) - len(update_lines.array(kept))
        return [*kept, update_lines.text_item(truncate.notice(self._session, left_out))]

    def _encode_terminal(self, id: str, merged: _MergedUpdates) -> Iterator[bytes]:
        named = {"terminalId": jsonrpc.dump(id)}
        if merged.members:
            yield self._line(update_kinds.TERMINAL, {**named, **merged.members})
        if output := b"".join(merged.appended):
            if self._limit and len(output) > self._limit:
                left_out = len(output) - self._limit
                output = truncate.notice(self._session, left_out).encode() + b"\n" + output[left_out:]
            data = binascii.b2a_base64(output, newline=False)
            yield self._line(update_kinds.TERMINAL_CHUNK, {**named, "data": b'"%b"' % data})

    def _line(self, kind: str, members: Members) -> bytes:
        return update_lines.update(self._session, kind, members)


_LEADING = frozenset({"sessionUpdate", "toolCallId", "terminalId"})


def _is_text(block: dict[str, object]) -> bool:
    return block["type"] == "text" and isinstance(block["text"], str)


# --- Restates the lines of a replay in version 1 in the forms of version 2. ``protocol/v2_updates`` does the reverse.
#
# A chunk without a ``messageId`` gets one, a call becomes an upsert, a diff gets a patch, and the plan gets an id.
# Other lines keep their bytes. The same lines always give the same bytes.


_PLAN_ID = b'"acp-proxy-plan"'
_CLEARED = ("title", "kind", "status", "content", "locations")
"""The fields that a second ``tool_call`` clears if it omits them."""
_CONTEXT = 3
"""How many unchanged lines a patch shows on each side."""


class V1AsV2:
    """Restates one replay."""

    def __init__(self, session: str) -> None:
        self._session = session
        self._calls: set[str] = set()
        self._kinds: dict[str, str] = {}
        """By ``messageId``: the kind of its chunks. In version 2, an id belongs to one message."""
        self._speaker: str | None = None
        """The kind of the last update, if that was a chunk without an id."""
        self._named = 0

    def convert(self, lines: list[bytes]) -> list[bytes]:
        """Restate these items, each of which is one or more lines."""
        return [b"".join(map(self._convert, framing.cut(item))) for item in lines]

    def _convert(self, line: bytes) -> bytes:
        update = acp.update_of(line)
        kind = acp.update_kind(update) or ""
        before, self._speaker = self._speaker, None
        try:
            if kind in update_kinds.CHUNKS:
                return self._convert_chunk(line, kind, acp.text(update, "messageId"), before)
            if kind in update_kinds.CALLS:
                return self._convert_call(line, kind, acp.text(update, "toolCallId") or "")
            return self._convert_plan(line) if kind == update_kinds.PLAN else line
        except (ValueError, KeyError):
            return line

    def _convert_chunk(self, line: bytes, kind: str, message: str | None, before: str | None) -> bytes:
        if message is not None and self._kinds.setdefault(message, kind) == kind:
            return line
        if message is not None:
            id = f"acp-proxy-{kind}-{message}"
        else:
            self._named += before != kind
            self._speaker, id = kind, f"acp-proxy-{self._named}"
        return self._change(line, kind, lambda members: {**members, "messageId": jsonrpc.dump(id)})

    def _convert_call(self, line: bytes, kind: str, id: str) -> bytes:
        begins_again = kind == update_kinds.TOOL_CALL and id in self._calls
        self._calls.add(id)

        def changed(members: Members) -> Members:
            said = {name: raw for name, raw in members.items() if raw != b"null"}  # in version 2, null clears
            if "content" in said:
                said["content"] = update_lines.array(map(_convert_item, update_lines.items(said["content"])))
            return {**said, **{name: b"null" for name in _CLEARED if begins_again and name not in said}}

        return self._change(line, update_kinds.TOOL_CALL_UPDATE, changed)

    def _convert_plan(self, line: bytes) -> bytes:
        def changed(members: Members) -> Members:
            entries = members.pop("entries")
            return {"plan": b'{"type":"items","planId":%b,"entries":%b}' % (_PLAN_ID, entries), **members}

        return self._change(line, update_kinds.PLAN_UPDATE, changed)

    def _change(self, line: bytes, kind: str, change: Callable[[Members], Members]) -> bytes:
        members, around = update_lines.taken_apart(line.removesuffix(b"\n"))
        del members["sessionUpdate"]
        return update_lines.update(self._session, kind, change(members), around)


def _convert_item(raw: bytes) -> bytes:
    """An item of a call's content."""
    value = update_lines.value(raw)
    path, new = acp.text(value, "path"), acp.text(value, "newText")
    if not isinstance(value, Mapping) or value.get("type") != "diff" or path is None or new is None:
        return raw
    old = acp.text(value, "oldText")
    patch = {"format": "git_patch", "text": _patch(path, old, new)}
    change = {"operation": "add" if old is None else "modify", "path": path}
    more = {"_meta": value["_meta"]} if "_meta" in value else {}
    return jsonrpc.dump({"type": "diff", "changes": [change], "patch": patch, **more})


def _patch(path: str, old: str | None, new: str) -> str:
    """A patch with one hunk, from the first line that differs to the last. ``old``: None for a new file."""
    before, after = (old or "").splitlines(keepends=True), new.splitlines(keepends=True)
    start, shorter = 0, min(len(before), len(after))
    while start < shorter and before[start] == after[start]:
        start += 1
    end = 0
    while end < shorter - start and before[-1 - end] == after[-1 - end]:
        end += 1
    first = max(start - _CONTEXT, 0)
    behind = before[len(before) - end :][:_CONTEXT]
    removed, added = before[start : len(before) - end], after[start : len(after) - end]
    hunk = [" " + line for line in before[first:start]]
    hunk += ["-" + line for line in removed] + ["+" + line for line in added] + [" " + line for line in behind]
    around = start - first + len(behind)
    name = path.removeprefix("/")
    sizes = _range(first, around + len(removed)), _range(first, around + len(added))
    head = f"diff --git a/{name} b/{name}\n"
    head += "new file mode 100644\n--- /dev/null\n" if old is None else f"--- a/{name}\n"
    text = "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in hunk)
    return f"{head}+++ b/{name}\n@@ -{sizes[0]} +{sizes[1]} @@\n{text}"


def _range(first: int, count: int) -> str:
    return f"{first + 1 if count else first},{count}"


# --- Changes the ids in updates of version 2, where an id belongs to one message, call, terminal or plan of a session.
#
# After a handover, the agent's new session may use the ids of the old one again. So the client gets the old ones
# changed.


_ID_NAMES = frozenset({"messageId", "toolCallId", "terminalId", "planId", "compactionId"})
_INSIDE = ("plan", "content")
"""The members of an update that may have ids inside."""


def prefix_ids(lines: list[bytes], prefix: str) -> list[bytes]:
    """Items of a replay, each of which is one or more lines, with this prefix to every id. Other bytes stay."""
    return [b"".join(_prefix_ids_of(line, prefix) for line in framing.cut(item)) for item in lines]


def _prefix_ids_of(line: bytes, prefix: str) -> bytes:
    update = acp.update_of(line)
    text = json_splice.decode(line)
    try:
        params = json_splice.members(text, json_splice.whole(text)[0])["params"]
        start = json_splice.members(text, params[0])["update"][0]
        return json_splice.encode(json_splice.replaced(text, list(_find_ids(text, start, update, prefix))))
    except (ValueError, KeyError):
        return line


def _find_ids(text: str, start: int, value: object, prefix: str) -> Iterator[tuple[json_splice.Span, str]]:
    """The new ids of an object that begins at ``start``. Raises ValueError."""
    if not isinstance(value, Mapping) or not any(name in value for name in (*_ID_NAMES, *_INSIDE)):
        return
    spans = json_splice.members(text, start)
    for name in _ID_NAMES & value.keys():
        if isinstance(id := value[name], str):
            yield spans[name], json_splice.decode(jsonrpc.dump(prefix + id))
    for name in _INSIDE:
        inner = value.get(name)
        if isinstance(inner, list):
            for (at, _), item in zip(json_splice.elements(text, spans[name][0]), inner, strict=True):
                yield from _find_ids(text, at, item, prefix)
        elif isinstance(inner, Mapping):
            yield from _find_ids(text, spans[name][0], inner, prefix)


class V2ClientReplayer:
    """One replay. The methods are those of ``Replayer``."""

    def __init__(self, session: str, v1: Replayer, v2: V2Replayer, folding: V2Folder | None = None) -> None:
        """``v1``, ``v2``: of the same session, and new. ``folding``: folds parts of version 2."""
        self._folding = folding
        self._v1 = v1
        self._v2 = v2
        self._v1_as_v2 = V1AsV2(session)
        self._is_v1 = False
        self._handovers = 0
        self.handovers = 0
        """How many handovers the session has had, this one included."""

    def add(self, number: int, entry: Entry) -> list[bytes]:
        """Add the next entry. ``number``: its line in the transcript."""
        ready: list[bytes] = []
        is_v1 = entry.protocol == V1 if entry.peer is not None else self._is_v1
        begins_anew = _begins_anew(entry)
        if is_v1 != self._is_v1 or begins_anew:
            ready = self._end(entry.run if begins_anew else None)
            self._is_v1 = is_v1
            self._handovers += begins_anew
        if is_v1:
            return ready + self._finish_lines(self._v1.add(number, entry))
        if acp.text(entry.value, "method") == acp.PROMPT:
            ready += self._finish_lines(self._end_turn())
        return ready + self._finish_lines(self._fold(self._v2.add(number, entry)))

    def add_chunks(self, number: int, stream: AlikeChunks) -> list[bytes]:
        """Add entries that equal the last one except for time and text. ``number``: the line of the last one."""
        if self._is_v1:
            return self._finish_lines(self._v1.add_chunks(number, stream))
        ready = self._folding.add_chunks(stream) if self._folding is not None else None
        return self._finish_lines(self._fold(self._v2.add_chunks(number, stream)) if ready is None else ready)

    def end(self) -> list[bytes]:
        """End the replay."""
        return self._end(None)

    def _end(self, sends_again: str | None) -> list[bytes]:
        """End the replay, or a part of it. ``sends_again``: the run whose open prompts belong to the next part."""
        if self._is_v1:
            return self._finish_lines(self._v1.end())
        return self._finish_lines([*self._fold(self._v2.end(sends_again=sends_again)), *self._end_turn()])

    def states(self) -> list[bytes]:
        """Nothing: in version 2 the agent itself has sent its state before its answer."""
        return []

    def _fold(self, lines: list[bytes]) -> list[bytes]:
        """Fold these lines of a turn, or return them if nothing is folded."""
        return self._folding.add(lines) if self._folding is not None else lines

    def _end_turn(self) -> list[bytes]:
        return self._folding.end_turn() if self._folding is not None else []

    def _finish_lines(self, lines: list[bytes]) -> list[bytes]:
        ready = self._v1_as_v2.convert(lines) if self._is_v1 else lines
        return prefix_ids(ready, f"acp-proxy-{self._handovers}-") if self._handovers < self.handovers else ready


def count_handovers(entries: Iterable[Entry | None]) -> int:
    """How many handovers these entries have begun."""
    return sum(1 for entry in entries if entry is not None and _begins_anew(entry))


def _begins_anew(entry: Entry) -> bool:
    note = entry.note or {}
    return note.get("type") == NoteType.OPENED and note.get(file_format.ANEW) is True
