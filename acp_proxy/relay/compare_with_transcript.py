"""Reads a transcript, which ``comparison/`` does not, and the agent's lines, and feeds both to a ``Comparison``: for a
load (``load_thread``), for what the agent sends later (``load_performer``), and for ``doctor``.
"""

from collections.abc import Callable, Iterable

from acp_proxy.comparison.comparison import Comparison, SentLine
from acp_proxy.comparison.text_builder import TextBuilder
from acp_proxy.protocol import acp, v2_updates
from acp_proxy.transcript.reader import AlikeLines, Line
from acp_proxy.transcript.v2_entries import read_as_v1


def compare_with_transcript(
    transcript: Iterable[Line | AlikeLines],
    replay: Iterable[SentLine],
    mask: Callable[[bytes], bytes] | None = None,
    is_needed: Callable[[], bool] = lambda: True,
) -> Comparison | None:
    """A ``Comparison`` of the agent's replay with a transcript.

    ``mask``: masks secrets in what is recorded; None: a transcript with masks was masked later, in the known forms of
    secrets. ``is_needed``: the comparison stops, and is None, when this returns False. Raises OSError.
    """
    builder = TextBuilder()
    for line in read_as_v1(transcript):
        if not is_needed():
            return None
        _add_line(builder, line)
    text = builder.finish()
    if mask is None and text.is_masked:
        from acp_proxy.redaction.masking import Masking  # compiling its patterns takes a while

        mask = Masking().mask_lines
    comparison = Comparison(text, mask if text.is_masked else None)
    sent_lines = list(replay)
    updates = v2_updates.read_replay_as_v1([acp.read_update(sent_line) for sent_line, _ in sent_lines])
    for (sent_line, is_after_an_answer), update in zip(sent_lines, updates, strict=True):
        comparison.add(sent_line, update, is_after_an_answer=is_after_an_answer)
    return comparison


def _add_line(builder: TextBuilder, line: Line | AlikeLines) -> None:
    if isinstance(line, AlikeLines):
        builder.add_chunks(line.chunks)
    elif line.entry is not None:
        builder.add(line.entry)
