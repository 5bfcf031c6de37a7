"""What may be printed to a terminal.

Titles and transcripts are somebody else's text: nothing that could steer a terminal comes through.
"""

import json
import re

from acp_proxy.transcripts.archive import Listed, called
from acp_proxy.views.plain import UNFIT, without_sequences

_UNFIT = re.compile(f"[{UNFIT}\xad\u180e\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e007f]")
"""What is unfit for a document, and what is not seen: text that nobody sees is no text of a person."""


def printable(text: str) -> str:
    """Text without control sequences, and without what is not seen or turns other text around; its line ends stay."""
    if text.isprintable():
        return text
    return _UNFIT.sub("\N{REPLACEMENT CHARACTER}", text.replace("\r\n", "\n").expandtabs())


def output(text: str) -> str:
    """What a program wrote, without what it told the terminal."""
    return printable(without_sequences(text))


def line(text: str) -> str:
    return printable(text).replace("\n", " ")


def json_text(value: object, indent: int | None = None) -> str:
    """JSON in printable ASCII: control characters are escapes in it, DEL as well."""
    return json.dumps(value, indent=indent).replace("\x7f", "\\u007f")


def heading(row: Listed, when: str | None = None) -> str:
    """``when``: the session's time as it is told; None: as transcripts write it."""
    what = (row.named, called(row.agent), row.cwd or "", when if when is not None else row.updated)
    return line(row.title or "(no title)") + "\n" + "  ".join(line(each) for each in what)
