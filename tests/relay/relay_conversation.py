"""A relay between an editor and an agent that the test plays."""

import json
import os
import select
import threading
from typing import Any

from acp_proxy.decisions.capabilities import Settings
from acp_proxy.decisions.connection import Connection
from acp_proxy.recording.recorder import Recorder
from acp_proxy.relay.opened_transcript import ShowOptions
from acp_proxy.relay.relay import Relay
from acp_proxy.store.proxy_store import ProxyStore
from acp_proxy.transcript_replay.replayer import TOOL_LIMIT
from tests.waiting import SECONDS

SETTINGS = Settings(records=True, serves=True, proxy_version="0")


class Side:
    """An editor or an agent: what it sends, and what it gets."""

    def __init__(self) -> None:
        self.test_reads_from, self.relay_writes_to = os.pipe()
        self.relay_reads_from, self.test_writes_to = os.pipe()
        self.lines: list[bytes] = []
        self.begun = b""
        """The beginning of a line whose end has not come."""
        self.reads_on = threading.Event()
        """Cleared: nothing is read after the next data."""
        self.reads_on.set()
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def say(self, message: Any) -> None:
        os.write(self.test_writes_to, message if isinstance(message, bytes) else json.dumps(message).encode() + b"\n")

    def hear(self, **wanted: Any) -> Any:
        """The first message with these members; waits until it comes."""

        def found() -> Any:
            messages = [json.loads(line) for line in self.lines]
            return next((message for message in messages if wanted.items() <= message.items()), None)

        with self._changed:
            assert self._changed.wait_for(found, SECONDS), (wanted, self.lines)
            return found()

    def hears_a_line_begin(self) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self.begun, SECONDS), self.lines

    def end(self) -> None:
        os.close(self.test_writes_to)

    def heard_the_end(self) -> bool:
        self._thread.join(SECONDS)
        return not self._thread.is_alive()

    def close(self) -> None:
        """Close the ends that the relay used, once it has finished."""
        os.close(self.relay_writes_to)
        os.close(self.relay_reads_from)
        self._thread.join(SECONDS)

    def _listen(self) -> None:
        with open(self.test_reads_from, "rb", buffering=0) as stream:
            while data := stream.read(65536):
                with self._changed:
                    *lines, self.begun = (self.begun + data).split(b"\n")
                    self.lines += [line + b"\n" for line in lines]
                    self._changed.notify_all()
                assert self.reads_on.wait(9 * SECONDS)

    def stop_reading(self, other: "Side") -> None:
        """Stop reading after one more line from the other side."""
        self.reads_on.clear()
        other.say({"jsonrpc": "2.0", "method": "_last"})
        self.hear(method="_last")

    def is_written_to(self) -> bool:
        """Whether data that it does not read arrives in time."""
        return bool(select.select([self.test_reads_from], [], [], SECONDS)[0])


class RelayConversation:
    """A relay between an editor and an agent that the test plays."""

    def __init__(
        self,
        store: ProxyStore,
        connection: Connection | None = None,
        fsync: str = "turn",
        idle_seconds: float | None = None,
    ) -> None:
        self.warnings: list[str] = []
        self.editor, self.agent = Side(), Side()
        self.store = store
        self.recorder = Recorder(store, ["agent"], None, fsync, self.warnings.append)
        self.relay = Relay(
            connection or Connection(SETTINGS),
            self.recorder,
            from_client=self.editor.relay_reads_from,
            to_client=self.editor.relay_writes_to,
            from_agent=self.agent.relay_reads_from,
            to_agent=self.agent.relay_writes_to,
            warn=self.warnings.append,
            show_options=ShowOptions("compact", TOOL_LIMIT),
            idle_seconds=idle_seconds,
        )
        self.relay.start()
        self._next = 100
        self._has_ended = False

    def exchange(self, method: str, params: Any, result: Any) -> Any:
        """Send a request as the editor, answer it as the agent, and return the answer that the editor gets."""
        self._next += 1
        self.editor.say({"jsonrpc": "2.0", "id": self._next, "method": method, "params": params})
        self.agent.hear(id=self._next)
        self.agent.say({"jsonrpc": "2.0", "id": self._next, "result": result})
        return self.editor.hear(id=self._next)

    def ask(self, method: str, params: Any) -> Any:
        """Send a request that the proxy answers, and return the answer."""
        self._next += 1
        self.editor.say({"jsonrpc": "2.0", "id": self._next, "method": method, "params": params})
        return self.editor.hear(id=self._next)

    def open(self, session: str = "s", *, loads: bool = False) -> None:
        """``loads``: the agent loads sessions itself; otherwise it can only resume them."""
        capabilities: dict[str, Any] = {"loadSession": True} if loads else {"sessionCapabilities": {"resume": {}}}
        self.exchange("initialize", {"protocolVersion": 1}, {"protocolVersion": 1, "agentCapabilities": capabilities})
        self.exchange("session/new", {"cwd": "/project", "mcpServers": []}, {"sessionId": session})

    def turn(self, text: str, session: str = "s") -> None:
        prompt = [{"type": "text", "text": text}]
        self.exchange("session/prompt", {"sessionId": session, "prompt": prompt}, {"stopReason": "end_turn"})

    def transcript_items(self, session: str = "s") -> list[str]:
        """The content of the transcript: the texts of the prompts, and the types of the notes."""
        reader = self.store.open_reader(self.recorder.find_agent_folder(), session)
        try:
            values: list[Any] = [line.entry.note or line.entry.value for line in reader.read_lines() if line.entry]
        finally:
            reader.close()
        said = [
            message.get("type") or message.get("params", {}).get("prompt", [{"text": None}])[0]["text"]
            for message in values
        ]
        return [one for one in said if one is not None]

    def end(self) -> None:
        """End both sides, and wait until the relay has finished. Once it has ended, this does nothing."""
        if self._has_ended:
            return
        self._has_ended = True
        for side, pump in ((self.editor, self.relay.client_pump), (self.agent, self.relay.agent_pump)):
            side.end()
            assert pump.ended.wait(SECONDS)
        self.relay.handle_agent_end("agent exited with status 0")
        self.relay.finish_work(SECONDS)
        self.editor.close()
        self.agent.close()


def chunk(text: str, session: str = "s") -> dict[str, Any]:
    update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
    return {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": session, "update": update}}


def is_complete(talk: RelayConversation, session: str = "s") -> bool:
    """Whether a session's transcript says that it is complete."""
    reader = talk.store.open_reader(talk.recorder.find_agent_folder(), session)
    try:
        return reader.is_complete
    finally:
        reader.close()
