"""A conversation as a terminal recording in the format asciicast 2, as ``replay`` would show it.

asciinema plays it, and agg makes a GIF of it. Players shorten pauses, since the header has a limit for them.
"""

import json
from collections.abc import Iterable, Iterator
from itertools import groupby

from rich.color import ColorSystem
from rich.style import Style

from acp_proxy.protocol import acp, timestamps, update_kinds
from acp_proxy.tools.export.hide_home import HomeHider
from acp_proxy.transcript.file_format import Entry
from acp_proxy.views.conversation import read_words
from acp_proxy.views.document import Head
from acp_proxy.views.moments import measure_between
from acp_proxy.views.streaming import StreamedText, StreamPrinter

_COLUMNS, _LINES = 80, 24
_MOST_SECONDS = 2  # of a pause, as in replay


def encode_recording(head: Head, entries: Iterable[Entry], hider: HomeHider) -> Iterator[str]:
    """The lines of the file. ``head``, and with ``hider`` the entries, are shown without home directories."""
    header: dict[str, object] = {"version": 2, "width": _COLUMNS, "height": _LINES, "idle_time_limit": _MOST_SECONDS}
    header |= {"title": head.heading, "env": {"TERM": "xterm-256color"}}
    started_at = timestamps.parse_seconds(head.created)
    yield json.dumps(header if started_at is None else header | {"timestamp": int(started_at)}) + "\n"
    streaming, first_stamp, seconds = StreamPrinter(_COLUMNS), "", 0.0
    for entry in _hide_homes(entries, hider):
        if data := "".join(map(_encode_output, streaming.take(entry))):
            first_stamp = first_stamp or entry.at
            seconds = max(seconds, measure_between(first_stamp, entry.at))
            yield _encode_event(seconds, data)
    if data := "".join(map(_encode_output, streaming.end())):
        yield _encode_event(seconds, data)


def _encode_event(seconds: float, data: str) -> str:
    return json.dumps([round(seconds, 3), "o", data]) + "\n"


def _encode_output(piece: StreamedText) -> str:
    text = Style.parse(piece.style).render(piece.text, color_system=ColorSystem.STANDARD)
    return ("\r\x1b[2K" if piece.replaces_line else "") + text.replace("\n", "\r\n")


def _hide_homes(entries: Iterable[Entry], hider: HomeHider) -> Iterator[Entry]:
    """The entries without home directories. A path across chunks of a message is hidden as in one text."""
    for chunk_key, adjacent in groupby(entries, _find_chunk):
        if chunk_key is None:
            for entry in adjacent:
                note = entry.note if entry.note is None else hider.hide_in_members(entry.note)
                yield _replace_value(entry, hider.hide_in_value(entry.value), note)
            continue
        kind, message_id = chunk_key
        chunks = list(adjacent)
        texts = hider.hide_in_adjacent([_read_words(entry) for entry in chunks])
        for entry, text in zip(chunks, texts, strict=True):
            update = acp.member(acp.member(entry.value, "params"), "update")
            hidden = {"sessionUpdate": kind, "messageId": message_id, "content": {"type": "text", "text": text}}
            if acp.text(acp.member(update, "content"), "type") == "text":
                yield _replace_value(entry, {"method": acp.UPDATE, "params": {"update": hidden}}, None)
            else:
                yield _replace_value(entry, hider.hide_in_value(entry.value), None)


def _find_chunk(entry: Entry) -> tuple[str, str | None] | None:
    """The kind and the id of the message that an entry is a chunk of; None if it is something else."""
    update = acp.member(acp.member(entry.value, "params"), "update")
    kind = acp.update_kind(update)
    return (
        (kind, acp.text(update, "messageId"))
        if kind in update_kinds.V1_MESSAGE_CHUNKS and entry.peer is not None
        else None
    )


def _read_words(entry: Entry) -> str:
    content = acp.member(acp.member(acp.member(entry.value, "params"), "update"), "content")
    return read_words(content) if isinstance(content, dict) else ""


def _replace_value(entry: Entry, value: object, note: dict[str, object] | None) -> Entry:
    return Entry(entry.at, entry.run, entry.peer, entry.answered_method, None, value, note, entry.protocol_version)
