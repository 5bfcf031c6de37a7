"""Version 2 of the protocol around a client and an agent that speak version 1.

What passes between them is in the forms of version 2: a prompt is accepted and repeated when its turn begins, and a
state ends the turn; a load is a resume with a replay from the start, and a state comes before its answer.
"""

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from simulation.agent import Agent, Message, Update
from simulation.links import Link

_ECHO, _STATE, _CHUNK = "user_message", "state_update", "user_message_chunk"
_BEFORE = re.compile("^(acp-proxy-[0-9]+-)+")
"""What ids from before a handover begin with."""


@dataclass
class _Prompt:
    id: Any
    message: str
    blocks: list[Message]
    is_begun: bool = False


class V2Agent(Agent):
    """An agent of version 2."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._prompts: dict[str, list[_Prompt]] = defaultdict(list)
        self._opened: dict[Any, str] = {}
        self._unnamed = 0

    def hear(self, message: Message) -> list[Message]:
        return [each for said in self._agent.hear(self._first(message)) for each in self._second(said)]

    def end(self, *, killed: bool) -> None:
        self._agent.end(killed=killed)

    def _first(self, message: Message) -> Message:
        method, params = message.get("method"), message.get("params") or {}
        session = params.get("sessionId", "")
        if method == "session/prompt":
            tag = params["_meta"]["simulation"]["tag"]
            self._prompts[session].append(_Prompt(message["id"], f"m-{tag}.0", params["prompt"]))
        elif method == "session/resume":
            self._opened[message["id"]] = session
            if "replayFrom" in params:
                return {**message, "method": "session/load"}
        return message

    def _second(self, message: Message) -> Iterator[Message]:
        update = message["params"]["update"] if message.get("method") == "session/update" else None
        if update is None:
            yield from self._translate_answer(message)
            return
        session = message["params"]["sessionId"]
        prompt = next((each for each in self._prompts[session] if each.message == update.get("messageId")), None)
        if prompt is not None and not prompt.is_begun and update["sessionUpdate"] == _CHUNK:
            yield from self._begin(session, prompt)
        else:
            if update["sessionUpdate"].endswith("_chunk") and "messageId" not in update:  # version 2 requires one
                self._unnamed += 1
                update = {**update, "messageId": f"n-{self._unnamed}"}
            is_call = update["sessionUpdate"] == "tool_call"
            yield _update(session, {**update, "sessionUpdate": "tool_call_update"} if is_call else update)

    def _translate_answer(self, message: Message) -> Iterator[Message]:
        id, result = message.get("id"), message.get("result")
        found = next(((s, each) for s, prompts in self._prompts.items() for each in prompts if each.id == id), None)
        if found is not None and "method" not in message:
            session, prompt = found
            if result is None:
                yield message
            else:
                yield from self._begin(session, prompt)
            self._prompts[session].remove(prompt)
            if result is not None:
                yield self._state(session, **result)
            return
        if result is not None and id in self._opened:
            yield self._state(self._opened.pop(id))
        if result is not None and "agentCapabilities" in result:
            offered = result["agentCapabilities"]["sessionCapabilities"]
            fork: Message = {"fork": {}} if "fork" in offered else {}
            told = {"info": result["agentInfo"]} if "agentInfo" in result else {}
            yield {**message, "result": {"protocolVersion": 2, "capabilities": {"session": fork}, **told}}
        else:
            yield message

    def _begin(self, session: str, prompt: _Prompt) -> Iterator[Message]:
        if not prompt.is_begun:
            prompt.is_begun = True
            yield self._state(session)
            yield {"jsonrpc": "2.0", "id": prompt.id, "result": {"messageId": prompt.message}}
            yield _update(session, {"sessionUpdate": _ECHO, "messageId": prompt.message, "content": prompt.blocks})

    def _state(self, session: str, **more: Any) -> Message:
        state = {"state": "running"} if self._prompts[session] else {"state": "idle", **more}
        return _update(session, {"sessionUpdate": _STATE, **state})


class V2Link(Link):
    """The client's end of a link of version 2."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._prompts: dict[str, list[Any]] = defaultdict(list)
        """By session: the ids of the prompts that have no end."""
        self._echoes: set[str] = set()
        self._heard: list[Message] = []

    @property
    def warnings(self) -> Any:  # type: ignore[override]
        return self._link.warnings

    def send(self, message: Message) -> None:
        method, params = message.get("method"), message.get("params") or {}
        if method == "initialize":
            message = {**message, "params": {"protocolVersion": 2, "capabilities": {}}}
        elif method == "session/load":
            message = {**message, "method": "session/resume", "params": {**params, "replayFrom": {"type": "start"}}}
        elif method == "session/prompt":
            self._prompts[params["sessionId"]].append(message["id"])
        self._link.send(message)

    def receive(self) -> Message:
        while not self._heard:
            self._heard += self._first(self._link.receive())
        return self._heard.pop(0)

    def end(self) -> list[Message]:
        return [*self._heard, *(each for heard in self._link.end() for each in self._first(heard))]

    def kill(self, side: str, agent: int) -> list[Message]:
        rest = self._link.kill(side, agent)
        return [*self._heard, *(each for heard in rest for each in self._first(heard))]

    def _first(self, message: Message) -> Iterator[Message]:
        if message.get("method") != "session/update":
            yield from self._answer(message)
            return
        params = message["params"]
        update, session = params["update"], params["sessionId"]
        kind, id = update["sessionUpdate"], update.get("messageId", "")
        if kind == _STATE:
            if update["state"] == "idle" and "stopReason" in update and self._prompts[session]:
                prompt = self._prompts[session].pop(0)
                yield {"jsonrpc": "2.0", "id": prompt, "result": {"stopReason": update["stopReason"]}}
            return
        if kind == _ECHO:
            if id in self._echoes:
                self._echoes.discard(id)
                return
            text = "".join(block.get("text", "") for block in update["content"])
            update = {"sessionUpdate": _CHUNK, "content": {"type": "text", "text": text}, "messageId": id}
        elif "toolCallId" in update:
            update = {**update, "toolCallId": _BEFORE.sub("", update["toolCallId"])}
        yield {**message, "params": {**params, "update": update}}

    def _answer(self, message: Message) -> Iterator[Message]:
        id = message.get("id")
        session = next((session for session, prompts in self._prompts.items() if id in prompts), None)
        if session is None or "method" in message:
            yield message
        elif "error" in message:
            self._prompts[session].remove(id)
            yield message
        else:
            self._echoes.add(message["result"]["messageId"])


def _update(session: str, update: Update) -> Message:
    return {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": session, "update": update}}
