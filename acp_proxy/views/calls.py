"""What a tool call says, read with care out of the agent's own fields: whatever they are, nothing here raises."""

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from acp_proxy.conversation import Call
from acp_proxy.views import diffs
from acp_proxy.views.diffs import Row
from acp_proxy.views.plain import one_line, plain
from acp_proxy.wire import acp

KINDS = frozenset({"read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode"})
"""The protocol's, but for ``other``, which says nothing."""
COMPLETED, FAILED = "completed", "failed"
_STATUSES = frozenset({"pending", "in_progress", COMPLETED, FAILED})
_TITLE_LENGTH = 300
_OUTPUTS = ("formatted_output", "aggregated_output", "output", "stdout")
"""Where agents put what a program printed, as people read it."""


@dataclass(frozen=True, slots=True)
class Change:
    """A diff: the rows of its hunks."""

    path: str
    is_new: bool
    rows: list[Row]


@dataclass(frozen=True, slots=True)
class Block:
    """A content block of the protocol. A text is Markdown, as far as anybody can tell: it has code in fences."""

    block: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Raw:
    """What a program was given, or gave back, letter by letter. ``name``: input, output."""

    name: str
    text: str
    language: str


Part = Change | Block | Raw

_FENCE = re.compile(r"^ {0,3}(```|~~~)", re.MULTILINE)


def title(call: Call) -> str:
    text = one_line(acp.text(call.fields, "title") or acp.text(call.fields, "name") or call.id or "tool call")
    return text if len(text) <= _TITLE_LENGTH else text[: _TITLE_LENGTH - 1] + "…"


def kind(call: Call) -> str | None:
    found = acp.text(call.fields, "kind")
    return found if found in KINDS else None


def status(call: Call) -> str | None:
    found = acp.text(call.fields, "status")
    return found if found in _STATUSES else None


def paths(call: Call) -> list[str]:
    """Where it was at work, each place once: with the line, if there is one."""
    found = call.fields.get("locations")
    places = []
    for item in found if isinstance(found, list) else []:
        path, line = acp.text(item, "path"), acp.member(item, "line")
        if path:
            places.append(f"{path}:{line}" if type(line) is int and line > 0 else path)
    return list(dict.fromkeys(places))


def parts(call: Call) -> list[Part]:
    """What it carries: input first; output of its own form only where there is no content to read."""
    content = list(_content(call.fields.get("content")))
    before, behind = call.fields.get("rawInput"), call.fields.get("rawOutput")
    given = [] if before in (None, {}, [], "") or _command(before) == title(call) else [_raw("input", before)]
    gave = [] if content or behind in (None, {}, [], "") else [_raw("output", behind)]
    return [*given, *content, *gave]


def _content(items: object) -> Iterator[Part]:
    for item in items if isinstance(items, list) else []:
        block = acp.member(item, "content")
        if acp.text(item, "type") == "diff":
            new, old = acp.text(item, "newText") or "", acp.text(item, "oldText")
            rows = [Row(row.kind, plain(row.text)) for row in diffs.unified(old, new)]
            yield Change(acp.text(item, "path") or "", acp.member(item, "oldText") is None, rows)
        elif acp.text(item, "type") == "content" and isinstance(block, Mapping):
            text = acp.text(block, "text") if acp.text(block, "type") == "text" else None
            yield Block(block) if text is None or _FENCE.search(text) else Raw("output", plain(text), "")


def _raw(name: str, value: object) -> Raw:
    """The command or the text of a value that has one; else all of it."""
    said = _command(value) if name == "input" else _text(value)
    if said is not None:
        return Raw(name, plain(said), "sh" if name == "input" else "")
    return Raw(name, plain(json.dumps(value, indent=2, ensure_ascii=False)), "json")


def _command(value: object) -> str | None:
    """The command line, as the agents that are known give it."""
    found = acp.member(value, "command")
    if isinstance(found, list):
        words = acp.strings(value, "command")
        return words[-1] if words[1:2] in (["-c"], ["-lc"]) else shlex.join(words)
    return found if isinstance(found, str) else None


def _text(value: object) -> str | None:
    if isinstance(value, str):
        return value
    return next((text for key in _OUTPUTS if (text := acp.text(value, key)) is not None), None)
