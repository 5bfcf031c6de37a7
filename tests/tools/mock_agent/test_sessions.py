"""Transcripts as the sessions of the mock agent: lists, new sessions, replays."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from acp_proxy.protocol import acp, update_kinds
from acp_proxy.protocol.jsonrpc import Request, RequestId
from acp_proxy.tools.mock_agent.requests import RequestHandlers
from acp_proxy.tools.mock_agent.sessions import PlayedSessions, read_session
from acp_proxy.transcript import file_format
from acp_proxy.transcript.file_format import Entry, Header
from tests.store import transcript_lines
from tests.strategies import any_entries
from tests.tools.mock_agent.recording import MODES, session

COMMANDS = [{"name": "review", "description": "Review"}]


def ids(sessions: PlayedSessions, cwd: str | None = None) -> list[Any]:
    return [row["sessionId"] for row in sessions.list_as_acp(cwd)]


def test_recorded_sessions_are_listed_newest_first_with_title_and_time() -> None:
    old = session(transcript_lines.prompt_line("Fix it", at=1), transcript_lines.answer(at=2), id="old")
    new = session(
        transcript_lines.prompt_line("Go on", at=5),
        transcript_lines.info(title="A title", at=6),
        transcript_lines.answer(at=7),
        id="new",
    )
    never = session(
        transcript_lines.note("opened", cwd="/x"), transcript_lines.agent_chunk("told by a load"), id="never prompted"
    )
    assert PlayedSessions([never, old, new]).list_as_acp(None) == [
        {"sessionId": "new", "cwd": transcript_lines.CWD, "title": "A title", "updatedAt": transcript_lines.time(7)},
        {"sessionId": "old", "cwd": transcript_lines.CWD, "title": "Fix it", "updatedAt": transcript_lines.time(2)},
        {"sessionId": "never prompted", "cwd": "/x", "updatedAt": transcript_lines.time(0)},
    ]


def test_the_list_can_be_limited_to_a_directory() -> None:
    sessions = PlayedSessions([session(transcript_lines.prompt_line("go"), transcript_lines.answer())])
    assert ids(sessions, transcript_lines.CWD + "/") == [transcript_lines.SESSION]
    assert ids(sessions, "/") == []


def test_a_new_session_has_an_unused_id_and_is_listed_after_its_first_prompt() -> None:
    sessions = PlayedSessions(
        [session(transcript_lines.prompt_line("go"), transcript_lines.answer(), id="mock-session-1")]
    )
    new = sessions.begin("/x", [])
    assert new.id == "mock-session-2"
    assert ids(sessions) == ["mock-session-1"]
    new.take(transcript_lines.entry(transcript_lines.prompt_line("hi", at=3, session=new.id)))
    assert sessions.list_as_acp("/x") == [
        {"sessionId": new.id, "cwd": "/x", "title": "hi", "updatedAt": transcript_lines.time(3)}
    ]


def test_optional_updates_are_sent_only_to_clients_that_support_them() -> None:
    compacted = transcript_lines.update("compaction_update", compactionId="c", status="completed")
    methods = RequestHandlers(
        PlayedSessions([session(transcript_lines.prompt_line("go"), compacted, transcript_lines.answer())]), "full"
    )
    cases: list[tuple[dict[str, Any], int]] = [({}, 1), ({"session": {"compaction": {}}}, 2)]
    for capabilities, count in cases:
        params = {"protocolVersion": 1, "clientCapabilities": capabilities}
        methods.answer(Request(b"", RequestId("0"), acp.INITIALIZE, params))
        load = {"sessionId": transcript_lines.SESSION, "cwd": transcript_lines.CWD, "mcpServers": []}
        assert len(methods.answer(Request(b"", RequestId("1"), acp.LOAD, load)).lines_before) == count


def test_terminals_of_the_agent_are_text_for_clients_that_do_not_show_them() -> None:
    shows: dict[str, Any] = {"content": [{"type": "terminal", "terminalId": "1"}]}
    output = {"terminal_output": {"terminal_id": "1", "data": "printed"}}
    call = transcript_lines.update("tool_call", toolCallId="c", title="run", status="completed", _meta=output, **shows)
    methods = RequestHandlers(
        PlayedSessions([session(transcript_lines.prompt_line("go"), call, transcript_lines.answer())]), "full"
    )
    replays = []
    for meta in ({}, {"terminal_output": True}):
        params = {"protocolVersion": 1, "clientCapabilities": {"_meta": meta}}
        methods.answer(Request(b"", RequestId("0"), acp.INITIALIZE, params))
        load = {"sessionId": transcript_lines.SESSION, "cwd": transcript_lines.CWD, "mcpServers": []}
        replays.append(b"".join(methods.answer(Request(b"", RequestId("1"), acp.LOAD, load)).lines_before))
    assert [b"terminalId" in replay for replay in replays] == [False, True]
    assert all(b"printed" in replay for replay in replays)


def test_a_new_session_begins_with_the_state_of_the_first_recorded_one() -> None:
    later = {"currentModeId": "code", "availableModes": []}
    first = session(
        transcript_lines.note("opened", modes=MODES),
        transcript_lines.update("available_commands_update", availableCommands=COMMANDS),
        transcript_lines.update(update_kinds.USER_CHUNK, content={"type": "text", "text": "told by a load"}),
        transcript_lines.prompt_line("go"),
        transcript_lines.update(update_kinds.CURRENT_MODE, currentModeId="code"),
        transcript_lines.note("opened", modes=later),
    )
    sessions = PlayedSessions([first])
    assert sessions.begin("/x", []).state.describe() == {"modes": MODES}
    assert [acp.update_kind(update_of(entry)) for entry in sessions.first_updates] == ["available_commands_update"]
    assert first.state.describe() == {"modes": later}


def test_modes_come_from_the_first_session_that_has_any() -> None:
    other = session(transcript_lines.note("opened", modes=MODES), id="other")
    assert PlayedSessions([session(transcript_lines.prompt_line("go")), other]).begin("/x", []).state.describe() == {
        "modes": MODES
    }
    assert PlayedSessions([]).begin("/x", []).state.describe() == {}


def test_the_turns_of_a_deleted_session_can_still_be_played() -> None:
    sessions = PlayedSessions([session(transcript_lines.prompt_line("go"), transcript_lines.answer())])
    sessions.delete(transcript_lines.SESSION)
    sessions.delete(transcript_lines.SESSION)
    assert (ids(sessions), sessions.find(transcript_lines.SESSION), len(sessions.turns)) == ([], None, 1)


def test_the_copied_part_of_a_fork_has_the_forks_id() -> None:
    header = Header(
        "fork", "/x", file_format.RECORDED, transcript_lines.time(0), forked_from=[transcript_lines.SESSION]
    )
    fork = read_session(
        header,
        map(
            transcript_lines.entry,
            [transcript_lines.prompt_line("go"), transcript_lines.agent_chunk("ok"), transcript_lines.answer()],
        ),
    )
    lines, _ = fork.make_replay()
    assert [json.loads(line)["params"]["sessionId"] for line in lines] == ["fork", "fork"]


def test_a_replay_ends_with_the_latest_state() -> None:
    replay = session(
        transcript_lines.prompt_line("go"),
        transcript_lines.update(update_kinds.USAGE, used=1, size=2),
        transcript_lines.agent_chunk("ok"),
        transcript_lines.answer(),
    ).make_replay()
    before, after = ([json.loads(line)["params"]["update"] for line in lines] for lines in replay)
    assert [update["sessionUpdate"] for update in before] == [update_kinds.USER_CHUNK, update_kinds.AGENT_CHUNK]
    assert after == [
        {"sessionUpdate": update_kinds.USAGE, "used": 1, "size": 2},
        {"sessionUpdate": update_kinds.SESSION_INFO, "title": "go"},
    ]


@given(st.lists(any_entries, max_size=12))
def test_any_transcript_makes_a_session(found: list[Entry | None]) -> None:
    session = read_session(Header("s", None, file_format.RECORDED, ""), [entry for entry in found if entry is not None])
    sessions = PlayedSessions([session])
    for line in [*session.make_replay()[0], *session.make_replay()[1]]:
        assert json.loads(line)["params"]["sessionId"] == "s"
    assert all(isinstance(row["cwd"], str) for row in sessions.list_as_acp(None))
    assert sessions.begin("/x", []).state.describe().keys() <= {"modes", "configOptions"}


def update_of(entry: Entry) -> object:
    return acp.member(acp.member(entry.value, "params"), "update")
