"""Serves drafts of the protocol that the agent lacks: titles by the user, archived sessions, and status.

Does nothing unless ``Service.served_here`` names one of them, or the agent has JetBrains' index (``jetbrains_index``):
that has the archive states and titles of both. With an agent's own list, titles and archived sessions are brought into
its pages: the agent never sees ``archived``, and a page of which nothing is left is not sent; the agent is asked for
the next one instead.
"""

from collections import OrderedDict
from contextlib import suppress

from msgspec.structs import replace

from acp_proxy.protocol import acp, json_splice, jsonrpc, proxy_ids, update_kinds
from acp_proxy.protocol.jsonrpc import Peer, Request, RequestId, Response
from acp_proxy.proxy import jetbrains_index, own_messages
from acp_proxy.proxy.aliases import Aliases, CopyIds
from acp_proxy.proxy.capabilities import ARCHIVE, CLOSE, LIST, STATUS, TITLE, Service
from acp_proxy.proxy.effects import AmendList, AmendTitles, AnswerStatus, Effect, Forward, SetArchived, SetTitle
from acp_proxy.proxy.events import PageEmptied
from acp_proxy.proxy.handovers import OWN_IDS
from acp_proxy.proxy.load.load_machine import LoadMachine
from acp_proxy.proxy.open_requests import OpenRequest, OpenRequests
from acp_proxy.proxy.session_list import EXCLUDE, INCLUDE, ONLY
from acp_proxy.proxy.session_recorder import SessionRecorder
from acp_proxy.transcript.titles import AGENT_TITLE_LENGTH, clean

PAGE_LIMIT = 100
"""The most pages of the agent's list that are read for one request. The client asks for more if it wants."""
REQUEST_LIMIT = 64
"""The most requests of each kind that are open for drafts. An editor has one."""
LISTED_LIMIT = 4 * 1024 * 1024
"""The most bytes of ids that the agent has listed: more than ten thousand sessions."""
_ENTRY_OVERHEAD = 256
_DRAFTS = frozenset({TITLE, ARCHIVE, STATUS})


class UnstableMethods:
    """The drafts that acp-proxy serves on one connection."""

    def __init__(
        self,
        service: Service,
        open_requests: OpenRequests,
        session_recorder: SessionRecorder,
        machine: LoadMachine,
        aliases: Aliases,
        copy_ids: CopyIds,
    ) -> None:
        self._service = service
        self._open_requests = open_requests
        self._session_recorder = session_recorder
        self._machine = machine
        self._aliases = aliases
        self._copy_ids = copy_ids
        self._request_count = 0
        self._emptied_pages: dict[RequestId, AmendList] = {}
        """By the id of acp-proxy's own ``session/list``: the emptied page before the one that was asked for."""
        self._closing: dict[RequestId, SetArchived] = {}
        """By the id of acp-proxy's own ``session/close``: what follows the answer."""
        self._listed: OrderedDict[str, None] = OrderedDict()
        """The ids that the agent's list has named, newest last."""
        self._listed_size = 0

    def is_settling(self, method: str) -> bool:
        """Whether a request with this method settles what the agent sent about its session before."""
        return method == acp.ARCHIVE and ARCHIVE in self._service.served_here

    def serve(self, line: bytes, request: Request) -> list[Effect] | None:
        """The effects of a request that a served draft concerns; None for all other requests. Raises InvalidParams."""
        served_methods = self._service.served_here
        match request.method:
            case acp.SET_TITLE if TITLE in served_methods:
                session_id, raw_title = (acp.required_text(request.params, key) for key in ("sessionId", "title"))
                title = clean(raw_title, AGENT_TITLE_LENGTH)
                if title is None:
                    raise acp.InvalidParams("title is empty")
                return [SetTitle(request.id, session_id, self._is_known(session_id), title)]
            case acp.ARCHIVE if ARCHIVE in served_methods:
                return self._archive(request.id, acp.required_text(request.params, "sessionId"))
            case acp.UNARCHIVE if ARCHIVE in served_methods:
                session_id = acp.required_text(request.params, "sessionId")
                return [SetArchived(request.id, session_id, self._is_known(session_id), False)]
            case acp.STATUS if STATUS in served_methods:
                session_id = acp.required_text(request.params, "sessionId")
                return [
                    AnswerStatus(
                        request.id,
                        session_id,
                        self._is_known(session_id),
                        self._session_recorder.sessions.is_open(session_id),
                    )
                ]
            case acp.LIST if LIST not in served_methods and (ARCHIVE in served_methods or self._has_index):
                self.read_archive_filter(request.params)
                self._open_requests.add(Peer.CLIENT, request, None, keeps_raw=True)
                is_draft = (
                    ARCHIVE in served_methods and isinstance(request.params, dict) and "archived" in request.params
                )
                if is_draft or (self._has_index and jetbrains_index.read_archive_filter(request.params) == ONLY):
                    with suppress(ValueError, KeyError):  # then the line cannot be changed, and passes
                        line = self._make_list_request(request, request.id)
                return [Forward(Peer.AGENT, line)]
            case method if method in jetbrains_index.METHODS:
                return self._change_index(request, jetbrains_index.METHODS[method])
        return None

    @property
    def _has_index(self) -> bool:
        """Whether the agent's list is that of JetBrains' index, and is amended."""
        return (
            jetbrains_index.INDEX in self._service.index_parts
            and self._service.amends_lists
            and self._session_recorder.records
        )

    def _change_index(self, request: Request, method: jetbrains_index.IndexMethod) -> list[Effect] | None:
        """Serve a change in the agent's index of a session for which the agent has none yet; None for all others."""
        session_id = acp.session_id(request.params) or ""
        if not (self._has_index and method.part in self._service.index_parts and proxy_ids.is_proxy_id(session_id)):
            return None
        if self._aliases.find_agent_id(session_id) is not None:
            return None
        if method.archives is not None:
            return [SetArchived(request.id, session_id, self._is_known(session_id), method.archives)]
        title = clean(acp.required_text(request.params, "title"), AGENT_TITLE_LENGTH) if method.renames else None
        return [SetTitle(request.id, session_id, self._is_known(session_id), title)] if title is not None else None

    def read_archive_filter(self, params: object) -> str | None:
        """Which sessions a ``session/list`` wants by archive state; None if acp-proxy serves no archive.

        Raises InvalidParams.
        """
        if ARCHIVE not in self._service.served_here:
            return None
        archived = acp.optional_text(params, "archived")
        if archived not in (None, EXCLUDE, INCLUDE, ONLY):
            raise acp.InvalidParams(f"archived must be {EXCLUDE}, {INCLUDE} or {ONLY}")
        return archived or EXCLUDE

    def amend_page(self, line: bytes, request: Request, result: object) -> AmendList:
        """What to do with the agent's answer to ``session/list``. ``result``: of that answer."""
        self._remember_listed(result)
        service = self._service
        joins = acp.text(request.params, "cursor") is None
        page = AmendList(
            line,
            fills_titles=service.gives_titles,
            joins_rows=joins,
            lists_foreign=service.opens_foreign,
            cwd=acp.text(request.params, "cwd"),
            supports_directories=service.supports_directories,
        )
        if self._has_index:
            return replace(
                page,
                archived=jetbrains_index.read_archive_filter(request.params),
                client_request=request,
                is_of_index=True,
            )
        if ARCHIVE not in service.served_here:
            return page
        return replace(page, archived=acp.text(request.params, "archived") or EXCLUDE, client_request=request)

    def ask_next_page(self, event: PageEmptied) -> list[Effect]:
        """Ask the agent for the next page; after many, send the empty one."""
        page = event.page
        if page.client_request is None or page.pages >= PAGE_LIMIT or len(self._emptied_pages) >= REQUEST_LIMIT:
            return [Forward(Peer.CLIENT, event.line)]
        id = self._make_id()
        try:
            line = self._make_list_request(page.client_request, id, event.cursor)
        except (ValueError, KeyError):
            return [Forward(Peer.CLIENT, event.line)]
        self._emptied_pages[id] = page
        return [Forward(Peer.AGENT, line, is_own=True)]

    def handle_response(self, line: bytes, message: Response) -> list[Effect] | None:
        """The effects of the agent's answer to a request of acp-proxy's for a draft; None for all other answers."""
        if message.id is None:
            return None
        if (page := self._emptied_pages.pop(message.id, None)) is not None and page.client_request is not None:
            try:
                line = acp.with_id(line, page.client_request.id)
            except (ValueError, KeyError):
                return [
                    own_messages.refuse(
                        page.client_request.id, jsonrpc.INTERNAL_ERROR, "The agent's list cannot be read"
                    )
                ]
            self._remember_listed(message.result)
            return [
                replace(page, raw=line, pages=page.pages + 1) if message.error is None else Forward(Peer.CLIENT, line)
            ]
        if (archiving := self._closing.pop(message.id, None)) is not None:
            return [*(self._session_recorder.close(archiving.session_id) if message.error is None else []), archiving]
        return None

    def end(self, reason: str) -> list[Effect]:
        """The agent has ended, and answers nothing more. ``reason``: the text of errors."""
        pages, closing = list(self._emptied_pages.values()), list(self._closing.values())
        self._emptied_pages.clear()
        self._closing.clear()
        requests = [page.client_request for page in pages if page.client_request is not None]
        return [*closing, *(own_messages.refuse(request.id, jsonrpc.INTERNAL_ERROR, reason) for request in requests)]

    def amend_titles(self, effects: list[Effect]) -> list[Effect]:
        """The effects, with the user's titles in updates for the client."""
        if TITLE not in self._service.served_here and not self._has_index:
            return effects
        return [
            AmendTitles(effect.data, self._open_requests.list_session_ids(Peer.CLIENT, acp.RENAMES))
            if isinstance(effect, Forward)
            and effect.to is Peer.CLIENT
            and update_kinds.SESSION_INFO_BYTES in effect.data
            else effect
            for effect in effects
        ]

    # --- JetBrains' index of the agent's sessions

    def handle_index_answer(self, line: bytes, answered: OpenRequest, message: Response) -> list[Effect]:
        """The agent's answer to one of ``jetbrains_index.METHODS``. ``answered``: the request."""
        request, session_id = answered.request, answered.session_id
        offers = self._service.served_by_agent | self._service.index_parts
        if session_id is not None:
            change = jetbrains_index.follow_answer(request, session_id, message.result, offers)
            return [*([change] if change is not None else []), Forward(Peer.CLIENT, line)]
        return [self.find_amendment(request.method, line, request.params) or Forward(Peer.CLIENT, line)]

    def find_amendment(self, method: str, line: bytes, params: object = None) -> Effect | None:
        """What to do with a line that has rows of the agent's index of sessions; None if that is not one. ``params``:
        those of the request that it answers."""
        service = self._service
        if not (service.index_parts and service.amends_lists and self._session_recorder.records):
            return None
        renamed_sessions = self._open_requests.list_session_ids(Peer.CLIENT, acp.RENAMES)
        page = jetbrains_index.find_amendment(
            method,
            line,
            service.index_parts,
            fills_titles=service.gives_titles,
            renamed=renamed_sessions,
            params=params,
        )
        if page is None:
            return None
        return replace(
            page,
            our_ids=self._copy_ids.our_ids,
            supports_directories=service.supports_directories,
            lists_foreign=service.opens_foreign,
        )

    # --- small things

    def _archive(self, request: RequestId, session_id: str) -> list[Effect]:
        """Archive a session; cancel and close it first if it is open here."""
        archiving = SetArchived(request, session_id, self._is_known(session_id), True)
        if not self._session_recorder.sessions.is_open(session_id):
            return [archiving]
        effects: list[Effect] = [*self._machine.close(session_id)]
        if self._session_recorder.sessions.is_in_turn(session_id):
            self._session_recorder.cancel_turn(session_id)
            effects.append(self._send_to_agent(jsonrpc.encode_notification(acp.CANCEL, {"sessionId": session_id})))
        if CLOSE not in self._service.served_by_agent or len(self._closing) >= REQUEST_LIMIT:
            return [*effects, archiving]
        id = self._make_id()
        self._closing[id] = archiving
        return [*effects, self._send_to_agent(jsonrpc.encode_request(id, acp.CLOSE, {"sessionId": session_id}))]

    def _send_to_agent(self, line: bytes) -> Forward:
        return Forward(Peer.AGENT, self._aliases.rewrite_for_agent(line, jsonrpc.read_message(line)), is_own=True)

    def _make_list_request(self, request: Request, id: RequestId, cursor: str | None = None) -> bytes:
        line = _make_list_request(request, id, cursor)
        if not self._has_index or jetbrains_index.read_archive_filter(request.params) != ONLY:
            return line
        text = json_splice.decode(line)
        return json_splice.encode(jetbrains_index.ask_for_all(text, json_splice.find_members(text)["params"]))

    def _make_id(self) -> RequestId:
        self._request_count += 1
        return RequestId(f'"{OWN_IDS}draft-{self._request_count}"')

    def _is_known(self, session_id: str) -> bool:
        return session_id in self._listed or self._session_recorder.sessions.is_known(session_id)

    def _remember_listed(self, result: object) -> None:
        """Remember the sessions of a page of the agent's list."""
        sessions = acp.member(result, "sessions")
        for item in (
            sessions if isinstance(sessions, list) and not _DRAFTS.isdisjoint(self._service.served_here) else []
        ):
            if (session_id := acp.session_id(item)) is not None and session_id not in self._listed:
                self._listed[session_id] = None
                self._listed_size += _ENTRY_OVERHEAD + len(session_id)
        while self._listed_size > LISTED_LIMIT:
            oldest, _ = self._listed.popitem(last=False)
            self._listed_size -= _ENTRY_OVERHEAD + len(oldest)


def _make_list_request(request: Request, id: RequestId, cursor: str | None = None) -> bytes:
    """A client's ``session/list`` without ``archived``, with this id, and with another cursor if one is given.

    Raises ValueError, KeyError.
    """
    text = json_splice.decode(request.raw)
    members: dict[str, str] = {}
    if isinstance(request.params, dict):
        start, _ = json_splice.find_members(text, json_splice.find_value(text)[0])["params"]
        members = {key: text[a:b] for key, (a, b) in json_splice.find_members(text, start).items() if key != "archived"}
    if cursor is not None:
        members["cursor"] = jsonrpc.dump(cursor).decode()
    params = ",".join(f"{jsonrpc.dump(key).decode()}:{value}" for key, value in members.items())
    return json_splice.encode(f'{{"jsonrpc":"2.0","id":{id},"method":"{acp.LIST}","params":{{{params}}}}}\n')
