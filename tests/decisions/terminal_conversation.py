"""A conversation in which the agent uses the client's terminals."""

from typing import Any

from acp_proxy.decisions.effects import (
    TranscriptEffect,
)
from tests.conversation import (
    CoreConversation,
    agent_kept,
    error,
    line,
    prompt,
    prompt_answer,
    request,
    result,
    update,
)


class TerminalConversation(CoreConversation):
    """A session in which the agent runs a command in the client's terminal."""

    def __init__(self) -> None:
        super().__init__()
        self.initialize().open("s")
        self.client.say(prompt("turn", "s"))
        self.ask("create", {"command": "ls"}, {"terminalId": "t1"})

    def ask(self, verb: str, params: dict[str, Any], answer: object) -> list[TranscriptEffect]:
        asked = self.agent.say(request(verb, f"terminal/{verb}", {"sessionId": "s", "terminalId": "t1", **params}))
        return asked.kept + self.client.say(result(verb, answer) if answer is not None else error(verb, -32603)).kept

    def show(self, spelling: Any = line) -> None:
        content = [{"type": "content"}, {"type": "terminal", "terminalId": "t1"}]
        said = spelling(update("s", "tool_call_update", toolCallId="c", content=content))
        assert self.agent.say(said).kept == [agent_kept("s", said)]

    def end_turn(self) -> list[TranscriptEffect]:
        return self.agent.say(prompt_answer("turn")).kept
