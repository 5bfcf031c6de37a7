"""Periods and sizes on the command line."""

import sys
from contextlib import nullcontext
from datetime import datetime

import pytest

from acp_proxy.cli import values
from acp_proxy.errors import UsageError
from acp_proxy.views import formatting


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


def format_time(text: str) -> str:
    return formatting.format_local_time(text)


def test_a_month_counts_whole_and_a_time_is_of_today() -> None:
    assert format_time(values.parse_since("2026-02")) == "2026-02-01 00:00:00"
    assert format_time(values.parse_until("2026-12")) == "2027-01-01 00:00:00"
    today = datetime.now().astimezone()
    assert (
        format_time(values.parse_since("9:30"))
        == format_time(values.parse_until("09:30"))
        == f"{today:%Y-%m-%d} 09:30:00"
    )
    assert format_time(values.parse_since(f"{today:%B}")) == f"{today:%Y-%m}-01 00:00:00"
    for name in ("jan", "Dec", "september"):
        began = datetime.fromisoformat(format_time(values.parse_since(name))).astimezone()
        assert (began.day, began <= today, (today - began).days < 366) == (1, True, True)
        assert began < datetime.fromisoformat(format_time(values.parse_until(name))).astimezone()


@pytest.mark.parametrize("text", ["9999-12-31", "9999-12", "999999w"])
def test_a_time_that_is_too_far_away_is_called_so(text: str) -> None:
    assert values.parse_since("2999-12-31")
    with pytest.raises(UsageError, match=f"--until {text} is too far away. For no limit, leave out --until"):
        values.parse_until(text)
    with pytest.raises(UsageError, match="--since 0001-01-01 is too far away"):
        values.parse_since("0001-01-01")


@pytest.mark.parametrize("text", ["9998-12-31", "1969-12-31", "1969-12"])
def test_a_time_that_only_windows_does_not_know_is_called_too_far_away_there(text: str) -> None:
    refusal = pytest.raises(UsageError, match=f"--since {text} is too far away")
    with refusal if sys.platform == "win32" else nullcontext():
        assert values.parse_since(text)


@pytest.mark.parametrize("text", ["2026-13", "25:00", "14:60", "janu", "2026-1"])
def test_what_is_no_month_or_time_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"--since takes .* or 14:00|such as 14:00"):
        values.parse_since(text)


@pytest.mark.parametrize(("text", "ending"), [("7", "not '7'. For days: 7d"), ("2026", "not '2026'")])
def test_a_number_alone_is_said_to_lack_its_unit_unless_it_may_be_a_year(text: str, ending: str) -> None:
    with pytest.raises(UsageError) as refusal:
        values.parse_since(text)
    assert str(refusal.value).endswith(ending)
