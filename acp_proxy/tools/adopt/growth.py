"""Whether an agent's session has grown since it was adopted."""

from acp_proxy.comparison.comparison import Comparison
from acp_proxy.comparison.sent_messages import read_update_as_v1
from acp_proxy.comparison.text_builder import TextBuilder


def continues(old_lines: list[bytes], new_lines: list[bytes]) -> bool:
    """Whether the new replay has all that the old one has, and more. ``old_lines``, ``new_lines``: updates of the
    conversation."""
    return _has_more(new_lines, old_lines) and not _has_more(old_lines, new_lines)


def _has_more(lines: list[bytes], other_lines: list[bytes]) -> bool:
    """Whether the one has words, calls or other updates that the other lacks. True if that takes too long to find."""
    builder = TextBuilder()
    for line in other_lines:
        builder.add_update(read_update_as_v1(line))
    comparison = Comparison(builder.finish())
    for line in lines:
        comparison.add(line, read_update_as_v1(line), is_after_an_answer=False)
    comparison.end_message()
    return any(comparison.split_tail()) or comparison.has_more or comparison.is_too_costly
