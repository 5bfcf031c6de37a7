"""A conversation as a single HTML page: no external resources, for any screen, light or dark.

All text of the transcript is escaped. In addition the page's policy forbids other scripts than the one that copies
code, other styles, frames, forms, connections, and images that are not part of the page. It is written turn by turn.
"""

import base64
import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from html import escape
from pathlib import Path

from acp_proxy import __version__
from acp_proxy.protocol import acp
from acp_proxy.tools.changes.describe import ChangedFile
from acp_proxy.tools.export.highlighting import highlight, highlight_file
from acp_proxy.tools.export.markdown_html import render_line, render_link, render_markdown, render_verbatim
from acp_proxy.views import diffs, document, tool_calls
from acp_proxy.views.attachments import find_image
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
from acp_proxy.views.document import Choices, Head
from acp_proxy.views.formatting import (
    format_amounts,
    format_clock_time,
    format_count,
    format_day,
    format_duration,
    format_minute,
    format_number,
    format_size,
    strip_markdown,
)
from acp_proxy.views.sanitize import clean_text, find_uri, format_json, join_lines, shorten_paths
from acp_proxy.views.tool_calls import Diff, Raw

_OPEN_ROWS = 30
"""Rows of a diff that are visible at first: readers look at changes first, but not at pages of them."""
_MARKS = {tool_calls.COMPLETED: "✓", tool_calls.FAILED: "✗", None: "·"}
_STEPS = {"completed": "✓", "in_progress": "▸"}
_KINDS_WITH_WORDS = tool_calls.KINDS - {"execute"}
_CODE = re.compile("`[^`]+`")
_POLICY = "default-src 'none'; img-src data:; style-src {styles}; base-uri 'none'; form-action 'none'"


def render_page(
    head: Head,
    topics: list[tuple[int, str]],
    turns: Iterable[ConversationTurn],
    choices: Choices,
    files: Iterable[ChangedFile] = (),
) -> Iterator[str]:
    """The page of a conversation, piece by piece. ``topics``: the numbers and the topics of the turns. ``files``: what
    the session changed, shown at the end."""
    yield render_beginning(head.heading, make_policy(scripts=[read_script()]), has_contents=len(topics) > 1)
    yield render_head(head, len(topics))
    if len(topics) > 1:
        yield from _render_contents(topics)
    yield "<main>\n"
    renderer = TurnRenderer(head, choices)
    for turn in document.name_calls(turns):
        yield from renderer.render(turn)
    yield from render_files(files)
    yield f'</main>\n<footer class="foot">Exported from its transcript by acp-proxy {__version__}.</footer>\n'
    yield f"</div>\n<script>{read_script()}</script>\n</body>\n</html>\n"


@cache
def read_style() -> str:
    return Path(__file__).with_name("html.css").read_text(encoding="utf-8")


@cache
def read_script() -> str:
    """The script that copies a block of code."""
    return Path(__file__).with_name("copy.js").read_text(encoding="utf-8")


def make_policy(styles: Sequence[str] = (), scripts: Sequence[str] = ()) -> str:
    """The policy of a page with these styles and scripts inside, and no others. ``styles``: empty: ``read_style``."""
    policy = _POLICY.format(styles=" ".join(map(_hash, styles or [read_style()])))
    return f"{policy}; script-src {' '.join(map(_hash, scripts))}" if scripts else policy


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def render_beginning(title: str, policy: str, *, has_contents: bool, extra_head: str = "") -> str:
    """A page up to the first element of its frame. ``extra_head``: HTML at the end of its head."""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta http-equiv="x-dns-prefetch-control" content="off">\n'
        '<meta name="referrer" content="no-referrer">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f'<title>{escape(title)}</title>\n<link rel="icon" href="data:,">\n'
        f"<style>{read_style()}</style>\n{extra_head}</head>\n<body>\n"
        f'<div class="frame{" two" if has_contents else ""}">\n'
    )


def render_head(head: Head, count: int, *, is_shared: bool = True) -> str:
    """The head of a page: title and facts. ``count``: the number of turns. ``is_shared``: others read it, perhaps in
    another time zone."""
    started_at = format_minute(head.created)
    version = join_lines(acp.text(head.agent, "version") or "")[:40]
    facts = {
        "Agent": f"{head.name} {version}".strip(),
        "Original": f"copy from {head.copied_from}" if head.copied_from else "",
        "Directory": join_lines(head.cwd or ""),
        "Begun": started_at if is_shared else started_at.partition(" UTC")[0],
        "Turns": format_count(count, "turn"),
        "Model": ", ".join(map(join_lines, head.models)),
        "Tokens": f"{format_number(head.tokens)} tokens" if head.tokens is not None else "",
        "Cost": format_amounts(head.cost),
    }
    rows = "".join(
        f'<div><dt class="hidden">{name}:</dt><dd dir="auto">{escape(fact)}</dd></div>'
        for name, fact in facts.items()
        if fact
    )
    heading = f'<h1 dir="auto">{escape(head.heading)}</h1>'
    return f'<header class="head">\n{heading}\n<dl class="facts">{rows}</dl>\n</header>\n'


def render_facts(facts: Iterable[str]) -> str:
    """Facts on one line, or more where the screen is narrow. ``facts``: HTML; what is empty is left out."""
    spans = " ".join(f"<span>{fact}</span>" for fact in facts if fact)
    return f'<p class="facts">{spans}</p>\n' if spans else ""


def _render_contents(topics: list[tuple[int, str]]) -> Iterator[str]:
    yield '<nav class="contents" aria-label="Contents">\n<details open><summary>Contents</summary>\n<ol>\n'
    for number, line in topics:
        yield f'<li><a href="#turn-{number}"><span>{number}</span><bdi>{escape(line)}</bdi></a></li>\n'
    yield "</ol>\n</details>\n</nav>\n"


class TurnRenderer:
    """Renders the turns of one conversation."""

    def __init__(self, head: Head, choices: Choices) -> None:
        self._cwd = head.cwd
        self._head = head
        self._agent = ""
        self._choices = choices
        self._day = format_day(head.created)
        self._tells_models = len(head.models) > 1
        self._has_named = False
        """Whether the agent is named in the turn already."""

    def render(self, turn: ConversationTurn, continuation: int = 0) -> Iterator[str]:
        """A turn as HTML. ``continuation``: how many pieces of this turn were rendered before."""
        id, name = f"turn-{turn.number}", f"Turn {turn.number}"
        self._has_named = continuation > 0
        self._agent = escape(self._head.name_speaker(turn.started_at))
        if continuation:
            id, name = f"{id}-{continuation}", f"{name}, continued"
        yield f'<section class="turn" id="{id}" aria-labelledby="{id}-head">\n<h2 id="{id}-head">'
        yield f'<a href="#{id}">{name}</a>{self._render_facts(turn)}</h2>\n'
        for item in turn.items:
            yield self._render_item(item)
        ending = document.explain_end(turn)
        yield f"{_render_notice(ending) if ending else ''}</section>\n"

    def _render_facts(self, turn: ConversationTurn) -> str:
        """The turn's model, how long it took, and when it began."""
        model = join_lines(turn.model) if turn.model and self._tells_models else ""
        facts = [escape(model), format_duration(turn.started_at, turn.ended_at), self._render_time(turn.started_at)]
        text = " · ".join(filter(None, facts))
        return f" <span>{text}</span>" if text else ""

    def _render_time(self, stamp: str) -> str:
        day, time = format_day(stamp), format_clock_time(stamp)
        if not day:
            return ""
        if day != self._day:
            self._day, time = day, f"{day} {time}"
        return f'<time datetime="{escape(stamp)}">{time}</time>'

    def _render_item(self, item: Item) -> str:
        if isinstance(item, SpokenMessage):
            return self._render_message(item)
        if isinstance(item, ToolCall):
            return self._render_call(item)
        if isinstance(item, Plan):
            return _render_plan(item)
        if isinstance(item, Subagent):
            return _fold(f"Subagent: {join_lines(item.title)}", "".join(map(self._render_item, item.items)))
        return _render_notice(document.explain_note(item)) if isinstance(item, Note) else _render_other(item)

    def _render_message(self, item: SpokenMessage) -> str:
        words = _render_blocks(item.blocks, render_verbatim if item.speaker == "user" else render_markdown)
        if item.speaker == "thought":
            return f'<details class="thought"><summary>Thought</summary><div class="said">{words}</div></details>\n'
        speaker = "User" if item.speaker == "user" else self._agent
        # The colour tells the user's messages. The agent's name stands once above those of a turn.
        name = "hidden" if item.speaker == "user" or self._has_named else "who"
        self._has_named |= name == "who"
        return f'<div class="said {item.speaker}"><div class="{name}">{speaker}:</div>\n{words}</div>\n'

    def _render_call(self, call: ToolCall) -> str:
        status = tool_calls.read_status(call)
        parts = tool_calls.list_parts(call)
        changes = [part for part in parts if isinstance(part, Diff)]
        line = self._render_call_line(call, changes)
        body = (
            "".join(self._render_call_part(part, tool_calls.read_title(call)) for part in parts)
            if self._choices.tools == "full"
            else ""
        )
        if not body:
            return f'<div class="call {status or ""}"><div class="line">{line}</div></div>\n'
        is_short = bool(changes) and sum(len(change.rows) for change in changes) <= _OPEN_ROWS
        is_open = is_short or status == tool_calls.FAILED
        return (
            f'<details class="call {status or ""}"{" open" if is_open else ""}><summary class="line">{line}</summary>'
            f'\n<div class="body">{body}</div></details>\n'
        )

    def _render_call_line(self, call: ToolCall, changes: list[Diff]) -> str:
        """A call in one line: its status, title, location, and size of the change."""
        status = tool_calls.read_status(call)
        kind = tool_calls.read_kind(call)
        title = self._shorten(_render_title(call))
        paths = [
            path for path in map(self._shorten, tool_calls.list_paths(call)[:3]) if path.split(":")[0] not in title
        ]
        line = _render_mark(_MARKS.get(status, "…"), (status or "unknown").replace("_", " "), "mark")
        if kind is not None and not title.lower().startswith(kind.replace("_", " ")):
            line += f'<span class="kind">{kind.replace("_", " ")}</span> '
        line += f'<span class="what" dir="auto">{escape(" ".join([title, *paths]))}</span>'
        return f"{line} {_count_rows(changes)}" if changes else line

    def _render_call_part(self, part: tool_calls.Part, title: str) -> str:
        if isinstance(part, Diff):
            path = self._shorten(part.path)
            label = "" if path in title else f'<p class="label">{escape(path)}{" (new)" if part.is_new else ""}</p>\n'
            return label + _render_diff(part)
        if isinstance(part, Raw):
            label = f'<p class="label">{part.name}</p>\n' if part.name == "input" else ""
            return label + highlight(part.text, part.language)
        return _render_blocks([part.block])

    def _shorten(self, text: str) -> str:
        """A text with paths relative to the session's directory."""
        return shorten_paths(join_lines(text), self._cwd)


def _render_title(call: ToolCall) -> str:
    """A call's title in words. A command keeps the marks of the shell."""
    title = tool_calls.read_title(call)
    is_words = tool_calls.read_kind(call) in _KINDS_WITH_WORDS or _CODE.fullmatch(title) is not None
    return strip_markdown(title) if is_words else title


def _render_blocks(blocks: Iterable[Mapping[str, object]], render_text: Callable[[str], str] = render_markdown) -> str:
    return "".join(
        render_text(part) if isinstance(part, str) else _render_block(part) for part in document.join_texts(blocks)
    )


def _render_block(block: Mapping[str, object]) -> str:
    """A block that is not text: an image, a resource, or a placeholder."""
    kind, address = acp.text(block, "type"), join_lines(find_uri(block))
    resource = acp.member(block, "resource")
    name = join_lines(acp.text(block, "title") or acp.text(block, "name") or address)
    if (image := find_image(block)) is not None:
        alt = escape(name or f"image, {format_size(image.size)}")
        return f'<img src="data:image/{image.kind};base64,{image.data}" alt="{alt}">\n'
    if kind == "resource" and (text := acp.text(resource, "text")) is not None:
        words = highlight_file(clean_text(text), address)
        return _fold(name, words)
    if kind == "resource_link":
        return f'<p class="thing" dir="auto">{render_link(address, name or "link")}</p>\n'
    data = acp.text(block, "data") or acp.text(resource, "blob") or ""
    details = ", ".join(
        filter(None, (name, join_lines(acp.text(block, "mimeType") or ""), format_size(len(data) * 3 // 4)))
    )
    return f'<p class="thing" dir="auto">[{escape(join_lines(kind or "content"))}: {escape(details)}]</p>\n'


def render_files(files: Iterable[ChangedFile]) -> Iterator[str]:
    rendered = [_render_file(file) for file in files]
    if rendered:
        yield '<section class="turn" id="files" aria-labelledby="files-head">\n<h2 id="files-head">'
        yield '<a href="#files">Changed files</a></h2>\n'
        yield from rendered
        yield "</section>\n"


def _render_file(file: ChangedFile) -> str:
    name = f"{join_lines(file.path)} {file.change}"
    if file.trouble:
        return _render_notice(f"{name}: {file.trouble}")
    diff = Diff(file.path, file.change == "added", file.rows)
    line = f'<span class="what" dir="auto">{escape(name)}</span> {_count_rows([diff])}'
    body = _render_diff(diff)
    return f'<details class="call"><summary class="line">{line}</summary>\n<div class="body">{body}</div></details>\n'


def _render_diff(change: Diff) -> str:
    classes = {"+": "plus", "-": "minus", "@": "hunk", " ": ""}
    rows = "".join(
        f'<span class="{classes[row.kind]}">{"" if row.kind == "@" else row.kind}{escape(row.text)}\n</span>'
        for row in change.rows
    )
    return f'<pre class="diff" tabindex="0"><code>{rows or "<span>no change</span>"}</code></pre>\n'


def _render_plan(plan: Plan) -> str:
    steps = ""
    for entry in plan.entries:
        status = acp.text(entry, "status") or "pending"
        step_status = status if status in ("completed", "in_progress") else "pending"
        steps += (
            f'<li class="{step_status}">'
            f"{_render_mark(_STEPS.get(step_status, '○'), step_status.replace('_', ' '), 'mark')}"
            f'<span dir="auto">{render_line(join_lines(acp.text(entry, "content") or ""))}</span></li>'
        )
    return f'<div class="plan"><p>Plan</p><ul>{steps}</ul></div>\n'


def _render_notice(words: str) -> str:
    return f'<p class="notice" dir="auto">{escape(words)}</p>\n'


def _render_other(item: OtherUpdate) -> str:
    kind = join_lines(acp.update_kind(item.update) or "update")
    return _fold(kind, highlight(format_json(dict(item.update), indent=2), "json"))


def _fold(name: str, body: str) -> str:
    """An element that opens to show ``body``, which is HTML. ``name``: its line."""
    line = f'<span class="what" dir="auto">{escape(name)}</span>'
    return f'<details class="call"><summary class="line">{line}</summary>\n<div class="body">{body}</div></details>\n'


def _render_mark(sign: str, words: str, name: str) -> str:
    """A sign, with words for screen readers."""
    return f'<span class="{name}" aria-hidden="true">{sign}</span><span class="hidden">{words}: </span>'


def _count_rows(changes: list[Diff]) -> str:
    """The number of added and of removed lines."""
    counts = [diffs.count_rows(change.rows) for change in changes]
    added, removed = sum(plus for plus, _ in counts), sum(minus for _, minus in counts)
    minus = "\N{MINUS SIGN}"
    return f'<span class="count"><span class="plus">+{added}</span> <span class="minus">{minus}{removed}</span></span>'
