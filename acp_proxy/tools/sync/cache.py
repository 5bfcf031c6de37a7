"""Data that was just fetched and is needed again at once: in memory, or in a nameless file if it is much."""

import io
import tempfile
from contextlib import suppress

_MOST_BYTES_IN_MEMORY = 8 * 1024 * 1024


class FetchCache:
    """Keeps data until it is closed. What finds no room is not kept: it can be fetched again."""

    def __init__(self) -> None:
        self._in_memory: dict[tuple[str, int], bytes] = {}
        self._size = 0
        self._file: io.FileIO | None = None
        self._places: dict[tuple[str, int], tuple[int, int]] = {}

    def put(self, machine: str, number: int, data: bytes) -> None:
        """Keep the data of a record."""
        if self._size + len(data) <= _MOST_BYTES_IN_MEMORY:
            self._size += len(data)
            self._in_memory[machine, number] = data
            return
        with suppress(OSError):
            if self._file is None:
                self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 it is open as long as this
            offset = self._file.seek(0, io.SEEK_END)
            if self._file.write(data) == len(data):
                self._places[machine, number] = offset, len(data)

    def get(self, machine: str, number: int) -> bytes | None:
        """The data of a record, if it is kept."""
        if self._file is not None and (span := self._places.get((machine, number))) is not None:
            with suppress(OSError):
                self._file.seek(span[0])
                data = self._file.read(span[1])
                return data if len(data) == span[1] else None
        return self._in_memory.get((machine, number))

    def close(self) -> None:
        """Forget everything."""
        if self._file is not None:
            self._file.close()
        self._file, self._places, self._in_memory, self._size = None, {}, {}, 0
