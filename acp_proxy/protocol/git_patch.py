"""Reads a patch in git's format, as protocol version 2 sends edits, and quotes paths as git does. Pure; accepts any
text, and never raises."""

import re
import sys
from collections.abc import Sequence

from msgspec import Struct

_HUNK_HEADING = re.compile(r"@@ -[0-9]+(?:,([0-9]{1,9}))? \+[0-9]+(?:,([0-9]{1,9}))? @@")
_ESCAPE_LETTERS = {7: "a", 8: "b", 9: "t", 10: "n", 11: "v", 12: "f", 13: "r", 34: '"', 92: "\\"}
"""The bytes that git writes as a letter after a backslash; ``quote_path`` of its quote.c."""


class FilePatch(Struct):
    """What a patch says about one file. ``head``: the lines in front of its hunks. ``hunks``: of each, the lines before
    and after the change, with those around it and with their ends."""

    head: list[str]
    hunks: list[tuple[list[str], list[str]]]


class PatchedFiles:
    """The files of a patch by their paths."""

    def __init__(self, patches: Sequence[FilePatch]) -> None:
        self._by_name = {
            line[4:].rstrip("\t"): patch
            for patch in reversed(patches)
            for line in patch.head
            if line.startswith(("--- ", "+++ "))
        }

    def find(self, path: str) -> FilePatch | None:
        """What the patch says about this file. Git quotes letters outside of ASCII only unless it is set not to."""
        return self._by_name.get(path) or self._by_name.get(quote(path))


def read_patch(text: str) -> list[FilePatch]:
    """The files of a patch, in order. What follows a hunk's last line, by the numbers in its heading, is left out."""
    patches: list[FilePatch] = []
    sides: list[list[str]] = []
    sizes = (0, 0)
    for line in text.removesuffix("\n").split("\n"):
        if line.startswith("diff --git ") or not patches:
            patches.append(FilePatch([], []))
        hunks = patches[-1].hunks
        if line.startswith("@@ "):
            hunks.append(([], []))
            sides, sizes = [], _read_sizes(line)
        elif not hunks:
            patches[-1].head.append(line)
        elif line.startswith("\\"):  # the line before it has no newline
            for side in sides:
                side[-1] = side[-1].removesuffix("\n")
        elif all(len(side) >= size for side, size in zip(hunks[-1], sizes, strict=True)):  # such as a mail's signature
            sides = []
        else:  # an empty line is one of those around the change, from which somebody has cut the space
            kind = line[:1] or " "
            sides = [side for side, kinds in zip(hunks[-1], (" -", " +"), strict=True) if kind in kinds]
            for side in sides:
                side.append(f"{line[1:]}\n")
    return patches


def quote(path: str) -> str:
    """A path as git writes it in patches."""
    data = path.encode(errors="surrogatepass")
    if all(32 <= byte < 127 and byte not in _ESCAPE_LETTERS for byte in data):
        return path
    return '"' + "".join(_quote_byte(byte) for byte in data) + '"'


def _quote_byte(byte: int) -> str:
    if byte in _ESCAPE_LETTERS:
        return f"\\{_ESCAPE_LETTERS[byte]}"
    return chr(byte) if 32 <= byte < 127 else f"\\{byte:03o}"


def _read_sizes(heading: str) -> tuple[int, int]:
    """How many lines a hunk has before and after the change; without limit if the heading does not say."""
    match = _HUNK_HEADING.match(heading)
    return (int(match[1] or 1), int(match[2] or 1)) if match is not None else (sys.maxsize, sys.maxsize)
