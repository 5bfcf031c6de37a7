"""Times, sizes, amounts and short ids for people."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone

import pytest

from acp_proxy.views import formatting

FORMS = (formatting.format_day, formatting.format_clock_time, formatting.format_minute)
NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("before", "said", "short"),
    [
        (timedelta(seconds=-30), "just now", "now"),
        (timedelta(seconds=59), "just now", "now"),
        (timedelta(seconds=60), "1 minute ago", "1m"),
        (timedelta(minutes=59, seconds=59), "59 minutes ago", "59m"),
        (timedelta(hours=1), "1 hour ago", "1h"),
        (timedelta(hours=23), "23 hours ago", "23h"),
        (timedelta(days=1), "1 day ago", "19 Nov"),
        (timedelta(days=29), "29 days ago", "22 Oct"),
        (timedelta(days=30), "1 month ago", "21 Oct"),
        (timedelta(days=364), "12 months ago", "Nov 2025"),
        (timedelta(days=800), "2 years ago", "Sep 2024"),
        (timedelta(days=-2), "2026-11-22", "22 Nov"),
    ],
)
def test_an_age_has_one_unit_and_a_short_time_has_at_most_a_month_and_a_year(
    before: timedelta, said: str, short: str
) -> None:
    stamp = formatting.format_stamp(NOW - before)
    assert (formatting.format_age(stamp, NOW), formatting.format_short_time(stamp, NOW)) == (said, short)


def test_the_day_of_a_short_time_is_that_of_the_time_zone() -> None:
    east = NOW.astimezone(timezone(timedelta(hours=9)))
    assert formatting.format_short_time("2026-11-12T20:00:00.000Z", NOW) == "12 Nov"
    assert formatting.format_short_time("2026-11-12T20:00:00.000Z", east) == "13 Nov"


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("UTC", ("2026-11-20", "23:15", "2026-11-20 23:15 UTC")),
        ("Asia/Kolkata", ("2026-11-21", "04:45", "2026-11-21 04:45 UTC+05:30")),
        ("America/New_York", ("2026-11-20", "18:15", "2026-11-20 18:15 UTC-05:00")),
    ],
)
def test_documents_have_local_times_with_the_zone(
    name: str, told: tuple[str, str, str], zone: Callable[[str], None]
) -> None:
    zone(name)
    stamp = "2026-11-20T23:15:02.123Z"
    assert tuple(form(stamp) for form in FORMS) == told
    assert formatting.format_local_time(stamp).startswith(" ".join(told[:2]))


def test_a_time_that_the_zone_does_not_have_is_empty(zone: Callable[[str], None]) -> None:
    zone("Asia/Kolkata")
    assert [form("9999-12-31T23:59:59.000Z") for form in FORMS] == [""] * 3


@pytest.mark.parametrize("stamp", ["", "yesterday", "0001-01-01T00:00:00.000Z"])
def test_an_invalid_time_is_empty(stamp: str) -> None:
    assert (
        formatting.format_age(stamp, NOW)
        == formatting.format_short_time(stamp, NOW)
        == formatting.format_local_time(stamp)
        == "".join(form(stamp) for form in FORMS)
        == ""
    )


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (99_949, "99.9 kB"),
        (99_950, "100 kB"),
        (999_499, "999 kB"),
        (999_500, "1.0 MB"),
        (5_000_000_000, "5.0 GB"),
        (7_000_000_000_000_000, "7000 TB"),
    ],
)
def test_sizes_have_three_figures(number: int, said: str) -> None:
    assert formatting.format_size(number) == said


@pytest.mark.parametrize(
    ("end", "said"),
    [
        ("2026-11-20T09:15:02.623Z", "0 s"),
        ("2026-11-20T09:15:59.900Z", "58 s"),
        ("2026-11-20T09:16:26.000Z", "1 min 24 s"),
        ("2026-11-21T11:20:02.123Z", "26 h 5 min"),
        ("2026-11-20T09:00:00.000Z", ""),
        ("", ""),
        ("then", ""),
    ],
)
def test_a_duration_has_at_most_two_units(end: str, said: str) -> None:
    assert formatting.format_duration("2026-11-20T09:15:02.123Z", end) == said


def test_small_amounts_of_money_are_not_rounded_away() -> None:
    assert formatting.format_amounts({"USD": 1234.5, "EUR": 0.0012}) == "0.0012 EUR + 1,234.50 USD"
    assert formatting.format_amounts({}) == ""


@pytest.mark.parametrize(
    ("session", "others", "said"),
    [
        ("0123456789", [], "01234567"),
        ("0123456789", ["0123456789"], "01234567"),
        ("0123456789", ["012345678x", "0123x"], "0123456789"),
        ("0123456789ab", ["01234567x"], "012345678"),
        ("0123456789", ["0123456789ab"], "0123456789"),
        ("abc", ["abcdefghij"], "abc"),
    ],
)
def test_a_short_id_is_no_prefix_of_another_id(session: str, others: list[str], said: str) -> None:
    assert formatting.shorten_ids([session], others) == {session: said}


def test_short_ids_of_one_list_differ() -> None:
    ids = [f"session-{number:03}" for number in range(100)]
    assert formatting.shorten_ids(ids, ids) == {id: id for id in ids}
    assert formatting.shorten_ids(ids[:2], []) == {id: id for id in ids[:2]}
    assert formatting.shorten_ids([], ids) == {}
