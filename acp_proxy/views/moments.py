"""Reads a transcript's times."""

from datetime import datetime


def parse_moment(text: str) -> datetime | None:
    """A time as a datetime; None if the text is not a time."""
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def measure_between(earlier: str, later: str) -> float:
    """Seconds from one time to a later one; 0.0 if a clock went back, or if either text is not a time."""
    try:
        difference = datetime.fromisoformat(later) - datetime.fromisoformat(earlier)
    except (ValueError, TypeError):
        return 0.0
    return max(difference.total_seconds(), 0.0)
