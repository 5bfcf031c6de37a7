"""An agent that is started to list its sessions and to load them.

It gets ``initialize`` without capabilities, ``session/list``, ``session/load`` without MCP servers and
``session/close``, and nothing else. What it asks is refused.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from acp_proxy import __version__
from acp_proxy.decisions.capabilities import CLOSE, LIST, LOAD, Offer, read_offer
from acp_proxy.errors import AcpProxyError
from acp_proxy.protocol import acp, update_kinds
from acp_proxy.protocol.jsonrpc import Notification, Response
from acp_proxy.tools.adopt.plan import OfferedSession, read_page
from acp_proxy.tools.doctor.agent_report import (
    AUTHENTICATION_REQUIRED,
    advise_on_silence,
    explain_failed_start,
    format_error,
)
from acp_proxy.tools.doctor.probe import NoAnswer, Probe

_MOST_PAGES = 10_000
_LONGEST_REPLAY = 256 * 1024 * 1024
"""Bytes: it is held in memory, to be compared and masked."""
_QUIET_SECONDS = 0.5
"""Agents replay before or after their answer, in parts, or not at all; nothing says when a replay is over."""
_SILENT_SECONDS = 2.0
"""How long to wait for a replay that has not begun before the answer."""
_LISTENING_SECONDS = 60.0
_CLOSE_SECONDS = 10.0


class CannotAdopt(AcpProxyError):
    """The agent's sessions cannot be adopted. The text says why, and what to do."""


class WrongAnswer(CannotAdopt):
    """The agent's answer is missing, or an error, of which ``doctor`` may say more."""


class NotLoaded(Exception):
    """The agent did not load a session. The text says why, and goes on a sentence."""


@dataclass(frozen=True, slots=True)
class AgentStart:
    """How to start an agent. ``environment``: None: ours. ``umask``: the user's own. ``seconds``: how long each answer
    may take."""

    command: list[str]
    environment: Mapping[str, str] | None = None
    umask: int = -1
    seconds: float = 60.0


@dataclass(frozen=True, slots=True)
class LoadedSession:
    """What an agent replayed. ``updates``: the lines, without newlines. ``result``: the answer to ``session/load``.
    ``is_broken``: the agent answers no more."""

    updates: list[bytes]
    result: object
    is_broken: bool = False


class AgentLoader:
    """A running agent that lists and loads its sessions. Use it in a ``with``, which ends the agent."""

    def __init__(self, start: AgentStart) -> None:
        """Start the agent, and ask what it offers. Raises CannotAdopt."""
        self._seconds = start.seconds
        self.loaded = 0
        """How many sessions it was asked to load."""
        try:
            self._probe = Probe(start.command, start.umask, start.environment)
        except OSError as problem:
            text, advice = explain_failed_start(start.command[0], problem)
            raise CannotAdopt(f"{text}. {advice}") from problem
        try:
            self.offer = self._ask_offer()
        except BaseException:
            self._probe.__exit__(None, None, None)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._probe.__exit__(kind, error, traceback)

    def list_sessions(self, cwd: str | None = None) -> list[OfferedSession]:
        """All pages of its list; with ``cwd``, also of its list for that directory: without one, some agents list only
        the project in which they were started (opencode). Raises CannotAdopt.
        """
        return [*self._read_pages({}), *(self._read_pages({"cwd": cwd}) if cwd is not None else ())]

    def _read_pages(self, list_params: Mapping[str, object]) -> Iterator[OfferedSession]:
        cursors: set[str] = set()
        params = list_params
        while len(cursors) < _MOST_PAGES:
            page, cursor = read_page(self._ask(acp.LIST, params).result)
            yield from page
            if cursor is None or cursor in cursors:
                break
            cursors.add(cursor)
            params = {**list_params, "cursor": cursor}

    def load(self, offered: OfferedSession) -> LoadedSession:
        """Load a session, and close it if the agent can do that. Raises NotLoaded, CannotAdopt (a login), NoAnswer."""
        self.loaded += 1
        collector = _ReplayCollector(offered.session_id)
        params: dict[str, object] = {"sessionId": offered.session_id, "cwd": offered.cwd, "mcpServers": list[object]()}
        if self.offer.supports_directories and offered.directories:
            params["additionalDirectories"] = list(offered.directories)
        answer = self._probe.ask(acp.LOAD, params, self._seconds, collector.take)
        if answer.error is not None:
            if acp.member(answer.error, "code") == AUTHENTICATION_REQUIRED:
                raise CannotAdopt(_LOGIN)
            raise NotLoaded(f"the agent refuses to load it: {format_error(answer.error)}")
        quiet_seconds = _QUIET_SECONDS if collector.has_begun else _SILENT_SECONDS
        is_broken = False
        try:
            self._probe.listen(quiet_seconds, _LISTENING_SECONDS, collector.take)
        except NoAnswer as end:
            if end.status != 0:
                raise
            is_broken = True  # it ends when it has served a load, as it should
        if CLOSE in self.offer.served_by_agent and not is_broken:
            try:
                self._probe.ask(acp.CLOSE, {"sessionId": offered.session_id}, _CLOSE_SECONDS, collector.take)
            except NoAnswer:
                is_broken = True
        if collector.size > _LONGEST_REPLAY:
            raise NotLoaded("its replay is larger than 256 MiB")
        return LoadedSession(collector.updates, answer.result, is_broken)

    def _ask_offer(self) -> Offer:
        client_info = {"name": "acp-proxy adopt", "version": __version__}
        params = {"protocolVersion": acp.VERSION, "clientCapabilities": dict[str, object](), "clientInfo": client_info}
        offer = read_offer(self._ask(acp.INITIALIZE, params).result)
        if offer.protocol_version != acp.VERSION:
            raise CannotAdopt(
                "the agent does not speak version 1 of the protocol. Open its sessions in your editor instead."
            )
        if LIST not in offer.served_by_agent:
            raise CannotAdopt(_NO_LIST)
        if LOAD not in offer.served_by_agent:
            raise CannotAdopt("the agent lists its sessions, but cannot load them, so there is nothing to adopt.")
        return offer

    def _ask(self, method: str, params: object) -> Response:
        """The agent's answer, which is no error. Raises CannotAdopt."""
        try:
            answer = self._probe.ask(method, params, self._seconds)
        except NoAnswer as problem:
            advice = advise_on_silence(self._probe, problem.status, shows_messages=False)
            raise WrongAnswer(f"at {method}, the agent {problem}. {advice}") from problem
        if acp.member(answer.error, "code") == AUTHENTICATION_REQUIRED:
            raise CannotAdopt(_LOGIN)
        if answer.error is not None:
            raise WrongAnswer(f"the agent answers {method} with an error: {format_error(answer.error)}.")
        return answer


_LOGIN = "the agent needs a login. Log in with its own command, then adopt again."
_NO_LIST = (
    "the agent cannot list its sessions, so acp-proxy cannot find them. If your editor remembers an old session, open"
    " it there through acp-proxy: it is kept from then on."
)


class _ReplayCollector:
    """The updates of one session, up to the size that is kept."""

    def __init__(self, session_id: str) -> None:
        self.updates: list[bytes] = []
        self.size = 0
        self.has_begun = False
        """Whether something that was said came, and not only the session's state."""
        self._session_id = session_id

    def take(self, message: Notification) -> None:
        if message.method == acp.UPDATE and acp.session_id(message.params) == self._session_id:
            kind = acp.update_kind(acp.member(message.params, "update"))
            self.has_begun |= update_kinds.is_conversation(kind)
            self.size += len(message.raw)
            if self.size <= _LONGEST_REPLAY:
                self.updates.append(message.raw)
