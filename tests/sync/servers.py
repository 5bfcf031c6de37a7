"""Servers of the S3 protocol."""

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread


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

    def log_message(self, format: str, *args: object) -> None:
        pass

    def _answer(self, status: int, *headers: tuple[str, str]) -> None:
        self.send_response(status)
        for name, value in (*headers, ("Content-Length", "0")):
            self.send_header(name, value)
        self.end_headers()


@contextmanager
def overwriting() -> Iterator[str]:
    """The endpoint of a server that overwrites objects although it is told to create them."""
    with serving(ThreadingHTTPServer(("127.0.0.1", 0), _Overwriting)) as endpoint:
        yield endpoint


@contextmanager
def serving(server: ThreadingHTTPServer) -> Iterator[str]:
    """The endpoint of a server that runs in this process."""
    thread = Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
