"""Answers all requests to the mock agent except prompts. Pure, except that this changes the sessions.

Raises ``RequestRefused`` and ``InvalidParams`` for errors.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from acp_proxy import __version__
from acp_proxy.protocol import acp, agent_terminals, jsonrpc, update_kinds, versions
from acp_proxy.protocol.acp import InvalidParams
from acp_proxy.protocol.jsonrpc import Request
from acp_proxy.tools.mock_agent.sessions import PlayedSession, PlayedSessions
from acp_proxy.tools.mock_agent.turn_player import TurnLines, replace_line
from acp_proxy.transcript.file_format import Entry

Capabilities = Literal["resume-only", "none", "full"]

NAME = "acp-proxy-mock-agent"
METHOD_NOT_FOUND = -32601

_OFFERED_METHODS: dict[Capabilities, tuple[str, ...]] = {
    "full": (acp.LOAD, acp.LIST, acp.RESUME, acp.DELETE),
    "resume-only": (acp.RESUME,),
    "none": (),
}
_ANY_PROMPT = {"image": True, "audio": True, "embeddedContext": True}
_ANY_SERVER = {"http": True, "sse": True}
"""The mock does not inspect what a client sends, so no value is too long."""


class RequestRefused(Exception):
    """The request is answered with this error."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass
class Reply:
    """The result of a request, and the lines to send before and after it."""

    result: dict[str, object]
    lines_before: list[bytes] = field(default_factory=list)
    lines_after: list[bytes] = field(default_factory=list)


class RequestHandlers:
    """Answers requests about ``sessions``; ``capabilities``: the optional methods on offer."""

    def __init__(self, sessions: PlayedSessions, capabilities: Capabilities) -> None:
        self._sessions = sessions
        self._offered = _OFFERED_METHODS[capabilities]
        self._kinds: frozenset[str] = frozenset()
        self._client_shows_agent_terminals = False
        self.speaks_v2 = False
        """Whether the client speaks version 2."""
        required_handlers: dict[str, Callable[[object], Reply]] = {
            acp.INITIALIZE: self._answer_initialize,
            acp.NEW: self._answer_new,
            acp.SET_MODE: self._set_mode,
            acp.SET_CONFIG_OPTION: self._set_config_option,
        }
        optional_handlers = {
            acp.LIST: self._list,
            acp.LOAD: self._load,
            acp.RESUME: self._resume,
            acp.DELETE: self._delete,
        }
        self._handlers = required_handlers | {
            method: handler for method, handler in optional_handlers.items() if method in self._offered
        }

    def answer(self, request: Request) -> Reply:
        """The answer to a request. Raises RequestRefused, InvalidParams."""
        as_v1 = versions.V2.read_as_v1(request) if self.speaks_v2 else request
        handler = self._handlers.get(as_v1.method) if isinstance(as_v1, Request) else None
        if handler is None or (self.speaks_v2 and request.method == acp.LOAD):
            raise RequestRefused(METHOD_NOT_FOUND, f"Method not found: {request.method}")
        return handler(request.params)

    def find_prompted(self, params: object) -> PlayedSession:
        """The session of a prompt, which must be open. Raises RequestRefused, InvalidParams."""
        session = self._find_open(params)
        blocks = acp.member(params, "prompt")
        if not isinstance(blocks, list) or not all(isinstance(block, dict) for block in blocks):
            raise InvalidParams("prompt must be an array of blocks")
        return session

    def _answer_initialize(self, params: object) -> Reply:
        version = acp.member(params, "protocolVersion")
        if type(version) is not int:
            raise InvalidParams("protocolVersion must be an integer")
        agent_info = {"name": NAME, "title": "Mock agent", "version": __version__}
        if version >= versions.V2.version or self.speaks_v2:
            return self._answer_initialize_v2(agent_info)
        client_capabilities = acp.member(params, "clientCapabilities")
        self._kinds = update_kinds.find_allowed(client_capabilities)
        self._client_shows_agent_terminals = agent_terminals.are_shown(client_capabilities)
        capabilities = {
            "loadSession": acp.LOAD in self._offered,
            "promptCapabilities": _ANY_PROMPT,
            "mcpCapabilities": _ANY_SERVER,
            "sessionCapabilities": {method.split("/")[1]: {} for method in self._offered if method != acp.LOAD},
        }
        result = {"protocolVersion": acp.VERSION, "agentCapabilities": capabilities}
        return Reply({**result, "agentInfo": agent_info, "authMethods": []})

    def _answer_initialize_v2(self, agent_info: object) -> Reply:
        if not self.speaks_v2:
            self.speaks_v2 = True
            self._sessions.use_v2()
            del self._handlers[acp.SET_MODE]
            self._handlers |= {acp.LIST: self._list, acp.LOAD: self._load}
            self._handlers |= {acp.RESUME: self._resume, acp.CLOSE: self._close}
        deletes: dict[str, object] = {"delete": {}} if acp.DELETE in self._offered else {}
        session = {"prompt": {name: {} for name in _ANY_PROMPT}, **deletes}
        return Reply({"protocolVersion": versions.V2.version, "info": agent_info, "capabilities": {"session": session}})

    def _answer_new(self, params: object) -> Reply:
        session = self._sessions.begin(_read_directory(params), acp.strings(params, "additionalDirectories"))
        turn_lines, lines_after = TurnLines(session.id), []
        for entry in self._sessions.first_updates:
            if (line := turn_lines.encode_entry(entry)) is not None and not (self.speaks_v2 and _is_mode(entry)):
                lines_after.append(line)
                session.take(replace_line(entry, line))
        return Reply({"sessionId": session.id} | self._describe_state(session), lines_after=lines_after)

    def _list(self, params: object) -> Reply:
        cwd = acp.optional_text(params, "cwd")
        if cwd is not None and not acp.is_absolute(cwd):
            raise InvalidParams("cwd must be an absolute path")
        if acp.optional_text(params, "cursor") is not None:
            raise RequestRefused(jsonrpc.INVALID_PARAMS, "Invalid cursor")
        return Reply({"sessions": self._sessions.list_as_acp(cwd)})

    def _load(self, params: object) -> Reply:
        session = self._open(params)
        before, after = (
            session.make_replay_v2()
            if self.speaks_v2
            else session.make_replay(self._kinds, client_shows_agent_terminals=self._client_shows_agent_terminals)
        )
        return Reply(self._describe_state(session), before, after)

    def _resume(self, params: object) -> Reply:
        session = self._open(params)
        idle = versions.V2.encode_work_state(session.id, is_busy=False) if self.speaks_v2 else None
        after = session.make_replay_v2()[1] if self.speaks_v2 else session.make_replay()[1]
        return Reply(self._describe_state(session), [idle] if idle is not None else [], after)

    def _close(self, params: object) -> Reply:
        self._find_open(params).is_open = False
        return Reply({})

    def _describe_state(self, session: PlayedSession) -> dict[str, object]:
        """What an answer says about modes, which version 2 does not have, and options."""
        state = session.state.describe()
        return {name: value for name, value in state.items() if not (self.speaks_v2 and name == "modes")}

    def _delete(self, params: object) -> Reply:
        self._sessions.delete(acp.required_text(params, "sessionId"))
        return Reply({})

    def _set_mode(self, params: object) -> Reply:
        mode = acp.required_text(params, "modeId")
        if not self._find_open(params).state.set_mode(mode):
            raise InvalidParams(f"no mode {mode!r} is recorded")
        return Reply({})

    def _set_config_option(self, params: object) -> Reply:
        id, state = acp.required_text(params, "configId"), self._find_open(params).state
        if not state.set_option(id, acp.member(params, "value")):
            raise InvalidParams(f"no option {id!r} with this value is recorded")
        return Reply({"configOptions": state.options})

    def _open(self, params: object) -> PlayedSession:
        _read_directory(params)
        session = self._find(params)
        session.is_open = True
        return session

    def _find_open(self, params: object) -> PlayedSession:
        session = self._find(params)
        if not session.is_open:
            raise RequestRefused(
                jsonrpc.RESOURCE_NOT_FOUND, f"Session not found: {session.id} (it has not been opened)"
            )
        return session

    def _find(self, params: object) -> PlayedSession:
        id = acp.required_text(params, "sessionId")
        session = self._sessions.find(id)
        if session is None:
            raise RequestRefused(jsonrpc.RESOURCE_NOT_FOUND, f"Session not found: {id}")
        return session


def _is_mode(entry: Entry) -> bool:
    return acp.update_kind(acp.member(acp.member(entry.value, "params"), "update")) == update_kinds.CURRENT_MODE


def _read_directory(params: object) -> str:
    cwd = acp.required_text(params, "cwd")
    if not acp.is_absolute(cwd):
        raise InvalidParams("cwd must be an absolute path")
    return cwd
