"""Decides about a ``session/list`` that the agent answers: what it is asked, and which pages are amended.

If acp-proxy serves archiving, the agent gets no ``archived``, since sessions may be archived only here. A page of which
nothing is left is not sent; the agent is asked for the next one instead. ``relay/list_performer`` amends the pages, by
means of ``amend_list``.
"""

from collections import OrderedDict
from contextlib import suppress

from msgspec.structs import replace

from acp_proxy.decisions import proxy_messages
from acp_proxy.decisions.capabilities import ARCHIVE, LIST, STATUS, TITLE
from acp_proxy.decisions.connection_state import ConnectionState
from acp_proxy.decisions.effects import AmendList, Effect, Forward
from acp_proxy.decisions.events import PageEmptied
from acp_proxy.decisions.lists import amend_list, jetbrains_index
from acp_proxy.decisions.lists.amend_list import EXCLUDE, ONLY
from acp_proxy.protocol import acp, json_splice, jsonrpc
from acp_proxy.protocol.jsonrpc import Peer, Request, RequestId, Response

PAGE_LIMIT = 100
"""The most pages that are read for one request. The client asks for more if it wants."""
REQUEST_LIMIT = 64
"""The most pages that acp-proxy asks for at once. An editor has one list."""
LISTED_LIMIT = 4 * 1024 * 1024
"""The most characters of ids that the agent has listed: more than ten thousand sessions."""
_ID_OVERHEAD = 256


class AgentList:
    """The list of one connection's agent."""

    def __init__(self, shared: ConnectionState) -> None:
        self._services = shared.services
        self._open_requests = shared.open_requests
        self._session_tracker = shared.session_tracker
        self._request_count = 0
        self._emptied_pages: dict[RequestId, tuple[Request, AmendList]] = {}
        """By the id of acp-proxy's own ``session/list``: the client's request, and the emptied page before the one that
        was asked for."""
        self._listed: OrderedDict[str, None] = OrderedDict()
        """The ids that the agent's list has named, newest last."""
        self._listed_size = 0

    def adapt_request(self, line: bytes, request: Request) -> list[Effect] | None:
        """The effects of a ``session/list`` for which more is read than the client asked; None for all other requests.
        Raises InvalidParams."""
        served_here, has_index = self._services.served_here, self._services.amends_jetbrains_index
        has_archive = ARCHIVE in served_here
        if request.method != acp.LIST or LIST in served_here or not (has_archive or self._services.may_amend_lists):
            return None
        if has_archive:
            amend_list.read_archive_filter(request.params)
        self._open_requests.add(Peer.CLIENT, request, None, keeps_all=True)
        is_draft = has_archive and isinstance(request.params, dict) and "archived" in request.params
        if is_draft or (has_index and jetbrains_index.read_index_archive_filter(request.params) == ONLY):
            with suppress(ValueError, KeyError):  # then the line cannot be changed, and passes
                line = self._make_request(request, request.id)
        return [Forward(Peer.AGENT, line)]

    def handle_page(self, line: bytes, request: Request, result: object) -> AmendList:
        """What to do with the agent's answer to ``session/list``. ``result``: of that answer."""
        self._remember_listed(result)
        services = self._services
        joins = acp.text(request.params, "cursor") is None
        page = AmendList(
            line,
            client_request=request,
            fills_titles=services.fills_titles,
            adds_our_rows=joins,
            lists_other_agents=services.opens_other_agents_sessions,
            cwd=acp.text(request.params, "cwd"),
            supports_directories=services.supports_directories,
        )
        if services.amends_jetbrains_index:
            return replace(
                page,
                archive_filter=jetbrains_index.read_index_archive_filter(request.params),
                is_of_jetbrains_index=True,
            )
        if ARCHIVE not in services.served_here:
            return page
        return replace(page, archive_filter=acp.text(request.params, "archived") or EXCLUDE)

    def ask_next_page(self, event: PageEmptied) -> list[Effect]:
        """Ask the agent for the next page; after many, send the empty one."""
        page = event.amendment
        if page.client_request is None or page.pages_read >= PAGE_LIMIT or len(self._emptied_pages) >= REQUEST_LIMIT:
            return [Forward(Peer.CLIENT, event.line)]
        self._request_count += 1
        id = RequestId(f'"{proxy_messages.OWN_IDS}list-{self._request_count}"')
        try:
            line = self._make_request(page.client_request, id, event.cursor)
        except (ValueError, KeyError):
            return [Forward(Peer.CLIENT, event.line)]
        self._emptied_pages[id] = page.client_request, page
        return [Forward(Peer.AGENT, line, is_own=True)]

    def handle_answer_to_own_request(self, line: bytes, message: Response) -> list[Effect] | None:
        """The effects of the agent's answer to a request of acp-proxy's for a page; None for all other answers."""
        emptied = self._emptied_pages.pop(message.id, None) if message.id is not None else None
        if emptied is None:
            return None
        client_request, page = emptied
        try:
            line = acp.with_id(line, client_request.id)
        except (ValueError, KeyError):
            return [proxy_messages.refuse(client_request.id, jsonrpc.INTERNAL_ERROR, "The agent's list cannot be read")]
        self._remember_listed(message.result)
        return [
            replace(page, line=line, pages_read=page.pages_read + 1)
            if message.error is None
            else Forward(Peer.CLIENT, line)
        ]

    def handle_agent_end(self, reason: str) -> list[Effect]:
        """The agent has ended, and answers nothing more. ``reason``: the text of errors."""
        requests = [request for request, _ in self._emptied_pages.values()]
        self._emptied_pages.clear()
        return [proxy_messages.refuse(request.id, jsonrpc.INTERNAL_ERROR, reason) for request in requests]

    def agent_has(self, session_id: str) -> bool:
        """Whether the agent has this session: it has listed it, or the session was opened or named here."""
        return session_id in self._listed or self._session_tracker.sessions.exists_in_run(session_id)

    def _make_request(self, request: Request, id: RequestId, cursor: str | None = None) -> bytes:
        """A client's ``session/list`` as the agent gets it: without ``archived``, with this id, and with another cursor
        if one is given. Raises ValueError, KeyError."""
        text = json_splice.decode(request.raw)
        members: dict[str, str] = {}
        if isinstance(request.params, dict):
            spans = json_splice.find_members(text, json_splice.find_span(text, "params")[0])
            members = {key: text[start:end] for key, (start, end) in spans.items() if key != "archived"}
        if cursor is not None:
            members["cursor"] = jsonrpc.dump(cursor).decode()
        params = ",".join(f"{jsonrpc.dump(key).decode()}:{value}" for key, value in members.items())
        text = f'{{"jsonrpc":"2.0","id":{id},"method":"{acp.LIST}","params":{{{params}}}}}\n'
        if self._services.amends_jetbrains_index and jetbrains_index.read_index_archive_filter(request.params) == ONLY:
            text = jetbrains_index.with_archive_filter_all(text, json_splice.find_members(text)["params"])
        return json_splice.encode(text)

    def _remember_listed(self, result: object) -> None:
        """Remember the sessions of a page, if acp-proxy serves what the client may ask about them."""
        if {TITLE, ARCHIVE, STATUS}.isdisjoint(self._services.served_here):
            return
        sessions = acp.member(result, "sessions")
        for item in sessions if isinstance(sessions, list) else []:
            if (session_id := acp.session_id(item)) is not None and session_id not in self._listed:
                self._listed[session_id] = None
                self._listed_size += _ID_OVERHEAD + len(session_id)
        while self._listed_size > LISTED_LIMIT:
            oldest, _ = self._listed.popitem(last=False)
            self._listed_size -= _ID_OVERHEAD + len(oldest)
