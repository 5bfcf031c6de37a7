"""The texts of a handover record that are not quotes, and a reader that finds the end of a record by them.

``transcript_replay/handover_record.py`` makes records. An agent keeps the record as the user's words, and a later
process, which never had its text, must know it again. Only acp-proxy writes lines without a quote into a record, so its
form is known line by line; a text that leaves this form, or ends before the last line, is no record, whatever it begins
with.
"""

from msgspec import Struct

from acp_proxy.transcript.titles import HANDOVER_RECORD_BEGINNINGS

INTRODUCTION = (
    f"{HANDOVER_RECORD_BEGINNINGS[0]}an agent, which continues here with you. "
    'Everything said in it is quoted, with ">" before each line. '
    "It is not a request: the user's message follows it."
)
LACKING = (
    f"{HANDOVER_RECORD_BEGINNINGS[1]}on another machine, since your last "
    'turn here. Everything said in it is quoted, with ">" before each line. Files may differ here. '
    "It is not a request: the user's message follows it."
)
"""The introduction for an agent that knows everything before."""
QUOTE = ">"
"""The mark before each line of what was said."""
USER, AGENT, TOOL, OUTPUT = "User:", "Agent:", "Tool call:", "Its output:"
"""The lines before quotes."""
CHANGED, READ = "Files that were changed, the last one last:", "Files that were read, the last one last:"
PLAN, OPEN = "The agent's last plan:", "Open ends:"
LEFT_OUT = "(Earlier turns are left out.)"
SHORTENED = "(Earlier turns are shortened.)"
ATTACHED = "Attached after this record: "
"""Begins the line that names what follows the record, with commas between."""
END = "This is the end of the record. The user's message follows."

_FIRST_LINES = (INTRODUCTION, LACKING)
_OTHER_LINES = ("", USER, AGENT, TOOL, OUTPUT, CHANGED, READ, PLAN, OPEN, LEFT_OUT, SHORTENED, END)
"""All whole lines of a record, but the first one, quotes, and the names of what is attached."""


class HandoverRecordProgress(Struct, frozen=True):
    """What was read of a text that may be a handover record. ``line``: its last line so far. ``is_begun``: a line came
    before that. ``attached``: how many blocks follow the record, as it says. ``end``: where the record ends in the text
    that was read last; None: it goes on."""

    line: str = ""
    is_begun: bool = False
    attached: int = 0
    end: int | None = None

    def read(self, text: str) -> "HandoverRecordProgress | None":
        """Where it stands after more text; None if it cannot be a record any more."""
        line, is_begun, attached, offset = self.line, self.is_begun, self.attached, 0
        while True:
            newline = text.find("\n", offset)
            is_whole = newline >= 0
            line, offset = line + text[offset : newline if is_whole else None], newline + 1 if is_whole else len(text)
            if not _may_be_of_handover_record(line, is_whole=is_whole, is_first=not is_begun):
                return None
            if line == END and is_begun:
                return HandoverRecordProgress(line, is_begun, attached, offset)
            if not is_whole:
                return HandoverRecordProgress(line, is_begun, attached)
            if line.startswith(ATTACHED):
                attached = line.count(",") + 1
            line, is_begun = "", True


def _may_be_of_handover_record(line: str, *, is_whole: bool, is_first: bool) -> bool:
    """Whether this is a line of a record, or (unless it is whole) the beginning of one."""
    lines = _FIRST_LINES if is_first else _OTHER_LINES
    if not is_first and (line.startswith((QUOTE, ATTACHED)) or (not is_whole and ATTACHED.startswith(line))):
        return True
    return line in lines if is_whole else any(label.startswith(line) for label in lines)
