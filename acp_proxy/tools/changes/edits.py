"""Reads from a transcript which edits of files its tool calls made, in order. Pure.

The protocol has one place for an edit: a ``diff`` in a call's content, with the whole text before and after. Agents
differ (docs/diff-and-blame.md has a table): some send the diff only with the question for permission, some send the
whole file there and only the changed part when the call has ended, some send nothing but words. So all that a call
states in its life counts together: what comes later replaces what came before, unless it is a part of the same edit. A
call changes something only once it is ``completed`` and was not denied. What calls did without a diff is ``Unclear``:
it is named, and nobody guesses it.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Literal

from msgspec import Struct, field

from acp_proxy.protocol import acp, update_kinds
from acp_proxy.protocol.jsonrpc import Peer
from acp_proxy.protocol.v2_updates import is_hunk
from acp_proxy.transcript.file_format import Entry
from acp_proxy.transcript.reader import AlikeLines, Line, TranscriptReader
from acp_proxy.transcript.turn_order import order_turns
from acp_proxy.transcript.v2_entries import read_as_v1
from acp_proxy.views.conversation import number_turns
from acp_proxy.views.tool_calls import COMPLETED, FAILED, read_command

Form = Literal["whole", "part", "delete", "move"]
Cause = Literal["no-diff", "command", "unfinished"]
Result = Literal["completed", "failed", "denied", "unfinished"]
OpenChild = Callable[[str], AbstractContextManager[TranscriptReader | None]]
"""Opens the transcript of a session that the agent began for its own work, by its id."""

_EDIT_KINDS = frozenset({"edit", "delete", "move"})
"""The kinds of calls that change files."""
_ACTIONS: Mapping[Form, str] = {"whole": "edit", "part": "edit", "delete": "delete", "move": "move"}
_REPLACES_ALL = re.compile(r"replace_?all|allow_?multiple", re.IGNORECASE)
"""The names under which edit tools take whether to replace every occurrence."""
_MEMBERS_WITH_TEXT_BEFORE = ("previousContent", "originalFile", "originalContent")
"""The members, in a call's output or ``_meta``, in which agents send the whole file as it was before the edit."""
_EXIT_CODE = re.compile(r"exit_?(code|status)?", re.IGNORECASE)
"""The members, in the same places, in which agents send a command's exit status: many call such a call completed."""
_TOOL_NAMES = ("toolName", "tool_name")
_GEMINIS_ID = re.compile(r"([A-Za-z]\w*?)(?:__\1)?[-_]\d{13}(?:[-_]\w+)?", re.ASCII)
"""The ids of Gemini's calls, which begin with the tool's name; it states it nowhere else."""
_PATCH_MEMBER = "changes"
"""The member of a call's input and output with what Codex's patch does to each file; the diff does not say all."""
_WORD = re.compile(r"[\w.-]+")
_MOST_DEPTH = 4
"""How deep a call's input is searched: some tools take a list of edits."""


class Edit(Struct, frozen=True):
    """One change of one file by one call.

    ``turn``: its number. ``call``, ``title``, ``stamp``: the call's id, title and time. ``path``: as the agent gave it.
    ``form``: ``whole``: ``old`` and ``new`` are the file's text (``old`` None: the file is new). ``part``: they are
    a part of it. ``delete``: the file is deleted; ``old`` is its text, if that is known. ``move``: it is moved from
    ``source``.
    ``replaces_all``: every occurrence of the part is replaced.
    """

    turn: int
    call: str
    title: str
    stamp: str
    path: str
    form: Form
    old: str | None = None
    new: str | None = None
    source: str = ""
    replaces_all: bool = False


class Unclear(Struct, frozen=True):
    """A call that may have changed files, without a diff that says how.

    ``title``: the call's; of a command, the command. ``cause``: ``no-diff``: it edited ``paths``. ``command``: it ran a
    program. ``unfinished``: it did not end.
    """

    turn: int
    call: str
    title: str
    stamp: str
    paths: tuple[str, ...]
    cause: Cause


class CallSummary(Struct, frozen=True):
    """What a tool call did, without its output.

    ``name``: the tool's, if the agent states it. ``kind``: the protocol's. ``command``: the program it ran.
    ``result``: a command that ended with another status than 0 has failed, too, where the agent states that.
    ``files``: the action (``read``, ``edit``, ``create``, ``delete``, ``move``, or ``use`` if the agent does not say)
    and the path as the agent wrote it; a move has both paths. Of a call that is not completed, what it was about to do.
    """

    turn: int
    call: str
    stamp: str = field(name="at")  # as the tables of calls have it
    title: str
    name: str
    kind: str
    command: str
    result: Result
    files: tuple[tuple[str, str], ...]


class SessionEdits(Struct, frozen=True):
    """What a transcript says about changes of files, in the order in which the calls ended."""

    edits: list[Edit]
    unclear: list[Unclear]
    prompts: dict[int, str]
    """The text of each turn's prompt."""
    starts: dict[int, str]
    """When each turn began."""


def read_edits(reader: TranscriptReader, open_child: OpenChild | None = None) -> SessionEdits:
    """The edits of a transcript. ``open_child``: opens those of subagents, which belong to the turn. Raises OSError."""
    edit_reader = EditReader()
    _read_into(edit_reader, reader, open_child, set())
    return edit_reader.finish()


def _read_into(
    edit_reader: "EditReader",
    reader: TranscriptReader,
    open_child: OpenChild | None,
    read_children: set[str],
    turn: int = 0,
) -> None:
    """Add all entries of a transcript to ``edit_reader``, and those of its subagents.

    ``read_children``: the ids of subagents that were read already. ``turn``: the turn of the parent to which everything
    belongs; 0: count turns here.
    """
    for number, entry in read_numbered(reader):
        subagent = edit_reader.add(
            turn or number, entry, scope=reader.header.session_id if turn and reader.header else ""
        )
        if subagent is not None and open_child is not None and subagent not in read_children:
            read_children.add(subagent)
            with open_child(subagent) as inner_reader:
                if inner_reader is not None:
                    _read_into(edit_reader, inner_reader, open_child, read_children, turn or number or 1)


def read_numbered(
    reader: TranscriptReader, lines: Iterable[Line | AlikeLines] | None = None
) -> Iterator[tuple[int, Entry]]:
    """The entries with the numbers of their turns, as a conversation has both. Without lines alike, which are only
    words. ``lines``: those of ``reader``, from a caller who measures them. Raises OSError."""
    ordered = order_turns(reader.read_alike() if lines is None else lines, reader.find_last_lines)
    whole_lines = (line for line in read_as_v1(ordered) if isinstance(line, Line))
    return ((number, line.entry) for number, line in number_turns(whole_lines) if line.entry is not None)


class EditReader:
    """Takes the entries of a transcript in order."""

    def __init__(self) -> None:
        self._calls: dict[str, _Call] = {}
        self._calls_in_order: list[_Call] = []
        self._permission_requests: dict[tuple[str, bytes], tuple[_Call, object]] = {}
        """By run and request id: the call that a permission request is about, and the request's options."""
        self._open_turns: dict[tuple[str, bytes], int] = {}
        """By run and request id: the turn of a prompt without an answer."""
        self._prompts: dict[int, str] = {}
        self._starts: dict[int, str] = {}
        self._entry_count = 0

    def add(self, turn: int, entry: Entry, scope: str = "") -> str | None:
        """Add an entry of a turn. Returns the id of a subagent that it names. ``scope``: of a subagent's calls."""
        self._entry_count += 1
        if turn:
            self._starts.setdefault(turn, entry.at)
        method, params = acp.text(entry.value, "method"), acp.member(entry.value, "params")
        if entry.note is not None:
            return None
        if entry.peer is Peer.CLIENT:
            if method == acp.PROMPT and not scope:
                self._prompts[turn] = _join_texts(acp.member(params, "prompt"))
                self._open_turns[entry.request_key] = turn
            elif entry.answered_method == acp.REQUEST_PERMISSION:
                self._add_permission(entry)
        elif entry.answered_method == acp.PROMPT:
            self._open_turns.pop(entry.request_key, None)
        elif method == acp.REQUEST_PERMISSION:
            call = self._add_to_call(turn, entry, acp.member(params, "toolCall"), scope)
            if call is not None:
                self._permission_requests[entry.request_key] = call, acp.member(params, "options")
        elif method == acp.UPDATE:
            update = acp.member(params, "update")
            kind = acp.update_kind(update)
            if kind in update_kinds.V1_CALLS:
                self._add_to_call(turn, entry, update, scope)
            elif kind == update_kinds.SUBAGENT:
                return acp.session_id(update)
            elif kind == update_kinds.USER_CHUNK and not scope:
                self._prompts.setdefault(turn, acp.text(acp.member(update, "content"), "text") or "")
        return None

    def finish(self) -> SessionEdits:
        """Everything so far."""
        edits: list[Edit] = []
        unclear: list[Unclear] = []
        seen: set[tuple[object, ...]] = set()
        for call in sorted(self._calls_in_order, key=lambda call: call.completed_entry or call.first_entry):
            call_edits = call.list_edits()
            # A replay may repeat an old call in a later turn, with its id and the same words: that is no second edit.
            content = (call.key, *((edit.path, edit.form, edit.old, edit.new) for edit in call_edits))
            if call_edits and content in seen:
                continue
            seen.add(content)
            edits += call_edits
            if (unclear_call := call.find_unclear(call_edits)) is not None:
                unclear.append(unclear_call)
        return SessionEdits(edits, unclear, self._prompts, self._starts)

    def list_calls(self) -> list[CallSummary]:
        """What each call did, in the order in which they began."""
        return [call.summarize() for call in self._calls_in_order]

    def find_start(self, turn: int) -> str:
        """When a turn began; empty if it did not."""
        return self._starts.get(turn, "")

    def _add_to_call(self, turn: int, entry: Entry, statement: object, scope: str) -> "_Call | None":
        """Add what an entry states about a call."""
        id = acp.text(statement, "toolCallId")
        if id is None or not isinstance(statement, Mapping):
            return None
        key = f"{scope}\n{id}"
        call = self._calls.get(key)
        if call is None or (call.turn != turn and self._begins_another(call, entry, statement)):
            call = self._calls[key] = _Call(key, id, turn, entry.at, self._entry_count)
            self._calls_in_order.append(call)
        call.add_statement(statement, entry.at, self._entry_count)
        return call

    def _begins_another(self, call: "_Call", entry: Entry, statement: object) -> bool:
        """Whether what an entry of another turn states is about another call, with the same id as this one.

        Some agents begin to count their calls again in every turn or connection, whatever became of the earlier ones.
        """
        if acp.text(entry.value, "method") == acp.REQUEST_PERMISSION:  # the next prompt may wait until this call ends
            is_turn_open = any(run == entry.run and turn == call.turn for (run, _), turn in self._open_turns.items())
            return call.is_over or not is_turn_open
        # In version 2, no kind of update is a beginning; what has a title is one, if the earlier call is over.
        is_beginning = acp.update_kind(statement) == update_kinds.TOOL_CALL
        return is_beginning or (call.is_over and acp.text(statement, "title") is not None)

    def _add_permission(self, entry: Entry) -> None:
        open_request = self._permission_requests.pop(entry.request_key, None)
        if open_request is None:
            return
        call, options = open_request
        outcome = acp.member(acp.member(entry.value, "result"), "outcome")
        chosen = acp.text(outcome, "optionId")
        kinds = [
            acp.text(option, "kind") or ""
            for option in _iterate_list(options)
            if acp.text(option, "optionId") == chosen
        ]
        call.is_denied = acp.text(outcome, "outcome") == "cancelled" or any(kind.startswith("reject") for kind in kinds)


_Change = tuple[str | None, str | None]
"""The old and the new text of a diff. None: there is no file."""


class _Call:
    """All that a transcript states about one tool call."""

    def __init__(self, key: str, id: str, turn: int, stamp: str, first_entry: int) -> None:
        self.key = key
        self.turn = turn
        self.first_entry = first_entry
        self.completed_entry = 0
        """The number of the entry that completed it first."""
        self.is_denied = False
        self._id = id
        self._stamp = stamp
        self._title = id
        self._first_title = ""
        self._name = match[1] if (match := _GEMINIS_ID.fullmatch(id)) else ""
        self._kind = self._status = ""
        self._exit_code = 0
        self._paths: tuple[str, ...] = ()
        self._lines: dict[str, int] = {}
        """The last line of each file at which it states to be."""
        self._changes: dict[str, list[_Change]] = {}
        self._sent_as_hunks: set[str] = set()
        """The files of which it has sent parts, and said so."""
        self._deleted: set[str] = set()
        self._moved_from: dict[str, str] = {}
        """The files that it edits after it has moved them, and where they were."""
        self._inputs: list[object] = []
        self._text_before: str | None = None
        """The whole text of the only file that it edits, before that."""

    @property
    def is_over(self) -> bool:
        return self.is_denied or self._status in (COMPLETED, FAILED)

    def add_statement(self, statement: Mapping[str, object], stamp: str, number: int) -> None:
        """Add what an update or a request states. Absent and null members change nothing."""
        self._title = acp.text(statement, "title") or self._title
        self._first_title = self._first_title or self._title
        self._name = _read_name(statement) or self._name
        self._kind = acp.text(statement, "kind") or self._kind
        if (raw_input := statement.get("rawInput")) is not None:
            self._inputs.append(raw_input)
        for output in (statement.get("rawOutput"), statement.get("_meta")):
            self._text_before = next((text for text in _iterate_whole_before(output, _MOST_DEPTH)), self._text_before)
            self._exit_code = next(_iterate_exit_codes(output, _MOST_DEPTH), self._exit_code)
        for input_or_output in (statement.get("rawInput"), statement.get("rawOutput")):
            for file, is_deleted, target in _iterate_patch(input_or_output):
                if is_deleted:
                    self._deleted.add(file)
                elif target:
                    self._moved_from[target] = file
        if isinstance(locations := statement.get("locations"), list):
            self._paths = (
                tuple(dict.fromkeys(path for location in locations if (path := acp.text(location, "path"))))
                or self._paths
            )
            for location in locations:
                path, line = acp.text(location, "path"), acp.member(location, "line")
                if path and isinstance(line, int):
                    self._lines[path] = max(line, self._lines.get(path, 0))
        changes = _read_diffs(statement.get("content"))
        if changes:
            self._changes = {path: _merge_diffs(self._changes.get(path), diffs) for path, diffs in changes.items()}
        self._sent_as_hunks |= {
            acp.text(item, "path") or "" for item in acp.items(statement, "content") if is_hunk(item)
        }
        if status := acp.text(statement, "status"):
            self._status = status
        if status == COMPLETED and not self.completed_entry:
            self.completed_entry, self._stamp = number, stamp

    def list_edits(self) -> list[Edit]:
        """What it changed; nothing if it failed, was denied, or has not ended."""
        if self._status != COMPLETED or self.is_denied:
            return []
        if self._kind == "move" and not self._changes and len(self._paths) == 2:
            return [self._make_edit(self._paths[1], "move", source=self._paths[0])]
        if self._kind == "delete":
            olds = {path: changes[0][0] for path, changes in self._changes.items()}
            return [self._make_edit(path, "delete", old=olds.get(path)) for path in olds or dict.fromkeys(self._paths)]
        edits = []
        for path, changes in self._changes.items():
            if source := self._moved_from.get(path):
                edits.append(self._make_edit(path, "move", source=source))
            if (whole := self._find_whole_texts(changes)) is not None:
                changes = [whole]
            for old, new in changes:
                # More than one diff of a file are its hunks. What the model gave the tool to look for is what the tool
                # replaced, not the file. And a text that ends before the stated line is not the whole file.
                is_stated = len(changes) > 1 or path in self._sent_as_hunks
                is_part = is_stated or (
                    bool(old)
                    and (
                        any(_has_both(call_input, old or "", new) for call_input in self._inputs)
                        or self._lines.get(path, 0) > 1 + max(_count_lines(old), _count_lines(new))
                    )
                )
                is_deleted = new is None or (path in self._deleted and not new)
                form: Form = "delete" if is_deleted else "part" if is_part else "whole"
                edits.append(self._make_edit(path, form, old=old, new=None if is_deleted else new))
        return edits

    def _find_whole_texts(self, changes: list[_Change]) -> _Change | None:
        """The whole text before and after, if the agent has sent the one before, and each change fits there once."""
        if self._text_before is None or len(self._changes) != 1:
            return None
        after = self._text_before
        for old, new in changes:
            if not old or new is None:
                return (self._text_before, new) if len(changes) == 1 else None
            if after.count(old) != 1:
                return None
            after = after.replace(old, new)
        return self._text_before, after

    def find_unclear(self, edits: list[Edit]) -> Unclear | None:
        """What it did without a diff, if it may have changed files."""
        if edits or self.is_denied:
            return None
        if self._kind == "execute" and not self._changes:  # also one that failed: it may have written before
            return Unclear(self.turn, self._id, self._find_command(), self._stamp, (), "command")
        if self._status == FAILED or (not self._changes and self._kind not in _EDIT_KINDS):
            return None
        cause: Cause = "no-diff" if self._status == COMPLETED else "unfinished"
        return Unclear(self.turn, self._id, self._title, self._stamp, tuple(self._changes) or self._paths, cause)

    def summarize(self) -> CallSummary:
        result: Result = "unfinished"
        if self.is_denied:
            result = "denied"
        elif self._status == FAILED or (self._status == COMPLETED and self._kind == "execute" and self._exit_code):
            result = "failed"
        elif self._status == COMPLETED:
            result = "completed"
        command = self._find_command() if self._kind == "execute" else ""
        files = tuple(dict.fromkeys(self._iterate_files()))
        name = self._name
        if not name and self._first_title != self._title and _WORD.fullmatch(self._first_title):
            name = self._first_title  # OpenCode begins a call under its tool's name, and says later what it does
        return CallSummary(self.turn, self._id, self._stamp, self._title, name, self._kind, command, result, files)

    def _iterate_files(self) -> Iterator[tuple[str, str]]:
        edits = self.list_edits()
        for edit in edits:
            # For most agents, a file that is not there has an empty text.
            is_new = edit.form == "whole" and not edit.old
            yield "create" if is_new else _ACTIONS[edit.form], edit.path
            if edit.source:
                yield "move", edit.source
        if not edits:
            action = self._kind if self._kind in _EDIT_KINDS or self._kind == "read" else "use"
            yield from (("edit" if action == "use" else action, path) for path in self._changes)
            yield from ((action, path) for path in self._paths if path not in self._changes)

    def _find_command(self) -> str:
        return next((text for call_input in self._inputs if (text := read_command(call_input))), self._title)

    def _make_edit(
        self, path: str, form: Form, *, old: str | None = None, new: str | None = None, source: str = ""
    ) -> Edit:
        is_all = form == "part" and any(_asks_for_all(call_input) for call_input in self._inputs)
        return Edit(self.turn, self._id, self._title, self._stamp, path, form, old, new, source, is_all)


def _read_name(stated: Mapping[str, object]) -> str | None:
    """The tool's name. Agents put it beside the title, into ``_meta``, or into an object of their own there."""
    meta = stated.get("_meta")
    places = (meta, *meta.values()) if isinstance(meta, Mapping) else ()
    names = (acp.text(place, name) for place in places for name in _TOOL_NAMES)
    return acp.text(stated, "name") or next(filter(None, names), None)


def _read_diffs(content: object) -> dict[str, list[_Change]]:
    """The diffs in a call's content, by path."""
    diffs: dict[str, list[_Change]] = {}
    for item in _iterate_list(content):
        path, new = acp.text(item, "path"), acp.text(item, "newText")
        if acp.text(item, "type") == "diff" and path and new is not None:
            # The protocol cannot say that a file is deleted. Codex and Gemini say it so, because Zed reads it.
            is_deleted = not new and acp.text(acp.member(item, "_meta"), "kind") == "delete"
            change = acp.text(item, "oldText"), None if is_deleted else new
            if change not in diffs.setdefault(path, []):
                diffs[path].append(change)
    return diffs


def _iterate_patch(raw: object) -> Iterator[tuple[str, bool, str]]:
    """Of each file in ``_PATCH_MEMBER``: its path, whether it is deleted, and where it is moved; empty: nowhere."""
    stated = acp.member(raw, _PATCH_MEMBER)
    for path, change in stated.items() if isinstance(stated, Mapping) else ():
        yield path, acp.text(change, "type") == "delete", acp.text(change, "move_path") or ""


def _merge_diffs(before: list[_Change] | None, after: list[_Change]) -> list[_Change]:
    """What counts of two statements about one file: the later one, unless it repeats a part of the earlier one."""
    if before is None or len(before) != 1 or before == after:
        return after
    old, new = before[0]
    if old is None or new is None:
        return after
    text = old
    for part_old, part_new in after:
        if not part_old or part_new is None or part_old not in text:
            return after
        ways = {text.replace(part_old, part_new), _replace_to_get(text, part_old, part_new, new)}
        text = new if new in ways else text.replace(part_old, part_new, 1)
    return before if text == new else after


def _replace_to_get(text: str, old: str, new: str, wanted: str) -> str:
    """The text with the one occurrence of ``old`` replaced that gives ``wanted``; else the text."""
    head, end = 0, min(len(text), len(wanted))
    while head < end:  # the length of the common beginning, without a step for each character
        middle = (head + end + 1) // 2
        head, end = (middle, end) if text[head:middle] == wanted[head:middle] else (head, middle - 1)
    start = text.find(old, max(0, head - len(old)))
    while 0 <= start <= head:
        if (made := text[:start] + new + text[start + len(old) :]) == wanted:
            return made
        start = text.find(old, start + 1)
    return text


def _count_lines(text: str | None) -> int:
    return (text or "").count("\n") + 1


def _has_both(value: object, old: str | None, new: str | None) -> bool:
    """Whether an object in a tool's input has both texts as members."""
    return bool(old) and any(old in texts and new in texts for texts in _iterate_texts(value, _MOST_DEPTH))


def _iterate_texts(value: object, depth: int) -> Iterator[list[object]]:
    if depth and isinstance(value, Mapping):
        yield [text for text in value.values() if isinstance(text, str)]
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    for inner_value in inner if depth else ():
        yield from _iterate_texts(inner_value, depth - 1)


def _iterate_whole_before(value: object, depth: int) -> Iterator[str]:
    """The texts of ``_MEMBERS_WITH_TEXT_BEFORE`` in a value."""
    if not isinstance(value, Mapping) or not depth:
        return
    yield from (text for name in _MEMBERS_WITH_TEXT_BEFORE if isinstance(text := value.get(name), str))
    for inner_value in value.values():
        yield from _iterate_whole_before(inner_value, depth - 1)


def _iterate_exit_codes(value: object, depth: int) -> Iterator[int]:
    """The exit statuses in a value, the outermost first."""
    if not depth:
        return
    if isinstance(value, Mapping):
        yield from (code for name, code in value.items() if type(code) is int and _EXIT_CODE.fullmatch(name))
    for inner_value in value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ():
        yield from _iterate_exit_codes(inner_value, depth - 1)


def _asks_for_all(value: object) -> bool:
    return isinstance(value, Mapping) and any(
        _REPLACES_ALL.fullmatch(name) and member is True for name, member in value.items()
    )


def _iterate_list(value: object) -> Iterable[object]:
    return value if isinstance(value, list) else ()


def _join_texts(blocks: object) -> str:
    return "\n".join(text for block in _iterate_list(blocks) if (text := acp.text(block, "text")))
