"""Wraps messages between words on a terminal, which itself would break them within words."""

import shutil
from typing import TextIO

from acp_proxy.own_command import write_as_typed


def fit_to_stream(text: str, stream: TextIO, hanging: int = 0) -> str:
    """A text for this stream. Only a terminal gets it wrapped; further lines begin at column ``hanging``."""
    text = write_as_typed(text)
    if not stream.isatty():
        return text
    width = shutil.get_terminal_size().columns
    return "\n".join(line if len(line) * 2 <= width else wrap(line, width, hanging) for line in text.split("\n"))


def wrap(text: str, width: int, hanging: int = 0) -> str:
    """One line of text as lines of at most ``width`` columns. A word that no line can hold stays whole."""
    from rich.cells import cell_len  # imported late: few messages are long

    indent = " " * min(hanging, width // 2)
    lines = []
    while cell_len(text) > width:
        start = len(text) - len(text.lstrip(" "))
        spaces = [at for at in range(start, len(text)) if text[at] == " "]
        fitting = [at for at in spaces if cell_len(text[:at].rstrip(" ")) <= width]
        cut = fitting[-1] if fitting else next(iter(spaces), None)
        if cut is None:
            break
        lines.append(text[:cut].rstrip(" "))
        text = indent + text[cut:].lstrip(" ")
    return "\n".join([*lines, text])
