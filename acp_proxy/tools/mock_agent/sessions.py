"""The mock agent's sessions: recorded and new ones. They are in memory, for one process.

A session is a list of entries, recorded or played since. Lists and loads are made from them as in the proxy. The same
requests produce the same bytes: ids are counted, and times are the recorded ones.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from acp_proxy.protocol import acp, jsonrpc, update_kinds, versions
from acp_proxy.tools.mock_agent.state import PlayedState
from acp_proxy.tools.mock_agent.steps import RecordedTurn, cut_into_turns
from acp_proxy.transcript import file_format
from acp_proxy.transcript.file_format import Entry, Header
from acp_proxy.transcript.summary import Summary
from acp_proxy.transcript.v2_entries import V2AsV1
from acp_proxy.transcript_replay.replayer import Replayer
from acp_proxy.transcript_replay.v2_client_replayer import V2ClientReplayer
from acp_proxy.transcript_replay.v2_replayer import V2Replayer

RUN = "mock00"
"""The run of this connection's entries, among the recorded runs."""
_NEW_ID_PREFIX = "mock-session-"


@dataclass
class PlayedSession:
    """A session. ``is_open``: a client has opened it in this process, so it may be prompted."""

    header: Header
    summary: Summary
    state: PlayedState = field(default_factory=PlayedState)
    entries: list[Entry] = field(default_factory=list)
    recorded_entries: list[Entry] = field(default_factory=list)
    """The entries of the transcript; those of version 2 are retold in ``entries``, unless a client speaks that."""
    played_prompts: int = 0
    """How many prompts were played."""
    is_open: bool = False

    @property
    def id(self) -> str:
        """The session's id."""
        return self.header.session_id

    def take(self, entry: Entry) -> None:
        """Add an entry."""
        self.entries.append(entry)
        self.summary.add(entry)
        self.state.take(entry)

    def describe(self) -> dict[str, object]:
        """The entry of a list."""
        optional: dict[str, object] = {"title": self.summary.title, "updatedAt": self.summary.updated}
        known_members = {name: value for name, value in optional.items() if value is not None}
        return {"sessionId": self.id, "cwd": self.summary.cwd or "/", **known_members}

    def make_replay(
        self, kinds: frozenset[str] = frozenset(), *, client_shows_agent_terminals: bool = True
    ) -> tuple[list[bytes], list[bytes]]:
        """The replay for a load: the lines before the answer, and those after it.

        ``kinds``: the optional kinds of updates that the client supports. ``client_shows_agent_terminals``: as for
        ``Replayer``.
        """
        replayer = Replayer(
            self.id,
            run_id=RUN,
            other_ids=frozenset(self.header.forked_from),
            client_update_kinds=kinds,
            client_shows_agent_terminals=client_shows_agent_terminals,
        )
        lines = [line for number, entry in enumerate(self.entries, 1) for line in replayer.add(number, entry)]
        return [*lines, *replayer.end()], [*replayer.list_states(), *self._encode_title()]

    def make_replay_v2(self) -> tuple[list[bytes], list[bytes]]:
        """As ``make_replay``, for a client of version 2."""
        other_ids = frozenset(self.header.forked_from)
        v1_replayer = Replayer(
            self.id,
            run_id=RUN,
            other_ids=other_ids,
            client_update_kinds=update_kinds.OPTIONAL,
            client_shows_agent_terminals=False,
        )
        replayer = V2ClientReplayer(self.id, v1_replayer, V2Replayer(self.id, other_ids=other_ids))
        replayer.new_session_count = sum(file_format.begins_new_session(entry.note) for entry in self.entries)
        lines = [line for number, entry in enumerate(self.entries, 1) for line in replayer.add(number, entry)]
        idle = versions.V2.encode_work_state(self.id, is_busy=False) or b""
        return [*lines, *replayer.end(), idle], self._encode_title()

    def _encode_title(self) -> list[bytes]:
        if not (info := self.summary.make_info()):
            return []
        update = {"sessionUpdate": update_kinds.SESSION_INFO, **info}
        return [jsonrpc.encode_notification(acp.UPDATE, {"sessionId": self.id, "update": update})]


def read_session(header: Header, entries: Iterable[Entry]) -> PlayedSession:
    """The session of a transcript. Turns of version 2 are also read as turns of version 1, for clients of that."""
    session, as_v1 = PlayedSession(header, Summary.begin(header)), V2AsV1(at_once=True)
    for entry in entries:
        session.recorded_entries.append(entry)
        is_first = entry.protocol_version == file_format.ACP_V1 and as_v1.is_idle
        for entry_as_v1 in [entry] if is_first else as_v1.add(entry):
            session.take(entry_as_v1)
    return session


class PlayedSessions:
    """All sessions of the agent."""

    def __init__(self, recorded: Sequence[PlayedSession]) -> None:
        self._by_id = {session.id: session for session in recorded}
        self._recorded = frozenset(self._by_id)
        self._new_count = 0
        self.turns: list[RecordedTurn] = [
            turn for session in recorded for turn in cut_into_turns(session.id, session.entries)
        ]
        self.first_updates: list[Entry] = [*_select_announced(recorded[0].entries)] if recorded else []
        """The first updates of a new session, such as commands: those of the first transcript."""
        self._state = next(
            (state for session in recorded if (state := _read_state(session.entries)).is_known), PlayedState()
        )

    def use_v2(self) -> None:
        """Play what was recorded in version 2 as it came, since the client speaks that."""
        for session in self._by_id.values():
            session.entries = list(session.recorded_entries)
        self.turns[:] = [
            turn for session in self._by_id.values() for turn in cut_into_turns(session.id, session.entries)
        ]

    def begin(self, cwd: str, directories: list[str]) -> PlayedSession:
        """Begin a session, with the modes and options of the first recorded session that had any."""
        self._new_count += 1
        while (id := f"{_NEW_ID_PREFIX}{self._new_count}") in self._by_id:
            self._new_count += 1
        header = Header(id, cwd, file_format.RECORDED, "", directories)
        self._by_id[id] = PlayedSession(header, Summary.begin(header), self._state.copy(), is_open=True)
        return self._by_id[id]

    def find(self, id: str) -> PlayedSession | None:
        """The session with this id, or None."""
        return self._by_id.get(id)

    def delete(self, id: str) -> None:
        """Delete a session, if it exists."""
        self._by_id.pop(id, None)

    def list_as_acp(self, cwd: str | None) -> list[dict[str, object]]:
        """The recorded and the prompted sessions, newest first; ``cwd``: only those of this directory."""
        listed = [
            session for session in self._by_id.values() if session.summary.prompts or session.id in self._recorded
        ]
        listed.sort(key=lambda session: session.summary.updated or "", reverse=True)
        rows = [session.describe() for session in listed]
        return [row for row in rows if cwd is None or _is_same(str(row["cwd"]), cwd)]


def _select_announced(entries: Iterable[Entry]) -> Iterable[Entry]:
    for entry in entries:
        if entry.is_prompt:
            return
        update = acp.member(acp.member(entry.value, "params"), "update")
        if acp.text(entry.value, "method") == acp.UPDATE and not update_kinds.is_conversation(acp.update_kind(update)):
            yield entry


def _read_state(entries: Iterable[Entry]) -> PlayedState:
    """The modes and options of their first announcement."""
    state = PlayedState()
    for entry in entries:
        if entry.note is not None and not state.is_known:
            state.take(entry)
    return state


def _is_same(first: str, second: str) -> bool:
    return first.rstrip("/") == second.rstrip("/")
