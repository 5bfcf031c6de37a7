"""Reads what the agent offers, decides what acp-proxy adds, and writes that into the answer to ``initialize``.

Also adds the server of recall to requests that open a session.

Source: AgentCapabilities in the protocol's schema.
"""

from collections.abc import Mapping
from typing import Any, Final, Literal

from msgspec import Struct

from acp_proxy.protocol import acp, json_splice, jsonrpc, proxy_ids, versions
from acp_proxy.protocol.jsonrpc import Message, Request
from acp_proxy.protocol.versions import Dialect

LIST, LOAD, DELETE, RESUME = "list", "load", "delete", "resume"
TITLE, ARCHIVE, STATUS = "title", "archive", "status"
"""Drafts of the protocol."""
Mode = Literal["auto", "agent", "store"]
"""Who answers. ``auto``: the agent, as far as it can."""
HandoverMode = Literal["auto", "always", "never"]
"""When a session is handed over. ``auto``: if the agent does not know it. ``always``: unless it wants a login."""
AUTO: Final = "auto"
AGENT: Final = "agent"
STORE: Final = "store"
ALWAYS: Final = "always"
NEVER: Final = "never"
CLOSE = "close"
_SESSION_CAPABILITIES = (LIST, DELETE, RESUME, CLOSE, "fork", TITLE, ARCHIVE, STATUS)
_CONTENT_CAPABILITIES = {"image": "image", "audio": "audio", "resource": "embeddedContext"}
"""Types of content blocks, and the capability that an agent takes them with."""
_META_MEMBER = "acp-proxy"
"""The member of ``agentCapabilities._meta`` by which acp-proxy can be recognised."""
RECALL_SERVER_NAME = "acp-proxy"
"""The name of the MCP server with which an agent looks up earlier sessions (``acp-proxy mcp``)."""


class Modes(Struct, frozen=True):
    """The options for who answers what. ``unstable``: serve drafts too."""

    list: Mode = AUTO
    load: Mode = AUTO
    delete: Mode = AUTO
    resume: Mode = AUTO
    handover: HandoverMode = AUTO
    unstable: bool = False


def read_modes(values: Mapping[str, str]) -> Modes:
    """The modes that the options of ``run`` ask for. ``values``: those of all options, which were checked."""
    services: dict[str, Any] = {name: values[name] for name in ("list", "load", "delete", "resume", "handover")}
    return Modes(**services, unstable=bool(values["unstable"]))


class Settings(Struct, frozen=True):
    """The options of one process.

    ``records``: there is a store, and the user wants to record. ``serves``: the user wants acp-proxy to add
    capabilities. ``proxy_version``: acp-proxy's version. ``modes``: who answers what. ``store_id``: an id of the store.
    ``is_chained``: part of a chain, in which others may record into the same store. ``recall_command``: the command of
    the MCP server that looks up earlier sessions; empty: none is wanted.
    """

    records: bool
    serves: bool
    proxy_version: str
    modes: Modes = Modes()
    store_id: str | None = None
    is_chained: bool = False
    recall_command: tuple[str, ...] = ()


class Offer(Struct, frozen=True):
    """The contents of the agent's answer to ``initialize``.

    ``protocol_version``: its ``protocolVersion``, unchecked. ``served_by_agent``: what it serves itself (``list``,
    ``load``, …). ``name``, ``agent_version``: its name and version. ``supports_directories``: it supports additional
    directories. ``supports_sessions``: False if it says that it serves no sessions. ``store_id``: the id of the store
    into which an acp-proxy nearer to the agent records, if that is part of a chain. ``starts_servers``: it starts MCP
    servers. ``accepted_content``: the types of content blocks that it takes in a prompt, beside those that every agent
    takes.
    """

    protocol_version: object
    served_by_agent: frozenset[str]
    name: str | None
    agent_version: str | None
    supports_directories: bool
    supports_sessions: bool = True
    store_id: str | None = None
    starts_servers: bool = True
    accepted_content: frozenset[str] = frozenset()

    @property
    def dialect(self) -> Dialect | None:
        """The dialect of its version, if that is understood."""
        return versions.find_dialect(self.protocol_version)

    def records_into(self, store_id: str | None) -> bool:
        """Whether an acp-proxy nearer to the agent records into this store."""
        return self.store_id is not None and self.store_id == store_id


class Services(Struct):
    """Who answers what.

    ``may_serve``: there is a store, and the options allow acp-proxy to add something. ``is_ready``: in addition, the
    agent has answered ``initialize``, and has sessions. ``served_by_agent``: the names of the agent's capabilities;
    ``served_here``: of those that acp-proxy serves; both are empty before that answer. ``fills_titles``: acp-proxy
    gives titles to sessions that have none from the agent. ``jetbrains_index_capabilities``: the parts of JetBrains'
    index that the agent offers this client.
    """

    modes: Modes
    may_serve: bool
    served_by_agent: frozenset[str] = frozenset()
    served_here: tuple[str, ...] = ()
    supports_directories: bool = False
    is_ready: bool = False
    fills_titles: bool = False
    jetbrains_index_capabilities: frozenset[str] = frozenset()

    @property
    def may_amend_lists(self) -> bool:
        return self.may_serve and self.modes.list != AGENT

    @property
    def amends_agents_list(self) -> bool:
        """Whether the agent's own list passes with changes."""
        return self.may_amend_lists and LIST not in self.served_here

    @property
    def amends_jetbrains_index(self) -> bool:
        """Whether JetBrains' index is amended: then the agent's list is that of the index."""
        return bool(self.jetbrains_index_capabilities) and self.may_amend_lists

    @property
    def opens_other_agents_sessions(self) -> bool:
        """Whether sessions of other agents can be opened."""
        return self.modes.handover != NEVER and self.modes.load != AGENT

    def agent_serves(self, capability: str) -> bool:
        """Whether the agent serves this itself, or has it in its index."""
        return capability in self.served_by_agent | self.jetbrains_index_capabilities

    def serves_method(self, method: str) -> bool:
        """Whether acp-proxy serves this method, for which a capability of the same name stands in ``served_here``."""
        return method.removeprefix("session/") in self.served_here

    def serves_delete(self, params: object) -> bool:
        """Whether acp-proxy answers a ``session/delete`` with these parameters. The agent does not know the ids
        that acp-proxy gave."""
        has_proxy_id = proxy_ids.is_proxy_id(acp.session_id(params) or "")
        return DELETE in self.served_here or (has_proxy_id and self.is_ready and self.modes.delete != AGENT)


def read_offer(result: object) -> Offer:
    """Read the result of ``initialize``. Anything may be missing."""
    version = acp.member(result, "protocolVersion")
    dialect = versions.find_dialect(version) or versions.V1
    capabilities = acp.member(result, dialect.capabilities_member)
    sessions = acp.member(capabilities, dialect.sessions_member)
    served_by_agent = {name for name in _SESSION_CAPABILITIES if acp.has_capability(sessions, name)}
    if acp.has_capability(capabilities, "loadSession"):
        served_by_agent.add(LOAD)
    prompts = acp.member(capabilities, "promptCapabilities")
    has_sessions = isinstance(sessions, Mapping) or not dialect.requires_session_capabilities
    info = acp.member(result, dialect.info_member)
    return Offer(
        protocol_version=version,
        served_by_agent=frozenset(served_by_agent) | (dialect.always_served if has_sessions else frozenset()),
        name=acp.text(info, "name") or None,
        agent_version=acp.text(info, "version"),
        supports_directories=acp.has_capability(sessions, "additionalDirectories"),
        supports_sessions=has_sessions,
        store_id=acp.text(acp.member(acp.member(capabilities, "_meta"), _META_MEMBER), "store"),
        starts_servers=dialect.agent_starts_servers(sessions),
        accepted_content=frozenset(
            kind for kind, name in _CONTENT_CAPABILITIES.items() if acp.has_capability(prompts, name)
        ),
    )


def explain_unknown_version(offer: Offer) -> str:
    """Why acp-proxy records nothing of an agent whose answer has a ``protocolVersion`` that it does not understand."""
    version = "none"
    if offer.protocol_version is not None:
        version = jsonrpc.make_printable(jsonrpc.dump(offer.protocol_version).decode())
    return f"the agent's protocolVersion is {version}, and acp-proxy records versions 1 and 2"


def choose_served_here(offer: Offer, modes: Modes) -> tuple[str, ...]:
    """What acp-proxy serves: what the agent lacks and acp-proxy can do, and what the options ask for anyway.

    Does not include a load that the agent serves, although its replay may be replaced.
    """
    if offer.dialect is None or not offer.supports_sessions:
        return ()
    served_here = [
        name
        for name, mode in ((LIST, modes.list), (DELETE, modes.delete))
        if mode == STORE or (mode == AUTO and name not in offer.served_by_agent)
    ]
    can_open = RESUME in offer.served_by_agent or modes.handover != NEVER
    if LOAD not in offer.served_by_agent and modes.load != AGENT and can_open:
        served_here.append(LOAD)
    if LOAD in offer.served_by_agent and RESUME not in offer.served_by_agent and modes.resume == STORE:
        served_here.append(RESUME)
    if modes.unstable:
        served_here += _choose_drafts(offer.served_by_agent, frozenset(served_here), modes)
    return tuple(served_here)


def _choose_drafts(served_by_agent: frozenset[str], served_here: frozenset[str], modes: Modes) -> list[str]:
    """The drafts that acp-proxy serves.

    Titles and archived sessions must be right in the list, so acp-proxy must serve that or may amend it. With
    acp-proxy's list, the agent's archive would change nothing.
    """
    has_list = LIST in served_here or (LIST in served_by_agent and modes.list != AGENT)
    drafts = {
        TITLE: has_list and TITLE not in served_by_agent,
        ARCHIVE: has_list and (ARCHIVE not in served_by_agent or LIST in served_here),
        STATUS: STATUS not in served_by_agent and not {LOAD, RESUME}.isdisjoint(served_by_agent | served_here),
    }
    return [name for name, is_served in drafts.items() if is_served]


def add_capabilities(line: bytes, offer: Offer, settings: Settings) -> tuple[bytes, tuple[str, ...]]:
    """The agent's answer to ``initialize`` with the capabilities that acp-proxy adds, and what it serves; every other
    value keeps its bytes. ``line``: the answer; ``offer``: what it says."""
    dialect = offer.dialect
    served_here = choose_served_here(offer, settings.modes) if settings.records and settings.serves else ()
    if dialect is None or (not served_here and (settings.store_id is None or not settings.is_chained)):
        return line, ()
    added = [name for name in served_here if name not in offer.served_by_agent]
    mark: dict[str, object] = {"version": settings.proxy_version, "serves": list(served_here)}
    if settings.store_id is not None:  # other acp-proxies must know
        mark["store"] = settings.store_id
    members: dict[str, object] = {"_meta": {_META_MEMBER: mark}}
    if LOAD in added:
        members["loadSession"] = True
    sessions: dict[str, object] = {name: {} for name in _SESSION_CAPABILITIES if name in added}
    if sessions:
        members[dialect.sessions_member] = sessions
    text = json_splice.decode(line)
    try:
        additions = json_splice.list_member_changes(
            text, json_splice.find_span(text, "result"), {dialect.capabilities_member: members}
        )
    except ValueError:  # the line cannot be changed, so it passes and acp-proxy serves nothing
        return line, ()
    return json_splice.encode(json_splice.replace_spans(text, additions)), served_here


def with_recall_server(line: bytes, message: Message, command: tuple[str, ...], dialect: Dialect) -> bytes:
    """A client's line with the MCP server of recall, for the session's directory, if it opens a session.

    ``message``: the line, parsed. ``command``: the command that starts the server. ``dialect``: that of the connection.
    A server of the user's with the same name is used instead.
    """
    if not isinstance(message, Request) or message.method not in acp.OPENING_REQUESTS:
        return line
    cwd, servers = acp.text(message.params, "cwd"), acp.member(message.params, "mcpServers")
    if cwd is None or not acp.is_absolute(cwd):
        return line
    if isinstance(servers, list) and any(acp.text(server, "name") == RECALL_SERVER_NAME for server in servers):
        return line
    program, *words = command
    server: dict[str, object] = {"type": dialect.server_type} if dialect.server_type is not None else {}
    server |= {"name": RECALL_SERVER_NAME, "command": program, "args": [*words, "--cwd", cwd], "env": []}
    try:
        return acp.with_mcp_server_added(line, server)
    except (ValueError, KeyError):  # the agent will refuse it
        return line
