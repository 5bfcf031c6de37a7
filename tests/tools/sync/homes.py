"""Machines with real stores."""

from contextlib import closing
from pathlib import Path

from acp_proxy.protocol import acp
from acp_proxy.store import open_session
from acp_proxy.tools.sync.encryption import HistoryKey
from acp_proxy.tools.sync.membership import SyncMembership, SyncSettings
from acp_proxy.tools.sync.object_store import SealedLogs
from acp_proxy.transcript import file_format
from acp_proxy.transcript.appender import TranscriptAppender
from acp_proxy.transcript.file_names import file_name
from tests.store import transcript_lines
from tests.stored import WholeStore

AGENT = file_name("agent")


class Home:
    """A machine: its store, and its part of the history."""

    def __init__(self, root: Path, url: str, key: HistoryKey, name: str) -> None:
        self.store = WholeStore(root)
        self.joined = SyncMembership(root)
        self.joined.join(SyncSettings(url, ""), name)
        self.logs = SealedLogs(url, key)

    def sync(self) -> None:
        self.joined.do_round(self.logs)

    def say(self, title: str, text: str) -> None:
        """One more turn of the session with this title."""
        [row] = self.store.find_titled(title)
        session, path = row.session_id, self.store.layout.transcript_path(row.agent_folder, row.name)
        open_session.ensure_plain(self.store.layout, row.agent_folder, path)
        transcript = TranscriptAppender(path)
        transcript.append(
            transcript_lines.prompt_line(text, session=session, run=text) + transcript_lines.answer(run=text)
        )
        transcript.close()
        self.store.layout.mark(row.agent_folder, row.name)

    def prompts(self) -> dict[str, list[str]]:
        """What the user said, by the title of each session in the list."""
        found = {}
        for row in self.store.list_newest():
            with closing(self.store.open_listed(row)) as reader:
                entries = [line.entry for line in reader.read_lines() if line.entry is not None]
            told = [entry.value for entry in entries if acp.text(entry.value, "method") == acp.PROMPT]
            found[row.title or ""] = [message["params"]["prompt"][0]["text"] for message in told]  # type: ignore[index]
        return found

    def elsewhere(self) -> list[tuple[str, str]]:
        """What was recorded on other machines in the only session: the machine, and a prompt."""
        [row] = self.store.list_newest()
        with closing(self.store.open_listed(row)) as reader:
            assert reader.header is not None
            entries = b"".join(reader.read_bytes(reader.entries_start))
            parts = [(machine, entries[start:end].splitlines()) for start, end, machine in reader.header.remote_parts]
        told = [(machine, file_format.decode_entry(line)) for machine, lines in parts for line in lines]
        found = [(machine, entry.value) for machine, entry in told if entry is not None]
        return [
            (machine, each["params"]["prompt"][0]["text"])  # type: ignore[index]
            for machine, each in found
            if acp.text(each, "method") == acp.PROMPT
        ]
