"""Every time has one form, which sorts as text."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_proxy.protocol import timestamps
from tests import strategies


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (1795166102.123, "2026-11-20T09:15:02.123Z"),
        (1795166102.9999, "2026-11-20T09:15:02.999Z"),
        (-1, "1969-12-31T23:59:59.000Z"),
    ],
)
def test_seconds_become_utc_cut_to_the_millisecond(seconds: float, text: str) -> None:
    assert timestamps.format_now(seconds) == text


@pytest.mark.parametrize(
    ("text", "ours"),
    [
        ("2026-11-20T09:15:02.123Z", "2026-11-20T09:15:02.123Z"),
        ("2026-11-20T09:15:02Z", "2026-11-20T09:15:02.000Z"),
        ("2026-11-20T10:15:02.5+01:00", "2026-11-20T09:15:02.500Z"),
        ("2026-11-20T03:45:02-0530", "2026-11-20T09:15:02.000Z"),
        ("2026-11-20T09:15:02.123456789Z", "2026-11-20T09:15:02.123Z"),
        ("2026-11-20T09:15:02.9999+00:00", "2026-11-20T09:15:02.999Z"),
        ("2026-11-20 09:15:02", "2026-11-20T09:15:02.000Z"),
        ("2026-11-20t09:15:02z", "2026-11-20T09:15:02.000Z"),
        ("20261120T091502Z", "2026-11-20T09:15:02.000Z"),
        ("2026-11-20", "2026-11-20T00:00:00.000Z"),
        ("2026-12-31T23:30:00-01:00", "2027-01-01T00:30:00.000Z"),
        ("0987-01-01T00:00:00Z", "0987-01-01T00:00:00.000Z"),
    ],
)
def test_any_iso_8601_time_is_converted_to_our_form(text: str, ours: str) -> None:
    assert timestamps.normalize(text) == ours


@pytest.mark.parametrize(
    "text",
    [
        "",
        "yesterday",
        "09:15",
        "1795166102",
        "2026-13-20T09:15:02Z",
        "2026-02-30T09:15:02Z",
        "2026-11-20T25:15:02Z",
        "2026-11-20T09:15:02+99:00",
        "0001-01-01T00:00:00+14:00",
        "9999-12-31T23:59:59-14:00",
        "\ud800",
    ],
)
def test_text_that_is_not_a_time_is_none(text: str) -> None:
    assert timestamps.normalize(text) is None


@given(strategies.texts | st.text("0123456789-:.,+TWZ ", max_size=30))
def test_any_text_is_a_time_in_our_form_or_none(text: str) -> None:
    found = timestamps.normalize(text)
    assert found is None or (len(found) == 24 and timestamps.normalize(found) == found)


@given(
    st.datetimes(
        min_value=datetime(2, 1, 1),
        max_value=datetime(9998, 12, 31),
        timezones=st.timedeltas(timedelta(hours=-14), timedelta(hours=14)).map(timezone),
    ),
    st.timedeltas(timedelta(0), timedelta(days=400)),
)
def test_times_sort_as_text_like_times(moment: datetime, later: timedelta) -> None:
    first, second = timestamps.format_moment(moment), timestamps.format_moment(moment.astimezone(UTC) + later)
    assert first <= second
    assert len(first) == len(second) == 24
    assert first.endswith("Z")
