"""A conversation as Markdown for a pull request or an issue (GitHub's flavour), written turn by turn.

Messages stay Markdown, but cannot leave their place: their headings are below those of the turns, HTML becomes text,
and open fences are closed. The fences around code and diffs are longer than any fence inside.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from html import escape

from markdown_it import MarkdownIt
from markdown_it.token import Token

from acp_proxy.protocol import acp
from acp_proxy.tools.export.markdown_html import LIMIT
from acp_proxy.views import diffs, document, tool_calls
from acp_proxy.views.attachments import image_in
from acp_proxy.views.conversation import ConversationTurn, Item, Note, Plan, SpokenMessage, Subagent, ToolCall
from acp_proxy.views.document import Choices, Head
from acp_proxy.views.formatting import size
from acp_proxy.views.sanitize import clock_time, day, one_line, plain, shortened, uri_of
from acp_proxy.views.tool_calls import Diff, Raw

_MARKS = {tool_calls.COMPLETED: "✓", tool_calls.FAILED: "✗"}
_STEPS = {"completed": "[x]"}
_SPECIAL = re.compile(r"([\\`*_\[\]<>#|~&])")
_ESCAPED, _SPAN, _LINK = r"\\.", r"(?<!`)(`+)(?!`).*?(?<!`)\1(?!`)", r"<(?:https?://|mailto:)[^\s<>]*>"
_TAG = re.compile(rf"{_ESCAPED}|{_SPAN}|{_LINK}|(<)(?=[A-Za-z/!?])|(?<![~/])(~)(?=[\\/])", re.DOTALL)
"""Where HTML begins, or a path that could strike words out. What precedes it in the pattern only looks like it."""
_CELL_ENDS = re.compile(r"(?<!\\)(\|)")
_BACKTICKS = re.compile(r"`{3,}")
_LANGUAGE = re.compile(r"[\w+#.-]{1,40}", re.ASCII)
_HEADING = re.compile(r"^ {0,3}(#{1,6})(?=\s|$)")
_PASSES = 10  # only hostile text needs more
_TOP_LEVEL = 2  # of headings: those of the turns


def document_of(head: Head, turns: Iterable[ConversationTurn], choices: Choices) -> Iterator[str]:
    yield f"# {_escaped(head.heading)}\n\n"
    version = one_line(acp.text(head.agent, "version") or "")[:40]
    facts = [_escaped(f"{head.name} {version}".strip())]
    if day(head.created):
        facts.append(f"{day(head.created)} {clock_time(head.created)} UTC")
    if head.cwd:
        facts.append(_code(one_line(head.cwd)))
    yield " · ".join(facts) + "\n"
    for turn in document.named(turns):
        yield from _turn(turn, head, choices)


def _turn(turn: ConversationTurn, head: Head, choices: Choices) -> Iterator[str]:
    about = document.first_line(turn)
    yield f"\n## {turn.number}. {_escaped(about)}\n"
    was_line = False
    for item in turn.items:
        told, is_line = _item(item, about, head, choices), isinstance(item, ToolCall) and choices.tools != "full"
        if told:
            yield told if is_line and was_line else f"\n{told}"
            was_line = is_line
    if (ending := document.ending(turn)) is not None:
        yield f"\n> **{_escaped(ending)}**\n"


def _item(item: Item, about: str, head: Head, choices: Choices) -> str:
    if isinstance(item, SpokenMessage):
        words = _blocks(item.blocks)
        if words.strip() == about:
            return ""
        if item.speaker == "agent":
            return words
        return _quoted(f"*Thought:*\n\n{words}" if item.speaker == "thought" else words)
    if isinstance(item, ToolCall):
        return _call(item, head, choices)
    if isinstance(item, Plan):
        steps = ((acp.text(entry, "status") or "", acp.text(entry, "content") or "") for entry in item.entries)
        return "".join(f"- {_STEPS.get(status, '[ ]')} {_escaped(one_line(words))}\n" for status, words in steps)
    if isinstance(item, Subagent):
        told = "\n".join(filter(None, (_item(each, "", head, choices) for each in item.items)))
        return f"<details><summary>Subagent: {_html(item.title)}</summary>\n\n{told}\n</details>\n"
    return f"> **{_escaped(document.note(item))}**\n" if isinstance(item, Note) else ""


def _call(call: ToolCall, head: Head, choices: Choices) -> str:
    status, parts = tool_calls.status(call), tool_calls.parts(call)
    changes = [part for part in parts if isinstance(part, Diff)]
    title = (
        one_line(tool_calls.title(call)).replace(f"{head.cwd}/", "") if head.cwd else one_line(tool_calls.title(call))
    )
    kind = tool_calls.kind(call)
    words = [_MARKS.get(status or "", "…"), *([kind] if kind and not title.lower().startswith(kind) else [])]
    counted = [f"+{added} -{removed}" for added, removed in (diffs.counts(change.rows) for change in changes)]
    if choices.tools != "full" or not parts:
        return f"* {' '.join([*words, _code(title), *counted])}\n"
    summary = " ".join([*words, f"<code>{_html(title)}</code>", *counted])
    body = "\n".join(_part(part, head) for part in parts)
    return f"<details><summary>{summary}</summary>\n\n{body}\n</details>\n"


def _part(part: tool_calls.Part, head: Head) -> str:
    if isinstance(part, Diff):
        new = " (new)" if part.is_new else ""
        rows = "\n".join(row.text if row.kind == "@" else row.kind + row.text for row in part.rows)
        return f"{_code(shortened(part.path, head.cwd))}{new}\n\n{_fenced(rows, 'diff')}"
    if isinstance(part, Raw):
        return _fenced(part.text, part.language)
    return _blocks([part.block])


def _blocks(blocks: Iterable[Mapping[str, object]]) -> str:
    found = document.texts_and_others(blocks)
    return "\n".join(_contained(each) if isinstance(each, str) else _block(each) for each in found)


def _block(block: Mapping[str, object]) -> str:
    """Attachments appear by name: pull requests show no embedded images."""
    kind, resource = acp.text(block, "type") or "content", acp.member(block, "resource")
    address = one_line(uri_of(block))
    name = one_line(acp.text(block, "title") or acp.text(block, "name") or address)
    if kind == "resource" and (text := acp.text(resource, "text")) is not None:
        return f"<details><summary><code>{_html(name)}</code></summary>\n\n{_fenced(plain(text), '')}\n</details>\n"
    if kind == "resource_link":
        return f"{_code(name or 'link')}\n"
    image = image_in(block)
    data = acp.text(block, "data") or acp.text(resource, "blob") or ""
    form = f"image/{image.kind}" if image is not None else one_line(acp.text(block, "mimeType") or "")
    told = ", ".join(filter(None, (name, form, size(image.size if image is not None else len(data) * 3 // 4))))
    return f"*[{_escaped(one_line(kind))}: {_escaped(told)}]*\n"


def _contained(text: str) -> str:
    """A message's Markdown, closed at its end."""
    text = text.rstrip().lstrip("\n")
    if len(text) > LIMIT:
        return _fenced(text, "")
    lines = text.split("\n")
    for _ in range(_PASSES):
        tokens = _parser().parse("\n".join(lines))
        without = _without_blocks_of_html(lines, tokens)
        if without == lines:
            return "\n".join(_lines_in_place(lines, tokens)) + "\n"
        lines = without
    return _fenced(text, "")


def _without_blocks_of_html(lines: list[str], tokens: list[Token]) -> list[str]:
    """Escaped HTML may become other markup, so it is read once more. Tabs are shorter in quotes."""
    out = [line.expandtabs(4) for line in lines]
    for token in tokens:
        start, end = token.map or (0, 0)
        if token.type == "fence":
            out[start:end] = lines[start:end]
        elif token.type == "html_block":
            out[start:end] = _without_tags("\n".join(out[start:end])).split("\n")
    return out


def _lines_in_place(lines: list[str], tokens: list[Token]) -> list[str]:
    out = list(lines)
    for token in tokens:
        start, end = token.map or (0, 0)
        if token.type == "fence" and token.level == 0 and not _is_closed(lines[start:end], token):
            out.append(token.markup)
        elif token.type == "heading_open" and token.level == 0:
            out[start:end] = _lowered(lines[start:end], token)
        elif token.type == "tr_open":
            out[start] = "".join(_without_tags(cell) for cell in _CELL_ENDS.split(out[start]))
        elif token.type == "inline":
            out[start:end] = _without_tags("\n".join(out[start:end])).split("\n")
    return out


@cache
def _parser() -> MarkdownIt:
    return MarkdownIt("commonmark").enable("table")


def _is_closed(lines: list[str], fence: Token) -> bool:
    last = re.sub("^ {1,3}", "", lines[-1]).rstrip()
    return len(lines) > 1 and set(last) == {fence.markup[0]} and len(last) >= len(fence.markup)


def _lowered(lines: list[str], heading: Token) -> list[str]:
    """A heading below those of the turns, on as many lines."""
    if heading.markup in ("=", "-"):
        return [f"{'#' * (_TOP_LEVEL + int(heading.tag[1:]))} {' '.join(lines[:-1])}", *[""] * (len(lines) - 1)]
    level = min(_TOP_LEVEL + int(heading.tag[1:]), 6)
    return [_HEADING.sub("#" * level, lines[0]), *lines[1:]]


def _without_tags(text: str) -> str:
    return _TAG.sub(lambda found: "&lt;" if found[2] else "\\~" if found[3] else found[0], text)


def _quoted(text: str) -> str:
    return "".join(f"> {line}".rstrip() + "\n" for line in text.rstrip("\n").split("\n"))


def _fenced(text: str, language: str) -> str:
    longest = max((len(run) for run in _BACKTICKS.findall(text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language if _LANGUAGE.fullmatch(language) else ''}\n{text.rstrip(chr(10))}\n{fence}\n"


def _code(text: str) -> str:
    """One line as code, whatever it contains."""
    fence = "`" * (max(map(len, re.findall("`+", text)), default=0) + 1)
    space = " " if text.startswith("`") or text.endswith("`") or not text else ""
    return f"{fence}{space}{text}{space}{fence}"


def _escaped(text: str) -> str:
    """One line without markup."""
    return _SPECIAL.sub(r"\\\1", text)


def _html(text: str) -> str:
    return escape(one_line(text), quote=False)
