"""What may be printed to a terminal.

Titles and transcripts are somebody else's text: nothing that could steer a terminal comes through.
"""

import json
import re

from acp_proxy.transcripts.index import Listed
from acp_proxy.transcripts.names import readable

_COLOURS = re.compile(r"\x1b\[[0-9;:]*m")
_JOINERS = "\N{ZERO WIDTH JOINER}\N{ZERO WIDTH NON-JOINER}"  # parts of words and of emoji


def printable(text: str) -> str:
    """Text without control sequences, and without what is not seen or turns other text around; its line ends stay."""
    if text.isprintable():
        return text
    return "\n".join(one if one.isprintable() else _fit(one) for one in text.replace("\r\n", "\n").split("\n"))


def _fit(line: str) -> str:
    return "".join(
        one if one.isprintable() or one in _JOINERS else "\N{REPLACEMENT CHARACTER}" for one in line.expandtabs()
    )


def output(text: str) -> str:
    """What a program wrote, without the colours that it wrote it in."""
    return printable(_COLOURS.sub("", text))


def line(text: str) -> str:
    return printable(text).replace("\n", " ")


def json_text(value: object, indent: int | None = None) -> str:
    """JSON in printable ASCII: control characters are escapes in it, DEL as well."""
    return json.dumps(value, indent=indent).replace("\x7f", "\\u007f")


def heading(row: Listed) -> str:
    what = (row.session, readable(row.agent), row.cwd or "", row.updated)
    return line(row.title or "(no title)") + "\n" + "  ".join(line(each) for each in what)
