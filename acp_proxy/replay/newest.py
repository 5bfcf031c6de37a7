"""Values by key, of which the newest are kept within a limit."""

from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Newest(Generic[K, V]):
    """Holds any amount until ``trim``, which costs as much as it lets go."""

    def __init__(self, limit: int) -> None:
        """``limit``: the sizes of all that is kept, together."""
        self._limit = limit
        self._kept: dict[K, tuple[V, int]] = {}
        self._size = 0

    def __len__(self) -> int:
        return len(self._kept)

    def __contains__(self, key: K) -> bool:
        return key in self._kept

    def get(self, key: K) -> V | None:
        found = self._kept.get(key)
        return found[0] if found is not None else None

    def put(self, key: K, value: V, size: int) -> None:
        self.pop(key)
        self._kept[key] = value, size
        self._size += size

    def pop(self, key: K) -> V | None:
        found = self._kept.pop(key, None)
        if found is None:
            return None
        self._size -= found[1]
        return found[0]

    def items(self) -> list[tuple[K, V]]:
        return [(key, value) for key, (value, _) in self._kept.items()]

    def trim(self) -> None:
        while self._size > self._limit:
            self.pop(next(iter(self._kept)))
