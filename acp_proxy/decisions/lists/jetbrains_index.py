"""Follows an agent's own index of its sessions, an extension for JetBrains' editors.

A client that declares ``sessionIndex`` renames and archives sessions in the agent, looks them up by id, and subscribes
to changes of their list. ``AGENT_INDEX_METHODS`` says which of these methods acp-proxy reads, and what it does: what
the client changes there goes into the store too, and rows are amended as those of ``session/list`` are. It only heeds
what the agent offers this client; everything else passes.

Sources: claude-agent-acp 0.101 and codex-acp 2.6; the drafts ``session/set_title`` and ``session/archive``.
"""

from collections.abc import Callable, Iterable, Mapping

from msgspec import Struct

from acp_proxy.decisions.capabilities import ARCHIVE, TITLE
from acp_proxy.decisions.connection_state import ConnectionState
from acp_proxy.decisions.effects import AmendList, Effect, Forward, SetArchived, SetTitle, StoreAgentsChange
from acp_proxy.decisions.lists.amend_list import EXCLUDE, INCLUDE, ONLY
from acp_proxy.decisions.open_requests import OpenRequest
from acp_proxy.protocol import acp, json_splice, proxy_ids
from acp_proxy.protocol.jsonrpc import Peer, Request, Response
from acp_proxy.transcript.titles import AGENT_TITLE_LENGTH, clean

INDEX = "sessionIndex"
"""The capability of both sides: ``session/list`` has a filter, and its rows say what is archived."""
_PARTS = "sessionRename", "sessionArchive", "sessionBatchGet", "sessionListSubscribe"
_RENAME, _ARCHIVE, _LOOK_UP, _SUBSCRIBE = _PARTS
"""The agent's capabilities for the methods."""
_FILTERS = {"unarchived": EXCLUDE, "archived": ONLY, "all": INCLUDE}


class AgentIndexMethod(Struct, frozen=True):
    """What a method means here. ``part``: what the agent must offer. ``renames``: it gives a session the title in its
    answer, or in its parameters. ``sets_archived``: False: it unarchives a session. ``rows_member``: the member of the
    line that has rows of sessions."""

    part: str
    renames: bool = False
    sets_archived: bool | None = None
    rows_member: str | None = None


AGENT_INDEX_METHODS = {
    acp.INDEX_RENAME: AgentIndexMethod(_RENAME, renames=True),
    acp.INDEX_ARCHIVE: AgentIndexMethod(_ARCHIVE, sets_archived=True),
    acp.INDEX_UNARCHIVE: AgentIndexMethod(_ARCHIVE, sets_archived=False),
    acp.INDEX_LOOK_UP: AgentIndexMethod(_LOOK_UP, rows_member="result"),
    acp.INDEX_CHANGES: AgentIndexMethod(_SUBSCRIBE, rows_member="params"),
    acp.SET_TITLE: AgentIndexMethod(TITLE, renames=True),
    acp.ARCHIVE: AgentIndexMethod(ARCHIVE, sets_archived=True),
    acp.UNARCHIVE: AgentIndexMethod(ARCHIVE, sets_archived=False),
}


def find_index_capabilities(client: object, agent: object) -> frozenset[str]:
    """The parts of the index that the agent offers this client. ``client``, ``agent``: the parameters and the result of
    ``initialize``."""
    client_capabilities = acp.member(client, "clientCapabilities") or acp.member(client, "capabilities")
    agent_parts = _find_air_capabilities(agent)
    is_agreed = INDEX in _find_air_capabilities(client_capabilities) & agent_parts
    return agent_parts & {INDEX, *_PARTS} if is_agreed else frozenset()


class JetBrainsIndex:
    """The index of one connection's agent. The agent's own ``session/set_title`` and ``session/archive`` count as parts
    of it."""

    def __init__(self, shared: ConnectionState, agent_has: Callable[[str], bool]) -> None:
        """``agent_has``: whether the agent has a session."""
        self._services = shared.services
        self._open_requests = shared.open_requests
        self._aliases = shared.aliases
        self._client_ids = shared.client_ids
        self._agent_has = agent_has

    def serve(self, request: Request) -> list[Effect] | None:
        """The effects of a change in the index of a session for which the agent has none yet; None for all other
        requests. Raises InvalidParams."""
        method, session_id = AGENT_INDEX_METHODS.get(request.method), acp.session_id(request.params) or ""
        if method is None or not (
            self._services.amends_jetbrains_index and method.part in self._services.jetbrains_index_capabilities
        ):
            return None
        if not proxy_ids.is_proxy_id(session_id) or self._aliases.find_agent_id(session_id) is not None:
            return None
        agent_has_it = self._agent_has(session_id)
        if method.sets_archived is not None:
            return [SetArchived(request.id, session_id, agent_has_it, method.sets_archived)]
        title = clean(acp.required_text(request.params, "title"), AGENT_TITLE_LENGTH) if method.renames else None
        return [SetTitle(request.id, session_id, agent_has_it, title)] if title is not None else None

    def handle_answer(self, line: bytes, answered: OpenRequest, message: Response) -> list[Effect]:
        """The agent's answer to one of ``AGENT_INDEX_METHODS``. ``answered``: the request."""
        request, session_id = answered.request, answered.session_id
        if session_id is not None:
            change = self._find_change(request, session_id, message.result)
            return [*([change] if change is not None else []), Forward(Peer.CLIENT, line)]
        return [self.make_amendment(request.method, line, request.params) or Forward(Peer.CLIENT, line)]

    def _find_change(self, request: Request, session_id: str, result: object) -> StoreAgentsChange | None:
        """The change that the agent has made in answering this request, if it is one."""
        method = AGENT_INDEX_METHODS[request.method]
        if not self._services.agent_serves(method.part):
            return None
        if method.renames:
            raw_title = acp.text(result, "title") or acp.text(request.params, "title")
            title = clean(raw_title, AGENT_TITLE_LENGTH) if raw_title is not None else None
            return StoreAgentsChange(session_id, title=title) if title is not None else None
        return (
            StoreAgentsChange(session_id, is_archived=method.sets_archived)
            if method.sets_archived is not None
            else None
        )

    def make_amendment(self, method_name: str, line: bytes, params: object = None) -> AmendList | None:
        """What to do with a line of the agent that has rows of its index; None if that is not one. ``method_name``: its
        method, or that of the request that it answers. ``params``: the parameters of that request."""
        services, method = self._services, AGENT_INDEX_METHODS.get(method_name)
        if method is None or method.rows_member is None:
            return None
        if not services.amends_jetbrains_index or method.part not in services.jetbrains_index_capabilities:
            return None
        return AmendList(
            line,
            archive_filter=INCLUDE,
            fills_titles=services.fills_titles,
            lists_other_agents=services.opens_other_agents_sessions,
            supports_directories=services.supports_directories,
            is_of_jetbrains_index=True,
            rows_member=method.rows_member,
            retitled_ids=self._open_requests.list_session_ids(Peer.CLIENT, acp.RENAMES),
            our_ids_by_client_id=self._client_ids.our_ids_by_client_id,
            requested_ids=tuple(acp.strings(params, "sessionIds")),
        )


class JetBrainsIndexRows(Struct, frozen=True):
    """Which rows of the agent's index the client sees, and by which ids, if sessions continue in others of the agent.

    ``aliases``: our ids of sessions by the agent's, oldest first. ``deleted_ids``: the deleted sessions.
    ``client_ids``: the ids by which the client knows sessions. A session has one row: the agent's latest, by our id, or
    by the agent's if the client knows only that.
    """

    aliases: Mapping[str, str]
    deleted_ids: frozenset[str]
    client_ids: frozenset[str]

    @property
    def hidden_ids(self) -> frozenset[str]:
        """The agent's ids of rows that the client does not see."""
        latest = {session_id: alias for alias, session_id in self.aliases.items() if session_id not in self.deleted_ids}
        return self.deleted_ids | set(self.aliases.values()) | (self.aliases.keys() - set(latest.values()))

    def choose_client_id(self, id: str) -> str:
        """The client's id of a session. ``id``: ours, or the agent's."""
        session_id = self.aliases.get(id, id)
        ids = [session_id, *(alias for alias, other in reversed([*self.aliases.items()]) if other == session_id)]
        return next((id for id in ids if id in self.client_ids), session_id)

    def find_removed(self, ids: Iterable[str]) -> list[str]:
        """The sessions that are no more, of the ids that the agent no longer has: others may continue in another."""
        continued = frozenset(self.aliases.values())
        sessions = ((id, self.aliases.get(id, id)) for id in ids)
        removed = (
            id if session_id not in continued else self.choose_client_id(id)
            for id, session_id in sessions
            if self._is_gone_for_good(session_id)
        )
        return list(dict.fromkeys(removed))

    def find_missing(self, requested_ids: Iterable[str], row_ids: Iterable[str | None]) -> list[str]:
        """Our sessions of those that the client asked for which the agent has no row. ``row_ids``: the ids that it
        has."""
        listed_ids = {self.aliases.get(id, id) for id in row_ids if id is not None and id not in self.hidden_ids}
        requested_sessions = dict.fromkeys(self.aliases.get(id, id) for id in requested_ids)
        aliased = frozenset(self.aliases.values())
        return [
            session_id
            for session_id in requested_sessions
            if (session_id in aliased or proxy_ids.is_proxy_id(session_id))
            and session_id not in listed_ids | self.deleted_ids
        ]

    def _is_gone_for_good(self, session_id: str) -> bool:
        return session_id in self.deleted_ids or session_id not in self.aliases.values()


def read_index_archive_filter(params: object) -> str:
    """Which sessions a ``session/list`` wants by archive state."""
    return _FILTERS.get(acp.text(acp.member(_find_air_meta(params), "list"), "archived") or "", EXCLUDE)


def with_archive_filter_all(text: str, span: json_splice.Span) -> str:
    """A ``session/list`` that wants all sessions, whatever their archive state. ``span``: of the parameters.

    Sessions that are archived here are not archived in the agent. Raises ValueError.
    """
    members = {"_meta": {"jetbrains": {"air": {"list": {"archived": "all"}}}}}
    return json_splice.replace_spans(text, json_splice.list_member_changes(text, span, members))


def _find_air_meta(value: object) -> object:
    """What a message says of the index: JetBrains' editors and their agents put it in ``_meta.jetbrains.air``."""
    return acp.member(acp.member(acp.member(value, "_meta"), "jetbrains"), "air")


def _find_air_capabilities(value: object) -> frozenset[str]:
    return frozenset(acp.strings(_find_air_meta(value), "capabilities"))
