"""Periods and sizes as users write them on the command line."""

import re

from acp_proxy.errors import UsageError

_SECONDS = {"s": 1, "m": 60, "h": 60 * 60, "d": 24 * 60 * 60, "w": 7 * 24 * 60 * 60}
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


def seconds(option: str, text: str) -> float:
    """Raises UsageError."""
    found = period(text)
    if found is None:
        raise UsageError(f"{option} takes a number followed by s, m, h, d or w, such as 7d, not {text!r}")
    return found


def period(text: str) -> float | None:
    """``7d`` in seconds; None for any other text."""
    match = re.fullmatch(r"([0-9]{1,6})([smhdw])", text)
    return float(int(match[1]) * _SECONDS[match[2]]) if match is not None else None


def size(option: str, text: str) -> int:
    """``5GB`` is 5,000,000,000 bytes; ``5G`` and ``5GiB`` are 5 times 1024 cubed. Raises UsageError."""
    match = re.fullmatch(r"([0-9]{1,12})([kmgt]?)(i?b)?", text.lower())
    if match is None:
        raise UsageError(
            f"{option} takes a number of bytes, or a number followed by K, M, G or T, such as 5GB, not {text!r}"
        )
    base, power = 1000 if match[3] == "b" else 1024, _POWERS[match[2]]
    return int(int(match[1]) * base**power)
