"""Check whether an agent's load replays everything: its replay of a session against the transcript.

The check asks only for a session of the agent's own with a complete transcript of moderate size, without a failed or
unfinished turn, in a directory that exists. It costs no tokens and creates no session: an editor that opens an old
session does the same.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice

from acp_proxy.comparison.comparison import Comparison, SentLine
from acp_proxy.comparison.whose_past import PastRule, choose_past, list_reasons
from acp_proxy.errors import AcpProxyError
from acp_proxy.protocol import acp, proxy_ids
from acp_proxy.relay.compare_with_transcript import compare_with_transcript
from acp_proxy.sessions.command_store import CommandStore
from acp_proxy.sessions.raw_lines import read_raw_lines
from acp_proxy.store.index_database import ListedSession
from acp_proxy.transcript import file_format
from acp_proxy.transcript.drop_rewound import drop_rewound
from acp_proxy.transcript.file_format import NoteType
from acp_proxy.transcript.reader import TranscriptReader

_MAX_BYTES = 16 * 1024 * 1024
"""Bytes of a transcript: the user waits while it is read."""
_MOST_EXAMINED = 20
_MOST_REPORTED = 5
"""The number of newest sessions to report: enough to show a pattern of the agent."""

WHOLE, LOSES, OTHER = "whole", "loses", "other"


@dataclass(frozen=True, slots=True)
class ReplayComparison:
    """``outcome``: ``WHOLE``, ``LOSES`` or ``OTHER``. ``left_out``: what the agent's replay leaves out, in words."""

    outcome: str
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LastLoad:
    """Whose replay the last load of a session showed, ``transcript`` or ``agent``, and why."""

    session_id: str
    shown_replay: str
    reason: str


def find_last_loads(store: CommandStore, agent_folder: str) -> tuple[LastLoad, ...]:
    """What the last loads of the agent's newest sessions showed, and by which rule. Raises AcpProxyError."""
    rows = (row for row in store.list_all() if row.agent_folder == agent_folder and row.size <= _MAX_BYTES)
    loads: list[LastLoad] = []
    for row in islice(rows, _MOST_EXAMINED):
        with suppress(OSError, AcpProxyError):
            note = _read_last_replay(store.open_listed(row))
            number = note.get("rule")
            reasons = list_reasons(number)
            if reasons and len(loads) < _MOST_REPORTED:
                reason = f"rule {number}: {'; or '.join(reasons)}"
                loads.append(LastLoad(row.session_id, acp.text(note, "shown") or "", reason))
    return tuple(loads)


def _read_last_replay(reader: TranscriptReader) -> Mapping[str, object]:
    """The last note about a replay in a transcript; empty if there is none. Closes it. Raises OSError."""
    last_note: Mapping[str, object] = {}
    try:
        for _, _, raw in read_raw_lines(reader):
            for _, note in file_format.find_notes(raw, (NoteType.REPLAY,)):
                last_note = note
    finally:
        reader.close()
    return last_note


def find_newest_session(store: CommandStore, agent_folder: str) -> tuple[ListedSession, TranscriptReader] | None:
    """The newest session that can test the agent's load, opened. Raises AcpProxyError."""
    rows = (row for row in store.list_all() if row.agent_folder == agent_folder and _is_suitable(row))
    for row in islice(rows, _MOST_EXAMINED):
        try:
            reader = store.open_listed(row)
        except (OSError, AcpProxyError):
            continue
        if _is_complete(reader):
            return row, reader
        reader.close()
    return None


def _is_complete(reader: TranscriptReader) -> bool:
    try:
        return reader.is_complete
    except OSError:
        return False


def _is_suitable(row: ListedSession) -> bool:
    is_whole = not row.has_failed and not row.is_running and not proxy_ids.is_proxy_id(row.session_id)
    return is_whole and row.size <= _MAX_BYTES and row.cwd is not None and os.path.isdir(row.cwd)


def compare(reader: TranscriptReader, lines: list[bytes]) -> ReplayComparison:
    """Compare the agent's replay, as update lines, with a transcript. Raises OSError."""
    comparison = compare_with_transcript(
        drop_rewound(reader), (SentLine(line, is_after_an_answer=False) for line in lines)
    )
    if comparison is not None:
        comparison.end_message()
    rule = choose_past(comparison, comparison_failed=comparison is None).rule
    if comparison is None or rule is not PastRule.REPLAY_IS_WORSE:
        return ReplayComparison(WHOLE if rule is PastRule.REPLAY_HAS_ALL else OTHER)
    return ReplayComparison(LOSES, tuple(_list_losses(comparison)))


def _list_losses(comparison: Comparison) -> Iterator[str]:
    text, spans = comparison.text, comparison.place.spans.all_spans
    known_length = sum(end - start for start, end in spans)
    if comparison.user_message_count_before_tail < len(text.user_messages):
        yield "some of the user's words" if comparison.user_message_count_before_tail else "the user's words"
    if known_length < len(text.agent_letters):
        yield "some of the agent's words" if known_length else "the agent's words"
    missing_calls = len(text.calls) - len(comparison.place.call_cursor.known_indexes)
    if missing_calls > 0:
        yield f"{missing_calls} of {len(text.calls)} tool call{'s' if len(text.calls) > 1 else ''}"
    if text.thought_letters and not comparison.has_thoughts:
        yield "the agent's thoughts"
