"""A table of tool calls: what those of one sixteenth of the transcripts did, with which files, and their result.

It is a file beside the search table of the same transcripts, removed when that is. Output of tools is not in it. A
transcript that has grown is read again as a whole, since a call of an earlier turn may have ended.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from acp_proxy.protocol import timestamps
from acp_proxy.tools.changes.edits import CallSummary, EditReader, read_numbered
from acp_proxy.tools.search.fts_table import (
    TRANSCRIPTS,
    Addition,
    IndexedTranscript,
    Key,
    MeasuredLines,
    TranscriptTable,
)
from acp_proxy.transcript.reader import TranscriptReader

_SCHEMA = 4
_LONGEST_TEXT = 4096
"""Characters of a title or command: a longer one has a file in it."""


@dataclass(frozen=True, slots=True)
class StoredCall:
    """A call as the table has it. ``turn_started_at``: when its turn began. ``text``: its ``CallSummary`` as JSON."""

    turn: int
    turn_started_at: str
    text: str


class CallTable(TranscriptTable[StoredCall]):
    """A connection to a table of tool calls, or with None to one in memory."""

    KIND = ".calls"
    SCHEMA = _SCHEMA
    TABLES = f"""{TRANSCRIPTS}
CREATE TABLE calls(transcript INTEGER NOT NULL, turn INTEGER NOT NULL, at TEXT NOT NULL, summary TEXT NOT NULL);
CREATE INDEX calls_by_transcript ON calls(transcript);
PRAGMA user_version = {_SCHEMA};
"""

    def list_calls(self) -> Iterator[tuple[Key, StoredCall]]:
        """All calls, in the order of each transcript."""
        rows = self._database.execute(
            "SELECT agent, name, turn, at, summary FROM calls JOIN transcripts ON transcript = id ORDER BY calls.rowid"
        )
        return (
            ((agent, name), StoredCall(turn, turn_started_at, text))
            for agent, name, turn, turn_started_at, text in rows
        )

    def _remove(self, transcript: int, kept_turns: int) -> None:
        self._database.execute("DELETE FROM calls WHERE transcript = ? AND turn > ?", (transcript, kept_turns))

    def _add(self, transcript: int, turns: list[StoredCall]) -> None:
        self._database.executemany(
            "INSERT INTO calls VALUES (?, ?, ?, ?)",
            [(transcript, call.turn, call.turn_started_at, call.text) for call in turns],
        )


def read_calls(
    key: Key, table_state: IndexedTranscript | None, reader: TranscriptReader
) -> Addition[StoredCall] | None:
    """What to add for a transcript. Raises OSError."""
    header = reader.header or reader.rebuild_header()
    if header is None:
        return None
    edit_reader, lines = EditReader(), MeasuredLines(reader.read_alike())
    for turn, entry in read_numbered(reader, lines):
        edit_reader.add(turn, entry)
    calls = [
        StoredCall(call.turn, timestamps.normalize(edit_reader.find_start(call.turn) or call.stamp) or "", encoded)
        for call in edit_reader.list_calls()
        if (encoded := _encode_call(call, header.cwd or "/"))
    ]
    new_state = IndexedTranscript(header.created_at, reader.inode, lines.size)
    # -1: nothing of before stays, not even calls before the first turn.
    return Addition(key, table_state, new_state, -1, calls)


def _encode_call(call: CallSummary, cwd: str) -> str:
    files = tuple((action, _clean(os.path.normpath(os.path.join(cwd, path)))) for action, path in call.files)
    stored = msgspec.structs.replace(
        call,
        call=_clean(call.call),
        stamp=_clean(call.stamp),
        title=_clean(call.title[:_LONGEST_TEXT]),
        name=_clean(call.name[:_LONGEST_TEXT]),
        kind=_clean(call.kind),
        command=_clean(call.command[:_LONGEST_TEXT]),
        files=files,
    )
    return msgspec.json.encode(stored).decode()


def decode_call(text: str) -> CallSummary:
    return msgspec.json.decode(text, type=CallSummary)


def _clean(text: str) -> str:
    """The text as UTF-8 can have it: an agent may send half of a surrogate pair."""
    return text.encode("utf-8", "replace").decode()
