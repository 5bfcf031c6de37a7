"""A header is remade from what remains, if its id matches the file name."""

import pytest

from acp_proxy.transcript import file_format
from acp_proxy.transcript.file_format import PARTIAL, Header
from acp_proxy.transcript.file_names import file_name
from acp_proxy.transcript.rebuild_header import rebuild_header
from tests.store import transcript_lines

NAME = file_name(transcript_lines.SESSION)
WHOLE = Header(
    transcript_lines.SESSION,
    "/a b/ä",
    file_format.RECORDED,
    transcript_lines.time(0),
    ["/x"],
    {"id": "agent"},
    ["parent"],
)
LINE = file_format.encode_header(WHOLE)
ENTRIES = [
    transcript_lines.entry(line)
    for line in (
        transcript_lines.note("opened"),
        transcript_lines.agent_chunk("x", session="parent", at=3),
        transcript_lines.agent_chunk("y"),
    )
]


def test_a_remade_header_keeps_the_remaining_fields_and_is_partial() -> None:
    expected = Header(
        transcript_lines.SESSION, "/a b/ä", PARTIAL, transcript_lines.time(0), ["/x"], {"id": "agent"}, ["parent"]
    )
    assert rebuild_header(LINE.replace(b'{"acp-', b"\0\0\0\0\0\0"), [], NAME) == expected
    assert rebuild_header(LINE, [], f"{NAME}~3") == expected


def test_a_damaged_id_is_found_in_the_entries() -> None:
    found = rebuild_header(LINE.replace(b'"sess-1"', b'"sess-3"'), ENTRIES, NAME)
    assert found is not None
    assert (found.session_id, found.cwd, found.created_at) == (
        transcript_lines.SESSION,
        "/a b/ä",
        transcript_lines.time(0),
    )


def test_without_a_header_the_id_comes_from_the_entries() -> None:
    assert rebuild_header(b"\0" * 99, ENTRIES, NAME) == Header(transcript_lines.SESSION, None, PARTIAL, "")


@pytest.mark.parametrize(
    "line", [b"", b"\0", LINE.replace(b'"sess-1"', b'"sess-3"'), LINE.replace(b'"sess-1"', b'"\xff"')]
)
def test_an_id_that_does_not_match_the_file_name_is_not_used(line: bytes) -> None:
    assert rebuild_header(line, ENTRIES[:2], NAME) is None
    assert rebuild_header(line, [], NAME) is None


def test_a_damaged_header_never_becomes_another_session() -> None:
    for at in range(len(LINE)):
        for line in (LINE[:at], LINE[at:], LINE[:at] + b"\xff" + LINE[at + 1 :]):
            found = rebuild_header(line, [], NAME)
            assert found is None or found.session_id == transcript_lines.SESSION
