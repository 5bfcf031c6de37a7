"""The transcript of an adopted session."""

import json

from acp_proxy.tools.adopt.plan import OfferedSession
from acp_proxy.tools.adopt.transcript import compose_transcript, read_conversation, split_states
from acp_proxy.transcript import file_format
from acp_proxy.transcript.file_format import NoteType
from tests.tools.adopt.listing_agent import replay_of

OLD, NOW = "2026-01-02T03:04:05.000Z", "2026-11-20T09:15:00.000Z"
COMMANDS = {"sessionUpdate": "available_commands_update", "availableCommands": []}


def lines(*updates: object) -> list[bytes]:
    params = ({"sessionId": "s1", "update": update} for update in updates)
    return [json.dumps({"jsonrpc": "2.0", "method": "session/update", "params": param}).encode() for param in params]


def compose(listed: OfferedSession, *updates: bytes) -> list[bytes]:
    spoken, states = split_states(updates)
    return compose_transcript(listed, {"id": "agent"}, spoken, states, {"modes": {"x": 1}}, NOW, "abcdef").splitlines()


def test_the_state_follows_the_conversation_and_the_note_comes_last() -> None:
    past = [COMMANDS, *replay_of("Hello", "Hi")]
    head, *entries = compose(OfferedSession("s1", "/project", "Title", OLD, ("/more",)), *lines(*past))
    header = file_format.decode_header(head)
    assert header is not None
    assert (header.session_id, header.cwd, header.directories) == ("s1", "/project", ["/more"])
    assert (header.origin, header.created_at, header.agent) == (file_format.IMPORTED, OLD, {"id": "agent"})
    found = [file_format.decode_entry(line) for line in entries]
    assert all(entry is not None and entry.run == "abcdef" for entry in found)
    assert [entry.raw for entry in found if entry is not None and entry.note is None] == lines(*past[1:], past[0])
    opened, adopted = [entry.note for entry in found if entry is not None and entry.note is not None]
    assert (opened["type"], opened["modes"]) == (NoteType.OPENED, {"x": 1})
    assert adopted == {"type": NoteType.ADOPTED, "title": "Title", "updatedAt": OLD, "adoptedAt": NOW}
    assert {entry.at for entry in found if entry is not None} == {OLD}
    assert read_conversation(b"\n".join([head, *entries])) == lines(*past[1:])


def test_a_time_in_the_future_counts_as_now() -> None:
    head, *_ = compose(OfferedSession("s1", "/project", None, "2036-01-01T00:00:00.000Z"), *lines(*replay_of("Hello")))
    assert b"2036" not in head


def test_a_title_is_one_line_of_bounded_length() -> None:
    *_, note = compose(OfferedSession("s1", "/project", "a\nb " * 1000, None), *lines(*replay_of("Hello")))
    assert len(json.loads(note)["note"]["title"]) <= 500
    assert json.loads(note)["note"]["title"].startswith("a b a b")
