"""The fixtures of stores."""

from tests.store.conftest import long, root, settled, shelf, store

__all__ = ["long", "root", "settled", "shelf", "store"]
