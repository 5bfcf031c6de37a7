"""Times of a transcript as moments, and what lies between them."""

from acp_proxy.protocol import timestamps
from acp_proxy.views.moments import measure_between


def test_the_difference_of_two_times_is_in_seconds() -> None:
    first, second = timestamps.format_now(1_700_000_000.25), timestamps.format_now(1_700_003_600.75)
    assert measure_between(first, second) == 3600.5
    assert measure_between(second, first) == 0
    assert measure_between("", second) == measure_between(first, "tomorrow") == measure_between(first, second[:-1]) == 0
