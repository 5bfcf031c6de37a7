"""A turn of the record of a handover: what was said and done in it, in as much detail as there is room for."""

from enum import IntEnum

from acp_proxy.wire import acp

USER, AGENT, TOOL, OUTPUT = "User:", "Agent:", "Tool call:", "Its output:"
"""The lines before quotes."""
CUT = "[…]"
"""Stands for what was cut out of a text."""
_QUOTE = ">"
LONG_OUTPUT = 16 * 1024
"""Characters of a tool call's output in a whole turn. More is rarely read again; its beginning and end are kept."""
SHORT_OUTPUT = 400
GIST = 1000
"""Characters of each message in a turn's gist."""
_DIFFERENCE = 20_000  # characters of a file beyond which comparing its versions takes too long


class Detail(IntEnum):
    """How much of a turn is told."""

    WHOLE = 0  # everything, a very long output cut
    SHORT = 1  # outputs cut to a few lines
    SAID = 2  # messages, and the titles of tool calls
    GIST = 3  # the user's words and the agent's last ones, cut


class BriefItem:
    """A message or a tool call, in the pieces in which it came."""

    def __init__(self, label: str, pieces: list[str]) -> None:
        self.label = label
        self.pieces = pieces
        self.output = ""
        self.is_failed = False

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    def told(self, detail: Detail = Detail.SAID) -> str:
        text = self.text if detail is not Detail.GIST else middle(self.text, GIST)
        out = f"{self.label}\n{quoted(text)}"
        if self.output and detail < Detail.SAID:
            out += (
                f"\n\n{OUTPUT}\n{quoted(self.output if detail is Detail.WHOLE else middle(self.output, SHORT_OUTPUT))}"
            )
        return out

    def end_of(self, size: int) -> str:
        """The end of the message, in at most ``size`` bytes; empty if there is no room for a line of it."""
        room = size - len(self.label) - _size(f"\n{_QUOTE} {CUT}\n{_QUOTE} ")
        lines = quoted(self.text).encode("utf-8", "replace")
        kept = lines[max(len(lines) - room, 0) :].decode("utf-8", "ignore") if room > 0 else ""
        if not kept.strip():
            return ""
        first, newline, rest = kept.partition("\n")  # the first line has lost its quote
        return f"{self.label}\n{_QUOTE} {CUT}\n{_QUOTE} {first.removeprefix(f'{_QUOTE} ')}{newline}{rest}"


class BriefTurn:
    """The messages and calls of one turn."""

    def __init__(self) -> None:
        self.items: list[BriefItem] = []
        self.said = 0
        """Characters of its messages and titles, and of its outputs."""
        self.put_out = 0
        self._outputs: list[BriefItem] = []
        self._is_gist = False

    def add(self, item: BriefItem) -> None:
        self.items.append(item)

    def put(self, item: BriefItem, output: str, limit: int) -> None:
        """Set a call's output. Beyond ``limit``, the turn's oldest outputs are cut."""
        self.put_out += len(output) - len(item.output)
        item.output = output
        if item in self._outputs:
            self._outputs.remove(item)
        self._outputs.append(item)
        while self.put_out > limit and len(self._outputs) > 1:
            self._shorten(self._outputs.pop(0))

    def told(self, detail: Detail) -> str:
        items = self.items if detail is not Detail.GIST else _gist(self.items)
        return "\n\n".join(item.told(detail) for item in items)

    def cut_to(self, size: int) -> str:
        """The user's words, at most a quarter, and the newest of what follows."""
        first, *rest = self.items
        begun = first.told()
        if _size(begun) > size // 4 and rest:
            begun = f"{first.label}\n{quoted(middle(first.text, size // 16))}"
        if not rest:
            return first.end_of(size)
        room, kept = size - _size(begun) - 2, list[str]()
        for item in reversed(rest):
            told = item.told()
            if _size(told) + 2 > room:
                kept.append(item.end_of(room - 2))
                break
            kept.append(told)
            room -= _size(told) + 2
        return "\n\n".join([begun, *(each for each in reversed(kept) if each)])

    def shorten(self) -> None:
        """Cut its outputs, to free memory."""
        for item in self._outputs:
            self._shorten(item)
        self._outputs.clear()

    def reduce(self) -> None:
        """Keep only its gist, to free memory."""
        if not self._is_gist:
            self._is_gist, self._outputs, self.put_out = True, [], 0
            self.items = [BriefItem(item.label, [middle(item.text, GIST)]) for item in _gist(self.items)]
            self.said = sum(len(item.text) for item in self.items)

    def _shorten(self, item: BriefItem) -> None:
        short = middle(item.output, SHORT_OUTPUT)
        self.put_out -= len(item.output) - len(short)
        item.output = short


def _gist(items: list[BriefItem]) -> list[BriefItem]:
    last = next((item for item in reversed(items) if item.label == AGENT), None)
    return [item for item in items if item.label == USER or item is last]


def quoted(text: str) -> str:
    """The text with the mark before each line, whatever character ends the line."""
    return "\n".join(f"{_QUOTE} {line}" for line in text.splitlines()) or _QUOTE


def middle(text: str, length: int) -> str:
    """The text without its middle, if it is longer."""
    half = length // 2
    return text if len(text) <= length else f"{text[:half]}\n{CUT}\n{text[len(text) - half :]}"


def output_of(content: object, named: list[str]) -> str:
    """The output of a tool call: its ``content`` as text. ``named``: the names of what is not text, in order."""
    names = iter(named)
    parts = []
    for item in content if isinstance(content, list) else []:
        inner = acp.member(item, "content")
        if acp.text(item, "type") == "diff":
            parts.append(_difference(item))
        elif isinstance(inner, dict):
            parts.append((acp.text(inner, "text") or "") if acp.text(inner, "type") == "text" else next(names, ""))
    return middle("\n".join(part for part in parts if part), LONG_OUTPUT)


def _difference(item: object) -> str:
    path, old, new = acp.text(item, "path") or "", acp.text(item, "oldText") or "", acp.text(item, "newText") or ""
    if max(len(old), len(new)) > _DIFFERENCE:
        return f"[diff: {path}]"
    from difflib import unified_diff  # few records need it

    lines = unified_diff(old.splitlines(), new.splitlines(), path, path, n=1, lineterm="")
    return "\n".join(lines)


def _size(text: str) -> int:
    return len(text.encode("utf-8", "replace"))
