"""Follows handovers: the agent's new session, the record that the next prompt carries, what the agent repeats of that,
and a prompt sent again.

A record waits until a prompt that carried it is answered with a result. Until then the transcript does not note the
handover, so the next process that opens the session hands it over again. If the agent loads a session and then refuses
its first prompt because it does not know the session, that prompt is sent again in a new one.

``handover_lines`` reads and makes the lines for that. ``transcript_replay/handover_record.py`` makes the record, of the
texts in ``transcript/handover_record_text.py``.
"""

import contextlib
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from acp_proxy.decisions import proxy_messages
from acp_proxy.decisions.effects import Effect, Forward
from acp_proxy.decisions.handover import handover_lines
from acp_proxy.decisions.load.load import Load
from acp_proxy.decisions.load.load_limits import HELD_BYTES_LIMIT
from acp_proxy.protocol import acp, json_splice, jsonrpc, update_kinds
from acp_proxy.protocol.jsonrpc import Notification, Peer, Request, RequestId
from acp_proxy.transcript.handover_record_text import HandoverRecordProgress

HANDOVER_LIMIT = 1000
"""The most handovers in one process. Each may hold a record of 64 KiB that waits for a prompt."""
ATTACHED_LIMIT = 8 * 1024 * 1024
"""The most bytes of images and files that wait with records."""
RESENT_LIMIT = 1024 * 1024
"""The most bytes of a prompt that can be sent again. The agent's refusal of a longer one passes."""


class HandoverRecordMatcher:
    """Finds what an agent repeats of a record that it was given.

    It is known by its form, since one of an earlier process can only be known by that: every line of it is one that
    only acp-proxy writes, or a quote, down to the line that ends it. Words that a user typed are cut only in a session
    that was handed over, and only if they have this form from the first line to the last: then nobody but acp-proxy
    wrote them, and nothing tells them from the record.
    """

    def __init__(self, attached: Sequence[bytes] | None) -> None:
        """``attached``: the blocks that followed it; None: it is of an earlier process, and they are not known."""
        self.is_from_this_process = attached is not None
        self._progress = HandoverRecordProgress()
        self._attached = [_identify_content(jsonrpc.parse(block)) for block in attached or ()]
        self._expected: list[tuple[object, ...]] = []
        """What is attached and may follow, since the record was repeated."""
        self._attached_left = 0
        """How many blocks were attached to a record of an earlier process. Nothing may come between."""
        self._has_just_ended = False

    def continues(self, text: str) -> bool:
        """Whether the text of a user chunk goes on with the record, after those given to ``remove_from_chunk``."""
        return self._progress.read(text) is not None

    def remove_from_chunk(self, text: str) -> str | None:
        """The text of a user chunk without the record; None: all of it is the record's if the rest of that follows.

        Agents echo prompts whole or in chunks; call it in order.
        """
        if self._has_just_ended:  # the empty line between the record and the user's words
            text = text.lstrip("\n")
        self.stop_expecting_attached()
        progress = self._progress.read(text)
        if progress is not None and progress.end is None:
            self._progress = progress
            return None
        self.start_over()
        return self._take_rest(progress, text) if progress is not None else text

    def start_over(self) -> None:
        """What came only began like the record, which may still come."""
        self._progress = HandoverRecordProgress()

    def remove_from_message(self, text: str) -> str:
        """The text of a whole user message, or of its first text block, without the record."""
        self.stop_expecting_attached()
        progress = HandoverRecordProgress().read(text)
        return self._take_rest(progress, text) if progress is not None and progress.end is not None else text

    def try_match_attached(self, block: object) -> bool:
        """Whether the content of a user chunk repeats what was attached to the record, after that. Each is repeated
        once."""
        if self._attached_left and acp.text(block, "type") != "text":
            self._attached_left -= 1
            return True
        if (content := _identify_content(block)) not in self._expected:
            return False
        self._expected.remove(content)
        return True

    def stop_expecting_attached(self) -> None:
        """Something else comes than what is attached to the record of an earlier process. What this process attached
        itself is known, and may still come."""
        self._attached_left, self._has_just_ended = 0, False

    def _take_rest(self, progress: HandoverRecordProgress, text: str) -> str:
        remaining = text[progress.end :].lstrip()
        self._expected = self._attached.copy()
        self._has_just_ended = not remaining
        if not self.is_from_this_process and not remaining:
            self._attached_left = progress.attached
        return remaining


class PendingHandoverRecord(NamedTuple):
    """A record that a session's next prompt carries. ``attached``: the blocks that follow it."""

    text: str
    attached: Sequence[bytes] = ()


class DeliveredHandoverRecord(NamedTuple):
    """A record that the agent has got. ``agent_id``: its id of the session's new one; None: its own has caught up."""

    agent_id: str | None


class SessionHandover:
    """What belongs to the handovers of one session."""

    def __init__(self) -> None:
        self.pending_record: PendingHandoverRecord | None = None
        """The record that the next prompt carries."""
        self.carrying_prompts: dict[RequestId, bool] = {}
        """The unanswered prompts that carry it, each with whether the client has cancelled it. Some agents never answer
        cancelled ones, and may forget the record."""
        self.awaits_record = False
        """The agent's session has not got its record yet."""
        self.agent_id: str | None = None
        """The agent's id of the new session that awaits it; None: the agent's own session only catches up."""
        self.matcher: HandoverRecordMatcher | None = None
        """The record that the agent was given and may repeat."""
        self.partial_lines: list[bytes] = []
        """The agent's last lines, if together they are a beginning of that record."""
        self.was_given_record = False
        """Whether the agent was given one, by this process or another. Then forks have it, too."""


class Handovers:
    """The handovers of one process. Sessions are known by our id unless said otherwise. What a method takes is
    forgotten."""

    def __init__(self) -> None:
        self.unwanted_ids: set[str] = set()
        """The agent's ids of sessions that it opened for cancelled loads, or for sessions that were deleted meanwhile.
        The client never sees them."""
        self._sessions: defaultdict[str, SessionHandover] = defaultdict(SessionHandover)
        """Those whose record was kept last come last."""
        self._partial_size = 0
        """The bytes of all partial lines."""
        self._asked_loads: dict[RequestId, Load] = {}
        self._asked_count = 0
        self._first_prompts: dict[str, tuple[Load, Request]] = {}
        """By session: the latest load and the first prompt after it."""
        self._resent_prompts: dict[str, tuple[RequestId, dict[str, bytes]]] = {}
        """By session: the id of a prompt that is sent again once a new session is open, and the lines of the client's
        cancels since it was refused, by method."""

    # --- a new session

    @property
    def awaits_new_session(self) -> bool:
        """Whether the agent was asked for a new session and has not answered."""
        return bool(self._asked_loads)

    @property
    def is_full(self) -> bool:
        """Whether this process cannot hand over any more sessions."""
        return self._asked_count == HANDOVER_LIMIT

    def ask_for_new_session(self, load: Load) -> Effect:
        """Ask the agent for a new session. Raises ValueError, KeyError if the load's parameters are not an object."""
        self._asked_count += 1
        id = RequestId(f'"{proxy_messages.OWN_IDS}{self._asked_count}"')
        line = handover_lines.encode_new_session(id, load.request)
        self._asked_loads[id] = load
        return Forward(Peer.AGENT, line, is_own=True)

    def take_load_asked_for(self, id: RequestId | None) -> Load | None:
        """The load for which acp-proxy sent this request, or None. The request counts as answered from now on."""
        return self._asked_loads.pop(id, None) if id is not None else None

    def forget_asked_loads(self) -> None:
        """The agent has ended, and its answers will not come."""
        self._asked_loads.clear()

    def take_all_partial_lines(self) -> list[bytes]:
        """The lines of all sessions that only began like a record. None is held from now on."""
        for session in self._sessions.values():
            session.matcher = None
        return [line for session_id in self._sessions for line in self.take_partial_lines(session_id)]

    def begin_handover(self, session_id: str, agent_id: str) -> None:
        """The session continues in another one of the agent, which awaits its record. ``agent_id``: its id."""
        session = self._sessions[session_id]
        session.awaits_record, session.agent_id, session.carrying_prompts = True, agent_id, {}

    def begin_catching_up(self, session_id: str) -> None:
        """The agent's own session will get a record of what other machines recorded."""
        session = self._sessions[session_id]
        session.awaits_record, session.agent_id = True, None

    # --- the record

    def awaits_handover_record(self, session_id: str) -> bool:
        """Whether the agent's session has not got its record yet."""
        return session_id in self._sessions and self._sessions[session_id].awaits_record

    def keep_handover_record(self, session_id: str, handover_record: str, attached: Sequence[bytes] = ()) -> None:
        """Keep the record for the session's next prompt. Empty: nothing was said, so the prompt goes out unchanged.

        ``attached``: blocks that follow it. If too many bytes of them wait, those of the oldest record are dropped.
        """
        session = self._sessions.pop(session_id, SessionHandover())
        session.pending_record = PendingHandoverRecord(handover_record, attached)
        self._sessions[session_id] = session
        carried_records = [
            (other, other.pending_record) for other in self._sessions.values() if other.pending_record is not None
        ]
        waiting_size = sum(len(block) for _, carried in carried_records for block in carried.attached)
        for other, carried in carried_records:
            if waiting_size <= ATTACHED_LIMIT:
                break
            other.pending_record = PendingHandoverRecord(carried.text)
            waiting_size -= sum(map(len, carried.attached))

    def has_pending_handover_record(self, session_id: str) -> bool:
        """Whether the session's next prompt will carry a record that says something."""
        session = self._sessions.get(session_id)
        return session is not None and session.pending_record is not None and bool(session.pending_record.text)

    def forget_session(self, session_id: str) -> None:
        """Forget a session, since it was deleted."""
        self.take_partial_lines(session_id)
        self._sessions.pop(session_id, None)
        self._first_prompts.pop(session_id, None)
        self._resent_prompts.pop(session_id, None)

    def add_handover_record(self, line: bytes, prompt: Request, session_id: str) -> bytes:
        """A prompt's line with the record before the user's blocks; unchanged for a slash command, if no record waits,
        or while an earlier prompt carries it that was not cancelled. ``prompt``: the same line, parsed."""
        session = self._sessions.get(session_id)
        if session is None or session.pending_record is None or not all(session.carrying_prompts.values()):
            return line
        text, attached = session.pending_record
        if text and handover_lines.is_slash_command(acp.member(prompt.params, "prompt")):
            return line
        with contextlib.suppress(ValueError, KeyError):  # not a valid prompt: the agent will refuse it
            if text:
                line = handover_lines.with_handover_record(line, text, attached)
                session.matcher, session.was_given_record = HandoverRecordMatcher(attached), True
            session.carrying_prompts[prompt.id] = False
        return line

    def handle_turn_cancel(self, session_id: str, line: bytes) -> None:
        """The client cancels the session's turn, so its next prompt carries the record again. ``line``: the
        ``session/cancel``, which follows a prompt that is sent again."""
        if (session := self._sessions.get(session_id)) is not None:
            session.carrying_prompts = dict.fromkeys(session.carrying_prompts, True)
        if session_id in self._resent_prompts:
            self._resent_prompts[session_id][1][acp.CANCEL] = line

    def take_delivered_record(
        self, session_id: str, prompt_id: RequestId | None, *, succeeded: bool
    ) -> DeliveredHandoverRecord | None:
        """A turn has ended, with the answer to ``prompt``; None: that of the session's oldest prompts, without one.
        Returns the record that it has delivered with that, if there is one."""
        session = self._sessions.get(session_id)
        carrying_prompts = session.carrying_prompts if session is not None else {}
        prompt_id = prompt_id or next(iter(carrying_prompts), None)
        if session is None or prompt_id is None or carrying_prompts.pop(prompt_id, None) is None or not succeeded:
            return None
        session.pending_record = None
        if not session.awaits_record:
            return None
        session.awaits_record = False
        return DeliveredHandoverRecord(session.agent_id)

    def may_repeat_handover_record(self, session_id: str) -> bool:
        """Whether the agent was given a record of this session, so that its updates may repeat it."""
        return session_id in self._sessions and self._sessions[session_id].matcher is not None

    def expect_handover_record(self, session_id: str, *, handed_over_again: bool) -> None:
        """This or another process gave the agent a record of this session, which a replay may contain.

        ``handed_over_again``: another one did so after this process had handed the session over, so the record that
        this process knows by its text is not in the agent's session.
        """
        session = self._sessions[session_id]
        if handed_over_again or session.matcher is None:
            session.matcher = HandoverRecordMatcher(None)
        session.was_given_record = True

    def expect_handover_record_of_fork(self, fork: str, parent: str) -> bool:
        """The agent forks a session. If it was given a record of that, the fork has it, too, as from another process.
        Returns whether it was."""
        was_given_record = parent in self._sessions and self._sessions[parent].was_given_record
        if was_given_record:
            self.expect_handover_record(fork, handed_over_again=False)
        return was_given_record

    def stop_expecting_earlier_handover_record(self, session_id: str) -> None:
        """The agent replays nothing more of this session: a record of an earlier process comes no more."""
        session = self._sessions.get(session_id)
        if session is None or session.matcher is None or session.partial_lines:
            return
        if not session.matcher.is_from_this_process:
            session.matcher = None

    @property
    def holds_partial_lines(self) -> bool:
        """Whether lines wait since they may begin a record."""
        return self._partial_size > 0

    def take_partial_lines(self, session_id: str) -> list[bytes]:
        """The agent's lines that only began like the session's record."""
        if (session := self._sessions.get(session_id)) is None:
            return []
        lines, session.partial_lines = session.partial_lines, []
        self._partial_size -= sum(map(len, lines))
        return lines

    def remove_handover_record(self, session_id: str, line: bytes, message: Notification) -> list[bytes]:
        """An update without what it repeats of the record, after lines that only began like that.

        While the agent's user chunks are a beginning of the record, they wait: ``take_partial_lines`` has
        them.
        """
        session = self._sessions[session_id]
        if (matcher := session.matcher) is None:
            return [line]
        update = acp.member(message.params, "update")
        kind, content = acp.update_kind(update), acp.member(update, "content")
        text = acp.text(content, "text") if kind == update_kinds.USER_CHUNK else None
        taken_lines: list[bytes] = []
        if kind != update_kinds.USER_CHUNK:
            matcher.stop_expecting_attached()
        if text is None or not matcher.continues(text):
            matcher.start_over()
            taken_lines = self.take_partial_lines(session_id)
        if text is None:
            is_left_out = kind == update_kinds.USER_CHUNK and matcher.try_match_attached(content)
            return taken_lines if is_left_out else [*taken_lines, *_remove_from_whole(line, kind, matcher)]
        if (words := matcher.remove_from_chunk(text)) == text:
            return [*taken_lines, line]
        if words is not None:
            self.take_partial_lines(session_id)  # the record
            return [*taken_lines, *_replace_text(line, words)]
        session.partial_lines.append(line)
        self._partial_size += len(line)
        if self._partial_size > HELD_BYTES_LIMIT:
            matcher.start_over()
            taken_lines += self.take_partial_lines(session_id)
        return taken_lines

    # --- a prompt sent again

    def keep_first_prompt(self, load: Load, prompt: Request) -> None:
        """Remember the first prompt after a load, to send it again if the agent does not know the session."""
        # Without a transcript to compare with, there is none to hand over.
        if load.can_compare and not load.opens_new_session and len(prompt.raw) <= RESENT_LIMIT:
            self._first_prompts[load.session_id] = load, prompt

    def may_resend_prompt(self, session_id: str) -> bool:
        """Whether the session's first prompt after a load is not answered, and the agent has not shown that it knows
        the session."""
        return session_id in self._first_prompts

    def forget_first_prompt(self, session_id: str) -> None:
        """The agent has accepted the prompt, or said or asked something in its turn: it knows the session. A prompt
        that it has begun to work on must not be sent again."""
        self._first_prompts.pop(session_id, None)

    def take_prompt_to_resend(
        self, session_id: str, prompt_id: RequestId, error: object
    ) -> tuple[Load, Request] | None:
        """The load and the prompt to send again; None if this answer does not say that the session is unknown.

        ``error``: of the prompt's answer. Forgets the prompt.
        """
        first_prompt = self._first_prompts.pop(session_id, None)
        if (
            first_prompt is None
            or first_prompt[1].id != prompt_id
            or error is None
            or not handover_lines.says_session_unknown(error, session_id)
        ):
            return None
        if session_id in self._sessions:
            self._sessions[session_id].carrying_prompts.pop(prompt_id, None)
        return first_prompt

    def begin_resending(self, session_id: str, prompt_id: RequestId) -> None:
        """This prompt was refused, and is sent again once a new session is open."""
        self._resent_prompts[session_id] = prompt_id, {}

    def handle_request_cancel(self, id: RequestId | None, line: bytes) -> None:
        """The client cancels a request. ``line``: the ``$/cancel_request``, which follows a prompt sent again."""
        for prompt_id, cancels in self._resent_prompts.values():
            if prompt_id == id:
                cancels[acp.CANCEL_REQUEST] = line

    def end_resending(self, session_id: str) -> list[bytes]:
        """The prompt is sent now, or will not be. Returns the lines of the cancels that follow it then."""
        _, cancels = self._resent_prompts.pop(session_id, (None, {}))
        if acp.CANCEL in cancels and (session := self._sessions.get(session_id)) is not None:
            session.carrying_prompts = dict.fromkeys(session.carrying_prompts, True)
        return list(cancels.values())


def _remove_from_whole(line: bytes, kind: str | None, matcher: HandoverRecordMatcher) -> list[bytes]:
    """An update that is no text chunk of the user, without the record if it is a whole message; none if that is all."""
    if kind != update_kinds.USER_MESSAGE:
        return [line]
    try:
        remaining = _remove_from_blocks(line, matcher)
    except (ValueError, KeyError):
        return [line]
    return [remaining] if remaining is not None else []


def _replace_text(line: bytes, words: str) -> list[bytes]:
    try:
        return [acp.with_chunk_text(line, words)] if words else []
    except (ValueError, KeyError):
        return [line]


def _remove_from_blocks(line: bytes, matcher: HandoverRecordMatcher) -> bytes | None:
    """A whole user message without the record; None if it has nothing else. Raises ValueError, KeyError."""
    text = json_splice.decode(line)
    content = json_splice.find_span(text, "params", "update", "content")
    blocks = [text[start:end] for start, end in json_splice.find_elements(text, content[0])]
    remaining = [rest for block in blocks if (rest := _remove_from_block(block, matcher)) is not None]
    if remaining == blocks:
        return line
    return (
        json_splice.encode(json_splice.replace_spans(text, [(content, f"[{','.join(remaining)}]")]))
        if remaining
        else None
    )


def _remove_from_block(block: str, matcher: HandoverRecordMatcher) -> str | None:
    if matcher.try_match_attached(jsonrpc.parse_leniently(json_splice.encode(block))):
        return None
    words = acp.text(jsonrpc.parse_leniently(json_splice.encode(block)), "text") or ""
    remaining = matcher.remove_from_message(words)
    if remaining == words:
        return block
    span = json_splice.find_members(block)["text"]
    return json_splice.replace_spans(block, [(span, jsonrpc.dump(remaining).decode())]) if remaining else None


def _identify_content(block: object) -> tuple[object, ...]:
    """What identifies a content block: agents drop its other members."""
    resource = acp.member(block, "resource")
    inner = tuple(acp.member(resource, key) for key in ("uri", "text", "blob"))
    return (acp.member(block, "type"), acp.member(block, "data"), *inner)
