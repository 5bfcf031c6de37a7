"""Periods and sizes on the command line."""

import pytest

from acp_proxy.cli import values
from acp_proxy.errors import UsageError


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        *[("0s", 0), ("90m", 5400), ("12h", 43_200), ("7d", 604_800), ("2w", 1_209_600)],
        *[("90 min", 5400), ("12hours", 43_200), ("7 days", 604_800), ("1 week ago", 604_800), ("5 secs", 5)],
    ],
)
def test_a_period_is_a_number_and_a_unit(text: str, seconds: int) -> None:
    assert values.parse_seconds("--older-than", text) == seconds


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("12", 12),
        ("12B", 12),
        ("64K", 64 * 1024),
        ("1m", 1024**2),
        ("5GB", 5_000_000_000),
        ("5GiB", 5 * 1024**3),
        ("2T", 2 * 1024**4),
        ("3kb", 3000),
    ],
)
def test_a_size_uses_powers_of_1024_or_of_1000_if_it_ends_in_b(text: str, size: int) -> None:
    assert values.parse_size("--max-size", text) == size


@pytest.mark.parametrize("text", ["", "7", "d", "-1d", "1y", "1  d", "1 dayz", "2 months", "1.5h", "٣d", "9999999d"])
def test_a_wrong_period_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--older-than"):
        values.parse_seconds("--older-than", text)


@pytest.mark.parametrize("text", ["", "G", "-1", "1.5G", "1X", "5 GB", "٣"])
def test_a_wrong_size_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--max-size"):
        values.parse_size("--max-size", text)


def test_turns_that_are_backwards_are_named() -> None:
    with pytest.raises(UsageError, match=r"--turn 5-2 is backwards\. Did you mean 2-5\?"):
        values.parse_turns("5-2")
