"""Downloads, with limits, and files that are written as a whole."""

import os
import urllib.request
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import IO
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit

_PIECE_BYTES = 1024 * 1024


class _SafeRedirects(urllib.request.HTTPRedirectHandler):
    """Follows a redirect only to a safe address."""

    def redirect_request(self, req, fp, code, msg, headers, newurl):  # type: ignore[no-untyped-def]
        try:
            check_url(newurl)
        except ValueError:
            fp.close()
            raise
        return super().redirect_request(req, fp, code, msg, headers, newurl)


_LOOPBACK = ("127.0.0.1", "localhost", "::1")
"""This machine, which nobody is in front of."""


def check_url(url: str) -> None:
    """Check that an address is a safe one of the web. Raises ValueError: a download must not read the user's own files,
    and what is started later must not come from whoever is on the way."""
    parts = urlsplit(url)
    if parts.scheme not in ("https", "http"):
        raise ValueError(f"{url} is no address of the web")
    if parts.scheme == "http" and parts.hostname not in _LOOPBACK:
        raise ValueError(f"{url} has no https, so anybody on the way could change it")


def fetch(url: str, limit: int, timeout_seconds: float) -> bytes:
    """The content at an address, of at most ``limit`` bytes. ``timeout_seconds``: for each wait. Raises OSError
    (URLError), ValueError."""
    with _open(url, timeout_seconds) as answer:
        data = answer.read(limit + 1)
    if len(data) > limit:
        raise ValueError(f"it has more than {limit:,} bytes")
    return bytes(data)


def fetch_into(url: str, file: IO[bytes], limit: int, timeout_seconds: float) -> None:
    """As ``fetch``, into a file."""
    size = 0
    with _open(url, timeout_seconds) as answer:
        while piece := answer.read(_PIECE_BYTES):
            size += len(piece)
            if size > limit:
                raise ValueError(f"it has more than {limit:,} bytes")
            file.write(piece)


def _open(url: str, timeout_seconds: float) -> IO[bytes]:
    check_url(url)
    request = urllib.request.Request(url, headers={"User-Agent": "acp-proxy"})
    opener = urllib.request.build_opener(_SafeRedirects)
    try:
        return opener.open(request, timeout=timeout_seconds)  # type: ignore[no-any-return]
    except HTTPError as problem:
        problem.close()
        raise URLError(f"{problem.code} {problem.msg}") from problem


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file that is complete or absent. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
        try:
            file.write(data)
            file.close()
            os.replace(file.name, path)
        except BaseException:
            Path(file.name).unlink(missing_ok=True)
            raise
