"""The look of the status of a tool call or of a plan's step: a mark, and rich's words for its colour."""

_MARKS = {"completed": ("✓", "green"), "failed": ("✗", "red"), "in_progress": ("▸", "yellow")}


def mark(status: str | None) -> tuple[str, str]:
    return _MARKS.get(status or "", ("○", "none"))
