"""Titles: one line of printable text, from what the user said or from what the agent calls a session.

Pure. Source of the rules: design of session/list.
"""

import re

from acp_proxy.wire import acp
from acp_proxy.wire.value import Value

TITLE_LENGTH = 120
AGENT_TITLE_LENGTH = 500
_NOT_A_TITLE = ("/", "<")  # commands, and context that editors put in front
_JOINERS = "\N{ZERO WIDTH JOINER}\N{ZERO WIDTH NON-JOINER}"  # parts of words and of emoji
_LOOKED_AT = 64 * 1024  # characters of a text: megabytes of lines without a word delay whoever waits for them
_CUT_AT_WORD = 0.6  # a word may cost this share of the title, then it is cut


class Titles(Value, frozen=False):
    """What prompts offer as a title, best first: a line that is no command, any line, a resource's name."""

    line: str | None = None
    any_line: str | None = None
    resource: str | None = None

    @property
    def best(self) -> str | None:
        return self.line or self.any_line or self.resource

    def state(self) -> dict[str, str | None]:
        return {"line": self.line, "any_line": self.any_line, "resource": self.resource}

    def consider(self, blocks: object) -> None:
        """The blocks of one more prompt, whatever they are."""
        if self.line is not None:
            return
        for block in blocks if isinstance(blocks, list) else []:
            text = acp.text(block, "text") if acp.text(block, "type") == "text" else None
            begins = text.lstrip()[:_LOOKED_AT] if text is not None else ""
            lines = (cleaned(line, TITLE_LENGTH) for line in begins.split("\n"))
            title = next(filter(None, lines), None)
            if title is not None:
                self.any_line = self.any_line or title
                if not title.startswith(_NOT_A_TITLE):
                    self.line = title
                    return
            elif self.resource is None and text is None:
                self.resource = cleaned(_resource_name(block), TITLE_LENGTH)


def cleaned(text: object, length: int) -> str | None:
    """One line of printable text, cut at a word; None where nothing is left."""
    if not isinstance(text, str):
        return None
    kept = (c if c.isprintable() or c.isspace() or c in _JOINERS else "" for c in text.strip()[: length * 8])
    folded = " ".join("".join(kept).split())
    if len(folded) <= length:
        return folded or None
    cut = folded[: length - 1]
    at = cut.rfind(" ")
    return (cut[:at] if at >= length * _CUT_AT_WORD else cut).rstrip() + "…"


def _resource_name(block: object) -> str | None:
    if (name := acp.text(block, "name")) is not None:
        return name
    uri = acp.text(block, "uri") or acp.text(acp.member(block, "resource"), "uri")
    return re.split(r"[/\\]", uri.rstrip("/\\"))[-1] if uri else None
