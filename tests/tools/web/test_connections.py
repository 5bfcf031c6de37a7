"""Connections that never become requests end, and keep nobody out."""

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress

import pytest
import uvicorn
from starlette.responses import PlainTextResponse, StreamingResponse
from starlette.types import Receive, Scope, Send

from acp_proxy.tools.web import connections
from acp_proxy.tools.web.connections import BACKLOG, Connection

REQUEST = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
BEGUN, REST = b"GET / HT", b"TP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


@pytest.fixture
def port() -> Iterator[int]:
    listening = socket.create_server(("127.0.0.1", 0))

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        parts = StreamingResponse(iter(["an answer" * 10_000] * 1000))  # an answer in one part is done at once
        await (parts if scope["path"] == "/long" else PlainTextResponse("an answer"))(scope, receive, send)

    config = uvicorn.Config(
        app, http=Connection, ws="none", lifespan="off", log_config=None, backlog=BACKLOG, timeout_keep_alive=1
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    yield listening.getsockname()[1]
    server.should_exit = True
    thread.join()


def connect(port: int, *sent: bytes) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), timeout=60)
    for each in sent:
        connection.sendall(each)
    return connection


def read_all(connection: socket.socket) -> bytes:
    """What comes until the server ends the connection."""
    got = b""
    with closing(connection), suppress(ConnectionError):
        while data := connection.recv(4096):
            got += data
    return got


@pytest.mark.parametrize(
    "sent", [b"", BEGUN, REQUEST + b"GET", b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nx"]
)
def test_a_request_that_does_not_arrive_ends_its_connection(
    port: int, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setattr(connections, "_SECONDS", 0.1)
    got = read_all(connect(port, sent))
    assert got.count(b"an answer") == (1 if b"Host" in sent else 0)


def test_the_oldest_connections_make_room_for_newer_ones(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # The system makes those wait that are more than its queue has room for.
    monkeypatch.setattr(connections, "_MAX_CONNECTIONS", 10)
    with ExitStack() as stack:
        waiting = [stack.enter_context(connect(port, BEGUN)) for _ in range(3 * connections._MAX_CONNECTIONS)]
        assert b"an answer" in read_all(connect(port, BEGUN, REST))
        for each in waiting[: connections._MAX_CONNECTIONS]:
            assert read_all(each) == b""
        waiting[-1].sendall(REST)
        assert b"an answer" in read_all(waiting[-1])


def test_clients_that_do_not_read_their_answers_make_room(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "_MAX_CONNECTIONS", 2)
    with ExitStack() as stack:
        for _ in range(2):
            stuck = stack.enter_context(connect(port, REQUEST.replace(b"/ ", b"/long ")))
            assert stuck.recv(1)
        assert b"an answer" in read_all(connect(port, BEGUN, REST))
