"""Times on the command line: how long ago, or when."""

from datetime import UTC, datetime, timedelta

import typer

from acp_proxy.cli import amounts
from acp_proxy.views import figures


def since(text: str) -> str:
    """``7d``, ``12h``, a day or a time (of this place, if it says no other), as transcripts write it."""
    if not text:
        return ""
    try:
        if (seconds := amounts.period(text)) is not None:
            return figures.stamped(datetime.now(UTC) - timedelta(seconds=seconds))
        return figures.stamped(datetime.fromisoformat(text).astimezone())
    except (ValueError, OverflowError):
        raise typer.BadParameter(
            f"{text!r} is no time: a number and m, h, d or w, as in 7d, or a day, as in 2026-11-01",
            param_hint="'--since'",
        ) from None
