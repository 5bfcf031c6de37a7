"""What is recorded of another agent's session that was only opened here."""

from msgspec.structs import replace

from acp_proxy.protocol.jsonrpc import Peer
from acp_proxy.proxy.effects import BeginTranscript, BeginTurn, DeleteSession, EndTurn, Forward, RecordLine, RecordNote
from acp_proxy.proxy.session_log import HELD_ENTRIES, UncopiedSessions

BEGIN = BeginTranscript("s", "/w", [], "partial")
NOTE, LINE, PASSES = RecordNote("s", {"type": "opened"}), RecordLine("s", Peer.AGENT, b"{}"), Forward(Peer.CLIENT, b"x")
OTHER = RecordLine("other", Peer.AGENT, b"{}")


def shown() -> UncopiedSessions:
    sessions = UncopiedSessions()
    sessions.add("s")
    return sessions


def test_nothing_is_recorded_until_a_prompt_makes_the_copy() -> None:
    sessions = shown()
    assert sessions.hold([BEGIN, NOTE, PASSES, OTHER, LINE, EndTurn("s")]) == [PASSES, OTHER]
    assert sessions.hold([BeginTurn("s"), LINE]) == [replace(BEGIN, parent="s"), NOTE, LINE, BeginTurn("s"), LINE]
    assert sessions.hold([NOTE]) == [NOTE]


def test_a_second_load_begins_again() -> None:
    sessions = shown()
    sessions.hold([BEGIN, LINE])
    sessions.add("s")
    sessions.hold([BEGIN, NOTE])
    assert sessions.hold([BeginTurn("s")]) == [replace(BEGIN, parent="s"), NOTE, BeginTurn("s")]


def test_a_delete_drops_what_is_held() -> None:
    sessions = shown()
    sessions.hold([BEGIN, NOTE])
    assert sessions.hold([DeleteSession("s"), BeginTurn("s")]) == [DeleteSession("s"), BeginTurn("s")]


def test_what_is_held_is_bounded() -> None:
    sessions = shown()
    sessions.hold([BEGIN, *[LINE] * 10 * HELD_ENTRIES])
    assert len(sessions.hold([BeginTurn("s")])) == HELD_ENTRIES + 1
