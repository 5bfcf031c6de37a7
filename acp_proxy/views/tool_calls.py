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
from acp_proxy.views.sanitize import clean_text, join_lines

KINDS = frozenset({"read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode"})
"""The kinds of the protocol, without ``other``, which tells nothing."""
COMPLETED, FAILED = "completed", "failed"
_STATUSES = frozenset({"pending", "in_progress", COMPLETED, FAILED})
_TITLE_LENGTH = 300
_OUTPUT_FIELDS = ("formatted_output", "aggregated_output", "output", "stdout")
"""The fields of ``rawOutput`` in which agents put the readable output of a program."""
_ERROR_FIELDS = ("error", "stderr", "message")


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


def read_title(call: ToolCall) -> str:
    """The title of a call, else its name or id, as one line."""
    text = join_lines(acp.text(call.fields, "title") or acp.text(call.fields, "name") or call.id or "tool call")
    return text if len(text) <= _TITLE_LENGTH else text[: _TITLE_LENGTH - 1] + "…"


def read_kind(call: ToolCall) -> str | None:
    """The kind of a call; None if it is none of ``KINDS``."""
    kind = acp.text(call.fields, "kind")
    return kind if kind in KINDS else None


def read_status(call: ToolCall) -> str | None:
    """The status of a call; None if the protocol has no such."""
    status = acp.text(call.fields, "status")
    return status if status in _STATUSES else None


def list_paths(call: ToolCall) -> list[str]:
    """The locations of the call, each once, with the line if there is one."""
    locations = call.fields.get("locations")
    paths = []
    for item in locations if isinstance(locations, list) else []:
        path, line = acp.text(item, "path"), acp.member(item, "line")
        if path:
            paths.append(f"{path}:{line}" if type(line) is int and line > 0 else path)
    return list(dict.fromkeys(paths))


def list_parts(call: ToolCall) -> list[Part]:
    """The contents of the call, input first. ``rawOutput`` counts only if there is no content."""
    content = list(_read_content(call.fields.get("content")))
    raw_input, raw_output = call.fields.get("rawInput"), call.fields.get("rawOutput")
    is_redundant = (
        raw_input in (None, {}, [], "") or read_command(raw_input) == read_title(call) or _is_only_path(raw_input, call)
    )
    input_parts = [] if is_redundant else [_make_raw("input", raw_input)]
    output_parts = [] if content or raw_output in (None, {}, [], "") else [_make_raw("output", raw_output)]
    return [*input_parts, *content, *output_parts]


def _is_only_path(value: object, call: ToolCall) -> bool:
    """Whether an input only says which file it is, as the title or the locations do."""
    if not isinstance(value, Mapping) or not value:
        return False
    locations = call.fields.get("locations")
    paths = [acp.text(item, "path") for item in locations] if isinstance(locations, list) else []
    return all(text in (*paths, *read_title(call).split()) for text in value.values())


def find_reason(call: ToolCall) -> str | None:
    """Why a call failed, in the agent's words; None if it did not fail, or if the agent did not say."""
    if read_status(call) != FAILED:
        return None
    items, output = call.fields.get("content"), call.fields.get("rawOutput")
    texts = [acp.text(acp.member(item, "content"), "text") for item in items] if isinstance(items, list) else []
    text = "\n".join(text for text in texts if text) or _find_text(output) or _find_error(output)
    return strip_fence(text) or None if text else None


def strip_fence(text: str) -> str:
    """A program's output without the fence in which some agents put it, and the space around it."""
    return _FENCED.sub(r"\1", text).strip()


def _find_error(output: object) -> str | None:
    """The message of an error, in the forms of the known agents."""
    for key in _ERROR_FIELDS:
        value = acp.member(output, key)
        if text := value if isinstance(value, str) else acp.text(value, "message"):
            return text
    return None


def _read_content(items: object) -> Iterator[Part]:
    for item in items if isinstance(items, list) else []:
        block = acp.member(item, "content")
        if acp.text(item, "type") == "diff":
            new, old = acp.text(item, "newText") or "", acp.text(item, "oldText")
            rows = [DiffRow(row.kind, clean_text(row.text)) for row in diffs.diff_texts(old, new)]
            yield Diff(acp.text(item, "path") or "", acp.member(item, "oldText") is None, rows)
        elif acp.text(item, "type") == "content" and isinstance(block, Mapping):
            text = acp.text(block, "text") if acp.text(block, "type") == "text" else None
            yield Block(block) if text is None or _FENCE.search(text) else Raw("output", clean_text(text), "")


def _make_raw(name: str, value: object) -> Raw:
    """The command or the text in a value; else the complete value."""
    text = read_command(value) if name == "input" else _find_text(value)
    if text is not None:
        return Raw(name, clean_text(text), "sh" if name == "input" else "")
    return Raw(name, clean_text(json.dumps(value, indent=2, ensure_ascii=False)), "json")


def read_command(value: object) -> str | None:
    """The command line, in the forms of the known agents."""
    command = acp.member(value, "command")
    if isinstance(command, list):
        words = acp.strings(value, "command")
        return words[-1] if words[1:2] in (["-c"], ["-lc"]) else shlex.join(words)
    return command if isinstance(command, str) else None


def _find_text(value: object) -> str | None:
    if isinstance(value, str):
        return value
    return next((text for key in _OUTPUT_FIELDS if (text := acp.text(value, key)) is not None), None)


# --- The look of the status of a tool call or of a plan's step: a mark, and rich's words for its colour.


_MARKS = {"completed": ("✓", "green"), "failed": ("✗", "red"), "in_progress": ("▸", "yellow")}


def choose_mark(status: str | None) -> tuple[str, str]:
    """The mark of a status, and its style."""
    return _MARKS.get(status or "", ("○", "none"))
