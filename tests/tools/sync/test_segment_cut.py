"""Where segments end."""

import pytest

from acp_proxy.tools.sync import segment_cut
from acp_proxy.tools.sync.segment_cut import find_end_of_turns
from tests.store import transcript_lines

HEADER = transcript_lines.header()
TURN = transcript_lines.prompt_line("Hello") + transcript_lines.answer()


def test_a_turn_without_an_end_belongs_to_a_segment_only_if_nothing_can_follow() -> None:
    data = TURN + transcript_lines.prompt_line("Again")
    assert find_end_of_turns(data, HEADER, is_whole=False) == len(TURN)
    assert find_end_of_turns(data, HEADER, is_whole=True) == len(data)


def test_a_line_that_is_damaged_or_torn_ends_the_search() -> None:
    for rest in (b"no entry\n", TURN[:20]):
        assert find_end_of_turns(TURN + rest + TURN, HEADER, is_whole=True) == len(TURN)


def test_a_large_session_is_cut_only_between_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_cut, "LARGE_BYTES", len(TURN) + 10)
    assert find_end_of_turns(TURN * 5, HEADER, is_whole=True) == 2 * len(TURN)
    last = transcript_lines.prompt_line("Again " * 100)
    assert find_end_of_turns(TURN + last, HEADER, is_whole=True) == len(TURN + last)
