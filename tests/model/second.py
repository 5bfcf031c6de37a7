"""Version 2 of the protocol around an editor and an agent that speak version 1.

What the agent says goes to the proxy in the forms of version 2. The ids of its messages show what they are in version
1, so that the editor and the transcript's reader know them again. A prompt is accepted and repeated when its turn
begins, and a state ends the turn; a load is a resume with a replay from the start, and a state comes before its answer.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tests.model.agents import Message, Said
from tests.model.world import KINDS, USER, Update, words

_ECHO = "user_message"
_STATE = "state_update"
_BEFORE = re.compile("^(acp-proxy-[0-9]+-)+")
"""What ids from before a handover begin with."""
_ITS = re.compile("m[0-9]+")
"""The ids of messages that version 1 sends without one."""


def first(update: Update) -> Update | None:
    """An update of either version as version 1 has it. None: a state, or the echo of a prompt, which is known."""
    return _told(update) if update.get("sessionUpdate") not in (_STATE, _ECHO) else None


def _told(update: Update) -> Update:
    if "toolCallId" in update:
        kind = "tool_call" if "title" in update else update["sessionUpdate"]
        return {**update, "sessionUpdate": kind, "toolCallId": _BEFORE.sub("", update["toolCallId"])}
    if update.get("sessionUpdate") == _ECHO:
        return words(USER, "".join(block["text"] for block in update["content"]), update["messageId"])
    is_its = _ITS.fullmatch(_BEFORE.sub("", update.get("messageId", ""))) is not None
    return {name: value for name, value in update.items() if not (is_its and name == "messageId")}


@dataclass
class _Turn:
    id: Any
    session: str
    message: str
    blocks: list[Message]
    is_begun: bool = False


class Forms:
    """The lines of one connection in the forms of its version."""

    def __init__(self, *, is_second: bool) -> None:
        self._is_second = is_second
        self._turns: dict[str, list[_Turn]] = defaultdict(list)
        self._opened: dict[Any, str] = {}
        self._echoed: set[str] = set()
        """The ids of echoes that the editor has not got yet."""

    def from_editor(self, message: Message) -> Message:
        if not self._is_second:
            return message
        params = message["params"]
        if message["method"] == "initialize":
            return {**message, "params": {"protocolVersion": 2, "capabilities": {}}}
        if message["method"] == "session/load":
            return {**message, "method": "session/resume", "params": {**params, "replayFrom": {"type": "start"}}}
        return message

    def to_agent(self, message: Message) -> Message:
        if not self._is_second:
            return message
        method, params = message.get("method"), message.get("params") or {}
        session = params.get("sessionId", "")
        if method == "session/prompt":
            number = params["_meta"]["plan"]
            self._turns[session].append(_Turn(message["id"], session, f"m{number}", params["prompt"]))
        elif method == "session/resume":
            self._opened[message["id"]] = session
            if "replayFrom" in params:
                return {**message, "method": "session/load"}
        return message

    def from_agent(self, said: Sequence[Said]) -> Iterator[Message]:
        """The lines of what it says now. Prompts that wait for the turn are accepted at once."""
        for each in said:
            yield from self._said(each)
        for turn in [turn for turns in self._turns.values() for turn in turns]:
            yield from self._begun(turn)

    def _said(self, said: Said) -> Iterator[Message]:
        message = said.message
        if not self._is_second:
            yield message
        elif message.get("method") == "session/update":
            for turn in self._turns[said.session][:1] if said.in_turn else ():
                yield from self._begun(turn)
            yield _update(said.session, _second(message["params"]["update"], said))
        else:
            yield from self._answered(message)

    def to_editor(self, message: Message) -> Message | None:
        update = (message.get("params") or {}).get("update") if message.get("method") == "session/update" else None
        if update is None:
            return message
        id = update.get("messageId", "")
        is_echo = update["sessionUpdate"] == _ECHO and id in self._echoed  # otherwise it is of a replay
        self._echoed -= {id} if is_echo else set()
        told = None if is_echo or update["sessionUpdate"] == _STATE else _told(update)
        return {**message, "params": {**message["params"], "update": told}} if told is not None else None

    def _answered(self, message: Message) -> Iterator[Message]:
        id, result = message.get("id"), message.get("result")
        turn = next((turn for turns in self._turns.values() for turn in turns if turn.id == id), None)
        if turn is not None:
            if result is None:
                yield message
            else:
                yield from self._begun(turn)
            self._turns[turn.session].remove(turn)
            if result is not None:
                yield self._state(turn.session, **result)
            return
        if result is not None and id in self._opened:
            yield self._state(self._opened[id])
        if result is not None and "agentCapabilities" in result:
            offered = result["agentCapabilities"]["sessionCapabilities"]
            fork: Message = {"fork": {}} if "fork" in offered else {}
            yield {**message, "result": {"protocolVersion": 2, "capabilities": {"session": fork}}}
        else:
            yield message

    def _state(self, session: str, **more: Any) -> Message:
        state = {"state": "running"} if self._turns[session] else {"state": "idle", **more}
        return _update(session, {"sessionUpdate": _STATE, **state})

    def _begun(self, turn: _Turn) -> Iterator[Message]:
        if not turn.is_begun:
            turn.is_begun = True
            self._echoed.add(turn.message)
            echo = {"sessionUpdate": _ECHO, "messageId": turn.message, "content": turn.blocks}
            yield self._state(turn.session)
            yield {"jsonrpc": "2.0", "id": turn.id, "result": {"messageId": turn.message}}
            yield _update(turn.session, echo)


def _update(session: str, update: Update) -> Message:
    return {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": session, "update": update}}


def _second(update: Update, said: Said) -> Update:
    """An update of version 1 in the forms of version 2; a compaction is the same in both."""
    kind = update["sessionUpdate"]
    if kind in KINDS.values():
        assert said.item is not None
        return {**update, "messageId": f"m{said.item.number}"}
    return {**update, "sessionUpdate": "tool_call_update"} if "toolCallId" in update else update
