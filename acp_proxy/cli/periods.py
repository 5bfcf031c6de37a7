"""Points in time on the command line: a period before now, a time, or a day."""

from datetime import UTC, date, datetime, time, timedelta

import typer

from acp_proxy.cli import amounts
from acp_proxy.errors import UsageError
from acp_proxy.views import figures

_DAYS_AGO = {"today": 0, "yesterday": 1}


def since(text: str) -> str:
    """The value of ``--since`` in the form of transcripts; a day means its beginning. Local unless it names a zone."""
    return _stamped(text, "--since", is_end=False)


def until(text: str) -> str:
    """The first moment that ``--until`` excludes: a day means its end."""
    return _stamped(text, "--until", is_end=True)


def between(earliest: str, latest: str) -> tuple[str, str]:
    """The values of ``--since`` and ``--until``. Raises UsageError if nothing can be between them."""
    start, end = since(earliest), until(latest)
    if start and end and start >= end:
        raise UsageError("--until is before --since, so nothing can match. Exchange them.")
    return start, end


def _stamped(text: str, option: str, *, is_end: bool) -> str:
    if not text:
        return ""
    try:
        if (seconds := amounts.period(text)) is not None:
            return figures.stamped(datetime.now(UTC) - timedelta(seconds=seconds))
        if (day := _day(text)) is not None:
            return figures.stamped(datetime.combine(day + timedelta(days=is_end), time()).astimezone())
        return figures.stamped(datetime.fromisoformat(text).astimezone())
    except (ValueError, OverflowError):
        raise typer.BadParameter(
            f"{text!r} is not a time. Give a number and m, h, d or w, such as 7d; today or yesterday; or a date, such"
            " as 2026-11-01.",
            param_hint=f"'{option}'",
        ) from None


def _day(text: str) -> date | None:
    """``yesterday`` or ``2026-11-01``; None for any other text."""
    if (ago := _DAYS_AGO.get(text.lower())) is not None:
        return datetime.now().astimezone().date() - timedelta(days=ago)
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None
