"""Several threads decide about one session, and perform what follows, effect by effect, in an order by chance: the
pumps of the client and the agent, the threads that decide on what waited, and those that show the past.

Each request gets one answer, and what the client sends about the session reaches the agent in order. What the agent
says in a turn, or after the last load, reaches the client and the transcript once.
"""

import json
import random
from collections import deque
from collections.abc import Callable
from typing import Any

import pytest

from acp_proxy.decisions.capabilities import AGENT, AUTO, STORE, Mode, Modes
from acp_proxy.decisions.effects import (
    DecideWaiting,
    Forward,
    RecordMessage,
    RecordUnparsedUpdates,
    RelayEffect,
    TranscriptEffect,
)
from acp_proxy.decisions.events import LinesRead
from acp_proxy.protocol import acp
from acp_proxy.protocol.jsonrpc import Peer
from tests.conversation import (
    LOADS,
    RESUMES,
    CoreConversation,
    Said,
    SimulatedSession,
    Step,
    cancel,
    chunk,
    delete,
    error,
    load,
    notification,
    prompt,
    request,
    result,
    resume,
)
from tests.decisions.load.loading import GREETING, PAST, TURN_ONE, TURN_TWO

MADE_ELSEWHERE: list[Said] = [chunk("s", "and go on", "user_message_chunk"), chunk("s", "I went on elsewhere.")]
REPLAYS: list[list[Said]] = [
    [*TURN_ONE, *TURN_TWO],
    [*TURN_ONE, *MADE_ELSEWHERE],
    [*TURN_ONE, *TURN_TWO, GREETING],
    [],
]
CLIENT, AGENT_PUMP = "client", "agent"


class Threads:
    """A conversation of which each thread performs its effects one by one, when its turn comes."""

    def __init__(self, seed: int, modes: list[Mode]) -> None:
        self.chance = random.Random(seed)
        served: dict[str, Any] = self.chance.choice([LOADS, RESUMES, {**LOADS, **RESUMES}, {}])
        self.talk = CoreConversation(modes=Modes(load=self.chance.choice(modes), resume=self.chance.choice(modes)))
        self.talk.initialize(served)
        self.talk.stored["s"] = SimulatedSession(says=PAST)
        self.pending: dict[str, deque[RelayEffect | str]] = {CLIENT: deque(), AGENT_PUMP: deque()}
        """What each thread has to perform. A text: the session of which it decides on what waited."""
        self.current = CLIENT
        self.to_agent: list[dict[str, Any]] = []
        self.to_client: list[dict[str, Any]] = []
        self.ids: list[int] = []
        self.may_load_again = self.may_delete = True
        self.words: list[str] = []
        """What the agent said that is new, and not after a load that another one followed."""
        self.recorded = ""
        """All that was recorded."""
        self._said_count = 0
        self._load_ids: set[int] = set()
        self._answered: set[int] = set()
        self._performs = self.talk._next
        self.talk._write = self._record  # type: ignore[method-assign]
        self.talk._passed = lambda *said: None  # type: ignore[method-assign]
        self.talk._perform = lambda effects, step: self._add(effects)  # type: ignore[method-assign]

    def _add(self, effects: list[RelayEffect]) -> None:
        self.pending.setdefault(self.current, deque()).extendleft(effects[::-1])

    def _record(self, effect: TranscriptEffect) -> None:
        if isinstance(effect, RecordMessage):
            self.recorded += effect.raw.decode()
        elif isinstance(effect, RecordUnparsedUpdates):
            self.recorded += effect.data.decode()
        CoreConversation._write(self.talk, effect)

    def list_busy(self) -> list[str]:
        return [thread for thread, effects in self.pending.items() if effects]

    def perform_one(self, thread: str) -> None:
        self.current, step = thread, Step()
        effect = self.pending[thread].popleft()
        if isinstance(effect, str):
            lines = self.talk.core.waiting_messages.take_next(effect)
            self._add(self.talk._decide(LinesRead(Peer.CLIENT, lines), step))
            return
        if isinstance(effect, DecideWaiting):
            self.pending[f"waiting messages {len(self.pending)}"] = deque([effect.session_id])
            return
        if isinstance(effect, Forward):
            messages = self.to_agent if effect.to is Peer.AGENT else self.to_client
            messages.extend(map(json.loads, effect.data.splitlines()))
        self._add(self._performs(effect, step))

    def let_client_say(self) -> None:
        self._said_count += 1
        number = self._said_count
        session = {"sessionId": "s", "number": number}
        kinds: dict[str, tuple[int, Any]] = {
            "load": (36, load(number, "s")),
            "resume": (8, resume(number, "s")),
            "prompt": (16, prompt(number, "s")),
            "mode": (10, request(number, "session/set_mode", session)),
            "ask": (4, request(number, "_x/ask", session)),
            "note": (10, notification("_x/note", session)),
            "cancel turn": (6, notification("session/cancel", {"sessionId": "s"})),
            "cancel": (9, cancel(self.chance.choice(self.ids or [0]))),
            "close": (2, request(number, "session/close", session)),
            "delete": (1, delete(number, "s")),
        }
        if not self.may_load_again:
            del kinds["load"], kinds["resume"]
        if not self.may_delete:
            del kinds["delete"]
        weights, messages = zip(*kinds.values(), strict=True)
        message = self.chance.choices(messages, weights)[0]
        self.ids += [number] if "id" in message else []
        self._load_ids |= {number} if message["method"] in (acp.LOAD, acp.RESUME) else set()
        self.current = CLIENT
        self.talk.client.say(message)

    def let_agent_speak(self) -> None:
        """The agent sends something new, unless it works on what came before."""
        if self.pending[AGENT_PUMP]:
            return
        texts = [f"{self.chance.random()} is new" for _ in range(self.chance.randint(1, 2))]
        answered = {message.get("id") for message in self.to_client}
        is_last_load_over = not self.may_load_again and self._load_ids <= answered
        is_in_turn = self.talk.core._session_tracker.sessions.is_in_turn("s")
        if (is_in_turn or is_last_load_over) and not self.talk.core._load_machine.loads.list_pending():
            self.words += texts
        self.current = AGENT_PUMP
        self.talk._step(LinesRead(Peer.AGENT, self.talk._said(tuple(chunk("s", text) for text in texts))))

    def let_agent_answer(self) -> bool:
        """The agent answers the oldest request. Returns whether there is one."""
        asked = [
            (index, message)
            for index, message in enumerate(self.to_agent)
            if "id" in message and "method" in message and index not in self._answered
        ]
        if not asked or self.pending[AGENT_PUMP]:
            return False
        index, message = asked[0]
        self._answered.add(index)
        id, method = message["id"], message["method"]
        replay = self.chance.choice(REPLAYS) if method == "session/load" else []
        results = {"session/prompt": {"stopReason": "end_turn"}, "session/new": {"sessionId": f"new {id}"}}
        answer = result(id, results.get(method, {}))
        if self.chance.random() < 0.15:
            answer = self.chance.choice([error(id, -32603), error(id, -32002, "Session not found: s")])
        self.current = AGENT_PUMP
        self.talk.agent.say(*replay, answer)
        return True

    def show_past(self) -> bool:
        """The past is shown, in one go: the client's output is held. Returns whether it was to be."""
        if not self.talk.being_shown:
            return False
        id = self.chance.choice(self.talk.being_shown)
        self.current = f"choose past {id}"
        self.talk.end_past_by_id(id)
        while self.pending.get(self.current):
            self.perform_one(self.current)
        return True

    def run(self, *, agent_speaks: bool = False) -> None:
        """``agent_speaks``: it also says something new. Then the client deletes nothing, and loads no more from some
        time on."""
        self.may_delete = not agent_speaks
        performs, says = (0.5, 0.65) if agent_speaks else (0.6, 0.8)
        steps = self.chance.randint(10, 80)
        for step in range(steps):
            self.may_load_again = not agent_speaks or step < steps / 2
            busy, choice = self.list_busy(), self.chance.random()
            if busy and choice < performs:
                self.perform_one(self.chance.choice(busy))
            elif choice < says and not self.pending[CLIENT]:
                self.let_client_say()
            elif agent_speaks and choice < 0.8:
                self.let_agent_speak()
            elif choice < 0.93:
                self.let_agent_answer()
            else:
                self.show_past()

    def finish(self) -> None:
        """Until nothing is left to do."""
        while True:
            if busy := self.list_busy():
                self.perform_one(self.chance.choice(busy))
            elif not (self.let_agent_answer() or self.show_past()):
                return

    def end_agent(self) -> None:
        """The agent ends: the pumps and the threads that show the past have come to their end, others have not."""
        while self.show_past() or self.pending[AGENT_PUMP] or self.pending[CLIENT]:
            for pump in (AGENT_PUMP, CLIENT):
                while self.pending[pump]:
                    self.perform_one(pump)
        self.current = "the rest"
        self.talk.end_agent()
        while self.list_busy() or self.show_past():
            if busy := self.list_busy():
                self.perform_one(self.chance.choice(busy))

    def check(self) -> None:
        answers = [message["id"] for message in self.to_client if "method" not in message]
        assert sorted(answers) == self.ids, "each request gets one answer"
        numbers = [
            message["id"] if isinstance(message.get("id"), int) else message.get("params", {}).get("number")
            for message in self.to_agent
        ]
        first = list(dict.fromkeys(number for number in numbers if number is not None))  # a prompt may be sent again
        assert first == sorted(first), "the agent gets all in order"
        assert not self.talk.core.waiting_messages

    def check_words(self) -> None:
        sent = json.dumps(self.to_client)
        for word in self.words:
            assert sent.count(word) == 1, "the client gets it once"
            assert self.recorded.count(word) == 1, "it is recorded once"
        in_order = sorted(self.words, key=sent.index)
        assert in_order == self.words, "the client gets all in order"


def hold_conversations(first: int, modes: list[Mode], hold: Callable[[Threads], None]) -> None:
    for seed in range(first, first + 100):
        threads = Threads(seed, modes)
        try:
            hold(threads)
        except AssertionError as failure:
            raise AssertionError(f"seed {seed}") from failure


@pytest.mark.parametrize("modes", [[AUTO], [AUTO, STORE, AGENT]], ids=["as usual", "all modes"])
@pytest.mark.parametrize("first", range(0, 400, 100))
def test_each_request_is_answered_once_and_the_agent_gets_all_in_order(first: int, modes: list[Mode]) -> None:
    def hold(threads: Threads) -> None:
        threads.run()
        threads.finish()
        threads.check()

    hold_conversations(first, modes, hold)


@pytest.mark.parametrize("first", range(0, 400, 100))
def test_each_request_is_answered_once_also_if_the_agent_ends(first: int) -> None:
    def hold(threads: Threads) -> None:
        threads.run()
        threads.end_agent()
        threads.check()

    hold_conversations(first, [AUTO, STORE, AGENT], hold)


@pytest.mark.parametrize("first", range(0, 400, 100))
def test_what_the_agent_says_is_sent_and_recorded_once(first: int) -> None:
    def hold(threads: Threads) -> None:
        threads.run(agent_speaks=True)
        threads.finish()
        threads.end_agent()
        threads.check_words()

    hold_conversations(first, [AUTO, STORE, AGENT], hold)
