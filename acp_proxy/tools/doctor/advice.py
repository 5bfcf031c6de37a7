"""What the user should do about a finding."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Advice:
    """``is_wrong`` False: nothing is broken; this is only advice. ``cause``: what several findings may have in common,
    with what to do about it. ``where``: the agent of an editor that it was found for, or empty.
    """

    text: str
    is_wrong: bool = True
    cause: str = ""
    where: str = ""


def join_alike(pieces: Sequence[Advice]) -> list[Advice]:
    """The same advice, with one for all that have one cause, in the place of the first."""
    by_cause: dict[str, list[Advice]] = {}
    for advice in pieces:
        by_cause.setdefault(advice.cause or advice.text, []).append(advice)
    joined = []
    for first, *more in by_cause.values():
        where = [advice.where for advice in (first, *more) if advice.where]
        text = first.text
        if more and where:
            text = f"{(first.where and first.cause) or first.text} Used by: {', '.join(where)}."
        joined.append(Advice(text, first.is_wrong, first.cause, ", ".join(where)))
    return joined
