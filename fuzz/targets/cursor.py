"""A list's cursor: garbage and foreign cursors only ever raise InvalidCursor; ours lead through all pages."""

import base64
import json
import tempfile
from functools import cache
from pathlib import Path

from acp_proxy.errors import InvalidCursor
from acp_proxy.protocol.jsonrpc import Peer
from acp_proxy.store.index_database import Index, Page
from acp_proxy.transcript import file_format
from acp_proxy.transcript.file_format import Header
from acp_proxy.transcript.reader import TranscriptReader
from fuzz.choices import Choices

AGENT, RUN, AT = "agent", "k3f9a1", "2026-11-20T09:15:02.123Z"
SESSIONS = ("s", "\ud800", "A", "a", "", "\0")


def run(data: bytes) -> None:
    """The first byte decides: the rest is a cursor, chooses the parts of one, or damages a valid one."""
    index, choices = filled(), Choices(data[1:])
    cwd = choices.pick((None, "/w", "/elsewhere", "\ud800"))
    [good] = [page.next for page in [index.select_page(AGENT, cwd, None, RUN, 2)]]
    match data[:1] and data[0] % 3:
        case 0:
            cursor = choices.rest().decode("utf-8", "surrogateescape")
        case 1 if good is not None:
            version, binding, updated, session = json.loads(base64.urlsafe_b64decode(good + "=" * (-len(good) % 4)))
            parts = [version, binding, updated, session]
            for _ in range(1 + choices.below(2)):
                parts[choices.below(4)] = choices.value()
            whole = choices.pick((parts, parts, parts, parts[:3], [*parts, 1], choices.value()))
            cursor = base64.urlsafe_b64encode(json.dumps(whole).encode()).decode().rstrip("=")
        case _:
            damaged = bytearray((good or "").encode())
            while choices.more and damaged:
                damaged[choices.byte() % len(damaged)] = choices.byte()
            cursor = damaged.decode("utf-8", "surrogateescape")
    try:
        page = index.select_page(AGENT, cwd, cursor, RUN, 2)
    except InvalidCursor:
        assert cursor != good, "our own is good"
    else:
        assert {row.session_id for row in page.rows} <= set(SESSIONS), "another place of the same list at most"
        walked(index, cwd, page)


def walked(index: Index, cwd: str | None, page: Page) -> None:
    """From this cursor on, the pages end, and have no session twice."""
    seen: list[str] = []
    while True:
        seen += [row.session_id for row in page.rows]
        assert len(seen) == len(set(seen)), "no session twice"
        if page.next is None:
            return
        page = index.select_page(AGENT, cwd, page.next, RUN, 2)


@cache
def filled() -> Index:
    """An index of some sessions with the same time."""
    index = Index(None)
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "transcript.jsonl"
        for number, session in enumerate(SESSIONS):
            raw = json.dumps({"id": 1, "method": "session/prompt", "params": {"sessionId": session}}).encode()
            prompt = file_format.encode_message(AT, RUN, Peer.CLIENT, raw)
            path.write_bytes(file_format.encode_header(Header(session, "/w", file_format.RECORDED, AT)) + prompt)
            reader = TranscriptReader(path)
            try:
                index.put_row(AGENT, f"name-{number}", reader)
            finally:
                reader.close()
    return index
