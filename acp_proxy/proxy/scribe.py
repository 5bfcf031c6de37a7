"""Records a message: enters requests into the ledger, finds the request of a response, and calls the notebook.

Does not decide where lines go.
"""

from collections.abc import Callable

from acp_proxy.protocol import acp, update_kinds
from acp_proxy.protocol.jsonrpc import Batch, Message, Notification, Peer, Request, Response
from acp_proxy.proxy.effects import Recording
from acp_proxy.proxy.open_requests import OpenRequest, OpenRequests
from acp_proxy.proxy.session_log import SessionLog


class Scribe:
    """Connects the ledger and the notebook."""

    def __init__(self, ledger: OpenRequests, notebook: SessionLog, is_in_question: Callable[[str], bool]) -> None:
        """``is_in_question``: whether a session's updates may be its past. Then its load records them."""
        self._ledger = ledger
        self._notebook = notebook
        self._is_in_question = is_in_question

    def recorded(self, sender: Peer, message: Message) -> list[Recording]:
        """The recording effects of a message or a batch. Enters requests into the ledger, and closes answered ones."""
        match message:
            case Batch(messages=messages):
                return [effect for item in messages for effect in self.recorded(sender, item)]
            case Request(params=params, method=method):
                return self._request_recorded(sender, message, method, acp.session_id(params))
            case Notification(method=acp.UPDATE, params=params, raw=raw) if sender is Peer.AGENT:
                session, update = acp.session_id(params), acp.member(params, "update")
                if session is None or self._is_past(session, update):
                    return []
                opening = self._ledger.is_open(Peer.CLIENT, acp.NEW, acp.FORK)
                return self._notebook.update(session, raw, update, opening=opening)
            case Notification(method=acp.CANCEL, params=params, raw=raw):
                if sender is Peer.CLIENT:
                    self._notebook.cancelled(acp.session_id(params))
                return self._notebook.keep(acp.session_id(params), sender, raw)
            case Response(id=id) if found := self._ledger.take(sender.other, id):
                return self.answered(found, message)
            case _:
                return []

    def _request_recorded(self, sender: Peer, request: Request, method: str, session: str | None) -> list[Recording]:
        if sender is Peer.CLIENT or method == acp.REQUEST_PERMISSION or method in acp.TERMINALS:
            self._ledger.add(sender, request, session, whole=method == acp.STEERING)
        if session is None:
            return []
        if method == acp.PROMPT and sender is Peer.CLIENT:
            return self._notebook.prompt(session, request.raw, acp.member(request.params, "prompt"), request.id)
        if method == acp.TERMINAL_RELEASE:
            return self._notebook.terminal_released(session, request.params)
        return self._notebook.keep(session, sender, request.raw) if method in acp.RECORDED_REQUESTS else []

    def answered(self, found: OpenRequest, response: Response) -> list[Recording]:
        """The recording effects of an answer. ``found``: its request, which the ledger has closed."""
        request, session = found.request, found.session
        method, succeeded = request.method, response.error is None
        answerer = Peer.CLIENT if method == acp.REQUEST_PERMISSION else Peer.AGENT
        if method in acp.OPENING:
            if method in (acp.NEW, acp.FORK):
                session = acp.session_id(response.result)
            opened = succeeded and session is not None
            effects = self._notebook.opened(session or "", method, request.params, response.result) if opened else []
            return effects + self.nothing_opens()
        if session is None:
            return []
        if method == acp.PROMPT:
            return self._notebook.prompt_answered(session, response.raw, request.id)
        if method == acp.CLOSE and succeeded:
            return self._notebook.closed(session)
        if method in acp.TERMINALS:
            self._notebook.terminal_answered(session, method, request.params, response.result)
            return []
        if method in acp.RECORDED_REQUESTS:
            return self._notebook.keep(session, answerer, response.raw, method)
        return []

    def nothing_opens(self) -> list[Recording]:
        """Record the updates that waited for an answer to name their session, unless such a request is still open."""
        return [] if self._ledger.is_open(Peer.CLIENT, *acp.OPENING) else self._notebook.nothing_opens()

    def _is_past(self, session: str, update: object) -> bool:
        """Whether an update may belong to a replay. In a batch it passes, and is not recorded."""
        return self._is_in_question(session) and update_kinds.is_conversation(acp.update_kind(update))
