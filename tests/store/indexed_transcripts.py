"""Transcripts with an index, which is updated after each write."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from acp_proxy.sessions.find_sessions import ListFilter, list_newest
from acp_proxy.store.index_database import Index, ListedSession
from acp_proxy.tools.maintenance import verify
from acp_proxy.transcript import file_format
from acp_proxy.transcript.file_names import file_name
from acp_proxy.transcript.reader import TranscriptReader
from tests.store import transcript_lines
from tests.store.transcript_lines import answer, prompt_line

AGENT = "agent"


class IndexedTranscripts:
    """Transcripts of one agent, and an index of them."""

    def __init__(self, folder: Path, index: Path | None = None) -> None:
        self.folder = folder
        self.index = Index(index)

    def path(self, session: str) -> Path:
        return self.folder / f"{file_name(session)}.jsonl"

    def index_transcript(self, session: str, name: str | None = None, agent: str = AGENT) -> bool:
        """Update the row of a transcript as it is now. False: its session keeps its mark, to be read again."""
        reader = TranscriptReader(self.path(session))
        try:
            return self.index.put_row(agent, name or file_name(session), reader)
        finally:
            reader.close()

    def matches_index(self, session: str) -> bool:
        reader = TranscriptReader(self.path(session))
        try:
            return verify.matches_index(self.index, AGENT, file_name(session), reader)
        finally:
            reader.close()

    def write(self, session: str, *lines: bytes, header: file_format.Header | None = None) -> bool:
        header = header or transcript_lines.header(session)
        self.path(session).write_bytes(file_format.encode_header(header) + b"".join(lines))
        return self.index_transcript(session)

    def append(self, session: str, *lines: bytes) -> bool:
        with self.path(session).open("ab") as file:
            file.write(b"".join(lines))
        return self.index_transcript(session)

    def write_session(self, session: str, *, at: int = 0, cwd: str | None = transcript_lines.CWD) -> None:
        """Write a session with one turn."""
        self.write(session, prompt_line("x", at=at), answer(at=at), header=transcript_lines.header(session, cwd))

    def list_ids(self, cwd: str | None = None, cursor: str | None = None, size: int = 500) -> list[str]:
        return [row.session_id for row in self.index.select_page(AGENT, cwd, cursor, transcript_lines.RUN, size).rows]

    def get_row(self, session: str = transcript_lines.SESSION, run: str = transcript_lines.RUN) -> ListedSession:
        [row] = [row for row in self.index.select_page(AGENT, None, None, run).rows if row.session_id == session]
        return row

    def list_all(self) -> list[ListedSession]:
        """The list for users."""
        store_index: Any = SimpleNamespace(query=lambda question, *agents: question(self.index))
        return list(list_newest(store_index, ListFilter([AGENT])))

    def list_pages(self, size: int, cwd: str | None = None) -> Iterator[list[str]]:
        cursor = None
        while True:
            page = self.index.select_page(AGENT, cwd, cursor, transcript_lines.RUN, size)
            yield [row.session_id for row in page.rows]
            if page.next is None:
                return
            cursor = page.next
