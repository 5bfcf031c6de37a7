"""Connections between a client and an agent: direct, through acp-proxy in this process, or between real processes.

A link carries messages, one at a time. ``receive`` waits for the next one; nothing else depends on time.
"""

import json
import os
import select
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from acp_proxy.decisions.capabilities import Modes, Settings
from acp_proxy.decisions.connection import Connection
from acp_proxy.recording.recorder import Recorder
from acp_proxy.recording.writer_jobs import T, WriterJob
from acp_proxy.relay.load_thread import THREAD_NAME
from acp_proxy.relay.opened_transcript import ShowOptions
from acp_proxy.relay.relay import WAITING_THREAD_NAME, Relay
from acp_proxy.store.proxy_store import ProxyStore
from acp_proxy.transcript_replay.replayer import TOOL_LIMIT, Mode
from simulation.agent import Agent, Message, line_of

SECONDS = 30.0
"""The limit of each wait: far more than a busy machine needs."""
_READ_SIZE = 65536
_LOADING = frozenset({THREAD_NAME, WAITING_THREAD_NAME})
"""The names of acp-proxy's threads that loads have."""
_CHECKOUT = Path(__file__).parent.parent
COMMAND = ["simulated-agent"]
"""The agent's command, which names its folder in the store."""


class Stuck(Exception):
    """Something that had to come did not."""


class Link:
    """What a client holds in its hands."""

    warnings: Sequence[str] = ()

    def send(self, message: Message) -> None:
        raise NotImplementedError

    def receive(self) -> Message:
        """The next message. Raises ``Stuck`` if none comes."""
        raise NotImplementedError

    def end(self) -> list[Message]:
        """End the client's side, then the agent's; what the client still got."""
        raise NotImplementedError

    def kill(self, side: str, agent: int) -> list[Message]:
        """Kill the agent or the proxy; what the client still got. ``agent``: its process id."""
        raise NotImplementedError


class Direct(Link):
    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._out: deque[Message] = deque()

    def send(self, message: Message) -> None:
        self._out += self._agent.hear(message)

    def receive(self) -> Message:
        while self._out:
            try:
                return json.loads(line_of(self._out.popleft()))  # type: ignore[no-any-return]
            except ValueError:
                continue  # a line that is not JSON
        raise Stuck("the agent says nothing")

    def end(self) -> list[Message]:
        self._agent.end(killed=False)
        return []

    def kill(self, side: str, agent: int) -> list[Message]:
        self._agent.end(killed=side == "agent")
        return []


def _wait_for(job: WriterJob[T]) -> bool:
    """A busy machine is not a hanging store."""
    return job.done_lock.acquire(timeout=SECONDS)


class Proxied(Link):
    """The client and the agent at the ends of acp-proxy's pumps, on the caller's thread."""

    def __init__(self, store: ProxyStore, agent: Agent, options: dict[str, Any], replay: Mode = "compact") -> None:
        self._agent = agent
        self.warnings: list[str] = []
        self.recorder = Recorder(store, COMMAND, None, "never", self.warnings.append)
        vars(self.recorder.jobs)["wait"] = _wait_for
        self._from_client, self._client_writes = os.pipe()
        self._client_reads, self._client_output = os.pipe()
        self._from_agent, self._agent_writes = os.pipe()
        self._agent_reads, self._agent_output = os.pipe()
        self._begun = {self._client_reads: b"", self._agent_reads: b""}
        self._ends = list(self._begun)
        self._heard: deque[Message] = deque()
        self._relay = Relay(
            Connection(Settings(records=True, serves=True, proxy_version="0", modes=Modes(**options))),
            self.recorder,
            from_client=self._from_client,
            to_client=self._client_output,
            from_agent=self._from_agent,
            to_agent=self._agent_output,
            warn=self.warnings.append,
            show_options=ShowOptions(replay, TOOL_LIMIT),
        )
        self._relay.start()

    def send(self, message: Message) -> None:
        os.write(self._client_writes, line_of(message))

    def receive(self) -> Message:
        while not self._heard:
            self._pass_on(SECONDS)
        self.recorder.wait_until_recorded()  # updates are recorded a moment after they have passed
        self._wait_for_loads()
        return self._heard.popleft()

    def _wait_for_loads(self) -> None:
        """Wait until the past is shown for loads that are answered, and the agent has what waited for them. Threads of
        their own do that, and nothing may depend on how fast they are."""
        end = time.monotonic() + SECONDS
        while any(thread.name in _LOADING for thread in threading.enumerate()):
            if time.monotonic() > end:
                raise Stuck("a load comes to no end")
            time.sleep(0.0005)

    def end(self) -> list[Message]:
        self._close_client()
        self._close_agent()
        self._relay.handle_agent_end("agent exited with status 0")
        self._agent.end(killed=False)
        return self._close()

    def kill(self, side: str, agent: int) -> list[Message]:
        if side == "agent":
            self._close_agent()
            self._relay.handle_agent_end("agent exited with signal 9")
            self._close_client()
        else:
            self._close_client()
            self._close_agent()
        self._agent.end(killed=side == "agent")
        return self._close()

    def _close_client(self) -> None:
        os.close(self._client_writes)
        if not self._relay.client_pump.ended.wait(SECONDS):
            raise Stuck("the proxy has not read to the client's end")

    def _close_agent(self) -> None:
        os.close(self._agent_writes)
        if not self._relay.agent_pump.ended.wait(SECONDS):
            raise Stuck("the proxy has not read to the agent's end")

    def _close(self) -> list[Message]:
        self._relay.finish_work(SECONDS)
        # A process that ends closes what it has open.
        for known in self.recorder._recorded_sessions._states_by_id.values():
            self.recorder._files.close(known)
        os.close(self._client_output)
        os.close(self._agent_output)
        while self._ends:
            self._pass_on(SECONDS, answers=False)
        for each in (self._client_reads, self._agent_reads, self._from_client, self._from_agent):
            os.close(each)
        heard = list(self._heard)
        self._heard.clear()
        return heard

    def _pass_on(self, seconds: float, *, answers: bool = True) -> None:
        """Take what one end reads next, and let the agent answer."""
        waiting = select.poll()  # long runs have more files open than ``select`` can wait for
        for each in self._ends:
            waiting.register(each, select.POLLIN)
        ready = waiting.poll(seconds * 1000)
        if not ready:
            raise Stuck("nothing comes any more")
        end = ready[-1][0]
        data = os.read(end, _READ_SIZE)
        if not data:
            self._ends.remove(end)
        *lines, self._begun[end] = (self._begun[end] + data).split(b"\n")
        for line in lines:
            try:
                message = json.loads(line)
            except ValueError:
                continue
            if end == self._client_reads:
                self._heard.append(message)
            elif answers:
                out = b"".join(line_of(each) for each in self._agent.hear(message))
                if out:
                    os.write(self._agent_writes, out)


class Process(Link):
    """A real process: the agent, or acp-proxy with the agent behind it. A kill is SIGKILL."""

    def __init__(self, command: Sequence[str]) -> None:
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=_CHECKOUT
        )

    def send(self, message: Message) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line_of(message))
        self._process.stdin.flush()

    def receive(self) -> Message:
        message = self._read()
        if message is None:
            raise Stuck("the process has ended")
        return message

    def end(self) -> list[Message]:
        assert self._process.stdin is not None
        self._process.stdin.close()
        return self._rest()

    def kill(self, side: str, agent: int) -> list[Message]:
        if agent == self._process.pid and side == "proxy":
            return self.end()  # alone, the client is what goes away
        os.kill(agent if side == "agent" else self._process.pid, signal.SIGKILL)
        return self._rest()

    def _rest(self) -> list[Message]:
        """What still comes, until the process and the agent, which has the same output, are gone."""
        rest = []
        while (message := self._read()) is not None:
            rest.append(message)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(SECONDS)
        return rest

    def _read(self) -> Message | None:
        assert self._process.stdout is not None
        while line := self._process.stdout.readline():
            try:
                return json.loads(line)  # type: ignore[no-any-return]
            except ValueError:
                continue
        return None
