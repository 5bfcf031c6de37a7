"""The scripted agent's memory: its sessions, their prompts and its answers.

With a directory, each session is one JSON file, replaced atomically, so that it outlives the process. Without one, the
memory ends with the process. Two processes may share a directory; the last write of a session wins.
"""

import json
import os
import threading
import zlib
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

TITLE_LIMIT = 80  # fits in one line of a session list


@dataclass
class Exchange:
    """The text of a prompt, and of its answer."""

    prompt: str
    answer: str = ""


@dataclass
class Session:
    id: str
    cwd: str
    updated_at: str = ""
    exchanges: list[Exchange] = field(default_factory=list)

    @property
    def title(self) -> str | None:
        lines = self.exchanges[0].prompt.strip().splitlines() if self.exchanges else []
        return lines[0][:TITLE_LIMIT] if lines else None


class Memory:
    def __init__(self, directory: Path | None = None) -> None:
        self._directory = directory
        self._sessions: dict[str, Session] = {}
        self._lock = threading.Lock()
        if directory is not None:
            directory.mkdir(parents=True, exist_ok=True)

    def create(self, session_id: str, cwd: str, exchanges: list[Exchange] | None = None) -> None:
        with self._lock:
            self._save(Session(session_id, cwd, exchanges=list(exchanges or [])))

    def recall(self, session_id: str) -> Session | None:
        with self._lock:
            return self._read(session_id)

    def add_prompt(self, session_id: str, text: str) -> Session | None:
        """The session with this prompt as its newest, or None if the session is unknown."""
        with self._lock:
            session = self._read(session_id)
            if session is not None:
                session.exchanges.append(Exchange(text))
                self._save(session)
            return session

    def set_answer(self, session_id: str, number: int, text: str) -> None:
        """Remember the answer to this prompt, counted from 1. A forgotten session stays forgotten."""
        with self._lock:
            session = self._read(session_id)
            if session is not None and number <= len(session.exchanges):
                session.exchanges[number - 1].answer = text
                self._save(session)

    def forget(self, session_id: str) -> None:
        with self._lock:
            self._sessions.pop(session_id, None)
            if self._directory is not None:
                self._path(self._directory, session_id).unlink(missing_ok=True)

    def all(self) -> list[Session]:
        """Every session, newest first."""
        with self._lock:
            if self._directory is None:
                sessions = list(self._sessions.values())
            else:
                found = (_read_file(path) for path in self._directory.glob("*.json"))
                sessions = [session for session in found if session is not None]
        return sorted(sessions, key=lambda session: (session.updated_at, session.id), reverse=True)

    def _read(self, session_id: str) -> Session | None:
        if self._directory is None:
            return self._sessions.get(session_id)
        return _read_file(self._path(self._directory, session_id))

    def _save(self, session: Session) -> None:
        session.updated_at = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        if self._directory is None:
            self._sessions[session.id] = session
            return
        path = self._path(self._directory, session.id)
        new = path.with_suffix(f".{os.getpid()}.tmp")
        new.write_text(json.dumps(asdict(session)))
        os.replace(new, path)

    @staticmethod
    def _path(directory: Path, session_id: str) -> Path:
        # A client may ask for any id, of any length. Neither hashlib nor tempfile: every start would load them.
        encoded = session_id.encode("utf-8", "surrogatepass")
        return directory / f"{encoded.hex()[:200]}-{zlib.crc32(encoded):08x}.json"


def _read_file(path: Path) -> Session | None:
    try:
        stored = json.loads(path.read_text())
    except FileNotFoundError:
        return None
    return Session(**{**stored, "exchanges": [Exchange(**exchange) for exchange in stored["exchanges"]]})
