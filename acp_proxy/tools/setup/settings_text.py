"""Edits the agents in an editor's settings, which are JSON with comments. Pure.

This finds where a value stands and changes only those characters: comments, order, indentation, trailing commas and
line ends stay as the user has them. By hand, since no library will do: json-with-comments drops comments, json5kit
(from 2023) fails at ``/* */``, jsoncgx is under the GPL, and jsonc-edit starts Node.js and downloads its parser.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from acp_proxy.tools.editors import jsonc

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*+"|[{}\[\],:]|[^\s"{}\[\],:]++')

Span = tuple[int, int]
"""Where a value stands: the offset of its first character, and of the one behind its last."""


@dataclass(frozen=True, slots=True)
class Edit:
    """Other text for the characters from ``start`` to ``end``."""

    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class Element:
    """A member of an object, or an item of an array, which has no name. ``start``: where it begins, with its name."""

    name: str | None
    start: int
    value: Span


def apply(text: str, edits: Sequence[Edit]) -> str:
    """The text with these edits, which do not overlap."""
    for edit in sorted(edits, key=lambda edit: edit.start, reverse=True):
        text = text[: edit.start] + edit.text + text[edit.end :]
    return text


class Settings:
    """The text of a settings file, and where its values stand."""

    def __init__(self, text: str) -> None:
        """Raises ValueError, which says what is wrong, if the text is no JSON object; it may be empty."""
        if not isinstance(jsonc.decode(text), dict):
            raise ValueError("it is not a JSON object")
        self.text = text
        self.is_empty = jsonc.says_nothing(text)
        self.newline = "\r\n" if "\r\n" in text else "\n"
        self._blank = jsonc.blank_comments(text)

    def find(self, *names: str) -> Span | None:
        """Where the value stands that these names lead to, from the outermost object on. None: there is none."""
        if self.is_empty:
            return None
        span = (self._blank.index("{"), len(self._blank))
        for name in names:
            if self.text[span[0]] != "{" or name not in (members := self.list_members(span)):
                return None
            span = members[name].value
        return span

    def read(self, span: Span) -> object:
        """The value that stands there."""
        return jsonc.decode(self.text[span[0] : span[1]])

    def list_members(self, span: Span) -> dict[str, Element]:
        """The members of the object that stands there. Of two with one name, the last, as readers have it."""
        return {element.name: element for element in self.list_elements(span) if element.name is not None}

    def list_elements(self, span: Span) -> list[Element]:
        """The elements of the object or array that stands there."""
        elements: list[Element] = []
        key: Span | None = None
        depth, value_start, value_end = 1, -1, -1
        for token in _TOKEN.finditer(self._blank, span[0] + 1):
            token_text = token[0]
            if depth == 1 and token_text in (",", "]", "}"):
                if value_start >= 0:
                    name = json.loads(self.text[slice(*key)], strict=False) if key is not None else None
                    elements.append(Element(name, key[0] if key is not None else value_start, (value_start, value_end)))
                if token_text != ",":
                    break
                key, value_start = None, -1
            elif depth == 1 and token_text == ":":
                key, value_start = (value_start, value_end), -1
            else:
                value_start, value_end = value_start if value_start >= 0 else token.start(), token.end()
                depth += (token_text in ("[", "{")) - (token_text in ("]", "}"))
        return elements

    def find_separator(self, offset: int) -> str:
        """What stands before the element that begins there, if it is the first of its line; else one blank."""
        line_start = max(self.text.rfind(sign, 0, offset) for sign in "\r\n") + 1
        margin = self.text[line_start:offset]
        return self.newline + margin if line_start and not margin.strip() else " "


def put_in_front(settings: Settings, entry: Span, own_words: Sequence[str]) -> list[Edit]:
    """Put acp-proxy in front of the agent of an entry. ``own_words``: the words that start acp-proxy, ``run`` the last.

    Raises ValueError if the entry's arguments are no list of texts.
    """
    members = settings.list_members(entry)
    command = members["command"].value
    if is_list(settings, command):
        first_start = settings.list_elements(command)[0].start
        return [
            Edit(
                first_start,
                first_start,
                "".join(f"{quote(word)},{settings.find_separator(first_start)}" for word in own_words),
            )
        ]
    front_words = [*map(quote, own_words[1:]), settings.text[slice(*command)]]
    edits = [Edit(*command, quote(own_words[0]))]
    if "args" not in members:
        separator = settings.find_separator(members["command"].start)
        return [*edits, Edit(command[1], command[1], f',{separator}"args": [{", ".join(front_words)}]')]
    args = members["args"].value
    arguments = settings.read(args)
    if not isinstance(arguments, list) or not all(isinstance(argument, str) for argument in arguments):
        raise ValueError("its args are not a list of texts")
    if not arguments:
        return [*edits, Edit(args[0] + 1, args[0] + 1, ", ".join(front_words))]
    first_start = settings.list_elements(args)[0].start
    separator = settings.find_separator(first_start)
    return [*edits, Edit(first_start, first_start, "".join(f"{word},{separator}" for word in front_words))]


def take_out(settings: Settings, entry: Span, count: int, *, had_args: bool) -> list[Edit]:
    """Take acp-proxy out of an entry: the reverse of ``put_in_front``.

    ``count``: how many of the arguments are acp-proxy's; the next one is the agent's program. ``had_args``: whether the
    entry had arguments before.
    """
    members = settings.list_members(entry)
    command = members["command"].value
    if is_list(settings, command):
        items = settings.list_elements(command)
        return [Edit(items[0].start, items[count + 1].start, "")]
    args = members["args"]
    items = settings.list_elements(args.value)
    edits = [Edit(*command, settings.text[slice(*items[count].value)])]
    if len(items) > count + 1:
        return [*edits, Edit(items[0].start, items[count + 1].start, "")]
    if had_args:
        return [*edits, Edit(items[0].start, items[-1].value[1], "")]
    return [*edits, remove(settings, entry, "args")]


def name_command(settings: Settings, entry: Span, words: Sequence[str]) -> list[Edit]:
    """Give an entry of Zed's own registry a command: Zed starts its registry's agents itself, and takes no prefix.

    Source: CustomAgentServerSettings of zed-industries/zed, crates/settings_content.
    """
    kind = settings.list_members(entry)["type"]
    separator = settings.find_separator(kind.start)
    args = f"[{', '.join(map(quote, words[1:]))}]"
    new_members = f',{separator}"command": {quote(words[0])},{separator}"args": {args}'
    return [Edit(*kind.value, quote("custom")), Edit(kind.value[1], kind.value[1], new_members)]


def unname_command(settings: Settings, entry: Span) -> list[Edit]:
    """The reverse of ``name_command``."""
    members = settings.list_members(entry)
    edits = [Edit(*members["type"].value, quote("registry"))]
    names = [element.name for element in settings.list_elements(entry)]
    if names.index("args") == names.index("command") + 1 > 1:
        previous = settings.list_elements(entry)[names.index("command") - 1]
        return [*edits, Edit(previous.value[1], members["args"].value[1], "")]
    return edits


def replace_words(settings: Settings, entry: Span, count: int, own_words: Sequence[str]) -> list[Edit]:
    """Start acp-proxy with other words. ``count``: how many arguments stand in front of those that stay.
    ``own_words``: what comes in place of the program and of these."""
    members = settings.list_members(entry)
    command = members["command"].value
    if is_list(settings, command):
        items = settings.list_elements(command)
        return [Edit(items[0].start, items[count + 1].start, "".join(f"{quote(word)}, " for word in own_words))]
    items = settings.list_elements(members["args"].value)
    front_words = "".join(f"{quote(word)}, " for word in own_words[1:])
    return [Edit(*command, quote(own_words[0])), Edit(items[0].start, items[count].start, front_words)]


def is_list(settings: Settings, command: Span) -> bool:
    """Whether a command contains its arguments."""
    return settings.text[command[0]] == "["


def remove(settings: Settings, span: Span, name: str) -> Edit:
    """Remove a member of the object that stands there, and a comma beside it."""
    elements = settings.list_elements(span)
    index = max(index for index, element in enumerate(elements) if element.name == name)
    if index:
        return Edit(elements[index - 1].value[1], elements[index].value[1], "")
    if len(elements) > 1:
        return Edit(elements[0].start, elements[1].start, "")
    return Edit(span[0] + 1, settings.text.index("}", elements[0].value[1]), "")


def add_entry(settings: Settings, members: Sequence[str], entry: str, whole_text: str) -> list[Edit]:
    """Add an agent. ``members``: they lead to the agents. ``entry``: ``"name": {…}``. ``whole_text``: the content of a
    file that has nothing else.

    Raises ValueError if the place for agents is no object.
    """
    if settings.is_empty:
        end = len(settings.text)
        return [Edit(end, end, whole_text.replace("\n", settings.newline) + settings.newline)]
    existing_count = max(count for count in range(len(members) + 1) if settings.find(*members[:count]) is not None)
    span = settings.find(*members[:existing_count]) or (0, 0)
    if not isinstance(settings.read(span), dict):
        raise ValueError(f'its "{".".join(members[:existing_count])}" is not an object')
    for member in reversed(members[existing_count:]):
        indented = entry.replace("\n", "\n  ")
        entry = f"{quote(member)}: {{\n  {indented}\n}}"
    return [_insert(settings, span, entry)]


def _insert(settings: Settings, span: Span, lines: str) -> Edit:
    """Insert a first member into the object that stands there, one step deeper than the line of its brace."""
    elements = settings.list_elements(span)
    begin = max(settings.text.rfind(sign, 0, span[0]) for sign in "\r\n") + 1
    margin = re.compile(r"[ \t]*").match(settings.text, begin)
    outer = settings.newline + (margin[0] if margin is not None else "")
    separator = settings.find_separator(elements[0].start) if elements else " "
    if separator == " ":
        separator = outer + "  "
    step = separator.removeprefix(outer) or "  "
    body = re.sub(r"(?m)^(?:  )+", lambda match: step * (len(match[0]) // 2), lines).replace("\n", separator)
    return Edit(span[0] + 1, span[0] + 1, f"{separator}{body}{',' if elements else outer}")


def quote(text: str) -> str:
    """A text as JSON."""
    return json.dumps(text, ensure_ascii=False)
