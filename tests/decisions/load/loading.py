"""Helpers for tests of loads: talks at each stage of a load, and a recorded conversation."""

from typing import Any

from acp_proxy.comparison.whose_past import PastRule
from acp_proxy.decisions.effects import BeginTranscript, RecordMessage, RecordNote
from acp_proxy.transcript import file_format
from acp_proxy.transcript.file_format import NoteType
from tests.conversation import (
    RESUMES,
    CoreConversation,
    Said,
    SimulatedSession,
    Step,
    chunk,
    load,
    make_request_id,
    opened_note,
    prompt,
    prompt_answer,
    result,
)

ONE = make_request_id(1)
DEEP = 100_000
"""Levels of nesting that are too many for the parser of every Python."""
ODD = b'{"n":1.0,"big":123456789012345678901234,"s":"\\ud800\xe2\x80\xa8","mcpServers":[{"env":[{"x":"\xff"}]}],"n":2}'
"""JSON that no encoder writes again byte for byte."""
CONVERSATION = [
    "user_message_chunk",
    "agent_message_chunk",
    "agent_thought_chunk",
    "tool_call",
    "tool_call_update",
    "plan",
    "compaction_update",
    "a_kind_nobody_knows",
]
KEPT_OPENING = [BeginTranscript("s", "/w", [], file_format.PARTIAL), RecordNote("s", opened_note("session/load"))]
PAST: tuple[dict[str, Any], ...] = (
    prompt(90, "s", "mend it"),
    chunk("s", "It is mended now, all of it."),
    prompt_answer(90),
    prompt(91, "s", "and test it"),
    chunk("s", "All the tests have passed."),
    prompt_answer(91),
)
"""The conversation in the transcript."""
TURN_ONE: list[Said] = [chunk("s", "mend it", "user_message_chunk"), PAST[1]]
TURN_TWO: list[Said] = [chunk("s", "and test it", "user_message_chunk"), PAST[4]]
"""The same turns as an agent replays them."""
GREETING = chunk("s", "Welcome back! Something was updated.")
"""An update that is not in the transcript."""


def about_to_load(stored: SimulatedSession | None = None, capabilities: object = None) -> CoreConversation:
    """A conversation whose client has not loaded the session yet."""
    talk = CoreConversation().initialize(capabilities or RESUMES)
    talk.stored["s"] = stored or SimulatedSession()
    return talk


def loading(stored: SimulatedSession | None = None) -> CoreConversation:
    """The agent was asked and has not answered."""
    talk = about_to_load(stored)
    talk.client.say(load(1, "s"))
    return talk


def showing_past(stored: SimulatedSession | None = None) -> CoreConversation:
    """The agent has answered, and the past is being shown."""
    talk = loading(stored)
    talk.agent.say(result(1, {}))
    assert talk.being_shown == [ONE]
    return talk


def kept_lines(step: Step) -> list[RecordMessage]:
    """The messages that a step records."""
    return [record for record in step.kept if isinstance(record, RecordMessage)]


def shown_note(whose: str, rule: PastRule) -> RecordNote:
    """The note that says whose past was shown."""
    return RecordNote("s", {"type": NoteType.REPLAY, "shown": whose, "rule": rule.number})
