"""What the user should do about a finding."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Advice:
    """What to do. ``is_wrong``: False if nothing is broken. ``cause``: what several findings may have in common,
    with what to do about it. ``found_in``: the agent of an editor that it was found for, or empty.
    """

    text: str
    is_wrong: bool = True
    cause: str = ""
    found_in: str = ""


def join_alike(all_advice: Sequence[Advice]) -> list[Advice]:
    """The same advice, with one for all that have one cause, in the place of the first."""
    by_cause: dict[str, list[Advice]] = {}
    for advice in all_advice:
        by_cause.setdefault(advice.cause or advice.text, []).append(advice)
    joined = []
    for first_advice, *other_advice in by_cause.values():
        places = [advice.found_in for advice in (first_advice, *other_advice) if advice.found_in]
        text = first_advice.text
        if other_advice and places:
            text = (
                f"{(first_advice.found_in and first_advice.cause) or first_advice.text} Used by: {', '.join(places)}."
            )
        joined.append(Advice(text, first_advice.is_wrong, first_advice.cause, ", ".join(places)))
    return joined
