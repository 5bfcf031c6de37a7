"""Adopts the sessions of one agent: lists them, loads those that the store does not have, and keeps what it replays."""

import enum
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from acp_proxy.errors import NewerFormat, NotImported
from acp_proxy.protocol import timestamps
from acp_proxy.redaction.masking import Masking
from acp_proxy.sessions.command_store import CommandStore
from acp_proxy.store.command_names import may_run_others, name_command
from acp_proxy.tools.adopt.adopted import find_known, write_adopted
from acp_proxy.tools.adopt.agent_loader import AgentLoader, AgentStart, CannotAdopt, LoadedSession, NotLoaded
from acp_proxy.tools.adopt.growth import continues
from acp_proxy.tools.adopt.plan import AdoptionFilter, Choice, OfferedSession, choose_sessions, needs_restart
from acp_proxy.tools.adopt.transcript import compose_transcript, read_conversation, split_states
from acp_proxy.tools.doctor.probe import NoAnswer
from acp_proxy.tools.redact.redact_files import mask_bytes


class Result(enum.Enum):
    """What became of a session that the agent offered; the words are for people."""

    ADOPTED = "adopted"
    GROWN = "updated"
    SAME = "unchanged"
    EMPTY = "without messages"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class AdoptionResult:
    """What became of one session. ``reason``: why it was not adopted, as the end of a sentence."""

    offered: OfferedSession
    result: Result
    reason: str = ""


class Adoption:
    """The sessions of one agent, taken over. Use it in a ``with``, which ends the agent."""

    def __init__(
        self,
        store: CommandStore,
        start: AgentStart,
        session_filter: AdoptionFilter,
        masking: Masking | None,
        agent_id: str | None = None,
    ) -> None:
        """``agent_id``: the user's name for the agent."""
        self._store = store
        self._start = start
        self._session_filter = session_filter
        self._masking = masking
        self._agent_id = agent_id
        self._loader: AgentLoader | None = None
        self.folder = ""
        """The folder of the agent's sessions, once it was asked."""
        self._agent_info: dict[str, object] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._end_agent()

    def choose(self) -> Choice:
        """Start the agent, list its sessions, and choose. Raises AcpProxyError, OSError."""
        loader = self._start_agent()
        name = name_command(self._start.command)
        self.folder = self._store.choose_agent(
            self._agent_id, loader.offer.name, name, may_run_others=may_run_others(self._start.command)
        )
        self._agent_info = {"id": self.folder, "name": loader.offer.name, "version": loader.offer.agent_version}
        return choose_sessions(
            loader.list_sessions(self._session_filter.cwd),
            lambda session_id: find_known(self._store, self.folder, session_id),
            self._session_filter,
        )

    def load(self, choice: Choice) -> Iterator[AdoptionResult]:
        """Adopt the chosen sessions, one after the other. Each is kept as soon as it was loaded.

        Raises CannotAdopt if the agent cannot be started again, or needs a login; OSError if the store cannot be
        written.
        """
        for offered in choice.loads:
            if self._loader is not None and needs_restart(self._loader.loaded):
                self._end_agent()
            try:
                loaded = self._start_agent().load(offered)
            except NotLoaded as problem:
                yield AdoptionResult(offered, Result.FAILED, str(problem))
                continue
            except NoAnswer as problem:
                self._end_agent()
                yield AdoptionResult(offered, Result.FAILED, f"the agent {problem}")
                continue
            if loaded.is_broken:
                self._end_agent()
            yield self._keep(offered, loaded, is_known=offered.session_id in choice.adopted_before)

    def _keep(self, offered: OfferedSession, loaded: LoadedSession, *, is_known: bool) -> AdoptionResult:
        conversation_lines, states = split_states(loaded.updates)
        if not conversation_lines:
            return AdoptionResult(offered, Result.EMPTY)
        try:
            now, run = timestamps.format_now(time.time()), os.urandom(3).hex()
            transcript = compose_transcript(
                offered, self._agent_info, conversation_lines, states, loaded.result, now, run
            )
            if self._masking is not None:
                transcript = mask_bytes(transcript, self._masking)
            if is_known and not self._has_grown(offered.session_id, transcript):
                return AdoptionResult(offered, Result.SAME)
            imported = write_adopted(self._store, transcript)
        except (NotImported, NewerFormat) as problem:
            return AdoptionResult(offered, Result.FAILED, str(problem))
        return AdoptionResult(offered, Result.ADOPTED if imported.is_new else Result.GROWN)

    def _has_grown(self, session_id: str, transcript: bytes) -> bool:
        try:
            with self._store.open_to_read(self.folder, session_id) as reader:
                old_transcript = b"".join(reader.read_bytes(0))
        except FileNotFoundError:  # it has been deleted in the meantime, as the store will say
            return True
        return continues(read_conversation(old_transcript), read_conversation(transcript))

    def _start_agent(self) -> AgentLoader:
        """Start the agent if it does not run. Raises CannotAdopt."""
        if self._loader is None:
            try:
                self._loader = AgentLoader(self._start)
            except CannotAdopt:
                if not self._agent_info:
                    raise
                self._loader = AgentLoader(self._start)  # it has started before: a busy machine must not end it all
        return self._loader

    def _end_agent(self) -> None:
        loader, self._loader = self._loader, None
        if loader is not None:
            loader.__exit__(None, None, None)
