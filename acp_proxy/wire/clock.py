"""Times as the protocol and the transcripts write them: UTC, fixed width, to the millisecond.

Clients sort them as text, so all of them have the form ``2026-11-20T09:15:02.123Z``.
"""

from datetime import UTC, datetime
from functools import lru_cache


def stamp(seconds: float) -> str:
    """A time in seconds since 1970, as text."""
    return _millisecond(round(seconds * 1_000_000) // 1000)


@lru_cache(2)  # several are asked for in one
def _millisecond(millisecond: int) -> str:
    second, millisecond = divmod(millisecond, 1000)
    return f"{_second(second)}{millisecond:03d}Z"


@lru_cache(2)  # many are asked for in one second
def _second(second: int) -> str:
    return normal(datetime.fromtimestamp(second, UTC))[:-4]


def normal(moment: datetime) -> str:
    moment = moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z".rjust(24, "0")


def normalized(text: str) -> str | None:
    """Somebody else's ISO 8601 time in our form (RFC 3339 allows small letters); None for what is no time."""
    try:
        return normal(datetime.fromisoformat(text.upper()))
    except (ValueError, OverflowError):
        return None


def between(earlier: str, later: str) -> float:
    """Seconds from one of our times to another; none where a clock went back, or where one of them is no time."""
    try:
        passed = datetime.fromisoformat(later) - datetime.fromisoformat(earlier)
    except (ValueError, TypeError):
        return 0.0
    return max(passed.total_seconds(), 0.0)
