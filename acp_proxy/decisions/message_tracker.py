"""Tells ``SessionTracker`` what each message means for its session, and pairs answers with requests. Single updates do
not come here: ``Connection`` and ``LoadLineHandler`` track those.
"""

from collections.abc import Callable

from acp_proxy.decisions.connection_state import ConnectionState
from acp_proxy.decisions.effects import TranscriptEffect
from acp_proxy.decisions.open_requests import OpenRequest
from acp_proxy.protocol import acp, update_kinds
from acp_proxy.protocol.jsonrpc import Batch, Message, Notification, Peer, Request, Response


class MessageTracker:
    """Returns the entries of both peers' messages, and keeps track of open requests and of sessions on the way."""

    def __init__(self, shared: ConnectionState, has_load_for_updates: Callable[[str], bool]) -> None:
        """``has_load_for_updates``: whether a session's updates belong to a load."""
        self._open_requests = shared.open_requests
        self._session_tracker = shared.session_tracker
        self._has_load_for_updates = has_load_for_updates

    def track(self, sender: Peer, message: Message) -> list[TranscriptEffect]:
        """Open the requests in a message or a batch, close those that it answers, and return its entries."""
        match message:
            case Batch(messages=messages):
                return [effect for item in messages for effect in self.track(sender, item)]
            case Request(params=params, method=method):
                return self._track_request(sender, message, method, acp.session_id(params))
            case Notification(method=acp.UPDATE, params=params, raw=raw) if sender is Peer.AGENT:
                session_id, update = acp.session_id(params), acp.member(params, "update")
                if session_id is None or self._may_be_replayed(session_id, update):
                    return []
                # Of a batch: all others go to ``SessionTracker`` without a detour.
                may_be_new = self._open_requests.may_open_new_session
                return self._session_tracker.track_update(session_id, raw, update, session_may_be_new=may_be_new)
            case Notification(method=acp.CANCEL, params=params, raw=raw):
                if sender is Peer.CLIENT:
                    self._session_tracker.track_turn_cancel(acp.session_id(params))
                return self._session_tracker.track_message(acp.session_id(params), sender, raw)
            case Response(id=id) if answered := self._open_requests.take(sender.other, id):
                return self.track_answer(answered, message)
            case _:
                return []

    def _track_request(
        self, sender: Peer, request: Request, method: str, session_id: str | None
    ) -> list[TranscriptEffect]:
        if sender is Peer.CLIENT or method == acp.REQUEST_PERMISSION or method in acp.TERMINALS:
            self._open_requests.add(sender, request, session_id, keeps_all=method == acp.STEERING)
        if session_id is None:
            return []
        if method == acp.PROMPT and sender is Peer.CLIENT:
            return self._session_tracker.track_prompt(
                session_id, request.raw, acp.member(request.params, "prompt"), request.id
            )
        if method == acp.TERMINAL_RELEASE:
            return self._session_tracker.track_terminal_release(session_id, request.params)
        return (
            self._session_tracker.track_message(session_id, sender, request.raw)
            if method in acp.RECORDED_REQUESTS
            else []
        )

    def track_answer(self, answered: OpenRequest, response: Response) -> list[TranscriptEffect]:
        """The entries of an answer. ``answered``: its request, which is closed."""
        request, session_id = answered.request, answered.session_id
        method, succeeded = request.method, response.error is None
        answerer = Peer.CLIENT if method == acp.REQUEST_PERMISSION else Peer.AGENT
        if method in acp.OPENING_REQUESTS:
            if method in (acp.NEW, acp.FORK):
                session_id = acp.session_id(response.result)
            is_open = succeeded and session_id is not None
            effects = (
                self._session_tracker.track_opened(session_id or "", method, request.params, response.result)
                if is_open
                else []
            )
            return effects + self.track_early_updates()
        if session_id is None:
            return []
        if method == acp.PROMPT:
            return self._session_tracker.track_prompt_answer(session_id, response.raw, request.id)
        if method == acp.CLOSE and succeeded:
            return self._session_tracker.track_closed(session_id)
        if method in acp.TERMINALS:
            return self._session_tracker.track_terminal_answer(session_id, method, request.params, response.result)
        if method in acp.RECORDED_REQUESTS:
            return self._session_tracker.track_message(session_id, answerer, response.raw, method)
        return []

    def track_early_updates(self) -> list[TranscriptEffect]:
        """The entries of updates that waited for an answer to name their session, unless a request to open one is open:
        a load or a resume, too, since what waits may be of its session."""
        return (
            []
            if self._open_requests.has_request(Peer.CLIENT, *acp.OPENING_REQUESTS)
            else self._session_tracker.begin_early_sessions()
        )

    def _may_be_replayed(self, session_id: str, update: object) -> bool:
        """Whether an update of a batch may be of a load's replay. The load does not get it, so nobody finds out whether
        it is new, and it is not recorded."""
        return self._has_load_for_updates(session_id) and update_kinds.is_conversation(acp.update_kind(update))
