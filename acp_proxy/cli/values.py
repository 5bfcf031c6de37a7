"""Periods, sizes and turns as users write them on the command line."""

import re
from datetime import UTC, date, datetime, time, timedelta
from typing import Annotated

import typer

from acp_proxy.errors import UsageError
from acp_proxy.views import formatting

_SECONDS = {"s": 1, "m": 60, "h": 60 * 60, "d": 24 * 60 * 60, "w": 7 * 24 * 60 * 60}
_UNIT = r"s(?:ec(?:ond)?s?)?|m(?:in(?:ute)?s?)?|h(?:ours?)?|d(?:ays?)?|w(?:eeks?)?"
_PERIOD = re.compile(rf"([0-9]{{1,6}}) ?({_UNIT})(?: ago)?")
_SIZE_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


def parse_seconds(option: str, text: str) -> float:
    """``7d`` in seconds. Raises UsageError, which names the ``option``."""
    seconds = parse_period(text)
    if seconds is None:
        raise UsageError(
            f"{option} takes a number followed by s, m, h, d or w, such as 7d, not {text!r}{_advise_days(text)}"
        )
    return seconds


def _advise_days(text: str) -> str:
    """What to write instead of a number alone."""
    return f". For days: {text}d" if text.isascii() and text.isdecimal() else ""


def parse_period(text: str) -> float | None:
    """``7d``, ``7 days`` or ``7 days ago`` in seconds; None for any other text."""
    match = _PERIOD.fullmatch(text)
    return float(int(match[1]) * _SECONDS[match[2][0]]) if match is not None else None


def parse_size(option: str, text: str) -> int:
    """``5GB`` in bytes: 5,000,000,000; ``5G`` and ``5GiB`` are 5 times 1024 cubed. Raises UsageError, which names the
    ``option``."""
    match = re.fullmatch(r"([0-9]{1,12})([kmgt]?)(i?b)?", text.lower())
    if match is None:
        raise UsageError(
            f"{option} takes a number of bytes, or a number followed by K, M, G or T, such as 5GB, not {text!r}"
        )
    base, power = 1000 if match[3] == "b" else 1024, _SIZE_POWERS[match[2]]
    return int(int(match[1]) * base**power)


# --- Turns


Turns = tuple[int, int | None]
"""The first and the last turn, from 1; None: up to the end. A negative first one counts from the end, and is the only
one."""
_TURNS = re.compile(r"([1-9][0-9]{0,8})(-([1-9][0-9]{0,8})?)?|-([1-9][0-9]{0,8})")
TurnOption = Annotated[
    str,
    typer.Option("--turn", "-t", metavar="N", help="Only these turns: 3, 2-5, 7-, or -1 for the last."),
]


def parse_turns(text: str, option: str = "--turn") -> Turns:
    """``3``, ``2-5``, ``7-`` or ``-1``; empty: all. Raises UsageError, which names the ``option``."""
    if not text:
        return 1, None
    match = _TURNS.fullmatch(text)
    if match is None:
        raise UsageError(f"{option} takes a turn such as 3, 2-5, 7- or -1, for the last, not {text!r}")
    if match[4]:
        return -int(match[4]), -int(match[4])
    first = int(match[1])
    last = int(match[3]) if match[3] else None if match[2] else first
    if last is not None and last < first:
        raise UsageError(f"{option} {text} is backwards. Did you mean {last}-{first}?")
    return first, last


# --- Points in time on the command line: a period before now, a time, or a day.


_DAYS_AGO = {"today": 0, "yesterday": 1}
_EDGE_YEAR = re.compile(r"000[01]-|9999-")
"""The years in which a day or its end may be none, in some zone."""
_CLOCK = re.compile(r"[0-9]{1,2}:[0-9]{2}")
_MONTH = re.compile(r"([0-9]{4})-([0-9]{2})")
_MONTHS = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
]
_WEEKDAYS = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]


def parse_since(text: str, option: str = "--since") -> str:
    """The value of ``--since`` in the form of transcripts; a day means its beginning. Local unless it names a zone.
    Empty: empty. Raises UsageError, which names the ``option``."""
    return _parse_time(option, text, is_end=False)


def parse_until(text: str) -> str:
    """The first moment that ``--until`` excludes: a day means its end. Empty: empty. Raises UsageError."""
    return _parse_time("--until", text, is_end=True)


def parse_range(earliest: str, latest: str) -> tuple[str, str]:
    """The values of ``--since`` and ``--until``. Raises UsageError, also if nothing can be between them."""
    start, end = parse_since(earliest), parse_until(latest)
    if start and start == end and earliest == latest:
        raise UsageError("--since and --until are the same moment, so nothing can match. Make --until later.")
    if start and end and start >= end:
        raise UsageError("--until is before --since, so nothing can match. Exchange them.")
    return start, end


def _parse_time(option: str, text: str, *, is_end: bool) -> str:
    if not text:
        return ""
    try:
        if (seconds := parse_period(text)) is not None:
            return formatting.format_stamp(datetime.now(UTC) - timedelta(seconds=seconds))
        if (day := _parse_day(text)) is not None:
            return formatting.format_stamp(datetime.combine(day + timedelta(days=is_end), time()).astimezone())
        if (month := _parse_month(text)) is not None:
            first = _find_next_month(month) if is_end else month
            return formatting.format_stamp(datetime.combine(first, time()).astimezone())
        if _CLOCK.fullmatch(text):
            clock = time.fromisoformat(text.zfill(len("14:00")))
            return formatting.format_stamp(datetime.combine(_find_today(), clock).astimezone())
        return formatting.format_stamp(datetime.fromisoformat(text).astimezone())
    except (ValueError, OverflowError, OSError) as problem:  # Windows knows no local time before 1970 or after 3000
        if not isinstance(problem, ValueError) or _EDGE_YEAR.match(text):
            raise UsageError(f"{option} {text} is too far away. For no limit, leave out {option}.") from None
        days = _advise_days(text) if len(text) < len("2026") else ""
        raise UsageError(
            f"{option} takes a number and s, m, h, d or w, such as 7d; today, yesterday, tuesday or november; a date,"
            f" such as 2026-11-01 or 2026-11; or a time of today, such as 14:00, not {text!r}{days}"
        ) from None


def _parse_day(text: str) -> date | None:
    """``yesterday``, ``tuesday`` (the last one, perhaps today) or ``2026-11-01``; None for any other text."""
    word, today = text.lower(), _find_today()
    if word in _DAYS_AGO:
        return today - timedelta(days=_DAYS_AGO[word])
    if word in _WEEKDAYS:
        return today - timedelta(days=(today.weekday() - _WEEKDAYS.index(word)) % len(_WEEKDAYS))
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None


def _parse_month(text: str) -> date | None:
    """The first day of ``2026-11``, or of "nov" or "november" (the last one, perhaps this month); None for any
    other text. Raises ValueError."""
    if (match := _MONTH.fullmatch(text)) is not None:
        return date(int(match[1]), int(match[2]), 1)
    word, today = text.lower(), _find_today()
    number = next((at for at, name in enumerate(_MONTHS, 1) if word in (name, name[:3])), None)
    return date(today.year - (number > today.month), number, 1) if number is not None else None


def _find_next_month(first: date) -> date:
    return (first + timedelta(days=31)).replace(day=1)


def _find_today() -> date:
    return datetime.now().astimezone().date()
