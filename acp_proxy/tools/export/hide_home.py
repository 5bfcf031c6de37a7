"""Hides home directories in an exported conversation: each becomes ``~``, by one rule for every text in it.

A home directory is ``/home/NAME``, ``/Users/NAME``, ``C:\\Users\\NAME``, that of the session's directory, or that of
the exporting user, wherever it begins a path or a ``file:`` address. Paths of web addresses stay.
"""

import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby, repeat
from urllib.parse import quote

from acp_proxy.protocol import acp
from acp_proxy.views.conversation import (
    ConversationTurn,
    Item,
    Note,
    OtherUpdate,
    Plan,
    SpokenMessage,
    Subagent,
    ToolCall,
)
from acp_proxy.views.document import Head

_HOME_OF_PATH = re.compile(
    r"(?:/var|/usr|/export)?/home/[^/]+|/Users/[^/]+|/root(?![^/])|[A-Za-z]:[\\/]Users[\\/][^\\/]+"
)
"""The home directory that a complete path begins with."""
_DRIVE = r"/?[A-Za-z](?::|%3[Aa])"
_FIRST_SEPARATOR, _SEPARATOR = r"(?:/|\\{1,4}/?)", r"[\\/]{1,4}"  # JSON and programs within a text escape their strings
_NAME = r"\w(?:[\w.@+%$-]{0,63}\w)?"
_ABOVE_HOMES = r"(?:[\\/]{2,8}wsl[\w.$]{0,20}[\\/]{1,4}[\w.-]{1,64}|/var|/usr|/export|/mnt/[a-z]|/[a-z])?"
_USUAL_HOME = rf"(?:{_ABOVE_HOMES}{_FIRST_SEPARATOR}(?:home|Users)|{_DRIVE}{_SEPARATOR}(?i:users)){_SEPARATOR}{_NAME}"
_NOT_BEFORE_PATH = r"(?:(?<![\w.~%+/\\)\]}>-])|(?<=[\s\"'=]-[A-Z]))"
"""What precedes a path: nothing that makes it part of a longer path or address, but perhaps an option such as -I."""
_DATA = re.compile(r"[A-Za-z0-9+/]{1000,}={0,2}")
"""Base64, such as an image, which would take seconds."""
_NOT_AFTER_HOME = r"(?![\w-]|\.\w)"


class HomeHider:
    def __init__(self, cwd: str | None, own_home: str) -> None:
        """``cwd``: the session's directory. ``own_home``: the home directory of the user who exports."""
        session_home = _HOME_OF_PATH.match(cwd or "")
        homes = sorted({session_home[0] if session_home else "", own_home.rstrip("/\\")} - {""}, key=len, reverse=True)
        long_homes = [_spell(home) for home in homes if len(_split_path(home)) > 1]
        short_homes = [_spell(home) for home in homes if len(_split_path(home)) == 1]
        bounded_homes = "|".join([*(f"{home}{_NOT_AFTER_HOME}" for home in short_homes), _USUAL_HOME])
        anywhere = "".join(f"(?<!/){home}{_NOT_AFTER_HOME}|" for home in long_homes)
        all_homes = "|".join([*(f"{home}{_NOT_AFTER_HOME}" for home in long_homes), bounded_homes])
        self._words = ["home", "sers", "SERS", *(_split_path(home)[-1] for home in homes)]
        self._pattern = re.compile(
            rf"(file://[\w.-]{{0,255}})(?:{all_homes})|{anywhere}{_NOT_BEFORE_PATH}(?:{bounded_homes})"
        )

    def hide(self, text: str) -> str:
        """The text with ``~`` for each home directory; as it is if it is data."""
        if not any(word in text for word in self._words) or _DATA.fullmatch(text):
            return text
        return self._pattern.sub(_write_tilde, text)

    def hide_in_head(self, head: Head) -> Head:
        """The head of a document with its title, directory and agent hidden. The other facts have no paths."""
        title = self.hide(head.title) if head.title is not None else None
        cwd = self.hide(head.cwd) if head.cwd is not None else None
        return replace(head, title=title, cwd=cwd, agent=self.hide_in_members(head.agent))

    def hide_in_turns(self, turns: Iterable[ConversationTurn]) -> Iterator[ConversationTurn]:
        """The turns, one by one, with every text of their items and errors hidden."""
        for turn in turns:
            error = self.hide(turn.error) if turn.error is not None else None
            yield replace(turn, items=[self._hide_in_item(item) for item in turn.items], error=error)

    def _hide_in_item(self, item: Item) -> Item:
        match item:
            case SpokenMessage():
                return replace(item, blocks=list(self._hide_in_blocks(item.blocks)))
            case ToolCall():
                return replace(item, fields=self.hide_in_members(item.fields))
            case Plan():
                return replace(item, entries=[self.hide_in_value(entry) for entry in item.entries])
            case Note():
                return replace(item, text=self.hide(item.text))
            case OtherUpdate():
                return replace(item, update=self.hide_in_members(item.update))
            case Subagent():
                return replace(
                    item, title=self.hide(item.title), items=[self._hide_in_item(part) for part in item.items]
                )

    def hide_in_members(self, value: Mapping[str, object]) -> dict[str, object]:
        """A JSON object with every text in it hidden, also the names of its members."""
        return {self.hide(name): self.hide_in_value(member) for name, member in value.items()}

    def hide_in_value(self, value: object) -> object:
        """A JSON value with every text in it hidden."""
        if isinstance(value, str):
            return self.hide(value)
        if isinstance(value, list):
            return [self.hide_in_value(item) for item in value]
        return self.hide_in_members(value) if isinstance(value, dict) else value

    def _hide_in_blocks(self, blocks: Sequence[Mapping[str, object]]) -> Iterator[Mapping[str, object]]:
        """The blocks of a message. A path across adjacent texts is hidden in the text in which it begins."""
        for is_text, adjacent in groupby(blocks, lambda block: acp.text(block, "type") == "text"):
            adjacent_blocks = list(adjacent)
            texts = (
                self.hide_in_adjacent([acp.text(block, "text") or "" for block in adjacent_blocks])
                if is_text
                else repeat(None)
            )
            for block, text in zip(adjacent_blocks, texts, strict=False):
                other_members = self.hide_in_members(
                    {name: value for name, value in block.items() if text is None or name != "text"}
                )
                yield other_members if text is None else {**other_members, "text": text}

    def hide_in_adjacent(self, texts: list[str]) -> list[str]:
        """The parts of one text. A path across them is hidden in the part in which it begins."""
        if len(texts) == 1:
            return [self.hide(texts[0])]
        all_text, start = "".join(texts), 0
        hidden_texts: list[str] = []
        homes = deque((*match.span(), _write_tilde(match)) for match in self._pattern.finditer(all_text))
        for text in texts:
            position, end = start, start + len(text)
            pieces: list[str] = []
            while homes and homes[0][0] < end:
                match_start, match_end, replacement = homes[0]
                pieces += [all_text[position : max(match_start, position)], replacement if match_start >= start else ""]
                position = min(match_end, end)
                if match_end > end:  # the next text continues the path
                    break
                homes.popleft()
            hidden_texts.append("".join([*pieces, all_text[position:end]]))
            start = end
        return hidden_texts


def _write_tilde(match: re.Match[str]) -> str:
    return f"{match[1]}/~" if match[1] is not None else "~"


def _split_path(home: str) -> list[str]:
    return [part for part in re.split(r"[\\/]", home) if part]


def _spell(home: str) -> str:
    """A pattern for a directory, also with other separators, or as part of an address."""
    parts = _split_path(home)
    is_windows = parts[0][1:] == ":"
    names = [f"(?:{re.escape(part)}|{re.escape(quote(part))})" for part in (parts[1:] if is_windows else parts)]
    path = _SEPARATOR.join(names)
    return f"{_DRIVE}{_SEPARATOR}(?i:{path})" if is_windows else f"{_FIRST_SEPARATOR}{path}"
