"""Recorded sessions, for programs: ``acp_proxy.open_store``. docs/python-api.md says how it is used.

Read-only: of a store nothing is changed but the index, which a list brings up to date. A store that is not there and a
session that is not in it are errors that say what to do.
"""

import os
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime

from acp_proxy.config import config_file
from acp_proxy.errors import NoStore, NoSuchSession
from acp_proxy.protocol import acp, jsonrpc
from acp_proxy.sessions.command_store import CommandStore
from acp_proxy.sessions.raw_lines import read_raw_lines
from acp_proxy.store.index_database import ListedSession
from acp_proxy.store.store_root import resolve_root
from acp_proxy.transcript.file_names import name_agent
from acp_proxy.views import conversation
from acp_proxy.views.conversation import SpokenMessage, ToolCall
from acp_proxy.views.moments import parse_moment

_STORE = "ACP_PROXY_STORE"


@dataclass(frozen=True, slots=True)
class Turn:
    """What the user said, and what the agent did until it was done. ``tool_calls``: their titles, in order.

    ``stop_reason``: as the agent gave it; None where the turn was cut short. ``error``: what went wrong, if so.
    """

    number: int
    started: datetime | None
    user: str
    agent: str
    tool_calls: tuple[str, ...]
    stop_reason: str | None
    error: str | None


class Session:
    """One recorded session. Its attributes are what a list says; its turns and entries are read when asked for."""

    def __init__(self, archive: CommandStore, listed: ListedSession) -> None:
        self._archive = archive
        self._listed = listed
        self.id = listed.session_id
        self.agent = name_agent(listed.agent_folder)
        self.cwd = listed.cwd
        self.title = listed.title
        self.updated = parse_moment(listed.updated)

    def __repr__(self) -> str:
        return f"<Session {self.id} of {self.agent}: {self.title!r}>"

    @property
    def created(self) -> datetime | None:
        """When its transcript began. Raises OSError."""
        with closing(self._archive.open_listed(self._listed)) as reader:
            return parse_moment(reader.header.created_at) if reader.header is not None else None

    def turns(self) -> Iterator[Turn]:
        """Oldest first, read one by one. Raises OSError."""
        with closing(self._archive.open_listed(self._listed)) as reader:
            yield from map(_make_turn, conversation.read_turns(reader, self.id))

    def entries(self) -> Iterator[dict[str, object]]:
        """The transcript's lines after its header, as docs/transcript-format.md has them. Raises OSError.

        A line that is no JSON object, since it is damaged or just being written, is left out.
        """
        with closing(self._archive.open_listed(self._listed)) as reader:
            for _, _, line in read_raw_lines(reader):
                try:
                    entry = jsonrpc.parse(line)
                except (ValueError, RecursionError):
                    continue
                if isinstance(entry, dict):
                    yield entry


class SessionStore:
    """A store of sessions, from ``open_store``. For one thread at a time."""

    def __init__(self, archive: CommandStore) -> None:
        self._archive = archive
        self.path = archive.root

    def sessions(self) -> list[Session]:
        """All that have a turn, of all agents, the one that was active last first."""
        return [Session(self._archive, listed) for listed in self._archive.list_newest()]

    def session(self, id: str) -> Session:
        """The one with this id; the newest where several have it. Raises NoSuchSession."""
        for listed in self._archive.find_named(id):
            if listed.session_id == id:
                return Session(self._archive, listed)
        raise NoSuchSession(f"no session {id!r} in {self.path}. The ids that are there: those of sessions()")


def open_store(path: str | os.PathLike[str] | None = None) -> SessionStore:
    """The store in this directory; else in ``ACP_PROXY_STORE``, else as the configuration file says, else in the user's
    data directory. Raises NoStore, and UsageError if the configuration file is needed and wrong.
    """
    place = path or os.environ.get(_STORE) or config_file.read_valid().get("store")
    root = resolve_root(os.fspath(place) if place else "")
    archive = CommandStore(root, create=False)
    if not archive.exists:
        raise NoStore(root)
    return SessionStore(archive)


def _make_turn(turn: conversation.ConversationTurn) -> Turn:
    calls = [item for item in turn.items if isinstance(item, ToolCall) and item.is_new]
    titles = tuple(acp.text(call.fields, "title") or "" for call in calls)
    user, agent = _join_messages(turn, "user"), _join_messages(turn, "agent")
    return Turn(turn.number, parse_moment(turn.started_at), user, agent, titles, turn.stop_reason, turn.error)


def _join_messages(turn: conversation.ConversationTurn, speaker: conversation.Speaker) -> str:
    """Its messages, a blank line between them."""
    messages = [item.blocks for item in turn.items if isinstance(item, SpokenMessage) and item.speaker == speaker]
    return "\n\n".join("".join(map(conversation.read_words, blocks)) for blocks in messages)
