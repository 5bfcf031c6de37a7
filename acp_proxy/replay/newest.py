"""A dictionary that keeps the newest values within a limit of their sizes."""

from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Newest(Generic[K, V]):
    """Values by key. Holds any amount until ``trim``."""

    def __init__(self, limit: int) -> None:
        """``limit``: the sum of the sizes of all values, after ``trim``."""
        self._limit = limit
        self._kept: dict[K, tuple[V, int]] = {}
        self._size = 0

    def __len__(self) -> int:
        return len(self._kept)

    def __contains__(self, key: K) -> bool:
        return key in self._kept

    def get(self, key: K) -> V | None:
        """The value of a key, or None."""
        found = self._kept.get(key)
        return found[0] if found is not None else None

    def put(self, key: K, value: V, size: int) -> None:
        """Set a value, which is the newest from now on."""
        self.pop(key)
        self._kept[key] = value, size
        self._size += size

    def pop(self, key: K) -> V | None:
        """Remove and return the value of a key, or None."""
        found = self._kept.pop(key, None)
        if found is None:
            return None
        self._size -= found[1]
        return found[0]

    def items(self) -> list[tuple[K, V]]:
        """All keys and values, oldest first."""
        return [(key, value) for key, (value, _) in self._kept.items()]

    def trim(self) -> None:
        """Remove the oldest values beyond the limit. Takes time only for those that it removes."""
        while self._size > self._limit:
            self.pop(next(iter(self._kept)))
