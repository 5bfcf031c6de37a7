"""Adopts the sessions of one agent: lists them, loads those that the store does not have, and keeps what it replays."""

import enum
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from acp_proxy.comparison.repeated_replays import continues
from acp_proxy.errors import NewerFormat, NotImported
from acp_proxy.protocol import timestamps
from acp_proxy.redaction.masking import Masking
from acp_proxy.store.command_names import may_run_others, name_command
from acp_proxy.store.command_store import CommandStore
from acp_proxy.tools.adopt.adopted import look_up, write_adopted
from acp_proxy.tools.adopt.agent_loader import AgentLoader, CannotAdopt, LoadedSession, NotLoaded, StartWords
from acp_proxy.tools.adopt.plan import Choice, OfferedSession, Wanted, choose_sessions, needs_restart
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
    """``why``: what happened, if the session was not adopted; it goes on a sentence."""

    listed: OfferedSession
    result: Result
    why: str = ""


class Adoption:
    """Use it in a ``with``, which ends the agent."""

    def __init__(
        self,
        store: CommandStore,
        start: StartWords,
        wanted: Wanted,
        masking: Masking | None,
        agent_id: str | None = None,
    ) -> None:
        """``agent_id``: the user's name for the agent."""
        self._store = store
        self._start = start
        self._wanted = wanted
        self._masking = masking
        self._agent_id = agent_id
        self._called: AgentLoader | None = None
        self.folder = ""
        """The folder of the agent's sessions, once it was asked."""
        self._about: dict[str, object] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._end_agent()

    def choose(self) -> Choice:
        """Start the agent, list its sessions, and choose. Raises AcpProxyError, OSError."""
        called = self._start_agent()
        name = name_command(self._start.command)
        self.folder = self._store.choose_agent(
            self._agent_id, called.offer.name, name, may_run_others=may_run_others(self._start.command)
        )
        self._about = {"id": self.folder, "name": called.offer.name, "version": called.offer.release}
        return choose_sessions(
            called.list_sessions(self._wanted.cwd),
            lambda session_id: look_up(self._store, self.folder, session_id),
            self._wanted,
        )

    def load(self, choice: Choice) -> Iterator[AdoptionResult]:
        """Adopt the chosen sessions, one after the other. Each is kept as soon as it was loaded.

        Raises Unable if the agent cannot be started again, or needs a login; OSError if the store cannot be written.
        """
        for listed in choice.loads:
            if self._called is not None and needs_restart(self._called.loaded):
                self._end_agent()
            try:
                replayed = self._start_agent().load(listed)
            except NotLoaded as problem:
                yield AdoptionResult(listed, Result.FAILED, str(problem))
                continue
            except NoAnswer as problem:
                self._end_agent()
                yield AdoptionResult(listed, Result.FAILED, f"the agent {problem}")
                continue
            if replayed.is_broken:
                self._end_agent()
            yield self._keep(listed, replayed, is_known=listed.session_id in choice.again)

    def _keep(self, listed: OfferedSession, replayed: LoadedSession, *, is_known: bool) -> AdoptionResult:
        conversation_lines, states = split_states(replayed.updates)
        if not conversation_lines:
            return AdoptionResult(listed, Result.EMPTY)
        try:
            now, run = timestamps.stamp(time.time()), os.urandom(3).hex()
            made = compose_transcript(listed, self._about, conversation_lines, states, replayed.result, now, run)
            if self._masking is not None:
                made = mask_bytes(made, self._masking)
            if is_known and not self._has_grown(listed.session_id, made):
                return AdoptionResult(listed, Result.SAME)
            taken = write_adopted(self._store, made)
        except (NotImported, NewerFormat) as problem:
            return AdoptionResult(listed, Result.FAILED, str(problem))
        return AdoptionResult(listed, Result.ADOPTED if taken.is_new else Result.GROWN)

    def _has_grown(self, session_id: str, made: bytes) -> bool:
        try:
            with self._store.open_session(self.folder, session_id) as reading:
                before = b"".join(reading.read_bytes(0))
        except FileNotFoundError:  # it was deleted meanwhile, as the store will say
            return True
        return continues(read_conversation(before), read_conversation(made))

    def _start_agent(self) -> AgentLoader:
        """Raises Unable."""
        if self._called is None:
            try:
                self._called = AgentLoader(self._start)
            except CannotAdopt:
                if not self._about:
                    raise
                self._called = AgentLoader(self._start)  # it has started before: a busy machine must not end it all
        return self._called

    def _end_agent(self) -> None:
        called, self._called = self._called, None
        if called is not None:
            called.__exit__(None, None, None)
