"""What a transcript says of the last load."""

from acp_proxy.comparison.choose_replay import Rule
from acp_proxy.tools.doctor.replay_check import find_rule


def test_a_rule_is_found_by_its_number_in_transcripts() -> None:
    assert [find_rule(number) for number in (4, 0, 7, None)] == [Rule.LESS, Rule.UNDECIDED, None, None]
