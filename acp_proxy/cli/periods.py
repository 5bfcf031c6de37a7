"""Times on the command line: how long ago, or when."""

import re
from datetime import datetime

import typer

from acp_proxy.views import figures


def since(text: str) -> str:
    """``7d``, ``12h``, a day or a time (of this place, if it says no other), as transcripts write it."""
    if not text:
        return ""
    try:
        if match := re.fullmatch(r"([0-9]{1,6}) ?([smhdw])", text):
            return figures.stamped(figures.before(datetime.now().astimezone(), int(match[1]), match[2]))
        return figures.stamped(datetime.fromisoformat(text).astimezone())
    except (ValueError, OverflowError):
        raise typer.BadParameter(
            f"{text!r} is no time: a number and m, h, d or w, as in 7d, or a day, as in 2026-11-01",
            param_hint="'--since'",
        ) from None
