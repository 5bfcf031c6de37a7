"""Messages of both peers and the store: the core never raises, and no line is lost, repeated or out of order.

Each line has a number, to recognise it on the other side.
"""

import json
import re
from typing import Any

from acp_proxy.comparison.whose_past import PastRule
from acp_proxy.decisions.capabilities import Mode, Modes
from acp_proxy.protocol import acp, jsonrpc
from acp_proxy.protocol.jsonrpc import Notification, Opaque, Peer, Request, Response
from fuzz.choices import SESSIONS, Choices
from tests.conversation import CoreConversation, SimulatedSession, chunk, raw

_MOST = 120  # events
_MARK = re.compile(rb'"_n":(\d+)[}\]]')
_ANSWERED = {acp.LIST, acp.LOAD, acp.RESUME, acp.DELETE, acp.STEERING, acp.CLOSE, acp.FORK, acp.STATUS}
_ANSWERED |= acp.RECORDED_REQUESTS | acp.RENAMES | acp.ARCHIVES | acp.UNARCHIVES
"""Requests that may be answered here, or wait for the store. A store that is slow here lets later lines overtake them;
``run`` does not, since it looks a session up before it goes on."""


def run(data: bytes) -> None:
    choices = Choices(data)
    who: tuple[Mode, ...] = ("auto", "auto", "agent", "store")
    listing, loading, deleting, resuming = (choices.pick(who) for _ in range(4))
    modes = Modes(listing, loading, deleting, resuming, choices.pick(("auto", "always", "never")))
    talk = CoreConversation(records=choices.below(8) < 7, serves=choices.below(8) < 7, modes=modes)
    if choices.below(8) < 7:
        talk.initialize(choices.capabilities(), protocolVersion=choices.pick((1, 1, 1, 1, 2, None)))
    for session in choices.some(SESSIONS):
        talk.stored[session] = stored(choices)
    talking = Talking(talk)
    events = 0
    while choices.more and events < _MOST:
        events += 1
        happens(choices, talking)
    talking.ends()


def happens(choices: Choices, talking: "Talking") -> None:
    talk = talking.talk
    match choices.below(11):
        case 0 if talk.pending_lookups:
            talk.finish_lookup_by_id(next(iter(talk.pending_lookups)), stored(choices))
        case 1 if talk.being_shown:
            handover_record = choices.pick(("", "# record"))
            rule = choices.pick((None, *PastRule))
            talk.end_past_by_id(choices.pick(talk.being_shown), rule=rule, handover_record=handover_record)
        case 2:
            id = f"acp-proxy/{1 + choices.below(3)}"
            answer = {"result": choices.result()} if choices.maybe() else {"error": choices.value(2)}
            talking.said(Peer.AGENT, [{"id": id, **answer}])
        case 3:
            talking.said(Peer.AGENT, [chunk(choices.pick(SESSIONS), choices.text()) for _ in range(choices.below(4))])
        case 4:
            talking.raw(choices.pick(tuple(Peer)), choices.taken(choices.below(40)).replace(b"\n", b"") + b"\n")
        case 5 if talk.output_is_busy:
            talk.free_output()
        case 5:
            talk.output_is_busy = True
        case 6 | 7 | 8:
            talking.said(Peer.CLIENT, [choices.message() for _ in range(1 + choices.below(3))])
        case _:
            talking.said(Peer.AGENT, [choices.message() for _ in range(1 + choices.below(3))])


def stored(choices: Choices) -> SimulatedSession:
    held, complete, deleted, slow = (choices.maybe() for _ in range(4))
    return SimulatedSession(held, complete, deleted, choices.pick((None, None, None, "EIO")), slow)


class Talking:
    """The conversation, and what each peer must have received by its end."""

    def __init__(self, talk: CoreConversation) -> None:
        self.talk = talk
        self._number = 0
        self._due: dict[Peer, list[int]] = {peer: [] for peer in Peer}
        """By receiver: the lines forwarded at once, in order."""
        self._said: dict[Peer, set[int]] = {peer: set() for peer in Peer}

    def said(self, peer: Peer, messages: list[Any]) -> None:
        lines = [self._marked(peer, message) for message in messages]
        if lines:
            self._say(peer, *lines)

    def raw(self, peer: Peer, line: bytes) -> None:
        self._say(peer, line)

    def ends(self) -> None:
        talk = self.talk
        talk.free_output()
        while talk.pending_lookups:
            talk.finish_lookup_by_id(next(iter(talk.pending_lookups)))
        while talk.being_shown:
            talk.end_past_by_id(talk.being_shown[0])
        talk.end_agent()
        while talk.pending_lookups:
            talk.finish_lookup_by_id(next(iter(talk.pending_lookups)))
        while talk.being_shown:
            talk.end_past_by_id(talk.being_shown[0])
        assert talk.open_transcripts == [], "no transcript stays open"
        assert not talk.core.must_pause_agent
        for peer, heard in ((Peer.AGENT, talk.all.to_agent), (Peer.CLIENT, talk.all.to_client)):
            marks = [int(mark) for mark in _MARK.findall(heard)]
            assert len(marks) == len(set(marks)), "no line is doubled"
            assert set(marks) <= self._said[peer.other], "each side hears the other"
            due = set(self._due[peer])
            assert [mark for mark in marks if mark in due] == self._due[peer], "what passes passes at once, in order"

    def _say(self, peer: Peer, *lines: bytes) -> None:
        if peer is Peer.CLIENT:
            self.talk.client.say(*lines)
        else:
            self.talk.agent.say(*lines)

    def _marked(self, peer: Peer, message: Any) -> bytes:
        self._number += 1
        if isinstance(message, dict):
            message = {**message, "_n": self._number}
        elif isinstance(message, list):
            message = [*message, {"_n": self._number}]
        else:
            return raw(message) + b"\n" if isinstance(message, bytes) else json.dumps(message).encode() + b"\n"
        line = raw(message) + b"\n"
        self._said[peer].add(self._number)
        if _passes(peer, line):
            self._due[peer.other].append(self._number)
        return line


def _passes(peer: Peer, line: bytes) -> bool:
    """Whether this line may not be delayed, answered or swallowed."""
    match jsonrpc.read_message(line):
        case Request(method=method) if peer is Peer.CLIENT:
            return method not in _ANSWERED
        case Request() | Response():
            return peer is Peer.CLIENT
        case Notification(method="session/update"):
            return peer is Peer.CLIENT
        case Opaque(is_json=is_json):
            return is_json
        case _:
            return True
