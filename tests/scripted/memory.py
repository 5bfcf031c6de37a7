"""The scripted agent's memory: its sessions, their prompts and its answers.

With a directory, each session is one JSON file, replaced atomically, so that it outlives the process. Without one, the
memory ends with the process. Two processes may share a directory; the last write of a session wins.
"""

from __future__ import annotations

import json
import os
import threading
import time
import zlib
from contextlib import suppress

TYPE_CHECKING = False  # as in typing, which takes a fifth of a start
if TYPE_CHECKING:
    from typing import Any

TITLE_LIMIT = 80  # fits in one line of a session list


class Exchange:
    """The text of a prompt, and of its answer."""

    def __init__(self, prompt: str, answer: str = "") -> None:
        self.prompt = prompt
        self.answer = answer


class Session:
    def __init__(self, id: str, cwd: str, exchanges: list[Exchange], updated_at: str = "") -> None:
        self.id = id
        self.cwd = cwd
        self.exchanges = exchanges
        self.updated_at = updated_at

    @property
    def title(self) -> str | None:
        lines = self.exchanges[0].prompt.strip().splitlines() if self.exchanges else []
        return lines[0][:TITLE_LIMIT] if lines else None


class Memory:
    def __init__(self, directory: str | os.PathLike[str] | None = None) -> None:
        self._directory = None if directory is None else os.fspath(directory)
        self._sessions: dict[str, Session] = {}
        self._lock = threading.Lock()
        if directory is not None:
            os.makedirs(directory, exist_ok=True)

    def create(self, session_id: str, cwd: str, exchanges: list[Exchange] | None = None) -> None:
        with self._lock:
            self._save(Session(session_id, cwd, list(exchanges or [])))

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
                with suppress(FileNotFoundError):
                    os.unlink(_path(self._directory, session_id))

    def all(self) -> list[Session]:
        """Every session, newest first."""
        with self._lock:
            if self._directory is None:
                sessions = list(self._sessions.values())
            else:
                files = [file.path for file in os.scandir(self._directory) if file.name.endswith(".json")]
                found = (_read_file(path) for path in files)
                sessions = [session for session in found if session is not None]
        return sorted(sessions, key=lambda session: (session.updated_at, session.id), reverse=True)

    def _read(self, session_id: str) -> Session | None:
        if self._directory is None:
            return self._sessions.get(session_id)
        return _read_file(_path(self._directory, session_id))

    def _save(self, session: Session) -> None:
        now = time.time()
        session.updated_at = f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(now))}.{int(now % 1 * 1000):03}Z"
        if self._directory is None:
            self._sessions[session.id] = session
            return
        path = _path(self._directory, session.id)
        new = f"{path}.{os.getpid()}.tmp"
        with open(new, "w") as file:
            json.dump(vars(session) | {"exchanges": [vars(exchange) for exchange in session.exchanges]}, file)
        os.replace(new, path)


def _path(directory: str, session_id: str) -> str:
    # A client may ask for any id, of any length.
    encoded = session_id.encode("utf-8", "surrogatepass")
    return os.path.join(directory, f"{encoded.hex()[:200]}-{zlib.crc32(encoded):08x}.json")


def _read_file(path: str) -> Session | None:
    try:
        with open(path) as file:
            stored: dict[str, Any] = json.load(file)
    except FileNotFoundError:
        return None
    return Session(**{**stored, "exchanges": [Exchange(**exchange) for exchange in stored["exchanges"]]})
