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
from acp_proxy.tools.changes.describe import ChangedFile
from acp_proxy.tools.export.markdown_html import LIMIT
from acp_proxy.views import diffs, document, tool_calls
from acp_proxy.views.attachments import find_image
from acp_proxy.views.conversation import (
    ConversationTurn,
    Item,
    Note,
    Plan,
    SpokenMessage,
    Subagent,
    ToolCall,
    read_words,
)
from acp_proxy.views.document import Choices, Head
from acp_proxy.views.formatting import format_minute, format_size
from acp_proxy.views.sanitize import clean_text, find_uri, join_lines, shorten_path, shorten_paths
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


def write_document(
    head: Head, turns: Iterable[ConversationTurn], choices: Choices, files: Iterable[ChangedFile] = ()
) -> Iterator[str]:
    """The document, piece by piece. ``files``: what the session changed, shown at the end."""
    yield f"# {_escape(head.heading)}\n\n"
    version = join_lines(acp.text(head.agent, "version") or "")[:40]
    facts = [_escape(f"{head.name} {version}".strip())]
    if head.copied_from:
        facts.append(_escape(f"copy from {head.copied_from}"))
    if begun := format_minute(head.created):
        facts.append(begun)
    if head.cwd:
        facts.append(_write_code(join_lines(head.cwd)))
    yield " · ".join(facts) + "\n"
    for turn in document.name_calls(turns):
        yield from _write_turn(turn, head, choices)
    for number, file in enumerate(files):
        heading = "" if number else "\n## Changed files\n"
        yield f"{heading}\n{_write_file(file)}"


def _write_file(file: ChangedFile) -> str:
    name = f"<code>{_write_html(file.path)}</code>"
    if file.trouble:
        return f"* {name} {file.change}: {_escape(file.trouble)}\n"
    rows = "\n".join(row.text if row.kind == "@" else row.kind + row.text for row in file.rows)
    summary = f"{name} {file.change}, +{file.added} -{file.removed}"
    return f"<details><summary>{summary}</summary>\n\n{_fence(rows, 'diff')}\n</details>\n"


def _write_turn(turn: ConversationTurn, head: Head, choices: Choices) -> Iterator[str]:
    topic = document.find_topic(turn)
    yield f"\n## {turn.number}. {_escape(topic)}\n"
    was_one_line = False
    for item in turn.items:
        text = _write_item(item, topic, head, choices)
        is_one_line = isinstance(item, ToolCall) and choices.tools != "full"
        if text:
            yield text if is_one_line and was_one_line else f"\n{text}"
            was_one_line = is_one_line
    if (ending := document.explain_end(turn)) is not None:
        yield f"\n> **{_escape(ending)}**\n"


def _write_item(item: Item, topic: str, head: Head, choices: Choices) -> str:
    if isinstance(item, SpokenMessage):
        words = _write_blocks(item.blocks)
        if not words.strip() or (item.speaker == "user" and _is_topic(item, topic)):
            return ""
        if item.speaker == "agent":
            return words
        return _quote(f"*Thought:*\n\n{words}" if item.speaker == "thought" else words)
    if isinstance(item, ToolCall):
        return _write_call(item, head, choices)
    if isinstance(item, Plan):
        steps = ((acp.text(entry, "status") or "", acp.text(entry, "content") or "") for entry in item.entries)
        return "".join(f"- {_STEPS.get(status, '[ ]')} {_escape(join_lines(words))}\n" for status, words in steps)
    if isinstance(item, Subagent):
        inner = "\n".join(filter(None, (_write_item(part, "", head, choices) for part in item.items)))
        return f"<details><summary>Subagent: {_write_html(item.title)}</summary>\n\n{inner}\n</details>\n"
    return f"> **{_escape(document.explain_note(item))}**\n" if isinstance(item, Note) else ""


def _is_topic(item: SpokenMessage, topic: str) -> bool:
    """Whether a prompt is no more than the heading of its turn. That has no marks of Markdown, which the user may have
    meant as they are."""
    return "".join(map(read_words, item.blocks)).strip() == topic


def _write_call(call: ToolCall, head: Head, choices: Choices) -> str:
    status, parts = tool_calls.read_status(call), tool_calls.list_parts(call)
    changes = [part for part in parts if isinstance(part, Diff)]
    title = shorten_paths(join_lines(tool_calls.read_title(call)), head.cwd)
    kind = tool_calls.read_kind(call)
    words = [_MARKS.get(status or "", "…"), *([kind] if kind and not title.lower().startswith(kind) else [])]
    counts = [f"+{added} -{removed}" for added, removed in (diffs.count_rows(change.rows) for change in changes)]
    if choices.tools != "full" or not parts:
        return f"* {' '.join([*words, _write_code(title), *counts])}\n"
    summary = " ".join([*words, f"<code>{_write_html(title)}</code>", *counts])
    body = "\n".join(_write_call_part(part, head) for part in parts)
    return f"<details><summary>{summary}</summary>\n\n{body}\n</details>\n"


def _write_call_part(part: tool_calls.Part, head: Head) -> str:
    if isinstance(part, Diff):
        new_mark = " (new)" if part.is_new else ""
        rows = "\n".join(row.text if row.kind == "@" else row.kind + row.text for row in part.rows)
        return f"{_write_code(shorten_path(part.path, head.cwd))}{new_mark}\n\n{_fence(rows, 'diff')}"
    if isinstance(part, Raw):
        return _fence(part.text, part.language)
    return _write_blocks([part.block])


def _write_blocks(blocks: Iterable[Mapping[str, object]]) -> str:
    parts = document.join_texts(blocks)
    return "\n".join(_contain(part) if isinstance(part, str) else _write_block(part) for part in parts)


def _write_block(block: Mapping[str, object]) -> str:
    """Attachments appear by name: pull requests show no embedded images."""
    kind, resource = acp.text(block, "type") or "content", acp.member(block, "resource")
    address = join_lines(find_uri(block))
    name = join_lines(acp.text(block, "title") or acp.text(block, "name") or address)
    if kind == "resource" and (text := acp.text(resource, "text")) is not None:
        summary = f"<summary><code>{_write_html(name)}</code></summary>"
        return f"<details>{summary}\n\n{_fence(clean_text(text), '')}\n</details>\n"
    if kind == "resource_link":
        return f"{_write_code(name or 'link')}\n"
    image = find_image(block)
    data = acp.text(block, "data") or acp.text(resource, "blob") or ""
    form = f"image/{image.kind}" if image is not None else join_lines(acp.text(block, "mimeType") or "")
    details = ", ".join(
        filter(None, (name, form, format_size(image.size if image is not None else len(data) * 3 // 4)))
    )
    return f"*[{_escape(join_lines(kind))}: {_escape(details)}]*\n"


def _contain(text: str) -> str:
    """A message's Markdown, changed so that it cannot leave its place."""
    text = text.rstrip().lstrip("\n")
    if len(text) > LIMIT:
        return _fence(text, "")
    lines = text.split("\n")
    for _ in range(_PASSES):
        tokens = _make_parser().parse("\n".join(lines))
        lines_without_html = _remove_html_blocks(lines, tokens)
        if lines_without_html == lines:
            return "\n".join(_rewrite_lines(lines, tokens)) + "\n"
        lines = lines_without_html
    return _fence(text, "")


def _remove_html_blocks(lines: list[str], tokens: list[Token]) -> list[str]:
    """The lines with HTML as text. They must be parsed once more, since escaped HTML may become other markup. Tabs are
    shorter in quotes."""
    escaped_lines = [line.expandtabs(4) for line in lines]
    for token in tokens:
        start, end = token.map or (0, 0)
        if token.type == "fence":
            escaped_lines[start:end] = lines[start:end]
        elif token.type == "html_block":
            escaped_lines[start:end] = _remove_tags("\n".join(escaped_lines[start:end])).split("\n")
    return escaped_lines


def _rewrite_lines(lines: list[str], tokens: list[Token]) -> list[str]:
    rewritten = list(lines)
    for token in tokens:
        start, end = token.map or (0, 0)
        if token.type == "fence" and token.level == 0 and not _is_closed(lines[start:end], token):
            rewritten.append(token.markup)
        elif token.type == "heading_open" and token.level == 0:
            rewritten[start:end] = _lower_heading(lines[start:end], token)
        elif token.type == "tr_open":
            rewritten[start] = "".join(_remove_tags(cell) for cell in _CELL_ENDS.split(rewritten[start]))
        elif token.type == "inline":
            rewritten[start:end] = _remove_tags("\n".join(rewritten[start:end])).split("\n")
    return rewritten


@cache
def _make_parser() -> MarkdownIt:
    return MarkdownIt("commonmark").enable("table")


def _is_closed(lines: list[str], fence: Token) -> bool:
    last_line = re.sub("^ {1,3}", "", lines[-1]).rstrip()
    return len(lines) > 1 and set(last_line) == {fence.markup[0]} and len(last_line) >= len(fence.markup)


def _lower_heading(lines: list[str], heading: Token) -> list[str]:
    """A heading below those of the turns, on as many lines."""
    if heading.markup in ("=", "-"):
        return [f"{'#' * (_TOP_LEVEL + int(heading.tag[1:]))} {' '.join(lines[:-1])}", *[""] * (len(lines) - 1)]
    level = min(_TOP_LEVEL + int(heading.tag[1:]), 6)
    return [_HEADING.sub("#" * level, lines[0]), *lines[1:]]


def _remove_tags(text: str) -> str:
    return _TAG.sub(lambda match: "&lt;" if match[2] else "\\~" if match[3] else match[0], text)


def _quote(text: str) -> str:
    return "".join(f"> {line}".rstrip() + "\n" for line in text.rstrip("\n").split("\n"))


def _fence(text: str, language: str) -> str:
    longest = max((len(run) for run in _BACKTICKS.findall(text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language if _LANGUAGE.fullmatch(language) else ''}\n{text.rstrip(chr(10))}\n{fence}\n"


def _write_code(text: str) -> str:
    """One line as code, whatever it contains."""
    fence = "`" * (max(map(len, re.findall("`+", text)), default=0) + 1)
    space = " " if text.startswith("`") or text.endswith("`") or not text else ""
    return f"{fence}{space}{text}{space}{fence}"


def _escape(text: str) -> str:
    """One line without markup."""
    return _SPECIAL.sub(r"\\\1", text)


def _write_html(text: str) -> str:
    return escape(join_lines(text), quote=False)
