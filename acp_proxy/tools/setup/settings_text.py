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

_BLANK_LINES = re.compile(r"\r?\n[ \t]*(?=\r?\n)")
_LINE_END = re.compile(r"[ \t]*,?[ \t]*\r?\n")

Span = tuple[int, int]
"""Where a value stands: the offset of its first character, and of the one after its last."""


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

    def find_comma(self, offset: int) -> int | None:
        """Where the comma stands that is the next token. None: another token is."""
        token = _TOKEN.search(self._blank, offset)
        return token.start() if token is not None and token[0] == "," else None

    def has_comment(self, start: int, end: int) -> bool:
        """Whether there is a comment between these offsets."""
        return self.text[start:end] != self._blank[start:end]

    def cut(self, start: int, end: int) -> Edit:
        """Remove what stands between these offsets, but no comment, which is the user's."""
        if not self.has_comment(start, end):
            return Edit(start, end, "")
        pieces, offset = list[str](), start
        for token in _TOKEN.finditer(self._blank, start, end):
            pieces.append(self.text[offset : token.start()])
            offset = token.end()
        kept = _BLANK_LINES.sub("", "".join([*pieces, self.text[offset:end]])).lstrip(" \t")
        if _LINE_END.match(self._blank, end):
            kept = kept.rstrip()
        return Edit(start, end, kept)

    def find_separator(self, offset: int) -> str:
        """What stands before the element that begins there, if it is the first of its line; else one blank."""
        line_start = max(self.text.rfind(sign, 0, offset) for sign in "\r\n") + 1
        margin = self.text[line_start:offset]
        return self.newline + margin if line_start and not margin.strip() else " "


def put_in_front(settings: Settings, entry: Span, own_words: Sequence[str], program: str | None = None) -> list[Edit]:
    """Put acp-proxy in front of the agent of an entry. ``own_words``: the words that start acp-proxy, ``run`` the last.
    ``program``: the agent's; None: as it stands there.

    Raises ValueError if the entry's arguments are no list of texts.
    """
    members = settings.list_members(entry)
    command = members["command"].value
    if is_list(settings, command):
        span = settings.list_elements(command)[0].value
        front = "".join(f"{quote(word)},{settings.find_separator(span[0])}" for word in own_words)
        return [Edit(*span, front + _make_word(settings, span, program))]
    front_words = [*map(quote, own_words[1:]), _make_word(settings, command, program)]
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


def take_out(settings: Settings, entry: Span, count: int, *, had_args: bool, program: str | None = None) -> list[Edit]:
    """Take acp-proxy out of an entry: the reverse of ``put_in_front``.

    ``count``: how many of the arguments are acp-proxy's; the next one is the agent's program. ``had_args``: whether the
    entry had arguments before. ``program``: the agent's; None: as it stands there.
    """
    members = settings.list_members(entry)
    command = members["command"].value
    if is_list(settings, command):
        items = settings.list_elements(command)
        span = items[count + 1].value
        return [settings.cut(items[0].start, span[0]), Edit(*span, _make_word(settings, span, program))]
    args = members["args"]
    items = settings.list_elements(args.value)
    edits = [Edit(*command, _make_word(settings, items[count].value, program))]
    if len(items) > count + 1:
        return [*edits, settings.cut(items[0].start, items[count + 1].start)]
    if not had_args:
        return [*edits, *remove(settings, entry, "args")]
    comma = settings.find_comma(items[-1].value[1])
    inner_start, inner_end = args.value[0] + 1, args.value[1] - 1
    is_laid_out_anew = comma is not None or items[0].start > inner_start
    if is_laid_out_anew and not settings.has_comment(inner_start, inner_end):
        return [*edits, Edit(inner_start, inner_end, "")]
    comma_edits = [Edit(comma, comma + 1, "")] if comma is not None else []
    return [*edits, settings.cut(items[0].start, items[-1].value[1]), *comma_edits]


def name_command(settings: Settings, entry: Span, words: Sequence[str]) -> list[Edit]:
    """Give an entry of Zed's own registry a command: Zed starts its registry's agents itself, and takes no prefix.

    Source: CustomAgentServerSettings of zed-industries/zed, crates/settings_content.
    """
    kind = settings.list_members(entry)["type"]
    separator = settings.find_separator(kind.start)
    args = f"[{', '.join(map(quote, words[1:]))}]"
    new_members = f',{separator}"command": {quote(words[0])},{separator}"args": {args}'
    return [Edit(*kind.value, quote("custom")), Edit(kind.value[1], kind.value[1], new_members)]


def unname_command(settings: Settings, entry: Span) -> str:
    """The text after the reverse of ``name_command``."""
    for name in ("args", "command"):  # one after the other: a comma between them belongs to both
        settings = Settings(apply(settings.text, remove(settings, entry, name)))
    return apply(settings.text, [Edit(*settings.list_members(entry)["type"].value, quote("registry"))])


def replace_words(settings: Settings, entry: Span, count: int, own_words: Sequence[str]) -> list[Edit]:
    """Start acp-proxy with other words. ``count``: how many arguments stand in front of those that stay.
    ``own_words``: what comes in place of the program and of these."""
    members = settings.list_members(entry)
    command = members["command"].value
    if is_list(settings, command):
        items = settings.list_elements(command)
        return [_make_front(settings, items, count + 1, own_words)]
    items = settings.list_elements(members["args"].value)
    return [Edit(*command, quote(own_words[0])), _make_front(settings, items, count, own_words[1:])]


def _make_front(settings: Settings, items: Sequence[Element], count: int, words: Sequence[str]) -> Edit:
    """Words in place of the first ``count`` items, separated as those are."""
    start, end = items[0].start, items[count].start
    separator = f",{settings.find_separator(start)}"
    if len(items) > 1 and not settings.has_comment(between := items[0].value[1], items[1].start):
        separator = settings.text[between : items[1].start]
    return Edit(start, end, "".join(f"{quote(word)}{separator}" for word in words) + settings.cut(start, end).text)


def _make_word(settings: Settings, span: Span, word: str | None) -> str:
    """A word that is to stand in place of another one, which stays as it is written if it is the same."""
    return settings.text[slice(*span)] if word in (None, settings.read(span)) else quote(str(word))


def is_list(settings: Settings, command: Span) -> bool:
    """Whether a command contains its arguments."""
    return settings.text[command[0]] == "["


def remove(settings: Settings, span: Span, name: str) -> list[Edit]:
    """Remove a member of the object that stands there, and a comma beside it. Comments stay."""
    elements = settings.list_elements(span)
    index = max(index for index, element in enumerate(elements) if element.name == name)
    start, end = elements[index].start, elements[index].value[1]
    if index and not settings.has_comment(elements[index - 1].value[1], start):
        return [settings.cut(elements[index - 1].value[1], end)]
    if not index and not settings.text[span[0] + 1 : start].strip():
        start = span[0] + 1  # with the line break that ``add_entry`` wrote
    if (comma := settings.find_comma(end)) is not None:
        return [settings.cut(start, end), Edit(comma, comma + 1, "")]
    if index and (comma := settings.find_comma(elements[index - 1].value[1])) is not None:
        return [Edit(comma, comma + 1, ""), settings.cut(start, end)]
    outer = _find_outer(settings, span)
    return [settings.cut(start, end + (len(outer) if settings.text.startswith(outer, end) else 0))]


def add_entry(settings: Settings, members: Sequence[str], entry: str, whole_text: str) -> list[Edit]:
    """Add an agent. ``members``: they lead to the agents. ``entry``: ``"name": {…}``. ``whole_text``: the content of a
    file that has nothing else.

    Raises ValueError if the place for agents is no object.
    """
    if settings.is_empty:
        end = len(settings.text)
        is_in_line = settings.has_comment(0, end) and not settings.text.endswith("\n")  # a comment that ends the text
        beginning = settings.newline if is_in_line else ""
        return [Edit(end, end, beginning + whole_text.replace("\n", settings.newline) + settings.newline)]
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
    elements, outer = settings.list_elements(span), _find_outer(settings, span)
    separator = settings.find_separator(elements[0].start) if elements else " "
    if separator == " ":
        separator = outer + "  "
    step = separator.removeprefix(outer) or "  "
    body = re.sub(r"(?m)^(?:  )+", lambda match: step * (len(match[0]) // 2), lines).replace("\n", separator)
    return Edit(span[0] + 1, span[0] + 1, f"{separator}{body}{',' if elements else outer}")


def _find_outer(settings: Settings, span: Span) -> str:
    """A line break, and the margin of the line in which the object begins that stands there."""
    begin = max(settings.text.rfind(sign, 0, span[0]) for sign in "\r\n") + 1
    margin = re.compile(r"[ \t]*").match(settings.text, begin)
    return settings.newline + (margin[0] if margin is not None else "")


def quote(text: str) -> str:
    """A text as JSON."""
    return json.dumps(text, ensure_ascii=False)
