"""A registry and its archives, served on this machine."""

import io
import json
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = bytes | tuple[int, dict[str, str], bytes]
"""What a path answers: a body, or a status, headers and a body."""


class Server:
    """``answers``: by path. ``asked``: the paths that were asked for."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.answers: dict[str, Answer] = {}
        self.asked: list[str] = []

    def serve_agents(self, *agents: Any) -> str:
        """Serve a registry of these agents. Returns its URL."""
        self.answers["/registry.json"] = json.dumps({"version": "1.0.0", "agents": agents, "extensions": []}).encode()
        return f"{self.url}/registry.json"


@contextmanager
def serve() -> Iterator[Server]:
    """A server on a free port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            server.asked.append(self.path)
            answer = server.answers.get(self.path, (404, {}, b""))
            status, headers, body = answer if isinstance(answer, tuple) else (200, {}, answer)
            self.send_response(status)
            for key, value in ({"Content-Length": str(len(body))} | headers).items():
                self.send_header(key, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: Any) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server = Server(f"http://127.0.0.1:{http.server_port}")
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        http.shutdown()
        http.server_close()
        thread.join()


def make_tar(files: dict[str, bytes], *links: tuple[str, str]) -> bytes:
    """A compressed tar of these files and links."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for name, target in links:
            link = tarfile.TarInfo(name)
            link.type, link.linkname = tarfile.SYMTYPE, target
            tar.addfile(link)
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(data), 0o755
            tar.addfile(member, io.BytesIO(data))
    return out.getvalue()


def make_zip(files: dict[str, bytes], *, mode: int = 0o100644) -> bytes:
    """A zip of these files."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as opened:
        for name, data in files.items():
            entry = zipfile.ZipInfo(name)
            entry.external_attr = mode << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            opened.writestr(entry, data)
    return out.getvalue()
