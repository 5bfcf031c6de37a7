"""Downloads, with limits, and files that are written as a whole."""

import os
import urllib.request
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import IO
from urllib.error import HTTPError, URLError

_PIECE = 1024 * 1024  # bytes


class _OnlyWeb(urllib.request.HTTPRedirectHandler):
    """Follows no redirect out of the web, and none from https to http."""

    def redirect_request(self, req, fp, code, msg, headers, newurl):  # type: ignore[no-untyped-def]
        check_url(newurl)
        if req.full_url.startswith("https:") and not newurl.startswith("https:"):
            raise ValueError(f"it leads from https to {newurl}")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def check_url(url: str) -> None:
    """Raises ValueError for what is no address of the web: a download must not read the user's own files."""
    if not url.startswith(("https://", "http://")):
        raise ValueError(f"{url} is no address of the web")


def fetch(url: str, limit: int, seconds: float) -> bytes:
    """What is there, at most ``limit`` bytes. Raises OSError (URLError), ValueError."""
    with _open(url, seconds) as answer:
        data = answer.read(limit + 1)
    if len(data) > limit:
        raise ValueError(f"it has more than {limit:,} bytes")
    return bytes(data)


def fetch_into(url: str, file: IO[bytes], limit: int, seconds: float) -> None:
    """Write what is there into a file. ``seconds``: for each wait. Raises OSError (URLError), ValueError."""
    size = 0
    with _open(url, seconds) as answer:
        while piece := answer.read(_PIECE):
            size += len(piece)
            if size > limit:
                raise ValueError(f"it has more than {limit:,} bytes")
            file.write(piece)


def _open(url: str, seconds: float) -> IO[bytes]:
    check_url(url)
    request = urllib.request.Request(url, headers={"User-Agent": "acp-proxy"})
    opener = urllib.request.build_opener(_OnlyWeb)
    try:
        return opener.open(request, timeout=seconds)  # type: ignore[no-any-return]
    except HTTPError as problem:
        problem.close()
        raise URLError(f"{problem.code} {problem.msg}") from problem


def write_whole(path: Path, data: bytes) -> None:
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
