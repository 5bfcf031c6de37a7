"""The one stream of a proxy chain: which side a conductor's line is from, and how a line for a side is written.

What concerns the agent's side is wrapped in ``proxy/successor``; the client's side is plain. Answers and
``$/cancel_request`` are never wrapped: the id tells the side. An id is kept on its way through, because the open
requests of a conductor have different ids, whichever side they come from. Parameters keep their bytes. Nothing raises.

Source: the ``Proxy…`` types of the protocol's schema, a draft.
"""

from acp_proxy.decisions.open_requests import OpenRequests
from acp_proxy.protocol import acp, json_splice, jsonrpc
from acp_proxy.protocol.jsonrpc import Batch, Message, Notification, Opaque, Peer, Request, RequestId, Response

PROXY_INITIALIZE = "proxy/initialize"
SUCCESSOR = "proxy/successor"

_UPDATE = b'{"jsonrpc":"2.0","method":"session/update","params":'
_WRAPPED_UPDATE = b'{"jsonrpc":"2.0","method":"proxy/successor","params":{"method":"session/update","params":'
"""The first bytes of an agent's update as the official conductor writes it."""
_IS_NO_AGENT = (
    "acp-proxy chain is no agent. Name the agent after it in the conductor's command. Without a conductor, use: "
    "acp-proxy run AGENT"
)
_NULL = RequestId("null")

SidedLine = tuple[Peer | None, bytes]
"""A line as its side sent it, with that side. Without a side: an answer to the conductor."""


class Envelopes:
    """The open requests of one connection to a conductor."""

    def __init__(self) -> None:
        self._conductor_requests = OpenRequests()
        """The conductor's requests, by the side they come from."""
        self._own_requests = OpenRequests()
        """Our requests, by the side that will answer."""

    def open(self, line: bytes) -> list[SidedLine]:
        """What a line from the conductor brings: usually one line, none if it means nothing."""
        if line.startswith(_WRAPPED_UPDATE) and line.endswith(b"}}\n"):
            params = line[len(_WRAPPED_UPDATE) : -len(b"}}\n")]
            if jsonrpc.is_embeddable(params):  # else more than the parameters follows
                return [(Peer.AGENT, b"".join((_UPDATE, params, b"}\n")))]
        try:
            return self._open(line, jsonrpc.read_message(line))
        except ValueError:  # nested too deeply, for any conductor too
            return []

    def wrap(self, side: Peer, line: bytes) -> bytes:
        """A line for a side, as the conductor must get it; empty if there is nothing to send."""
        if side is Peer.CLIENT and line.startswith(_UPDATE):  # requests that are written here begin with their id
            return line
        match message := jsonrpc.read_message(line):
            case Response():
                self._conductor_requests.take(side, message.id)
                return line
            case Notification(method=acp.CANCEL_REQUEST):
                id = jsonrpc.read_cancelled_id(message)
                return line if id is not None and self._own_requests.has_id(side, id) else b""
            case Request():
                self._own_requests.add(side, message, None)
            case Notification():
                pass
            case Batch() | Opaque():  # from a conductor, these get no further than ``open``
                return b""
        try:
            return line if side is Peer.CLIENT else _wrap(message)
        except ValueError:  # nested too deeply
            return b""

    def _open(self, line: bytes, message: Message) -> list[SidedLine]:
        match message:
            case Request():
                return self._open_request(line, message)
            case Notification(method=acp.CANCEL_REQUEST):
                id = jsonrpc.read_cancelled_id(message)
                return [(side, line) for side in Peer if id is not None and self._conductor_requests.has_id(side, id)]
            case Notification():
                if message.method != SUCCESSOR:
                    return [(Peer.CLIENT, line)]
                inner = _unwrap(message)
                return [(Peer.AGENT, inner)] if inner and _find_method(message) != acp.CANCEL_REQUEST else []
            case Response():
                return [(side, line) for side in Peer if self._own_requests.take(side, message.id) is not None]
            case Batch():
                return [
                    opened
                    for inner_message in message.messages
                    for opened in self._open(inner_message.raw + b"\n", inner_message)
                ]
            case Opaque():
                return [(None, _refuse(_NULL, "this is not a JSON-RPC message"))] if line.strip() else []

    def _open_request(self, line: bytes, request: Request) -> list[SidedLine]:
        side = Peer.CLIENT
        if request.method == acp.INITIALIZE:
            return [(None, _refuse(request.id, _IS_NO_AGENT))]
        if request.method == SUCCESSOR:
            side, line = Peer.AGENT, _unwrap(request)
            if not line:
                return [(None, _refuse(request.id, f"{SUCCESSOR} must hold a message that the successor may send"))]
        elif request.method == PROXY_INITIALIZE:
            line = acp.with_method(request.raw, acp.INITIALIZE) + b"\n"
        self._conductor_requests.add(side, request, None)
        return [(side, line)]


def _refuse(id: RequestId, text: str) -> bytes:
    return jsonrpc.encode_error(id, jsonrpc.INVALID_REQUEST, text)


def _find_method(envelope: Request | Notification) -> str | None:
    return acp.text(envelope.params, "method")


def _unwrap(envelope: Request | Notification) -> bytes:
    """The line of the message in an envelope; empty if there is none, or one that only a conductor may send.

    Raises ValueError.
    """
    if _find_method(envelope) in (None, SUCCESSOR, PROXY_INITIALIZE):
        return b""
    text = json_splice.decode(envelope.raw)
    inner_members = json_splice.find_members(text, json_splice.find_span(text, "params")[0])
    return _make_line(envelope, _make_body(text, inner_members))


def _wrap(message: Request | Notification) -> bytes:
    """The line of an envelope with this message. Raises ValueError."""
    text = json_splice.decode(message.raw)
    body = _make_body(text, json_splice.find_members(text, json_splice.find_span(text)[0]))
    return _make_line(message, f'"method":"{SUCCESSOR}","params":{{{body}}}')


def _make_body(text: str, members: dict[str, json_splice.Span]) -> str:
    """The method and the parameters of a message, as JSON text. Parameters that are null are left out."""
    method, params = (text[slice(*members[key])] if key in members else "null" for key in ("method", "params"))
    return f'"method":{method}' if params == "null" else f'"method":{method},"params":{params}'


def _make_line(message: Request | Notification, body: str) -> bytes:
    id = f'"id":{message.id},' if isinstance(message, Request) else ""
    return json_splice.encode(f'{{"jsonrpc":"2.0",{id}{body}}}\n')
