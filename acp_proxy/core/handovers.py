"""Sessions that go on in a new one of the agent: who asks for it, and how the record of the conversation gets there.

The record of a session waits until a prompt that carried it was answered with a result. Until then the transcript does
not say that the session was handed over, so that whoever opens it next hands it over again. A prompt that the agent
refuses, since it does not know the session that it has just loaded, is sent again in this way.
"""

import contextlib

from acp_proxy.core import handover
from acp_proxy.core.aliases import Aliases
from acp_proxy.core.effects import Effect, Forward
from acp_proxy.core.handover import Briefed
from acp_proxy.core.load import Load
from acp_proxy.core.under_way import HELD_LIMIT
from acp_proxy.wire import acp, jsonrpc
from acp_proxy.wire.jsonrpc import Notification, Peer, Request, RequestId

AT_MOST = 1000
"""Sessions that can be handed over in one process; each may have 64 KiB waiting for its prompt."""
RESENT_LIMIT = 1024 * 1024
"""Bytes of a prompt that are kept to be sent again. The agent's refusal of a longer one passes."""


class Unnamed:
    """Updates of a session that the agent may have opened for us: its answer will tell."""

    def __init__(self) -> None:
        self._lines: list[tuple[bytes, bool]] = []
        self._size = 0

    def wait(self, line: bytes, *, is_with_client: bool) -> bytes:
        """One more waits. Where too much does, all goes to the client as it came.

        ``is_with_client``: the client may have opened the session itself, and has the update already.
        """
        if self._size + len(line) <= HELD_LIMIT:
            self._size += len(line)
            self._lines.append((line, is_with_client))
            return b""
        if is_with_client:
            return b""
        lines, self._lines, self._size = self._lines, [], 0
        return b"".join(waited for waited, is_there in [*lines, (line, is_with_client)] if not is_there)

    def named(self, names: Aliases) -> list[bytes]:
        """The answer is there: what is still to be decided on. Not what the client has, unless it is our session's."""
        lines, self._lines, self._size = self._lines, [], 0
        return [line for line, is_there in lines if not is_there or names.knows(line)]


class Handovers:
    def __init__(self) -> None:
        self.unnamed = Unnamed()
        self.unwanted: set[str] = set()
        """Sessions that the agent opened for loads that were given up meanwhile: nobody knows of them."""
        self._records: dict[str, str] = {}
        """What the next prompt of a session carries."""
        self._carried: dict[RequestId, str] = {}
        """Prompts that carry one now, and their sessions."""
        self._briefed: dict[str, Briefed] = {}
        """What a session's agent has been given."""
        self._opened: dict[str, str] = {}
        """The agent's id of a session whose record was not delivered yet."""
        self._asked_for: dict[RequestId, Load] = {}
        self._asked = 0
        self._first: dict[str, tuple[Load, Request]] = {}
        """The first prompt behind a load, and that load."""

    # --- a new session

    @property
    def is_asking(self) -> bool:
        """Whether the agent opens a session for us, whose id nobody knows yet."""
        return bool(self._asked_for)

    @property
    def are_too_many(self) -> bool:
        return self._asked == AT_MOST

    def ask(self, load: Load) -> Effect:
        """Ask the agent for a new session. Raises ValueError, KeyError where the load's parameters are none."""
        self._asked += 1
        id = RequestId(f'"{handover.OWN_IDS}{self._asked}"')
        line = handover.new_session(id, load.request)
        self._asked_for[id] = load
        return Forward(Peer.AGENT, line, own=True)

    def asked_by_us(self, id: RequestId | None) -> Load | None:
        """The load for which we have asked this; it is answered now."""
        return self._asked_for.pop(id, None) if id is not None else None

    def nobody_answers(self) -> None:
        self._asked_for.clear()

    def opened(self, session: str, agents: str) -> None:
        self._opened[session] = agents

    # --- the record

    def is_undelivered(self, session: str) -> bool:
        """Whether it goes on in a new session of the agent, which has not got the record yet."""
        return session in self._opened

    def keep(self, session: str, record: str) -> None:
        if record:
            self._records[session] = record

    def drop(self, session: str) -> None:
        """It was deleted."""
        for kept in (self._records, self._briefed, self._opened, self._first):
            kept.pop(session, None)

    def carried(self, line: bytes, prompt: Request, session: str) -> bytes:
        """A prompt as the agent gets it: with the record in front of it, where one waits and it is no command."""
        record = self._records.get(session)
        if record is None or session in self._carried.values():
            return line
        if handover.is_command(acp.member(prompt.params, "prompt")):
            return line
        with contextlib.suppress(ValueError, KeyError):  # a prompt that is none: the agent will say so
            line = handover.with_brief(line, record)
            self._carried[prompt.id] = session
            self._briefed[session] = Briefed(record)
        return line

    def delivered(self, prompt: RequestId, *, succeeded: bool) -> tuple[str, str] | None:
        """A prompt was answered. The session, and the agent's id of it, where it is handed over for good now."""
        session = self._carried.pop(prompt, None)
        if session is None or not succeeded:
            return None
        self._records.pop(session, None)
        agents = self._opened.pop(session, None)
        return (session, agents) if agents is not None else None

    def is_briefed(self, session: str) -> bool:
        return session in self._briefed

    def without_record(self, session: str, line: bytes, message: Notification) -> tuple[bytes, Notification] | None:
        """An update less what it tells of the record; None where nothing else is in it."""
        briefed = self._briefed.get(session)
        return _without_record(line, message, briefed) if briefed is not None else (line, message)

    # --- a prompt that is sent again

    def prompted_first(self, load: Load, prompt: Request) -> None:
        """The first prompt behind a load: it is sent again where the agent turns out not to know the session."""
        if load.has_transcript and not load.is_handed_over and len(prompt.raw) <= RESENT_LIMIT:
            self._first[load.session] = load, prompt

    def refused_first(self, session: str, prompt: RequestId, error: object) -> tuple[Load, Request] | None:
        """The prompt that is to be sent again, and the load before it."""
        found = self._first.pop(session, None)
        if found is None or found[1].id != prompt or error is None or not handover.is_unknown(error, session):
            return None
        return found


def _without_record(line: bytes, message: Notification, briefed: Briefed) -> tuple[bytes, Notification] | None:
    update = acp.member(message.params, "update")
    kind, title = acp.update_kind(update), acp.text(update, "title")
    if kind == acp.SESSION_INFO and title is not None and briefed.is_title(title):
        return None
    text = acp.text(acp.member(update, "content"), "text") if kind == acp.USER_CHUNK else None
    if text is None or (left := briefed.words(text)) == text:
        return line, message
    try:
        line = acp.with_chunk_text(line, left)
    except (ValueError, KeyError):
        return line, message
    told = jsonrpc.read_message(line)
    return (line, told) if left and isinstance(told, Notification) else None
