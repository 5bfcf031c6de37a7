"""A conversation as plain text: for other programs, and for simple terminals.

Markdown stays unchanged. Messages are indented, so that they cannot imitate headings.
"""

from collections.abc import Iterator

from acp_proxy.views.passages import (
    NAMES,
    AttachmentLine,
    CallHeading,
    CallText,
    Heading,
    Passage,
    PlanSteps,
    Remark,
    ShownDiff,
    SpokenText,
    is_adjacent,
)
from acp_proxy.views.sanitize import clean_output, make_line, make_printable

_STEP_MARKS = {"completed": "x", "in_progress": ">"}


class PassagePrinter:
    def __init__(self) -> None:
        self._previous: Passage | None = None

    def print(self, passage: Passage) -> Iterator[str]:
        gap = "" if is_adjacent(self._previous, passage) else "\n"
        self._previous = passage
        yield f"{gap}{_format(passage)}\n"


def _format(passage: Passage) -> str:
    match passage:
        case Heading():
            return f"--- Turn {passage.number}, {make_line(passage.started_at)} ---"
        case SpokenText():
            body = _indent(passage.text, 2)
            return body if passage.continues else f"{NAMES[passage.speaker]}:\n{body}"
        case AttachmentLine():
            body = f"  [{make_line(passage.text)}]"
            return body if passage.continues or passage.speaker is None else f"{NAMES[passage.speaker]}:\n{body}"
        case CallHeading():
            status = f" [{make_line(passage.status)}]" if passage.status else ""
            return f"{'Tool, later' if passage.is_change else 'Tool'}: {make_line(passage.title)}{status}"
        case ShownDiff():
            rows = [row.text if row.kind == "@" else row.kind + row.text for row in passage.rows]
            omission = [f"... {passage.left_out} more rows: --full"] if passage.left_out else []
            return _indent("\n".join([make_line(passage.path), *(make_line(row) for row in rows), *omission]), 2)
        case CallText():
            body = _indent(clean_output(passage.text), 4)
            return f"  {passage.name}:\n{body}" if passage.name else body
        case PlanSteps():
            return "\n".join(
                ["Plan:", *(f"  [{_STEP_MARKS.get(status, ' ')}] {make_line(text)}" for status, text in passage.steps)]
            )
        case Remark():
            return f"{'Error' if passage.is_error else 'Note'}: {make_line(passage.text)}"


def _indent(text: str, columns: int) -> str:
    space = " " * columns
    return "\n".join(f"{space}{line}".rstrip() for line in make_printable(text).strip("\n").split("\n"))
