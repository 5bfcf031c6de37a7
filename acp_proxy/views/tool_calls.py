"""Read a tool call from the agent's own fields. Nothing here raises, whatever they contain."""

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from acp_proxy.protocol import acp
from acp_proxy.views import diffs
from acp_proxy.views.conversation import ToolCall
from acp_proxy.views.diffs import DiffRow
from acp_proxy.views.sanitize import one_line, plain

KINDS = frozenset({"read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode"})
"""The kinds of the protocol, without ``other``, which tells nothing."""
COMPLETED, FAILED = "completed", "failed"
_STATUSES = frozenset({"pending", "in_progress", COMPLETED, FAILED})
_TITLE_LENGTH = 300
_OUTPUTS = ("formatted_output", "aggregated_output", "output", "stdout")
"""The fields in which agents put the readable output of a program."""
_ERRORS = ("error", "stderr", "message")


@dataclass(frozen=True, slots=True)
class Diff:
    """A diff: the rows of its hunks."""

    path: str
    is_new: bool
    rows: list[DiffRow]


@dataclass(frozen=True, slots=True)
class Block:
    """A content block of the protocol. A text with fences is Markdown."""

    block: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Raw:
    """Input or output of a program, unchanged. ``name``: input, output."""

    name: str
    text: str
    language: str


Part = Diff | Block | Raw

_FENCED = re.compile(r"\A\s*(?:```|~~~)[^\n]*\n(.*?)\n?(?:```|~~~)\s*\Z", re.DOTALL)
_FENCE = re.compile(r"^ {0,3}(```|~~~)", re.MULTILINE)


def title(call: ToolCall) -> str:
    text = one_line(acp.text(call.fields, "title") or acp.text(call.fields, "name") or call.id or "tool call")
    return text if len(text) <= _TITLE_LENGTH else text[: _TITLE_LENGTH - 1] + "…"


def kind(call: ToolCall) -> str | None:
    found = acp.text(call.fields, "kind")
    return found if found in KINDS else None


def status(call: ToolCall) -> str | None:
    found = acp.text(call.fields, "status")
    return found if found in _STATUSES else None


def paths(call: ToolCall) -> list[str]:
    """The locations of the call, each once, with the line if there is one."""
    found = call.fields.get("locations")
    places = []
    for item in found if isinstance(found, list) else []:
        path, line = acp.text(item, "path"), acp.member(item, "line")
        if path:
            places.append(f"{path}:{line}" if type(line) is int and line > 0 else path)
    return list(dict.fromkeys(places))


def parts(call: ToolCall) -> list[Part]:
    """The contents of the call, input first. ``rawOutput`` counts only if there is no content."""
    content = list(_content(call.fields.get("content")))
    before, behind = call.fields.get("rawInput"), call.fields.get("rawOutput")
    given = [] if before in (None, {}, [], "") or read_command(before) == title(call) else [_raw("input", before)]
    gave = [] if content or behind in (None, {}, [], "") else [_raw("output", behind)]
    return [*given, *content, *gave]


def reason(call: ToolCall) -> str | None:
    """Why a call failed, in the agent's words; None if it did not fail, or if the agent did not say."""
    if status(call) != FAILED:
        return None
    items, output = call.fields.get("content"), call.fields.get("rawOutput")
    found = [acp.text(acp.member(item, "content"), "text") for item in items] if isinstance(items, list) else []
    text = "\n".join(text for text in found if text) or _text(output) or _error(output)
    return _FENCED.sub(r"\1", text).strip() or None if text else None


def _error(output: object) -> str | None:
    """The message of an error, in the forms of the known agents."""
    for key in _ERRORS:
        held = acp.member(output, key)
        if text := held if isinstance(held, str) else acp.text(held, "message"):
            return text
    return None


def _content(items: object) -> Iterator[Part]:
    for item in items if isinstance(items, list) else []:
        block = acp.member(item, "content")
        if acp.text(item, "type") == "diff":
            new, old = acp.text(item, "newText") or "", acp.text(item, "oldText")
            rows = [DiffRow(row.kind, plain(row.text)) for row in diffs.unified(old, new)]
            yield Diff(acp.text(item, "path") or "", acp.member(item, "oldText") is None, rows)
        elif acp.text(item, "type") == "content" and isinstance(block, Mapping):
            text = acp.text(block, "text") if acp.text(block, "type") == "text" else None
            yield Block(block) if text is None or _FENCE.search(text) else Raw("output", plain(text), "")


def _raw(name: str, value: object) -> Raw:
    """The command or the text in a value; else the complete value."""
    said = read_command(value) if name == "input" else _text(value)
    if said is not None:
        return Raw(name, plain(said), "sh" if name == "input" else "")
    return Raw(name, plain(json.dumps(value, indent=2, ensure_ascii=False)), "json")


def read_command(value: object) -> str | None:
    """The command line, in the forms of the known agents."""
    found = acp.member(value, "command")
    if isinstance(found, list):
        words = acp.strings(value, "command")
        return words[-1] if words[1:2] in (["-c"], ["-lc"]) else shlex.join(words)
    return found if isinstance(found, str) else None


def _text(value: object) -> str | None:
    if isinstance(value, str):
        return value
    return next((text for key in _OUTPUTS if (text := acp.text(value, key)) is not None), None)


# --- The look of the status of a tool call or of a plan's step: a mark, and rich's words for its colour.


_MARKS = {"completed": ("✓", "green"), "failed": ("✗", "red"), "in_progress": ("▸", "yellow")}


def mark(status: str | None) -> tuple[str, str]:
    return _MARKS.get(status or "", ("○", "none"))
