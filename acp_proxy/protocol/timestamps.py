"""Reads and writes times as text: UTC, to the millisecond, in the form ``2026-11-20T09:15:02.123Z``.

Every time written here is 24 characters long, because clients sort times as text. Nothing here reads a clock.
"""

from datetime import UTC, datetime, timedelta
from functools import lru_cache

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def format_now(seconds: float) -> str:
    """The text of a time given in seconds since 1970."""
    return _format_millisecond(round(seconds * 1_000_000) // 1000)


@lru_cache(2)  # several entries share a millisecond
def _format_millisecond(millisecond: int) -> str:
    second, millisecond = divmod(millisecond, 1000)
    return f"{_format_second(second)}{millisecond:03d}Z"


@lru_cache(2)  # many entries share a second
def _format_second(second: int) -> str:
    return format_moment(_EPOCH + timedelta(seconds=second))[:-4]  # a clock may be before 1970


def format_moment(moment: datetime) -> str:
    """The text of a datetime; one without a time zone counts as UTC."""
    moment = moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z".rjust(24, "0")


def normalize(text: str) -> str | None:
    """An ISO 8601 time rewritten in this module's form, or None if the text is not a time. Accepts lower case, as
    RFC 3339 does."""
    try:
        return format_moment(datetime.fromisoformat(text.upper()))
    except (ValueError, OverflowError):
        return None


def parse_seconds(text: str) -> float | None:
    """A time's seconds since 1970; None if the text is not a time."""
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError):
        return None
