"""Makes titles of sessions, from prompts or from what the agent calls a session: one line of printable text.

Does no I/O, and never raises on foreign input.
"""

import re
from collections.abc import Callable

from msgspec import Struct

from acp_proxy.protocol import acp, jsonrpc

TITLE_LENGTH = 120
AGENT_TITLE_LENGTH = 500
HANDOVER_RECORD_BEGINNINGS = (
    "This is the record of an earlier conversation between the user and ",
    "This is the record of what the user and an agent said in this conversation ",
)
"""How handover records begin, of this version and of all before. Nobody else writes that."""
_HANDOVER_RECORD_TEXT = "This is the record o"
"""What every title made from a record contains. Agents cut titles, but hardly shorter than this."""
HANDOVER_RECORD_BYTES = _HANDOVER_RECORD_TEXT.encode()
"""``_HANDOVER_RECORD_TEXT`` in an agent's line."""
_PREFIX_LENGTH = 32
"""How many characters an agent may put in front of a title, such as "[archived] " or "Fork of "."""
_COMMAND = re.compile(r"/[^\s/]+(?!\S)")
"""A slash command, which is not a path."""
_CONTEXT = re.compile(
    r"\s*<(context|system-reminder|(?:local-)?command-\w{1,40}|\w[^\W_]{0,39}_\w{1,40})(?:\s[^<>]*)?>"
    r"(?:.*?</\1>|[ \t\r]*(?:\n.*|$))",
    re.DOTALL,
)
"""What agents and editors put in front of the user's words, as an element of a known name or form. One that has no end
goes to the end of the text if its tag has a line of its own. Elements of other names are the user's words."""
_JOINERS = "\N{ZERO WIDTH JOINER}\N{ZERO WIDTH NON-JOINER}"
"""Characters that are parts of words and of emoji."""
_READ_LENGTH = 64 * 1024
"""The most characters read of a text, since megabytes of empty lines would take long."""
_ESCAPE_SEQUENCE = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)")
"""A sequence of ECMA-48, such as for colours and links."""
_MASKED = re.compile(r"(\[redacted(?: private key)?\])\*+")
"""A masked secret, as ``redaction`` leaves it: as long as the secret was."""
_CUT_AT_WORD = 0.6
"""The least share of the length that a cut between words may leave; else a word is cut."""


class Titles(Struct):
    """The titles that a session's prompts offer, best first: a line that is no command or context, any line, the name
    of a resource."""

    line: str | None = None
    any_line: str | None = None
    resource: str | None = None

    @property
    def best(self) -> str | None:
        """The best title so far, or None."""
        return self.line or self.any_line or self.resource

    def consider(self, blocks: object) -> None:
        """Look for a title in the content blocks of the next prompt. Accepts any value."""
        if self.line is not None:
            return
        for block in blocks if isinstance(blocks, list) else []:
            text = acp.text(block, "text") if acp.text(block, "type") == "text" else None
            if text is None:
                self.resource = self.resource or clean(_find_resource_name(block), TITLE_LENGTH)
                continue
            title = _find_first_line(_strip_context(text))
            if title is not None and not _COMMAND.match(title):
                self.line = title
                return
            self.any_line = self.any_line or title or _find_first_line(text)


def shorten_masks(text: str) -> str:
    """The text with ``[redacted]`` alone for each masked secret, however long that was."""
    return _MASKED.sub(r"\1", text) if "]*" in text else text


def is_of_handover_record(title: str) -> bool:
    """Whether an agent made this title from a handover record, since it was in the first prompt of its session. It may
    be cut, have a prefix or quotes, and other white space."""
    words = " ".join(title[:_READ_LENGTH].split())
    offset = words.find(_HANDOVER_RECORD_TEXT, 0, _PREFIX_LENGTH + len(_HANDOVER_RECORD_TEXT))
    opening = words[offset:].rstrip(".…\"' ") if offset >= 0 else ""
    return any(
        opening.startswith(handover_record_start.rstrip()) or (opening and handover_record_start.startswith(opening))
        for handover_record_start in HANDOVER_RECORD_BEGINNINGS
    )


def clean_agent_title(title: object) -> str | None:
    """What an agent calls a session, cleaned; None if it made that from a handover record."""
    cleaned = clean(title, AGENT_TITLE_LENGTH)
    return cleaned if cleaned is not None and not is_of_handover_record(cleaned) else None


def mask_title(title: str, mask: Callable[[bytes], bytes]) -> str:
    """A cleaned title with ``[redacted]`` for each secret. ``mask``: masks the secrets in JSON, keeping its length.
    Nothing recognizes a secret that was cut, so the last word of a title that was cut goes too."""
    if title.endswith("…") and len(title) > AGENT_TITLE_LENGTH * _CUT_AT_WORD:
        title = f"{title.rpartition(' ')[0]}…"
    masked = jsonrpc.parse(mask(jsonrpc.dump({"title": title})))
    return shorten_masks(acp.text(masked, "title") or "")


def clean(text: object, length: int) -> str | None:
    """One line of at most ``length`` printable characters, cut between words if possible; None if nothing is left."""
    if not isinstance(text, str):
        return None
    beginning = shorten_masks(_ESCAPE_SEQUENCE.sub("", text.strip()[: length * 8]))
    printable = (c if c.isprintable() or c.isspace() or c in _JOINERS else "" for c in beginning)
    folded = " ".join("".join(printable).split())
    if len(folded) <= length:
        return folded or None
    cut = folded[: length - 1]
    last_space = cut.rfind(" ")
    return (cut[:last_space] if last_space >= length * _CUT_AT_WORD else cut).rstrip() + "…"


def _strip_context(text: str) -> str:
    """The text without the context in front of it."""
    position = 0
    while match := _CONTEXT.match(text, position):
        position = match.end()
    return text[position:]


def _find_first_line(text: str) -> str | None:
    """The first line of a text that has something to show, cleaned."""
    lines = (clean(line, TITLE_LENGTH) for line in text.lstrip()[:_READ_LENGTH].split("\n"))
    return next(filter(None, lines), None)


def _find_resource_name(block: object) -> str | None:
    if (name := acp.text(block, "name")) is not None:
        return name
    uri = acp.text(block, "uri") or acp.text(acp.member(block, "resource"), "uri")
    return re.split(r"[/\\]", uri.rstrip("/\\"))[-1] if uri else None
