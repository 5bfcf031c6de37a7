"""Reads a patch in git's format, as protocol version 2 sends edits. Pure; accepts any text, and never raises."""

from msgspec import Struct


class FilePatch(Struct):
    """What a patch says about one file. ``head``: the lines in front of its hunks. ``hunks``: of each, the lines before
    and after the change, with those around it and with their ends."""

    head: list[str]
    hunks: list[tuple[list[str], list[str]]]

    def is_of(self, path: str) -> bool:
        """Whether a line of the head names this path, without quotes."""
        return any(line.rstrip("\t").endswith(f" {path}") for line in self.head)


def read_patch(text: str) -> list[FilePatch]:
    """The files of a patch, in order."""
    patches: list[FilePatch] = []
    sides: list[list[str]] = []
    for line in text.removesuffix("\n").split("\n"):
        if line.startswith("diff --git ") or not patches:
            patches.append(FilePatch([], []))
        hunks = patches[-1].hunks
        if line.startswith("@@ "):
            hunks.append(([], []))
            sides = []
        elif not hunks:
            patches[-1].head.append(line)
        elif line.startswith("\\"):  # the line before it has no newline
            for side in sides:
                side[-1] = side[-1].removesuffix("\n")
        else:  # an empty line is one of those around the change, from which somebody has cut the space
            kind = line[:1] or " "
            sides = [side for side, kinds in zip(hunks[-1], (" -", " +"), strict=True) if kind in kinds]
            for side in sides:
                side.append(f"{line[1:]}\n")
    return patches
