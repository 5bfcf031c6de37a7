"""Says what was taken back of a conversation, and where a fork at a message ends. The one place that decides it.

A rewind takes back what follows its point. The transcript keeps that; nobody is shown it again, and nobody counts it as
missing. If it names no message that we know, or its point in a form that we cannot read, nobody knows what it takes
back: then the agent's replay is believed.

Sources. Forks: ``_meta.jetbrains.air.fork`` of claude-agent-acp 0.101 and codex-acp 2.6, ``_meta.claudeCode.rewindTo``
(claude-agent-acp, pull request 872), ``messageId`` (the protocol's draft "Forking sessions at a specific message").
Rewinds: ``session/rewind`` and ``history_truncated`` (the protocol's draft "Session Rewind", pull request 1321),
``_session/rewind`` (pull requests 966 and 1126 of claude-agent-acp, 508 of codex-acp). Never raises.
"""

import re
import sys
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter

from msgspec import Struct
from msgspec.structs import replace

from acp_proxy.protocol import acp, update_kinds, versions
from acp_proxy.protocol.jsonrpc import Peer
from acp_proxy.protocol.update_kinds import Role
from acp_proxy.transcript.file_format import Entry, NoteType, begins_new_session

REWIND_BYTES = (f'{acp.REWIND}"'.encode(), f'"{update_kinds.HISTORY_TRUNCATED}"'.encode())
"""Every line about a rewind contains one of these, of which the first is in both requests. Other lines may, too."""
_SEGMENT = re.compile(r":segment:\d+$")
"""What AIR adds to the id of a message of which it shows several parts."""
_FORK_MEMBERS = frozenset({"sessionId", "cwd", "mcpServers", "additionalDirectories", "systemPrompt"})
_POINT = re.compile(
    r"(message|turn|entry|checkpoint)_?(id|index|uuid|number)|rewind|up_?to|fork_?(at|point)",
    re.IGNORECASE,
)
"""Names of members that name a point of a conversation."""
_DEPTH_LIMIT = 8
_LAST_STAYING_MEMBERS = ("toMessageId", "lastMessageId", "messageId")
"""Members of ``history_truncated`` that may name the last message that stays. The draft has not settled it."""
_UNANSWERED = sys.maxsize
_WHOLE_TURNS = frozenset({"codex-acp"})
"""Agents that fork after the turn of the message, rather than after the message itself."""


class Point(Struct, frozen=True):
    """A place in a conversation: after the message with this id (``stays``), or before it; or after its whole turn."""

    message: str
    stays: bool = True
    is_whole_turn: bool = False


UNCLEAR = Point("")
"""A point in a form that we cannot read. No message has this id."""


def parse_fork_point(params: object) -> Point | None:
    """The point at which a fork is made, by its parameters; None: at the end."""
    meta = acp.member(params, "_meta")
    fork = acp.member(acp.member(acp.member(meta, "jetbrains"), "air"), "fork")
    ids = (
        acp.text(fork, "messageId") if acp.member(fork, "version") == 1 else None,
        acp.text(acp.member(meta, "claudeCode"), "rewindTo"),
        acp.text(params, "messageId"),
    )
    if id := next(filter(None, ids), None):
        return Point(id.strip())
    members = params.items() if isinstance(params, dict) else ()
    other_members = {key: value for key, value in members if key not in _FORK_MEMBERS}
    return UNCLEAR if fork is not None or _has_point(other_members) else None


def _has_point(value: object, depth: int = 0) -> bool:
    if not isinstance(value, Mapping) or depth == _DEPTH_LIMIT:
        return False
    names_point = (_POINT.search(key) and inner is not None for key, inner in value.items())
    return any(names_point) or any(_has_point(inner, depth + 1) for inner in value.values())


def fit_fork_point(point: Point, agent: object) -> Point:
    """The point as this agent takes it: after the message, or after its whole turn. ``agent``: the agent's name."""
    name = agent.rpartition("/")[2] if isinstance(agent, str) else ""
    return replace(point, is_whole_turn=name in _WHOLE_TURNS)


def encode_ids(ids: Mapping[tuple[str, bytes], str]) -> list[list[str]]:
    """The ids of the user's messages in an agent's replay, by ``Entry.request_key``, as the note of that has them."""
    return [[id, run, request.decode()] for (run, request), id in ids.items()]


def read_given_ids(note: Mapping[str, object]) -> dict[tuple[str, bytes], str]:
    """The ids that ``encode_ids`` has put into the note of a replay, by ``Entry.request_key``."""
    ids = {}
    for user in acp.items(note, "users"):
        match user:
            case [str(id), str(run), str(request)]:
                ids[run, request.encode()] = id
    return ids


def is_rewind(entry: Entry) -> bool:
    """Whether the agent says in this entry that it has taken back a part of the conversation."""
    if entry.peer is not Peer.AGENT:
        return False
    if entry.answered_method in acp.REWINDS:
        result = acp.member(entry.value, "result")
        if entry.answered_method == acp.REWIND:
            return acp.member(entry.value, "error") is None
        return any(acp.member(value, "rewound") is True for value in (result, acp.member(result, "conversation")))
    return _find_truncation(entry) is not None


def _find_truncation(entry: Entry) -> object:
    if acp.text(entry.value, "method") != acp.UPDATE:
        return None
    update = acp.member(acp.member(entry.value, "params"), "update")
    return update if acp.update_kind(update) == update_kinds.HISTORY_TRUNCATED else None


def _read_point(params: object) -> Point:
    """The point of a request in ``acp.REWINDS``."""
    if (id := acp.text(params, "toMessageId")) is not None:
        return Point(id)
    id = acp.text(acp.member(params, "beforeMessage"), "messageId") or acp.text(params, "messageId")
    return Point(id.strip(), stays=False) if id is not None else UNCLEAR


class _Turn:
    def __init__(self, end: int) -> None:
        self.end = end


class _Message:
    def __init__(self, start: int, end: int, turn: _Turn) -> None:
        self.start, self.end, self.turn = start, end, turn
        self.line_end = end
        self.answer_end = 0
        """Of a prompt: the offset after its answer, or ``_UNANSWERED``."""


class Messages:
    """The messages of a transcript and their places, as far as its entries were added. A user message has the ids of
    the prompt's echo, of the answer to the prompt, and of our own replay. The end of a message's turn belongs to it, if
    nothing of the conversation comes between."""

    def __init__(self) -> None:
        self._by_id: dict[str, _Message] = {}
        self._turn = _Turn(0)
        self._last_message: _Message | None = None
        self._unechoed_prompt: _Message | None = None
        """The last prompt, if the agent has sent nothing of the conversation since."""
        self._prompts: dict[tuple[str, bytes], _Message] = {}
        """By ``Entry.request_key``: what the client said."""

    def add(self, number: int, start: int, end: int, entry: Entry) -> None:
        """Add the next entry: its line's number, and the offsets of its line."""
        method, params = acp.text(entry.value, "method"), acp.member(entry.value, "params")
        if entry.note is not None:
            ids = read_given_ids(entry.note) if entry.note.get("type") == NoteType.REPLAY else {}
            self._by_id |= {id: self._prompts[prompt] for prompt, id in ids.items() if prompt in self._prompts}
        elif entry.peer is Peer.CLIENT:
            if method in (acp.PROMPT, acp.STEERING):
                self._add_prompt(number, start, end, entry, params, begins_turn=method == acp.PROMPT)
        elif entry.answered_method == acp.PROMPT:
            self._add_answer(end, entry)
        elif entry.peer is Peer.AGENT and method == acp.UPDATE:
            self._add_update(start, end, acp.member(params, "update"))

    def add_chunks(self, end: int) -> None:
        """Add more chunks of the message that was added last, up to this offset."""
        self._turn.end = end
        if self._last_message is not None:
            self._last_message.end = end

    def find_offset(self, point: Point) -> int | None:
        """The offset of a point; None if there is no such message."""
        message = self._find(point)
        if message is None:
            return None
        return (message.turn.end if point.is_whole_turn else message.end) if point.stays else message.start

    def find_start(self, point: Point) -> int:
        """The offset at which a point's message begins; 0 if there is none."""
        message = self._find(point)
        return message.start if message is not None else 0

    def find_queued(self, offset: int, counts: Callable[[int], bool]) -> list[tuple[int, int]]:
        """The offsets of the lines of the prompts that waited, at this offset, for the end of the turn under way.
        ``counts``: whether a prompt does whose line begins at an offset. Empty if that turn has no answer: then nobody
        knows which of the prompts began it."""
        prompts = [
            prompt
            for prompt in self._prompts.values()
            if prompt.start < offset <= prompt.answer_end and counts(prompt.start)
        ]
        running = min(prompts, key=lambda prompt: prompt.answer_end, default=None)
        if running is None or running.answer_end == _UNANSWERED:
            return []
        return [(prompt.start, prompt.line_end) for prompt in prompts if prompt.start > running.start]

    def forget(self, spans: Sequence[tuple[int, int]]) -> None:
        """Forget the messages that begin in these spans: they were taken back."""

        def stays(message: _Message) -> bool:
            return not any(start <= message.start < end for start, end in spans)

        self._by_id = {id: message for id, message in self._by_id.items() if stays(message)}
        self._prompts = {prompt: message for prompt, message in self._prompts.items() if stays(message)}
        self._last_message = self._unechoed_prompt = None

    def _find(self, point: Point) -> _Message | None:
        return self._by_id.get(point.message) or self._by_id.get(_SEGMENT.sub("", point.message))

    def _add_prompt(
        self, number: int, start: int, end: int, entry: Entry, params: object, *, begins_turn: bool
    ) -> None:
        self._turn = _Turn(end) if begins_turn else self._turn
        self._turn.end = end
        self._last_message = prompt = _Message(start, end, self._turn)
        self._by_id[f"acp-proxy-{entry.run}-{number}"] = prompt
        if (id := acp.text(params, "messageId")) is not None:
            self._by_id[id] = prompt
        self._prompts[entry.request_key] = prompt
        if begins_turn:
            self._unechoed_prompt, prompt.answer_end = prompt, _UNANSWERED

    def _add_answer(self, end: int, entry: Entry) -> None:
        prompt = self._prompts.get(entry.request_key)
        result = acp.member(entry.value, "result")
        for key in ("messageId", "userMessageId"):
            if prompt is not None and (id := acp.text(result, key)) is not None:
                self._by_id[id] = prompt
        if entry.protocol_version == versions.V1.version:
            self._end_turn(end)
            if prompt is not None:
                prompt.answer_end = end

    def _end_turn(self, end: int) -> None:
        self._turn.end = end
        if self._last_message is not None:
            self._last_message.end, self._last_message = end, None

    def _add_update(self, start: int, end: int, update: object) -> None:
        kind, id = acp.update_kind(update), acp.text(update, "messageId")
        if kind == update_kinds.WORK_STATE and versions.V2.read_work_state(update) != versions.BUSY:
            self._end_turn(end)
        if kind is None or not update_kinds.is_conversation(kind):
            return
        self._turn.end = end
        message = self._by_id.get(id) if id is not None else None
        is_users = update_kinds.find(kind).role is Role.USER
        if is_users and self._unechoed_prompt is not None:
            message = self._unechoed_prompt
        elif not is_users:
            self._unechoed_prompt = None
        if message is None or message.turn is not self._turn:
            message = _Message(start, end, self._turn) if id is not None else None
        if message is not None:
            message.end = end
            if id is not None:
                self._by_id[id] = message
        self._last_message = message


class _AgentSessions:
    """Which of the agent's sessions the parts of a transcript are about. After a handover, one window goes on in a new
    session of the agent, and another one perhaps in the old one, which has nothing of that."""

    def __init__(self) -> None:
        self._parts: list[tuple[int, int, int | None]] = []
        """The offsets of the parts, each with the number of its session; None: it is one of several."""
        self._by_run: dict[str, int | None] = {}
        self._count = 0
        self._latest: int | None = 0
        """The number of the session that a new process asks for."""

    def add(self, start: int, end: int, entry: Entry) -> None:
        """Add the next entry, and the offsets of its line."""
        note = entry.note or {}
        session = self._by_run.get(entry.run, self._latest)
        if begins_new_session(note):
            self._count += 1
            session = self._count
        elif note.get("type") == NoteType.OPENED and session != self._latest:  # the agent may have refused that one
            session = None
        elif note.get("type") == NoteType.HANDOVER:
            self._latest = session
        self._by_run[entry.run] = session
        if self._parts and self._parts[-1][2] == session:
            start = self._parts.pop()[0]
        self._parts.append((start, end, session))

    def add_chunks(self, end: int) -> None:
        """Add more lines of the last entry's session, up to this offset."""
        if self._parts:
            start, _, session = self._parts.pop()
            self._parts.append((start, end, session))

    def may_be_one(self, offset: int, other_offset: int) -> bool:
        """Whether the lines that begin at two offsets may be of one session."""
        sessions = [self._find(each) for each in (offset, other_offset)]
        return None in sessions or sessions[0] == sessions[1]

    def find_spans(self, line_start: int, start: int, end: int) -> list[tuple[int, int]]:
        """The parts between these offsets that may be of the session of the line that begins at ``line_start``."""
        return [
            (max(start, part_start), min(end, part_end))
            for part_start, part_end, _ in self._parts
            if part_start < end and start < part_end and self.may_be_one(line_start, part_start)
        ]

    def _find(self, offset: int) -> int | None:
        count = bisect_right(self._parts, offset, key=itemgetter(0))
        return self._parts[count - 1][2] if count else None


class Rewinds:
    """What was taken back in a transcript whose entries are added in order."""

    def __init__(self) -> None:
        self._messages = Messages()
        self._sessions = _AgentSessions()
        self._open_rewinds: dict[tuple[str, bytes], tuple[Point, int | None]] = {}
        """Open requests: the point, and where the prompt begins that followed the request, if one did."""
        self._spans: list[tuple[int, int]] = []
        self._rewind_ends: set[int] = set()
        """Where the lines end that say what was taken back. A damaged line may have other entries as well."""
        self._prompt_ends: dict[tuple[str, bytes], int] = {}
        """By ``Entry.request_key``: where the lines of prompts end."""

    def add(self, number: int, start: int, end: int, entry: Entry) -> None:
        """Add the next entry: its line's number, and the offsets of its line."""
        method = acp.text(entry.value, "method")
        if entry.peer is Peer.CLIENT and method in acp.REWINDS:
            self._open_rewinds[entry.request_key] = _read_point(acp.member(entry.value, "params")), None
        elif entry.peer is Peer.CLIENT and method == acp.PROMPT:
            self._prompt_ends[entry.request_key] = end
            self._open_rewinds = {
                key: (point, start if prompt_start is None else prompt_start)
                for key, (point, prompt_start) in self._open_rewinds.items()
            }
        elif entry.peer is Peer.AGENT and entry.answered_method in acp.REWINDS:
            point, span_end = self._open_rewinds.pop(entry.request_key, (UNCLEAR, None))
            if is_rewind(entry):
                self._take_back(point, start if span_end is None else span_end, end)
        elif (update := _find_truncation(entry)) is not None:
            last_id = next(filter(None, (acp.text(update, key) for key in _LAST_STAYING_MEMBERS)), "")
            self._take_back(Point(last_id), start, end)
        self._messages.add(number, start, end, entry)
        self._sessions.add(start, end, entry)

    def add_chunks(self, end: int) -> None:
        """Add more chunks of the message that was added last, up to this offset."""
        self._messages.add_chunks(end)
        self._sessions.add_chunks(end)

    @property
    def has_any(self) -> bool:
        """Whether anything is known to have been taken back."""
        return bool(self._rewind_ends)

    def has_taken_back(self, end: int, entry: Entry | None) -> bool:
        """Whether the line that ends at this offset was taken back, or says so itself. ``entry``: its entry; None: it
        is a chunk of a message.

        What does not belong to the conversation, such as notes, titles and modes, stays. So does the answer to a prompt
        that stays: its turn is over, whatever was taken back of it.
        """
        if entry is not None and end in self._rewind_ends and is_rewind(entry):
            return True
        if entry is not None and entry.answered_method == acp.PROMPT:
            end = self._prompt_ends.get(entry.request_key, end)
        if not any(start < end <= stop for start, stop in self._spans):
            return False
        if entry is None:
            return True
        if entry.note is not None:
            return False
        update = acp.member(acp.member(entry.value, "params"), "update")
        kind = acp.update_kind(update) if acp.text(entry.value, "method") == acp.UPDATE else None
        return kind is None or update_kinds.is_conversation(kind) or kind == update_kinds.HISTORY_TRUNCATED

    def _take_back(self, point: Point, span_end: int, end: int) -> None:
        """Take back what stands between a point and ``span_end``, and the prompts that waited at that point for the end
        of a turn, as far as they went to the agent's session that has the point. ``end``: of the line that says so."""
        span_start = self._messages.find_offset(point)
        if span_start is not None:
            message_start = self._messages.find_start(point)
            taken_back = self._sessions.find_spans(message_start, span_start, span_end)
            queued = self._messages.find_queued(
                span_start, lambda line_start: self._sessions.may_be_one(message_start, line_start)
            )
            self._spans += [*taken_back, *queued]
            self._rewind_ends.add(end)
            self._messages.forget(taken_back)
