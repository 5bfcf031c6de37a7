"""Text that may be printed to a terminal.

Titles and transcripts come from other people: their text cannot control the terminal.
"""

import json

from acp_proxy.transcripts.archive import Listed, called
from acp_proxy.views.plain import without_sequences, without_unfit

RUNNING = "running"
"""The mark of a session whose turn is running, in every list."""


def printable(text: str) -> str:
    """Text without control sequences, invisible characters and direction changes; line ends stay."""
    if text.isascii() and text.isprintable():
        return text
    return without_unfit(text.replace("\r\n", "\n").expandtabs())


def output(text: str) -> str:
    """The output of a program, without its control sequences."""
    return printable(without_sequences(text))


def line(text: str) -> str:
    return printable(text).replace("\n", " ")


def json_text(value: object, indent: int | None = None) -> str:
    """JSON in printable ASCII: control characters and DEL are escapes."""
    return json.dumps(value, indent=indent).replace("\x7f", "\\u007f")


def heading(row: Listed, when: str | None = None) -> str:
    """``when``: the displayed time; None: as in the transcript."""
    copy = [f"a copy from {called(row.copy_of)}"] if row.copy_of else []
    what = [row.named, called(row.agent), *copy, row.cwd or "", when if when is not None else row.updated]
    if row.is_running:
        what.append(RUNNING)
    return line(row.title or "(no title)") + "\n" + "  ".join(line(each) for each in what)
