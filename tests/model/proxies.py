"""One proxy between an editor and an agent that the test plays, on the test's own thread.

No wait depends on time. The editor asks ``_sync``, and only then the agent gets what came before, all at once; its
answer to ``_sync`` follows what it said. Since lines keep their order, everything has passed when that answer is back.
A replay comes from a thread, but it ends with the load's answer: so no request that the agent has answered may be left
open.
"""

import json
import os
import queue
import select
import sys
import threading
from collections.abc import Callable
from typing import Any

from acp_proxy.proxy.capabilities import Settings
from acp_proxy.proxy.connection import Connection
from acp_proxy.recording.recorder import Job, Recorder, T
from acp_proxy.replay.replayer import TOOL_LIMIT
from acp_proxy.run.relay import Relay, ReplayOptions
from acp_proxy.store.store import Store
from tests.model.agents import Agent, Message, Said
from tests.model.second import Forms
from tests.model.world import shown

SECONDS = 30.0
"""The limit of each wait: far more than a busy machine needs."""
_READ_SIZE = 65536
_SYNC = "_sync"
_OPENING = ("session/load", "session/resume", "session/fork")
"""After the answers to these, more may come."""
COMMAND = ["model-agent"]
"""The agent's command, which names its folder in the store."""


class Stuck(AssertionError):
    """Something that had to come did not."""


class _Patient(Recorder):
    def wait(self, job: Job[T]) -> bool:
        """A busy machine is not a hanging store."""
        return job.done.acquire(timeout=SECONDS)


class Proxied:
    def __init__(
        self, store: Store, agent: Agent, name: str, note: Callable[[str], None], *, is_second: bool = False
    ) -> None:
        """``note`` is called with every line that passes one of the ends. ``is_second``: they speak version 2."""
        self._forms = Forms(is_second=is_second)
        self.agent = agent
        self.name = name
        self.heard: list[Message] = []
        """What the editor has got since this was last taken."""
        self.answers: dict[Any, list[Message]] = {}
        self.said: list[Said] = []
        """What the agent has said since this was last taken."""
        self.warnings: list[str] = []
        self.recorder = _Patient(store, COMMAND, None, "never", self.warnings.append)
        self._note = note
        self._asked: dict[Any, str] = {}
        self._next = 0
        self._synced = 0
        self._opens = False
        self._inbox: list[Message] = []
        self._from_client, self._editor_writes = os.pipe()
        self._editor_reads, self._to_client = os.pipe()
        self._from_agent, self._agent_writes = os.pipe()
        self._agent_reads, self._to_agent = os.pipe()
        self._begun = {self._editor_reads: b"", self._agent_reads: b""}
        self._ends = list(self._begun)
        """Those that have not ended."""
        self._read: queue.SimpleQueue[tuple[int, bytes]] = queue.SimpleQueue()
        if sys.platform == "win32":  # it cannot wait for two pipes at once
            for end in self._begun:
                threading.Thread(target=self._read_all, args=(end,), daemon=True).start()
        self._relay = Relay(
            Connection(Settings(records=True, serves=True, release="0")),
            self.recorder,
            from_client=self._from_client,
            to_client=self._to_client,
            from_agent=self._from_agent,
            to_agent=self._to_agent,
            warn=self.warnings.append,
            replay=ReplayOptions("compact", TOOL_LIMIT),
        )
        self._relay.start()

    # --- the editor

    def ask(self, method: str, **params: Any) -> int:
        """Send a request; its id."""
        self._next += 1
        self._asked[self._next] = method
        self._opens = self._opens or method in _OPENING
        self.tell(method, id=self._next, **params)
        return self._next

    def tell(self, method: str, id: int | None = None, **params: Any) -> None:
        """Send a notification, or a request with this id."""
        numbered = {} if id is None else {"id": id}
        message = {"jsonrpc": "2.0", **numbered, "method": method, "params": params}
        self._note(f"editor {self.name} → {shown(message)}")
        self._write(self._editor_writes, self._forms.from_editor(message))

    def settle(self) -> None:
        """Wait until everything has passed. Then each request has one answer, except those the agent leaves open."""
        while True:
            before = len(self.answers)
            self._sync()
            seen = len(self.answers) > before + 1
            if self.agent.backlog:
                self.agent.flush()
                self._agent_says()
            elif prompts := self._open():
                self._wait_for_more(prompts)
            elif not (seen and self._opens):
                self._opens = False
                return  # nothing but what a replay holds back can still be on its way

    def say(self) -> None:
        """Send what the agent was made to say."""
        self._agent_says()

    def answer(self, id: int) -> Message:
        """The one answer to a request. It must be there."""
        found = self.answers.get(id, [])
        if len(found) != 1:
            raise Stuck(f"{len(found)} answers to {self._named({id})}")
        return found[0]

    def wait_for(self, id: int) -> Message:
        """The answer to a request. The agent gets what was sent to it; the rest of a replay stays back."""
        self._sync()
        while id not in self.answers:
            self._wait_for_more({id})
            self._sync()
        return self.answer(id)

    def pass_on(self) -> None:
        """Pass what was sent to the agent, and what it says to that at once."""
        self._sync()

    # --- ends

    def end(self) -> None:
        """End the editor's side, then the agent's; the proxy records everything."""
        self._close_inputs()
        self._relay.finish("agent exited with status 0")
        self._close()

    def kill(self) -> None:
        """End both sides without recording anything more."""
        self._close_inputs()
        self._close()

    def _close_inputs(self) -> None:
        for end, pump in ((self._editor_writes, self._relay.client), (self._agent_writes, self._relay.agent)):
            os.close(end)
            if not pump.ended.wait(SECONDS):
                raise Stuck("the proxy has not read to the end")

    def _close(self) -> None:
        self._relay.finish_work(SECONDS)
        for known in self.recorder._sessions.values():  # a process that ends closes what it has open
            self.recorder._sessions.close(known)
        os.close(self._to_client)
        os.close(self._to_agent)
        while self._ends:
            end, data = self._arrived()
            if end == self._editor_reads:
                self._take(end, data)
        for each in (self._editor_reads, self._agent_reads, self._from_client, self._from_agent):
            os.close(each)

    # --- passing lines

    def _sync(self) -> None:
        self._synced += 1
        id = f"{_SYNC}-{self._synced}"
        self._write(self._editor_writes, {"jsonrpc": "2.0", "id": id, "method": _SYNC, "params": {}})
        self._wait(lambda: id in self.answers, "an answer to _sync")
        self.recorder.flush()  # updates are recorded a moment after they have passed

    def _wait_for_more(self, prompts: set[Any]) -> None:
        """Wait until one of these is answered, or the proxy asks the agent something on its own."""
        there = len(self.answers)
        self._wait(lambda: bool(self._inbox) or len(self.answers) > there, f"an answer to {self._named(prompts)}")

    def _open(self) -> set[Any]:
        return {id for id in self._asked if id not in self.answers and not self.agent.holds(id)}

    def _named(self, ids: set[Any]) -> str:
        return ", ".join(f"{self._asked.get(id)} #{id}" for id in sorted(ids))

    def _wait(self, is_there: Callable[[], bool], what: str) -> None:
        while not is_there():
            try:
                self._take(*self._arrived())
            except queue.Empty:
                raise Stuck(f"{what} did not come") from None

    def _arrived(self) -> tuple[int, bytes]:
        """What one end reads next; nothing when it ends. Raises queue.Empty."""
        if sys.platform == "win32":
            end, data = self._read.get(timeout=SECONDS)
        else:
            waiting = select.poll()  # long runs have more files open than ``select`` can wait for
            for each in self._ends:
                waiting.register(each, select.POLLIN)
            ready = waiting.poll(SECONDS * 1000)
            if not ready:
                raise queue.Empty
            end = ready[-1][0]
            data = os.read(end, _READ_SIZE)
        if not data:
            self._ends.remove(end)
        return end, data

    def _read_all(self, end: int) -> None:
        while data := os.read(end, _READ_SIZE):
            self._read.put((end, data))
        self._read.put((end, b""))

    def _take(self, end: int, data: bytes) -> None:
        *lines, self._begun[end] = (self._begun[end] + data).split(b"\n")
        for line in lines:
            (self._editor_hears if end == self._editor_reads else self._agent_hears)(json.loads(line))

    def _editor_hears(self, heard: Message) -> None:
        message = self._forms.to_editor(heard)
        if message is None:
            return
        id = message.get("id")
        if "method" not in message:
            self.answers.setdefault(id, []).append(message)
            if len(self.answers[id]) > 1 or not (id in self._asked or str(id).startswith(_SYNC)):
                raise Stuck(f"an answer that nobody waits for: {shown(message)}")
        if not str(id).startswith(_SYNC):
            self._note(f"editor {self.name} ← {shown(message)}")
            self.heard.append(message)

    def _agent_hears(self, message: Message) -> None:
        """The agent gets what reached it at ``_sync``, and what the proxy asks on its own at the next one."""
        if message.get("method") != _SYNC:
            self._note(f"    agent {self.name} ← {shown(message)}")
            self._inbox.append(self._forms.to_agent(message))
            return
        inbox, self._inbox = self._inbox, []
        self.agent.hear(inbox)
        self._agent_says()
        self._write(self._agent_writes, {"jsonrpc": "2.0", "id": message["id"], "result": {}})

    def _agent_says(self) -> None:
        for said in self.agent.said:
            self._note(f"    agent {self.name} → {shown(said.message)}")
        for message in self._forms.from_agent(self.agent.said):
            self._write(self._agent_writes, message)
        self.said += self.agent.said
        self.agent.said = []

    def _write(self, end: int, message: Message) -> None:
        os.write(end, json.dumps(message, separators=(",", ":")).encode() + b"\n")
