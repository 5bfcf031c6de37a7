"""A dictionary that keeps the newest values within a limit of their sizes."""

from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class NewestValues(Generic[K, V]):
    """Values by key. Holds any amount until ``trim``."""

    def __init__(self, limit: int) -> None:
        """``limit``: the sum of the sizes of all values, after ``trim``."""
        self._limit = limit
        self._values: dict[K, tuple[V, int]] = {}
        self._size = 0

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, key: K) -> bool:
        return key in self._values

    def get(self, key: K) -> V | None:
        """The value of a key, or None."""
        value_and_size = self._values.get(key)
        return value_and_size[0] if value_and_size is not None else None

    def put(self, key: K, value: V, size: int) -> None:
        """Set a value, which is the newest from now on."""
        self.pop(key)
        self._values[key] = value, size
        self._size += size

    def pop(self, key: K) -> V | None:
        """Remove and return the value of a key, or None."""
        value_and_size = self._values.pop(key, None)
        if value_and_size is None:
            return None
        self._size -= value_and_size[1]
        return value_and_size[0]

    def items(self) -> list[tuple[K, V]]:
        """All keys and values, oldest first."""
        return [(key, value) for key, (value, _) in self._values.items()]

    def trim(self) -> None:
        """Remove the oldest values beyond the limit. Takes time only for those that it removes."""
        while self._size > self._limit:
            self.pop(next(iter(self._values)))
