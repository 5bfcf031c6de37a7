"""Tells the ``SessionRecorder`` what each message means for its session, and pairs answers with their requests."""

from collections.abc import Callable

from acp_proxy.protocol import acp, update_kinds
from acp_proxy.protocol.jsonrpc import Batch, Message, Notification, Peer, Request, Response
from acp_proxy.proxy.effects import TranscriptEffect
from acp_proxy.proxy.open_requests import OpenRequest, OpenRequests
from acp_proxy.proxy.session_recorder import SessionRecorder


class MessageRecorder:
    """Records the messages of both peers."""

    def __init__(
        self, open_requests: OpenRequests, session_recorder: SessionRecorder, may_be_replay: Callable[[str], bool]
    ) -> None:
        """``may_be_replay``: whether a session's updates may be its past. Then its load records them."""
        self._open_requests = open_requests
        self._session_recorder = session_recorder
        self._may_be_replay = may_be_replay

    def record(self, sender: Peer, message: Message) -> list[TranscriptEffect]:
        """The recording effects of a message or a batch. Enters requests as open, and closes answered ones."""
        match message:
            case Batch(messages=messages):
                return [effect for item in messages for effect in self.record(sender, item)]
            case Request(params=params, method=method):
                return self._record_request(sender, message, method, acp.session_id(params))
            case Notification(method=acp.UPDATE, params=params, raw=raw) if sender is Peer.AGENT:
                session_id, update = acp.session_id(params), acp.member(params, "update")
                if session_id is None or self._is_past(session_id, update):
                    return []
                may_be_new = self._open_requests.is_open(Peer.CLIENT, acp.NEW, acp.FORK)
                return self._session_recorder.record_update(session_id, raw, update, may_be_new=may_be_new)
            case Notification(method=acp.CANCEL, params=params, raw=raw):
                if sender is Peer.CLIENT:
                    self._session_recorder.cancel_turn(acp.session_id(params))
                return self._session_recorder.record_line(acp.session_id(params), sender, raw)
            case Response(id=id) if answered := self._open_requests.take(sender.other, id):
                return self.record_answer(answered, message)
            case _:
                return []

    def _record_request(
        self, sender: Peer, request: Request, method: str, session_id: str | None
    ) -> list[TranscriptEffect]:
        if sender is Peer.CLIENT or method == acp.REQUEST_PERMISSION or method in acp.TERMINALS:
            self._open_requests.add(sender, request, session_id, keeps_raw=method == acp.STEERING)
        if session_id is None:
            return []
        if method == acp.PROMPT and sender is Peer.CLIENT:
            return self._session_recorder.record_prompt(
                session_id, request.raw, acp.member(request.params, "prompt"), request.id
            )
        if method == acp.TERMINAL_RELEASE:
            return self._session_recorder.release_terminal(session_id, request.params)
        return (
            self._session_recorder.record_line(session_id, sender, request.raw)
            if method in acp.RECORDED_REQUESTS
            else []
        )

    def record_answer(self, answered: OpenRequest, response: Response) -> list[TranscriptEffect]:
        """The recording effects of an answer. ``answered``: its request, which is closed."""
        request, session_id = answered.request, answered.session_id
        method, succeeded = request.method, response.error is None
        answerer = Peer.CLIENT if method == acp.REQUEST_PERMISSION else Peer.AGENT
        if method in acp.OPENING:
            if method in (acp.NEW, acp.FORK):
                session_id = acp.session_id(response.result)
            is_open = succeeded and session_id is not None
            effects = (
                self._session_recorder.open(session_id or "", method, request.params, response.result)
                if is_open
                else []
            )
            return effects + self.record_early_updates()
        if session_id is None:
            return []
        if method == acp.PROMPT:
            return self._session_recorder.record_answer(session_id, response.raw, request.id)
        if method == acp.CLOSE and succeeded:
            return self._session_recorder.close(session_id)
        if method in acp.TERMINALS:
            return self._session_recorder.answer_terminal(session_id, method, request.params, response.result)
        if method in acp.RECORDED_REQUESTS:
            return self._session_recorder.record_line(session_id, answerer, response.raw, method)
        return []

    def record_early_updates(self) -> list[TranscriptEffect]:
        """Record the updates that waited for an answer to name their session, unless such a request is still open."""
        return (
            []
            if self._open_requests.is_open(Peer.CLIENT, *acp.OPENING)
            else self._session_recorder.record_early_updates()
        )

    def _is_past(self, session_id: str, update: object) -> bool:
        """Whether an update may belong to a replay. In a batch it passes, and is not recorded."""
        return self._may_be_replay(session_id) and update_kinds.is_conversation(acp.update_kind(update))
