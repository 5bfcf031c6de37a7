"""Servers of the S3 protocol: a real one, one that stands before it and kills it, and one that is too old."""

import http.client
import os
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

PROGRAM = os.environ.get("S3_SERVER", "")
"""A real server (versitygw). ``make test-s3`` sets it."""
USER, PASSWORD = "user", "password"
BUCKET = "shared"
_SECONDS = 30


def environment(endpoint: str) -> dict[str, str]:
    """What the engine needs to know."""
    return {
        "AWS_ENDPOINT": endpoint,
        "AWS_ALLOW_HTTP": "true",
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": USER,
        "AWS_SECRET_ACCESS_KEY": PASSWORD,
    }


class S3Server:
    """A real server, whose buckets are the directories in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        (folder / BUCKET).mkdir(exist_ok=True)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it again, on the same port."""
        self._process = subprocess.Popen(
            [PROGRAM, "--quiet", "--port", f"127.0.0.1:{self.port}", "posix", str(self._folder)],
            env=os.environ | {"ROOT_ACCESS_KEY": USER, "ROOT_SECRET_KEY": PASSWORD},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        end = time.monotonic() + _SECONDS
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
            except ConnectionRefusedError:
                assert self._process.poll() is None, "the server has ended"
                assert time.monotonic() < end, "the server does not start"
                time.sleep(0.02)
            else:
                return

    def kill(self) -> None:
        """As a crash."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


@contextmanager
def run_real_server(folder: Path) -> Iterator[S3Server]:
    """A real server that runs."""
    server = S3Server(folder)
    server.start()
    try:
        yield server
    finally:
        server.kill()


class Doorman(ThreadingHTTPServer):
    """Passes requests on to a real server, and kills that at one of them: ``before`` it has the request, while it
    works on it (``during``), or ``after`` it has answered. The client gets no answer then."""

    def __init__(self, server: S3Server) -> None:
        super().__init__(("127.0.0.1", 0), _Door)
        self.server, self.left, self.kind = server, 0, ""
        self._one_at_a_time = threading.Lock()

    def kill_at(self, number: int, kind: str) -> None:
        """``number``: of the request from now on, from 1."""
        self.left, self.kind = number, kind

    def passed(self, ask: Callable[[http.client.HTTPConnection], None]) -> http.client.HTTPResponse | None:
        """The server's answer; None if there is none."""
        with self._one_at_a_time:
            self.left -= 1
            if self.left == 0 and self.kind == "before":
                self.server.kill()
            connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=_SECONDS)
            try:
                ask(connection)
                if self.left == 0 and self.kind == "during":
                    self.server.kill()
                answer = connection.getresponse()
                answer.body = answer.read()  # type: ignore[attr-defined]
            except (OSError, http.client.HTTPException):
                return None
            finally:
                connection.close()
            if self.left == 0 and self.kind == "after":
                self.server.kill()
                return None
            return answer


class _Door(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Doorman

    def log_message(self, *args: object) -> None:
        pass

    def _pass(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))

        def ask(connection: http.client.HTTPConnection) -> None:
            connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                connection.putheader(name, value)
            connection.endheaders(body)

        answer = self.server.passed(ask)
        self.close_connection = True
        if answer is None:
            return
        data: bytes = answer.body  # type: ignore[attr-defined]
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _pass


class _Overwriting(BaseHTTPRequestHandler):
    """Knows no ``If-None-Match``, as S3 servers of a few years ago, and deletes nothing."""

    protocol_version = "HTTP/1.1"

    def do_PUT(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self._answer(200, ("ETag", '"1"'))

    def do_POST(self) -> None:
        """Refuse to delete."""
        self.rfile.read(int(self.headers["Content-Length"]))
        self._answer(403)

    def log_message(self, *args: object) -> None:
        pass

    def _answer(self, status: int, *headers: tuple[str, str]) -> None:
        self.send_response(status)
        for name, value in (*headers, ("Content-Length", "0")):
            self.send_header(name, value)
        self.end_headers()


@contextmanager
def run_overwriting_server() -> Iterator[str]:
    """The endpoint of a server that overwrites objects although it is told to create them."""
    with serve(ThreadingHTTPServer(("127.0.0.1", 0), _Overwriting)) as endpoint:
        yield endpoint


@contextmanager
def serve(server: ThreadingHTTPServer) -> Iterator[str]:
    """The endpoint of a server that runs in this process."""
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
