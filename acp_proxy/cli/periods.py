"""Points in time on the command line: a period before now, or a date."""

from datetime import UTC, datetime, timedelta

import typer

from acp_proxy.cli import amounts
from acp_proxy.views import figures


def since(text: str) -> str:
    """``7d``, ``12h``, a date or a time (local unless it names a zone), in the form of transcripts."""
    if not text:
        return ""
    try:
        if (seconds := amounts.period(text)) is not None:
            return figures.stamped(datetime.now(UTC) - timedelta(seconds=seconds))
        return figures.stamped(datetime.fromisoformat(text).astimezone())
    except (ValueError, OverflowError):
        raise typer.BadParameter(
            f"{text!r} is not a time. Give a number and m, h, d or w, such as 7d, or a date, such as 2026-11-01.",
            param_hint="'--since'",
        ) from None
