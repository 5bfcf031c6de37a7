"""Times, sizes, paths and ids for people."""

import re
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

SHORTEST_ID = 8
"""The least characters that people see of an id: a usual length for copying."""

PINNED, COPY = "pinned", "copy"
"""Marks before a title."""
_MINUTE, _HOUR, _DAY, _MONTH, _YEAR = 60, 3600, 86400, 30 * 86400, 365 * 86400
_UNITS = ((_YEAR, "year"), (_MONTH, "month"), (_DAY, "day"), (_HOUR, "hour"), (_MINUTE, "minute"))
_NEARLY_A_YEAR = 330 * _DAY
"""From this age on, a day without its year could be misread."""
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_SIZES = ("B", "kB", "MB", "GB", "TB")


def format_age(stamp: str, now: datetime) -> str:
    """The age of a transcript's time: ``2 hours ago``. A future time becomes a date."""
    moment = _parse_time(stamp)
    if moment is None:
        return ""
    seconds = (now - moment).total_seconds()
    if seconds < -_MINUTE:
        return stamp[:10]
    if seconds < _MINUTE:
        return "just now"
    size, name = next(unit for unit in _UNITS if seconds >= unit[0])
    count = int(seconds // size)
    return f"{format_count(count, name)} ago"


def format_short_time(stamp: str, now: datetime) -> str:
    """A transcript's time, short: ``5m`` or ``3h`` ago, on the day ``12 Nov``, or in the month ``Nov 2025``.

    Days are those of the time zone of ``now``.
    """
    moment = _parse_time(stamp)
    if moment is None:
        return ""
    seconds = (now - moment).total_seconds()
    if -_MINUTE <= seconds < _MINUTE:
        return "now"
    if _MINUTE <= seconds < _DAY:
        return f"{int(seconds // _MINUTE)}m" if seconds < _HOUR else f"{int(seconds // _HOUR)}h"
    day = moment.astimezone(now.tzinfo)
    month = _MONTHS[day.month - 1]
    return f"{day.day} {month}" if abs(seconds) < _NEARLY_A_YEAR else f"{month} {day.year}"


def format_local_time(stamp: str) -> str:
    """A transcript's time in the local zone, to the second."""
    return _format_local(stamp, "%Y-%m-%d %H:%M:%S")


def format_clock_time(stamp: str) -> str:
    """A transcript's time in the local zone, to the minute."""
    return _format_local(stamp, "%H:%M")


def format_day(stamp: str) -> str:
    """The local day of a transcript's time."""
    return _format_local(stamp, "%Y-%m-%d")


def format_minute(stamp: str) -> str:
    """A transcript's time for a document that others read: local, with the zone: ``2026-11-20 10:15 UTC+01:00``."""
    moment = _parse_local(stamp)
    if moment is None:
        return ""
    zone = moment.isoformat(timespec="minutes")[len("2026-11-20T10:15") :]
    return f"{moment:%Y-%m-%d %H:%M} UTC{zone if zone != '+00:00' else ''}"


def _format_local(stamp: str, form: str) -> str:
    moment = _parse_local(stamp)
    return moment.strftime(form) if moment is not None else ""


def _parse_local(stamp: str) -> datetime | None:
    moment = _parse_time(stamp)
    try:
        return moment.astimezone() if moment is not None else None
    except (ValueError, OverflowError, OSError):  # near the end of the year 9999; on Windows, after 3000 or before 1970
        return None


def format_stamp(moment: datetime) -> str:
    """A time in the form of transcripts."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")


def format_size(number: int) -> str:
    """A number of bytes: ``12 kB``."""
    value, unit = float(number), "B"
    for unit in _SIZES:
        if value < 999.5 or unit == _SIZES[-1]:
            break
        value /= 1000
    return f"{value:.0f} {unit}" if unit == "B" or value >= 99.95 else f"{value:.1f} {unit}"


def format_number(number: int) -> str:
    """A number to three digits or so: ``9,999``, ``12k``, ``1.2M``."""
    if number < 10_000:
        return f"{number:,}"
    return f"{number / 1e3:.0f}k" if number < 1_000_000 else f"{number / 1e6:,.1f}M"


def format_count(number: int, noun: str) -> str:
    """How many there are: ``2 sessions``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def format_amounts(amounts: Mapping[str, float]) -> str:
    """Amounts of money, by currency: ``1.20 USD + 3.00 EUR``."""
    return " + ".join(
        f"{amount:,.2f} {unit}" if amount >= 0.01 else f"{amount:.4f} {unit}"
        for unit, amount in sorted(amounts.items())
    )


def format_duration(begin: str, end: str) -> str:
    """The time between two times of a transcript: ``8 s``, ``1 min 24 s``, ``2 h 5 min``. Empty if it is not known."""
    begin_time, end_time = _parse_time(begin), _parse_time(end)
    seconds = round((end_time - begin_time).total_seconds()) if begin_time is not None and end_time is not None else -1
    if seconds < 0:
        return ""
    if seconds < _MINUTE:
        return f"{seconds} s"
    if seconds < _HOUR:
        return f"{seconds // _MINUTE} min {seconds % _MINUTE} s"
    return f"{seconds // _HOUR} h {seconds % _HOUR // _MINUTE} min"


def shorten_ids(ids: Iterable[str], other_ids: Iterable[str]) -> dict[str, str]:
    """By id: its shortest beginning that none of the others shares, be it one of ``ids`` or of ``other_ids``."""
    id_list = list(ids)
    sorted_ids = sorted({*id_list, *other_ids})
    shortened = {}
    for id in id_list:
        position = bisect_left(sorted_ids, id)
        neighbours = sorted_ids[max(position - 1, 0) : position] + sorted_ids[position + 1 : position + 2]
        shortened[id] = id[: max(SHORTEST_ID, *(_count_common(id, other) + 1 for other in neighbours), 0)]
    return shortened


def _count_common(one: str, other: str) -> int:
    """The length of the common beginning."""
    shorter = min(len(one), len(other))
    return next((index for index in range(shorter) if one[index] != other[index]), shorter)


def _parse_time(stamp: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(stamp)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)) if moment.year > 1 else None
    except ValueError:
        return None


def shorten_home(path: str, home: str) -> str:
    """A directory, with ``~`` for ``home``."""
    if home and (path == home or path.startswith(home.rstrip("/") + "/")):
        return "~" + path[len(home.rstrip("/")) :]
    return path


# --- One line of Markdown as words, for titles and headings: without the marks of headings, quotes, items, fences,
# code, links, bold and struck text, and of what is between ``_``.
#
# A Markdown parser would take more: it makes ``__init__.py`` and the globs ``*test*`` and ``a/**/b a/**/c`` bold or
# italic. These stay, and so do tables and rules.


def format_title(title: str | None, *, is_pinned: bool = False, is_copy: bool = False) -> str:
    """A session's title as people see it everywhere, with marks."""
    marks = f"{f'{PINNED} · ' if is_pinned else ''}{f'{COPY} · ' if is_copy else ''}"
    return f"{marks}{strip_markdown(title or '') or '(no title)'}"


_LINE_MARKS = re.compile(r"(?:(?:#{1,6}|>|[-*+](?:\s+\[[ xX]\])?)\s+(?=\S))+|(?:```+|~~~+)(?=[^`]*$)")
_CODE = r"(?<!`)(`+)(?!`)(?P<code>.+?)(?<!`)\1(?!`)"
_BOLD = r"(?<![\w*/])(?P<stars>\*{2,3})(?![\s*/])(?P<bold>[^*]+(?:\*(?!\*)[^*]+)*)(?<![\s*/])(?P=stars)(?![\w*/])"
_STRUCK = r"~~(?=\S)(?P<struck>[^~]+)(?<=\S)~~"
_ITALIC = r"(?<![^\s(\"'])_(?=\S)(?P<italic>[^_]+)(?<=\S)_(?=[^\w\s]*(?:\s|$))"
_LINK = r"(?<!\w)!?\[(?P<link>[^\[\]]+)\]\([^()\s]+\)"
_MARKED = re.compile(f"{_CODE}|{_BOLD}|{_STRUCK}|{_ITALIC}|{_LINK}")
_UNCLOSED = re.compile(r"(?<!\S)\*\*(?=\w)|`")
"""Marks in a title that was cut off before they end."""


def strip_markdown(line: str) -> str:
    """A line of Markdown as words."""
    if (line_marks := _LINE_MARKS.match(line)) is not None:
        line = line[line_marks.end() :]
    words = _MARKED.sub(_strip_match, line)
    return (_UNCLOSED.sub("", words) if words.endswith("…") else words).strip()


def _strip_match(match: re.Match[str]) -> str:
    content = match["bold"] or match["struck"] or match["italic"] or match["link"]
    if content:
        return _MARKED.sub(_strip_match, content)
    code = match["code"]  # CommonMark: a space is a mark, too, if there is one at both ends
    return code[1:-1] if code.startswith(" ") and code.endswith(" ") and code.strip() else code
