"""Where a segment may end: after whole turns. Pure."""

from acp_proxy.protocol import acp
from acp_proxy.tools.sync.sync_store import Summary
from acp_proxy.transcript import file_format
from acp_proxy.transcript.file_format import Header

LARGE_BYTES = 16 * 1024 * 1024
"""Bytes after which a segment ends with the next turn."""
LARGEST_BYTES = 256 * 1024 * 1024
"""Bytes of the largest segment."""


def find_end_of_turns(data: bytes, header: Header, *, is_whole: bool) -> int:
    """How many of these bytes are whole turns, of about ``LARGE_BYTES`` bytes at most.

    ``is_whole``: nothing follows them, and nobody may answer a prompt any more. A line without its newline, or a
    damaged one, ends the search.
    """
    summary, offset, end = Summary.begin(header), 0, 0
    for line in data.splitlines(keepends=True) if b"\r" not in data else _split_lines(data):
        entry = file_format.decode_entry(line)
        if not line.endswith(b"\n") or (entry is None and not line.isspace()):
            break
        offset += len(line)
        if entry is not None:
            summary.add(entry)
        if not summary.open:
            end = offset
            if end > LARGE_BYTES:
                return end
    return offset if is_whole else end


def has_prompt(data: bytes) -> bool:
    """Whether the user said something in this part of a session."""
    if acp.PROMPT.encode() not in data:
        return False
    entries = (file_format.decode_entry(line) for line in _split_lines(data))
    return any(entry is not None and entry.is_prompt for entry in entries)


def _split_lines(data: bytes) -> list[bytes]:
    return [line + b"\n" for line in data.split(b"\n")[:-1]] + [rest for rest in data.split(b"\n")[-1:] if rest]
