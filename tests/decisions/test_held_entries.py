"""What waits before it is recorded: until the agent is named, and until another agent's session is prompted."""

from msgspec.structs import replace

from acp_proxy.decisions.effects import (
    BeginTranscript,
    BeginTurn,
    DeleteSession,
    EndTurn,
    Forward,
    IdentifyAgent,
    RecordMessage,
    RecordNote,
)
from acp_proxy.decisions.uncopied_sessions import UNCOPIED_LIMIT, UncopiedSessions
from acp_proxy.decisions.unnamed_agent import UNNAMED_AGENT_LIMIT
from acp_proxy.protocol.jsonrpc import Peer
from acp_proxy.transcript import file_format
from tests.conversation import (
    CoreConversation,
    agent_kept,
    begun,
    chunk,
    client_kept,
    commands,
    error,
    initialize_answer,
    new,
    opened_note,
    prompt,
    request,
    result,
)

BEGIN = BeginTranscript("s", "/w", [], "partial")
NOTE, LINE, PASSES = (
    RecordNote("s", {"type": "opened"}),
    RecordMessage("s", Peer.AGENT, b"{}"),
    Forward(Peer.CLIENT, b"x"),
)
OTHER = RecordMessage("other", Peer.AGENT, b"{}")


# --- the folder of the agent


def test_entries_wait_for_the_agents_name() -> None:
    talk = CoreConversation()
    talk.client.say(request(0, "initialize"), new(1))
    assert talk.agent.say(commands("s", "x"), result(1, {"sessionId": "s"}), chunk("s", "a")).kept == []
    assert talk.agent.say(initialize_answer(0, agentInfo={"name": "agent", "version": "2"})).kept == [
        IdentifyAgent("agent", "2"),
        begun("s"),
        RecordNote("s", opened_note("session/new")),
        agent_kept("s", commands("s", "x")),
        agent_kept("s", chunk("s", "a")),
    ]


def test_the_agents_name_comes_first_within_one_read_too() -> None:
    talk = CoreConversation()
    talk.client.say(request(0, "initialize"), new(1))
    step = talk.agent.say(
        result(1, {"sessionId": "s"}),
        chunk("s", "a"),
        initialize_answer(0, agentInfo={"name": "agent"}),
        chunk("s", "b"),
    )
    assert step.kept == [
        IdentifyAgent("agent", None),
        begun("s"),
        RecordNote("s", opened_note("session/new")),
        agent_kept("s", chunk("s", "a")),
        agent_kept("s", chunk("s", "b")),
    ]


def test_a_prompt_does_not_wait_for_the_agents_name() -> None:
    talk = CoreConversation()
    talk.client.say(request(0, "initialize"), new(1))
    talk.agent.say(result(1, {"sessionId": "s"}))
    assert talk.client.say(prompt(2, "s")).kept == [
        IdentifyAgent(None, None),
        begun("s"),
        RecordNote("s", opened_note("session/new")),
        BeginTurn("s"),
        client_kept("s", prompt(2, "s")),
    ]
    assert talk.agent.say(initialize_answer(0, agentInfo={"name": "agent"})).kept == []


def test_entries_beyond_the_limit_do_not_wait_for_the_agents_name() -> None:
    talk = CoreConversation()
    talk.client.say(request(0, "initialize"))
    big = chunk("s", "x" * UNNAMED_AGENT_LIMIT)
    assert talk.agent.say(big).kept == [
        IdentifyAgent(None, None),
        begun("s", file_format.PARTIAL, cwd=None),
        agent_kept("s", big),
    ]


def test_what_waits_for_a_name_is_recorded_when_the_agent_ends() -> None:
    talk = CoreConversation()
    talk.client.say(request(0, "initialize"))
    assert talk.agent.say(chunk("s", "a")).kept == []
    assert talk.end_agent().kept == [
        IdentifyAgent(None, None),
        begun("s", file_format.PARTIAL, cwd=None),
        agent_kept("s", chunk("s", "a")),
    ]


def test_a_refused_initialize_names_no_agent() -> None:
    talk = CoreConversation()
    talk.client.say(request(0, "initialize"))
    assert talk.agent.say(error(0, -32603)).kept == []
    talk.client.say(request(1, "initialize"))
    assert talk.agent.say(initialize_answer(1, agentInfo={"name": "agent"})).kept == [IdentifyAgent("agent", None)]
    assert talk.client.say(prompt(2, "s")).kept[1:] == [BeginTurn("s"), client_kept("s", prompt(2, "s"))]


def test_what_waits_for_a_name_waits_through_a_refused_initialize() -> None:
    talk = CoreConversation()
    talk.client.say(request(0, "initialize"))
    assert talk.agent.say(chunk("s", "a"), error(0, -32603)).kept == []
    talk.client.say(request(1, "initialize"))
    assert talk.agent.say(initialize_answer(1, agentInfo={"name": "agent"})).kept == [
        IdentifyAgent("agent", None),
        begun("s", file_format.PARTIAL, cwd=None),
        agent_kept("s", chunk("s", "a")),
    ]


def test_nothing_is_recorded_of_what_waits_if_acp_proxy_stands_aside() -> None:
    talk = CoreConversation()
    talk.client.say(request(0, "initialize"))
    talk.agent.say(chunk("s", "a"), initialize_answer(0, protocolVersion=7))
    assert talk.end_agent().kept == []
    assert talk.all.kept == []


def test_the_first_answer_of_two_initializes_names_the_agent() -> None:
    talk = CoreConversation()
    talk.client.say(request(0, "initialize"), request(1, "initialize"))
    assert talk.agent.say(initialize_answer(1, agentInfo={"name": "one"})).kept == [IdentifyAgent("one", None)]
    assert talk.agent.say(initialize_answer(0, agentInfo={"name": "two"})).kept == []


# --- the copy of another agent's session


def uncopied_sessions() -> UncopiedSessions:
    sessions = UncopiedSessions()
    sessions.add("s")
    return sessions


def test_nothing_is_recorded_until_a_prompt_makes_the_copy() -> None:
    sessions = uncopied_sessions()
    assert sessions.hold_back([BEGIN, NOTE, PASSES, OTHER, LINE, EndTurn("s")]) == [PASSES, OTHER]
    assert sessions.hold_back([BeginTurn("s"), LINE]) == [
        replace(BEGIN, parent_id="s"),
        NOTE,
        LINE,
        BeginTurn("s"),
        LINE,
    ]
    assert sessions.hold_back([NOTE]) == [NOTE]


def test_a_second_load_begins_again() -> None:
    sessions = uncopied_sessions()
    sessions.hold_back([BEGIN, LINE])
    sessions.add("s")
    sessions.hold_back([BEGIN, NOTE])
    assert sessions.hold_back([BeginTurn("s")]) == [replace(BEGIN, parent_id="s"), NOTE, BeginTurn("s")]


def test_a_delete_drops_what_is_held() -> None:
    sessions = uncopied_sessions()
    sessions.hold_back([BEGIN, NOTE])
    assert sessions.hold_back([DeleteSession("s"), BeginTurn("s")]) == [DeleteSession("s"), BeginTurn("s")]


def test_what_is_held_is_bounded() -> None:
    sessions = uncopied_sessions()
    sessions.hold_back([BEGIN, *[LINE] * 10 * UNCOPIED_LIMIT])
    assert len(sessions.hold_back([BeginTurn("s")])) == UNCOPIED_LIMIT + 1
