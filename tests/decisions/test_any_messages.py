"""Properties that hold for any messages in any order."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from acp_proxy.decisions.capabilities import Modes
from acp_proxy.decisions.effects import IdentifyAgent, RecordMessage
from acp_proxy.protocol.jsonrpc import Peer
from tests.conversation import (
    LOADS,
    RESUMES,
    CoreConversation,
    Said,
    SimulatedSession,
    cancel,
    chunk,
    commands,
    error,
    line,
    load,
    permission,
    prompt,
    prompt_answer,
    request,
    result,
)
from tests.strategies import chosen_messages, messages, one_line, spelled, values

# Messages of both sides: valid, nearly valid and invalid.

SHAPED = chosen_messages | st.lists(chosen_messages | values, max_size=3) | messages | values
SDK_UPDATES = st.builds(chunk, st.sampled_from(["a", "b", "c"]), st.text(max_size=5)).map(line)
LINES = (
    SHAPED.map(one_line).map(lambda data: data + b"\n")
    | chosen_messages.map(one_line).map(lambda data: data + b"\n")
    | spelled(SHAPED).map(lambda text: text.encode() + b"\n")
    | SDK_UPDATES
    | st.binary(max_size=30).map(lambda data: data.replace(b"\n", b"") + b"\n")
)
READS = st.tuples(st.sampled_from(Peer), st.lists(LINES, min_size=1, max_size=4))


def send_lines(talk: CoreConversation, peer: Peer, lines: list[bytes]) -> None:
    if peer is Peer.CLIENT:
        talk.client.say(*lines)
    else:
        talk.agent.say(*lines)


def is_for_the_client(said: bytes) -> bool:
    """A JSON object or array, as a lenient reader sees it."""
    try:
        value = json.loads(said.decode("utf-8", "surrogateescape").removeprefix("\ufeff"))
    except ValueError:
        return False
    return isinstance(value, dict | list)


def read_object(said: bytes) -> dict[str, Any]:
    """A JSON object, as a lenient reader sees it; empty for anything else."""
    try:
        value = json.loads(said.decode("utf-8", "surrogateescape").removeprefix("\ufeff"))
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


class AgentsOtherIds:
    """Finds the agent's answers that open a session under another id than the one that the client asked for. That is
    replaced whatever is served (docs/transparency.md, "The agent's session id")."""

    def __init__(self) -> None:
        self._asked: dict[str, list[object]] = {}
        """By request id, as JSON: the sessions of loads and resumes."""

    def is_one(self, peer: Peer, said: bytes) -> bool:
        message = read_object(said)
        params, answer = message.get("params"), message.get("result")
        id = json.dumps(message.get("id"))
        if peer is Peer.CLIENT and message.get("method") in ("session/load", "session/resume"):
            self._asked.setdefault(id, []).append(params.get("sessionId") if isinstance(params, dict) else None)
        opened = answer.get("sessionId") if isinstance(answer, dict) else None
        return peer is Peer.AGENT and opened is not None and any(opened != asked for asked in self._asked.get(id, ()))


# While nothing is served, every byte passes.

ALL_THE_AGENTS = Modes("agent", "agent", "agent", "agent", handover="never")
NOT_HOLDING: dict[str, Callable[[], CoreConversation]] = {
    "nothing served": lambda: CoreConversation(serves=False).initialize(RESUMES),
    "nothing recorded": lambda: CoreConversation(records=False).initialize(RESUMES),
    "neither": lambda: CoreConversation(records=False, serves=False),
    "everything the agent's": lambda: CoreConversation(modes=ALL_THE_AGENTS).initialize(LOADS | RESUMES),
    "everything the agent's, which has no capabilities": lambda: CoreConversation(modes=ALL_THE_AGENTS).initialize(),
    "another version": lambda: CoreConversation().initialize(RESUMES, protocolVersion=2),
}


@pytest.mark.parametrize("begin", NOT_HOLDING.values(), ids=NOT_HOLDING)
@given(st.lists(READS, max_size=12), st.booleans())
def test_while_nothing_is_served_every_byte_passes(
    begin: Callable[[], CoreConversation], reads: list[tuple[Peer, list[bytes]]], torn: bool
) -> None:
    talk = begin()
    before = talk.all.to_agent, talk.all.to_client
    heard = dict.fromkeys(Peer, b"")
    stray = b""
    other_ids = AgentsOtherIds()
    for number, (peer, lines) in enumerate(reads):
        if torn and number == len(reads) - 1:
            lines = [*lines[:-1], lines[-1].removesuffix(b"\n") or b"{}"]
        if b'"initialize"' in b"".join(lines) and begin is NOT_HOLDING["another version"]:
            continue  # this may agree on a version that is served
        lines = [said for said in lines if not other_ids.is_one(peer, said)]
        send_lines(talk, peer, lines)
        for said in lines:
            if peer is Peer.AGENT and not is_for_the_client(said):
                stray += said
            else:
                heard[peer.other] += said
    assert talk.all.to_agent == before[0] + heard[Peer.AGENT]
    assert talk.all.to_client == before[1] + heard[Peer.CLIENT]
    assert talk.all.stderr == stray


@given(st.lists(READS, max_size=8))
def test_nothing_is_kept_while_recording_is_off(reads: list[tuple[Peer, list[bytes]]]) -> None:
    talk = CoreConversation(records=False)
    for peer, lines in reads:
        send_lines(talk, peer, lines)
    talk.end_agent()
    assert [record for record in talk.all.kept if not isinstance(record, IdentifyAgent)] == []


# --- while sessions are loaded, prompted and cancelled, nothing is lost, doubled or crossed


@dataclass
class Loading:
    """One load, as both sides see it."""

    session: str
    is_answered: bool = False


@dataclass
class Pretender:
    """An agent and a client that do anything the protocol allows, and remember what has to arrive."""

    talk: CoreConversation
    loads: dict[int, Loading] = field(default_factory=dict)
    prompts: dict[int, str] = field(default_factory=dict)
    """The session of each unanswered prompt, by request id. It may wait behind a load."""
    told: dict[str, list[bytes]] = field(default_factory=lambda: {"s": [], "t": []})
    """The lines that the agent sent, by session."""
    past: set[bytes] = field(default_factory=set)
    """Lines of the agent's replays: the client may get them or not, and they are not recorded."""
    between: set[bytes] = field(default_factory=set)
    """Lines sent during a replay: if a prompt comes before its end, they are recorded after the prompt."""
    ids: int = 0

    def load(self, session: str) -> None:
        self.ids += 1
        self.loads[self.ids] = Loading(session)
        self.talk.client.say(load(self.ids, session))

    def prompt(self, session: str) -> None:
        self.ids += 1
        self.prompts[self.ids] = session
        self.talk.client.say(prompt(self.ids, session))

    def cancel(self, which: int) -> None:
        if self.loads:
            self.talk.client.say(cancel(list(self.loads)[which % len(self.loads)]))

    def _asked(self) -> set[int]:
        """The ids of the requests that the agent has got."""
        asked = [json.loads(each) for each in self.talk.all.to_agent.splitlines()]
        return {each["id"] for each in asked if "method" in each and "id" in each}

    def unanswered_loads(self) -> list[int]:
        """The ids of the loads that the agent was asked and has not answered: it is not asked in a turn."""
        asked = self._asked()
        return [id for id, loading in self.loads.items() if id in asked and not loading.is_answered]

    def is_in_turn(self, session: str) -> bool:
        asked = self._asked()
        return any(other == session and id in asked for id, other in self.prompts.items())

    def answer_load(self, which: int, answer: Callable[[int], Any]) -> None:
        if waiting := self.unanswered_loads():
            id = waiting[which % len(waiting)]
            self.loads[id].is_answered = True
            self.talk.agent.say(answer(id))

    def answer_prompt(self, which: int) -> None:
        asked = self._asked()
        if prompts := [id for id in self.prompts if id in asked]:
            id = prompts[which % len(prompts)]
            session = self.prompts.pop(id)
            self.told[session].append(line(prompt_answer(id)))
            self.talk.agent.say(prompt_answer(id))

    def say(self, session: str) -> None:
        self.ids += 1
        said = line(chunk(session, str(self.ids)))
        self.told[session].append(said)
        is_asked = any(self.loads[id].session == session for id in self.unanswered_loads())
        if is_asked and not self.is_in_turn(session):
            self.past.add(said)
        elif self.talk.being_shown and not self.is_in_turn(session):
            self.between.add(said)
        self.talk.agent.say(said)

    def stand(self, session: str) -> None:
        self.ids += 1
        said = line(commands(session, str(self.ids)))
        self.told[session].append(said)
        self.talk.agent.say(said)

    def ask(self, session: str) -> None:
        self.ids += 1
        said = line(permission(self.ids, session))
        self.told[session].append(said)
        self.talk.agent.say(said)

    def replay(self, which: int) -> None:
        if running := self.talk.being_shown:
            self.talk.end_past_by_id(running[which % len(running)])

    def end(self) -> None:
        self.talk.free_output()
        while self.unanswered_loads() or self.prompts or self.talk.being_shown:
            self.answer_load(0, lambda id: result(id, {}))
            self.answer_prompt(0)
            self.replay(0)
        for session in self.told:
            self.talk.client.say(request(f"close {session}", "session/close", {"sessionId": session}))


DOINGS = st.sampled_from(
    ["load", "load", "prompt", "cancel", "ask", *["say"] * 3, "stand", "restore", "refuse", "stop", "replay", "busy"]
)


@given(st.booleans(), st.lists(st.tuples(DOINGS, st.integers(0, 5)), max_size=30))
@example(False, [("load", 0), ("load", 0), ("say", 0), ("restore", 0), ("say", 0), ("prompt", 0)])
@example(False, [("load", 0), ("say", 0), ("prompt", 0), ("say", 0), ("restore", 0), ("say", 0)])
@example(False, [("load", 0), ("load", 0), ("say", 0), ("restore", 0), ("say", 0), ("refuse", 0)])
@example(
    False,
    [("load", 0), ("load", 0), ("prompt", 0), ("restore", 1), ("stop", 0), ("restore", 0), ("say", 0)],
)
def test_nothing_is_lost_doubled_or_crossed_while_sessions_are_loaded(
    opened: bool, doings: list[tuple[str, int]]
) -> None:
    talk = CoreConversation().initialize(RESUMES)
    if opened:
        talk.open("s")
    talk.stored.update(
        {session: SimulatedSession(says=(prompt("said", session), chunk(session, "hello"))) for session in "st"}
    )
    before = len(talk.all.to_client)
    pretender = Pretender(talk)
    for doing, which in doings:
        session = "st"[which % 2]
        match doing:
            case "load" | "prompt" | "say" | "stand" | "ask":
                getattr(pretender, doing)(session)
            case "restore":
                pretender.answer_load(which, lambda id: result(id, {}))
            case "refuse":
                pretender.answer_load(which, lambda id: error(id, -32603))
            case "stop":
                pretender.answer_prompt(which)
            case "busy" if which:
                talk.output_is_busy = True
            case "busy":
                talk.free_output()
            case "cancel" | "replay":
                getattr(pretender, doing)(which)
    pretender.end()
    heard = talk.all.to_client[before:].splitlines(keepends=True)
    answered = [json.loads(message)["id"] for message in heard if b'"method"' not in message]
    assert len(answered) == len(set(answered)), "a request is answered once"
    assert set(pretender.loads) <= set(answered)
    kept = [
        entry.raw + b"\n" for entry in talk.all.kept if isinstance(entry, RecordMessage) and entry.peer is Peer.AGENT
    ]
    for said in pretender.told.values():
        due = [each for each in said if each not in pretender.past]
        past = [each for each in said if each in pretender.past and each in heard]
        assert [message for message in heard if message in set(due)] == due
        assert [message for message in heard if message in pretender.past and message in set(said)] == past
        spoken = [each for each in due if b"agent_message_chunk" in each]
        told = [each for each in kept if each in set(said) and b"agent_message_chunk" in each]
        assert len(set(told)) == len(told), "nothing is recorded twice"
        told = [each for each in told if each not in pretender.past]  # these may be new after an earlier answer
        assert sorted(told) == sorted(spoken)
        in_order = set(spoken) - pretender.between
        assert [each for each in told if each in in_order] == [each for each in spoken if each in in_order]
    assert talk.open_transcripts == []
    assert not talk.core.must_pause_agent
    assert not talk.core.waiting_messages


@given(st.lists(st.tuples(st.sampled_from(["say", "stand", "ask", "turn"]), st.sampled_from("st")), max_size=20))
def test_updates_while_the_past_is_shown_follow_the_answer_in_order(
    doings: list[tuple[str, str]],
) -> None:
    talk = CoreConversation().initialize(RESUMES)
    talk.stored.update(s=SimulatedSession())
    talk.client.say(load(1, "s"))
    talk.agent.say(result(1, {}))
    said: dict[str, list[bytes]] = {"s": [], "t": []}
    for number, (doing, session) in enumerate(doings, 2):
        told: Said
        match doing:
            case "say":
                told = chunk(session, str(number))
            case "stand":
                told = commands(session, str(number))
            case "ask":
                told = permission(number, session)
            case _:
                talk.client.say(prompt(number, session))
                told = prompt_answer(number)
        said[session].append(line(told))
        assert talk.agent.say(told).to_client == (line(told) if session == "t" else b"")
    assert talk.end_past(1).to_client == line(result(1, {})) + b"".join(said["s"])
