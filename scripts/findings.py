"""The findings of a check of a real agent, and their text, which does not differ between runs."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tests.client import RequestFailed

SESSION_ID = re.compile(r"\b(?=\w*[0-9])[\w-]{16,}\b")
"""The parts of an error's text that differ between runs."""
FEW = 2  # places named one by one


@dataclass(frozen=True)
class Finding:
    """``where``: in which load, if there are several."""

    where: str
    text: str
    is_wrong: bool = True


Findings = Iterator[Finding]
NOT_OFFERED = Finding("", "not offered", is_wrong=False)


def refused(what: str, refusal: RequestFailed, where: str = "", *, is_wrong: bool = True) -> Finding:
    message = SESSION_ID.sub("ID", str(refusal.message))
    return Finding(where, f"{what} is answered {refusal.code} {message}", is_wrong)


def verdict(found: Sequence[Finding]) -> str:
    """The verdict in a word or two."""
    if list(found) == [NOT_OFFERED]:
        return NOT_OFFERED.text
    return "ok" if is_well(found) else "wrong"


def format_findings(found: Sequence[Finding]) -> Iterator[str]:
    """The findings, one per line; findings of several loads are merged."""
    places: dict[tuple[str, bool], list[str]] = {}
    for finding in found:
        places.setdefault((finding.text, finding.is_wrong), []).append(finding.where)
    for (text, is_wrong), where in places.items():
        here = list(dict.fromkeys(filter(None, where)))
        several = f"{here[0]} to {here[-1]}, {len(here)} of them" if len(here) > FEW else ", ".join(here)
        yield f"{'' if is_wrong else 'remark: '}{text}{f' [{several}]' if several else ''}"


def is_well(found: Sequence[Finding]) -> bool:
    return not any(finding.is_wrong for finding in found)
