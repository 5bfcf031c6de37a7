"""The shared place: an object store or a folder, through obstore. One object for each record, sealed.

Every failure of the engine becomes ``Unavailable``.
"""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import SplitResult, unquote, urlsplit

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, NotFoundError
from obstore.store import LocalStore, from_url

from acp_proxy.errors import UsageError
from acp_proxy.tools.sync.encryption import HistoryKey
from acp_proxy.tools.sync.errors import explain
from acp_proxy.tools.sync.interfaces import Unavailable

if TYPE_CHECKING:
    from obstore.store import RetryConfig


_SCHEMES = ("s3", "gs", "az", "file")
_RETRY: "RetryConfig" = {"max_retries": 3, "retry_timeout": timedelta(seconds=30)}
"""The engine's own patience would be three minutes for each request."""
_NUMBER_DIGITS = 10
"""Digits of a number in an object's name."""
_Result = TypeVar("_Result")


class SealedLogs:
    """See ``interfaces.Logs``. ``requests``: how many were made."""

    def __init__(self, url: str, key: HistoryKey) -> None:
        """Raises UsageError."""
        self._url = _parse_url(url)
        self._key = key
        self.history = key.history
        self.requests = 0

    @cached_property
    def _store(self) -> "LocalStore":
        if self._url.scheme == "file":
            return LocalStore(_find_folder(self._url), automatic_cleanup=True)  # no empty directory is a machine's log
        return from_url(self._url.geturl(), retry_config=_RETRY)  # type: ignore[return-value]

    def list_machines(self) -> list[str]:
        """See ``Logs.list_machines``."""
        listing = self._ask(lambda: obstore.list_with_delimiter(self._store, prefix=self._key.history))
        return sorted(prefix.rstrip("/").rpartition("/")[2] for prefix in listing["common_prefixes"])

    def get(self, machine: str, number: int) -> bytes | None:
        """See ``Logs.get``."""

        def get() -> bytes | None:
            try:
                return bytes(obstore.get(self._store, self._name_object(machine, number)).bytes())
            except (NotFoundError, FileNotFoundError):
                return None

        sealed = self._ask(get)
        return self._key.open(machine, number, sealed) if sealed is not None else None

    def create(self, machine: str, number: int, data: bytes) -> bool:
        """See ``Logs.create``."""
        sealed = self._key.seal(machine, number, data)

        def create() -> bool:
            try:
                obstore.put(self._store, self._name_object(machine, number), sealed, mode="create")
            except (AlreadyExistsError, FileExistsError):
                return False
            return True

        return self._ask(create)

    def replace(self, machine: str, number: int, data: bytes) -> None:
        """See ``Logs.replace``."""
        sealed = self._key.seal(machine, number, data)
        self._ask(lambda: obstore.put(self._store, self._name_object(machine, number), sealed, mode="overwrite"))

    def check(self, probe: str) -> None:
        """Test that a record is written only once. Makes the directory of a new place, but none above it, which may be
        where a drive is to be mounted. Raises Unavailable."""
        if self._url.scheme == "file":
            with _convert_errors("file"), suppress(FileExistsError, FileNotFoundError):  # the store says what is wrong
                os.mkdir(_find_folder(self._url))
        path = f"{self._key.history}-{probe}"

        def create() -> bool:
            try:
                obstore.put(self._store, path, b"test", mode="create")
            except (AlreadyExistsError, FileExistsError):
                return False
            return True

        first, again = self._ask(create), self._ask(create)
        with suppress(Unavailable):  # it may be that nothing can be deleted here
            self._ask(lambda: obstore.delete(self._store, path))
        if not first or again:
            raise Unavailable(
                "this place overwrites objects that exist, although it is told not to. Use another engine, or a newer "
                "version of it"
            )

    def empty(self) -> None:
        """Delete everything. Raises Unavailable."""
        with _convert_errors(self._url.scheme):
            paths = [
                listed_object["path"]
                for batch in obstore.list(self._store, prefix=self._key.history)
                for listed_object in batch
            ]
            obstore.delete(self._store, paths)

    def _name_object(self, machine: str, number: int) -> str:
        return f"{self._key.history}/{machine}/{number:0{_NUMBER_DIGITS}}"

    def _ask(self, act: Callable[[], _Result]) -> _Result:
        self.requests += 1
        with _convert_errors(self._url.scheme):
            return act()


def _parse_url(url: str) -> SplitResult:
    """Raises UsageError."""
    parts = urlsplit(url)
    is_place = parts.scheme in _SCHEMES and bool(parts.netloc)
    if parts.scheme == "file":
        is_place = parts.path.startswith("/") and (not parts.netloc or sys.platform == "win32")
    if not is_place or parts.username or parts.password or parts.query or parts.fragment:
        raise UsageError(
            "this URL is none that acp-proxy knows, or it contains a password or options. "
            "Write s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, az://CONTAINER/PREFIX, or a directory's absolute path; "
            "credentials come from the environment"
        )
    return parts


def _find_folder(url: SplitResult) -> str:
    """The folder that a file URL names, on Windows with a drive or on another machine."""
    if sys.platform == "win32":
        from urllib.request import url2pathname  # loads much

        return url2pathname(f"//{url.netloc}{url.path}" if url.netloc else url.path)
    return unquote(url.path)


@contextmanager
def _convert_errors(scheme: str) -> Iterator[None]:
    try:
        yield
    except (BaseError, OSError, NotImplementedError) as problem:
        raise Unavailable(f"the shared place cannot be used: {explain(str(problem), scheme)}") from problem
