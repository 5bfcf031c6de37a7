"""A conversation through the core, step by step: what one side sends, and all its effects.

    talk = CoreConversation().initialize(RESUMES)                  # asked and answered; we add list, delete and load
    talk.open("s")                                     # session/new, asked and answered
    step = talk.client.say(prompt(1, "s", "mend it"))  # one read from the client
    assert step.to_agent == line(prompt(1, "s", "mend it"))
    assert step.kept == [BeginTurn("s"), RecordMessage("s", Peer.CLIENT, raw(prompt(1, "s", "mend it")))]

``CoreConversation`` plays the part of ``acp_proxy/relay``. The store's answers come from ``stored``: at once or, for a
``slow`` session, when the test calls ``finish_lookup``. The test shows the past with ``send_past`` and
``end_past``. Lists and deletes are answered.
``_Rules`` checks every step.
"""

import contextlib
import copy
import json
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from itertools import repeat
from typing import Any, Self, assert_never

from msgspec import Struct, structs
from msgspec.structs import replace

from acp_proxy.comparison.comparison import Comparison, SentLine
from acp_proxy.comparison.text_builder import TextBuilder
from acp_proxy.comparison.updates_in_turn import UpdatesInTurn
from acp_proxy.comparison.whose_past import PastRule, choose_past
from acp_proxy.decisions import proxy_messages
from acp_proxy.decisions.capabilities import Modes, Settings
from acp_proxy.decisions.connection import Connection
from acp_proxy.decisions.effects import (
    AddAlias,
    AmendList,
    AmendTitles,
    AnswerStatus,
    BeginTranscript,
    BeginTurn,
    ChooseAndShowPast,
    CloseTranscript,
    CompareUnsettled,
    DecideLater,
    DecideWaiting,
    DeleteSession,
    Effect,
    EndTurn,
    ForgetSession,
    Forward,
    IdentifyAgent,
    ListSessions,
    LookUpSession,
    RecordMessage,
    RecordNote,
    RecordUnparsedUpdates,
    RelayEffect,
    ReserveOutput,
    SetArchived,
    SetProtocolVersion,
    SetTitle,
    StopShowingPast,
    StoreAgentsChange,
    TranscriptEffect,
    Warn,
    WriteToStderr,
)
from acp_proxy.decisions.events import (
    AgentEnded,
    Event,
    LinesRead,
    OutputReserved,
    PageEmptied,
    PastChosen,
    SessionLookedUp,
    UnsettledCompared,
)
from acp_proxy.decisions.fast_path import FastPath
from acp_proxy.decisions.lists import amend_list
from acp_proxy.protocol import acp, framing, jsonrpc
from acp_proxy.protocol.jsonrpc import Peer, RequestId
from acp_proxy.relay.list_page import encode_page
from acp_proxy.store.index_database import ListedSession
from acp_proxy.transcript import file_format
from acp_proxy.transcript.file_format import Entry, NoteType

Said = Mapping[str, Any] | list[Any] | bytes
"""A message, as a value or as the bytes of its line."""

RELEASE = "1.2.3"
_SHOWN: dict[str | None, tuple[bool, ...]] = {
    None: (False,),
    amend_list.EXCLUDE: (False,),
    amend_list.ONLY: (True,),
    amend_list.INCLUDE: (False, True),
}
"""The archive states that each filter of a list shows."""
AS_USUAL = Modes()
LOADS: dict[str, Any] = {"loadSession": True}
RESUMES: dict[str, Any] = {"sessionCapabilities": {"resume": {}}}
"""The capabilities of an agent that resumes sessions and does not list, load or delete them."""
STATES = [
    "available_commands_update",
    "current_mode_update",
    "config_option_update",
    "session_info_update",
    "usage_update",
    "notice",
]
"""Kinds of state updates, which are not part of the conversation."""


# --- messages


def raw(said: Said) -> bytes:
    """The message as official SDKs write it, without its newline."""
    if isinstance(said, bytes):
        return said.removesuffix(b"\n")
    return json.dumps(said, separators=(",", ":")).encode()


def line(*said: Said) -> bytes:
    """Messages as lines."""
    return b"".join(each if isinstance(each, bytes) else raw(each) + b"\n" for each in said)


def agent_lines(*said: Said, late: bool = False) -> tuple[SentLine, ...]:
    """The agent's updates as the comparison takes them; ``late``: they came after the answer."""
    return tuple(SentLine(line(each), late) for each in said)


def respell(said: Said) -> bytes:
    """The same message in an unusual spelling."""
    return json.dumps(json.loads(raw(said)), separators=(" , ", " : "), sort_keys=True).encode() + b"\n"


def request(id: object, method: str, params: object = None) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


def notification(method: str, params: object = None) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": method, "params": params}


def result(id: object, value: object = None) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "result": value}


def error(id: object, code: int, message: str = "") -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}}


def update(session: str, kind: str, **more: object) -> dict[str, Any]:
    return notification("session/update", {"sessionId": session, "update": {"sessionUpdate": kind, **more}})


def chunk(session: str, text: str, kind: str = "agent_message_chunk") -> dict[str, Any]:
    return update(session, kind, content={"type": "text", "text": text})


def commands(session: str, *names: str) -> dict[str, Any]:
    """A state update."""
    return update(session, "available_commands_update", availableCommands=[{"name": name} for name in names])


def prompt(id: object, session: str, text: str = "hello") -> dict[str, Any]:
    return request(id, "session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": text}]})


def new(id: object, **more: object) -> dict[str, Any]:
    return request(id, "session/new", {"cwd": "/w", "mcpServers": [], **more})


def load(id: object, session: str, **more: object) -> dict[str, Any]:
    return request(id, "session/load", {"sessionId": session, "cwd": "/w", "mcpServers": [], **more})


def resume(id: object, session: str, **more: object) -> dict[str, Any]:
    return load(id, session, **more) | {"method": "session/resume"}


def delete(id: object, session: str) -> dict[str, Any]:
    return request(id, "session/delete", {"sessionId": session})


def cancel(id: object) -> dict[str, Any]:
    return notification("$/cancel_request", {"requestId": id})


def permission(id: object, session: str) -> dict[str, Any]:
    return request(id, "session/request_permission", {"sessionId": session, "toolCall": {}, "options": []})


def prompt_answer(id: object, reason: str = "end_turn") -> dict[str, Any]:
    """A prompt's answer."""
    return result(id, {"stopReason": reason})


def title_update(session: str, title: str = "hello") -> dict[str, Any]:
    """The title update that we send before the answer to a session's first prompt."""
    return update(session, "session_info_update", title=title)


def initialize_answer(id: object, capabilities: object = None, **more: object) -> dict[str, Any]:
    """An agent's answer to initialize."""
    return result(id, {"protocolVersion": 1, "agentCapabilities": capabilities, **more})


def opened_note(method: str, cwd: str | None = "/w", servers: Iterable[str] = (), **more: object) -> dict[str, object]:
    """The transcript's note of a session that was opened."""
    note: dict[str, object] = {"type": NoteType.OPENED, "method": method, "cwd": cwd, "additionalDirectories": []}
    return note | more | {"mcpServers": list(servers)}


def make_request_id(id: object) -> RequestId:
    """A request's id as the core has it."""
    return RequestId(json.dumps(id))


# --- effects


def agent_kept(session: str, said: Said, of: str | None = None) -> RecordMessage:
    """What is recorded of the agent's message."""
    return RecordMessage(session, Peer.AGENT, raw(said), of)


def client_kept(session: str, said: Said, of: str | None = None) -> RecordMessage:
    """What is recorded of the client's message."""
    return RecordMessage(session, Peer.CLIENT, raw(said), of)


def begun(session: str, origin: str = file_format.RECORDED, cwd: str | None = "/w") -> BeginTranscript:
    """The effect that begins a session's transcript."""
    return BeginTranscript(session, cwd, [], origin)


@dataclass
class Step:
    """The effects of one event: what is recorded and what is done, each in order."""

    kept: list[TranscriptEffect] = field(default_factory=list)
    done: list[RelayEffect] = field(default_factory=list)

    @property
    def to_agent(self) -> bytes:
        return self._to(Peer.AGENT)

    @property
    def to_client(self) -> bytes:
        return self._to(Peer.CLIENT)

    @property
    def stderr(self) -> bytes:
        return b"".join(each.data for each in self.done if isinstance(each, WriteToStderr))

    @property
    def warnings(self) -> list[str]:
        return [each.text for each in self.done if isinstance(each, Warn)]

    @property
    def asked(self) -> list[RelayEffect]:
        """What the shell is asked to do besides forwarding and warning."""
        return [each for each in self.done if not isinstance(each, Forward | WriteToStderr | Warn)]

    @property
    def refusals(self) -> list[tuple[Any, Any]]:
        """The errors that the client gets: their request ids and codes."""
        told = [json.loads(one) for one in self.to_client.split(b"\n") if one]
        return [(one["id"], one["error"]["code"]) for one in told if one.get("error") is not None]

    def add(self, other: "Step") -> None:
        self.kept += other.kept
        self.done += other.done

    def _to(self, peer: Peer) -> bytes:
        return b"".join(each.data for each in self.done if isinstance(each, Forward) and each.to is peer)


# --- the talk


@dataclass(frozen=True)
class SimulatedSession:
    """What the store has of a session. ``slow``: it is found when the test says so. ``says``: its messages.

    ``open``: a process has its transcript open to append. ``alias``: the agent's id of it.
    ``moved``: it was handed over. ``behind``: the agent's lacks turns of others.
    """

    has_transcript: bool = True
    complete: bool = True
    deleted: bool = False
    trouble: str | None = None
    slow: bool = False
    says: tuple[Said, ...] = ()
    alias: str | None = None
    moved: bool = False
    behind: bool = False
    open: bool | None = None

    def compared(self, told: Iterable[SentLine], since: int = 0) -> Comparison:
        """``since``: compared is only what was added when there were so many messages, which is the size here."""
        builder = TextBuilder()
        for said in self.says[since:]:
            value = json.loads(raw(said))
            peer = Peer.CLIENT if value.get("method") == acp.PROMPT else Peer.AGENT
            builder.add(Entry("", "", peer, acp.PROMPT if "result" in value else None, raw(said), value))
        comparison = Comparison(builder.finish())
        for update, late in told:
            comparison.add(update, acp.read_update(update), is_after_an_answer=late)
        return comparison


_INITIALIZE = b'{"jsonrpc":"2.0","id":"initialize"'
"""How the lines of ``CoreConversation.initialize`` begin."""


@dataclass
class _Showing:
    session: str
    wanted: ChooseAndShowPast | None = None
    is_stopped: bool = False

    @property
    def is_started(self) -> bool:
        return self.wanted is not None


def _has_same_state(one: object, other: object, compared: set[tuple[int, int]]) -> bool:
    """Whether two objects have the same values, also in the objects that they refer to.

    Fast paths count as no state, nor do two things of ``UpdatesInTurn``: which message it took last, without letters of
    it, and whether a replay was awaited then, which it is told with each update.
    ``compared``: the ids of pairs of objects that are compared already, since objects refer to each other.
    """
    if (callable(one) and callable(other)) or isinstance(one, FastPath):
        return True
    if type(one) is not type(other):
        return False
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return _has_same_state([*one.items()], [*other.items()], compared)
    if isinstance(one, list | tuple | deque) and isinstance(other, list | tuple | deque):
        return len(one) == len(other) and all(map(_has_same_state, one, other, repeat(compared)))
    if isinstance(one, Struct) and isinstance(other, Struct):
        return structs.asdict(one) == structs.asdict(other)
    if not hasattr(one, "__dict__") or isinstance(one, Enum):
        return one == other
    if (pair := (id(one), id(other))) in compared:
        return True
    compared.add(pair)
    is_in_turn = isinstance(one, UpdatesInTurn)
    hidden: dict[str, object] = {"_replay_may_come": None} if is_in_turn else {}
    hidden |= {"_message_key": None} if is_in_turn and not vars(one)["_letters"] else {}
    return _has_same_state(vars(one) | hidden, vars(other) | hidden, compared)


@dataclass(frozen=True)
class Side:
    """The client or the agent. ``say``: it sends messages, which are one read of ours."""

    say: Callable[..., Step]


class CoreConversation:
    def __init__(
        self, *, records: bool = True, serves: bool = True, modes: Modes = AS_USUAL, recall: tuple[str, ...] = ()
    ) -> None:
        self.core = Connection(
            Settings(records=records, serves=serves, proxy_version=RELEASE, modes=modes, recall_command=recall)
        )
        self.client, self.agent = Side(self._read_client), Side(self._read_agent)
        self.all = Step()
        """All effects since the beginning."""
        self.stored: dict[str, SimulatedSession] = {}
        self.rows: list[ListedSession] = []
        self.titles: dict[str, str] = {}
        """The user's titles."""
        self.titles_from_prompts: dict[str, str] = {}
        """Titles made from prompts, for the agent's list."""
        self.archived: frozenset[str] = frozenset()
        self.changed_by_agent: frozenset[str] = frozenset()
        """The sessions to which the agent gave their title or archive state."""
        self.aliases: dict[str, str] = {}
        """By the agent's id: the session that continues there."""
        self.kept_when_found: dict[RequestId, list[TranscriptEffect]] = {}
        """What was recorded when the session was found: the most of the past that can be sent."""
        self.pending_lookups: dict[RequestId, str] = {}
        """The sessions that a slow store has not found yet, by request."""
        self.output_is_busy = False
        """The agent's thread is writing to the client: everything else that needs this output waits."""
        self.wait_for_output: list[RequestId] = []
        self._showings: dict[RequestId, _Showing] = {}
        self._rules = _Rules()

    # the usual beginnings

    def initialize(self, capabilities: object = None, **more: object) -> Self:
        self.client.say(request("initialize", "initialize", {"protocolVersion": 1}))
        self.agent.say(initialize_answer("initialize", capabilities, **more))
        return self

    def open(self, *sessions: str) -> Self:
        for session in sessions:
            self.client.say(new(f"new {session}"))
            self.agent.say(result(f"new {session}", {"sessionId": session}))
        return self

    # events

    def _read_client(self, *said: Said) -> Step:
        """One read from the client. Lines that may pass without a decision have to be passed by one."""
        lines = self._said(said)
        return self._passed(Peer.CLIENT, lines) or self._step(LinesRead(Peer.CLIENT, lines))

    def _read_agent(self, *said: Said) -> Step:
        """One read from the agent. Lines that may pass without a decision have to be passed by one."""
        lines = self._said(said)
        data = b"".join(lines)
        passes = self.core.fast_path.try_admit_updates(data) if data.endswith(b"\n") else None
        if passes is not None:
            self._check_parsed(passes, data)
        step = self._passed(Peer.AGENT, lines) or self._step(LinesRead(Peer.AGENT, lines))
        if passes is not None:
            assert step.done == [Forward(Peer.CLIENT, data, may_precede_recording=True)]
            assert step.kept == _kept(RecordUnparsedUpdates(passes, data))
        return step

    def _check_parsed(self, session: str, data: bytes) -> None:
        """Parsed, these updates have the same effects as unparsed, and none on the state. ``may_precede_recording`` may
        differ: that is about time."""
        parsed = copy.deepcopy(self.core)
        vars(parsed.fast_path)["try_admit_updates"] = lambda data: None
        effects = parsed.handle(LinesRead(Peer.AGENT, framing.split_lines(data)))
        forwards = [effect for effect in effects if isinstance(effect, Forward)]
        assert all(
            replace(forward, may_precede_recording=True)
            == Forward(Peer.CLIENT, forward.data, may_precede_recording=True)
            for forward in forwards
        )
        assert b"".join(forward.data for forward in forwards) == data
        entries = [effect for effect in effects if not isinstance(effect, Forward)]
        assert entries == _kept(RecordUnparsedUpdates(session, data))
        assert _has_same_state(parsed, self.core, set())

    def _passed(self, sender: Peer, lines: list[bytes]) -> Step | None:
        """The step of lines that pass without a decision. The conversation goes on as the shell has it: without one."""
        data = b"".join(lines)
        must_be_decided = (
            b'"session/' in data
            or data.startswith(_INITIALIZE)
            or bool(self.core._aliases or self.core._client_ids)
            or bool(self.core._load_machine.loads if sender is Peer.AGENT else self.core.waiting_messages)
        )
        decided = None if must_be_decided else copy.deepcopy(self.core)  # a copy costs more than all else
        if not (data.endswith(b"\n") and self.core.fast_path.try_admit_simple_lines(data, sender)):
            return None
        assert decided is not None, "what must be decided has passed"
        undecided, self.core = self.core, decided
        step = self._step(LinesRead(sender, lines))
        assert step.done == [Forward(sender.other, each) for each in lines]
        assert not step.kept
        self.core = undecided
        return step

    def finish_lookup(self, id: object, stored: SimulatedSession | None = None) -> Step:
        """A slow store has found the session."""
        return self.finish_lookup_by_id(make_request_id(id), stored)

    def finish_lookup_by_id(self, id: RequestId, stored: SimulatedSession | None = None) -> Step:
        return self._step(self._found(id, self.pending_lookups.pop(id, ""), stored))

    def send_past(self, id: object, *said: Said) -> Step:
        """These updates of the transcript are sent."""
        showing = self._showings[make_request_id(id)]
        assert showing.is_started, f"nobody asked to show the past for {id}"
        told: list[RelayEffect] = [] if showing.is_stopped or not said else [Forward(Peer.CLIENT, line(*said))]
        step = Step(done=told)
        self.all.add(step)
        return step

    def end_past(
        self,
        id: object,
        *states: Said,
        rule: PastRule | None = None,
        handover_record: str = "",
        attached: tuple[bytes, ...] = (),
    ) -> Step:
        """``rule``: the verdict; by default that of the transcript in ``stored``."""
        return self.end_past_by_id(
            make_request_id(id), *states, rule=rule, handover_record=handover_record, attached=attached
        )

    def end_past_by_id(
        self,
        id: RequestId,
        *states: Said,
        rule: PastRule | None = None,
        handover_record: str = "",
        attached: tuple[bytes, ...] = (),
    ) -> Step:
        showing = self._showings.pop(id)
        assert showing.wanted is not None, f"nobody asked to show the past for {id}"
        wanted = showing.wanted
        stored = self.stored.get(showing.session, SimulatedSession())
        comparison, size = stored.compared(wanted.updates), len(stored.says)
        compared = comparison if wanted.needs_comparison else None
        if compared is not None:
            compared.end_message()
        decision = wanted.planned_decision or choose_past(compared)
        decision = rule.decide(shows_past=True) if rule is not None else decision
        told = [line(state) for state in states]
        uncompared = PastChosen(
            id, decision, None, told, handover_record, attached, comparison_was_skipped=True, transcript_size=size
        )
        if not wanted.needs_comparison and not self.core.must_compare_first(uncompared):
            return self._step(uncompared)
        return self._step(PastChosen(id, decision, comparison, told, handover_record, attached, transcript_size=size))

    def free_output(self) -> Step:
        """Everything that waited for the client's output gets it, in order."""
        self.output_is_busy, step = False, Step()
        while self.wait_for_output:
            step.add(self._step(OutputReserved(self.wait_for_output.pop(0))))
        return step

    def end_agent(self, how: str = "agent exited with status 17") -> Step:
        return self._step(AgentEnded(how))

    @property
    def open_transcripts(self) -> list[RequestId]:
        """The requests whose transcripts are still open."""
        return list(self._showings)

    @property
    def being_shown(self) -> list[RequestId]:
        return [id for id, showing in self._showings.items() if showing.is_started]

    # the shell's part

    def _said(self, said: tuple[Said, ...]) -> list[bytes]:
        lines = [line(each) for each in said]
        self._rules.said += lines
        return lines

    def _step(self, event: Event) -> Step:
        step = Step()
        self._perform(self._decide(event, step), step)
        self.all.add(step)
        return step

    def _decide(self, event: Event, step: Step) -> list[RelayEffect]:
        effects = self.core.handle(event)
        self._rules.check(effects)
        for effect in effects:
            if isinstance(effect, TranscriptEffect):
                step.kept += _kept(effect)
                self._write(effect)
        return [effect for effect in effects if not isinstance(effect, TranscriptEffect)]

    def _write(self, effect: TranscriptEffect) -> None:
        match effect:
            case BeginTranscript(session, origin=file_format.RECORDED):
                self.stored[session] = SimulatedSession()
            case BeginTranscript(session, parent_id=str(parent)):
                self.stored[session] = self.stored.get(parent, SimulatedSession(complete=False))
            case BeginTranscript(session) if not (
                there := self.stored.get(session, SimulatedSession(has_transcript=False))
            ).has_transcript:
                self.stored[session] = SimulatedSession(
                    complete=False, has_transcript=not there.deleted, deleted=there.deleted
                )
            case BeginTurn(session) if self.stored[session].deleted:
                self.stored[session] = SimulatedSession(complete=False)
            case _:
                pass

    def _perform(self, effects: list[RelayEffect], step: Step) -> None:
        for effect in effects:
            step.done.append(effect)
            self._perform(self._next(effect, step), step)

    def _next(self, effect: RelayEffect, step: Step) -> list[RelayEffect]:
        """Perform an effect; return the effects that follow from it."""
        match effect:
            case LookUpSession(id, session) if session in self.aliases and session not in self.stored:
                return self._decide(SessionLookedUp(id, our_id=self.aliases[session]), step)
            case LookUpSession(id, session):
                stored = self.stored.get(session, SimulatedSession(has_transcript=False))
                self.kept_when_found[id] = self.all.kept + step.kept
                if stored.slow:
                    self.pending_lookups[id] = session
                    return []
                return self._decide(self._found(id, session, stored), step)
            case DecideLater(peer, lines):
                return self._decide(LinesRead(peer, lines), step)
            case DecideWaiting(session):
                return self._decide(LinesRead(Peer.CLIENT, self.core.waiting_messages.take_next(session)), step)
            case CompareUnsettled(id, session, told, since):
                stored = self.stored.get(session, SimulatedSession(has_transcript=False))
                comparison = stored.compared(told, since or 0) if stored.has_transcript else None
                return self._decide(UnsettledCompared(id, session, comparison, len(told), len(stored.says)), step)
            case ListSessions():
                rows = [row for row in self.rows if row.is_archived in _SHOWN[effect.archive_filter]]
                page = encode_page(
                    effect.request_id,
                    rows,
                    None,
                    supports_directories=effect.supports_directories,
                    is_recording_all=True,
                    says_archived=effect.archive_filter is not None,
                )
                return [Forward(Peer.CLIENT, page, is_own=True)]
            case AmendList(data, archived, asked):
                deleted = frozenset(session for session, stored in self.stored.items() if stored.deleted)
                here = self.archived - self.changed_by_agent
                hidden = deleted | (here if archived == amend_list.EXCLUDE else frozenset())
                changes = amend_list.ListChanges(
                    hidden,
                    self._title_of(effect.retitled_ids) if effect.is_of_jetbrains_index else None,
                    self.titles_from_prompts if effect.fills_titles else {},
                    here if archived is not None else None,
                    only_archived=archived == amend_list.ONLY,
                    is_of_jetbrains_index=effect.is_of_jetbrains_index,
                )
                page = amend_list.amend_rows(data, changes, list_member=effect.rows_member)
                if asked is not None and (cursor := amend_list.find_cursor_if_emptied(data, page)) is not None:
                    return self._decide(PageEmptied(effect, page, cursor), step)
                return [Forward(Peer.CLIENT, page)]
            case AmendTitles(data, renamed, ours):
                title_of = self._title_of(renamed)
                return [Forward(Peer.CLIENT, amend_list.replace_titles(data, lambda id: title_of(ours.get(id, id))))]
            case StoreAgentsChange(session, title, is_archived):
                self.titles |= {session: title} if title is not None else {}
                if is_archived is not None:
                    self.archived = self.archived | {session} if is_archived else self.archived - {session}
                self.changed_by_agent |= {session}
                return []
            case SetTitle(asked, session, agent_has_it, title):
                if (refused := self._refused(asked, session, agent_has_it)) is not None:
                    return [refused]
                self.titles[session] = title
                answer = jsonrpc.encode_result(asked, {"title": title}) + line(title_update(session, title))
                return [Forward(Peer.CLIENT, answer, is_own=True)]
            case SetArchived(asked, session, agent_has_it, is_archived):
                if (refused := self._refused(asked, session, agent_has_it)) is not None:
                    return [refused]
                self.archived = self.archived | {session} if is_archived else self.archived - {session}
                return [Forward(Peer.CLIENT, jsonrpc.encode_result(asked, {}), is_own=True)]
            case AnswerStatus(asked, session, agent_has_it, is_open):
                if (refused := self._refused(asked, session, agent_has_it)) is not None:
                    return [refused]
                answer = jsonrpc.encode_result(asked, {"status": "open" if is_open else "saved"})
                return [Forward(Peer.CLIENT, answer, is_own=True)]
            case AddAlias(session, alias):
                self.aliases[alias] = session
            case DeleteSession(session, asked):
                self.stored[session] = SimulatedSession(deleted=True, has_transcript=False)
                return (
                    [Forward(Peer.CLIENT, jsonrpc.encode_result(asked, {}), is_own=True)] if asked is not None else []
                )
            case ChooseAndShowPast(id):
                assert not self._showings[id].is_started, f"the past is shown twice for {id}"
                self._showings[id].wanted = effect
            case StopShowingPast(id):
                if id in self._showings:
                    self._showings[id].is_stopped = True
            case CloseTranscript(id):
                found = self._showings.pop(id, None)
                assert found is None or not found.is_started, f"the past is being shown for {id}"
            case ReserveOutput(id) if self.output_is_busy:
                self.wait_for_output.append(id)
            case ReserveOutput(id):
                return self._decide(OutputReserved(id), step)
            case Forward() | WriteToStderr() | Warn():
                pass
            case _:
                assert_never(effect)
        return []

    def _title_of(self, renamed: frozenset[str]) -> Callable[[str], str | None]:
        """The titles that replace the agent's."""
        return lambda session: self.titles.get(session) if session not in self.changed_by_agent | renamed else None

    def _refused(self, asked: RequestId, session: str, agent_has_it: bool) -> Forward | None:
        """The error for a session that does not exist."""
        stored = self.stored.get(session, SimulatedSession(has_transcript=False))
        if stored.deleted or not (agent_has_it or stored.has_transcript):
            return Forward(Peer.CLIENT, proxy_messages.encode_not_found(asked, session), is_own=True)
        return None

    def _found(self, id: RequestId, session: str, stored: SimulatedSession | None) -> SessionLookedUp:
        stored = stored or SimulatedSession()
        if stored.has_transcript and not stored.deleted and stored.trouble is None:
            self._showings[id] = _Showing(session)
            is_archived = session in self.archived - self.changed_by_agent
            found = SessionLookedUp(id, has_transcript=True, is_complete=stored.complete, alias=stored.alias)
            found = replace(found, is_archived_here=is_archived)
            found = replace(found, agent_lacks_past=stored.moved or stored.behind, agent_is_behind=stored.behind)
            return replace(found, is_in_use_elsewhere=stored.open)
        return SessionLookedUp(id, is_deleted=stored.deleted, errno_name=stored.trouble)


def _is_rest(raw: bytes, line: bytes) -> bool:
    """Whether a chunk is another one without the beginning of its text."""
    rest, text = (acp.text(acp.member(acp.read_update(each), "content"), "text") for each in (raw, line))
    return bool(rest and text and text.endswith(rest)) and acp.with_chunk_text(line, rest or "").strip() == raw


def _kept(effect: TranscriptEffect) -> list[TranscriptEffect]:
    """Updates that pass unread are recorded like all others: one entry for each line."""
    if not isinstance(effect, RecordUnparsedUpdates):
        return [effect]
    assert effect.data.endswith(b"\n")
    return [RecordMessage(effect.session_id, Peer.AGENT, one) for one in effect.data[:-1].split(b"\n")]


def _about(session: str, said: bytes) -> bytes:
    """The message, or each of a batch, with another session id."""
    message = jsonrpc.read_message(said)
    told = b""
    for each in message.messages if isinstance(message, jsonrpc.Batch) else [message]:
        with contextlib.suppress(ValueError, KeyError):
            told += acp.with_session_id(each.raw, session) + b"\n"
    return told


def _is_update(said: bytes) -> bool:
    """Whether a line is an update. A line that begins as SDKs write updates counts without being read."""
    message = jsonrpc.read_message(said)
    method = message.method if isinstance(message, jsonrpc.Notification) else None
    return method == acp.UPDATE or said.startswith(acp.UPDATE_PREFIX)


class _Rules:
    """Rules for the effects of every event."""

    def __init__(self) -> None:
        self.said: list[bytes] = []
        self._opening: dict[RequestId, str] = {}
        self._handed_over: set[str] = set()
        self._identified = False
        self._begun: set[str] = set()
        self._deleted: set[str] = set()

    def check(self, effects: list[Effect]) -> None:
        against_a_delete: set[str] = set()
        for effect in effects:
            if isinstance(effect, TranscriptEffect) and not isinstance(effect, IdentifyAgent | SetProtocolVersion):
                assert type(effect.session_id) is str, "every entry belongs to a session"
            match effect:
                case IdentifyAgent():
                    assert not self._identified, "the agent is identified twice"
                    self._identified = True
                case BeginTranscript(session, origin=origin, parent_id=parent):
                    assert self._identified, "the agent is not identified yet"
                    self._begun.add(session)
                    if origin == file_format.RECORDED or parent is not None:
                        self._deleted.discard(session)
                    elif session in self._deleted:
                        against_a_delete.add(session)
                case ForgetSession(session):
                    self._begun.remove(session)
                case BeginTurn(session):
                    assert session in self._begun, f"{session} has no transcript yet"
                    self._deleted.discard(session)
                    against_a_delete.discard(session)
                case RecordMessage(session) | RecordUnparsedUpdates(session) | RecordNote(session) | EndTurn(session):
                    assert session in self._begun, f"{session} has no transcript yet"
                    if session in self._deleted:
                        against_a_delete.add(session)
                    self._is_verbatim(effect)
                case DeleteSession(session):
                    self._deleted.add(session)
                case LookUpSession(id, session):
                    self._opening[id] = session
                case ChooseAndShowPast(id, makes_handover_record=True):
                    self._handed_over.add(self._opening[id])
                case Forward(data=data, is_own=True):
                    assert data.endswith(b"\n"), "a message of ours ends its line"
                case Forward(to, data, may_precede_recording=True):
                    assert to is Peer.CLIENT, "only updates are forwarded before they are recorded"
                    assert all(map(_is_update, data.removesuffix(b"\n").split(b"\n"))), "and nothing else"
                case _:
                    pass
        assert not against_a_delete, f"{against_a_delete} was deleted, but entries of it are kept"

    def _is_verbatim(self, effect: Effect) -> None:
        if isinstance(effect, RecordMessage):
            assert b"\n" not in effect.raw
            said = (
                one for one in reversed(self.said) if effect.raw in one or effect.raw in _about(effect.session_id, one)
            )
            # Of a chunk with known and new words, the new ones. Echoes of a handover record are not kept: such a
            # message keeps only its other words; and no title made from one is.
            is_users = b'"user_message' in effect.raw and effect.session_id in self._handed_over
            is_title = b'"session_info_update"' in effect.raw
            assert is_users or is_title or any(said) or any(_is_rest(effect.raw, one) for one in self.said), (
                "an entry is a message as it came, except for the session id"
            )
