"""Wraps messages between words on a terminal, which itself would break them within words.

A command to copy stays whole: pasted with a break in it, its first half would run.
"""

import re
import shutil
from typing import TextIO

from acp_proxy.invocation import write_as_typed

_PROGRAMS = r"acp-proxy|uvx?|pipx|npx|python[\d.]*|mv|move|rm|del|chmod|attrib"
_COMMAND = re.compile(rf"(?<=: )(?:\S*/)?(?:{_PROGRAMS}) (?:(?![:,] ).)+?(?=\. [A-Z]|\.?$)", re.MULTILINE)
"""A command in a message: after a colon, up to the end of the sentence."""
_JOINT = "\ue000"
"""Stands for a space at which no line ends."""


def fit_to_stream(text: str, stream: TextIO, indent_columns: int = 0) -> str:
    """A text for this stream. Only a terminal gets it wrapped; further lines begin at column ``indent_columns``."""
    text = write_as_typed(text)
    if not stream.isatty():
        return text
    width = shutil.get_terminal_size().columns
    text = _COMMAND.sub(lambda command: command[0].replace(" ", _JOINT), text)
    lines = [line if len(line) * 2 <= width else wrap(line, width, indent_columns) for line in text.split("\n")]
    return "\n".join(lines).replace(_JOINT, " ")


def wrap(text: str, width: int, indent_columns: int = 0) -> str:
    """One line of text as lines of at most ``width`` columns. A word that no line can hold stays whole."""
    from rich.cells import cell_len  # imported late: few messages are long

    indent = " " * min(indent_columns, width // 2)
    lines = []
    while cell_len(text) > width:
        start = len(text) - len(text.lstrip(" "))
        space_columns = [column for column in range(start, len(text)) if text[column] == " "]
        fitting_columns = [column for column in space_columns if cell_len(text[:column].rstrip(" ")) <= width]
        cut = fitting_columns[-1] if fitting_columns else next(iter(space_columns), None)
        if cut is None:
            break
        lines.append(text[:cut].rstrip(" "))
        text = indent + text[cut:].lstrip(" ")
    return "\n".join([*lines, text])
