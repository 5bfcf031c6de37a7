"""The turns of a transcript, cut into steps for playback.

Pure; never raises. A turn begins with a prompt and contains everything up to the next one, including late updates after
its answer. Each step keeps its entry: playback sends the recorded bytes. Entries that cannot be played (notes, messages
of the client) are left out.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from acp_proxy.protocol import acp, update_kinds, versions
from acp_proxy.protocol.jsonrpc import Peer
from acp_proxy.protocol.update_kinds import Role
from acp_proxy.transcript import file_format
from acp_proxy.transcript.file_format import Entry, NoteType
from acp_proxy.views.moments import measure_between

NO_END = "The recording of this turn has no end."


@dataclass(frozen=True, slots=True)
class Send:
    """An update. ``wait``: seconds since the previous step. ``call``: the id of its tool call, if any."""

    wait: float
    entry: Entry
    call: str | None = None


@dataclass(frozen=True, slots=True)
class Keep:
    """A recorded note about a terminal: not sent, but needed for a later load."""

    entry: Entry


@dataclass(frozen=True, slots=True)
class Ask:
    """A permission request.

    ``wait``: seconds since the previous step. ``number``: counted within the turn. ``call``: the id of its tool call.
    ``kinds``: what each option means (``allow_once``, …), by its id.
    """

    wait: float
    entry: Entry
    number: int
    call: str | None
    kinds: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Await:
    """The client's answer to the request with this number. ``result``: None if it was not recorded."""

    number: int
    result: object


@dataclass(frozen=True, slots=True)
class Answer:
    """The end of the turn. ``entry``: None if no answer was recorded; ``problem`` says why."""

    wait: float
    entry: Entry | None
    problem: str = NO_END


Step = Send | Keep | Ask | Await | Answer


@dataclass(frozen=True, slots=True)
class RecordedTurn:
    """A recorded turn. ``session_id``: its id. ``prompt``: the user's blocks. Exactly one step is an Answer."""

    session_id: str
    at: str
    prompt: object
    steps: tuple[Step, ...]

    @property
    def refusal(self) -> Answer | None:
        """The answer, if that of an agent of version 2 refused the prompt, so that no turn began."""
        [answer] = [step for step in self.steps if isinstance(step, Answer)]
        entry = answer.entry
        is_v2 = entry is not None and entry.protocol_version == versions.V2.version
        return answer if is_v2 and entry is not None and entry.answered_method == acp.PROMPT else None


def cut_into_turns(session_id: str, entries: Iterable[Entry]) -> list[RecordedTurn]:
    """The turns of a session's transcript."""
    all_entries = list(entries)
    accepted_ids = frozenset(id for entry in all_entries if (id := _read_accepted_id(entry)) is not None)
    turns: list[_OpenTurn] = []
    open_turns: dict[tuple[str, bytes], _OpenTurn] = {}
    for entry in all_entries:
        if entry.is_prompt:
            turns.append(_OpenTurn(entry, accepted_ids))
            open_turns[entry.request_key] = turns[-1]
        elif entry.answered_method == acp.PROMPT and entry.peer is Peer.AGENT:
            if not _only_accepts(entry) and (turn := open_turns.pop(entry.request_key, None)) is not None:
                turn.end(entry)
        elif _is_idle(entry):
            for key in [key for key, turn in open_turns.items() if turn.prompt.run == entry.run]:
                open_turns.pop(key).end(entry)
        elif turns:
            turns[-1].add(entry)
    return [turn.finish(session_id) for turn in turns]


def _only_accepts(entry: Entry) -> bool:
    """Whether an answer to a prompt only accepts it, as in version 2."""
    return entry.protocol_version == versions.V2.version and acp.member(entry.value, "error") is None


def _read_accepted_id(entry: Entry) -> str | None:
    """The id of the user message that a prompt of version 2 became, if this answer says so."""
    is_answer = entry.answered_method == acp.PROMPT and entry.peer is Peer.AGENT
    return acp.text(acp.member(entry.value, "result"), "messageId") if is_answer and _only_accepts(entry) else None


def _is_idle(entry: Entry) -> bool:
    """Whether the agent says that nothing is under way, which ends a turn of version 2."""
    update = acp.member(acp.member(entry.value, "params"), "update")
    is_agents_v2 = entry.peer is Peer.AGENT and entry.protocol_version == versions.V2.version
    return is_agents_v2 and versions.V2.read_work_state(update) in (versions.IDLE, versions.FAILED)


@dataclass(slots=True)
class _OpenTurn:
    """A turn being read. Its answer may come after the next prompt; other entries then belong to that prompt.

    ``accepted_ids``: of the user messages that are prompts.
    """

    prompt: Entry
    accepted_ids: frozenset[str]
    steps: list[Step] = field(default_factory=list)
    last: str = ""
    asked: dict[tuple[str, bytes], Ask] = field(default_factory=dict)
    has_ended: bool = False
    has_state: bool = False

    def __post_init__(self) -> None:
        self.last = self.prompt.at

    def add(self, entry: Entry) -> None:
        method, value = acp.text(entry.value, "method"), entry.value
        if entry.note is not None:
            self._note(entry, entry.note)
        elif entry.raw is None or b"\n" in entry.raw:
            return
        elif entry.peer is Peer.AGENT and method == acp.UPDATE:
            update = acp.member(acp.member(value, "params"), "update")
            if entry.protocol_version == versions.V2.version and self._is_sent_anyway(update):
                return
            self.steps.append(Send(self._measure_pause(entry), entry, acp.text(update, "toolCallId")))
        elif entry.peer is Peer.AGENT and method == acp.REQUEST_PERMISSION:
            self._ask(entry)
        elif entry.peer is Peer.CLIENT and entry.answered_method == acp.REQUEST_PERMISSION:
            self._measure_pause(entry)  # playback does not repeat the user's pause
            if (ask := self.asked.pop(entry.request_key, None)) is not None:
                self.steps.append(Await(ask.number, acp.member(value, "result")))
        else:
            self._measure_pause(entry)

    def _is_sent_anyway(self, update: object) -> bool:
        """Whether the mock agent says this in every turn of version 2: that it begins, and the prompt. What the agent
        was doing after the turn is left out, since nothing says that it has ended."""
        kind = acp.update_kind(update)
        if kind == update_kinds.WORK_STATE:
            is_first, self.has_state = not self.has_state, True
            return self.has_ended or (is_first and acp.text(update, "state") == "running")
        return update_kinds.find_v2_role(kind) is Role.USER and acp.text(update, "messageId") in self.accepted_ids

    def end(self, entry: Entry) -> None:
        if not self.has_ended:
            self.has_ended = True
            self.steps.append(Answer(self._measure_pause(entry), entry))

    def finish(self, session_id: str) -> RecordedTurn:
        unanswered = {ask.number for ask in self.asked.values()}
        steps: list[Step] = []
        for step in self.steps:
            steps.append(step)
            if isinstance(step, Ask) and step.number in unanswered:
                steps.append(Await(step.number, None))
        if not self.has_ended:
            steps.append(Answer(0.0, None))
        return RecordedTurn(
            session_id, self.prompt.at, acp.member(acp.member(self.prompt.value, "params"), "prompt"), tuple(steps)
        )

    def _ask(self, entry: Entry) -> None:
        params = acp.member(entry.value, "params")
        options_offered = acp.member(params, "options")
        options = {acp.text(option, "optionId"): acp.text(option, "kind") for option in _read_list(options_offered)}
        kinds = {id: kind or "" for id, kind in options.items() if id is not None}
        about = params if entry.protocol_version == file_format.ACP_V1 else acp.member(params, "subject")
        call = acp.text(acp.member(about, "toolCall"), "toolCallId") or acp.text(about, "toolCallId")
        ask = Ask(self._measure_pause(entry), entry, sum(isinstance(step, Ask) for step in self.steps), call, kinds)
        self.asked[entry.request_key] = ask
        self.steps.append(ask)

    def _note(self, entry: Entry, note: Mapping[str, object]) -> None:
        if note.get("type") == NoteType.TERMINAL:
            self.steps.append(Keep(entry))
        elif note.get("type") == NoteType.FAILED and not self.has_ended and entry.run == self.prompt.run:
            self.has_ended = True
            self.steps.append(Answer(self._measure_pause(entry), None, acp.text(note, "message") or NO_END))

    def _measure_pause(self, entry: Entry) -> float:
        waited, self.last = measure_between(self.last, entry.at), entry.at
        return waited


def _read_list(value: object) -> list[object]:
    return value if isinstance(value, list) else []
