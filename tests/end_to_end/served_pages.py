"""``acp-proxy web`` as a process of its own, on a store."""

import http.client
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from urllib.parse import urlsplit

from acp_proxy.tools.web.access import COOKIE

COMMAND = [sys.executable, "-m", "acp_proxy", "web", "--no-open"]


@dataclass(frozen=True)
class Answer:
    """``headers``: by name in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class ServedPages:
    """``link``: what the user opens. ``origin``: the server's."""

    def __init__(self, link: str) -> None:
        self.link = link
        self.port = urlsplit(link).port or 0
        self.origin = f"http://127.0.0.1:{self.port}"
        self.secret = self.root = ""

    def ask(self, path: str, method: str = "GET", headers: Mapping[str, str] = MappingProxyType({})) -> Answer:
        """One request of a program, as given."""
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)) as connection:
            connection.request(method, path, headers=dict(headers))
            with connection.getresponse() as answer:
                return Answer(
                    answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
                )

    def redeem(self) -> None:
        """Open the link: sets ``secret``, of the cookie, and ``root``, the address of all pages."""
        answer = self.ask(self.link.removeprefix(self.origin))
        assert answer.status == 303
        self.secret = answer.headers["set-cookie"].partition(f"{COOKIE}=")[2].partition(";")[0]
        self.root = f"{self.origin}{answer.headers['location']}"


@contextmanager
def serve(store: Path, *words: str) -> Iterator[ServedPages]:
    """Serve a store's pages in a process of its own."""
    with subprocess.Popen([*COMMAND, "--store", str(store), *words], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield ServedPages(process.stdout.readline().strip())
        finally:
            process.terminate()
