"""What the user should do about a finding."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Advice:
    """``is_wrong`` False: nothing is broken; this is only advice."""

    text: str
    is_wrong: bool = True
