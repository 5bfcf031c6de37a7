"""Any bytes as a transcript: it can be read, replayed, compared and summed up.

An intact entry is found after any damage, and nothing within an update that the recorder wrote is one.
"""

import json
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

from msgspec import convert, to_builtins

from acp_proxy.comparison.comparison import SentLine
from acp_proxy.comparison.whose_past import choose_past
from acp_proxy.errors import NewerFormat
from acp_proxy.protocol import acp, update_kinds
from acp_proxy.relay.compare_with_transcript import compare_with_transcript
from acp_proxy.store.index_database import Index
from acp_proxy.transcript import file_format
from acp_proxy.transcript.agent_session import AGENT_NOTES
from acp_proxy.transcript.file_format import Header, NoteType
from acp_proxy.transcript.reader import Line, TranscriptReader
from acp_proxy.transcript.summary import Summary
from acp_proxy.transcript_replay.handover_record import HandoverRecord
from acp_proxy.transcript_replay.replayer import Mode, Replayer

HANDOVER_RECORD = 2000
"""Bytes of a handover record: so few that most records are cut."""
AT, RUN = "2026-11-20T09:15:02.123Z", "q7w8e9"
"""The run is in no other bytes."""
INTACT = b'{"at":"2026-11-20T09:15:02.123Z","run":"zzzzzz","from":"proxy","note":{"type":"intact"}}\n'

TELLINGS: tuple[tuple[Mode, int], ...] = (("compact", 0), ("full", 0), ("compact", 64))


def run(data: bytes) -> None:
    try:
        reader = opened(data)
    except NewerFormat:
        return
    try:
        lines = list(reader.read_lines())
        assert list(one_by_one(reader)) == lines
        assert reader.is_complete in (True, False)
        index = indexed()
        index.put_row("agent", "name", reader)
        for row in index.select_page("agent", None, None, "k3f9a1").rows:
            json.dumps(row.meta)
        index.remove_rows("agent", "name")
    finally:
        reader.close()
    ends = {line.number: (line.end, line.is_whole) for line in lines}
    assert all(ends[line.number] == (line.end, line.is_whole) for line in lines), (
        "glued entries end where their line does"
    )
    assert list(ends) == sorted(ends)
    assert [end for end, _ in ends.values()] == sorted({end for end, _ in ends.values()})
    assert all(whole for _, whole in list(ends.values())[:-1])
    retold(lines, reader.header)
    is_found_after(data)
    is_one_entry(data)


def one_by_one(reader: TranscriptReader) -> Iterator[Line]:
    """The lines, in places where many are read at once."""
    for found in reader.read_alike():
        if isinstance(found, Line):
            yield found
            continue
        number, end = found.number - found.chunks.count, found.end - found.chunks.size
        for line, entry in zip(found.chunks.lines, found.chunks.decode_entries(), strict=True):
            number, end = number + 1, end + len(line) + 1
            yield Line(number, end, True, entry)


def retold(lines: list[Line], header: Header | None) -> None:
    session = header.session_id if header is not None else "s"
    summary = Summary.begin(header or Header(session, None, file_format.PARTIAL, ""))
    for line in lines:
        if line.entry is not None:
            assert line.entry.at.isascii()
            summary.add(line.entry)
            summary = convert(json.loads(json.dumps(to_builtins(summary))), Summary)
    tellings = [telling(session, lines, mode, limit) for mode, limit in TELLINGS]
    for one in tellings:
        handover_record = HandoverRecord(HANDOVER_RECORD)
        for said in one:
            is_an_update(said, session)
            handover_record.add(said)
        assert len(handover_record.make_text().encode("utf-8", "replace")) <= HANDOVER_RECORD
    for one in tellings:
        told = [said for said in one if update_kinds.is_conversation(acp.update_kind(acp.read_update(said)))]
        comparison = compare_with_transcript(
            lines, (SentLine(said, number % 2 == 1) for number, said in enumerate(told))
        )
        assert comparison is not None
        comparison.end_message()
        choose_past(comparison)
        assert set(comparison.find_unrecorded()) <= {*one, *ends_of_calls(told)}, "only what was told can be new"


def ends_of_calls(told: list[bytes]) -> Iterator[bytes]:
    """The calls as they are recorded if the transcript lacks only their end: as updates of a call."""
    for said in told:
        if acp.update_kind(acp.read_update(said)) in update_kinds.V1_CALLS:
            with suppress(ValueError, KeyError):
                yield acp.with_text(said, update_kinds.TOOL_CALL_UPDATE, "params", "update", "sessionUpdate")


def telling(session: str, lines: list[Line], mode: Mode, limit: int) -> list[bytes]:
    again = Replayer(session, run_id="k3f9a1", mode=mode, tool_limit=limit, other_ids=frozenset({"parent"}))
    out = [said for line in lines if line.entry is not None for said in again.add(line.number, line.entry)]
    out += again.end()
    assert again.end() == [], "everything is told once"
    return out + again.list_states()


def is_an_update(said: bytes, session: str) -> None:
    assert said.endswith(b"\n")
    assert b"\n" not in said[:-1]
    try:
        message = json.loads(said.decode("utf-8", "surrogateescape").removeprefix("\ufeff"))
    except RecursionError:
        return
    assert message["method"] == "session/update"
    assert message["params"]["sessionId"] == session
    assert isinstance(message["params"]["update"]["sessionUpdate"], str)


def is_found_after(data: bytes) -> None:
    """An entry appended after damage begins a new line, as the recorder ensures, and is found."""
    fresh = data if not data or data.endswith(b"\n") else data + b"\n"
    reader = opened((fresh or b"\n") + INTACT)
    try:
        last = list(reader.read_lines())[-1].entry
    finally:
        reader.close()
    assert last is not None
    assert last.run == "zzzzzz"


def is_one_entry(data: bytes) -> None:
    """Whatever an agent sends as an update, JSON or not, is one entry, and of its end cut off nothing is one."""
    inside = data.replace(b"\n", b" ").removesuffix(b"}}}")
    written = b"".join(file_format.encode_update_parts(AT, RUN, acp.UPDATE_PREFIX + inside + b"}}}\n"))
    for line in (written, written[: -len(b"}}}}\n")] + b"\n"):
        found = [piece.value for piece in file_format.find_entries(line)]
        assert all(entry.run == RUN and entry.note is None for entry in found)
        assert not list(file_format.find_notes(line, AGENT_NOTES | {NoteType.GAP, NoteType.REPLAY}))


def opened(data: bytes) -> TranscriptReader:
    path = place() / "transcript.jsonl"
    path.write_bytes(data)
    path.chmod(0o600)
    return TranscriptReader(path)


@cache
def place() -> Path:
    _kept.append(tempfile.TemporaryDirectory(prefix="acp-proxy-fuzz-"))
    return Path(_kept[0].name)


_kept: list["tempfile.TemporaryDirectory[str]"] = []
"""Removed when the process ends."""


@cache
def indexed() -> Index:
    return Index(None)
