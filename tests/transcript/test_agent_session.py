"""What the agent of this machine knows of a session with parts that other machines recorded."""

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from acp_proxy.protocol import proxy_ids
from acp_proxy.transcript import file_format
from acp_proxy.transcript.agent_session import AGENT_NOTES, AgentSession
from tests.store import transcript_lines

HERE, THERE = True, False
MINE, TURN = (
    transcript_lines.note("handover", to="mine"),
    transcript_lines.prompt_line("Hello") + transcript_lines.answer(),
)
THEIRS, OPENED = transcript_lines.note("handover", to="theirs"), transcript_lines.note("opened", method="session/load")


def agents(*parts: tuple[bool, bytes], session: str = transcript_lines.SESSION) -> AgentSession:
    """After reading these parts, each recorded here or elsewhere."""
    data, elsewhere = b"", []
    for is_here, lines in parts:
        if not is_here:
            elsewhere.append((len(data), len(data) + len(lines), "desktop"))
        data += lines
    found = AgentSession(replace(transcript_lines.header(session), remote_parts=elsewhere))
    at = 0
    for line in data.splitlines(keepends=True):
        for start, note in file_format.find_notes(line, AGENT_NOTES):
            found.add(note, at + start)
        found.read(line, at)
        at += len(line)
    return found


@pytest.mark.parametrize(
    ("parts", "alias", "is_behind"),
    [
        ([(HERE, TURN)], None, False),
        ([(HERE, TURN), (THERE, OPENED)], None, False),
        ([(HERE, TURN), (THERE, TURN)], None, True),
        ([(HERE, TURN), (THERE, TURN + THEIRS)], None, True),
        ([(HERE, TURN + MINE), (THERE, TURN + THEIRS)], "mine", True),
        ([(HERE, TURN), (THERE, TURN + THEIRS), (HERE, TURN)], None, True),
        ([(HERE, TURN), (THERE, TURN + THEIRS), (HERE, TURN + MINE)], "mine", False),
        ([(THERE, TURN), (HERE, TURN + MINE), (THERE, TURN + THEIRS)], "mine", True),
        ([(HERE, TURN), (THERE, TURN), (HERE, TURN + transcript_lines.note("caught-up"))], None, False),
    ],
)
def test_ids_count_only_where_they_were_given_here(
    parts: Sequence[tuple[bool, bytes]], alias: str | None, is_behind: bool
) -> None:
    found = agents(*parts)
    assert (found.alias, found.is_behind) == (alias, is_behind)


def test_new_sessions_count_wherever_the_agent_has_opened_them() -> None:
    anew = transcript_lines.note("opened", method="session/load", anew=True)
    assert agents((HERE, TURN + OPENED + anew + TURN), (THERE, TURN + anew + TURN)).new_session_count == 2


def test_the_agent_has_nothing_of_a_session_that_came_from_another_machine_until_it_is_handed_over() -> None:
    came = agents((THERE, TURN + THEIRS), session=proxy_ids.make_remote_id(transcript_lines.UID))
    continued = agents((THERE, TURN), (HERE, MINE))
    assert (came.is_missing, came.is_behind, came.alias, came.lacks_past) == (True, False, None, True)
    assert (continued.is_missing, continued.is_behind, continued.alias) == (False, False, "mine")


def test_only_what_was_recorded_elsewhere_since_the_last_record_is_lacking() -> None:
    length = len(TURN)
    found = agents((THERE, TURN), (HERE, MINE), (THERE, TURN), (HERE, TURN))
    second = length + len(MINE)
    assert found.first_lacking == second
    assert [found.lacks(at) for at in (0, length, second, second + length - 1, second + length)] == [
        *(False, False, True, True, False),
    ]
